"""Copies an installation from one place to another, and copies its files for a backup.

A place of an installation is `sqlite:FOLDER` or `postgresql://...`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import cached_property
from hashlib import sha256
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias
from urllib.parse import parse_qs, urlsplit

import apsw
import msgspec

from mintscope.app.engine import extra
from mintscope.app.stores.folder import (
    MARKET_FILE,
    MONEY_FILE,
    PEPPER_FILE,
    ROOTS_FILE,
    WEBHOOKS_FILE,
    unused,
    write_secret,
)
from mintscope.kit.errors import NeedsUpgrade, StoreUnavailable, UnusableStore
from mintscope.kit.files import access_trouble, give_to_owner, make_folder
from mintscope.kit.sql.database import DatabaseError, Row
from mintscope.kit.sql.sqlite import open_store, transaction, waits_for

if TYPE_CHECKING:
    from mintscope.app.stores.postgres_side import PostgresSide

# Tables that belong to a database, not to the installation, so they are not copied.
NOT_COPIED: Final = {
    *("migration", "sqlite_sequence", "copy_progress"),
    *("credit_batch", "credit_writer", "ingest_epoch", "limit_window"),
    *("replica_settings", "token_price", "backup_taken", "list_snapshot", "list_snapshot_piece"),
}
# Tables to which migrations add rows, so they are not empty in a new store.
MADE_BY_MIGRATIONS: Final = {
    "progress",
    "credit_day_mark",
    "credit_received_mark",
    "usage_day_mark",
}


class Relation(NamedTuple):
    """A table that SQLite and PostgreSQL both have.

    columns   the type of each column in PostgreSQL, by name
    key       the names of the columns of the key
    """

    name: str
    columns: Mapping[str, str]
    key: Sequence[str]


class CannotCopy(UnusableStore):
    """The copy is not possible; the message gives the expected and the actual state."""


def keyed(table: Relation, row: Row) -> list[object]:
    """Return the values of *row* in the key columns of *table*."""
    places = list(table.columns)
    return [row[places.index(name)] for name in table.key]


def quoted(names: Sequence[str], more: str = "") -> str:
    """Return *names* as a list for SQL: each in quotation marks, followed by *more*."""
    return ", ".join(f'"{name}"{more}' for name in names)


def reading(table: Relation, *, after: bool, order: Sequence[str]) -> str:
    """Return the statement that reads a part of *table*; its last parameter is the number of rows.

    after   whether the part begins after a key; the key's values are then the first parameters
    order   an expression for each column of the key, by which the rows are ordered and compared
    """
    marks = ", ".join("?" * len(order))
    compared = ", ".join(order)
    behind = f"WHERE ({compared}) > ({marks})" if after else ""
    return (
        f'SELECT {quoted(list(table.columns))} FROM "{table.name}" {behind}'  # noqa: S608 - ours
        f" ORDER BY {compared} LIMIT ?"
    )


FILES: Final = {"money": MONEY_FILE, "market": MARKET_FILE, "webhooks": WEBHOOKS_FILE}
TYPES: Final = {"INTEGER": "bigint", "REAL": "double precision", "BLOB": "bytea", "TEXT": "text"}
NAMES: Final = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
TRIGGERS: Final = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' ORDER BY name"
BEGUN: Final = "SELECT source FROM copy_progress LIMIT 1"
MARK: Final = "CREATE TABLE copy_progress (source TEXT NOT NULL, guard TEXT NOT NULL) STRICT"


class SqliteSide:
    """The SQLite files of a copy, as its source or its target, in *folder*.

    `PostgresSide` has the same methods.  Opening creates missing files, and migrates all of them.
    If *is_new*, this is the target.  Otherwise it is the source: MONEY_FILE must have tables, and
    every read sees the rows that were committed before the opening.  Opening and each method may
    raise UnusableStore, apsw.Error.
    """

    def __init__(self, folder: Path, *, is_new: bool = False) -> None:
        if not is_new:
            expect_money(folder)
        make_folder(folder)
        self._files = [
            open_store(folder / name, kind, is_copied_into=is_new) for kind, name in FILES.items()
        ]
        if not is_new:
            for db in self._files:  # each read sees only the rows committed before this point
                db.execute("BEGIN")
                db.execute("SELECT 1 FROM migration").get  # noqa: B018 - it fixes what is seen

    def tables(self) -> Mapping[str, Relation]:
        """Return the tables that are copied, by name."""
        return {name: table for name, (_, table) in self._tables.items()}

    def rows(self, table: Relation, after: Sequence[object] | None, rows_max: int) -> Sequence[Row]:
        """Return up to *rows_max* rows of *table*, ordered by its key.

        after   the key after which the rows begin; None: at the first row
        """
        order = [f'"{name}"' for name in table.key]
        statement = reading(table, after=after is not None, order=order)
        return self._file(table).execute(statement, [*(after or ()), rows_max]).fetchall()

    def sequences(self) -> Mapping[str, int]:
        """Return the largest number assigned so far, for each table that numbers its rows."""
        found: dict[str, int] = {}
        for db in self._files:
            if db.table_exists(None, "sqlite_sequence"):
                rows = db.execute("SELECT name, seq FROM sqlite_sequence")
                found.update({str(name): int(str(seq)) for name, seq in rows})
        return found

    def begin(self, source: str) -> None:
        """Drop triggers, store statements that restore them, and delete rows added by migrations.

        If a copy from *source* was interrupted, files with a mark are left as they are.  Raises
        CannotCopy if the target has other rows, or if a copy of another source has begun.
        """
        marked = [db for db in self._files if db.table_exists(None, "copy_progress")]
        for db in marked:
            expect_same(db.execute(BEGUN).get, source)
        # Beside a marked file, one without a mark is empty, or its copy was complete.
        for db in () if marked else self._files:
            _expect_empty(db)
        for db in [each for each in self._files if each not in marked]:
            with transaction(db):
                db.execute(MARK)
                # This row names the source even if there is no trigger.
                db.execute("INSERT INTO copy_progress VALUES (?, '')", (source,))
                for name, sql in db.execute(TRIGGERS).fetchall():
                    db.execute("INSERT INTO copy_progress VALUES (?, ?)", (source, sql))
                    db.execute(f'DROP TRIGGER "{name}"')
                for name in MADE_BY_MIGRATIONS:
                    if db.table_exists(None, name):
                        db.execute(f'DELETE FROM "{name}"')  # noqa: S608 - ours

    def add(self, table: Relation, rows: Sequence[Row]) -> None:
        """Add all *rows* to *table*, or none if one of them fails."""
        db = self._file(table)
        marks = ", ".join("?" * len(table.columns))
        columns = quoted(list(table.columns))
        # A row may be copied before the row to which it refers.  Within a transaction, SQLite would
        # ignore the pragma.
        with _without_foreign_keys(db), transaction(db):
            db.executemany(
                f'INSERT INTO "{table.name}" ({columns}) VALUES ({marks})',  # noqa: S608 - ours
                rows,
            )

    def end(self, sequences: Mapping[str, int]) -> None:
        """End the copy: check all foreign keys, restore the triggers, and continue the row numbers.

        sequences   the last row number of each table, after which its new rows are numbered
        Raises      CannotCopy if a foreign key refers to no row
        """
        for db in self._files:  # first in all files, as a failure leaves the marks
            if broken := db.execute("PRAGMA foreign_key_check").fetchone():
                raise CannotCopy(f"expected every reference to be met; this one is not: {broken}")
        for db in self._files:
            guards = db.execute("SELECT guard FROM copy_progress WHERE guard <> ''").fetchall()
            with transaction(db):
                for (sql,) in guards:
                    db.execute(str(sql))
                for name, last in sequences.items():
                    _number_on(db, name, last)
                db.execute("DROP TABLE copy_progress")

    def close(self) -> None:
        """Close the files."""
        for db in self._files:
            db.close()

    @cached_property
    def _tables(self) -> dict[str, tuple[apsw.Connection, Relation]]:
        return {
            str(name): (db, _table(db, str(name)))
            for db in self._files
            for (name,) in db.execute(NAMES).fetchall()
            if name not in NOT_COPIED
        }

    def _file(self, table: Relation) -> apsw.Connection:
        return self._tables[table.name][0]


def _table(db: apsw.Connection, name: str) -> Relation:
    columns = db.execute(f'PRAGMA table_info("{name}")').fetchall()
    key = sorted((int(place), column) for _, column, _, _, _, place in columns if place)
    types = {str(column): TYPES[str(kind)] for _, column, kind, _, _, _ in columns}
    return Relation(name, types, [str(column) for _, column in key])


def expect_same(begun: object, source: str) -> None:
    """Raise CannotCopy if the unfinished copy in the target is of another source.

    begun    the name of the source of the unfinished copy
    source   the name of the source to copy now
    """
    if begun != source:
        raise CannotCopy(f"expected to continue the copy of {begun}; was asked to copy {source}")


def _expect_empty(db: apsw.Connection) -> None:
    for (name,) in db.execute(NAMES).fetchall():
        if name in NOT_COPIED or name in MADE_BY_MIGRATIONS:
            continue
        if db.execute(f'SELECT EXISTS (SELECT 1 FROM "{name}")').get:  # noqa: S608 - ours
            raise CannotCopy(f"expected an empty target; there are rows in {name}")


def _number_on(db: apsw.Connection, name: str, last: int) -> None:
    """Make new rows of the table *name* get numbers above *last*, even if it is empty."""
    if not db.table_exists(None, "sqlite_sequence"):
        return
    db.execute("UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = ?", (last, name))
    if last and not db.changes() and db.table_exists(None, name):  # the table has had no row here
        db.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (name, last))


@contextmanager
def _without_foreign_keys(db: apsw.Connection) -> Iterator[None]:
    db.execute("PRAGMA foreign_keys = OFF")
    try:
        yield
    finally:
        db.execute("PRAGMA foreign_keys = ON")


ROWS_MAX: Final = 2_000

Side: TypeAlias = "SqliteSide | PostgresSide"
Progress = Callable[[str, int], None]
_encode: Final = msgspec.msgpack.Encoder().encode


class Sum(NamedTuple):
    """The values by which two copies of a table are compared.

    rows    the number of rows
    total   the sum of all integers in the table
    hash    the hash of all rows, in key order
    """

    rows: int
    total: int
    hash: str


def copy(source: Side, target: Side, name: str, progress: Progress) -> dict[str, Sum]:
    """Copy every row of *source*, and compare the copy; return the checksums of tables by name.

    An interrupted copy resumes after the last copied row.

    name       the name of the source; a copy resumes only if it has the same name
    progress   called with a text such as "copied payment", and the number of rows since the last
               call
    Raises     CannotCopy, and the errors of the two sides
    """
    tables = source.tables()
    if tables.keys() != target.tables().keys():
        differ = sorted(tables.keys() ^ target.tables().keys())
        raise CannotCopy(f"expected the same tables on both sides; these differ: {differ}")
    target.begin(name)
    read = {table.name: _copy_table(source, target, table, progress) for table in tables.values()}
    sums = {
        table.name: _compared(read[table.name], source, target, table, progress)
        for table in tables.values()
    }
    target.end(source.sequences())
    return sums


def _copy_table(source: Side, target: Side, table: Relation, progress: Progress) -> Sum | None:
    """Copy the rows of *table* that *target* lacks, which are those after its last key.

    Return the checksum of the table; None if *target* had rows.
    """
    last = _last(target, table)
    adding = _Adding()
    for rows in _parts(source, table, after=last):
        target.add(table, rows)
        adding.add(rows)
        progress(f"copied {table.name}", len(rows))
    return adding.sum if last is None else None


def _last(target: Side, table: Relation) -> list[object] | None:
    last = None
    for rows in _parts(target, table):
        last = keyed(table, rows[-1])
    return last


def _compared(
    read: Sum | None, source: Side, target: Side, table: Relation, progress: Progress
) -> Sum:
    """Compare the copy of *table* in *target* with *read*; return the checksum.

    read   the checksum of the rows that were copied; None: it is computed from *source*
    """
    # A Sum is a tuple, so it is true even if all its numbers are 0.
    expected = read or _sum(source, table, progress)
    found = _sum(target, table, progress)
    if found != expected:
        raise CannotCopy(
            f"expected {expected.rows} rows of {table.name}, integers that add up to"
            f" {expected.total} and hash {expected.hash[:16]}; there are {found.rows},"
            f" {found.total} and {found.hash[:16]}: was one of them written meanwhile? Begin again"
            " with an empty target"
        )
    return found


def _sum(side: Side, table: Relation, progress: Progress) -> Sum:
    adding = _Adding()
    for rows in _parts(side, table):
        adding.add(rows)
        progress(f"compared {table.name}", len(rows))
    return adding.sum


class _Adding:
    """Computes a checksum of a table, to compare it with its copy; rows are added in key order."""

    def __init__(self) -> None:
        self._rows = 0
        self._total = 0
        self._digest = sha256()

    def add(self, rows: Sequence[Row]) -> None:
        self._rows += len(rows)
        self._total += sum(each for each in chain.from_iterable(rows) if isinstance(each, int))
        self._digest.update(b"".join(map(_encode, rows)))

    @property
    def sum(self) -> Sum:
        return Sum(self._rows, self._total, self._digest.hexdigest())


def _parts(side: Side, table: Relation, after: list[object] | None = None) -> Iterator[list[Row]]:
    while rows := list(side.rows(table, after, ROWS_MAX)):
        yield rows
        after = keyed(table, rows[-1])


# The market is first, so that the copies of the other files are newer.  Webhooks come before money,
# so a webhook that is sent during the copy is sent again after a restore, and none is lost.
COPIED_IN_ORDER: Final = (MARKET_FILE, WEBHOOKS_FILE, MONEY_FILE)
SECRETS: Final = (PEPPER_FILE, ROOTS_FILE)
PAGES: Final = 512
BUSY_MS: Final = 10_000


def copy_files(
    source: Path,
    target: Path,
    progress: Callable[[str, int], None],
    *,
    has_secrets: bool = True,
) -> None:
    """Copy the files of *source*, which may be in use, into *target*, which must have none of them.

    progress      called with the file and the number of pages copied since the last call, rounded
                  up to a multiple of PAGES
    has_secrets   whether to copy pepper and roots too
    Raises        CannotCopy if *target* has one of the files, or *source* no usable MONEY_FILE;
                  StoreUnavailable if the disk is full; UnusableStore if a file cannot be copied, or
                  a copy is damaged.  After an error, *target* has none of the files.
    """
    for name in (*COPIED_IN_ORDER, *SECRETS):
        if (target / name).exists():
            raise CannotCopy(f"expected no {name} in {target}; there is one")
    expect_money(source)
    make_folder(target)
    try:
        for name in COPIED_IN_ORDER:
            if (source / name).exists():
                copy_file(source / name, target / name, progress)
        if has_secrets:
            copy_secrets(source, target)
    except BaseException:  # also Ctrl-C: the next attempt would be refused because of these files
        for name, ending in product((*COPIED_IN_ORDER, *SECRETS), ("", "-journal", "-wal", "-shm")):
            (target / f"{name}{ending}").unlink(missing_ok=True)
        raise


def expect_money(folder: Path) -> None:
    """Raise UnusableStore if *folder* has no MONEY_FILE, or one that is empty or unreadable."""
    path = folder / MONEY_FILE
    if not path.exists():
        raise CannotCopy(f"expected {MONEY_FILE} in {folder}; it is not there")
    try:
        with closing(apsw.Connection(str(path))) as db:
            db.set_busy_timeout(BUSY_MS)
            if not db.execute("SELECT count(*) FROM sqlite_schema").get:
                raise CannotCopy(f"expected a complete copy in {folder}; its {MONEY_FILE} is empty")
    except apsw.Error as cause:
        raise UnusableStore(f"expected to copy {path}: {access_trouble(path) or cause}") from cause


def copy_secrets(source: Path, target: Path, names: Sequence[str] = SECRETS) -> None:
    """Copy those of the files *names* that *source* has into *target*; replace existing files."""
    make_folder(target)
    for name in names:
        if (source / name).exists():
            write_secret(target / name, (source / name).read_bytes()).replace(target / name)


def expect_no_other_pepper(source: Path, target: Path) -> None:
    """Raise CannotCopy if both folders have a pepper, and the peppers differ."""
    kept = target / PEPPER_FILE
    own = source / PEPPER_FILE
    if kept.exists() and own.exists() and kept.read_bytes().split() != own.read_bytes().split():
        raise CannotCopy(
            f"expected the pepper of {source} in {target}; there is another one, without which"
            " credentials of earlier backups are void. If data was lost, restore a backup; if the"
            f" pepper was changed on purpose, move {kept} to another name, and keep it as long as"
            " those backups"
        )


def expect_whole(path: Path) -> None:
    """Raise UnusableStore if the database file *path* is damaged or cannot be opened."""
    try:
        with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as db:
            found = db.execute("PRAGMA integrity_check(1)").get
            broken = db.execute("PRAGMA foreign_key_check").fetchone()
    except apsw.Error as cause:
        raise UnusableStore(f"expected a whole database at {path}: {cause}") from cause
    if found != "ok" or broken:
        raise UnusableStore(f"expected a whole database at {path}: {broken or found}")


def copy_file(source: Path, target: Path, progress: Callable[[str, int], None]) -> None:
    """Copy a database file, which may be in use, to *target*, and check the copy.

    A file at *target* is overwritten; `copy_files` describes *progress*.
    Raises StoreUnavailable if the disk is full, UnusableStore if a file cannot be opened, or if the
    copy fails or is damaged.
    """
    # Otherwise SQLite would create the file, with the permissions that the umask allows.
    target.touch(mode=0o600)
    give_to_owner(target)
    try:
        with (
            closing(apsw.Connection(str(source))) as read,
            closing(apsw.Connection(str(target))) as written,
        ):
            read.set_busy_timeout(BUSY_MS)
            # In one transaction, because otherwise each commit would restart the copy.
            read.execute("BEGIN")
            read.execute("SELECT count(*) FROM sqlite_schema").fetchall()
            with written.backup("main", read, "main") as backup:
                while not backup.done:
                    backup.step(PAGES)
                    progress(target.name, PAGES)
    except apsw.FullError as cause:  # its own message is "not an error"
        raise StoreUnavailable(f"expected to copy {source}: no room in {target.parent}") from cause
    except apsw.Error as cause:
        why = access_trouble(source) or cause
        raise UnusableStore(f"expected to copy {source}: {why}") from cause
    expect_whole(target)


SQLITE: Final = "sqlite:"
PLACES: Final = (SQLITE, "postgresql://", "postgres://")


def named(place: str) -> str:
    """Return *place* without user, password and parameters, and with the port.

    A place of SQLite is returned unchanged.
    """
    if place.startswith(SQLITE):
        return place
    parts = urlsplit(place)
    host = parts.netloc.rpartition("@")[2]
    # A copy resumes only under the same name, whether or not the place names the default port.
    port = "" if parts.port or not host else ":5432"
    return f"{parts.scheme}://{host}{port}{parts.path}"


def has_password(place: str) -> bool:
    """Return whether *place* contains a password, after the name of the user or as a parameter."""
    if place.startswith(SQLITE):
        return False
    parts = urlsplit(place)
    return parts.password is not None or "password" in parse_qs(parts.query)


def copy_installation(source: str, target: str, progress: Progress) -> dict[str, Sum]:
    """Copy all data of the place *source* to the place *target*; neither may be in use.

    Return the checksum of each table; `copy` describes *progress*.  Raises CannotCopy, FolderInUse,
    UnusableStore, and NeedsUpgrade if migrations of *source* are pending.
    """
    for place in (source, target):
        if not place.startswith(PLACES):
            scheme, has_scheme, _ = place.partition("://")
            # Anything else in the place may be a password.
            was = f"{scheme}://..." if has_scheme and scheme.isalnum() else "another form"
            raise CannotCopy(f"expected sqlite:FOLDER or postgresql://...; was {was}")
    with expecting_no_service(source), expecting_no_service(target):
        if source.startswith(SQLITE):
            folder = _folder(source)
            waiting = [waits_for(folder / name, kind) for kind, name in FILES.items()]
            expect_none_waits([*chain.from_iterable(waiting)])
        return copy_running(source, target, progress)


def expect_none_waits(waiting: Sequence[str]) -> None:
    """Raise NeedsUpgrade if the source of a copy has pending migrations, *waiting*."""
    if waiting:
        raise NeedsUpgrade(
            f"expected a source of this version; {len(waiting)} migrations wait: run mintscope"
            " upgrade first, or copy with the version that it has"
        )


def copy_running(source: str, target: str, progress: Progress) -> dict[str, Sum]:
    """Copy all data of the place *source*, which may be in use, to the place *target*.

    Files of *source* are migrated first; a database of *source* must have no pending migrations.
    Return the checksum of each table; `copy` describes *progress*.  Raises CannotCopy,
    UnusableStore.
    """
    with ExitStack() as stack:
        read = stack.enter_context(_opened(source, is_new=False))
        written = stack.enter_context(_opened(target, is_new=True))
        return copy(read, written, named(source), progress)


@contextmanager
def expecting_no_service(place: str) -> Iterator[None]:
    """Prevent ingest and api from using *place* during the block.

    Raises    FolderInUse or CannotCopy if one of them already runs; UnusableStore if the place
              cannot be locked
    """
    with ExitStack() as stack:
        if place.startswith(SQLITE):
            stack.enter_context(unused(_folder(place)))
        else:
            with extra("postgres", "psycopg", "store"):
                from mintscope.app.stores.postgres_side import expecting_no_process  # noqa: PLC0415 - extra
            stack.enter_context(expecting_no_process(place))
        yield


@contextmanager
def _opened(place: str, *, is_new: bool) -> Iterator[Side]:
    try:
        with closing(_side(place, is_new=is_new)) as side:
            yield side
    except (DatabaseError, apsw.Error) as cause:
        raise UnusableStore(f"{named(place)}: {cause}") from cause


def _side(place: str, *, is_new: bool) -> Side:
    if place.startswith(SQLITE):
        return SqliteSide(_folder(place), is_new=is_new)
    with extra("postgres", "psycopg", "store"):
        from mintscope.app.stores.postgres_side import PostgresSide  # noqa: PLC0415 - extra
    return PostgresSide(place, is_new=is_new)


def _folder(place: str) -> Path:
    # The form of a URL, `sqlite:///FOLDER`, is accepted, too.
    return Path(place.removeprefix(SQLITE).removeprefix("//")).expanduser()
