"""Which blocks were delivered, and what may follow them.  Pure.

A chain is proven by its links alone: each block names its parent, and a slot
counts as skipped only when a later block's parent passes over it.  What a
node lists, or calls skipped, proves nothing.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from mintscope.primitives import Slot
from mintscope.solana import Block, Tip


@dataclass(frozen=True, slots=True)
class Position:
    """A place to go on from.

    blockhash   None where any block whose parent is at or below *slot* may follow
    """

    slot: Slot
    blockhash: str | None


class Fit(Enum):
    """How a block stands to the newest one delivered."""

    FOLLOWS = auto()
    HOLE = auto()  # its parent is newer: something between is still missing
    FORK = auto()  # its parent is another block: what we delivered has died


@dataclass(frozen=True, slots=True)
class _Link:
    blockhash: str
    parent_slot: Slot


class Lineage:
    """The blocks delivered since the last final one, and where to go on.

    floor   the newest final block, or the position we began at
    tip     the newest block delivered, or the floor
    """

    def __init__(self, floor: Position) -> None:
        self.floor = floor
        self.tip = floor
        self._links: dict[Slot, _Link] = {}  # ascending by slot, all above the floor

    def resume(self, tip: Tip) -> None:
        """Go on after *tip*, delivered by someone before us."""
        assert tip.slot > self.floor.slot
        self._links[tip.slot] = _Link(tip.blockhash, Slot(tip.slot - 1))
        self.tip = Position(tip.slot, tip.blockhash)

    def judge(self, block: Block) -> Fit:
        """Return how *block*, newer than the tip, stands to it."""
        if block.slot == 0:  # the genesis block is its own parent
            return Fit.FOLLOWS
        if block.parent_slot > self.tip.slot:
            return Fit.HOLE
        if self.tip.blockhash is None:
            return Fit.FOLLOWS
        linked = (block.parent_slot, block.parent_blockhash) == (self.tip.slot, self.tip.blockhash)
        return Fit.FOLLOWS if linked else Fit.FORK

    def append(self, block: Block) -> None:
        """Note *block*, which follows the tip, as delivered."""
        assert block.slot > self.tip.slot
        self._links[block.slot] = _Link(block.blockhash, block.parent_slot)
        self.tip = Position(block.slot, block.blockhash)

    def skip_to(self, slot: Slot) -> None:
        """Give up what is missing up to *slot*."""
        assert slot > self.tip.slot
        self.tip = Position(slot, None)

    def holds(self, position: Position) -> bool:
        """Tell whether the block at *position* was delivered, or is the floor."""
        link = self._links.get(position.slot)
        return position == self.floor or (link is not None and link.blockhash == position.blockhash)

    def rewind(self, position: Position) -> None:
        """Forget what was delivered after *position*, to deliver what replaces it."""
        assert position == self.floor or self.holds(position)
        self._links = {slot: link for slot, link in self._links.items() if slot <= position.slot}
        self.tip = position

    def delivered(self) -> Sequence[Position]:
        """Return the blocks delivered and not yet final, oldest first."""
        return [Position(slot, link.blockhash) for slot, link in self._links.items()]

    def agree(self, listed: Sequence[Slot]) -> tuple[Position | None, Position | None]:
        """Compare what was delivered with the final slots *listed*, ascending.

        Returns the newest block up to which both agree, and the first on which
        they do not.  Beyond the end of the list nothing is known yet.
        """
        agreed: Position | None = None
        for slot, link in self._links.items():
            if not listed or slot > listed[-1]:
                break
            index = bisect_left(listed, slot)
            passed_over = index > 0 and listed[index - 1] > link.parent_slot
            if listed[index] != slot or passed_over:
                return agreed, Position(slot, link.blockhash)
            agreed = Position(slot, link.blockhash)
        return agreed, None

    def finalize(self, position: Position) -> None:
        """Note that *position* and everything before it can no longer die."""
        assert self.holds(position)
        self._links = {slot: link for slot, link in self._links.items() if slot > position.slot}
        self.floor = position
