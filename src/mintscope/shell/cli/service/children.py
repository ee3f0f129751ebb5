"""Processes started by a command, and ended with it however it ends."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Collection, Mapping, Sequence
from types import FrameType
from typing import Self

STOP_TIMEOUT_S = 15.0
POLL_S = 0.2


class ChildEnded(Exception):
    """A process ended by itself that should run until it is stopped."""


class Children:
    """Runs `mintscope` commands beside this one; all of them stop when any does.

    environment   theirs; None: ours

    Each child holds the read end of a pipe whose other end is ours.  When we
    die, even by SIGKILL, the pipe closes and `stop_with_parent` ends the child.
    """

    def __init__(
        self,
        environment: Mapping[str, str] | None = None,
        *,
        command: Sequence[str] = (sys.executable, "-m", "mintscope", "--attached"),
    ) -> None:
        self._environment = environment
        self._command = command
        self._running: list[tuple[str, subprocess.Popen[bytes]]] = []
        self._stopping = threading.Event()

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_error: object) -> None:
        """Stop them, newest first: what serves stops before what feeds it."""
        for _, child in reversed(self._running):
            child.terminate()
            try:
                child.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            assert child.stdin is not None
            child.stdin.close()

    def start(self, name: str, arguments: Sequence[str]) -> None:
        """Start `mintscope` with *arguments*."""
        child = subprocess.Popen(  # noqa: S603 - our own interpreter, our own arguments
            [*self._command, *arguments],
            stdin=subprocess.PIPE,
            env=self._environment,
            start_new_session=True,  # Ctrl-C reaches us alone, we stop them in order
        )
        self._running.append((name, child))

    @property
    def stopping(self) -> bool:
        """Whether SIGINT or SIGTERM has come."""
        return self._stopping.is_set()

    def pause(self, seconds: float, *, may_end: Collection[str] = ()) -> None:
        """Wait *seconds*, less when asked to stop.

        Raises ChildEnded if one of them is gone, unless it is one that *may_end* well.
        """
        self._stopping.wait(seconds)
        for name, child in self._running:
            code = child.poll()
            ended_well = code == 0 and name in may_end
            if code is not None and not ended_well and not self.stopping:
                raise ChildEnded(f"{name} ended with exit code {code}; its last lines say why")

    def wait(self, *, may_end: Collection[str] = ()) -> None:
        """Wait until asked to stop.  Raises ChildEnded as `pause` does."""
        while not self.stopping:
            self.pause(POLL_S, may_end=may_end)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._stopping.set()


def stop_with_parent() -> None:
    """Turn the end of the pipe a parent holds on our standard input into a SIGTERM."""

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="parent", daemon=True).start()
