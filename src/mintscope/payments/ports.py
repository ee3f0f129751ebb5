"""Ports of payments: the store, the chain, and the outcomes of a payment.

Each outcome has an HTTP status and a response:

Settled        200 or 201     the purchase, delivered
Refused        402            PAYMENT_FAILED, with new requirements if there is a price
AlreadyUsed    409            PAYMENT_ALREADY_USED
Unresolved     503            PAYMENT_PENDING: send the same payment again, with its key
Unavailable    503            PAYMENT_UNAVAILABLE: nothing was sent or charged
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Protocol

import msgspec
from solders.hash import Hash
from solders.pubkey import Pubkey

from mintscope.kit.audit import Actor
from mintscope.kit.credentials import CreditToken
from mintscope.kit.errors import ErrorCode, ServiceUnavailable
from mintscope.kit.primitives import Mint, Signature, UnixMs, Wallet
from mintscope.kit.time import HOUR_MS
from mintscope.payments.payment import Evidence, Landed, Payment, Sighting
from mintscope.payments.protocol.envelope import (
    Envelope,
    MessageHash,
    RecentBlockhash,
    RefusalReason,
    Refused,
    Signed,
)

LEASE_MS_MAX: Final = 2 * HOUR_MS  # a lease with more time left is from before a clock was set back
FINAL_AFTER_SLOTS: Final = 40  # slots from the resolution of a payment to the check of its finality
FEE_SHARES: Final = 10  # a payer or an address may put one of so many shares of the fees at risk
WALLET_LAMPORTS_MIN: Final = 890_880  # the rent-exempt minimum, which a fee must leave in a wallet
SPARE_LAMPORTS: Final = 2_000_000  # enough for a hundred payments at the highest fee


def final_after_ms(slot_s: float) -> int:
    """Return the milliseconds after which a payment with an outcome should be final.

    slot_s    the measured duration of a slot, in seconds
    """
    return int(FINAL_AFTER_SLOTS * slot_s * 1000)


class Inconsistent(ServiceUnavailable, code=ErrorCode.SERVICE_UNAVAILABLE):
    """The store refused a change that contradicts its data; only that change is lost."""


class Interrupted(ServiceUnavailable, code=ErrorCode.SERVICE_UNAVAILABLE):
    """The server, which stops, cancelled a request while the store changed a payment."""


class Found(msgspec.Struct, frozen=True):
    """A payment that was looked up; None if it has no row.

    mark    the number of the latest change to any payment's state; a balance on chain that is read
            after this lookup may not yet show the effect of later changes
    """

    payment: Payment | None
    mark: int


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of the losses in any hour, by accident or to an attacker.

    failures                  a payer is refused at this number of reverted payments; a client
                              address is refused above this number plus its purchases, because many
                              payers may share it
    in_flight_new_payer       pending payments of a payer that has bought nothing within the day
    in_flight_payer           pending and reverted payments of a payer; each purchase within the
                              hour allows one more
    in_flight_address         pending and reverted payments of a client address; each purchase
                              within the hour allows one more
    fee_lamports              network fees of payments that reverted; payers whose reverted and
                              pending payments are as many as their purchases within a day, or more,
                              share half of it; one payer or address may use a tenth, including the
                              fees of its pending payments
    in_flight_fee_lamports    network fees of pending payments, which cost nothing if they never
                              land; payers that have bought nothing within the day share half of it
    fund_lamports_min         nothing is sold if the fee payer has fewer unreserved lamports
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
        """The part of *fee_lamports* that one payer or one client address may put at risk."""
        return self.fee_lamports // FEE_SHARES


class Conduct(msgspec.Struct, frozen=True):
    """The recent payments of a payer or a client address, and those in flight.

    reverted        payments that landed and failed within the hour
    pending         payments in flight
    sold            payments that were issued within the hour
    fee_lamports    network fees of the pending and the reverted payments
    sold_today      payments that were issued within 24 hours
    reverted_today  payments of a payer that reverted within 24 hours; 0 for an address
    """

    reverted: int
    pending: int
    sold: int
    fee_lamports: int
    sold_today: int
    reverted_today: int

    @property
    def is_new_payer(self) -> bool:
        """Whether the payer has bought nothing within 24 hours."""
        return self.sold_today == 0

    @property
    def is_one_more_covered(self) -> bool:
        """Whether the purchases of 24 hours outnumber reverted and pending payments together."""
        return self.reverted_today + self.pending < self.sold_today

    def find_excess(
        self, budget: Budget, *, fee_lamports: int, is_address: bool
    ) -> RefusalReason | None:
        """Return the reason to refuse a payment that may cost *fee_lamports*; None: no reason.

        budget        the limits for payers and for client addresses
        is_address    whether these are the payments of a client address; False: of a payer
        """
        in_flight = budget.in_flight_address if is_address else budget.in_flight_payer
        # A single failing payer must not stop all payers that share its address.
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

    reverted     fees of payments that reverted within the hour
    uncovered    the part of *reverted* from payers with more reverted payments than purchases
                 within a day
    pending      fees of pending payments
    new_payers   the part of *pending* from payers that have bought nothing within the day
    fund         balance of the fee payer beyond *pending*; None until it is first read
    """

    reverted: int
    uncovered: int
    pending: int
    new_payers: int
    fund: int | None

    def allow(self, budget: Budget, payer: Conduct, *, fee_lamports: int) -> bool:
        """Return whether another payment of *payer* with a fee of *fee_lamports* may begin.

        A payment that reverts or never lands costs its sender nothing.  So new payers may use only
        half of the fees that may be reserved.  Payers that would have more reverted payments than
        purchases, if this payment and their pending ones reverted, may use only half of the fees
        that may be burned.  The other half is left for buyers.
        """
        return self._may_burn(
            budget, fee_lamports, is_covered=payer.is_one_more_covered
        ) and self._may_reserve(budget, fee_lamports, is_new_payer=payer.is_new_payer)

    def _may_burn(self, budget: Budget, fee_lamports: int, *, is_covered: bool) -> bool:
        half = budget.fee_lamports // 2
        if not is_covered and self.uncovered + fee_lamports > half:
            return False
        # The uncovered fees can exceed their half, because pending payments may revert later.
        counted = self.reverted - self.uncovered + min(self.uncovered, half)
        return counted + fee_lamports <= budget.fee_lamports

    def _may_reserve(self, budget: Budget, fee_lamports: int, *, is_new_payer: bool) -> bool:
        reserved_max = budget.in_flight_fee_lamports
        if self.fund is not None:
            # `fund` excludes the pending fees, which the last comparison counts: add them back.
            reserved_max = min(reserved_max, self.pending + self.fund - WALLET_LAMPORTS_MIN)
        if is_new_payer and 2 * (self.new_payers + fee_lamports) > reserved_max:
            return False
        return self.pending + fee_lamports <= reserved_max


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingPayment:
    """A payment to store before it is sent, with the conditions for storing it.

    quote          the quote that is paid; no other payment may have the same quote
    mark           the number of the latest change to any payment's state, read before the
                   simulation
    balance_after  atoms that the payer's token account would have left, from the simulation
    lease_until    the process that began the payment watches it until this time
    worth          the value of the amount in micro-USD; None if no price is known
    """

    payment: Payment
    quote: bytes
    mark: int
    balance_after: int
    budget: Budget
    lease_until: UnixMs
    worth: int | None = None


class Begun:
    """The payment is stored as pending, and can now be broadcast."""


class KnownPayment(msgspec.Struct, frozen=True):
    """The store already has the payment."""

    payment: Payment


class Rotated:
    """The credit token that the payment would top up was rotated, so nothing is stored."""


class Removed:
    """The user whose account the payment would fill was removed, so nothing is stored."""


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """The payment has arrived and its purchase is delivered.

    token          the text of the new credit token that it bought; None if it bought none
    redelivered    whether the payment had settled earlier, and its answer is sent again
    """

    payment: Payment
    token: CreditToken | None
    redelivered: bool


class Used(Enum):
    """The reason why a payment, or its redelivery key, counts as used."""

    PAYMENT = auto()  # the sender proves no right to its answer, or the answer is not sent again
    KEY = auto()  # the redelivery key is of another payment of this payer that has not failed
    LOST = auto()  # the payment is on chain, its row is lost, and the sender proves no ownership
    ACKNOWLEDGED = auto()  # an operator has settled the payment


class AlreadyUsed(msgspec.Struct, frozen=True):
    """The payment or its key was used already, so no answer is sent; *what* is the reason."""

    what: Used


class Unresolved(msgspec.Struct, frozen=True, kw_only=True):
    """A result without an outcome: the payment may have been sent, or it is frozen.

    It is also the result if the store does not confirm that it stored a payment whose client sent
    no redelivery key.

    key    the redelivery key that the service created, because the client sent none; None: the
           client sent a key
    """

    payment: Payment
    key: str | None


class Obstacle(Enum):
    """The reason why a payment cannot be taken now."""

    CHAIN = auto()
    NODE_BEHIND = auto()  # the node does not know the blockhash, which may yet be valid
    SALES_CLOSED = auto()
    TREASURY = auto()  # our token account accepts no payments
    UNSETTLED = auto()  # the payment may have been sent before, and its outcome is not final yet


class Unavailable(msgspec.Struct, frozen=True):
    """The payment cannot be taken now: nothing was sent or charged for this request."""

    obstacle: Obstacle


Outcome = Settled | Refused | AlreadyUsed | Unresolved | Unavailable

KEY_TAKEN: Final = AlreadyUsed(Used.KEY)
# Sales are stopped, no more fees may be put at risk, or the fee payer has too few lamports.  New
# payers, and payers with more reverted payments than purchases, reach the limit of fees earlier.
SALES_CLOSED: Final = Unavailable(Obstacle.SALES_CLOSED)

Objection = Refused | AlreadyUsed | Unavailable
Beginning = Begun | KnownPayment | Rotated | Removed | Objection


class AdoptionStore(Protocol):
    """Stores adopted payments: those that landed, and whose rows were lost.

    `adopt` raises ServiceUnavailable if the store does not answer, and Inconsistent if the books
    refuse the change.
    """

    async def adopt(
        self, payment: Payment, landed: Landed, *, by: Actor, now: UnixMs
    ) -> Payment | AlreadyUsed:
        """Store and issue *payment*, which has landed and is final, in one transaction; return it.

        No budget is checked, because the payment has landed.  If it has a row, that row is issued
        and returned.  If an operator has settled it, or if its redelivery key belongs to another
        payment that has not failed, nothing is stored, and AlreadyUsed is returned.

        by    the actor, for the audit log
        """


class PaymentStore(Protocol):
    """Stores payments.  Every method raises ServiceUnavailable if the store does not answer."""

    async def find(self, message_hash: MessageHash) -> Found:
        """Return the payment of *message_hash*, if any.

        `Found.mark` is the number of the latest change to any payment's state.
        """

    async def begin(self, pending: PendingPayment) -> Beginning:
        """Store a payment as pending, before it is sent; return Begun.

        Nothing is stored in these cases.  If the payment exists, return it as KnownPayment; if it
        tops up a credit token that was rotated, return Rotated; if it fills the account of a
        deleted user, return Removed.  Return an objection if sales are stopped, a limit of `budget`
        is reached, the fee payer has too few lamports, another payment has the same quote, whatever
        its outcome was, or another payment that has not failed has the same redelivery key.

        There is also an objection if `balance_after` is less than the sum of the other payments of
        that payer in the same token that are pending or were resolved after `mark`, because the
        simulation may not have seen those.
        """

    async def resolve(
        self,
        message_hash: MessageHash,
        evidence: Evidence,
        *,
        now: UnixMs,
        again_ms: int,
        is_for_client: bool = False,
    ) -> Payment:
        """Change the state of a payment by *evidence* from the chain, and return the payment.

        Its purchase is delivered, frozen or released accordingly.

        again_ms        milliseconds until the payment is checked again, to find out whether it is
                        final
        is_for_client   whether a client waits; if its request is cancelled, Interrupted is raised,
                        and the change may be stored
        Raises          Inconsistent if the payment was never begun, or if the books refuse the
                        change
        """

    async def lease(self, *, now: UnixMs, until: UnixMs, count_max: int) -> Sequence[Payment]:
        """Lease up to *count_max* payments that are not final, and return them.

        Until its lease ends, no other call returns the payment.  Payments with a lease at *now* are
        left out, unless it ends more than LEASE_MS_MAX after *now*, because the clock was set back.

        until    the end of the new leases
        """

    async def postpone(self, message_hash: MessageHash, *, until: UnixMs) -> None:
        """Prevent `lease` from returning the payment before *until*."""

    async def find_signatures(self, signatures: Sequence[Signature]) -> Sequence[Payment]:
        """Return the stored payments among *signatures*, in any order."""

    async def forget_reports(self, before: UnixMs) -> None:
        """Delete the bodies of reports whose payment is final and began at *before* or earlier."""


class ChainUnavailable(Exception):
    """No node gave a usable answer in time, or none is asked because too many payments failed."""


class Unintelligible(ChainUnavailable):
    """A node has answered, but the answer cannot be understood."""


class Simulated(msgspec.Struct, frozen=True, kw_only=True):
    """The transaction would succeed now.

    balance_after        atoms that the payer's account would have left
    last_valid_height    above this block height the transaction cannot land: at most
                         BLOCKHASH_BLOCKS above the block that it was simulated on
    """

    balance_after: int
    last_valid_height: int


class Rejected(msgspec.Struct, frozen=True):
    """The transaction would fail now.

    error          the chain's name for the error
    is_unfunded    True: the payer's token account does not exist, or holds too little; False: there
                   is another cause, or the cause is unknown
    """

    error: str
    is_unfunded: bool = False


class TreasuryUnusable(msgspec.Struct, frozen=True):
    """No payment can succeed now, because of the treasury's token account.

    why    the reason, for the operator
    """

    why: str


class UnknownBlockhash(msgspec.Struct, frozen=True):
    """The node does not know the transaction's blockhash.

    is_node_behind    True: the blockhash may be valid, because the node lags behind a slot that was
                      known when the payment came, or has itself returned this blockhash.  False:
                      the blockhash has expired, or no block ever had it
    """

    is_node_behind: bool = False


Failing = Rejected | UnknownBlockhash | TreasuryUnusable
Trial = Simulated | Failing


class Settlement(Protocol):
    """Simulates, sends and watches payments on the chain.

    Every method except `offer` raises ChainUnavailable, and ends within its own time limit.
    """

    def offer(self) -> RecentBlockhash | None:
        """Return the blockhash that a 402 offers for signing; None if no recent one is known.

        No request is made.
        """

    async def recent_blockhash(self) -> Hash:
        """Return a confirmed blockhash that payments may use from now on."""

    async def simulate(self, envelope: Envelope, source: Pubkey) -> Trial:
        """Simulate the transaction, which lacks our signature, against the confirmed chain.

        source    the payer's token account
        """

    async def broadcast(self, signed: Signed) -> None:
        """Send the transaction; it may have been sent even if this raises."""

    async def wait(self, signature: Signature, *, patience_s: float) -> Sighting:
        """Wait until a payment that was just sent is confirmed, and return its outcome.

        Return Unseen if no outcome is known within *patience_s* seconds.
        """

    async def look(self, signatures: Sequence[Signature]) -> Sequence[Sighting]:
        """Search the whole history for *signatures*; return the results in the same order."""


class PaymentChain(Protocol):
    """Requests to the chain that are not about a single payment.

    Every method except `stop` raises ChainUnavailable, and ends within its own time limit.
    """

    def stop(self) -> None:
        """Let `broadcast`, `wait` and `look` of Settlement raise ChainUnavailable from now on."""

    async def refresh_offer(self) -> None:
        """Request a newer blockhash to offer with 402s."""

    async def expect_usable(self, asset: Mint | None = None) -> None:
        """Check on chain that a token and its treasury account are as configured.

        asset     the mint of the token; None: the payment token
        Raises    UnusablePaymentToken if the check fails
        """

    async def genesis_hash(self) -> str:
        """Return the genesis hash of the chain that payments settle on."""

    async def block_time_s(self) -> int:
        """Return the time of the newest confirmed block, in Unix seconds."""

    async def lamports(self, wallet: Wallet) -> int:
        """Return the balance of *wallet*, in lamports."""


def not_simulated(trial: Failing) -> Outcome:
    """Return the outcome for a client whose payment would fail now.

    trial    the result of the simulation
    """
    match trial:
        case TreasuryUnusable():
            return Unavailable(Obstacle.TREASURY)
        case Rejected(is_unfunded=True):
            return Refused(RefusalReason.INSUFFICIENT_FUNDS)
        case Rejected():
            return Refused(RefusalReason.SIMULATION)
        case UnknownBlockhash(is_node_behind=True):
            return Unavailable(Obstacle.NODE_BEHIND)
        case UnknownBlockhash():
            return Refused(RefusalReason.BLOCKHASH)
