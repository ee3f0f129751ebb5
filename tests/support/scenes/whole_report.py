"""A report as the service returns it, for tests of clients that read all fields."""

import msgspec
import numpy as np

from mintscope.kit.primitives import UnixS
from mintscope.market.report import report_of
from mintscope.solana.blocks import WSOL


def whole_report() -> bytes:
    """Return a report of wrapped SOL in which the EMAs, RSI and MACD of one timeframe are null."""
    values = np.arange(200, dtype=np.float64)
    values[:8] = np.nan  # the averages of the first timeframe
    return msgspec.json.encode(report_of(WSOL, values, UnixS(1_750_000_000)))
