"""Outcomes of a payment that was presented: five answers, and no sixth.

Settled        200 or 201     the purchase
Refused        402            PAYMENT_FAILED, and a fresh requirement
AlreadyUsed    409            PAYMENT_ALREADY_USED
Unresolved     503            PAYMENT_PENDING: send the same payment again, with its key
Unavailable    503            PAYMENT_UNAVAILABLE: this request sent nothing, charged nothing
"""

from enum import Enum, auto

import msgspec

from mintscope.base.credentials import CreditToken
from mintscope.core.payments.payment import Payment
from mintscope.core.payments.protocol.refusal import RefusalReason, Refused
from mintscope.core.payments.settlement import Failing, Rejected, TreasuryUnusable, UnknownBlockhash
from mintscope.core.payments.store import KeyTaken, Objection, Overdrawn, QuoteUsed, SalesClosed


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """The payment has arrived and its purchase is handed out.

    token          what it bought, in plain text, where it bought a new credit token
    redelivered    the answer had been made before, and was lost
    """

    payment: Payment
    token: CreditToken | None
    redelivered: bool


class Used(Enum):
    """The part that has been used before."""

    PAYMENT = auto()
    KEY = auto()  # for another payment
    LOST = auto()  # on chain, unknown to a restored store, and not proven to be the sender's
    ACKNOWLEDGED = auto()  # settled by an operator


class AlreadyUsed(msgspec.Struct, frozen=True):
    """The sender does not prove that the answer belongs to it."""

    what: Used


class Unresolved(msgspec.Struct, frozen=True, kw_only=True):
    """The payment is on its way, and its outcome is not known yet.

    key    to send the same payment again with; only for a client that chose none
    """

    payment: Payment
    key: str | None


class Obstacle(Enum):
    """Why no payment can be taken just now."""

    CHAIN = auto()
    NODE_BEHIND = auto()  # it does not know the blockhash, and is short of what others know
    SALES_CLOSED = auto()
    TREASURY = auto()  # its token account takes no payments
    UNSETTLED = auto()  # it may have been sent before, and the chain does not say yet


class Unavailable(msgspec.Struct, frozen=True):
    """This request sent nothing and charged nothing."""

    obstacle: Obstacle


Outcome = Settled | Refused | AlreadyUsed | Unresolved | Unavailable


def not_begun(why: Objection) -> Outcome:
    """Return the outcome of a payment that the store has refused to begin."""
    match why:
        case KeyTaken():
            return AlreadyUsed(Used.KEY)
        case Overdrawn(reason):
            return Refused(reason)
        case QuoteUsed():
            return Refused(RefusalReason.QUOTE_USED)
        case SalesClosed():
            return Unavailable(Obstacle.SALES_CLOSED)


def not_simulated(trial: Failing) -> Outcome:
    """Say whose fault it is that the payment would not succeed now."""
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
