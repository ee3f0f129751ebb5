"""GET /v1/token/{tokenAddress}/indicators: indicators of each candle, in pages."""

import asyncio
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from math import isnan
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec import UNSET
from msgspec.structs import replace

from mintscope.api.discovery.operation import sold_page
from mintscope.api.query import read_query
from mintscope.api.series import wire
from mintscope.api.series.series import look_of, range_of, read_series, read_supply, used
from mintscope.api.series.swaps import Made, SeriesShop, Wanted, made_of, not_tracked
from mintscope.api.v1 import mint_of
from mintscope.api.wire import encode_cursor
from mintscope.kit.errors import BadRequest
from mintscope.kit.http.request import Request
from mintscope.kit.http.response import Response
from mintscope.kit.primitives import MICRO_USD, Mint, UnixS
from mintscope.market.engine.given import Floats
from mintscope.market.engine.kernels import ACC
from mintscope.market.indicators import AskedIndicator, read
from mintscope.market.log import LogTip, Waypoint
from mintscope.market.report import Fibonacci, Macd
from mintscope.market.series.pools import SeriesCandle
from mintscope.market.series.series import (
    BUCKET,
    FORGOTTEN_AFTER,
    FORGOTTEN_BY_ALL,
    FROM_THE_FIRST,
    NAMES,
    SHORT,
    Range,
    Series,
    Start,
    filled_start,
    indicators_of,
    lead,
    page_of,
    short_series,
    start_of,
    values_of,
)
from mintscope.market.series.units import PriceUnit, Supply, priced_in

BESIDE_THE_PAGE: Final = 2  # candles added to a page, because the open one may be omitted
SHAPES: Final[dict[str, Any]] = {
    "macd": Macd,
    "fibonacci": Fibonacci,
    "bollinger": wire.BollingerPoint,
}


@dataclass(frozen=True, slots=True)
class IndicatorRoutes:
    """The handler of GET /v1/token/{tokenAddress}/indicators."""

    shop: SeriesShop

    @sold_page(
        "/v1/token/{tokenAddress}/indicators", wire.IndicatorPage, query=wire.IndicatorsQuery
    )
    async def get_indicators(self, request: Request) -> Response:
        """Indicators candle by candle, up to 1,000 for a credit; a page without points is free.

        Returns the indicators of a Solana token candle by candle, oldest first, up to 1,000 points
        a page: those of the report, ATR, Bollinger bands, VWAP, stochastic RSI, and the indicators
        with parameters in names, such as sma(50) or adx(14). Costs one credit or one payment a
        page, and nothing for a page without points; errors cost nothing. A value is null while
        there are too few candles. Times are Unix seconds.
        """
        caller = await self.shop.gate.admit_buyer(request)
        mint = mint_of(request.path_params["tokenAddress"])
        query = read_query(request, wire.IndicatorsQuery)
        wanted = _wanted(query.names, unit=query.in_)
        within = range_of(query)

        read_page = _filled_page if within.is_filled else _page
        # Without a waypoint, averages begin at the oldest candle read, so `more` is so large that
        # candles before it have no effect on the page.
        is_whole = within.is_filled or not wanted.has_waypoints(within)
        more = FORGOTTEN_BY_ALL if is_whole else lead(wanted.plain, within.width.seconds)
        more += wanted.lead

        async def make() -> Made:
            supply = await read_supply(self.shop.reader, mint, query.in_)
            found = await self._read(mint, within, query.in_, supply, more)
            if not wanted.asked and not is_whole:
                page = read_page(mint, wanted, within, found)
            else:  # twenty indicators, or 4,000 candles, take milliseconds, so use a thread
                page = await asyncio.to_thread(read_page, mint, wanted, within, found)
            if query.in_ != "usd":
                page.in_ = query.in_
            if supply is not None:
                page.supply = used(supply)
            return made_of(found.tip, page, is_empty=not page.points)

        asked = Wanted(mint, "indicators", query)
        look = look_of(self.shop, mint, within, query.in_)
        return await self.shop.sell(request, caller, asked, make, look)

    async def _read(
        self,
        mint: Mint,
        within: Range,
        unit: PriceUnit,
        supply: Supply | None,
        more: int,
    ) -> "_Read":
        """Return the candles of the page *within*, and *more* before them, to compute values."""
        if within.width is SHORT:
            end = UnixS(within.until - within.until % SHORT.seconds + SHORT.seconds - 1)
            swaps = await self.shop.reader.kept_swaps(mint, end, within.limit + 2 + more)
            if swaps is None:
                raise not_tracked(mint)
            made = await asyncio.to_thread(lambda: priced_in(short_series(swaps), unit, supply))
            if not made.candles:
                await self.shop.read_priced(mint)  # raises if the token has no price at all
            return _Read(swaps.tip, made, ())
        asked = within.asked
        asked = asked._replace(rows_max=asked.rows_max + more * within.kept_in_each)
        kept = await self.shop.read_priced(mint, asked)
        series = await read_series(kept, asked, within, unit, supply)
        return _Read(kept.tip, series, kept.waypoints)


class _Read(NamedTuple):
    """The result of a read: candles, waypoints to start from, and the newest slot of the log."""

    tip: LogTip
    series: Series
    waypoints: Sequence[Waypoint]


class Indicators(NamedTuple):
    """The indicators that a client requests, and whether each point has its candle."""

    plain: Sequence[str]
    asked: Sequence[AskedIndicator]
    has_candle: bool
    unit: PriceUnit

    @property
    def lead(self) -> int:
        """The number of candles before a page that the indicators with parameters need."""
        return max((each.lead for each in self.asked), default=0)

    def has_waypoints(self, within: Range) -> bool:
        """Return whether indicators of *within* can start from stored waypoints."""
        # Waypoints are in USD, and stored only for the timeframes of stored candles.
        return self.unit == "usd" and within.kept_in_each == 1

    def of(self, series: Series, start: Start, within: Range) -> dict[str, Floats]:
        """Return the values of each indicator by name, a row for each candle from *start* on."""
        width_s = within.width.seconds
        found = indicators_of(series, start, width_s, set(self.plain)) if self.plain else {}
        if not within.is_filled and series.closed and not self.has_waypoints(within):
            # The first values depend on candles before the series, so they become null.
            for name in FORGOTTEN_AFTER.keys() & found.keys():
                found[name][: FORGOTTEN_AFTER[name] - 1] = np.nan
        return found | values_of(series, start, self.asked, within.limit + BESIDE_THE_PAGE)


def _wanted(names: Sequence[str], unit: PriceUnit) -> Indicators:
    """Return the indicators that a request's field `names` lists.

    Raises BadRequest for an unknown name or parameter.
    """
    try:
        asked = [read(name) for name in dict.fromkeys(names) if name not in {*NAMES, wire.CANDLE}]
    except ValueError as problem:
        raise BadRequest(f"names: {problem}") from None
    plain = [name for name in names if name in NAMES]
    return Indicators(plain, asked, wire.CANDLE in names, unit)


def _filled_page(mint: Mint, wanted: Indicators, within: Range, found: _Read) -> wire.IndicatorPage:
    """Return a page of indicator values with a candle in every span, even one without a price."""
    series = _since_the_first_price(found.series)
    now = found.tip.time or UnixS(0)
    # Averages begin before the page, so the range is extended to candles before `within.since`.
    whole = replace(within, since=UnixS(0), limit=within.limit + FORGOTTEN_BY_ALL + wanted.lead)
    page = page_of(series, whole, now)
    first = filled_start(page, series)
    if first is None or not page.candles:
        return wire.IndicatorPage(mint, within.width.name, [], None, None)
    # If there are older pages, this is no whole series, even if *series* has the first candle.
    closed = series.closed if page.until is None else max(1, series.closed)
    filled = Series(page.candles, page.until is not None, closed)
    values = wanted.of(filled, Start(0, 0, np.zeros(ACC)), within)
    since = bisect_left(page.candles, within.since, key=BUCKET)
    shown = max(first, since, len(page.candles) - within.limit)
    points = _points(
        page.candles[shown:],
        UnixS(now - within.width.seconds),
        {name: of[shown:] for name, of in values.items()},
        has_candle=wanted.has_candle,
    )
    # Older points would be inexact, so `first` is the oldest point of any page.
    is_cut = page.until is None and first > 0 and shown == first
    is_last = shown in {0, since} or is_cut
    until = None if is_last or not points else UnixS(points[0].t - within.width.seconds)
    cursor = None if until is None else encode_cursor(wire.Before(within.width.name, until))
    exact_from = page.candles[first].bucket if is_cut else None
    return wire.IndicatorPage(mint, within.width.name, points, exact_from, cursor)


def _since_the_first_price(series: Series) -> Series:
    """Return *series* without the trades before the first price, which indicators ignore."""
    spans = series.unpriced if series.candles else ()
    later = [span for span in spans if span.bucket > series.candles[0].bucket]
    return series._replace(unpriced=later)


def _page(mint: Mint, wanted: Indicators, within: Range, found: _Read) -> wire.IndicatorPage:
    """Return a page of indicator values, beginning with the first candle whose values are exact."""
    series = found.series
    page = page_of(series, within, found.tip.time or UnixS(0))
    start: Start | None = FROM_THE_FIRST
    if wanted.has_waypoints(within):
        start = start_of(series, found.waypoints)
    if start is None or not page.candles:
        return wire.IndicatorPage(mint, within.width.name, [], None, None)
    values = wanted.of(series, start, within)
    exact = series.candles[start.first].bucket
    shown = page.candles[bisect_left(page.candles, exact, key=BUCKET) :]
    points = []
    if shown:
        first = bisect_left(series.candles, shown[0].bucket, key=BUCKET) - start.first
        values = {name: of[first:] for name, of in values.items()}
        ended = UnixS((found.tip.time or 0) - within.width.seconds)
        points = _points(shown, ended, values, has_candle=wanted.has_candle)
    # Older candles were deleted, so no page has points before `exact`.
    is_cut = not series.has_older and start.first > 0 and page.candles[0].bucket <= exact
    until = None if is_cut else page.until
    cursor = None if until is None else encode_cursor(wire.Before(within.width.name, until))
    return wire.IndicatorPage(mint, within.width.name, points, exact if is_cut else None, cursor)


def _points(
    candles: Sequence[SeriesCandle],
    ended: UnixS,
    values: dict[str, Floats],
    *,
    has_candle: bool,
) -> list[wire.IndicatorPoint]:
    """Return a point for each of *candles*; *values* has at least one row for each.

    ended    a candle that begins after this time is open
    """
    columns = [
        _column(name, values[name][: len(candles)]) if name in values else repeat(UNSET)
        for name in NAMES
    ]
    asked = {name: _asked_column(name, of) for name, of in values.items() if name not in NAMES}
    by_text = [dict(zip(asked, row, strict=True)) for row in zip(*asked.values(), strict=True)]
    columns.append(by_text or repeat(UNSET))
    columns.append([_candle_of(each) for each in candles] if has_candle else repeat(UNSET))
    rows = zip(candles, *columns, strict=False)  # columns that were not requested are endless
    return [wire.IndicatorPoint(c.bucket, c.bucket > ended, *row) for c, *row in rows]


def _candle_of(candle: SeriesCandle) -> wire.CandlePoint:
    volume = candle.buy_volume + candle.sell_volume + (candle.imported_volume or 0)
    return wire.CandlePoint(candle.open, candle.high, candle.low, candle.close, volume / MICRO_USD)


def _asked_column(text: str, values: Floats) -> list[Any]:
    """Return the JSON values of an indicator whose name, *text*, has parameters."""
    outputs = read(text).indicator.outputs
    if not outputs:
        return _column(text, values)
    sent = values.astype(object)
    sent[np.isnan(values)] = None
    return [
        None if row.count(None) == len(row) else dict(zip(outputs, row, strict=True))
        for row in sent.tolist()
    ]


def _column(name: str, values: Floats) -> list[Any]:
    """Return the JSON values of the indicator *name*: null if a value is not a number."""
    if name == "stochRsi":
        return [
            None if isnan(k) else wire.StochasticPoint(k, None if isnan(d) else d)
            for k, d in values.tolist()
        ]
    if name in SHAPES:
        shape = SHAPES[name]
        return [None if isnan(row[0]) else shape(*row) for row in values.tolist()]
    sent = values.astype(object)  # an array of floats cannot contain None
    sent[np.isnan(values)] = None
    found: list[Any] = sent.tolist()
    return found
