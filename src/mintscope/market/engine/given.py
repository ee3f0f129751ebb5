"""Arguments of the kernels of the engine."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Periods(NamedTuple):
    """The number of candles of each indicator; fast < slow."""

    ema: tuple[int, ...] | Ints
    rsi: int
    fast: int
    slow: int
    signal: int


class Held(NamedTuple):
    """A timeframe of a row: its accumulators, its open candle, and its ring of closed candles."""

    acc: Floats
    frame: Any
    ring: Any


class Trades(NamedTuple):
    """Swaps in order: their rows, times, prices (NaN for none), volumes (micro-USD) and sides."""

    rows: Ints
    times: Ints
    prices_usd: Floats
    prices_sol: Floats
    volumes: Ints
    buys: Bools


class Volumes(NamedTuple):
    """Volumes bought and sold, in micro-USD, and their times, oldest first."""

    times: Ints
    buys: Ints
    sells: Ints


class Candles(NamedTuple):
    """The prices of consecutive candles, oldest first."""

    highs: Floats
    lows: Floats
    closes: Floats
