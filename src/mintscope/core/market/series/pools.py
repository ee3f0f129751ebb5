"""The pools of a mint: what stands in each, what is traded there, and what a trade would move.

Move      of a constant product whose quote is Q: a purchase of X raises the price by
          (1 + X / Q) ** 2 - 1, and a sale of as much lowers it by 1 - (1 + X / Q) ** -2.  Fees are
          left out.
Estimate  for pools of other venues: the same with `StandingPool.depth`, what moves of their price
          have shown of it
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

from mintscope.base.primitives import MICRO_USD, UnixS
from mintscope.base.time import MINUTE_S
from mintscope.core.market.series.store import LoggedSwap
from mintscope.core.market.standing import (
    AGREEMENT,
    DEPTH_UNKNOWN,
    FRACTION,
    Standing,
    StandingPool,
    counts_at,
    weights,
)

NEWEST_S: Final = 5 * MINUTE_S
TRADES_USD: Final = (100, 1_000, 10_000)
# Constant products whose quote stands in one vault; of a curve its virtual reserve counts.
CONSTANT_PRODUCTS: Final = frozenset({"pumpfun", "pumpswap", "raydium_v4", "raydium_cpmm"})


class PoolFlow(NamedTuple):
    """Volume of a pool: micro-USD, the bought part, swaps, and distinct signers."""

    volume: int = 0
    bought: int = 0
    swaps: int = 0
    traders: int = 0


class PriceMove(NamedTuple):
    """By what part a trade of so many USD raises the price if it buys, lowers it if it sells."""

    usd: int
    buy: float
    sell: float


class PoolNow(NamedTuple):
    """A pool as of one slot; what is not known is None.

    venue, quote   the program, and the mint that the token is traded for: of its newest kept swap
    weight         of all that counts for the price, 0 to 1
    agrees         its price is within AGREEMENT of the price
    quote_usd      what its newest swap left of the quote in it
    token_usd      the tokens in it, at its price; of a constant product
    newest, kept   flows of NEWEST_S, and of all swaps that are kept
    is_estimate    moves are an estimate
    """

    pool: str
    venue: str | None
    quote: str | None
    usd: float
    sol: float
    at: UnixS
    weight: float
    agrees: bool
    quote_usd: float | None
    token_usd: float | None
    newest: PoolFlow
    kept: PoolFlow
    moves: Sequence[PriceMove]
    is_estimate: bool


def pools_of(standing: Standing, swaps: Sequence[LoggedSwap], now: UnixS) -> list[PoolNow]:
    """Return the pools of *standing*, the heaviest first; *swaps* are those kept, newest first."""
    weighed = weights(standing.pools, now)
    least = max(weighed) / FRACTION
    counting = [weight if weight >= least else 0.0 for weight in weighed]
    total = sum(counting)
    if not total:
        counting = [float(counts_at(standing, pool.pool, now)) for pool in standing.pools]
        total = sum(counting)
    by_pool: dict[str | None, list[LoggedSwap]] = defaultdict(list)
    for one in swaps:
        by_pool[one.swap.pool].append(one)
    found = [
        _pool_now(standing, pool, by_pool[pool.pool], weight / total, now)
        for pool, weight in zip(standing.pools, counting, strict=True)
    ]
    return sorted(found, key=lambda one: (-one.weight, -(one.quote_usd or 0.0), one.pool))


def _pool_now(
    standing: Standing, pool: StandingPool, swaps: Sequence[LoggedSwap], weight: float, now: UnixS
) -> PoolNow:
    detail = next((one.swap.detail for one in swaps if one.swap.detail is not None), None)
    venue = None if detail is None else detail.program
    is_product = venue in CONSTANT_PRODUCTS
    quote_usd = pool.left / MICRO_USD if pool.left else None
    depth = quote_usd if is_product else _shown_depth(pool)
    ratio = max(pool.usd, standing.usd) / min(pool.usd, standing.usd)
    return PoolNow(
        pool=pool.pool,
        venue=venue,
        quote=None if detail is None else detail.quote,
        usd=pool.usd,
        sol=pool.sol,
        at=pool.at,
        weight=weight,
        agrees=ratio <= 1 + AGREEMENT,
        quote_usd=quote_usd,
        token_usd=quote_usd if is_product else None,
        newest=_flow([one for one in swaps if one.time > now - NEWEST_S]),
        kept=_flow(swaps),
        moves=[] if depth is None else [move_of(depth, usd) for usd in TRADES_USD],
        is_estimate=not is_product,
    )


def _shown_depth(pool: StandingPool) -> float | None:
    return pool.depth / MICRO_USD if 0 < pool.depth < DEPTH_UNKNOWN else None


def move_of(quote_usd: float, usd: int) -> PriceMove:
    """Return what a trade of *usd* moves in a constant product of *quote_usd*, which is not 0."""
    grown = 1 + usd / quote_usd
    return PriceMove(usd, grown**2 - 1, 1 - grown**-2)


def _flow(swaps: Sequence[LoggedSwap]) -> PoolFlow:
    """Return the sums of *swaps*; a signer is known by the beginning of its address."""
    signers = {one.swap.evidence.signer for one in swaps if one.swap.evidence is not None}
    return PoolFlow(
        sum(one.swap.volume for one in swaps),
        sum(one.swap.volume for one in swaps if one.swap.is_buy),
        len(swaps),
        len(signers),
    )
