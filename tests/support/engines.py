"""On which engines tests run, and how many did: a plugin of pytest."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import pytest

from support.scenes.engine import ENGINES, chosen

# A file that is put in place of another, or refuses what is written, is what SQLite alone has.
ON_FILES: Final = {"test_restored_payments.py", "test_both_ways.py"}
NAMES: Final = {"sqlite": "SQLite", "postgresql": "PostgreSQL", "valkey": "Valkey"}
IN_BRACKETS: Final = re.compile(r"\[(.*)\]$")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test of the specification that keeps anything on every engine."""
    path = metafunc.definition.path
    is_of_spec = path.parent.name == "spec" and path.name not in ON_FILES
    if is_of_spec and "tmp_path" in metafunc.fixturenames:
        metafunc.parametrize("engine_of_stores", ENGINES, indirect=True)


@pytest.fixture(autouse=True)
def engine_of_stores(request: pytest.FixtureRequest) -> Iterator[None]:
    """Open the stores of the test on this engine."""
    with chosen(getattr(request, "param", ENGINES[0])):
        yield


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests passed on each engine."""
    passed = [report.nodeid for report in terminalreporter.stats.get("passed", [])]
    counts = engine_counts(passed)
    if counts:
        told = ", ".join(f"{NAMES[name]} {counts[name]:,}" for name in NAMES if counts[name])
        terminalreporter.write_line(f"passed by engine: {told}")


def engine_counts(nodeids: Sequence[str]) -> Counter[str]:
    """Return how many of the tests name each engine in their parameters."""
    found: Counter[str] = Counter()
    for nodeid in nodeids:
        parameters = IN_BRACKETS.search(nodeid)
        if parameters is not None:
            found.update(set(parameters[1].split("-")) & NAMES.keys())
    return found
