"""Other requests to a node never delay the requests for its blocks."""

import asyncio
import json
from dataclasses import dataclass, field

import httpx
import pytest
from pydantic import SecretStr
from typing_extensions import override

from mintscope.app.config.config import ChainConfig
from mintscope.app.sources import following
from mintscope.kit.clock import ManualClock
from mintscope.kit.primitives import Slot, UnixMs
from mintscope.solana.blocks import Block
from mintscope.solana.rpc import Commitment
from support.fakes.node import FakeNode

ASKED_BESIDE = "getAgGenesisCert"


@dataclass
class Limited(FakeNode):
    """A node that answers requests for blocks, and answers one other method with 429 for 60 s."""

    was_asked: asyncio.Event = field(default_factory=asyncio.Event)

    @override
    def handle(self, request: httpx.Request) -> httpx.Response:
        if json.loads(request.content)["method"] == ASKED_BESIDE:
            self.requests.append((ASKED_BESIDE, []))
            self.was_asked.set()
            return httpx.Response(429, headers={"Retry-After": "60"})
        return super().handle(request)


@pytest.mark.parametrize("second", [None, "http://second"])
async def test_a_429_to_another_request_delays_no_block(second: str | None) -> None:
    clock = ManualClock(UnixMs(1_700_000_000_000))
    node = Limited(clock)
    node.grow(20)
    chain = ChainConfig(
        rpc_url=SecretStr("http://node"),
        second_rpc_url=None if second is None else SecretStr(second),
    )
    async with following(chain, clock, transport=node.transport()) as blocks:
        async with asyncio.timeout(2):  # much less than the 60 s that the node asks for
            await node.was_asked.wait()
            await asyncio.sleep(0)  # until the client has read the 429
            for slot in range(1, 20):
                assert isinstance(await blocks.block(Slot(slot), Commitment.CONFIRMED), Block)

    assert node.requests.count((ASKED_BESIDE, [])) == 1
