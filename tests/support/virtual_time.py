"""An event loop that skips waits: a wait of seconds takes milliseconds."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

from typing_extensions import override

from mintscope.kit.primitives import UnixMs

T = TypeVar("T")
RESOLUTION_S = 1e-6  # without this least step, a wait too short to change the time would never end
START_S = 1_700_000_000


class _Jumping(selectors.DefaultSelector):
    """A selector that moves the time of the loop forward instead of waiting."""

    passed_s = 0.0

    @override
    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "nothing is left that could end the wait"
            self.passed_s += timeout + RESOLUTION_S
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop that moves its clock instead of waiting."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    @override
    def time(self) -> float:
        """Return the seconds that have passed on the clock of the loop."""
        return self._jumping.passed_s


class LoopClock:
    """The clock of the running loop, which began at *start_s*, in Unix seconds."""

    def __init__(self, start_s: int = START_S) -> None:
        self._start_s = start_s

    def now(self) -> UnixMs:
        """Return the current time of the loop in Unix milliseconds."""
        return UnixMs(int((self._start_s + self.monotonic_s()) * 1_000))

    def monotonic_s(self) -> float:
        """Return the seconds since the loop began."""
        return asyncio.get_running_loop().time()


def run_virtually(main: Coroutine[Any, Any, T]) -> T:
    """Run *main*, whose waits take no real time; return its result."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
