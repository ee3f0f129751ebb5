"""One payment from the moment it is pending: its states, and the evidence that moves it.

    pending -> issued    it landed and paid enough
    pending -> failed    it landed and reverted, or the chain says that it never can land
    failed  -> issued    it landed after all: landing always wins
    issued  -> frozen    it vanished after it was confirmed, and was missed twice
    frozen  -> issued    and came back
    any     -> frozen    it landed with less than was agreed

No clock moves a payment, only evidence from the chain.  A state is `final`
when the chain can no longer change its mind: it was seen at finalized, or the
transaction's blockhash had expired by then and its signature was not found.
A final fact is only overturned by a final fact.  An issued purchase is only
taken back when it was missed at two finalized heights, some blocks apart: one
look may have met a node without a memory.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import msgspec

from mintscope.kit.credentials import CredentialHash
from mintscope.kit.primitives import CreditAccount, Mint, Signature, UnixMs, Wallet
from mintscope.payments.protocol.envelope import MessageHash, RefusalReason, Resource

MISSED_BLOCKS: Final = 32  # finalized between two looks in vain


class State(StrEnum):
    """The states of a payment."""

    PENDING = "pending"
    ISSUED = "issued"
    FAILED = "failed"
    FROZEN = "frozen"


class PaidReport(msgspec.Struct, frozen=True, kw_only=True):
    """A finished answer, bought by a single request."""

    body: bytes


class NewToken(msgspec.Struct, frozen=True, kw_only=True):
    """Credits on a new token, whose plain text is derived and never stored."""

    credits: int
    token_hash: CredentialHash
    hint: str


class TopUp(msgspec.Struct, frozen=True, kw_only=True):
    """Credits on an existing token."""

    credits: int
    account: CreditAccount


PaidItem = PaidReport | NewToken | TopUp


@dataclass(frozen=True, slots=True, kw_only=True)
class Payment:
    """The facts of one payment.

    message_hash       its name, unique
    signature          of the transaction, known before it was broadcast
    address            whom its failure is counted against beside the payer: the client's
    key_hash           of the redelivery key
    fee_lamports       the most that landing it costs us
    last_valid_height  above this finalized block height it can never land
    asset              the token of its atoms; None: begun before two were taken at once
    paid               atoms that arrived; 0 until they have
    reason             why it failed or is frozen
    final              the chain cannot change its mind any more
    touched            the new token it bought no longer holds exactly what it was given
    missed_height      finalized height at which it was first missed since it was issued; 0: never
    """

    message_hash: MessageHash
    signature: Signature
    payer: Wallet
    address: str
    resource: Resource
    amount: int
    purchase: PaidItem
    key_hash: CredentialHash
    fee_lamports: int
    last_valid_height: int
    begun_at: UnixMs
    asset: Mint | None
    state: State = State.PENDING
    paid: int = 0
    reason: RefusalReason | None = None
    final: bool = False
    touched: bool = False
    missed_height: int = 0


class Landed(msgspec.Struct, frozen=True, kw_only=True):
    """The transaction is in a block and succeeded; *paid* atoms reached the treasury."""

    paid: int
    final: bool


class Reverted(msgspec.Struct, frozen=True, kw_only=True):
    """The transaction is in a block and failed: the fee is gone, nothing was paid."""

    final: bool


class Unseen(msgspec.Struct, frozen=True, kw_only=True):
    """The transaction was not found.

    height    finalized block height read *before* looking, with the whole history
              searched; 0 if only recent blocks were, which proves nothing
    """

    height: int = 0


class UnreadablePayment(msgspec.Struct, frozen=True, kw_only=True):
    """The transaction is in a block but cannot be read; *why* is for the operator."""

    why: str


class Dead(msgspec.Struct, frozen=True, kw_only=True):
    """The transaction was not found at finalized *height*, where it could no longer land."""

    height: int


Sighting = Landed | Reverted | Unseen | UnreadablePayment
Evidence = Landed | Reverted | Dead


def weigh(payment: Payment, sighting: Sighting) -> Evidence | None:
    """Return the evidence of *sighting* about *payment*; None if it proves nothing."""
    match sighting:
        case Landed() | Reverted():
            return sighting
        case Unseen(height=height) if height > payment.last_valid_height:
            return Dead(height=height)
        case _:
            return None


def apply(payment: Payment, evidence: Evidence) -> Payment:
    """Return *payment* in the state that *evidence* puts it in; the only transition function."""
    match evidence:
        case Landed():
            return _land(payment, evidence)
        case Reverted(final=final):
            return _disprove(payment, RefusalReason.REVERTED, final=final)
        case Dead(height=height):
            return _miss(payment, height)


def _land(payment: Payment, landed: Landed) -> Payment:
    if payment.final and not landed.final:
        # Old news, or a node was wrong about the end: it is looked for again, not believed.
        return payment if payment.state is State.ISSUED else replace(payment, final=False)
    landed_payment = replace(payment, paid=landed.paid, final=landed.final, missed_height=0)
    if landed.paid < payment.amount:
        return replace(landed_payment, state=State.FROZEN, reason=RefusalReason.UNDERPAID)
    return replace(landed_payment, state=State.ISSUED, reason=None)


def _miss(payment: Payment, height: int) -> Payment:
    """Void an unsold payment at once, but an issued one only when it is missing twice."""
    if payment.state is State.ISSUED and not payment.final:
        if payment.missed_height == 0:
            return replace(payment, missed_height=height)
        if height < payment.missed_height + MISSED_BLOCKS:
            return payment
    return _disprove(payment, RefusalReason.EXPIRED, final=True)


def _disprove(payment: Payment, reason: RefusalReason, *, final: bool) -> Payment:
    """Fail or freeze the payment, unless it is final."""
    if payment.final:
        return payment
    if payment.state in {State.PENDING, State.FAILED}:
        return replace(payment, state=State.FAILED, reason=reason, final=final)
    return replace(
        payment, state=State.FROZEN, reason=RefusalReason.VANISHED, final=final, missed_height=0
    )
