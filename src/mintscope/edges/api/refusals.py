"""Answers to a client when a checkout ends without a receipt."""

from typing import Final

from mintscope.base.errors import (
    InsufficientCredits,
    KeyCapReached,
    PaymentAlreadyUsed,
    PaymentFailed,
    PaymentPending,
    PaymentRequired,
    PaymentUnavailable,
    ServiceError,
)
from mintscope.base.time import iso_time
from mintscope.core.checkout.order import Order
from mintscope.core.checkout.refusal import (
    CheckoutRefused,
    KeyCapped,
    NoCredits,
    NothingForSale,
    NothingPresented,
    PaymentOption,
    SignInRefused,
)
from mintscope.core.payments.outcome import AlreadyUsed, Obstacle, Unavailable, Unresolved, Used
from mintscope.core.payments.protocol.refusal import RefusalReason, Refused

NO_SALES: Final = "This service takes no payments; send a credit token instead."
NOTHING_PRESENTED: Final = (
    "This costs one credit (Authorization: Bearer svc_credit_<64 hex>), or a payment as in"
    " PAYMENT-REQUIRED."
)
NO_CREDITS_PRESENTED: Final = (
    "This is paid for with credits, sent as Authorization: Bearer svc_credit_<64 hex>."
)
NO_PAYMENT_PRESENTED: Final = "A bundle is paid for as in PAYMENT-REQUIRED, with PAYMENT-SIGNATURE."
VERSION_1: Final = (
    "X-PAYMENT is of x402 version 1, which is not accepted: pay by version 2, with"
    " PAYMENT-SIGNATURE, as `@x402/fetch` (not `x402-fetch`) and version 2 of the Python package"
    " `x402` do."
)
NOTHING_SENT: Final = "Nothing was sent for this request, nothing was charged for it."
SIGN_IN_REFUSED: Final = (
    "The sign-in is refused: {}. Sign the challenge of this answer, which is good for 5 minutes,"
    " for this path and once; nothing was charged."
)
NO_CREDIT_LEFT: Final = (
    "The credential is valid, and its balance is 0 credits; nothing was charged."
)
TOO_FEW: Final = "This costs {} credits, and {} are left; nothing was charged."
CAPPED: Final = (
    "The owner of this API key lets it spend so many credits in a calendar month and no more:"
    " nothing was charged. It can spend again from {} on, or once the cap was raised."
)

ONLY_CREDITS: Final = (
    "The network's fee is too high now for payments of single requests: buy credits, with POST"
    " /v1/credits/purchase?bundle=10, and send them as Authorization: Bearer svc_credit_<64 hex>."
)
CLOSED: Final = "Nothing is sold just now: credits that you have go on, new ones come later."
FOR_CREDITS: Final = (
    "No payment is taken for this request itself: buy credits with POST"
    " /v1/credits/purchase?bundle=10, and send their credit token."
)

USED: Final = {
    Used.PAYMENT: (
        "This payment was used before. Its answer is given again for a day, until the credit token"
        " is first used, and only to the request that it was made for, with its Idempotency-Key."
        " Payments without a memo are one if wallet, amount and blockhash are equal: sign another"
        " with `extra.memo` or a new blockhash."
    ),
    Used.LOST: (
        "This payment is on chain, and its answer is not kept here any more. It is given again to"
        " the request that it was made for, with the Idempotency-Key of that request or of our"
        " answer; the credits of a bundle also to the wallet that paid, by POST"
        " /v1/credits/rotate/challenge."
    ),
    Used.ACKNOWLEDGED: "This payment is on chain, and was settled with its payer in another way.",
    Used.KEY: "The Idempotency-Key was sent with another payment before. Nothing was charged.",
}
SAME_KEY: Final = "with the same Idempotency-Key"
NEW_KEY: Final = "with the Idempotency-Key of this answer, which is given only once"
OBSTACLES: Final = {
    Obstacle.CHAIN: (
        "The chain does not answer, so this request sent nothing and charged nothing: send the same"
        " payment again later."
    ),
    Obstacle.NODE_BEHIND: (
        "The chain's node is behind and does not know the payment's blockhash yet; this request"
        " sent nothing. Nothing was charged for it: send the same payment again in a moment."
    ),
    Obstacle.UNSETTLED: (
        "This payment may have been sent before, and the chain does not say yet what became of it."
        " Do not pay again: send the same payment again in a moment."
    ),
    Obstacle.TREASURY: (
        "No payment can arrive just now: the seller's token account takes none. Nothing was sent,"
        " nothing was charged; credits go on."
    ),
    Obstacle.SALES_CLOSED: "No payments are taken just now. Nothing was charged; credits go on.",
}

OBSTACLE_RETRY_S: Final = {
    Obstacle.CHAIN: 10,
    Obstacle.NODE_BEHIND: 2,
    Obstacle.SALES_CLOSED: 10,
    Obstacle.TREASURY: 60,
    Obstacle.UNSETTLED: 2,
}


def error_of(refused: CheckoutRefused, *, unpaid: str) -> ServiceError:
    """Return the error of *refused*; *unpaid* if nothing was presented."""
    why = f" Paying would be pointless now: {refused.failure}" if refused.failure else ""
    match refused.cause:
        case NothingPresented():
            return PaymentRequired(unpaid + why)
        case SignInRefused(flaw=flaw):
            return PaymentRequired(f"{SIGN_IN_REFUSED.format(flaw)} {unpaid}")
        case NothingForSale():
            return PaymentUnavailable(NO_SALES)
        case NoCredits() | KeyCapped() as shortage:
            return _shortage_error(shortage, why)
        case Refused() as refusal:
            return PaymentFailed(_refusal_text(refusal))
        case AlreadyUsed() | Unresolved() | Unavailable() as outcome:
            return _outcome_error(outcome)


def _refusal_text(refused: Refused) -> str:
    """Return why a payment is refused, and what to do differently where that can be said."""
    named = _named(refused.reason)
    match refused:
        case Refused(reason=RefusalReason.VERSION, version=version):
            return (
                f"The payment is refused: {named}. Expected a transaction of version 0, as"
                f" extra.transactionVersions says; it was of version {version}. {NOTHING_SENT}"
            )
        case Refused(reason=RefusalReason.BLOCKHASH):
            return (
                f"The payment is refused: {named}. Its blockhash has expired, or is of no block:"
                f" sign another payment for the new PAYMENT-REQUIRED. {NOTHING_SENT}"
            )
        case Refused(reason=RefusalReason.EXPIRED):
            return (
                f"The payment did not land before its blockhash expired: {named}. It never will,"
                " and nothing was charged: sign another payment for the new PAYMENT-REQUIRED."
            )
        case Refused(reason=RefusalReason.MEMO_COUNT | RefusalReason.QUOTE_FORGED):
            return (
                f"The payment is refused: {named}. Expected one Memo instruction that holds"
                " `extra.memo` of the terms; or a memo of your own, a text of 16 to 64 bytes that"
                " no other payment has, or no memo, and these terms whole in `accepted`."
                f" {NOTHING_SENT}"
            )
        case Refused(signature=""):
            return f"The payment is refused: {named}. {NOTHING_SENT}"
        case _:
            return f"The payment failed on chain: {named}. Nothing was charged."


def _named(reason: RefusalReason) -> str:
    """Return our code of *reason*, followed by that of x402 if it differs."""
    official = reason.official
    return reason if official == reason else f"{reason} (x402: {official})"


def _shortage_error(shortage: NoCredits | KeyCapped, why: str) -> ServiceError:
    match shortage:
        case NoCredits(balance=0):
            return InsufficientCredits(NO_CREDIT_LEFT + why)
        case NoCredits(balance=balance, credit_count=credit_count):
            return InsufficientCredits(TOO_FEW.format(credit_count, balance) + why)
        case KeyCapped(until=until):
            return KeyCapReached(CAPPED.format(iso_time(until)))


def _outcome_error(outcome: AlreadyUsed | Unresolved | Unavailable) -> ServiceError:
    match outcome:
        case AlreadyUsed(what):
            return PaymentAlreadyUsed(USED[what])
        case Unresolved(key=key):
            return PaymentPending(
                "The payment was sent, and its outcome is not known yet. Do not pay again: send the"
                f" same request with the same payment, {SAME_KEY if key is None else NEW_KEY}."
            )
        case Unavailable(obstacle):
            return PaymentUnavailable(OBSTACLES[obstacle])


def unpaid_text(order: Order) -> str:
    """Return the offer of *order* if nothing was presented."""
    return NO_CREDITS_PRESENTED if order.is_for_credits else NOTHING_PRESENTED


def with_credits_only(error: ServiceError, option: PaymentOption) -> ServiceError:
    """Return *error* with why there is no payment in *option*, and how to come to credits."""
    if option.is_closed:
        return type(error)(f"{error} {CLOSED}")
    return type(error)(f"{error} {FOR_CREDITS if option.is_for_credits else ONLY_CREDITS}")
