"""The script that replaces old migrations makes the same tables as these migrations.

The expected tables were recorded on 24 November 2026 after all migrations had run: as SQL for
SQLite, and as rows of the catalog for PostgreSQL.
"""

import re
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import apsw
import psycopg
import pytest
from stores_of_main import catalog, kept

from mintscope.app.stores.folder import MONEY_FILE
from mintscope.kit.errors import UnusableStore
from mintscope.kit.sql import migrating
from mintscope.kit.sql.sqlite import migrations, open_store
from support.scenes.postgres import dsn_in

(OF_THAT_DAY,) = (each for each in kept() if each.name.startswith("2026-11-24"))
MARK: Final = "UPDATE migration SET number = number - 1 WHERE number = ?"


def schema(script: str) -> dict[tuple[str, str], Any]:
    """Return the columns, references, indexes and triggers that *script* makes."""
    found: dict[tuple[str, str], Any] = {}
    with closing(apsw.Connection(":memory:")) as db:
        db.execute(script)
        rows = db.execute("SELECT type, name, sql FROM sqlite_schema WHERE name <> 'migration'")
        for kind, name, sql in rows.fetchall():
            assert isinstance(kind, str)
            assert isinstance(name, str)
            if kind == "table":
                for pragma in ("table_xinfo", "foreign_key_list", "index_list"):
                    found[pragma, name] = {
                        row[1:] for row in db.execute(f"SELECT * FROM pragma_{pragma}('{name}')")
                    }
            if sql is not None:
                # Added columns are at the end of a table's text: its parts are compared.
                bare = re.sub(r"--[^\n]*|\"", "", str(sql))
                found[kind, name] = sorted(re.split(r"[\s,]+", re.sub(r"([()])", r" \1 ", bare)))
    return found


@pytest.mark.parametrize("kind", ["money", "market"])
def test_the_joined_script_makes_the_same_tables_in_sqlite(kind: str) -> None:
    of_that_day = OF_THAT_DAY.facts["sqlite"][kind]
    _, _, script = migrations(kind)[0]
    made, recorded = schema(script), schema(of_that_day)

    assert len(recorded) > 90
    assert made == recorded


def test_the_joined_script_makes_the_same_tables_in_postgresql(tmp_path: Path) -> None:
    with psycopg.connect(dsn_in(tmp_path, ()), autocommit=True) as db:
        for kind in ("money", "market"):
            db.execute(migrating.migrations(kind)[0].script.encode())
        made = catalog(db)

    assert len(made) > 900
    assert made == [tuple(row) for row in OF_THAT_DAY.facts["postgres"]["catalog"]]


def test_an_older_file_is_refused_and_not_changed(tmp_path: Path) -> None:
    path = tmp_path / MONEY_FILE
    open_store(path, "money").close()
    with closing(apsw.Connection(str(path))) as db:
        db.execute("DELETE FROM migration WHERE number > 302; " + MARK.replace("?", "302"))
    with pytest.raises(UnusableStore, match=r"at migration 302 or newer; it is at 301: upgrade it"):
        open_store(path, "money")

    with closing(apsw.Connection(str(path))) as db:
        assert db.execute("SELECT number FROM migration").fetchall() == [(301,)]


def test_an_older_database_is_refused_and_not_changed(tmp_path: Path) -> None:
    dsn = dsn_in(tmp_path)
    with psycopg.connect(dsn, autocommit=True) as db:
        db.execute("DELETE FROM migration WHERE kind = 'money' AND number > 22")
        db.execute(MARK.replace("?", "22 AND kind = 'money'").encode())
        with pytest.raises(UnusableStore, match=r"at migration 22 or newer; it is at 21: upgrade"):
            migrating.migrate_tables(dsn, "money")

        rows = db.execute("SELECT number FROM migration WHERE kind = 'money'").fetchall()
        assert rows == [(21,)]
