"""A column without a constraint is added at once, however large the table is."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

import apsw
import pytest

from mintscope.kit.sql import sqlite
from mintscope.kit.sql.sqlite import PLAIN_COLUMN, migrations, open_store

KINDS: Final = ("money", "market", "webhooks")
CREATE: Final = (
    "CREATE TABLE aged (id INTEGER PRIMARY KEY, name TEXT NOT NULL CHECK (length(name) < 9))"
    " STRICT;"
    "CREATE INDEX aged_name ON aged (name);"
    "CREATE TRIGGER aged_stays BEFORE DELETE ON aged BEGIN SELECT raise(ABORT, 'it stays'); END;"
)
ADD: Final = (
    "-- One.\nALTER TABLE aged ADD COLUMN age INTEGER;  -- years\nCREATE INDEX old ON aged (age);"
)


@pytest.fixture
def lacks(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Return a function that adds a script as the last migration of a kind of tables."""

    def add(kind: str, script: str) -> None:
        more = [*migrations(kind), (9_001, "9001_more.sql", script)]
        monkeypatch.setattr(sqlite, "migrations", lambda _: more)

    return add


def aged(path: Path, rows: int) -> None:
    with closing(open_store(path, "webhooks")) as db, db:
        db.execute(CREATE)
        db.executemany("INSERT INTO aged (name) VALUES (?)", [(f"{n}",) for n in range(rows)])


def steps_of(path: Path) -> int:
    """Return the number of SQLite instructions, in thousands, that opening *path* takes."""
    count = 0

    def one_more() -> bool:
        nonlocal count
        count += 1
        return False

    hooks = apsw.connection_hooks
    apsw.connection_hooks = [*hooks, lambda db: db.set_progress_handler(one_more, 1_000)]
    try:
        open_store(path, "webhooks").close()
    finally:
        apsw.connection_hooks = hooks
    return count


def test_a_column_takes_the_same_steps_in_a_table_with_more_rows(
    tmp_path: Path, lacks: Callable[[str, str], None]
) -> None:
    for rows in (10, 50_000):
        aged(tmp_path / f"{rows}.sqlite", rows)
    lacks("webhooks", "ALTER TABLE aged ADD COLUMN age INTEGER;\n")
    assert steps_of(tmp_path / "50000.sqlite") == steps_of(tmp_path / "10.sqlite")


def test_the_schema_and_rows_equal_those_of_alter_table_in_sqlite(
    tmp_path: Path, lacks: Callable[[str, str], None]
) -> None:
    path = tmp_path / "ours.sqlite"
    aged(path, 9)
    lacks("webhooks", ADD)
    with (
        closing(sqlite.open_store(path, "webhooks")) as ours,
        closing(apsw.Connection(":memory:")) as theirs,
    ):
        theirs.execute(CREATE + ADD)
        of_table = "SELECT type, name, sql FROM sqlite_schema WHERE tbl_name = 'aged' ORDER BY name"
        assert ours.execute(of_table).fetchall() == theirs.execute(of_table).fetchall()
        assert ours.execute("SELECT count(*), count(age) FROM aged").get == (9, 0)
        ours.execute("UPDATE aged SET age = id WHERE id > 4")
        with pytest.raises(apsw.ConstraintError, match="it stays"):
            ours.execute("DELETE FROM aged")
        with pytest.raises(apsw.ConstraintError):
            ours.execute("UPDATE aged SET age = 'old'")
        assert ours.execute("PRAGMA integrity_check").get == "ok"


def test_a_connection_that_was_open_before_sees_the_column(
    tmp_path: Path, lacks: Callable[[str, str], None]
) -> None:
    path = tmp_path / "aged.sqlite"
    aged(path, 9)
    with closing(open_store(path, "webhooks")) as before:
        assert before.execute("SELECT * FROM aged WHERE id = 1").get == (1, "0")
        lacks("webhooks", ADD)
        open_store(path, "webhooks").close()
        assert before.execute("SELECT * FROM aged WHERE id = 1").get == (1, "0", None)


def test_a_migration_that_fails_after_the_column_leaves_no_column(
    tmp_path: Path, lacks: Callable[[str, str], None]
) -> None:
    path = tmp_path / "aged.sqlite"
    aged(path, 9)
    lacks("webhooks", f"{ADD}\nSELECT no_such_column FROM aged;")
    with pytest.raises(apsw.SQLError):
        open_store(path, "webhooks")
    with closing(apsw.Connection(str(path))) as db:
        assert db.execute("SELECT * FROM aged WHERE id = 1").get == (1, "0")
        assert not db.execute("PRAGMA writable_schema").get
        assert db.execute("PRAGMA integrity_check").get == "ok"


def test_migrations_add_plain_columns_to_the_largest_tables() -> None:
    found = {
        each["table"]
        for kind in KINDS
        for _, _, script in migrations(kind)
        for each in PLAIN_COLUMN.finditer(script)
    }
    assert {"credit_entry", "state", "stream_minute"} <= found
