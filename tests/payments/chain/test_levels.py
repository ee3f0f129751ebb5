"""The settlement decides whether an unknown blockhash has expired or the node is behind.

The chain is simulated: every slot has a block, except those that are skipped, and blocks are final
some seconds later.  The settlement asks one or two nodes, which are behind or ahead, stand still,
know no blockhash, or answer null.  Time passes only by the settlement's own pauses.  The test knows
the true height until which the blockhash is valid.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any, Final

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from solders.hash import Hash

from mintscope.kit.clock import ManualClock
from mintscope.kit.primitives import UnixMs
from mintscope.payments.ports import ChainUnavailable, Simulated, Trial, UnknownBlockhash
from mintscope.payments.protocol.envelope import Envelope, open_envelope
from mintscope.payments.settlement import AHEAD_SLOTS, SLOT_S_UNKNOWN, RpcSettlement
from mintscope.solana.blocks import Endpoint
from mintscope.solana.pace import SLOT_S_MIN, Pace
from support.scenes.payments.payment_build import PAYER, TERMS, Recipe

SLOTS_S: Final = (0.1, 0.2, 0.4, 0.8)
FINALITIES_S: Final = (0.15, 13.0)
GOOD_BLOCKS: Final = 150
QUESTIONS_MAX: Final = 11  # of a simulation; a look for the payment needs three more at most
START: Final = 1_000  # slot and height when a payment comes


@dataclass
class Chain:
    """A chain with a block in each slot, except in *skipped* of every hundred slots."""

    slot_s: float
    finality_s: float
    skipped: int = 0
    clock: ManualClock = field(default_factory=lambda: ManualClock(UnixMs(0)))

    @property
    def slot(self) -> int:
        return START + int(self.clock.monotonic_s() / self.slot_s + 1e-6)

    def height(self, slot: int) -> int:
        return slot - slot * self.skipped // 100

    def slot_of(self, height: int) -> int:
        return next(slot for slot in range(height, 2 * height) if self.height(slot) == height)


@dataclass
class Node:
    """A node's view of *chain*, with faults that a test can set.

    lag         slots that the node is behind
    stands      whether the node's slot stays that of the first request
    forgets     whether the node knows no blockhash
    is_mute     whether the node answers null
    samples     the performance samples of the node; None if it has no samples
    """

    chain: Chain
    lag: int = 0
    stands: bool = False
    forgets: bool = False
    is_mute: bool = False
    samples: list[dict[str, int]] | None = None
    stood_at: int | None = None

    @property
    def slot(self) -> int:
        slot = self.chain.slot - self.lag
        if self.stands:
            self.stood_at = slot = slot if self.stood_at is None else self.stood_at
        return slot

    def answer(self, method: str, params: list[Any], made_at: int) -> Any:
        if method == "getRecentPerformanceSamples":
            return self.samples
        if self.is_mute:
            return None
        level = params[-1]["commitment"]
        final = int(self.chain.finality_s / self.chain.slot_s)
        slot = self.slot - (final if level == "finalized" else 0)
        height = self.chain.height(slot)
        if method == "getEpochInfo":
            return {"absoluteSlot": slot, "blockHeight": height, "epoch": 2}
        if method == "getLatestBlockhash":
            value = {"blockhash": str(name(slot)), "lastValidBlockHeight": height + GOOD_BLOCKS}
            return {"context": {"slot": slot}, "value": value}
        assert method == "simulateTransaction"
        born = self.chain.height(made_at)
        known = made_at <= slot and height - born <= GOOD_BLOCKS and not self.forgets
        accounts = [{"data": [HOLDING, "base64"]}] if known else None
        value = {"err": None if known else "BlockhashNotFound", "accounts": accounts}
        return {"context": {"slot": slot}, "value": value}


HOLDING: Final = "A" * 220  # 165 bytes of an account that holds nothing


def name(slot: int) -> Hash:
    """Return the blockhash of the block at *slot*."""
    return Hash(slot.to_bytes(8) + bytes(24))


def payment(made_at: int) -> Envelope:
    opened = open_envelope(Recipe(amount=1, memo=b"m", blockhash=name(made_at)).build())
    assert isinstance(opened, Envelope)
    return opened


class Scene:
    """A settlement whose requests reach *nodes* in turn."""

    def __init__(
        self, chain: Chain, nodes: Sequence[Node], *, followed: int = 0, measures: bool = False
    ) -> None:
        self.chain = chain
        self.followed = followed
        self._nodes = cycle(nodes)
        self._made_at = 0
        self.asked: list[str] = []
        self.settlement = RpcSettlement(
            Endpoint(url="http://node/"),
            terms=[TERMS],
            clock=chain.clock,
            pace=lambda: None if measures else Pace(chain.slot_s, 60),
            followed_slot=self._followed,
            transport=httpx.MockTransport(self._handle),
            sleep=self._sleep,
        )

    async def _followed(self) -> int:
        return self.followed and self.followed + self.chain.slot - START

    async def _sleep(self, seconds: float) -> None:
        self.chain.clock.advance(max(round(seconds * 1000), 1))

    def _handle(self, request: httpx.Request) -> httpx.Response:
        call = json.loads(request.content)
        self.asked.append(call["method"])
        result = next(self._nodes).answer(call["method"], call["params"], self._made_at)
        return httpx.Response(200, json={"jsonrpc": "2.0", "id": 1, "result": result})

    async def simulate(self, made_at: int) -> Trial:
        self._made_at = made_at
        source = TERMS.token_account(PAYER.pubkey())
        return await self.settlement.simulate(payment(made_at), source)


def is_good(chain: Chain, made_at: int) -> bool:
    return chain.height(chain.slot) - chain.height(made_at) <= GOOD_BLOCKS


paces = pytest.mark.parametrize("slot_s", SLOTS_S)
finalities = pytest.mark.parametrize("finality_s", FINALITIES_S)


@paces
@finalities
@pytest.mark.parametrize("age", [151, 200, 5_000])
async def test_an_expired_blockhash_is_reported_within_some_slots(
    slot_s: float, finality_s: float, age: int
) -> None:
    chain = Chain(slot_s, finality_s)
    scene = Scene(chain, [Node(chain)])
    found = await scene.simulate(max(START - age, 1))

    assert found == UnknownBlockhash()
    assert chain.slot - START <= AHEAD_SLOTS + 1
    assert scene.asked.count("simulateTransaction") <= AHEAD_SLOTS + 2


@paces
async def test_an_expired_blockhash_that_was_offered_is_refused_at_once(slot_s: float) -> None:
    chain = Chain(slot_s, 0.15)
    scene = Scene(chain, [Node(chain)])
    await scene.settlement.refresh_offer()
    made_at = chain.slot
    chain.clock.advance(int((GOOD_BLOCKS + 1) * slot_s * 1000))
    asked_at = chain.slot

    assert await scene.simulate(made_at) == UnknownBlockhash()
    assert chain.slot == asked_at


@paces
async def test_a_node_that_forgets_an_offered_blockhash_is_behind_until_it_expires(
    slot_s: float,
) -> None:
    chain = Chain(slot_s, 13.0)
    scene = Scene(chain, [Node(chain, forgets=True)])
    await scene.settlement.refresh_offer()

    assert await scene.simulate(START) == UnknownBlockhash(is_node_behind=True)
    chain.clock.advance(int((GOOD_BLOCKS + 1) * slot_s * 1000))
    assert await scene.simulate(START) == UnknownBlockhash()


@paces
async def test_a_node_that_stands_still_is_behind(slot_s: float) -> None:
    chain = Chain(slot_s, 0.15)
    scene = Scene(chain, [Node(chain, lag=5, stands=True)])

    assert await scene.simulate(START) == UnknownBlockhash(is_node_behind=True)
    assert len(scene.asked) <= QUESTIONS_MAX


@paces
async def test_a_node_is_behind_if_ingest_has_seen_later_slots(slot_s: float) -> None:
    chain = Chain(slot_s, 0.15)
    scene = Scene(chain, [Node(chain, lag=40)], followed=START)

    assert await scene.simulate(START - 3) == UnknownBlockhash(is_node_behind=True)


@paces
async def test_the_settlement_waits_for_a_node_two_slots_behind(slot_s: float) -> None:
    chain = Chain(slot_s, 0.15)

    assert isinstance(await Scene(chain, [Node(chain, lag=2)]).simulate(START), Simulated)


async def test_null_answers_of_a_node_are_an_outage() -> None:
    chain = Chain(0.2, 0.15)
    with pytest.raises(ChainUnavailable):
        await Scene(chain, [Node(chain, is_mute=True)]).simulate(START - 500)


@pytest.mark.parametrize("lag", [0, 30, 31])
async def test_a_blockhash_of_a_node_that_lags_behind_ingest_is_not_offered(lag: int) -> None:
    chain = Chain(0.2, 0.15)
    settlement = Scene(chain, [Node(chain, lag)], followed=START).settlement
    await settlement.refresh_offer()

    offered = settlement.offer()
    assert (offered is None) == (lag > 30)
    assert offered is None or offered.last_valid_height == START - lag + GOOD_BLOCKS


@pytest.mark.parametrize("slot_s", [0.04, *SLOTS_S])
async def test_the_pace_is_measured_by_answers_of_the_node_without_samples(slot_s: float) -> None:
    """Until the pace is measured, a slot of SLOT_S_UNKNOWN is assumed."""
    chain = Chain(slot_s, 0.15)
    settlement = Scene(chain, [Node(chain)], measures=True).settlement
    await settlement.refresh_offer()
    assert settlement.slot_s() == SLOT_S_UNKNOWN
    for _ in range(4):
        chain.clock.advance(int(20 * settlement.slot_s() * 1000))
        await settlement.refresh_offer()

    assert settlement.slot_s() == pytest.approx(slot_s, rel=0.1)


async def test_a_slot_has_the_minimum_duration_after_a_jump_of_the_node() -> None:
    chain = Chain(0.2, 0.15)
    node = Node(chain)
    settlement = Scene(chain, [node], measures=True).settlement
    await settlement.refresh_offer()
    node.lag = -(10**9)
    await settlement.refresh_offer()

    assert settlement.slot_s() == SLOT_S_MIN


async def test_performance_samples_give_the_pace_at_once() -> None:
    chain = Chain(0.4, 0.15)
    samples = [{"slot": 9, "numSlots": 300, "numTransactions": 1, "samplePeriodSecs": 60}] * 5
    settlement = Scene(chain, [Node(chain, samples=samples)], measures=True).settlement
    await settlement.refresh_offer()

    assert settlement.slot_s() == 0.2


@settings(max_examples=300, deadline=None)
@given(
    slot_s=st.sampled_from(SLOTS_S),
    finality_s=st.sampled_from(FINALITIES_S),
    skipped=st.integers(0, 30),
    age=st.integers(0, 400),
    lags=st.lists(st.integers(0, 60), min_size=1, max_size=2),
    stands=st.booleans(),
    forgets=st.booleans(),
    follows=st.booleans(),
    offered=st.booleans(),
)
async def test_a_blockhash_is_refused_only_after_it_has_expired(  # noqa: PLR0913
    *,
    slot_s: float,
    finality_s: float,
    skipped: int,
    age: int,
    lags: list[int],
    stands: bool,
    forgets: bool,
    follows: bool,
    offered: bool,
) -> None:
    """This holds if the slot of ingest is known, or if nodes lag by at most AHEAD_SLOTS."""
    chain = Chain(slot_s, finality_s, skipped)
    nodes = [Node(chain, lag, stands=stands, forgets=forgets) for lag in lags]
    scene = Scene(chain, nodes, followed=START if follows else 0)
    made_at = START - age
    if offered:
        await scene.settlement.refresh_offer()
    was_good = is_good(chain, made_at)
    found = await scene.simulate(made_at)
    elapsed = chain.slot - START

    match found:
        case UnknownBlockhash(is_node_behind=False):
            # A single node that is always behind looks like a node level with the chain.
            is_level = follows or max(lags) <= AHEAD_SLOTS
            assert not was_good or forgets or not is_level or not is_good(chain, made_at)
        case UnknownBlockhash():
            assert elapsed <= 9
        case Simulated(last_valid_height=last):
            end = chain.height(made_at) + GOOD_BLOCKS
            # Slots between those of two nodes may have no block; neither node shows that.
            assert end <= last <= chain.height(chain.slot) + GOOD_BLOCKS + max(lags)
        case _:
            raise AssertionError(found)
