"""A pytest plugin: selects the engines on which tests run, and counts the tests by engine."""

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Final

import pytest

from support.scenes.engine import ENGINES, chosen
from support.scenes.postgres import dsn_in

# These tests replace a file, or make a file refuse writes: only SQLite has such files.
ON_FILES: Final = {"test_restored_payments.py", "test_both_ways.py"}
FULL: Final = os.environ.get("STORM") == "full"  # noqa: TID251 - only how many
CONNECTED: Final = "connection"
WAYS: Final = ["application", pytest.param(CONNECTED, marks=pytest.mark.storm)]
# `make test` runs each engine with the application, and the first engine over a connection, too;
# `make storm` runs all combinations.
EACH_WITH_EACH: Final = [
    pytest.param(engine, way, marks=pytest.mark.storm if way == CONNECTED else ())
    for engine, way in product(ENGINES, ("application", CONNECTED))
    if FULL or way != CONNECTED or engine == ENGINES[0]
]
NAMES: Final = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
TESTS: Final = Path(__file__).resolve().parents[1]
IN_BRACKETS: Final = re.compile(r"\[(.*)\]$")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each specification test that stores data on every engine and in both ways.

    The fixture `service` has two ways: the application is called directly, or over a connection.
    """
    path = metafunc.definition.path
    if path.parent.name != "spec":
        return
    has_engines = path.name not in ON_FILES and "tmp_path" in metafunc.fixturenames
    has_ways = "service" in metafunc.fixturenames
    if has_engines and has_ways:
        metafunc.parametrize(("engine_of_stores", "service"), EACH_WITH_EACH, indirect=True)
    elif has_engines:
        metafunc.parametrize("engine_of_stores", ENGINES, indirect=True)
    elif has_ways:
        metafunc.parametrize("service", WAYS, indirect=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Distribute the variants of a specification test over the engines in `make test`.

    A test with the mark `engine` runs on the engine that the mark names.  `make storm` runs all
    variants on all engines, and so does a run of named files or tests (`-k`).
    """
    beyond = beyond_their_turn([item for item in items if item.path.parent.name == "spec"])
    beyond |= on_another_engine(items)
    if FULL:
        for item in beyond:
            item.add_marker("storm")
    elif not config.option.keyword and [Path(each).resolve() for each in config.args] == [TESTS]:
        items[:] = [item for item in items if item not in beyond]
        config.hook.pytest_deselected(items=[*beyond])


def beyond_their_turn(items: Sequence[pytest.Item]) -> set[pytest.Item]:
    """Return the variants of *items* that `make test` skips on one engine.

    For a test with variants a, b, c and d: b and d run on the second engine, c on the first.
    Variant a runs on both.  Variants over a connection are not counted, because they have only one
    engine.
    """
    variants: dict[str, dict[str, dict[str, pytest.Item]]] = {}
    for item in items:
        test, _, parameters = item.nodeid.partition("[")
        words = parameters.removesuffix("]").split("-")
        engine = next((word for word in words if word in NAMES), None)
        if engine is not None and CONNECTED not in words:
            words.remove(engine)
            variants.setdefault(test, {}).setdefault("-".join(words), {})[engine] = item
    return {
        item
        for of_test in variants.values()
        for number, variant in enumerate(sorted(of_test))
        for engine, item in of_test[variant].items()
        if number > 0 and len(of_test[variant]) > 1 and engine == ENGINES[(number + 1) % 2]
    }


def on_another_engine(items: Sequence[pytest.Item]) -> set[pytest.Item]:
    """Return the tests of *items* that run on an engine that their mark `engine` does not name."""
    others = set()
    for item in items:
        mark = item.get_closest_marker("engine")
        if mark is not None and engine_counts([item.nodeid]).keys() == NAMES.keys() - {*mark.args}:
            others.add(item)
    return others


@pytest.fixture(autouse=True)
def engine_of_stores(request: pytest.FixtureRequest) -> Iterator[None]:
    """Open the stores of the test on the engine in its parameter, or on the first engine."""
    with chosen(getattr(request, "param", ENGINES[0])):
        yield


@pytest.fixture
def dsn(tmp_path: Path) -> str:
    """Return the DSN of a new PostgreSQL database."""
    return dsn_in(tmp_path)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    passed = [report.nodeid for report in terminalreporter.stats.get("passed", [])]
    counts = engine_counts(passed)
    if counts:
        reported = ", ".join(f"{NAMES[name]} {counts[name]:,}" for name in NAMES if counts[name])
        terminalreporter.write_line(f"passed by engine: {reported}")


def engine_counts(nodeids: Sequence[str]) -> Counter[str]:
    """Return the number of *nodeids* for each engine that their parameters name."""
    found: Counter[str] = Counter()
    for nodeid in nodeids:
        parameters = IN_BRACKETS.search(nodeid)
        if parameters is not None:
            found.update(set(parameters[1].split("-")) & NAMES.keys())
    return found
