"""After one absurd slot number of a node or a stream, later blocks are still delivered."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final

import httpx
import pytest
from grpc.aio import ServicerContext
from typing_extensions import override

from mintscope.dex.token_accounts import SPL, SPL_2022
from mintscope.kit.clock import ManualClock, SystemClock
from mintscope.kit.primitives import Slot, UnixMs
from mintscope.solana.blocks import Block, Endpoint, Gap, Tip
from mintscope.solana.poll import Poller, Polling
from mintscope.solana.rpc import Rpc
from mintscope.solana.yellowstone import assembler
from mintscope.solana.yellowstone import geyser_pb2 as geyser
from mintscope.solana.yellowstone.assembler import Assembler
from mintscope.solana.yellowstone.block_buffer import BlockBuffer
from mintscope.solana.yellowstone.stream import GeyserEndpoint, GeyserSource
from mintscope_devchain.blockstore import ChainBlock
from mintscope_devchain.chain import Devchain
from mintscope_devchain.stream.service import GeyserServer
from support.fakes.node import FakeNode, Fault, reply
from support.oracles.devchain_blocks import NOW

Update = geyser.SubscribeUpdate
Subscription = ServicerContext[geyser.SubscribeRequest, Update]
U64_MAX: Final = 2**64 - 1
PATIENCE_S: Final = 20.0
ABSURD: Final = [
    Update(block=geyser.SubscribeUpdateBlock(slot=U64_MAX, parent_slot=1)),
    Update(block=geyser.SubscribeUpdateBlock(slot=2**53, parent_slot=2**53 - 1)),
    Update(block_meta=geyser.SubscribeUpdateBlockMeta(slot=2**53)),
    Update(slot=geyser.SubscribeUpdateSlot(slot=U64_MAX, status=geyser.SLOT_FINALIZED)),
    Update(transaction=geyser.SubscribeUpdateTransaction(slot=2**53)),
]


class Spoilt(GeyserServer):
    """A stream server that sends the message *absurd* once, before the third block."""

    absurd: Update
    sent = 0

    @override
    async def _spoilt(
        self, block: ChainBlock, request: geyser.SubscribeRequest, context: Subscription
    ) -> AsyncIterator[Update]:
        self.sent += 1
        if self.sent == 3:
            yield self.absurd
        async for update in super()._spoilt(block, request, context):
            yield update


@pytest.mark.parametrize("addresses_max", [10, 1])
@pytest.mark.parametrize("absurd", ABSURD, ids=["u64", "2^53", "meta", "final", "transaction"])
@pytest.mark.storm
async def test_blocks_are_delivered_after_a_stream_sends_an_absurd_slot(
    absurd: Update, addresses_max: int
) -> None:
    chain = Devchain(seed=3, now=NOW, mints=2, history_days=0)
    server = Spoilt(chain, chain.vm.faults, addresses_max=addresses_max)
    server.absurd = absurd
    await server.start("127.0.0.1:0")
    async with Rpc(
        Endpoint(url="http://node"),
        clock=SystemClock(),
        transport=httpx.ASGITransport(app=chain.app),
    ) as rpc:
        source = GeyserSource(
            [GeyserEndpoint(url=f"http://127.0.0.1:{server.port}")],
            [SPL, SPL_2022],
            rpc,
            Polling(start="first", poll_interval_ms=10),
            clock=SystemClock(),
            watchdog_s=0.3,
        )
        updates = source.updates(None)
        assert isinstance(updates, AsyncGenerator)
        ticking = asyncio.create_task(tick(chain))
        try:
            async with asyncio.timeout(PATIENCE_S), aclosing(updates):
                blocks = [block async for block in first(40, updates)]
        finally:
            ticking.cancel()
            await server.stop()

    assert server.sent > 3
    assert [block.parent_slot for block in blocks[1:]] == [block.slot for block in blocks[:-1]]


async def tick(chain: Devchain) -> None:
    while True:
        chain.tick()
        await asyncio.sleep(0.03)


async def first(count: int, updates: AsyncGenerator[Any, None]) -> AsyncGenerator[Block, None]:
    async for update in updates:
        if isinstance(update, Block):
            yield update
            count -= 1
            if not count:
                return


def part(slot: int, index: int) -> Update:
    info = geyser.SubscribeUpdateTransactionInfo(index=index, signature=b"s" * 64)
    return Update(transaction=geyser.SubscribeUpdateTransaction(slot=slot, transaction=info))


def meta(slot: int) -> Update:
    return Update(
        block_meta=geyser.SubscribeUpdateBlockMeta(
            slot=slot, parent_slot=slot - 1, blockhash=f"{slot}", parent_blockhash=f"{slot - 1}"
        )
    )


@pytest.mark.parametrize(("name", "most"), [("PARTIAL_SLOTS_MAX", 3), ("PARTIAL_BYTES_MAX", 500)])
def test_a_slot_with_dropped_transactions_never_becomes_a_block(
    monkeypatch: pytest.MonkeyPatch, name: str, most: int
) -> None:
    monkeypatch.setattr(assembler, name, most)
    buffer = BlockBuffer()
    joined = Assembler(buffer, ManualClock(UnixMs(NOW * 1000)), is_joined=True)
    joined.take(part(10, 0))
    for slot in range(11, 18):
        joined.take(part(slot, 0))
        joined.take(part(slot, 1))
    for slot in range(11, 19):
        joined.take(meta(slot))

    assert buffer.block(Slot(11)) is None
    kept = buffer.block(Slot(17))
    assert kept is not None
    assert len(kept.transactions) == 2


def absurd_head(_node: FakeNode, method: str, _params: list[Any]) -> httpx.Response | None:
    return reply(result=2**53) if method == "getSlot" else None


@asynccontextmanager
async def following(
    node: FakeNode, after: Tip | None, **polling: Any
) -> AsyncIterator[AsyncGenerator[Any, None]]:
    endpoint = Endpoint(url="http://node")
    async with Rpc(endpoint, clock=node.clock, transport=node.transport(), sleep=node.sleep) as rpc:
        poller = Poller(rpc, Polling(**polling), clock=node.clock, sleep=node.sleep)
        async with aclosing(poller.updates(after)) as updates:
            yield updates


def grown(faults: list[Fault | None]) -> FakeNode:
    node = FakeNode(ManualClock(UnixMs(1_700_000_000_000)), faults=faults, requests_max=500)
    node.grow(60)
    return node


async def test_later_blocks_are_delivered_after_an_absurd_newest_slot() -> None:
    node = grown([])
    async with following(node, None, start="first") as updates:
        seen = [block.slot async for block in first(60, updates)]
        asked = len(node.requests)
        node.faults = [*[None] * asked, *[absurd_head] * 5]

        def grow_later() -> None:
            if len(node.requests) > asked + 50 and len(node.blocks) == 60:
                node.grow(5)

        node.on_request = grow_later
        seen += [block.slot async for block in first(5, updates)]

    assert seen == list(range(65))


async def test_blocks_are_requested_as_confirmed_after_an_absurd_final_slot() -> None:
    node = grown([])
    node.finalize(lag=10)
    absurd = [2**53]

    def spoil(node: FakeNode, method: str, params: list[Any]) -> httpx.Response | None:
        if method != "getLatestBlockhash" or params[0]["commitment"] != "finalized" or not absurd:
            return None
        latest = node.getLatestBlockhash({"commitment": "confirmed"})
        return reply(result={**latest, "context": {"slot": absurd.pop()}})

    async with following(node, None, start="first") as updates:
        seen = [block.slot async for block in first(60, updates)]
        asked = len(node.requests)
        node.faults = [*[None] * asked, *[spoil] * 400]

        def grow_later() -> None:
            if not absurd and len(node.blocks) == 60:
                node.grow(5)
            if len(node.requests) > asked + 100:
                node.finalize()

        node.on_request = grow_later
        seen += [block.slot async for block in first(5, updates)]

    assert seen == list(range(65))
    commitments = {
        params[1]["commitment"]
        for method, params in node.requests[asked:]
        if method == "getBlock" and 60 <= params[0] < 65
    }
    assert commitments == {"confirmed"}


async def test_an_absurd_newest_slot_causes_no_gap() -> None:
    node = grown([absurd_head])
    seen: list[Any] = []
    async with following(node, Tip(Slot(50), node.blocks[50].blockhash), max_gap_s=30) as updates:
        async for update in updates:
            seen.append(update)
            if isinstance(update, Block) and update.slot == 59:
                break

    assert [update for update in seen if isinstance(update, Gap)] == []
