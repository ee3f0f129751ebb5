"""Facts about one payment for support: its record, its transaction on chain, and advice.

This module changes nothing: it returns advice for the operator, and a text for the customer.
"""

from collections.abc import Sequence
from enum import StrEnum
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
    hint            last eight characters of the credit token that it bought or topped up; "" if
                    there is none
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
    """An orphan with its settlement.

    note    the note of the operator who settled it at *acknowledged_at*; None: unsettled
    """

    acknowledged_at: UnixMs | None
    note: str | None


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A search for payments and orphans that match any of the fields.

    hint    the last eight characters of a credit token
    limit   the most payments to find, and the most orphans
    """

    signatures: Sequence[Signature] = ()
    payers: Sequence[Wallet] = ()
    accounts: Sequence[CreditAccount] = ()
    hint: str | None = None
    limit: int = FOUND_MAX


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a search, newest first, up to the limit of each kind.

    payment_count    the number of all payments in the store
    orphan_count     the number of all orphans in the store
    token_count      the number of all accounts with credits, of tokens and of users, in the store
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


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction as reported by the node.

    bought    the purchase in its quote; None: it has no quote of this service, or has a row
    """

    sighting: Sighting
    bought: Resource | None = None


def chain_says(sighting: Sighting | None, why_not: str) -> str:
    """Return *sighting* as text; *why_not* is the reason why the node was not asked."""
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
    """Return the advice for a payment with a row; *sighting* is None if no node was asked."""
    match payment.state:
        case State.ISSUED:
            return _issued(payment, now)
        case State.PENDING:
            return _pending(payment, sighting)
        case State.FAILED:
            return _failed(payment, sighting)
        case State.FROZEN:
            return _frozen(payment)


def advise_orphan(orphan: KeptOrphan) -> Advice:
    """Return the advice for a payment that an audit found on chain without a row."""
    signature = orphan.signature
    if orphan.note is not None:
        return Advice(
            finding=Finding.SETTLED_BY_HAND,
            do=f"nothing: an operator settled it for good, with the note: {orphan.note}",
            text=(
                f"Your payment {signature} was settled by hand. Our note of it says: {orphan.note}"
            ),
        )
    if orphan.bought is not None:
        return _lost(signature, orphan.bought)
    return Advice(
        finding=Finding.NO_QUOTE,
        do=(
            "the payment does not name its purchase. Make up for it with `mintscope credits"
            " issue`, or send it back from the treasury; then `mintscope sales acknowledge"
            f" {signature} --note TEXT`"
        ),
        text=(
            f"Your payment {signature} arrived, but it does not name its purchase. Please write"
            " what you bought: we either give you the credits, or send the payment back."
        ),
    )


def advise_unknown(  # noqa: PLR0911 - one for each answer of the node
    signature: Signature, seen: Seen | None
) -> Advice:
    """Return the advice for a signature that the store does not know.

    seen    the transaction; None: no node was asked
    """
    if seen is None:
        return Advice(
            finding=Finding.NOT_FOUND,
            do="configure the node of payments, so that the chain can be asked; then search again",
            text=(
                f"We have no payment with the signature {signature}. We are asking the chain for it"
                " and will write again. Please do not pay again."
            ),
        )
    match seen.sighting:
        case Landed(final=True) if seen.bought is not None:
            return _lost(signature, seen.bought)
        case Landed(final=True):
            return Advice(
                finding=Finding.NOT_OURS,
                do=(
                    "nothing is owed: the transaction has no quote of this service. Compare its"
                    " recipient with payments.pay_to in an explorer: a transfer to the treasury by"
                    " hand buys nothing, and may be sent back"
                ),
                text=(
                    f"The transaction {signature} is no purchase from us: it does not carry our"
                    " quote. A purchase begins with our offer (402) or on our page /pricing."
                    " Which address did you send to?"
                ),
            )
        case Landed():
            return _not_final(signature)
        case Reverted():
            return _reverted(signature)
        case UnreadablePayment(why=why):
            return Advice(
                finding=Finding.UNREADABLE,
                do=f"look the transaction up in an explorer: the answer of the node says {why}",
                text=f"We are looking up your payment {signature}, and will write again.",
            )
        case _:
            return Advice(
                finding=Finding.NOT_FOUND,
                do=(
                    "nothing is owed: the chain has no such transaction. Ask the customer for the"
                    " signature that an explorer shows, and on which network it is"
                ),
                text=(
                    f"The chain has no transaction {signature}, so nothing was taken from your"
                    " wallet by it. Please look the payment up in your wallet, and send us its"
                    " signature."
                ),
            )


def _issued(payment: KeptPayment, now: UnixMs) -> Advice:
    if payment.credit_count == 0:
        return _delivered(payment, now)
    holder = payment.holder
    signature = payment.signature
    bought = f"Your payment {signature} bought {payment.credit_count} credits."
    if holder is not None and holder.owner is not None:
        return Advice(
            finding=Finding.CREDITS_ISSUED,
            do=(
                f"nothing: the credits are in the account of user {holder.owner}, which has"
                f" {holder.balance} left; `mintscope users list` names it"
            ),
            text=(
                f"{bought} They are in your account, which has {holder.balance} credits left: sign"
                " in and open /credits on our site."
            ),
        )
    hint = payment.hint if holder is None else holder.hint
    left = "" if holder is None else f" and has {holder.balance} left"
    return Advice(
        finding=Finding.CREDITS_ISSUED,
        do=(
            f"nothing is owed: the credit token that ends in {hint} has the credits{left}. If the"
            f" customer does not have that token, the wallet {payment.payer} can move them to a new"
            " one; `mintscope credits show` lists the spends"
        ),
        text=(
            f"{bought} They are on the credit token that ends in {hint}{left}. If you did not"
            " receive that token, send the same purchase again with the same Idempotency-Key:"
            " it costs nothing more. Or move the credits to a new token with the wallet that paid:"
            " POST /v1/credits/rotate/challenge explains how."
        ),
    )


def _delivered(payment: KeptPayment, now: UnixMs) -> Advice:
    signature = payment.signature
    is_kept = now - payment.begun_at <= DAY_MS
    if is_kept:
        return Advice(
            finding=Finding.ANSWER_DELIVERED,
            do="nothing is owed: the same request gets the answer again for a day after payment",
            text=(
                f"Your payment {signature} bought one answer. Send the same request again with the"
                " same payment and Idempotency-Key: for a day you get the same answer, and pay"
                " nothing more."
            ),
        )
    return Advice(
        finding=Finding.ANSWER_DELIVERED,
        do=(
            "the answer is older than a day and kept no longer. If you believe that it never"
            f" arrived: `mintscope credits issue --credits 1 --note {signature}`"
        ),
        text=(
            f"Your payment {signature} bought one answer, more than a day ago. If it never reached"
            " you, write to us: we give you a credit for another one."
        ),
    )


def _pending(payment: KeptPayment, sighting: Sighting | None) -> Advice:
    if isinstance(sighting, Landed):
        return Advice(
            finding=Finding.ARRIVED_UNFINISHED,
            do=(
                "wait a minute: a running api finishes it by itself. If it is still pending then,"
                " run `mintscope doctor`: does the api run, and does its node answer?"
            ),
            text=(
                f"Your payment {payment.signature} has arrived and is being finished. Please send"
                " the same request again in a minute, with the same payment and Idempotency-Key."
                " Do not pay again."
            ),
        )
    return Advice(
        finding=Finding.UNDER_WAY,
        do=(
            "wait: the outcome comes by itself as soon as a final block is above the last height"
            " that the payment can land at, within some minutes. If it takes"
            " longer, run `mintscope doctor`: does the node answer?"
        ),
        text=(
            f"Your payment {payment.signature} is under way and not on the chain yet. Please do not"
            " pay again: within some minutes it either arrives, and you get what you bought by the"
            " same request, or it expires and nothing is taken from your wallet."
        ),
    )


def _failed(payment: KeptPayment, sighting: Sighting | None) -> Advice:
    if isinstance(sighting, Landed):
        return Advice(
            finding=Finding.ARRIVED_UNFINISHED,
            do=(
                "the payment landed after it was given up. A running api hands it out when it next"
                " compares the treasury: search again in ten minutes. If it is still failed then,"
                " `mintscope sales status` shows the findings of audits"
            ),
            text=(
                f"Your payment {payment.signature} arrived late. Your purchase is issued within"
                " some minutes: then send the same request again, with the same payment and"
                " Idempotency-Key. Do not pay again."
            ),
        )
    if payment.reason is RefusalReason.REVERTED:
        return _reverted(payment.signature)
    return Advice(
        finding=Finding.NEVER_LANDED,
        do="nothing: the payment expired before it reached the chain, and nothing was paid",
        text=(
            f"Your payment {payment.signature} never reached the chain and cannot any more, so"
            " nothing was taken from your wallet. Please buy again."
        ),
    )


def _frozen(payment: KeptPayment) -> Advice:
    signature = payment.signature
    if payment.reason is RefusalReason.UNDERPAID:
        return Advice(
            finding=Finding.UNDERPAID,
            do=(
                f"{payment.paid} of {payment.amount} atoms arrived: send them back from the"
                " treasury, or make up for them with `mintscope credits issue`"
            ),
            text=(
                f"Less than the price arrived by your payment {signature}, so it bought nothing."
                " We send back what arrived, or give you credits for it: which do you prefer?"
            ),
        )
    return Advice(
        finding=Finding.TAKEN_BACK,
        do=(
            f"nothing is owed: a fork took the payment back, and {payment.frozen} credits with it."
            " They come back by themselves if the transaction lands after all"
        ),
        text=(
            f"The network took your payment {signature} back: the tokens are in your wallet again,"
            " and the credits that it bought are frozen. Please buy again."
        ),
    )


def _lost(signature: Signature, bought: Resource) -> Advice:
    return Advice(
        finding=Finding.LOST_ROW,
        do=(
            f"the payment bought {bought}, and the store lost it, by a restore for example:"
            f" `mintscope sales adopt {signature}` hands it out to the wallet that paid"
        ),
        text=(
            f"Your payment {signature} arrived. Send the same request again with the same payment"
            " and Idempotency-Key. Or move the credits to a new token with the wallet that paid:"
            " POST /v1/credits/rotate/challenge says how."
        ),
    )


def _not_final(signature: Signature) -> Advice:
    return Advice(
        finding=Finding.NOT_FINAL,
        do="wait: the transaction is not final yet; search again in a minute",
        text=f"Your payment {signature} is not final yet. We will look again in a minute.",
    )


def _reverted(signature: Signature) -> Advice:
    return Advice(
        finding=Finding.REVERTED,
        do="nothing: the transaction failed on chain, and nothing was paid",
        text=(
            f"Your payment {signature} failed on the chain: the tokens are still in your wallet,"
            " and we paid the network fee. Please check the balance of the token, and buy again."
        ),
    )
