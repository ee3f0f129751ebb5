"""Which delivered blocks can no longer die: asked now and then, proven by their hash."""

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import Final, TypeAlias

from mintscope.base.clock import Clock
from mintscope.base.primitives import Slot
from mintscope.edges.sources.lineage import Lineage, Position
from mintscope.edges.sources.node import Node
from mintscope.edges.sources.rpc import Commitment, Missing
from mintscope.edges.sources.wire import Absence

EVERY_S: Final = 1.0
EVERY_BLOCKS: Final = 200


Settled: TypeAlias = tuple[Position | None, Position | None]


class Fate(Enum):
    """What became of a block."""

    FINAL = auto()
    DEAD = auto()
    UNKNOWN = auto()


FATES: Final[Mapping[Absence, Fate]] = {
    Absence.SKIPPED: Fate.DEAD,
    Absence.REFUSED: Fate.UNKNOWN,
    Absence.NOT_READY: Fate.UNKNOWN,  # a node that lags proves nothing
    Absence.PURGED: Fate.FINAL,  # no node can contradict it any more
}


class Finality:
    """How far the chain is final, and what was delivered of it."""

    def __init__(self, rpc: Node, lineage: Lineage, clock: Clock) -> None:
        self._rpc = rpc
        self._lineage = lineage
        self._clock = clock
        self._head = Slot(-1)
        self._asked_at_s = clock.monotonic_s()
        self._undecided = 0

    def commitment(self, slot: Slot) -> Commitment:
        """Return how to ask for *slot*: final ones as final, for nothing there can change."""
        return Commitment.FINALIZED if slot <= self._head else Commitment.CONFIRMED

    def note_delivered(self) -> None:
        """Count a block whose fate is not known yet."""
        self._undecided += 1

    def is_due(self) -> bool:
        """Tell whether it is time to `advance`."""
        waited_s = self._clock.monotonic_s() - self._asked_at_s
        return self._undecided >= EVERY_BLOCKS or waited_s >= EVERY_S

    async def advance(self) -> Settled:
        """Return the newest delivered block now known to be final, and the oldest that died.

        Blocks may be delivered and forgotten meanwhile: one forgotten is neither.
        """
        self._asked_at_s = self._clock.monotonic_s()
        self._undecided = 0
        self._head = max(self._head, await self._rpc.slot(Commitment.FINALIZED))
        run = self._lineage.run(self._head)
        newest = await self.fate(run[-1]) if run else Fate.UNKNOWN
        if newest is Fate.UNKNOWN:
            return None, None
        count = len(run) if newest is Fate.FINAL else await self._count_final(run[:-1])
        final = run[count - 1] if count and self._lineage.holds(run[count - 1]) else None
        if final is not None:
            self._lineage.finalize(final)
        return final, run[count] if count < len(run) else None

    async def fate(self, position: Position) -> Fate:
        """Return what became of the block at *position*, at or below the final head."""
        header = await self._rpc.header(position.slot, Commitment.FINALIZED)
        if isinstance(header, Missing):
            return FATES[header.absence]
        return Fate.FINAL if header.blockhash == position.blockhash else Fate.DEAD

    async def _count_final(self, run: Sequence[Position]) -> int:
        """Return how many of *run*, from its start, are final; they are linked, so bisect."""
        low, high = 0, len(run)
        while low < high:
            middle = (low + high) // 2
            if await self.fate(run[middle]) is Fate.FINAL:
                low = middle + 1
            else:
                high = middle
        return low
