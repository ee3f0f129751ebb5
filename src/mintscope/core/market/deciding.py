"""Which pool decides the price of a mint, so that a private pool cannot move it.

Anyone may open a pool and trade there alone, at any price and of any volume. So one pool decides
for each mint, and swaps of other pools set a price only where they agree with its last one.

At first       for PROBATION_S after its first swap every pool of a mint sets its price; the one
               that has most of the volume by then decides
Agreement      within AGREEMENT of its last price, and DRIFT_PER_MINUTE more a minute since then
Succession     after ten times its usual pause another pool that agrees decides instead, until the
               previous one trades again within a day
A new start    after a hundred times its usual pause, at least an hour and at most a day

The outcome is a function of the swaps in order: it is the same after a restart or a fork.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec.structs import replace

from mintscope.base.primitives import Mint, Slot, UnixS
from mintscope.base.time import DAY_S, MINUTE_S

PROBATION_S: Final = 600
AGREEMENT: Final = 0.05
DRIFT_PER_MINUTE: Final = 0.01
PAUSES_OF_A_SUCCESSOR: Final = 10
PAUSES_OF_A_NEW_START: Final = 100
SUCCESSOR_AFTER_S: Final = 30
NEW_START_AFTER_S: Final = 3_600
PAUSE_WEIGHT: Final = 4  # of the pauses so far, the newest counts a quarter
MINTS_MAX: Final = 200_000


class DecidingPool(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The pool that decides the price of a mint, as of its newest swap.

    price         USD per whole token, and `at`, when it last said so
    pause_s       between its swaps, usually
    since         of the mint's first swap
    lead          micro-USD that it is ahead of the others by in the first PROBATION_S
    previous      the pool that decided before; decides again if it trades by `previous_until`
    is_direct     its newest price was set in dollars or SOL, and not through another token
    """

    pool: str
    price: float
    at: UnixS
    pause_s: float
    since: UnixS
    lead: int
    previous: str | None = None
    previous_until: int = 0
    is_direct: bool = True


def agrees(decided: DecidingPool | None, pool: str, price: float, time: UnixS) -> bool:
    """Say whether a swap of *pool* at *price* sets the price of its mint."""
    if decided is None or pool == decided.pool or time - decided.since < PROBATION_S:
        return True
    if pool == decided.previous and time <= decided.previous_until:
        return True
    silent_s = time - decided.at
    return _is_near(decided, price, silent_s) or silent_s > _limit_s(
        decided, PAUSES_OF_A_NEW_START, NEW_START_AFTER_S
    )


def decide(  # noqa: PLR0913 - all that a swap says
    decided: DecidingPool | None,
    pool: str,
    price: float,
    volume: int,
    time: UnixS,
    *,
    is_direct: bool = True,
) -> DecidingPool:
    """Return what decides after a swap that `agrees`.

    volume      micro-USD
    is_direct   the price was set in dollars or SOL
    """
    fresh = DecidingPool(pool, price, time, 0.0, time, volume, is_direct=is_direct)
    if decided is None:
        return fresh
    if time - decided.since < PROBATION_S:
        return _weigh(decided, fresh)
    if pool == decided.pool:
        return _trade(decided, fresh)
    return _succeed(decided, fresh)


def _weigh(decided: DecidingPool, fresh: DecidingPool) -> DecidingPool:
    """Return who is ahead: the pool that has most of the volume stays so, in any order."""
    if fresh.pool == decided.pool:
        return replace(_trade(decided, fresh), lead=decided.lead + fresh.lead)
    lead = decided.lead - fresh.lead
    if lead >= 0:
        return replace(decided, lead=lead)
    return replace(fresh, lead=-lead, since=decided.since)


def _trade(decided: DecidingPool, fresh: DecidingPool) -> DecidingPool:
    pause_s = decided.pause_s + (fresh.at - decided.at - decided.pause_s) / PAUSE_WEIGHT
    return replace(
        decided, price=fresh.price, at=fresh.at, pause_s=pause_s, is_direct=fresh.is_direct
    )


def _succeed(decided: DecidingPool, fresh: DecidingPool) -> DecidingPool:
    """Return what decides after another pool has traded at a price that may be shown."""
    time, silent_s = fresh.at, fresh.at - decided.at
    if fresh.pool == decided.previous and time <= decided.previous_until:
        return replace(fresh, since=decided.since)
    if silent_s > _limit_s(decided, PAUSES_OF_A_NEW_START, NEW_START_AFTER_S):
        return fresh
    if silent_s <= _limit_s(decided, PAUSES_OF_A_SUCCESSOR, SUCCESSOR_AFTER_S):
        return decided
    previous, until = decided.previous, decided.previous_until
    if previous is None or time > until:
        previous, until = decided.pool, UnixS(time + DAY_S)
    return replace(fresh, since=decided.since, previous=previous, previous_until=until)


def _is_near(decided: DecidingPool, price: float, silent_s: int) -> bool:
    ratio = max(price / decided.price, decided.price / price)
    return ratio <= 1 + AGREEMENT + DRIFT_PER_MINUTE * silent_s / MINUTE_S


def _limit_s(decided: DecidingPool, pauses: int, least_s: int) -> float:
    return max(least_s, min(DAY_S, pauses * decided.pause_s))


class DecidingPools:
    """What decides for each mint as of the newest slot; earlier, if that slot dies.

    kept    (slot, mint, state after that slot), oldest first
    """

    def __init__(self, kept: Iterable[tuple[Slot, Mint, DecidingPool]] = ()) -> None:
        self._now: dict[Mint, DecidingPool] = {}
        self._before: deque[tuple[Slot, dict[Mint, DecidingPool | None]]] = deque()
        for slot, mint, state in kept:
            if not self._before or self._before[-1][0] != slot:
                self.begin(slot)
            self._set(mint, state)

    def begin(self, slot: Slot) -> None:
        """Take what follows as said by *slot*, the newest."""
        self._forget()
        self._before.append((slot, {}))

    def agrees(self, mint: Mint, pool: str, price: float, time: UnixS) -> bool:
        """Say whether a swap would set the price of *mint*; nothing changes."""
        return agrees(self._now.get(mint), pool, price, time)

    def of(self, mint: Mint) -> DecidingPool | None:
        """Return what decides for *mint* now; None before its first priced swap."""
        return self._now.get(mint)

    def sets_price(  # noqa: PLR0913 - all that a swap says
        self,
        time: UnixS,
        mint: Mint,
        pool: str,
        price: float,
        volume: int,
        *,
        is_direct: bool = True,
    ) -> bool:
        """Say whether the next swap sets the price of *mint*; *volume* in micro-USD."""
        decided = self._now.get(mint)
        if not agrees(decided, pool, price, time):
            return False
        self._set(mint, decide(decided, pool, price, volume, time, is_direct=is_direct))
        return True

    def changed(self) -> dict[Mint, DecidingPool]:
        """Return what decides now for each mint that the newest slot has changed."""
        return {mint: self._now[mint] for mint in self._before[-1][1]} if self._before else {}

    def retract(self, slot: Slot) -> None:
        """Go back to before *slot*, the newest."""
        if not self._before or self._before[-1][0] != slot:
            return  # nothing was traded in it
        for mint, state in self._before.pop()[1].items():
            if state is None:
                del self._now[mint]
            else:
                self._now[mint] = state

    def finalize(self, slot: Slot) -> None:
        """Slots up to *slot* can no longer die."""
        while self._before and self._before[0][0] <= slot:
            self._before.popleft()

    def _set(self, mint: Mint, state: DecidingPool) -> None:
        self._before[-1][1].setdefault(mint, self._now.get(mint))
        self._now[mint] = state

    def _forget(self) -> None:
        """Keep the half that traded last, once there are too many mints and none may go back."""
        if len(self._now) > MINTS_MAX:
            newest = sorted(self._now.items(), key=lambda kept: kept[1].at)[MINTS_MAX // 2 :]
            undone = {mint for _, before in self._before for mint in before}
            kept = {mint: self._now[mint] for mint in undone & self._now.keys()}
            self._now = dict(newest) | kept
