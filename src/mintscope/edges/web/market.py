"""The market data of pages, and their readers."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from mintscope.base.limits import Limits
from mintscope.base.primitives import Mint
from mintscope.base.solana import WSOL
from mintscope.base.time import SECOND_MS
from mintscope.core.credits.ledger import CreditLedger
from mintscope.core.market.listing.listed import TokenLists
from mintscope.core.market.report import Reports
from mintscope.core.market.series.store import SeriesReader
from mintscope.edges.server.streams.streams import Streams

FREE: frozenset[Mint] = frozenset({Mint(WSOL)})


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketParts:
    """The market as pages read it.

    reports               reports of tokens as of the last applied slot
    series                candles and swaps
    lists                 all tokens, and what the chain says of them
    streams               reports as they change; pages have a part of its room
    ledger                takes a credit for a view
    limits                counts views, the same for every process where they share a store
    degraded_after_s      older data is marked
    stale_after_s         older data is not shown
    showcase              tokens that everyone sees for nothing, beside wrapped SOL
    free_views_per_day    of other tokens, by client address
    tracks_per_day        tokens that a user may have tracked in a day at once
    live_pages_max        open pages that follow changes
    has_mcp               there are tools for MCP clients beside the pages
    """

    reports: Reports
    series: SeriesReader
    lists: TokenLists
    streams: Streams
    ledger: CreditLedger
    limits: Limits
    degraded_after_s: float = 30.0
    stale_after_s: float = 300.0
    showcase: AbstractSet[Mint] = FREE
    free_views_per_day: int = 20
    tracks_per_day: int = 0
    live_pages_max: int = 500
    has_mcp: bool = False

    def is_free(self, mint: Mint) -> bool:
        """Say whether everyone sees *mint* for nothing."""
        return mint in FREE or mint in self.showcase

    def is_degraded(self, age_ms: int) -> bool:
        """Say whether data of that age is to be marked."""
        return age_ms > self.degraded_after_s * SECOND_MS

    def is_stale(self, age_ms: int) -> bool:
        """Say whether data of that age is not to be shown."""
        return age_ms > self.stale_after_s * SECOND_MS
