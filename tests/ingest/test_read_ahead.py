"""Reading ahead is bounded by bytes, so that large blocks take no more memory than small ones."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator

import pytest

from mintscope.ingest.pipeline import UPDATES_MAX, read_ahead
from mintscope.kit.primitives import Slot
from mintscope.solana.blocks import Block, SourceError, Update
from mintscope.solana.window import Answer, Window

MB = 1_000_000


def block(slot: int, size: int) -> Block:
    return Block(
        slot=Slot(slot),
        parent_slot=Slot(slot - 1),
        blockhash=str(slot),
        parent_blockhash=str(slot - 1),
        time=None,
        transactions=(),
        size=size,
    )


async def turns() -> None:
    """Yield to the event loop until each task waits."""
    for _ in range(500):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("size", "taken"), [(60 * MB, 2), (500 * MB, 1), (7 * MB, 15), (0, UPDATES_MAX)]
)
async def test_a_batch_has_a_maximum_of_bytes_and_of_updates(size: int, taken: int) -> None:
    async def updates() -> AsyncIterator[Update]:
        for slot in range(100):
            yield block(slot, size)

    async with read_ahead(updates(), bytes_max=100 * MB) as ahead:
        found = []
        while True:
            await turns()
            if not (batch := await ahead.take()):
                break
            assert len(batch) <= taken
            found += batch
    assert [one.slot for one in found if isinstance(one, Block)] == list(range(100))


async def test_updates_before_a_failure_are_taken_first() -> None:
    async def updates() -> AsyncIterator[Update]:
        yield block(1, 1)
        raise ValueError("the source broke")

    async with read_ahead(updates()) as ahead:
        await turns()
        assert len(await ahead.take()) == 1
        with pytest.raises(ValueError, match="the source broke"):
            await ahead.take()


async def test_a_source_that_is_cancelled_from_inside_has_failed() -> None:
    """`take` raises an error; otherwise its caller would wait forever."""

    async def updates() -> AsyncIterator[Update]:
        yield block(1, 1)
        raise asyncio.CancelledError

    async with read_ahead(updates()) as ahead, asyncio.timeout(10):
        await turns()
        assert len(await ahead.take()) == 1
        with pytest.raises(SourceError, match="the source cancelled its own read"):
            await ahead.take()


@pytest.mark.parametrize(("size", "asked"), [(50 * MB, 2), (500 * MB, 1), (1 * MB, 10)])
async def test_large_blocks_are_requested_a_few_at_a_time(size: int, asked: int) -> None:
    in_flight: set[Slot] = set()
    most = 0
    go = asyncio.Event()

    async def fetch(slot: Slot) -> Answer:
        nonlocal most
        in_flight.add(slot)
        most = max(most, len(in_flight))
        await go.wait()
        in_flight.discard(slot)
        return block(slot, size)

    window = Window(fetch, 10, bytes_max=100 * MB)
    plan = deque(Slot(slot) for slot in range(60))
    window.fill(plan)
    go.set()
    await turns()  # the first ten are requested before the size of any block is known
    go.clear()
    most, delivered = 0, []
    while len(window) or plan:
        window.fill(plan)
        await turns()
        go.set()
        delivered.append(await window.answer(window.lowest_slot))
        go.clear()
        window.drop(window.lowest_slot)

    assert most <= asked
    assert [one.slot for one in delivered] == list(range(60))
