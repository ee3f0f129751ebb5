"""The purchase of a request, and its sender."""

import msgspec

from mintscope.base.credentials import CredentialHash, hash_credential, hint
from mintscope.base.primitives import Signature, UnixMs
from mintscope.core.payments.payment import NewToken, PaidItem, PaidReport, Payment, TopUp
from mintscope.core.payments.protocol.envelope import MessageHash
from mintscope.core.payments.protocol.requirement import Resource
from mintscope.core.payments.protocol.verify import Verified
from mintscope.core.payments.redelivery import Secrets


class Credits(msgspec.Struct, frozen=True):
    """So many credits on a new token."""

    count: int


Wanted = PaidReport | Credits | TopUp


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """The purchase of a request and its sender.

    key        the client's own redelivery key, None where it sent none
    address    the client's, for the failure budget
    """

    resource: Resource
    key: str | None
    address: str


def paid_item(wanted: Wanted, secrets: Secrets, message_hash: MessageHash, key: str) -> PaidItem:
    """Return what the payment *message_hash* of the holder of *key* buys."""
    if not isinstance(wanted, Credits):
        return wanted
    token = secrets.credit_token(message_hash, key)
    return NewToken(
        credits=wanted.count,
        token_hash=hash_credential(token, pepper=secrets.pepper),
        hint=hint(token),
    )


def make_payment(  # noqa: PLR0913  one argument per source of its columns
    verified: Verified,
    demand: Demand,
    purchase: PaidItem,
    *,
    signature: Signature,
    key_hash: CredentialHash,
    last_valid_height: int,
    now: UnixMs,
) -> Payment:
    """Return the payment *verified* that buys *purchase*, pending."""
    envelope = verified.envelope
    return Payment(
        message_hash=envelope.message_hash,
        signature=signature,
        payer=envelope.payer,
        address=demand.address,
        resource=demand.resource,
        amount=verified.amount,
        purchase=purchase,
        key_hash=key_hash,
        fee_lamports=verified.fee_lamports,
        last_valid_height=last_valid_height,
        begun_at=now,
        asset=verified.asset,
    )
