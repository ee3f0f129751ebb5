"""The list of tokens, kept by each api process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mintscope.base.clock import Clock
from mintscope.base.limits import Limit
from mintscope.core.market.listing.columns import load_list_kernels
from mintscope.edges.api.check import Check
from mintscope.edges.api.tokens.routes import LISTS, ListParts
from mintscope.edges.follow.follower import Follower
from mintscope.edges.follow.list_keeper import ListKeeper
from mintscope.edges.follow.lister import Lister, NextFold
from mintscope.edges.storage.market import Market
from mintscope.shell.config.lists import ListsConfig
from mintscope.shell.wiring.kernels import telling_what_is_compiled
from mintscope.shell.wiring.maintenance import running


@asynccontextmanager
async def listing(
    config: ListsConfig, market: Market, follower: Follower, clock: Clock, origin: str
) -> AsyncIterator[tuple[ListParts, list[Check]]]:
    """Keep the list current during the block; clients reach this service at *origin*.

    The first check fails until the list is loaded: this process should get no requests before.
    The second fails if the list is no longer updated.
    """
    with telling_what_is_compiled():
        load_list_kernels()
    wait = NextFold(follower.folded, follower.finality, clock, refresh_s=config.refresh_s)
    keeper = ListKeeper(market.list_snapshots, clock)
    lister = Lister(market.lists, clock, wait=wait, keeper=keeper)
    limit = Limit(name=LISTS.name, count=config.limit_requests, window_s=config.limit_window_s)
    async with running(lister.run, "lists"):
        checks = [
            Check("lists", lister.expect_loaded),
            Check("list_age", lister.expect_current, is_vital=False),
        ]
        yield ListParts(lister, limit, origin, follower.follows_files), checks
