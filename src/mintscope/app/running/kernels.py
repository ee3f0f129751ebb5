"""Loads compiled kernels, and compiles missing ones: at `make setup`, or else at the first start.

`python -m mintscope.app.running.kernels` compiles missing kernels.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import structlog

from mintscope.dex import base58
from mintscope.kit.primitives import UnixS
from mintscope.kit.time import DAY_S
from mintscope.market.engine.engine import Engine
from mintscope.market.engine.fold import MintFold
from mintscope.market.engine.frames import Bar, Frames
from mintscope.market.engine.given import Candles
from mintscope.market.engine.kernels import ACC, SERVICE, close_candle
from mintscope.market.log import PricedSwap
from mintscope.market.screening.columns import load_list_kernels
from mintscope.market.screening.open_candles import OpenCandles
from mintscope.market.series.series import Series, Start
from mintscope.market.timeframe import AskedFrame, Timeframe
from mintscope.solana.blocks import WSOL

log = structlog.get_logger()


@contextmanager
def telling_what_is_compiled() -> Iterator[None]:
    """Log the time that is spent on compiling during the block, if anything is compiled."""
    from numba.core.event import install_timer  # noqa: PLC0415 - loads in 0.2 s

    with install_timer("numba:compile", _tell):
        yield


def load_ingest_kernels() -> None:
    """Load the compiled code of the decoder and the fold, so that the first swap need not wait."""
    # Only texts longer than SHORT_MAX are decoded by compiled code.
    base58.decode("1" * (base58.SHORT_MAX + 1))
    fold = MintFold()
    swap = PricedSwap(WSOL, 0, 0, -1, 0, is_buy=True, volume=1, price_usd=1.0, price_sol=1.0)
    for time in (0, DAY_S):  # the second swap closes a candle of each timeframe
        fold.apply(UnixS(time), swap)


def load_api_kernels() -> None:
    """Load the compiled code that responses need, so that no request of an api process waits.

    `Engine` loads the code of reports when it is created.
    """
    load_list_kernels()
    bars = [Bar(UnixS(day * DAY_S), 1.0, 1.0, 1.0) for day in range(3)]
    newest = UnixS(3 * DAY_S)
    frames = Frames()
    frames.begin_wide({Timeframe.M15: bars, Timeframe.H1: bars}, ())
    frames.begin_short([(newest, 1.0)])
    frames.apply(newest, 1.0)
    for leaves_out_open in (False, True):
        frames.read(tuple(AskedFrame), newest, leaves_out_open=leaves_out_open)
    acc = np.zeros(ACC)
    close_candle(acc, 0, 1.0, SERVICE)  # for past reports and waypoints
    one = np.ones(1)
    opens = OpenCandles(
        Series((), has_older=False, closed=0), np.zeros(1, np.int64), Candles(one, one, one)
    )
    opens.averages(Start(0, 0, acc))


def main() -> None:
    """Compile all kernels whose machine code is not cached on disk."""
    with telling_what_is_compiled():
        load_ingest_kernels()
        load_api_kernels()
        Engine(1)


def _tell(took_s: float) -> None:
    log.info("kernels compiled", took_s=round(took_s, 1))


if __name__ == "__main__":
    main()
