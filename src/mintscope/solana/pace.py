"""The pace of a chain, measured from its block times.

A slot of mainnet took 400 ms until 2026, and later 350, 300, 250 and 200 ms.  Code that converts
between slots and seconds therefore uses a `PaceMeter`, or the pace that the node reports.
"""

from collections import deque
from collections.abc import Iterable
from math import ceil
from statistics import median, median_high
from typing import Final

import msgspec

from mintscope.kit.primitives import Slot, UnixS

BLOCKHASH_BLOCKS: Final = 150  # MAX_PROCESSING_AGE: a blockhash is valid for 150 blocks
WINDOW_S: Final = 180  # the pace is measured from block times of this span
SPAN_S_MIN: Final = 20  # block times are whole seconds, so a pace from a shorter span is inaccurate
MARKS_MAX: Final = 400  # at most one mark for each second of block time
NEWEST: Final = 5  # number of the newest marks; their median block time counts as now
SLOT_S_MIN: Final = 0.01
SLOT_S_MAX: Final = 10.0


class Pace(msgspec.Struct, frozen=True):
    """The average duration of a slot, with or without a block."""

    slot_s: float  # seconds per slot, SLOT_S_MIN to SLOT_S_MAX
    over_s: float  # span of the measurement, in seconds

    def slots(self, seconds: float) -> int:
        """Return the number of slots that take *seconds*, rounded up."""
        return ceil(seconds / self.slot_s)

    def seconds(self, slots: int) -> float:
        """Return the number of seconds that *slots* take."""
        return slots * self.slot_s


class PaceMeter:
    """Measures the pace from the slots and block times of the last WINDOW_S seconds.

    Leaders set block times, in whole seconds, and some are wrong.  A mark is a slot and its block
    time.  The pace is the median of many slopes, each between a mark and the mark that comes half
    of all marks later.  The pace is right even if almost a quarter of the marks are wrong.
    """

    def __init__(self, known: Iterable[tuple[Slot, UnixS]] = ()) -> None:
        """Start with the slots and times of *known* blocks, oldest first."""
        self._marks: deque[tuple[Slot, UnixS]] = deque(maxlen=MARKS_MAX)
        self._pace: Pace | None = None
        self._is_measured = True
        for slot, time in known:
            self.note(slot, time)

    def note(self, slot: Slot, time: UnixS) -> None:
        """Use the block time of *slot* for the pace.

        Times of this and later slots that were recorded before are discarded, because the chain has
        abandoned their blocks.
        """
        marks = self._marks
        while marks and marks[-1][0] >= slot:
            marks.pop()
            self._is_measured = False
        # Only the first slot of a block time is a mark: that second began at most a slot earlier.
        if marks and time == marks[-1][1]:
            return
        marks.append((slot, time))
        self._is_measured = False

    @property
    def pace(self) -> Pace | None:
        """The pace; None while the block times span less than SPAN_S_MIN seconds.

        After an interruption it keeps its value until the new block times span SPAN_S_MIN seconds.
        """
        if not self._is_measured:
            self._pace = _measured(list(self._marks)) or self._pace
            self._is_measured = True
        return self._pace


def pace_of_samples(samples: Iterable[tuple[int, float]]) -> Pace | None:
    """Return the median pace of *samples*, (slots, seconds) of getRecentPerformanceSamples.

    Samples with 0 slots or 0 seconds are skipped; returns None if no sample is left.
    """
    usable = [(slots, seconds) for slots, seconds in samples if slots > 0 and seconds > 0]
    if not usable:
        return None
    slot_s = median(seconds / slots for slots, seconds in usable)
    return Pace(_bounded(slot_s), sum(seconds for _, seconds in usable))


def pace_between(first: tuple[Slot, UnixS], last: tuple[Slot, UnixS]) -> Pace | None:
    """Return the pace from *first* to *last*, (slot, block time) of two blocks.

    Return None if *last* is not at least SPAN_S_MIN seconds later than *first*.
    """
    slots = last[0] - first[0]
    seconds = last[1] - first[1]
    if slots <= 0 or seconds < SPAN_S_MIN:
        return None
    return Pace(_bounded(seconds / slots), seconds)


def _measured(known: list[tuple[Slot, UnixS]]) -> Pace | None:
    if not known:
        return None
    # With the newest time alone, a single wrong time could push all others out of the window.
    newest = median_high(time for _, time in known[-NEWEST:])
    marks = [mark for mark in known if abs(newest - mark[1]) <= WINDOW_S]
    times = [time for _, time in marks]
    over_s = max(times) - min(times)
    if over_s < SPAN_S_MIN:
        return None
    half = len(marks) // 2
    slopes = [
        (marks[n + half][1] - marks[n][1]) / (marks[n + half][0] - marks[n][0])
        for n in range(len(marks) - half)
    ]
    return Pace(_bounded(median(slopes)), over_s)


def _bounded(slot_s: float) -> float:
    return min(max(slot_s, SLOT_S_MIN), SLOT_S_MAX)
