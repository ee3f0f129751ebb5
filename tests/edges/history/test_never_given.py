"""Transactions that a node lists and never gives: they are counted, and the rest is read."""

import json
from pathlib import Path

import httpx
from typing_extensions import override

from mintscope.base.clock import SystemClock
from mintscope.base.primitives import UnixS
from mintscope.base.solana import Endpoint
from mintscope.core.market.history.store import Kind, Stage
from mintscope.devchain.chain import Devchain
from mintscope.edges.sources.history.node import PacedNode
from mintscope.shell.cli.history.command import left_out
from mintscope.shell.config.config import Config
from mintscope.shell.wiring.sources.history import PastReading
from support.oracles.devchain_blocks import NOW
from support.scenes.stores import market_in


class Forgetful(httpx.AsyncBaseTransport):
    """Answers null whenever it is asked for one of the first *lost_max* transactions."""

    def __init__(self, chain: Devchain, lost_max: int) -> None:
        self._chain = httpx.ASGITransport(chain.app)
        self._lost_max = lost_max
        self.asked: dict[str, int] = {}

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        call = json.loads(await request.aread())
        if call["method"] == "getTransaction":
            signature = call["params"][0]
            if signature in self.asked or len(self.asked) < self._lost_max:
                self.asked[signature] = self.asked.get(signature, 0) + 1
                return httpx.Response(200, json={"jsonrpc": "2.0", "id": 1, "result": None})
        return await self._chain.handle_async_request(request)


async def test_what_the_node_never_gives_is_counted_and_the_rest_is_read(
    tmp_path: Path,
) -> None:
    chain = Devchain(seed=7, now=NOW, mints=1, history_days=0.01)
    listed = chain.world.listed[0]
    addresses = {pool.address: Kind.RATE for pool in chain.world.sol_pools}
    addresses |= {pool.address: Kind.POOL for pool in listed.pools}
    forgetful = Forgetful(chain, lost_max=3)
    node = PacedNode(
        Endpoint(url="http://devchain"), clock=SystemClock(), calls_per_s=1e6, transport=forgetful
    )
    mint = listed.token.mint

    async with market_in(tmp_path) as market:
        await market.tracking.add(mint)
        await market.history_reading.begin(mint, UnixS(0), addresses)
        reading = PastReading(Config(), market, node, 1e6)
        missing = await reading.read(mint, UnixS(0), lambda _what, _count: None)
        job = await market.history_jobs.one(mint)

    assert missing == 3
    assert list(forgetful.asked.values()) == [3, 3, 3]
    assert job is not None
    assert (job.stage, job.listed - job.read) == (Stage.READY, 3)


def test_the_command_says_how_many_and_what_that_means() -> None:
    assert left_out(1).startswith("1 transaction that the node lists")
    assert left_out(12).startswith("12 transactions that the node lists")
    assert left_out(12).endswith("candles lack their swaps")
