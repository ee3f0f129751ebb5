"""Facts about one payment for support: its record, its transaction on chain, and advice.

This module changes nothing: it returns advice for the operator, and a text for the customer.
"""

from collections.abc import Sequence
from enum import StrEnum
from importlib.resources import files
from typing import Final

import msgspec

from mintscope.kit.audit import UserId
from mintscope.kit.primitives import CreditAccount, Mint, Signature, UnixMs, Wallet
from mintscope.kit.time import DAY_MS
from mintscope.payments.audit import Orphan
from mintscope.payments.payment import Landed, Reverted, Sighting, State, UnreadablePayment, Unseen
from mintscope.payments.protocol.envelope import RefusalReason, Resource

FOUND_MAX: Final = 20  # the most payments of one search; each needs a request to the node


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """The account that now holds the credits of a payment.

    hint      last eight characters of its credit token; "" for the account of a user
    owner     the user of the account; None for a credit token
    balance   all credits of the account, including those of other payments
    """

    hint: str
    owner: UserId | None
    balance: int


class KeptPayment(msgspec.Struct, frozen=True, kw_only=True):
    """The stored facts of a payment.

    amount          atoms of *asset* that the quote demands
    paid            atoms of *asset* that arrived; 0 until then
    asset           the mint; None: the payment began before several tokens were accepted
    credit_count    credits that it bought; 0: it bought an answer
    hint            last eight characters of the credit token that it bought or topped up; "" for
                    other purchases
    frozen          number of credits that are taken back now
    holder          the account that has the credits now; None: no credits were issued
    resolved_at     the time of the last change of its state; None: never
    worth           the value of *amount* when the payment began, in micro-USD; None: unknown

    The other fields are as in Payment.
    """

    signature: Signature
    payer: Wallet
    resource: Resource
    amount: int
    paid: int
    asset: Mint | None
    credit_count: int
    hint: str
    state: State
    reason: RefusalReason | None
    final: bool
    frozen: int
    begun_at: UnixMs
    resolved_at: UnixMs | None
    holder: Holder | None
    worth: int | None = None


class KeptOrphan(Orphan, frozen=True):
    """An orphan, and its settlement by an operator.

    acknowledged_at    the time when an operator settled it; None: it is not settled
    note               the note of that operator; None: it is not settled
    """

    acknowledged_at: UnixMs | None
    note: str | None


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """The criteria of a search for payments and orphans.

    A payment is found if it matches any of the fields; an orphan is found by signature or payer.

    accounts    payments into these accounts match, and payments whose credits they now hold
    hint        the last eight characters of a credit token, whose account counts like one of
                *accounts*; None: no token
    limit       only the newest *limit* payments, and the newest *limit* orphans, are found
    """

    signatures: Sequence[Signature] = ()
    payers: Sequence[Wallet] = ()
    accounts: Sequence[CreditAccount] = ()
    hint: str | None = None
    limit: int = FOUND_MAX


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a search, newest first, up to the limit of each kind.

    payment_count    the number of all payments in the store, or slightly more
    orphan_count     the number of all orphans in the store
    token_count      the number of all credit accounts, of tokens and of users, or slightly more
    """

    payments: Sequence[KeptPayment]
    orphans: Sequence[KeptOrphan]
    payment_count: int
    orphan_count: int
    token_count: int


class Finding(StrEnum):
    """The outcome of a payment that was searched for."""

    CREDITS_ISSUED = "credits_issued"
    ANSWER_DELIVERED = "answer_delivered"
    UNDER_WAY = "under_way"
    ARRIVED_UNFINISHED = "arrived_unfinished"
    NEVER_LANDED = "never_landed"
    REVERTED = "reverted"
    TAKEN_BACK = "taken_back"
    UNDERPAID = "underpaid"
    LOST_ROW = "lost_row"  # a payment to us is on chain, but not in this store
    NO_QUOTE = "no_quote"  # an orphan without a quote of this service
    SETTLED_BY_HAND = "settled_by_hand"
    NOT_OURS = "not_ours"
    NOT_FINAL = "not_final"
    NOT_FOUND = "not_found"
    UNREADABLE = "unreadable"


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a payment, and advice about it.

    do      advice for the operator
    text    a text to send to the customer
    """

    finding: Finding
    do: str
    text: str


ADVICE: Final = msgspec.toml.decode(
    (files("mintscope.payments") / "advice.toml").read_bytes(), type=dict[str, Advice]
)


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A searched transaction, as the node reports it.

    bought    the item that it bought, by its quote; None: it has no quote of this service, has not
              landed, or has a row
    """

    sighting: Sighting
    bought: Resource | None = None


def chain_says(sighting: Sighting | None, why_not: str) -> str:
    """Return *sighting* as text; None: the chain was not asked, for the reason *why_not*."""
    match sighting:
        case None:
            return f"not asked: {why_not}"
        case Landed(paid=paid, final=final):
            return f"landed, {paid} atoms arrived, {'final' if final else 'not final yet'}"
        case Reverted(final=final):
            return f"failed on chain, nothing was paid, {'final' if final else 'not final yet'}"
        case Unseen():
            return "not found"
        case _:
            return f"cannot be read: {sighting.why}"


def advise(payment: KeptPayment, sighting: Sighting | None, now: UnixMs) -> Advice:
    """Return advice on a stored payment, for the operator and for the customer.

    sighting    the outcome of the payment on chain; None: no node has answered
    """
    holder = payment.holder
    return _advice(
        _kind_of(payment, sighting, now),
        payment.signature,
        payment=payment,
        hint=payment.hint if holder is None else holder.hint,
        left="" if holder is None else f" and has {holder.balance} left",
    )


def advise_orphan(orphan: KeptOrphan) -> Advice:
    """Return advice on a payment that an audit found on chain without a row."""
    kind = "no_quote" if orphan.bought is None else "lost_row"
    if orphan.note is not None:
        kind = "settled_by_hand"
    return _advice(kind, orphan.signature, note=orphan.note, bought=orphan.bought)


def advise_unknown(signature: Signature, seen: Seen | None) -> Advice:
    """Return advice on a signature of which no payment is stored.

    seen    the transaction as a node reports it; None: no node has answered
    """
    match None if seen is None else seen.sighting:
        case None:
            return _advice("not_asked", signature)
        case Landed(final=True) if seen is not None and seen.bought is not None:
            return _advice("lost_row", signature, bought=seen.bought)
        case UnreadablePayment(why=why):
            return _advice("unreadable", signature, why=why)
        case Landed(final=final):
            return _advice("not_ours" if final else "not_final", signature)
        case sighting:
            is_reverted = isinstance(sighting, Reverted)
            return _advice("reverted" if is_reverted else "not_found", signature)


def _kind_of(payment: KeptPayment, sighting: Sighting | None, now: UnixMs) -> str:
    has_landed = isinstance(sighting, Landed)
    match payment.state:
        case State.ISSUED if payment.credit_count == 0:
            is_kept = now - payment.begun_at <= DAY_MS
            return "delivered" if is_kept else "delivered_long_ago"
        case State.ISSUED:
            is_owned = payment.holder is not None and payment.holder.owner is not None
            return "credits_in_account" if is_owned else "credits_on_token"
        case State.PENDING:
            return "arrived_unfinished" if has_landed else "under_way"
        case State.FAILED if has_landed:
            return "arrived_late"
        case State.FAILED:
            return "reverted" if payment.reason is RefusalReason.REVERTED else "never_landed"
        case State.FROZEN:
            return "underpaid" if payment.reason is RefusalReason.UNDERPAID else "taken_back"


def _advice(kind: str, signature: Signature, **facts: object) -> Advice:
    """Return the advice *kind* of `advice.toml`, with *signature* and *facts* filled in."""
    found = ADVICE[kind]
    do, text = (each.format(signature=signature, **facts) for each in (found.do, found.text))
    return Advice(finding=found.finding, do=do, text=text)
