"""A backfill sends at most the number of requests a second that the operator allows."""

import json
from typing import Final

import httpx
from typing_extensions import override

from mintscope.history.source import PacedNode
from mintscope.kit.clock import ManualClock
from mintscope.kit.primitives import UnixMs
from mintscope.solana.blocks import Endpoint

PER_S: Final = 5.0
CALLS: Final = 26


class Answering(httpx.AsyncBaseTransport):
    """A node that answers at once, and records the time of each request."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.asked_s: list[float] = []

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked_s.append(self.clock.monotonic_s())
        call = json.loads(await request.aread())
        return httpx.Response(200, json={"jsonrpc": "2.0", "id": call["id"], "result": 7})


async def test_a_node_gets_the_allowed_number_of_requests_a_second() -> None:
    clock = ManualClock(UnixMs(1_800_000_000_000))

    async def sleep(seconds: float) -> None:
        clock.advance(round(seconds * 1_000))

    transport = Answering(clock)
    node = PacedNode(
        Endpoint(url="http://node"),
        clock=clock,
        calls_per_s=PER_S,
        transport=transport,
        sleep=sleep,
    )
    for _ in range(CALLS):
        assert await node.finalized() == 7
    asked = transport.asked_s
    assert node.calls == CALLS
    most = max(sum(1 for at in asked if since <= at < since + 0.999) for since in asked)
    assert most == PER_S
    assert asked[-1] - asked[0] >= (CALLS - 1) / PER_S - 0.01
