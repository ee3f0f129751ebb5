"""The delay from the confirmation of a slot until it is final, measured from a node's answers.

Before Alpenglow a block became final after 32 slots; since then, after one or two.  No date or
version shows how long to wait, so all code that waits for finality uses a `FinalityMeter`.
"""

from collections import deque
from collections.abc import Sequence
from statistics import median
from typing import Any, Final

import msgspec

from mintscope.kit.primitives import Slot

FAST_S: Final = 4.0  # a third of the delay before Alpenglow, and several times the delay after it
MARKS_MAX: Final = 1_000  # the most confirmed slots remembered until they are final
ABSURD_SLOTS: Final = 1_000  # an earlier slot that is this much higher was named by mistake
SAMPLES_MAX: Final = 32
INVALID_PARAMS: Final = -32602  # JSON-RPC error code; an unknown commitment level also causes it
LEVELS: Final = ("commitment", "preflightCommitment")  # JSON-RPC options with a level
CONFIRMED: Final = "confirmed"
FINALIZED: Final = "finalized"


class Behind(msgspec.Struct, frozen=True):
    """The delay from the confirmation of a slot until it is final.

    `FinalityMeter` measures both values; `finality_now` computes the seconds from the pace.
    """

    slots: int  # slots from the newest final one to the newest confirmed one
    seconds: float  # from the moment at which a slot is confirmed to that at which it is final

    @property
    def is_fast(self) -> bool:
        """Whether finality takes at most FAST_S, so that frequent checks are useful."""
        return self.seconds <= FAST_S


class Finality(msgspec.Struct, frozen=True):
    """The finality of a cluster and its delay, as one node reports them."""

    alpenglow: bool | None  # whether the cluster has migrated to it; None: unknown
    behind: Behind | None  # the measured delay; None until there is a measurement


class FinalityMeter:
    """Measures the time that slots take from confirmed to final, by a monotonic clock."""

    def __init__(self) -> None:
        self._marks: deque[tuple[Slot, float]] = deque()
        self._samples: deque[Behind] = deque(maxlen=SAMPLES_MAX)
        self._unknown_to = Slot(-1)  # up to this slot, confirmation times are unknown

    def note_confirmed(self, slot: Slot, at_s: float) -> None:
        """Record that *slot* is confirmed at *at_s*, in seconds of a monotonic clock.

        A slot that is not above the newest confirmed slot is ignored.  Recorded slots that are more
        than ABSURD_SLOTS above *slot* are forgotten.
        """
        marks = self._marks
        while marks and marks[-1][0] - slot > ABSURD_SLOTS:
            marks.pop()
        is_first = not marks and not self._samples
        # After an absurd slot, all real slots would be ignored.
        if is_first or self._unknown_to - slot > ABSURD_SLOTS:
            self._unknown_to = Slot(slot - 1)
        if slot <= (marks[-1][0] if marks else self._unknown_to):
            return
        marks.append((slot, at_s))
        if len(marks) > MARKS_MAX:
            self._unknown_to = marks.popleft()[0]

    def note_final(self, slot: Slot, at_s: float) -> None:
        """Record that *slot* became final at *at_s*, in seconds of a monotonic clock.

        A slot is ignored if it is not above the newest final slot, if no slot was confirmed yet, or
        if the time of its confirmation is not known.
        """
        # Slots below the first confirmed one are ignored, too: the time of their confirmation is
        # not known.
        marks = self._marks
        has_begun = bool(marks or self._samples)
        if slot <= self._unknown_to or not has_begun:
            return
        newest = marks[-1][0] if marks else slot
        # A report that a slot is confirmed also confirms all slots below it.
        since_s = next((since_s for mark, since_s in marks if mark >= slot), at_s)
        while marks and marks[0][0] <= slot:
            marks.popleft()
        self._unknown_to = slot
        self._samples.append(Behind(max(newest - slot, 0), max(at_s - since_s, 0.0)))

    @property
    def behind(self) -> Behind | None:
        """The delay of finality: the median of the newest measurements, None before the first."""
        if not self._samples:
            return None
        slots = median(sample.slots for sample in self._samples)
        seconds = median(sample.seconds for sample in self._samples)
        return Behind(round(slots), seconds)


def as_final(params: Sequence[Any]) -> list[Any]:
    """Return *params* of a JSON-RPC call with the level `finalized` in place of `confirmed`."""
    # Future releases of Solana may drop the level `confirmed`, because a block is then final as
    # soon as it is confirmed.
    return [_as_final(each) if isinstance(each, dict) else each for each in params]


def _as_final(options: dict[str, Any]) -> dict[str, Any]:
    named = [level for level in LEVELS if options.get(level) == CONFIRMED]
    return {**options, **dict.fromkeys(named, FINALIZED)}
