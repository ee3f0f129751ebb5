"""The number of tests on each engine is counted by their names."""

from support.engines import engine_counts


def test_an_engine_counts_where_a_parameter_names_it() -> None:
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
