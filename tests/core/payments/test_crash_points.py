"""R1: every interleaving and every crash of the production cashier and reconciler.

Both are coroutines over ports, so a schedule is a list of choices: which
coroutine takes its next step, the chain moves, everything dies.  All lists
up to a depth are run, each from the beginning and then on to quiescence.
"""

import inspect
import sys
import types
from collections.abc import Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from types import ModuleType
from typing import Any, Final

import pytest
from solders.pubkey import Pubkey

from mintscope.clock import ManualClock
from mintscope.payments import cashier as cashier_module
from mintscope.payments import reconciler as reconciler_module
from mintscope.payments.cashier import Demand
from mintscope.payments.chain import ChainUnavailable, Simulated
from mintscope.payments.envelope import Envelope, MessageHash, Signed
from mintscope.payments.headers import Presented
from mintscope.payments.outcome import AlreadyUsed, Outcome, Settled, Unresolved
from mintscope.payments.payment import (
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
from mintscope.payments.redelivery import Secrets
from mintscope.payments.refusal import Refused
from mintscope.payments.requirement import Requirement, Resource
from mintscope.payments.store import Budget, Found, Promise
from mintscope.primitives import Signature, UnixMs
from payment_build import FEE_PAYER, TERMS, pay
from payment_memory import MemoryPaymentStore

KEY: Final = "the-secret-of-the-buyer"
SECRETS: Final = Secrets.derive(b"r" * 32)
RESOURCE: Final = Resource("/v1/credits/purchase?bundle=10")
CREDITS: Final = 10
AMOUNT: Final = 25_000
NOW: Final = UnixMs(1_700_000_000_000)
EXPIRED: Final = 10**9
DEPTH: Final = 8
MUTANT_DEPTH: Final = 7
SCHEDULES_MIN: Final = 20_000


@types.coroutine
def step() -> Generator[None, None, None]:
    """Let somebody else go first, or die here."""
    yield


class Violation(AssertionError):
    """An invariant does not hold."""


class Fate(StrEnum):
    """What the chain will do with the transaction, when it moves."""

    LANDS = "lands"
    UNHEARD = "lands, though the broadcast fails"
    REVERTS = "reverts"
    DROPPED = "is dropped"
    VANISHES = "vanishes after it was confirmed"
    RETURNS = "vanishes and comes back"
    FLIPS = "reverts on a fork, lands on the other"


# unborn: nobody has sent it; dead: it can never land
MOVES: Final = {
    Fate.LANDS: {"heard": "landed", "landed": "final"},
    Fate.UNHEARD: {"heard": "landed", "landed": "final"},
    Fate.REVERTS: {"heard": "reverted", "reverted": "reverted for good"},
    Fate.DROPPED: {"heard": "dead"},
    Fate.VANISHES: {"heard": "landed", "landed": "gone", "gone": "dead"},
    Fate.RETURNS: {"heard": "landed", "landed": "gone", "gone": "back", "back": "final"},
    Fate.FLIPS: {"heard": "reverted", "reverted": "landed", "landed": "final"},
}
LOST: Final = {"dead", "reverted", "reverted for good"}


@dataclass
class World:
    """The chain as it is, and the store, which survives every crash."""

    fate: Fate
    store: MemoryPaymentStore = field(default_factory=MemoryPaymentStore)
    stands: str = "unborn"
    was_public: bool = False

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
                return Unseen(height=EXPIRED if self.stands == "dead" else 1)

    def check(self) -> None:
        """Whatever holds at every moment."""
        for row in self.store.rows.values():
            is_failed = row.payment.state is State.FAILED
            if is_failed and self.stands not in LOST and self.fate is not Fate.FLIPS:
                raise Violation(f"failed while it is {self.stands}")
        if sum(self.store.balances.values()) not in {0, CREDITS}:
            raise Violation("issued twice")


@dataclass(frozen=True)
class SteppedStore:
    """The store; before each verb somebody else may go first."""

    world: World

    async def find(self, message_hash: MessageHash) -> Found:
        await step()
        return await self.world.store.find(message_hash)

    async def begin(self, promise: Promise) -> Any:
        await step()
        return await self.world.store.begin(promise)

    async def resolve(
        self, message_hash: MessageHash, evidence: Evidence, *, now: UnixMs
    ) -> Payment:
        await step()
        if message_hash not in self.world.store.rows:
            raise Violation("resolved without a row")
        return await self.world.store.resolve(message_hash, evidence, now=now)

    async def lease(self, *, now: UnixMs, until: UnixMs, count_max: int) -> Sequence[Payment]:
        await step()
        # A lease only saves questions to the chain, so none is respected here.
        return await self.world.store.lease(now=UnixMs(now * 2), until=until, count_max=count_max)

    async def find_signatures(self, signatures: Sequence[Signature]) -> Sequence[Payment]:
        raise NotImplementedError


@dataclass(frozen=True)
class SteppedChain:
    """The chain, seen through one node."""

    world: World

    async def simulate(self, _envelope: Envelope, _source: Pubkey) -> Simulated:
        await step()
        return Simulated(balance_after=0, block_height=1)

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
        return [self.world.see() for _ in signatures]


@dataclass(frozen=True)
class Build:
    """The code under test: the shipped one, or a mutant of it."""

    cashier: ModuleType = cashier_module
    reconciler: ModuleType = reconciler_module


@cache
def payment() -> tuple[Requirement, Presented]:
    requirement = make_cashier(Build(), World(Fate.LANDS)).require(RESOURCE, AMOUNT)
    return requirement, pay(requirement)


def make_cashier(build: Build, world: World) -> Any:
    return build.cashier.Cashier(
        terms=TERMS,
        secrets=SECRETS,
        fee_payer=FEE_PAYER,
        store=SteppedStore(world),
        chain=SteppedChain(world),
        clock=ManualClock(NOW),
        entropy=lambda count: b"e" * count,
        budget=Budget(),
    )


@dataclass
class Run:
    """One schedule: the choices made so far, and who is alive."""

    build: Build
    world: World
    tasks: dict[str, Coroutine[Any, Any, None]] = field(default_factory=dict)
    crashes_left: int = 1
    was_stranger_here: bool = False
    has_resent: bool = False

    def start(self) -> None:
        self.tasks["buyer"] = self.send(KEY)
        self.tasks["reconciler"] = self.reconcile(2)

    async def send(self, key: str | None) -> None:
        cashier, presented = make_cashier(self.build, self.world), payment()[1]
        demand = Demand(resource=RESOURCE, key=key, address="192.0.2.1")
        answer = await cashier.present(presented, demand)
        if hasattr(answer, "settle"):
            answer = await answer.settle(self.build.cashier.Credits(CREDITS))
        self.judge(answer, key)

    async def reconcile(self, rounds: int) -> None:
        world = self.world
        reconciler = self.build.reconciler.Reconciler(
            store=SteppedStore(world), chain=SteppedChain(world), clock=ManualClock(NOW)
        )
        for _ in range(rounds):
            await reconciler.once()

    def judge(self, answer: Outcome, key: str | None) -> None:
        """Whatever must hold when a client is told something."""
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
                # What a fork takes back was true when it was said; the key still redeems it.
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
            case name:
                advance(self.tasks, name)
        self.world.check()

    def finish(self, *, chain_first: bool) -> None:
        """Let everything come to its end; then what landed is issued, and nothing else is."""
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


def explore(build: Build, fate: Fate, depth: int) -> tuple[int, list[str]]:
    """Run every list of *depth* choices, each to two ends; return how many, and the violations."""
    violations, count = [], 0
    prefixes: list[list[int]] = [[]]
    while prefixes:
        prefix = prefixes.pop()
        for chain_first in (False, True):
            run = Run(build, World(fate))
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
    """Make the choices of *prefix*, then first choices; return how many there were each time."""
    widths = []
    for place in range(depth):
        enabled = run.choices()
        if not enabled:
            break
        taken.append(enabled[prefix[place] if place < len(prefix) else 0])
        run.take(taken[-1])
        widths.append(len(enabled))
    return widths


def test_no_schedule_loses_or_doubles_a_payment() -> None:
    count = 0
    for fate in Fate:
        explored, violations = explore(Build(), fate, DEPTH)
        count += explored

        assert violations == [], f"{fate}: {len(violations)} of {explored}"
    assert count >= SCHEDULES_MIN


def mutant(module: ModuleType, old: str, new: str) -> ModuleType:
    """Return *module* with the one place that says *old* saying *new*."""
    source = inspect.getsource(module)
    assert source.count(old) == 1, f"expected one place that says {old!r}"
    broken = ModuleType(module.__name__ + "_mutant")
    sys.modules[broken.__name__] = broken  # dataclasses look themselves up
    try:
        code = compile(source.replace(old, new), str(module.__file__), "exec")
        exec(code, broken.__dict__)
    finally:
        del sys.modules[broken.__name__]
    vars(broken).update(Dead=Dead, apply=apply)
    return broken


SETTLE_BEFORE_JOURNAL: Final = (
    "        begun = await self.store.begin(promise)\n",
    "        await self.chain.broadcast(signed)\n        begun = await self.store.begin(promise)\n",
)
UNKNOWN_IS_FAILED: Final = (
    "        if evidence is None:\n            return payment\n",
    "        if evidence is None:\n            evidence = Dead()\n",
)
WALL_CLOCK_EXPIRY: Final = (
    "evidence = weigh(payment, sighting)\n",
    "evidence = weigh(payment, sighting) or Dead()\n",
)
RESOLVE: Final = "await self.store.resolve(payment.message_hash, evidence, now=self.clock.now())"
ANSWER_FROM_MEMORY: Final = (
    f"return {RESOLVE}",
    f"{RESOLVE}\n            return apply(payment, evidence)",
)


@pytest.mark.parametrize(
    ("build", "symptom"),
    [
        (lambda: Build(cashier=mutant(cashier_module, *SETTLE_BEFORE_JOURNAL)), "without a row"),
        (lambda: Build(cashier=mutant(cashier_module, *UNKNOWN_IS_FAILED)), "a fresh 402 while"),
        (lambda: Build(reconciler=mutant(reconciler_module, *WALL_CLOCK_EXPIRY)), "failed while"),
        (lambda: Build(cashier=mutant(cashier_module, *ANSWER_FROM_MEMORY)), "201 for what is not"),
    ],
    ids=["settle before journal", "unknown is failed", "wall-clock expiry", "201 without the row"],
)
def test_every_mutant_is_caught(build: Callable[[], Build], symptom: str) -> None:
    found: list[str] = []
    for fate in (Fate.LANDS, Fate.VANISHES):
        found += explore(build(), fate, MUTANT_DEPTH)[1]

    assert any(symptom in violation for violation in found), found[:3]
