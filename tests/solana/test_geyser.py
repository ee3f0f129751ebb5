"""A stream with faults in any order delivers the same data as a stream without faults."""

import asyncio
import os
import signal
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any, Final, NoReturn

import pytest
import uvicorn
from served_stream import (
    FIRST,
    KINDS,
    TOKEN,
    Served,
    new_chain,
    served,
)
from structlog.testing import capture_logs

from mintscope.dex.decode import decode_block
from mintscope.dex.token_accounts import SPL, SPL_2022
from mintscope.ingest.pipeline import Ingest
from mintscope.kit.clock import Clock, ManualClock, SystemClock
from mintscope.kit.primitives import Mint, Slot, UnixMs
from mintscope.solana.blocks import WSOL, Block, Endpoint, Finalized, Gap, Source, Tip, Update
from mintscope.solana.node import WatchedSource
from mintscope.solana.poll import Poller
from mintscope.solana.rpc import Commitment, Head, Missing, Rpc, Unreachable
from mintscope.solana.wire import Absence
from mintscope.solana.yellowstone.stream import (
    GeyserEndpoint,
    GeyserSource,
    Stream,
    StreamedNode,
    StreamEnded,
    ask_version,
)
from mintscope.solana.yellowstone.transactions import PlausibleSlots
from mintscope_devchain.chain import Devchain
from mintscope_devchain.faults import Knobs, StreamFault
from support.oracles.market_file import kept
from support.processes.processes import processes, start_process
from support.scenes.stores import market_in

FULL: Final = os.environ.get("STORM") == "full"  # noqa: TID251 - only how long to storm
FAULTS: Final = 200 if FULL else 24
KILLS: Final = 40 if FULL else 5
BANKS: Final = [
    *[("banks", 10), ("banks", 1), ("both_dead", 1), ("unnamed", 10)],
    *([("both_dead", 10), ("unnamed", 1)] if FULL else []),
]
MINTS: Final = [*dict.fromkeys([WSOL, *(Mint(token.mint) for token in new_chain().tokens)])]


@dataclass
class Until:
    """Delivers updates of *source* until the newest slot and the final slot are those of *goal*."""

    source: Source
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


async def ingest(source: Source, folder: Path) -> None:
    async with market_in(folder) as market:
        await Ingest(
            source=source,
            store=market.store,
            decode=decode_block,
            clock=ManualClock(UnixMs(0)),
            mints=MINTS,
        ).run()


def goal(chain: Devchain) -> list[Slot]:
    return [chain.blockstore.reached("confirmed"), chain.blockstore.reached("finalized")]


async def storm(at: Served, source: Until, faults: int) -> None:
    """Add blocks to the chain while the stream has *faults* faults, one after the other."""
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
        if random.random() < 0.2:
            at.chain.fork(min(random.randint(1, 3), at.chain.blockstore.unfinalized()))
        for _ in range(1_000):
            if source.delivered == at.chain.blockstore.reached("confirmed"):
                break
            await asyncio.sleep(0.01)
    at.chain.vm.faults.set(Knobs())
    for _ in range(40):
        at.chain.tick()
    source.goal = goal(at.chain)


@pytest.mark.storm
@pytest.mark.parametrize(
    ("addresses_max", "names_banks"), [(10, True), (1, True), (10, False), (1, False)]
)
async def test_faults_in_any_order_do_not_change_the_ingested_market(
    tmp_path: Path, addresses_max: int, *, names_banks: bool
) -> None:
    async with served(addresses_max=addresses_max, names_banks=names_banks) as at:
        stormy = Until(at.source(), [])
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(ingest(stormy, tmp_path / "stormy"))
            tasks.create_task(storm(at, stormy, FAULTS))
        poller = Poller(at.rpc, FIRST, clock=SystemClock())
        await ingest(Until(poller, goal(at.chain)), tmp_path / "calm")

        assert kept(tmp_path / "stormy") == kept(tmp_path / "calm")
        assert kept(tmp_path / "calm")["candles"]


class Counting:
    """A node for missing blocks that records the slots of the requested blocks."""

    def __init__(self, node: Rpc) -> None:
        self._node = node
        self.asked: list[Slot] = []

    async def block(
        self, slot: Slot, commitment: Commitment, *, is_expected: bool = False
    ) -> Block | Missing:
        self.asked.append(slot)
        return await self._node.block(slot, commitment, is_expected=is_expected)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)


@pytest.mark.storm
@pytest.mark.parametrize(("kind", "addresses_max"), BANKS)
async def test_slots_with_two_banks_are_ingested_as_the_chain_has_them(
    tmp_path: Path, kind: StreamFault, addresses_max: int
) -> None:
    """Each slot has two banks; after the first slots, no block is requested by JSON-RPC."""
    async with served(addresses_max=addresses_max) as at:
        repairer = Counting(at.rpc)
        source = GeyserSource(
            [at.endpoint], [SPL, SPL_2022], repairer, FIRST, clock=SystemClock(), watchdog_s=5
        )
        banked = Until(source, [])
        at.spoil(kind, times=None)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(ingest(banked, tmp_path / "banked"))
            for _ in range(200):
                at.chain.tick()
                await asyncio.sleep(0.02)
                repaired_until = max(repairer.asked, default=Slot(-1))
                if banked.delivered > repaired_until + 5:
                    break
            else:
                pytest.fail("expected blocks of the stream; all came from the repairer")
            for _ in range(40):
                before = at.chain.tick()
                while banked.delivered < before - 20:  # noqa: ASYNC110 - it has no event for it
                    await asyncio.sleep(0.01)
            at.chain.vm.faults.set(Knobs())
            for _ in range(10):
                at.chain.tick()
            banked.goal = goal(at.chain)
        poller = Poller(at.rpc, FIRST, clock=SystemClock())
        await ingest(Until(poller, goal(at.chain)), tmp_path / "calm")

        assert kept(tmp_path / "banked") == kept(tmp_path / "calm")
        assert kept(tmp_path / "calm")["candles"]
        streamed = [slot for slot in at.chain.blockstore.slots if slot > repaired_until]
        missed = [slot for slot in repairer.asked if slot in streamed[5:-15]]
        assert missed == []


@asynccontextmanager
async def over_http(chain: Devchain) -> AsyncGenerator[str, None]:
    """Serve the JSON-RPC of *chain* to other processes; yield its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(chain.app, log_level="error", access_log=False))
        running = asyncio.create_task(server.serve(sockets=[listener]))
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        await running


async def follow(rpc_url: str, grpc_url: str, folder: Path, at_work: Connection) -> None:
    """Ingest until killed; signal *at_work* at the first block."""
    endpoint = GeyserEndpoint(url=grpc_url, x_token=TOKEN)
    async with Rpc(Endpoint(url=rpc_url), clock=SystemClock()) as rpc:
        source = Until(
            GeyserSource([endpoint], [SPL, SPL_2022], rpc, FIRST, clock=SystemClock()), []
        )
        running = asyncio.create_task(ingest(source, folder))
        while source.delivered < 0:  # noqa: ASYNC110 - the source under test has no event for it
            await asyncio.sleep(0.005)
        at_work.send(None)
        await running


def replay(rpc_url: str, grpc_url: str, folder: Path, at_work: Connection) -> None:
    asyncio.run(follow(rpc_url, grpc_url, folder, at_work))


@pytest.mark.storm
@pytest.mark.process
async def test_kill_9_of_ingest_does_not_change_the_ingested_market(tmp_path: Path) -> None:
    random = Random(4)
    async with served() as at, over_http(at.chain) as rpc_url:
        for _ in range(KILLS):
            ours, theirs = processes.Pipe()
            words = (rpc_url, at.endpoint.url, tmp_path / "stormy", theirs)
            child = start_process(replay, *words)
            at.chain.tick()  # for its first block: the child before may have had all others
            at.chain.tick()
            try:
                assert await asyncio.to_thread(ours.poll, 60)
                for _ in range(random.randint(2, 30)):
                    at.chain.tick()
                    await asyncio.sleep(random.uniform(0, 0.02))
            finally:
                child.kill()
                await asyncio.to_thread(child.join)
            assert child.exitcode == -signal.SIGKILL
        for _ in range(40):
            at.chain.tick()
        for source, name in (
            (at.source(), "stormy"),
            (Poller(at.rpc, FIRST, clock=SystemClock()), "calm"),
        ):
            await ingest(Until(source, goal(at.chain)), tmp_path / name)

        assert kept(tmp_path / "stormy") == kept(tmp_path / "calm")


async def test_a_block_arrives_by_the_stream_without_the_repairer() -> None:
    async with served() as at:
        at.chain.tick()
        stream = stream_of([at.endpoint], [SPL, SPL_2022], SystemClock())
        running = asyncio.create_task(stream.run())
        while not stream.is_live:
            at.chain.tick()
            await asyncio.sleep(0.02)
        at.chain.tick()
        newest = at.chain.blockstore.reached("confirmed")
        while stream.buffer.newest < newest:
            stream.news.clear()
            await stream.news.wait()
        node = StreamedNode(stream, Silent(), SystemClock(), poll_s=0.01, gap_after_s=60)

        assert (await node.head(Commitment.CONFIRMED)).slot == newest
        block = await node.block(newest, Commitment.CONFIRMED)
        assert isinstance(block, Block)
        made = at.chain.blockstore.block(newest)
        assert made is not None
        assert block.parent_blockhash == made.parent_blockhash
        assert block.time == made.time
        assert len(block.transactions) <= len(made.transactions)  # votes are left out
        running.cancel()


class Away:
    """A node for missing blocks that cannot be reached."""

    def __getattr__(self, name: str) -> NoReturn:
        raise Unreachable(f"no answer to {name}")


async def test_a_missing_block_is_given_up_in_time_only_while_the_stream_is_live() -> None:
    clock = ManualClock(UnixMs(0))
    stream = stream_of([GeyserEndpoint(url="http://nowhere")], [], clock)
    node = StreamedNode(stream, Away(), clock, poll_s=0.01, gap_after_s=60)
    stream.note_block()
    for _ in range(2):
        with pytest.raises(Unreachable):
            await node.block(Slot(7), Commitment.CONFIRMED)
    clock.advance(61_000)
    stream.note_block()
    given_up = await node.block(Slot(7), Commitment.CONFIRMED)
    stream.note_end()

    assert given_up == Missing(slot=Slot(7), absence=Absence.PURGED)
    with pytest.raises(Unreachable):
        await node.block(Slot(7), Commitment.CONFIRMED)


class HangingOnce:
    """A node for missing blocks that never answers the first request for *slot*."""

    def __init__(self, node: Rpc, slot: Slot) -> None:
        self._node = node
        self._slot = slot
        self.has_hung = False

    async def block(
        self, slot: Slot, commitment: Commitment, *, is_expected: bool = False
    ) -> Block | Missing:
        if slot == self._slot and not self.has_hung:
            self.has_hung = True
            await asyncio.Event().wait()
        return await self._node.block(slot, commitment, is_expected=is_expected)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)


async def test_a_source_that_hangs_in_a_request_is_restarted() -> None:
    """The first request by JSON-RPC for a block that the stream lacks is never answered."""
    async with served() as at:
        for _ in range(8):
            at.chain.tick()
        slots = at.chain.blockstore.slots
        repairer = HangingOnce(at.rpc, slots[4])
        source = GeyserSource([at.endpoint], [], repairer, FIRST, clock=SystemClock())
        watched = WatchedSource(
            source=source, node=repairer, clock=SystemClock(), stall_after_s=0.3
        )
        delivered: list[Slot] = []
        with capture_logs() as logs:
            async with asyncio.timeout(30), aclosing(watched.updates(None)) as updates:
                async for update in updates:
                    if isinstance(update, Block):
                        delivered.append(update.slot)
                    if delivered[-1] == slots[-2]:
                        break

        assert repairer.has_hung
        assert delivered == list(slots[:-1])
        assert [one["slot"] for one in logs if one["event"] == "source_stalled"] == [slots[3]]


async def test_the_newest_slot_comes_from_the_repairer_if_the_stream_stalls() -> None:
    """A stream without a new block for some seconds no longer determines the newest slot."""
    clock = ManualClock(UnixMs(0))
    stream = stream_of([GeyserEndpoint(url="http://nowhere")], [], clock)
    node = StreamedNode(stream, Ahead(), clock, poll_s=0.01, gap_after_s=60)
    stream.buffer.newest = Slot(7)
    stream.note_block()
    before = (await node.head(Commitment.CONFIRMED)).slot
    clock.advance(6_000)

    assert before == 7
    assert not stream.is_live
    assert (await node.head(Commitment.CONFIRMED)).slot == 100


class Ahead:
    """A source for repairs that knows its newest slot, 100; any other request fails the test."""

    async def head(self, _: Commitment) -> Head:
        return Head(Slot(100), None)

    def __getattr__(self, name: str) -> NoReturn:
        pytest.fail(f"expected to be asked for a slot; was {name}")


def stream_of(endpoints: Sequence[GeyserEndpoint], programs: Sequence[str], clock: Clock) -> Stream:
    return Stream(endpoints, programs, plausible=PlausibleSlots(Away(), clock), clock=clock)


class Silent:
    """A node for missing blocks: each request to it fails the test."""

    def __getattr__(self, name: str) -> NoReturn:
        pytest.fail(f"expected no question to the repairer; was {name}")


@pytest.mark.parametrize(
    ("token", "said"), [(TOKEN, "mintscope-devchain"), ("", "unauthenticated")]
)
async def test_a_server_returns_its_version_only_with_the_right_token(
    token: str, said: str
) -> None:
    async with served() as at:
        endpoint = GeyserEndpoint(url=at.endpoint.url, x_token=token)
        try:
            answer = await ask_version(endpoint, 5)
        except StreamEnded as end:
            answer = end.reason
        assert said in answer


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
async def test_a_server_is_asked_at_an_address_of_ipv6() -> None:
    async with served(host="[::1]") as at:
        assert "mintscope-devchain" in await ask_version(at.endpoint, 5)


async def test_the_next_server_is_used_if_the_first_refuses() -> None:
    async with served() as at:
        refusing = GeyserEndpoint(url=at.endpoint.url, x_token="another")
        stream = stream_of([refusing, at.endpoint], [], SystemClock())
        running = asyncio.create_task(stream.run())
        async with asyncio.timeout(20):
            while not stream.is_live:
                at.chain.tick()
                await asyncio.sleep(0.02)
        running.cancel()
