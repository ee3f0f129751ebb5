"""The values of the page of a token, read from the market: the same parts that the API reads."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from typing import Final

import msgspec

from mintscope.base.errors import DataStale, TokenNotFound
from mintscope.base.primitives import Mint, Slot, UnixS
from mintscope.core.market.listing.listed import ListLine, ListQuestion
from mintscope.core.market.mint_facts import MintFacts
from mintscope.core.market.report import PARTIAL, TokenReport
from mintscope.core.market.series.candles import WIDTHS, Range, series_of
from mintscope.core.market.series.indicators import AVERAGES, indicators_of, lead, start_of
from mintscope.core.market.series.store import LoggedSwap, SeriesCandle
from mintscope.core.market.timeframe import Timeframe
from mintscope.edges.web.figures.chart import ChartPoint
from mintscope.edges.web.market import MarketParts

POINTS: Final = 150
SWAPS: Final = 12
NAMESAKES_MAX: Final = 20  # tokens that bear this one's address as their name
MICRO: Final = 1e6
AT_LAST: Final = UnixS(10**10)
REPORT: Final = msgspec.json.Decoder(TokenReport)


@dataclass(frozen=True, slots=True)
class ToldReport:
    """A report and how fresh it is."""

    report: TokenReport
    slot: Slot
    age_ms: int


@dataclass(frozen=True, slots=True)
class TokenReading:
    """Reads *market*."""

    market: MarketParts

    async def report(self, mint: Mint) -> ToldReport:
        """Return the report of *mint*.

        Raises TokenNotFound, InsufficientData, DataStale and ServiceUnavailable.
        """
        read = await self.market.reports.read(mint, PARTIAL)
        if self.market.is_stale(read.age_ms):
            raise DataStale(
                f"The newest data is {read.age_ms // 1000} s old; older than"
                f" {self.market.stale_after_s:g} s is not shown."
            )
        return ToldReport(REPORT.decode(read.body), read.slot, read.age_ms)

    async def points(
        self, mint: Mint, timeframe: Timeframe, limit: int = POINTS
    ) -> Sequence[ChartPoint]:
        """Return the newest *limit* candles and their indicators, oldest first.

        Raises TokenNotFound and ServiceUnavailable.
        """
        width = WIDTHS[timeframe.value]
        within = Range(width=width, since=UnixS(0), until=AT_LAST, limit=limit)
        rows_max = within.asked.rows_max + lead(AVERAGES, width.seconds)
        asked = within.asked._replace(rows_max=rows_max)
        kept = await self.market.series.candles(mint, asked)
        if kept is None:
            raise TokenNotFound(f"This service does not track {mint}.")
        series = series_of(kept, asked)
        start = start_of(series, kept.waypoints)
        if start is None or not series.candles:
            return [point_of(candle) for candle in series.candles[-limit:]]
        found = indicators_of(series, start, width.seconds, AVERAGES)
        columns = [*(found[name] for name in AVERAGES[:5]), *found["macd"].T]
        rows = list(zip(*(column.tolist() for column in columns), strict=True))
        first = max(0, len(series.candles) - limit)
        return [
            point_of(candle, *rows[place - start.first] if place >= start.first else ())
            for place, candle in enumerate(series.candles[first:], first)
        ]

    async def newest(self, mint: Mint, timeframe: Timeframe) -> Sequence[ChartPoint]:
        """Return the newest two candles, without indicators; none where *mint* is not tracked."""
        within = Range(width=WIDTHS[timeframe.value], since=UnixS(0), until=AT_LAST, limit=2)
        kept = await self.market.series.candles(mint, within.asked)
        if kept is None:
            return []
        return [point_of(candle) for candle in series_of(kept, within.asked).candles[-2:]]

    async def swaps(self, mint: Mint) -> Sequence[LoggedSwap]:
        """Return the newest swaps, newest first; none where *mint* is not tracked."""
        logged = await self.market.series.swaps(mint, None, SWAPS)
        return () if logged is None else logged.swaps

    async def facts(self, mint: Mint) -> MintFacts | None:
        """Return what the chain says of *mint*; None before it was asked.

        Raises TokenNotFound and ServiceUnavailable.
        """
        return await self.market.lists.facts_of(mint)

    async def listed(self, mint: Mint) -> ListLine | None:
        """Return the line of *mint* in the list of tokens, as of a final slot; None without one.

        Raises ServiceUnavailable while the list is being loaded.
        """
        asked = ListQuestion(text=mint, limit=NAMESAKES_MAX)
        page = await asyncio.to_thread(self.market.lists.newest().page, asked)
        return next((line for line in page.lines if line.listed.mint == mint), None)


def point_of(candle: SeriesCandle, *values: float) -> ChartPoint:
    """Return *candle* as it is drawn, with the *values* of its indicators where they are known."""
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


def last_trade(points: Sequence[ChartPoint], swaps: Sequence[LoggedSwap]) -> UnixS | None:
    """Return when anything was last traded that counts as volume, as far as these show."""
    times = [swap.time for swap in swaps if swap.swap.volume]
    times += [UnixS(point.t) for point in points if point.bought or point.sold]
    return max(times, default=None)
