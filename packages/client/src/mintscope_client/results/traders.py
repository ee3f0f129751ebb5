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


class TradingShares(msgspec.Struct, frozen=True, rename="camel"):
    """Parts of all that changed hands, 0 to 1; None if nothing did.

    round_trips   bought and sold by one signer in one transaction
    sandwiches    two swaps of a signer around a swap of another
    each_slot     of traders in at least half of the slots with a trade; None below 20 such slots
    """

    round_trips: float | None
    sandwiches: float | None
    each_slot: float | None


class FirstBuyer(msgspec.Struct, frozen=True, rename="camel"):
    """The first purchase of a trader, at a time in Unix seconds."""

    trader: str
    at: int
    bought_usd: float
    bought: AmountOfToken


class TokenLaunch(msgspec.Struct, frozen=True, rename="camel"):
    """Purchases of the first three slots with a trade, and what their buyers still hold."""

    buyers: int
    bought: AmountOfToken
    held: AmountOfToken


class TokenTraders(msgspec.Struct, frozen=True, rename="camel"):
    """Traders of a token: of the last 5 minutes, and of all swaps since *swaps_since*.

    first_buyers, launch   None if not all swaps since tracking began were read
    """

    token: str
    m5: TraderCounts
    kept: TraderCounts
    traders: list[TokenTrader]
    swaps_since: int | None
    shares: TradingShares
    first_buyers: list[FirstBuyer] | None
    launch: TokenLaunch | None
