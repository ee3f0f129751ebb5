"""A report as the service returns it, for tests of clients that read all fields."""

import msgspec
import numpy as np

from mintscope.kit.primitives import UnixS
from mintscope.market.engine.kernels import READ
from mintscope.market.report import report_of
from mintscope.solana.blocks import WSOL


def whole_report(*, has_m1: bool = True) -> bytes:
    """Return a report of wrapped SOL in which the EMAs, RSI and MACD of m1 are null.

    If not *has_m1*, all indicators of m1 are null.
    """
    values = np.arange(200, dtype=np.float64)
    values[: 8 if has_m1 else READ] = np.nan
    return msgspec.json.encode(report_of(WSOL, values, UnixS(1_750_000_000)))
