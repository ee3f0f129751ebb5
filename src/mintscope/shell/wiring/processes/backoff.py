"""How long to wait before what failed is tried again: little at first, then ever longer."""

from dataclasses import dataclass
from typing import Final

FIRST_S: Final = 0.05
LONGEST_S: Final = 5.0
STEADY_S: Final = 60.0
DOUBLINGS_MAX: Final = 20


@dataclass(slots=True)
class Backoff:
    """The waits between the runs of one thing, from 0.05 s to 5 s; a steady run starts over."""

    _failures: int = 0

    def after(self, ran_s: float) -> float:
        """Return how many seconds to wait after a run of *ran_s* seconds."""
        if ran_s >= STEADY_S:
            self._failures = 0
        wait_s = min(FIRST_S * 2.0 ** min(self._failures, DOUBLINGS_MAX), LONGEST_S)
        self._failures += 1
        return wait_s
