"""The market as pages show it."""

from mintscope.base.limits import Limits
from mintscope.base.primitives import Mint
from mintscope.core.credits.ledger import CreditLedger
from mintscope.core.market.listing.listed import TokenLists
from mintscope.core.market.report import Reports
from mintscope.core.market.series.store import SeriesReader
from mintscope.edges.server.streams.streams import Streams
from mintscope.edges.web.market import MarketParts
from mintscope.shell.config.config import Config
from mintscope.shell.wiring.mcp.serving import has_mcp


def market_parts(  # noqa: PLR0913, PLR0917 - one argument for each part
    config: Config,
    reports: Reports,
    series: SeriesReader,
    lists: TokenLists,
    streams: Streams,
    ledger: CreditLedger,
    limits: Limits,
) -> MarketParts:
    """Return what pages show of the market, and to whom."""
    return MarketParts(
        reports=reports,
        series=series,
        lists=lists,
        streams=streams,
        ledger=ledger,
        limits=limits,
        degraded_after_s=config.api.degraded_after_s,
        stale_after_s=config.api.stale_after_s,
        showcase=frozenset(map(Mint, config.web.showcase)),
        free_views_per_day=config.web.free_views_per_day,
        tracks_per_day=config.web.tracks_per_day,
        live_pages_max=config.web.live_pages_max,
        has_mcp=has_mcp(config.mcp),
    )
