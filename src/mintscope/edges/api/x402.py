"""Payments as HTTP: the demand for one, and every outcome as an answer."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from mintscope.base.errors import (
    BadRequest,
    InvalidPayment,
    PaymentAlreadyUsed,
    PaymentFailed,
    PaymentPending,
    PaymentUnavailable,
    PriceUnavailable,
    ServiceError,
)
from mintscope.base.fair_queue import FairQueue
from mintscope.base.metrics import PAYMENTS
from mintscope.core.payments.facilitator import Demand, PaymentCharge, Wanted
from mintscope.core.payments.outcome import (
    AlreadyUsed,
    Obstacle,
    Outcome,
    Settled,
    Unavailable,
    Unresolved,
    Used,
)
from mintscope.core.payments.pricing.price_list import PriceList
from mintscope.core.payments.protocol.headers import (
    IDENTIFIER_PATTERN,
    PAYMENT_REQUIRED,
    PAYMENT_RESPONSE,
    PAYMENT_SIGNATURE,
    Presented,
    decode_payment,
    encode_refused,
    encode_required,
    encode_settled,
)
from mintscope.core.payments.protocol.refusal import RefusalReason, Refused
from mintscope.core.payments.protocol.requirement import Resource
from mintscope.core.payments.protocol.verify import FEE_LAMPORTS_USUAL
from mintscope.edges.api.gate import Gate
from mintscope.edges.api.shop import Shop
from mintscope.edges.server.request import Request
from mintscope.edges.server.response import Header

PENDING_RETRY_S: Final = 2
OBSTACLE_RETRY_S: Final = {
    Obstacle.CHAIN: 10,
    Obstacle.NODE_BEHIND: 2,
    Obstacle.SALES_CLOSED: 10,
}
IDEMPOTENCY_KEY: Final = b"idempotency-key"
NO_SALES: Final = "This service takes no payments; send a credit token instead."
ONLY_CREDITS: Final = (
    "The network's fee is too high now for payments of single requests: buy credits, with POST"
    " /v1/credits/purchase?bundle=10, and send them as Authorization: Bearer svc_credit_<64 hex>."
)

USED: Final = {
    Used.PAYMENT: (
        "This payment was used before. Its answer is given again for a day, until the credit token"
        " is first used, and only to the request that it was made for, with its Idempotency-Key."
    ),
    Used.KEY: "The Idempotency-Key was sent with another payment before. Nothing was charged.",
}
OBSTACLES: Final = {
    Obstacle.CHAIN: "The chain does not answer; the payment was not sent. Nothing was charged.",
    Obstacle.NODE_BEHIND: (
        "The chain's node does not know the payment's blockhash yet; the payment was not sent."
        " Nothing was charged: send the same payment again in a moment."
    ),
    Obstacle.SALES_CLOSED: "No payments are taken just now. Nothing was charged; credits go on.",
}

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class PaidResource:
    """Something that a payment buys, and what it costs at the prices of the minute.

    fee_lamports_max    the most that landing its payment may cost us; None for any fee
    """

    resource: Resource
    price: Callable[[PriceList], int]
    fee_lamports_max: Callable[[PriceList], int | None] = lambda _: None

    def is_worth(self, fee_lamports: int, price_list: PriceList) -> bool:
        """Say whether a payment may cost us *fee_lamports*."""
        most = self.fee_lamports_max(price_list)
        return most is None or fee_lamports <= most


class ResourceServer:
    """Asks for payments and takes them; what is not settled leaves as a ServiceError."""

    def __init__(self, *, shop: Shop, gate: Gate) -> None:
        self._shop = shop
        self._gate = gate
        self._turns = FairQueue()

    async def ask(self, request: Request, offer: PaidResource, *, why: str) -> bool:
        """Add PAYMENT-REQUIRED to the reply; return False where only credits are sold now.

        Raises PriceUnavailable.
        """
        price_list = await self._shop.board.price_list()
        if not offer.is_worth(FEE_LAMPORTS_USUAL, price_list):
            return False
        requirement = self._shop.facilitator.require(offer.resource, offer.price(price_list))
        demand = encode_required(requirement, origin=self._shop.origin, error=why)
        request.response_headers.append(_header(PAYMENT_REQUIRED, demand))
        return True

    async def open(self, request: Request, offer: PaidResource) -> PaymentCharge | Settled:
        """Return a charge for a new payment that checks out, the goods of a known one.

        Raises InvalidPayment, and whatever else became of a known one or is
        wrong with a new one.
        """
        await self._turns.next()  # for the signature is checked here
        try:
            presented = _presented(request)
            key = _redelivery_key(request, presented)
        except (InvalidPayment, BadRequest):
            PAYMENTS.labels("invalid", "").inc()
            raise
        demand = Demand(resource=offer.resource, key=key, address=self._gate.address(request))
        found = await self._shop.facilitator.present(presented, demand)
        if isinstance(found, PaymentCharge):
            price_list = self._shop.board.posted()
            if price_list is None or offer.is_worth(found.verified.fee_lamports, price_list):
                return found
            found = Refused(RefusalReason.NETWORK_FEE)
        return await self._expect_settled(request, offer, found)

    async def settle(
        self, request: Request, offer: PaidResource, charge: PaymentCharge, wanted: Wanted
    ) -> Settled:
        """Take the payment, or raise what became of it instead."""
        request.expect_client()
        outcome = await charge.settle(wanted)
        await self._turns.next()  # many are confirmed in the same block
        return await self._expect_settled(request, offer, outcome)

    async def _expect_settled(
        self, request: Request, offer: PaidResource, outcome: Outcome
    ) -> Settled:
        _count(outcome)
        match outcome:
            case Settled(payment=payment, redelivered=redelivered):
                if not redelivered:
                    await self._gate.give_back(request)
                response = encode_settled(
                    self._shop.facilitator.terms, payer=payment.payer, signature=payment.signature
                )
                request.response_headers.append(_header(PAYMENT_RESPONSE, response))
                return outcome
            case Refused():
                is_asked = await self._refuse(request, offer, outcome)
                raise PaymentFailed(_explain(outcome, is_asked=is_asked))
            case AlreadyUsed(what):
                raise PaymentAlreadyUsed(USED[what])
            case Unresolved(key=key):
                raise _pending(request, key)
            case Unavailable(obstacle):
                request.response_headers.append(
                    (b"retry-after", b"%d" % OBSTACLE_RETRY_S[obstacle])
                )
                raise PaymentUnavailable(OBSTACLES[obstacle])

    async def _refuse(self, request: Request, offer: PaidResource, refused: Refused) -> bool:
        """Add PAYMENT-RESPONSE and a fresh demand; return False where only credits are sold now.

        Raises PriceUnavailable where none can be made, unless the payment was
        sent: then what became of it is the news.
        """
        is_asked = True
        try:
            is_asked = await self.ask(request, offer, why=refused.reason)
        except PriceUnavailable:
            if not refused.signature:
                raise
        response = encode_refused(
            self._shop.facilitator.terms, reason=refused.reason, signature=refused.signature
        )
        request.response_headers.append(_header(PAYMENT_RESPONSE, response))
        return is_asked


def _presented(request: Request) -> Presented:
    values = request.values(PAYMENT_SIGNATURE.lower().encode())
    if len(values) > 1:
        raise InvalidPayment(f"expected one {PAYMENT_SIGNATURE} header; there were several")
    return decode_payment(values[0])


def _redelivery_key(request: Request, presented: Presented) -> str | None:
    """Return the client's secret name for this payment, from either place it may stand in."""
    key = idempotency_key(request)
    if key is None or presented.identifier is None:
        return key or presented.identifier
    if key != presented.identifier:
        raise BadRequest("expected one key; Idempotency-Key and payment-identifier differ")
    return key


def idempotency_key(request: Request) -> str | None:
    """Return the Idempotency-Key, with or without quotation marks.

    Raises BadRequest for one that could be guessed, and for several.
    """
    values = request.values(IDEMPOTENCY_KEY)
    if not values:
        return None
    key = values[0].removeprefix('"').removesuffix('"')
    if len(values) > 1 or IDENTIFIER_PATTERN.fullmatch(key) is None:
        raise BadRequest(
            "Idempotency-Key: expected one key of 16 to 128 letters, digits, '-' and '_',"
            " hard to guess"
        )
    return key


def _pending(request: Request, key: str | None) -> ServiceError:
    request.response_headers.append((b"retry-after", b"%d" % PENDING_RETRY_S))
    if key is None:
        how = "with the same Idempotency-Key"
    else:
        request.response_headers.append((IDEMPOTENCY_KEY, key.encode()))
        how = "with the Idempotency-Key of this answer, which is given only once"
    return PaymentPending(
        "The payment was sent, and its outcome is not known yet. Do not pay again: send the same"
        f" request with the same payment, {how}."
    )


def _explain(refused: Refused, *, is_asked: bool) -> str:
    then = "" if is_asked else f" {ONLY_CREDITS}"
    if refused.signature:
        return f"The payment failed on chain: {refused.reason}. Nothing was charged.{then}"
    return f"The payment is refused: {refused.reason}. Nothing was sent, nothing was charged.{then}"


def _count(outcome: Outcome) -> None:
    match outcome:
        case Settled(payment=payment, redelivered=redelivered):
            PAYMENTS.labels("redelivered" if redelivered else "settled", "").inc()
            if not redelivered:
                log.info("payment settled", signature=payment.signature, atoms=payment.paid)
        case Refused(reason=reason, signature=signature):
            PAYMENTS.labels("failed" if signature else "refused", reason).inc()
        case AlreadyUsed(what):
            PAYMENTS.labels("already_used", what.name.lower()).inc()
        case Unresolved(payment=payment):
            PAYMENTS.labels("unresolved", payment.state).inc()
            log.warning("payment unresolved", signature=payment.signature, state=payment.state)
        case Unavailable(obstacle):
            PAYMENTS.labels("unavailable", obstacle.name.lower()).inc()


def _header(name: str, value: str) -> Header:
    return name.lower().encode(), value.encode()
