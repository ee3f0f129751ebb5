"""Each test gets a PostgreSQL database like a new one, whatever an earlier test left in it."""

from contextlib import closing
from pathlib import Path
from typing import Final

import psycopg
import pytest

from mintscope.kit.sql.postgres import PREPARED_AFTER, PostgresDatabase
from support.scenes import postgres
from support.scenes.postgres import GIVEN_AGAIN, forget_those_in, server

# Rows in tables that refuse DELETE, no row of a table that has one at first, and used numbers.
ROWS: Final = """
INSERT INTO credit_account (id, token_hash, hint, note, issued_at)
VALUES (7, sha256('7'), '', '', 1);
INSERT INTO credit_entry (account, kind, delta, balance, at) VALUES (7, 'grant', 5, 5, 1);
DELETE FROM credit_day_mark;
SELECT nextval('payment_id_seq') FROM generate_series(1, 5);
"""
GROWN: Final = """
INSERT INTO credit_account (token_hash, hint, note, issued_at)
SELECT sha256(n::text::bytea), '', repeat('x', 1000), 1 FROM generate_series(1, 5000) AS n
"""
OTHERWISE: Final = {
    "a table": "CREATE TABLE more (n bigint)",
    "no table": "DROP TABLE pepper",
    "a column": "ALTER TABLE pepper ADD COLUMN more bigint",
    "a default": "ALTER TABLE pepper ALTER id SET DEFAULT 7",
    "an index": "CREATE INDEX more ON pepper (check_hash)",
    "no trigger": "DROP TRIGGER payment_begins ON payment",
    "a trigger that sleeps": "ALTER TABLE payment DISABLE TRIGGER payment_begins",
    "another function": "ALTER FUNCTION refuse() SET work_mem = '1MB'",
    "a constraint": "ALTER TABLE pepper ADD CHECK (id < 7)",
    "another schema": "CREATE SCHEMA more",
    "a right": "GRANT SELECT ON pepper TO public",
    "a setting": """DO $$ BEGIN
        EXECUTE format('ALTER DATABASE %I SET work_mem = 1024', current_database());
    END $$""",
    "rows by the megabyte": GROWN,
}
PID: Final = "SELECT pg_backend_pid()"
# Prepared statements of the service, and temporary tables, in this session.
KEPT: Final = """
SELECT (SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE 'SELECT $1%')
       + (SELECT count(*) FROM pg_class WHERE relpersistence = 't' AND relkind = 'r')
"""


def url_in(folder: Path) -> str:
    return postgres.url_in(folder, GIVEN_AGAIN)


def dsn_in(folder: Path) -> str:
    return postgres.dsn_in(folder, GIVEN_AGAIN)


def leave(folder: Path, statements: str) -> None:
    with psycopg.connect(dsn_in(folder), autocommit=True) as connection:
        connection.execute(statements.encode())


def dumped(folder: Path) -> str:
    return server().dumped(url_in(folder).rpartition("/")[2])


@pytest.mark.process
def test_a_reused_database_has_the_rows_and_numbers_of_a_new_one(tmp_path: Path) -> None:
    before = tmp_path / "before"
    after = tmp_path / "after"
    new, place = dumped(before), url_in(before)
    leave(before, ROWS)
    left = dumped(before)
    forget_those_in(before)

    assert url_in(after) == place
    assert dumped(after) == new
    assert left != new


@pytest.mark.parametrize("left", OTHERWISE.values(), ids=OTHERWISE)
def test_a_database_with_a_changed_schema_or_many_rows_is_not_reused(
    tmp_path: Path, left: str
) -> None:
    before = tmp_path / "before"
    after = tmp_path / "after"
    place = url_in(before)
    leave(before, left)
    forget_those_in(before)

    assert url_in(after) != place


def test_a_database_with_a_market_is_not_reused(tmp_path: Path) -> None:
    before = tmp_path / "before"
    after = tmp_path / "after"
    place = postgres.url_in(before)
    forget_those_in(before)

    assert postgres.url_in(after) != place


def test_connections_and_their_locks_end_before_a_database_is_reused(tmp_path: Path) -> None:
    before = tmp_path / "before"
    after = tmp_path / "after"
    place = url_in(before)
    with psycopg.connect(dsn_in(before)) as left:
        left.execute("LOCK TABLE pepper")
        left.execute("SELECT pg_advisory_lock(7)")
        forget_those_in(before)
        with pytest.raises(psycopg.OperationalError):
            left.execute("SELECT 1")

    assert url_in(after) == place
    with psycopg.connect(dsn_in(after)) as connection:
        connection.execute("LOCK TABLE pepper NOWAIT")
        assert connection.execute("SELECT pg_try_advisory_lock(7)").fetchall() == [(True,)]


def test_a_session_is_used_again_by_a_later_connection_and_is_like_new(tmp_path: Path) -> None:
    dsn = dsn_in(tmp_path)
    with closing(PostgresDatabase(dsn, statement_ms=7_000)) as before:
        pid = before.execute(PID).get
        for _ in range(PREPARED_AFTER + 1):
            before.execute("SELECT ?::bigint", (1,))
        before.execute("SELECT pg_advisory_lock(7)")
        before.execute("SET search_path = other")
        before.execute("CREATE TEMPORARY TABLE more (n bigint)")
        kept = before.execute(KEPT).get
    with closing(PostgresDatabase(dsn)) as after, psycopg.connect(dsn) as other:
        assert after.execute(PID).get == pid
        assert after.execute("SHOW search_path").get == '"$user", public'
        assert after.execute("SHOW statement_timeout").get == "5s"
        assert other.execute("SELECT pg_try_advisory_lock(7)").fetchall() == [(True,)]
        assert (kept, after.execute(KEPT).get) == (2, 0)


def test_a_session_that_was_in_a_transaction_or_ended_is_not_used_again(tmp_path: Path) -> None:
    dsn = dsn_in(tmp_path)
    pids = []
    for left in ("BEGIN", "SELECT 1"):
        with closing(PostgresDatabase(dsn)) as database:
            pids.append(database.execute(PID).get)
            database.execute(left)
    with psycopg.connect(dsn) as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", (pids[1],))
    with closing(PostgresDatabase(dsn)) as database:
        pids.append(database.execute(PID).get)
    assert len(set(pids)) == len(pids)


@pytest.mark.process
def test_forty_databases_at_once_use_at_most_thirty_connections(tmp_path: Path) -> None:
    """A property test makes a database for each of its examples before any is released."""
    for number in range(40):
        dsn_in(tmp_path / str(number))
    with psycopg.connect(dsn_in(tmp_path / "other")) as connection:
        asked = "SELECT count(*) FROM pg_stat_activity WHERE datname LIKE 't%'"
        (connected,) = connection.execute(asked).fetchall()[0]
    assert connected <= 30
    forget_those_in(tmp_path)
