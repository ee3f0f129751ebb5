"""A pytest plugin: runs tests in several processes, forked after all tests are collected.

Collection takes ten seconds of processor time and 600 MB, which forked workers share.
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
END_S: Final = 60.0  # the time that the fixtures of a worker have to close
Files = Sequence[Sequence[pytest.Item]]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--workers", type=int, default=0, help="run files of tests in N processes")


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """In a fresh clone, compile the test files in a second process, the last file first.

    One process takes seven seconds to rewrite the assertions of all files.
    """
    files = sorted(TESTS.glob("*/**/test_*.py"))
    if session.config.getoption("workers") and not _is_compiled(files[-1]):
        _fork(_compile, files[::-1])


def _compile(files: Sequence[Path]) -> None:
    """Import *files* in order, up to the first file that another process has already compiled."""
    for path in takewhile(lambda each: not _is_compiled(each), files):
        sys.path.insert(0, str(path.parent))
        # The collection of tests will report the error
        with suppress(Exception, pytest.skip.Exception):
            import_module(path.stem)


def _is_compiled(path: Path) -> bool:
    return any((path.parent / "__pycache__").glob(f"{path.stem}.*-pytest-*.pyc"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the collected tests in forked workers, one file at a time, in the order of the files."""
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
    with warnings.catch_warnings():  # warnings about idle threads of libraries
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    return process


@dataclass(eq=False)
class _Worker:
    """A forked process.

    left   the tests that were assigned to it and that it has not reported yet
    last   the last test that it has reported
    """

    process: ForkProcess
    connection: Connection
    left: list[pytest.Item] = field(default_factory=list)
    last: pytest.Item | None = None


class _Run:
    """The process that collected the tests: it distributes files and forwards reports."""

    def __init__(self, session: pytest.Session, files: Files) -> None:
        self._session = session
        self._files = files
        self._next = 0
        self._workers: dict[Connection, _Worker] = {}

    def go(self, count: int) -> None:
        """Run until all tests are reported.

        Raises the `Failed` of the session when the number of failures reaches `--maxfail`.
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
        """End the remaining workers; they first close their fixtures if they can."""
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
        """Forward a worker's reports of one test, or send it the number of its next test file."""
        hook = self._session.config.hook
        try:
            reports = worker.connection.recv()
            if reports is None:
                number = self._next if self._next < len(self._files) else None
                worker.connection.send(number)
        # The worker has ended; this is an OSError if it ended in the middle of a message
        except (EOFError, OSError):
            self._bury(worker)
            return
        if reports is None:
            if number is not None:
                worker.left += self._files[number]
                self._next += 1
            return
        worker.last = item = worker.left.pop(0)
        # `pytest_runtest_logstart` is not called: the terminal would begin a line at each change of
        # file.
        for each in reports:
            report = hook.pytest_report_from_serializable(config=self._session.config, data=each)
            hook.pytest_runtest_logreport(report=report)
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)

    def _bury(self, worker: _Worker) -> None:
        """Report the unfinished tests of the ended *worker* as failed.

        If there are such tests and further files, start another worker.  If the worker failed after
        its last test, a fixture of the session has failed: report that test.
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
        """Report *items*, which did not finish, as failed."""
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
    """The terminal to which pytest-timeout writes when a test times out; pytest shows the text."""

    def __init__(self, config: pytest.Config) -> None:
        self._tw = create_terminal_writer(config, sys.stderr)


class _Reporting:
    """Sends the test reports of a worker process to its parent, those of one test together."""

    def __init__(self, config: pytest.Config, connection: Connection) -> None:
        self._config = config
        self._connection = connection
        self._reports: list[dict[str, Any]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Store *report*, which is on one phase of a test, as data for the main process."""
        to_data = self._config.hook.pytest_report_to_serializable
        self._reports.append(to_data(config=self._config, report=report))

    def pytest_runtest_logfinish(self) -> None:
        self._connection.send(self._reports)
        self._reports = []


def _work(
    session: pytest.Session, files: Files, connection: Connection, not_ours: list[Connection]
) -> None:
    """Run the tests of the files that the collecting process assigns, until there are no more."""
    # Before Python 3.13, processes forked by multiprocessing run no exit handlers.
    atexit._clear()  # noqa: SLF001
    # A shell that starts a command with `&` makes the command ignore SIGINT.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with suppress(KeyboardInterrupt):
            _run(session, files, connection, not_ours)
    finally:
        atexit._run_exitfuncs()  # noqa: SLF001


def _run(
    session: pytest.Session, files: Files, connection: Connection, not_ours: list[Connection]
) -> None:
    # Close the connections of other workers, which would otherwise stay open after the collecting
    # process ends
    for each in not_ours:
        each.close()
    config = session.config
    # pytest reads this variable, so that each worker has its own folder for temporary files.
    root = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    os.environ["PYTEST_DEBUG_TEMPROOT"] = root  # noqa: TID251
    capturing = config.pluginmanager.getplugin("capturemanager")
    for name in ("terminalreporter", "junitxml"):
        if config.pluginmanager.hasplugin(name):
            config.pluginmanager.unregister(name=name)
    capturing.resume_global_capture()
    # Modules refer to these stream objects, so the same objects get new files.
    if config.option.capture == "fd":
        for stream in (sys.stdout, sys.stderr):
            with tempfile.TemporaryFile() as own:
                os.dup2(own.fileno(), stream.fileno(), inheritable=False)
    config.pluginmanager.register(_Terminal(config), "terminalreporter")
    capturing.suspend_global_capture()
    config.pluginmanager.register(_Reporting(config, connection))
    # The next file is not known before this one is done, so only fixtures of the session stay open.
    last = cast("pytest.Item", session)
    try:
        for number in _given(connection):
            for item, following in pairwise([*files[number], last]):
                config.hook.pytest_runtest_protocol(item=item, nextitem=following)
    finally:
        # All tests are done; only the fixtures have to close
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        session._setupstate.teardown_exact(None)  # noqa: SLF001 - fixtures of the session


def _given(connection: Connection) -> Iterator[int]:
    """Yield numbers of test files, asking the parent process for each number when it is needed."""
    connection.send(None)
    while (number := connection.recv()) is not None:
        yield number
        connection.send(None)
