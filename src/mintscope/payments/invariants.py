"""What must hold between the chain, the payments and the credits; checked for ever.

    chain     every payment that landed is issued, every issued one has landed for good
    payments  each purchase has one journal entry, each such entry one purchase
    credits   balances are what their entries say; rotations and freezes cancel out

A violation stops sales, never spending: who has paid is served.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from mintscope.clock import Clock
from mintscope.payments.chain import TreasuryHistory
from mintscope.payments.payment import Payment, State
from mintscope.payments.reconciler import BATCH, Reconciler
from mintscope.primitives import Signature, UnixMs

SETTLED_AFTER_MS: Final = 300_000  # a payment that is younger may still be on its way


class Invariant(StrEnum):
    """The numbers are those of the threat model; its I3, I4, I7 and I8 are the gate's."""

    LANDED_IS_ISSUED = "I1: a payment landed and is not issued"
    LANDED_IS_KNOWN = "I6: a payment that we signed landed and has no row"
    ISSUED_IS_FINAL = "I1: a payment was issued and is not final 300 s later"
    ISSUED_IS_ENTERED = "I1: a purchase was issued and the journal does not say so"
    ENTRY_IS_PAID = "I1: the journal holds a purchase that no payment made"
    PAID_IS_ENOUGH = "I9: a payment was issued for less than its price"
    BALANCE_IS_SUM = "I2: a balance is not the sum of its entries"
    ROTATIONS_CANCEL = "I2: rotations have made or lost credits"
    FREEZES_CANCEL = "I2: what was frozen is not what the payments say"


@dataclass(frozen=True, slots=True)
class Violation:
    """One contradiction; *subject* names the row, never a secret."""

    invariant: Invariant
    subject: str


@dataclass(frozen=True, slots=True)
class Checked:
    """What a look at the books found, and how far they went."""

    violations: Sequence[Violation]
    entry_mark: int


class PaymentBooks(Protocol):
    """The books, for whoever audits them.  Raises ServiceUnavailable."""

    async def check(self, *, after_entry: int, settled_before: UnixMs) -> Checked:
        """Compare payments, entries and balances; of entries, those after *after_entry*."""
        ...

    async def treasury_mark(self) -> Signature | None:
        """Return the newest arrival that has been compared."""
        ...

    async def move_treasury_mark(self, signature: Signature) -> None:
        """Remember the newest arrival that has been compared."""
        ...

    async def stop_sales(self, *, now: UnixMs, why: str) -> None:
        """Sell nothing from now on, until an operator says otherwise."""
        ...


def compare(
    arrived: Collection[Signature], ours: Sequence[Payment], sponsored: Collection[Signature]
) -> list[Violation]:
    """Return what *arrived* on the treasury for good and was not handed out."""
    known = {payment.signature: payment for payment in ours}
    return [
        Violation(Invariant.LANDED_IS_KNOWN, signature)
        for signature in arrived
        if signature in sponsored and signature not in known
    ] + [
        Violation(Invariant.LANDED_IS_ISSUED, signature)
        for signature in arrived
        if signature in known and known[signature].state is not State.ISSUED
    ]


class Auditor:
    """Checks what is new every minute, and everything when told."""

    def __init__(
        self,
        *,
        books: PaymentBooks,
        history: TreasuryHistory,
        reconciler: Reconciler,
        clock: Clock,
    ) -> None:
        self._books = books
        self._history = history
        self._reconciler = reconciler
        self._clock = clock
        self._entry_mark = 0  # the first audit of a process is a full one

    async def audit(self, *, full: bool = False) -> Sequence[Violation]:
        """Return every violation, and stop sales if there is one.

        What landed unnoticed is issued first: to be late is not a violation.
        """
        now = self._clock.now()
        violations = await self._audit_chain(after=None if full else await self._mark())
        checked = await self._books.check(
            after_entry=0 if full else self._entry_mark,
            settled_before=UnixMs(now - SETTLED_AFTER_MS),
        )
        self._entry_mark = checked.entry_mark
        violations += checked.violations
        if violations:
            first = violations[0]
            await self._books.stop_sales(now=now, why=f"{first.invariant} ({first.subject})")
        return violations

    async def _mark(self) -> Signature | None:
        return await self._books.treasury_mark()

    async def _audit_chain(self, *, after: Signature | None) -> list[Violation]:
        arrived = await self._history.arrivals(after)
        violations: list[Violation] = []
        for start in range(0, len(arrived), BATCH):
            batch = arrived[start : start + BATCH]
            ours = await self._reconciler.issue_arrived(batch)
            known = {payment.signature for payment in ours}
            foreign = [signature for signature in batch if signature not in known]
            violations += compare(batch, ours, await self._history.sponsored(foreign))
        if arrived:
            await self._books.move_treasury_mark(arrived[-1])
        return violations
