"""Indicators of the place of the price between bounds."""

from typing import Final

import numpy as np

from mintscope.market.engine.given import Floats
from mintscope.market.engine.kernels import ROUNDING
from mintscope.market.indicators.bars import (
    FORGETTING,
    Bars,
    highest,
    lowest,
    mean,
    nothing,
    wilder,
    windows,
)
from mintscope.market.indicators.registry import indicator, period

LAMBERT: Final = 0.015  # Donald Lambert, 1980: most values then lie between -100 and 100


@indicator("rsi", period(14, most=100), reach=lambda size: (FORGETTING + 1) * size)
def rsi(bars: Bars, size: int) -> Floats:
    """Wilder's relative strength index, 0 to 100; 50 if the price has never moved."""
    found = nothing(bars)
    changes = np.diff(bars.closes)
    gain = wilder(np.maximum(changes, 0.0), size)
    both = gain + wilder(np.maximum(-changes, 0.0), size)
    half = np.where(np.isnan(both), np.nan, 50.0)
    found[1:] = np.divide(100.0 * gain, both, out=half, where=both > 0)
    return found


@indicator("cci", period(20), reach=lambda size: size - 1)
def cci(bars: Bars, size: int) -> Floats:
    """Commodity channel index: typical price less its mean, over 0.015 mean deviations."""
    typical = bars.typical
    middle = mean(typical, size)
    deviation = np.abs(windows(typical, size) - middle[:, None]).mean(axis=1)
    found: Floats = np.where(np.isnan(deviation), np.nan, 0.0)
    is_moving = deviation > ROUNDING * middle
    np.divide(typical - middle, LAMBERT * deviation, out=found, where=is_moving)
    return found


@indicator("williamsR", period(14), reach=lambda size: size - 1)
def williams_r(bars: Bars, size: int) -> Floats:
    """Williams %R: how far the close is below the highest high, -100 to 0; 0 if nothing moved."""
    top = highest(bars.highs, size)
    span = top - lowest(bars.lows, size)
    none = np.where(np.isnan(span), np.nan, 0.0)
    return np.divide(-100.0 * (top - bars.closes), span, out=none, where=span > 0)


@indicator(
    "stochastic",
    period(14),
    period(3, "kPeriod", least=1),
    period(3, "dPeriod", least=1),
    outputs=("k", "d"),
    reach=lambda size, k_size, d_size: size + k_size + d_size,
)
def stochastic(bars: Bars, size: int, k_size: int, d_size: int) -> Floats:
    """Close between lowest low and highest high, 0 to 100: `k` is its mean, `d` that of `k`."""
    least = lowest(bars.lows, size)
    span = highest(bars.highs, size) - least
    none = np.where(np.isnan(span), np.nan, 0.0)
    place = np.divide(100.0 * (bars.closes - least), span, out=none, where=span > 0)
    k = mean(place, k_size)
    d = mean(k, d_size)
    return np.column_stack([np.where(np.isnan(d), np.nan, k), d])
