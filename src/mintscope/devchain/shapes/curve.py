"""The numbers concentrated pools publish, from the reserves of a constant product."""

from math import floor, isqrt, log

from mintscope.devchain.addresses import raw
from mintscope.devchain.market.pool import Pool, Reserves

TICK_BASE = 1.0001


def starts_with_base(pool: Pool) -> bool:
    """Return whether the base is token 0 (or A): the mint with the lower bytes."""
    return raw(pool.base.mint) < raw(pool.quote.mint)


def sqrt_price_x64(pool: Pool, reserves: Reserves) -> int:
    """Return the square root of token 1 per token 0, times 2**64."""
    zero, one = reserves if starts_with_base(pool) else reversed(reserves)
    return isqrt((one << 128) // zero)


def liquidity(reserves: Reserves) -> int:
    """Return the liquidity of the full range."""
    return isqrt(reserves.base * reserves.quote)


def tick(pool: Pool, reserves: Reserves) -> int:
    """Return the tick of the price of token 0 in token 1."""
    zero, one = reserves if starts_with_base(pool) else reversed(reserves)
    return floor(log(one / zero) / log(TICK_BASE))


def bin_id(reserves: Reserves, step_bps: int) -> int:
    """Return the bin of the price of the base in the quote."""
    return floor(log(reserves.quote / reserves.base) / log(1 + step_bps / 10_000))
