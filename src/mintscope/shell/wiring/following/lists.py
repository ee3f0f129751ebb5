"""The list of tokens, kept by each api process."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager

from mintscope.base.clock import Clock
from mintscope.base.errors import ServiceUnavailable
from mintscope.base.limits import Limit
from mintscope.base.primitives import Mint
from mintscope.core.accounts.signals.writing import ReadSymbols
from mintscope.core.market.listing.columns import load_list_kernels
from mintscope.core.market.listing.listed import ListedTokens, ListQuestion
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


def symbols_of(lists: ListParts) -> ReadSymbols:
    """Return what finds the symbols of mints in the list; of none while it is loaded."""

    async def read(mints: Collection[Mint]) -> Mapping[Mint, str]:
        try:
            listed = lists.lists.newest()
        except ServiceUnavailable:
            return {}
        return await asyncio.to_thread(_symbols, listed, mints)

    return read


def _symbols(listed: ListedTokens, mints: Collection[Mint]) -> Mapping[Mint, str]:
    asked = ListQuestion(among=tuple(mints), limit=len(mints))
    found = [line.listed for line in listed.page(asked).lines]
    return {each.mint: each.symbol for each in found if each.symbol}
