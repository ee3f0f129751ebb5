"""The spans of time that a list looks back on: whole parts, the open one included.

A change compares the newest price with the newest one from before its span.
"""

from typing import Final, NamedTuple

from mintscope.base.primitives import UnixS
from mintscope.base.time import MINUTE_S


class ListSpan(NamedTuple):
    """The newest *parts* parts, each of *part_s* seconds since 1970."""

    part_s: int
    parts: int

    def first_part(self, now: UnixS) -> int:
        """Return the number of the oldest part in it."""
        return now // self.part_s - self.parts + 1

    def start(self, now: UnixS) -> UnixS:
        """Return when it begins."""
        return UnixS(self.first_part(now) * self.part_s)


# The first two in minutes; the day in the parts that its pressure window has.
M5: Final = ListSpan(MINUTE_S, 5)
H1: Final = ListSpan(MINUTE_S, 60)
D1: Final = ListSpan(24 * MINUTE_S, 60)
SPANS: Final = (M5, H1, D1)
