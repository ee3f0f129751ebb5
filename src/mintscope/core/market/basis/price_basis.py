"""The basis of a price: its pools, their reserves, its age, and its confidence.

Agrees        a pool that counts by `standing`, has traded within FRESH_S of the newest swap, and
              whose price is within AGREEMENT of the price
Depth         what stands in the pools that agree, by `StandingPool.depth`: the quote alone
Confidence    high    at least HIGH_MICRO_USD stand in the pools that agree, the price was first set
                      YOUNG_S before it was last set, and that is at most FRESH_S ago
              medium  the same with MEDIUM_MICRO_USD and at most OLD_S
              low     else; and if no balance shows what stands there, or if the pools that agree
                      weigh no more than those that do not

Pools are as of the newest swap of any of them, ages as of the report.  Trades of strangers in
private pools do not change the confidence: they are only in `rejected_share`.
"""

from enum import StrEnum
from typing import Final, NamedTuple

from mintscope.base.primitives import UnixS
from mintscope.base.time import HOUR_S, MINUTE_S
from mintscope.core.market.basis.packed import unpack
from mintscope.core.market.standing import (
    AGREEMENT,
    DEPTH_UNKNOWN,
    FRACTION,
    HourFlow,
    Standing,
    weights,
)

HIGH_MICRO_USD: Final = 100_000_000_000
MEDIUM_MICRO_USD: Final = 1_000_000_000
YOUNG_S: Final = 10 * MINUTE_S
FRESH_S: Final = 5 * MINUTE_S
OLD_S: Final = HOUR_S


class Confidence(StrEnum):
    """How good a price is."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"

    def is_at_least(self, least: "Confidence") -> bool:
        """Return whether this is *least* or better."""
        order = tuple(Confidence)
        return order.index(self) >= order.index(least)


class PriceBasis(NamedTuple):
    """The basis of the price of a mint, as of its newest swap.

    pool        whose swap set it last, and at, when
    since       when it was first set
    depth       micro-USD in the pools that agree; None if no balance shows it
    pool_count  how many agree, that of *pool* among them
    is_agreed   the pools that agree weigh more than the others that count
    flow        what changed hands of late
    """

    pool: str
    at: UnixS
    since: UnixS
    depth: int | None
    pool_count: int
    is_agreed: bool
    flow: HourFlow

    def confidence(self, now: UnixS) -> Confidence:
        """Return how good the price is at *now*."""
        age_s = now - self.at
        is_young = self.at - self.since < YOUNG_S
        if self.depth is None or not self.is_agreed or is_young:
            return Confidence.LOW
        if self.depth >= HIGH_MICRO_USD and age_s <= FRESH_S:
            return Confidence.HIGH
        if self.depth >= MEDIUM_MICRO_USD and age_s <= OLD_S:
            return Confidence.MEDIUM
        return Confidence.LOW

    def rejected_share(self, now: UnixS) -> float:
        """Return the part of what changed hands at a price that set none, in the hour to *now*.

        Of the clock hour before that of *now* the minutes count that are within an hour of it, as
        if it had been traded evenly.  0 to 1; 0 if nothing changed hands.
        """
        flow = self.flow
        taken = flow.taken
        rejected = flow.rejected
        taken_before = flow.taken_before
        rejected_before = flow.rejected_before
        passed = now // HOUR_S - flow.hour
        if passed == 1:
            taken_before = taken
            rejected_before = rejected
            taken = rejected = 0
        elif passed > 1:
            return 0.0
        minutes = HOUR_S // MINUTE_S
        left = minutes - now % HOUR_S // MINUTE_S
        rejected = minutes * rejected + left * rejected_before
        total = rejected + minutes * taken + left * taken_before
        return rejected / total if total else 0.0


def basis_of(packed: bytes | None) -> PriceBasis | None:
    """Return what the price rests on by the pools in *packed*; None if the log names none."""
    return None if packed is None else basis_by(unpack(packed))


def basis_by(standing: Standing) -> PriceBasis:
    """Return what the price rests on by *standing*."""
    pools = standing.pools
    newest = max(one.at for one in pools)
    weighed = weights(pools, newest)
    least = max(weighed) / FRACTION
    low = standing.usd / (1 + AGREEMENT)
    high = standing.usd * (1 + AGREEMENT)
    # Of a pool that weighs nothing nothing is known but its price.
    counting = [(one, weight) for one, weight in zip(pools, weighed, strict=True) if weight]
    counting = [(one, weight) for one, weight in counting if weight >= least]
    near = [(one, weight) for one, weight in counting if low <= one.usd <= high]
    # Reserves last seen in a pool that no longer trades may have left it.
    agreeing = [one for one, _ in near if newest - one.at <= FRESH_S]
    depth = sum(one.depth for one in agreeing)
    for_it = sum(weight for _, weight in near)
    return PriceBasis(
        pool=standing.pool,
        at=standing.at,
        since=standing.since,
        depth=depth if 0 < depth < DEPTH_UNKNOWN else None,
        pool_count=max(1, len(agreeing)),
        is_agreed=2 * for_it > sum(weight for _, weight in counting),
        flow=standing.flow,
    )
