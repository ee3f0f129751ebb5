"""The three x402 headers are read strictly, and are understood by the official package."""

import json
from base64 import b64encode
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from x402.http.utils import (
    decode_payment_required_header,
    decode_payment_response_header,
    encode_payment_signature_header,
)
from x402.mechanisms.svm.constants import ERR_MINT_MISMATCH
from x402.schemas import PaymentPayload, PaymentRequired, SettleResponse

from mintscope.kit.errors import InvalidPayment
from mintscope.kit.primitives import Wallet
from mintscope.payments.protocol.envelope import (
    AMOUNT_MAX,
    RecentBlockhash,
    RefusalReason,
    Requirement,
    Resource,
)
from mintscope.payments.protocol.headers import (
    HEADER_BYTES_MAX,
    Presented,
    decode_payment,
    encode_refused,
    encode_required,
    encode_settled,
    parse_identifier,
)
from support.scenes.payments.payment_build import TERMS

REQUIREMENT: Final = Requirement(
    terms=TERMS, resource=Resource("/v1/credits/purchase?bundle=50"), amount=112_500, memo="m" * 32
)
ID: Final = "pay_0123456789abcdef"


def official(required: str, transaction: bytes, identifier: str | None = None) -> dict[str, Any]:
    """Return the payload that the official client sends for the demand *required*."""
    decoded = decode_payment_required_header(required)
    assert isinstance(decoded, PaymentRequired)
    extensions = dict(decoded.extensions or {})
    if identifier is not None:
        offer = extensions["payment-identifier"]
        extensions["payment-identifier"] = offer | {"info": offer["info"] | {"id": identifier}}
    payload = PaymentPayload(
        payload={"transaction": b64encode(transaction).decode()},
        accepted=decoded.accepts[0],
        resource=decoded.resource,
        extensions=extensions,
    )
    parsed: dict[str, Any] = json.loads(payload.model_dump_json(by_alias=True, exclude_none=True))
    return parsed


def header(payload: Any) -> str:
    return b64encode(json.dumps(payload).encode()).decode()


REQUIRED: Final = encode_required(REQUIREMENT, origin="https://api.example", error="pay")
PAYLOAD: Final = official(REQUIRED, b"transaction")


def test_the_official_package_reads_our_payment_required_header() -> None:
    required = encode_required(REQUIREMENT, origin="https://api.example", error="pay")
    decoded = decode_payment_required_header(required)

    assert isinstance(decoded, PaymentRequired)
    assert decoded.x402_version == 2
    assert decoded.error == "pay"
    assert decoded.resource is not None
    assert decoded.resource.url == "https://api.example/v1/credits/purchase?bundle=50"
    (accepted,) = decoded.accepts
    assert accepted.model_dump(by_alias=True) == {
        "scheme": "exact",
        "network": "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp",
        "asset": TERMS.asset,
        "amount": "112500",
        "payTo": TERMS.pay_to,
        "maxTimeoutSeconds": 60,
        "extra": {
            "feePayer": TERMS.fee_payer,
            "decimals": 6,
            "memo": "m" * 32,
            "transactionVersions": [0],
        },
    }
    assert len(REQUIRED) < 2048


def test_the_payment_required_header_has_a_blockhash_and_its_last_height() -> None:
    recent = RecentBlockhash(blockhash="b" * 44, slot=7, last_valid_height=400_000_150)
    requirement = msgspec.structs.replace(REQUIREMENT, recent=recent, max_timeout_s=30)
    required = encode_required(requirement, origin="https://api.example", error="pay")
    (accepted,) = decode_payment_required_header(required).accepts

    assert accepted.max_timeout_seconds == 30
    assert accepted.extra is not None
    assert accepted.extra["recentBlockhash"] == "b" * 44
    assert accepted.extra["lastValidBlockHeight"] == "400000150"
    assert len(required) < len(REQUIRED) + 160  # two such headers must fit the limits of proxies


def test_we_read_a_payment_of_the_official_package() -> None:
    payload = PaymentPayload.model_validate(official(REQUIRED, b"\0\xff", ID))
    presented = decode_payment(encode_payment_signature_header(payload))

    assert presented == Presented(
        transaction=b"\0\xff",
        scheme="exact",
        network=TERMS.network,
        asset=TERMS.asset,
        pay_to=TERMS.pay_to,
        amount=112_500,
        identifier=ID,
        quote=b"m" * 32,
    )
    assert presented.matches(TERMS)
    for field in ("scheme", "network", "asset", "pay_to"):
        other: dict[str, Any] = {field: "other"}
        assert not replace(presented, **other).matches(TERMS)


def test_an_echoed_extension_without_an_id_has_no_identifier() -> None:
    assert decode_payment(header(PAYLOAD)).identifier is None


def test_the_official_package_reads_our_receipts() -> None:
    settled = decode_payment_response_header(
        encode_settled(TERMS, payer=Wallet("payer"), signature="sig")
    )
    refused = decode_payment_response_header(
        encode_refused(TERMS, reason=RefusalReason.MINT, signature="")
    )

    assert settled == SettleResponse(
        success=True, payer="payer", transaction="sig", network=TERMS.network
    )
    assert (refused.success, refused.error_reason, refused.transaction) == (
        False,
        "mint_mismatch",
        "",
    )
    assert refused.error_message == ERR_MINT_MISMATCH


def changed(path: str, value: Any) -> str:
    payload = json.loads(json.dumps(PAYLOAD))
    place = payload
    *parents, last = path.split(".")
    for parent in parents:
        place = place[parent]
    place[last] = value
    return header(payload)


def without(path: str) -> str:
    payload = json.loads(json.dumps(PAYLOAD))
    place = payload
    *parents, last = path.split(".")
    for parent in parents:
        place = place[parent]
    del place[last]
    return header(payload)


V1: Final = {
    "x402Version": 1,
    "scheme": "exact",
    "network": "solana",
    "payload": {"transaction": "AA=="},
}
MALFORMED: Final = {
    "empty": "",
    "not base64": "not base64!",
    "base64 with a foreign character": header(PAYLOAD)[:8] + "\n" + header(PAYLOAD)[8:],
    "URL-safe base64": header({"a": "?>?>~~~~"}).replace("/", "_").replace("+", "-"),
    "without padding": b64encode(b"{}{").decode().rstrip("=") + "A",
    "not ASCII": "é" * 8,
    "not UTF-8": b64encode(b"\xff\xfe{}").decode(),
    "not JSON": b64encode(b"{").decode(),
    "a list": header([PAYLOAD]),
    "an empty object": header({}),
    "null": header(None),
    "version 1": header(V1),
    "version 1 in the shape of version 2": changed("x402Version", 1),
    "version 3": changed("x402Version", 3),
    "version as text": changed("x402Version", "2"),
    "version as a number with a point": changed("x402Version", 2.5),
    "no version": without("x402Version"),
    "no payload": without("payload"),
    "no transaction": changed("payload", {}),
    "a transaction that is a number": changed("payload.transaction", 7),
    "a transaction that is not base64": changed("payload.transaction", "*" * 8),
    "a transaction with a line break": changed("payload.transaction", "AA==\n"),
    "no accepted": without("accepted"),
    "an accepted list": changed("accepted", [PAYLOAD["accepted"]]),
    "an amount that is a number": changed("accepted.amount", 112_500),
    "a negative amount": changed("accepted.amount", "-1"),
    "an amount of zero": changed("accepted.amount", "0"),
    "a fractional amount": changed("accepted.amount", "1.5"),
    "a spaced amount": changed("accepted.amount", " 1"),
    "an amount in other digits": changed("accepted.amount", "\u0661\u0662"),
    "an amount beyond every account": changed("accepted.amount", str(AMOUNT_MAX + 1)),
    "an amount of many digits": changed("accepted.amount", "9" * 5000),
    "a timeout as text": changed("accepted.maxTimeoutSeconds", "60"),
    "extensions that are a list": changed("extensions", []),
    "an identifier extension that is text": changed("extensions.payment-identifier", "x"),
    "an identifier without info": changed("extensions.payment-identifier", {}),
    "an identifier that is a number": changed(
        "extensions.payment-identifier", {"info": {"required": False, "id": 1}}
    ),
    "a short identifier": changed(
        "extensions.payment-identifier", {"info": {"required": False, "id": "short"}}
    ),
    "deep nesting": b64encode(b'{"a":' * 1000 + b"1" + b"}" * 1000).decode(),
    "lone surrogates": b64encode(b'{"x402Version":2,"payload":{"transaction":"\\ud800"}}').decode(),
    "too long": "A" * (HEADER_BYTES_MAX + 4),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_header_is_invalid(name: str) -> None:
    with pytest.raises(InvalidPayment, match=r"^PAYMENT-SIGNATURE: expected"):
        decode_payment(MALFORMED[name])


def test_a_python_spelling_of_a_field_name_is_refused() -> None:
    """The models of the x402 package also accept Python names; the service accepts only `payTo`."""
    payload = json.loads(json.dumps(PAYLOAD))
    payload["accepted"]["pay_to"] = payload["accepted"].pop("payTo")
    with pytest.raises(InvalidPayment):
        decode_payment(header(payload))


@pytest.mark.parametrize(
    "text", ["", "a" * 15, "a" * 129, "a" * 15 + "é", "a" * 16 + "\n", "a b" * 8]
)
def test_an_identifier_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(InvalidPayment):
        parse_identifier(text)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


def refused_or_read(text: str) -> None:
    with suppress(InvalidPayment):
        assert isinstance(decode_payment(text), Presented)


@pytest.mark.storm
@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda raw: b64encode(raw).decode()))
def test_any_text_is_read_or_invalid(text: str) -> None:
    refused_or_read(text)


paths = st.sampled_from(
    [
        "x402Version",
        "payload",
        "payload.transaction",
        "accepted",
        "accepted.scheme",
        "accepted.network",
        "accepted.amount",
        "accepted.payTo",
        "accepted.extra",
        "resource",
        "resource.url",
        "extensions",
        "extensions.payment-identifier",
        "extensions.payment-identifier.info",
        "extensions.payment-identifier.info.id",
    ]
)


@pytest.mark.storm
@settings(max_examples=400, deadline=None, derandomize=True)
@given(paths, json_values)
def test_any_value_in_any_place_is_read_or_invalid(path: str, value: Any) -> None:
    refused_or_read(changed(path, value))
