"""The three headers of x402 v2.

Each one is the standard base64 of compact JSON.  The models are those of the `x402` package.  Its
decoder is not used, because it ignores characters outside the alphabet of base64 and also reads
version 1.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from pydantic import ValidationError
from x402.schemas import (
    PaymentPayload,
    PaymentRequired,
    PaymentRequirements,
    ResourceInfo,
    SettleResponse,
)

from mintscope.kit.errors import InvalidPayment, Undecodable, parsed_by_others
from mintscope.kit.primitives import Wallet
from mintscope.payments.protocol.envelope import (
    AMOUNT_MAX,
    SCHEME,
    TRANSACTION_VERSIONS,
    RefusalReason,
    Requirement,
    Terms,
)

DESCRIPTION_LENGTH_MAX: Final = 500


class Advert(msgspec.Struct, frozen=True, kw_only=True):
    """The product and its seller, for information: a payment is bound only by its quote.

    service_name    at most 32 ASCII characters
    tags            at most 5, of at most 32 ASCII characters
    bazaar          x402's extension of that name: the schema of requests, and that of answers if it
                    is short
    """

    description: str
    service_name: str
    tags: Sequence[str]
    icon_url: str | None
    bazaar: dict[str, Any]


PAYMENT_REQUIRED: Final = "PAYMENT-REQUIRED"
PAYMENT_SIGNATURE: Final = "PAYMENT-SIGNATURE"
PAYMENT_RESPONSE: Final = "PAYMENT-RESPONSE"
HEADER_BYTES_MAX: Final = 8 * 1024
VERSION: Final = 2
IDENTIFIER: Final = "payment-identifier"
BAZAAR: Final = "bazaar"
QUOTE_PATTERN: Final = re.compile(r"[A-Za-z0-9_-]{32}")
IDENTIFIER_PATTERN: Final = re.compile(r"[A-Za-z0-9_-]{16,128}")
NO_MORE: Final[Mapping[str, Any]] = {}
_IDENTIFIER_OFFER: Final = {
    IDENTIFIER: {
        "info": {"required": False},
        "schema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {
                "required": {"type": "boolean"},
                "id": {
                    "type": "string",
                    "minLength": 16,
                    "maxLength": 128,
                    "pattern": "^[a-zA-Z0-9_-]+$",
                },
            },
            "required": ["required"],
        },
    }
}
# This offer, for resources that are sold in several tokens, leaves out the schema of the id, so
# that headers are short.  The service checks the form of the id itself.
_SHORT_OFFER: Final = {IDENTIFIER: {"info": {"required": False}, "schema": {"type": "object"}}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Presented:
    """A payment as its sender describes it: well-formed, but not verified.

    amount         the atoms that were demanded, as the sender says
    identifier     the redelivery key in the payment-identifier extension; None if it has no key
    quote          `extra.memo` of the paid requirement; None if it does not have the form of our
                   quotes, or if the payment was sent by MPP
    """

    transaction: bytes
    scheme: str
    network: str
    asset: str
    pay_to: str
    amount: int
    identifier: str | None
    quote: bytes | None = None

    def matches(self, terms: Terms) -> bool:
        """Return whether scheme, network, asset and payee are those of *terms*."""
        return (self.scheme, self.network, self.asset, self.pay_to) == (
            SCHEME,
            terms.network,
            terms.asset,
            terms.pay_to,
        )


def decode_payment(header: str) -> Presented:
    """Return the payment in *header*, the value of PAYMENT-SIGNATURE.

    Raises    InvalidPayment if *header* is longer than HEADER_BYTES_MAX, or is not a payment of
              x402 version 2 with valid fields
    """
    if len(header) > HEADER_BYTES_MAX:
        raise _invalid(f"at most {HEADER_BYTES_MAX} characters; was {len(header)}")
    try:
        with parsed_by_others():
            payload = PaymentPayload.model_validate_json(
                b64decode(header, validate=True), strict=True, by_alias=True, by_name=False
            )
    except Undecodable as flaw:
        if not isinstance(flaw.__cause__, ValidationError):
            raise _invalid("standard base64 of UTF-8 JSON") from flaw
        first = flaw.__cause__.errors(include_input=False)[0]
        # Limited, because the client chooses the names in the path of the error.
        where = ".".join(str(part) for part in first["loc"][:3])[:60]
        if not where:
            found = "it is not a JSON object"
        elif first["type"] == "missing":
            found = f"{where!r} is missing"
        else:
            found = f"was wrong at {where!r}"
        raise _invalid(f"a payment of x402 version 2; {found}") from flaw
    # If the header names no version, the model fills in version 2.
    if payload.x402_version != VERSION or "x402_version" not in payload.model_fields_set:
        raise _invalid("x402Version 2")
    accepted = payload.accepted
    return Presented(
        transaction=parse_transaction(payload.payload.get("transaction")),
        scheme=accepted.scheme,
        network=accepted.network,
        asset=accepted.asset,
        pay_to=accepted.pay_to,
        amount=parse_amount(accepted.amount),
        identifier=_identifier(payload.extensions),
        quote=_quote(accepted.extra),
    )


def parse_identifier(text: str) -> str:
    """Return *text*, a redelivery key: 16 to 128 characters of A-Z, a-z, 0-9, "-" and "_".

    Raises InvalidPayment if it does not have this form.
    """
    if IDENTIFIER_PATTERN.fullmatch(text) is None:
        raise _invalid("a key of 16 to 128 letters, digits, '-' and '_'")
    return text


def encode_required(
    *requirements: Requirement,
    origin: str,
    error: str,
    advert: Advert | None = None,
    more: Mapping[str, Any] = NO_MORE,
    is_bare: bool = False,
) -> str:
    """Return the value of PAYMENT-REQUIRED: the ways to pay, in the order of *requirements*.

    If there are several requirements, or if *is_bare*, the value leaves out the description of the
    resource and its seller, and the schema of the redelivery key, because proxies limit headers.

    requirements   one for each way to pay, at least one, all for the same resource
    origin         from the configuration, such as `https://api.example`
    error          the reason why payment is required, as text
    advert         information on the resource and its seller; None: no information
    more           further extensions
    is_bare        whether to leave out all extensions, because the answer also has MPP challenges
    """
    is_short = is_bare or len(requirements) > 1
    adverts = {} if advert is None else {BAZAAR: advert.bazaar}
    offer = _SHORT_OFFER if is_short else _IDENTIFIER_OFFER
    return _encode(
        PaymentRequired(
            error=error,
            resource=_resource(origin + requirements[0].resource, advert, is_short=is_short),
            accepts=[_accepted(each) for each in requirements],
            extensions=None if is_bare else offer | adverts | dict(more),
        )
    )


def _accepted(requirement: Requirement) -> PaymentRequirements:
    terms = requirement.terms
    recent = requirement.recent
    extra: dict[str, Any] = {
        "feePayer": terms.fee_payer,
        "decimals": terms.decimals,
        "memo": requirement.memo,
        "transactionVersions": list(TRANSACTION_VERSIONS),
    }
    if recent is not None:
        extra["recentBlockhash"] = recent.blockhash
        extra["lastValidBlockHeight"] = str(recent.last_valid_height)  # text, as in x402
    return PaymentRequirements(
        scheme=SCHEME,
        network=terms.network,
        asset=terms.asset,
        amount=str(requirement.amount),
        pay_to=terms.pay_to,
        max_timeout_seconds=requirement.max_timeout_s,
        extra=extra,
    )


def _resource(url: str, advert: Advert | None, *, is_short: bool) -> ResourceInfo:
    if advert is None or is_short:
        return ResourceInfo(url=url, mime_type="application/json")
    return ResourceInfo(
        url=url,
        mime_type="application/json",
        description=advert.description,
        service_name=advert.service_name,
        tags=list(advert.tags),
        icon_url=advert.icon_url,
    )


def encode_settled(
    terms: Terms, *, payer: Wallet, signature: str, extensions: dict[str, Any] | None = None
) -> str:
    """Return the value of PAYMENT-RESPONSE for a payment that has arrived."""
    return _encode(
        SettleResponse(
            success=True,
            payer=payer,
            transaction=signature,
            network=terms.network,
            extensions=extensions,
        )
    )


def encode_refused(
    terms: Terms, *, reason: RefusalReason, signature: str, payer: Wallet | None = None
) -> str:
    """Return the value of PAYMENT-RESPONSE for a refused payment; *signature* may be empty.

    `errorReason` is our code of *reason*; `errorMessage` is that of x402, or ours if x402 has none.
    """
    return _encode(
        SettleResponse(
            success=False,
            error_reason=reason,
            error_message=reason.official,
            payer=payer,
            transaction=signature,
            network=terms.network,
        )
    )


def _encode(model: PaymentRequired | SettleResponse) -> str:
    return b64encode(model.model_dump_json(by_alias=True, exclude_none=True).encode()).decode()


def parse_transaction(value: object, *, header: str = PAYMENT_SIGNATURE) -> bytes:
    """Return the bytes of *value*, standard base64; *header* is named in errors.

    Raises InvalidPayment.
    """
    if not isinstance(value, str):
        raise _invalid("payload.transaction to be text", header)
    try:
        return b64decode(value, validate=True)
    except ValueError as cause:
        raise _invalid("payload.transaction to be standard base64", header) from cause


def parse_amount(
    text: str, *, header: str = PAYMENT_SIGNATURE, field: str = "accepted.amount"
) -> int:
    """Return the atoms of *text*, between 1 and AMOUNT_MAX.

    header, field   where *text* was sent, for the message of the error
    Raises          InvalidPayment
    """
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(AMOUNT_MAX))):
        raise _invalid(f"{field} to be an integer of atoms, as text", header)
    amount = int(text)
    if not 0 < amount <= AMOUNT_MAX:
        raise _invalid(f"{field} between 1 and {AMOUNT_MAX}", header)
    return amount


def _quote(extra: Mapping[str, Any] | None) -> bytes | None:
    memo = (extra or {}).get("memo")
    return memo.encode() if isinstance(memo, str) and QUOTE_PATTERN.fullmatch(memo) else None


def _identifier(extensions: dict[str, object] | None) -> str | None:
    """Return the id in the payment-identifier extension; None if there is no such id.

    Raises    InvalidPayment for an extension or an id that is not in the expected form
    """
    extension = (extensions or {}).get(IDENTIFIER)
    if extension is None:
        return None
    info = extension.get("info") if isinstance(extension, dict) else None
    if not isinstance(info, dict):
        raise _invalid(f"extensions.{IDENTIFIER}.info to be an object")
    value = info.get("id")
    if value is None:
        return None
    if not isinstance(value, str):
        raise _invalid(f"extensions.{IDENTIFIER}.info.id to be text")
    return parse_identifier(value)


def _invalid(expected: str, header: str = PAYMENT_SIGNATURE) -> InvalidPayment:
    return InvalidPayment(f"{header}: expected {expected}")
