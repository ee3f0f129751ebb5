"""When the next blocks can be had, learned from when others could."""

from typing import Final

from mintscope.base.pace import Pace, PaceMeter
from mintscope.base.primitives import Slot, UnixS

# Shares of a slot.  Each block that is there brings the next request forward a little, each that is
# not there yet puts it off: in balance one request in a dozen comes too early.
EARLIER: Final = 0.02
LATER: Final = 0.25


class Arrivals:
    """Expects each slot a slot's time after the one before.

    All times are those at which a request was sent, by a clock that never goes back: how long
    requests and answers take need not be known.
    """

    def __init__(self) -> None:
        self._meter = PaceMeter()
        self._newest: tuple[Slot, float] | None = None  # and when to ask for it

    @property
    def pace(self) -> Pace | None:
        """The pace that blocks state; None before there are enough of them."""
        return self._meter.pace

    def note_made(self, slot: Slot, time: UnixS | None) -> None:
        """Note the time that the block of *slot* states."""
        if time is not None:
            self._meter.note(slot, time)

    def note_named(self, slot: Slot, asked_at_s: float) -> None:
        """Note that the answer to a request of *asked_at_s* named *slot* as the newest."""
        due_at_s = self.due_at_s(slot)
        self._newest = slot, asked_at_s if due_at_s is None else min(asked_at_s, due_at_s)

    def note_there(self, slot: Slot, asked_at_s: float) -> None:
        """Note that a request of *asked_at_s* found *slot*: the next may be sent sooner."""
        self.note_named(slot, asked_at_s - self._share_s(EARLIER))

    def note_early(self, slot: Slot, asked_at_s: float) -> None:
        """Note that a request of *asked_at_s* came too early for *slot*."""
        due_at_s = self.due_at_s(slot)
        if due_at_s is None:
            return
        # Others that were sent before this answer came are early for the same reason.
        self._newest = slot, max(due_at_s, asked_at_s + self._share_s(LATER))

    def due_at_s(self, slot: Slot) -> float | None:
        """Return when to ask for *slot*; None before the pace and a slot's time are known."""
        if self.pace is None or self._newest is None:
            return None
        newest, at_s = self._newest
        return at_s + self.pace.seconds(slot - newest)

    def _share_s(self, share: float) -> float:
        return 0.0 if self.pace is None else share * self.pace.slot_s
