"""Payments are taken, refused, adopted and reconciled on a chain whose answers each test sets."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pytest
from solders.hash import Hash
from solders.pubkey import Pubkey
from typing_extensions import override

from mintscope.credits.invariants import Invariant, Violation
from mintscope.kit.audit import COMMAND_LINE
from mintscope.kit.clock import ManualClock
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.limits import MemoryLimits
from mintscope.kit.primitives import Signature, UnixMs
from mintscope.kit.time import DAY_MS, HOUR_MS
from mintscope.payments.audit import Recognised, SoldItem, compare, recognise
from mintscope.payments.facilitator import Credits, Demand, Facilitator, VerifiedPayment
from mintscope.payments.merchant import Adopter, NotAdopted
from mintscope.payments.payment import (
    MISSED_BLOCKS,
    Dead,
    Landed,
    PaidReport,
    Payment,
    Reverted,
    Sighting,
    State,
    UnreadablePayment,
    Unseen,
    weigh,
)
from mintscope.payments.ports import (
    AlreadyUsed,
    Budget,
    ChainUnavailable,
    Inconsistent,
    Obstacle,
    Outcome,
    Rejected,
    Settled,
    Simulated,
    TreasuryUnusable,
    Trial,
    Unavailable,
    UnknownBlockhash,
    Unresolved,
    Used,
)
from mintscope.payments.protocol.envelope import (
    Envelope,
    RecentBlockhash,
    RefusalReason,
    Refused,
    Resource,
    Signed,
    open_envelope,
)
from mintscope.payments.protocol.headers import Presented
from mintscope.payments.protocol.verify import FEE_LAMPORTS_USUAL, find_memo, transferred
from mintscope.payments.reconciler import Reconciler, Secrets
from mintscope.payments.trials import Trials
from support.fakes.payment_memory import MemoryPaymentStore
from support.scenes.payments.payment_build import (
    FEE_PAYER,
    PAYER,
    TERMS,
    Recipe,
    pay,
    present,
)

NOW: Final = UnixMs(1_700_000_000_000)
SECRETS: Final = Secrets.derive(b"r" * 32)
RESOURCE: Final = Resource("/v1/credits/purchase?bundle=10")
AMOUNT: Final = 25_000
KEY: Final = "the-secret-of-the-buyer"
LANDED: Final = Landed(paid=AMOUNT, final=False)
LANDED_FOR_GOOD: Final = Landed(paid=AMOUNT, final=True)
LAST: Final = 1_150  # the last block height at which the payments of these tests are valid
SLOT_S: Final = 0.4


@dataclass
class ReportedChain:
    """A chain that gives the answers that a test sets; None: the node does not answer."""

    trial: Trial | None = field(
        default_factory=lambda: Simulated(balance_after=10**9, last_valid_height=LAST)
    )
    waited: Sighting | None = LANDED
    seen: Sighting | None = field(default_factory=lambda: Unseen(height=1))
    sent: list[Signed] = field(default_factory=list)
    looks: int = 0
    lost: int = 0  # number of broadcasts that reach no leader
    waits_s: list[float] = field(default_factory=list)
    offered: RecentBlockhash | None = None
    look_at: Callable[[], Sighting] | None = None  # returns the sighting of each look
    hang: Callable[[], None] = lambda: None  # called during each broadcast

    def offer(self) -> RecentBlockhash | None:
        return self.offered

    async def recent_blockhash(self) -> Hash:
        return Hash.default()

    async def simulate(self, envelope: Envelope, source: Pubkey) -> Trial:
        assert source == TERMS.token_account(envelope.accounts[1])
        if self.trial is None:
            raise ChainUnavailable
        return self.trial

    async def broadcast(self, signed: Signed) -> None:
        self.sent.append(signed)
        self.hang()

    async def wait(self, signature: Signature, *, patience_s: float) -> Sighting:
        assert signature == self.sent[-1].signature
        self.waits_s.append(patience_s)
        if self.waited is None:
            raise ChainUnavailable
        return Unseen() if len(self.sent) <= self.lost else self.waited

    async def look(self, signatures: Sequence[Signature]) -> Sequence[Sighting]:
        self.looks += 1
        seen = self.seen if self.look_at is None else self.look_at()
        if seen is None:
            raise ChainUnavailable
        return [seen] * len(signatures)


class World:
    """A service that takes payments, with a store in memory and a chain that a test controls."""

    def __init__(self) -> None:
        self.clock = ManualClock(NOW)
        self.store = MemoryPaymentStore()
        self.chain = ReportedChain()
        self.drawn = 0
        self.aside: list[tuple[Signature, str]] = []
        self.recorded: bytes | None = None
        self.slot_s = SLOT_S
        self.trials: Trials | None = None

    def entropy(self, count: int) -> bytes:
        self.drawn += 1
        return self.drawn.to_bytes(count)

    def facilitator(self) -> Facilitator:
        return Facilitator(
            terms=TERMS,
            secrets=SECRETS,
            fee_payer=FEE_PAYER,
            store=self.store,
            adoptions=self.store,
            chain=self.chain,
            clock=self.clock,
            entropy=self.entropy,
            budget=Budget(),
            slot_s=lambda: self.slot_s,
            trials=self.trials,
        )

    def quoted(self, key: str | None = KEY, **changes: Any) -> Presented:
        return pay(self.facilitator().require(RESOURCE, AMOUNT, key), **changes)

    async def buy(self, presented: Presented, key: str | None = KEY, **wanted: Any) -> Outcome:
        address = wanted.get("address", "192.0.2.1")
        demand = Demand(resource=RESOURCE, key=key, address=address)
        answer = await self.facilitator().present(presented, demand)
        if not isinstance(answer, VerifiedPayment):
            return answer
        return await answer.settle(wanted.get("wanted", Credits(10)))

    def lose(self) -> None:
        """Restore the store from a copy that is older than every payment."""
        self.store = MemoryPaymentStore()

    def reconciler(self) -> Reconciler:
        return Reconciler(
            store=self.store,
            chain=self.chain,
            clock=self.clock,
            slot_s=lambda: self.slot_s,
            on_unreadable=lambda payment, why: self.aside.append((payment.signature, why)),
        )

    async def read(self, _: Signature) -> bytes | None:
        return self.recorded

    async def recognise(self, wire: bytes) -> Recognised | None:
        return recognise(wire, [SoldItem(RESOURCE, 10)], terms=TERMS, quote_key=SECRETS.quote)

    def adopter(self) -> Adopter:
        return Adopter(
            records=Records(self),
            chain=self.chain,
            store=self.store,
            adoptions=self.store,
            recognise=self.recognise,
            secrets=SECRETS,
            clock=self.clock,
            entropy=self.entropy,
        )

    def row(self) -> Payment:
        (row,) = self.store.rows.values()
        return row.payment


@dataclass
class Records:
    world: World

    async def recorded(self, signature: Signature) -> bytes | None:
        return await self.world.read(signature)


@pytest.fixture
def world() -> World:
    return World()


async def test_a_payment_is_pending_while_its_blockhash_is_valid(world: World) -> None:
    world.chain.waited = None
    pending = await world.buy(world.quoted())
    assert isinstance(pending, Unresolved)

    assert pending.payment.last_valid_height == LAST
    assert weigh(pending.payment, Unseen(height=LAST)) is None
    assert weigh(pending.payment, Unseen(height=LAST + 1)) == Dead(height=LAST + 1)
    assert weigh(replace(pending.payment, last_valid_height=-1), Unseen()) == Dead(height=0)
    assert MISSED_BLOCKS == 32


async def test_a_new_payment_is_pending_and_has_no_outcome(world: World) -> None:
    world.chain.waited = None
    await world.buy(world.quoted())
    begun = world.row()

    assert (begun.state, begun.paid, begun.reason) == (State.PENDING, 0, None)
    assert (begun.final, begun.touched, begun.missed_height) == (False, False, 0)
    assert (begun.address, begun.payer) == ("192.0.2.1", str(PAYER.pubkey()))
    assert begun.fee_lamports == FEE_LAMPORTS_USUAL == 10_001
    assert begun.begun_at == NOW


@pytest.mark.parametrize("lost", [0, 1, 2, 3])
async def test_a_payment_is_broadcast_again_until_it_is_seen(world: World, lost: int) -> None:
    world.chain.lost = lost

    assert isinstance(await world.buy(world.quoted()), Settled)
    assert len(world.chain.sent) == lost + 1
    assert len({each.signature for each in world.chain.sent}) == 1
    assert world.chain.waits_s == [4, 8, 16, 32][: lost + 1]  # a minute in all


async def test_a_hanging_broadcast_shortens_the_waits_that_follow(world: World) -> None:
    world.chain.lost = 4
    world.chain.hang = lambda: world.clock.advance(25_000)

    assert isinstance(await world.buy(world.quoted()), Unresolved)
    assert world.chain.waits_s == [4, 8, 0, 0]


@pytest.mark.parametrize(
    ("slot_s", "alive_s", "last_s"),
    [(0.1, 15, 60), (0.2, 30, 60), (0.4, 60, 60), (0.8, 60, 60)],
)
async def test_an_answer_waits_a_minute_and_looks_often_after_the_blockhash_life(
    world: World, slot_s: float, alive_s: float, last_s: float
) -> None:
    """There are few looks at the chain in the *alive_s* s of the blockhash, and more after them."""
    world.slot_s, world.chain.lost = slot_s, 10**9

    assert isinstance(await world.buy(world.quoted()), Unresolved)
    waits_s, looks = world.chain.waits_s, world.chain.looks
    assert waits_s[:4] == pytest.approx([alive_s * part / 15 for part in (1, 2, 4, 8)])
    assert set(waits_s[4:]) <= {5 * slot_s}
    assert sum(waits_s) == pytest.approx(last_s, abs=5 * slot_s)
    assert looks == len(waits_s)  # each vain wait ends with a look at the whole history


async def test_an_expired_payment_is_refused_as_soon_as_its_expiry_is_final(
    world: World,
) -> None:
    world.slot_s, world.chain.lost = 0.2, 10**9
    payment, reported = world.quoted(), iter([LAST - 9, LAST - 1, LAST, LAST, LAST, LAST + 1])
    world.chain.look_at = lambda: Unseen(height=next(reported))
    outcome = await world.buy(payment)

    assert outcome == Refused(RefusalReason.EXPIRED, world.row().signature)
    assert world.chain.waits_s == [2, 4, 8, 16, 1, 1]
    sent = len(world.chain.sent)
    assert await world.buy(payment) == outcome
    assert len(world.chain.sent) == sent


async def test_a_dead_payment_is_refused_without_a_wait_if_it_is_sent_again(world: World) -> None:
    world.chain.waited = None
    payment = world.quoted()
    assert isinstance(await world.buy(payment), Unresolved)
    sent = len(world.chain.sent)
    world.chain.seen = Unseen(height=LAST + 1)

    assert await world.buy(payment) == Refused(RefusalReason.EXPIRED, world.row().signature)
    assert len(world.chain.sent) == sent
    assert world.chain.waits_s == [4]


@pytest.mark.parametrize(
    ("slot_s", "blocks_left", "max_timeout_s"),
    [
        (0.001, 150, 3),
        (0.1, 150, 15),
        (0.1, 120, 12),
        (0.2, 120, 24),
        (0.201, 149, 29),
        (0.4, 120, 48),
        (0.4, 150, 60),
        (0.8, 120, 60),
    ],
)
async def test_the_timeout_of_a_requirement_follows_the_life_of_its_blockhash(
    world: World, slot_s: float, blocks_left: int, max_timeout_s: int
) -> None:
    recent = RecentBlockhash(
        blockhash="b" * 44, slot=7, last_valid_height=157, blocks_left=blocks_left
    )
    world.slot_s, world.chain.offered = slot_s, recent
    requirement = world.facilitator().require(RESOURCE, AMOUNT)

    assert (requirement.max_timeout_s, requirement.recent) == (max_timeout_s, recent)


async def test_the_timeout_without_a_blockhash_is_the_life_of_a_new_blockhash(world: World) -> None:
    world.slot_s = 0.201

    assert world.facilitator().require(RESOURCE, AMOUNT).max_timeout_s == 30


async def test_the_lease_of_a_payment_outlasts_the_wait_of_its_handler(world: World) -> None:
    """The lease lasts 75 s: the longest wait, which is a minute, and fifteen seconds."""
    world.chain.waited = None
    await world.buy(world.quoted())
    (row,) = world.store.rows.values()

    assert row.lease_until == NOW + 75_000


async def test_a_node_that_falls_silent_leaves_a_payment_pending(world: World) -> None:
    payment = world.quoted()
    world.chain.waited = None
    pending = await world.buy(payment)
    assert pending == Unresolved(payment=world.row(), key=None)
    world.chain.seen = None

    assert await world.buy(payment) == pending
    world.chain.waited = LANDED
    assert isinstance(await world.buy(payment), Settled)


async def test_every_client_gets_the_outcome_of_a_failed_payment(world: World) -> None:
    payment = world.quoted()
    world.chain.waited = Reverted(final=True)
    failed = await world.buy(payment)
    assert failed == Refused(RefusalReason.REVERTED, world.row().signature)
    looks = world.chain.looks

    assert await world.buy(payment, key=None) == failed
    assert await world.buy(payment, key="another-key-of-another") == failed
    assert await world.buy(payment) == failed
    assert world.chain.looks == looks  # a final outcome is not requested again


async def test_a_failure_that_is_not_final_is_looked_at_again(world: World) -> None:
    payment = world.quoted()
    world.chain.waited = Reverted(final=False)
    await world.buy(payment)
    world.chain.seen = LANDED

    assert isinstance(await world.buy(payment), Settled)


async def test_a_pending_payment_belongs_to_the_holder_of_its_key(world: World) -> None:
    payment = world.quoted()
    world.chain.waited = None
    await world.buy(payment)

    for key in (None, "another-key-of-another"):
        assert await world.buy(payment, key=key) == AlreadyUsed(Used.PAYMENT)


async def test_an_answer_is_redelivered_for_exactly_one_day(world: World) -> None:
    payment = world.quoted()
    first = await world.buy(payment)
    assert isinstance(first, Settled)
    assert not first.redelivered
    world.clock.advance(DAY_MS)
    again = await world.buy(payment)

    assert isinstance(again, Settled)
    assert (again.redelivered, again.token) == (True, first.token)
    world.clock.advance(1)
    assert await world.buy(payment) == AlreadyUsed(Used.PAYMENT)


async def test_a_report_is_not_redelivered_after_its_body_was_deleted(world: World) -> None:
    world.chain.waited = LANDED_FOR_GOOD
    payment = world.quoted()
    for _ in range(2):
        assert isinstance(await world.buy(payment, wanted=PaidReport(body=b"x")), Settled)
    await world.store.forget_reports(NOW)

    assert await world.buy(payment) == AlreadyUsed(Used.PAYMENT)


@pytest.mark.parametrize(
    ("trial", "outcome"),
    [
        (None, Unavailable(Obstacle.CHAIN)),
        (TreasuryUnusable("frozen"), Unavailable(Obstacle.TREASURY)),
        (Rejected("custom", is_unfunded=True), Refused(RefusalReason.INSUFFICIENT_FUNDS)),
        (Rejected("custom"), Refused(RefusalReason.SIMULATION)),
        (Rejected("AlreadyProcessed"), Refused(RefusalReason.SIMULATION)),
        (UnknownBlockhash(is_node_behind=True), Unavailable(Obstacle.NODE_BEHIND)),
        (UnknownBlockhash(), Refused(RefusalReason.BLOCKHASH)),
    ],
)
async def test_a_payment_is_not_sent_if_its_simulation_fails(
    world: World, trial: Trial | None, outcome: Outcome
) -> None:
    payment = world.quoted()
    world.chain.trial = trial

    assert await world.buy(payment) == outcome
    assert world.chain.sent == []
    assert world.store.rows == {}


async def test_failed_payments_of_all_payers_are_limited_per_minute(world: World) -> None:
    world.trials = Trials(MemoryLimits(world.clock), 3, buyers=world.store)
    for number in range(5):  # payments that succeed do not count
        key = f"a-good-key-{number:08}"
        assert isinstance(await world.buy(world.quoted(key), key), Settled)
    world.chain.trial, asked = Rejected("custom"), 0
    for number in range(5):
        key = f"a-bad-key-{number:09}"
        outcome = await world.buy(world.quoted(key), key)
        asked += outcome == Refused(RefusalReason.SIMULATION)
        assert asked == 3 or number < 3
    assert outcome == Unavailable(Obstacle.CHAIN)
    world.clock.advance(60_000)
    key = "a-key-of-the-next-minute"
    outcome = await world.buy(world.quoted(key), key)
    assert outcome == Refused(RefusalReason.SIMULATION)


@pytest.mark.parametrize("is_late", [False, True])
async def test_a_wallet_that_has_paid_is_allowed_during_a_flood(
    world: World, *, is_late: bool
) -> None:
    """The wallet uses an IP address that has not paid; if *is_late*, the quote has expired."""
    world.trials = Trials(MemoryLimits(world.clock), 8, buyers=world.store)
    payment, key, elsewhere = world.quoted("a-key-of-a-buyer-1"), "a-key-of-a-buyer-1", "192.0.3.1"
    if is_late:
        world.clock.advance(DAY_MS)
    while await world.trials.take(f"10.{world.entropy(1)[0]}.0.1"):
        pass  # a flood
    good, world.chain.trial = world.chain.trial, Rejected("custom")
    reason = RefusalReason.QUOTE_EXPIRED if is_late else RefusalReason.SIMULATION
    assert await world.buy(payment, key, address=elsewhere) == Unavailable(Obstacle.CHAIN)
    trials, world.trials, world.chain.trial = world.trials, None, good
    assert isinstance(await world.buy(world.quoted()), Settled)
    world.chain.trial, world.trials = Rejected("custom"), trials
    assert await world.buy(payment, key, address=elsewhere) == Refused(reason)


@pytest.mark.parametrize(
    ("trial", "seen", "outcome"),
    [
        # A payment that a node has not settled is never refused.
        (UnknownBlockhash(), LANDED, Unavailable(Obstacle.UNSETTLED)),
        (UnknownBlockhash(), Reverted(final=False), Unavailable(Obstacle.UNSETTLED)),
        (UnknownBlockhash(), UnreadablePayment(why=""), Unavailable(Obstacle.UNSETTLED)),
        (UnknownBlockhash(), Unseen(), Unavailable(Obstacle.UNSETTLED)),
        (Rejected("AlreadyProcessed"), Unseen(), Unavailable(Obstacle.UNSETTLED)),
        (UnknownBlockhash(), None, Unavailable(Obstacle.CHAIN)),
        (UnknownBlockhash(), Unseen(height=1), Refused(RefusalReason.BLOCKHASH)),
        (Rejected("custom"), LANDED_FOR_GOOD, Refused(RefusalReason.SIMULATION)),
    ],
)
async def test_a_failed_simulation_refuses_a_payment_only_after_a_definite_look(
    world: World, trial: Trial, seen: Sighting | None, outcome: Outcome
) -> None:
    payment = world.quoted()
    world.clock.advance(60_000)
    world.chain.trial, world.chain.seen = trial, seen

    assert await world.buy(payment) == outcome


@pytest.mark.parametrize(
    ("seen", "outcome"),
    [
        (Unseen(), Unavailable(Obstacle.NODE_BEHIND)),
        (Unseen(height=1), Unavailable(Obstacle.NODE_BEHIND)),
        (None, Unavailable(Obstacle.CHAIN)),
    ],
)
async def test_a_payment_is_not_refused_if_the_node_is_behind(
    world: World, seen: Sighting | None, outcome: Outcome
) -> None:
    world.chain.trial, world.chain.seen = UnknownBlockhash(is_node_behind=True), seen

    assert await world.buy(world.quoted()) == outcome


@pytest.mark.parametrize(
    ("seen", "outcome"),
    [
        (LANDED, Unavailable(Obstacle.UNSETTLED)),
        (None, Unavailable(Obstacle.CHAIN)),
        (Unseen(height=1), Refused(RefusalReason.QUOTE_EXPIRED)),
    ],
)
async def test_an_expired_quote_is_refused_only_if_its_payment_is_not_on_chain(
    world: World, seen: Sighting | None, outcome: Outcome
) -> None:
    payment = world.quoted()
    world.clock.advance(121_000)  # a quote is valid for 120 s
    world.chain.seen = seen

    assert await world.buy(payment) == outcome


async def test_a_lost_payment_that_failed_is_reported_with_its_signature(world: World) -> None:
    payment = world.quoted()
    await world.buy(payment)
    signature = world.row().signature
    world.lose()
    world.clock.advance(121_000)  # a quote is valid for 120 s
    world.chain.seen = Reverted(final=True)

    assert await world.buy(payment) == Refused(RefusalReason.REVERTED, signature)


@pytest.mark.parametrize(
    ("key", "outcome"),
    [
        (None, AlreadyUsed(Used.LOST)),
        ("another-key-of-another", AlreadyUsed(Used.LOST)),
        ("00" * 40, AlreadyUsed(Used.LOST)),
    ],
)
async def test_a_lost_payment_is_issued_only_to_the_holder_of_its_key(
    world: World, key: str | None, outcome: Outcome
) -> None:
    payment = world.quoted()
    first = await world.buy(payment)
    assert isinstance(first, Settled)
    world.lose()
    world.clock.advance(121_000)
    world.chain.seen = LANDED_FOR_GOOD

    assert await world.buy(payment, key=key) == outcome
    again = await world.buy(payment)
    assert isinstance(again, Settled)
    assert again.token == first.token


async def test_a_one_time_key_is_valid_after_the_store_was_restored(world: World) -> None:
    payment = world.quoted(key=None)
    world.chain.waited = None
    pending = await world.buy(payment, key=None)
    assert isinstance(pending, Unresolved)
    assert pending.key is not None
    assert len(pending.key) == 2 * (24 + 16)
    world.lose()
    world.clock.advance(121_000)
    world.chain.seen = LANDED_FOR_GOOD

    assert isinstance(await world.buy(payment, key=pending.key), Settled)
    other = world.quoted(key=None, blockhash=b"\x08" * 32)
    world.clock.advance(121_000)
    assert await world.buy(other, key=pending.key) == AlreadyUsed(Used.LOST)


async def test_a_lost_payment_whose_key_bought_something_since_is_not_issued(world: World) -> None:
    payment = world.quoted()
    await world.buy(payment)
    world.lose()
    assert isinstance(await world.buy(world.quoted(blockhash=b"\x08" * 32)), Settled)
    world.clock.advance(121_000)
    world.chain.seen = LANDED_FOR_GOOD

    assert await world.buy(payment) == AlreadyUsed(Used.KEY)


async def test_a_lost_payment_is_not_issued_after_an_operator_acknowledged_it(world: World) -> None:
    payment = world.quoted()
    await world.buy(payment)
    signature = world.row().signature
    world.lose()
    world.store.acknowledged.add(signature)
    world.clock.advance(121_000)
    world.chain.seen = LANDED_FOR_GOOD

    assert await world.buy(payment) == AlreadyUsed(Used.ACKNOWLEDGED)


async def test_a_lost_payment_is_adopted_only_when_final_and_without_an_address(
    world: World,
) -> None:
    payment = world.quoted()
    await world.buy(payment)
    signature = world.row().signature
    assert await world.adopter().adopt(signature, by=COMMAND_LINE) == world.row()
    world.lose()
    assert await world.adopter().adopt(signature, by=COMMAND_LINE) is NotAdopted.NOT_FOUND
    world.recorded = payment.transaction
    world.chain.seen = LANDED
    assert await world.adopter().adopt(signature, by=COMMAND_LINE) is NotAdopted.NOT_FINAL
    world.chain.seen = Reverted(final=True)
    assert await world.adopter().adopt(signature, by=COMMAND_LINE) is NotAdopted.NOT_FINAL
    world.chain.seen = LANDED_FOR_GOOD
    adopted = await world.adopter().adopt(signature, by=COMMAND_LINE)

    assert adopted == world.row()
    assert isinstance(adopted, Payment)
    assert (adopted.state, adopted.address, adopted.final) == (State.ISSUED, "", True)
    assert adopted.last_valid_height == 1
    assert adopted.resource == RESOURCE


def test_an_underpaid_payment_is_a_violation_once_it_is_final() -> None:
    short = replace(
        Payment(**PARTS), state=State.FROZEN, reason=RefusalReason.UNDERPAID, final=True
    )

    assert compare([short], {}) == [Violation(Invariant.LANDED_IS_ISSUED, "s")]
    assert compare([replace(short, final=False)], {}) == []
    assert compare([replace(short, reason=RefusalReason.VANISHED)], {}) == []


PARTS: Final[dict[str, Any]] = {
    "message_hash": bytes(32),
    "signature": "s",
    "payer": "p",
    "address": "a",
    "resource": "/r",
    "amount": 100,
    "purchase": PaidReport(body=b"{}"),
    "key_hash": bytes(32),
    "fee_lamports": 10_001,
    "last_valid_height": 1_000,
    "begun_at": 0,
    "asset": "m",
}


def envelope(**changes: Any) -> Envelope:
    """Return a payment with the first *count* instructions (default 4) of the official client.

    Other *changes* are those of a `Recipe`.
    """
    count = changes.pop("count", 4)
    recipe = Recipe(amount=7, memo=b"memo", **changes)
    opened = open_envelope(recipe.build(recipe.instructions()[:count]))
    assert isinstance(opened, Envelope)
    return opened


def test_the_memo_and_the_transfer_of_a_transaction_are_found() -> None:
    assert find_memo(envelope()) == b"memo"
    assert find_memo(envelope(count=3)) is None
    assert transferred(envelope()) == 7
    assert transferred(envelope(count=3)) == 7
    twice = Recipe(amount=2**40 + 5, memo=b"memo")
    listed = twice.instructions()
    opened = open_envelope(twice.build([*listed, listed[3]]))
    assert isinstance(opened, Envelope)
    assert find_memo(opened) is None
    assert transferred(opened) == 2**40 + 5
    swapped = open_envelope(twice.build([listed[2], listed[0], listed[1], listed[3]]))
    assert isinstance(swapped, Envelope)
    assert transferred(swapped) is None
    brief = open_envelope(twice.build([listed[2], listed[3]]))
    assert isinstance(brief, Envelope)
    assert transferred(brief) is None


async def test_only_a_payment_with_a_quote_of_the_service_is_recognised(world: World) -> None:
    requirement = world.facilitator().require(RESOURCE, AMOUNT)
    recipe = Recipe(amount=AMOUNT, memo=requirement.memo.encode())
    listed = recipe.instructions()
    found = await world.recognise(recipe.build())

    assert found is not None
    assert (found.verified.amount, found.offer) == (AMOUNT, SoldItem(RESOURCE, 10))
    for wire in (
        b"",
        recipe.build(listed[:3]),  # no memo
        recipe.build([listed[2], *listed[:2], listed[3]]),  # the transfer is not in its place
        recipe.build([*listed, listed[3]]),  # two memos
        Recipe(amount=AMOUNT - 1, memo=requirement.memo.encode()).build(),
        Recipe(
            amount=AMOUNT,
            memo=requirement.memo.encode(),
            terms=replace(TERMS, fee_payer=TERMS.asset),  # type: ignore[arg-type]  # any key
        ).build(),
    ):
        assert await world.recognise(wire) is None


async def test_a_payment_for_another_requirement_is_refused(world: World) -> None:
    requirement = world.facilitator().require(RESOURCE, AMOUNT)
    recipe = Recipe(amount=AMOUNT, memo=requirement.memo.encode())
    other = replace(present(requirement, recipe.build()), network="solana:other")

    assert await world.buy(other) == Refused(RefusalReason.NO_MATCHING_REQUIREMENT)


async def test_an_unreadable_payment_is_looked_at_ever_more_rarely(world: World) -> None:
    """The next look is due after the payment's age, but at least 10 s and at most an hour later."""
    world.chain.waited = None
    await world.buy(world.quoted())
    world.chain.seen = UnreadablePayment(why="of another kind")
    (row,) = world.store.rows.values()
    row.lease_until = NOW
    waits = []
    for after_ms in (0, 9_999, 1, 60_000, 10 * HOUR_MS):
        world.clock.advance(after_ms)
        row.lease_until = world.clock.now()
        assert await world.reconciler().once() == 1
        waits.append(row.lease_until - world.clock.now())

    assert waits == [10_000, 10_000, 10_000, 70_000, HOUR_MS]
    assert world.aside == [(row.payment.signature, "of another kind")] * 5


async def test_a_look_leases_a_payment_for_ten_seconds(world: World) -> None:
    world.chain.waited = None
    await world.buy(world.quoted())
    (row,) = world.store.rows.values()
    row.lease_until = NOW
    counts = []
    for after_ms in (0, 9_999, 1):
        world.clock.advance(after_ms)
        counts.append(await world.reconciler().once())

    assert counts == [1, 0, 1]


class Stopped(Exception):
    """Ends the endless loop of a reconciler."""


async def test_a_reconciler_rests_for_a_second_and_survives_an_outage(world: World) -> None:
    world.chain.waited = None
    await world.buy(world.quoted())
    (row,) = world.store.rows.values()
    row.lease_until = NOW
    world.chain.seen = None
    rests: list[float] = []
    troubles: list[Exception] = []

    async def pause(seconds: float) -> None:
        rests.append(seconds)
        if len(rests) == 3:
            raise Stopped

    with pytest.raises(Stopped):
        await world.reconciler().run(pause, troubles.append)

    assert rests == [1.0, 1.0, 1.0]
    assert [type(each) for each in troubles] == [ChainUnavailable]


async def test_arrivals_that_are_issued_are_not_looked_for_again(world: World) -> None:
    await world.buy(world.quoted())
    signature = world.row().signature
    looks = world.chain.looks

    assert await world.reconciler().issue_arrived([signature]) == [world.row()]
    assert world.chain.looks == looks
    assert await world.reconciler().issue_arrived([]) == []


async def test_a_frozen_payment_is_shown_to_the_holder_of_its_key_alone(world: World) -> None:
    payment = world.quoted()
    await world.buy(payment)
    row = world.row()
    for height in (2_000, 2_000 + MISSED_BLOCKS):
        await world.store.resolve(row.message_hash, Dead(height=height), now=NOW, again_ms=15_000)
    assert world.row().state is State.FROZEN

    assert await world.buy(payment, key=None) == AlreadyUsed(Used.PAYMENT)
    assert isinstance(await world.buy(payment), Unresolved)


class FullStore(MemoryPaymentStore):
    """A store that has no room for any outcome."""

    @override
    async def resolve(self, *_: object, now: UnixMs, **__: object) -> Payment:
        assert now
        raise ServiceUnavailable


async def test_a_payment_stays_pending_if_the_store_cannot_save_its_outcome(world: World) -> None:
    world.store = FullStore()
    payment = world.quoted()

    assert await world.buy(payment) == Unresolved(payment=world.row(), key=None)
    world.chain.seen = LANDED
    assert await world.buy(payment) == Unresolved(payment=world.row(), key=None)
    assert world.row().state is State.PENDING


class StrictStore(MemoryPaymentStore):
    """A store that fails at each outcome, because a balance would be negative."""

    @override
    async def resolve(self, *_: object, now: UnixMs, **__: object) -> Payment:
        assert now
        raise Inconsistent("a balance would be negative")


async def test_each_payment_that_the_books_refuse_is_reported_and_retried_hourly(
    world: World,
) -> None:
    world.store = StrictStore()
    world.chain.waited = None
    await world.buy(world.quoted())
    other = "another-key-of-another"
    await world.buy(world.quoted(other), key=other)
    world.chain.seen = LANDED
    world.clock.advance(HOUR_MS)

    assert await world.reconciler().once() == 2
    assert [why for _, why in world.aside] == ["a balance would be negative"] * 2
    assert {row.lease_until - world.clock.now() for row in world.store.rows.values()} == {HOUR_MS}


def test_a_transaction_longer_than_a_packet_is_too_long() -> None:
    for size, reason in (
        (1_232, RefusalReason.UNDECODABLE),
        (1_233, RefusalReason.TOO_LONG),
    ):
        assert open_envelope(b"\x7f" * size) == Refused(reason)
