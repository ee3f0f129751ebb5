"""All implementations of Limits, each with an empty store.

On PostgreSQL each pytest process has its own schema.
"""

import atexit
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Final

import psycopg

from mintscope.kit.clock import Clock
from mintscope.kit.limits import Limits, MemoryLimits
from mintscope.kit.sql.limits import LimitBatches, SharedLimits, WindowStore
from mintscope.kit.sql.postgres_limits import PostgresWindows
from support.scenes.postgres import dsn_in

PATIENCE_S: Final = 30.0  # seconds to wait for the store, long enough on a busy machine


@cache
def dsn() -> str:
    """Return the DSN of the database for the limits of this process."""
    return dsn_in(Path("limits"))


@cache
def _postgres() -> psycopg.Connection:
    connection = psycopg.connect(dsn(), autocommit=True)
    atexit.register(connection.close)
    return connection


def postgres_store(clock: Clock | None = None) -> WindowStore:
    """Return a connection to the schema of this process."""
    return PostgresWindows(dsn(), clock=clock)


def empty_postgres() -> None:
    """Delete all windows."""
    _postgres().execute("DELETE FROM limit_window")


def end_connections() -> None:
    """Close the connections of limits on the server, like a restart of the server."""
    _postgres().execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE pid <> pg_backend_pid() AND query LIKE '%INSERT INTO limit_window%'"
    )


def postgres_windows() -> int:
    """Return the number of stored windows."""
    row = _postgres().execute("SELECT count(*) FROM limit_window").fetchone()
    assert row is not None
    return int(row[0])


@asynccontextmanager
async def memory(clock: Clock) -> AsyncGenerator[Limits, None]:
    """Yield limits that are stored in memory."""
    yield MemoryLimits(clock)


@asynccontextmanager
async def shared(
    clock: Clock, *, store_clock: Clock | None, replicas: int = 1
) -> AsyncGenerator[SharedLimits, None]:
    """Yield limits over the store, without emptying it; *store_clock*, if given, sets its time."""
    batches = LimitBatches(postgres_store(store_clock), clock, patience_s=PATIENCE_S)
    async with aclosing(SharedLimits(batches, clock, replicas=replicas)) as limits:
        yield limits


def _in_postgres(clock: Clock) -> AbstractAsyncContextManager[Limits]:
    empty_postgres()
    return shared(clock, store_clock=clock)


ENGINES: Final[dict[str, Callable[[Clock], AbstractAsyncContextManager[Limits]]]] = {
    "memory": memory,
    "postgresql": _in_postgres,
}
