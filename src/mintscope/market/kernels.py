"""The arithmetic of definitions D1 to D8, one swap or one candle at a time.

Compiled by numba, and the very same code as plain Python under
NUMBA_DISABLE_JIT=1.  Every kernel lives in this file, because numba's cache
knows a function by its own file only.

Accumulators
------------
What all closed candles of one timeframe leave behind, in `acc`: the MACD's
two averages and its signal, Wilder's mean gain and loss, the last close, then
one EMA per period.  Until an average has its first value its cell holds the
plain sum of what it has seen.

Open candle
-----------
It is part of every indicator (D3) but must be taken back with the next swap,
so it is never folded into `acc`: a read folds it into copies.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, ParamSpec, TypeVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

P = ParamSpec("P")
R = TypeVar("R")
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile *function*; keep the machine code where a folder can be written."""
    try:
        compiled: Callable[P, R] = njit(cache=True)(function)
    except RuntimeError:  # a read-only installation: compile anew in every process
        compiled = njit(function)
    return compiled


class Periods(NamedTuple):
    """How many candles each indicator looks at; fast < slow."""

    ema: tuple[int, ...]
    rsi: int
    fast: int
    slow: int
    signal: int


SERVICE: Final = Periods(ema=(9, 21, 50, 200), rsi=14, fast=12, slow=26, signal=9)

FAST, SLOW, SIGNAL, GAIN, LOSS, LAST, EMA = range(7)
ACC: Final = EMA + len(SERVICE.ema)


@kernel
def ema(value: float, seen: int, period: int, x: float) -> float:
    """Return an EMA after *x*, its first value the mean of the first *period* (D4)."""
    if seen + 1 < period:
        return value + x
    if seen + 1 == period:
        return (value + x) / period
    a = 2.0 / (period + 1)
    return a * x + (1.0 - a) * value


@kernel
def wilder(value: float, seen: int, period: int, x: float) -> float:
    """Return Wilder's mean after *x*, its first value the mean of the first *period* (D5)."""
    if seen + 1 < period:
        return value + x
    if seen + 1 == period:
        return (value + x) / period
    return (value * (period - 1) + x) / period


@kernel
def close_candle(acc: Floats, closed: int, close: float, periods: Periods) -> None:
    """Fold *close* into *acc*, which holds *closed* candles already."""
    acc[FAST] = ema(acc[FAST], closed, periods.fast, close)
    acc[SLOW] = ema(acc[SLOW], closed, periods.slow, close)
    lines = closed + 1 - periods.slow
    if lines >= 0:
        acc[SIGNAL] = ema(acc[SIGNAL], lines, periods.signal, acc[FAST] - acc[SLOW])
    if closed > 0:
        change = close - acc[LAST]
        acc[GAIN] = wilder(acc[GAIN], closed - 1, periods.rsi, max(change, 0.0))
        acc[LOSS] = wilder(acc[LOSS], closed - 1, periods.rsi, max(-change, 0.0))
    acc[LAST] = close
    for z in range(len(periods.ema)):
        acc[EMA + z] = ema(acc[EMA + z], closed, periods.ema[z], close)


PRICE_MAX: Final = 1e300


@kernel
def sets_candle(price: float) -> bool:
    """Return whether *price* can be one: above zero, finite, and far from overflow."""
    return 0.0 < price <= PRICE_MAX
