"""The distance of a chain's finality from its confirmed head, measured by the answers of its node.

Before Alpenglow a block was final 32 slots after it; since then a slot or two after.  So neither a
date nor a version says how long to wait: all that waits for finality asks a `FinalityMeter`.
"""

from collections import deque
from collections.abc import Sequence
from statistics import median
from typing import Any, Final

import msgspec

from mintscope.kit.primitives import Slot

FAST_S: Final = 4.0  # a third of what finality took before Alpenglow, and much more than since
MARKS_MAX: Final = 1_000  # newest slots whose finality is waited for
SAMPLES_MAX: Final = 32
INVALID_PARAMS: Final = -32602  # of JSON-RPC: so a node refuses a level that it does not know
LEVELS: Final = ("commitment", "preflightCommitment")  # options of JSON-RPC that name one
CONFIRMED: Final = "confirmed"
FINALIZED: Final = "finalized"


class Behind(msgspec.Struct, frozen=True):
    """The distance of `finalized` from `confirmed`, as a reader sees it.

    slots     of the chain
    seconds   from when it learned of a confirmed slot until it learned that it is final
    """

    slots: int
    seconds: float

    @property
    def is_fast(self) -> bool:
        """Whether finality follows within seconds, so that its waiters check often."""
        return self.seconds <= FAST_S


class Finality(msgspec.Struct, frozen=True):
    """The finality of a cluster, as one node answers.

    alpenglow   the cluster has migrated to Alpenglow; None: the node does not know
    behind      None until it was measured
    """

    alpenglow: bool | None
    behind: Behind | None


class FinalityMeter:
    """Measures the delay from confirmed to final slots, by a monotonic clock."""

    def __init__(self) -> None:
        self._marks: deque[tuple[Slot, float]] = deque()
        self._samples: deque[Behind] = deque(maxlen=SAMPLES_MAX)
        self._unknown_to = Slot(-1)  # when slots up to here were confirmed is not known

    def note_confirmed(self, slot: Slot, at_s: float) -> None:
        """Record that *slot* is the newest confirmed one; older ones change nothing."""
        marks = self._marks
        if not marks and not self._samples:
            self._unknown_to = max(self._unknown_to, Slot(slot - 1))
        if slot <= (marks[-1][0] if marks else self._unknown_to):
            return
        marks.append((slot, at_s))
        if len(marks) > MARKS_MAX:
            self._unknown_to = marks.popleft()[0]

    def note_final(self, slot: Slot, at_s: float) -> None:
        """Record that *slot* is the newest final one; older ones change nothing."""
        marks = self._marks
        has_begun = bool(marks or self._samples)
        if slot <= self._unknown_to or not has_begun:
            return
        newest = marks[-1][0] if marks else slot
        # A slot is confirmed with the first one at or above it that was said to be.
        since_s = next((since_s for mark, since_s in marks if mark >= slot), at_s)
        while marks and marks[0][0] <= slot:
            marks.popleft()
        self._unknown_to = slot
        self._samples.append(Behind(max(newest - slot, 0), max(at_s - since_s, 0.0)))

    @property
    def behind(self) -> Behind | None:
        """The median of the newest samples, or None before there is any."""
        if not self._samples:
            return None
        slots = median(sample.slots for sample in self._samples)
        seconds = median(sample.seconds for sample in self._samples)
        return Behind(round(slots), seconds)


def as_final(params: Sequence[Any]) -> list[Any]:
    """Return *params* of a JSON-RPC call with `finalized` in place of `confirmed`.

    Announced releases of Solana may drop the level `confirmed`: then a block is confirmed when it
    is final.
    """
    return [_as_final(each) if isinstance(each, dict) else each for each in params]


def _as_final(options: dict[str, Any]) -> dict[str, Any]:
    named = [level for level in LEVELS if options.get(level) == CONFIRMED]
    return {**options, **dict.fromkeys(named, FINALIZED)}
