"""The PostgreSQL schema of an installation, as tables to copy from and into."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import Final

from mintscope.app.stores import copying
from mintscope.kit.sql.database import TRY, Batch, Row, SessionLock
from mintscope.kit.sql.migrating import is_copied_into, migrate, waits_for
from mintscope.kit.sql.postgres import PostgresDatabase
from mintscope.kit.sql.processes import session

KINDS: Final = ("money", "market")
STATEMENT_MS: Final = 600_000  # enough to create an index or a foreign key on a whole table
# The snapshot of a source is a transaction that is idle while the target is written.
PATIENT: Final = "SELECT set_config('idle_in_transaction_session_timeout', '0', false)"
COLUMNS: Final = """
SELECT table_name, column_name, data_type FROM information_schema.columns
 WHERE table_schema = current_schema() ORDER BY table_name, ordinal_position
"""
KEYS: Final = """
SELECT tables.relname, attribute.attname
  FROM pg_index JOIN pg_class AS tables ON tables.oid = pg_index.indrelid
  JOIN pg_attribute AS attribute
    ON attribute.attrelid = tables.oid AND attribute.attnum = ANY(pg_index.indkey)
 WHERE pg_index.indisprimary AND tables.relnamespace = current_schema()::regnamespace
 ORDER BY tables.relname, array_position(pg_index.indkey::int2[], attribute.attnum)
"""
REFERENCES: Final = """
SELECT tables.relname, pg_constraint.conname, pg_get_constraintdef(pg_constraint.oid)
  FROM pg_constraint JOIN pg_class AS tables ON tables.oid = pg_constraint.conrelid
 WHERE contype = 'f' AND connamespace = current_schema()::regnamespace
 ORDER BY 1, 2
"""
NUMBERED: Final = """
SELECT table_name, column_name FROM information_schema.columns
 WHERE table_schema = current_schema() AND is_identity = 'YES' ORDER BY 1
"""
LAST: Final = """
SELECT coalesce(last_value, 0) FROM pg_sequences
 WHERE format('%I.%I', schemaname, sequencename) = pg_get_serial_sequence(?, ?)
"""
NUMBER_ON: Final = "SELECT setval(pg_get_serial_sequence(?, ?), ?)"
MARK: Final = "CREATE TABLE copy_progress (source text NOT NULL, guard text NOT NULL)"


class PostgresSide:
    """The PostgreSQL tables of a copy, as its source or its target, in the schema of *dsn*.

    Opening creates missing tables.

    is_new   True: this is the target, and pending migrations are run first, unless an unfinished
             copy is in it; False: this is the source, every read sees the data at the time of
             opening, and opening raises NeedsUpgrade if migrations are pending
    """

    def __init__(self, dsn: str, *, is_new: bool = False) -> None:
        self._db = PostgresDatabase(dsn, statement_ms=STATEMENT_MS)
        with ExitStack() as stack:
            stack.callback(self._db.close)
            if not (is_new and is_copied_into(self._db)):
                if not is_new:
                    copying.expect_none_waits(waits_for(dsn))
                for kind in KINDS:
                    migrate(self._db, kind)
            self._db.execute(PATIENT)
            if not is_new:
                stack.enter_context(self._db.snapshot())
            self._stack = stack.pop_all()

    def tables(self) -> Mapping[str, copying.Relation]:
        """Return the tables that are copied, by name."""
        return self._tables

    def rows(
        self, table: copying.Relation, after: Sequence[object] | None, rows_max: int
    ) -> Sequence[Row]:
        """Return up to *rows_max* rows of *table*, ordered by its key.

        after   the key after which the rows begin; None: at the first row
        """
        order = [  # the order of SQLite, whatever the collation of the database
            f'"{name}" COLLATE "C"' if table.columns[name] == "text" else f'"{name}"'
            for name in table.key
        ]
        statement = copying.reading(table, after=after is not None, order=order)
        return list(self._db.execute(statement, [*(after or ()), rows_max]))

    def sequences(self) -> Mapping[str, int]:
        """Return the largest number assigned so far, for each table that numbers its rows."""
        return {
            table: int(self._db.execute(LAST, (f'"{table}"', column)).get or 0)
            for table, column in list(self._db.execute(NUMBERED))
        }

    def begin(self, source: str) -> None:
        """Disable triggers, drop foreign keys, and delete the rows that migrations have added.

        The statements that restore triggers and foreign keys are stored.  A copy that resumes has
        already done this.
        Raises CannotCopy if the target has other rows, or if a copy of another source has begun.
        """
        if is_copied_into(self._db):
            copying.expect_same(self._db.execute(copying.BEGUN).get, source)
            return
        self._expect_empty()
        with self._db.transaction():
            self._db.execute(MARK)
            for guard in ("", *self._taken_away()):
                self._db.execute("INSERT INTO copy_progress VALUES (?, ?)", (source, guard))
            for name in copying.MADE_BY_MIGRATIONS:
                self._db.execute(f'DELETE FROM "{name}"')  # noqa: S608 - ours

    def add(self, table: copying.Relation, rows: Sequence[Row]) -> None:
        """Add all *rows* to *table*, or none if one of them fails."""
        columns = {f'"{name}"': kind for name, kind in table.columns.items()}
        with self._db.transaction():
            self._db.executemany(Batch(f'"{table.name}"', columns), rows)

    def end(self, sequences: Mapping[str, int]) -> None:
        """Restore triggers and foreign keys, which checks every reference.

        New rows are numbered after the existing rows, and after the last numbers in *sequences*.
        Statistics are collected, because a service may start before PostgreSQL collects them
        itself.
        """
        with self._db.transaction():
            guards = self._db.execute("SELECT guard FROM copy_progress WHERE guard <> ''")
            for (guard,) in guards:
                self._db.execute(guard)
            for table, column in list(self._db.execute(NUMBERED)):
                largest = self._db.execute(
                    f'SELECT coalesce(max("{column}"), 0) FROM "{table}"'  # noqa: S608 - ours
                ).get
                # On SQLite, only a table with AUTOINCREMENT has a sequence.
                last = max(largest, sequences.get(table, 0))
                if last:
                    self._db.execute(NUMBER_ON, (f'"{table}"', column, last))
            self._db.execute("DROP TABLE copy_progress")
            for table in self._tables:
                if table != "copy_progress":
                    self._db.execute(f'ANALYZE "{table}"')

    def close(self) -> None:
        """Close the connection."""
        self._stack.close()

    @cached_property
    def _tables(self) -> Mapping[str, copying.Relation]:
        columns: dict[str, dict[str, str]] = {}
        for table, column, kind in self._db.execute(COLUMNS):
            columns.setdefault(table, {})[column] = kind
        keys: dict[str, list[str]] = {}
        for table, column in self._db.execute(KEYS):
            keys.setdefault(table, []).append(column)
        return {
            name: copying.Relation(name, columns[name], keys[name])
            for name in sorted(columns)
            if name not in copying.NOT_COPIED
        }

    def _expect_empty(self) -> None:
        for name in self._tables.keys() - copying.MADE_BY_MIGRATIONS:
            found = self._db.execute(f'SELECT 1 FROM "{name}" LIMIT 1')  # noqa: S608 - ours
            if found.get is not None:
                raise copying.CannotCopy(f"expected an empty target; there are rows in {name}")

    def _taken_away(self) -> list[str]:
        """Disable triggers and drop foreign keys; return the SQL statements that restore them."""
        back = []
        for table, name, definition in list(self._db.execute(REFERENCES)):
            self._db.execute(f'ALTER TABLE "{table}" DROP CONSTRAINT "{name}"')
            back.append(f'ALTER TABLE "{table}" ADD CONSTRAINT "{name}" {definition}')
        for table in self._tables:
            # USER, because only a superuser may disable ALL, which includes the triggers of foreign
            # keys; the keys themselves are dropped above.
            self._db.execute(f'ALTER TABLE "{table}" DISABLE TRIGGER USER')
            back.append(f'ALTER TABLE "{table}" ENABLE TRIGGER USER')
        return back


LET_GO: Final = "SELECT pg_advisory_unlock_all()"
# The auditor requests the lock every few seconds; a frozen or disconnected process loses the lock.
BE_AUDITOR: Final = """
SELECT set_config('idle_session_timeout', ?2, false),
       pg_try_advisory_lock(hashtext(current_schema()), ?1::integer)
"""
SILENT_MS_MAX: Final = 60_000


def is_auditor(db: PostgresDatabase) -> bool:
    """Return whether the process of *db* may audit; it may if no other process does."""
    _, is_first = db.execute(BE_AUDITOR, (SessionLock.AUDITING, f"{SILENT_MS_MAX}")).get
    return bool(is_first)


@contextmanager
def expecting_no_process(dsn: str) -> Iterator[None]:
    """Prevent ingest and api from starting during the block.

    Raises CannotCopy if one of them already runs, StoreUnavailable if the database does not answer.
    """
    with session(dsn) as connection:
        for lock, name in ((SessionLock.INGESTING, "ingest"), (SessionLock.SERVING, "api")):
            row = connection.execute(TRY, (lock,)).fetchone()
            if row is None or not row[0]:
                raise copying.CannotCopy(
                    f"expected no mintscope {name} on this database; one is running: stop it first"
                )
        yield
        connection.execute(LET_GO)  # at once: the server may be late to notice the end of a session
