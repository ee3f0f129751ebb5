"""Clocks that functions take as an argument; only `SystemClock` reads the machine's clocks."""

import time
from typing import Protocol


class Clock(Protocol):
    """A source of the current time, and of a monotonic time."""

    def now(self) -> int:
        """Return the wall-clock time in Unix milliseconds; it may jump forward or back."""

    def monotonic_s(self) -> float:
        """Return the seconds of a clock that is never adjusted, to measure durations."""


class SystemClock:
    """The wall clock and the monotonic clock of the system."""

    def now(self) -> int:
        """Return the system's wall-clock time in Unix milliseconds."""
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        """Return the seconds of the system's monotonic clock."""
        return time.monotonic()
