"""The candles of wide timeframes as they were while they were open, and their indicators.

They are computed from narrower candles: at the end of a narrow candle, the open wide candle
consists of the narrow ones in its span that have ended.  Indicators use this open candle and the
wide candles before it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from mintscope.market.engine import kernels
from mintscope.market.engine.given import Candles, Floats, Ints
from mintscope.market.engine.kernels import RETRACEMENTS, SWING
from mintscope.market.series.series import (
    ATR_CANDLES,
    BOLLINGER_CANDLES,
    BOLLINGER_WIDTH,
    FORGOTTEN,
    Series,
    Start,
)


@dataclass(frozen=True, slots=True)
class OpenCandles:
    """The wide candle that was open at the end of each narrow candle.

    Each narrow candle has a row.

    series   the wide candles
    closed   by row, the number of wide candles in *series* before the open one
    opens    by row, high, low and close of the open candle; NaN if older narrow candles in it may
             be missing
    """

    series: Series
    closed: Ints
    opens: Candles

    @classmethod
    def of(
        cls, series: Series, width_s: int, begins: Ints, prices: Candles, *, is_whole: bool
    ) -> "OpenCandles":
        """Return the wide candles that were open at the ends of narrow candles.

        series           the wide candles; each has *width_s* seconds
        begins, prices   the starts and the prices of the narrow candles
        is_whole         whether the narrow candles begin with the token's first candle
        """
        numbers = begins // width_s
        firsts = np.flatnonzero(np.diff(numbers, prepend=-1)).tolist()
        highs = prices.highs.copy()
        lows = prices.lows.copy()
        for first, end in zip(firsts, [*firsts[1:], len(begins)], strict=True):
            highs[first:end] = np.maximum.accumulate(highs[first:end])
            lows[first:end] = np.minimum.accumulate(lows[first:end])
        closes = prices.closes.copy()
        # The first wide candle may contain narrow candles that are no longer stored.
        if len(begins) and not is_whole and begins[0] % width_s:
            for column in (highs, lows, closes):
                column[numbers == numbers[0]] = np.nan
        buckets = np.array([each.bucket for each in series.candles], np.int64)
        closed = np.searchsorted(buckets, numbers * width_s)
        return cls(series, closed, Candles(highs, lows, closes))

    def count(self) -> Floats:
        """Return, by row, the number of wide candles of the mint so far, the open one included."""
        count: Floats = (self.closed + 1.0 + self.series.closed).astype(np.float64)
        return count

    def averages(self, start: Start | None) -> Floats:
        """Return the averages of the open candle: EMAs of 9, 21, 50 and 200, RSI, and MACD.

        MACD has three columns: line, signal and histogram.  There is a row for each narrow candle;
        unknown values are NaN.

        start   the candle from which averages are known; None: all are unknown
        """
        found = np.full((len(self.closed), kernels.AVERAGES), np.nan)
        if start is None:
            return found
        closes = self._column("close")[start.first :]
        is_known = (self.closed >= start.first) & ~np.isnan(self.opens.closes)
        out = np.zeros((int(is_known.sum()), kernels.AVERAGES))
        closed = self.closed[is_known] - start.first
        opens = self.opens.closes[is_known]
        # A copy, because the kernel changes the accumulators.
        kernels.with_open(start.acc.copy(), start.closed, closes, closed, opens, out)
        found[is_known] = out
        return found

    def atr(self) -> Floats:
        """Return the average true range of 14 candles, the last of which is the open one.

        There is a value for each narrow candle; NaN: unknown.
        """
        found = np.full(len(self.closed), np.nan)
        highs, lows, closes = (self._column(name) for name in ("high", "low", "close"))
        ranges = np.maximum(highs[1:], closes[:-1]) - np.minimum(lows[1:], closes[:-1])
        means = np.cumsum(ranges)  # the first ATR_CANDLES - 1 remain sums
        for n in range(ATR_CANDLES - 1, len(ranges)):
            before = means[n - 1] * (1 if n < ATR_CANDLES else ATR_CANDLES - 1)
            means[n] = (before + ranges[n]) / ATR_CANDLES
        # If older candles were dropped, the mean is exact only when their effect is gone.
        least = ATR_CANDLES + (0 if self.series.closed == 0 else FORGOTTEN)
        at = np.flatnonzero(self.closed >= least)
        last = self.closed[at] - 1
        highest = np.maximum(self.opens.highs[at], closes[last])
        true_range = highest - np.minimum(self.opens.lows[at], closes[last])
        # Before the 14th range, the mean is still a sum.
        times = np.where(self.closed[at] == ATR_CANDLES, 1, ATR_CANDLES - 1)
        found[at] = (means[last - 1] * times + true_range) / ATR_CANDLES
        return found

    def bollinger(self) -> Floats:
        """Return the upper, middle and lower Bollinger band of 20 closes.

        There is a row for each narrow candle.  The last of the 20 closes is that of the open
        candle.  NaN if there are fewer.
        """
        found = np.full((len(self.closed), 3), np.nan)
        closes = self._column("close")
        held = BOLLINGER_CANDLES - 1
        at = np.flatnonzero(self.closed >= held)
        if not len(at):
            return found
        windows = sliding_window_view(closes, held)[self.closed[at] - held]
        windows = np.column_stack([windows, self.opens.closes[at]])
        middle = windows.mean(axis=1)
        spread = BOLLINGER_WIDTH * windows.std(axis=1)
        found[at] = np.column_stack([middle + spread, middle, middle - spread])
        return found

    def fibonacci(self) -> Floats:
        """Return the high, the low and the retracements of the newest 100 candles.

        There is a row for each narrow candle; the last of its 100 candles is the open one.  NaN:
        unknown.
        """
        is_known = (self.closed >= SWING - 1) | (self.series.closed == 0)
        highs = np.where(is_known, self.opens.highs, np.nan)
        lows = np.where(is_known, self.opens.lows, np.nan)
        high = np.maximum(self._extreme("high", -np.inf), highs)
        low = np.minimum(self._extreme("low", np.inf), lows)
        span = high - low
        return np.column_stack([high, low, *(high - part * span for part in RETRACEMENTS)])

    def _extreme(self, name: str, short: float) -> Floats:
        """Return, by row, the highest high or the lowest low of the 99 candles before the open one.

        name    whether it is the "high" or the "low"
        short   the value that is used for candles before the first one
        """
        values = np.concatenate([np.full(SWING - 1, short), self._column(name)])
        windows = sliding_window_view(values, SWING - 1)
        extremes = windows.max(axis=1) if name == "high" else windows.min(axis=1)
        found: Floats = extremes[self.closed]
        return found

    def _column(self, name: str) -> Floats:
        return np.array([getattr(each, name) for each in self.series.candles], float)
