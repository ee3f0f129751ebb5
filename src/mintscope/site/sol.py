"""SOL and the other market data that pages show.

The numbers of SOL are rendered once per slot, for all readers.
"""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec
from markupsafe import Markup

from mintscope.api.events import Streams
from mintscope.credits.ledger import CreditLedger
from mintscope.kit.errors import ServiceError
from mintscope.kit.limits import Limits
from mintscope.kit.primitives import Mint, Slot, UnixS
from mintscope.kit.time import MINUTE_S, SECOND_MS
from mintscope.market.follow.list_cache import ListCache
from mintscope.market.report import Reports, TokenReport
from mintscope.market.series.holders import Holders, no_holders
from mintscope.market.series.pools import SeriesCandle, SeriesReader
from mintscope.market.series.series import WIDTHS, Range, page_of, series_of
from mintscope.site.figures import draw_area, short_price
from mintscope.solana.blocks import WSOL

FREE: frozenset[Mint] = frozenset({Mint(WSOL)})


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketParts:
    """The parts of the market that pages use.

    reports               reports of tokens as of the last applied slot
    series                candles and swaps
    lists                 all tokens, and their on-chain facts
    streams               sends reports when they change; pages use a part of the capacity
    ledger                charges the credit for a view or a backtest
    limits                counts views and other requests, across all processes that share a store
    last_holders          returns the stored holders of a token, without a request to a node; None
                          if none are stored
    degraded_after_s      age, in seconds, above which data is marked as old
    stale_after_s         age, in seconds, above which data is not shown
    showcase              tokens that are free for all visitors, besides wrapped SOL
    free_views_per_day    free views of other tokens per IP address of a client
    tracks_per_day        tokens per day that a user can add to the tracked tokens without approval
    live_pages_max        maximum number of open pages with live updates
    """

    reports: Reports
    series: SeriesReader
    lists: ListCache
    streams: Streams
    ledger: CreditLedger
    limits: Limits
    last_holders: Callable[[Mint], Holders | None] = no_holders
    degraded_after_s: float = 30.0
    stale_after_s: float = 300.0
    showcase: AbstractSet[Mint] = FREE
    free_views_per_day: int = 20
    tracks_per_day: int = 0
    live_pages_max: int = 500
    has_mcp: bool = False

    def is_free(self, mint: Mint) -> bool:
        """Return whether the numbers of *mint* are free for all visitors."""
        return mint in FREE or mint in self.showcase

    def is_degraded(self, age_ms: int) -> bool:
        """Return whether data of age *age_ms* must be marked as old."""
        return age_ms > self.degraded_after_s * SECOND_MS

    def is_stale(self, age_ms: int) -> bool:
        """Return whether data of age *age_ms* is too old to be shown."""
        return age_ms > self.stale_after_s * SECOND_MS


SOL: Final = Mint(WSOL)
MINUTES: Final = 60
REPORT: Final = msgspec.json.Decoder(TokenReport)


class SolNow(NamedTuple):
    """The price and other numbers of SOL as of *slot*, as pages show them.

    change    price change within the last hour, as a fraction; None if unknown
    written   some values of the report, in JSON as in the API
    age_ms    age of the slot when SOL was read; *is_late*: whether it must be marked as old
    """

    report: TokenReport
    slot: Slot
    age_ms: int
    change: float | None
    chart: Markup
    written: Mapping[str, str]
    is_late: bool = False


@dataclass(slots=True)
class LiveSol:
    """Reads the price, the candles and further numbers of SOL that pages show, from *market*."""

    market: MarketParts
    _newest: SolNow | None = None

    async def read(self) -> SolNow | None:
        """Return the current price and numbers of SOL; None if unknown or too old to be shown."""
        try:
            read = await self.market.reports.read(SOL)
            if self.market.is_stale(read.age_ms):
                return None
            kept = self._newest
            if kept is None or kept.slot != read.slot:
                report = REPORT.decode(read.body)
                candles = await self._last_hour(report.data_span.to)
                kept = _drawn(report, read.slot, candles)
                self._newest = kept
        except (ServiceError, msgspec.ValidationError):
            return None
        return kept._replace(age_ms=read.age_ms, is_late=self.market.is_degraded(read.age_ms))

    async def _last_hour(self, now: UnixS) -> Sequence[SeriesCandle]:
        """Return 1-minute candles of the last hour; minutes without trades have flat candles."""
        width = WIDTHS["m1"]
        minute = UnixS(now - now % MINUTE_S)
        since = UnixS(minute - MINUTES * MINUTE_S)
        within = Range(width=width, since=since, until=minute, limit=MINUTES + 1, is_filled=True)
        kept = await self.market.series.candles(SOL, within.asked)
        if kept is None:
            return []
        return page_of(series_of(kept, within.asked), within, now).candles


def _drawn(report: TokenReport, slot: Slot, candles: Sequence[SeriesCandle]) -> SolNow:
    price = report.price.usd
    # The line ends at the price of the report, which pages show beside it.
    values = [*(each.close for each in candles[:-1]), price]
    quiet = {
        place
        for place, each in enumerate(candles)
        if each.count == 0 and each.imported_volume is None
    }
    begin = candles[0].bucket if candles else report.data_span.to
    change = values[-1] / values[0] - 1.0 if len(values) > 1 and values[0] else None
    label = f"SOL in the last hour: from ${short_price(values[0])} to ${short_price(price)}"
    chart = draw_area(values, begin, MINUTE_S, label, quiet)
    return SolNow(report, slot, 0, change, chart, _written(report))


def _written(report: TokenReport) -> Mapping[str, str]:
    h1 = report.indicators.h1
    pressure = report.indicators.buy_sell_pressure
    values = {
        "usd": report.price.usd,
        "sol": report.price.sol,
        "ema9": h1.ema9,
        "ema21": h1.ema21,
        "rsi": h1.rsi,
        "pressure_m5": pressure.m5,
        "pressure_h1": pressure.h1,
        "to": report.data_span.to,
    }
    return {name: msgspec.json.encode(value).decode() for name, value in values.items()}
