"""Tests of the time until finality is known, and of nodes with other commitment levels.

The node has a new block in each slot of a clock that moves only while the poller sleeps.
"""

from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field

import httpx
import pytest
import structlog
from typing_extensions import override

from mintscope.kit.clock import ManualClock
from mintscope.kit.metrics import ALPENGLOW
from mintscope.kit.primitives import Slot, UnixMs
from mintscope.solana.blocks import Block, Endpoint, Finalized
from mintscope.solana.finality import watch_migration
from mintscope.solana.poll import Poller, Polling
from mintscope.solana.rpc import Commitment, Head, Rpc, RpcRefused
from support.fakes.node import FakeNode, Fault, body, code, reply, status

START = UnixMs(1_700_000_000_000)
FINAL_QUESTIONS = {"getLatestBlockhash", "getSlot"}


@dataclass
class Growing(FakeNode):
    """A node whose chain grows with its clock; the newest *lag* slots are not final."""

    slot_ms: int = 200
    lag: int = 2
    made_ms: dict[int, int] = field(default_factory=dict)

    def catch_up(self) -> None:
        while (due_ms := START + len(self.blocks) * self.slot_ms) <= self.clock.now():
            self.grow()
            self.made_ms[self.blocks[-1].slot] = due_ms
        self.finalize(self.lag)

    @override
    def handle(self, request: httpx.Request) -> httpx.Response:
        self.catch_up()
        return super().handle(request)


def growing(*, lag: int, slot_ms: int = 200) -> Growing:
    node = Growing(ManualClock(START), slot_ms=slot_ms, lag=lag)
    node.catch_up()
    return node


def client(node: FakeNode) -> Rpc:
    return Rpc(
        Endpoint(url="http://node"),
        clock=node.clock,
        transport=node.transport(),
        jitter=lambda: 0.5,
        sleep=node.sleep,
    )


async def late_ms(node: Growing, blocks: int) -> list[int]:
    """Poll *blocks* blocks; return the delay of each from finality to the report, in ms."""
    late: list[int] = []
    async with client(node) as rpc:
        poller = Poller(rpc, Polling(start="first"), clock=node.clock, sleep=node.sleep)
        async with aclosing(poller.updates(None)) as updates:
            final, delivered = -1, -1
            async for update in updates:
                if isinstance(update, Block):
                    delivered = update.slot
                if isinstance(update, Finalized):
                    now_ms = node.clock.now()
                    late += [
                        now_ms - node.made_ms[slot] - node.lag * node.slot_ms
                        for slot in range(final + 1, update.slot + 1)
                    ]
                    final = update.slot
                if delivered >= blocks and final >= blocks - node.lag:
                    return late
    raise AssertionError("expected the poller to go on")


def final_questions(node: Growing) -> int:
    return sum(
        method in FINAL_QUESTIONS and params[0]["commitment"] == "finalized"
        for method, params in node.requests
    )


@pytest.mark.parametrize("lag", [0, 1, 2, 5])
async def test_fast_finality_is_known_within_half_a_second(lag: int) -> None:
    node = growing(lag=lag)

    late = sorted((await late_ms(node, 150))[20:])  # after the poller knows that finality is fast

    assert late[len(late) * 9 // 10] <= 300 + 150 + 50  # two pauses, and requests
    assert late[-1] <= 800
    assert final_questions(node) <= 150 * 0.2 / 0.3 + 5
    asked = [params for method, params in node.requests if method == "getBlock"][20:]
    if lag:  # else a block may be final before it was delivered
        assert not any(params[1]["transactionDetails"] == "none" for params in asked)


async def test_slow_finality_is_requested_once_a_second() -> None:
    node = growing(lag=32, slot_ms=400)

    late = sorted(await late_ms(node, 150))

    assert late[-1] <= 1_000 + 150 + 50
    assert final_questions(node) <= 150 * 0.4 + 15  # some more while the chain is short


async def test_finality_is_known_without_support_for_get_latest_blockhash() -> None:
    node = growing(lag=2)
    node.names_head = False

    late = sorted((await late_ms(node, 100))[20:])

    assert late[-1] <= 500
    assert [method for method, _ in node.requests].count("getLatestBlockhash") == 1


async def test_finality_is_known_although_the_node_names_a_foreign_hash() -> None:
    """A provider may combine the slot of one node with the blockhash of another."""
    node = growing(lag=2)

    def other(honest: FakeNode, method: str, _params: list[object]) -> httpx.Response | None:
        if method != "getLatestBlockhash":
            return None
        named = honest.getLatestBlockhash({"commitment": "finalized"})
        return reply(result={**named, "value": {"blockhash": "another"}})

    node.faults = [other] * 20_000  # for every request

    assert max(await late_ms(node, 60)) <= 1_200


async def test_only_final_blocks_are_followed_if_the_node_lacks_confirmed() -> None:
    node = growing(lag=2)
    node.levels = frozenset({"finalized"})

    with structlog.testing.capture_logs() as logs:
        async with client(node) as rpc:
            poller = Poller(rpc, Polling(start="first"), clock=node.clock, sleep=node.sleep)
            async with aclosing(poller.updates(None)) as updates:
                async for update in updates:
                    if isinstance(update, Finalized) and update.slot >= 40:
                        break
                    if isinstance(update, Block):
                        assert update.slot < node.final_count
            assert not rpc.knows_confirmed

    assert [entry["event"] for entry in logs].count("confirmed_unknown") == 1
    refused = [params for _, params in node.requests if "confirmed" in str(params)]
    assert len(refused) == 2


@pytest.mark.parametrize(
    "ask",
    [
        lambda rpc: rpc.slot(Commitment.CONFIRMED),
        lambda rpc: rpc.blocks(first=0, last=9, commitment=Commitment.CONFIRMED),
        lambda rpc: rpc.header(5, Commitment.CONFIRMED),
        lambda rpc: rpc.block(5, Commitment.CONFIRMED),
    ],
)
async def test_any_first_request_works_on_a_node_without_confirmed(
    ask: Callable[[Rpc], object],
) -> None:
    node = growing(lag=0)
    node.clock.advance(10_000)
    node.levels = frozenset({"finalized"})
    answered = []
    for levels in ({"finalized"}, {"confirmed", "finalized"}):
        node.levels = frozenset(levels)
        async with client(node) as rpc:
            answered.append(await ask(rpc))  # type: ignore[misc]

    assert str(answered[0])[:120] == str(answered[1])[:120]  # addresses of objects follow


async def test_other_refused_parameters_do_not_disable_confirmed() -> None:
    node = growing(lag=0)
    node.faults = [code(-32602)]
    async with client(node) as rpc:
        with pytest.raises(RpcRefused, match="does not accept these parameters"):
            await rpc.block(Slot(0), Commitment.CONFIRMED)
        assert rpc.knows_confirmed
        assert isinstance(await rpc.block(Slot(0), Commitment.CONFIRMED), Block)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (None, True),
        (lambda *_: reply(result=None), False),
        (code(-32601), None),
        (status(401), None),
        (status(404), None),
        (body(b"<html>"), None),
        (lambda *_: reply(result="yes"), None),
    ],
)
async def test_alpenglow_is_true_false_or_unknown(fault: Fault, said: bool | None) -> None:  # noqa: FBT001
    node = growing(lag=0)
    node.faults = [fault] * 9
    async with client(node) as rpc:
        assert await rpc.alpenglow() is said


class Enough(Exception):
    """Ends the loop that a test runs."""


async def test_the_alpenglow_migration_is_requested_repeatedly() -> None:
    """The task continues after the migration: a task that ends would be reported as a bug."""
    node = growing(lag=0)
    node.faults = [code(-32601), lambda *_: reply(result=None)]
    shown: list[float] = []

    async def sleep(_seconds: float) -> None:
        shown.extend(one.value for one in next(iter(ALPENGLOW.collect())).samples)
        if len(shown) > 3:
            raise Enough

    async with client(node) as rpc:
        with pytest.raises(Enough):
            await watch_migration(rpc, sleep)

    assert shown == [-1, 0, 1, 1]


async def test_only_the_final_head_has_its_hash() -> None:
    node = growing(lag=1)
    node.clock.advance(2_000)
    async with client(node) as rpc:
        head = await rpc.head(Commitment.FINALIZED)
        assert head == Head(node.blocks[-2].slot, node.blocks[-2].blockhash)  # type: ignore[arg-type]
        assert (await rpc.head(Commitment.CONFIRMED)).blockhash is None
