"""Answers about the pools of a token."""

from typing import Annotated

from msgspec import Meta

from mintscope.base.primitives import MICRO_USD, about
from mintscope.base.solana import WSOL
from mintscope.core.market.report import EXAMPLE_POOL
from mintscope.core.market.series.pools import PoolFlow, PoolNow
from mintscope.edges.api.data.series.wire import PriceOfSwap, Token
from mintscope.edges.api.wire import Wire


class PoolsQuery(Wire):
    """Query of GET /v1/token/{tokenAddress}/pools: it has none."""


class FlowOfPool(Wire):
    """Volume of a pool within a span."""

    volume_usd: Annotated[float, about("Bought and sold, US dollars.", 12500.5)]
    buy_volume_usd: Annotated[float, about("Of it bought, US dollars.", 7000.25)]
    swaps: Annotated[int, about("Swaps, those that set no price included.", 120)]
    traders: Annotated[int, about("Distinct signers, by the beginning of the address.", 37)]

    @classmethod
    def of(cls, flow: PoolFlow) -> "FlowOfPool":
        """Return *flow* as it is sent."""
        volume = flow.volume / MICRO_USD
        bought = flow.bought / MICRO_USD
        return cls(volume, bought, flow.swaps, flow.traders)


class MoveOfPrice(Wire):
    """The price move of a trade, fees left out."""

    usd: Annotated[int, about("The size of the trade, US dollars.", 1000)]
    buy: Annotated[float, about("By what part a purchase raises the price: 0.01 is 1 %.", 0.002)]
    sell: Annotated[float, about("By what part a sale lowers the price.", 0.002)]


class PoolLine(Wire):
    """One pool; what is not known is null."""

    pool: Annotated[str, about("Its address, or its two vaults with + between them.", EXAMPLE_POOL)]
    venue: Annotated[str | None, about("Its program, as in /swaps; null: no swap is kept.", "orca")]
    quote: Annotated[str | None, about("The mint that the token is traded for.", WSOL)]
    price: Annotated[PriceOfSwap, Meta(description="Its price, of a whole token.")]
    last_swap_at: Annotated[int, about("When that was set, Unix seconds.", 1_763_460_000)]
    weight: Annotated[float, about("Its share of what decides the price, 0 to 1.", 0.62)]
    agrees: Annotated[bool, Meta(description="Its price is within 2 % of the price.")]
    quote_usd: Annotated[
        float | None,
        about(
            "US dollars of the quote that its newest swap left in it; of a curve the virtual"
            " reserve.",
            1843210.5,
        ),
    ]
    token_usd: Annotated[
        float | None, about("The tokens in it, in US dollars; of a constant product.", 1843210.5)
    ]
    m5: Annotated[FlowOfPool, Meta(description="Volume of the last 5 minutes.")]
    kept: Annotated[FlowOfPool, Meta(description="Volume since swapsSince.")]
    moves: Annotated[
        list[MoveOfPrice],
        Meta(description="Price moves of trades of 100, 1,000 and 10,000 US dollars."),
    ]
    is_estimate: Annotated[
        bool,
        Meta(
            description="Whether the moves are an estimate, by what moved the price before; false:"
            " those of a constant product."
        ),
    ]

    @classmethod
    def of(cls, one: PoolNow) -> "PoolLine":
        """Return *one* as it is sent."""
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
            kept=FlowOfPool.of(one.kept),
            moves=[MoveOfPrice(*move) for move in one.moves],
            is_estimate=one.is_estimate,
        )


class PoolPage(Wire):
    """The pools of a token, as of a final slot, the heaviest first."""

    token: Token
    pools: Annotated[list[PoolLine], Meta(description="Up to 8, which decide the price.")]
    slot: Annotated[int, about("The final slot.", 380_000_000)]
    as_of: Annotated[int, about("Its time, Unix seconds.", 1_763_460_000)]
    swaps_since: Annotated[
        int | None,
        about(
            "From when on swaps are counted in kept, Unix seconds; null: none is.", 1_763_459_000
        ),
    ]
