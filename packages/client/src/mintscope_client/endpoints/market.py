"""The pools, holders and traders of a token."""

import msgspec

from mintscope_client.calls.call import ApiCall
from mintscope_client.calls.requests import query_of, segment
from mintscope_client.endpoints.series import AmountOfToken, PriceOfSwap


class PoolTraded(msgspec.Struct, frozen=True, rename="camel"):
    """Volume of a pool within a span: USD, swaps, and distinct signers."""

    volume_usd: float
    buy_volume_usd: float
    swaps: int
    traders: int


class PoolMove(msgspec.Struct, frozen=True):
    """The fraction by which a buy of *usd* raises the price, and a sell lowers it."""

    usd: int
    buy: float
    sell: float


class PoolSpans(msgspec.Struct, frozen=True, rename="camel"):
    """Volume of a pool within whole spans of five minutes: USD and swaps.

    since   from when on swaps are counted, Unix seconds; None: an older server
    """

    volume_usd: float
    buy_volume_usd: float
    swaps: int
    since: int | None = None


class PoolMigration(msgspec.Struct, frozen=True, rename={"from_": "from"}):
    """The curve, the pool that replaced it, and the slot of the migration."""

    from_: str
    to: str
    slot: int


class TokenPool(msgspec.Struct, frozen=True, rename="camel"):
    """One pool; unknown values are None.

    venue, quote    its program, and the mint that the token is traded for
    last_swap_at    Unix seconds
    weight          its weight in the price, 0 to 1
    agrees          its price is within 2 % of the price
    quote_usd, token_usd    reserves of each side, USD
    m5, kept        of the last 5 minutes, and since `swaps_since`
    h1, d1          of the newest 12 and 288 spans of 5 minutes
    since           time of its first swap since tracking began, Unix seconds
    fee             of a swap, 0.0025 is 0.25 %; None: not known
    progress        of a curve: the part of the way to its pool, 0 to 1
    moves           price impact of 100, 1,000 and 10,000 USD; is_estimate: approximate
    """

    pool: str
    venue: str | None
    quote: str | None
    price: PriceOfSwap
    last_swap_at: int
    weight: float
    agrees: bool
    quote_usd: float | None
    token_usd: float | None
    m5: PoolTraded
    kept: PoolTraded
    moves: list[PoolMove]
    is_estimate: bool
    h1: PoolSpans | None = None
    d1: PoolSpans | None = None
    since: int | None = None
    fee: float | None = None
    progress: float | None = None
    migration: PoolMigration | None = None


class TokenPools(msgspec.Struct, frozen=True, rename="camel"):
    """The pools of a token as of a final slot, the heaviest first; times are Unix seconds."""

    token: str
    pools: list[TokenPool]
    slot: int
    as_of: int
    swaps_since: int | None


def pools(mint: str) -> ApiCall[TokenPools]:
    """Return the call for the pools of *mint*.  Costs one credit."""
    return ApiCall(
        name="pools",
        method="GET",
        path=f"/v1/token/{segment(mint)}/pools",
        kind=TokenPools,
        credits_max=1,
    )


class TokenHolder(msgspec.Struct, frozen=True):
    """One of the largest accounts.

    owner   None if the account could not be read
    share   of the supply, 0 to 1; None for a supply of 0
    kind    "burned", "locked", "pool" or "other"
    name    of the burn address, locker or exchange
    """

    account: str
    owner: str | None
    amount: AmountOfToken
    share: float | None
    kind: str
    name: str | None


NAMES = {
    "supply_without_burned": "supplyWithoutBurned",
    "top20_share": "top20Share",
    "read_at": "readAt",
}


class TokenHolders(msgspec.Struct, frozen=True, rename=NAMES):
    """The 20 largest accounts of a token, the largest first.

    burned        held by these accounts at burn addresses
    top20_share   the share of `supply_without_burned` in those accounts whose kind is "other"
    read_at       when the node was asked, Unix seconds
    """

    token: str
    holders: list[TokenHolder]
    supply: AmountOfToken
    burned: AmountOfToken
    supply_without_burned: AmountOfToken
    top20_share: float | None
    slot: int
    read_at: int


def holders(mint: str) -> ApiCall[TokenHolders]:
    """Return the call for the 20 largest holders of *mint*.  Costs one credit."""
    return ApiCall(
        name="holders",
        method="GET",
        path=f"/v1/token/{segment(mint)}/holders",
        kind=TokenHolders,
        credits_max=1,
    )


class TraderCounts(msgspec.Struct, frozen=True, rename="camel"):
    """The number of traders within a span; shares of the traders with the most flow, 0 to 1."""

    buyers: int
    sellers: int
    traders: int
    swaps: int
    flow_usd: float
    top_share: float | None
    top10_share: float | None


class SpanTraderCounts(TraderCounts, frozen=True, rename="camel"):
    """The number of traders within whole spans of five minutes.

    since       from when on swaps are counted, Unix seconds
    is_capped   a span had more traders than are kept: others count only in swaps and flow
    """

    since: int
    is_capped: bool


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
    """Purchases of the first three slots with a trade, and the holdings of their buyers."""

    buyers: int
    bought: AmountOfToken
    held: AmountOfToken


class TokenTraders(msgspec.Struct, frozen=True, rename="camel"):
    """Traders of a token: of the last 5 minutes, and of all swaps since *swaps_since*.

    h1, d1                 of the newest 12 and 288 spans of 5 minutes; None: not booked yet, or an
                           older server
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
    h1: SpanTraderCounts | None = None
    d1: SpanTraderCounts | None = None


def traders(mint: str, *, limit: int | None = None) -> ApiCall[TokenTraders]:
    """Return the call for the traders of *mint*.  Costs one credit, or none without any of a day.

    limit    the number of traders, up to 100
    """
    return ApiCall(
        name="traders",
        method="GET",
        path=f"/v1/token/{segment(mint)}/traders",
        kind=TokenTraders,
        query=query_of({"limit": limit}),
        credits_max=1,
        credits_of=lambda page: 1 if page.traders or (page.d1 is not None and page.d1.swaps) else 0,
    )
