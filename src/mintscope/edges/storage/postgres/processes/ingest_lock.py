"""Which of several ingests writes the market: a lock of a session, and an epoch that fences.

The server ends a session that says nothing for three seconds, so that a process that is frozen or
cut off loses the lock.  A statement that it still sends when it wakes is refused, because each of
its transactions asks for its epoch (see PostgresDatabase).
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, NoReturn

import psycopg
import structlog

from mintscope.base.errors import StoreUnavailable
from mintscope.edges.storage.postgres.connection import (
    APPLICATION,
    CONNECT_S,
    STATEMENT_MS,
    WriteLock,
)
from mintscope.edges.storage.postgres.processes.locks import TRY, SessionLock

SILENT_MS_MAX: Final = 3_000
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
    """The right to write the market, of one process at a time.

    dsn     of a database whose search path names the schema; not through a pool of transactions
    epoch   which the holder writes with, larger than that of every holder before
    """

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._connection: psycopg.AsyncConnection[Any] | None = None
        self.epoch = 0

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Wait for the lock, and hold it during the block.

        Raises StoreUnavailable when the server does not answer.
        """
        try:
            await self._acquire()
            yield
        finally:
            await self._release()

    async def keep(self) -> NoReturn:
        """Say every second that this process lives.  Raises StoreUnavailable once it is lost."""
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
        # A transaction of the holder before may not be over: what it writes comes first.
        await self._ask(WAIT_FOR_WRITERS, int(WriteLock.MARKET))
        self.epoch = await self._ask(TAKE_OVER)
        await self._ask("COMMIT")
        log.info("ingest_takes_over", epoch=self.epoch)

    async def _connect(self) -> None:
        milliseconds = (f"{STATEMENT_MS}", f"{STATEMENT_MS}", *2 * (f"{SILENT_MS_MAX}",))
        try:
            self._connection = await psycopg.AsyncConnection.connect(
                self._dsn,
                autocommit=True,
                connect_timeout=CONNECT_S,
                fallback_application_name=APPLICATION,
            )
        except psycopg.Error as cause:
            raise StoreUnavailable(f"the database does not answer: {cause}") from cause
        await self._ask(SETTINGS, *milliseconds)

    async def _ask(self, statement: str, *values: object) -> Any:
        """Return the first value of what *statement* returns."""
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
