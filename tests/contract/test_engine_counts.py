"""The counts of tests for each engine are taken from the engine names in the tests' IDs."""

import pytest

from support.engines import beyond_their_turn, engine_counts, on_another_engine


def test_tests_are_counted_by_the_engine_that_a_parameter_names() -> None:
    counts = engine_counts(
        [
            "contract/test_a.py::test_one[sqlite]",
            "spec/test_b.py::test_two[postgresql-connection]",
            "spec/test_b.py::test_two[application-sqlite-3]",
            "edges/test_sqlite.py::test_three",
            "edges/test_d.py::test_four[a-memory]",
        ]
    )
    assert counts == {"sqlite": 2, "postgresql": 1}


class Item:
    """A fake pytest item with the attributes that `support.engines` reads."""

    def __init__(self, nodeid: str, engine: str = "") -> None:
        self.nodeid = nodeid
        self._engine = engine

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return pytest.Mark(name, (self._engine,), {}, _ispytest=True) if self._engine else None


def test_variants_of_a_test_alternate_between_the_engines() -> None:
    names = [
        f"spec/test_a.py::test_{test}[{engine}-{way}-{variant}]"
        for test, variants in (("one", "abcd"), ("two", "a"))
        for variant in variants
        for engine, way in (
            ("sqlite", "application"),
            ("sqlite", "connection"),
            ("postgresql", "application"),
        )
    ]
    beyond = beyond_their_turn([Item(name) for name in names])  # type: ignore[misc]

    assert {item.nodeid.partition("one")[2] for item in beyond} == {
        "[sqlite-application-b]",
        "[postgresql-application-c]",
        "[sqlite-application-d]",
    }


def test_a_test_with_the_mark_of_an_engine_runs_only_on_that_engine() -> None:
    items = [
        Item("e2e/test_a.py::test_one[sqlite]", "sqlite"),
        Item("e2e/test_a.py::test_one[postgresql-2]", "sqlite"),
        Item("e2e/test_a.py::test_two", "sqlite"),
        Item("e2e/test_a.py::test_three[postgresql]"),
    ]
    assert on_another_engine(items) == {items[1]}  # type: ignore[arg-type, comparison-overlap]
