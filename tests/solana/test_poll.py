"""The poller delivers the whole chain in order, despite any faults of its node."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from mintscope.kit.clock import ManualClock
from mintscope.kit.primitives import Slot, UnixMs
from mintscope.solana.blocks import Block, Endpoint, Finalized, Gap, Tip, Update
from mintscope.solana.poll import OtherChain, Poller, Polling
from mintscope.solana.rpc import Rpc, RpcRefused
from mintscope.solana.wire import CODES
from support.fakes.node import (
    FakeNode,
    Fault,
    behind,
    body,
    code,
    failing,
    forgetful,
    lie,
    status,
)

FIRST = Polling(start="first")


@dataclass
class Consumer:
    """A consumer of updates, written from the definition of `Source`, not from the poller."""

    chain: list[tuple[int, str]] = field(default_factory=list)
    final_slot: int = -1
    gaps: list[Gap] = field(default_factory=list)
    repeats: int = 0
    last_missing: int = -1

    def apply(self, update: Update) -> None:
        match update:
            case Gap():
                self.gaps.append(update)
                self.last_missing = update.last
            case Finalized(slot):
                assert self.chain, "final before anything was delivered"
                assert slot <= self.chain[-1][0], "final past what was delivered"
                assert slot in [each for each, _ in self.chain], "final where nothing was delivered"
                self.final_slot = max(self.final_slot, slot)
            case Block():
                self._append(update)

    def _append(self, block: Block) -> None:
        if (block.slot, block.blockhash) in self.chain:
            self.repeats += 1
            return
        died = [each for each, _ in self.chain if each > block.parent_slot]
        assert all(each > self.final_slot for each in died), "a final block died"
        self.chain = [each for each in self.chain if each[0] <= block.parent_slot]
        if self.chain and self.last_missing != block.parent_slot:
            assert self.chain[-1] == (block.parent_slot, block.parent_blockhash), "a hole"
        self.chain.append((block.slot, block.blockhash))


def node_of(count: int, skip: int = 0, final_lag: int = 0) -> FakeNode:
    node = FakeNode(ManualClock(UnixMs(1_700_000_000_000)))
    node.grow(count, skip)
    node.finalize(final_lag)
    return node


def whole(node: FakeNode) -> list[tuple[int, str]]:
    return [(block.slot, block.blockhash) for block in node.blocks]


async def follow(
    node: FakeNode,
    polling: Polling = FIRST,
    after: Tip | None = None,
    consumer: Consumer | None = None,
    done: Callable[[Consumer], bool] | None = None,
) -> Consumer:
    """Run the poller until *done* is true; return the consumer of its updates.

    done   None: until the whole chain of *node* and its finality have arrived
    """
    consumer = consumer or Consumer()

    def complete(consumer: Consumer) -> bool:
        last_final = node.blocks[node.final_count - 1].slot
        return consumer.chain[-1:] == whole(node)[-1:] and consumer.final_slot == last_final

    endpoint = Endpoint(url="http://node", requests_in_flight=polling.requests_in_flight)
    rpc = Rpc(
        endpoint,
        clock=node.clock,
        transport=node.transport(),
        jitter=lambda: 0.5,
        sleep=node.sleep_at_once,
    )
    async with rpc:
        poller = Poller(rpc, polling, clock=node.clock, sleep=node.sleep_at_once)
        async with aclosing(poller.updates(after)) as updates:
            async for update in updates:
                consumer.apply(update)
                if (done or complete)(consumer):
                    break
    return consumer


async def test_a_chain_is_delivered_in_order_from_its_first_block() -> None:
    node = node_of(30, skip=1)

    consumer = await follow(node)

    assert consumer.chain == whole(node)
    assert (consumer.repeats, consumer.gaps) == (0, [])


@pytest.mark.parametrize("in_flight", [1, 2, 10])
async def test_no_more_requests_are_in_flight_than_configured(in_flight: int) -> None:
    node = node_of(60)
    running = peak = 0

    async def handle(request: httpx.Request) -> httpx.Response:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        await asyncio.sleep(0)
        running -= 1
        return node.handle(request)

    rpc = Rpc(
        Endpoint(url="http://node", requests_in_flight=in_flight),
        clock=node.clock,
        transport=httpx.MockTransport(handle),
        sleep=node.sleep,
    )
    polling = Polling(start="first", requests_in_flight=in_flight)
    consumer = Consumer()
    async with rpc:
        async for update in Poller(rpc, polling, clock=node.clock, sleep=node.sleep).updates(None):
            consumer.apply(update)
            if consumer.chain == whole(node):
                break

    assert peak == in_flight


async def test_blocks_are_requested_with_parameters_that_any_provider_accepts() -> None:
    node = node_of(3)

    await follow(node)

    asked = [params for method, params in node.requests if method == "getBlock"]
    assert asked[0] == [
        0,
        {
            "encoding": "json",
            "transactionDetails": "full",
            "rewards": False,
            "commitment": "confirmed",
            "maxSupportedTransactionVersion": 1,
        },
    ]


async def test_the_poller_starts_at_the_given_position() -> None:
    for polling, first in [
        (Polling(start=Slot(7)), 7),
        (Polling(start="latest"), 19),
        (Polling(start="latest", backfill_s=4), 15),
        (Polling(start="latest", backfill_s=400), 0),
    ]:
        consumer = await follow(node_of(20), polling)

        assert consumer.chain[0][0] == first


@pytest.mark.parametrize(("slot_s", "first"), [(0.1, 0), (0.2, 99), (0.4, 149), (0.8, 174)])
async def test_seconds_are_turned_into_slots_at_the_pace_of_the_chain(
    slot_s: float, first: int
) -> None:
    node = node_of(200)
    node.slot_s = slot_s
    polling = Polling(start="latest", backfill_s=20, max_gap_s=10)

    fresh = await follow(node, polling)
    tip = node.blocks[100]
    late = await follow(node, polling, after=Tip(Slot(tip.slot), tip.blockhash))

    assert fresh.chain[0][0] == first
    is_given_up = 10 / slot_s < 99
    assert bool(late.gaps) == is_given_up


@pytest.mark.parametrize("is_timed", [True, False], ids=["by block times", "not at all"])
async def test_the_pace_comes_from_block_times_without_samples(*, is_timed: bool) -> None:
    """The node has no performance samples; without block times it reads no earlier block."""

    node = node_of(200)
    node.samples = False
    node.timed = is_timed

    consumer = await follow(node, Polling(start="latest", backfill_s=20))

    assert consumer.chain[0][0] == (179 if is_timed else 199)


async def test_blocks_far_apart_are_found_with_few_requests() -> None:
    node = node_of(1)
    node.grow(4, skip=700_000)
    node.grow(20)
    node.finalize()

    consumer = await follow(node)

    assert consumer.chain == whole(node)
    assert len([method for method, _ in node.requests if method == "getBlocks"]) < 20


async def test_the_poller_resumes_after_the_tip_without_repeating_a_block() -> None:
    node = node_of(40, skip=2)
    tip = node.blocks[11]

    consumer = await follow(
        node, after=Tip(Slot(tip.slot), tip.blockhash), consumer=Consumer(whole(node)[:12])
    )

    assert consumer.chain == whole(node)
    assert consumer.repeats == 0


async def test_a_tip_that_was_orphaned_during_a_pause_is_replaced() -> None:
    node = node_of(40, final_lag=10)
    seen = Consumer(whole(node)[:36])
    tip = node.blocks[35]
    node.fork(depth=8, count=12)
    node.finalize()

    consumer = await follow(node, after=Tip(Slot(tip.slot), tip.blockhash), consumer=seen)

    assert consumer.chain == whole(node)


@pytest.mark.parametrize("number", [-32004, -32007, -32009, -32014])
async def test_a_block_that_is_wrongly_reported_missing_is_requested_again(
    number: int,
) -> None:
    node = node_of(30)
    node.faults = [None, None, *[lie(number)] * 7]

    consumer = await follow(node)

    assert consumer.chain == whole(node)
    assert (consumer.repeats, consumer.gaps) == (0, [])


async def test_blocks_missing_from_listings_are_found_by_their_children() -> None:
    node = node_of(30)
    node.unlisted = {3, 4, 5, 17, 28}

    consumer = await follow(node)

    assert consumer.chain == whole(node)


async def test_a_chain_missing_from_listings_is_found_from_its_newest_block() -> None:
    node = node_of(30)
    node.unlisted = set(range(30))

    consumer = await follow(node, done=lambda consumer: consumer.chain == whole(node))

    assert consumer.gaps == []


async def test_a_block_read_before_its_parent_is_replaced_after_a_reorg() -> None:
    """A fork removes the block and its parent between the reads of the two."""
    node = node_of(8, final_lag=8)
    node.unfetchable = {6: -32004}
    died = node.blocks[6].slot

    def happen() -> None:
        asked = [params[0] for method, params in node.requests if method == "getBlock"]
        if asked.count(died) == 2 and node.unfetchable:
            node.unfetchable.clear()
            node.fork(depth=2, count=3, skip=4)
            node.finalize()

    node.on_request = happen
    consumer = await follow(node)

    assert consumer.chain == whole(node)
    assert consumer.gaps == []
    assert node.clock.monotonic_s() < 30


async def test_a_missing_block_and_its_gap_are_reported_once() -> None:
    node = node_of(30)
    node.unfetchable = {12: -32007}
    with capture_logs() as lines:
        consumer = await follow(node, Polling(start="first"))

    reported = [(line["event"], line.get("slot", line.get("first"))) for line in lines]
    assert reported == [("block_awaited", 12), ("gap", 12)]
    assert lines[1]["reason"] == consumer.gaps[0].reason
    assert 15 <= node.clock.monotonic_s() < 30, "before answers are degraded"


async def test_blocks_that_never_arrive_become_a_gap_after_the_configured_time() -> None:
    node = node_of(30)
    node.unfetchable = {12: -32007, 13: -32004}

    consumer = await follow(node, Polling(start="first", gap_after_s=40))

    assert consumer.gaps == [Gap(Slot(12), Slot(13), "asked in vain for 40 s")]
    assert node.clock.monotonic_s() >= 40
    assert [slot for slot, _ in consumer.chain] == [*range(12), *range(14, 30)]


@pytest.mark.storm
@pytest.mark.parametrize("number", [*sorted(CODES), -31999])
async def test_an_error_code_for_one_slot_makes_a_gap_of_that_slot_alone(number: int) -> None:
    node = node_of(30)
    node.unfetchable = {12: number}

    consumer = await follow(node, Polling(start="first", gap_after_s=40))

    (gap,) = consumer.gaps
    assert (gap.first, gap.last) == (12, 12)
    assert consumer.chain == whole(node)[:12] + whole(node)[13:]
    assert node.clock.monotonic_s() < 120


@pytest.mark.parametrize(
    "fault",
    [status(500), status(403), status(413), body(b"<html>"), failing(httpx.ReadTimeout)],
)
async def test_a_slot_without_a_usable_answer_becomes_a_gap_with_the_reason(fault: Fault) -> None:
    node = node_of(30)

    def spoil(node: FakeNode, method: str, params: list[Any]) -> httpx.Response | None:
        if method == "getBlock" and params[0] == 12:
            return fault(node, method, params)
        return None

    node.faults = [spoil] * 2_000
    consumer = await follow(node, Polling(start="first", gap_after_s=40))

    (gap,) = consumer.gaps
    assert (gap.first, gap.last) == (12, 12)
    assert gap.reason.startswith("asked in vain for 40 s: node getBlock: ")
    assert consumer.chain == whole(node)[:12] + whole(node)[13:]


async def test_a_skipped_slot_is_no_gap_if_the_node_fails_at_it() -> None:
    node = node_of(30, skip=1)
    node.unfetchable = {13: -32603}

    consumer = await follow(node, Polling(start="first", gap_after_s=40, requests_in_flight=99))

    assert consumer.gaps == []
    assert consumer.chain == whole(node)


async def test_a_node_that_refuses_every_block_causes_no_gap() -> None:
    node = node_of(30)

    def heal() -> None:
        is_out = 5 < node.clock.monotonic_s() < 400
        node.unfetchable = dict.fromkeys(range(12, 99), -32603) if is_out else {}

    node.on_request = heal
    node.clock.advance(1)
    consumer = Consumer()

    def grow(consumer: Consumer) -> bool:
        if len(consumer.chain) == 12:
            node.clock.advance(6_000)
        return consumer.chain == whole(node)

    await follow(node, Polling(start="first", gap_after_s=40), consumer=consumer, done=grow)

    assert consumer.gaps == []
    assert node.clock.monotonic_s() > 400


async def test_an_unreachable_node_causes_no_gap() -> None:
    node = node_of(30)
    node.unfetchable = {12: -32007}
    node.faults = [None] * 25 + [failing(httpx.ConnectError)] * 3000

    def heal() -> None:
        if node.clock.monotonic_s() > 400:
            node.faults, node.unfetchable = [], {}

    node.on_request = heal
    consumer = await follow(node, Polling(start="first", gap_after_s=40))

    assert consumer.gaps == []
    assert consumer.chain == whole(node)


@pytest.mark.parametrize("first_available", [0, 13])
async def test_a_purge_is_known_by_error_code_or_by_the_first_available_block(
    first_available: int,
) -> None:
    node = node_of(30)
    node.unfetchable = {12: -32007 if first_available else -32001}

    def purge() -> None:
        if len(node.requests) > 20:
            node.first_available = first_available

    node.on_request = purge
    consumer = await follow(node)

    assert consumer.gaps == [Gap(Slot(12), Slot(12), "the node no longer has these slots")]
    assert node.clock.monotonic_s() < 20, "far less than gap_after_s"


async def test_slots_the_node_has_purged_are_a_gap_at_once() -> None:
    node = node_of(60)
    node.first_available = 33
    tip = node.blocks[20]

    seen = Consumer(whole(node)[:21])
    consumer = await follow(node, after=Tip(Slot(20), tip.blockhash), consumer=seen)

    assert consumer.gaps == [Gap(Slot(21), Slot(32), "the node no longer has these slots")]
    assert consumer.chain == whole(node)[:21] + whole(node)[33:]
    assert node.clock.monotonic_s() < 20, "far less than gap_after_s"


async def test_slots_missed_for_longer_than_max_gap_s_become_a_gap() -> None:
    node = node_of(60)
    polling = Polling(max_gap_s=30, backfill_s=5)

    consumer = await follow(node, polling, after=Tip(Slot(9), "x"))

    (gap,) = consumer.gaps
    assert (gap.first, gap.last) == (10, 53)
    assert consumer.chain == whole(node)[54:]


async def test_a_fork_is_delivered_from_its_ancestor_on() -> None:
    node = node_of(40, final_lag=12)
    consumer = Consumer()
    forked = False

    def fork_once() -> None:
        nonlocal forked
        if len(consumer.chain) == 40 and not forked:
            node.fork(depth=9, count=13, skip=1)
            forked = True

    node.on_request = fork_once
    await follow(node, consumer=consumer, done=lambda each: forked and each.chain == whole(node))

    assert consumer.repeats == 0


async def test_a_confirmed_block_that_vanished_is_replaced_before_finality() -> None:
    node = node_of(30, final_lag=10)
    consumer = await follow(node)
    node.requests.clear()
    tip = Tip(Slot(consumer.chain[-1][0]), consumer.chain[-1][1])
    # The replacement skips the slots of the delivered blocks, so no child contradicts them.
    del node.blocks[25:]
    node.grow(1, skip=20)
    node.finalize()

    consumer = await follow(node, after=tip, consumer=consumer)

    assert consumer.chain == whole(node)


async def test_an_orphaned_block_is_not_final_while_its_replacement_is_late() -> None:
    node = node_of(30, final_lag=10)
    consumer = await follow(node)
    tip = Tip(Slot(consumer.chain[-1][0]), consumer.chain[-1][1])
    del node.blocks[25:]
    node.grow(1, skip=20)
    node.finalize()
    node.unfetchable = {node.blocks[-1].slot: -32004}
    end_s = node.clock.monotonic_s() + 9

    def heal() -> None:
        if node.clock.monotonic_s() > end_s:
            node.unfetchable = {}

    node.on_request = heal
    consumer = await follow(node, after=tip, consumer=consumer)

    assert consumer.chain == whole(node)


async def test_the_chain_is_whole_although_the_node_returns_orphaned_blocks() -> None:
    node = node_of(30, final_lag=10)
    consumer = await follow(node)
    node.ghosts = {block.slot: block for block in node.blocks[20:]}
    node.fork(depth=10, count=20, skip=1)
    node.finalize()
    slot, blockhash = consumer.chain[-1]

    # Enough requests in flight to request every slot, also those of orphaned blocks.
    polling = Polling(start="first", requests_in_flight=60)
    consumer = await follow(node, polling, Tip(Slot(slot), blockhash), consumer)

    assert consumer.chain == whole(node)


async def test_a_listing_that_omits_final_blocks_orphans_none() -> None:
    node = node_of(30)
    consumer = await follow(node, done=lambda consumer: len(consumer.chain) == 30)
    node.unlisted = {4, 9, 10}

    consumer = await follow(node, consumer=consumer)

    assert consumer.chain == whole(node)


async def test_another_chain_is_refused_after_a_block_is_final() -> None:
    node = node_of(30)
    other = node_of(3)
    other.made = 1_000
    other.grow(30)
    other.finalize()

    def switch() -> None:
        if node.clock.monotonic_s() > 3:
            node.blocks, node.final_count = other.blocks, len(other.blocks)

    node.on_request = switch
    with pytest.raises(OtherChain, match="expected final block"):
        await follow(node, done=lambda _: False)


async def test_a_node_that_refuses_access_at_the_start_stops_the_poller() -> None:
    node = node_of(5)
    node.faults = [status(403)]

    with pytest.raises(RpcRefused, match=r"node getSlot: expected HTTP 200; was 403"):
        await follow(node)


async def test_the_poller_waits_for_a_node_that_refuses_access_later() -> None:
    node = node_of(30)
    node.faults = [None] * 6 + [status(403)] * 40

    consumer = await follow(node)

    assert consumer.chain == whole(node)
    assert max(node.sleeps) <= 30


async def test_the_progress_of_the_backfill_is_reported() -> None:
    node = node_of(300)
    heard: list[tuple[int, int]] = []
    rpc = Rpc(
        Endpoint(url="http://node"), clock=node.clock, transport=node.transport(), sleep=node.sleep
    )
    poller = Poller(
        rpc,
        FIRST,
        clock=node.clock,
        sleep=node.sleep,
        progress=lambda done, total: heard.append((done, total)),
    )
    async with rpc:
        async for update in poller.updates(None):
            if isinstance(update, Block) and update.slot == 299:
                break

    assert heard[0] == (1, 300)
    assert heard[-1] == (299, 300)
    assert heard == sorted(heard)


def grow(count: int, skip: int) -> Callable[[FakeNode], None]:
    return lambda node: node.grow(count, skip)


def fork(depth: int, count: int, skip: int) -> Callable[[FakeNode], None]:
    return lambda node: node.fork(depth, count, skip)


def finalize(lag: int) -> Callable[[FakeNode], None]:
    return lambda node: node.finalize(lag)


small = st.integers(0, 4)
events = st.lists(
    st.one_of(
        st.builds(grow, st.integers(1, 15), small),
        st.builds(fork, st.integers(1, 8), st.integers(1, 8), small),
        st.builds(finalize, small),
    ),
    max_size=12,
)
faults: st.SearchStrategy[list[Fault | None]] = st.lists(
    st.sampled_from(
        [
            None,
            status(500),
            status(429, **{"Retry-After": "2"}),
            body(b'{"jsonrpc": "2.0", "result": {"blockh'),
            body(b'{"jsonrpc": "2.0", "id": 1, "result": null}'),
            body(b"<html>"),
            body(b'{"result": {"blockhash": "\xff"}}'),
            body(b'{"result": ' + b"[" * 9_000),
            failing(httpx.ReadTimeout),
            failing(httpx.ReadError),
            failing(httpx.RemoteProtocolError),
            code(-32005),
            code(-32603),
            lie(-32004),
            lie(-32007),
            lie(-32009),
            behind(3),
            behind(12),
            forgetful,
        ]
    ),
    max_size=60,
)


@pytest.mark.storm
@settings(
    max_examples=150,
    derandomize=True,
    deadline=None,
)
@given(
    events=events,
    faults=faults,
    every=st.integers(1, 9),
    in_flight=st.integers(1, 6),
    restarts=st.lists(st.integers(1, 25), max_size=2),
)
@pytest.mark.storm
def test_any_schedule_of_faults_ends_with_exactly_the_chain(
    events: list[Callable[[FakeNode], None]],
    faults: list[Fault | None],
    every: int,
    in_flight: int,
    restarts: list[int],
) -> None:
    """After skips, lies, outages, lags, forks and restarts, the whole chain arrives in order."""
    node = node_of(12, final_lag=8)
    node.faults = faults
    node.requests_max = 3_000
    waiting: list[Callable[[FakeNode], None] | None] = [*events, None]  # None: the end

    def happen() -> None:
        asked = len(node.requests)
        if waiting and waiting[0] is None and asked > len(faults):
            waiting.clear()
            node.grow(skip=500)  # past every earlier slot, because a chain goes on
            node.finalize()
        elif waiting and (event := waiting[0]) is not None and asked % every == 0:
            waiting.pop(0)
            event(node)

    def complete(consumer: Consumer) -> bool:
        return not waiting and consumer.final_slot == node.blocks[-1].slot

    def after_updates(count: int) -> Callable[[Consumer], bool]:
        countdown = iter(range(count))
        return lambda consumer: next(countdown, None) is None or complete(consumer)

    node.on_request = happen
    polling = Polling(start=Slot(0), requests_in_flight=in_flight, gap_after_s=10_000)

    async def run() -> Consumer:
        consumer = Consumer()
        for count in restarts:
            await follow(node, polling, _tip(consumer), consumer, done=after_updates(count))
        return await follow(node, polling, _tip(consumer), consumer, done=complete)

    consumer = asyncio.run(run())

    assert consumer.chain == whole(node)
    assert consumer.gaps == []


def _tip(consumer: Consumer) -> Tip | None:
    if not consumer.chain:
        return None
    slot, blockhash = consumer.chain[-1]
    return Tip(Slot(slot), blockhash)
