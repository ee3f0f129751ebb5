"""Messages to customers about a purchase: its outcome, and the next step."""

from collections.abc import Mapping
from typing import Final

import msgspec

from mintscope.payments.checkout import Cause, NotProposed
from mintscope.payments.ports import AlreadyUsed, Obstacle, Unavailable, Unresolved, Used
from mintscope.payments.protocol.envelope import RefusalReason, Refused
from mintscope.site.page import read_texts


class PurchaseMessage(msgspec.Struct, frozen=True):
    """The text of a page about a purchase, and the next step of the script of the page.

    `texts/purchases.toml` describes the fields.
    """

    state: str
    status: int
    title: str
    text: str
    retry_s: int = 0


TEXTS: Final = read_texts("purchases.toml", dict[str, PurchaseMessage])
POOR: Final = TEXTS["poor"]
PAUSED: Final = TEXTS["paused"]
NO_PRICE: Final = TEXTS["no-price"]
NO_PRICE_YET: Final = msgspec.structs.replace(NO_PRICE, state="waiting", retry_s=10)
ON_ANOTHER: Final = TEXTS["on-another"]
ON_TOKEN: Final = TEXTS["on-token"]
NOT_SHOWN: Final = TEXTS["not-shown"]
SIGNED_OUT: Final = TEXTS["signed-out"]
REFUSALS: Final[Mapping[RefusalReason, PurchaseMessage]] = {
    RefusalReason.INSUFFICIENT_FUNDS: POOR,
    RefusalReason.FUNDS: POOR,
    RefusalReason.QUOTE_EXPIRED: TEXTS["late"],
    RefusalReason.BLOCKHASH: TEXTS["late"],
    RefusalReason.EXPIRED: TEXTS["late"],
    RefusalReason.SIGNATURE: TEXTS["foreign"],
    RefusalReason.SOURCE: TEXTS["foreign"],
    RefusalReason.AUTHORITY: TEXTS["foreign"],
    RefusalReason.TOO_MANY_FAILURES: TEXTS["busy"],
    RefusalReason.TOO_MANY_PENDING: TEXTS["busy"],
    RefusalReason.SIMULATION: TEXTS["failed"],
    RefusalReason.REVERTED: TEXTS["failed"],
    RefusalReason.VANISHED: TEXTS["failed"],
    RefusalReason.UNDERPAID: TEXTS["failed"],
}
NOT_PROPOSED: Final = {
    NotProposed.OURS: TEXTS["wallet-of-seller"],
    NotProposed.UNFUNDED: msgspec.structs.replace(POOR, state="again", status=422),
    NotProposed.REJECTED: TEXTS["wallet-cannot-pay"],
    NotProposed.CHAIN: TEXTS["chain-before"],
    NotProposed.TREASURY: PAUSED,
}
OBSTACLES: Final = {
    Obstacle.CHAIN: TEXTS["chain"],
    Obstacle.NODE_BEHIND: TEXTS["node-behind"],
    Obstacle.UNSETTLED: TEXTS["unsettled"],
    Obstacle.SALES_CLOSED: msgspec.structs.replace(PAUSED, state="waiting", retry_s=10),
    Obstacle.TREASURY: msgspec.structs.replace(PAUSED, state="waiting", retry_s=30),
}
USED: Final = {
    Used.PAYMENT: TEXTS["used-payment"],
    Used.LOST: TEXTS["used-lost"],
    Used.ACKNOWLEDGED: TEXTS["used-acknowledged"],
    Used.KEY: TEXTS["used-key"],
}


def message_of(cause: Cause) -> PurchaseMessage:
    """Return the message for a customer whose purchase failed because of *cause*."""
    match cause:
        case Refused(reason=reason):
            return REFUSALS.get(reason, TEXTS["changed"])
        case AlreadyUsed(what):
            return USED[what]
        case Unresolved():
            return TEXTS["pending"]
        case Unavailable(obstacle):
            return OBSTACLES[obstacle]
        case _:
            return PAUSED


def tokens_text(atoms: int, decimals: int) -> str:
    """Return *atoms* in whole tokens, exactly, with thousands separators: 1,234.5."""
    whole, rest = divmod(atoms, 10**decimals)
    digits = f"{rest:0{decimals}d}".rstrip("0") if decimals else ""
    return f"{whole:,}.{digits}" if digits else f"{whole:,}"
