"""Compiled functions (kernels) that compute candles and indicators of tokens in memory.

The kernels compute the indicators, one swap or one candle at a time.  They are compiled by numba;
the same code runs as plain Python under NUMBA_DISABLE_JIT=1.  Kernels that call each other are in
one file, because numba's cache notices changes of one file only.

Accumulators, `acc`: the two averages of MACD and its signal, Wilder's mean gain and loss, the last
close, then one EMA for each period, after the closed candles of one timeframe.  The seed of an
average is the mean of its first inputs; until then, its cell contains their sum.

The open candle is part of every indicator, but the next swap may change it.  So it is never added
to `acc`; a read adds it to copies.  A row of zeros is a mint that has not traded.
"""

from math import nan
from typing import Any, Final

import numpy as np

from mintscope.kit.compiled import bulk_kernel, kernel
from mintscope.market.engine.given import Candles, Floats, Held, Ints, Periods, Trades, Volumes
from mintscope.market.engine.prefetch import prefetch

SERVICE: Final = Periods(ema=(9, 21, 50, 200), rsi=14, fast=12, slow=26, signal=9)
PRICE_MAX: Final = 1e300
ROUNDING: Final = 1e-12  # the part of a price up to which two averages count as equal
SWING: Final = 100
RETRACEMENTS: Final = (0.236, 0.382, 0.5, 0.618, 0.764)
EXTENSIONS: Final = (1.272, 1.618, 2.0, 2.618)

# The widths in seconds of the candles, and of the PARTS parts of each pressure window.
WIDTHS: Final = (60, 300, 900, 3600)
GRAINS: Final = (1, 5, 15, 60, 240, 1440)
PARTS: Final = 60  # one bit for each in a signed integer of 64 bits
PART_MAX: Final = 72 * 10**15  # VOLUME_S_MAX in 24 minutes: both sides of a window fit in 64 bits
ALL_WINDOWS: Final = (0, len(GRAINS))
KEPT: Final = SWING - 1

FAST, SLOW, SIGNAL, GAIN, LOSS, LAST, EMA = range(7)
ACC: Final = EMA + len(SERVICE.ema)

# The columns of a snapshot: for each timeframe those of a read (the EMAs, RSI, MACD (3), Fibonacci
# (11), and from FURTHER on any others), the shares of the windows, the candle counts, the start of
# the first candle, the prices in USD and SOL.
AVERAGES: Final = len(SERVICE.ema) + 4
FURTHER: Final = AVERAGES + 2 + len(RETRACEMENTS) + len(EXTENSIONS)
READ: Final = FURTHER
PRICE: Final = AVERAGES  # the index of the close, after those of the averages

# `recent` stores accumulators that lack up to LATER closed candles, and CLOSES_HELD closes, each
# at the number of its candle modulo CLOSES_HELD.
AGES: Final = 5  # the same as in `recent`
LATER: Final = AGES - 1
CLOSES_HELD: Final = 24  # the same as in `recent`, which defines these records
SHARES: Final = len(WIDTHS) * READ
COUNTS: Final = SHARES + len(GRAINS)
FIRST: Final = COUNTS + len(WIDTHS)
USD, SOL, SNAPSHOT = range(FIRST + 1, FIRST + 4)

# `count` includes the open candle; top and bottom are extremes of the newest KEPT closed candles.
# The ring holds high and low of one more closed candle, for reports without the open one.
RING: Final = np.dtype([("prices", "f8", (SWING, 2))])
FRAME: Final = np.dtype(
    [
        *((name, "i8") for name in ("count", "bucket")),
        *((name, "f8") for name in ("high", "low", "close", "top", "bottom")),
    ]
)
# Sums over the 60 parts that end with number *head*; bit a of *bits* says whether part
# head - a has volume, so that parts that leave the window need not be cleared.
WINDOW: Final = np.dtype([("head", "i8"), ("bits", "i8"), ("buy", "i8"), ("sell", "i8")])
ROW: Final = np.dtype(
    [
        ("frames", FRAME, len(WIDTHS)),
        ("windows", WINDOW, len(GRAINS)),
        ("first", "i8"),
        ("price_sol", "f8"),
        ("accs", "f8", (len(WIDTHS), ACC)),
        ("parts", "i8", (len(GRAINS), PARTS, 2)),
        ("rings", RING, len(WIDTHS)),
    ]
)
PARTS_AT: Final[int] = ROW.fields["parts"][1] if ROW.fields else 0
FETCHED_AHEAD: Final = 6


@kernel
def ema(value: float, seen: int, period: int, x: float) -> float:
    """Return an exponential moving average after *x*; it begins as the mean of *period* values.

    value   the average of the *seen* values before *x*; with fewer than *period*, their sum
    """
    if seen + 1 < period:
        return value + x
    if seen + 1 == period:
        return (value + x) / period
    a = 2.0 / (period + 1)
    return a * x + (1.0 - a) * value


@kernel
def settled(difference: float, price: float) -> float:
    """Return *difference*, of two averages of prices, or 0 if it is a rounding error of *price*."""
    return difference if abs(difference) > ROUNDING * price else 0.0


@kernel
def wilder(value: float, seen: int, period: int, x: float) -> float:
    """Return Wilder's moving average *value* after *x*; with fewer than *period*, it is a sum."""
    if seen + 1 < period:
        return value + x
    if seen + 1 == period:
        return (value + x) / period
    return (value * (period - 1) + x) / period


@kernel
def close_candle(acc: Floats, closed: int, close: float, periods: Periods) -> None:
    """Add *close* to the accumulators *acc*, which already contain *closed* candles."""
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


@kernel
def extremes(ring: Any, closed: int, size: int) -> tuple[float, float]:
    """Return the highest high and lowest low of the newest *size* of *closed* (>= 1) candles."""
    prices = ring["prices"]
    z = (closed - 1) % SWING
    top = prices[z, 0]
    bottom = prices[z, 1]
    for age in range(2, min(closed, size) + 1):
        z = (closed - age) % SWING
        top = max(top, prices[z, 0])
        bottom = min(bottom, prices[z, 1])
    return top, bottom


@kernel
def keep(frame: Any, ring: Any, closed: int) -> None:
    """Store the open candle, which follows *closed* candles, in *ring*; update high and low."""
    z = closed % SWING
    leaving = (closed - KEPT) % SWING
    high = frame["high"]
    low = frame["low"]
    prices = ring["prices"]
    prices[z, 0] = high
    prices[z, 1] = low
    if closed == 0:
        frame["top"] = high
        frame["bottom"] = low
        return
    if closed >= KEPT and (
        (prices[leaving, 0] == frame["top"] and high < frame["top"])
        or (prices[leaving, 1] == frame["bottom"] and low > frame["bottom"])
    ):  # an extreme leaves the window, and the next one may be at any place
        frame["top"], frame["bottom"] = extremes(ring, closed + 1, KEPT)
        return
    frame["top"] = max(frame["top"], high)
    frame["bottom"] = min(frame["bottom"], low)


@kernel
def next_candle(frame: Any, acc: Floats, ring: Any, periods: Periods) -> None:
    """Close the open candle, if there is one, and add 1 to the number of candles."""
    closed = frame["count"] - 1
    if closed >= 0:
        close_candle(acc, closed, frame["close"], periods)
        keep(frame, ring, closed)
    frame["count"] += 1


@kernel
def add_price(frame: Any, acc: Floats, ring: Any, bucket: int, price: float) -> None:
    """Add a price to a candle; *bucket*, the number of its span, must not decrease."""
    if frame["count"] > 0 and bucket == frame["bucket"]:
        frame["high"] = max(frame["high"], price)
        frame["low"] = min(frame["low"], price)
    else:
        next_candle(frame, acc, ring, SERVICE)
        frame["bucket"] = bucket
        frame["high"] = price
        frame["low"] = price
    frame["close"] = price


@kernel
def sums(window: Any, parts: Ints, number: int) -> tuple[int, int]:
    """Return the micro-USD bought and sold in a window: 60 parts up to *number*, or a newer one."""
    buy = window["buy"]
    sell = window["sell"]
    bits = window["bits"]
    head = window["head"]
    ahead = number - head
    if ahead <= 0 or bits == 0:
        return buy, sell
    if ahead >= PARTS:
        return 0, 0
    age = PARTS - ahead
    gone = bits >> age
    while gone:
        if gone & 1:
            z = (head - age) % PARTS
            buy -= parts[z, 0]
            sell -= parts[z, 1]
        gone >>= 1
        age += 1
    return buy, sell


@kernel
def add_volume(window: Any, parts: Ints, number: int, buy: int, sell: int) -> None:
    """Add micro-USD to part *number* of a window, not before the newest part, up to PART_MAX."""
    ahead = number - window["head"]
    if ahead > 0:
        window["buy"], window["sell"] = sums(window, parts, number)
        left = (1 << max(PARTS - ahead, 0)) - 1
        window["bits"] = (window["bits"] & left) << min(ahead, PARTS)  # a shift by 64 is undefined
        window["head"] = number
    z = number % PARTS
    if window["bits"] & 1 == 0:
        window["bits"] |= 1
        parts[z, 0] = 0
        parts[z, 1] = 0
    buy = min(buy, PART_MAX - parts[z, 0])
    sell = min(sell, PART_MAX - parts[z, 1])
    parts[z, 0] += buy
    parts[z, 1] += sell
    window["buy"] += buy
    window["sell"] += sell


@kernel
def add_volumes(row: Any, windows: tuple[int, int], at: int, buy: int, sell: int) -> None:
    """Add micro-USD to a mint's windows with indices `range(*windows)`; *at* is the time."""
    for w in range(windows[0], windows[1]):
        add_volume(row["windows"][w], row["parts"][w], at // GRAINS[w], buy, sell)


@kernel
def fetch(rows: Any, i: int, at: int) -> None:
    """Prefetch the memory that a swap of the mint in row *i* will touch, except for its rings."""
    for line in range(0, PARTS_AT, 64):  # a cache line has 64 bytes, a part 16
        prefetch(rows, i, line)
    for w in range(len(GRAINS)):
        prefetch(rows, i, PARTS_AT + 16 * (w * PARTS + at // GRAINS[w] % PARTS))


@kernel
def apply(rows: Any, trades: Trades) -> None:
    """Add *trades* to the candles and volumes of their mints, for each mint in order of time."""
    for j in range(len(trades.rows)):
        ahead = j + FETCHED_AHEAD
        if ahead < len(trades.rows):
            fetch(rows, trades.rows[ahead], trades.times[ahead])
        row = rows[trades.rows[j]]
        at = trades.times[j]
        price = trades.prices_usd[j]
        volume = trades.volumes[j]
        if volume > 0:
            buy = volume if trades.buys[j] else 0
            add_volumes(row, ALL_WINDOWS, at, buy, volume - buy)
        if 0.0 < price <= PRICE_MAX:  # it sets a candle: it is finite, and far from overflow
            if row["frames"][0]["count"] == 0:
                row["first"] = at - at % WIDTHS[0]
            for k in range(len(WIDTHS)):
                add_price(row["frames"][k], row["accs"][k], row["rings"][k], at // WIDTHS[k], price)
            row["price_sol"] = trades.prices_sol[j]


@kernel
def refill_windows(row: Any, windows: tuple[int, int], volumes: Volumes) -> None:
    """Add stored *volumes* to a mint's windows with indices `range(*windows)`."""
    for j in range(len(volumes.times)):
        add_volumes(row, windows, volumes.times[j], volumes.buys[j], volumes.sells[j])


@kernel
def refill_ring(row: Any, k: int, candles: Candles) -> None:
    """Store closed *candles* of timeframe *k*, oldest first, as the newest ones of a mint."""
    frame = row["frames"][k]
    ring = row["rings"][k]
    closed = frame["count"] - 1
    for j in range(len(candles.closes)):
        z = (closed - len(candles.closes) + j) % SWING
        ring["prices"][z, 0] = candles.highs[j]
        ring["prices"][z, 1] = candles.lows[j]
    if closed > 0:
        frame["top"], frame["bottom"] = extremes(ring, closed, KEPT)


@kernel
def read_averages(acc: Floats, closed: int, close: float, periods: Periods, out: Floats) -> None:
    """Write the EMAs, RSI and MACD with an open candle at *close*; NaN: too few candles."""
    size = len(periods.ema)
    for z in range(size):
        out[z] = nan
        if closed + 1 >= periods.ema[z]:
            out[z] = ema(acc[EMA + z], closed, periods.ema[z], close)
    for z in range(size, size + 4):
        out[z] = nan
    if closed >= periods.rsi:
        change = close - acc[LAST]
        gain = wilder(acc[GAIN], closed - 1, periods.rsi, max(change, 0.0))
        loss = wilder(acc[LOSS], closed - 1, periods.rsi, max(-change, 0.0))
        moved = gain + loss
        # the quotient first: it is at most 1, so that RSI is at most 100
        out[size] = 100.0 * (gain / moved) if moved > 0.0 else 50.0
    lines = closed + 1 - periods.slow
    if lines + 1 >= periods.signal:
        line = ema(acc[FAST], closed, periods.fast, close) - ema(
            acc[SLOW], closed, periods.slow, close
        )
        signal = ema(acc[SIGNAL], lines, periods.signal, line)
        out[size + 1] = settled(line, close)
        out[size + 2] = settled(signal, close)
        out[size + 3] = settled(line - signal, close)


@kernel
def closed_value(acc: Floats, closed: int, z: int, periods: Periods) -> float:
    """Return value *z* of `read_averages` without the open candle, or the close for z = PRICE."""
    size = len(periods.ema)
    value = nan
    if z == PRICE:
        value = acc[LAST] if closed > 0 else nan
    elif z < size:
        value = acc[EMA + z] if closed >= periods.ema[z] else nan
    elif z == size and closed > periods.rsi:
        moved = acc[GAIN] + acc[LOSS]
        value = 100.0 * (acc[GAIN] / moved) if moved > 0.0 else 50.0
    elif z > size and closed + 1 - periods.slow >= periods.signal:
        value = acc[FAST] - acc[SLOW]
        if z == size + 2:
            value = acc[SIGNAL]
        elif z == size + 3:
            value -= acc[SIGNAL]
        value = settled(value, acc[LAST])
    return value


@kernel
def read_levels(high: float, low: float, out: Floats) -> None:
    """Write the Fibonacci levels of the swing from *low* to *high* to *out*."""
    span = high - low
    out[0] = high
    out[1] = low
    for z in range(len(RETRACEMENTS)):
        out[2 + z] = high - RETRACEMENTS[z] * span
    for z in range(len(EXTENSIONS)):
        out[2 + len(RETRACEMENTS) + z] = low + EXTENSIONS[z] * span


@kernel
def read_swing(frame: Any, out: Floats) -> None:
    """Write the Fibonacci levels of the newest 100 candles, the open one included, to *out*."""
    high = frame["high"]
    low = frame["low"]
    if frame["count"] > 1:
        high = max(high, frame["top"])
        low = min(low, frame["bottom"])
    read_levels(high, low, out)


@kernel
def read_open(held: Held, closed: int, periods: Periods, out: Floats) -> None:
    """Write the indicators of a timeframe, with the open candle; NaN: too few candles."""
    read_averages(held.acc, closed, held.frame["close"], periods, out)
    read_swing(held.frame, out[len(periods.ema) + 4 :])


@kernel
def read_closed(held: Held, closed: int, out: Floats) -> None:
    """Write the indicators of a timeframe, without the open candle; NaN: too few candles."""
    for z in range(AVERAGES):
        out[z] = closed_value(held.acc, closed, z, SERVICE)
    if closed == 0:
        out[AVERAGES:] = nan
    else:
        high, low = extremes(held.ring, closed, SWING)
        read_levels(high, low, out[AVERAGES:])


@kernel
def snapshot(rows: Any, i: int, now: int, out: Floats) -> None:
    """Write the numbers of a mint's report as of *now*; without a price, only counts are valid."""
    row = rows[i]
    for k in range(len(WIDTHS)):
        frame = row["frames"][k]
        at = k * READ
        # This repeats the code of `read_open`, because calling it takes a tenth longer.
        read_averages(row["accs"][k], frame["count"] - 1, frame["close"], SERVICE, out[at:])
        read_swing(frame, out[at + AVERAGES :])
        out[COUNTS + k] = frame["count"]
    for w in range(len(GRAINS)):
        buy, sell = sums(row["windows"][w], row["parts"][w], now // GRAINS[w])
        out[SHARES + w] = buy / (buy + sell) if buy + sell > 0 else 0.0
    out[FIRST] = row["first"]
    out[USD] = row["frames"][0]["close"]
    out[SOL] = row["price_sol"]


@kernel
def leave_out_open(rows: Any, i: int, now: int, out: Floats) -> None:
    """Replace indicators in *out*, a `snapshot` as of *now*, by those without open candles.

    A candle is open until its interval has passed, whether or not there are more swaps.
    """
    row = rows[i]
    for k in range(len(WIDTHS)):
        frame = row["frames"][k]
        if (frame["bucket"] + 1) * WIDTHS[k] > now:
            held = Held(row["accs"][k], frame, row["rings"][k])
            read_closed(held, frame["count"] - 1, out[k * READ : (k + 1) * READ])


@kernel
def series(frame: Any, acc: Floats, candles: Candles, periods: Periods, out: Floats) -> None:
    """Write the indicators at each of *candles*, oldest first, as if that candle were open.

    acc     the accumulators after all earlier candles
    frame   its count is the number of earlier candles; high and low consider *candles* only
    """
    ring = np.zeros(1, RING)[0]
    closed = frame["count"]
    for j in range(len(candles.closes)):
        if j > 0:
            close_candle(acc, closed + j - 1, frame["close"], periods)
            keep(frame, ring, j - 1)
        frame["count"] = j + 1
        frame["high"] = candles.highs[j]
        frame["low"] = candles.lows[j]
        frame["close"] = candles.closes[j]
        read_open(Held(acc, frame, ring), closed + j, periods, out[j])


@kernel
def held_averages(recent: Any, closed: int, acc: Floats) -> int:
    """Write the accumulators in *recent* to *acc*; return the number of closed candles in them."""
    held = closed - int(recent["later"])
    acc[:LAST] = recent["averages"][:LAST]
    acc[EMA:] = recent["averages"][LAST:]
    acc[LAST] = recent["closes"][(held - 1) % CLOSES_HELD] if held > 0 else 0.0
    return held


@kernel
def hold_averages(recent: Any, acc: Floats) -> None:
    """Store the accumulators *acc* in *recent*, which has their last close already."""
    recent["averages"][:LAST] = acc[:LAST]
    recent["averages"][LAST:] = acc[EMA:]


@kernel
def with_open(  # noqa: PLR0913, PLR0917 - one argument for each column
    acc: Floats, before: int, closes: Floats, closed: Ints, opens: Floats, out: Floats
) -> None:
    """Write the averages of one timeframe at several times, with the candle that was open.

    acc, before   the accumulators, and the number of closed candles that they contain
    closes        the closes of the candles that follow those in *acc*
    closed        for each time, the number of *closes* before it; must not decrease
    opens         for each time, the close of its open candle
    """
    done = 0
    for j in range(len(opens)):
        while done < closed[j]:
            close_candle(acc, before + done, closes[done], SERVICE)
            done += 1
        read_averages(acc, before + done, opens[j], SERVICE, out[j])


@bulk_kernel
def close_rows(recents: Any, places: Any, counts: Ints, at: Ints, k: int) -> None:
    """Prepare the records *recents* to close the candles of timeframe *k* in the rows *at*.

    places   the index in *recents* of each row in *at*
    counts   the number of candles by row and timeframe, the open one included
    """
    acc = np.zeros(ACC)
    for j in range(len(at)):
        closed = counts[at[j], k] - 1
        if closed < 0:
            continue
        recent = recents[places[j]]
        if recent["later"] < LATER:
            recent["later"] += 1
            continue
        held = held_averages(recent, closed, acc)
        close_candle(acc, held, recent["closes"][held % CLOSES_HELD], SERVICE)
        hold_averages(recent, acc)


@bulk_kernel
def read_rows(recents: Any, places: Any, counts: Ints, closes: Floats) -> Floats:
    """Return the averages of all rows with open candles, as [average, row]; NaN: too few candles.

    places   the index in *recents* of each row
    counts   the number of candles of each row, the open one included
    closes   the close of the open candle of each row
    """
    found = np.full((AVERAGES, len(counts)), nan)
    acc = np.zeros(ACC)
    for i in range(len(counts)):
        closed = counts[i] - 1
        if closed >= 0:
            recent = recents[places[i]]
            for j in range(held_averages(recent, closed, acc), closed):
                close_candle(acc, j, recent["closes"][j % CLOSES_HELD], SERVICE)
            read_averages(acc, closed, closes[i], SERVICE, found[:, i])
    return found


@bulk_kernel
def begin_averages(  # noqa: PLR0913, PLR0917 - one argument for each column
    recents: Any, closed: Ints, accs: Floats, since: Ints, begun: Floats, counts: Ints, closes: Any
) -> None:
    """Store accumulators in the records *recents*, one for each mint.

    closed          the number of closed candles; they, or up to LATER fewer, are included
    accs            the accumulators after all *closed* candles; stored if the rest contradicts them
    since, begun    the number of candles before *closes*, and the accumulators after them
    counts, closes  the number of closes of each mint, and those of all, one mint after another
    """
    first = 0
    acc = np.zeros(ACC)
    for i in range(len(recents)):
        held = max(closed[i] - LATER, since[i])
        acc[:] = begun[i]
        for j in range(since[i], since[i] + counts[i]):
            if j == held:
                hold_averages(recents[i], acc)
            close_candle(acc, j, closes[first + j - since[i]], SERVICE)
        is_known = counts[i] > 0 and since[i] + counts[i] == closed[i] and np.all(acc == accs[i])
        if is_known:
            recents[i]["later"] = closed[i] - held
            if held == since[i]:
                recents[i]["closes"][(held - 1) % CLOSES_HELD] = begun[i, LAST]
            for j in range(max(held - 1, since[i]), closed[i]):
                recents[i]["closes"][j % CLOSES_HELD] = closes[first + j - since[i]]
        else:
            recents[i]["later"] = 0
            hold_averages(recents[i], accs[i])
            recents[i]["closes"][(closed[i] - 1) % CLOSES_HELD] = accs[i, LAST]
        first += counts[i]


@kernel
def close_value(acc: Floats, closed: int, close: float, z: int, periods: Periods) -> None:
    """Add *close* to the accumulators of value *z*, which include *closed* candles."""
    size = len(periods.ema)
    if z < size:
        acc[EMA + z] = ema(acc[EMA + z], closed, periods.ema[z], close)
    elif z == size and closed > 0:
        change = close - acc[LAST]
        acc[GAIN] = wilder(acc[GAIN], closed - 1, periods.rsi, max(change, 0.0))
        acc[LOSS] = wilder(acc[LOSS], closed - 1, periods.rsi, max(-change, 0.0))
    elif size < z < PRICE:
        acc[FAST] = ema(acc[FAST], closed, periods.fast, close)
        acc[SLOW] = ema(acc[SLOW], closed, periods.slow, close)
        lines = closed + 1 - periods.slow
        if lines >= 0:
            acc[SIGNAL] = ema(acc[SIGNAL], lines, periods.signal, acc[FAST] - acc[SLOW])
    acc[LAST] = close


@bulk_kernel
def read_earlier(recents: Any, places: Any, counts: Ints, z: int) -> Floats:
    """Return value *z* of `read_averages` at closed candles of all rows, as [age, row]; or NaN.

    The newest closed candle has age 1.  For each row, *places* has the index in *recents*, and
    *counts* the number of candles, the open one included.
    """
    found = np.full((AGES + 1, len(counts)), nan)
    acc = np.zeros(ACC)
    for i in range(len(counts)):
        closed = counts[i] - 1
        if closed <= 0:
            continue
        recent = recents[places[i]]
        held = held_averages(recent, closed, acc)
        if held > 0:  # at most LATER candles have closed since
            found[closed - held + 1, i] = closed_value(acc, held, z, SERVICE)
        for j in range(held, closed):
            close_value(acc, j, recent["closes"][j % CLOSES_HELD], z, SERVICE)
            found[closed - j, i] = closed_value(acc, j + 1, z, SERVICE)
    return found
