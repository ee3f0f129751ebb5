"""A payment as columns, and back."""

from collections.abc import Sequence
from typing import Any, Final

from mintscope.base.credentials import CredentialHash
from mintscope.base.primitives import CreditAccount, Mint, Signature, UnixMs, Wallet
from mintscope.core.payments.payment import NewToken, PaidItem, PaidReport, Payment, State, TopUp
from mintscope.core.payments.protocol.envelope import MessageHash
from mintscope.core.payments.protocol.refusal import RefusalReason
from mintscope.core.payments.protocol.requirement import Resource

SqlValue = str | bytes | int | None

# A token that holds what it was given has not been used; or all of it was given back.
COLUMNS: Final = """
message_hash, signature, payer, address, resource, amount, credits, body, token_hash, hint,
account, key_hash, fee_lamports, last_valid_height, begun_at, asset, state, paid, reason, final,
token_hash IS NOT NULL AND state = 'issued' AND (holder <> account OR credits <> (
    SELECT balance FROM credit_account WHERE id = payment.account)), missed_height
"""


def payment_of(row: Sequence[Any]) -> Payment:
    """Return the payment that a row of COLUMNS holds."""
    return Payment(
        message_hash=MessageHash(row[0]),
        signature=Signature(row[1]),
        payer=Wallet(row[2]),
        address=row[3],
        resource=Resource(row[4]),
        amount=row[5],
        purchase=_purchase(*row[6:11]),
        key_hash=CredentialHash(row[11]),
        fee_lamports=row[12],
        last_valid_height=row[13],
        begun_at=UnixMs(row[14]),
        asset=None if row[15] is None else Mint(row[15]),
        state=State(row[16]),
        paid=row[17],
        reason=None if row[18] is None else RefusalReason(row[18]),
        final=bool(row[19]),
        touched=bool(row[20]),
        missed_height=row[21],
    )


def _purchase(
    credit_count: int, body: bytes | None, token_hash: bytes | None, hint: str, account: int
) -> PaidItem:
    if credit_count == 0:
        return PaidReport(body=body or b"")
    if token_hash is None:
        return TopUp(credits=credit_count, account=CreditAccount(account))
    return NewToken(credits=credit_count, token_hash=CredentialHash(token_hash), hint=hint)


def columns_of(payment: Payment) -> tuple[SqlValue, ...]:
    """Return what is stored of *payment* when it begins, in the order of COLUMNS."""
    return (
        payment.message_hash,
        payment.signature,
        payment.payer,
        payment.address,
        payment.resource,
        payment.amount,
        *_purchase_columns(payment.purchase),
        payment.key_hash,
        payment.fee_lamports,
        payment.last_valid_height,
        payment.begun_at,
        payment.asset,
    )


def _purchase_columns(purchase: PaidItem) -> tuple[SqlValue, ...]:
    """Return (credits, body, token_hash, hint, account)."""
    match purchase:
        case PaidReport(body=body):
            return 0, body, None, None, None
        case NewToken(credits=credit_count, token_hash=token_hash, hint=hint):
            return credit_count, None, token_hash, hint, None
        case TopUp(credits=credit_count, account=account):
            return credit_count, None, None, None, account
