"""Mending gaps, in the process of ingest."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from functools import partial

from mintscope.base.clock import Clock
from mintscope.base.primitives import Mint, UnixS
from mintscope.base.solana import Gap
from mintscope.core.market.history.asking import Survey
from mintscope.core.market.history.mending import MendPlan
from mintscope.edges.ingest.mending import DailyCalls, GapMending, is_read, settled
from mintscope.shell.config.config import Config
from mintscope.shell.wiring.maintenance import running
from mintscope.shell.wiring.sources.history import (
    PastReading,
    begin_of,
    of_the_second_node,
    open_past,
)
from mintscope.shell.wiring.storage.turn import reading_turn
from mintscope.shell.wiring.stores import Market

__all__ = ["gap_mending", "is_read", "mending_gaps", "settled"]


@asynccontextmanager
async def mending_gaps(config: Config, market: Market, clock: Clock) -> AsyncIterator[None]:
    """Mend gaps beside the block, over connections of its own."""
    if config.chain.source == "files":
        yield
        return
    async with (
        gap_mending(config, market, clock) as mending,
        running(mending.run, "gaps"),
    ):
        yield


@asynccontextmanager
async def gap_mending(config: Config, market: Market, clock: Clock) -> AsyncIterator[GapMending]:
    """Connect to the node that gaps are mended from: the second one, if there is one."""
    chain = config.chain
    calls = DailyCalls(market.gap_mends, clock, chain.gap_calls_per_day)
    pace = chain.history_calls_per_s
    node = of_the_second_node(config)
    async with open_past(node, market, pace, allow=calls.take) as reading:
        yield GapMending(
            mends=market.gap_mends,
            reader=market.reader,
            tracking=market.tracking,
            reading=market.history_reading,
            jobs=market.history_jobs,
            source=_Source(market, reading, chain.gap_rate_pools),
            turn=partial(reading_turn, config),
            plan=MendPlan(chain.gap_mend_after_s, chain.gap_attempts_max, chain.gap_calls_per_day),
            clock=clock,
        )


class _Source:
    """Implements GapSource."""

    def __init__(self, market: Market, reading: PastReading, rate_pools: Collection[str]) -> None:
        self._market = market
        self._reading = reading
        self._rate_pools = rate_pools

    async def traded(self, gap: Gap) -> Collection[Mint]:
        return await self._reading.traded(gap)

    async def begin(self, mint: Mint, since: UnixS) -> UnixS:
        return await begin_of(self._market, mint, since, again=True)

    async def survey(self, mint: Mint, from_time: UnixS) -> Survey:
        return await self._reading.survey(mint, from_time, rate_pools=self._rate_pools)

    async def read(self, mint: Mint, from_time: UnixS) -> int:
        return await self._reading.read(mint, from_time, lambda _what, _count: None)
