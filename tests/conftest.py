"""Fixtures of all tests, and the marks that `make quick` uses."""

import gc
import os
import subprocess
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, TextIO

import pytest
import structlog
from hatch_build import make_missing
from hypothesis import HealthCheck, settings
from structlog.typing import ExcInfo

from support import order
from support.quick_requests import request_quickly
from support.scenes import postgres
from support.scenes.lasting_connections import connect_quickly
from support.scenes.payments.quick_machines import make_machines_quickly
from support.scenes.people.quick_passwords import hash_quickly
from support.scenes.quick_stores import migrate_quickly
from support.scenes.service import Service, service_by

pytest_plugins = [
    "support.engines",
    "support.quick",
    "support.workers",
    "support.scenes.devchain_history",
    "support.scenes.payments.official_client",
    "support.scenes.payments.selling_api",
    "support.scenes.people.browsing",
    "support.scenes.people.web_person",
    "support.scenes.streaming",
    # They import some of the modules above.
    "buyers",
    "paying",
    "series_service",
]

TESTS: Final = Path(__file__).resolve().parent
# Tests that only `make cluster` runs: they need the machine to themselves.
collect_ignore = [] if os.environ.get("STORM") == "full" else ["e2e/test_cluster.py"]  # noqa: TID251
SHARED_DATA: Final = TESTS.parents[1] / "shared" / "data"
MARK_OF_FOLDER: Final = {"e2e": "process", "browser": "browser"}
MAY_START_PROCESSES: Final = {"process", "browser"}

# The speed at which a machine generates input says nothing about the code.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")

make_missing(TESTS.parent)  # for example after a checkout
hash_quickly()
make_machines_quickly()
migrate_quickly()
request_quickly()
postgres.be_patient()
connect_quickly()

gc.disable()  # until the tests are collected, because all these objects stay

# The platform module runs uname, and all tests of a process share one PostgreSQL server.
NO_PROCESS_OF_OURS: Final = {"uname", "initdb", "postgres"}

BATCH_OBJECTS: Final = 10_000  # created between two collections of garbage

START: Final = subprocess.Popen.__init__

started: list[str] = []  # processes that tests have started


def _start_noted(process: "subprocess.Popen[Any]", args: Any, *more: Any, **options: Any) -> None:
    """Start a process as `subprocess.Popen` does; note it unless it is in NO_PROCESS_OF_OURS."""
    program = args if isinstance(args, str | bytes | os.PathLike) else args[0]
    if Path(os.fsdecode(program)).name not in NO_PROCESS_OF_OURS:
        started.append(str(args))
    START(process, args, *more, **options)


# Not an audit hook: it would also be called for each id(), open() and import of a test.
subprocess.Popen.__init__ = _start_noted  # type: ignore[assignment, method-assign]


def pytest_configure() -> None:
    """Log errors with files and lines, without code: quoting the code takes 30 times as long."""
    brief = structlog.dev.ConsoleRenderer(exception_formatter=_write_places)
    structlog.configure(processors=[*structlog.get_config()["processors"][:-1], brief])


def _write_places(printed: TextIO, exc_info: ExcInfo) -> None:
    """Write the error and its causes, each with the files and lines of its traceback."""
    error: BaseException | None = exc_info[1]
    written: list[int] = []  # an error may be raised from itself
    while error is not None and id(error) not in written:
        written.append(id(error))
        for frame, line in traceback.walk_tb(error.__traceback__):
            code = frame.f_code
            printed.write(f"\n  {code.co_filename}:{line} {code.co_qualname}")
        printed.write(f"\n{type(error).__name__}: {error}")
        before = None if error.__suppress_context__ else error.__context__
        error = error.__cause__ or before


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Add marks to tests of some folders and to tests with ten days of history; order the files.

    Raises UsageError if a file that long_files.toml names does not exist.
    """
    gone = [
        name for name in sorted(order.LONG_S.keys() | order.SLOW) if not (TESTS / name).exists()
    ]
    if gone:
        raise pytest.UsageError(f"expected the files of long_files.toml; there is no {gone[0]}")
    for item in items:
        mark = MARK_OF_FOLDER.get(_folder(item))
        if mark is not None:
            item.add_marker(mark)
        if "history" in getattr(item, "fixturenames", ()):  # ten days of a chain: seconds to make
            item.add_marker("storm")
    places = order.due(Counter(_name(item.path) for item in items))
    items.sort(key=lambda item: places[_name(item.path)])


def pytest_collection_finish() -> None:
    """Enable garbage collection for objects that tests create, not for modules and tests.

    Collections are rare, because each also calls Hypothesis: frequent collections took 13 % of the
    time of the tests that use Hypothesis.
    """
    gc.freeze()
    gc.set_threshold(BATCH_OBJECTS)
    gc.enable()


def _folder(item: pytest.Item) -> str:
    return _name(item.path).partition("/")[0]


@cache  # it is called for thousands of tests in hundreds of files
def _name(path: Path) -> str:
    return path.relative_to(TESTS).as_posix()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Drop the databases of a test after its fixtures have ended, because each takes 8 MB."""
    folder = getattr(item, "funcargs", {}).get("tmp_path")
    yield
    if folder is not None:
        postgres.forget_those_in(folder)


@pytest.fixture(autouse=True)
def _marked_if_it_starts_a_process(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that starts a process without the mark `process`: `make quick` would run it."""
    yield
    mine = started[:]  # also processes of the module's fixtures
    started.clear()
    if mine and not any(map(request.node.get_closest_marker, MAY_START_PROCESSES)):
        pytest.fail(f"expected the mark 'process'; it started {mine}")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of real chain and market data; skip the test if it is missing."""
    if not SHARED_DATA.is_dir():
        pytest.skip("did not run: the folder of real data is not beside the project")
    return SHARED_DATA


@pytest.fixture
async def service(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Service]:
    """Yield the API over a real ledger; the fixture's parameter says how requests reach it."""
    async with service_by(getattr(request, "param", "application"), tmp_path) as service:
        yield service
