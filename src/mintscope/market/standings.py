"""The price pools of all mints as of the newest slot, and the confidence of prices.

Agrees        a pool agrees if it counts by `standing`, has traded within FRESH_S of the newest
              swap in a pool that counts, and has a price within AGREEMENT of the price of the mint
Depth         the sum of `StandingPool.depth` over the pools that agree, in micro-USD
Confidence    high    the depth is at least HIGH_MICRO_USD, the price was first set at least
                      YOUNG_S before it was last set, and it was last set at most FRESH_S ago
              medium  the same with MEDIUM_MICRO_USD and at most OLD_BASIS_S
              low     otherwise; also if no balance shows the depth, or if the pools near the
                      price weigh no more than the others

Pools are as of the newest swap in a pool that counts; ages are as of the report.  A swap in a pool
that does not count changes only `rejected_share`.
"""

from collections import deque
from collections.abc import Callable, Iterable
from enum import StrEnum
from math import inf
from typing import Any, Final, NamedTuple

import msgspec

from mintscope.kit.primitives import Mint, Slot, UnixS
from mintscope.kit.time import HOUR_S, MINUTE_S
from mintscope.market.standing import (
    AGREEMENT,
    ENOUGH_SIGNERS,
    OLD_S,
    HourFlow,
    Offer,
    Standing,
    StandingPool,
    is_sample,
    stand,
    weights,
)

DEPTH_UNKNOWN: Final = 10**15  # micro-USD, the weight of a pool from before decision 60
IS_DIRECT: Final = 8  # index of the field in a record from before decision 60
_standing: Final = msgspec.msgpack.Decoder(Standing)
_decided: Final = msgspec.msgpack.Decoder(tuple[Any, ...])  # records from before decision 60
_encode: Final = msgspec.msgpack.Encoder().encode


def pack(standing: Standing) -> bytes:
    """Return the pools of a mint as bytes for the log, which `unpack` reads."""
    return _encode(standing)


def unpack(packed: bytes) -> Standing:
    """Return the pools of a mint that are packed in *packed*.

    The bytes come from `pack`, or from an older log, which has one pool for each mint.
    """
    try:
        return _standing.decode(packed)
    except msgspec.ValidationError:
        pool, usd, at, pause_s, since, *_ = decided = _decided.decode(packed)
        is_direct = decided[IS_DIRECT] if len(decided) > IS_DIRECT else True
        return before_standing(pool, usd, at, pause_s, since, is_direct=is_direct)


def before_standing(  # noqa: PLR0913 - one argument for each known value
    pool: str, usd: float, at: UnixS, pause_s: float, since: UnixS, *, is_direct: bool
) -> Standing:
    """Return the pools of a mint in a log of an older version, which has one pool for each mint.

    The pool's price in SOL is unknown, so its next move is measured in dollars.
    """
    only = StandingPool(
        pool=pool,
        usd=usd,
        sol=usd,
        at=at,
        pause_s=pause_s,
        low=DEPTH_UNKNOWN,  # the pool counts as deep until its next swap shows a balance
        low_before=DEPTH_UNKNOWN,
        stood_s=OLD_S,
        signers=ENOUGH_SIGNERS,
        from_usd=usd,
        from_sol=usd,
        flow=0,
    )
    return Standing((only,), pool, usd, at, since, is_direct)


def depth_of(pool: StandingPool) -> int | None:
    """Return the liquidity of *pool* in micro-USD; None if it is unknown.

    It is unknown if the pool is read from an older log, which lacks liquidity, until a balance of
    the pool or a move of its price has shown it.
    """
    if pool.left is None and pool.depth >= DEPTH_UNKNOWN:
        return None
    return pool.depth


HIGH_MICRO_USD: Final = 100_000_000_000
MEDIUM_MICRO_USD: Final = 1_000_000_000
YOUNG_S: Final = 10 * MINUTE_S
FRESH_S: Final = 5 * MINUTE_S
OLD_BASIS_S: Final = HOUR_S


class Confidence(StrEnum):
    """The quality of the price of a mint, by the evidence for it."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"

    def is_at_least(self, least: "Confidence") -> bool:
        """Return whether this confidence is *least* or better."""
        order = tuple(Confidence)  # as strings, `high` would be less than `low`
        return order.index(self) >= order.index(least)

    def allows(self, age_s: float) -> bool:
        """Return whether a price that was set *age_s* seconds ago can have this confidence."""
        return age_s <= AGE_S_MAX.get(self, inf)


AGE_S_MAX: Final = {Confidence.HIGH: FRESH_S, Confidence.MEDIUM: OLD_BASIS_S}


class PriceBasis(NamedTuple):
    """The basis of the price of a mint, as of the newest swap in a pool that has weight.

    pool        the pool whose swap last set the price
    at          the time of that swap
    since       the time of the first swap, or that of the first swap of another pool after an hour
                without a price
    depth       micro-USD in the pools that agree; None if it is 0 or unknown
    pool_count  the number of pools that agree, at least 1
    is_agreed   whether the pools within AGREEMENT of the price weigh more than the others
    flow        the volume in the clock hour of the newest swap of the mint, and in the hour before
    """

    pool: str
    at: UnixS
    since: UnixS
    depth: int | None
    pool_count: int
    is_agreed: bool
    flow: HourFlow

    def confidence(self, now: UnixS) -> Confidence:
        """Return the confidence of the price as of the time *now*: high, medium or low."""
        # Volume and rejected volume have no effect: anyone can make both by trading alone.
        age_s = now - self.at
        is_young = self.at - self.since < YOUNG_S
        if self.depth is None or not self.is_agreed or is_young:
            return Confidence.LOW
        if self.depth >= HIGH_MICRO_USD and Confidence.HIGH.allows(age_s):
            return Confidence.HIGH
        if self.depth >= MEDIUM_MICRO_USD and Confidence.MEDIUM.allows(age_s):
            return Confidence.MEDIUM
        return Confidence.LOW

    def rejected_share(self, now: UnixS) -> float:
        """Return the share of the volume at rejected prices in the hour up to *now*.

        From 0 to 1; 0 without trades.  Volumes are known by clock hour only: that of the clock hour
        before counts in proportion to its minutes within the hour up to *now*.
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
        # Of the hour up to *now*, *left* minutes are in the clock hour before.
        minutes = HOUR_S // MINUTE_S
        left = minutes - now % HOUR_S // MINUTE_S
        rejected = minutes * rejected + left * rejected_before
        total = rejected + minutes * taken + left * taken_before
        return rejected / total if total else 0.0


def basis_of(packed: bytes | None) -> PriceBasis | None:
    """Return the basis of the price of a mint: the pools that agree, and their liquidity.

    packed   the pools of the mint; None: unknown, and then None is returned
    """
    return None if packed is None else basis_by(unpack(packed))


def basis_by(standing: Standing) -> PriceBasis:
    """Return the basis of the price of a mint: the pools that agree, and their liquidity.

    standing   the pools of the mint
    """
    pools = standing.pools
    # Not as of now: silent pools weigh less each second, so reports would change without a trade.
    newest = max(one.at for one in pools)
    weighed = weights(pools, newest)
    counted = [one.at for one, weight in zip(pools, weighed, strict=True) if weight]
    # Anyone can trade in a pool that weighs nothing, and as of such a trade the others could be
    # silent.  So all are weighed as of the newest swap in a pool that counts.
    if counted and max(counted) < newest:
        newest = max(counted)
        weighed = weights(pools, newest)
    low = standing.usd / (1 + AGREEMENT)
    high = standing.usd * (1 + AGREEMENT)
    # Pools that weigh nothing do not count.
    counting = [(one, weight) for one, weight in zip(pools, weighed, strict=True) if weight]
    near = [(one, weight) for one, weight in counting if low <= one.usd <= high]
    # Reserves that were seen in a pool that no longer trades may have left the pool.
    agreeing = [one for one, _ in near if newest - one.at <= FRESH_S]
    depths = [depth_of(one) for one in agreeing]
    for_it = sum(weight for _, weight in near)
    return PriceBasis(
        pool=standing.pool,
        at=standing.at,
        since=standing.since,
        depth=None if None in depths else sum(filter(None, depths)) or None,
        # The pool that set the price agrees with itself, but may weigh nothing.
        pool_count=max(1, len(agreeing)),
        is_agreed=2 * for_it > sum(weight for _, weight in counting),
        flow=standing.flow,
    )


MINTS_MAX: Final = 200_000


class Standings:
    """The pools of each mint as of the newest slot; slots that are not final can be retracted.

    kept        stored (slot, mint, pools after that slot), oldest first
    mints_max   with more mints, about half of them are dropped
    """

    def __init__(
        self, kept: Iterable[tuple[Slot, Mint, Standing]] = (), *, mints_max: int = MINTS_MAX
    ) -> None:
        self._mints_max = mints_max
        self._now: dict[Mint, Standing] = {}
        self._before: deque[tuple[Slot, dict[Mint, Standing | None]]] = deque()
        for slot, mint, state in kept:
            if not self._before or self._before[-1][0] != slot:
                self.begin(slot)
            self._set(mint, state)

    def begin(self, slot: Slot) -> None:
        """Begin *slot*, the newest one: the next changes of pools belong to it."""
        self._forget()
        self._before.append((slot, {}))

    def of(self, mint: Mint) -> Standing | None:
        """Return the pools of *mint* after the newest slot; None before its first price."""
        return self._now.get(mint)

    def sets_price(self, mint: Mint, offer: Offer) -> bool:
        """Add the next swap of *mint* to its pools; return whether it sets the price of *mint*.

        offer   the price of the swap
        """
        before = self._now.get(mint)
        standing, sets = stand(before, offer)
        if standing is not None:
            # Of several swaps in a slot, `retract` needs the pools before the first one.
            self._before[-1][1].setdefault(mint, before)
            self._now[mint] = standing
        return sets

    def agrees(self, mint: Mint) -> Callable[[Offer], bool]:
        """Return a function that tests whether the next swaps agree with the price of *mint*.

        Call the returned function for each swap, in order; the stored pools do not change.  It
        accepts a swap that sets the price, and any swap near the weighted median in which each of
        three or more pools counts for at most a third of the weight, so that one deep pool does not
        exclude all others.  The weight of the swap's own pool does not matter: in a log that begins
        later, pools weigh less at first, but a backfill can join it only if the prices of SOL are
        equal.
        """
        standing = self._now.get(mint)

        def agrees(offer: Offer) -> bool:
            nonlocal standing
            standing, sets = stand(standing, offer)
            if standing is None:
                return sets
            return sets or is_sample(standing, offer)

        return agrees

    def changed(self) -> dict[Mint, Standing]:
        """Return the pools of each mint whose pools the newest slot has changed."""
        return {mint: self._now[mint] for mint in self._before[-1][1]} if self._before else {}

    def retract(self, slot: Slot) -> None:
        """Undo the changes of pools in *slot*, which must be the newest slot."""
        if not self._before or self._before[-1][0] != slot:
            return  # no pools changed in the slot
        for mint, state in self._before.pop()[1].items():
            if state is None:
                del self._now[mint]
            else:
                self._now[mint] = state

    def finalize(self, slot: Slot) -> None:
        """Drop the earlier states of pools from *slot* and older slots, which are final.

        Only a retraction of such a slot would need them.
        """
        while self._before and self._before[0][0] <= slot:
            self._before.popleft()

    def _set(self, mint: Mint, state: Standing) -> None:
        self._before[-1][1].setdefault(mint, self._now.get(mint))
        self._now[mint] = state

    def _forget(self) -> None:
        """If there are too many mints, drop the pools of about half of them.

        Those with recent swaps, with much liquidity, or in slots that can still be retracted are
        kept.  The next swap of a dropped mint sets its price, at any value.
        """
        if len(self._now) > self._mints_max:
            time = max(standing.at for standing in self._now.values())
            kept = sorted(self._now.items(), key=lambda one: _worth_keeping(one[1], time))
            # `retract` looks these mints up, so they must remain.
            undone = {mint for _, before in self._before for mint in before}
            undoable = {mint: self._now[mint] for mint in undone & self._now.keys()}
            self._now = dict(kept[self._mints_max // 2 :]) | undoable


def _worth_keeping(standing: Standing, time: UnixS) -> tuple[bool, float, UnixS]:
    """Return the key by which mints are sorted: those worth keeping in memory come last."""
    ready = max(pool.ready(time) for pool in standing.pools)
    return time - standing.at <= HOUR_S, ready, standing.at
