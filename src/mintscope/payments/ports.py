"""Ports of the payment store.

The port of the payment store.  Seven verbs, each one atomic and durable.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec

from mintscope.kit.errors import ErrorCode, ServiceUnavailable
from mintscope.kit.primitives import Signature, UnixMs
from mintscope.kit.time import HOUR_MS
from mintscope.payments.payment import Evidence, Payment
from mintscope.payments.protocol.envelope import MessageHash, RefusalReason

LEASE_MS_MAX: Final = 2 * HOUR_MS  # a longer one was given before the clock was set back
FINAL_AFTER_SLOTS: Final = 40  # after a resolution its finality is looked for
FEE_SHARES: Final = 10  # how many must lose fees at once before all sales stop
WALLET_LAMPORTS_MIN: Final = 890_880  # a wallet with less than the rent of its account cannot pay
SPARE_LAMPORTS: Final = 2_000_000  # a hundred payments at the highest fee


def final_after_ms(slot_s: float) -> int:
    """Return the time from a resolution to the check of its finality, at *slot_s* a slot."""
    return int(FINAL_AFTER_SLOTS * slot_s * 1000)


class Inconsistent(ServiceUnavailable, code=ErrorCode.SERVICE_UNAVAILABLE):
    """The store refuses a change that contradicts its data; only that change is lost."""


class Found(msgspec.Struct, frozen=True):
    """The result of a lookup.

    mark    orders the resolutions of payments: those after it may be missing from a
            balance that is read from now on
    """

    payment: Payment | None
    mark: int


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """The amounts that may be lost in any hour, by accident or to an attacker.

    failures                  payments that landed and reverted, of a payer; of an address, which
                              may have many payers behind it, more than those that were good
    in_flight_new_payer       pending payments of a payer that has bought nothing within the day
    in_flight_payer           of a payer that has bought nothing within the hour: pending payments
                              and those that reverted; one more for each that it has bought
    in_flight_address         likewise of a client address
    fee_lamports              network fees of payments that reverted; half of it for payers that
                              revert more often than they buy; a tenth of it of one payer or
                              address, there with those of pending payments
    in_flight_fee_lamports    network fees of pending payments, which cost nothing if they never
                              land; half of it for payers that have bought within the day
    fund_lamports_min         with less unreserved lamports of the fee payer, nothing is sold
    """

    failures: int = 3
    in_flight_new_payer: int = 2
    in_flight_payer: int = 8
    in_flight_address: int = 64
    fee_lamports: int = 20_000_000
    in_flight_fee_lamports: int = 100_000_000
    fund_lamports_min: int = WALLET_LAMPORTS_MIN + SPARE_LAMPORTS

    @property
    def fee_lamports_each(self) -> int:
        """The part of *fee_lamports* that one payer, or one address, may put at risk."""
        return self.fee_lamports // FEE_SHARES


class Conduct(msgspec.Struct, frozen=True):
    """Payments of a payer, or an address, within the hour and in flight.

    sold            payments that were issued
    fee_lamports    of its pending and reverted payments
    sold_today      payments that were issued within 24 hours
    reverted_today  of a payer: payments that reverted within 24 hours; of an address 0
    """

    reverted: int
    pending: int
    sold: int
    fee_lamports: int
    sold_today: int
    reverted_today: int

    @property
    def is_new_payer(self) -> bool:
        """Whether there was no purchase within the day."""
        return self.sold_today == 0

    @property
    def is_one_more_covered(self) -> bool:
        """Whether purchases within the day outnumber reverted and pending payments."""
        return self.reverted_today + self.pending < self.sold_today

    def find_excess(
        self, budget: Budget, *, fee_lamports: int, is_address: bool
    ) -> RefusalReason | None:
        """Return the reason to refuse one more payment that costs *fee_lamports*, or None.

        So a payer reverts no more often in an hour than may be in flight and once
        for each payment of the hour that was good.
        """
        in_flight = budget.in_flight_address if is_address else budget.in_flight_payer
        # One payer that fails must not stop all who share its address.
        failures_max = budget.failures + self.sold if is_address else budget.failures - 1
        if self.reverted > failures_max:
            return RefusalReason.TOO_MANY_FAILURES
        if not is_address and self.is_new_payer and self.pending >= budget.in_flight_new_payer:
            return RefusalReason.TOO_MANY_PENDING
        if self.reverted + self.pending >= in_flight + self.sold:
            return RefusalReason.TOO_MANY_PENDING
        if self.fee_lamports + fee_lamports > budget.fee_lamports_each:
            return RefusalReason.TOO_MANY_PENDING
        return None


class FeesAtRisk(msgspec.Struct, frozen=True):
    """Network fees of all payers together, in lamports, already burned or still at risk.

    reverted     of payments that reverted within the hour
    uncovered    of those of payers that reverted more often within the day than they bought
    pending      of those under way
    new_payers   of those under way whose payers have bought nothing within the day
    fund         what the fee payer has beyond *pending*, None before the first look
    """

    reverted: int
    uncovered: int
    pending: int
    new_payers: int
    fund: int | None

    def allow(self, budget: Budget, payer: Conduct, *, fee_lamports: int) -> bool:
        """Return whether one more payment of *payer* that costs *fee_lamports* may begin.

        A payment that never lands or reverts costs its sender nothing, so new payers have
        half of what may be reserved, and payers that revert more often than they buy have
        half of what may be burned: they cannot use up what buyers need.
        """
        return self._may_burn(
            budget, fee_lamports, is_covered=payer.is_one_more_covered
        ) and self._may_reserve(budget, fee_lamports, is_new_payer=payer.is_new_payer)

    def _may_burn(self, budget: Budget, fee_lamports: int, *, is_covered: bool) -> bool:
        half = budget.fee_lamports // 2
        if not is_covered and self.uncovered + fee_lamports > half:
            return False
        # More may be uncovered than may be burned: what was under way has reverted since.
        counted = self.reverted - self.uncovered + min(self.uncovered, half)
        return counted + fee_lamports <= budget.fee_lamports

    def _may_reserve(self, budget: Budget, fee_lamports: int, *, is_new_payer: bool) -> bool:
        reserved_max = budget.in_flight_fee_lamports
        if self.fund is not None:
            reserved_max = min(reserved_max, self.pending + self.fund - WALLET_LAMPORTS_MIN)
        if is_new_payer and 2 * (self.new_payers + fee_lamports) > reserved_max:
            return False
        return self.pending + fee_lamports <= reserved_max


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingPayment:
    """A payment to begin, and the conditions for it.

    quote          that it carries: no other payment does
    mark           of the lookup that preceded the simulation
    balance_after  of the payer's token account, by that simulation
    lease_until    who made it looks after it until then
    worth          of its amount now, in micro-USD; None if no price is known
    """

    payment: Payment
    quote: bytes
    mark: int
    balance_after: int
    budget: Budget
    lease_until: UnixMs
    worth: int | None = None


class Begun:
    """The payment is stored as pending and may now be broadcast."""


class KnownPayment(msgspec.Struct, frozen=True):
    """The same payment already exists."""

    payment: Payment


class KeyTaken:
    """The redelivery key belongs to another payment of this payer that may still be good."""


class QuoteUsed:
    """Another payment was begun with the same quote, whatever its outcome."""


class Overdrawn(msgspec.Struct, frozen=True):
    """The payer or the address has reached its limit of fees at risk."""

    reason: RefusalReason


class SalesClosed:
    """No payment may begin because of a violated invariant, the hour's fees, or the fee payer."""


Objection = KeyTaken | QuoteUsed | Overdrawn | SalesClosed
Beginning = Begun | KnownPayment | Objection


class PaymentStore(Protocol):
    """Raises ServiceUnavailable from every verb when the store does not answer."""

    async def find(self, message_hash: MessageHash) -> Found:
        """Return the payment of *message_hash*, if there is one."""

    async def begin(self, pending: PendingPayment) -> Beginning:
        """Make the payment pending, unless it exists or there is an objection.

        One payer's payments are decided one by one: *balance_after* must cover
        every other payment of that payer that is pending or was resolved after
        *mark*, because the simulation cannot have seen those.
        """

    async def resolve(
        self,
        message_hash: MessageHash,
        evidence: Evidence,
        *,
        now: UnixMs,
        again_ms: int,
    ) -> Payment:
        """Apply *evidence*, hand out or freeze the purchase, and return the updated payment.

        again_ms    after which a lease may look whether it is final
        Raises    Inconsistent for a payment that was never begun, and for a
                  change that the books refuse
        """

    async def lease(self, *, now: UnixMs, until: UnixMs, count_max: int) -> Sequence[Payment]:
        """Lease payments that are not final and whose lease has ended at *now*.

        One that ends more than LEASE_MS_MAX after *now* has ended: the clock was set back.
        """

    async def postpone(self, message_hash: MessageHash, *, until: UnixMs) -> None:
        """Prevent a new lease of the payment before *until*."""

    async def find_signatures(self, signatures: Sequence[Signature]) -> Sequence[Payment]:
        """Return our payments among *signatures*, in any order."""

    async def forget_reports(self, before: UnixMs) -> None:
        """Drop the bodies of final reports that were begun at *before* or earlier."""
