"""Requests and answers of the traders of a token."""

from typing import Annotated, Final

from msgspec import Meta

from mintscope.base.primitives import MICRO_USD, about
from mintscope.core.market.series.traders import Crowd
from mintscope.edges.api.data.series.wire import Amount, Token
from mintscope.edges.api.wire import Wire

TRADERS_MAX: Final = 100


class TradersQuery(Wire):
    """Query of GET /v1/token/{tokenAddress}/traders."""

    limit: Annotated[
        int, Meta(ge=1, le=TRADERS_MAX, description="How many traders; it costs the same.")
    ] = 20


class CrowdLine(Wire):
    """How many trade within a span."""

    buyers: Annotated[int, about("Distinct traders who bought.", 30)]
    sellers: Annotated[int, about("Distinct traders who sold.", 25)]
    traders: Annotated[int, about("Distinct traders.", 48)]
    swaps: Annotated[int, about("Their swaps, those that set no price included.", 120)]
    flow_usd: Annotated[float, about("Volume, US dollars.", 12500.5)]
    top_share: Annotated[
        float | None, about("The part of it of the trader with the most, 0 to 1.", 0.21)
    ]
    top10_share: Annotated[
        float | None, about("The part of it of the ten traders with the most, 0 to 1.", 0.64)
    ]

    @classmethod
    def of(cls, crowd: Crowd) -> "CrowdLine":
        """Return *crowd* as it is sent."""
        buyers, sellers, traders, swaps, flow, top, top10 = crowd
        return cls(buyers, sellers, traders, swaps, flow / MICRO_USD, top, top10)


class TraderLine(Wire):
    """One trader, of the swaps that are kept."""

    trader: Annotated[
        str, about("The beginning of the address that signs, 8 characters.", "7fUAJdSt")
    ]
    bought_usd: Annotated[float, about("Bought, US dollars.", 1250.5)]
    sold_usd: Annotated[float, about("Sold, US dollars.", 900.25)]
    bought: Annotated[Amount, Meta(description="Bought, of the token.")]
    sold: Annotated[Amount, Meta(description="Sold, of the token.")]
    swaps: Annotated[int, about("Swaps.", 7)]
    realised_usd: Annotated[
        float | None,
        about(
            "Gained on tokens that were bought and sold within the kept swaps, US dollars: as many"
            " as both, times the mean price of a sale less that of a purchase. Null without both.",
            12.5,
        ),
    ]
    first_at: Annotated[int, about("The first of the swaps, Unix seconds.", 1_763_459_100)]
    last_at: Annotated[int, about("The last of the swaps, Unix seconds.", 1_763_459_900)]


class TraderPage(Wire):
    """Traders of a token, of the newest swaps that are kept."""

    token: Token
    m5: Annotated[CrowdLine, Meta(description="Of the last 5 minutes.")]
    kept: Annotated[CrowdLine, Meta(description="Since swapsSince.")]
    traders: Annotated[
        list[TraderLine], Meta(description="Those with the most bought and sold, in US dollars.")
    ]
    swaps_since: Annotated[
        int | None,
        about("From when on swaps are counted, Unix seconds; null: none is.", 1_763_459_000),
    ]
