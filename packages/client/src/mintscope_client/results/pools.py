"""The pools of a token."""

import msgspec

from mintscope_client.results.series import PriceOfSwap


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
    """Volume of a pool within whole spans of five minutes: USD and swaps."""

    volume_usd: float
    buy_volume_usd: float
    swaps: int


class PoolMigration(msgspec.Struct, frozen=True, rename={"from_": "from"}):
    """The curve, the pool that took its place, and the slot."""

    from_: str
    to: str
    slot: int


class TokenPool(msgspec.Struct, frozen=True, rename="camel"):
    """One pool; unknown values are None.

    venue, quote    its program, and the mint that the token is traded for
    last_swap_at    Unix seconds
    weight          its weight in the price, 0 to 1
    agrees          its price is within 2 % of the price
    quote_usd, token_usd    what stands on each side, USD
    m5, kept        of the last 5 minutes, and since `swaps_since`
    h1, d1          of the newest 12 and 288 spans of 5 minutes
    since           of its first swap since it is followed, Unix seconds
    fee             of a swap, if all pools of the venue take the same: 0.0025 is 0.25 %
    progress        of a curve: the part of the way to its pool, 0 to 1
    moves           what trades of 100, 1,000 and 10,000 USD would move; is_estimate: about
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
    h1: PoolSpans | None
    d1: PoolSpans | None
    kept: PoolTraded
    since: int | None
    fee: float | None
    progress: float | None
    migration: PoolMigration | None
    moves: list[PoolMove]
    is_estimate: bool


class TokenPools(msgspec.Struct, frozen=True, rename="camel"):
    """The pools of a token as of a final slot, the heaviest first; times are Unix seconds."""

    token: str
    pools: list[TokenPool]
    slot: int
    as_of: int
    swaps_since: int | None
