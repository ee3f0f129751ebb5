"""A file of SQLite for stores in common SQL."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, Self

import apsw

from mintscope.base.metrics import WAL_BYTES
from mintscope.edges.storage.database import (
    Batch,
    DatabaseAway,
    DatabaseError,
    Rows,
    Values,
    inserting,
)
from mintscope.edges.storage.sqlite.connection import (
    BUSY_TIMEOUT_MS,
    open_store,
    savepoint,
    snapshot,
    transaction,
)

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
    """Implements Database over a file.

    connection        for features that only SQLite has
    wal               the file of its write-ahead log
    busy_timeout_ms   how long a statement waits for other connections
    read_only         the file must exist, with all migrations
    """

    def __init__(
        self,
        path: Path,
        kind: str,
        *,
        busy_timeout_ms: int = BUSY_TIMEOUT_MS,
        may_write: bool = True,
        read_only: bool = False,
    ) -> None:
        with told():
            self.connection = self._db = open_store(path, kind, read_only=read_only)
        self._db.set_busy_timeout(busy_timeout_ms)
        self.wal = path.with_name(f"{path.name}-wal")
        if not may_write:
            self._db.execute("PRAGMA query_only = ON")
        elif not read_only:
            WAL_BYTES.labels(kind).set_function(partial(size_of, self.wal))

    @classmethod
    def as_it_is(cls, path: Path) -> Self:
        """Return a connection that reads the file at *path* and migrates nothing."""
        found = cls.__new__(cls)
        with told():
            found.connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        found._db = found.connection  # noqa: SLF001 - of this class
        return found

    def execute(self, statement: str, values: Values = (), /) -> Rows:
        """Run one statement."""
        with told():
            return Rows(self._db.execute(statement, values).fetchall())

    def executemany(self, statement: str | Batch, many: Iterable[Sequence[object]], /) -> None:
        """Run a statement that returns nothing, once for each of *many*; or add them as rows."""
        text = inserting(statement) if isinstance(statement, Batch) else statement
        with told():
            self._db.executemany(text, many)

    def changes(self) -> int:
        """Return how many rows the last statement changed."""
        return int(self._db.changes())

    @contextmanager
    def transaction(self, *, beside: bool = False) -> Iterator[None]:  # noqa: ARG002 - one writes
        """Hold the write lock from the first statement; commit unless it raises."""
        with told(), transaction(self._db):
            yield

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Undo what is done inside, and only that, if it raises."""
        with told(), savepoint(self._db):
            yield

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Let every read inside see one and the same commit."""
        with told(), snapshot(self._db):
            yield

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()


def size_of(file: Path) -> int:
    """Return the bytes of *file*, 0 if it does not exist."""
    try:
        return file.stat().st_size
    except OSError:
        return 0


@contextmanager
def told() -> Iterator[None]:
    """Raise errors as every engine does."""
    try:
        yield
    except OF_THE_FILE as cause:
        raise DatabaseAway(str(cause)) from cause
    except apsw.Error as cause:
        raise DatabaseError(str(cause)) from cause
