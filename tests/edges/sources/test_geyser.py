"""A stream with faults, in any order, delivers what a calm one does."""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final, get_args

import httpx
import pytest

from mintscope.base.clock import ManualClock, SystemClock
from mintscope.base.primitives import Mint, Slot, UnixMs
from mintscope.base.solana import WSOL, Block, Endpoint, Finalized, Gap, Source, Tip, Update
from mintscope.core.dex.decode import decode_block
from mintscope.core.dex.programs import BY_ADDRESS
from mintscope.devchain.chain import Devchain
from mintscope.devchain.faults import Knobs, StreamFault, Streaming
from mintscope.devchain.stream.service import GeyserServer
from mintscope.edges.ingest.pipeline import Ingest
from mintscope.edges.sources.geyser.source import GeyserSource
from mintscope.edges.sources.geyser.stream import GeyserEndpoint
from mintscope.edges.sources.poll import Poller, Polling
from mintscope.edges.sources.rpc import Rpc
from support.oracles.devchain_blocks import NOW
from support.oracles.market_file import kept
from support.scenes.stores import market_in

FULL: Final = os.environ.get("STORM") == "full"  # noqa: TID251 - only how long to storm
FAULTS: Final = 200 if FULL else 24
FIRST: Final = Polling(start="first", poll_interval_ms=10)
WATCHDOG_S: Final = 0.3
KINDS: Final[Sequence[StreamFault]] = get_args(StreamFault)
TOKEN: Final = "a key"


@dataclass
class Served:
    chain: Devchain
    rpc: Rpc
    endpoint: GeyserEndpoint

    def source(self, *endpoints: GeyserEndpoint) -> GeyserSource:
        return GeyserSource(
            endpoints or [self.endpoint],
            list(BY_ADDRESS),
            self.rpc,
            FIRST,
            clock=SystemClock(),
            watchdog_s=WATCHDOG_S,
        )

    def spoil(self, kind: StreamFault, times: int | None = 1) -> None:
        self.chain.vm.faults.set(Knobs(stream=Streaming(kind, times)))


@asynccontextmanager
async def served(*, addresses_max: int = 100) -> AsyncGenerator[Served, None]:
    chain = Devchain(seed=3, now=NOW, mints=5, history_days=0)
    server = GeyserServer(chain, chain.vm.faults, addresses_max=addresses_max, x_token=TOKEN)
    await server.start("127.0.0.1:0")
    transport = httpx.ASGITransport(app=chain.app)
    async with Rpc(Endpoint(url="http://node"), clock=SystemClock(), transport=transport) as rpc:
        endpoint = GeyserEndpoint(url=f"http://127.0.0.1:{server.port}", x_token=TOKEN)
        yield Served(chain, rpc, endpoint)
    await server.stop()


@dataclass
class Until:
    """What *source* yields, until what *chain* has is delivered and its final part known."""

    source: Source
    chain: Devchain
    goal: list[Slot]
    delivered: int = -1

    async def genesis_hash(self) -> str | None:
        return await self.source.genesis_hash()

    async def updates(self, after: Tip | None) -> AsyncIterator[Update]:
        final = Slot(-1)
        stream = self.source.updates(after)
        assert isinstance(stream, AsyncGenerator)
        async with aclosing(stream) as updates:
            async for update in updates:
                yield update
                match update:
                    case Block():
                        self.delivered = update.slot
                    case Finalized(slot):
                        final = slot
                    case Gap():
                        pytest.fail(f"expected no gap; was {update}")
                    case _:
                        pass
                if self.goal and (self.delivered, final) == (self.goal[0], self.goal[1]):
                    return


async def ingest(source: Source, folder: Path, chain: Devchain) -> None:
    mints = [WSOL, *(Mint(token.mint) for token in chain.tokens if token.mint != WSOL)]
    async with market_in(folder) as market:
        await Ingest(
            source=source,
            store=market.store,
            decode=decode_block,
            clock=ManualClock(UnixMs(0)),
            mints=mints,
        ).run()


def goal(chain: Devchain) -> list[Slot]:
    return [chain.blockstore.reached("confirmed"), chain.blockstore.reached("finalized")]


async def storm(at: Served, source: Until, faults: int) -> None:
    """Let the chain grow, a fault after the other; each is over before the next begins."""
    random = Random(9)
    for number in range(faults):
        at.spoil(KINDS[number % len(KINDS)] if number < len(KINDS) else random.choice(KINDS))
        for _ in range(random.randint(1, 3)):
            at.chain.tick()
            await asyncio.sleep(0.01)
        if random.random() < 0.2:
            at.spoil("internal", random.randint(1, 3))
            at.chain.tick()
            await asyncio.sleep(0.05)
        for _ in range(1_000):
            if source.delivered == at.chain.blockstore.reached("confirmed"):
                break
            await asyncio.sleep(0.01)
    at.chain.vm.faults.set(Knobs())
    for _ in range(40):
        at.chain.tick()
    source.goal = goal(at.chain)


@pytest.mark.storm
@pytest.mark.timeout(1_800 if FULL else 110)
@pytest.mark.parametrize("addresses_max", [100, 10])
async def test_faults_in_any_order_leave_no_trace(tmp_path: Path, addresses_max: int) -> None:
    async with served(addresses_max=addresses_max) as at:
        stormy = Until(at.source(), at.chain, [])
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(ingest(stormy, tmp_path / "stormy", at.chain))
            tasks.create_task(storm(at, stormy, FAULTS))
        poller = Poller(at.rpc, FIRST, clock=SystemClock())
        await ingest(Until(poller, at.chain, goal(at.chain)), tmp_path / "calm", at.chain)

        assert kept(tmp_path / "stormy") == kept(tmp_path / "calm")
        assert kept(tmp_path / "calm")["candles"]
