"""Migrations have no time limit, and run one at a time; a failed one keeps those before it."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final

import apsw
import psycopg
import pytest
from prometheus_client import REGISTRY
from psycopg.conninfo import make_conninfo
from structlog.testing import capture_logs

from mintscope.app.stores.postgres import open_tables
from mintscope.kit.errors import UnusableStore
from mintscope.kit.sql import migrating
from mintscope.kit.sql import sqlite as connection
from mintscope.kit.sql.database import DatabaseAway, DatabaseError
from mintscope.kit.sql.migrating import (
    KINDS,
    Migration,
    migrate,
    migrate_all,
    migrate_tables,
    migrations,
)
from mintscope.kit.sql.postgres import PostgresDatabase
from mintscope.kit.sql.sqlite import open_store
from support.scenes.postgres import dsn_in, server

USUAL_MS: Final = 100
SLOW: Final = Migration(9_001, "9001_slow.sql", "CREATE TABLE slow (a int); SELECT pg_sleep(0.3)")
BROKEN: Final = Migration(9_003, "9003_broken.sql", "CREATE TABLE broken (a int); SELECT 1 / 0")
QUICK: Final = Migration(9_002, "9002_quick.sql", "CREATE TABLE quick (a int)")
ROLES: Final = ("money", "market", "limits", "money", "market")


@pytest.fixture
def lacks(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that adds migrations to those of PostgreSQL."""

    def add(*more: Migration) -> None:
        monkeypatch.setattr(migrating, "migrations", lambda kind: [*migrations(kind), *more])

    return add


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[str]:
    """Yield the DSN of a database without a table."""
    name = f"fresh_{abs(hash(tmp_path))}"
    with psycopg.connect(server().dsn, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}".encode())
        yield make_conninfo(server().dsn, dbname=name)
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def migrations_left() -> float | None:
    return REGISTRY.get_sample_value("mintscope_migrations_left")


def test_a_migration_may_take_longer_than_a_statement(
    tmp_path: Path, lacks: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    dsn = dsn_in(tmp_path)
    lacks(SLOW)
    with closing(PostgresDatabase(dsn, statement_ms=USUAL_MS)) as usual:
        with pytest.raises(DatabaseAway, match="statement timeout"):
            migrate(usual, "money")
        monkeypatch.setattr(migrating, "STATEMENT_MS", USUAL_MS)
        with capture_logs() as lines:
            migrate_tables(dsn, "money")
        usual.execute("SELECT * FROM slow")

    reported = [(line["event"], line["migration"]) for line in lines]
    assert reported == [("migrating", SLOW.name), ("migrated", SLOW.name)]
    assert lines[1]["took_s"] >= 0.3
    assert migrations_left() == 0


def test_migrations_before_a_failed_one_are_kept(
    tmp_path: Path, lacks: Callable[..., None]
) -> None:
    dsn = dsn_in(tmp_path)
    lacks(QUICK, BROKEN)
    with pytest.raises(DatabaseError, match="division by zero"):
        migrate_tables(dsn, "money")

    assert migrate_all(dsn, is_done=False) == [
        f"{kind} {each.name}"
        for kind in KINDS
        for each in (QUICK, BROKEN)
        if (kind, each) != ("money", QUICK)
    ]


def test_a_fresh_database_is_migrated_once_by_concurrent_processes(fresh: str) -> None:
    """All processes start at once, in any order: none needs another to start before it."""
    with ThreadPoolExecutor(len(ROLES)) as threads:
        for database in threads.map(partial(open_tables, fresh), ROLES):
            database.close()

    assert migrate_all(fresh, is_done=False) == []
    with psycopg.connect(fresh, autocommit=True) as connected:
        assert connected.execute("SELECT epoch FROM ingest_epoch").fetchone() == (0,)
        rows = connected.execute("SELECT kind, number, count(*) FROM migration GROUP BY 1, 2")
        assert {count for _, _, count in rows} == {1}


def test_a_fresh_database_logs_no_migration(fresh: str) -> None:
    with capture_logs() as lines:
        open_tables(fresh, "market").close()
    assert lines == []


def test_a_process_that_waits_for_a_migration_logs_it_and_runs_none_twice(
    tmp_path: Path, lacks: Callable[..., None]
) -> None:
    dsn = dsn_in(tmp_path)
    lacks(SLOW)
    with capture_logs() as lines, ThreadPoolExecutor(2) as threads:
        list(threads.map(partial(migrate_tables, dsn), ["money", "money"]))

    events = [line["event"] for line in lines]
    assert sorted(events) == ["migrated", "migrating", "migration_awaited"]


def test_an_old_file_keeps_the_migrations_before_a_failed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "market.sqlite"
    open_store(path, "market").close()
    known = connection.migrations("market")
    more = [(9_001, "9001_quick.sql", "CREATE TABLE quick (a)"), (9_002, "9002_broken.sql", "NO")]
    monkeypatch.setattr(connection, "migrations", lambda _: [*known, *more])
    with capture_logs() as lines, pytest.raises((apsw.SQLError, UnusableStore)):
        open_store(path, "market")

    monkeypatch.setattr(connection, "migrations", lambda _: [*known, more[0]])
    with closing(open_store(path, "market", read_only=True)) as file:
        assert file.table_exists(None, "quick")
    assert [line["event"] for line in lines] == ["migrating", "migrated", "migrating"]
    assert lines[0]["left"] == 2


def test_a_new_file_logs_no_migration(tmp_path: Path) -> None:
    with capture_logs() as lines:
        open_store(tmp_path / "market.sqlite", "market").close()
    assert lines == []
