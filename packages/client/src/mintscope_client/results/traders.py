"""Traders of a token."""

import msgspec

from mintscope_client.results.series import AmountOfToken


class TraderCounts(msgspec.Struct, frozen=True, rename="camel"):
    """The number of traders within a span; shares of the traders with the most flow, 0 to 1."""

    buyers: int
    sellers: int
    traders: int
    swaps: int
    flow_usd: float
    top_share: float | None
    top10_share: float | None


class TokenTrader(msgspec.Struct, frozen=True, rename="camel"):
    """One trader; times are Unix seconds.

    trader          the beginning of the address that signs
    realised_usd    gained on tokens that were bought and sold; None without both
    """

    trader: str
    bought_usd: float
    sold_usd: float
    bought: AmountOfToken
    sold: AmountOfToken
    swaps: int
    realised_usd: float | None
    first_at: int
    last_at: int


class TokenTraders(msgspec.Struct, frozen=True, rename="camel"):
    """Traders of a token: of the last 5 minutes, and of all swaps since *swaps_since*."""

    token: str
    m5: TraderCounts
    kept: TraderCounts
    traders: list[TokenTrader]
    swaps_since: int | None
