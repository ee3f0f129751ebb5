"""Processes started by a command: started again when they end, and ended with it."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import Final, Self

import msgspec
import structlog

from mintscope.shell.cli.service.out_of_service import LINGER_S, OutOfService
from mintscope.shell.cli.service.running import EXIT_OPERATOR, ChildEnded
from mintscope.shell.wiring.processes.backoff import Backoff
from mintscope.shell.wiring.processes.sibling import Sibling

STOP_TIMEOUT_S: Final = 15.0
POLL_S: Final = 0.05
ANSWER_S: Final = 0.5  # a start that is further away is not waited for by clients

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """The meaning of the end of a process for the others.

    may_end       it may end well, and then stays ended
    has_memory    it keeps in memory what the others rely on: it is never started again
    is_vital      the others end with it when it ends for good
    again         what its arguments end with when it is started again
    """

    may_end: bool = False
    has_memory: bool = False
    is_vital: bool = False
    again: Sequence[str] = ()


@dataclass(slots=True, kw_only=True)
class _Child:
    """One process, from its first run to its last."""

    name: str
    arguments: Sequence[str]
    role: Role
    listener: socket.socket | None
    out_of_service: OutOfService | None
    process: subprocess.Popen[bytes] | None = None
    started_s: float = 0.0
    start_again_s: float = float("inf")
    sibling: Sibling = field(default_factory=Sibling)
    backoff: Backoff = field(default_factory=Backoff)


class Children:
    """Runs `mintscope` commands beside this one; one that ends is started again.

    A child that ends with EXIT_OPERATOR stays ended, and the others are notified.

    environment   theirs; None: ours

    Each child holds the read end of a pipe whose other end is ours.  We write there what became
    of the others.  When we die, even by SIGKILL, the pipe closes and `attach` ends the child.
    """

    def __init__(
        self,
        environment: Mapping[str, str] | None = None,
        *,
        command: Sequence[str] = (sys.executable, "-m", "mintscope", "--attached"),
    ) -> None:
        self._environment = environment
        self._command = command
        self._children: list[_Child] = []
        self._stopping = threading.Event()
        self._hung_up = threading.Event()
        self._on_hang_up: Callable[[], Sequence[str]] = lambda: ()
        self.stopped_by: int | None = None  # the signal that stopped it, if one did

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)
        signal.signal(signal.SIGHUP, lambda *_: self._hung_up.set())
        return self

    def __exit__(self, *_error: object) -> None:
        """Stop them all at once; those that others rely on stop when the others have."""
        for has_memory in (False, True):
            _stop([each for each in self._children if each.role.has_memory is has_memory])
        for child in self._children:
            if child.out_of_service is not None:
                child.out_of_service.close()

    def start(
        self,
        name: str,
        arguments: Sequence[str],
        *,
        role: Role = Role(),
        listener: socket.socket | None = None,
    ) -> None:
        """Start `mintscope` with *arguments*; it inherits *listener*, whose clients it serves.

        While it does not run, its clients wait; when it is not about to, they hear 503.
        """
        child = _Child(
            name=name,
            arguments=arguments,
            role=role,
            listener=listener,
            out_of_service=None if listener is None else OutOfService(listener),
        )
        self._children.append(child)
        self._run(child)

    def on_hang_up(self, reload: Callable[[], Sequence[str]]) -> None:
        """Call *reload* at each SIGHUP, then pass the signal on to the children.

        reload    returns the names of children that are to be restarted instead
        """
        self._on_hang_up = reload

    @property
    def stopping(self) -> bool:
        """Whether SIGINT or SIGTERM has come."""
        return self._stopping.is_set()

    def pause(self, seconds: float) -> None:
        """Wait *seconds*, less when asked to stop; start again what has ended.

        Raises ChildEnded when one has ended for good without which the others cannot work.
        """
        end_s = time.monotonic() + seconds
        while not self._stopping.wait(min(POLL_S, max(0.0, end_s - time.monotonic()))):
            if self._hung_up.is_set():
                self._hung_up.clear()
                self._hang_up(self._on_hang_up())
            for child in self._children:
                self._look_at(child)
            if time.monotonic() >= end_s:
                return

    def wait(self) -> None:
        """Wait until asked to stop.  Raises ChildEnded as `pause` does."""
        while not self.stopping:
            self.pause(1)

    def _run(self, child: _Child) -> None:
        again = child.role.again if child.sibling.restarts else ()
        child.process = subprocess.Popen(  # noqa: S603 - our own interpreter, our own arguments
            [*self._command, *child.arguments, *again],
            stdin=subprocess.PIPE,
            env=self._environment,
            start_new_session=True,  # Ctrl-C reaches us alone, we stop them in order
            pass_fds=[] if child.listener is None else [child.listener.fileno()],
        )
        assert child.process.stdin is not None
        os.set_blocking(child.process.stdin.fileno(), False)
        child.started_s, child.start_again_s = time.monotonic(), float("inf")
        self._tell()

    def _hang_up(self, begun_again: Sequence[str]) -> None:
        """Ask every child to read its settings again, or end it so that it is restarted."""
        for child in self._children:
            if child.process is not None:
                is_ended = child.name in begun_again
                child.process.send_signal(signal.SIGTERM if is_ended else signal.SIGHUP)

    def _look_at(self, child: _Child) -> None:
        """Note that *child* has ended, or start it again when it is time."""
        now_s = time.monotonic()
        if child.out_of_service is not None:
            child.out_of_service.close(older_than_s=LINGER_S)
        if child.process is None:
            is_soon = child.start_again_s - now_s <= ANSWER_S
            if child.out_of_service is not None and not is_soon and not self._is_served(child):
                child.out_of_service.answer()
            if now_s >= child.start_again_s:
                child.sibling = Sibling(restarts=child.sibling.restarts + 1)
                self._run(child)
            return
        code = child.process.poll()
        if code is None:
            return
        _close_pipe(child.process)
        child.process = None
        if code == 0 and child.role.may_end:
            return
        if code == EXIT_OPERATOR or child.role.has_memory:
            self._give_up(child, code)
            return
        wait_s = child.backoff.after(now_s - child.started_s)
        child.start_again_s = now_s + wait_s
        log.warning(
            "process ended", process=child.name, exit_code=code, restart_in_s=round(wait_s, 2)
        )

    def _is_served(self, child: _Child) -> bool:
        """Say whether another process serves the clients of *child*."""
        return any(
            other.listener is child.listener and other.process is not None
            for other in self._children
        )

    def _give_up(self, child: _Child, code: int) -> None:
        if child.role.is_vital:
            raise ChildEnded(
                f"{child.name} ended with exit code {code}; its last lines say why",
                needs_operator=code == EXIT_OPERATOR,
            )
        log.error("process ended for good", process=child.name, exit_code=code)
        child.sibling = Sibling(restarts=child.sibling.restarts, is_stopped=True)
        self._tell()

    def _tell(self) -> None:
        """Send every child the state of all of them; one that has just ended hears nothing."""
        told = {child.name: child.sibling for child in self._children}
        line = msgspec.json.encode(told) + b"\n"
        for child in self._children:
            if child.process is not None and child.process.stdin is not None:
                with suppress(BrokenPipeError, BlockingIOError):
                    os.write(child.process.stdin.fileno(), line)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self.stopped_by = number
        self._stopping.set()


def _stop(children: Sequence[_Child]) -> None:
    """Ask all of *children* to end, then wait for each; kill what takes too long."""
    running = [child.process for child in children if child.process is not None]
    for process in running:
        process.terminate()
    end_s = time.monotonic() + STOP_TIMEOUT_S
    for process in running:
        try:
            process.wait(max(0.0, end_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        _close_pipe(process)


def _close_pipe(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()
