"""All implementations of Limits, each with an empty store.

On PostgreSQL each pytest process has its own database.
"""

import atexit
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Final

import psycopg

from mintscope.kit.clock import Clock
from mintscope.kit.limits import Limits, MemoryLimits
from mintscope.kit.sql.limits import LimitBatches, SharedLimits
from mintscope.kit.sql.postgres_limits import PostgresWindows
from support.scenes.postgres import dsn_in

PATIENCE_S: Final = 30.0  # seconds to wait for the store, long enough on a busy machine


@cache
def dsn() -> str:
    """Return the DSN of the database for the limits of this process."""
    return dsn_in(Path("limits"))


@cache
def database() -> psycopg.Connection:
    """Return this process's connection to the database of rate limits, open until it ends."""
    connection = psycopg.connect(dsn(), autocommit=True)
    atexit.register(connection.close)
    return connection


def empty_postgres() -> None:
    database().execute("DELETE FROM limit_window")


@asynccontextmanager
async def shared(
    clock: Clock, *, store_clock: Clock | None, replicas: int = 1
) -> AsyncGenerator[SharedLimits, None]:
    """Yield limits over PostgreSQL, without emptying it; *store_clock* sets its time, if given."""
    store = PostgresWindows(dsn(), clock=store_clock)
    batches = LimitBatches(store, clock, patience_s=PATIENCE_S)
    async with aclosing(SharedLimits(batches, clock, replicas=replicas)) as limits:
        yield limits


def _in_postgres(clock: Clock) -> AbstractAsyncContextManager[Limits]:
    empty_postgres()
    return shared(clock, store_clock=clock)


ENGINES: Final[dict[str, Callable[[Clock], AbstractAsyncContextManager[Limits]]]] = {
    "memory": lambda clock: nullcontext(MemoryLimits(clock)),
    "postgresql": _in_postgres,
}
