"""Tests of mutants in forks of one process that has collected them once.

A mutant that changes the body of a function is put in place in the fork.  Only the tests that run
the changed line can notice it: which those are is found out first, with no mutant.
"""

import gc
import importlib
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, Final

import msgspec
import pytest

from prove.mutation import fork
from prove.mutation.fresh import PURE
from prove.mutation.mutator import Change, changes
from prove.mutation.score import Tried
from prove.mutation.swap import Swapper, lines_of
from prove.recipe import PACKAGE

# A test that takes more of the processor, traced, is for `make test`; time alone says how busy the
# machine is.
TEST_CPU_S_MAX: Final = 40.0
WATCH_S_MAX: Final = 120


class Found(msgspec.Struct):
    """A run of one test without a mutant: its time, and the lines that it ran by module."""

    test: str
    seconds: float
    lines: dict[str, set[int]]
    failed: bool


class Untried(msgspec.Struct, frozen=True, tag=True):
    """A mutant for which the package must be imported again, and the seconds of its tests."""

    module: str
    name: str
    seconds: dict[str, float]


class Answer(msgspec.Struct, frozen=True, tag=True):
    """The outcome of a mutant of *module*."""

    module: str
    tried: Tried


class LeftOut(msgspec.Struct, frozen=True, tag=True):
    """A test that fails with no mutant, or is ended because it takes too much."""

    test: str


Told = Answer | Untried | LeftOut


def _end_test(_signal: int, _frame: FrameType | None) -> None:
    raise TimeoutError


class Host:
    """A pytest plugin that runs the tests of mutants instead of the tests."""

    def __init__(
        self, wanted: dict[str, set[str]], folder: Path, tell: Callable[[Told], None]
    ) -> None:
        self._wanted = wanted  # names of mutants by module
        self._folder, self._tell = folder, tell
        self._failed = False
        self._items: dict[str, pytest.Item] = {}
        self._found: list[Found] = []
        self._reimported: set[ModuleType] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a failure."""
        self._failed = self._failed or report.failed

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try every mutant of every module."""
        self._items = {item.nodeid: item for item in session.items}
        gc.unfreeze()  # what tests/conftest.py froze is not listed by gc.get_objects
        swappers = {module: Swapper(PACKAGE / module) for module in self._wanted}
        gc.collect()
        gc.freeze()  # the forks share what they do not write to
        self._found = list(self._watch())
        for module, names in self._wanted.items():
            for change in changes((PACKAGE / module).read_text()):
                if change.name in names:
                    self._tell(self._try(module, swappers[module], change))
        return True

    def _try(self, module: str, swapper: Swapper, change: Change) -> Answer | Untried:
        began_s = time.monotonic()
        code = swapper.find(change.tree)
        if code is None:
            return Untried(module, change.name, self._tests_of_import(module))
        tests = self._tests(module, {change.line}) or self._tests(module, lines_of(code))

        def work(report: Callable[[str], None]) -> bool:
            fork.limit_memory()
            swapper.swap(code)
            return all(self._run(each, report) for each in tests)

        ended = self._fork(work, 60 + 20 * sum(each.seconds for each in tests))
        return Answer(
            module,
            Tried(
                name=change.name,
                line=change.line,
                killed_by=None if ended.good else ended.last,
                seconds=time.monotonic() - began_s,
            ),
        )

    def _tests(self, module: str, lines: set[int]) -> list[Found]:
        """Return the tests that run one of *lines*, fastest first."""
        ran = [each for each in self._found if lines & each.lines.get(module, set())]
        return sorted(ran, key=lambda each: each.seconds)

    def _tests_of_import(self, module: str) -> dict[str, float]:
        """Return the seconds of the tests that run *module*, and of those that are quick to try.

        Objects made by an import may be used anywhere.
        """
        ran = [each for each in self._found if each.lines.get(module) or each.test.startswith(PURE)]
        return {each.test: each.seconds for each in ran}

    def _run(self, test: Found, report: Callable[[str], None]) -> bool:
        report(test.test)
        fork.limit_test(test.seconds)
        item = self._items[test.test]
        assert isinstance(item, pytest.Function)
        if item.module not in self._reimported:  # its constants may come of what was changed
            self._reimported.add(item.module)
            importlib.reload(item.module)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        return not self._failed

    def _watch(self) -> Iterator[Found]:
        """Run every test with no mutant."""
        kept = self._folder / "found"
        kept.touch()

        def work(_: Callable[[str], None]) -> bool:
            signal.signal(signal.SIGALRM, _end_test)
            signal.signal(signal.SIGPROF, _end_test)
            with kept.open("wb") as file:
                for item in self._items.values():
                    self._failed = False
                    seconds, lines = self._traced(item)
                    found = Found(item.nodeid, seconds, lines, self._failed)
                    file.write(msgspec.json.encode(found) + b"\n")
            return True

        if not self._fork(work, 1800).good:
            raise SystemExit("the tests ended early with no mutant")
        for line in kept.read_bytes().splitlines():
            found = msgspec.json.decode(line, type=Found)
            if found.failed:
                self._tell(LeftOut(found.test))
            else:
                yield found

    def _traced(self, item: pytest.Item) -> tuple[float, dict[str, set[int]]]:
        lines: dict[str, set[int]] = {module: set() for module in self._wanted}
        by_file = {str(PACKAGE / module): found for module, found in lines.items()}

        def trace(frame: FrameType, _event: str, _argument: Any) -> Any:
            found = by_file.get(frame.f_code.co_filename)
            if found is None:
                return None
            found.add(frame.f_lineno)
            return trace

        began_s = time.monotonic()
        signal.alarm(WATCH_S_MAX)
        signal.setitimer(signal.ITIMER_PROF, TEST_CPU_S_MAX)
        threading.settrace(trace)
        sys.settrace(trace)
        try:
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        finally:
            sys.settrace(None)
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.alarm(0)
            threading.settrace(None)
        return time.monotonic() - began_s, lines

    def _fork(self, work: Callable[[Callable[[str], None]], bool], limit_s: float) -> fork.Ended:
        """Run *work* in a fork, with a folder for temporary files that is removed afterwards."""
        base = self._folder / "one"
        base.mkdir()

        def in_folder(report: Callable[[str], None]) -> bool:
            item = next(iter(self._items.values()))
            item.config._tmp_path_factory._basetemp = base  # type: ignore[attr-defined]  # noqa: SLF001  no port
            return work(report)

        try:
            return fork.run(in_folder, limit_s=limit_s)
        finally:
            shutil.rmtree(base, ignore_errors=True)
