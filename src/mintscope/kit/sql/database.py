"""`Database`: the interface to the database engines.

Placeholders of values in statements are `?` or `?1`, or `:name` if the values are a mapping.
Booleans are stored as 0 and 1.  Every engine has `ON CONFLICT`, `RETURNING`, `CASE` and window
functions.  `/* FOR UPDATE */` locks the selected rows on an engine with several writers at a time.
`/* FOR UPDATE OF table SKIP LOCKED */` also omits rows that another transaction has locked.

The numbers of session locks differ from those of every `WriteLock`.  The numbers must not change,
because processes of an older version use the same locks.
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from enum import IntEnum
from functools import lru_cache
from threading import local
from typing import Any, ClassVar, Final, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import structlog

from mintscope.kit.errors import ServiceUnavailable

T = TypeVar("T")
Row = Sequence[Any]
Values = Sequence[object] | Mapping[str, object]

READERS: Final = 4
READ_TIMEOUT_S: Final = 10.0


class Closable(Protocol):
    """A connection to a database, which can be closed."""

    def close(self) -> None:
        """Close the connection."""


Read = TypeVar("Read", bound=Closable)
Read_co = TypeVar("Read_co", bound=Closable, covariant=True)

log = structlog.get_logger()


class DatabaseError(Exception):
    """The database refused a statement; the transaction can continue from a savepoint."""


class DatabaseAway(DatabaseError):
    """The database cannot be used now, for example because it does not respond or cannot write.

    The transaction had no effect; only for InDoubt, its outcome is unknown.
    """


class Batch(NamedTuple):
    """The table and columns of rows to insert; one statement of PostgreSQL inserts thousands."""

    table: str
    columns: Mapping[str, str]  # the SQL types by name, in the order of a row's values
    on_conflict: str = ""  # the ON CONFLICT clause, or "" if there is none


class Rows:
    """The result of a statement."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = iter(rows)

    def __iter__(self) -> Iterator[Row]:
        return self._rows

    def fetchone(self) -> Row | None:
        """Return the next row, or None after the last one."""
        return next(self._rows, None)

    @property
    def get(self) -> Any:
        """Return the next row, or its value if it has only one value; None after the last row."""
        row = self.fetchone()
        return row[0] if row is not None and len(row) == 1 else row


@runtime_checkable
class Remote(Protocol):
    """A database on another machine, whose clock may differ from the clock of this process."""

    def ahead_ms(self) -> int:
        """Return the milliseconds by which this process's clock is surely ahead of the database's.

        The result is 0 if the clocks may agree, and negative if this process's clock is surely
        behind.
        """


class Database(Protocol):
    """A connection to a database, for use by one thread.  All methods may raise DatabaseError."""

    def execute(self, statement: str, values: Values = (), /) -> Rows:
        """Run *statement*, and return its rows."""

    def executemany(self, statement: str | Batch, many: Iterable[Sequence[object]], /) -> None:
        """Run *statement* once for each item of *many*; for a Batch, insert the rows *many*."""

    def changes(self) -> int:
        """Return the number of rows that the last statement, which was no query, changed."""

    def transaction(self, *, beside: bool = False) -> AbstractContextManager[None]:
        """Run the block in a transaction with the write lock; commit unless the block raises.

        beside   if True, hold no write lock: rows must then be locked before they are changed
        """

    def savepoint(self) -> AbstractContextManager[None]:
        """Undo only the block's changes if it raises; the block is part of a transaction."""

    def snapshot(self) -> AbstractContextManager[None]:
        """Make all reads in the block see the data as of one commit."""

    def close(self) -> None:
        """Close the connection."""


class DatabaseAccess(Protocol[Read_co]):
    """Runs functions that use a database connection, at once or in a thread."""

    async def run(self, work: Callable[[Read_co], T]) -> T:
        """Call *work* with a database connection, and return its result.  Raises its errors."""

    def close(self) -> None:
        """Close the connections."""


class AccessAtOnce(Generic[Read]):
    """Calls functions with a database connection in the event loop; for SQLite in this process."""

    def __init__(self, database: Read) -> None:
        self._database = database

    async def run(self, work: Callable[[Read], T]) -> T:
        """Call *work* with the connection, and return its result."""
        return work(self._database)

    def close(self) -> None:
        """Close the connection."""
        self._database.close()


class AccessInThreads(Generic[Read]):
    """Calls functions in threads, each with a database connection of its own.

    timeout_s   the time limit of `run`, including the wait for a thread; None: no limit.  Work that
                changes data must have no limit, because it would continue after the limit
    """

    def __init__(
        self,
        connect: Callable[[], Read],
        *,
        threads: int = READERS,
        timeout_s: float | None = None,
    ) -> None:
        self._connect = connect
        self._timeout_s = timeout_s
        self._of_thread = local()
        self._opened: list[Read] = []
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="database-read")

    async def run(self, work: Callable[[Read], T]) -> T:
        """Call *work* with a connection in one of the threads, and return its result.

        Raises DatabaseAway if there is no result in time.
        """
        try:
            # At the limit, work that still waits for a thread is dropped; running work continues.
            async with asyncio.timeout(self._timeout_s):
                loop = asyncio.get_running_loop()
                return await loop.run_in_executor(self._threads, self._work, work)
        except TimeoutError as cause:
            raise DatabaseAway(
                f"expected a result within {self._timeout_s} s; there was none"
            ) from cause

    def close(self) -> None:
        """Close the connections."""
        self._threads.shutdown()
        for database in self._opened:
            database.close()

    def _work(self, work: Callable[[Read], T]) -> T:
        database: Read | None = getattr(self._of_thread, "database", None)
        if database is None:
            database = self._of_thread.database = self._connect()
            self._opened.append(database)
        return work(database)


class SqlStore:
    """A store in one database; its methods raise ServiceUnavailable if the database fails."""

    unavailable: ClassVar[str]  # the message of ServiceUnavailable for clients
    beside: ClassVar[bool] = False  # without a write lock: see `Database.transaction`

    def __init__(self, access: DatabaseAccess[Database]) -> None:
        self._access = access

    async def close(self) -> None:
        """Close the database."""
        self._access.close()

    async def _read(self, work: Callable[[Database], T]) -> T:
        with unavailable_on_database_error(self.unavailable):
            return await self._access.run(work)

    async def _write(self, work: Callable[[Database], T]) -> T:
        def in_transaction(db: Database) -> T:
            with db.transaction(beside=self.beside):
                return work(db)

        return await self._read(in_transaction)


def inserting(batch: Batch) -> str:
    """Return an INSERT with placeholders for one row of *batch*."""
    values = ", ".join("?" * len(batch.columns))
    columns = ", ".join(batch.columns)
    return f"INSERT INTO {batch.table} ({columns}) VALUES ({values}) {batch.on_conflict}"  # noqa: S608 - ours


@contextmanager
def unavailable_on_database_error(message: str) -> Iterator[None]:
    """Raise ServiceUnavailable(*message*) for an error of the engine, and log the error."""
    # The log line for an unreachable database has no traceback, because it is no bug.
    try:
        yield
    except DatabaseAway as cause:
        log.warning("the database does not answer", reason=str(cause))
        raise ServiceUnavailable(message) from cause
    except DatabaseError as cause:
        log.exception("the database does not answer")
        raise ServiceUnavailable(message) from cause


def ahead_ms(database: Database) -> int:
    """Return the milliseconds by which this process's clock is surely ahead of the database's.

    The result is 0 if the clocks may agree, or if the database is a file on this machine, and
    negative if this process's clock is surely behind.
    """
    return database.ahead_ms() if isinstance(database, Remote) else 0


class RunsMany(Protocol):
    """A connection of any engine, with the methods that `delete_part` needs."""

    def execute(self, statement: str, values: Any = ..., /) -> Iterable[Any]:
        """Run *statement*, and return its rows."""

    def executemany(self, statement: str, many: Iterable[Sequence[object]], /) -> Any:
        """Run *statement* for each of *many*."""


def delete_part(db: RunsMany, old: str, delete: str, before: int, limit: int) -> bool:
    """Delete up to *limit* rows older than *before*; return whether there may be more.

    old      the statement that selects the keys of the oldest rows, with the values (before, limit)
    delete   the statement that deletes the row of one key.  One statement for all keys would need a
             join, for which PostgreSQL reads the whole table
    """
    keys = list(db.execute(old, (before, limit)))
    db.executemany(delete, keys)
    return len(keys) == limit


def marks(values: Sequence[object]) -> str:
    """Return the placeholders of *values* for SQL's `IN (...)`, such as `?, ?`; NULL for none."""
    return ", ".join("?" * len(values)) or "NULL"


CLOCK: Final = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
APART_MS_MAX: Final = 2_000  # replicas read each other's dates, so clocks must be this close


class ClockDifference(NamedTuple):
    """The milliseconds by which this process's clock is ahead of the server's, and their error."""

    ahead_ms: int
    doubt_ms: int

    @property
    def surely_ahead_ms(self) -> int:
        """This process's time minus the server's, in milliseconds; 0 if the clocks may agree."""
        return self.ahead_ms if abs(self.ahead_ms) > self.doubt_ms else 0

    def expect_near(self) -> None:
        """Raise DatabaseAway if this process's clock differs too much from the server's."""
        if abs(self.ahead_ms) > APART_MS_MAX + self.doubt_ms:
            raise DatabaseAway(
                f"expected a clock within {APART_MS_MAX} ms of the database's; ours is"
                f" {self.ahead_ms} ms ahead"
            )


def compare_clocks(database: Database, now_ms: Callable[[], int]) -> ClockDifference:
    """Return the difference between this process's clock, *now_ms*, and the server's clock."""
    before_ms = now_ms()
    server_ms = database.execute(CLOCK).get
    after_ms = now_ms()
    # The doubt is half of the round trip, and 1 ms because all three times are rounded.
    return ClockDifference((before_ms + after_ms) // 2 - server_ms, 1 + (after_ms - before_ms) // 2)


TRY: Final = "SELECT pg_try_advisory_lock(hashtext(current_schema()), %s)"


class SessionLock(IntEnum):
    """Locks that a connection of PostgreSQL holds, named by the work of the process that has it.

    Only SERVING can be held by several processes.
    """

    INGESTING = 100
    SERVING = 101
    AUDITING = 102
    BACKFILLING = 103


# Quoted text and casts (`::`) stay unchanged.  Every comment must be a row lock.
LOCK: Final = r"/\*(?: FOR UPDATE((?: OF \w+)?(?: SKIP LOCKED)?) \*/)?"
MARK: Final = re.compile(rf"'(?:[^']|'')*'|::|{LOCK}|\?(\d*)|:([a-z_]+)")
KNOWN_MAX: Final = 2_000


class Translated(NamedTuple):
    """A statement with placeholders $1, $2 ..., and the names of its values, if they are named."""

    text: str
    names: tuple[str, ...]


def inserting_arrays(batch: Batch) -> str:
    """Return the INSERT for many rows of *batch*; its arguments are one array for each column."""
    arrays = ", ".join(
        f"${number}::{kind}[]" for number, kind in enumerate(batch.columns.values(), 1)
    )
    columns = ", ".join(batch.columns)
    rows = f"SELECT * FROM unnest({arrays})"  # noqa: S608 - ours, as is the table
    return f"INSERT INTO {batch.table} ({columns}) {rows} {batch.on_conflict}"


@lru_cache(KNOWN_MAX)
def translate(statement: str) -> Translated:
    """Return *statement* with PostgreSQL's placeholders and row locks.

    Raises ValueError for a comment that is no row lock: with a misspelled lock, two transactions
    could change the same rows.
    """
    names: list[str] = []
    count = 0

    def mark(found: re.Match[str]) -> str:
        nonlocal count
        locked, number, name = found.groups()
        if found[0].startswith("/*"):
            if locked is None:
                raise ValueError(
                    "a comment in a statement must be /* FOR UPDATE [OF table] [SKIP LOCKED] */,"
                    f" not {statement[found.start() :]!r}"
                )
            # Unlike FOR UPDATE, it lets others insert rows that reference the locked row.
            return f"FOR NO KEY UPDATE{locked}"
        if number:
            return f"${number}"
        if name:
            if name not in names:
                names.append(name)
            return f"${names.index(name) + 1}"
        if number is None:
            return found[0]
        count += 1
        return f"${count}"

    return Translated(MARK.sub(mark, statement), tuple(names))
