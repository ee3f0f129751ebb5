"""PostgreSQL connections: dialect, arrays of rows, and time limits.

NumPy packs numbers into arrays, because packing in Python would block other threads for longer.

The client itself limits the wait for a frozen server: timeouts of the server need a running server,
and TCP keepalives only show that the kernel of the server's machine answers.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import IntEnum
from itertools import islice
from struct import Struct
from typing import Any, ClassVar, Final, TypeVar

import numpy as np
import psycopg
import structlog
from numpy.typing import NDArray
from psycopg import Connection
from psycopg.abc import PQGen
from psycopg.adapt import Dumper, Loader
from psycopg.pq import Format
from psycopg.raw_cursor import RawCursor
from psycopg.types.numeric import Int8Dumper, NumericBinaryLoader
from psycopg.types.string import StrDumperUnknown as StrDumper
from typing_extensions import override

from mintscope.kit.clock import SystemClock
from mintscope.kit.sql.database import (
    Batch,
    DatabaseAway,
    DatabaseError,
    Rows,
    Values,
    compare_clocks,
    inserting_arrays,
    translate,
)

HEAD: Final = Struct(">iiIii")  # number of dimensions, flags, type, length, first index
SIZE: Final = Struct(">i")
NULL: Final = SIZE.pack(-1)
INTEGER: Final = Struct(">iq")
FLOAT: Final = Struct(">id")
OF_8_BYTES: Final = 8


class IntegerColumn(list[int | None]):
    """Integers or nulls to send to PostgreSQL as an array of bigint."""


class FloatColumn(list[float | None]):
    """Numbers or nulls to send to PostgreSQL as an array of double precision."""


class TextColumn(list[str | None]):
    """Texts or nulls to send to PostgreSQL as an array; NUL is replaced, because it is refused."""


class BlobColumn(list[bytes | None]):
    """Byte strings or nulls to send to PostgreSQL as an array of bytea."""


class _Packing(Dumper):
    format = Format.BINARY
    element_oid: ClassVar[int]

    @override
    def dump(self, obj: Any) -> bytes:
        # The flag is 1, because NULL may occur; indices begin at 1.
        return HEAD.pack(1, 1, self.element_oid, len(obj), 1) + self.elements(obj)

    def elements(self, values: Sequence[Any]) -> bytes:
        """Return *values* as elements of a PostgreSQL array: in binary, each after its length."""
        raise NotImplementedError


class _IntegerPacking(_Packing):
    oid = 1016  # bigint[]
    element_oid = 20  # bigint

    @override
    def elements(self, values: Sequence[Any]) -> bytes:
        return _numbers(values, INTEGER, ">i8")


class _FloatPacking(_Packing):
    oid = 1022  # double precision[]
    element_oid = 701  # double precision

    @override
    def elements(self, values: Sequence[Any]) -> bytes:
        return _numbers(values, FLOAT, ">f8")


class _TextPacking(_Packing):
    oid = 1009  # text[]
    element_oid = 25  # text

    @override
    def elements(self, values: Sequence[Any]) -> bytes:
        return _blobs([None if value is None else _text(value) for value in values])


class _BlobPacking(_Packing):
    oid = 1001  # bytea[]
    element_oid = 17  # bytea

    @override
    def elements(self, values: Sequence[Any]) -> bytes:
        return _blobs(values)


class _IntegerLoader(Loader):
    """Reads a numeric from PostgreSQL as an int, because sums of integers have this type."""

    @override
    def load(self, data: Any) -> int:
        return int(bytes(data))


class _BinaryIntegerLoader(NumericBinaryLoader):
    """Reads a numeric from PostgreSQL's binary form as an int, because sums have this type."""

    @override
    def load(self, data: Any) -> Any:
        return int(super().load(data))


class _TextDumper(StrDumper):
    """Sends texts with NUL replaced, because the server refuses NUL."""

    @override
    def dump(self, obj: str) -> Any:
        return super().dump(obj.replace("\0", "\N{REPLACEMENT CHARACTER}"))


PACKINGS: Final = (
    (IntegerColumn, _IntegerPacking),
    (FloatColumn, _FloatPacking),
    (TextColumn, _TextPacking),
    (BlobColumn, _BlobPacking),
)


COLUMNS: Final[dict[str, type[list[Any]]]] = {
    "bigint": IntegerColumn,
    "double precision": FloatColumn,
    "text": TextColumn,
    "bytea": BlobColumn,
}


def register(connection: Connection[Any]) -> None:
    """Register the conversions of values and columns with *connection*."""
    connection.adapters.register_loader("numeric", _IntegerLoader)
    connection.adapters.register_loader("numeric", _BinaryIntegerLoader)
    connection.adapters.register_dumper(str, _TextDumper)
    # psycopg would choose the type by the size of a number, and prepare the statement for each.
    connection.adapters.register_dumper(int, Int8Dumper)
    connection.adapters.register_dumper(bool, Int8Dumper)
    for column, packing in PACKINGS:
        connection.adapters.register_dumper(column, packing)


def _text(value: str) -> bytes:
    return value.replace("\0", "\N{REPLACEMENT CHARACTER}").encode()


def _numbers(values: Sequence[Any], one: Struct, kind: str) -> bytes:
    if None in values:
        return b"".join(NULL if v is None else one.pack(OF_8_BYTES, v) for v in values)
    packed: NDArray[Any] = np.empty(len(values), [("size", ">i4"), ("value", kind)])
    packed["size"] = OF_8_BYTES
    packed["value"] = values
    return packed.tobytes()


def _blobs(values: Sequence[bytes | None]) -> bytes:
    return b"".join(
        part
        for value in values
        for part in ((NULL,) if value is None else (SIZE.pack(len(value)), value))
    )


T = TypeVar("T")

LOOK_S: Final = 0.1
MARGIN_S: Final = 5.0  # added to the time limit of a statement, so the server can report a timeout


class SilentServer(psycopg.OperationalError):
    """The server neither sent nor accepted data for too long; the connection was closed."""


class BoundedConnection(psycopg.Connection[Any]):
    """A connection that closes, and raises SilentServer, if the server is silent for too long."""

    silent_s_max: float = MARGIN_S

    @override
    def wait(self, gen: PQGen[T], interval: float = LOOK_S, timeout: float | None = None) -> T:
        """Wait for an answer of the server.  Raises SilentServer if there is none for too long."""
        return super().wait(self._bounded(gen), interval, timeout)

    def _bounded(self, gen: PQGen[T]) -> PQGen[T]:
        try:
            wanted = next(gen)
            until_s = time.monotonic() + self.silent_s_max
            while True:
                ready = yield wanted
                if ready:
                    until_s = time.monotonic() + self.silent_s_max
                elif time.monotonic() >= until_s:
                    self.pgconn.finish()
                    raise SilentServer(
                        f"expected an answer of the database within {self.silent_s_max:.1f} s"
                    )
                wanted = gen.send(ready)
        except StopIteration as ended:
            result: T = ended.value
            return result


APPLICATION: Final = "mintscope"  # application_name in pg_stat_activity
CONNECT_S: Final = 5
STATEMENT_MS: Final = 5_000
IDLE_IN_TRANSACTION_MS: Final = 3_000  # after this time, a frozen process loses its lock
PATIENCE_S: Final = 5.0  # time limit for finding out the outcome of a commit
PAUSE_S: Final = 0.05
PREPARED_AFTER: Final = 3
READ: Final = ("SELECT", "\nSELECT")
# Rows of one statement: a busy server inserts this many within a fraction of a second.
ROWS_MAX: Final = 5_000
# With these limits, a connection to an unreachable server is lost within about 20 s.
PROBE_S: Final = 5
PROBES_MAX: Final = 3
UNSENT_MS: Final = 20_000
PROBING: Final[Mapping[str, Any]] = {
    "tcp_user_timeout": UNSENT_MS,
    "keepalives_idle": PROBE_S,
    "keepalives_interval": PROBE_S,
    "keepalives_count": PROBES_MAX,
}
# A statement that reads many rows uses one processor only, and leaves the others free.
SETTINGS: Final = """
SELECT set_config('statement_timeout', $1, false), set_config('lock_timeout', $2, false),
       set_config('idle_in_transaction_session_timeout', $3, false),
       set_config('max_parallel_workers_per_gather', '0', false)
"""
# Each statement is planned once, for indexes: the statistics of tables may be old or missing, and a
# plan that reads a whole table would delay all later statements.
HOT: Final = """
SELECT set_config('plan_cache_mode', 'force_generic_plan', false),
       set_config('enable_bitmapscan', 'off', false), set_config('enable_seqscan', 'off', false),
       set_config('jit', 'off', false)
"""
# Advisory locks are those of the whole database, so the first number stands for the schema.  The
# number of the transaction shows later whether a commit without an answer took effect.
BEGIN: Final = """
SELECT pg_advisory_xact_lock(hashtext(current_schema()), $1::integer), pg_current_xact_id()::text
"""
BEGIN_BESIDE: Final = "SELECT pg_current_xact_id()::text"
HERE: Final = SystemClock()
EPOCH: Final = "SELECT epoch FROM ingest_epoch"
STATUS: Final = "SELECT pg_xact_status($1::text::xid8)"

AWAY: Final = (
    psycopg.OperationalError,
    psycopg.errors.ReadOnlySqlTransaction,  # of a standby, or of a server that may not write
    psycopg.errors.IdleInTransactionSessionTimeout,
)

log = structlog.get_logger()


class WriteLock(IntEnum):
    """The locks of PostgreSQL that writers take, so that only one transaction at a time writes.

    Each name stands for the tables that the lock protects.
    """

    MONEY = 1
    MARKET = 2
    WEBHOOKS = 3


class TakenOver(DatabaseAway):
    """Another process now has the right to write; nothing was written."""


class Refused(DatabaseError):
    """The database refused the values of a statement, due to a constraint or a column's type."""


class InDoubt(DatabaseAway):
    """A commit was sent, but its outcome could not be determined in time."""


class PostgresDatabase:
    """A PostgreSQL connection, opened at the first use and again after it was lost."""

    def __init__(  # noqa: PLR0913 - one argument for each part
        self,
        dsn: str,  # the connection string; its search path names the schema
        lock: WriteLock = WriteLock.MONEY,  # held by a transaction from the first statement
        *,
        statement_ms: int = STATEMENT_MS,
        lock_ms: int | None = None,  # time limit for a lock; None: *statement_ms*
        epoch: int | None = None,  # transactions fail in another epoch; None: no check
        now_ms: Callable[[], int] = HERE.now,  # of this machine's clock, Unix milliseconds
    ) -> None:
        self._dsn = dsn
        self._now_ms = now_ms
        self._lock = lock
        self._epoch = epoch
        self._statement_ms = statement_ms
        self._lock_ms = statement_ms if lock_ms is None else lock_ms
        self._connection: psycopg.Connection[Any] | None = None
        self._changed = 0
        self._is_begun = False
        self._ahead_ms: int | None = None

    def execute(self, statement: str, values: Values = (), /) -> Rows:
        """Run *statement*, and return its rows.

        A read outside a transaction is repeated once over a new connection if the old one was lost.
        """
        text, names = translate(statement)
        if isinstance(values, Mapping):
            values = [values[name] for name in names]
        may_repeat = self._connection is not None and not self._is_begun and text.startswith(READ)
        try:
            return self._execute(text, values)
        except DatabaseAway as away:  # no second connection to a frozen server
            is_lost = self._connection is None and not isinstance(away.__cause__, SilentServer)
            if not (may_repeat and is_lost):
                raise
        return self._execute(text, values)

    def _execute(self, text: str, values: Sequence[Any]) -> Rows:
        with self._translated():
            cursor = self._cursor()
            cursor.execute(text, values, binary=True)
            self._changed = cursor.rowcount
            return Rows(cursor.fetchall() if cursor.description else ())

    def executemany(self, statement: str | Batch, many: Iterable[Sequence[object]], /) -> None:
        """Run *statement* once for each item of *many*; for a Batch, insert the rows *many*."""
        with self._translated():
            cursor = self._cursor()
            if not isinstance(statement, Batch):
                cursor.executemany(translate(statement).text, many)
                self._changed = cursor.rowcount
                return
            kinds = [COLUMNS[kind] for kind in statement.columns.values()]
            self._changed = 0
            rows = iter(many)  # if all were read first, the server could end the silent session
            while part := list(islice(rows, ROWS_MAX)):
                values = zip(*part, strict=True)
                columns = [kind(each) for kind, each in zip(kinds, values, strict=True)]
                cursor.execute(inserting_arrays(statement), columns)
                self._changed += cursor.rowcount

    def script(self, text: str) -> None:
        """Run several statements without values; a transaction must have begun."""
        with self._translated():
            # Only a statement that is not prepared may consist of several.
            self._cursor().connection.execute(text.encode(), prepare=False)

    def changes(self) -> int:
        """Return the number of rows that the last statement changed."""
        return self._changed

    @contextmanager
    def transaction(self, *, beside: bool = False) -> Iterator[None]:
        """Run the block in a transaction with the write lock; commit unless the block raises.

        beside   if True, hold no write lock, and do not check the epoch
        """
        with self._begun("BEGIN"):
            if beside:
                xid = self.execute(BEGIN_BESIDE).get
            else:
                _, xid = self.execute(BEGIN, (int(self._lock),)).get
                self._expect_epoch()
            yield
            self._commit(str(xid))

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Undo only the changes of this block, which is part of a transaction, if it raises."""
        self.execute("SAVEPOINT part")
        try:
            yield
        except BaseException:
            with suppress(DatabaseError):
                self.execute("ROLLBACK TO part")
            raise
        self.execute("RELEASE part")

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Make all reads in the block see the data as of one commit."""
        with self._begun("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"):
            yield
            self.execute("ROLLBACK")

    def expect_clock(self) -> None:
        """Raise DatabaseAway if this machine's clock differs too much from the database's."""
        compare_clocks(self, self._now_ms).expect_near()

    def ahead_ms(self) -> int:
        """Return the milliseconds by which this machine's clock is surely ahead of the server's.

        Return 0 if the clocks may agree, and a negative number if this machine's clock is surely
        behind.  Within a transaction, the clocks are compared only once.
        """
        if self._ahead_ms is None or not self._is_begun:
            self._ahead_ms = compare_clocks(self, self._now_ms).surely_ahead_ms
        return self._ahead_ms

    def close(self) -> None:
        """Close the connection."""
        connection = self._connection
        self._connection = None
        if connection is not None:
            connection.close()

    @contextmanager
    def _begun(self, statement: str) -> Iterator[None]:
        """Run *statement* to begin a transaction, if necessary over a new connection.

        The transaction is rolled back if the block raises.
        """
        try:
            self.execute(statement)
        except DatabaseAway:
            # The connection may have been lost long before, and nothing has begun.
            self.close()
            self.execute(statement)
        self._is_begun = True
        self._ahead_ms = None
        try:
            yield
        except BaseException:
            if self._connection is not None:
                with suppress(DatabaseError):
                    self.execute("ROLLBACK")
            raise
        finally:
            self._is_begun = False

    def _expect_epoch(self) -> None:
        """Raise TakenOver if the stored epoch has changed, because another process may write now.

        The write lock must be held, so that the epoch cannot change after this check.
        """
        if self._epoch is None:
            return
        epoch = self.execute(EPOCH).get
        if epoch != self._epoch:
            raise TakenOver(f"expected epoch {self._epoch}; it is {epoch}: another process writes")

    def _commit(self, xid: str) -> None:
        """Commit transaction *xid*; if no answer arrives, ask the server for the outcome."""
        try:
            with self._translated():
                ended = self._cursor().execute("COMMIT").statusmessage
        except DatabaseAway:
            self.close()
            self._is_begun = False  # allows a new connection, which asks for the outcome
            if not self._was_committed(xid):
                raise
            log.warning("commit_found", xid=xid)
            return
        # After a failed statement, the server answers COMMIT with ROLLBACK instead of an error.
        if ended != "COMMIT":
            raise DatabaseError("expected a commit; a statement had failed before")

    def _was_committed(self, xid: str) -> bool:
        until_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < until_s:
            with suppress(DatabaseAway):
                status = self.execute(STATUS, (xid,)).get
                if status != "in progress":
                    return bool(status == "committed")
            time.sleep(PAUSE_S)
        raise InDoubt(f"expected the outcome of transaction {xid}; the store is away")

    def _cursor(self) -> RawCursor[Any]:
        connection = self._connection
        if connection is None or connection.closed:
            if self._is_begun:  # another connection would not be in the transaction
                raise DatabaseAway("the connection was lost within a transaction")
            connection = self._connection = self._connect()
        return RawCursor(connection)

    def _connect(self) -> psycopg.Connection[Any]:
        connection = BoundedConnection.connect(
            self._dsn,
            # Otherwise psycopg would begin a transaction with the first statement.
            autocommit=True,
            connect_timeout=CONNECT_S,
            prepare_threshold=PREPARED_AFTER,
            fallback_application_name=APPLICATION,
            **PROBING,
        )
        connection.silent_s_max = self._statement_ms / 1_000 + MARGIN_S
        register(connection)
        cursor = RawCursor(connection)
        limits_ms = (self._statement_ms, self._lock_ms, IDLE_IN_TRANSACTION_MS)
        cursor.execute(SETTINGS, [f"{each}" for each in limits_ms])
        if self._lock is WriteLock.MARKET:  # the market has few statements, each for few rows
            cursor.execute(HOT)
        return connection

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn psycopg's errors into those that all databases raise; drop a lost connection."""
        try:
            yield
        except AWAY as cause:
            if self._connection is not None and self._connection.closed:
                self._connection = None
            raise DatabaseAway(str(cause)) from cause
        except (psycopg.IntegrityError, psycopg.DataError) as cause:
            raise Refused(str(cause)) from cause
        except psycopg.Error as cause:
            raise DatabaseError(str(cause)) from cause
