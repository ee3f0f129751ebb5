"""No interleaving and no crash of facilitator, reconciler and auditor loses a payment.

The code of production runs as coroutines over ports, so a schedule is a list of
choices: one coroutine takes its next step, the chain moves, or all coroutines
crash.  Every list up to a depth is run from the beginning, and then until nothing
is left to do.
"""

import inspect
import os
import sys
import types
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from types import ModuleType
from typing import Any, Final

import pytest
from solders.pubkey import Pubkey

from mintscope.credits.invariants import Checked, Invariant, Proven, Walked
from mintscope.credits.invariants import Violation as Contradiction
from mintscope.kit.clock import ManualClock
from mintscope.kit.primitives import Mint, Signature, UnixMs
from mintscope.payments import audit as audit_module
from mintscope.payments import facilitator as facilitator_module
from mintscope.payments import reconciler as reconciler_module
from mintscope.payments.audit import Arrivals, DoubtKind, Orphan, Scan, ScanScope
from mintscope.payments.facilitator import Credits, Demand
from mintscope.payments.payment import (
    MISSED_BLOCKS,
    Dead,
    Evidence,
    Landed,
    Payment,
    Reverted,
    Sighting,
    State,
    Unseen,
    apply,
)
from mintscope.payments.ports import (
    AlreadyUsed,
    Budget,
    ChainUnavailable,
    Found,
    Outcome,
    PendingPayment,
    Settled,
    Simulated,
    Unresolved,
)
from mintscope.payments.protocol.envelope import (
    Envelope,
    MessageHash,
    Refused,
    Requirement,
    Resource,
    Signed,
    open_envelope,
)
from mintscope.payments.protocol.headers import Presented
from mintscope.payments.reconciler import Secrets
from support.fakes.payment_memory import MemoryPaymentStore
from support.scenes.payments.payment_build import FEE_PAYER, TERMS, pay

KEY: Final = "the-secret-of-the-buyer"
SECRETS: Final = Secrets.derive(b"r" * 32)
RESOURCE: Final = Resource("/v1/credits/purchase?bundle=10")
CREDITS: Final = 10
AMOUNT: Final = 25_000
NOW: Final = UnixMs(1_700_000_000_000)
EXPIRED: Final = 10**9
SLOT_S: Final = 0.4
FULL: Final = os.environ.get("STORM") == "full"  # noqa: TID251 - only how deep
DEPTH: Final = 8 if FULL else 7
MUTANT_DEPTH: Final = 7
SCHEDULES_MIN: Final = 20_000 if FULL else 7_000
AUDITED_DEPTH: Final = 4 if FULL else 3
AUDITED_MUTANT_DEPTH: Final = 5
AUDITED_MIN: Final = 1_000 if FULL else 300
UNTIL_SENT: Final = 5  # steps of the buyer: found nothing, simulated, begun, broadcast
AUDITS: Final = 4  # enough to turn a doubt into a violation
AUDIT_MS: Final = 120_000


@types.coroutine
def step() -> Generator[None, None, None]:
    """Pause, so that another coroutine can take a step, or a crash can happen."""
    yield


class Violation(AssertionError):
    """An invariant does not hold."""


class Fate(StrEnum):
    """The fate of a payment on the chain after its broadcast."""

    LANDS = "lands"
    UNHEARD = "lands, though the broadcast fails"
    REVERTS = "reverts"
    DROPPED = "is dropped"
    VANISHES = "vanishes after it was confirmed"
    RETURNS = "vanishes and comes back"
    FLIPS = "reverts on a fork, lands on the other"
    AHEAD = "is in the treasury's history before its status is known"
    STUCK = "is in the treasury's history, and its status is never known"


# unborn: it was never sent; dead: it can never land
MOVES: Final = {
    Fate.LANDS: {"heard": "landed", "landed": "final"},
    Fate.UNHEARD: {"heard": "landed", "landed": "final"},
    Fate.REVERTS: {"heard": "reverted", "reverted": "reverted for good"},
    Fate.DROPPED: {"heard": "dead"},
    Fate.VANISHES: {"heard": "landed", "landed": "gone", "gone": "dead"},
    Fate.RETURNS: {"heard": "landed", "landed": "gone", "gone": "back", "back": "final"},
    Fate.FLIPS: {"heard": "reverted", "reverted": "landed", "landed": "final"},
    Fate.AHEAD: {"heard": "listed", "listed": "landed", "landed": "final"},
    Fate.STUCK: {"heard": "listed"},
}
LISTED: Final = {Fate.AHEAD: {"listed", "landed", "final"}, Fate.STUCK: {"listed"}}
LOST: Final = {"dead", "reverted", "reverted for good"}


@dataclass
class World:
    """The state of the chain, and the store, which survives every crash."""

    fate: Fate
    store: MemoryPaymentStore = field(default_factory=MemoryPaymentStore)
    clock: ManualClock = field(default_factory=lambda: ManualClock(NOW))
    stands: str = "unborn"
    was_public: bool = False
    looks: int = 0

    def __post_init__(self) -> None:
        self.books = SteppedBooks(self.store)

    def can_move(self) -> bool:
        if self.stands == "unborn":
            return bool(self.store.rows)  # its blockhash may expire before anybody sends it
        return self.stands in MOVES[self.fate]

    def move(self) -> None:
        self.stands = "dead" if self.stands == "unborn" else MOVES[self.fate][self.stands]
        self.was_public |= self.stands == "landed"

    def see(self) -> Sighting:
        match self.stands:
            case "landed" | "back" | "final":
                return Landed(paid=AMOUNT, final=self.stands == "final")
            case "reverted" | "reverted for good":
                return Reverted(final=self.stands != "reverted")
            case _:
                return Unseen(height=self.height if self.stands == "dead" else 1)

    @property
    def height(self) -> int:
        """The finalized height; it is higher by MISSED_BLOCKS after each look at the chain."""
        return EXPIRED + MISSED_BLOCKS * self.looks

    @property
    def arrived(self) -> list[Signature]:
        """The payment's signature if the treasury's history lists it; otherwise an empty list.

        By default, only a final payment is listed; `LISTED` has the exceptions.
        """
        if self.stands not in LISTED.get(self.fate, {"final"}):
            return []
        return [signature()]

    def check(self) -> None:
        """Raise Violation if an invariant that must hold at every moment is broken."""
        for row in self.store.rows.values():
            is_failed = row.payment.state is State.FAILED
            if is_failed and self.stands not in LOST and self.fate is not Fate.FLIPS:
                raise Violation(f"failed while it is {self.stands}")
        if sum(self.store.balances.values()) not in {0, CREDITS}:
            raise Violation("issued twice")


@dataclass(frozen=True)
class SteppedStore:
    """The payment store, but another coroutine may run before each call."""

    world: World

    async def find(self, message_hash: MessageHash) -> Found:
        await step()
        return await self.world.store.find(message_hash)

    async def begin(self, asked: PendingPayment) -> Any:
        await step()
        return await self.world.store.begin(asked)

    async def resolve(
        self,
        message_hash: MessageHash,
        evidence: Evidence,
        *,
        now: UnixMs,
        again_ms: int,
        is_for_client: bool = False,  # noqa: ARG002 - no request is cancelled here
    ) -> Payment:
        await step()
        if message_hash not in self.world.store.rows:
            raise Violation("resolved without a row")
        return await self.world.store.resolve(message_hash, evidence, now=now, again_ms=again_ms)

    async def lease(self, *, now: UnixMs, until: UnixMs, count_max: int) -> Sequence[Payment]:
        await step()
        # Leases only save requests to the chain, so they are ignored here.
        return await self.world.store.lease(now=UnixMs(now * 2), until=until, count_max=count_max)

    async def find_signatures(self, signatures: Sequence[Signature]) -> Sequence[Payment]:
        return await self.world.store.find_signatures(signatures)

    async def postpone(self, message_hash: MessageHash, *, until: UnixMs) -> None:
        raise NotImplementedError


@dataclass(frozen=True)
class SteppedChain:
    """The chain, seen through one node; another coroutine may run before each call."""

    world: World

    def offer(self) -> None:
        return None

    async def simulate(self, _envelope: Envelope, _source: Pubkey) -> Simulated:
        await step()
        return Simulated(balance_after=0, last_valid_height=183)

    async def broadcast(self, signed: Signed) -> None:
        await step()
        if all(row.payment.signature != signed.signature for row in self.world.store.rows.values()):
            raise Violation("broadcast without a row")
        if self.world.stands == "unborn":
            self.world.stands = "heard"
        if self.world.fate is Fate.UNHEARD:
            raise ChainUnavailable

    async def wait(self, _signature: Signature, *, patience_s: float) -> Sighting:
        await step()
        assert patience_s > 0
        sighting = self.world.see()
        return Unseen() if isinstance(sighting, Unseen) else sighting

    async def look(self, signatures: Sequence[Signature]) -> Sequence[Sighting]:
        await step()
        self.world.looks += 1
        return [self.world.see() for _ in signatures]


@dataclass(frozen=True)
class SteppedHistory:
    """The treasury's history, as a node reports it."""

    world: World

    async def arrivals(
        self, asset: Mint | None = None, *, after: Signature | None, before: Signature | None
    ) -> Arrivals:
        assert asset is None
        await step()
        arrived = [] if signature() in {after, before} else self.world.arrived
        ends = arrived[0] if arrived else None
        return Arrivals(succeeded=arrived, newest=ends, oldest=ends)

    async def sponsored(self, signatures: Sequence[Signature]) -> Mapping[Signature, bool | None]:
        await step()
        return dict.fromkeys(signatures, True)

    async def recorded(self, _signature: Signature) -> bytes | None:
        return None  # so a payment without a row has no quote that explains it

    async def finalized_height(self) -> int:
        return self.world.height if self.world.stands in {"final", "dead"} else 1


@dataclass
class Doubt:
    kind: DoubtKind
    looks: list[int] = field(default_factory=list)


@dataclass
class SteppedBooks:
    """The books in memory; a step of another coroutine or a crash may precede each write."""

    store: MemoryPaymentStore
    scans: dict[tuple[ScanScope, Mint | None], Scan] = field(default_factory=dict)
    doubted: dict[Signature, Doubt] = field(default_factory=dict)
    stops: list[str] = field(default_factory=list)

    async def walked(self) -> Walked:
        return Walked(0, 0, None, None)

    async def forget_spends(self, **_: object) -> bool:
        return False

    async def prove(self, *, now: UnixMs, begins: bool) -> Proven:
        assert now or begins
        return Proven((), is_finished=True)

    async def check(self, *, after_entry: int | None) -> Checked:
        await step()
        assert not after_entry
        found = []
        for signature, doubt in self.doubted.items():
            payment = self._payment(signature)
            if (
                payment is None
                or len(doubt.looks) < 3
                or doubt.looks[-1] - doubt.looks[0] < 300_000
            ):
                continue
            if doubt.kind is DoubtKind.ISSUED:
                found.append(Contradiction(Invariant.ISSUED_IS_FINAL, signature))
            elif payment.state is not State.ISSUED:
                found.append(Contradiction(Invariant.LANDED_IS_ISSUED, signature))
        return Checked(found, 0)

    async def scan(self, scope: ScanScope, asset: Mint | None = None) -> Scan | None:
        return self.scans.get((scope, asset))

    async def keep_scan(self, scope: ScanScope, scan: Scan, asset: Mint | None = None) -> None:
        await step()
        self.scans[scope, asset] = scan

    async def unsettled(
        self, *, before: UnixMs, height: int, count_max: int
    ) -> Sequence[Signature]:
        return [
            row.payment.signature
            for row in self.store.rows.values()
            if row.payment.state is State.ISSUED
            and not row.payment.final
            and row.resolved_at < before
            and row.payment.last_valid_height < height
        ][:count_max]

    async def doubt(self, kind: DoubtKind, signatures: Sequence[Signature], *, now: UnixMs) -> None:
        if not signatures:
            return
        await step()
        for signature in signatures:
            self.doubted.setdefault(signature, Doubt(kind)).looks.append(now)
        self._settle(())

    async def doubts(self, *, now: UnixMs, count_max: int) -> Sequence[Signature]:
        due = [
            signature
            for signature, doubt in self.doubted.items()
            if doubt.kind is DoubtKind.ARRIVED and doubt.looks[-1] < now
        ]
        return due[:count_max]

    async def dismiss(self, signatures: Sequence[Signature]) -> None:
        self._settle(signatures)

    async def stop_sales(self, *, now: UnixMs, why: str) -> None:
        assert now
        self.stops.append(why)

    async def note_orphans(self, _orphans: Sequence[Orphan]) -> Sequence[Signature]:
        return []

    def _payment(self, signature: Signature) -> Payment | None:
        rows = self.store.rows.values()
        return next((row.payment for row in rows if row.payment.signature == signature), None)

    def _settle(self, dismissed: Sequence[Signature]) -> None:
        for signature, doubt in list(self.doubted.items()):
            payment = self._payment(signature)
            is_issued = payment is not None and payment.state is State.ISSUED
            is_open = is_issued and payment is not None and not payment.final
            is_settled = payment is not None and (
                is_issued if doubt.kind is DoubtKind.ARRIVED else not is_open
            )
            if is_settled or signature in dismissed:
                del self.doubted[signature]


@dataclass(frozen=True)
class Build:
    """The code under test: the shipped one, or a mutant of it."""

    facilitator: ModuleType = facilitator_module
    reconciler: ModuleType = reconciler_module
    audit: ModuleType = audit_module


@cache
def payment() -> tuple[Requirement, Presented]:
    requirement = make_facilitator(Build(), World(Fate.LANDS)).require(RESOURCE, AMOUNT)
    return requirement, pay(requirement)


@cache
def signature() -> Signature:
    envelope = open_envelope(payment()[1].transaction)
    assert isinstance(envelope, Envelope)
    return envelope.sign(FEE_PAYER).signature


async def unrecognised(_wire: bytes) -> None:
    return None


def make_facilitator(build: Build, world: World) -> Any:
    return build.facilitator.Facilitator(
        terms=TERMS,
        secrets=SECRETS,
        fee_payer=FEE_PAYER,
        store=SteppedStore(world),
        adoptions=SteppedStore(world),
        chain=SteppedChain(world),
        clock=ManualClock(NOW),
        entropy=lambda count: b"e" * count,
        budget=Budget(),
        slot_s=lambda: SLOT_S,
    )


@dataclass
class Run:
    """One order of steps: the state after the steps so far, and the coroutines still running."""

    build: Build
    world: World
    tasks: dict[str, Coroutine[Any, Any, None]] = field(default_factory=dict)
    is_audited: bool = False
    crashes_left: int = 1
    was_stranger_here: bool = False
    has_resent: bool = False

    def start(self) -> None:
        self.tasks["buyer"] = self.send(KEY)
        if self.is_audited:
            for _ in range(UNTIL_SENT):
                advance(self.tasks, "buyer")
            self.tasks["auditor"] = self.audit()
        else:
            self.tasks["reconciler"] = self.reconcile(2)

    async def send(self, key: str | None) -> None:
        facilitator, presented = make_facilitator(self.build, self.world), payment()[1]
        demand = Demand(resource=RESOURCE, key=key, address="192.0.2.1")
        answer = await facilitator.present(presented, demand)
        if hasattr(answer, "settle"):
            answer = await answer.settle(Credits(CREDITS))
        self.judge(answer, key)

    def reconciler(self) -> Any:
        return self.build.reconciler.Reconciler(
            store=SteppedStore(self.world),
            chain=SteppedChain(self.world),
            clock=self.world.clock,
            slot_s=lambda: SLOT_S,
            on_unreadable=print,
        )

    async def reconcile(self, rounds: int) -> None:
        reconciler = self.reconciler()
        for _ in range(rounds):
            await reconciler.once()

    async def audit(self) -> None:
        """Audit the books as a process that has just started does."""
        auditor = self.build.audit.Auditor(
            books=self.world.books,
            recognise=unrecognised,
            treasury=self.world.books,
            history=SteppedHistory(self.world),
            reconciler=self.reconciler(),
            clock=self.world.clock,
        )
        found = await auditor.audit()
        if found and self.world.fate is not Fate.STUCK:
            raise Violation(f"false alarm: {found[0].invariant}")

    def judge(self, answer: Outcome, key: str | None) -> None:
        """Raise Violation if *answer* to a client breaks an invariant.

        key   the idempotency key of the request; None: none
        """
        rows = list(self.world.store.rows.values())
        match answer:
            case Settled(token=token):
                if rows[0].payment.state is not State.ISSUED:
                    raise Violation("201 for what is not issued")
                if token != SECRETS.credit_token(rows[0].payment.message_hash, KEY):
                    raise Violation("not the buyer's token")
                if key != KEY:
                    raise Violation("stolen")
            case Refused():
                # A refusal that a fork reverses was true at its time; the key still redeems
                # the payment.
                if self.world.stands not in LOST and self.world.fate is not Fate.FLIPS:
                    raise Violation(f"a fresh 402 while it is {self.world.stands}")
            case AlreadyUsed():
                if key == KEY:
                    raise Violation("the buyer is turned away")
            case Unresolved():
                pass
            case _:
                raise Violation(f"unexpected {answer}")

    def choices(self) -> list[str]:
        enabled = list(self.tasks)
        if self.world.can_move():
            enabled.append("chain moves")
        if self.world.store.rows and not self.has_resent:
            enabled.append("buyer resends")
        if self.world.was_public and not self.was_stranger_here:
            enabled.append("stranger comes")
        if self.crashes_left and self.tasks:
            enabled.append("crash")
        return enabled

    def take(self, choice: str) -> None:
        match choice:
            case "chain moves":
                self.world.move()
            case "buyer resends":
                self.has_resent = True
                self.tasks["buyer's resend"] = self.send(KEY)
            case "stranger comes":
                self.was_stranger_here = True
                self.tasks["stranger"] = self.send(None)
            case "crash":
                self.crashes_left -= 1
                self.kill()
                self.tasks["restarted reconciler"] = self.reconcile(2)
                self.tasks["buyer again"] = self.send(KEY)
                if self.is_audited:
                    self.tasks["auditor again"] = self.audit()
            case name:
                advance(self.tasks, name)
        self.world.check()

    def finish(self, *, chain_first: bool) -> None:
        """Run all coroutines to the end; check that the payment is issued exactly if it landed."""
        while chain_first and self.world.can_move():
            self.world.move()
        while self.tasks:
            names = list(self.tasks)
            advance(self.tasks, names[-1] if chain_first else names[0])
            self.world.check()
        while self.world.can_move():
            self.world.move()
            exhaust(self.reconcile(1))
            self.world.check()
        exhaust(self.reconcile(2))
        if self.is_audited:
            self.audit_on()
        if self.world.fate is Fate.STUCK:
            return
        landed = self.world.stands == "final"
        rows = list(self.world.store.rows.values())
        issued = sum(row.payment.state is State.ISSUED for row in rows)
        if issued != landed or sum(self.world.store.balances.values()) != CREDITS * landed:
            raise Violation(f"{issued} issued, chain: {self.world.stands}")
        if any(not row.payment.final for row in rows):
            raise Violation("never ends")
        if rows:
            exhaust(self.send(KEY))
            exhaust(self.send(None))
        if self.is_audited and landed:
            self.lose()

    def audit_on(self) -> None:
        """Audit for minutes; raise Violation if a landed payment is neither issued nor reported."""
        for _ in range(AUDITS if self.world.fate is Fate.STUCK else 1):
            self.world.clock.advance(AUDIT_MS)
            exhaust(self.audit())
        stops = self.world.books.stops
        if self.world.stands == "listed" and not any(
            why.startswith(Invariant.LANDED_IS_ISSUED) for why in stops
        ):
            raise Violation("hidden: it landed and is not issued")

    def lose(self) -> None:
        """Restore the store as it was before the payment; check that an audit stops sales."""
        self.world.store.rows.clear()
        self.world.books.scans.clear()
        with suppress(Violation):
            exhaust(self.audit())
        if not any(why.startswith(Invariant.LANDED_IS_KNOWN) for why in self.world.books.stops):
            raise Violation("hidden: it landed and has no row")

    def kill(self) -> None:
        for task in self.tasks.values():
            task.close()
        self.tasks = {}


def advance(tasks: dict[str, Coroutine[Any, Any, None]], name: str) -> None:
    try:
        tasks[name].send(None)
    except StopIteration:
        del tasks[name]


def exhaust(task: Coroutine[Any, Any, None]) -> None:
    tasks = {"only": task}
    while tasks:
        advance(tasks, "only")


def explore(
    build: Build,
    fate: Fate,
    depth: int,
    *,
    is_audited: bool = False,
    until: str | None = None,
) -> tuple[int, list[str]]:
    """Run every list of *depth* choices, and let each run end in two orders.

    Returns the number of runs, and the texts of the violations.

    until   the text of the violation at which to stop; None: do not stop before the last run
    """
    violations, count = list[str](), 0
    prefixes: list[list[int]] = [[]]
    while prefixes and not (until and until in "".join(violations[-1:])):
        prefix = prefixes.pop()
        for chain_first in (False, True):
            run = Run(build, World(fate), is_audited=is_audited)
            run.start()
            taken: list[str] = []
            try:
                widths = follow(run, prefix, depth, taken)
                run.finish(chain_first=chain_first)
            except Violation as violation:
                violations.append(f"{violation}: {' | '.join(taken)} {chain_first=}")
                widths = []
            finally:
                run.kill()
            count += 1
        for place in range(len(prefix), len(widths)):
            straight = prefix + [0] * (place - len(prefix))
            prefixes += [[*straight, other] for other in range(1, widths[place])]
    return count, violations


def follow(run: Run, prefix: list[int], depth: int, taken: list[str]) -> list[int]:
    """Make the choices of *prefix*, then always the first choice, up to *depth* choices.

    Append the name of each choice to *taken*; return the number of choices at each step.
    """
    widths = []
    for place in range(depth):
        enabled = run.choices()
        if not enabled:
            break
        taken.append(enabled[prefix[place] if place < len(prefix) else 0])
        run.take(taken[-1])
        widths.append(len(enabled))
    return widths


@pytest.mark.storm
def test_no_schedule_loses_or_doubles_a_payment() -> None:
    count = 0
    for fate in set(Fate) - set(LISTED):
        explored, violations = explore(Build(), fate, DEPTH)
        count += explored

        assert violations == [], f"{fate}: {len(violations)} of {explored}"
    assert count >= SCHEDULES_MIN


@pytest.mark.storm
def test_no_schedule_gives_a_false_alarm_or_hides_a_true_alarm() -> None:
    count = 0
    for fate in Fate:
        explored, violations = explore(Build(), fate, AUDITED_DEPTH, is_audited=True)
        count += explored

        assert violations == [], f"{fate}: {len(violations)} of {explored}"
    assert count >= AUDITED_MIN


def _verbs(of: type) -> list[object]:
    return [value for name, value in vars(of).items() if not name.startswith("__")]


def mutant(module: ModuleType, old: str, new: str) -> ModuleType:
    """Return a copy of *module* in which *new* replaces the only occurrence of *old*."""
    source = inspect.getsource(module)
    assert source.count(old) == 1, f"expected one place that says {old!r}"
    broken = ModuleType(module.__name__ + "_mutant")
    sys.modules[broken.__name__] = broken  # dataclasses look up their module here
    try:
        code = compile(source.replace(old, new), str(module.__file__), "exec")
        exec(code, broken.__dict__)
    finally:
        del sys.modules[broken.__name__]
    # Records keep the classes of *module*, because stores and fakes compare them.
    for name, value in vars(module).items():
        is_own = isinstance(value, type) and value.__module__ == module.__name__
        if is_own and not any(map(inspect.isfunction, _verbs(value))):
            vars(broken)[name] = value
    vars(broken).update(Dead=Dead, apply=apply, EXPIRED=EXPIRED)
    return broken


BEGUN: Final = "            begun = await self.store.begin(pending)\n"
SETTLE_BEFORE_JOURNAL: Final = (
    BEGUN,
    f"            await self.chain.broadcast(signed)\n{BEGUN}",
)
UNKNOWN_IS_FAILED: Final = (
    "        if evidence is None:\n            return payment\n",
    "        if evidence is None:\n            evidence = Dead(height=EXPIRED)\n",
)
WALL_CLOCK_EXPIRY: Final = (
    "evidence = weigh(payment, sighting)\n",
    "evidence = weigh(payment, sighting) or Dead(height=EXPIRED)\n",
)
RESOLVE: Final = """await self.store.resolve(
                name, evidence, now=now, again_ms=again_ms, is_for_client=True
            )"""
ANSWER_FROM_MEMORY: Final = (
    f"return {RESOLVE}",
    f"{RESOLVE}\n            return apply(payment, evidence)",
)


@pytest.mark.storm
@pytest.mark.parametrize(
    ("build", "symptom"),
    [
        (
            lambda: Build(facilitator=mutant(facilitator_module, *SETTLE_BEFORE_JOURNAL)),
            "without a row",
        ),
        (
            lambda: Build(facilitator=mutant(facilitator_module, *UNKNOWN_IS_FAILED)),
            "a fresh 402 while",
        ),
        (lambda: Build(reconciler=mutant(reconciler_module, *WALL_CLOCK_EXPIRY)), "failed while"),
        (
            lambda: Build(facilitator=mutant(facilitator_module, *ANSWER_FROM_MEMORY)),
            "201 for what is not",
        ),
    ],
    ids=["settle before journal", "unknown is failed", "wall-clock expiry", "201 without the row"],
)
def test_every_mutant_is_caught(build: Callable[[], Build], symptom: str) -> None:
    found: list[str] = []
    for fate in (Fate.LANDS, Fate.VANISHES):
        found += explore(build(), fate, MUTANT_DEPTH, until=symptom)[1]

    assert any(symptom in violation for violation in found), found[:3]


YOUNG_IS_WRONG: Final = (
    "return payment.final and payment.reason is RefusalReason.UNDERPAID",
    "return payment.state is not State.ISSUED",
)
NOTHING_IS_DOUBTED: Final = (
    "await self.treasury.doubt(DoubtKind.ARRIVED, doubtful, now=self.clock.now())",
    "pass",
)
MARK_MOVES_FIRST: Final = (
    "            for start in range(0, len(page.succeeded), BATCH):",
    """            await self.treasury.keep_scan(scope, scan.go_on(page))
            for start in range(0, len(page.succeeded), BATCH):""",
)


@pytest.mark.storm
@pytest.mark.parametrize(
    ("change", "fate", "symptom"),
    [
        (YOUNG_IS_WRONG, Fate.AHEAD, "false alarm"),
        (NOTHING_IS_DOUBTED, Fate.STUCK, "hidden: it landed and is not issued"),
        (MARK_MOVES_FIRST, Fate.STUCK, "hidden: it landed and is not issued"),
    ],
    ids=["a young payment is a violation", "no arrival is doubted", "the mark moves first"],
)
def test_every_mutant_of_the_auditor_is_caught(
    change: tuple[str, str], fate: Fate, symptom: str
) -> None:
    build = Build(audit=mutant(audit_module, *change))
    _, found = explore(build, fate, AUDITED_MUTANT_DEPTH, is_audited=True, until=symptom)

    assert any(symptom in violation for violation in found), found[:3]
