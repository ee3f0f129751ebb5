"""SQLite connections and databases."""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Final, Self, TypeVar

import apsw
import structlog

from mintscope.kit.errors import NeedsUpgrade, NewerStore, StoreUnavailable, UnusableStore
from mintscope.kit.files import access_trouble, give_to_owner
from mintscope.kit.metrics import FREE_BYTES, MIGRATIONS_LEFT, WAL_BYTES
from mintscope.kit.sql.database import (
    Batch,
    Database,
    DatabaseAway,
    DatabaseError,
    Rows,
    Values,
    inserting,
)
from mintscope.kit.sql.identity import expect_joined, upgrade_advice
from mintscope.kit.time import SECOND_MS

T = TypeVar("T")

DIGITS: Final = 1
# A line that adds a column without a constraint or a default.
PLAIN_COLUMN: Final = re.compile(
    r"^ALTER TABLE (?P<table>\w+) ADD COLUMN \w+ +(?:INTEGER|REAL|TEXT|BLOB);", re.MULTILINE
)

log = structlog.get_logger()


@contextmanager
def telling(kind: str, name: str, *, left: int) -> Iterator[None]:
    """Log the start of migration *name* of store *kind*, run the block, and log its duration.

    left   the number of pending migrations, including this one
    """
    MIGRATIONS_LEFT.set(left)
    log.info("migrating", store=kind, migration=name, left=left)
    begun_s = time.monotonic()
    yield
    took_s = round(time.monotonic() - begun_s, DIGITS)
    MIGRATIONS_LEFT.set(left - 1)
    log.info("migrated", store=kind, migration=name, took_s=took_s)


# Older versions can corrupt a write-ahead log that two connections copy (checkpoint) at the same
# time.
SQLITE_VERSION_MIN: Final = (3, 51, 3)
BUSY_TIMEOUT_MS: Final = 10_000
LOOK_AGAIN_S: Final = 0.01
WAL_BYTES_MAX: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Sizes:
    """The settings of an SQLite file: sizes of pages, cache and write-ahead log, and disk use."""

    page_bytes: int = 4_096
    cache_bytes: int = 2 * 1024 * 1024
    waits_for_disk: bool = True  # whether a commit waits for the disk
    shrinks: bool = False  # whether unused pages can be returned to the disk
    log_pages: int = 1_000  # pages of the write-ahead log at which a commit copies them to the file


USUAL_SIZES: Final = Sizes()
# A debit writes the whole page of the account to the log, so pages of money are small.
SIZES: Final = {
    "money": Sizes(page_bytes=1_024, cache_bytes=16 * 1024 * 1024),
    # A webhook is sent again if a power failure loses a commit, so commits need not wait for
    # the disk.
    "webhooks": Sizes(waits_for_disk=False, shrinks=True),
    # A thread of ingest copies the write-ahead log: see `market.store.sqlite.copy_log`.
    "market": Sizes(shrinks=True, log_pages=14_000),
}


def engine_version() -> str:
    """Return the version of SQLite.  Raises UnusableStore if it is too old."""
    version: str = apsw.sqlite_lib_version()
    if tuple(int(part) for part in version.split(".")) < SQLITE_VERSION_MIN:
        oldest = ".".join(map(str, SQLITE_VERSION_MIN))
        raise UnusableStore(
            f"expected SQLite {oldest} or newer, because older ones can corrupt"
            f" a write-ahead log; was {version}"
        )
    return version


def open_store(
    path: Path,
    kind: str,
    *,
    read_only: bool = False,
    migrates: bool = True,
    is_copied_into: bool = False,
) -> apsw.Connection:
    """Return a connection to *path*, whose schema has all migrations of *kind*.

    kind             the name of the folder with its migrations
    read_only        whether to change nothing; the file must exist
    migrates         whether to run pending migrations; if False, the schema may lack migrations
    is_copied_into   whether the file may contain an unfinished copy
    Raises           UnusableStore if SQLite is too old, or if the file cannot be opened, is not a
                     store of this kind, contains an unfinished copy, or has a schema that is too
                     old or of a newer mintscope; StoreUnavailable if this user has no access;
                     NeedsUpgrade if migrations are pending and *read_only* is True; apsw.Error
    """
    engine_version()
    if not read_only:
        with suppress(OSError):  # SQLite reports errors; its log and index get the same mode
            path.touch(mode=0o600, exist_ok=False)
            give_to_owner(path)
    flags = apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE
    try:
        db = apsw.Connection(
            str(path), flags=flags if read_only else flags | apsw.SQLITE_OPEN_CREATE
        )
    except apsw.CantOpenError as cause:
        why = access_trouble(path)
        if why is not None:  # an operator can give access while the service waits
            raise StoreUnavailable(f"the {kind} file at {path} does not answer: {why}") from cause
        raise UnusableStore(f"expected a database file at {path}; cannot open it") from cause
    try:
        sizes = SIZES.get(kind, USUAL_SIZES)
        _once_unlocked(partial(_configure, db, read_only=read_only, sizes=sizes))
        if migrates and not read_only:
            _migrate(db, kind, path)
        _expect_usable(db, kind, path, migrates=migrates, is_copied_into=is_copied_into)
    except apsw.NotADBError as cause:
        db.close()
        raise UnusableStore(f"expected an SQLite database at {path}; it is not one") from cause
    except BaseException:
        db.close()
        raise
    return db


def _once_unlocked(work: Callable[[], T]) -> T:
    """Return the result of *work*; repeat it while the file is locked.

    While another process creates the file, SQLite refuses some statements at once, without the busy
    timeout.  Raises apsw.BusyError if it stays locked.
    """
    end_s = time.monotonic() + BUSY_TIMEOUT_MS / SECOND_MS
    while True:
        try:
            return work()
        except apsw.BusyError:
            if time.monotonic() >= end_s:
                raise
        time.sleep(LOOK_AGAIN_S)


@contextmanager
def transaction(db: apsw.Connection) -> Iterator[apsw.Connection]:
    """Run the block in a transaction with the write lock; commit unless the block raises."""
    # Takes the write lock now: a transaction that has read first could fail when it writes.
    db.execute("BEGIN IMMEDIATE")
    try:
        yield db
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # if the disk is full, SQLite has already rolled back
            db.execute("ROLLBACK")
        raise


@contextmanager
def snapshot(db: apsw.Connection) -> Iterator[apsw.Connection]:
    """Make all reads of *db* in the block see the data as of one commit."""
    db.execute("BEGIN")
    try:
        yield db
    finally:
        db.execute("ROLLBACK")


def _configure(db: apsw.Connection, *, read_only: bool, sizes: Sizes) -> None:
    db.set_busy_timeout(BUSY_TIMEOUT_MS)
    # By default, SQLite reads a misspelled name in double quotes as text.
    db.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
    db.config(apsw.SQLITE_DBCONFIG_DQS_DDL, 0)
    db.execute("PRAGMA foreign_keys = ON")
    db.execute("PRAGMA temp_store = MEMORY")
    if not read_only:
        db.execute(f"PRAGMA page_size = {sizes.page_bytes}")  # effective only for a new file
        # Effective only before the first table is created.
        if sizes.shrinks and not db.execute("PRAGMA page_count").get:
            db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        db.execute(f"PRAGMA cache_size = {-sizes.cache_bytes // 1024}")
        db.execute("PRAGMA journal_mode = WAL")
        # Without it, a power failure may lose the last commits.
        db.execute("PRAGMA synchronous = FULL")
        if not sizes.waits_for_disk:
            db.execute("PRAGMA synchronous = NORMAL")
        db.execute(f"PRAGMA journal_size_limit = {WAL_BYTES_MAX}")
        db.execute(f"PRAGMA wal_autocheckpoint = {sizes.log_pages}")


@cache
def migrations(kind: str) -> list[tuple[int, str, str]]:
    """Return (number, name, script) of every migration of *kind*, in order."""
    return scripts("sqlite", kind)


def scripts(engine: str, kind: str) -> list[tuple[int, str, str]]:
    """Return number, name and script of each `NNNN_name.sql` of *engine* and *kind*, in order."""
    folder = files("mintscope.kit.sql").joinpath("migrations", engine, kind)
    found = sorted(
        (entry for entry in folder.iterdir() if entry.name.endswith(".sql")),
        key=lambda entry: entry.name,
    )
    return [(int(entry.name[:4]), entry.name, entry.read_text()) for entry in found]


def _migrate(db: apsw.Connection, kind: str, path: Path) -> None:
    """Run the pending migrations of *db*, each in its own transaction.

    If *db* is new, all migrations run in one transaction.
    """
    if not _missing(db, kind, path):
        return
    if not _has_table(db, "migration"):
        with transaction(db):
            db.execute(
                "CREATE TABLE IF NOT EXISTS migration"
                " (number INTEGER PRIMARY KEY, name TEXT NOT NULL, kind TEXT NOT NULL) STRICT"
            )
            for each in _missing(db, kind, path):  # another process may have run some
                _run(db, kind, each)
    while open_ := _missing(db, kind, path):
        with telling(kind, open_[0][1], left=len(open_)), transaction(db):
            if open_[0] in _missing(db, kind, path):
                _run(db, kind, open_[0])


def _run(db: apsw.Connection, kind: str, migration: tuple[int, str, str]) -> None:
    number, name, script = migration
    ran = 0
    for found in PLAIN_COLUMN.finditer(script):
        db.execute(script[ran : found.start()])
        any_row = db.execute(f"SELECT 1 FROM {found['table']} LIMIT 1")  # noqa: S608 - of a script
        if any_row.get is None:
            db.execute(found[0])
        else:
            _add_column(db, found["table"], found[0])
        ran = found.end()
    db.execute(script[ran:])
    db.execute("INSERT INTO migration VALUES (?, ?, ?)", (number, name, kind))


def _add_column(db: apsw.Connection, table: str, statement: str) -> None:
    """Run *statement*, which adds a column without a constraint to *table*, in constant time."""
    # SQLite itself would check all rows of a strict table, although the new column is NULL in each.
    # Therefore *statement* runs on an empty copy, whose schema replaces that of *table*: see the
    # last section of https://sqlite.org/lang_altertable.html.
    schema = db.execute("SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?", (table,))
    with closing(apsw.Connection(":memory:")) as empty:
        empty.execute(schema.get)
        empty.execute(statement)
        changed = empty.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (table,)).get
    version = int(db.execute("PRAGMA schema_version").get)
    db.execute("PRAGMA writable_schema = ON")
    try:
        db.execute(
            "UPDATE sqlite_schema SET sql = ? WHERE type = 'table' AND name = ?", (changed, table)
        )
        db.execute(f"PRAGMA schema_version = {version + 1}")
    finally:
        db.execute("PRAGMA writable_schema = RESET")


def migrate_file(path: Path, kind: str, *, is_done: bool) -> list[str]:
    """Return the names of the migrations that the file at *path* lacks; if *is_done*, run them.

    Raises UnusableStore, StoreUnavailable, and apsw.Error if SQLite cannot run them.
    """
    if not path.exists():
        lacking = migrations(kind)
    else:
        with _answering(path, kind), closing(_reading(path)) as db:
            lacking = _missing(db, kind, path)
    if is_done:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        open_store(path, kind).close()
    return [name for _, name, _ in lacking]


def _reading(path: Path) -> apsw.Connection:
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    db.set_busy_timeout(BUSY_TIMEOUT_MS)
    return db


def run_each(path: Path, kind: str) -> Iterator[tuple[str, float]]:
    """Run the pending migrations of *path*, a copy of a store; yield name and seconds of each."""
    with closing(apsw.Connection(str(path))) as db:
        _configure(db, read_only=False, sizes=SIZES.get(kind, USUAL_SIZES))
        while open_ := _missing(db, kind, path):
            began_s = time.monotonic()
            with transaction(db):
                _run(db, kind, open_[0])
            yield open_[0][1], time.monotonic() - began_s


def waits_for(path: Path, kind: str) -> list[str]:
    """Return the pending migrations of the file at *path*; none if it does not exist or is new.

    Raises UnusableStore, StoreUnavailable.
    """
    if access_trouble(path) is None and not path.exists():
        return []
    with _answering(path, kind), closing(_reading(path)) as db:
        return _once_unlocked(partial(_waiting, db, kind, path))


@contextmanager
def _answering(path: Path, kind: str) -> Iterator[None]:
    """Turn an SQLite error into StoreUnavailable, or UnusableStore if *path* is no SQLite file."""
    try:
        yield
    except apsw.NotADBError as cause:
        raise UnusableStore(f"expected an SQLite database at {path}; it is not one") from cause
    except apsw.Error as cause:
        why = access_trouble(path) or cause
        raise StoreUnavailable(f"the {kind} file at {path} does not answer: {why}") from cause


def _has_table(db: apsw.Connection, name: str) -> bool:
    # apsw's own function would block all threads while it waits for a lock.
    found = db.execute("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?", (name,))
    return found.get is not None


def _waiting(db: apsw.Connection, kind: str, path: Path) -> list[str]:
    is_new = not _has_table(db, "migration")
    return [] if is_new else [name for _, name, _ in _missing(db, kind, path)]


def _expect_usable(
    db: apsw.Connection, kind: str, path: Path, *, migrates: bool, is_copied_into: bool
) -> None:
    if _missing(db, kind, path) and migrates:
        raise NeedsUpgrade(f"expected {path} to be up to date; its owner has not migrated it yet")
    if not is_copied_into and _has_table(db, "copy_progress"):
        raise UnusableStore(
            f"the copy at {path} is incomplete: run the same `mintscope copy` again"
        )


def _missing(db: apsw.Connection, kind: str, path: Path) -> list[tuple[int, str, str]]:
    """Return the pending migrations of *kind* in *db*.  Raises UnusableStore, NewerStore."""
    known = migrations(kind)
    if not _has_table(db, "migration"):
        return known
    rows = db.execute("SELECT number, kind FROM migration").fetchall()
    seen = {int(str(number)): str(other) for number, other in rows}
    for other in set(seen.values()) - {kind}:
        raise UnusableStore(f"expected a {kind} database at {path}; it is a {other} database")
    first = known[0][0]
    expect_joined(first, seen, str(path))
    unknown = {number for number in seen if number > first} - {number for number, _, _ in known}
    if unknown:
        newest = known[-1][0]
        advice = upgrade_advice(
            kind, lambda *asked: db.execute(*asked).get, partial(_has_table, db), newest
        )
        raise NewerStore(
            f"expected {path} at migration {newest} or older; it is at {max(unknown)}: {advice}"
        )
    return [migration for migration in known if migration[0] not in seen]


# Errors that concern the whole file, not one statement.
OF_THE_FILE: Final = (
    apsw.BusyError,
    apsw.CantOpenError,
    apsw.CorruptError,
    apsw.FullError,
    apsw.IOError,
    apsw.InterruptError,
    apsw.NoMemError,
    apsw.NotADBError,
    apsw.ReadOnlyError,
)


class SqliteDatabase:
    """A connection to an SQLite file, with the methods that all databases have.

    connection   the connection of apsw, for features that only SQLite has
    """

    def __init__(  # noqa: PLR0913 - one argument for each part
        self,
        path: Path,
        kind: str,
        *,
        busy_timeout_ms: int = BUSY_TIMEOUT_MS,  # to wait for other connections
        may_write: bool = True,  # whether statements may change the file
        read_only: bool = False,  # the file must exist without pending migrations
        migrates: bool = True,  # whether to run pending migrations; if False, some may be pending
    ) -> None:
        with translated():
            self.connection = self._db = open_store(
                path, kind, read_only=read_only, migrates=migrates
            )
        self._db.set_busy_timeout(busy_timeout_ms)
        self.wal = path.with_name(f"{path.name}-wal")  # the write-ahead log
        if not may_write:
            self._db.execute("PRAGMA query_only = ON")
        elif not read_only:
            WAL_BYTES.labels(kind).set_function(partial(size_of, self.wal))

    @classmethod
    def as_it_is(cls, path: Path) -> Self:
        """Return a connection that reads the file at *path* without migrating it."""
        found = cls.__new__(cls)
        with translated():
            found.connection = _reading(path)
        found._db = found.connection  # noqa: SLF001 - of this class
        return found

    def execute(self, statement: str, values: Values = (), /) -> Rows:
        """Run *statement*, and return its rows."""
        with translated():
            return Rows(self._db.execute(statement, values).fetchall())

    def executemany(self, statement: str | Batch, many: Iterable[Sequence[object]], /) -> None:
        """Run *statement* once for each item of *many*; for a Batch, insert the rows *many*."""
        text = inserting(statement) if isinstance(statement, Batch) else statement
        with translated():
            self._db.executemany(text, many)

    def changes(self) -> int:
        """Return the number of rows that the last statement changed."""
        return int(self._db.changes())

    @contextmanager
    def transaction(self, *, beside: bool = False) -> Iterator[None]:  # noqa: ARG002 - one writes
        """Run the block in a transaction with the write lock; commit unless the block raises."""
        with translated(), transaction(self._db):
            yield

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Undo only the changes of this block, which is part of a transaction, if it raises."""
        with translated():
            self._db.execute("SAVEPOINT part")
            try:
                yield
            except BaseException:
                if self._db.in_transaction:
                    # The first statement undoes the changes, but keeps the savepoint.
                    self._db.execute("ROLLBACK TO part")
                    self._db.execute("RELEASE part")
                raise
            self._db.execute("RELEASE part")

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Make all reads in the block see the data as of one commit."""
        with translated(), snapshot(self._db):
            yield

    def close(self) -> None:
        """Close the connection."""
        self._db.close()


def size_of(file: Path) -> int:
    """Return the size of *file* in bytes; 0 if it does not exist."""
    try:
        return file.stat().st_size
    except OSError:
        return 0


@contextmanager
def translated() -> Iterator[None]:
    """Turn SQLite's errors in the block into the errors that all databases raise."""
    try:
        yield
    except OF_THE_FILE as cause:
        raise DatabaseAway(str(cause)) from cause
    except apsw.Error as cause:
        raise DatabaseError(str(cause)) from cause


# SQLite reuses free pages: pages are returned to the disk only if more than both limits are free.
FREE_PAGES_MAX: Final = 4_096
FREE_SHARE_MAX: Final = 0.1
PAGES_A_STEP: Final = 256  # a megabyte, which takes a few milliseconds


def return_free_pages(db: Database, kind: str) -> None:
    """If many pages of the file of *kind* are free, return up to PAGES_A_STEP to the disk."""
    pages, free = (
        int(db.execute(f"PRAGMA {name}").get) for name in ("page_count", "freelist_count")
    )
    FREE_BYTES.labels(kind).set(free * SIZES[kind].page_bytes)
    if free > max(FREE_PAGES_MAX, pages * FREE_SHARE_MAX):
        db.execute(f"PRAGMA incremental_vacuum({PAGES_A_STEP})")
