"""Tests in several processes, forked once all tests are collected: a plugin of pytest.

Collection takes ten seconds of a processor and 600 MB, which workers that are forked share.
"""

import atexit
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from itertools import pairwise, takewhile
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any, Final, cast

import pytest
from _pytest.config import create_terminal_writer

TESTS: Final = Path(__file__).resolve().parents[1]
FORKING: Final = multiprocessing.get_context("fork")
END_S: Final = 60.0  # for the fixtures of a worker that is to end
Files = Sequence[Sequence[pytest.Item]]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that says in how many processes tests run."""
    parser.addoption("--workers", type=int, default=0, help="run files of tests in N processes")


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """In a fresh clone, let a second process compile the files of tests from the last on.

    To rewrite the assertions of all takes seven seconds.
    """
    files = sorted(TESTS.glob("*/**/test_*.py"))
    if session.config.getoption("workers") and not _is_compiled(files[-1]):
        _fork(_compile, files[::-1])


def _compile(files: Sequence[Path]) -> None:
    """Import *files*, until the first that another process has compiled."""
    for path in takewhile(lambda each: not _is_compiled(each), files):
        sys.path.insert(0, str(path.parent))
        with suppress(Exception, pytest.skip.Exception):  # collection reports it
            import_module(path.stem)


def _is_compiled(path: Path) -> bool:
    return any((path.parent / "__pycache__").glob(f"{path.stem}.*-pytest-*.pyc"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the collected tests in forked workers, a file at a time, in the order of the files."""
    count = session.config.getoption("workers")
    if not count or session.config.option.collectonly or session.testsfailed:
        return None
    by_file: dict[object, list[pytest.Item]] = {}
    for item in session.items:
        by_file.setdefault(item.path, []).append(item)
    _Run(session, list(by_file.values())).go(count)
    return True


def _fork(target: Callable[..., None], *arguments: object) -> ForkProcess:
    """Start a copy of this process that calls *target* and ends."""
    process = FORKING.Process(target=target, args=arguments)
    with warnings.catch_warnings():  # of threads of libraries, which wait for work
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    return process


@dataclass(eq=False)
class _Worker:
    """A forked process.

    left   the tests that it has been given and has not reported
    last   the last that it has reported
    """

    process: ForkProcess
    connection: Connection
    left: list[pytest.Item] = field(default_factory=list)
    last: pytest.Item | None = None


class _Run:
    """The part of the process that collected: it hands out files and passes on reports."""

    def __init__(self, session: pytest.Session, files: Files) -> None:
        self._session = session
        self._files = files
        self._next = 0
        self._workers: dict[Connection, _Worker] = {}

    def go(self, count: int) -> None:
        """Run until all tests are reported.

        Raises Failed of the session after as many failures as `--maxfail` allows.
        """
        try:
            for _ in range(min(count, len(self._files))):
                self._start()
            while self._workers:
                ready = wait(self._workers)
                for worker in [self._workers[each] for each in self._workers if each in ready]:
                    self._hear(worker)
                    if self._session.shouldfail:
                        raise self._session.Failed(self._session.shouldfail)
            for file in self._files[self._next :]:
                self._report_lost(file, "all workers ended before it")
        finally:
            self._end_all()

    def _end_all(self) -> None:
        """End the workers that are left, which close their fixtures if they can."""
        for connection, worker in self._workers.items():
            connection.close()
            if worker.process.is_alive() and worker.process.pid is not None:
                os.kill(worker.process.pid, signal.SIGINT)
        for worker in self._workers.values():
            worker.process.join(END_S)
            worker.process.kill()

    def _start(self) -> None:
        ours, theirs = FORKING.Pipe()
        process = _fork(_work, self._session, self._files, theirs, [*self._workers, ours])
        theirs.close()
        self._workers[ours] = _Worker(process, ours)

    def _hear(self, worker: _Worker) -> None:
        """Pass on the reports of one test, or answer with the number of the next file."""
        hook = self._session.config.hook
        try:
            reports = worker.connection.recv()
            if reports is None:
                number = self._next if self._next < len(self._files) else None
                worker.connection.send(number)
        except (EOFError, OSError):  # an end of file within a message is an OSError
            self._bury(worker)
            return
        if reports is None:
            if number is not None:
                worker.left += self._files[number]
                self._next += 1
            return
        worker.last = item = worker.left.pop(0)
        # No `pytest_runtest_logstart`: the terminal would begin a line for each change of file.
        for each in reports:
            report = hook.pytest_report_from_serializable(config=self._session.config, data=each)
            hook.pytest_runtest_logreport(report=report)
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)

    def _bury(self, worker: _Worker) -> None:
        """Report the tests of a worker that ended before them as failed, and start another.

        If it failed after the last, what failed is a fixture of the session.
        """
        del self._workers[worker.connection]
        worker.process.join()
        after_the_last = [worker.last] if worker.last and worker.process.exitcode else []
        self._report_lost(
            worker.left or after_the_last, f"its worker ended with {worker.process.exitcode}"
        )
        if worker.left and self._next < len(self._files):
            self._start()

    def _report_lost(self, items: Sequence[pytest.Item], why: str) -> None:
        """Report *items*, which did not run to their ends, as failed."""
        for item in items:
            report = pytest.TestReport(
                nodeid=item.nodeid,
                location=item.location,
                keywords={},
                outcome="failed",
                longrepr=why,
                when="call",
            )
            self._session.config.hook.pytest_runtest_logreport(report=report)


class _Terminal:
    """Where pytest-timeout writes what ran as the time was over: it is shown with the test."""

    def __init__(self, config: pytest.Config) -> None:
        self._tw = create_terminal_writer(config, sys.stderr)


class _Reporting:
    """Sends the reports of a worker, those of one test together."""

    def __init__(self, config: pytest.Config, connection: Connection) -> None:
        self._config = config
        self._connection = connection
        self._reports: list[dict[str, Any]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the report of a phase, as what can be sent."""
        to_data = self._config.hook.pytest_report_to_serializable
        self._reports.append(to_data(config=self._config, report=report))

    def pytest_runtest_logfinish(self) -> None:
        """Send what was reported of a test."""
        self._connection.send(self._reports)
        self._reports = []


def _work(
    session: pytest.Session, files: Files, connection: Connection, not_ours: list[Connection]
) -> None:
    """Run the tests of the files that the other end gives, until it gives none."""
    # Processes that multiprocessing forks call nothing at their exit before Python 3.13.
    atexit._clear()  # noqa: SLF001
    # A shell that starts a command with `&` has it ignore the signal.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with suppress(KeyboardInterrupt):
            _run(session, files, connection, not_ours)
    finally:
        atexit._run_exitfuncs()  # noqa: SLF001


def _run(
    session: pytest.Session, files: Files, connection: Connection, not_ours: list[Connection]
) -> None:
    for each in not_ours:  # held here, they would not end with the process that collected
        each.close()
    config = session.config
    # pytest reads it: no other worker makes folders there.
    root = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    os.environ["PYTEST_DEBUG_TEMPROOT"] = root  # noqa: TID251
    capturing = config.pluginmanager.getplugin("capturemanager")
    for name in ("terminalreporter", "junitxml"):
        if config.pluginmanager.hasplugin(name):
            config.pluginmanager.unregister(name=name)
    capturing.resume_global_capture()
    if config.option.capture == "fd":  # into files of its own, by the objects that modules hold
        for stream in (sys.stdout, sys.stderr):
            with tempfile.TemporaryFile() as own:
                os.dup2(own.fileno(), stream.fileno(), inheritable=False)
    config.pluginmanager.register(_Terminal(config), "terminalreporter")
    capturing.suspend_global_capture()
    config.pluginmanager.register(_Reporting(config, connection))
    # The next file is unknown until this one is done: at its end only fixtures of the session stay.
    last = cast("pytest.Item", session)
    try:
        for number in _given(connection):
            for item, following in pairwise([*files[number], last]):
                config.hook.pytest_runtest_protocol(item=item, nextitem=following)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # what is left is closing
        session._setupstate.teardown_exact(None)  # noqa: SLF001 - fixtures of the session


def _given(connection: Connection) -> Iterator[int]:
    """Ask for numbers of files, each when it is wanted."""
    connection.send(None)
    while (number := connection.recv()) is not None:
        yield number
        connection.send(None)
