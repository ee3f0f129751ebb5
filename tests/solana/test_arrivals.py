"""Blocks are requested when they are expected, so each takes one round trip, not two."""

import asyncio
import selectors
from collections.abc import Callable, Container, Coroutine
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from random import Random
from statistics import median
from typing import Any, TypeVar, cast

import httpx
import msgspec
import pytest
from typing_extensions import override

from mintscope.kit.clock import Clock, ManualClock
from mintscope.kit.primitives import Slot, UnixMs
from mintscope.solana.blocks import Block, Endpoint
from mintscope.solana.node import Node, PreferredNodes
from mintscope.solana.poll import Poller, Polling
from mintscope.solana.rpc import Commitment, Missing, Rpc
from mintscope.solana.walk import AHEAD_ATTEMPTS, AHEAD_SLOTS_MAX
from support.fakes.node import FakeNode, behind

T = TypeVar("T")
RESOLUTION_S = 1e-6  # without this least step, a wait too short to change the time would never end
START_S = 1_700_000_000


class _Jumping(selectors.DefaultSelector):
    """A selector that adds the timeout to *passed_s* instead of waiting."""

    passed_s = 0.0

    @override
    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "nothing is left that could end the wait"
            self.passed_s += timeout + RESOLUTION_S
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop that moves its clock instead of waiting."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    @override
    def time(self) -> float:
        return self._jumping.passed_s


class LoopClock:
    """A clock that follows the running event loop, which began at *start_s* Unix seconds."""

    def __init__(self, start_s: int = START_S) -> None:
        self._start_s = start_s

    def now(self) -> UnixMs:
        """Return the current time of the loop in Unix milliseconds."""
        return UnixMs(int((self._start_s + self.monotonic_s()) * 1_000))

    def monotonic_s(self) -> float:
        """Return the seconds since the loop began."""
        return asyncio.get_running_loop().time()


def run_virtually(main: Coroutine[Any, Any, T]) -> T:
    """Run *main*, whose waits take no real time; return its result."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


HISTORY = 60  # seconds of blocks before the start, from which the pace is known
LEARNING = 60  # blocks after the start that are not measured

Wrap = Callable[[Node, Clock], Node]


class Large:
    """The node *node*, but each of its blocks has the size *size*, in bytes."""

    def __init__(self, node: Node, size: int) -> None:
        self._node = node
        self._size = size

    async def block(
        self, slot: Slot, commitment: Commitment, *, is_expected: bool = False
    ) -> Block | Missing:
        answer = await self._node.block(slot, commitment, is_expected=is_expected)
        return (
            msgspec.structs.replace(answer, size=self._size)
            if isinstance(answer, Block)
            else answer
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)


@dataclass
class LiveNode:
    """A node whose chain grows with time, and whose round trips take *way_s* seconds.

    late_s                the longest delay of a block after its slot, in seconds
    skipped               slots without a block
    is_skipping_at_once   whether skipped slots take no time, so that the next block comes early
    stops_at              the slot before which the chain stops; None: it does not stop
    """

    slot_s: float
    way_s: float
    late_s: float = 0.0
    skipped: frozenset[int] = frozenset()
    is_skipping_at_once: bool = False
    stops_at: int | None = None
    there_at_s: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.fake = FakeNode(ManualClock(UnixMs(0)), requests_max=10**6, slot_s=self.slot_s)
        random = Random(1)
        at_s = 0.0
        made = 0
        for slot in range(3_000):
            late_s = random.uniform(0, self.late_s)
            made += not (self.is_skipping_at_once and slot in self.skipped)
            at_s = max(at_s, (made + 1) * self.slot_s - HISTORY + late_s)
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
        answer = self.answer(request)
        await asyncio.sleep(self.way_s / 2)
        return answer

    def answer(self, request: httpx.Request) -> httpx.Response:
        return self.fake.handle(request)

    async def late_s_of_blocks(
        self, count: int, *, in_flight: int = 10, with_: Wrap = lambda node, _clock: node
    ) -> dict[int, float]:
        """Return by slot how many seconds later than possible the poller delivers each block.

        The earliest possible time is half a round trip after the node has the block.

        with_   returns the node to poll, from a client of this node and a clock
        """
        endpoint = Endpoint(url="http://node", requests_in_flight=in_flight)
        polling = Polling(start="first", requests_in_flight=in_flight)
        clock = LoopClock(START_S + HISTORY)
        transport = httpx.MockTransport(self.handle)
        late_s: dict[int, float] = {}
        async with Rpc(endpoint, clock=clock, transport=transport) as rpc:
            poller = Poller(with_(rpc, clock), polling, clock=clock)
            async with aclosing(poller.updates(None)) as updates:
                async for update in updates:
                    if isinstance(update, Block):
                        came_s = self.there_at_s[update.slot] + self.way_s / 2
                        late_s[update.slot] = clock.monotonic_s() - came_s
                    if len(late_s) == count:
                        break
        return late_s

    def asked(self, asked: str, slots: Container[int] | None = None) -> int:
        """Return the number of calls of the method *asked* for one of *slots*; None: any slot."""
        return sum(
            method == asked and (slots is None or params[0] in slots)
            for method, params in self.fake.requests
        )


@dataclass
class BalancedNode(LiveNode):
    """Several nodes behind one URL: an answer may be some blocks behind, or HTTP 503."""

    seed: int = 0

    @override
    def __post_init__(self) -> None:
        super().__post_init__()
        self._random = Random(self.seed)

    @override
    def answer(self, request: httpx.Request) -> httpx.Response:
        if self._random.random() < 0.01:
            return httpx.Response(503)
        asked = msgspec.json.decode(request.content)
        lag = self._random.choice([0, 0, 0, 1, 2, 4])
        if lag and (answer := behind(lag)(self.fake, asked["method"], asked["params"])):
            self.fake.requests.append((asked["method"], asked["params"]))
            return answer
        return self.fake.handle(request)


def steady(
    node: LiveNode,
    count: int = 300,
    *,
    in_flight: int = 10,
    with_: Wrap = lambda node, _clock: node,
) -> dict[int, float]:
    """Return the delays in seconds of *count* blocks, after all older blocks have been read."""
    old = round(HISTORY / node.slot_s) + LEARNING

    async def late_s_of_blocks() -> dict[int, float]:
        async with asyncio.timeout(1_000):
            return await node.late_s_of_blocks(old + count, in_flight=in_flight, with_=with_)

    late_s = run_virtually(late_s_of_blocks())
    return dict(list(late_s.items())[old:])


@pytest.mark.parametrize(("slot_s", "way_s"), [(0.2, 0.02), (0.2, 0.25), (0.4, 0.1), (0.8, 0.6)])
def test_blocks_arrive_in_time_with_few_requests_for_the_newest_slot(
    slot_s: float, way_s: float
) -> None:
    node = LiveNode(slot_s, way_s)

    late_s = steady(node)

    values = sorted(late_s.values())
    assert median(values) < slot_s / 5
    assert values[int(len(values) * 0.8)] < slot_s / 3
    assert values[-1] < slot_s + way_s
    assert node.asked("getBlock", late_s) <= 1.15 * len(late_s)
    assert node.asked("getSlot") < 0.1 * len(node.fake.requests)


def test_late_blocks_are_delivered_within_the_spread_of_their_delays() -> None:
    node = LiveNode(slot_s=0.2, way_s=0.1, late_s=0.15)

    late_s = steady(node)

    values = sorted(late_s.values())
    assert median(values) < 0.15
    assert values[-1] < 0.4
    assert node.asked("getBlock", late_s) <= 1.4 * len(late_s)


@pytest.mark.parametrize(("in_flight", "late_s_max"), [(4, 1.0), (10, 0.2)])
def test_skipped_slots_delay_the_next_block_only_briefly(in_flight: int, late_s_max: float) -> None:
    skipped = {slot + each for slot in range(200, 1_000, 40) for each in range(slot % 3 + 2)}
    node = LiveNode(slot_s=0.2, way_s=0.25, skipped=frozenset(skipped))

    late_s = steady(node, in_flight=in_flight)

    after = [value for slot, value in late_s.items() if slot - 1 in skipped]
    assert len(after) > 5
    # The next block proves that the slots were skipped, so they are not requested again, if the
    # limit of requests in flight allows to request it together with them.
    assert median(after) < late_s_max


@pytest.mark.parametrize("way_s", [0.01, 0.1])
def test_slots_skipped_together_delay_the_next_block_only_briefly(way_s: float) -> None:
    """A leader's slots are skipped together, so the next block comes before its expected time."""
    skipped = {slot + each for slot in range(200, 1_000, 40) for each in range(slot % 3 + 2)}
    node = LiveNode(0.2, way_s, skipped=frozenset(skipped), is_skipping_at_once=True)

    late_s = steady(node)

    after = [value for slot, value in late_s.items() if slot - 1 in skipped]
    assert len(after) > 5
    assert median(after) < 0.1 + 3 * way_s
    assert max(after) < 0.2 + 4 * way_s
    assert node.asked("getSlot") < 0.2 * len(node.fake.requests)


def test_a_chain_that_stands_still_is_requested_at_the_polling_interval() -> None:
    node = LiveNode(slot_s=0.2, way_s=0.1, stops_at=500)

    async def wait() -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(100):
                await node.late_s_of_blocks(501)

    run_virtually(wait())

    assert node.asked("getBlock", range(500, 1_000)) <= AHEAD_SLOTS_MAX * AHEAD_ATTEMPTS
    assert node.asked("getSlot") <= 100 / (0.15 + 0.1)


def test_a_missing_newest_block_is_requested_at_the_polling_interval() -> None:
    node = LiveNode(slot_s=0.2, way_s=0.1, stops_at=500)
    node.fake.unfetchable = {499: -32004}

    async def wait() -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(100):
                await node.late_s_of_blocks(500)

    run_virtually(wait())

    assert node.asked("getBlock", range(500, 1_000)) <= 2 * AHEAD_SLOTS_MAX * AHEAD_ATTEMPTS
    assert node.asked("getBlock", {499}) <= 100 / (0.15 + 0.1)


def test_large_blocks_are_delivered_past_skipped_slots() -> None:
    node = LiveNode(slot_s=0.2, way_s=0.1, skipped=frozenset(range(500, 512)))

    late_s = steady(node, with_=lambda each, _clock: cast("Node", Large(each, 40 * 2**20)))

    assert late_s[512] < 1.0


def test_an_unreachable_second_node_does_not_delay_blocks() -> None:
    async def refuse(_request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(0.1)
        raise httpx.ConnectError("refused")

    def with_second(first: Node, clock: Clock) -> Node:
        endpoint = Endpoint(url="http://second")
        second = Rpc(endpoint, clock=clock, transport=httpx.MockTransport(refuse))
        return PreferredNodes([first, second], clock)

    late_s = steady(LiveNode(slot_s=0.2, way_s=0.1), with_=with_second)

    assert max(late_s.values()) < 0.3


@pytest.mark.storm
@pytest.mark.parametrize("seed", range(10))
def test_nodes_behind_one_address_give_each_block_once_and_in_order(seed: int) -> None:
    random = Random(seed)
    skipped = {slot for slot in range(200, 1_000) if random.random() < 0.05}
    skipped |= {slot + each for slot in range(250, 1_000, 90) for each in range(4)}
    node = BalancedNode(slot_s=0.2, way_s=0.1, skipped=frozenset(skipped), seed=seed)

    late_s = steady(node, count=500, in_flight=random.choice([3, 4, 10]))

    slots = list(late_s)
    assert slots == [slot for slot in range(slots[0], slots[-1] + 1) if slot not in skipped]
    assert max(late_s.values()) < 5.0
    assert len(node.fake.requests) < 3 * (slots[-1] + 1)
