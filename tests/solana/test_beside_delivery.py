"""Other requests of the poller do not delay the delivery of blocks."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from contextlib import aclosing

import httpx

from mintscope.kit.clock import ManualClock
from mintscope.kit.primitives import UnixMs
from mintscope.solana.blocks import Block, Endpoint
from mintscope.solana.poll import Poller, Polling
from mintscope.solana.rpc import Rpc
from support.fakes.node import FakeNode

Answer = Callable[[httpx.Request], Coroutine[None, None, httpx.Response]]


def node_of(count: int) -> FakeNode:
    node = FakeNode(ManualClock(UnixMs(1_700_000_000_000)))
    node.grow(count)
    return node


async def delivered(node: FakeNode, answer: Answer, last: int) -> list[int]:
    """Return the slots that a poller delivers, up to *last*.

    The clock advances by 2 s after each block.  *answer* is the transport's handler of requests.
    """
    rpc = Rpc(
        Endpoint(url="http://node", requests_in_flight=4),
        clock=node.clock,
        transport=httpx.MockTransport(answer),
        sleep=node.sleep,
    )
    polling = Polling(start="first", requests_in_flight=4)
    slots: list[int] = []
    async with rpc, asyncio.timeout(10):
        poller = Poller(rpc, polling, clock=node.clock, sleep=node.sleep)
        async with aclosing(poller.updates(None)) as updates:
            async for update in updates:
                if isinstance(update, Block):
                    slots.append(update.slot)
                    node.clock.advance(2_000)
                    if update.slot == last:
                        break
    return slots


async def test_an_unanswered_request_for_finality_delays_no_block() -> None:
    node = node_of(40)
    never = asyncio.Event()

    async def answer(request: httpx.Request) -> httpx.Response:
        asked = json.loads(request.content)
        if asked["method"] == "getSlot" and asked["params"][0]["commitment"] == "finalized":
            await never.wait()
        return node.handle(request)

    assert await delivered(node, answer, last=39) == list(range(40))


async def test_the_next_block_is_requested_while_the_last_one_is_pending() -> None:
    node = node_of(10)
    next_asked = asyncio.Event()

    async def answer(request: httpx.Request) -> httpx.Response:
        asked = json.loads(request.content)
        if asked["method"] == "getBlock" and asked["params"][0] == 9:
            if len(node.blocks) == 10:
                node.grow(5)
            await next_asked.wait()
        if asked["method"] == "getBlock" and asked["params"][0] == 10:
            next_asked.set()
        return node.handle(request)

    assert await delivered(node, answer, last=14) == list(range(15))
