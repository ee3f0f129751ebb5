"""Whatever the chain and its nodes do, a payment ends, soon, and once.

Of each fault: the payment is issued or failed (frozen, where it landed and what landed is not what
was agreed), whether its buyer resends it or waits; never a second transaction, never a fresh 402
after an unknown outcome, never a token for what did not land.  It ends within the time that `end_s`
names: the life of its blockhash and finality, but not before its handler's lease, and some looks.

Each fault happens on the chain of today.  Those that need many blocks that are not final, and some
that a slow finality may change, happen on the chain before Alpenglow, too.

    the answer to the broadcast is lost      lost
    it never lands                           never
    it lands late, after our patience        late
    it lands failed                          reverted
    it expires on its way                    expired
    a node is blind                          blind ...
    it brings another amount                 wrong amount
    it was confirmed, and vanished           vanished
    a node answers 429, 500, an error        429, 500, busy
    a node hangs: accepts, never answers     hanging ...
    a node closes the connection             cut
"""

import json
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from typing_extensions import override

from mintscope.kit.clock import ManualClock
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.primitives import UnixMs
from mintscope.payments import node as payment_node
from mintscope.payments.facilitator import LEASE_MARGIN_S
from mintscope.payments.payment import State
from mintscope.payments.ports import ChainUnavailable
from mintscope.payments.protocol.envelope import HELD_OPEN_S
from mintscope.solana.pace import BLOCKHASH_BLOCKS
from mintscope_devchain.blockstore import SlotPace, slot_pace
from support.scenes.payments.payment_world import MovingTransport, World, world_at
from support.scenes.payments.selling_api import KEY, OTHER_KEY, PURCHASE, SellingApi, opened

TODAY: Final = slot_pace()
OLDER: Final = slot_pace(400, 12_800)
LOOK_SLOTS: Final = 60  # in which a payment that nothing holds is looked at twice
STEP_SLOTS: Final = 15
HEALS_SLOTS: Final = 100
RESEND_SLOTS: Final = 30
CALL_S: Final = 0.05  # of real time; what a hanging node is given
PATIENCE_S: Final = 0.05  # likewise; the handler's
HELD_MS: Final = 60_000  # for as long as a real handler would have held its lease
FEE_LAMPORTS: Final = 10_001
AFTER_THE_ROW: Final = ("sendTransaction", "getSignatureStatuses", "getTransaction")


@dataclass(frozen=True)
class Fault:
    """A fault from the broadcast on, whether it heals, and how it must end.

    late_slots    how much later than it would a transaction lands or vanishes
    resent        the end, if its buyer goes on sending it; None: the same
    patience_s    how long the handler waits; long where it must see what will not last
    """

    knobs: dict[str, Any]
    ends: State
    resent: State | None = None
    heals: bool = True
    patience_s: float = PATIENCE_S
    late_slots: int = 0

    def knobs_at(self, pace: SlotPace) -> dict[str, Any]:
        if not self.late_slots:
            return self.knobs
        return {"landing": {**self.knobs["landing"], "ms": self.late_slots * pace.slot}}


def calls(kind: str, *methods: str, **more: Any) -> dict[str, Any]:
    return {"calls": {method: {"kind": kind, **more} for method in methods or AFTER_THE_ROW}}


FAULTS: Final[dict[str, Fault]] = {
    "lost": Fault(calls("lost", "sendTransaction"), State.ISSUED),
    "never": Fault({"landing": {"kind": "never"}}, State.FAILED, heals=False),
    "late": Fault({"landing": {"kind": "late"}}, State.ISSUED, heals=False, late_slots=125),
    "reverted": Fault({"landing": {"kind": "failed"}}, State.FAILED, heals=False),
    "expired": Fault({"landing": {"kind": "late"}}, State.FAILED, heals=False, late_slots=225),
    "blind to statuses": Fault({"blind": ["getSignatureStatuses"]}, State.ISSUED),
    "blind to transactions": Fault({"blind": ["getTransaction"]}, State.ISSUED),
    "blind to all": Fault(
        {"blind": ["getSignatureStatuses", "getTransaction", "getSignaturesForAddress"]},
        State.ISSUED,
    ),
    "wrong amount": Fault({}, State.FROZEN, heals=False),
    "vanished": Fault(
        {"landing": {"kind": "vanish"}}, State.FROZEN, heals=False, patience_s=10, late_slots=1
    ),
    "429": Fault(calls("http", status=429), State.FAILED, State.ISSUED),
    "500": Fault(calls("http", status=500), State.FAILED, State.ISSUED),
    "busy": Fault(calls("rpc"), State.FAILED, State.ISSUED),
    "cut": Fault(calls("lost"), State.ISSUED),
    "hanging on the broadcast": Fault(calls("hang", "sendTransaction"), State.FAILED, State.ISSUED),
    "hanging on every look": Fault(
        calls("hang", "getSignatureStatuses", "getTransaction"), State.ISSUED
    ),
    "hanging altogether": Fault(calls("hang"), State.FAILED, State.ISSUED),
}


VANISHED: Final = "vanished"  # needs the older chain: a block that is confirmed today is soon final
ON_OLDER_TOO: Final = ("never", "late", "expired", "blind to all", "hanging altogether")
CASES: Final = [
    *((name, TODAY, resends) for name in FAULTS if name != VANISHED for resends in (True, False)),
    *((VANISHED, OLDER, resends) for resends in (True, False)),
    *((name, OLDER, True) for name in ON_OLDER_TOO),
]


def end_s(pace: SlotPace) -> float:
    """Return within how many seconds of the chain a payment must have ended."""
    slot_s = pace.slot / 1000
    life_s = (BLOCKHASH_BLOCKS + pace.lag("finalized")) * slot_s
    return max(life_s, HELD_OPEN_S + LEASE_MARGIN_S) + LOOK_SLOTS * slot_s


class Clerk:
    """Reconciles as a process that began when its handler gave up holding the payment."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._clock = ManualClock(world.clock.now())

    async def work(self) -> None:
        late = UnixMs(self._world.clock.now() - HELD_MS)
        self._clock.step(late - self._clock.now())
        reconciler = replace(self._world.reconciler(), clock=self._clock)
        with suppress(ChainUnavailable, ServiceUnavailable):
            await reconciler.once()


class Skimming(MovingTransport):
    """A chain on which less arrives than was sent."""

    is_skimming = False

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        try:
            answer = await super().handle_async_request(request)
        except AssertionError as cause:  # what a broken answer is to this transport
            raise httpx.RemoteProtocolError("the answer broke off", request=request) from cause
        if not self.is_skimming or b"getTransaction" not in await request.aread():
            return answer
        content = json.loads(await answer.aread())
        for balance in (content["result"] or {"meta": {}})["meta"].get("postTokenBalances", []):
            if balance["owner"] == self._world.terms.pay_to:
                amount = balance["uiTokenAmount"]
                amount["amount"] = str(int(amount["amount"]) - 1)
        return httpx.Response(200, json=content)


@pytest.fixture
def pace() -> SlotPace:
    return TODAY


@pytest.fixture
def name() -> str:
    return ""


@pytest.fixture
async def world(tmp_path: Path, pace: SlotPace) -> AsyncIterator[World]:
    async with world_at(tmp_path, pace) as world:
        yield world


@pytest.fixture
async def hasty(
    world: World, name: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[SellingApi]:
    """A shop that waits for the chain, and for an answer of a node, for a moment only."""
    monkeypatch.setattr(payment_node, "CALL_S", CALL_S)
    world.transport = Skimming(world, world.node)
    patience_s = FAULTS[name].patience_s if name else PATIENCE_S
    async with opened(world, patience_s=patience_s) as shop:
        yield shop


class Course:
    """The answer to a buyer about one payment, and the truth then."""

    def __init__(self, shop: SellingApi, payment: str) -> None:
        self._shop = shop
        self._payment = payment
        self.tokens: set[str] = set()

    @property
    def state(self) -> str | None:
        return self._shop.world.sql("SELECT (SELECT state FROM payment)")  # type: ignore[no-any-return]

    async def send(self) -> httpx.Response:
        """Send the payment with its key, and hold what is answered against the books."""
        answer = await self._shop.send("POST", PURCHASE, self._payment, key=KEY)
        assert answer.status_code in {201, 402, 503}, answer.text
        if answer.status_code == 402:  # and with it the demand for another payment
            assert self.state == State.FAILED
        if answer.status_code == 201:
            assert self.state == State.ISSUED
            self.tokens.add(answer.json()["data"]["token"])
        return answer

    async def steal(self) -> int:
        return (await self._shop.send("POST", PURCHASE, self._payment, key=OTHER_KEY)).status_code


@pytest.mark.storm
@pytest.mark.parametrize(
    ("name", "pace", "resends"),
    CASES,
    ids=lambda value: f"{value.slot} ms" if isinstance(value, SlotPace) else str(value),
)
async def test_every_payment_ends_in_time(
    hasty: SellingApi,
    world: World,
    name: str,
    pace: SlotPace,
    resends: bool,  # noqa: FBT001
) -> None:
    fault, clerk = FAULTS[name], Clerk(world)
    course = Course(hasty, await hasty.paid("POST", PURCHASE))
    world.go_wrong(**fault.knobs_at(pace))
    assert isinstance(world.transport, Skimming)
    world.transport.is_skimming = name == "wrong amount"
    first = await course.send()
    began_ms = world.clock.now()
    has_ended = False
    while (passed_ms := world.clock.now() - began_ms) < end_s(pace) * 1000:
        if fault.heals and passed_ms >= HEALS_SLOTS * pace.slot:
            world.go_wrong()
        if resends and passed_ms // pace.slot % RESEND_SLOTS < STEP_SLOTS:
            await course.send()
        world.slots(STEP_SLOTS)
        await clerk.work()
        has_ended = has_ended or course.state in {State.ISSUED, State.FAILED, State.FROZEN}

    expected = (fault.resent if resends else None) or fault.ends
    assert course.state == expected
    assert has_ended
    last = await course.send()
    assert last.status_code == {State.ISSUED: 201, State.FAILED: 402, State.FROZEN: 503}[expected]
    assert len(course.tokens) <= 1
    assert first.status_code in {last.status_code, 503} or expected is State.FROZEN
    assert await course.steal() == (402 if expected is State.FAILED else 409)
    assert world.fees() <= FEE_LAMPORTS
    assert list(world.ledger().values()) == {State.ISSUED: [10], State.FAILED: []}.get(
        expected, [0] * len(course.tokens)
    )
    if expected is State.ISSUED:
        assert world.received() == 25_000


@pytest.mark.parametrize("kind", ["http", "rpc", "hang", "lost"])
async def test_before_the_row_a_fault_is_503_and_nothing_is_sent(
    hasty: SellingApi, world: World, kind: str
) -> None:
    course = Course(hasty, await hasty.paid("POST", PURCHASE))
    world.go_wrong(**calls(kind, "*"))
    answer = await course.send()
    assert answer.json()["error"]["code"] == "PAYMENT_UNAVAILABLE"
    assert course.state is None
    world.go_wrong()
    world.slots(75)

    while (await course.send()).status_code == 503:
        world.slots(1)
    assert course.state == State.ISSUED


async def test_an_old_blockhash_is_refused_before_anything_is_sent(
    hasty: SellingApi, world: World
) -> None:
    payment = await hasty.paid("POST", PURCHASE)
    world.slots(160)
    world.moving.add("simulateTransaction")

    answer = await hasty.send("POST", PURCHASE, payment, key=KEY)
    assert answer.status_code == 402
    assert "sendTransaction" not in world.calls
