"""Messages about payments: outcome and next step."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from mintscope.payments.checkout import Cause, NotProposed
from mintscope.payments.ports import AlreadyUsed, Obstacle, Unavailable, Unresolved, Used
from mintscope.payments.protocol.envelope import RefusalReason, Refused


class PurchaseMessage(NamedTuple):
    """The text of a page, and the next step of its script.

    state       `refused`: final, nothing was paid; `waiting`: the script sends the same payment
                again; `used`: final, the payment already paid for something; `again`: nothing was
                signed yet; `arrived`: final, the credits are on a credit token that the page does
                not have; `not-shown`: the page does not have the credit token to top up;
                `signed-out`: the user must sign in
    retry_s     seconds until the script sends the same payment again; 0: it does not
    """

    state: str
    status: int
    title: str
    text: str
    retry_s: int = 0


NOTHING_PAID: Final = "Nothing was paid."
POOR: Final = (
    "This wallet has too little {symbol}",
    (
        "The payment needs {amount} {symbol}. Use another wallet, or choose another token to pay in"
        " on the pricing page. Network fees are free."
    ),
)
LATE: Final = (
    "That took too long",
    "A price is valid for two minutes and a payment for less. This one has expired.",
)
FOREIGN: Final = (
    "Another wallet has signed",
    (
        "The payment was prepared for the wallet that you connected. Choose the same account in"
        " your wallet as here, or connect the other one."
    ),
)
CHANGED: Final = (
    "Your wallet has changed the payment",
    (
        "The signed payment has something in it that we did not ask for, so it was rejected. If"
        " your wallet sets network fees itself, turn that off in its settings."
    ),
)
BUSY: Final = (
    "Other payments of yours are in progress",
    "Wait until they complete or expire, then start again.",
)
FAILED: Final = (
    "The payment failed on the chain",
    "The network rejected it. Your tokens were not moved.",
)
REFUSALS: Final[Mapping[RefusalReason, tuple[str, str]]] = {
    RefusalReason.INSUFFICIENT_FUNDS: POOR,
    RefusalReason.FUNDS: POOR,
    RefusalReason.QUOTE_EXPIRED: LATE,
    RefusalReason.BLOCKHASH: LATE,
    RefusalReason.EXPIRED: LATE,
    RefusalReason.SIGNATURE: FOREIGN,
    RefusalReason.SOURCE: FOREIGN,
    RefusalReason.AUTHORITY: FOREIGN,
    RefusalReason.TOO_MANY_FAILURES: BUSY,
    RefusalReason.TOO_MANY_PENDING: BUSY,
    RefusalReason.SIMULATION: FAILED,
    RefusalReason.REVERTED: FAILED,
    RefusalReason.VANISHED: FAILED,
    RefusalReason.UNDERPAID: FAILED,
}
PAUSED: Final = PurchaseMessage(
    "again",
    503,
    "Sales are paused",
    "Purchases are closed right now, and nothing is charged. Existing credits keep working."
    " Try again in some minutes.",
)
NO_PRICE: Final = PurchaseMessage(
    "again",
    503,
    "There is no reliable price right now",
    "The price of the payment token is unknown, so nothing is sold for it. Nothing was paid, and"
    " existing credits keep working. Try again in some minutes.",
)
NO_PRICE_YET: Final = NO_PRICE._replace(state="waiting", retry_s=10)
NOT_PROPOSED: Final = {
    NotProposed.OURS: PurchaseMessage(
        "again",
        422,
        "This wallet belongs to the seller",
        "It cannot pay itself. Nothing was paid: connect another one.",
    ),
    NotProposed.UNFUNDED: PurchaseMessage("again", 422, POOR[0], f"{POOR[1]} {NOTHING_PAID}"),
    NotProposed.REJECTED: PurchaseMessage(
        "again",
        422,
        "This wallet cannot pay now",
        "The network says that the payment would fail: its account for the payment token may be"
        " frozen. Nothing was paid: connect another wallet.",
    ),
    NotProposed.CHAIN: PurchaseMessage(
        "again",
        503,
        "The network does not answer",
        "Our view of Solana is behind right now. Nothing was paid: try again in a moment.",
    ),
    NotProposed.TREASURY: PAUSED,
}
OBSTACLES: Final = {
    Obstacle.CHAIN: PurchaseMessage(
        "waiting",
        503,
        "The network does not answer",
        "Your payment was not sent yet. This page retries automatically.",
        10,
    ),
    Obstacle.NODE_BEHIND: PurchaseMessage(
        "waiting",
        503,
        "A moment, please",
        "Our view of Solana is a little behind. This page retries your payment automatically.",
        2,
    ),
    Obstacle.UNSETTLED: PurchaseMessage(
        "waiting",
        503,
        "Your payment is on its way",
        "Its outcome is not known yet. Do not pay again: this page retries automatically with the"
        " same payment.",
        2,
    ),
    Obstacle.SALES_CLOSED: PAUSED._replace(state="waiting", retry_s=10),
    Obstacle.TREASURY: PAUSED._replace(state="waiting", retry_s=30),
}
PENDING: Final = PurchaseMessage(
    "waiting",
    503,
    "Your payment is on its way",
    "It was sent, and the chain has not confirmed it yet. Do not pay again: this page retries"
    " automatically with the same payment. You can close it, and reopen it in this browser.",
    2,
)
USED: Final = {
    Used.PAYMENT: (
        "This payment was used before",
        (
            "Its credit token is shown again for a day, until it is first used. If you did not save"
            " it, the wallet that paid can move the credits to a new one."
        ),
    ),
    Used.LOST: (
        "This payment is on the chain, but not in our books",
        "The wallet that paid can prove the payment and get its credits on a new credit token.",
    ),
    Used.ACKNOWLEDGED: (
        "This payment was settled in another way",
        "You have already received your credits or a refund.",
    ),
    Used.KEY: (
        "This purchase was paid for before",
        "Nothing was charged for this second payment.",
    ),
}
ON_ANOTHER: Final = PurchaseMessage(
    "used",
    409,
    "The credits are in another account",
    "This payment has arrived. Its credits are in the account of the person who was signed in here"
    " when it was paid.",
)
ON_TOKEN: Final = PurchaseMessage(
    "arrived",
    200,
    "Your payment has arrived",
    "Its credits are on the credit token that was in this page when you paid. Paste it to see them."
    " Do not pay again.",
)
NOT_SHOWN: Final = PurchaseMessage(
    "not-shown",
    403,
    "Your payment has not arrived",
    "The credit token that it tops up is not in this page. Paste it on the page of credits to"
    " resume the purchase with the same payment. Otherwise the payment expires after three"
    " minutes.",
    5,
)
SIGNED_OUT: Final = PurchaseMessage(
    "signed-out",
    403,
    "You are signed out",
    "The credits are for your account. Sign in again, and this page resumes with the same payment;"
    " nothing is paid twice.",
)


def message_of(cause: Cause) -> PurchaseMessage:
    """Return the message about a checkout that ended without credits."""
    match cause:
        case Refused(reason=reason):
            title, text = REFUSALS.get(reason, CHANGED)
            return PurchaseMessage("refused", 402, title, f"{text} {NOTHING_PAID}")
        case AlreadyUsed(what):
            return PurchaseMessage("used", 409, *USED[what])
        case Unresolved():
            return PENDING
        case Unavailable(obstacle):
            return OBSTACLES[obstacle]
        case _:
            return PAUSED


def tokens_text(atoms: int, decimals: int) -> str:
    """Return *atoms* in whole tokens, exactly, with thousands separators: 1,234.5."""
    whole, rest = divmod(atoms, 10**decimals)
    digits = f"{rest:0{decimals}d}".rstrip("0") if decimals else ""
    return f"{whole:,}.{digits}" if digits else f"{whole:,}"
