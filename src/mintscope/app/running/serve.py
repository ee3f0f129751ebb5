"""The command `serve`: starts and restarts the processes; answers 503 while no api can start."""

import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import Annotated, Final, NoReturn, Self

import msgspec
import structlog
import typer

from mintscope import __version__
from mintscope.app.cli.config import ConfigFile, configured, shown
from mintscope.app.cli.output import stop
from mintscope.app.config.groups import Config
from mintscope.app.config.load import Loaded, load, settings
from mintscope.app.engine import is_shared
from mintscope.app.running.commit import commit
from mintscope.app.running.logging import (
    configure_logging,
    logging_uncaught,
    logs_json,
    naming_process,
    set_level,
)
from mintscope.app.running.processes import (
    Apply,
    Backoff,
    Reloading,
    Reread,
    Sibling,
    bind,
    held,
)
from mintscope.kit.clock import SystemClock
from mintscope.kit.errors import (
    ErrorCode,
    FolderInUse,
    NeedsOperator,
    StoreUnavailable,
    UnusableStore,
)
from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import iso_time_ms
from mintscope.solana.blocks import SourceError

EXIT_FAILED: Final = 1
EXIT_OPERATOR: Final = 3  # a restart cannot help before an operator acts

log = structlog.get_logger()

IsNew = Annotated[
    bool,
    typer.Option(
        "--new", help="Start although the store was emptied, or is another installation's."
    ),
]


class ChildEnded(Exception):
    """A process that the others depend on has ended for good, or is not ready in time.

    needs_operator    whether the process ended with EXIT_OPERATOR; then the parent must do the same
    """

    def __init__(self, message: str, *, needs_operator: bool) -> None:
        super().__init__(message)
        self.needs_operator = needs_operator


@dataclass(slots=True)
class Life:
    """One run of a process; logs that the process stops, and why.

    began_s      the start of the run, in seconds of the monotonic clock
    reason       the reason why the process ends, for example the name of a signal
    tells_json   whether log lines are JSON
    """

    tells_json: bool
    began_s: float
    reason: str = "its work is done"

    def note_signal(self, number: int | None) -> None:
        """Store the signal *number* as the reason; do nothing if it is None."""
        if number is not None:
            self.reason = signal.Signals(number).name

    def stops(self, exit_code: int, reason: str | None = None) -> None:
        """Log that the process stops, and why."""
        ran_s = round(time.monotonic() - self.began_s, 1)
        tell = log.info if exit_code == 0 else log.error
        tell("stops", reason=reason or self.reason, exit_code=exit_code, ran_s=ran_s)


@contextmanager
def living(process: str, loaded: Loaded, *, in_use: int = EXIT_OPERATOR) -> Iterator[Life]:
    """Log that *process* starts, with its changed settings, and after the block that it stops.

    Each log line of the block contains *process*.  If the block raises an error, the command ends
    with a message; *in_use* is its exit code if another process already has this role.
    """
    is_json = logs_json(loaded.config.log)
    configure_logging(loaded.config.log.level, json_lines=is_json)
    life = Life(is_json, time.monotonic())
    with naming_process(process), logging_uncaught():
        log.info("starts", version=__version__, commit=commit(), settings=changed_settings(loaded))
        with ending_in_words(in_use, life):
            yield life
        life.stops(0)


def changed_settings(loaded: Loaded) -> dict[str, str]:
    """Return the settings that differ from their defaults, with secrets masked, by name."""
    return {
        setting.key: shown(setting.value(loaded.config))
        for _, _, group in settings()
        for setting in group
        if setting.value(loaded.config) != setting.field.get_default(call_default_factory=True)
    }


@contextmanager
def ending_in_words(in_use: int = EXIT_OPERATOR, life: Life | None = None) -> Iterator[None]:
    """If the block raises an expected error, end the command with one message.

    The exit code is EXIT_OPERATOR if an operator must act before a restart can help.  An unexpected
    error is raised again; but if log lines are JSON, it is logged, and the command ends with
    EXIT_FAILED.

    in_use    the exit code if another process already has the role of this one
    life      logs the message if log lines are JSON; otherwise the message is printed
    """
    try:
        yield
    except ChildEnded as error:
        _end(life, error, EXIT_OPERATOR if error.needs_operator else EXIT_FAILED)
    except NeedsOperator as error:
        _end(life, error, EXIT_OPERATOR)
    except FolderInUse as error:
        _end(life, error, in_use)
    # StoreUnavailable derives from UnusableStore, but may pass by itself, so it is caught first.
    except (OSError, StoreUnavailable, SourceError) as error:
        _end(life, error, EXIT_FAILED)
    except UnusableStore as error:
        _end(life, error, EXIT_OPERATOR)
    except Exception as bug:
        # typer.Exit is no bug: it ends a command with an exit code.
        if life is None or not life.tells_json or isinstance(bug, typer.Exit):
            raise
        log.exception("process failed")
        life.stops(EXIT_FAILED, repr(bug))
        raise typer.Exit(EXIT_FAILED) from None


def _end(life: Life | None, error: Exception, exit_code: int) -> NoReturn:
    from mintscope.app.stores.trouble import (  # noqa: PLC0415 - it loads what serves
        trouble_in_words,
    )

    reason = trouble_in_words(error) or str(error)
    if life is None or not life.tells_json:
        stop(f"mintscope: {reason}", exit_code)
    life.stops(exit_code, reason)
    raise typer.Exit(exit_code) from None


WAITING_MAX: Final = 64  # clients answered before the parent checks its children again
LINGERING_MAX: Final = 256
LINGER_S: Final = 1.0  # time for a client to read the response before its connection is closed
READ_BYTES_MAX: Final = 64 * 1024
RETRY_AFTER_S: Final = 5
# An earlier request of the client may have sent a payment; this process cannot know.
MESSAGE: Final = (
    "The service cannot start and is being restarted. This request charged nothing. If it has a"
    " payment, do not pay again: send the same payment again, with the same Idempotency-Key."
)


class OutOfService:
    """Answers 503 SERVICE_UNAVAILABLE to every client that connects to *listener*.

    At most 256 connections stay open, each for a second; this class waits for no client.
    """

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._answered: deque[tuple[float, socket.socket]] = deque()

    def answer(self) -> None:
        """Answer 503 to up to WAITING_MAX clients that have connected."""
        for _ in range(WAITING_MAX):
            if not select.select([self._listener], [], [], 0)[0]:
                return
            with suppress(OSError):  # the client has left, or there is no free file descriptor
                client, _ = self._listener.accept()
                self._tell(client)
        self.close(older_than_s=LINGER_S)

    def close(self, *, older_than_s: float = 0.0) -> None:
        """Close the connections that were answered at least *older_than_s* seconds ago.

        The oldest connections beyond LINGERING_MAX are closed, too.
        """
        until_s = time.monotonic() - older_than_s
        while self._answered and (
            self._answered[0][0] <= until_s or len(self._answered) > LINGERING_MAX
        ):
            _, client = self._answered.popleft()
            with suppress(OSError):  # closing a socket with unread bytes would discard the response
                client.recv(READ_BYTES_MAX)
            client.close()

    def _tell(self, client: socket.socket) -> None:
        client.settimeout(0.0)
        # Before the calls that may fail, so that `close` closes the connection in any case.
        self._answered.append((time.monotonic(), client))
        with suppress(BlockingIOError):  # the request has not arrived yet
            client.recv(READ_BYTES_MAX)
        client.send(_response(SystemClock().now()))
        # The client then knows that the response is complete, and can still read it.
        client.shutdown(socket.SHUT_WR)


def _response(now: UnixMs) -> bytes:
    body = msgspec.json.encode(
        {
            "success": False,
            "error": {"code": ErrorCode.SERVICE_UNAVAILABLE, "message": MESSAGE},
            "meta": {"timestamp": iso_time_ms(now)},
        }
    )
    head = (
        "HTTP/1.1 503 Service Unavailable\r\n"
        "Content-Type: application/json\r\n"
        "Cache-Control: no-store\r\n"
        f"Retry-After: {RETRY_AFTER_S}\r\n"
        f"Content-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + body


STOP_TIMEOUT_S: Final = 15.0  # in addition to `drain_s`; longer than the grace of a server
POLL_S: Final = 0.05
ANSWER_S: Final = 0.5  # if a child starts later than this, its clients get 503 instead of waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """The rules for the end of a child process.

    may_end      whether the process may end without an error; then only a reload restarts it
    has_memory   whether its state is only in its memory: it is never restarted, and stops last
    is_vital     whether all other processes end if this one ends for good
    again        the arguments to add to its command line when it is restarted
    """

    may_end: bool = False
    has_memory: bool = False
    is_vital: bool = False
    again: Sequence[str] = ()


@dataclass(slots=True, kw_only=True)
class _Child:
    """A child process, through all its restarts."""

    name: str
    arguments: Sequence[str]
    role: Role
    listener: socket.socket | None
    out_of_service: OutOfService | None
    process: subprocess.Popen[bytes] | None = None
    started_s: float = 0.0
    start_again_s: float = float("inf")
    is_begun_again: bool = False  # a reload has ended the process, so it is restarted
    sibling: Sibling = field(default_factory=Sibling)
    backoff: Backoff = field(default_factory=Backoff)

    def plan_start(self, now_s: float, ran_s: float = 0.0) -> float:
        """Plan the next start after a run of *ran_s* seconds; return the wait in seconds."""
        wait_s = self.backoff.after(ran_s)
        self.start_again_s = now_s + wait_s
        return round(wait_s, 2)


class Children:
    """Runs `mintscope` commands as child processes, and restarts them when they end.

    A child that ends with EXIT_OPERATOR is not restarted: if it is vital, all children end,
    otherwise the other children are notified.

    environment   the environment of the children; None: that of this process
    command       the command that runs `mintscope`, before the arguments of a child
    drain_s       the time that children need to stop, in addition to STOP_TIMEOUT_S

    Each child has the read end of a pipe, to which the parent writes the state of all children.
    If the parent dies, even by SIGKILL, the pipe closes and `attach` ends the child.
    """

    def __init__(
        self,
        environment: Mapping[str, str] | None = None,
        *,
        command: Sequence[str] = (sys.executable, "-m", "mintscope", "--attached"),
        drain_s: float = 0.0,
    ) -> None:
        self._environment = environment
        self._command = command
        self._stop_s = drain_s + STOP_TIMEOUT_S
        self._children: list[_Child] = []
        # Not an Event of `threading`: if a signal arrives within one of its methods, `set` in the
        # handler waits for ever for the lock that this thread holds.
        self._is_hung_up = False
        self._on_hang_up: Callable[[], Sequence[str]] = lambda: ()
        self.stopped_by: int | None = None  # the signal that stopped the children, if any

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_error: object) -> None:
        """Stop all children; those with `has_memory` stop after all others."""
        for has_memory in (False, True):
            stopped = [each for each in self._children if each.role.has_memory is has_memory]
            _stop(stopped, self._stop_s)
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
        """Start `mintscope` with *arguments*; the child inherits *listener* and serves its clients.

        While the child does not run, its clients wait; if it will not start soon and no other child
        serves *listener*, they get 503.
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
        """Set the handler of SIGHUP, *reload*, which returns the names of the children to restart.

        When this process has received SIGHUP, the handler is called; then the named children get
        SIGTERM, and the others SIGHUP.
        """
        self._on_hang_up = reload

    @property
    def stopping(self) -> bool:
        """Whether this process has received SIGINT or SIGTERM."""
        return self.stopped_by is not None

    def pause(self, seconds: float) -> None:
        """Wait *seconds*, or until a signal to stop; meanwhile, restart children that have ended.

        Raises ChildEnded if a vital child has ended for good.
        """
        end_s = time.monotonic() + seconds
        while not self.stopping:
            if self._is_hung_up:
                self._is_hung_up = False
                self._hang_up(self._on_hang_up())
            for child in self._children:
                self._look_at(child)
            left_s = end_s - time.monotonic()
            if left_s <= 0:
                return
            time.sleep(min(POLL_S, left_s))

    def wait(self) -> None:
        """Restart children that end, until a signal to stop arrives.  May raise ChildEnded."""
        while not self.stopping:
            self.pause(1)

    def _run(self, child: _Child) -> None:
        again = child.role.again if child.sibling.restarts else ()
        child.process = subprocess.Popen(  # noqa: S603 - our own interpreter, our own arguments
            [*self._command, *child.arguments, *again],
            stdin=subprocess.PIPE,
            env=self._environment,
            start_new_session=True,  # Ctrl-C reaches only the parent, which stops the children
            pass_fds=[] if child.listener is None else [child.listener.fileno()],
        )
        assert child.process.stdin is not None
        # A child that hangs and does not read its pipe must not block the parent.
        os.set_blocking(child.process.stdin.fileno(), False)
        child.started_s, child.start_again_s = time.monotonic(), float("inf")
        child.is_begun_again = False
        self._tell()

    def _hang_up(self, begun_again: Sequence[str]) -> None:
        """End the children in *begun_again*, to restart them; make the others reload settings."""
        for child in self._children:
            if child.process is not None and not child.is_begun_again:
                child.is_begun_again = child.name in begun_again
                child.process.send_signal(signal.SIGTERM if child.is_begun_again else signal.SIGHUP)

    def _look_at(self, child: _Child) -> None:
        """If *child* has ended, plan its restart; if its restart is due, start it."""
        now_s = time.monotonic()
        if child.out_of_service is not None:
            child.out_of_service.close(older_than_s=LINGER_S)
        if child.process is None:
            # If the child starts soon, its clients wait in the queue of the listening socket.
            is_soon = child.start_again_s - now_s <= ANSWER_S
            if child.out_of_service is not None and not is_soon and not self._is_served(child):
                child.out_of_service.answer()
            if now_s >= child.start_again_s:
                child.sibling = Sibling(restarts=child.sibling.restarts + 1)
                try:
                    self._run(child)
                except OSError as cause:  # no memory, or too many processes or open files
                    wait_s = child.plan_start(now_s)
                    log.warning(
                        "process not started",
                        process=child.name,
                        reason=str(cause),
                        restart_in_s=wait_s,
                    )
            return
        code = child.process.poll()
        if code is None:
            return
        _close_pipe(child.process)
        child.process = None
        if code == 0 and child.role.may_end and not child.is_begun_again:
            return
        # A restart would not help: an operator must act, or the memory of the process is lost.
        if code == EXIT_OPERATOR or child.role.has_memory:
            self._give_up(child, code)
            return
        wait_s = child.plan_start(now_s, now_s - child.started_s)
        log.warning("process ended", process=child.name, exit_code=code, restart_in_s=wait_s)

    def _is_served(self, child: _Child) -> bool:
        """Return whether another process accepts clients at the listener of *child*."""
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
        """Write the states of all child processes to the standard input of each child, as JSON."""
        reported = {child.name: child.sibling for child in self._children}
        line = msgspec.json.encode(reported) + b"\n"
        for child in self._children:
            if child.process is not None and child.process.stdin is not None:
                with suppress(BrokenPipeError, BlockingIOError):
                    os.write(child.process.stdin.fileno(), line)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            self._is_hung_up = True
        else:
            self.stopped_by = number


def _stop(children: Sequence[_Child], timeout_s: float) -> None:
    """Send SIGTERM to all *children*, then wait for each; kill those that run after *timeout_s*."""
    running = [child.process for child in children if child.process is not None]
    # All get the signal before the first wait, so that they stop at the same time.
    for process in running:
        process.terminate()
    end_s = time.monotonic() + timeout_s
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


# The prefix of the settings of the gRPC stream: if these change, only ingest is restarted.
OF_INGEST_ALONE: Final = "geyser."

app = typer.Typer()


@app.command()
def serve(
    *,
    config: ConfigFile = None,
    workers: Annotated[
        int,
        typer.Option(
            min=1, max=64, metavar="N", help="Number of api processes; several need a `store`."
        ),
    ] = 1,
    is_new: IsNew = False,
) -> None:
    """Run ingest and api side by side until Ctrl-C, and restart a process that ends."""
    loaded = configured(config)
    if workers > 1 and not is_shared(loaded.config):
        raise typer.BadParameter(
            "expected the setting store for several workers: SQLite has one writer, and a second"
            " process makes every debit slower",
            param_hint="--workers",
        )
    options = [] if config is None else ["--config", str(config)]
    own = loaded.config
    is_file = own.chain.source == "files"
    # Not EXIT_OPERATOR: the process that holds a lock may end by itself; then a restart succeeds.
    with living("serve", loaded, in_use=EXIT_FAILED) as life, held(own, "serve"):
        for role in ("ingest", "api"):  # waits for the children of a killed `serve` to end
            with held(own, role, patience_s=own.drain_s + STOP_TIMEOUT_S):
                pass
        if is_new:  # not by the children: they refuse a store that is exchanged later
            from mintscope.app.stores import stores  # noqa: PLC0415 - it loads what serves

            stores.expect_own_stores(own, is_new=True)
        # Clients that connect while the api restarts wait in this socket.
        with bind(own.api) as listener, Children(drain_s=own.drain_s) as children:
            children.on_hang_up(_reloads(own, lambda: load(config).config))
            # Ingest ends after its block files; the api continues to serve the data.
            children.start("ingest", ["ingest", *options], role=Role(may_end=is_file))
            for worker in range(1, workers + 1):
                start_api(children, listener, options, worker=worker)
            children.wait()
            life.note_signal(children.stopped_by)
            listener.close()  # each api has it open until the api ends


def _reloads(config: Config, reread: Reread) -> Callable[[], Sequence[str]]:
    """Return the handler of SIGHUP: it applies `log.level`, and returns processes to restart.

    The result is ["ingest"] if a setting of the section geyser has changed, else an empty list.
    """
    keys = [each.key for _, _, group in settings() for each in group]
    applied: dict[str, Apply] = {
        key: lambda _: None for key in keys if key.startswith(OF_INGEST_ALONE)
    }
    applied["log.level"] = lambda changed: set_level(changed.log.level)
    own = Reloading(config, reread, applied, ours=lambda key: key in applied)

    def reload() -> Sequence[str]:
        is_begun_again = any(key.startswith(OF_INGEST_ALONE) for key in own.again())
        return ["ingest"] if is_begun_again else []

    return reload


def start_api(
    children: Children,
    listener: socket.socket,
    options: Sequence[str] = (),
    *,
    worker: int = 1,
) -> None:
    """Start an api process for clients of *listener*; if it ends for good, all others end, too.

    options   further arguments of the command
    worker    the number of the api process, from 1
    """
    arguments = ["api", "--listener", str(listener.fileno()), *options]
    if worker > 1:
        arguments += ["--worker", f"{worker}"]
    role = Role(is_vital=True, again=("--again",))
    name = "api" if worker == 1 else f"api-{worker}"
    children.start(name, arguments, role=role, listener=listener)
