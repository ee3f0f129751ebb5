"""A connection to PostgreSQL that is lost, frozen, or loses an answer."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from typing import Any, Final

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.raw_cursor import RawCursor
from typing_extensions import override

from mintscope.kit.errors import UnusableStore
from mintscope.kit.sql import postgres
from mintscope.kit.sql.database import Batch, DatabaseAway, DatabaseError
from mintscope.kit.sql.migrating import Migration, migrate, migrations
from mintscope.kit.sql.postgres import ROWS_MAX, PostgresDatabase
from support.scenes.postgres import IDLE_MS

ADD: Final = "INSERT INTO noted (n) VALUES (?)"
SUM: Final = "SELECT coalesce(sum(n), 0) FROM noted"


class LosingCursor(RawCursor[Any]):
    """A cursor that fails each COMMIT: after the commit if `arrives`, otherwise instead of it."""

    arrives = True

    @override
    def execute(self, query: Any, *arguments: Any, **options: Any) -> Any:
        if query != "COMMIT":
            return super().execute(query, *arguments, **options)
        if self.arrives:
            super().execute(query, *arguments, **options)
        raise psycopg.OperationalError("the answer was lost")


class LosingDatabase(PostgresDatabase):
    """A database that loses the answers to its commits or, if *arrives* is False, the commits."""

    arrives = True

    @override
    def _cursor(self) -> RawCursor[Any]:
        cursor = LosingCursor(super()._cursor().connection)
        cursor.arrives = self.arrives
        return cursor


@pytest.fixture
def db(dsn: str) -> Iterator[PostgresDatabase]:
    database = PostgresDatabase(dsn)
    database.execute("CREATE TABLE noted (n bigint PRIMARY KEY)")
    yield database
    database.close()


def lose(database: PostgresDatabase, dsn: str) -> None:
    """End the connection of *database* from the server's side."""
    pid = database.execute("SELECT pg_backend_pid()").get
    with psycopg.connect(dsn, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))


def test_a_transaction_that_loses_its_connection_stores_nothing(
    db: PostgresDatabase, dsn: str
) -> None:
    def work() -> None:
        with db.transaction():
            db.execute(ADD, (1,))
            lose(db, dsn)
            with suppress(DatabaseError), db.savepoint():
                db.execute(ADD, (2,))
            with suppress(DatabaseError):
                db.execute(ADD, (3,))

    with pytest.raises(DatabaseAway):
        work()
    assert db.execute(SUM).get == 0


def test_a_script_on_a_lost_connection_raises_an_error(db: PostgresDatabase, dsn: str) -> None:
    raised: list[DatabaseError] = []

    def work() -> None:
        with db.transaction():
            lose(db, dsn)
            with suppress(DatabaseError):
                db.execute(ADD, (1,))
            try:
                db.script("CREATE TABLE never (n bigint); CREATE TABLE never_either (n bigint)")
            except DatabaseError as error:
                raised.append(error)

    with pytest.raises(DatabaseAway):
        work()
    assert [type(error) for error in raised] == [DatabaseAway]


@pytest.mark.parametrize("arrives", [True, False])
def test_a_commit_whose_answer_was_lost_is_looked_up(
    db: PostgresDatabase, dsn: str, *, arrives: bool
) -> None:
    losing = LosingDatabase(dsn)
    losing.arrives = arrives
    expected = nullcontext() if arrives else pytest.raises(DatabaseAway)
    with expected, losing.transaction():
        losing.execute(ADD, (1,))
    assert db.execute(SUM).get == int(arrives)
    losing.close()


def test_the_next_database_transaction_or_snapshot_reconnects(
    db: PostgresDatabase, dsn: str
) -> None:
    lose(db, dsn)
    with db.transaction():
        db.execute(ADD, (1,))
    lose(db, dsn)
    with db.snapshot():
        assert db.execute(SUM).get == 1


def test_a_read_on_a_lost_connection_is_repeated_and_a_write_fails(
    db: PostgresDatabase, dsn: str
) -> None:
    lose(db, dsn)
    assert db.execute(SUM).get == 0
    lose(db, dsn)
    with pytest.raises(DatabaseAway):  # it is not known whether it arrived
        db.execute(ADD, (1,))


def test_a_refused_statement_undoes_only_its_savepoint(db: PostgresDatabase) -> None:
    def twice() -> None:
        with db.savepoint():
            db.execute(ADD, (2,))
            db.execute(ADD, (1,))

    with db.transaction():
        db.execute(ADD, (1,))
        with pytest.raises(DatabaseError):
            twice()
        db.execute(ADD, (4,))
    assert db.execute(SUM).get == 5


def test_a_frozen_writer_loses_the_lock_and_its_changes(
    db: PostgresDatabase, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "IDLE_IN_TRANSACTION_MS", IDLE_MS)
    frozen, other = PostgresDatabase(dsn), PostgresDatabase(dsn)

    def freeze() -> None:
        with frozen.transaction():
            frozen.execute(ADD, (1,))
            with other.transaction():  # waits until the server has ended the frozen one
                other.execute(ADD, (2,))

    try:
        with pytest.raises(DatabaseAway):
            freeze()
    finally:
        frozen.close()
        other.close()
    assert db.execute(SUM).get == 2


def test_sums_are_integers_however_large(db: PostgresDatabase) -> None:
    largest = 2**63 - 1
    db.executemany(ADD, [(largest,), (largest - 1,)])
    assert db.execute(SUM).get == 2 * largest - 1


def test_a_batch_is_inserted_in_statements_of_at_most_rows_max(db: PostgresDatabase) -> None:
    db.execute(
        "CREATE FUNCTION count_rows() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " INSERT INTO counted SELECT count(*) FROM added; RETURN NULL; END $$"
    )
    db.execute("CREATE TABLE counted (rows bigint)")
    db.execute(
        "CREATE TRIGGER each_statement AFTER INSERT ON noted REFERENCING NEW TABLE AS added"
        " FOR EACH STATEMENT EXECUTE FUNCTION count_rows()"
    )
    count = 2 * ROWS_MAX + 1
    db.executemany(Batch("noted", {"n": "bigint"}), [(n,) for n in range(count)])
    assert db.changes() == count
    assert [rows for (rows,) in db.execute("SELECT rows FROM counted")] == [ROWS_MAX, ROWS_MAX, 1]


def test_two_concurrent_migrators_run_each_migration_once(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS at_once CASCADE")
        connection.execute("CREATE SCHEMA at_once")
    fresh = make_conninfo(dsn, options="-c search_path=at_once -c client_min_messages=warning")
    both = [PostgresDatabase(fresh), PostgresDatabase(fresh)]
    with ThreadPoolExecutor(2) as threads:
        ran = list(threads.map(lambda database: migrate(database, "money"), both))
    for database in both:
        database.close()
    assert sorted(map(len, ran)) == [0, len(migrations("money"))]


NEWER: Final = "INSERT INTO migration (kind, number, name, least) VALUES ('money', 9999, 'new', ?)"


def test_a_schema_of_a_newer_version_is_refused(db: PostgresDatabase) -> None:
    db.execute(NEWER, (9_999,))
    with pytest.raises(
        UnusableStore, match=r"9999, and code before 9999 .* it needs a newer mintscope"
    ):
        migrate(db, "money")


def test_a_newer_schema_is_accepted_if_it_allows_older_code(db: PostgresDatabase) -> None:
    db.execute(NEWER, (migrations("money")[-1].number,))
    assert migrate(db, "money") == []


def test_least_is_read_from_the_script_and_is_the_own_number_by_default() -> None:
    assert Migration(7, "0007_a.sql", "-- least: 3\nALTER TABLE a ...").least == 3
    assert Migration(7, "0007_a.sql", "ALTER TABLE a ...").least == 7


def test_a_nul_character_is_stored_as_the_replacement_character(db: PostgresDatabase) -> None:
    assert db.execute("SELECT ?::text", ("a\0b",)).get == "a\N{REPLACEMENT CHARACTER}b"
