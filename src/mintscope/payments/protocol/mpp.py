"""The `charge` of MPP, the Machine Payments Protocol, on Solana: another form of payment.

If `Accept-Payment` names `solana/charge`, the 402 has a challenge in `WWW-Authenticate`.  Its
`externalId` is the quote, which the client writes as the memo of its transaction.  The credential
in `Authorization: Payment` is parsed into the same `Presented` as PAYMENT-SIGNATURE, so that the
same code verifies and settles it.  The receipt is in `Payment-Receipt`.

Source    draft-ryan-httpauth-payment-01; draft-solana-charge-00; `@solana/mpp` 0.6, `mppx` 0.11
"""

import re
from base64 import b64decode, urlsafe_b64encode
from typing import Any, Final, TypeVar

import msgspec

from mintscope.kit.errors import UNPARSABLE, InvalidPayment
from mintscope.payments.protocol.envelope import MAINNET, SCHEME, Requirement
from mintscope.payments.protocol.headers import (
    HEADER_BYTES_MAX,
    QUOTE_PATTERN,
    Presented,
    parse_amount,
    parse_transaction,
)

CHALLENGE_HEADER: Final = "WWW-Authenticate"
RECEIPT_HEADER: Final = "Payment-Receipt"
AUTH_SCHEME: Final = "Payment "
CREDENTIAL: Final = "Authorization: Payment"
METHOD: Final = "solana"
INTENT: Final = "charge"
NETWORK: Final = "mainnet-beta"  # the only network accepted, and the default if none is named
_TAKEN: Final = (f"{METHOD}/{INTENT}", f"{METHOD}/*", f"*/{INTENT}", "*/*")  # most specific first
_NOT_WANTED: Final = re.compile(r"q=0(\.0{1,3})?")


class _Details(msgspec.Struct):
    network: str = NETWORK


class _Request(msgspec.Struct):
    amount: str
    currency: str
    recipient: str
    external_id: str = msgspec.field(name="externalId")
    details: _Details = msgspec.field(name="methodDetails")


class _Challenge(msgspec.Struct):
    id: str
    method: str
    intent: str
    request: str


class _Payload(msgspec.Struct):
    type: str
    transaction: str


class _Credential(msgspec.Struct):
    challenge: _Challenge
    payload: _Payload


_Form = TypeVar("_Form", _Credential, _Request)


def accepts_charge(accept_payment: str) -> bool:
    """Return whether *accept_payment*, the value of `Accept-Payment`, accepts `solana/charge`.

    If several entries include `solana/charge`, the most specific one decides.
    """
    wanted: dict[str, bool] = {}
    for entry in accept_payment.split(","):
        name, *parameters = (part.strip() for part in entry.split(";"))
        wanted.setdefault(name, not any(_NOT_WANTED.fullmatch(each) for each in parameters))
    return next((wanted[name] for name in _TAKEN if name in wanted), False)


def encode_challenge(requirement: Requirement, *, realm: str) -> str:
    """Return the value of `WWW-Authenticate` for *requirement*; *realm* is the service's host."""
    terms = requirement.terms
    details: dict[str, Any] = {
        "decimals": terms.decimals,
        "feePayer": True,
        "feePayerKey": terms.fee_payer,
    }
    if requirement.recent is not None:
        details["recentBlockhash"] = requirement.recent.blockhash
    details["tokenProgram"] = terms.token_program  # sorted: RFC 8785
    request = {
        "amount": str(requirement.amount),
        "currency": terms.asset,
        "externalId": requirement.memo,
        "methodDetails": details,
        "recipient": terms.pay_to,
    }
    return (
        f'{AUTH_SCHEME}id="{requirement.memo}", realm="{realm}", method="{METHOD}",'
        f' intent="{INTENT}", request="{_encoded(request)}"'
    )


def decode_credential(header: str) -> Presented:
    """Return the payment in *header*, a value of `Authorization` that begins with `Payment`.

    Raises    InvalidPayment if *header* is longer than HEADER_BYTES_MAX, or does not have the form
              of a credential for a challenge of this service
    """
    if len(header) > HEADER_BYTES_MAX:
        raise _invalid(f"at most {HEADER_BYTES_MAX} characters; was {len(header)}")
    credential = _decoded(header[len(AUTH_SCHEME) :].strip(), _Credential, "a credential of MPP")
    challenge = credential.challenge
    if (challenge.method, challenge.intent) != (METHOD, INTENT):
        raise _invalid(f"the challenge of {METHOD}/{INTENT}")
    if credential.payload.type != "transaction":
        raise _invalid('payload.type "transaction": the service sends it to the chain itself')
    request = _decoded(challenge.request, _Request, "challenge.request, as it was sent")
    if challenge.id != request.external_id or QUOTE_PATTERN.fullmatch(challenge.id) is None:
        raise _invalid("challenge.id and externalId as they were sent")
    return Presented(
        transaction=parse_transaction(credential.payload.transaction, header=CREDENTIAL),
        scheme=SCHEME,
        network=MAINNET if request.details.network == NETWORK else "",
        asset=request.currency,
        pay_to=request.recipient,
        amount=parse_amount(
            request.amount, header=CREDENTIAL, field="the amount of challenge.request"
        ),
        identifier=None,
        quote=None,  # the memo is the quote: MPP clients write `externalId` there
    )


def encode_receipt(*, signature: str, settled_at: str) -> str:
    """Return the value of `Payment-Receipt` for a payment that has arrived.

    settled_at    such as `2026-01-02T03:04:05Z`
    """
    return _encoded(
        {"method": METHOD, "reference": signature, "status": "success", "timestamp": settled_at}
    )


def _encoded(value: dict[str, Any]) -> str:
    """Return *value* as base64url of JSON; canonical (RFC 8785) if its keys are sorted."""
    return urlsafe_b64encode(msgspec.json.encode(value)).decode().rstrip("=")


def _decoded(text: str, expected: type[_Form], what: str) -> _Form:
    """Return the value in *text*: JSON in base64url, with or without padding.

    what      a description of the expected value, for the message of the error
    Raises    InvalidPayment if *text* does not encode a value of the type *expected*
    """
    try:
        bare = text.rstrip("=")
        # A character outside ASCII becomes "?", which `b64decode` refuses.
        padded = (bare + "=" * (-len(bare) % 4)).encode("ascii", "replace")
        plain = b64decode(padded, altchars=b"-_", validate=True)
        return msgspec.json.decode(plain, type=expected)
    except (ValueError, *UNPARSABLE) as flaw:
        raise _invalid(f"base64url of {what}") from flaw


def _invalid(expected: str) -> InvalidPayment:
    return InvalidPayment(f"{CREDENTIAL}: expected {expected}")
