"""Checkout: turns a credential or payment into a charge, and a settled charge into a receipt.

    authorize   turn a credential or a payment into a Charge, or refuse it
    work        produce the answer and its price; a failure costs nothing
    settle      take the credits, or one payment on chain

The answer exists before the settling, so no work that may fail comes after it.  An interface (HTTP,
MCP) parses credentials and payments, and turns receipts and refusals into its own format.

`propose` builds the transaction of a payment for a wallet that can only sign, such as one in a
browser.  It stores nothing: once signed, the payment is presented and checked like any other.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from enum import Enum, auto

import msgspec
from solders.pubkey import Pubkey

from mintscope.credits.ledger import (
    CapReached,
    CreditLedger,
    Debit,
    Debited,
    DebitLedger,
    DebitOutcome,
    Empty,
    Reversal,
    TooFew,
)
from mintscope.credits.sign_in import SignInFlaw
from mintscope.kit.audit import KeyId
from mintscope.kit.errors import PriceUnavailable, ServiceError
from mintscope.kit.primitives import CreditAccount, Mint, Slot, UnixMs
from mintscope.kit.time import month_end
from mintscope.market.report import ReadReport, price_age_ms_in
from mintscope.payments import ports
from mintscope.payments.facilitator import Contradiction, Demand, VerifiedPayment, Wanted
from mintscope.payments.merchant import Merchant, Order
from mintscope.payments.payment import PaidReport
from mintscope.payments.protocol.envelope import (
    Envelope,
    RefusalReason,
    Refused,
    Requirement,
    open_envelope,
)
from mintscope.payments.protocol.headers import Presented
from mintscope.payments.protocol.verify import build


class NothingPresented:
    """The client sent neither a credential that spends credits nor a payment."""


class NothingForSale:
    """The cause of a refusal: this service has no merchant, so it takes no payments."""


class NoCredits(msgspec.Struct, frozen=True):
    """The credential is valid, but its *balance* is below the cost of *credit_count* credits."""

    balance: int = 0
    credit_count: int = 1


class SignInRefused(msgspec.Struct, frozen=True):
    """The sign-in of a wallet is refused: *flaw* is the reason."""

    flaw: SignInFlaw


class KeyCapped(msgspec.Struct, frozen=True):
    """The request would exceed the API key's cap for this month, which ends at *until*."""

    until: UnixMs


Cause = (
    NothingPresented
    | NothingForSale
    | NoCredits
    | KeyCapped
    | SignInRefused
    | Refused
    | ports.AlreadyUsed
    | ports.Unresolved
    | ports.Unavailable
)


class PaymentOption(msgspec.Struct, frozen=True, kw_only=True):
    """The ways to pay for a request that was refused.

    requirements      the payment requirements, one for each token that is accepted now; empty: only
                      credits are accepted now
    is_for_credits    whether this request can only be paid with credits, at any time
    is_closed         whether sales are closed to everyone: then not even credits can be bought
    """

    requirements: Sequence[Requirement]
    is_for_credits: bool = False
    is_closed: bool = False


class CheckoutRefused(Exception):
    """A request was refused without an answer.

    It may have cost something only if *cause* is Unresolved.

    option       how to pay; None if nothing can be bought now, or if no further payment is due
    failure      the error that a client with a payment would get now; None: none is known
    is_ready     whether a client with a payment would get an answer now
    """

    def __init__(
        self,
        cause: Cause,
        *,
        option: PaymentOption | None = None,
        failure: ServiceError | None = None,
        is_ready: bool = False,
    ) -> None:
        super().__init__(type(cause).__name__)
        self.cause = cause
        self.option = option
        self.failure = failure
        self.is_ready = is_ready


# `gc=False` here and below: such objects are made for each request, and are in no cycle.
class Delivered(msgspec.Struct, frozen=True, gc=False):
    """An answer and its cost in credits; 0 means that it is free."""

    report: ReadReport
    credit_count: int = 1


Work = Callable[[], Awaitable[Delivered]]


class Payer(msgspec.Struct, frozen=True, gc=False):
    """The account that a request debits, and the API key that spends its credits.

    account    the account to debit; None: the user of the API key has never had credits, or the
               wallet of the sign-in has no credits to spend
    key        the API key that spends the credits; None for a credit token or a sign-in
    """

    account: CreditAccount | None
    key: KeyId | None = None


class Receipt(msgspec.Struct, frozen=True, gc=False):
    """Proof that the charge for a report has settled.

    report         the answer: new, or stored when its payment settled earlier
    balance        credits left in the charged account; None if no credits were charged
    payment        the payment on chain; None if nothing was paid on chain
    credit_count   credits that the report cost, now or earlier; 0 without a charge of credits
    taken          undoes the debit if the report cannot be sent; None: nothing was debited
    """

    report: ReadReport
    balance: int | None
    payment: ports.Settled | None
    credit_count: int = 0
    taken: Reversal | None = None

    @property
    def is_bought(self) -> bool:
        """Return whether credits were taken now, and not by an earlier debit of the same name."""
        return self.taken is not None and not self.taken.is_of_repeat


class CreditCharge(msgspec.Struct, frozen=True, gc=False):
    """A charge for one answer, paid with credits that only `settle` or `prepay` takes.

    once        the name of the answer: a second debit with the same name takes nothing; None: each
                debit takes credits
    endpoint    the number of the endpoint, stored with the debit; None: the endpoint has no number
    """

    checkout: "Checkout"
    order: Order
    payer: Payer
    once: str | None = None
    endpoint: int | None = None

    async def settle(self, work: Work) -> Receipt:
        """Do *work*, then take all the credits that it costs, or none.

        Raises CheckoutRefused if the balance, or the rest of the cap, is below the cost; and the
        errors of *work*.  If *work* raises a ServiceError, the balance is 0 and the answer was not
        bought earlier, CheckoutRefused is raised instead.
        """
        account = self.payer.account
        try:
            delivered = await work()
        except ServiceError as failure:
            # Read only now, so that a request that succeeds needs no lookup of the balance.
            balance = 0 if account is None else await self.checkout.ledger.balance(account)
            if balance == 0 and not await self._is_bought():
                raise await self._refuse(NoCredits(), failure) from failure
            raise
        if delivered.credit_count == 0:
            return Receipt(delivered.report, None, None)
        is_plain = self.payer.key is None and self.once is None
        # The common case: it needs no `debits`, which may be None.
        if delivered.credit_count == 1 and account is not None and is_plain:
            outcome = await self.checkout.ledger.spend(account)
            if isinstance(outcome, Empty):
                raise await self._refuse(NoCredits())
            return Receipt(delivered.report, outcome.balance, None, 1, Reversal(account, 1))
        debits = self.checkout.expect_debits()
        debited = await self._take(debits.debit, delivered.credit_count)
        return Receipt(
            delivered.report, debited.balance, None, delivered.credit_count, debited.reversal()
        )

    async def expect(self, credit_count: int) -> None:
        """Raise CheckoutRefused if the balance, or the rest of the cap, is below *credit_count*.

        If the answer that `once` names was bought earlier, nothing is raised, because it costs
        nothing to send it again.
        """
        account = self.payer.account
        key = self.payer.key
        balance = 0 if account is None else await self.checkout.ledger.balance(account)
        capped = None
        if key is not None:
            capped = await self.checkout.expect_debits().expect_cap(key, credit_count)
        if balance >= credit_count and capped is None:
            return
        if await self._is_bought():
            return
        if balance >= credit_count and capped is not None:
            raise await self._refuse(KeyCapped(month_end(capped.month)))
        raise await self._refuse(NoCredits(balance, credit_count))

    async def prepay(self, credit_count: int) -> Debited:
        """Take all *credit_count* credits, or none, for the next minute of a stream.

        If the minute is not delivered, `DebitLedger.give_back` returns the credits.
        Raises CheckoutRefused if the balance, or the rest of the cap, is below *credit_count*.
        """
        return await self._take(self.checkout.expect_debits().prepay, credit_count)

    async def _take(
        self, take: Callable[[Debit], Awaitable[DebitOutcome]], credit_count: int
    ) -> Debited:
        account = self.payer.account
        if account is None:
            raise await self._refuse(NoCredits(0, credit_count))
        debit = Debit(account, credit_count, self.payer.key, self.once, self.endpoint)
        match await take(debit):
            case Debited() as debited:
                return debited
            case TooFew(balance):
                raise await self._refuse(NoCredits(balance, credit_count))
            case CapReached(month):
                raise await self._refuse(KeyCapped(month_end(month)))

    async def _is_bought(self) -> bool:
        """Return whether the answer that `once` names was paid for, so that it costs nothing."""
        if self.payer.account is None or self.once is None:
            return False
        return await self.checkout.expect_debits().is_bought(self.once)

    async def _refuse(
        self, cause: NoCredits | KeyCapped, failure: ServiceError | None = None
    ) -> CheckoutRefused:
        option = await self.checkout.option(self.order)
        return CheckoutRefused(cause, option=option, failure=failure)


class PaymentCharge(msgspec.Struct, frozen=True, gc=False):
    """A charge of one payment that is valid and has no row yet, or that settled earlier."""

    checkout: "Checkout"
    merchant: Merchant
    order: Order
    payment: VerifiedPayment | ports.Settled

    async def settle(self, work: Work) -> Receipt:
        """Do *work*, then take the payment; if it settled earlier, only return its report again.

        If the answer is free, the payment is not sent and can be used later.
        Raises the errors of *work*; CheckoutRefused if the payment does not settle; Contradiction
        if it bought credits; PriceUnavailable; ServiceUnavailable if the store does not answer.
        """
        clock = self.merchant.facilitator.clock
        delivered = None if isinstance(self.payment, ports.Settled) else await work()
        if delivered is not None and delivered.credit_count == 0:
            return Receipt(delivered.report, None, None)

        async def report() -> PaidReport:
            assert delivered is not None
            assert delivered.credit_count == 1  # a payment buys an answer that costs one credit
            return PaidReport(body=_pack(delivered.report, now=clock.now()))

        settled = await self.pay(report)
        if not isinstance(settled.payment.purchase, PaidReport):
            raise Contradiction(f"expected a report; {settled.payment.signature} bought credits")
        return Receipt(_unpack(settled.payment.purchase.body, now=clock.now()), None, settled)

    async def pay(self, wanted: Callable[[], Awaitable[Wanted]]) -> ports.Settled:
        """Take the payment for the result of *wanted*, unless it was taken earlier.

        Raises the errors of *wanted*; CheckoutRefused if the payment does not settle;
        Contradiction; ServiceUnavailable if the store does not answer; InvalidToken if the credit
        token to top up was rotated, or its user was deleted; PriceUnavailable.
        """
        if isinstance(self.payment, ports.Settled):
            return self.payment
        outcome = await self.payment.settle(await wanted())
        await self.checkout.next_outcome()  # many payments are confirmed at the same moment
        return await self.checkout.expect_settled(self.merchant, self.order, outcome)


Charge = CreditCharge | PaymentCharge


class Checkout(msgspec.Struct, frozen=True, kw_only=True):
    """Charges credits or one payment for an order.

    debits          debits several credits at once, and for API keys; None: only single credits of
                    credit tokens can be taken
    merchant        takes payments; None: only credits are accepted
    next_iteration  awaited before costly steps, so that other requests are served between them
    next_outcome    the same, after a payment: if it is cancelled, it only ends
    on_outcome      called with the outcome of each payment
    """

    ledger: CreditLedger
    debits: DebitLedger | None
    merchant: Merchant | None
    next_iteration: Callable[[], Awaitable[None]]
    next_outcome: Callable[[], Awaitable[None]]
    on_outcome: Callable[[ports.Outcome], None]

    def authorize_credit(
        self, order: Order, payer: Payer, *, once: str | None = None, endpoint: int | None = None
    ) -> CreditCharge:
        """Return a charge for one answer, to be paid with the credits of *payer*.

        once        the name of the answer: a second debit with the same name takes nothing; None:
                    each debit takes credits
        endpoint    the number of the endpoint, stored with the debit; None: the endpoint has no
                    number
        """
        return CreditCharge(self, order, payer, once, endpoint)

    def expect_debits(self) -> DebitLedger:
        """Return the ledger that takes several credits at once; this service must have one."""
        assert self.debits is not None
        return self.debits

    async def authorize_payment(
        self, order: Order, presented: Presented, *, key: str | None, address: str
    ) -> PaymentCharge:
        """Return a charge for a valid payment, or for a payment that settled earlier.

        key        the client's redelivery key; None if it has sent none
        address    the client's IP address, by which failed payments are limited
        Raises     CheckoutRefused, PriceUnavailable, Contradiction; ServiceUnavailable if the store
                   does not answer
        """
        merchant = self.merchant
        if merchant is None:
            raise CheckoutRefused(NothingForSale())
        await self.next_iteration()  # the signature check is costly
        demand = Demand(resource=order.resource, key=key, address=address)
        found = await merchant.facilitator.present(presented, demand)
        if isinstance(found, VerifiedPayment):
            payment_token = merchant.payment_token(found.verified.asset)
            # `latest` reads no source: a valid quote is accepted even while the price is unknown.
            price_list = payment_token.price_cache.latest()
            is_worth = price_list is None or order.is_worth(found.verified.fee_lamports, price_list)
            # A payment that has landed has already cost its network fee.
            if found.landed is None and not is_worth:
                found = Refused(RefusalReason.NETWORK_FEE)
        if order.is_tried_first and isinstance(found, VerifiedPayment) and found.landed is None:
            found = await found.tried()
        if isinstance(found, VerifiedPayment):
            return PaymentCharge(self, merchant, order, found)
        return PaymentCharge(
            self, merchant, order, await self.expect_settled(merchant, order, found)
        )

    async def refuse_unpaid(self, order: Order, work: Work) -> CheckoutRefused:
        """Do *work* to see whether it would succeed, and return the refusal for an unpaid request.

        The refusal has the ways to pay, and the error that *work* raised, if any.
        """
        failure = None
        try:
            await work()
        except ServiceError as caught:
            failure = caught
        return CheckoutRefused(
            NothingPresented(),
            option=await self.option(order),
            failure=failure,
            is_ready=failure is None,
        )

    async def option(self, order: Order) -> PaymentOption | None:
        """Return the ways to pay for *order*, which may be credits alone.

        Return None if payments are not configured, or if no token has a price now.
        """
        if self.merchant is not None:
            with suppress(PriceUnavailable):
                requirements = await self.merchant.quote(order)
                return PaymentOption(
                    requirements=requirements,
                    is_for_credits=order.is_for_credits,
                    is_closed=self.merchant.is_closed(),
                )
        return None

    async def expect_settled(
        self, merchant: Merchant, order: Order, outcome: ports.Outcome
    ) -> ports.Settled:
        """Return *outcome* if the payment has settled; otherwise raise its error.

        `on_outcome` is called with *outcome* first.  Raises CheckoutRefused; if *outcome* is
        Refused and a price is known, it includes a new requirement for *order*.  Raises
        PriceUnavailable if the payment was refused before it was sent, and no price is known.
        """
        self.on_outcome(outcome)
        if isinstance(outcome, ports.Settled):
            return outcome
        option = None
        if outcome == ports.Unavailable(ports.Obstacle.TREASURY):
            # The next reading of a price checks the treasury first, and fails while it is unusable.
            merchant.distrust_prices()
        if isinstance(outcome, Refused):
            try:
                option = PaymentOption(
                    requirements=await merchant.quote(order), is_closed=merchant.is_closed()
                )
            except PriceUnavailable:
                # A payment that was sent gets its own outcome, even if no new price can be offered.
                if not outcome.signature:
                    raise
        raise CheckoutRefused(outcome, option=option)


def _pack(report: ReadReport, *, now: UnixMs) -> bytes:
    """Return a paid report in its stored form: its slot, its time in Unix ms, and its body."""
    return b"%d %d\n%b" % (report.slot, now - report.age_ms, report.body)


def _unpack(packed: bytes, *, now: UnixMs) -> ReadReport:
    head, _, body = packed.partition(b"\n")
    slot, _, read_at = head.partition(b" ")
    # The clock of the process that stored the report may be ahead of this one.
    age_ms = max(0, now - int(read_at))
    return ReadReport(body, Slot(int(slot)), age_ms, price_age_ms=price_age_ms_in(body))


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """An unsigned payment that a simulation accepted; *transaction* lacks both signatures."""

    requirement: Requirement
    transaction: bytes


class NotProposed(Enum):
    """The reason why no payment is proposed to a wallet."""

    OURS = auto()  # the wallet is the payee or our fee payer
    UNFUNDED = auto()  # the wallet has too little of the token to pay in
    REJECTED = auto()  # the chain would reject the payment
    CHAIN = auto()  # the node is silent or behind, or too many payments have failed
    TREASURY = auto()  # the seller's account accepts no payments


async def propose(
    merchant: Merchant, order: Order, payer: Pubkey, asset: Mint, *, address: str
) -> Proposal | NotProposed:
    """Build the payment of *order* by the wallet *payer* in the token *asset*, and simulate it.

    Return the unsigned payment, or the reason if it would not succeed or cannot be simulated.

    address    the client's IP address, by which simulations are limited, because anyone can name
               any wallet
    Raises     PriceUnavailable if the token has no price now or cannot be used for *order*;
               ServiceUnavailable if the store does not answer
    """
    requirement, chain = await merchant.quote_in(order, asset), merchant.facilitator.chain
    terms = requirement.terms
    if str(payer) in {terms.pay_to, terms.fee_payer}:
        return NotProposed.OURS
    # Counted even if the payment would succeed: a proposal costs the client nothing.
    if not await merchant.facilitator.may_try(address):
        return NotProposed.CHAIN
    try:
        transaction = build(requirement, payer, await chain.recent_blockhash())
        envelope = open_envelope(transaction)
        assert isinstance(envelope, Envelope)
        trial = await chain.simulate(envelope, terms.token_account(payer))
    except ports.ChainUnavailable:
        return NotProposed.CHAIN
    if isinstance(trial, ports.Simulated):
        return Proposal(requirement=requirement, transaction=transaction)
    return _why(trial)


def _why(trial: ports.Failing) -> NotProposed:
    match trial:
        case ports.Rejected(is_unfunded=is_unfunded):
            return NotProposed.UNFUNDED if is_unfunded else NotProposed.REJECTED
        case ports.TreasuryUnusable():
            return NotProposed.TREASURY
        case ports.UnknownBlockhash():
            return NotProposed.CHAIN
