"""Runs and rehearses the migrations of PostgreSQL databases."""

import re
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from functools import cache, partial
from typing import Final, NamedTuple

import structlog

from mintscope.kit.errors import NewerStore, StoreUnavailable, UnusableStore
from mintscope.kit.sql.database import DatabaseError
from mintscope.kit.sql.identity import expect_joined, upgrade_advice
from mintscope.kit.sql.postgres import PAUSE_S, STATEMENT_MS, PostgresDatabase, WriteLock
from mintscope.kit.sql.sqlite import scripts, telling

CREATE: Final = """
CREATE TABLE IF NOT EXISTS migration (
    kind   text   NOT NULL,
    number bigint NOT NULL,
    name   text   NOT NULL,
    least  bigint NOT NULL,  -- the newest migration that code must know to go on
    PRIMARY KEY (kind, number))
"""
LEAST: Final = re.compile(r"-- least: (\d+)\n")
KINDS: Final = ("money", "market", "limits")
VERSION_MIN: Final = 150_000  # 15.0, in the server's form
# One statement of a migration may change every row of a large table.
MIGRATION_MS: Final = 6 * 3_600_000
REHEARSAL_LOCK_MS: Final = 500
MIGRATING: Final = 4  # the number of a lock; locks of writers have other numbers
TRY: Final = "SELECT pg_try_advisory_lock(hashtext(current_schema()), ?::integer)"
LET_GO: Final = "SELECT pg_advisory_unlock(hashtext(current_schema()), ?::integer)"
MAKE_ALONE: Final = "SELECT pg_advisory_xact_lock(hashtext(current_schema()), ?::integer)"
HAS_SOME: Final = "SELECT EXISTS (SELECT 1 FROM migration WHERE kind = ?)"

log = structlog.get_logger()


class Migration(NamedTuple):
    """One step from an older schema to a newer one.

    After this step, code that knows the migrations up to `least` can still use the store.
    """

    number: int
    name: str
    script: str

    @property
    def least(self) -> int:
        """The newest migration that code must know so that it can use the store after this one.

        The script states it in its first line, `-- least: NUMBER`; without that line it is
        `number`.
        """
        found = LEAST.match(self.script)
        return self.number if found is None else int(found[1])


@cache
def migrations(kind: str) -> list[Migration]:
    """Return every migration of *kind* from the files `NNNN_name.sql`, in order."""
    return [Migration(*each) for each in scripts("postgres", kind)]


def migrate(database: PostgresDatabase, kind: str) -> list[Migration]:
    """Run the pending migrations of *kind*, each in its own transaction; return them.

    Raises UnusableStore if PostgreSQL is too old, a copy into the database is unfinished, or the
    schema is too old or of a newer mintscope; StoreUnavailable if another process migrates for too
    long; DatabaseError.
    """
    _expect_usable(database)
    _make_table(database)
    if not missing(database, kind):
        return []
    with _alone(database):
        is_upgrade = bool(database.execute(HAS_SOME, (kind,)).get)
        ran = []
        while open_ := missing(database, kind):
            with telling(kind, open_[0].name, left=len(open_)) if is_upgrade else nullcontext():
                _run(database, kind, open_[0])
            ran.append(open_[0])
    return ran


def migrate_tables(dsn: str, kind: str) -> None:
    """Run the pending migrations of *kind* in the database *dsn*, which may take hours."""
    # The market has a write lock of its own.
    lock = WriteLock.MARKET if kind == "market" else WriteLock.MONEY
    patient = PostgresDatabase(dsn, lock, statement_ms=MIGRATION_MS, lock_ms=STATEMENT_MS)
    try:
        migrate(patient, kind)
    finally:
        patient.close()


def _expect_usable(database: PostgresDatabase) -> None:
    version = int(database.execute("SELECT current_setting('server_version_num')").get)
    if version < VERSION_MIN:
        raise UnusableStore(f"expected PostgreSQL 15 or newer; was {version // 10_000}")
    if is_copied_into(database):
        raise UnusableStore(
            "a copy into this database is incomplete: run the same `mintscope copy` again"
        )


def _make_table(database: PostgresDatabase) -> None:
    if not is_new(database):
        return
    with database.transaction(beside=True):
        # If two processes created the table at once, one would fail, in spite of IF NOT EXISTS.
        database.execute(MAKE_ALONE, (MIGRATING,))
        database.execute(CREATE)


@contextmanager
def _alone(database: PostgresDatabase) -> Iterator[None]:
    """Hold the lock for migrations during the block; wait up to MIGRATION_MS for it."""
    is_logged = False
    until_s = time.monotonic() + MIGRATION_MS / 1_000
    while not database.execute(TRY, (MIGRATING,)).get:
        if time.monotonic() > until_s:
            raise StoreUnavailable("another process migrates this database, and does not end")
        if not is_logged:
            log.info("migration_awaited")
            is_logged = True
        time.sleep(PAUSE_S)
    try:
        yield
    finally:
        with suppress(DatabaseError):  # a lost connection holds no lock
            database.execute(LET_GO, (MIGRATING,))


def _run(database: PostgresDatabase, kind: str, each: Migration) -> None:
    with database.transaction():
        # Another process may have run it before this transaction got the write lock.
        if each not in missing(database, kind):
            return
        database.script(each.script)
        database.execute(
            "INSERT INTO migration (kind, number, name, least) VALUES (?, ?, ?, ?)",
            (kind, each.number, each.name, each.least),
        )


def migrate_all(dsn: str, *, is_done: bool) -> list[str]:
    """Return kind and name of each pending migration; if *is_done*, run them."""
    database = PostgresDatabase(dsn)
    try:
        has_none = is_new(database)
        lacking = {
            kind: migrations(kind) if has_none else missing(database, kind) for kind in KINDS
        }
    finally:
        database.close()
    if is_done:
        for kind in KINDS:
            migrate_tables(dsn, kind)
    return [f"{kind} {each.name}" for kind, found in lacking.items() for each in found]


def waits_for(dsn: str) -> list[str]:
    """Return the migrations that the database *dsn* lacks, each as kind and name.

    A kind without any migration is left out, because its tables do not exist yet.
    """
    with closing(PostgresDatabase(dsn)) as database:
        if is_new(database):
            return []
        kinds = [kind for kind in KINDS if database.execute(HAS_SOME, (kind,)).get]
        return [f"{kind} {each.name}" for kind in kinds for each in missing(database, kind)]


def rehearse(dsn: str) -> list[tuple[str, str, float]]:
    """Run the pending migrations and roll them back; return kind, name and seconds of each.

    No other process may use the database meanwhile, because tables are locked.  Raises
    DatabaseError, UnusableStore.
    """
    ran: list[tuple[str, str, float]] = []
    patient = PostgresDatabase(dsn, statement_ms=MIGRATION_MS, lock_ms=REHEARSAL_LOCK_MS)
    # `suppress` is outside the transaction, so that `_Undone` rolls it back.
    with closing(patient), suppress(_Undone), patient.transaction():
        for kind in KINDS:
            if not patient.execute(HAS_SOME, (kind,)).get:
                continue  # no process uses these tables yet: the first one creates them
            for each in missing(patient, kind):
                began_s = time.monotonic()
                patient.script(each.script)
                ran.append((kind, each.name, time.monotonic() - began_s))
        raise _Undone
    return ran


class _Undone(Exception):
    """Raised at the end of a rehearsal of migrations, so that they are rolled back."""


def is_new(database: PostgresDatabase) -> bool:
    """Return whether *database* has none of this service's tables."""
    return not _has_table(database, "migration")


def is_copied_into(database: PostgresDatabase) -> bool:
    """Return whether a copy into *database* was started but not finished."""
    return _has_table(database, "copy_progress")


def missing(database: PostgresDatabase, kind: str) -> list[Migration]:
    """Return the pending migrations of *kind*; the table of migrations must exist.

    Raises UnusableStore if the schema is too old; NewerStore if it is too new for this code.
    """
    known = migrations(kind)
    rows = database.execute("SELECT number, least FROM migration WHERE kind = ?", (kind,))
    seen = {int(number): int(least) for number, least in rows}
    expect_joined(known[0].number, seen, f"the {kind} of the database")
    newest = known[-1].number
    if max(seen.values(), default=0) > newest:
        advice = upgrade_advice(
            kind,
            lambda *asked: database.execute(*asked).get,
            partial(_has_table, database),
            migrations("money")[-1].number,
        )
        raise NewerStore(
            f"expected the {kind} of the database at migration {newest} or older; it is at"
            f" {max(seen)}, and code before {max(seen.values())} cannot use it: {advice}"
        )
    return [each for each in known if each.number not in seen]


def _has_table(database: PostgresDatabase, name: str) -> bool:
    return database.execute("SELECT to_regclass(?) IS NOT NULL", (name,)).get is True
