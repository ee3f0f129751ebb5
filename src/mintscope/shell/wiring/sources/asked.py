"""Reading the pasts that administrators ask for, in the process of ingest."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from mintscope.base.clock import Clock
from mintscope.base.primitives import Mint, UnixS
from mintscope.core.market.history.asking import Survey
from mintscope.edges.ingest.asked import AskedPasts
from mintscope.shell.config.config import Config
from mintscope.shell.wiring.maintenance import running
from mintscope.shell.wiring.sources.history import PastReading, Progress, begin_of, open_past
from mintscope.shell.wiring.storage.turn import reading_turn
from mintscope.shell.wiring.stores import Market


@asynccontextmanager
async def reading_what_is_asked(
    config: Config, market: Market, clock: Clock
) -> AsyncIterator[None]:
    """Read what administrators ask for beside the block, over connections of its own."""
    if config.chain.source == "files":
        yield
        return
    async with open_past(config, market, config.chain.history_calls_per_s) as reading:
        asked = AskedPasts(
            queue=market.history_queue,
            reading=market.history_reading,
            jobs=market.history_jobs,
            past=_Past(market, reading),
            turn=partial(reading_turn, config),
            clock=clock,
        )
        async with running(asked.run, "asked pasts"):
            yield


class _Past:
    """Implements PastSource."""

    def __init__(self, market: Market, reading: PastReading) -> None:
        self._market = market
        self._reading = reading

    async def survey(self, mint: Mint, from_time: UnixS) -> Survey:
        begin = await begin_of(self._market, mint, from_time)
        found = await self._reading.survey(mint, begin)
        await begin_of(self._market, mint, found.from_time)  # what the node has may be here already
        return found

    async def read(self, mint: Mint, from_time: UnixS, progress: Progress) -> int:
        return await self._reading.read(mint, from_time, progress)
