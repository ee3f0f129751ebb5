"""The finalized fold: final slots into candles, in slot order, exactly once."""

import asyncio
from collections.abc import Sequence
from itertools import takewhile
from typing import Final

from mintscope.base.metrics import FINALIZED_SLOT, TRACKED_MINTS
from mintscope.base.primitives import Mint, UnixS
from mintscope.core.market.engine.fold import MintFold
from mintscope.core.market.log import PricedSwap
from mintscope.core.market.registry import Activity, Floor, count, day_of, is_dead, is_lively
from mintscope.core.market.store import (
    FinalizedSlot,
    Folded,
    FoldedMint,
    Folding,
    Kept,
    MarketStore,
)

SLOTS_MAX: Final = 25


async def fold_once(store: MarketStore, floor: Floor | None) -> bool:
    """Move one batch of final slots from the log into candles; False if there is none.

    floor   follow every mint that reaches it; None: only those listed
    """
    async with store.fold(SLOTS_MAX) as folding:
        TRACKED_MINTS.set(folding.tracked)
        if not folding.slots:
            return False
        batch = await _Batch.load(folding, floor)
        for slot in batch.slots:
            batch.apply(slot)
        await folding.save(batch.folded())
    FINALIZED_SLOT.set(batch.slots[-1].slot)
    await asyncio.sleep(0)  # between two transactions others may have their turn
    return True


class _Batch:
    """Some slots of one day, and what they change."""

    def __init__(
        self,
        *,
        slots: Sequence[FinalizedSlot],
        kept: dict[Mint, Kept],
        untracked: Sequence[Mint],
        floor: Floor | None,
    ) -> None:
        self.slots = slots
        self._floor = floor
        self._untracked = untracked
        self._tracked: dict[Mint, FinalizedSlot] = {}
        self._activity = {mint: was.activity for mint, was in kept.items()}
        self._folds: dict[Mint, MintFold] = {}
        self._last_swap: dict[Mint, UnixS] = {}
        self._kept = kept

    @classmethod
    async def load(cls, folding: Folding, floor: Floor | None) -> "_Batch":
        """Take the slots of one day, and drop first the mints that died before it."""
        today = day_of(folding.slots[0].time)
        slots = list(takewhile(lambda slot: day_of(slot.time) == today, folding.slots))
        untracked: list[Mint] = []
        if floor is not None and folding.day != today:
            followed = await folding.followed()
            untracked = [m for m, was in followed.items() if is_dead(was, today=today, floor=floor)]
        kept = await folding.kept({mint for slot in slots for mint in slot.swaps})
        for mint in kept.keys() & set(untracked):
            kept[mint] = kept[mint]._replace(since_slot=None, state=None)
        return cls(slots=slots, kept=kept, untracked=untracked, floor=floor)

    def apply(self, slot: FinalizedSlot) -> None:
        """Fold one slot."""
        for mint, swaps in slot.swaps.items():
            if self._floor is not None:
                self._count(mint, slot, swaps, self._floor)
            since = self._kept[mint].since_slot
            if mint not in self._tracked and (since is None or slot.slot <= since):
                continue
            fold = self._fold(mint)
            for swap in swaps:
                fold.apply(slot.time, swap)
            self._last_swap[mint] = slot.time

    def folded(self) -> Folded:
        """Return what to write."""
        return Folded(
            checkpoint=self.slots[-1],
            untracked=self._untracked,
            tracked=self._tracked,
            activity={mint: was for mint, was in self._activity.items() if was is not None},
            mints={
                mint: FoldedMint(fold.state(), fold.changed(), fold.opened(), self._last_swap[mint])
                for mint, fold in self._folds.items()
            },
        )

    def _fold(self, mint: Mint) -> MintFold:
        fold = self._folds.get(mint)
        if fold is None:
            fold = self._folds[mint] = MintFold.from_state(self._kept[mint].state)
        return fold

    def _count(
        self, mint: Mint, slot: FinalizedSlot, swaps: Sequence[PricedSwap], floor: Floor
    ) -> None:
        """Count what *mint* traded, and follow it from the slot in which it traded enough."""
        activity: Activity = count(
            self._activity[mint],
            day=day_of(slot.time),
            swaps=len(swaps),
            volume=sum(swap.volume for swap in swaps),
            floor=floor,
        )
        self._activity[mint] = activity
        kept = self._kept[mint]
        is_tracked = kept.since_slot is not None or mint in self._tracked
        if is_lively(activity) and not is_tracked and not kept.is_removed:
            self._tracked[mint] = slot
