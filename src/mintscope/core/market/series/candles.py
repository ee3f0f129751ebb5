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
from mintscope.core.market.log import CandleRow
from mintscope.core.market.series.store import (
    AskedCandles,
    KeptCandles,
    SeriesCandle,
    UnpricedVolume,
)
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
    unpriced    the spans without a price among them, and before the first if nothing is older
    """

    candles: Sequence[SeriesCandle]
    has_older: bool
    closed: int
    unpriced: Sequence[UnpricedVolume] = ()


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
    is_filled      a bucket without a price has a candle of the close before it, and its volume
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
        """The rows to read for it: some more, to see whether there are older ones."""
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
    if end < asked.rows_max and kept.has_older:
        return None
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
    """Return what was *asked* for as of the tip: its newest candle is that of the report.

    If the first candle of all begins later, it is that one.
    """
    candles = list(kept.rows)
    unpriced = list(kept.unpriced)
    count = 0 if kept.state is None else _count(kept.state, asked.timeframe)
    closed = count - len(kept.rows) - kept.newer
    changed: list[CandleRow] = []
    if kept.tail and (not candles or bucket(asked.timeframe, kept.tail[0][0]) <= asked.until):
        changed = merged(kept.state, kept.in_sol, asked.timeframe, kept.tail)
    if changed:
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
    """Say whether any swap has set a price since tracking began, in any timeframe."""
    count = 0 if kept.state is None else _count(kept.state, Timeframe.M1)
    return count > 0 or any(price_of(swap) is not None for _, swap in kept.tail)


def widened(series: Series, width: Width) -> Series:
    """Return *series* in candles of *width*; one that may lack its beginning is left out.

    The volume of an hour in which no swap set a price is in the wider one.
    """
    if width.seconds == WIDTH_S[width.kept]:
        return series
    flows: dict[int, UnpricedVolume] = {}
    for at, buy, sell in series.unpriced:
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
    """Return the newest candles of *series* that are *within* the range, as of *now*."""
    within = within.as_of(now)
    candles: Sequence[SeriesCandle]
    if within.is_filled:
        candles = [*_before_the_first(series, within), *_filled(series, within, now)]
    else:
        candles = series.candles[: bisect_right(series.candles, within.until, key=BUCKET)]
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
    first = group[0]
    last = group[-1]
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


def _with_volume(candle: SeriesCandle, beside: UnpricedVolume) -> SeriesCandle:
    return replace(
        candle,
        buy_volume=candle.buy_volume + beside.buy_volume,
        sell_volume=candle.sell_volume + beside.sell_volume,
    )


def _before_the_first(series: Series, within: Range) -> Iterator[SeriesCandle]:
    """Yield a candle of the first price for each bucket from the first that was traded in.

    Else what was traded before the first price would be in no candle.
    """
    if series.closed or not series.candles or not series.unpriced:
        return
    first = series.candles[0]
    width_s = within.width.seconds
    price = first.open
    sol = first.open_sol
    end = min(first.bucket, within.until + 1)
    flows = {flow.bucket: flow for flow in series.unpriced}
    begin = max(series.unpriced[0].bucket, end - end % width_s - (within.limit + 1) * width_s)
    for at in range(begin, end, width_s):
        flow = flows.get(UnixS(at), UnpricedVolume(UnixS(at), 0, 0))
        yield _flat(flow, price, sol)


def _filled(series: Series, within: Range, now: UnixS) -> Iterator[SeriesCandle]:
    """Yield the candles, and one for each bucket behind one of them that has none, up to now."""
    width_s = within.width.seconds
    end = min(within.until, now)
    flows = {flow.bucket: flow for flow in series.unpriced}
    candles = series.candles[: bisect_right(series.candles, within.until, key=BUCKET)]
    # A gap may be of years: what no page of this range can hold is not made.
    first = end - end % width_s - within.limit * width_s
    for n, candle in enumerate(candles):
        yield candle
        following = candles[n + 1].bucket if n + 1 < len(candles) else end + 1
        for at in range(max(candle.bucket + width_s, first), following, width_s):
            flow = flows.get(UnixS(at), UnpricedVolume(UnixS(at), 0, 0))
            yield _flat(flow, candle.close, candle.close_sol)


def _flat(flow: UnpricedVolume, price: float, sol: float | None) -> SeriesCandle:
    """Return the candle of a span in which nothing set another price."""
    prices = (price,) * 4
    in_sol = (sol,) * 4
    return SeriesCandle(flow.bucket, *prices, flow.buy_volume, flow.sell_volume, 0, *in_sol)
