"""The files of an installation on SQLite, as tables to copy from and into."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Final

import apsw

from mintscope.base.errors import UnusableStore
from mintscope.edges.storage.copying.table import (
    MADE_BY_MIGRATIONS,
    NOT_COPIED,
    CannotCopy,
    Relation,
    quoted,
    reading,
)
from mintscope.edges.storage.database import Row
from mintscope.edges.storage.folder import MARKET_FILE, MONEY_FILE, WEBHOOKS_FILE
from mintscope.edges.storage.sqlite.connection import open_store, transaction

FILES: Final = {"money": MONEY_FILE, "market": MARKET_FILE, "webhooks": WEBHOOKS_FILE}
TYPES: Final = {"INTEGER": "bigint", "REAL": "double precision", "BLOB": "bytea", "TEXT": "text"}
NAMES: Final = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
TRIGGERS: Final = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' ORDER BY name"
MARK: Final = "CREATE TABLE copy_progress (source TEXT NOT NULL, guard TEXT NOT NULL) STRICT"


class SqliteSide:
    """Implements Target over the files in *folder*, which are made if they are not there."""

    def __init__(self, folder: Path, *, is_new: bool = False) -> None:
        if not is_new and not (folder / MONEY_FILE).exists():
            raise UnusableStore(f"expected {MONEY_FILE} in {folder}; it is not there")
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._files = [
            open_store(folder / name, kind, is_copied_into=is_new) for kind, name in FILES.items()
        ]
        if not is_new:
            for db in self._files:  # every read sees what was committed by now
                db.execute("BEGIN")
                db.execute("SELECT 1 FROM migration").get  # noqa: B018 - it fixes what is seen

    def tables(self) -> Mapping[str, Relation]:
        """Return them by name."""
        return {name: table for name, (_, table) in self._tables.items()}

    def rows(self, table: Relation, after: Sequence[object] | None, rows_max: int) -> Sequence[Row]:
        """Return the rows behind key *after*, in the order of the key."""
        order = [f'"{name}"' for name in table.key]
        statement = reading(table, after=after is not None, order=order)
        return self._file(table).execute(statement, [*(after or ()), rows_max]).fetchall()

    def sequences(self) -> Mapping[str, int]:
        """Return the largest number ever given, of tables that number their rows."""
        found: dict[str, int] = {}
        for db in self._files:
            if db.table_exists(None, "sqlite_sequence"):
                rows = db.execute("SELECT name, seq FROM sqlite_sequence")
                found.update({str(name): int(str(seq)) for name, seq in rows})
        return found

    def begin(self, source: str) -> None:
        """Take the triggers away, and note how to put them back."""
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
        """Add rows, all or none."""
        db = self._file(table)
        marks = ", ".join("?" * len(table.columns))
        columns = quoted(list(table.columns))
        with _without_foreign_keys(db), transaction(db):
            db.executemany(
                f'INSERT INTO "{table.name}" ({columns}) VALUES ({marks})',  # noqa: S608 - ours
                rows,
            )

    def end(self, sequences: Mapping[str, int]) -> None:
        """Put the triggers back, once every reference has what it refers to."""
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
        """Let go of the files."""
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
        raise CannotCopy(f"expected to go on with the copy of {begun}; was asked to copy {source}")


def _expect_empty(db: apsw.Connection) -> None:
    for (name,) in db.execute(NAMES).fetchall():
        if name in NOT_COPIED or name in MADE_BY_MIGRATIONS:
            continue
        if db.execute(f'SELECT EXISTS (SELECT 1 FROM "{name}")').get:  # noqa: S608 - ours
            raise CannotCopy(f"expected an empty target; there are rows in {name}")


def _number_on(db: apsw.Connection, name: str, last: int) -> None:
    """Let no number be given twice, also where the last rows were deleted."""
    if not db.table_exists(None, "sqlite_sequence"):
        return
    db.execute("UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = ?", (last, name))
    if last and not db.changes() and db.table_exists(None, name):  # it never had a row here
        db.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (name, last))


@contextmanager
def _without_foreign_keys(db: apsw.Connection) -> Iterator[None]:
    db.execute("PRAGMA foreign_keys = OFF")
    try:
        yield
    finally:
        db.execute("PRAGMA foreign_keys = ON")
