"""Notices of the server: that the market has been written."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import psycopg
import structlog
from psycopg import sql

from mintscope.base.errors import StoreUnavailable, UnusableStore
from mintscope.edges.storage.postgres.connection import APPLICATION, CONNECT_S
from mintscope.edges.storage.postgres.processes.replicas import join

CHANNEL: Final = "SELECT 'mintscope_market_' || current_schema()"
# A server that is cut off says nothing either: readers look by themselves as often.
LOOK_AGAIN_S: Final = 1.0
CONNECT_AGAIN_S: Final = 5.0
ANSWER_S: Final = 10.0  # for all that is asked at the beginning

log = structlog.get_logger()


class MarketNotices:
    """Wakes who waits for the market; on one connection, not through a pool of transactions.

    dsn        of a database whose search path names the schema
    settings   what all that wait there must have in common
    """

    def __init__(self, dsn: str, settings: Mapping[str, str] | None = None) -> None:
        self._dsn = dsn
        self._settings = settings or {}
        self._connection: psycopg.AsyncConnection[Any] | None = None
        self._connect_at_s = 0.0
        self._is_told = False

    async def open(self) -> None:
        """Begin to listen.  Raises UnusableStore where others have other settings."""
        try:
            await self._connect()
        except (psycopg.Error, OSError) as cause:
            raise StoreUnavailable(f"the database does not answer: {cause}") from cause

    async def wait(self, poll_interval_s: float) -> None:
        """Wait until the market was written, a second at most.

        While no connection can be had: *poll_interval_s*, as if there were no notices.
        """
        try:
            if await self._has_connection():
                await self._next_notice()
                return
        except (psycopg.Error, OSError, UnusableStore) as error:
            await self._lost(error)
        await asyncio.sleep(poll_interval_s)

    async def aclose(self) -> None:
        """Let go of the connection."""
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
        async with asyncio.timeout(ANSWER_S):
            self._connection = connection = await psycopg.AsyncConnection.connect(
                self._dsn,
                autocommit=True,
                connect_timeout=CONNECT_S,
                fallback_application_name=APPLICATION,
            )
            row = await (await connection.execute(CHANNEL)).fetchone()
            assert row is not None
            await join(connection, self._settings)
            await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(str(row[0]))))
        if self._is_told:
            log.info("market_notices_back")
            self._is_told = False

    async def _next_notice(self) -> None:
        assert self._connection is not None
        async for _ in self._connection.notifies(timeout=LOOK_AGAIN_S, stop_after=1):
            pass

    async def _lost(self, error: Exception) -> None:
        if not self._is_told:
            log.warning("market_notices_lost", reason=str(error).strip())
            self._is_told = True
        await self.aclose()
