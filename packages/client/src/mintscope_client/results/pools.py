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


class TokenPool(msgspec.Struct, frozen=True, rename="camel"):
    """One pool; unknown values are None.

    venue, quote    its program, and the mint that the token is traded for
    last_swap_at    Unix seconds
    weight          its share of what decides the price, 0 to 1
    agrees          its price is within 2 % of the price
    quote_usd, token_usd    what stands on each side, USD
    m5, kept        of the last 5 minutes, and since `swaps_since`
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
    kept: PoolTraded
    moves: list[PoolMove]
    is_estimate: bool


class TokenPools(msgspec.Struct, frozen=True, rename="camel"):
    """The pools of a token as of a final slot, the heaviest first; times are Unix seconds."""

    token: str
    pools: list[TokenPool]
    slot: int
    as_of: int
    swaps_since: int | None
