"""Candles and indicators of one token over time.

Averages continue from a known start: the first candle of the mint, or a waypoint.  So they equal
the averages of the live engine to the last bit, even if older candles were dropped.

ATR        Wilder's mean of 14 true ranges; the first true range is that of the second candle
Bollinger  mean of 20 closes, and 2 standard deviations (of the population) above and below it
VWAP       since the day began (UTC): volume in USD over volume in tokens; a candle's tokens are its
           volume in USD over (high + low + close) / 3
StochRSI   position of the RSI between the least and the greatest of 14 RSI values, 0 to 100; 50 if
           all 14 are equal to 1e-9 of their size, because at a flat price they differ only by
           rounding.  k is the mean of 3 positions, d the mean of 3 values of k
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import astuple, replace
from numpy.lib.stride_tricks import sliding_window_view

from mintscope.kit.primitives import UnixS
from mintscope.kit.time import DAY_S
from mintscope.market.engine import frames, kernels
from mintscope.market.engine.fold import merged, price_of, read_state
from mintscope.market.engine.frames import SHORT_S, WAYPOINT_EVERY, WIDE, Frame
from mintscope.market.engine.given import Candles, Floats, Ints
from mintscope.market.engine.kernels import EXTENSIONS, RETRACEMENTS, SERVICE, SWING
from mintscope.market.engine.pool_book import POOL_CANDLES_S, key_of
from mintscope.market.indicators import AskedIndicator
from mintscope.market.indicators.bars import bars_of
from mintscope.market.log import CandleRow, Waypoint
from mintscope.market.report import REPORTED
from mintscope.market.series.pools import (
    AskedCandles,
    KeptCandles,
    KeptPools,
    KeptSwaps,
    SeriesCandle,
    UnpricedVolume,
)
from mintscope.market.timeframe import TIMEFRAMES, WIDTH_S, Timeframe, bucket


class Width(NamedTuple):
    """A length that candles can have.

    kept   the timeframe of the stored candles from which such candles are made
    """

    name: str
    seconds: int
    kept: Timeframe


SHORT: Final = Width("s15", SHORT_S, Timeframe.M1)  # built from swaps, not from stored candles
BUCKET: Final = attrgetter("bucket")
WIDTHS: Final = {
    **{each.value: Width(each.value, WIDTH_S[each], each) for each in Timeframe},
    **{each.frame.value: Width(each.frame.value, each.width_s, each.made_of) for each in WIDE},
}


class Series(NamedTuple):
    """Consecutive candles of a mint that have a price, oldest first.

    has_older   whether older candles are stored
    closed      the number of candles before the first one, stored or not: those since tracking
                began, and imported ones.  For s15 and pools: 1 if there may be any, otherwise
                0.  In a series made by `widened`: the number of stored, narrower candles
    unpriced    the spans with volume but no price between *candles*, and also those before the
                first candle if no older candle is stored
    """

    candles: Sequence[SeriesCandle]
    has_older: bool
    closed: int
    unpriced: Sequence[UnpricedVolume] = ()


class PageOfCandles(NamedTuple):
    """A page of candles, oldest first.

    until   the latest start of a candle on the next page; None: no older page follows
    """

    candles: Sequence[SeriesCandle]
    until: UnixS | None


class Range(msgspec.Struct, frozen=True, kw_only=True):
    """The range of candles that a client requested, and how a page of it is made.

    since, until   the first and the last time at which a candle may begin, inclusive
    width          the length of the candles
    limit          the most candles of a page, which are the newest ones of the range
    is_filled      whether a span without a price has a flat candle at the close before it
    is_closed      whether the candle that is still open is left out
    """

    width: Width
    since: UnixS
    until: UnixS
    limit: int
    is_filled: bool = False
    is_closed: bool = False

    @property
    def kept_in_each(self) -> int:
        """The number of stored candles from which a candle of this length is made; 0 for s15."""
        return self.width.seconds // WIDTH_S[self.width.kept]

    @property
    def asked(self) -> AskedCandles:
        """The stored candles to read for this range.

        They include some older candles, which show whether the range is the last page.
        """
        kept_s = WIDTH_S[self.width.kept]
        end = self.until - self.until % self.width.seconds + self.width.seconds
        rows_max = (self.limit + 2) * self.width.seconds // kept_s
        return AskedCandles(self.width.kept, UnixS(end - kept_s), rows_max)

    def as_of(self, now: UnixS) -> "Range":
        """Return this range; if `is_closed`, it ends before the candles that are open at *now*."""
        if not self.is_closed:
            return self
        return replace(self, until=min(self.until, UnixS(now - self.width.seconds)))


def narrowed(kept: KeptCandles, asked: AskedCandles) -> KeptCandles | None:
    """Return the candles of *kept* that are in the range *asked*; None if *kept* has too few.

    kept   the candles of the same mint and timeframe, up to the newest one
    """
    end = bisect_right(kept.rows, asked.until, key=BUCKET)
    if end < asked.rows_max and kept.has_older:
        return None
    # If all rows begin later, the oldest one remains: see `KeptCandles.rows`.
    end = max(end, min(1, len(kept.rows)))
    begin = max(0, end - asked.rows_max)
    rows = kept.rows[begin:end]
    has_older = kept.has_older or begin > 0
    oldest = rows[0].bucket if has_older else 0
    return replace(
        kept,
        rows=rows,
        has_older=has_older,
        newer=kept.newer + len(kept.rows) - end,
        unpriced=[each for each in kept.unpriced if oldest <= each.bucket <= asked.until],
        waypoints=[
            each for each in kept.waypoints if rows and rows[0].bucket <= each.bucket <= asked.until
        ],
    )


def series_of(kept: KeptCandles, asked: AskedCandles) -> Series:
    """Return the candles for the range in *asked*, from stored candles and swaps not folded yet.

    If all candles begin later than requested, only the first candle of the mint is returned.
    """
    candles = list(kept.rows)
    unpriced = list(kept.unpriced)
    count = 0 if kept.state is None else _count(kept.state, asked.timeframe)
    closed = count - len(kept.rows) - kept.newer
    changed: list[CandleRow] = []
    if kept.tail and (not candles or bucket(asked.timeframe, kept.tail[0][0]) <= asked.until):
        changed = merged(kept.state, kept.in_sol, asked.timeframe, kept.tail)
    if changed:
        # The first changed candle may be the open one of the fold, and includes its swaps.
        candles = candles[: bisect_left(candles, changed[0].bucket, key=BUCKET)]
        unpriced = unpriced[: bisect_left(unpriced, changed[0].bucket, key=BUCKET)]
    for row in changed:
        if row.count and (row.bucket <= asked.until or not candles):
            candles.append(SeriesCandle(*astuple(row)))
        elif not row.count and row.bucket <= asked.until:
            unpriced.append(UnpricedVolume(row.bucket, row.buy_volume, row.sell_volume))
    over = max(0, len(candles) - asked.rows_max)
    has_older = kept.has_older or over > 0
    candles = candles[over:]
    if has_older and candles:
        unpriced = unpriced[bisect_left(unpriced, candles[0].bucket, key=BUCKET) :]
    return Series(candles, has_older, closed + over, unpriced)


def has_price(kept: KeptCandles) -> bool:
    """Return whether any swap of the mint has set a price since tracking began."""
    count = 0 if kept.state is None else _count(kept.state, Timeframe.M1)
    return count > 0 or any(price_of(swap) is not None for _, swap in kept.tail)


def widened(series: Series, width: Width) -> Series:
    """Return *series* merged into candles of *width*.

    The first candle is left out if its start may be missing.  A wide candle includes the volume of
    stored spans without a price.
    """
    if width.seconds == WIDTH_S[width.kept]:
        return series
    flows: dict[int, UnpricedVolume] = {}
    for at, buy, sell, _ in series.unpriced:
        begin = UnixS(at - at % width.seconds)
        before = flows.get(begin, UnpricedVolume(begin, 0, 0))
        flows[begin] = UnpricedVolume(begin, before.buy_volume + buy, before.sell_volume + sell)
    wide = []
    for _, group in groupby(series.candles, lambda candle: candle.bucket // width.seconds):
        joined = _joined(list(group), width.seconds)
        beside = flows.pop(joined.bucket, None)
        wide.append(joined if beside is None else _with_volume(joined, beside))
    unpriced = list(flows.values())
    if series.closed and wide:
        unpriced = [each for each in unpriced if each.bucket > wide[0].bucket]
        wide = wide[1:]
    return Series(wide, series.has_older, series.closed, unpriced)


def page_of(series: Series, within: Range, now: UnixS) -> PageOfCandles:
    """Return the page of the newest candles of *series* in the range *within*.

    now   ends the range if it is earlier than the end of *within*
    """
    within = within.as_of(now)
    candles: Sequence[SeriesCandle]
    if within.is_filled:
        candles = [*_before_the_first(series, within), *_filled(series, within, now)]
    else:
        candles = series.candles[: bisect_right(series.candles, within.until, key=BUCKET)]
    inside = candles[bisect_left(candles, within.since, key=BUCKET) :]
    if not series.candles and series.has_older and series.unpriced:  # no row has a price
        older = UnixS(series.unpriced[0].bucket - within.width.seconds)
        return PageOfCandles([], older if older >= within.since else None)
    page = inside[-within.limit :]
    is_last = len(page) == len(inside) and (
        not series.has_older or len(inside) < len(candles) or not candles
    )
    return PageOfCandles(page, None if is_last else UnixS(page[0].bucket - within.width.seconds))


def _count(state: bytes, timeframe: Timeframe) -> int:
    return int(read_state(state)["frames"][0][TIMEFRAMES.index(timeframe)]["count"])


def _joined(group: Sequence[SeriesCandle], width_s: int) -> SeriesCandle:
    """Return *group*, consecutive candles, merged into one of *width_s* seconds."""
    first = group[0]
    last = group[-1]
    highs = [each.high_sol for each in group if each.high_sol is not None]
    lows = [each.low_sol for each in group if each.low_sol is not None]
    # Prices of only some candles would not be those of the whole span.
    is_in_sol = len(highs) == len(group)
    imported = [each.imported_volume for each in group if each.imported_volume is not None]
    return SeriesCandle(
        UnixS(first.bucket - first.bucket % width_s),
        first.open,
        max(each.high for each in group),
        min(each.low for each in group),
        last.close,
        sum(each.buy_volume for each in group),
        sum(each.sell_volume for each in group),
        sum(each.count for each in group),
        first.open_sol if is_in_sol else None,
        max(highs) if is_in_sol else None,
        min(lows) if is_in_sol else None,
        last.close_sol if is_in_sol else None,
        sum(imported) if imported else None,
    )


def _with_volume(candle: SeriesCandle, beside: UnpricedVolume) -> SeriesCandle:
    return replace(
        candle,
        buy_volume=candle.buy_volume + beside.buy_volume,
        sell_volume=candle.sell_volume + beside.sell_volume,
    )


def _before_the_first(series: Series, within: Range) -> Iterator[SeriesCandle]:
    """Yield flat candles at the first price, for the spans from the first volume to this price.

    Without them, no candle would have the volume that was traded before the first price.
    """
    if series.closed or not series.candles or not series.unpriced:
        return
    first = series.candles[0]
    width_s = within.width.seconds
    end = min(first.bucket, within.until + 1)
    flows = {flow.bucket: flow for flow in series.unpriced}
    # As in `_filled`, candles that are too old for a page are not made.
    begin = max(series.unpriced[0].bucket, end - end % width_s - (within.limit + 1) * width_s)
    yield from _flat(flows, range(begin, end, width_s), first.open, first.open_sol)


def _filled(series: Series, within: Range, now: UnixS) -> Iterator[SeriesCandle]:
    """Yield the candles of *series* up to the end of the range, with flat candles in the gaps.

    No flat candle begins after *now* or before the first candle.
    """
    width_s = within.width.seconds
    end = min(within.until, now)
    flows = {flow.bucket: flow for flow in series.unpriced}
    candles = series.candles[: bisect_right(series.candles, within.until, key=BUCKET)]
    # A gap can last years, so candles that are too old for a page are not made.
    first = end - end % width_s - within.limit * width_s
    for n, candle in enumerate(candles):
        yield candle
        following = candles[n + 1].bucket if n + 1 < len(candles) else end + 1
        spans = range(max(candle.bucket + width_s, first), following, width_s)
        yield from _flat(flows, spans, candle.close, candle.close_sol)


def _flat(
    flows: Mapping[UnixS, UnpricedVolume], spans: range, price: float, sol: float | None
) -> Iterator[SeriesCandle]:
    """Yield a flat candle for each of *spans*, the starts of spans without a price.

    flows        the volume by start of the span
    price, sol   the price of these candles, in USD and in SOL
    """
    for at in map(UnixS, spans):
        _, buy, sell, imported = flows.get(at, UnpricedVolume(at, 0, 0))
        yield SeriesCandle(at, *(price,) * 4, buy, sell, 0, *(sol,) * 4, imported)


ATR_CANDLES: Final = 14
BOLLINGER_CANDLES: Final = 20
BOLLINGER_WIDTH: Final = 2.0
STOCHASTIC_CANDLES: Final = 14
SMOOTHED: Final = 3
SAME: Final = 1e-9  # part of an RSI value: values that differ by less count as equal
# After this number of candles, less than 1e-16 of the first value is left in Wilder's mean.
FORGOTTEN: Final = 500
# After this number of candles, (199 / 201) ** 3,000 = 9e-14 of the first value is left in an EMA
# of 200.
FORGOTTEN_BY_ALL: Final = 3_000

AVERAGES: Final = ("ema9", "ema21", "ema50", "ema200", "rsi", "macd")
# By indicator, the number of the first candle with a value, if older candles were dropped and no
# state is stored.
FORGOTTEN_AFTER: Final = dict(zip(AVERAGES, frames.FORGOTTEN, strict=False)) | {"stochRsi": 440}
FURTHER: Final = REPORTED[len(AVERAGES) + 1 :]  # fields after `fibonacci`: at present, none
NAMES: Final = (*REPORTED, "atr", "bollinger", "vwap", "stochRsi")


class Start(NamedTuple):
    """The candle of a series from which averages continue.

    first    the index of this candle in the series
    closed   the number of all candles of the mint before this candle
    acc      the accumulators after these candles
    """

    first: int
    closed: int
    acc: Floats


FROM_THE_FIRST: Final = Start(0, 0, np.zeros(kernels.ACC))


def lead(names: Collection[str], width_s: int) -> int:
    """Return the number of older candles from which the indicators *names* get exact values.

    width_s   the length of the candles in seconds
    """
    leads = {
        **dict.fromkeys(("fibonacci", *FURTHER), SWING),
        "atr": FORGOTTEN + ATR_CANDLES,
        "bollinger": BOLLINGER_CANDLES,
        "vwap": DAY_S // width_s,
        "stochRsi": SERVICE.rsi + STOCHASTIC_CANDLES + 2 * SMOOTHED,
    }
    return WAYPOINT_EVERY + max((leads.get(name, 0) for name in names), default=0)


def values_of(
    series: Series, start: Start, asked: Collection[AskedIndicator], count: int
) -> dict[str, Floats]:
    """Return the values of the indicators *asked* by their text, for candles from *start* on.

    There is a row for each candle: a number, or a number for each output of the indicator; NaN:
    unknown.  Only the newest *count* rows are complete: older ones can be NaN.
    """
    if not asked:
        return {}
    bars = bars_of(series.candles, is_whole=series.closed == 0)
    return {each.text: each.newest(bars, count)[start.first :] for each in asked}


def start_of(series: Series, waypoints: Sequence[Waypoint]) -> Start | None:
    """Return the first candle in *series* from which averages can continue; None if there is none.

    waypoints   stored accumulators of the mint, each from before a candle
    """
    if series.closed == 0:
        return FROM_THE_FIRST
    places = {candle.bucket: index for index, candle in enumerate(series.candles)}
    for waypoint in waypoints:
        index = places.get(waypoint.bucket)
        # Only then does the waypoint contain exactly the candles before this one.
        if index is not None and series.closed + index == waypoint.closed:
            return Start(index, waypoint.closed, np.frombuffer(waypoint.acc, "<f8").copy())
    return None


def filled_start(page: PageOfCandles, series: Series) -> int | None:
    """Return the index of the first candle of *page* with exact indicators; None if none has them.

    Gaps in the page were filled with flat candles.  No accumulators are stored for these, so
    averages begin with the page, and are exact to 1e-13 once older candles no longer affect them.

    series   the candles from which the page was filled
    """
    if page.until is None and series.closed == 0:
        return 0
    return FORGOTTEN_BY_ALL if len(page.candles) > FORGOTTEN_BY_ALL else None


def indicators_of(
    series: Series, start: Start, width_s: int, names: Collection[str]
) -> dict[str, Floats]:
    """Return the values of the indicators *names* at the candles of *series* from *start* on.

    There is a row for each candle: one number, or for `macd` (line, signal, histogram), for
    `fibonacci` the levels in the order of the report, for `bollinger` (upper, middle, lower), for
    `stochRsi` (k, d).  NaN: unknown.

    width_s   the length of the candles in seconds
    """
    highs = np.array([candle.high for candle in series.candles])
    lows = np.array([candle.low for candle in series.candles])
    closes = np.array([candle.close for candle in series.candles])
    averages = _averages(Candles(highs, lows, closes), start)
    found: dict[str, Floats] = dict(zip(AVERAGES, averages[:, :5].T, strict=False))
    found["macd"] = averages[:, 5:8]
    found |= dict(zip(FURTHER, averages[:, kernels.FURTHER :].T, strict=True))
    is_whole = series.closed == 0
    first = start.first
    if "fibonacci" in names:
        found["fibonacci"] = _fibonacci(highs, lows, is_whole=is_whole)[first:]
    if "atr" in names:
        found["atr"] = _atr(highs, lows, closes, is_whole=is_whole)[first:]
    if "bollinger" in names:
        found["bollinger"] = _bollinger(closes)[first:]
    if "vwap" in names:
        found["vwap"] = _vwap(series, width_s, (highs + lows + closes) / 3)[first:]
    if "stochRsi" in names:
        found["stochRsi"] = _stochastic(averages[:, 4])
    return {name: found[name] for name in names}


def _averages(candles: Candles, start: Start) -> Floats:
    part = Candles(*(np.ascontiguousarray(column[start.first :]) for column in candles))
    frame = np.zeros(1, kernels.FRAME)
    acc = start.acc.copy()
    frame["count"] = start.closed
    out = np.zeros((len(part.closes), kernels.READ))
    kernels.series(frame[0], acc, part, SERVICE, out)
    return out


def _windows(values: Floats, size: int, short: float) -> Floats:
    """Return, for each of *values*, the *size* values that end with it, as a row.

    short   replaces values before the first one
    """
    return sliding_window_view(np.concatenate([np.full(size - 1, short), values]), size)


def _fibonacci(highs: Floats, lows: Floats, *, is_whole: bool) -> Floats:
    """Return the Fibonacci levels at each candle, computed from the 100 candles that end with it.

    is_whole   whether the first candle is the first one of the mint: its levels are then computed
               from fewer candles; otherwise, levels of fewer than 100 candles are NaN
    """
    high = _windows(highs, SWING, -np.inf).max(axis=1)
    low = _windows(lows, SWING, np.inf).min(axis=1)
    span = high - low
    levels = [high - part * span for part in RETRACEMENTS]
    levels += [low + part * span for part in EXTENSIONS]
    found = np.column_stack([high, low, *levels])
    if not is_whole:
        found[: SWING - 1] = np.nan
    return found


def _atr(highs: Floats, lows: Floats, closes: Floats, *, is_whole: bool) -> Floats:
    found = np.full(len(closes), np.nan)
    before = closes[:-1]
    ranges = np.maximum(highs[1:], before) - np.minimum(lows[1:], before)
    if len(ranges) < ATR_CANDLES:
        return found
    mean = float(ranges[:ATR_CANDLES].mean())
    found[ATR_CANDLES] = mean
    for n, true_range in enumerate(ranges[ATR_CANDLES:].tolist(), ATR_CANDLES + 1):
        mean = (mean * (ATR_CANDLES - 1) + true_range) / ATR_CANDLES
        found[n] = mean
    if not is_whole:
        found[: FORGOTTEN + ATR_CANDLES] = np.nan
    return found


def _bollinger(closes: Floats) -> Floats:
    windows = _windows(closes, BOLLINGER_CANDLES, np.nan)
    middle = windows.mean(axis=1)
    spread = BOLLINGER_WIDTH * windows.std(axis=1)
    return np.column_stack([middle + spread, middle, middle - spread])


def _vwap(series: Series, width_s: int, typical: Floats) -> Floats:
    """Return, for each candle, the volume-weighted average price since its day began.

    NaN before the first trade of the day, and on a day whose start is not in *series*.
    """
    buckets = np.array([candle.bucket for candle in series.candles], np.int64)
    dollars = np.array(
        [c.buy_volume + c.sell_volume + (c.imported_volume or 0) for c in series.candles], float
    )
    days: Ints = buckets // DAY_S
    found = np.full(len(buckets), np.nan)
    for day in np.unique(days):
        of_day = days == day
        is_first_of_all = series.closed == 0 or series.candles[0].bucket < day * DAY_S
        if not is_first_of_all and series.candles[0].bucket > day * DAY_S + width_s - 1:
            continue
        paid = np.cumsum(dollars[of_day])
        tokens = np.cumsum(dollars[of_day] / typical[of_day])
        found[of_day] = np.divide(paid, tokens, out=np.full(len(paid), np.nan), where=tokens > 0)
    return found


def _stochastic(rsi: Floats) -> Floats:
    windows = _windows(rsi, STOCHASTIC_CANDLES, np.nan)
    least = windows.min(axis=1)
    most = windows.max(axis=1)
    span = most - least
    half = np.where(np.isnan(span), np.nan, 50.0)
    place = np.divide(100.0 * (rsi - least), span, out=half, where=span > SAME * most)
    k = _windows(place, SMOOTHED, np.nan).mean(axis=1)
    return np.column_stack([k, _windows(k, SMOOTHED, np.nan).mean(axis=1)])


def short_series(kept: KeptSwaps) -> Series:
    """Return the swaps in *kept* as candles of 15 seconds.

    The first candle is left out if its start may be missing.
    """
    frame = Frame(Timeframe.M1, [], SHORT_S)
    for time, swap in kept.swaps:
        frame.apply(time, price_of(swap), swap)
    rows = frame.changed()
    if not kept.is_whole:
        rows = rows[1:]
    priced = [SeriesCandle(*astuple(row)) for row in rows if row.count]
    unpriced = [
        UnpricedVolume(row.bucket, row.buy_volume, row.sell_volume) for row in rows if not row.count
    ]
    if not kept.is_whole and priced:
        unpriced = [each for each in unpriced if each.bucket > priced[0].bucket]
    return Series(priced, kept.has_older, 0 if kept.is_whole else 1, unpriced)


def pool_series(kept: KeptPools, pool: str, width: Width) -> Series:
    """Return the candles of *pool* in *kept*, merged into candles of *width*.

    The first one is left out if its start may be missing.  If the pool is not in the pool book,
    there are no candles.  The count of a candle includes swaps without a price.
    """
    book = next((one for one in kept.booked if one.pool == pool), None)
    if book is None or kept.time is None:
        return Series([], False, 0)  # noqa: FBT003
    key = key_of(pool)
    rows: list[Any] = [row for row in kept.rows if row.key == key]
    candles = [  # after its key, a row has the fields of a candle
        SeriesCandle(*(row.bucket, *row[2:], *(None,) * 4)) for row in rows if row.open is not None
    ]
    unpriced = [
        UnpricedVolume(row.bucket, row.buy_volume, row.sell_volume)
        for row in rows
        if row.open is None
    ]
    # Older candles of a pool are not stored.
    first_kept = bucket(Timeframe.M5, kept.time) - POOL_CANDLES_S
    closed = int(book.since <= first_kept)
    series = Series(candles, False, closed, unpriced)  # noqa: FBT003
    return widened(series, Width(width.name, width.seconds, Timeframe.M5))
