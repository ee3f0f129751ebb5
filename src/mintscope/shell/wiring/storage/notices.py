"""How a follower of the log learns that it has grown."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from functools import partial

from mintscope.edges.follow.follower import Wait
from mintscope.shell.config.config import Config
from mintscope.shell.wiring.storage.common_settings import common_settings
from mintscope.shell.wiring.storage.extras import extra


@asynccontextmanager
async def waiting(config: Config) -> AsyncIterator[Wait]:
    """Yield the waiter for the log; the database notifies it if it can.  Raises UnusableStore."""
    poll_interval_s = config.api.poll_interval_ms / 1000
    if config.store is None:
        yield partial(asyncio.sleep, poll_interval_s)
        return
    with extra("postgres", "psycopg", "store"):
        from mintscope.edges.storage.postgres.processes.notices import MarketNotices  # noqa: PLC0415 - extra
    settings = common_settings(config)
    async with aclosing(MarketNotices(config.store.get_secret_value(), settings)) as notices:
        await notices.open()
        yield partial(notices.wait, poll_interval_s)
