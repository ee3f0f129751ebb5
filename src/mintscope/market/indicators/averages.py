"""Means of closes, and indicators from the difference of two means."""

import numpy as np

from mintscope.market.engine.given import Floats
from mintscope.market.indicators.bars import FORGETTING, Bars, exponential, mean, windows
from mintscope.market.indicators.registry import indicator, period


@indicator("sma", period(20), reach=lambda size: size - 1)
def sma(bars: Bars, size: int) -> Floats:
    """Mean of the newest closes, USD."""
    return mean(bars.closes, size)


@indicator("wma", period(20), reach=lambda size: size - 1)
def wma(bars: Bars, size: int) -> Floats:
    """Mean of the newest closes, USD; the newest weighs most, the oldest 1."""
    weights = np.arange(1.0, size + 1)
    found: Floats = windows(bars.closes, size) @ weights / weights.sum()
    return found


@indicator("ema", period(20), reach=lambda size: FORGETTING * size // 2 + size)
def ema(bars: Bars, size: int) -> Floats:
    """Exponential mean of closes, USD; begins as the mean of the first closes."""
    return exponential(bars.closes, size)


@indicator(
    "macd",
    period(12, "fast", most=199),
    period(26, "slow", most=200),
    period(9, "signal", most=100),
    outputs=("line", "signal", "histogram"),
    reach=lambda fast, slow, signal: FORGETTING * (max(fast, slow) + signal) // 2 + fast + slow,
)
def macd(bars: Bars, fast: int, slow: int, signal: int) -> Floats:
    """EMA of `fast` closes less that of `slow`, and the EMA of `signal` of it, USD."""
    line = exponential(bars.closes, fast) - exponential(bars.closes, slow)
    of_line = exponential(line, signal)
    line = np.where(np.isnan(of_line), np.nan, line)
    return np.column_stack([line, of_line, line - of_line])
