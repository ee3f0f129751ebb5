"""A payment ends once and in time, whatever the chain and its nodes do.

After each fault the payment is issued or failed, whether its buyer resends it or waits; it is
frozen if it landed with another amount than agreed, or vanished.  There is never a second
transaction, a new 402 after an unknown outcome, or a token for a payment that did not land.  The
payment ends within `end_s`: the life of its blockhash and the time to finality, but at least the
lease of its handler; and some looks at the chain.

Each fault happens on the chain of today.  Faults that need many blocks that are not final, and some
that a slow finality may change, happen on the chain before Alpenglow, too.

    the answer to the broadcast is lost      lost
    the transaction never lands              never
    it lands after our patience              late
    it lands and has failed                  reverted
    it expires on its way                    expired
    a node is blind                          blind ...
    it pays another amount                   wrong amount
    it vanishes after it was confirmed       vanished
    a node answers 429, 500, an error        429, 500, busy
    a node hangs: accepts, never answers     hanging ...
    a node closes the connection             cut
"""

import json
from collections.abc import AsyncIterator, Iterator
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
from mintscope.kit.sql.database import Database
from mintscope.payments import node as payment_node
from mintscope.payments.facilitator import LEASE_MARGIN_S
from mintscope.payments.payment import State
from mintscope.payments.ports import ChainUnavailable
from mintscope.payments.protocol.envelope import HELD_OPEN_S
from mintscope.solana.pace import BLOCKHASH_BLOCKS
from mintscope_devchain.blockstore import SlotPace, slot_pace
from support.scenes.engine import separate
from support.scenes.payments.payment_world import MovingTransport, World, world_at
from support.scenes.payments.selling_api import KEY, OTHER_KEY, PURCHASE, SellingApi, opened

TODAY: Final = slot_pace()
OLDER: Final = slot_pace(400, 12_800)
LOOK_SLOTS: Final = 60  # within which a payment without a lease is checked twice
STEP_SLOTS: Final = 15
HEALS_SLOTS: Final = 100
RESEND_SLOTS: Final = 30
CALL_S: Final = 0.05  # real time; the timeout of a call to a hanging node
PATIENCE_S: Final = 0.05  # real time; how long the handler waits
HELD_MS: Final = 60_000  # how long a real handler would have held its lease
FEE_LAMPORTS: Final = 10_001
AFTER_THE_ROW: Final = ("sendTransaction", "getSignatureStatuses", "getTransaction")


@dataclass(frozen=True)
class Fault:
    """A fault of the chain from the broadcast of a payment on, and how the payment must end.

    ends          the last state of the payment
    resent        its last state if the buyer keeps sending the payment; None: as in `ends`
    heals         whether the fault is gone after HEALS_SLOTS slots
    late_slots    the slots by which the transaction lands, or vanishes, later than usual
    patience_s    the time that the handler waits; long enough to see a block that vanishes later
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
    """Return the seconds of chain time within which every payment must be issued or failed."""
    slot_s = pace.slot / 1000
    life_s = (BLOCKHASH_BLOCKS + pace.lag("finalized")) * slot_s
    return max(life_s, HELD_OPEN_S + LEASE_MARGIN_S) + LOOK_SLOTS * slot_s


class Clerk:
    """A reconciler with a clock that is HELD_MS slow, so it waits as for a real handler's lease."""

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
    """A node that reports one atom less than has arrived, while *is_skimming* is set."""

    is_skimming = False

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        try:
            answer = await super().handle_async_request(request)
        except AssertionError as cause:  # the error of this transport for a broken answer
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
    """Yield a shop that waits only a moment for the chain, and for each answer of a node."""
    monkeypatch.setattr(payment_node, "CALL_S", CALL_S)
    world.transport = Skimming(world, world.node)
    patience_s = FAULTS[name].patience_s if name else PATIENCE_S
    async with opened(world, patience_s=patience_s) as shop:
        yield shop


@pytest.fixture
def books(hasty: SellingApi) -> Iterator[Database]:
    """Yield one connection for all reads of the books, because a test reads them a dozen times."""
    with separate(hasty.world.path) as database:
        yield database


class Course:
    """One payment: the credit tokens that the buyer got for it, and its state in the books."""

    def __init__(self, shop: SellingApi, payment: str, books: Database) -> None:
        self._shop = shop
        self._payment = payment
        self._books = books
        self.tokens: set[str] = set()

    @property
    def state(self) -> str | None:
        return self._books.execute("SELECT (SELECT state FROM payment)").get  # type: ignore[no-any-return]

    async def send(self) -> httpx.Response:
        """Send the payment with its Idempotency-Key, and check the answer against the books."""
        answer = await self._shop.send("POST", PURCHASE, self._payment, key=KEY)
        assert answer.status_code in {201, 402, 503}, answer.text
        if answer.status_code == 402:  # the demand for another payment
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
    books: Database,
    name: str,
    pace: SlotPace,
    resends: bool,  # noqa: FBT001
) -> None:
    world = hasty.world
    fault, clerk = FAULTS[name], Clerk(world)
    course = Course(hasty, await hasty.paid("POST", PURCHASE), books)
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
async def test_a_payment_can_be_resent_after_a_fault_before_it_is_stored(
    hasty: SellingApi, world: World, books: Database, kind: str
) -> None:
    course = Course(hasty, await hasty.paid("POST", PURCHASE), books)
    world.go_wrong(**calls(kind, "*"))
    answer = await course.send()
    assert answer.json()["error"]["code"] == "PAYMENT_UNAVAILABLE"
    assert course.state is None
    assert world.calls != []
    assert "sendTransaction" not in world.calls
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
