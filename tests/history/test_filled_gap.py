"""`mintscope gaps fill` reads missed blocks from another node and folds them in order of slots."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import SecretStr
from starlette.types import ASGIApp, Receive, Scope, Send
from test_late_mint import HEAD, follow, kept, report, write

from mintscope.app.cli import history as command
from mintscope.app.cli.chain import Filling
from mintscope.app.config.config import ChainConfig
from mintscope.app.config.groups import Config
from mintscope.app.stores.stores import Market
from mintscope.history.backfill import ImportedCandle, Stage
from mintscope.kit.primitives import Mint, UnixS
from mintscope.kit.time import HOUR_S
from mintscope.market.timeframe import Timeframe
from mintscope.solana.blocks import WSOL, Gap
from mintscope_devchain.chain import Devchain
from support.oracles.devchain_blocks import NOW
from support.processes.listening import listening
from support.scenes.stores import market_in

pytestmark = [pytest.mark.storm, pytest.mark.timeout(900)]

ROUNDS_MAX: Final = 10_000
SLOT_MS: Final = 400  # a minute of such slots has half the blocks of a minute at today's pace
STEP: Final = 50  # the number of blocks between two runs of ingest
SETTLED_SLOTS: Final = 150  # of this chain: a minute; the gap is older still, and final
LOOK_S: Final = 0.05
BEFORE: Final = NOW // 1_000 - NOW // 1_000 % HOUR_S - HOUR_S  # the chain begins after it
SKIPPED: Final = {"error": {"code": -32007, "message": "skipped"}}


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Shorten the poll interval of the command to that of the tests, which create blocks at once.

    Each test also gets a working folder of its own: by default, the lock of backfills is in it.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "LOOK_S", LOOK_S)
    monkeypatch.setattr(command, "AGAIN_S", LOOK_S)


@pytest.fixture
def chain() -> Devchain:
    chain = Devchain(seed=7, now=NOW, mints=1, history_days=0.01, slot_ms=SLOT_MS)
    for _ in range(HEAD):
        chain.tick()
    return chain


class Except:
    """The node of *chain*, but calls of *method* get *answer*.

    first   the first parameter of these calls; None: any
    """

    def __init__(self, chain: Devchain, method: str, answer: Any, first: Any = None) -> None:
        self._app = chain.app
        self._method = method
        self._first = first
        self._answer = json.dumps({"jsonrpc": "2.0", "id": 1} | answer).encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        message = await receive()
        call = json.loads(message["body"])
        if call["method"] == self._method and self._first in (None, *call["params"][:1]):
            headers = [(b"content-type", b"application/json")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": self._answer})
            return

        async def again() -> Any:
            return message

        await self._app(scope, again, send)


@asynccontextmanager
async def filling(app: ASGIApp, chain: Devchain) -> AsyncIterator[Filling]:
    async with listening(app) as url:
        yield Filling(
            config=Config(chain=ChainConfig(rpc_url=SecretStr(url))),
            rate_pools=[pool.address for pool in chain.world.sol_pools],
            calls_per_s=10_000,
            yes=True,
        )


async def go_on(chain: Devchain, blocks: Path, market: Market, mints: list[Mint], gap: Gap) -> None:
    """Add blocks to *chain*; ingest reads them and joins the backfills that are ready."""
    for _ in range(STEP):
        chain.tick()
    write(chain, blocks)
    await follow(blocks, market, mints, gap=gap)


async def joins_imported(market: Market, mint: Mint) -> None:
    """Import five candles that are older than the recorded candles of *mint*, and join them."""
    candles = [ImportedCandle(UnixS(BEFORE - n * HOUR_S), 2, 3, 1, 2, 7) for n in range(5)]
    await market.imports.add(mint, Timeframe.H1, "a provider", candles)
    await joined(market)


async def joined(market: Market) -> None:
    while await market.history_join.join() is not None:
        pass


async def test_a_filled_gap_leaves_the_same_rows_and_reports_as_no_gap(
    chain: Devchain, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only the pressure may differ, while the gap is in the last quarter of an hour."""
    mints = [listed.token.mint for listed in chain.world.listed]
    blocks = tmp_path / "blocks.jsonl"
    missed = chain.blockstore.slots[-60:-50]
    gap = Gap(missed[0], missed[-1], "lost")
    everything = [WSOL, *mints]
    async with market_in(tmp_path / "late") as market:
        for _ in range(SETTLED_SLOTS // STEP):
            await go_on(chain, blocks, market, everything, gap)
        assert await market.reader.gaps(10) == [gap]
        await joins_imported(market, mints[0])
        async with filling(chain.app, chain) as fill:
            running = asyncio.create_task(fill.run(market))
            for _ in range(ROUNDS_MAX):
                await asyncio.wait([running], timeout=LOOK_S)
                if running.done():
                    break
                jobs = [await market.history.one(mint) for mint in mints]
                if any(job is not None and job.stage is Stage.READY for job in jobs):
                    await go_on(chain, blocks, market, everything, gap)
            assert await running, capsys.readouterr()
        assert await market.reader.gaps(10) == []
        await joined(market)
        late_reports = [json.loads(await report(market, mint)) for mint in mints]

    async with market_in(tmp_path / "early") as market:
        await follow(blocks, market, everything)
        await joins_imported(market, mints[0])
        early_reports = [json.loads(await report(market, mint)) for mint in mints]
    for late, early in zip(late_reports, early_reports, strict=True):
        late_pressure = late["indicators"].pop("buySellPressure")
        assert late_pressure != early["indicators"].pop("buySellPressure")
        assert late == early
    for mint in mints:
        assert kept(tmp_path / "late", mint) == kept(tmp_path / "early", mint)
        assert kept(tmp_path / "late", mint)["candles"]


async def missing(chain: Devchain, blocks: Path, market: Market) -> tuple[Mint, Gap]:
    """Ingest all blocks of *chain* but ten; return its only mint, and the gap of these ten."""
    missed = chain.blockstore.slots[-60:-50]
    mint, gap = chain.world.listed[0].token.mint, Gap(missed[0], missed[-1], "lost")
    for _ in range(SETTLED_SLOTS // STEP):
        await go_on(chain, blocks, market, [WSOL, mint], gap)
    return mint, gap


@pytest.mark.parametrize("offset", [0, 5, 9])
async def test_a_gap_stays_unchanged_if_the_other_node_lacks_a_block_too(
    offset: int, chain: Devchain, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slot = chain.blockstore.slots[-60:-50][offset]
    async with market_in(tmp_path) as market:
        mint, gap = await missing(chain, tmp_path / "blocks.jsonl", market)
        before = kept(tmp_path, mint)
        async with filling(Except(chain, "getBlock", SKIPPED, slot), chain) as fill:
            assert not await fill.run(market)
        assert f"no block at slot {slot}" in capsys.readouterr().out
        assert await market.history.one(mint) is None
        assert await market.reader.gaps(10) == [gap]

    assert kept(tmp_path, mint) == before


async def test_a_token_is_unchanged_if_the_node_does_not_reach_its_first_candle(
    chain: Devchain, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with market_in(tmp_path) as market:
        mint, gap = await missing(chain, tmp_path / "blocks.jsonl", market)
        before = kept(tmp_path, mint)
        oldest = {"result": chain.blockstore.slots[-100]}
        async with filling(Except(chain, "getFirstAvailableBlock", oldest), chain) as fill:
            assert not await fill.run(market)
        assert "which would be lost" in capsys.readouterr().err
        assert await market.reader.gaps(10) == [gap]

    assert kept(tmp_path, mint) == before


async def test_a_gap_of_the_current_minute_is_not_filled(
    chain: Devchain, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = tmp_path / "blocks.jsonl"
    missed = chain.blockstore.slots[-10]
    async with market_in(tmp_path) as market:
        await go_on(chain, blocks, market, [WSOL], Gap(missed, missed, "lost"))
        async with filling(chain.app, chain) as fill:
            assert not await fill.run(market)

    assert "too new to be filled" in capsys.readouterr().out
