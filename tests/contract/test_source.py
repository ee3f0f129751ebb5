"""The contract of every source of blocks. To test another engine, add it to `ENGINES`.

Each source delivers the same chain: five blocks, with one skipped slot between two blocks.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Final, cast

import pytest
from typing_extensions import override

from mintscope.kit.clock import ManualClock, SystemClock
from mintscope.kit.primitives import Slot, UnixMs, UnixS
from mintscope.solana import finality
from mintscope.solana.blocks import Block, Endpoint, Finalized, Gap, Source, Tip, Update
from mintscope.solana.files import FileSource
from mintscope.solana.poll import Poller, Polling
from mintscope.solana.rpc import Rpc
from mintscope.solana.yellowstone.stream import GeyserEndpoint, GeyserSource
from mintscope_devchain.blockstore import Blockstore, ChainBlock, CommitmentLevel
from mintscope_devchain.faults import Faults
from mintscope_devchain.stream.service import GeyserServer
from mintscope_devchain.transaction import Json
from support.fakes.node import FakeNode

GENESIS_HASH: Final = "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d"


def chain() -> FakeNode:
    node = FakeNode(ManualClock(UnixMs(1_700_000_000_000)))
    node.grow(5, skip=1)
    node.finalize()
    return node


CHAIN: Final = [Tip(Slot(block.slot), block.blockhash) for block in chain().blocks]


@asynccontextmanager
async def files(folder: Path) -> AsyncGenerator[Source, None]:
    lines = [{"slot": block.slot, **block.answer("full")} for block in chain().blocks]
    lines[0]["parentSlot"] = 0
    path = folder / "blocks.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    yield FileSource([path])


@asynccontextmanager
async def poller(_: Path) -> AsyncGenerator[Source, None]:
    node = chain()
    rpc = Rpc(
        Endpoint(url="http://node"), clock=node.clock, transport=node.transport(), sleep=node.sleep
    )
    async with rpc:
        yield Poller(rpc, Polling(start="first"), clock=node.clock, sleep=node.sleep)


class AllFinal(Blockstore):
    @override
    def reached(self, commitment: CommitmentLevel) -> Slot:
        return self.tip


class Reported:
    """The blocks of a fake node as blocks of a devchain, so that they can be streamed."""

    def __init__(self, node: FakeNode) -> None:
        self.blockstore: Blockstore = AllFinal(100)
        for block in node.blocks:
            made = ChainBlock(
                slot=Slot(block.slot),
                parent_slot=Slot(block.parent_slot),
                height=block.slot,
                time=UnixS(1_700_000_000 + block.slot),
                blockhash=block.blockhash,
                parent_blockhash=block.parent_hash,
                transactions=(),
            )
            self.blockstore.append(made)

    def entries(self, _: ChainBlock) -> list[Json]:
        return []


@asynccontextmanager
async def geyser(_: Path) -> AsyncGenerator[Source, None]:
    node = chain()
    server = GeyserServer(Reported(node), Faults())
    await server.start("127.0.0.1:0")
    rpc = Rpc(
        Endpoint(url="http://node"), clock=node.clock, transport=node.transport(), sleep=node.sleep
    )
    async with rpc:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(finality, "EVERY_S", 0.05)  # of real time: a stream has no other clock
            yield GeyserSource(
                [GeyserEndpoint(url=f"http://127.0.0.1:{server.port}")],
                [],
                rpc,
                Polling(start="first"),
                clock=SystemClock(),
            )
    await server.stop()


ENGINES: Final[dict[str, Callable[[Path], AbstractAsyncContextManager[Source]]]] = {
    "files": files,
    "poller": poller,
    "geyser": geyser,
}


@pytest.fixture(params=ENGINES)
async def source(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Source]:
    async with ENGINES[request.param](tmp_path) as source:
        yield source


async def read(source: Source, after: Tip | None) -> list[Update]:
    """Return the updates of *source* that follow *after*, until the last block is final."""
    seen = []
    stream = cast("AsyncGenerator[Update, None]", source.updates(after))
    async with aclosing(stream) as updates:
        async for update in updates:
            seen.append(update)
            if update == Finalized(CHAIN[-1].slot):
                return seen
    pytest.fail(f"expected the last block to become final; was {seen}")


def blocks(updates: list[Update]) -> list[Block]:
    return [update for update in updates if isinstance(update, Block)]


def tips(updates: list[Update]) -> list[Tip]:
    return [Tip(block.slot, block.blockhash) for block in blocks(updates)]


async def test_blocks_come_in_order_each_on_its_parent(source: Source) -> None:
    updates = await read(source, None)

    assert tips(updates) == CHAIN
    for parent, block in pairwise(blocks(updates)):
        assert (block.parent_slot, block.parent_blockhash) == (parent.slot, parent.blockhash)
    assert not any(isinstance(update, Gap) for update in updates)


@pytest.mark.parametrize("position", range(len(CHAIN) - 1))
async def test_a_source_resumes_after_the_tip_without_a_gap(source: Source, position: int) -> None:
    updates = await read(source, CHAIN[position])
    new = [tip for tip in tips(updates) if tip not in CHAIN[: position + 1]]

    assert new == CHAIN[position + 1 :]
    assert not any(isinstance(update, Gap) for update in updates)


async def test_a_second_read_returns_the_same_blocks(source: Source) -> None:
    first, again = await read(source, None), await read(source, None)

    assert tips(again) == tips(first)
    assert [block.time for block in blocks(again)] == [block.time for block in blocks(first)]


async def test_only_delivered_blocks_become_final(source: Source) -> None:
    delivered, final = -1, -1
    for update in await read(source, None):
        match update:
            case Block():
                assert update.parent_slot >= final
                delivered = update.slot
            case Finalized(slot):
                assert final <= slot <= delivered
                final = slot
            case Gap():
                pytest.fail(f"expected no gap; was {update}")

    assert final == CHAIN[-1].slot


async def test_the_genesis_hash_is_that_of_the_chain_or_unknown(source: Source) -> None:
    assert await source.genesis_hash() in {GENESIS_HASH, None}
