"""Every price has its evidence, from blocks through ingest to reports, batches and streams."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from typing_extensions import override

from mintscope.app.stores.market import Market
from mintscope.dex.outcome import Swap
from mintscope.ingest.pipeline import Ingest
from mintscope.kit.clock import ManualClock
from mintscope.kit.primitives import Mint, Slot, UnixMs
from mintscope.market.engine.engine import LiveMarket
from mintscope.market.follow.list_cache import ListCache
from mintscope.market.follow.tailer import LogTailer, look_again_soon
from mintscope.market.screening.listed import ListQuestion
from mintscope.market.updates import changes, update_of
from mintscope.solana.blocks import USDC, WSOL, Block, Source
from support.fakes.made_chain import START, ListSource, block, decode_made, sol_sale, swap
from support.scenes.engine import is_postgresql
from support.scenes.market_engines import market_of
from support.scenes.service import Service, bearer, running_service

TOKEN: Final = Mint("JUPyiwrYJFskUPiHa7hkeR8VUtAeFoSYbKedZNsDvCN")
DEPTH: Final = 250_000
EVERY_S: Final = 20
MINUTES: Final = 15


def trade(
    usd: float,
    *,
    number: int,
    pool: str = "deep",
    depth: int = DEPTH,
    tokens: int = 10,
    **more: Any,
) -> Swap:
    """Return a purchase that leaves *depth* USD in *pool*."""
    quote = int(tokens * usd * 10**6)
    made = swap(more.get("mint", TOKEN), USDC, base_amount=tokens * 10**6, quote_amount=quote)
    signer = f"signer {number % 5} of {pool}"
    return made._replace(pool=pool, signer=signer, in_left=depth * 10**6)


def chain(minutes: int = MINUTES, **more: Any) -> list[Block]:
    """Return blocks in which SOL and TOKEN trade, the latter at 2 USD."""
    blocks: list[Block] = []
    for number in range(minutes * 60 // EVERY_S):
        swaps = [sol_sale(150.0), trade(2.0, number=number, **more)]
        add(blocks, swaps, after_s=EVERY_S)
    return blocks


def add(blocks: list[Block], swaps: Sequence[Swap], *, after_s: int, fork: str = "") -> None:
    parent = blocks[-1] if blocks else None
    slot = 100 if parent is None else parent.slot + 1
    time = START if parent is None or parent.time is None else parent.time + after_s
    blocks.append(block(slot, parent, swaps, time=time, fork=fork))


class Followed:
    """A market into which a test ingests blocks, and live reports that follow its log."""

    def __init__(self, market: Market) -> None:
        self.market = market
        self.clock = ManualClock(UnixMs(START * 1000))
        self.live = LiveMarket(8)
        self.follower = LogTailer(market.reader, self.live, self.clock)

    async def ingest(self, source: Source) -> None:
        ingest = Ingest(
            source=source,
            store=self.market.store,
            decode=decode_made,
            clock=self.clock,
            mints=[WSOL, TOKEN],
        )
        await asyncio.wait_for(ingest.run(), 60)
        await self.follower.catch_up()
        now_s = self.live.time
        assert now_s is not None
        self.clock.step(now_s * 1000 - self.clock.now())

    async def again(self) -> LogTailer:
        """Return a log tailer that starts now."""
        other = LogTailer(self.market.reader, LiveMarket(8), self.clock)
        await other.catch_up()
        return other


@asynccontextmanager
async def followed(folder: Path) -> AsyncIterator[Followed]:
    engine = "postgresql" if is_postgresql() else "sqlite"
    async with market_of(engine, folder) as market:
        yield Followed(market)


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Followed]:
    async with followed(tmp_path) as scene:
        yield scene


@asynccontextmanager
async def served(scene: Followed, folder: Path, **options: Any) -> AsyncIterator[Service]:
    async with running_service(
        folder, clock=scene.clock, reports=scene.follower, **options
    ) as service:
        yield service


async def price_of(service: Service) -> tuple[dict[str, Any], str]:
    """Buy the report of TOKEN; return its price, and the header X-Data-Status."""
    headers = bearer(await service.issue(1))
    response = await service.client.get(f"/v1/token/{TOKEN}", headers=headers)
    assert response.status_code == 200, response.text
    return dict(response.json()["data"]["price"]), response.headers["x-data-status"]


async def test_a_report_has_the_evidence_for_its_price(scene: Followed, tmp_path: Path) -> None:
    blocks = chain()
    private = [
        trade(40.0, number=number, pool="private", depth=50, tokens=30) for number in range(3)
    ]
    add(blocks, [sol_sale(150.0), *private], after_s=10)
    await scene.ingest(ListSource(blocks))

    async with served(scene, tmp_path) as service:
        price, status = await price_of(service)
    share = price.pop("rejectedShareH1")
    assert price == {
        "usd": 2.0, "sol": pytest.approx(2 / 150), "pool": "deep", "ageMs": 10_000,
        "liquidityUsd": float(DEPTH), "pools": 1, "confidence": "high",
    }  # fmt: skip
    honest, rejected = 45 * 10 * 2.0, 3 * 30 * 40.0
    assert share == pytest.approx(rejected / (honest + rejected))
    assert status == "live"


@pytest.mark.parametrize(("depth", "expected"), [(DEPTH, "high"), (5_000, "medium"), (500, "low")])
async def test_confidence_follows_the_liquidity_of_the_pool(
    scene: Followed, tmp_path: Path, depth: int, expected: str
) -> None:
    await scene.ingest(ListSource(chain(depth=depth)))
    async with served(scene, tmp_path) as service:
        price, _ = await price_of(service)
    assert (price["confidence"], price["liquidityUsd"]) == (expected, float(depth))


async def test_confidence_is_low_in_the_first_ten_minutes(scene: Followed, tmp_path: Path) -> None:
    await scene.ingest(ListSource(chain(minutes=9)))
    async with served(scene, tmp_path) as service:
        price, _ = await price_of(service)
    assert (price["confidence"], price["pools"]) == ("low", 1)


async def test_a_token_that_stops_trading_is_idle_and_loses_confidence(
    scene: Followed, tmp_path: Path
) -> None:
    blocks, seen = chain(), []
    await scene.ingest(ListSource(blocks))
    async with served(scene, tmp_path) as service:
        for after_s in (300, 1, 3_299, 1, 3 * 86_400):
            add(blocks, [sol_sale(150.0)], after_s=after_s)
            await scene.ingest(ListSource(blocks))
            price, status = await price_of(service)
            seen.append((price["ageMs"], status, price["confidence"]))
            assert (price["usd"], price["liquidityUsd"]) == (2.0, float(DEPTH))
    assert seen == [
        (300_000, "live", "high"),
        (301_000, "idle", "medium"),
        (3_600_000, "idle", "medium"),
        (3_601_000, "idle", "low"),
        ((3_601 + 3 * 86_400) * 1000, "idle", "low"),
    ]


async def test_a_batch_and_a_stream_have_the_price_of_the_report(
    scene: Followed, tmp_path: Path
) -> None:
    await scene.ingest(ListSource(chain()))
    async with served(scene, tmp_path) as service:
        price, _ = await price_of(service)
        response = await service.client.post(
            "/v1/tokens/batch",
            json={"mints": [TOKEN]},
            headers=bearer(await service.issue(1)),
        )
    (line,) = response.json()["data"]["results"]
    assert line["report"]["price"] == price
    reported = scene.live.read(TOKEN)  # as streams send it
    update = update_of(reported, Slot(1), changes(reported, reported))
    assert msgspec.to_builtins(update.price) == price


def line_of(lister: ListCache) -> dict[str, Any]:
    """Return the price fields of TOKEN in the list of all tokens."""
    page = lister.newest().page(ListQuestion(among=[TOKEN], limit=1))
    return dict(msgspec.to_builtins(page.lines[0].price))


async def test_the_list_has_the_price_of_the_report(scene: Followed) -> None:
    def begun() -> ListCache:
        return ListCache(scene.market.lists, scene.clock, wait=look_again_soon)

    blocks = chain()
    await scene.ingest(ListSource(blocks))
    lister = begun()
    await lister.refresh()
    assert line_of(lister)["liquidityUsd"] == DEPTH
    for _ in range(3):
        private = [
            trade(40.0, number=number, pool="private", depth=50, tokens=30) for number in range(3)
        ]
        add(blocks, [sol_sale(150.0), *private], after_s=10)
        add(blocks, [sol_sale(150.0), trade(2.0, number=1, depth=2_000)], after_s=1)
        add(blocks, [sol_sale(150.0)], after_s=40)
        await scene.ingest(ListSource(blocks))
        other = begun()
        for each in (lister, other):
            await each.refresh()
            await scene.follower.read(TOKEN)
            assert line_of(each) == msgspec.to_builtins(scene.live.read(TOKEN).price)
    assert line_of(lister)["confidence"] == "medium"
    assert line_of(lister)["ageMs"] == 40_000


async def test_a_restarted_log_tailer_reads_the_same_report_after_a_fork(scene: Followed) -> None:
    blocks = chain()
    await scene.ingest(ListSource(blocks, final_every=10))
    before = await scene.follower.read(TOKEN)

    forked = list(blocks)
    dead = [trade(2.0 + n / 100, number=n, pool=f"pool {n}", tokens=10**4) for n in range(4)]
    add(forked, dead, after_s=EVERY_S)
    await scene.ingest(Unfinal(forked))
    meanwhile = await scene.follower.read(TOKEN)
    assert meanwhile.tag != before.tag
    assert meanwhile.body == (await (await scene.again()).read(TOKEN)).body

    add(blocks, [trade(2.0, number=3)], after_s=EVERY_S, fork="'")
    add(blocks, [trade(2.0, number=4)], after_s=EVERY_S)
    await scene.ingest(Unfinal(blocks))
    after = await scene.follower.read(TOKEN)
    assert after.body == (await (await scene.again()).read(TOKEN)).body
    assert b'"pool":"deep"' in after.body
    assert b'"rejectedShareH1":0.0' in after.body


class Unfinal(ListSource):
    """A list of blocks none of which is final."""

    @override
    async def updates(self, after: Any) -> AsyncIterator[Any]:
        async for update in super().updates(after):
            if isinstance(update, Block):
                yield update
