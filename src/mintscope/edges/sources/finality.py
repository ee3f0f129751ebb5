"""Which delivered blocks can no longer die: asked now and then, proven by their hash."""

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import Final, TypeAlias

from mintscope.base.clock import Clock
from mintscope.base.finality import Behind, FinalityMeter
from mintscope.base.metrics import ALPENGLOW, FINALITY_SECONDS, FINALITY_SLOTS
from mintscope.base.pace import Pace
from mintscope.base.primitives import Slot
from mintscope.edges.sources.lineage import Lineage, Position
from mintscope.edges.sources.node import Node
from mintscope.edges.sources.rpc import Commitment, Missing, Rpc
from mintscope.edges.sources.throttle import Sleep
from mintscope.edges.sources.wire import Absence

EVERY_S: Final = 1.0  # if finality takes seconds: each time is a question to the node
FAST_EVERY_S: Final = 0.3  # if it takes less
EVERY_BLOCKS: Final = 200
MIGRATION_EVERY_S: Final = 600.0  # a cluster migrates once, and a node is exchanged seldom


Settled: TypeAlias = tuple[Position | None, Position | None]


class Fate(Enum):
    """The outcome of a block."""

    FINAL = auto()
    DEAD = auto()
    UNKNOWN = auto()


FATES: Final[Mapping[Absence, Fate]] = {
    Absence.SKIPPED: Fate.DEAD,
    Absence.REFUSED: Fate.UNKNOWN,
    Absence.NOT_READY: Fate.UNKNOWN,  # a node that lags proves nothing
    Absence.PURGED: Fate.FINAL,  # no node can contradict it any more
}


async def watch_migration(rpc: Rpc, sleep: Sleep) -> None:
    """Ask *rpc* for ever, every MIGRATION_EVERY_S, whether the cluster is on Alpenglow.

    The answer is shown by a metric.
    """
    while True:
        alpenglow = await rpc.alpenglow()
        ALPENGLOW.set(-1 if alpenglow is None else int(alpenglow))
        await sleep(MIGRATION_EVERY_S)


async def finality_now(rpc: Rpc, pace: Pace | None) -> Behind | None:
    """Return how far `finalized` is behind `confirmed` now, in seconds at *pace*.

    None if there is no pace.  Raises RpcFailure.
    """
    confirmed = await rpc.slot(Commitment.CONFIRMED)
    slots = max(confirmed - await rpc.slot(Commitment.FINALIZED), 0)
    return None if pace is None else Behind(slots, pace.seconds(slots))


class Finality:
    """How far the chain is final, and what was delivered of it.

    fast_every_s   how often a node is asked that is final soon after it has confirmed
    meter          measures how soon that is; by default one of its own
    """

    def __init__(
        self,
        rpc: Node,
        lineage: Lineage,
        clock: Clock,
        *,
        fast_every_s: float = FAST_EVERY_S,
        meter: FinalityMeter | None = None,
    ) -> None:
        self._rpc = rpc
        self._lineage = lineage
        self._clock = clock
        self._fast_every_s = fast_every_s
        self._meter = FinalityMeter() if meter is None else meter
        self._head = Slot(-1)
        self._asked_at_s = clock.monotonic_s()
        self._undecided = 0

    def commitment(self, slot: Slot) -> Commitment:
        """Return how to ask for *slot*: final ones as final, for nothing there can change."""
        return Commitment.FINALIZED if slot <= self._head else Commitment.CONFIRMED

    def note_delivered(self) -> None:
        """Count a block whose fate is not known yet."""
        self._undecided += 1

    def note_confirmed(self, slot: Slot) -> None:
        """Note that the node has confirmed *slot*, the newest."""
        self._meter.note_confirmed(slot, self._clock.monotonic_s())

    def due_in_s(self) -> float:
        """Return for how many seconds there is no need to `advance`, 0 if it is time."""
        if self._undecided >= EVERY_BLOCKS:
            return 0.0
        behind = self._meter.behind
        every_s = self._fast_every_s if behind is not None and behind.is_fast else EVERY_S
        return max(self._asked_at_s + every_s - self._clock.monotonic_s(), 0.0)

    async def advance(self) -> Settled:
        """Return the newest delivered block now known to be final, and the oldest that died.

        Blocks may be delivered and forgotten meanwhile: one forgotten is neither.
        """
        self._asked_at_s = self._clock.monotonic_s()
        self._undecided = 0
        head = await self._rpc.head(Commitment.FINALIZED)
        self._note_final(head.slot)
        run = self._lineage.run(self._head)
        if not run:
            return None, None
        # Where the node names its newest final block, that is one question less.
        is_named = run[-1] == Position(head.slot, head.blockhash)
        newest = Fate.FINAL if is_named else await self.fate(run[-1])
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

    def _note_final(self, slot: Slot) -> None:
        self._head = max(self._head, slot)
        self._meter.note_final(slot, self._clock.monotonic_s())
        if (behind := self._meter.behind) is not None:
            FINALITY_SLOTS.set(behind.slots)
            FINALITY_SECONDS.set(behind.seconds)

    async def _count_final(self, run: Sequence[Position]) -> int:
        """Return how many of *run*, from its start, are final; they are linked, so bisect."""
        low = 0
        high = len(run)
        while low < high:
            middle = (low + high) // 2
            if await self.fate(run[middle]) is Fate.FINAL:
                low = middle + 1
            else:
                high = middle
        return low
