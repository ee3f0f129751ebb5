"""Arguments of the compiled functions (kernels) that compute candles and indicators."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Periods(NamedTuple):
    """The number of candles over which each indicator is computed.

    ema                  the periods of the EMAs
    fast, slow, signal   the periods of MACD; *fast* is less than *slow*
    """

    ema: tuple[int, ...] | Ints
    rsi: int
    fast: int
    slow: int
    signal: int


class Held(NamedTuple):
    """The candles of one mint and timeframe in memory.

    acc     the accumulators of the indicators
    frame   the open candle, and the number of candles
    ring    the newest closed candles
    """

    acc: Floats
    frame: Any
    ring: Any


class Trades(NamedTuple):
    """Swaps as arrays, in order.

    rows         the row of the traded mint
    times        the effective time of the slot
    prices_usd   the price in USD; NaN if the swap does not set the price
    prices_sol   the price in SOL; NaN if the swap does not set the price
    volumes      micro-USD
    buys         whether the swap is a purchase
    """

    rows: Ints
    times: Ints
    prices_usd: Floats
    prices_sol: Floats
    volumes: Ints
    buys: Bools


class Volumes(NamedTuple):
    """Volumes of a mint as arrays, oldest first.

    times         the times of the trades
    buys, sells   micro-USD
    """

    times: Ints
    buys: Ints
    sells: Ints


class Candles(NamedTuple):
    """The prices of consecutive candles as arrays, oldest first."""

    highs: Floats
    lows: Floats
    closes: Floats
