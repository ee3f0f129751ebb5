"""A backfill that an administrator requests is read from a node and joined while ingest runs."""

import asyncio
from pathlib import Path

import pytest
from pydantic import SecretStr
from test_late_mint import follow, kept, write

from mintscope.app.config.config import ChainConfig
from mintscope.app.maintenance import running
from mintscope.app.sources import backfill_queue
from mintscope.app.stores.stores import Market
from mintscope.history.backfill import BackfillJob, BackfillState, Stage
from mintscope.kit.clock import ManualClock
from mintscope.kit.primitives import UnixMs, UnixS
from mintscope.solana.blocks import WSOL
from mintscope_devchain.chain import Devchain
from support.oracles.devchain_blocks import NOW
from support.processes.listening import listening
from support.scenes.stores import config_in, market_in

pytestmark = pytest.mark.storm

HEAD = 100  # the number of the newest blocks that the late service has read
LOOK_S = 0.05
WAIT_S = 60


async def newest(market: Market) -> BackfillJob:
    return (await market.backfill_jobs.newest(1))[0]


async def reaches(market: Market, state: BackfillState, words: str = "") -> None:
    async with asyncio.timeout(WAIT_S):
        while (await newest(market)).state is not state or words not in (
            await newest(market)
        ).words:
            assert (await newest(market)).ended_at is None, (await newest(market)).words
            await asyncio.sleep(LOOK_S)


async def test_a_requested_backfill_is_estimated_read_and_joined(tmp_path: Path) -> None:
    chain = Devchain(seed=7, now=NOW, mints=2, history_days=0.05)
    for _ in range(60):
        chain.tick()
    mint = chain.world.listed[1].token.mint
    late, blocks = tmp_path / "late", tmp_path / "blocks.jsonl"
    made = write(chain, blocks)
    write(chain, blocks, leave_out=made - HEAD)
    async with market_in(late) as market, listening(chain.app) as url:
        await market.tracking.add(mint)
        await follow(blocks, market, [WSOL])
        clock = ManualClock(UnixMs(NOW))
        node = ChainConfig(rpc_url=SecretStr(url), history_calls_per_s=10_000)
        async with (
            backfill_queue(config_in(late, chain=node), market, clock) as backfills,
            running(backfills.run, "backfills"),
        ):
            since = UnixS(NOW // 1_000 - 10_000)  # before the chain began
            assert await market.backfill_jobs.ask(mint, since, UnixMs(NOW))
            await reaches(market, BackfillState.ESTIMATED)
            estimated = await newest(market)
            assert estimated.cost is not None
            assert estimated.cost.transactions > 100
            assert estimated.from_time > since, "the node reaches back no further"
            await market.backfill_jobs.confirm(estimated.ask_id)
            await reaches(market, BackfillState.READING, "All swaps are read")
            for _ in range(200):
                chain.tick()
            write(chain, blocks, leave_out=made - HEAD)
            await follow(blocks, market, [WSOL])
            await reaches(market, BackfillState.DONE)
        job = await market.history.one(mint)
        tracked = await market.tracking.one(mint)
    assert job is not None
    assert job.stage is Stage.JOINED

    assert len(kept(late, mint)["candles"]) > 10
    assert tracked is not None
    assert tracked.since_time == estimated.from_time
