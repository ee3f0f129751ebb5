"""A block that one node does not return is requested from a second node before it is a gap."""

from contextlib import aclosing
from typing import Final

import httpx
import pytest
from structlog.testing import capture_logs

from mintscope.kit.clock import ManualClock
from mintscope.kit.primitives import Slot, UnixMs
from mintscope.solana.blocks import Block, Endpoint, Gap
from mintscope.solana.node import AVOIDED_S, STILL_S, PreferredNodes
from mintscope.solana.poll import Poller, Polling
from mintscope.solana.rpc import Commitment, Rpc, Unreachable
from support.fakes.node import FakeNode, failing

ATTEMPTS: Final = Endpoint(url="").attempts_max


def node_of(count: int) -> FakeNode:
    node = FakeNode(ManualClock(UnixMs(1_700_000_000_000)))
    node.grow(count)
    node.finalize()
    return node


def client(node: FakeNode, clock: ManualClock) -> Rpc:
    return Rpc(
        Endpoint(url="http://node"),
        clock=clock,
        transport=node.transport(),
        jitter=lambda: 0.5,
        sleep=node.sleep,
    )


async def followed(
    first: FakeNode, second: FakeNode, *, last: int = 29
) -> tuple[list[int], list[Gap]]:
    slots: list[int] = []
    gaps: list[Gap] = []
    async with client(first, first.clock) as one, client(second, first.clock) as other:
        nodes = PreferredNodes([one, other], first.clock)
        poller = Poller(
            nodes,
            # The waits of requests ahead would add up on the manual clock; really, they overlap.
            Polling(start="first", gap_after_s=40, asks_ahead=False),
            clock=first.clock,
            sleep=first.sleep,
        )
        async with aclosing(poller.updates(None)) as updates:
            async for update in updates:
                if isinstance(update, Gap):
                    gaps.append(update)
                if isinstance(update, Block):
                    slots.append(update.slot)
                    if update.slot == last:
                        break
    return slots, gaps


@pytest.mark.parametrize("number", [-32001, -32004, -32007, -32011, -32015, -32603])
async def test_a_block_that_the_first_node_refuses_comes_from_the_second(number: int) -> None:
    first, second = node_of(30), node_of(30)
    first.unfetchable = {12: number, 13: number}

    assert await followed(first, second) == (list(range(30)), [])


async def test_a_block_that_neither_node_returns_is_a_gap() -> None:
    first, second = node_of(30), node_of(30)
    first.unfetchable, second.unfetchable = {12: -32603}, {12: -32007}

    slots, gaps = await followed(first, second)

    assert slots == [*range(12), *range(13, 30)]
    assert [(gap.first, gap.last) for gap in gaps] == [(12, 12)]


async def test_a_block_that_neither_node_returns_is_a_gap_if_the_first_lacks_its_child_too() -> (
    None
):
    first, second = node_of(30), node_of(30)
    first.unfetchable, second.unfetchable = {12: -32004, 13: -32004}, {12: -32004}

    slots, gaps = await followed(first, second)

    assert slots == [*range(12), *range(13, 30)]
    assert [(gap.first, gap.last) for gap in gaps] == [(12, 12)]


async def test_final_blocks_that_the_first_node_lacks_are_delivered_once() -> None:
    first, second = node_of(400), node_of(400)
    first.unfetchable = dict.fromkeys(range(100, 300), -32007)
    first.on_request = lambda: first.clock.advance(20)  # checks of finality become due

    assert await followed(first, second, last=399) == (list(range(400)), [])


async def test_the_second_node_is_followed_while_the_first_does_not_answer() -> None:
    first, second = node_of(30), node_of(30)
    first.faults = [None] * 9 + [failing(httpx.ConnectError)] * 5_000

    assert await followed(first, second) == (list(range(30)), [])
    assert len(first.requests) < 100, "a node that gives no answer is passed over for a while"


async def test_the_second_node_is_followed_if_the_first_stands_still() -> None:
    first, second = node_of(20), node_of(30)

    assert await followed(first, second) == (list(range(30)), [])


async def test_a_node_that_stood_still_is_preferred_again_once_it_is_current() -> None:
    first, second = node_of(20), node_of(30)
    clock = first.clock
    async with client(first, clock) as one, client(second, clock) as other:
        nodes = PreferredNodes([one, other], clock)
        heads = []
        for wait_s in (0, STILL_S + 1, 1, AVOIDED_S, AVOIDED_S + 1):
            clock.advance(int(wait_s * 1_000))
            heads.append((await nodes.head(Commitment.CONFIRMED)).slot)
        first.grow(15)
        clock.advance(int(AVOIDED_S * 1_000) + 1_000)
        heads.append((await nodes.head(Commitment.CONFIRMED)).slot)

    assert heads == [19, 29, 29, 29, 29, 34]


async def test_a_node_that_failed_once_is_preferred_to_a_node_that_stands_still() -> None:
    first, second = node_of(20), node_of(30)
    clock = first.clock
    heads: list[int] = []
    listed: list[int] = []
    with capture_logs() as lines:
        async with client(first, clock) as one, client(second, clock) as other:
            nodes = PreferredNodes([one, other], clock)
            for wait_s in (0, STILL_S + 1, *[1] * 20):
                clock.advance(int(wait_s * 1_000))
                if len(heads) == 4:
                    unanswered = [failing(httpx.ConnectError)] * ATTEMPTS
                    second.faults = [None] * len(second.requests) + unanswered
                heads.append((await nodes.head(Commitment.CONFIRMED)).slot)
                slots = await nodes.blocks(
                    first=Slot(20), last=Slot(29), commitment=Commitment.CONFIRMED
                )
                listed.append(len(slots))

    assert heads == [19, *[29] * 21]
    assert listed == [0, *[10] * 21]
    assert [line["node"] for line in lines if line["event"] == "node_behind"] == [1]


async def test_the_second_node_is_rarely_asked_while_the_chain_stands_still() -> None:
    first, second = node_of(20), node_of(20)
    clock = first.clock
    async with client(first, clock) as one, client(second, clock) as other:
        nodes = PreferredNodes([one, other], clock)
        for _ in range(100):
            assert (await nodes.head(Commitment.CONFIRMED)).slot == 19
            clock.advance(1_000)

    assert 0 < len(second.requests) <= 100 / STILL_S


async def test_a_failure_is_reported_if_no_node_answers() -> None:
    first, second = node_of(3), node_of(3)
    first.faults = second.faults = [failing(httpx.ConnectError)] * 99

    async with client(first, first.clock) as one, client(second, first.clock) as other:
        with pytest.raises(Unreachable, match="getSlot: ConnectError"):
            await PreferredNodes([one, other], first.clock).head(Commitment.CONFIRMED)


async def test_the_first_node_is_preferred() -> None:
    first, second = node_of(30), node_of(30)

    async with client(first, first.clock) as one, client(second, first.clock) as other:
        nodes = PreferredNodes([one, other], first.clock)
        assert isinstance(await nodes.block(Slot(5), Commitment.CONFIRMED), Block)

    assert second.requests == []
