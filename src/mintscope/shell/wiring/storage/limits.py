"""Where requests are counted."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Final

from mintscope.base.clock import Clock
from mintscope.base.errors import StoreUnavailable
from mintscope.base.limits import Limits, MemoryLimits
from mintscope.edges.storage.limit_batches import LimitBatches, LimitStoreAway, WindowStore
from mintscope.edges.storage.shared_limits import SharedLimits
from mintscope.shell.config.config import Config
from mintscope.shell.wiring.storage.extras import extra

LIMITS_ASKED_S_MAX: Final = 5.0


@asynccontextmanager
async def open_limits(config: Config, clock: Clock) -> AsyncIterator[Limits]:
    """Open the counters of requests: the PostgreSQL of `store`, else the memory of this process.

    Raises UnusableStore if its package is not installed, StoreUnavailable if it does not answer.
    """
    store = _window_store(config)
    if store is None:
        yield MemoryLimits(clock)
        return
    batches = LimitBatches(store, clock)
    async with aclosing(SharedLimits(batches, clock, replicas=config.replicas_max)) as limits:
        yield limits


async def expect_limits(config: Config) -> bool:
    """Ask the store of limits; return False if there is none.

    Raises StoreUnavailable if it does not answer, UnusableStore if it cannot be asked.
    """
    store = _window_store(config)
    if store is None:
        return False
    async with aclosing(store):
        try:
            async with asyncio.timeout(LIMITS_ASKED_S_MAX):
                await store.settle(())
        except (LimitStoreAway, TimeoutError) as cause:
            raise StoreUnavailable(f"{cause}" or "no answer in time") from cause
    return True


def _window_store(config: Config) -> WindowStore | None:
    if config.store is None:
        return None
    with extra("postgres", "psycopg", "store"):
        from mintscope.edges.storage.postgres.openers import open_windows  # noqa: PLC0415
    return open_windows(config.store.get_secret_value())
