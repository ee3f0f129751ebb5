"""The list of tokens, kept by each api process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from mintscope.base.clock import Clock
from mintscope.base.limits import Limit
from mintscope.core.market.listing.store import ListReader
from mintscope.edges.api.tokens.routes import LISTS, ListParts
from mintscope.edges.follow.lister import Lister
from mintscope.shell.config.lists import ListsConfig
from mintscope.shell.wiring.maintenance import running


@asynccontextmanager
async def listing(
    config: ListsConfig, reader: ListReader, clock: Clock, origin: str
) -> AsyncIterator[ListParts]:
    """Keep the list current during the block; clients reach this service at *origin*."""
    lister = Lister(reader, clock, wait=partial(asyncio.sleep, config.refresh_s))
    limit = Limit(name=LISTS.name, count=config.limit_requests, window_s=config.limit_window_s)
    async with running(lister.run, "lists"):
        yield ListParts(lister, limit, origin)
