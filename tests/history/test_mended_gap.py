"""The node withholds a block and delivers it later: ingest fills the gap by itself."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import SecretStr
from starlette.types import Receive, Scope, Send
from structlog.testing import capture_logs
from test_late_mint import HEAD, follow, report, write

from mintscope.app.config.config import ChainConfig
from mintscope.app.config.groups import Config
from mintscope.app.sources import gap_mending
from mintscope.app.stores.stores import Market
from mintscope.history.backfill import GapCounts, MendPlan, Stage
from mintscope.history.mending import SPENT, GapMending
from mintscope.kit.clock import ManualClock
from mintscope.kit.primitives import Mint, Slot, UnixMs, UnixS
from mintscope.kit.time import DAY_S, SECOND_MS
from mintscope.solana.blocks import WSOL, Gap
from mintscope_devchain.chain import Devchain
from support.oracles.devchain_blocks import NOW
from support.processes.listening import listening
from support.scenes.market_engines import MARKET_ENGINES, execute_in, market_of
from support.scenes.postgres import dsn_in

pytestmark = [pytest.mark.storm, pytest.mark.timeout(900)]

ROUNDS_MAX: Final = 10_000
SLOT_MS: Final = 400  # a minute of such slots has half the blocks of a minute at today's pace
STEP: Final = 50  # the number of blocks between two runs of ingest
SETTLED_SLOTS: Final = 150  # of this chain: a minute; the gap is older still, and final
LOOK_S: Final = 0.05
AFTER_S: Final = 300
CALLS: Final = 100_000
SKIPPED: Final = {"code": -32007, "message": "skipped"}
CANDLE: Final = "timeframe, bucket, open, high, low, close, buy_volume, sell_volume, count"
OF: Final = "WHERE mint = (SELECT id FROM mint WHERE address = '{0}')"
KEPT: Final = (
    f"SELECT {CANDLE} FROM candle {OF} ORDER BY timeframe, bucket",
    f"SELECT state, last_swap FROM state {OF}",
)


@pytest.fixture
def chain() -> Devchain:
    chain = Devchain(seed=7, now=NOW, mints=1, history_days=0.01, slot_ms=SLOT_MS)
    for _ in range(HEAD):
        chain.tick()
    return chain


class Withholding:
    """The node of *chain*, which does not deliver the block of *slot* until *gives* is true."""

    def __init__(self, chain: Devchain, slot: Slot) -> None:
        self._app = chain.app
        self._slot = slot
        self.gives = False
        self.calls = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        message = await receive()
        self.calls += 1
        call = json.loads(message["body"])
        if call["method"] == "getBlock" and call["params"][0] == self._slot and not self.gives:
            body = json.dumps({"jsonrpc": "2.0", "id": 1, "error": SKIPPED}).encode()
            headers = [(b"content-type", b"application/json")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": body})
            return

        async def again() -> Any:
            return message

        await self._app(scope, again, send)


@dataclass
class Scene:
    """A service with a gap of ten slots, whose node withholds a block in the middle of the gap."""

    engine: str
    folder: Path
    chain: Devchain
    node: Withholding
    gap: Gap
    clock: ManualClock

    @property
    def mints(self) -> list[Mint]:
        return [listed.token.mint for listed in self.chain.world.listed]

    def opened(self, name: str) -> Any:
        return market_of(self.engine, self.folder / name)

    async def go_on(self, market: Market) -> None:
        """Add blocks to the chain; ingest reads them and joins the backfills that are ready."""
        for _ in range(STEP):
            self.chain.tick()
        blocks = self.folder / "blocks.jsonl"
        write(self.chain, blocks)
        await follow(blocks, market, [WSOL, *self.mints], gap=self.gap)

    async def settle(self, market: Market) -> None:
        for _ in range(SETTLED_SLOTS // STEP):
            await self.go_on(market)
        assert await market.reader.gaps(10) == [self.gap]

    @asynccontextmanager
    async def mending(
        self, market: Market, calls_per_day: int = CALLS
    ) -> AsyncIterator[GapMending]:
        """Yield a GapMending, which reads missed slots from the node, configured as in ingest.

        calls_per_day   the most requests that it may send to the node in a day
        """
        pools = tuple(pool.address for pool in self.chain.world.sol_pools)
        async with listening(self.node) as url:
            chain = ChainConfig(
                rpc_url=SecretStr(url),
                history_calls_per_s=10_000,
                gap_mend_after_s=AFTER_S,
                gap_rate_pools=pools,
            ).model_copy(update={"gap_calls_per_day": calls_per_day})
            kept: dict[str, Any] = {"chain": chain, "data_dir": self.folder / "late"}
            if self.engine == "postgresql":
                kept["store"] = SecretStr(dsn_in(self.folder / "late"))
            async with gap_mending(Config().model_copy(update=kept), market, self.clock) as made:
                yield replace(made, pause=lambda _: asyncio.sleep(LOOK_S * 10))

    async def calls_of_the_backfill(self, mending: GapMending) -> int:
        """Return the estimated number of RPC requests for a backfill of the only mint."""
        since = await mending.source.begin(self.mints[0], UnixS(NOW // SECOND_MS))
        return (await mending.source.survey(self.mints[0], since)).cost.calls

    def later(self, seconds: float) -> None:
        self.clock.advance(round(seconds * SECOND_MS))

    async def mended(self, mending: GapMending, market: Market, *, calls_max: int = CALLS) -> bool:
        """Try once to fill a gap while ingest reads blocks; return whether a gap was due.

        The attempt is cancelled after *calls_max* requests to the node; then return False.
        """
        running = asyncio.create_task(mending.mend_one())
        for _ in range(ROUNDS_MAX):
            await asyncio.wait([running], timeout=LOOK_S)
            if running.done():
                return await running
            if self.node.calls >= calls_max:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
                return False
            jobs = [await market.history.one(mint) for mint in self.mints]
            if any(job is not None and job.stage is Stage.READY for job in jobs):
                await self.go_on(market)
        raise AssertionError("expected the attempt to end")

    async def expect_as_if_nothing_was_missed(self, market: Market) -> None:
        """Assert that rows and reports equal those of a service that had every block.

        The pressure is not compared.
        """
        late = [json.loads(await report(market, mint)) for mint in self.mints]
        async with self.opened("early") as early:
            await follow(self.folder / "blocks.jsonl", early, [WSOL, *self.mints])
            wanted = [json.loads(await report(early, mint)) for mint in self.mints]
        for one, other in zip(late, wanted, strict=True):
            del one["indicators"]["buySellPressure"], other["indicators"]["buySellPressure"]
            assert one == other
        for mint in self.mints:
            assert self.kept("late", mint) == self.kept("early", mint)
            assert self.kept("late", mint)[0]

    def kept(self, name: str, mint: Mint) -> list[list[tuple[Any, ...]]]:
        folder = self.folder / name
        return [execute_in(self.engine, folder, each.format(mint)) for each in KEPT]


@pytest.fixture(params=MARKET_ENGINES)
def scene(request: pytest.FixtureRequest, chain: Devchain, tmp_path: Path) -> Scene:
    missed = chain.blockstore.slots[-60:-50]
    gap = Gap(missed[0], missed[-1], "asked in vain for 15 s")
    for name in ("late", "early"):
        (tmp_path / name).mkdir()
    node = Withholding(chain, missed[4])
    return Scene(request.param, tmp_path, chain, node, gap, ManualClock(UnixMs(NOW)))


@pytest.mark.engine("postgresql")
async def test_a_gap_is_mended_bit_identically_once_its_block_arrives(scene: Scene) -> None:
    async with scene.opened("late") as market:
        await scene.settle(market)
        async with scene.mending(market) as mending:
            assert not await mending.mend_one(), "it was seen now"
            scene.later(AFTER_S)
            with capture_logs() as lines:
                assert await mending.mend_one()
            assert [line["event"] for line in lines] == ["gap_mending", "gap_not_mended"]
            assert lines[1]["again_in_s"] == 2 * AFTER_S
            (mend,) = await market.gap_mends.newest(10)
            assert (mend.attempts, mend.given_up_at) == (1, None)
            assert "no block at slot" in mend.words
            assert not await mending.mend_one(), "the next attempt is due later"

            scene.node.gives = True
            scene.later(2 * AFTER_S)
            with capture_logs() as lines:
                assert await scene.mended(mending, market)
            reported = [line["event"] for line in lines if line["event"].startswith("gap")]
            assert reported == ["gap_mending", "gap_mended"]
            assert await market.reader.gaps(10) == []
            assert not await mending.mend_one()
        await scene.expect_as_if_nothing_was_missed(market)


@pytest.mark.engine("sqlite")
async def test_mending_continues_after_kills_within_the_calls_of_a_day(
    scene: Scene,
) -> None:
    """A day allows 20 requests more than the backfill needs; reading blocks again costs some."""
    scene.node.gives = True
    async with scene.opened("late") as market:
        await scene.settle(market)
        async with scene.mending(market) as mending:
            calls = await scene.calls_of_the_backfill(mending)
        per_day = calls + 20
        kills = 0
        days = 1
        used = scene.node.calls
        scene.later(DAY_S)
        async with scene.mending(market, per_day) as mending:
            await mending.mend_one()
        scene.later(AFTER_S)
        for _ in range(30):
            begun = scene.node.calls
            kill_at = begun + 70 if kills < 3 else begun + CALLS
            async with scene.mending(market, per_day) as mending:
                is_over = await scene.mended(mending, market, calls_max=kill_at)
            if not is_over:
                kills += 1
                continue
            assert scene.node.calls - used <= days * per_day
            if not await market.gap_mends.newest(1):
                break
            (mend,) = await market.gap_mends.newest(1)
            assert (mend.words, mend.attempts) == (SPENT, 0)
            scene.later(DAY_S)
            days += 1
        assert await market.gap_mends.newest(1) == []
        assert kills == 3
        assert days >= 2
        await scene.expect_as_if_nothing_was_missed(market)


async def test_a_gap_whose_backfill_needs_more_calls_than_a_day_has_is_given_up(
    scene: Scene,
) -> None:
    scene.node.gives = True
    async with scene.opened("late") as market:
        await scene.settle(market)
        async with scene.mending(market) as mending:
            calls = await scene.calls_of_the_backfill(mending)
        scene.later(DAY_S)
        used = scene.node.calls
        async with scene.mending(market, calls - 1) as mending:
            await mending.mend_one()
            scene.later(AFTER_S)
            with capture_logs() as lines:
                assert await mending.mend_one()
            assert lines[-1]["event"] == "gap_given_up"
            assert lines[-1]["try_by_hand"] == "mintscope gaps fill"
            assert f"chain.gap_calls_per_day, {calls - 1}" in lines[-1]["reason"]
            assert scene.node.calls - used < calls
            assert await market.gap_mends.counts() == GapCounts(1, 1)
            assert await market.history.one(scene.mints[0]) is None


async def test_a_gap_whose_blocks_never_arrive_is_given_up(scene: Scene) -> None:
    async with scene.opened("late") as market:
        await scene.settle(market)
        before = [scene.kept("late", mint) for mint in scene.mints]
        async with scene.mending(market) as made:
            mending = replace(made, plan=MendPlan(AFTER_S, 3, CALLS))
            await mending.mend_one()
            for attempt in range(3):
                scene.later(AFTER_S * 2**attempt - 1)
                assert not await mending.mend_one()
                scene.later(1)
                with capture_logs() as lines:
                    assert await mending.mend_one()
            assert lines[-1]["event"] == "gap_given_up"
            scene.later(DAY_S)
            assert not await mending.mend_one()
            assert "mending it was given up" in (await market.reader.gaps(1))[0].reason
        assert [scene.kept("late", mint) for mint in scene.mints] == before
