"""Detection of silent venues: programs with steady swaps that have stopped."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mintscope.base.errors import ServiceUnavailable
from mintscope.base.metrics import VENUE_SILENT_S
from mintscope.base.primitives import UnixS
from mintscope.base.time import HOUR_S, MINUTE_S

SILENT_S_MIN: Final = 30
# Times the longest silence of the last hour or two.
SILENT_FACTOR: Final = 4
KEPT_S: Final = HOUR_S
WATCHED_S_MIN: Final = 10 * MINUTE_S  # of observation before a silence counts as unusual
SWAPS_MIN: Final = 100
NAMED_MAX: Final = 3


@dataclass(slots=True)
class _Venue:
    """Swaps of one program, by the time of the chain.

    longest_s   the longest silence of this hour, and of the one before
    """

    first: UnixS
    last: UnixS
    begun: UnixS
    swaps: int = 0
    longest_s: int = 0
    longest_before_s: int = 0

    def note(self, time: UnixS, count: int) -> None:
        if time - self.begun >= KEPT_S:
            self.begun = time
            self.longest_before_s = self.longest_s
            self.longest_s = 0
        self.longest_s = max(self.longest_s, time - self.last)
        self.last = time
        self.swaps += count

    @property
    def usual_s(self) -> int:
        """The longest usual silence, at least a second."""
        return max(self.longest_s, self.longest_before_s, 1)

    def is_silent(self, now: UnixS) -> bool:
        is_known = self.swaps >= SWAPS_MIN and self.last - self.first >= WATCHED_S_MIN
        return is_known and now - self.last > max(SILENT_S_MIN, SILENT_FACTOR * self.usual_s)


class VenueWatch:
    """Follows the venues from block to block.

    A venue is silent after at least half a minute without a swap, and four times its longest
    silence within the last hour: a busy venue after half a minute, a quiet one later.
    """

    def __init__(self) -> None:
        self._venues: dict[str, _Venue] = {}
        self._now = UnixS(0)

    def note(self, time: UnixS, swaps: Mapping[str, int]) -> None:
        """Note the *swaps* of a block at *time*, by program."""
        self._now = max(self._now, time)
        for program, count in swaps.items():
            venue = self._venues.get(program)
            if venue is None:
                venue = self._venues[program] = _Venue(time, time, time)
                VENUE_SILENT_S.labels(program).set_function(
                    lambda venue=venue: self._now - venue.last  # type: ignore[misc]
                )
            venue.note(time, count)

    async def expect_none_silent(self) -> None:
        """Raise ServiceUnavailable while a venue is silent."""
        silent = {
            program: venue for program, venue in self._venues.items() if venue.is_silent(self._now)
        }
        if not silent:
            return
        said = ", ".join(
            f"{program} for {self._now - venue.last} s, and lately never for more than"
            f" {venue.usual_s} s"
            for program, venue in list(silent.items())[:NAMED_MAX]
        )
        raise ServiceUnavailable(
            f"{len(silent)} programs have no swaps any more: {said}: were they upgraded, or are"
            " transactions left out of the blocks? mintscope programs --unread"
        )
