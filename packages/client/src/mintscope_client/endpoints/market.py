"""The pools, holders and traders of a token."""

import msgspec

from mintscope_client.calls.call import ApiCall
from mintscope_client.calls.requests import query_of, segment
from mintscope_client.endpoints.series import AmountOfToken, PriceOfSwap


class PoolTraded(msgspec.Struct, frozen=True, rename="camel"):
    """A pool's trades in a span of time: volumes in USD, and the numbers of swaps and traders."""

    volume_usd: float
    buy_volume_usd: float
    swaps: int
    traders: int


class PoolMove(msgspec.Struct, frozen=True):
    """The price impact of trades of *usd* dollars in a pool, as fractions.

    buy, sell   a purchase raises the price by *buy*, a sale lowers it by *sell*
    """

    usd: int
    buy: float
    sell: float


class PoolSpans(msgspec.Struct, frozen=True, rename="camel"):
    """The trades of a pool in the newest spans of five minutes: volumes in USD, number of swaps.

    since   the time from which swaps are counted, Unix seconds; None: the server is older than this
            field
    """

    volume_usd: float
    buy_volume_usd: float
    swaps: int
    since: int | None = None


class PoolMigration(msgspec.Struct, frozen=True, rename={"from_": "from"}):
    """The move of a token from a bonding curve to the pool that replaced it, at *slot*."""

    from_: str
    to: str
    slot: int


class TokenPool(msgspec.Struct, frozen=True, rename="camel"):
    """One pool of a token; unknown values are None.

    venue, quote    the name of its program, and the mint that the token is traded for
    last_swap_at    the time of its last swap, Unix seconds
    weight          its share of the weight of all pools that decide the price, 0 to 1
    agrees          whether its price is within 2 % of the price of the token
    quote_usd, token_usd    the value of the quote and of the tokens in the pool, USD
    m5, kept        its trades among the newest 2,000 swaps of the token that the service keeps:
                    those of the last 5 minutes, and all of them
    h1, d1          its trades of the newest 12 and 288 spans of 5 minutes
    since           the time of the first swap of the pool that the service has read, Unix seconds
    fee             the fee of a swap as a fraction: 0.0025 is 0.25 %; None: not known
    progress        for a bonding curve: the share of the way to its migration, 0 to 1
    moves           the price impact of trades of 100, 1,000 and 10,000 USD
    is_estimate     whether the price impact is approximate
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
    """The pools of a token after a final slot; the pool with the most weight is first.

    as_of         the time of this slot, Unix seconds
    swaps_since   the time from which swaps are counted, Unix seconds
    """

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
    """One of the largest token accounts of a token.

    owner   the address that can move the tokens; None if the account could not be read
    share   the part of the supply that it holds, 0 to 1; None if the supply is 0
    kind    "burned", "locked", "pool" or "other"
    name    the name of the burn address, locker or exchange; None if `kind` is "other"
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

    burned        the amount in the accounts of the kind "burned"
    top20_share   the share of `supply_without_burned` in the accounts of the kind "other"; None if
                  `supply_without_burned` is 0
    read_at       the time at which the node was queried, Unix seconds
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
    """Return the call for the 20 largest accounts of *mint*.  Costs one credit."""
    return ApiCall(
        name="holders",
        method="GET",
        path=f"/v1/token/{segment(mint)}/holders",
        kind=TokenHolders,
        credits_max=1,
    )


class TraderCounts(msgspec.Struct, frozen=True, rename="camel"):
    """The numbers and the swaps of a token's traders in a span of time.

    flow_usd    US dollars that changed hands
    top_share, top10_share    the share of `flow_usd` of the largest trader and of the ten largest
                              traders, 0 to 1; None if nothing was traded
    """

    buyers: int
    sellers: int
    traders: int
    swaps: int
    flow_usd: float
    top_share: float | None
    top10_share: float | None


class SpanTraderCounts(TraderCounts, frozen=True, rename="camel"):
    """The numbers and the swaps of a token's traders, from *since* (Unix seconds) until now.

    is_capped   whether five minutes of this time had more traders than the service records; the
                others count only in `swaps` and `flow_usd`
    """

    since: int
    is_capped: bool


class TokenTrader(msgspec.Struct, frozen=True, rename="camel"):
    """One trader of a token; times are Unix seconds.

    trader          the first 8 characters of the signer's address
    realised_usd    the gain in USD on tokens that were both bought and sold; None without a
                    purchase and a sale
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
    """Shares of the flow of a token, its trades in USD; 0 to 1, or None if there was no trade.

    round_trips   the share of swaps whose signer bought and sold the token in one transaction
    sandwiches    the share of pairs of a purchase and a sale by one signer in one slot and pool,
                  between which another signer swaps in the direction of the first
    each_slot     the share of traders that traded in at least half of the slots with a trade; None
                  if fewer than 20 slots have a trade
    """

    round_trips: float | None
    sandwiches: float | None
    each_slot: float | None


class FirstBuyer(msgspec.Struct, frozen=True, rename="camel"):
    """A trader's first purchase of the token; *at* is its time in Unix seconds."""

    trader: str
    at: int
    bought_usd: float
    bought: AmountOfToken


class TokenLaunch(msgspec.Struct, frozen=True, rename="camel"):
    """The purchases of a new token in the first three slots in which it was traded.

    buyers   the number of traders who bought
    bought   the amount that they bought in these slots
    held     the amount that they have bought until now, less what they have sold, counting only
             swaps, and at least 0 for each buyer
    """

    buyers: int
    bought: AmountOfToken
    held: AmountOfToken


class TokenTraders(msgspec.Struct, frozen=True, rename="camel"):
    """The traders of a token, in several spans of time.

    m5, kept               the traders of the last 5 minutes, and of the time from `swaps_since` on:
                           both among the newest 2,000 swaps that the service keeps
    traders                the traders that bought and sold the most in USD
    h1, d1                 the traders of the newest 12 and 288 spans of 5 minutes; None: no swap is
                           recorded yet, or the server is older than these fields
    first_buyers, launch   the first purchases; None if not all swaps since tracking began are among
                           the newest 2,000
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
    """Return the call for the traders of *mint*.

    It costs one credit, or nothing if no swap is kept and the token was not traded within a day.

    limit    the number of traders, up to 100; None: 20
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
