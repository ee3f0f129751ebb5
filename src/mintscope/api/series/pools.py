"""Endpoints of the pools and the traders of a token, and a list of all endpoints of series.

GET /v1/token/{tokenAddress}/pools     the pools that set the price, the heaviest first
GET /v1/token/{tokenAddress}/traders   the traders in the newest stored swaps
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from msgspec import Meta

from mintscope.api.discovery.operation import Operation, operations_of, sold_page
from mintscope.api.query import read_query
from mintscope.api.series.backtest import BacktestRoutes
from mintscope.api.series.holders import HolderRoutes
from mintscope.api.series.indicators import IndicatorRoutes
from mintscope.api.series.series import CandleRoutes, EncodedCandles, PriceRoutes
from mintscope.api.series.swaps import (
    Made,
    NewestCandles,
    RecentPages,
    SeriesShop,
    SwapRoutes,
    Wanted,
    decimal,
    made_of,
    not_tracked,
)
from mintscope.api.series.udf import UdfRoutes
from mintscope.api.series.wire import Amount, PriceOfSwap, Token
from mintscope.api.v1 import V1, mint_of
from mintscope.api.wire import Wire
from mintscope.kit.errors import InsufficientData
from mintscope.kit.http.rate_limit import AddressLimit
from mintscope.kit.http.request import Request
from mintscope.kit.http.response import Response
from mintscope.kit.primitives import MICRO_USD, Mint, UnixS, about
from mintscope.market.follow.list_cache import ListCache
from mintscope.market.report import EXAMPLE_POOL
from mintscope.market.series.conduct import (
    SpanCrowd,
    first_buyers,
    launch_of,
    shares_of,
    span_crowd,
)
from mintscope.market.series.holder_reads import HolderReader, NoHolders
from mintscope.market.series.pools import (
    DAY_SPANS_S,
    HOUR_SPANS_S,
    Crowd,
    KeptPools,
    LoggedSwap,
    LoggedSwaps,
    PoolFlow,
    PoolNow,
    SeriesReader,
    SpanFlow,
    TraderNow,
    crowd_of,
    newest,
    pools_of,
    top_traders,
)
from mintscope.market.standings import unpack
from mintscope.solana.blocks import WSOL

NO_FINAL_PRICE: Final = "There is no final swap of this token yet that sets a price."


class PoolsQuery(Wire):
    """Query of GET /v1/token/{tokenAddress}/pools, which has no fields."""


SPANS_SINCE: Final = (
    "From when on all swaps are counted, Unix seconds: not before the first one, nor before the end"
    " of a time that was not recorded."
)


class FlowOfPool(Wire):
    """The volume of a pool within a span of time, and the numbers of swaps and traders."""

    volume_usd: Annotated[float, about("Bought and sold, US dollars.", 12500.5)]
    buy_volume_usd: Annotated[float, about("Bought part of volumeUsd, US dollars.", 7000.25)]
    swaps: Annotated[int, about("Swaps, those that set no price included.", 120)]
    traders: Annotated[int, about("Signers, distinguished by the start of their address.", 37)]

    @classmethod
    def of(cls, flow: PoolFlow) -> "FlowOfPool":
        """Return *flow* as a part of the response, in USD."""
        volume = flow.volume / MICRO_USD
        bought = flow.bought / MICRO_USD
        return cls(volume, bought, flow.swaps, flow.traders)


class FlowOfSpans(Wire):
    """The volume of a pool within whole spans of five minutes, including the open one."""

    volume_usd: Annotated[float, about("Bought and sold, US dollars.", 12500.5)]
    buy_volume_usd: Annotated[float, about("Bought part of volumeUsd, US dollars.", 7000.25)]
    swaps: Annotated[int, about("Swaps, those that set no price included.", 120)]
    since: Annotated[int, about(SPANS_SINCE, 1_763_373_600)]

    @classmethod
    def of(cls, flow: SpanFlow | None) -> "FlowOfSpans | None":
        """Return *flow* as a part of the response; None if *flow* is None."""
        if flow is None:
            return None
        return cls(flow.volume / MICRO_USD, flow.bought / MICRO_USD, flow.swaps, flow.since)


class MoveToPool(Wire, rename={"from_": "from"}):
    """The migration of a token from its bonding curve to a pool."""

    from_: Annotated[str, about("The curve.", EXAMPLE_POOL)]
    to: Annotated[str, about("The pool that took its place.", EXAMPLE_POOL)]
    slot: Annotated[int, about("The slot of the migration.", 380_000_000)]

    @classmethod
    def of(cls, one: PoolNow) -> "MoveToPool | None":
        """Return the migration from or to the pool *one*; None if no migration is known."""
        if one.moved_at is None:
            return None
        return cls(one.came_from or one.pool, one.went_to or one.pool, one.moved_at)


class MoveOfPrice(Wire):
    """The price move that a trade would cause, without fees."""

    usd: Annotated[int, about("The size of the trade, US dollars.", 1000)]
    buy: Annotated[float, about("Fraction by which a purchase raises the price.", 0.002)]
    sell: Annotated[float, about("Fraction by which a sale lowers the price.", 0.002)]


class PoolLine(Wire):
    """One pool; unknown values are null."""

    pool: Annotated[str, about("Its address, or its two vaults with + between them.", EXAMPLE_POOL)]
    venue: Annotated[str | None, about("Its program, as in /swaps; null: no swap is kept.", "orca")]
    quote: Annotated[str | None, about("The mint that the token is traded for.", WSOL)]
    price: Annotated[PriceOfSwap, Meta(description="Its price, of a whole token.")]
    last_swap_at: Annotated[int, about("When this price was set, Unix seconds.", 1_763_460_000)]
    weight: Annotated[float, about("Its share of the weight that decides the price, 0 to 1.", 0.62)]
    agrees: Annotated[bool, Meta(description="Whether its price is within 2 % of the token's.")]
    quote_usd: Annotated[
        float | None,
        about(
            "US dollars of the quote that its newest swap left in it; of a curve the virtual"
            " reserve. If the quote is neither SOL, a dollar nor a staking token: at most a tenth"
            " of the liquidity of the quote.",
            1843210.5,
        ),
    ]
    token_usd: Annotated[
        float | None,
        about(
            "The tokens in it, US dollars; only of a constant product for SOL, dollars or staking"
            " tokens.",
            1843210.5,
        ),
    ]
    m5: Annotated[FlowOfPool, Meta(description="Volume of the last 5 minutes.")]
    h1: Annotated[
        FlowOfSpans | None,
        Meta(description="Volume of the newest 12 spans of 5 minutes; null: not counted yet."),
    ]
    d1: Annotated[
        FlowOfSpans | None,
        Meta(description="Volume of the newest 288 spans of 5 minutes; null: not counted yet."),
    ]
    kept: Annotated[FlowOfPool, Meta(description="Volume since swapsSince.")]
    since: Annotated[
        int | None,
        about(
            "The first swap of the pool since tracking began, Unix seconds; null: no swap yet.",
            1763400000,
        ),
    ]
    fee: Annotated[
        float | None,
        about("Fee of the newest swap, or of every swap on the venue; null: unknown.", 0.0025),
    ]
    progress: Annotated[
        float | None,
        about(
            "Of a curve: the part of the way to its pool, 0 to 1; null: no curve, or unknown.", 0.42
        ),
    ]
    migration: Annotated[MoveToPool | None, Meta(description="From the curve to the pool.")]
    moves: Annotated[
        list[MoveOfPrice],
        Meta(description="Price moves of trades of 100, 1,000 and 10,000 US dollars."),
    ]
    is_estimate: Annotated[
        bool,
        Meta(
            description="Whether the moves are an estimate, from earlier moves of the price, or an"
            " upper limit, because quoteUsd is limited; false: those of a constant product."
        ),
    ]

    @classmethod
    def of(cls, one: PoolNow) -> "PoolLine":
        """Return *one* as a line of the response."""
        return cls(
            pool=one.pool,
            venue=one.venue,
            quote=one.quote,
            price=PriceOfSwap(one.usd, one.sol),
            last_swap_at=one.at,
            weight=one.weight,
            agrees=one.agrees,
            quote_usd=one.quote_usd,
            token_usd=one.token_usd,
            m5=FlowOfPool.of(one.newest),
            h1=FlowOfSpans.of(one.hour),
            d1=FlowOfSpans.of(one.day),
            kept=FlowOfPool.of(one.kept),
            since=one.since,
            fee=one.fee,
            progress=one.progress,
            migration=MoveToPool.of(one),
            moves=[MoveOfPrice(*move) for move in one.moves],
            is_estimate=one.is_estimate,
        )


class PoolPage(Wire):
    """The pools of a token, as of a final slot, the heaviest first."""

    token: Token
    pools: Annotated[list[PoolLine], Meta(description="Up to 17, which decide the price.")]
    slot: Annotated[int, about("The final slot.", 380_000_000)]
    as_of: Annotated[int, about("Its time, Unix seconds.", 1_763_460_000)]
    swaps_since: Annotated[
        int | None,
        about(
            "From when on swaps are counted in kept, Unix seconds; null: none is.", 1_763_459_000
        ),
    ]


TRADERS_MAX: Final = 100


class TradersQuery(Wire):
    """Query of GET /v1/token/{tokenAddress}/traders."""

    limit: Annotated[
        int,
        Meta(
            ge=1, le=TRADERS_MAX, description="The number of traders; it does not change the cost."
        ),
    ] = 20


class CrowdLine(Wire):
    """The traders within a span: their numbers, swaps and volume."""

    buyers: Annotated[int, about("Distinct traders who bought.", 30)]
    sellers: Annotated[int, about("Distinct traders who sold.", 25)]
    traders: Annotated[int, about("Distinct traders.", 48)]
    swaps: Annotated[int, about("Their swaps, those that set no price included.", 120)]
    flow_usd: Annotated[float, about("Volume, US dollars.", 12500.5)]
    top_share: Annotated[
        float | None, about("The share of the largest trader in the volume, 0 to 1.", 0.21)
    ]
    top10_share: Annotated[
        float | None, about("The share of the ten largest traders in the volume, 0 to 1.", 0.64)
    ]

    @classmethod
    def of(cls, crowd: Crowd) -> "CrowdLine":
        """Return *crowd* as a part of the response, in USD."""
        buyers, sellers, traders, swaps, flow, top, top10 = crowd
        return cls(buyers, sellers, traders, swaps, flow / MICRO_USD, top, top10)


class CrowdOfSpans(CrowdLine):
    """The traders within whole spans of five minutes, including the open one."""

    since: Annotated[int, about(SPANS_SINCE, 1_763_373_600)]
    is_capped: Annotated[
        bool,
        Meta(
            description="Whether a span of 5 minutes had more than 2,048 traders: further ones"
            " count in swaps and flowUsd alone."
        ),
    ]

    @classmethod
    def of_spans(cls, found: SpanCrowd | None) -> "CrowdOfSpans | None":
        """Return *found* as a part of the response; None if *found* is None."""
        if found is None:
            return None
        buyers, sellers, traders, swaps, flow, top, top10 = found.crowd
        usd = flow / MICRO_USD
        return cls(buyers, sellers, traders, swaps, usd, top, top10, found.since, found.is_capped)


class TraderLine(Wire):
    """One trader in the stored swaps."""

    trader: Annotated[
        str, about("The beginning of the signer's address, 8 characters.", "7fUAJdSt")
    ]
    bought_usd: Annotated[float, about("Bought, US dollars.", 1250.5)]
    sold_usd: Annotated[float, about("Sold, US dollars.", 900.25)]
    bought: Annotated[Amount, Meta(description="Bought, of the token.")]
    sold: Annotated[Amount, Meta(description="Sold, of the token.")]
    swaps: Annotated[int, about("Swaps.", 7)]
    realised_usd: Annotated[
        float | None,
        about(
            "Gain on tokens both bought and sold in the kept swaps, USD: the smaller amount times"
            " (mean sale price - mean purchase price). Null without both.",
            12.5,
        ),
    ]
    first_at: Annotated[int, about("The first of the swaps, Unix seconds.", 1_763_459_100)]
    last_at: Annotated[int, about("The last of the swaps, Unix seconds.", 1_763_459_900)]


class SharesLine(Wire):
    """Shares of the traded volume since swapsSince, 0 to 1; null without traded volume."""

    round_trips: Annotated[
        float | None,
        about("Swaps whose signer bought and sold the token in one transaction.", 0.04),
    ]
    sandwiches: Annotated[
        float | None,
        about(
            "A signer's two opposite swaps in one slot and pool, around another's swap on the side"
            " of the first.",
            0.01,
        ),
    ]
    each_slot: Annotated[
        float | None,
        about(
            "Swaps of those who traded in at least half of the slots in which the token was traded;"
            " null below 20 such slots.",
            0.2,
        ),
    ]


class FirstBuyerLine(Wire):
    """The first purchase of a trader."""

    trader: Annotated[
        str, about("The beginning of the signer's address, 8 characters.", "7fUAJdSt")
    ]
    at: Annotated[int, about("The time of the purchase, Unix seconds.", 1_763_459_100)]
    bought_usd: Annotated[float, about("Bought, US dollars.", 50.25)]
    bought: Annotated[Amount, Meta(description="Bought, of the token.")]


class LaunchLine(Wire):
    """The purchases in the first three slots with swaps of the token after tracking began."""

    buyers: Annotated[int, about("Distinct traders who bought in them.", 12)]
    bought: Annotated[Amount, Meta(description="Bought in them, of the token.")]
    held: Annotated[
        Amount,
        Meta(
            description="Bought by these traders less sold by them until now, at least 0 for each,"
            " by swaps alone."
        ),
    ]


class TraderPage(Wire):
    """The traders of a token, in the newest stored swaps."""

    token: Token
    m5: Annotated[CrowdLine, Meta(description="Of the last 5 minutes.")]
    h1: Annotated[
        CrowdOfSpans | None,
        Meta(description="Of the newest 12 spans of 5 minutes; null: no swap is counted yet."),
    ]
    d1: Annotated[
        CrowdOfSpans | None,
        Meta(description="Of the newest 288 spans of 5 minutes; null: no swap is counted yet."),
    ]
    kept: Annotated[CrowdLine, Meta(description="Since swapsSince.")]
    traders: Annotated[
        list[TraderLine], Meta(description="Those with the most bought and sold, in US dollars.")
    ]
    swaps_since: Annotated[
        int | None,
        about("From when on swaps are counted, Unix seconds; null: none is.", 1_763_459_000),
    ]
    shares: Annotated[SharesLine, Meta(description="Shares of the traded volume.")]
    first_buyers: Annotated[
        list[FirstBuyerLine] | None,
        Meta(
            description="The first 20 buyers since tracking began, the first one first; null if"
            " not all swaps since then are among those read."
        ),
    ]
    launch: Annotated[LaunchLine | None, Meta(description="First slots; null if firstBuyers is.")]


SWAPS_MAX: Final = 2_000  # maximum number of swaps that are read and counted


@dataclass(frozen=True, slots=True)
class TraderRoutes:
    """The handler of GET /v1/token/{tokenAddress}/traders."""

    shop: SeriesShop

    @sold_page("/v1/token/{tokenAddress}/traders", TraderPage, query=TradersQuery)
    async def get_traders(self, request: Request) -> Response:
        """Traders of a token: buyers, sellers, concentration, and the largest traders.

        Returns the traders of a Solana token in its newest 2,000 stored swaps: buyers, sellers and
        concentration of 5 minutes and of all these swaps, and the traders with the highest volume,
        with their gain on tokens that they bought and sold. Buyers, sellers and concentration of an
        hour and a day are of all swaps. A trader is shown as the beginning of an address. Costs one
        credit or one payment, and nothing if there is no trader in these swaps or in the last day;
        errors cost nothing.
        """
        caller = await self.shop.gate.admit_buyer(request)
        mint = mint_of(request.path_params["tokenAddress"])
        query = read_query(request, TradersQuery)

        async def look() -> Made:
            logged = await self.shop.reader.swaps(mint, None, 1)
            kept = await self.shop.reader.pools(mint, 0)
            if kept is None or logged is None:
                raise not_tracked(mint)
            return Made(kept.tip, b"", is_empty=not (logged.swaps or kept.has_crowd))

        async def make() -> Made:
            logged = await self.shop.reader.swaps(mint, None, SWAPS_MAX, with_crowds=True)
            if logged is None:
                raise not_tracked(mint)
            page = await asyncio.to_thread(trader_page, mint, logged, query.limit)
            is_empty = not page.traders and not (page.d1 is not None and page.d1.swaps)
            return made_of(logged.tip, page, is_empty=is_empty)

        return await self.shop.sell(request, caller, Wanted(mint, "traders", query), make, look)


def trader_page(mint: Mint, logged: LoggedSwaps, limit: int) -> TraderPage:
    """Return the response about the traders of *mint*; it lists at most *limit* of the largest."""
    swaps = logged.swaps
    now = logged.tip.time or UnixS(0)
    details = (one.swap.detail for one in swaps if one.swap.detail is not None)
    decimals = next((detail.decimals for detail in details if detail.decimals is not None), None)
    return TraderPage(
        token=mint,
        m5=CrowdLine.of(crowd_of(newest(swaps, now))),
        h1=CrowdOfSpans.of_spans(span_crowd(logged, HOUR_SPANS_S)),
        d1=CrowdOfSpans.of_spans(span_crowd(logged, DAY_SPANS_S)),
        kept=CrowdLine.of(crowd_of(swaps)),
        traders=[_line(each, decimals) for each in top_traders(swaps, limit)],
        swaps_since=swaps[-1].time if swaps else None,
        shares=SharesLine(*shares_of(swaps)),
        first_buyers=_first_buyers(swaps, decimals) if logged.is_whole else None,
        launch=_launch(swaps, decimals) if logged.is_whole else None,
    )


def _amount(raw: int, decimals: int | None) -> Amount:
    return Amount(str(raw), decimal(raw, decimals))


def _first_buyers(swaps: Sequence[LoggedSwap], decimals: int | None) -> list[FirstBuyerLine]:
    return [
        FirstBuyerLine(each.trader, each.at, each.flow / MICRO_USD, _amount(each.amount, decimals))
        for each in first_buyers(swaps)
    ]


def _launch(swaps: Sequence[LoggedSwap], decimals: int | None) -> LaunchLine:
    launch = launch_of(swaps)
    bought = _amount(launch.bought, decimals)
    return LaunchLine(launch.buyers, bought, _amount(launch.held, decimals))


def _line(one: TraderNow, decimals: int | None) -> TraderLine:
    return TraderLine(
        trader=one.trader,
        bought_usd=one.bought / MICRO_USD,
        sold_usd=one.sold / MICRO_USD,
        bought=_amount(one.bought_amount, decimals),
        sold=_amount(one.sold_amount, decimals),
        swaps=one.swaps,
        realised_usd=one.realised_usd,
        first_at=one.first_at,
        last_at=one.last_at,
    )


@dataclass(frozen=True, slots=True)
class PoolRoutes:
    """The handler of GET /v1/token/{tokenAddress}/pools."""

    shop: SeriesShop

    @sold_page("/v1/token/{tokenAddress}/pools", PoolPage, query=PoolsQuery)
    async def get_pools(self, request: Request) -> Response:
        """The pools of a token: reserves, volume and price impact of each.

        Returns the pools that decide the price of a Solana token, up to 17, the heaviest first:
        venue, pair, price, weight in the price, US dollars on each side, volume, swaps and traders
        of 5 minutes and of the newest 2,000 stored swaps, volume of an hour and a day, age, fee,
        progress of a curve, its migration, and the price impact of trades of 100, 1,000 and 10,000
        US dollars. Costs one credit or one payment; errors cost nothing. As of a final slot.
        """
        caller = await self.shop.gate.admit_buyer(request)
        mint = mint_of(request.path_params["tokenAddress"])
        query = read_query(request, PoolsQuery)

        async def pools(span_s: int) -> KeptPools:
            kept = await self.shop.reader.pools(mint, span_s)
            if kept is None:
                raise not_tracked(mint)
            if kept.tip.folded is None or kept.time is None or kept.standing is None:
                raise InsufficientData(NO_FINAL_PRICE)
            return kept

        async def look() -> Made:
            return Made((await pools(0)).tip, b"", is_empty=False)

        async def make() -> Made:
            # The swaps are read after the pools, so that none is missing: newer ones are left out.
            kept = await pools(DAY_SPANS_S)
            logged = await self.shop.reader.swaps(mint, None, SWAPS_MAX)
            if logged is None:
                raise not_tracked(mint)
            page = await asyncio.to_thread(pool_page, mint, kept, logged)
            return made_of(logged.tip, page, is_empty=False)

        return await self.shop.sell(request, caller, Wanted(mint, "pools", query), make, look)


def pool_page(mint: Mint, kept: KeptPools, logged: LoggedSwaps) -> PoolPage:
    """Return the pools of *mint* as of the newest final slot of *kept*, with their traders.

    logged   swaps of the mint, from which traders are counted; those of newer slots are ignored

    Raises InsufficientData if no final swap has set a price yet.
    """
    slot = kept.tip.folded
    now = kept.time
    if slot is None or now is None or kept.standing is None:
        raise InsufficientData(NO_FINAL_PRICE)
    swaps = [one for one in logged.swaps if one.place.slot <= slot]
    pools = pools_of(unpack(kept.standing), swaps, now, kept)
    since = swaps[-1].time if swaps else None
    return PoolPage(mint, [PoolLine.of(one) for one in pools], slot, now, since)


def series_operations(
    reader: SeriesReader,
    v1: V1,
    lists: ListCache | None,
    list_limit: AddressLimit,
    holders: HolderReader | None = None,
) -> list[Operation]:
    """Return the operations that sell data about tokens; *v1* identifies and charges callers.

    lists        the source of symbols; None: the routes of UDF are omitted
    list_limit   rate limit of the free requests
    holders      the source of holders; None: holders cannot be read
    """
    shop = SeriesShop(
        reader=reader,
        newest=NewestCandles(reader, v1.clock),
        gate=v1.gate,
        clock=v1.clock,
        freshness=v1.freshness,
        resource_server=v1.resource_server,
        recent=RecentPages(reader, v1.clock),
    )
    every: list[object] = [
        CandleRoutes(shop, EncodedCandles()),
        IndicatorRoutes(shop),
        SwapRoutes(shop),
        TraderRoutes(shop),
        BacktestRoutes(shop),
        PriceRoutes(v1, reader),
        PoolRoutes(shop),
        HolderRoutes(shop, holders or NoHolders()),
    ]
    if lists is not None:
        every.append(UdfRoutes(shop=shop, lists=lists, limit=list_limit, clock=v1.clock))
    return [operation for handlers in every for operation in operations_of(handlers)]
