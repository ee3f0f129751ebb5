"""Stores the newest blocks of a devchain: which are confirmed or final, and how they are linked."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from math import ceil
from typing import Final, Literal, NamedTuple

from mintscope.kit.primitives import Slot, UnixS
from mintscope_devchain.transaction import MarketTransaction

SLOT_MS: Final = 200  # the duration of a slot of mainnet since October 2026
FINALITY_MS: Final = 150  # the time from a block to its finality under Alpenglow
ALPENGLOW_MS_MAX: Final = 1_000  # a chain whose votes are transactions needs longer

CommitmentLevel = Literal["processed", "confirmed", "finalized"]


class SlotPace(NamedTuple):
    """The durations of a devchain, in milliseconds; the defaults are those of mainnet.

    slot       from one slot to the next
    land       from the arrival of a transaction until a block may contain it
    confirm    from a block until it is `confirmed`
    finalize   from a block until it is `finalized`
    finality   the requested time from a block until it is `finalized`; decides `is_alpenglow`.
               `slot_pace` derives *finalize* from it
    """

    slot: int = SLOT_MS
    land: int = SLOT_MS
    confirm: int = SLOT_MS
    finalize: int = 2 * SLOT_MS
    finality: int = FINALITY_MS

    @property
    def is_alpenglow(self) -> bool:
        """Whether a chain with this pace uses Alpenglow, which has no votes on chain."""
        return self.finality <= ALPENGLOW_MS_MAX

    def lag(self, commitment: CommitmentLevel) -> int:
        """Return the number of slots from the newest block of *commitment* to the tip."""
        match commitment:
            case "processed":
                return 0
            case "confirmed":
                return ceil(self.confirm / self.slot)
            case "finalized":
                return ceil(self.finalize / self.slot)


def slot_pace(slot_ms: int = SLOT_MS, finality_ms: int = FINALITY_MS) -> SlotPace:
    """Return the pace of a chain on which each block is final *finality_ms* after it.

    A block is confirmed after one slot, and final after two slots at the earliest.  *slot_ms* 400
    and *finality_ms* 12,800 are the pace of mainnet before Alpenglow.  With *finality_ms* 0, every
    confirmed block is final.
    """
    final_ms = max(2 * slot_ms, finality_ms) if finality_ms else slot_ms
    return SlotPace(
        slot=slot_ms, land=slot_ms, confirm=slot_ms, finalize=final_ms, finality=finality_ms
    )


class ChainBlock(NamedTuple):
    """A block of a devchain; its JSON is made only when it is requested."""

    slot: Slot
    parent_slot: Slot
    height: int
    time: UnixS
    blockhash: str
    parent_blockhash: str
    transactions: tuple[MarketTransaction, ...]


class Blockstore:
    """The newest blocks of a chain, oldest first.

    kept   the number of newest blocks to store; older blocks may be dropped
    pace   the durations that decide which blocks are confirmed or final
    """

    def __init__(self, kept: int, pace: SlotPace = SlotPace()) -> None:  # noqa: B008  # immutable
        assert kept > pace.lag("finalized")
        self._kept = kept
        self._pace = pace
        self._blocks: list[ChainBlock] = []
        self._slots: list[Slot] = []
        self._tip = Slot(0)

    @property
    def tip(self) -> Slot:
        """The newest slot that ever had a block; a fork does not lower it."""
        return self._tip

    @property
    def last(self) -> ChainBlock:
        """The newest block of the chain."""
        return self._blocks[-1]

    @property
    def first(self) -> Slot:
        """The oldest slot that is still stored."""
        return self._slots[0]

    @property
    def slots(self) -> Sequence[Slot]:
        """The slots of all stored blocks, oldest first."""
        return self._slots

    def append(self, block: ChainBlock) -> None:
        """Add *block* as the newest.

        If this makes more than 1.1 times *kept* blocks, drop all but the newest *kept*.
        """
        self._blocks.append(block)
        self._slots.append(block.slot)
        self._tip = max(self._tip, block.slot)
        # Many blocks are dropped at a time, so that `append` stays fast.
        if len(self._blocks) > self._kept + self._kept // 10:
            del self._blocks[: -self._kept], self._slots[: -self._kept]

    def drop(self, depth: int) -> list[ChainBlock]:
        """Remove and return the newest *depth* blocks, newest first; *depth* is at least 1."""
        dropped = self._blocks[: -depth - 1 : -1]
        del self._blocks[-depth:], self._slots[-depth:]
        return dropped

    def reached(self, commitment: CommitmentLevel) -> Slot:
        """Return the newest stored slot with *commitment*; without one, the oldest stored slot."""
        newest = bisect_right(self._slots, self._tip - self._pace.lag(commitment)) - 1
        return self._slots[max(newest, 0)]

    def before(self, time: UnixS) -> ChainBlock | None:
        """Return the newest stored block whose time is *time* or earlier; None if all are later."""
        where = bisect_right(self._blocks, time, key=lambda block: block.time) - 1
        return self._blocks[where] if where >= 0 else None

    def unfinalized(self) -> int:
        """Return the number of blocks that a fork may still replace."""
        return len(self._slots) - bisect_right(self._slots, self.reached("finalized"))

    def block(self, slot: int) -> ChainBlock | None:
        """Return the block of *slot*; None if *slot* has no stored block."""
        where = bisect_left(self._slots, slot)
        if where < len(self._slots) and self._slots[where] == slot:
            return self._blocks[where]
        return None

    def between(self, first: int, last: int) -> Sequence[Slot]:
        """Return the slots with a block from *first* to *last*, both included."""
        return self._slots[bisect_left(self._slots, first) : bisect_right(self._slots, last)]
