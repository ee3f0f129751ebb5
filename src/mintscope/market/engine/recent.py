"""Compiled functions for the newest candles of all tokens: ATR, Bollinger bands and swings.

The list of tokens stores data of these candles by token and timeframe, with the accumulators of
`kernels`.  These kernels call no kernel of another file, because numba's cache notices changes of
one file only.

ATR        Wilder's mean of the true ranges from the first candle on, as `series.indicators_of`
           computes it.  If the first candles are not known, the ATR is NaN until they no longer
           affect it
Bollinger  the mean of the newest 20 closes, and 2 standard deviations of the population
Swing      the highest high and the lowest low of the newest 100 candles.  Of the closed candles
           whose high (or low) no later candle has reached, the oldest SWINGS_HELD are stored, and
           whether there are more such candles.  If all stored ones leave the window while there are
           more, the swing is not known until it is read from the store, or until newer candles fill
           the window
"""

from math import nan, sqrt
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mintscope.kit.compiled import bulk_kernel, kernel
from mintscope.market.timeframe import TIMEFRAMES, Timeframe

Floats = NDArray[np.float64]
Ints = NDArray[Any]

ATR_CANDLES: Final = 14
BANDS_CANDLES: Final = 20
BANDS_WIDTH: Final = 2.0
SWING_CLOSED: Final = 99  # closed candles of a swing; the open candle is the hundredth
AGES: Final = 5  # the most closed candles that a condition on a crossing needs
FORGOTTEN: Final = 500 + ATR_CANDLES  # candles after which the ATR is known, as in `series`
CLOSES_HELD: Final = BANDS_CANDLES - 1 + AGES
ACCUMULATED: Final = 9  # the stored accumulators of `kernels`: all but the last close
READ_BACK: Final = FORGOTTEN + AGES  # closed candles from which all values can be computed
# Candles of a minute close most often, so more of their extremes are stored: each takes 18 bytes a
# token.
SWINGS_HELD: Final = {each: 3 if each == Timeframe.M1 else 2 for each in TIMEFRAMES}
HAS_MORE: Final = 128  # added to `count` if there are more extremes than are stored


def _recent(swings: int) -> np.dtype[Any]:
    """Return the NumPy type of the record that stores the newest candles of a row and timeframe.

    swings     the number of extremes that are stored of each side
    averages   the accumulators of `kernels`, except the last close, after all closed candles but
               the newest ones that `later` counts
    ranges     Wilder's sum or mean after each candle, by the number of the candle modulo the length
    closes     the close of each candle, by the number of the candle modulo the length
    since      the number of the first closed candle that is known
    later      the number of the newest closed candles that `averages` does not include yet
    top        the extremes of the highs; `bottom`: of the lows, stored as negative numbers.  Both
               have `known`, the number of the newest closed candles that are known, up to
               SWING_CLOSED; `count`, the number of stored extremes, plus HAS_MORE if there are
               more; `values`, the extremes; `numbers`, the numbers of their candles modulo 256
    """
    side = np.dtype(
        [("known", "u1"), ("count", "u1"), ("numbers", "u1", swings), ("values", "f8", swings)]
    )
    return np.dtype(
        [
            ("averages", "f8", ACCUMULATED),
            ("ranges", "f8", AGES),
            ("closes", "f8", CLOSES_HELD),
            ("since", "i4"),
            ("later", "u1"),
            ("top", side),
            ("bottom", side),
        ]
    )


RECENTS: Final = tuple(_recent(SWINGS_HELD[timeframe]) for timeframe in TIMEFRAMES)
ATR, UPPER, MIDDLE, LOWER, HIGH, LOW = range(6)
NAMES: Final = (
    "atr", "bollinger_upper", "bollinger_middle", "bollinger_lower", "swing_high", "swing_low",
)  # fmt: skip
CROSSED: Final = NAMES[:HIGH]


@kernel
def wilder_range(before: float, seen: int, true_range: float) -> float:
    """Return the average true range of the candles after *true_range*, that of the next one.

    With fewer than 14 ranges, the result is their sum.

    before   the previous result
    seen     the number of ranges that it includes
    """
    if seen + 1 < ATR_CANDLES:
        return before + true_range
    if seen + 1 == ATR_CANDLES:
        return (before + true_range) / ATR_CANDLES
    return (before * (ATR_CANDLES - 1) + true_range) / ATR_CANDLES


@kernel
def keep_extreme(side: Any, number: int, value: float) -> bool:
    """Add *value*, the high or the negative low of closed candle *number*, to *side*.

    Returns whether the greatest value in the window of SWING_CLOSED candles becomes unknown.
    """
    held = int(side["count"])
    has_more = held >= HAS_MORE
    count = held % HAS_MORE
    while count > 0 and side["values"][count - 1] <= value:
        count -= 1
        has_more = False  # extremes that are not stored are later, so they are lower, too
    if not has_more:  # otherwise, an extreme that is not stored comes before this one
        if count < len(side["values"]):
            side["values"][count] = value
            side["numbers"][count] = number % 256
            count += 1
        else:
            has_more = True
    if (number - int(side["numbers"][0])) % 256 >= SWING_CLOSED:  # the extreme leaves the window
        for z in range(1, count):
            side["values"][z - 1] = side["values"][z]
            side["numbers"][z - 1] = side["numbers"][z]
        count -= 1
    if count > 0:
        side["count"] = count + HAS_MORE if has_more else count
        side["known"] = min(int(side["known"]) + 1, SWING_CLOSED)
        return False
    side["values"][0] = value
    side["numbers"][0] = number % 256
    side["count"] = 1
    side["known"] = 1
    return True


@kernel
def keep_close(recent: Any, number: int, high: float, low: float, close: float) -> None:
    """Add the close and the average true range of closed candle *number* to *recent*."""
    mean = 0.0
    if number > recent["since"]:
        previous = recent["closes"][(number - 1) % CLOSES_HELD]
        true_range = max(high, previous) - min(low, previous)
        before = recent["ranges"][(number - 1) % AGES]
        mean = wilder_range(before, number - recent["since"] - 1, true_range)
    recent["ranges"][number % AGES] = mean
    recent["closes"][number % CLOSES_HELD] = close


@kernel
def keep_candle(recent: Any, number: int, high: float, low: float, close: float) -> bool:
    """Add a closed candle to *recent*; return whether the high or the low of 100 becomes unknown.

    number   the number of the candle
    """
    keep_close(recent, number, high, low, close)
    is_top_lost = keep_extreme(recent["top"], number, high)
    is_bottom_lost = keep_extreme(recent["bottom"], number, -low)
    return is_top_lost or is_bottom_lost


@bulk_kernel
def keep_candles(  # noqa: PLR0913, PLR0917 - one argument for each column
    recents: Any, places: Ints, counts: Ints, prices: Floats, at: Ints, k: int
) -> Any:
    """Store the newest candle of timeframe *k* as closed, for each of the rows *at*.

    Returns, for each of them, whether the high or the low of its newest candles becomes unknown.

    places   the index in *recents* of each row
    counts   the number of candles by row and timeframe, the open one included
    prices   for each of *at*: high and low of the open candle, and its close
    """
    lost = np.zeros(len(at), np.bool_)
    for j in range(len(at)):
        i = at[j]
        if counts[i, k] > 0:
            high = prices[j, 0]
            low = prices[j, 1]
            close = prices[j, 2]
            lost[j] = keep_candle(recents[places[j]], counts[i, k] - 1, high, low, close)
    return lost


@kernel
def begin_side(side: Any, since: int, values: Floats) -> None:
    """Set *side* to closed candles: to their highs, or to their lows as negative numbers.

    since    the number of the first of these candles
    values   their highs or negative lows, oldest first
    """
    first = max(0, len(values) - SWING_CLOSED)
    held = np.zeros(SWING_CLOSED, np.int64)
    count = 0
    for j in range(first, len(values)):
        while count > 0 and values[held[count - 1]] <= values[j]:
            count -= 1
        held[count] = j
        count += 1
    most = min(count, len(side["values"]))
    side["known"] = len(values) - first
    side["count"] = most + HAS_MORE if count > most else most
    for z in range(most):
        side["values"][z] = values[held[z]]
        side["numbers"][z] = (since + held[z]) % 256


@bulk_kernel
def begin_recents(recents: Any, closed: Ints, last: Floats, counts: Ints, candles: Floats) -> None:
    """Fill the records *recents*, one for each mint, with newest closed candles.

    Averages are not set.

    closed    by mint, the number of its closed candles
    last      by mint, the close of its newest closed candle, from the fold
    candles   high, low and close of the candles of all mints, one mint after another
    counts    by mint, how many of *candles* it has; they are ignored if they do not end with
              *last*, or if there are more than *closed*
    """
    first = 0
    for i in range(len(recents)):
        own = candles[first : first + counts[i]]
        first += counts[i]
        if len(own) > closed[i] or (len(own) > 0 and own[-1, 2] != last[i]):
            own = own[:0]
        recent = recents[i]
        since = closed[i] - len(own)
        recent["since"] = since
        for j in range(len(own)):
            keep_close(recent, since + j, own[j, 0], own[j, 1], own[j, 2])
        begin_side(recent["top"], since, own[:, 0].copy())
        begin_side(recent["bottom"], since, -own[:, 1])


@kernel
def range_value(recent: Any, number: int, mean: float) -> float:
    """Return the average true range *mean* if it is exact at candle *number*, or NaN if it is not.

    It is not exact if too few candles before this one are known.
    """
    seen = number - recent["since"]
    is_known = seen >= ATR_CANDLES and (recent["since"] == 0 or seen >= FORGOTTEN)
    return mean if is_known else nan


@kernel
def newest_first(recent: Any, number: int, closes: Floats) -> None:
    """Write the stored closing prices of *recent* to *closes*, newest first.

    number   the number of the newest closed candle
    """
    place = number % CLOSES_HELD
    for j in range(CLOSES_HELD):
        closes[j] = recent["closes"][place]
        place = place - 1 if place > 0 else CLOSES_HELD - 1


@kernel
def bands(closes: Floats, first: int, close: float) -> tuple[float, float]:
    """Return the mean and the standard deviation of 20 closes.

    They are *close* and the 19 in *closes* from index *first* on.
    """
    total = close
    for j in range(first, first + BANDS_CANDLES - 1):
        total += closes[j]
    mean = total / BANDS_CANDLES
    squares = (close - mean) ** 2
    for j in range(first, first + BANDS_CANDLES - 1):
        squares += (closes[j] - mean) ** 2
    return mean, sqrt(squares / BANDS_CANDLES)


@kernel
def extreme(side: Any, closed: int, value: float) -> float:
    """Return the extreme of the newest 100 candles: of those in *side*, and the open one.

    It is NaN if it is unknown.

    closed   the number of closed candles
    value    the high of the open candle, or its negative low
    """
    if closed == 0:
        return value
    if int(side["known"]) < min(closed, SWING_CLOSED):
        return nan
    greatest: float = max(value, side["values"][0])
    return greatest


@bulk_kernel
def read_recent(recents: Any, places: Ints, counts: Ints, prices: Floats) -> Floats:
    """Return the indicators in NAMES for all rows with the open candle, as an array [value, row].

    NaN means that a value is unknown, or that a row has too few candles.

    places   the index in *recents* of each row
    counts   the number of candles of each row, the open one included
    prices   by row: high, low and close of the open candle
    """
    found = np.full((len(NAMES), len(counts)), nan)
    closes = np.zeros(CLOSES_HELD)
    for i in range(len(counts)):
        closed = counts[i] - 1
        if closed < 0:
            continue
        recent = recents[places[i]]
        high = prices[i, 0]
        low = prices[i, 1]
        close = prices[i, 2]
        if closed > recent["since"]:
            previous = recent["closes"][(closed - 1) % CLOSES_HELD]
            true_range = max(high, previous) - min(low, previous)
            before = recent["ranges"][(closed - 1) % AGES]
            mean = wilder_range(before, closed - recent["since"] - 1, true_range)
            found[ATR, i] = range_value(recent, closed, mean)
        middle = nan
        deviation = nan
        if closed - recent["since"] >= BANDS_CANDLES - 1:
            newest_first(recent, closed - 1, closes)
            middle, deviation = bands(closes, 0, close)
        found[UPPER, i] = middle + BANDS_WIDTH * deviation
        found[MIDDLE, i] = middle
        found[LOWER, i] = middle - BANDS_WIDTH * deviation
        found[HIGH, i] = extreme(recent["top"], closed, high)
        found[LOW, i] = -extreme(recent["bottom"], closed, -low)
    return found


@bulk_kernel
def read_earlier_recent(recents: Any, places: Ints, counts: Ints, z: int) -> Floats:
    """Return an indicator at the newest closed candles of all rows, as an array [age, row].

    The newest closed candle has age 1.  NaN means that a value is unknown, or that there are too
    few candles.

    places   the index in *recents* of each row
    counts   the number of candles of each row, the open one included
    z        the index of the indicator in CROSSED
    """
    found = np.full((AGES + 1, len(counts)), nan)
    closes = np.zeros(CLOSES_HELD)
    for i in range(len(counts)):
        recent = recents[places[i]]
        if z != ATR:
            newest_first(recent, counts[i] - 2, closes)
        for age in range(1, AGES + 1):
            number = counts[i] - 1 - age
            if number < recent["since"]:
                break
            if z == ATR:
                found[age, i] = range_value(recent, number, recent["ranges"][number % AGES])
                continue
            if number - recent["since"] < BANDS_CANDLES - 1:
                break
            middle, deviation = bands(closes, age, closes[age - 1])
            found[age, i] = middle + (MIDDLE - z) * BANDS_WIDTH * deviation
    return found
