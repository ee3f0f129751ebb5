"""All indicators with parameters: means, bands, oscillators, volume, and trends of the price.

The number of tokens traded in a candle is its volume in USD divided by its typical price, as in
`vwap` of `series`, because swaps of all pools are valued in USD.
"""

from itertools import accumulate
from typing import Final

import numpy as np

from mintscope.market.engine.given import Floats, Ints
from mintscope.market.engine.kernels import ROUNDING
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
from mintscope.market.indicators.registry import Parameter, fraction, indicator, period

# A stop follows the price until the price crosses it, and then starts again.  So after some
# crossings, its first start has no effect.  TURNS candles are enough for this: no series that we
# tried needed half of them.
TURNS: Final = 1_000


@indicator(
    "adx",
    period(14, most=50),
    outputs=("adx", "plusDi", "minusDi"),
    reach=lambda size: 2 * FORGETTING * size,
)
def adx(bars: Bars, size: int) -> Floats:
    """Wilder's average directional index, and its components (DMI), each 0 to 100."""
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
    """Return Wilder's sum at each of *values* from index *size* - 1 on.

    As in TA-Lib and in Wilder's book, it begins as the plain sum of the first *size* - 1 values.
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
    """Stop price that follows the trend, USD, and `direction`: 1 below the price, -1 above it."""
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
            if found[n - 1, 0] == uppers[n - 1]:  # true even if the bands meet, as in TradingView
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
    # As in TA-Lib: the directional movement of the second candle decides how the stop starts.
    is_rising = not (lows[0] - lows[1] > max(highs[1] - highs[0], 0.0))
    far, stop = (highs[1], lows[0]) if is_rising else (lows[1], highs[0])
    rate = step = min(step, most)
    for n in range(1, len(highs)):
        before = n - 1 if n > 1 else n  # as in TA-Lib, the first candle does not limit the stop
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
    """Lines and cloud of Ichimoku, USD; the cloud is the one drawn `base` - 1 candles ahead.

    There is no lagging line: it is the close, drawn `base` - 1 candles back.
    """
    lines = [(highest(bars.highs, n) + lowest(bars.lows, n)) / 2 for n in (conversion, base, span)]
    ahead = [(lines[0] + lines[1]) / 2, lines[2]]
    shift = np.full(base - 1, np.nan)
    cloud = [np.concatenate([shift, each])[: len(each)] for each in ahead]
    return np.column_stack([*lines[:2], *cloud])


ANCHORED_MAX: Final = 10_000  # candles from the anchor on; with more, all values are null
ANCHOR: Final = Parameter("anchor", 0, 0, 10_000_000_000)  # Unix seconds; 0: the first candle


def _since(bars: Bars, anchor: int) -> Ints | None:
    """Return the indices of *bars* from *anchor*, a time, on; None if some are missing.

    None also if there are too many.
    """
    places = np.flatnonzero(bars.times >= anchor)
    is_there = bars.is_whole or (len(bars.times) > 0 and bars.times[0] < anchor)
    return places if is_there and len(places) <= ANCHORED_MAX else None


@indicator("obv", ANCHOR, reach=lambda _: 0, reads=ANCHORED_MAX)
def obv(bars: Bars, anchor: int) -> Floats:
    """On-balance volume, USD, since the anchor.

    A candle that closes higher adds its volume, one that closes lower subtracts it.
    """
    found = nothing(bars)
    places = _since(bars, anchor)
    if places is not None and len(places):
        signs = np.sign(np.diff(bars.closes[places]))
        # As in TA-Lib, the first candle adds its volume.
        flows = bars.volumes[places] * np.concatenate([[1.0], signs])
        found[places] = np.cumsum(flows)
    return found


@indicator("avwap", ANCHOR, reach=lambda _: 0, reads=ANCHORED_MAX)
def avwap(bars: Bars, anchor: int) -> Floats:
    """Volume-weighted price since the anchor, USD; null until something was traded."""
    found = nothing(bars)
    places = _since(bars, anchor)
    if places is not None:
        paid = np.cumsum(bars.volumes[places])
        tokens = np.cumsum(bars.volumes[places] / bars.typical[places])
        none = np.full(len(paid), np.nan)
        found[places] = np.divide(paid, tokens, out=none, where=tokens > 0)
    return found


@indicator("mfi", period(14), reach=lambda size: size)
def mfi(bars: Bars, size: int) -> Floats:
    """Money flow index, 0 to 100: the share of the volume at rising typical prices.

    Null if the typical price did not move, or nothing was traded.  Typical prices that differ by
    rounding alone are equal.
    """
    found = nothing(bars)
    if len(found) <= 1:
        return found
    moves = np.diff(bars.typical)
    moves[np.abs(moves) <= ROUNDING * bars.typical[1:]] = 0.0
    flows = bars.volumes[1:]
    rising = windows(np.where(moves > 0, flows, 0.0), size).sum(axis=1)
    falling = windows(np.where(moves < 0, flows, 0.0), size).sum(axis=1)
    both = rising + falling
    none = np.full(len(both), np.nan)
    found[1:] = np.divide(100.0 * rising, both, out=none, where=both > 0)
    return found


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
    """Position of the close between the lowest low and the highest high, 0 to 100.

    `k` is the mean of `kPeriod` positions, `d` the mean of `dPeriod` values of `k`.
    """
    least = lowest(bars.lows, size)
    span = highest(bars.highs, size) - least
    none = np.where(np.isnan(span), np.nan, 0.0)
    place = np.divide(100.0 * (bars.closes - least), span, out=none, where=span > 0)
    k = mean(place, k_size)
    d = mean(k, d_size)
    return np.column_stack([np.where(np.isnan(d), np.nan, k), d])


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
    middle = np.where(np.isnan(spread), np.nan, middle)  # all three values are known, or none
    return np.column_stack([middle + spread, middle, middle - spread])


@indicator("donchian", period(20), outputs=BANDS, reach=lambda size: size - 1)
def donchian(bars: Bars, size: int) -> Floats:
    """Highest high and lowest low of the newest candles, and their mean, USD."""
    upper = highest(bars.highs, size)
    lower = lowest(bars.lows, size)
    return np.column_stack([upper, (upper + lower) / 2, lower])


@indicator("sma", period(20), reach=lambda size: size - 1)
def sma(bars: Bars, size: int) -> Floats:
    """Mean of the newest closes, USD."""
    return mean(bars.closes, size)


@indicator("wma", period(20), reach=lambda size: size - 1)
def wma(bars: Bars, size: int) -> Floats:
    """Linearly weighted mean of the newest closes, USD; the oldest has weight 1."""
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
    """`line`: EMA of `fast` closes minus the EMA of `slow` closes, USD.

    `signal`: EMA of `signal` values of the line. `histogram`: the line minus the signal.
    """
    line = exponential(bars.closes, fast) - exponential(bars.closes, slow)
    of_line = exponential(line, signal)
    line = np.where(np.isnan(of_line), np.nan, line)
    found: Floats = np.column_stack([line, of_line, line - of_line])
    found[np.abs(found) <= ROUNDING * bars.closes[:, None]] = 0.0
    return found
