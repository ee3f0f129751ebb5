"""Indicators of the direction of the price, and of its strength."""

from itertools import accumulate
from typing import Final

import numpy as np

from mintscope.market.engine.given import Floats
from mintscope.market.indicators.bars import (
    FORGETTING,
    Bars,
    highest,
    lowest,
    nothing,
    true_ranges,
    wilder,
)
from mintscope.market.indicators.registry import fraction, indicator, period

# A stop follows the price until it is crossed, and begins again there: where it began is forgotten
# within some turns, and no series that we tried needed half as many candles.
TURNS: Final = 1_000


@indicator(
    "adx",
    period(14, most=50),
    outputs=("adx", "plusDi", "minusDi"),
    reach=lambda size: 2 * FORGETTING * size,
)
def adx(bars: Bars, size: int) -> Floats:
    """Wilder's average directional index, and what it is made of (DMI), each 0 to 100."""
    found = np.full((len(bars.closes), 3), np.nan)
    if len(bars.closes) <= size:
        return found
    up = np.diff(bars.highs)
    down = -np.diff(bars.lows)
    rising = _sums(np.where((up > down) & (up > 0), up, 0.0), size)
    falling = _sums(np.where((down > up) & (down > 0), down, 0.0), size)
    ranges = _sums(true_ranges(bars)[1:], size)
    zeros = np.zeros(len(ranges))
    plus = np.divide(100.0 * rising, ranges, out=zeros.copy(), where=ranges > 0)
    minus = np.divide(100.0 * falling, ranges, out=zeros.copy(), where=ranges > 0)
    both = plus + minus
    index = np.divide(100.0 * np.abs(plus - minus), both, out=zeros.copy(), where=both > 0)
    found[size:, 0] = wilder(index, size)
    found[size:, 1] = plus
    found[size:, 2] = minus
    return found


def _sums(values: Floats, size: int) -> Floats:
    """Return Wilder's sums of *values*, from the value after the first *size* - 1 on.

    The first of all is the plain sum of so many, which is what TA-Lib and Wilder begin with.
    """
    keep = 1.0 - 1.0 / size
    seed = float(values[: size - 1].sum())
    rest = values[size - 1 :].tolist()
    return np.array(list(accumulate(rest, lambda s, x: s * keep + x, initial=seed))[1:])


@indicator(
    "supertrend",
    period(10, most=50),
    fraction("ranges", 3, 0.1, 20),
    outputs=("value", "direction"),
    reach=lambda size, _: FORGETTING * size + TURNS,
)
def supertrend(bars: Bars, size: int, ranges: float) -> Floats:
    """Stop that follows the trend, USD, and 1 below a rising price, -1 above a falling one."""
    found = np.full((len(bars.closes), 2), np.nan)
    spread = ranges * wilder(true_ranges(bars), size)
    middle = (bars.highs + bars.lows) / 2
    closes = bars.closes.tolist()
    uppers = (middle + spread).tolist()
    lowers = (middle - spread).tolist()
    direction = -1.0
    for n in range(size - 1, len(closes)):
        if n > size - 1:
            if not (uppers[n] < uppers[n - 1] or closes[n - 1] > uppers[n - 1]):
                uppers[n] = uppers[n - 1]
            if not (lowers[n] > lowers[n - 1] or closes[n - 1] < lowers[n - 1]):
                lowers[n] = lowers[n - 1]
            if found[n - 1, 0] == uppers[n - 1]:  # also of bands that meet, as TradingView has it
                direction = 1.0 if closes[n] > uppers[n] else -1.0
            else:
                direction = -1.0 if closes[n] < lowers[n] else 1.0
        found[n] = (lowers[n] if direction > 0 else uppers[n]), direction
    return found


@indicator(
    "psar",
    fraction("step", 0.02, 0.001, 0.5),
    fraction("most", 0.2, 0.001, 0.5),
    reach=lambda *_: TURNS,
)
def psar(bars: Bars, step: float, most: float) -> Floats:
    """Wilder's parabolic stop, USD: below a rising price, above a falling one."""
    found = nothing(bars)
    if len(found) <= 1:
        return found
    highs = bars.highs.tolist()
    lows = bars.lows.tolist()
    is_rising = not (lows[0] - lows[1] > max(highs[1] - highs[0], 0.0))
    far, stop = (highs[1], lows[0]) if is_rising else (lows[1], highs[0])
    rate = step = min(step, most)
    for n in range(1, len(highs)):
        before = n - 1 if n > 1 else n
        if lows[n] <= stop if is_rising else highs[n] >= stop:
            is_rising = not is_rising
            edge = min if is_rising else max
            sides = lows if is_rising else highs
            found[n] = edge(far, sides[before], sides[n])
            rate = step
            far = highs[n] if is_rising else lows[n]
            stop = edge(found[n] + rate * (far - found[n]), sides[before], sides[n])
            continue
        found[n] = stop
        farther = max(far, highs[n]) if is_rising else min(far, lows[n])
        if farther != far:
            rate = min(rate + step, most)
            far = farther
        edge = min if is_rising else max
        sides = lows if is_rising else highs
        stop = edge(stop + rate * (far - stop), sides[before], sides[n])
    return found


@indicator(
    "ichimoku",
    period(9, "conversion"),
    period(26, "base"),
    period(52, "span"),
    outputs=("conversion", "base", "spanA", "spanB"),
    reach=lambda conversion, base, span: base + max(conversion, base, span),
)
def ichimoku(bars: Bars, conversion: int, base: int, span: int) -> Floats:
    """Lines and cloud of Ichimoku, USD; the cloud is that drawn at the candle, `base` ahead.

    The lagging line is the close, drawn back.
    """
    lines = [(highest(bars.highs, n) + lowest(bars.lows, n)) / 2 for n in (conversion, base, span)]
    ahead = [(lines[0] + lines[1]) / 2, lines[2]]
    shift = np.full(base - 1, np.nan)
    cloud = [np.concatenate([shift, each])[: len(each)] for each in ahead]
    return np.column_stack([*lines[:2], *cloud])
