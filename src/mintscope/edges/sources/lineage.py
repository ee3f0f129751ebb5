"""Which blocks were delivered, and what may follow them.  Pure.

A chain is proven by its links alone: each block names its parent, and a slot
counts as skipped only when a later block's parent passes over it.  A slot
that a node lists, or calls skipped, proves nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from mintscope.base.primitives import Slot
from mintscope.base.solana import Block, Tip


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
        """Return whether the block at *position* was delivered, or is the floor."""
        link = self._links.get(position.slot)
        return position == self.floor or (link is not None and link.blockhash == position.blockhash)

    def rewind(self, position: Position) -> None:
        """Forget what was delivered after *position*, to deliver what replaces it."""
        assert position == self.floor or self.holds(position)
        self._links = {slot: link for slot, link in self._links.items() if slot <= position.slot}
        self.tip = position

    def run(self, head: Slot) -> Sequence[Position]:
        """Return the oldest unbroken run of blocks not yet final, up to slot *head*.

        Their hashes link them: if one of them is final, so are all before it.
        """
        run: list[Position] = []
        for slot, link in self._links.items():
            broken = run and link.parent_slot != run[-1].slot
            if broken or slot > head:
                break
            run.append(Position(slot, link.blockhash))
        return run

    def finalize(self, position: Position) -> None:
        """Note that *position* and everything before it can no longer die."""
        assert self.holds(position)
        self._links = {slot: link for slot, link in self._links.items() if slot > position.slot}
        self.floor = position
