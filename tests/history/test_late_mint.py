"""A mint that is tracked late and then backfilled equals a mint that was tracked from the start."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final
from weakref import WeakKeyDictionary

import apsw
import httpx
import pytest
from typing_extensions import override

from mintscope.app.stores.folder import MARKET_FILE
from mintscope.app.stores.stores import Market
from mintscope.dex.decode import decode_block
from mintscope.history import source as history_node
from mintscope.history import source as history_reader
from mintscope.history.backfill import Kind, Stage
from mintscope.history.source import HistoryReader, PacedNode, UnknownSignature
from mintscope.history.worker import fold_backfill
from mintscope.ingest.pipeline import Ingest
from mintscope.kit.clock import ManualClock, SystemClock
from mintscope.kit.primitives import Mint, UnixMs, UnixS
from mintscope.market.engine.engine import LiveMarket
from mintscope.market.follow.tailer import LogTailer
from mintscope.solana.blocks import WSOL, Block, Endpoint, Gap, Source, Tip, Update
from mintscope.solana.files import FileSource
from mintscope_devchain.chain import Devchain, lines
from support.oracles.devchain_blocks import NOW
from support.scenes.stores import market_in

pytestmark = pytest.mark.storm  # days of a chain, read again and again

LATE = 60  # new blocks between the backfill and the next run of ingest
RATE_WINDOW_SLOTS = 400
ATTEMPTS = 5  # at one request
HEAD = 100  # the number of the newest blocks that the late service has read
WRITTEN: Final = WeakKeyDictionary[Devchain, list[bytes]]()  # without forks, no line changes


@dataclass
class Leaky:
    """The source *source*, but it delivers *gap* in place of the blocks inside it."""

    source: Source
    gap: Gap

    async def genesis_hash(self) -> str | None:
        return await self.source.genesis_hash()

    async def updates(self, after: Tip | None) -> AsyncIterator[Update]:
        async for update in self.source.updates(after):
            if not isinstance(update, Block) or not self.gap.first <= update.slot <= self.gap.last:
                yield update
            elif update.slot == self.gap.first:
                yield self.gap


async def follow(
    blocks: Path, market: Market, mints: Sequence[Mint], *, gap: Gap | None = None
) -> None:
    files = FileSource([blocks])
    ingest = Ingest(
        source=files if gap is None else Leaky(files, gap),
        store=market.store,
        decode=decode_block,
        clock=SystemClock(),
        mints=mints,
        history=market.history_join,
    )
    await asyncio.wait_for(ingest.run(), 120)


def kept(folder: Path, mint: Mint) -> dict[str, Any]:
    """Return the stored candles and state of *mint* from `market.sqlite` in *folder*."""
    db = apsw.Connection(str(folder / MARKET_FILE), flags=apsw.SQLITE_OPEN_READONLY)
    of = "WHERE mint = (SELECT id FROM mint WHERE address = ?)"
    found = {
        "candles": list(
            db.execute(
                "SELECT timeframe, bucket, open, high, low, close, buy_volume, sell_volume, count"
                f" FROM candle {of} ORDER BY timeframe, bucket",
                (mint,),
            )
        ),
        "state": list(db.execute(f"SELECT state, last_swap FROM state {of}", (mint,))),
    }
    db.close()
    return found


async def report(market: Market, mint: Mint) -> bytes:
    follower = LogTailer(market.reader, LiveMarket(3), ManualClock(UnixMs(NOW)))
    await follower.catch_up()
    return (await follower.read(mint)).body


async def no_pause(_: float) -> None:
    """Replace a pause: return at once."""


def reader(chain: Devchain, market: Market, **more: Any) -> HistoryReader:
    transport = more.pop("transport", httpx.ASGITransport(chain.app))
    node = PacedNode(
        Endpoint(url="http://devchain"),
        clock=SystemClock(),
        calls_per_s=1e6,
        transport=transport,
        sleep=more.pop("sleep", no_pause),
    )
    return HistoryReader(
        node,
        market.history,
        lambda transactions: decode_block(transactions).swaps,
        in_flight=4,
        progress=lambda _what, _count: None,
    )


@pytest.fixture
def chain() -> Devchain:
    chain = Devchain(seed=7, now=NOW, mints=3, history_days=0.07)
    for _ in range(60):
        chain.tick()
    return chain


def write(chain: Devchain, path: Path, *, leave_out: int = 0) -> int:
    """Write the blocks of *chain* to *path*, without the *leave_out* oldest blocks.

    Return the number of all blocks of *chain*.
    """
    written = WRITTEN.setdefault(chain, [])
    written += lines(chain, len(chain.blockstore.slots), after=len(written))
    path.write_bytes(b"".join(written[leave_out:]))
    return len(written)


def addresses(chain: Devchain, mint: Mint) -> dict[str, Kind]:
    pools = [pool for each in chain.world.listed if each.token.mint == mint for pool in each.pools]
    rates = {pool.address: Kind.RATE for pool in chain.world.sol_pools}
    return rates | {pool.address: Kind.POOL for pool in pools}


class Killed(Exception):
    """Raised in place of a call, as if the process was killed at this call."""


class MortalTransport(httpx.AsyncBaseTransport):
    """Raises Killed after *calls_left* requests."""

    def __init__(self, chain: Devchain, calls_left: int) -> None:
        self._chain = httpx.ASGITransport(chain.app)
        self._calls_left = calls_left

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self._calls_left == 0:
            raise Killed
        self._calls_left -= 1
        return await self._chain.handle_async_request(request)


class ForgetfulTransport(httpx.AsyncBaseTransport):
    """A node that does not find the last transaction of the first page of a history.

    Only the first *times* requests for the history before this transaction fail.
    """

    def __init__(self, chain: Devchain, times: int) -> None:
        self._chain = httpx.ASGITransport(chain.app)
        self._times = times
        self.forgotten = ""

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        asked = json.loads(await request.aread())
        before = asked["params"][-1].get("before") if len(asked["params"]) > 1 else None
        self.forgotten = self.forgotten or before or ""
        if before and before == self.forgotten and self._times:
            self._times -= 1
            error = {"code": -32020, "message": f"Transaction {before} not found"}
            return httpx.Response(200, json={"jsonrpc": "2.0", "id": 1, "error": error})
        return await self._chain.handle_async_request(request)


async def test_a_list_of_transactions_is_read_again_if_its_next_page_is_not_found(
    chain: Devchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_reader, "LINES_MAX", 100)
    monkeypatch.setattr(history_node, "LINES_MAX", 100)
    mint = chain.world.listed[0].token.mint
    listed = []
    async with market_in(tmp_path) as market:
        await market.tracking.add(mint)
        for times in (0, ATTEMPTS):
            await market.history.begin(mint, UnixS(0), addresses(chain, mint))
            transport = ForgetfulTransport(chain, times)
            await reader(chain, market, transport=transport).round(mint, UnixS(0))
            assert transport.forgotten
            job = await market.history.one(mint)
            assert job is not None
            listed.append((job.listed, job.read, job.missing))
        assert listed[0] == listed[1]
        await market.history.begin(mint, UnixS(0), addresses(chain, mint))
        transport = ForgetfulTransport(chain, 2 * ATTEMPTS)
        with pytest.raises(UnknownSignature):
            await reader(chain, market, transport=transport).round(mint, UnixS(0))


async def read_at_once(chain: Devchain, folder: Path, mint: Mint) -> None:
    async with market_in(folder) as market:
        await market.history.begin(mint, UnixS(0), addresses(chain, mint))
        await reader(chain, market).round(mint, UnixS(0))
        await fold_backfill(market.history, mint)


async def read_cut_off(chain: Devchain, folder: Path, mint: Mint) -> None:
    """Read a backfill of *mint* through many kills of the process, while the chain grows."""
    random = Random(7)
    async with market_in(folder) as market:
        await market.history.begin(mint, UnixS(0), addresses(chain, mint))
    kills, is_read = 0, False
    while not is_read:
        transport = MortalTransport(chain, random.choice([0, 1, 2, 60, 120, 200]))
        async with market_in(folder) as market:
            try:
                await reader(chain, market, transport=transport).round(mint, UnixS(0))
                is_read = True
            except Killed:
                kills += 1
                chain.tick()
    assert kills > 5
    async with market_in(folder) as market:
        await fold_backfill(market.history, mint)


@pytest.mark.parametrize(
    ("read", "number"),
    [(read_at_once, 0), (read_at_once, 1), (read_at_once, 2), (read_cut_off, 1)],
)
async def test_a_backfilled_mint_equals_a_mint_tracked_from_the_start(
    read: Callable[[Devchain, Path, Mint], Awaitable[None]],
    number: int,
    chain: Devchain,
    tmp_path: Path,
) -> None:
    mint = chain.world.listed[number].token.mint
    early, late, blocks = tmp_path / "early", tmp_path / "late", tmp_path / "blocks.jsonl"
    left_out = write(chain, blocks) - HEAD
    write(chain, blocks, leave_out=left_out)
    async with market_in(late) as market:
        await follow(blocks, market, [WSOL])
        await market.tracking.add(mint)
        for _ in range(50):
            chain.tick()
        write(chain, blocks, leave_out=left_out)
        await follow(blocks, market, [WSOL])
    await read(chain, late, mint)
    for _ in range(LATE):
        chain.tick()
    write(chain, blocks, leave_out=left_out)
    async with market_in(late) as market:
        await follow(blocks, market, [WSOL])
        job = await market.history.one(mint)
        assert job is not None
        assert job.stage is Stage.JOINED
        late_report = await report(market, mint)

    write(chain, blocks)
    async with market_in(early) as market:
        await follow(blocks, market, [WSOL, mint])
        early_report = await report(market, mint)

    assert len(kept(early, mint)["candles"]) > 100
    assert kept(late, mint) == kept(early, mint)
    assert late_report == early_report


async def test_a_gap_is_filled_if_its_token_is_tracked_again_and_backfilled(
    chain: Devchain, tmp_path: Path
) -> None:
    mint = chain.world.listed[0].token.mint
    early, late, blocks = tmp_path / "early", tmp_path / "late", tmp_path / "blocks.jsonl"
    made = write(chain, blocks)
    missed = chain.blockstore.slots[-70:-50]
    gap = Gap(missed[0], missed[-1], "lost")

    async with market_in(late) as market:
        write(chain, blocks, leave_out=made - HEAD)
        await follow(blocks, market, [WSOL, mint], gap=gap)
        assert await market.reader.gaps(10) == [gap]
        await market.tracking.remove(mint)
        await market.tracking.add(mint)
        for _ in range(RATE_WINDOW_SLOTS):  # the gap counts in the rate of SOL for a minute
            chain.tick()
        write(chain, blocks, leave_out=made - HEAD)
        await follow(blocks, market, [WSOL], gap=gap)
        await market.history.begin(mint, UnixS(0), addresses(chain, mint))
        await reader(chain, market).round(mint, UnixS(0))
        await fold_backfill(market.history, mint)
        for _ in range(LATE):
            chain.tick()
        write(chain, blocks, leave_out=made - HEAD)
        await follow(blocks, market, [WSOL], gap=gap)

    write(chain, blocks)
    async with market_in(early) as market:
        await follow(blocks, market, [WSOL, mint])

    assert kept(late, mint) == kept(early, mint)


async def test_a_backfill_that_ends_before_the_log_begins_is_continued(
    chain: Devchain, tmp_path: Path
) -> None:
    mint = chain.world.listed[0].token.mint
    blocks = tmp_path / "blocks.jsonl"
    async with market_in(tmp_path) as market:
        await market.tracking.add(mint)
        await market.history.begin(mint, UnixS(0), addresses(chain, mint))
        await reader(chain, market).round(mint, UnixS(0))
        await fold_backfill(market.history, mint)
        made = len(chain.blockstore.slots)
        for _ in range(60):
            chain.tick()
        write(chain, blocks, leave_out=made)

        await follow(blocks, market, [WSOL])

        job = await market.history.one(mint)
        assert job is not None
        assert job.stage is Stage.READING
        assert kept(tmp_path, mint)["candles"] != []
