"""Copies of an installation between engines."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import apsw
import msgspec

from mintscope.app.stores.folder import MARKET_FILE, MONEY_FILE, WEBHOOKS_FILE
from mintscope.kit.errors import UnusableStore
from mintscope.kit.files import make_folder
from mintscope.kit.sql.database import Row
from mintscope.kit.sql.sqlite import open_store, transaction

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
    """A table that both engines have.

    columns   PostgreSQL's types of the columns, by name
    key       the columns of the primary key
    """

    name: str
    columns: Mapping[str, str]
    key: Sequence[str]


class Side(Protocol):
    """The tables of an installation, for reading."""

    def tables(self) -> Mapping[str, Relation]:
        """Return the tables by name."""

    def rows(self, table: Relation, after: Sequence[object] | None, rows_max: int) -> Sequence[Row]:
        """Return up to *rows_max* rows after the key *after*, or the first rows, in key order."""

    def sequences(self) -> Mapping[str, int]:
        """Return the largest number assigned so far, for each table that numbers its rows."""

    def close(self) -> None:
        """Close files and connections."""


class Target(Side, Protocol):
    """The tables of an installation, for copying rows into them."""

    def begin(self, source: str) -> None:
        """Suspend the constraints of the schema, so that rows of *source* can be added.

        Raises CannotCopy if the tables have rows of another origin.
        """

    def add(self, table: Relation, rows: Sequence[Row]) -> None:
        """Add all *rows* to *table*, or none if one of them fails."""

    def end(self, sequences: Mapping[str, int]) -> None:
        """Restore the constraints of the schema, which checks all rows, and set *sequences*."""


class CannotCopy(UnusableStore):
    """The copy is not possible; the message gives the expected and the actual state."""


def keyed(table: Relation, row: Row) -> list[object]:
    """Return the key of *row*."""
    places = list(table.columns)
    return [row[places.index(name)] for name in table.key]


def quoted(names: Sequence[str], more: str = "") -> str:
    """Return *names*, each in quotation marks and followed by *more*, for a statement."""
    return ", ".join(f'"{name}"{more}' for name in names)


def reading(table: Relation, *, after: bool, order: Sequence[str]) -> str:
    """Return the statement that reads a part of *table*, in key order.

    after   whether the part begins after a key; the key's values are then the first parameters
    order   the expressions that compare the columns of the key
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
MARK: Final = "CREATE TABLE copy_progress (source TEXT NOT NULL, guard TEXT NOT NULL) STRICT"


class SqliteSide:
    """Implements Target for the files in *folder*; if *is_new*, the files are created."""

    def __init__(self, folder: Path, *, is_new: bool = False) -> None:
        if not is_new and not (folder / MONEY_FILE).exists():
            raise UnusableStore(f"expected {MONEY_FILE} in {folder}; it is not there")
        make_folder(folder)
        self._files = [
            open_store(folder / name, kind, is_copied_into=is_new) for kind, name in FILES.items()
        ]
        if not is_new:
            for db in self._files:  # each read sees only the rows committed before this point
                db.execute("BEGIN")
                db.execute("SELECT 1 FROM migration").get  # noqa: B018 - it fixes what is seen

    def tables(self) -> Mapping[str, Relation]:
        """Return the tables by name."""
        return {name: table for name, (_, table) in self._tables.items()}

    def rows(self, table: Relation, after: Sequence[object] | None, rows_max: int) -> Sequence[Row]:
        """Return up to *rows_max* rows after the key *after*, or the first rows, in key order."""
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
        """Drop the triggers, store statements that restore them, and delete the rows of migrations.

        A copy that resumes has already done this.  Raises CannotCopy.
        """
        for db in self._files:
            if db.table_exists(None, "copy_progress"):
                _expect_same(db, source)
                continue
            _expect_empty(db)
            with transaction(db):
                db.execute(MARK)
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
        with _without_foreign_keys(db), transaction(db):
            db.executemany(
                f'INSERT INTO "{table.name}" ({columns}) VALUES ({marks})',  # noqa: S608 - ours
                rows,
            )

    def end(self, sequences: Mapping[str, int]) -> None:
        """Check every reference, restore the triggers, and set the next numbers."""
        for db in self._files:
            if broken := db.execute("PRAGMA foreign_key_check").fetchone():
                raise CannotCopy(f"expected every reference to be met; this one is not: {broken}")
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


def _expect_same(db: apsw.Connection, source: str) -> None:
    begun = db.execute("SELECT source FROM copy_progress LIMIT 1").get
    if begun != source:
        raise CannotCopy(f"expected to continue the copy of {begun}; was asked to copy {source}")


def _expect_empty(db: apsw.Connection) -> None:
    for (name,) in db.execute(NAMES).fetchall():
        if name in NOT_COPIED or name in MADE_BY_MIGRATIONS:
            continue
        if db.execute(f'SELECT EXISTS (SELECT 1 FROM "{name}")').get:  # noqa: S608 - ours
            raise CannotCopy(f"expected an empty target; there are rows in {name}")


def _number_on(db: apsw.Connection, name: str, last: int) -> None:
    """Prevent a number from being assigned twice, even if the last rows were deleted."""
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

Progress = Callable[[str, int], None]
_encode: Final = msgspec.msgpack.Encoder().encode


class Sum(NamedTuple):
    """The values by which two copies of a table are compared.

    total   the sum of all integers in the table
    hash    the hash of all rows, in key order
    """

    rows: int
    total: int
    hash: str


def copy(source: Side, target: Target, name: str, progress: Progress) -> dict[str, Sum]:
    """Copy every row of *source*, and compare the copy; return the sums of each table.

    An interrupted copy resumes after the last copied row.

    name       the name of the source; a copy resumes only if it has the same name
    progress   called with a text such as "copied payment", and the number of rows
    Raises     CannotCopy
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


def _copy_table(source: Side, target: Target, table: Relation, progress: Progress) -> Sum | None:
    """Copy the rows that *target* lacks; return the table's sum, or None if *target* had rows."""
    last = _last(target, table)
    adding = _Adding()
    for rows in _parts(source, table, after=last):
        target.add(table, rows)
        adding.add(rows)
        progress(f"copied {table.name}", len(rows))
    return adding.sum if last is None else None


def _last(target: Target, table: Relation) -> list[object] | None:
    last = None
    for rows in _parts(target, table):
        last = keyed(table, rows[-1])
    return last


def _compared(
    read: Sum | None, source: Side, target: Target, table: Relation, progress: Progress
) -> Sum:
    """Compare the table in *target* with the sum *read* (None: with *source*); return its sum."""
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
    """Computes the sum of a table from parts of its rows, in key order."""

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
