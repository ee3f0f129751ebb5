"""`mintscope history` is ended by kill -9 many times; its backfill equals one without kills."""

import asyncio
import os
from collections.abc import Mapping
from contextlib import redirect_stdout
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from test_late_mint import HEAD, addresses, follow, kept, write

from mintscope.app.cli.history import Giving, backfill_token
from mintscope.app.stores.stores import Market
from mintscope.history.backfill import Kind, Stage
from mintscope.kit.primitives import Mint
from mintscope.solana.blocks import WSOL
from mintscope_devchain.chain import Devchain
from support.oracles.devchain_blocks import NOW
from support.processes.listening import listening
from support.processes.processes import start_process
from support.scenes.stores import market_in

CALLS_BEFORE_A_KILL: Final = [1, 3, 40, 150, 400]
ROUNDS_MAX: Final = 60
ROUND_S: Final = 300
LOOK_S: Final = 0.01


def run_command(environment: Mapping[str, str], giving: Mapping[str, Any]) -> None:
    """Run `mintscope history` in this process with the arguments *giving*, without its output."""
    with (
        pytest.MonkeyPatch.context() as patch,
        Path(os.devnull).open("w") as nowhere,
        redirect_stdout(nowhere),
    ):
        for name, value in environment.items():
            patch.setenv(name, value)
        backfill_token(Giving(**giving), None)


class Counting:
    """The node of *chain*, which counts its requests."""

    def __init__(self, chain: Devchain) -> None:
        self._app = chain.app
        self.calls = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.calls += scope["type"] == "http"
        await self._app(scope, receive, send)


async def run_and_kill(
    process: BaseProcess, node: Counting, calls: int, market: Market, mint: Mint
) -> Stage | None:
    """Kill *process* after *calls* requests, or when its backfill is ready to be joined.

    Return the stage of the backfill of *mint*; None if the backfill was not begun.
    """
    before = node.calls
    looked = before - 1
    try:
        async with asyncio.timeout(ROUND_S):
            while process.is_alive() and node.calls - before < calls:
                # A command that waits for the join sends no requests.
                if node.calls == looked:
                    job = await market.history.one(mint)
                    if job is not None and job.stage is Stage.READY:
                        break
                looked = node.calls
                await asyncio.sleep(LOOK_S)
    finally:
        assert process.exitcode is None, "the command ended before it was killed"
        process.kill()
        process.join()
    job = await market.history.one(mint)
    return None if job is None else job.stage


@pytest.mark.process
@pytest.mark.storm
@pytest.mark.timeout(900)
async def test_a_backfill_killed_many_times_equals_an_ingest_from_the_start(tmp_path: Path) -> None:
    chain = Devchain(seed=7, now=NOW, mints=3, history_days=0.1)
    for _ in range(60):
        chain.tick()
    mint = chain.world.listed[1].token.mint
    early, late, blocks = tmp_path / "early", tmp_path / "late", tmp_path / "blocks.jsonl"
    made = write(chain, blocks)
    write(chain, blocks, leave_out=made - HEAD)
    found = addresses(chain, mint)
    giving = {
        "mint": mint,
        "from_time": NOW // 1_000 - 10_000,  # before the chain began
        "pools": [address for address, kind in found.items() if kind is Kind.POOL],
        "rate_pools": [address for address, kind in found.items() if kind is Kind.RATE],
        "calls_per_s": 10_000,
        "yes": True,
    }
    random, node, kills, stage = Random(7), Counting(chain), 0, None
    async with market_in(late) as market, listening(node) as url:
        await market.tracking.add(mint)
        environment = {"MINTSCOPE_DATA_DIR": str(late), "MINTSCOPE_CHAIN__RPC_URL": url}
        while stage is not Stage.READY:
            assert kills < ROUNDS_MAX
            calls = random.choice(CALLS_BEFORE_A_KILL)
            process = start_process(run_command, environment, giving)
            stage = await run_and_kill(process, node, calls, market, mint)
            kills += 1
        for _ in range(200):
            chain.tick()
        write(chain, blocks, leave_out=made - HEAD)
        await follow(blocks, market, [WSOL])
        job = await market.history.one(mint)
    assert kills > 5
    assert job is not None
    assert job.stage is Stage.JOINED

    write(chain, blocks)
    async with market_in(early) as market:
        await follow(blocks, market, [WSOL, mint])

    assert len(kept(early, mint)["candles"]) > 100
    assert kept(late, mint) == kept(early, mint)
