"""Ports of the chain, and outcomes of a payment.

The ports of the chain, as payments need it.

Outcomes of a payment that was presented: five answers, and no sixth.

Settled        200 or 201     the purchase
Refused        402            PAYMENT_FAILED, and a fresh requirement
AlreadyUsed    409            PAYMENT_ALREADY_USED
Unresolved     503            PAYMENT_PENDING: send the same payment again, with its key
Unavailable    503            PAYMENT_UNAVAILABLE: this request sent nothing, charged nothing
"""

from collections.abc import Sequence
from enum import Enum, auto
from typing import Protocol

import msgspec
from solders.hash import Hash
from solders.pubkey import Pubkey

from mintscope.kit.credentials import CreditToken
from mintscope.kit.primitives import Mint, Signature, Wallet
from mintscope.payments.payment import Payment, Sighting
from mintscope.payments.ports import KeyTaken, Objection, Overdrawn, QuoteUsed, SalesClosed
from mintscope.payments.protocol.envelope import (
    Envelope,
    RecentBlockhash,
    RefusalReason,
    Refused,
    Signed,
)


class ChainUnavailable(Exception):
    """No node answered in time with a usable answer."""


class Unintelligible(ChainUnavailable):
    """A node has answered this question, but the answer cannot be understood."""


class Simulated(msgspec.Struct, frozen=True, kw_only=True):
    """The transaction would succeed now.

    balance_after        atoms left in the payer's account
    last_valid_height    above this block height it can never land: its blockhash was known where
                         it was simulated, so it is at most BLOCKHASH_BLOCKS good from there on
    """

    balance_after: int
    last_valid_height: int


class Rejected(msgspec.Struct, frozen=True):
    """The transaction would fail now.

    error          the chain's own word for why
    is_unfunded    the payer's token account does not exist, or holds too little
    """

    error: str
    is_unfunded: bool = False


class TreasuryUnusable(msgspec.Struct, frozen=True):
    """Every payment would fail now, which is not its payer's fault; *why* is for the operator."""

    why: str


class UnknownBlockhash(msgspec.Struct, frozen=True):
    """The node does not know the transaction's blockhash.

    is_node_behind    the node is short of a slot that was known when the payment came, or has
                      named this blockhash itself: it may be good.  False: it has expired, or no
                      block ever had it
    """

    is_node_behind: bool = False


Failing = Rejected | UnknownBlockhash | TreasuryUnusable
Trial = Simulated | Failing


class Settlement(Protocol):
    """Raises ChainUnavailable from every verb; every verb ends within its own time limit."""

    def offer(self) -> RecentBlockhash | None:
        """Return a recent blockhash for a 402, or None; makes no request."""

    async def recent_blockhash(self) -> Hash:
        """Return a confirmed blockhash that payments may use from now on."""

    async def simulate(self, envelope: Envelope, source: Pubkey) -> Trial:
        """Simulate the transaction, which lacks our signature, against the confirmed chain."""

    async def broadcast(self, signed: Signed) -> None:
        """Send the transaction; it may have been sent even if this raises."""

    async def wait(self, signature: Signature, *, patience_s: float) -> Sighting:
        """Wait for a freshly broadcast transaction to be confirmed, for *patience_s* at most."""

    async def look(self, signatures: Sequence[Signature]) -> Sequence[Sighting]:
        """Search the whole history for *signatures*, and answer in their order."""


class PaymentChain(Protocol):
    """Facts of the chain that selling needs before the first payment.

    Raises ChainUnavailable from every verb; every verb ends within its own time limit.
    """

    async def refresh_offer(self) -> None:
        """Request a newer blockhash to offer with 402s."""

    async def expect_usable(self, asset: Mint | None = None) -> None:
        """Check an accepted token and its treasury against the terms.

        asset    its mint; None: the payment token.  Raises UnusablePaymentToken.
        """

    async def genesis_hash(self) -> str:
        """Return the name of the chain that payments settle on."""

    async def block_time_s(self) -> int:
        """Return the time of the newest confirmed block, in Unix seconds."""

    async def lamports(self, wallet: Wallet) -> int:
        """Return the lamports of *wallet* for network fees."""


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """The payment has arrived and its purchase is handed out.

    token          what it bought, in plain text, where it bought a new credit token
    redelivered    the answer had been made before, and was lost
    """

    payment: Payment
    token: CreditToken | None
    redelivered: bool


class Used(Enum):
    """The part of the payment that was used before."""

    PAYMENT = auto()
    KEY = auto()  # for another payment
    LOST = auto()  # on chain, unknown to a restored store, and not proven to be the sender's
    ACKNOWLEDGED = auto()  # settled by an operator


class AlreadyUsed(msgspec.Struct, frozen=True):
    """The sender does not prove that it owns the answer."""

    what: Used


class Unresolved(msgspec.Struct, frozen=True, kw_only=True):
    """The payment is on its way, and its outcome is not known yet.

    key    to send the same payment again with; only for a client that chose none
    """

    payment: Payment
    key: str | None


class Obstacle(Enum):
    """The reason why no payment can be taken now."""

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
    """Return the outcome of a payment that the store refused to begin."""
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
    """Return the outcome of a payment that would not succeed now, by the party at fault."""
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
