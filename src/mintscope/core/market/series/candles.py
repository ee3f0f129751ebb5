"""Candles as they are at the tip of the log: the folded ones, and what the tail adds to them."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import astuple, replace

from mintscope.base.primitives import UnixS
from mintscope.base.time import DAY_S, HOUR_S
from mintscope.core.market.engine.fold import merged, price_of, read_state
from mintscope.core.market.series.store import AskedCandles, KeptCandles, SeriesCandle
from mintscope.core.market.timeframe import TIMEFRAMES, WIDTH_S, Timeframe, bucket


class Width(NamedTuple):
    """How wide candles are, and the kept ones that they are made of."""

    name: str
    seconds: int
    kept: Timeframe


BUCKET: Final = attrgetter("bucket")
WIDTHS: Final = {
    **{each.value: Width(each.value, WIDTH_S[each], each) for each in Timeframe},
    "h4": Width("h4", 4 * HOUR_S, Timeframe.H1),
    "d1": Width("d1", DAY_S, Timeframe.H1),
}


class Series(NamedTuple):
    """Consecutive candles with a price, oldest first.

    has_older   older ones are kept
    closed      how many came before the first since tracking began, kept or not, imported ones too
    """

    candles: Sequence[SeriesCandle]
    has_older: bool
    closed: int


class PageOfCandles(NamedTuple):
    """Candles of a page, oldest first.

    until   the candles of the next page begin by then; None: nothing is left
    """

    candles: Sequence[SeriesCandle]
    until: UnixS | None


class Range(msgspec.Struct, frozen=True, kw_only=True):
    """Which candles a page may hold.

    since, until   a candle may begin then, both included
    limit          how many, the newest
    is_filled      a bucket without a price has a candle of the close before it
    is_closed      without the candle that is still open
    """

    width: Width
    since: UnixS
    until: UnixS
    limit: int
    is_filled: bool = False
    is_closed: bool = False

    @property
    def asked(self) -> AskedCandles:
        """What must be read for it: some more, to tell whether there are older ones."""
        kept_s = WIDTH_S[self.width.kept]
        end = self.until - self.until % self.width.seconds + self.width.seconds
        rows_max = (self.limit + 2) * self.width.seconds // kept_s
        return AskedCandles(self.width.kept, UnixS(end - kept_s), rows_max)

    def as_of(self, now: UnixS) -> "Range":
        """Return the range without what is still open at *now*, if it is of closed candles."""
        if not self.is_closed:
            return self
        return replace(self, until=min(self.until, UnixS(now - self.width.seconds)))


def narrowed(kept: KeptCandles, asked: AskedCandles) -> KeptCandles | None:
    """Return of *kept* what is *asked* for, as if no more had been read; None if it has too little.

    kept   of the same mint and timeframe, up to its newest candle
    """
    end = bisect_right(kept.rows, asked.until, key=BUCKET)
    begin = max(0, end - asked.rows_max)
    if end < asked.rows_max and kept.has_older:
        return None
    rows = kept.rows[begin:end]
    return replace(
        kept,
        rows=rows,
        has_older=kept.has_older or begin > 0,
        newer=kept.newer + len(kept.rows) - end,
        waypoints=[
            each for each in kept.waypoints if rows and rows[0].bucket <= each.bucket <= asked.until
        ],
    )


def series_of(kept: KeptCandles, asked: AskedCandles) -> Series:
    """Return what was *asked* for as of the tip: its newest candle is that of the report."""
    candles = list(kept.rows)
    count = 0 if kept.state is None else _count(kept.state, asked.timeframe)
    closed = count - len(kept.rows) - kept.newer
    changed = []
    if kept.tail and bucket(asked.timeframe, kept.tail[0][0]) <= asked.until:
        changed = [
            SeriesCandle(*astuple(row))
            for row in merged(kept.state, kept.in_sol, asked.timeframe, kept.tail)
            if row.count and row.bucket <= asked.until
        ]
    while changed and candles and candles[-1].bucket >= changed[0].bucket:
        candles.pop()
    candles += changed
    over = max(0, len(candles) - asked.rows_max)
    return Series(candles[over:], kept.has_older or over > 0, closed + over)


def has_price(kept: KeptCandles) -> bool:
    """Say whether any swap has set a price since tracking began, in any timeframe."""
    count = 0 if kept.state is None else _count(kept.state, Timeframe.M1)
    return count > 0 or any(price_of(swap) is not None for _, swap in kept.tail)


def widened(series: Series, width: Width) -> Series:
    """Return *series* in candles of *width*; one that may lack its beginning is left out.

    An hour in which no swap set a price has no candle, so its volume is in no wider one.
    """
    if width.seconds == WIDTH_S[width.kept]:
        return series
    wide = [
        _joined(list(group), width.seconds)
        for _, group in groupby(series.candles, lambda candle: candle.bucket // width.seconds)
    ]
    return Series(wide[1:] if series.closed else wide, series.has_older, series.closed)


def page_of(series: Series, within: Range, now: UnixS) -> PageOfCandles:
    """Return the newest candles of *series* that are *within* the range, as of *now*."""
    within = within.as_of(now)
    candles = series.candles[: bisect_right(series.candles, within.until, key=BUCKET)]
    if within.is_filled:
        candles = list(_filled(candles, within, now))
    inside = candles[bisect_left(candles, within.since, key=BUCKET) :]
    page = inside[-within.limit :]
    is_last = len(page) == len(inside) and (
        not series.has_older or len(inside) < len(candles) or not candles
    )
    return PageOfCandles(page, None if is_last else UnixS(page[0].bucket - within.width.seconds))


def _count(state: bytes, timeframe: Timeframe) -> int:
    return int(read_state(state)["frames"][0][TIMEFRAMES.index(timeframe)]["count"])


def _joined(group: Sequence[SeriesCandle], width_s: int) -> SeriesCandle:
    """Return one candle of consecutive ones."""
    first, last = group[0], group[-1]
    highs = [each.high_sol for each in group if each.high_sol is not None]
    lows = [each.low_sol for each in group if each.low_sol is not None]
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


def _filled(candles: Sequence[SeriesCandle], within: Range, now: UnixS) -> Iterator[SeriesCandle]:
    """Yield *candles*, and one for each empty bucket behind one of them, up to now."""
    width_s, end = within.width.seconds, min(within.until, now)
    # A gap may be of years: what no page of this range can hold is not made.
    first = end - end % width_s - within.limit * width_s
    for n, candle in enumerate(candles):
        yield candle
        following = candles[n + 1].bucket if n + 1 < len(candles) else end + 1
        for at in range(max(candle.bucket + width_s, first), following, width_s):
            yield _empty(candle, UnixS(at))


def _empty(before: SeriesCandle, at: UnixS) -> SeriesCandle:
    close, sol = before.close, before.close_sol
    return SeriesCandle(at, close, close, close, close, 0, 0, 0, sol, sol, sol, sol)
