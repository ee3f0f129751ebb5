"""The pools of all mints as of the newest slot, and what they say of the next swap."""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from mintscope.base.primitives import Mint, Slot, UnixS
from mintscope.base.time import HOUR_S
from mintscope.core.market.standing import Offer, Standing, is_sample, stand

MINTS_MAX: Final = 200_000


class Standings:
    """The pools of each mint as of the newest slot; earlier, if that slot dies.

    kept    (slot, mint, pools after that slot), oldest first
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
        """Take what follows as said by *slot*, the newest."""
        self._forget()
        self._before.append((slot, {}))

    def of(self, mint: Mint) -> Standing | None:
        """Return the pools of *mint* now; None before its first priced swap."""
        return self._now.get(mint)

    def sets_price(self, mint: Mint, offer: Offer) -> bool:
        """Say whether the next swap sets the price of *mint*."""
        standing, sets = stand(self._now.get(mint), offer)
        if standing is not None:
            self._set(mint, standing)
        return sets

    def agrees(self, mint: Mint) -> Callable[[Offer], bool]:
        """Return what says whether the next swaps agree with the price of *mint*, whatever weighs.

        Asked of each in order; nothing changes here.  Wider than what sets a price: a log that
        begins later, whose pools weigh less at first, has to take the same samples, because a past
        joins by that.  Near a median in which no pool has more than a third will do: one pool,
        whatever stands in it, must not shut out all others.
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
        """Return the pools of each mint that the newest slot has changed."""
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

    def _set(self, mint: Mint, state: Standing) -> None:
        self._before[-1][1].setdefault(mint, self._now.get(mint))
        self._now[mint] = state

    def _forget(self) -> None:
        """Halve too many mints: keep those of the last hour, deep ones, and those a fork may undo.

        The next swap of a forgotten mint sets its price, whatever it is.
        """
        if len(self._now) > self._mints_max:
            time = max(standing.at for standing in self._now.values())
            kept = sorted(self._now.items(), key=lambda one: _worth_keeping(one[1], time))
            undone = {mint for _, before in self._before for mint in before}
            undoable = {mint: self._now[mint] for mint in undone & self._now.keys()}
            self._now = dict(kept[self._mints_max // 2 :]) | undoable


def _worth_keeping(standing: Standing, time: UnixS) -> tuple[bool, float, UnixS]:
    """Return the sort key of a mint: those that are kept come last."""
    ready = max(pool.ready(time) for pool in standing.pools)
    return time - standing.at <= HOUR_S, ready, standing.at
