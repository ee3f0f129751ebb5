"""Transactions that a node lists but never returns are counted, and the others are read."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from test_late_mint import HEAD, follow, write
from typing_extensions import override

from mintscope.app.config.groups import Config
from mintscope.app.sources import BackfillReading, left_out
from mintscope.app.stores.stores import Market
from mintscope.history.backfill import IncompleteBackfill, Kind, Stage
from mintscope.history.source import PacedNode
from mintscope.kit.clock import SystemClock
from mintscope.kit.primitives import UnixS
from mintscope.solana.blocks import WSOL, Endpoint
from mintscope_devchain.chain import Devchain
from support.oracles.devchain_blocks import NOW
from support.scenes.stores import market_in


class Forgetful(httpx.AsyncBaseTransport):
    """A node that returns null for the first *lost_max* transactions that are requested."""

    def __init__(self, chain: Devchain, lost_max: int) -> None:
        self._chain = httpx.ASGITransport(chain.app)
        self.lost_max = lost_max
        self.asked: dict[str, int] = {}

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        call = json.loads(await request.aread())
        if call["method"] == "getTransaction":
            signature = call["params"][0]
            if signature in self.asked or len(self.asked) < self.lost_max:
                self.asked[signature] = self.asked.get(signature, 0) + 1
                return httpx.Response(200, json={"jsonrpc": "2.0", "id": 1, "result": None})
        return await self._chain.handle_async_request(request)


class Blockless(httpx.AsyncBaseTransport):
    """A node that answers *said* to each request for a block until *gives* is true."""

    def __init__(self, chain: Devchain, said: dict[str, Any]) -> None:
        self._chain = httpx.ASGITransport(chain.app)
        self._answer = {"jsonrpc": "2.0", "id": 1} | said
        self.gives = False

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        call = json.loads(await request.aread())
        if call["method"] == "getBlock" and not self.gives:
            return httpx.Response(200, json=self._answer)
        return await self._chain.handle_async_request(request)


def progress(_what: str, _count: int) -> None:
    """Ignore the progress."""


async def begun(
    chain: Devchain, market: Market, transport: httpx.AsyncBaseTransport
) -> BackfillReading:
    """Begin a backfill of the only mint of *chain*, with all its pools; return its reader."""
    listed = chain.world.listed[0]
    addresses = {pool.address: Kind.RATE for pool in chain.world.sol_pools}
    addresses |= {pool.address: Kind.POOL for pool in listed.pools}
    node = PacedNode(
        Endpoint(url="http://devchain"), clock=SystemClock(), calls_per_s=1e6, transport=transport
    )
    await market.tracking.add(listed.token.mint)
    await market.history.begin(listed.token.mint, UnixS(0), addresses)
    return BackfillReading(Config(), market, node, 1e6)


async def test_missing_transactions_are_counted_and_the_others_are_read(
    tmp_path: Path,
) -> None:
    chain = Devchain(seed=7, now=NOW, mints=1, history_days=0.01)
    mint = chain.world.listed[0].token.mint
    forgetful = Forgetful(chain, lost_max=3)
    async with market_in(tmp_path) as market:
        reading = await begun(chain, market, forgetful)
        with pytest.raises(IncompleteBackfill, match="3 transactions"):
            await reading.read(mint, UnixS(0), progress)
        assert list(forgetful.asked.values()) == [3, 3, 3]
        job = await market.history.one(mint)
        assert job is not None
        assert (job.stage, job.missing) == (Stage.READING, 3)

        missing = await reading.read(mint, UnixS(0), progress, incomplete=True)
        assert list(forgetful.asked.values()) == [6, 6, 6]
        job = await market.history.one(mint)

    assert missing == 3
    assert job is not None
    assert (job.stage, job.listed - job.read) == (Stage.READY, 3)


async def test_a_backfill_is_complete_once_the_node_returns_missing_transactions(
    tmp_path: Path,
) -> None:
    chain = Devchain(seed=7, now=NOW, mints=1, history_days=0.01)
    mint = chain.world.listed[0].token.mint
    forgetful = Forgetful(chain, lost_max=2)
    async with market_in(tmp_path) as market:
        reading = await begun(chain, market, forgetful)
        with pytest.raises(IncompleteBackfill):
            await reading.read(mint, UnixS(0), progress)
        forgetful.asked.clear()
        forgetful.lost_max = 0
        assert await reading.read(mint, UnixS(0), progress) == 0
        job = await market.history.one(mint)

    assert job is not None
    assert (job.stage, job.missing) == (Stage.READY, 0)


@pytest.mark.parametrize(
    "said",
    [
        *({"error": {"code": -code, "message": "no"}} for code in (32001, 32004, 32007, 32009)),
        {"error": {"code": -32014, "message": "no"}},
        {"result": None},
    ],
)
async def test_transactions_of_a_block_that_the_node_lacks_count_as_missing(
    said: dict[str, Any], tmp_path: Path
) -> None:
    """The order of the transactions is only in the block, and is not guessed."""
    chain = Devchain(seed=7, now=NOW, mints=1, history_days=0.01)
    mint = chain.world.listed[0].token.mint
    blockless = Blockless(chain, said)
    async with market_in(tmp_path) as market:
        reading = await begun(chain, market, blockless)
        with pytest.raises(IncompleteBackfill):
            await reading.read(mint, UnixS(0), progress)
        job = await market.history.one(mint)
        assert job is not None
        assert job.stage is Stage.READING
        assert job.missing > 0

        blockless.gives = True
        assert await reading.read(mint, UnixS(0), progress) == 0


def test_the_message_states_the_number_and_effect_of_missing_transactions() -> None:
    assert left_out(1).startswith("the node did not give 1 transaction that it lists")
    assert left_out(12).startswith("the node did not give 12 transactions that it lists")
    assert left_out(12).endswith("candles would lack their swaps")


async def test_the_number_of_missing_transactions_is_kept_after_the_join(
    tmp_path: Path,
) -> None:
    chain = Devchain(seed=7, now=NOW, mints=1, history_days=0.01)
    mint, blocks = chain.world.listed[0].token.mint, tmp_path / "blocks.jsonl"
    async with market_in(tmp_path) as market:
        reading = await begun(chain, market, Forgetful(chain, lost_max=3))
        write(chain, blocks)
        await follow(blocks, market, [WSOL])
        await reading.read(mint, UnixS(0), progress, incomplete=True)
        for _ in range(HEAD):
            chain.tick()
        write(chain, blocks)
        await follow(blocks, market, [WSOL])
        job = await market.history.one(mint)

    assert job is not None
    assert (job.stage, job.missing) == (Stage.JOINED, 3)
