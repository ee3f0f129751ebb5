"""The reports, kept by each api process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mintscope.base.clock import Clock
from mintscope.core.market.engine.live import LiveMarket
from mintscope.core.market.log import LogReader
from mintscope.edges.follow.follower import Follower
from mintscope.shell.config.config import Config
from mintscope.shell.wiring.kernels import telling_what_is_compiled
from mintscope.shell.wiring.maintenance import running
from mintscope.shell.wiring.storage.notices import waiting


@asynccontextmanager
async def following(config: Config, reader: LogReader, clock: Clock) -> AsyncIterator[Follower]:
    """Follow the swap log during the block."""
    with telling_what_is_compiled():
        market = LiveMarket(config.market.live_mints_max)
    async with waiting(config) as wait:
        follower = Follower(reader, market, clock, wait=wait)
        async with running(follower.run, "follow"):
            yield follower
