"""Candles as arrays, and calculations that several indicators share."""

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from mintscope.market.engine.given import Floats, Ints
from mintscope.market.series.pools import SeriesCandle

MICRO: Final = 1e6
# (1 - 1 / n) ** (37 n) is less than 1e-16 for each n: after 37 n candles, Wilder's mean no longer
# depends on its seed.  An EMA needs half as many candles.
FORGETTING: Final = 37


class Bars(NamedTuple):
    """Consecutive candles as arrays, oldest first.

    times      the start of each candle, Unix seconds
    volumes    the volume of each candle, USD
    is_whole   whether the first one is the first candle of the token; if not, older candles were
               dropped or not read
    """

    times: Ints
    opens: Floats
    highs: Floats
    lows: Floats
    closes: Floats
    volumes: Floats
    is_whole: bool

    def without_oldest(self, count: int) -> "Bars":
        """Return these bars without the oldest *count* candles."""
        if not count:
            return self
        return Bars(
            self.times[count:],
            self.opens[count:],
            self.highs[count:],
            self.lows[count:],
            self.closes[count:],
            self.volumes[count:],
            is_whole=False,
        )

    @property
    def typical(self) -> Floats:
        """The mean of high, low and close, USD."""
        return (self.highs + self.lows + self.closes) / 3


def bars_of(candles: Sequence[SeriesCandle], *, is_whole: bool) -> Bars:
    """Return *candles* as arrays: one each for their times, prices and volumes.

    is_whole   whether *candles* begin with the first candle of the token
    """
    return Bars(
        np.array([each.bucket for each in candles], np.int64),
        np.array([each.open for each in candles], float),
        np.array([each.high for each in candles], float),
        np.array([each.low for each in candles], float),
        np.array([each.close for each in candles], float),
        np.array(
            [c.buy_volume + c.sell_volume + (c.imported_volume or 0) for c in candles], float
        ) / MICRO,
        is_whole,
    )  # fmt: skip


def nothing(bars: Bars) -> Floats:
    """Return an array of NaN with one value for each of *bars*."""
    return np.full(len(bars.closes), np.nan)


def windows(values: Floats, size: int) -> Floats:
    """Return, for each of *values*, the *size* values that end with it, as a row.

    NaN stands for values before the first one.
    """
    return sliding_window_view(np.concatenate([np.full(size - 1, np.nan), values]), size)


def mean(values: Floats, size: int) -> Floats:
    """Return, for each of *values*, the mean of the *size* values that end with it.

    NaN if there are fewer than *size* values.
    """
    found: Floats = windows(values, size).mean(axis=1)
    return found


def highest(values: Floats, size: int) -> Floats:
    """Return, for each of *values*, the maximum of the *size* values that end with it.

    NaN if there are fewer than *size* values.
    """
    found: Floats = windows(values, size).max(axis=1)
    return found


def lowest(values: Floats, size: int) -> Floats:
    """Return, for each of *values*, the minimum of the *size* values that end with it.

    NaN if there are fewer than *size* values.
    """
    found: Floats = windows(values, size).min(axis=1)
    return found


def smoothed(values: Floats, period: int, weight: float) -> Floats:
    """Return a running mean: each value x of *values* adds *weight* * (x - mean) to it.

    It begins as the mean of the first *period* values, and is NaN before.  Leading NaN in *values*
    do not count.
    """
    found = np.full(len(values), np.nan)
    # The first value that is no NaN; 0 if all values are NaN.
    begin = int(np.argmin(np.isnan(values))) if len(values) else 0
    first = begin + period - 1
    if first >= len(values) or np.isnan(values[begin]):
        return found
    seed = float(values[begin : first + 1].mean())
    rest: Iterable[float] = values[first + 1 :].tolist()
    step: Callable[[float, float], float] = lambda value, x: value + weight * (x - value)  # noqa: E731
    found[first:] = list(accumulate(rest, step, initial=seed))
    return found


def exponential(values: Floats, period: int) -> Floats:
    """Return the exponential moving average of *values*.

    It begins as the mean of the first *period* values.
    """
    return smoothed(values, period, 2.0 / (period + 1))


def wilder(values: Floats, period: int) -> Floats:
    """Return Wilder's moving average of *values*; it begins as the mean of the first *period*."""
    return smoothed(values, period, 1.0 / period)


def true_ranges(bars: Bars) -> Floats:
    """Return the true range of each candle, USD; for the first candle, its high minus its low."""
    before = np.concatenate([bars.closes[:1], bars.closes[:-1]])
    found: Floats = np.maximum(bars.highs, before) - np.minimum(bars.lows, before)
    if len(found):
        found[0] = bars.highs[0] - bars.lows[0]
    return found
