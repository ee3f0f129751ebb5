"""Bands around the price."""

import numpy as np

from mintscope.market.engine.given import Floats
from mintscope.market.indicators.bars import (
    FORGETTING,
    Bars,
    exponential,
    highest,
    lowest,
    mean,
    nothing,
    true_ranges,
    wilder,
    windows,
)
from mintscope.market.indicators.registry import fraction, indicator, period

BANDS = ("upper", "middle", "lower")


@indicator("atr", period(14, most=100), reach=lambda size: (FORGETTING + 1) * size)
def atr(bars: Bars, size: int) -> Floats:
    """Wilder's mean of true ranges, USD; the first range is that of the second candle."""
    found = nothing(bars)
    found[1:] = wilder(true_ranges(bars)[1:], size)
    return found


@indicator(
    "bollinger",
    period(20),
    fraction("deviations", 2, 0.1, 10),
    outputs=BANDS,
    reach=lambda size, _: size - 1,
)
def bollinger(bars: Bars, size: int, deviations: float) -> Floats:
    """Mean of closes, and standard deviations (of the population) above and below it, USD."""
    middle = mean(bars.closes, size)
    spread = deviations * windows(bars.closes, size).std(axis=1)
    return np.column_stack([middle + spread, middle, middle - spread])


@indicator(
    "keltner",
    period(20),
    fraction("ranges", 2, 0.1, 10),
    period(10, "atrPeriod", most=100),
    outputs=BANDS,
    reach=lambda size, _, ranges: FORGETTING * max(size, ranges) + size,
)
def keltner(bars: Bars, size: int, ranges: float, of_ranges: int) -> Floats:
    """EMA of closes, and average true ranges above and below it, USD."""
    middle = exponential(bars.closes, size)
    spread = ranges * wilder(true_ranges(bars), of_ranges)
    middle = np.where(np.isnan(spread), np.nan, middle)  # all three numbers, or none
    return np.column_stack([middle + spread, middle, middle - spread])


@indicator("donchian", period(20), outputs=BANDS, reach=lambda size: size - 1)
def donchian(bars: Bars, size: int) -> Floats:
    """Highest high and lowest low of the newest candles, and their mean, USD."""
    upper = highest(bars.highs, size)
    lower = lowest(bars.lows, size)
    return np.column_stack([upper, (upper + lower) / 2, lower])
