"""The blocks of the chain: which exist, which are final, and how they are linked."""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

from mintscope.base.primitives import Slot, UnixS
from mintscope.devchain.transaction import MarketTransaction

CONFIRMED_LAG: Final = 1  # slots behind the tip
FINALIZED_LAG: Final = 32


CommitmentLevel = Literal["processed", "confirmed", "finalized"]
LAG: Final[Mapping[CommitmentLevel, int]] = {
    "processed": 0,
    "confirmed": CONFIRMED_LAG,
    "finalized": FINALIZED_LAG,
}


class ChainBlock(NamedTuple):
    """One block; its JSON is rendered on request."""

    slot: Slot
    parent_slot: Slot
    height: int
    time: UnixS
    blockhash: str
    parent_blockhash: str
    transactions: tuple[MarketTransaction, ...]


class Blockstore:
    """The newest *kept* blocks, oldest first."""

    def __init__(self, kept: int) -> None:
        assert kept > FINALIZED_LAG
        self._kept = kept
        self._blocks: list[ChainBlock] = []
        self._slots: list[Slot] = []
        self._tip = Slot(0)

    @property
    def tip(self) -> Slot:
        """The newest slot that had a block; a fork never lowers it."""
        return self._tip

    @property
    def last(self) -> ChainBlock:
        """The newest block."""
        return self._blocks[-1]

    @property
    def first(self) -> Slot:
        """The oldest slot still kept."""
        return self._slots[0]

    @property
    def slots(self) -> Sequence[Slot]:
        """Every slot that has a block."""
        return self._slots

    def append(self, block: ChainBlock) -> None:
        """Add *block* on top, and forget the oldest beyond what is kept."""
        self._blocks.append(block)
        self._slots.append(block.slot)
        self._tip = max(self._tip, block.slot)
        # Forgetting in strides keeps appending cheap.
        if len(self._blocks) > self._kept + self._kept // 10:
            del self._blocks[: -self._kept], self._slots[: -self._kept]

    def drop(self, depth: int) -> list[ChainBlock]:
        """Take away the newest *depth* blocks and return them, newest first."""
        dropped = self._blocks[: -depth - 1 : -1]
        del self._blocks[-depth:], self._slots[-depth:]
        return dropped

    def reached(self, commitment: CommitmentLevel) -> Slot:
        """Return the newest slot with a block at *commitment*."""
        newest = bisect_right(self._slots, self._tip - LAG[commitment]) - 1
        return self._slots[max(newest, 0)]

    def unfinalized(self) -> int:
        """Return how many blocks a fork may still replace."""
        return len(self._slots) - bisect_right(self._slots, self.reached("finalized"))

    def block(self, slot: int) -> ChainBlock | None:
        """Return the block of *slot*, None where there is none."""
        where = bisect_left(self._slots, slot)
        if where < len(self._slots) and self._slots[where] == slot:
            return self._blocks[where]
        return None

    def between(self, first: int, last: int) -> Sequence[Slot]:
        """Return the slots with a block from *first* to *last*, both included."""
        return self._slots[bisect_left(self._slots, first) : bisect_right(self._slots, last)]
