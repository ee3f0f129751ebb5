"""The list of tokens, kept by each api process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mintscope.base.clock import Clock
from mintscope.base.limits import Limit
from mintscope.core.market.listing.store import ListReader
from mintscope.edges.api.check import Check
from mintscope.edges.api.tokens.routes import LISTS, ListParts
from mintscope.edges.follow.follower import Follower
from mintscope.edges.follow.lister import Lister, NextFold
from mintscope.shell.config.lists import ListsConfig
from mintscope.shell.wiring.maintenance import running


@asynccontextmanager
async def listing(
    config: ListsConfig, reader: ListReader, follower: Follower, clock: Clock, origin: str
) -> AsyncIterator[tuple[ListParts, Check]]:
    """Keep the list current during the block; clients reach this service at *origin*.

    The check fails until the list is there: before, no request should come to this process.
    """
    wait = NextFold(follower.folded, follower.finality, clock, refresh_s=config.refresh_s)
    lister = Lister(reader, clock, wait=wait)
    limit = Limit(name=LISTS.name, count=config.limit_requests, window_s=config.limit_window_s)
    async with running(lister.run, "lists"):
        yield ListParts(lister, limit, origin), Check("lists", lister.expect_loaded)
