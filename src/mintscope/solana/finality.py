"""Lineage and finality of delivered blocks.

Only links prove a chain: each block names its parent, and a slot counts as skipped only if the
parent of a later block is before the slot.  Lists and reports of a node prove nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from enum import Enum, auto
from typing import Final, TypeAlias

from mintscope.kit.clock import Clock
from mintscope.kit.metrics import ALPENGLOW, FINALITY_SECONDS, FINALITY_SLOTS
from mintscope.kit.primitives import Slot
from mintscope.solana.blocks import Block, Tip
from mintscope.solana.finality_meter import Behind, FinalityMeter
from mintscope.solana.node import Node
from mintscope.solana.pace import Pace
from mintscope.solana.rpc import Commitment, Missing, Rpc, Sleep
from mintscope.solana.wire import Absence


@dataclass(frozen=True, slots=True)
class Position:
    """A slot of the chain, and the hash of its block."""

    slot: Slot
    blockhash: str | None  # None: unknown; any block with a parent up to *slot* may follow


class Fit(Enum):
    """The relation of a block to the newest delivered block."""

    FOLLOWS = auto()
    HOLE = auto()  # its parent is newer than the newest delivered block, so the parent is missing
    FORK = auto()  # its parent is another block, so the newest delivered block has died


@dataclass(frozen=True, slots=True)
class _Link:
    blockhash: str
    parent_slot: Slot


class Lineage:
    """The blocks that were delivered after the newest final block.

    floor   the newest final block, or the position of the start
    tip     the newest delivered block, the end of a later gap, or the floor
    """

    def __init__(self, floor: Position) -> None:
        self.floor = floor  # the newest final block, or the position of the start
        self.tip = floor  # the newest delivered block, the end of a later gap, or the floor
        self._links: dict[Slot, _Link] = {}  # by slot, ascending; all are above the floor

    def resume(self, tip: Tip) -> None:
        """Continue after *tip*, the last block that an earlier run delivered."""
        assert tip.slot > self.floor.slot
        # The real parent is unknown; `run` never reads the parent of the oldest link.
        self._links[tip.slot] = _Link(tip.blockhash, Slot(tip.slot - 1))
        self.tip = Position(tip.slot, tip.blockhash)

    def judge(self, block: Block) -> Fit:
        """Return the relation of *block* to the tip, whose slot must be lower.

        The tip is the newest delivered block.
        """
        if block.slot == 0:  # the genesis block is its own parent
            return Fit.FOLLOWS
        if block.parent_slot > self.tip.slot:
            return Fit.HOLE
        if self.tip.blockhash is None:
            return Fit.FOLLOWS
        linked = (block.parent_slot, block.parent_blockhash) == (self.tip.slot, self.tip.blockhash)
        return Fit.FOLLOWS if linked else Fit.FORK

    def append(self, block: Block) -> None:
        """Record that *block*, which follows the newest delivered block, was delivered."""
        assert block.slot > self.tip.slot
        self._links[block.slot] = _Link(block.blockhash, block.parent_slot)
        self.tip = Position(block.slot, block.blockhash)

    def skip_to(self, slot: Slot) -> None:
        """Give up the blocks up to *slot*, so that the next delivered block may be a later one."""
        assert slot > self.tip.slot
        self.tip = Position(slot, None)

    def holds(self, position: Position) -> bool:
        """Return whether *position* is a delivered block, or the newest final block."""
        link = self._links.get(position.slot)
        return position == self.floor or (link is not None and link.blockhash == position.blockhash)

    def rewind(self, position: Position) -> None:
        """Forget the blocks after *position*, so that other blocks can replace them."""
        assert position == self.floor or self.holds(position)
        self._links = {slot: link for slot, link in self._links.items() if slot <= position.slot}
        self.tip = position

    def run(self, head: Slot) -> Sequence[Position]:
        """Return the delivered blocks after the newest final block that form one chain.

        Each block is the parent of the next one; blocks after a missing parent, and blocks above
        slot *head*, are left out.  The sequence may be empty.
        """
        # The blocks are linked by hashes: if one of them is final, so are all before it.
        run: list[Position] = []
        for slot, link in self._links.items():
            broken = run and link.parent_slot != run[-1].slot
            if broken or slot > head:
                break
            run.append(Position(slot, link.blockhash))
        return run

    def finalize(self, position: Position) -> None:
        """Record that the block at *position*, and each block before it, is final."""
        assert self.holds(position)
        self._links = {slot: link for slot, link in self._links.items() if slot > position.slot}
        self.floor = position


EVERY_S: Final = 1.0  # interval between two requests for the final head
FAST_EVERY_S: Final = 0.3  # the same interval if finality is fast
EVERY_BLOCKS: Final = 200  # after so many delivered blocks, the final head is requested at once
MIGRATION_EVERY_S: Final = 600.0  # a cluster migrates only once


Settled: TypeAlias = tuple[Position | None, Position | None]
"""The newest block that became final, and the oldest that died: see `Finality.advance`."""


class Fate(Enum):
    """The fate of a block: final, abandoned by the chain, or not known yet."""

    FINAL = auto()
    DEAD = auto()
    UNKNOWN = auto()


FATES: Final[Mapping[Absence, Fate]] = {
    Absence.SKIPPED: Fate.DEAD,
    Absence.REFUSED: Fate.UNKNOWN,
    Absence.NOT_READY: Fate.UNKNOWN,  # the node may lag
    Absence.PURGED: Fate.FINAL,  # no node can still contradict the block
}


async def watch_migration(rpc: Rpc, sleep: Sleep) -> None:
    """Export a metric: 1 if the cluster has migrated to Alpenglow, 0 if not, -1 if unknown.

    This function asks *rpc* every MIGRATION_EVERY_S seconds, and never returns.
    """
    while True:
        alpenglow = await rpc.alpenglow()
        ALPENGLOW.set(-1 if alpenglow is None else int(alpenglow))
        await sleep(MIGRATION_EVERY_S)


async def finality_now(rpc: Rpc, pace: Pace | None) -> Behind | None:
    """Return the present delay of finality, in slots and, at *pace*, in seconds.

    Returns None if *pace* is None.  Raises RpcFailure if the node does not answer.
    """
    confirmed = await rpc.slot(Commitment.CONFIRMED)
    slots = max(confirmed - await rpc.slot(Commitment.FINALIZED), 0)
    return None if pace is None else Behind(slots, pace.seconds(slots))


@dataclass(eq=False, repr=False)
class Finality:
    """Finds out which delivered blocks are final, and which ones the chain has abandoned."""

    rpc: Node
    lineage: Lineage
    clock: Clock
    _: KW_ONLY
    fast_every_s: float = FAST_EVERY_S  # between requests for the final head if finality is fast
    meter: FinalityMeter = field(default_factory=FinalityMeter)

    def __post_init__(self) -> None:
        self._head = Slot(-1)
        self._confirmed: Slot | None = None  # the newest answer; it may be below earlier ones
        self._asked_at_s = self.clock.monotonic_s()
        self._undecided = 0

    def commitment(self, slot: Slot) -> Commitment:
        """Return the commitment level at which to request *slot*: `finalized` if it is final."""
        return Commitment.FINALIZED if slot <= self._head else Commitment.CONFIRMED

    def note_delivered(self) -> None:
        """Count one more delivered block that may still be abandoned; many make `advance` due."""
        self._undecided += 1

    def note_confirmed(self, slot: Slot) -> None:
        """Record that *slot* is the newest slot that the node has confirmed."""
        self._confirmed = slot
        self.meter.note_confirmed(slot, self.clock.monotonic_s())

    def due_in_s(self) -> float:
        """Return the seconds until the next check of finality is due; 0 if it is due now."""
        if self._undecided >= EVERY_BLOCKS:
            return 0.0
        behind = self.meter.behind
        every_s = self.fast_every_s if behind is not None and behind.is_fast else EVERY_S
        return max(self._asked_at_s + every_s - self.clock.monotonic_s(), 0.0)

    async def advance(self) -> Settled:
        """Return the newest delivered block that is now final, and the oldest that is now dead.

        A dead block is one that the chain abandoned.  Each is None if there is no such block, or if
        its fate is unknown.  A final block is not returned if a fork removed it from `lineage`
        during the requests.
        """
        self._asked_at_s = self.clock.monotonic_s()
        # Blocks that are delivered during the requests count for the next call.
        self._undecided = 0
        head = await self.rpc.head(Commitment.FINALIZED)
        self._note_final(head.slot)
        run = self.lineage.run(self._head)
        if not run:
            return None, None
        # If the final head is the last block of the run, its hash decides without another request.
        is_named = run[-1] == Position(head.slot, head.blockhash)
        newest = Fate.FINAL if is_named else await self.fate(run[-1])
        if newest is Fate.UNKNOWN:
            return None, None
        count, is_next_dead = len(run), False
        if newest is Fate.DEAD:
            count, is_next_dead = await self._count_final(run[:-1])
        # A fork may have rewound the lineage during the requests.
        final = run[count - 1] if count and self.lineage.holds(run[count - 1]) else None
        if final is not None:
            self.lineage.finalize(final)
        return final, run[count] if is_next_dead else None

    async def fate(self, position: Position) -> Fate:
        """Return the fate of the block at *position*: final, abandoned, or not known yet.

        Its slot must not be above the newest final slot.
        """
        header = await self.rpc.header(position.slot, Commitment.FINALIZED)
        if isinstance(header, Missing):
            return FATES[header.absence]
        return Fate.FINAL if header.blockhash == position.blockhash else Fate.DEAD

    def _note_final(self, slot: Slot) -> None:
        # A broken node may name a slot that is far too high, once.
        self._head = slot if self._confirmed is None else min(slot, self._confirmed)
        self.meter.note_final(self._head, self.clock.monotonic_s())
        if (behind := self.meter.behind) is not None:
            FINALITY_SLOTS.set(behind.slots)
            FINALITY_SECONDS.set(behind.seconds)

    async def _count_final(self, run: Sequence[Position]) -> tuple[int, bool]:
        """Return (the number of final positions at the start of *run*, whether the next is dead).

        The number is found by bisection.  If the node does not know the fate of a position, the
        bisection ends: the number may then be too low, and the next position need not be dead.
        """
        low = 0
        high = len(run)
        while low < high:
            middle = (low + high) // 2
            fate = await self.fate(run[middle])
            if fate is Fate.UNKNOWN:
                return low, False
            if fate is Fate.FINAL:
                low = middle + 1
            else:
                high = middle
        return low, True
