"""Reads the reports, candles and swaps that token pages show, with the numbers of the API."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from typing import Final, NamedTuple

import msgspec
import numpy as np

from mintscope.kit.errors import DataStale, TokenNotFound
from mintscope.kit.primitives import Mint, Slot, UnixS
from mintscope.market.engine import kernels
from mintscope.market.engine.frames import SHORT_SPANS, SPAN, short_values
from mintscope.market.report import PARTIAL, ReportKind, TokenReport
from mintscope.market.screening.listed import ListLine, ListQuestion
from mintscope.market.series.pools import KeptSwaps, LoggedSwap, SeriesCandle
from mintscope.market.series.series import (
    AVERAGES,
    FORGOTTEN,
    SHORT,
    WIDTHS,
    Range,
    Start,
    Width,
    indicators_of,
    lead,
    series_of,
    short_series,
    start_of,
    widened,
)
from mintscope.market.timeframe import WIDTH_S, Timeframe
from mintscope.site.chart import ChartPoint
from mintscope.site.sol import MarketParts

CHARTED: Final = {SHORT.name: SHORT, **WIDTHS}
POINTS: Final = 150
NEWEST: Final = 2
SWAPS: Final = 12
NAMESAKES_MAX: Final = 20  # the most tokens to search: a name can be the address of another token
MICRO: Final = 1e6
AT_LAST: Final = UnixS(10**10)
REPORT: Final = msgspec.json.Decoder(TokenReport)


@dataclass(frozen=True, slots=True)
class AgedReport:
    """A report, its slot, and the age of that slot in milliseconds."""

    report: TokenReport
    slot: Slot
    age_ms: int


class DrawnPoints(NamedTuple):
    """Candles and indicators, oldest first; *has_older* states whether there are older candles."""

    points: Sequence[ChartPoint]
    has_older: bool


@dataclass(frozen=True, slots=True)
class TokenReading:
    """Reads the data of token pages from *market*."""

    market: MarketParts

    async def report(self, mint: Mint, kind: ReportKind = PARTIAL) -> AgedReport:
        """Return the report of *mint*.

        Raises TokenNotFound, InsufficientData, DataStale and ServiceUnavailable.
        """
        read = await self.market.reports.read(mint, kind)
        if self.market.is_stale(read.age_ms):
            raise DataStale(
                f"The newest data is {read.age_ms // 1000} s old; older than"
                f" {self.market.stale_after_s:g} s is not shown."
            )
        return AgedReport(REPORT.decode(read.body), read.slot, read.age_ms)

    async def points(
        self, mint: Mint, width: Width, before: UnixS = AT_LAST, limit: int = POINTS
    ) -> DrawnPoints:
        """Return the newest *limit* candles before *before*, and their indicators.

        Averages of 30 min, 4 h and 1 d are computed from the oldest stored candle on, or from so
        far back that the start no longer matters; EMA 200 would still depend on the start, so it is
        omitted unless the series begins with the first candle of *mint*.
        Averages of 15 s cover the 15 minutes up to a candle, as in a report.
        Raises TokenNotFound and ServiceUnavailable.
        """
        if width is SHORT:
            return await self._short_points(mint, UnixS(before - 1), limit)
        within = Range(width=width, since=UnixS(0), until=UnixS(before - 1), limit=limit)
        is_wide = width.seconds > WIDTH_S[width.kept]
        over = FORGOTTEN if is_wide else lead(AVERAGES, width.seconds)
        per_candle = width.seconds // WIDTH_S[width.kept]
        asked = within.asked._replace(rows_max=within.asked.rows_max + over * per_candle)
        kept = await self.market.series.candles(mint, asked)
        if kept is None:
            raise TokenNotFound(f"This service does not track {mint}.")
        series = widened(series_of(kept, asked), width)
        candles = [each for each in series.candles if each.bucket < before]
        first = max(0, len(candles) - limit)
        has_older = series.has_older or first > 0
        if is_wide:
            start: Start | None = Start(0, 0, np.zeros(kernels.ACC))
        else:
            start = start_of(series, kept.waypoints)
        if start is None or not candles:
            return DrawnPoints([point_of(candle) for candle in candles[-limit:]], has_older)
        found = indicators_of(series, start, width.seconds, AVERAGES)
        if is_wide and series.closed:
            found["ema200"][:] = np.nan
        columns = [*(found[name] for name in AVERAGES[:5]), *found["macd"].T]
        rows = list(zip(*(column.tolist() for column in columns), strict=True))
        points = [
            point_of(candle, *rows[place - start.first] if place >= start.first else ())
            for place, candle in enumerate(candles[first:], first)
        ]
        return DrawnPoints(points, has_older)

    async def _short_points(self, mint: Mint, until: UnixS, limit: int) -> DrawnPoints:
        """Return the 15 s candles up to *until*, built from the stored swaps."""
        asked = limit + SHORT_SPANS  # the oldest candle needs earlier ones for its averages
        swaps = await self.market.series.kept_swaps(mint, until, asked + 1)
        if swaps is None:
            raise TokenNotFound(f"This service does not track {mint}.")
        # Up to 100,000 swaps may take 100 ms: a thread keeps other pages from waiting.
        return await asyncio.to_thread(_short_points, swaps, limit)

    async def newest(self, mint: Mint, width: Width) -> Sequence[ChartPoint]:
        """Return the newest two candles, without indicators; empty if *mint* is not tracked."""
        if width is SHORT:
            swaps = await self.market.series.kept_swaps(mint, AT_LAST, NEWEST + 1)
            short = () if swaps is None else short_series(swaps).candles
            return [point_of(candle) for candle in short[-NEWEST:]]
        within = Range(width=width, since=UnixS(0), until=AT_LAST, limit=NEWEST)
        kept = await self.market.series.candles(mint, within.asked)
        if kept is None:
            return []
        series = widened(series_of(kept, within.asked), width)
        return [point_of(candle) for candle in series.candles[-NEWEST:]]

    async def swaps(self, mint: Mint) -> Sequence[LoggedSwap]:
        """Return the newest swaps, newest first; empty if *mint* is not tracked."""
        logged = await self.market.series.swaps(mint, None, SWAPS)
        return () if logged is None else logged.swaps

    async def listed(self, mint: Mint) -> ListLine | None:
        """Return the list entry of *mint*, as of a final slot, or None if *mint* is not listed.

        Raises ServiceUnavailable while the list is loading.
        """
        asked = ListQuestion(text=mint, limit=NAMESAKES_MAX)
        page = await asyncio.to_thread(self.market.lists.newest().page, asked)
        return next((line for line in page.lines if line.listed.mint == mint), None)


def kind_of(width: Width) -> ReportKind:
    """Return the kind of report that has the indicators of a chart with candles of *width*."""
    return PARTIAL if width.name in set(Timeframe) else PARTIAL._replace(timeframes=(width.name,))


def _short_points(swaps: KeptSwaps, limit: int) -> DrawnPoints:
    series = short_series(swaps)
    rows = [(each.bucket, each.high, each.low, each.close) for each in series.candles]
    spans = np.array(rows, dtype=SPAN)
    points = []
    for n, candle in enumerate(series.candles[-limit:], max(0, len(rows) - limit)):
        around = spans[max(0, n - SHORT_SPANS + 1) : n + 1]
        values = short_values(around, candle.bucket, leaves_out_open=False)
        points.append(point_of(candle, *values[: kernels.AVERAGES].tolist()))
    return DrawnPoints(points, series.has_older or len(rows) > limit)


def point_of(candle: SeriesCandle, *values: float) -> ChartPoint:
    """Return *candle* as a chart point; NaN in the indicator *values* becomes None."""
    return ChartPoint(
        candle.bucket,
        candle.open,
        candle.high,
        candle.low,
        candle.close,
        candle.buy_volume / MICRO,
        candle.sell_volume / MICRO,
        (candle.imported_volume or 0) / MICRO,
        *(None if isnan(value) else value for value in values),
    )
