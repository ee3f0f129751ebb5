"""Clocks, which callers pass as an argument.  No other module reads the wall time."""

import time
from typing import Protocol

from mintscope.kit.primitives import UnixMs


class Clock(Protocol):
    """A source of the current time."""

    def now(self) -> UnixMs:
        """Return the wall time, which may jump forward or back."""

    def monotonic_s(self) -> float:
        """Return a time that never goes back, in seconds, for durations and time limits."""


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> UnixMs:
        """Return the wall time."""
        return UnixMs(time.time_ns() // 1_000_000)

    def monotonic_s(self) -> float:
        """Return the machine's monotonic time."""
        return time.monotonic()


class ManualClock:
    """A clock that moves only on request; for tests and the devchain."""

    def __init__(self, now: UnixMs) -> None:
        self._now = int(now)
        self._monotonic_ms = 0

    def now(self) -> UnixMs:
        """Return the wall time."""
        return UnixMs(self._now)

    def monotonic_s(self) -> float:
        """Return the number of seconds by which `advance` has moved this clock."""
        return self._monotonic_ms / 1000

    def advance(self, milliseconds: int) -> None:
        """Move the wall time and the monotonic time forward by *milliseconds* (>= 0)."""
        assert milliseconds >= 0
        self._now += milliseconds
        self._monotonic_ms += milliseconds

    def step(self, milliseconds: int) -> None:
        """Change only the wall time, in either direction, as an operator or NTP would."""
        self._now += milliseconds
