"""Blocks are asked for as they are expected: the way to a node is gone once, not twice."""

import asyncio
from collections.abc import Container
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from random import Random
from statistics import median

import httpx
import pytest

from mintscope.base.clock import ManualClock
from mintscope.base.primitives import UnixMs
from mintscope.base.solana import Block, Endpoint
from mintscope.edges.sources.poll import Poller, Polling
from mintscope.edges.sources.rpc import Rpc
from mintscope.edges.sources.walk import AHEAD_ATTEMPTS, AHEAD_SLOTS_MAX
from support.fakes.node import FakeNode
from support.virtual_time import START_S, LoopClock, run_virtually

HISTORY = 60  # seconds of blocks before the first moment: the pace is known
LEARNING = 60  # blocks


@dataclass
class LiveNode:
    """A node whose chain grows with time, and which is *way_s* away.

    late_s     how long each block takes beyond its slot, at most
    skipped    slots without a block
    stops_at   the newest slot, if the chain stands still there
    """

    slot_s: float
    way_s: float
    late_s: float = 0.0
    skipped: frozenset[int] = frozenset()
    stops_at: int | None = None
    there_at_s: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.fake = FakeNode(ManualClock(UnixMs(0)), requests_max=10**6, slot_s=self.slot_s)
        random = Random(1)
        at_s = 0.0
        for slot in range(3_000):
            late_s = random.uniform(0, self.late_s)
            at_s = max(at_s, (slot + 1) * self.slot_s - HISTORY + late_s)
            self.there_at_s[slot] = at_s

    def _grow(self, now_s: float) -> None:
        node = self.fake
        slot = node.blocks[-1].slot + 1 if node.blocks else 0
        while self.there_at_s[slot] <= now_s and slot != self.stops_at:
            if slot not in self.skipped:
                node.grow(skip=slot - node.blocks[-1].slot - 1 if node.blocks else 0)
            slot += 1
        node.finalize(lag=2)

    async def handle(self, request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(self.way_s / 2)
        self._grow(asyncio.get_running_loop().time())
        answer = self.fake.handle(request)
        await asyncio.sleep(self.way_s / 2)
        return answer

    async def late_s_of_blocks(self, count: int, *, in_flight: int = 10) -> dict[int, float]:
        """Return how long after it was there and had come its way each block was delivered."""
        endpoint = Endpoint(url="http://node", requests_in_flight=in_flight)
        polling = Polling(start="first", requests_in_flight=in_flight)
        clock = LoopClock(START_S + HISTORY)
        transport = httpx.MockTransport(self.handle)
        late_s: dict[int, float] = {}
        async with Rpc(endpoint, clock=clock, transport=transport) as rpc:
            poller = Poller(rpc, polling, clock=clock)
            async with aclosing(poller.updates(None)) as updates:
                async for update in updates:
                    if isinstance(update, Block):
                        came_s = self.there_at_s[update.slot] + self.way_s / 2
                        late_s[update.slot] = clock.monotonic_s() - came_s
                    if len(late_s) == count:
                        break
        return late_s

    def asked(self, asked: str, slots: Container[int] | None = None) -> int:
        """Return how many requests of method *asked* there were, about one of *slots*."""
        return sum(
            method == asked and (slots is None or params[0] in slots)
            for method, params in self.fake.requests
        )


def steady(node: LiveNode, count: int = 300, *, in_flight: int = 10) -> dict[int, float]:
    """Return the delays of *count* blocks, once all from before have been read."""
    old = round(HISTORY / node.slot_s) + LEARNING
    late_s = run_virtually(node.late_s_of_blocks(old + count, in_flight=in_flight))
    return dict(list(late_s.items())[old:])


@pytest.mark.parametrize(("slot_s", "way_s"), [(0.2, 0.02), (0.2, 0.25), (0.4, 0.1), (0.8, 0.6)])
def test_a_block_comes_without_its_slot_being_asked_for(slot_s: float, way_s: float) -> None:
    node = LiveNode(slot_s, way_s)

    late_s = steady(node)

    values = sorted(late_s.values())
    assert median(values) < slot_s / 5
    assert values[int(len(values) * 0.8)] < slot_s / 3
    assert values[-1] < slot_s + way_s
    assert node.asked("getBlock", late_s) <= 1.15 * len(late_s)
    assert node.asked("getSlot") < 0.1 * len(node.fake.requests)


def test_blocks_that_come_late_are_met_within_their_spread() -> None:
    node = LiveNode(slot_s=0.2, way_s=0.1, late_s=0.15)

    late_s = steady(node)

    values = sorted(late_s.values())
    assert median(values) < 0.15
    assert values[-1] < 0.4
    assert node.asked("getBlock", late_s) <= 1.4 * len(late_s)


@pytest.mark.parametrize(("in_flight", "late_s_max"), [(4, 1.0), (10, 0.2)])
def test_slots_without_a_block_hold_up_nothing(in_flight: int, late_s_max: float) -> None:
    skipped = {slot + each for slot in range(200, 1_000, 40) for each in range(slot % 3 + 2)}
    node = LiveNode(slot_s=0.2, way_s=0.25, skipped=frozenset(skipped))

    late_s = steady(node, in_flight=in_flight)

    after = [value for slot, value in late_s.items() if slot - 1 in skipped]
    assert len(after) > 5
    # The next block proves them skipped, so that they are not asked for again, if there was room
    # to ask for it beside them.
    assert median(after) < late_s_max


def test_a_chain_that_stands_still_is_asked_for_at_the_pace_of_polling() -> None:
    node = LiveNode(slot_s=0.2, way_s=0.1, stops_at=500)

    async def wait() -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(100):
                await node.late_s_of_blocks(501)

    run_virtually(wait())

    assert node.asked("getBlock", range(500, 1_000)) <= AHEAD_SLOTS_MAX * AHEAD_ATTEMPTS
    assert node.asked("getSlot") <= 100 / (0.15 + 0.1)
