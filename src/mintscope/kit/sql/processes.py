"""Locks and notices between processes, by means of PostgreSQL.

The server ends the session of an `IngestLock` after three seconds without a statement, so that a
frozen or disconnected process loses its lock.  Statements that the process sends later are refused,
because each of its transactions checks the epoch (see PostgresDatabase).
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Final, NoReturn

import psycopg
import structlog
from psycopg import AsyncConnection, sql

from mintscope.kit.errors import StoreUnavailable, UnusableStore
from mintscope.kit.sql.database import TRY, SessionLock
from mintscope.kit.sql.postgres import (
    APPLICATION,
    CONNECT_S,
    PROBING,
    STATEMENT_MS,
    BoundedConnection,
    WriteLock,
)

SILENT_MS_MAX: Final = 3_000
CONNECTING: Final[Mapping[str, Any]] = {
    "autocommit": True,
    "connect_timeout": CONNECT_S,
    "fallback_application_name": APPLICATION,
    **PROBING,
}
HEARTBEAT_S: Final = 1.0
ANSWER_S: Final = 3.0
LOOK_AGAIN_S: Final = 0.5

SETTINGS: Final = """
SELECT set_config('statement_timeout', %s, false), set_config('lock_timeout', %s, false),
       set_config('idle_session_timeout', %s, false),
       set_config('idle_in_transaction_session_timeout', %s, false)
"""
WAIT_FOR_WRITERS: Final = "SELECT pg_advisory_xact_lock(hashtext(current_schema()), %s)"
TAKE_OVER: Final = "UPDATE ingest_epoch SET epoch = epoch + 1 RETURNING epoch"

log = structlog.get_logger()


class IngestLock:
    """The right to write the market, for one process at a time.

    dsn     the connection string of the database, whose search path names the schema; it must not
            lead through a transaction pooler
    """

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._connection: psycopg.AsyncConnection[Any] | None = None
        self.epoch = 0  # larger than that of earlier holders; 0: the lock was never held

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Wait for the right to write the market, and hold it during the block.

        Raises StoreUnavailable.
        """
        try:
            await self._acquire()
            yield
        finally:
            await self._release()

    async def keep(self) -> NoReturn:
        """Query the server every second, to keep the lock; raise StoreUnavailable on a failure."""
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            await self._ask("SELECT 1")

    async def _acquire(self) -> None:
        await self._connect()
        if not await self._ask(TRY, SessionLock.INGESTING):
            log.info("ingest_stands_by")
            while not await self._ask(TRY, SessionLock.INGESTING):  # noqa: ASYNC110 - only asking tells
                await asyncio.sleep(LOOK_AGAIN_S)
        await self._ask("BEGIN")
        # The last transaction of the earlier holder may not have ended yet.
        await self._ask(WAIT_FOR_WRITERS, int(WriteLock.MARKET))
        self.epoch = await self._ask(TAKE_OVER)
        await self._ask("COMMIT")
        log.info("ingest_takes_over", epoch=self.epoch)

    async def _connect(self) -> None:
        milliseconds = (f"{STATEMENT_MS}", f"{STATEMENT_MS}", *2 * (f"{SILENT_MS_MAX}",))
        try:
            self._connection = await psycopg.AsyncConnection.connect(self._dsn, **CONNECTING)
        except psycopg.Error as cause:
            raise StoreUnavailable(f"the database does not answer: {cause}") from cause
        await self._ask(SETTINGS, *milliseconds)

    async def _ask(self, statement: str, *values: object) -> Any:
        """Run *statement*; return the first value of its first row, or None if it has no row."""
        connection = self._connection
        assert connection is not None
        try:
            async with asyncio.timeout(ANSWER_S + STATEMENT_MS / 1000):
                cursor = await connection.execute(statement.encode(), values or None)
                return (await cursor.fetchone() or [None])[0] if cursor.description else None
        except (psycopg.Error, TimeoutError) as cause:
            raise StoreUnavailable(
                f"the database does not answer, or has ended this session: {cause}"
            ) from cause

    async def _release(self) -> None:
        connection = self._connection
        self._connection = None
        if connection is not None:
            with suppress(psycopg.Error):
                await connection.close()


HASHED: Final = "sha256:"
SHARE: Final = "SELECT pg_advisory_lock_shared(hashtext(current_schema()), %s)"
LET_GO: Final = "SELECT pg_advisory_unlock(hashtext(current_schema()), %s)"
LET_GO_SHARED: Final = "SELECT pg_advisory_unlock_shared(hashtext(current_schema()), %s)"
# PostgreSQL may notice late that a connection has ended, and then still has the settings of a
# process that no longer runs.  So joining is tried again.
JOIN_TRIES: Final = 4
JOIN_AGAIN_S: Final = 0.25
KEPT: Final = "SELECT name, value FROM replica_settings"
KEEP: Final = "INSERT INTO replica_settings (name, value) VALUES (%s, %s)"


async def join(connection: AsyncConnection[Any], settings: Mapping[str, str]) -> None:
    """Register this api process in the database for as long as *connection* is open.

    settings   the settings that must be equal in all api processes, by name; a value that contains
               `sha256:` is a hash, and is not shown
    Raises     UnusableStore if running api processes have other settings
    """
    differing = ""
    for _ in range(JOIN_TRIES):
        if differing:
            await _asked(connection, LET_GO_SHARED, SessionLock.SERVING)
            await asyncio.sleep(JOIN_AGAIN_S)
        differing = await _joined(connection, settings)
        if not differing:
            return
    raise UnusableStore(f"expected the settings of the api processes that run: {differing}")


async def _joined(connection: AsyncConnection[Any], settings: Mapping[str, str]) -> str:
    """Take the lock of the api processes, and return "" or the settings that differ from theirs.

    If no other api process runs, the stored settings are replaced by *settings*.
    """
    if await _asked(connection, TRY, SessionLock.SERVING):
        # No other api process runs, so the stored settings are of processes that have ended.
        async with connection.transaction():
            await connection.execute("DELETE FROM replica_settings")
            await connection.cursor().executemany(KEEP, sorted(settings.items()))
        # The shared lock first, so that no process can take the exclusive one in between.
        await _asked(connection, SHARE, SessionLock.SERVING)
        await _asked(connection, LET_GO, SessionLock.SERVING)
        return ""
    await _asked(connection, SHARE, SessionLock.SERVING)
    rows = await (await connection.execute(KEPT)).fetchall()
    return differences(dict(rows), settings)


def differences(theirs: Mapping[str, str], ours: Mapping[str, str]) -> str:
    """Return a description of the common settings that differ, or "" if they are equal."""
    return "; ".join(
        f"{name} differs"
        if HASHED in theirs[name] + ours[name]
        else f"{name} is {theirs[name]} there and {ours[name]} here"
        # Versions of mintscope may have different settings.
        for name in sorted(theirs.keys() & ours.keys())
        if theirs[name] != ours[name]
    )


async def _asked(connection: AsyncConnection[Any], statement: str, lock: int) -> Any:
    row = await (await connection.execute(statement.encode(), (lock,))).fetchone()
    assert row is not None
    return row[0]


CHANNEL: Final = "SELECT 'mintscope_market_' || current_schema()"
# Seconds after which readers look for themselves, because an unreachable server sends no notices.
NOTICES_LOOK_AGAIN_S: Final = 1.0
CONNECT_AGAIN_S: Final = 5.0
NOTICES_ANSWER_S: Final = 10.0  # time limit for connecting and registering


POLL_S_MIN: Final = 0.05  # limits the polls of all replicas while a server recovers


class MarketNotices:
    """Waits for the database's notice that another process has written to the market.

    dsn        the connection string of the database, whose search path names the schema; it must
               not lead through a transaction pooler
    settings   the settings, by name, that must be the same in all processes that wait
    """

    def __init__(self, dsn: str, settings: Mapping[str, str] | None = None) -> None:
        self._dsn = dsn
        self._settings = settings or {}
        self._connection: psycopg.AsyncConnection[Any] | None = None
        self._connect_at_s = 0.0
        self._is_reported = False

    async def open(self) -> None:
        """Connect, and start to listen for notices.

        Raises UnusableStore if running processes have other settings; StoreUnavailable if the
        database does not answer.
        """
        try:
            await self._connect()
        except (psycopg.Error, OSError) as cause:
            raise StoreUnavailable(f"the database does not answer: {cause}") from cause
        except UnusableStore:
            await self.aclose()
            raise

    async def wait(self, poll_interval_s: float) -> None:
        """Wait until another process has written to the market, for at most one second.

        If there is no connection to the database, connect first: at most one attempt is made in
        CONNECT_AGAIN_S, and it takes at most NOTICES_ANSWER_S.  If there is still no connection,
        wait for *poll_interval_s*, but at least POLL_S_MIN, instead.

        Raises UnusableStore if, after a lost connection, this process finds other processes with
        different settings.
        """
        try:
            if await self._has_connection():
                await self._next_notice()
                return
        except (psycopg.Error, OSError) as error:
            await self._lost(error)
        except UnusableStore:
            await self.aclose()
            raise
        await asyncio.sleep(max(poll_interval_s, POLL_S_MIN))

    async def aclose(self) -> None:
        """Close the connection."""
        connection = self._connection
        self._connection = None
        if connection is not None:
            with suppress(psycopg.Error, OSError):
                await connection.close()

    async def _has_connection(self) -> bool:
        if self._connection is None:
            loop = asyncio.get_running_loop()
            if loop.time() < self._connect_at_s:
                return False
            self._connect_at_s = loop.time() + CONNECT_AGAIN_S
            await self._connect()
        return True

    async def _connect(self) -> None:
        async with asyncio.timeout(NOTICES_ANSWER_S):
            connection = await psycopg.AsyncConnection.connect(self._dsn, **CONNECTING)
            self._connection = connection
            row = await (await connection.execute(CHANNEL)).fetchone()
            assert row is not None
            await join(connection, self._settings)
            await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(str(row[0]))))
        if self._is_reported:
            log.info("market_notices_back")
            self._is_reported = False

    async def _next_notice(self) -> None:
        assert self._connection is not None
        async for _ in self._connection.notifies(timeout=NOTICES_LOOK_AGAIN_S, stop_after=1):
            pass

    async def _lost(self, error: Exception) -> None:
        if not self._is_reported:
            log.warning("market_notices_lost", reason=str(error).strip())
            self._is_reported = True
        await self.aclose()


@contextmanager
def session(dsn: str) -> Iterator[BoundedConnection]:
    """Yield a connection to the database *dsn*.  Raises StoreUnavailable if it cannot connect."""
    try:
        connection = BoundedConnection.connect(dsn, **CONNECTING)
    except psycopg.OperationalError as cause:
        raise StoreUnavailable(f"the database does not answer: {cause}") from cause
    with connection:
        yield connection


# With these settings, the server ends the session within a minute if the client's machine fails.
BACKFILL_LOCK_TRY: Final = """
SELECT set_config('tcp_keepalives_idle', '30', false),
       set_config('tcp_keepalives_interval', '10', false),
       set_config('tcp_keepalives_count', '3', false),
       pg_try_advisory_lock(hashtext(current_schema()), %s)
"""


@contextmanager
def backfill_lock(dsn: str) -> Iterator[bool]:
    """Try to get the right to read backfills for the block; yield whether this succeeded.

    Raises StoreUnavailable if the database does not answer.
    """
    with session(dsn) as connection:
        try:
            row = connection.execute(BACKFILL_LOCK_TRY, (SessionLock.BACKFILLING,)).fetchone()
        except psycopg.Error as cause:
            raise StoreUnavailable(f"the database does not answer: {cause}") from cause
        try:
            yield row is not None and bool(row[-1])
        finally:
            # Release the lock at once, not when the server notices the end of the connection.
            with suppress(psycopg.Error):
                connection.execute("SELECT pg_advisory_unlock_all()")
