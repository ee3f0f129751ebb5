"""A source that stalls for any reason is restarted after its last block."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, suppress

import pytest
from structlog.testing import capture_logs

from mintscope.kit.clock import SystemClock
from mintscope.kit.primitives import Slot
from mintscope.solana.blocks import Block, Tip, Update
from mintscope.solana.node import WatchedSource
from mintscope.solana.rpc import Commitment, Head, Unreachable

STALL_S = 0.05


def block(slot: int) -> Block:
    return Block(
        slot=Slot(slot),
        parent_slot=Slot(slot - 1),
        blockhash=str(slot),
        parent_blockhash=str(slot - 1),
        time=None,
        transactions=(),
    )


class NamesOne:
    """A node whose newest slot is always *slot*; if *slot* is None, it cannot be reached."""

    def __init__(self, slot: int | None) -> None:
        self._slot = slot
        self.asked = 0

    async def head(self, _commitment: Commitment) -> Head:
        self.asked += 1
        if self._slot is None:
            raise Unreachable("no answer to slot")
        return Head(Slot(self._slot), None)

    def __getattr__(self, name: str) -> None:
        pytest.fail(f"expected to be asked for a slot; was {name}")


async def hang() -> None:
    await asyncio.Event().wait()


async def hang_deaf() -> None:
    """Wait, and ignore the first two cancellations of the watchdog, as a library may."""
    for _ in range(3):
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
    raise asyncio.CancelledError


async def cancel_itself() -> None:
    raise asyncio.CancelledError


class Stalling:
    """A source that yields the blocks after the tip, up to *last*, and stalls after two blocks."""

    def __init__(self, stall: Callable[[], AsyncIterator[None] | object], last: int) -> None:
        self._stall = stall
        self._last = last
        self.begun: list[int | None] = []
        self.ended = 0

    async def genesis_hash(self) -> str | None:
        return "genesis"

    async def updates(self, after: Tip | None) -> AsyncIterator[Update]:
        self.begun.append(None if after is None else after.slot)
        slot = 0 if after is None else after.slot
        try:
            for number in range(slot + 1, self._last + 1):
                if number > slot + 2:
                    await self._stall()  # type: ignore[misc]
                yield block(number)
            await hang()
        finally:
            self.ended += 1


def watched(source: Stalling, head: NamesOne, stall_after_s: float = STALL_S) -> WatchedSource:
    return WatchedSource(
        source=source,
        node=head,  # type: ignore[arg-type]
        clock=SystemClock(),
        stall_after_s=stall_after_s,
    )


async def slots_of(source: WatchedSource, last: int) -> list[int]:
    slots: list[int] = []
    async with asyncio.timeout(30), aclosing(source.updates(None)) as updates:
        async for update in updates:
            assert isinstance(update, Block)
            slots.append(update.slot)
            if update.slot == last:
                break
    return slots


@pytest.mark.parametrize("stall", [hang, cancel_itself, hang_deaf])
async def test_a_stalled_source_is_restarted_after_its_last_block(
    stall: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mintscope.solana.node.CANCEL_AGAIN_S", 0.02)
    source = Stalling(stall, last=7)
    with capture_logs() as logs:
        slots = await slots_of(watched(source, NamesOne(7)), last=7)

    assert slots == [1, 2, 3, 4, 5, 6, 7]
    assert source.begun == [None, 2, 4, 6]
    assert source.ended == 4
    stalls = [one for one in logs if one["event"] == "source_stalled"]
    assert [one["slot"] for one in stalls] == [2, 4, 6]


async def test_a_source_is_not_restarted_while_the_chain_stands_still() -> None:
    source, head = Stalling(hang, last=2), NamesOne(2)
    async with aclosing(watched(source, head).updates(None)) as updates:
        assert [(await anext(updates)).slot for _ in range(2)] == [1, 2]  # type: ignore[union-attr]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10 * STALL_S):
                await anext(updates)

    assert head.asked > 2
    assert source.begun == [None]


async def test_a_source_is_not_restarted_while_the_node_is_unreachable() -> None:
    source, head = Stalling(hang, last=2), NamesOne(None)
    async with aclosing(watched(source, head).updates(None)) as updates:
        assert [(await anext(updates)).slot for _ in range(2)] == [1, 2]  # type: ignore[union-attr]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10 * STALL_S):
                await anext(updates)

    assert source.begun == [None]


async def test_a_source_is_not_restarted_because_of_a_slow_consumer() -> None:
    source = Stalling(hang, last=2)
    async with aclosing(watched(source, NamesOne(9)).updates(None)) as updates:
        await anext(updates)
        await asyncio.sleep(4 * STALL_S)
        await anext(updates)

    assert source.begun == [None]


async def test_a_source_that_keeps_stalling_is_restarted_at_growing_intervals() -> None:
    source = Stalling(hang, last=0)
    began = asyncio.get_running_loop().time()
    stalls = 5
    async with aclosing(watched(source, NamesOne(9), 0.02).updates(None)) as updates:
        waiting = asyncio.create_task(_coroutine(updates))
        while len(source.begun) <= stalls:  # noqa: ASYNC110 - the source counts, and says nothing
            await asyncio.sleep(0.005)
        passed_s = asyncio.get_running_loop().time() - began
        waiting.cancel()
        await asyncio.wait([waiting])

    # The factor of the wait doubles at each stall, up to 8
    assert passed_s >= 0.02 * (1 + 2 + 4 + 8 + 8)


async def _coroutine(updates: AsyncIterator[Update]) -> None:
    await anext(updates)


async def test_an_error_of_the_source_is_raised() -> None:
    async def break_down() -> None:
        raise ValueError("the source broke")

    with pytest.raises(ValueError, match="the source broke"):
        await slots_of(watched(Stalling(break_down, last=7), NamesOne(7)), last=7)
