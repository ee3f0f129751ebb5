"""Payment headers at their limits: the longest, the largest, and the errors beyond."""

import json
from base64 import b64decode, b64encode
from typing import Any

import pytest

from mintscope.kit.errors import InvalidPayment
from mintscope.kit.primitives import Wallet
from mintscope.payments.protocol.envelope import AMOUNT_MAX, RefusalReason, Requirement, Resource
from mintscope.payments.protocol.headers import (
    HEADER_BYTES_MAX,
    IDENTIFIER,
    PAYMENT_REQUIRED,
    PAYMENT_RESPONSE,
    PAYMENT_SIGNATURE,
    decode_payment,
    encode_refused,
    encode_required,
    encode_settled,
    parse_identifier,
)
from support.scenes.payments.payment_build import TERMS


def demanded() -> dict[str, Any]:
    requirement = Requirement(terms=TERMS, resource=Resource("/v1/a"), amount=7, memo="m" * 32)
    return raw(encode_required(requirement, origin="https://api.example", error="pay"))


def raw(header: str) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(b64decode(header, validate=True))
    return parsed


def paid(amount: str = "7", pad: int = 0, **extensions: Any) -> str:
    payload: dict[str, Any] = {
        "x402Version": 2,
        "payload": {"transaction": "AA=="},
        "accepted": demanded()["accepts"][0] | {"amount": amount},
        "extensions": extensions,
    }
    return b64encode(json.dumps(payload).encode() + b" " * pad).decode()


def with_identifier(extension: Any) -> str:
    return paid(**{IDENTIFIER: extension})


def refusal(header: str) -> str:
    with pytest.raises(InvalidPayment) as caught:
        decode_payment(header)
    return str(caught.value)


def test_the_headers_have_the_names_of_the_protocol() -> None:
    assert (PAYMENT_REQUIRED, PAYMENT_SIGNATURE, PAYMENT_RESPONSE) == (
        "PAYMENT-REQUIRED",
        "PAYMENT-SIGNATURE",
        "PAYMENT-RESPONSE",
    )


def test_the_offered_identifier_equals_the_declaration_of_the_extension() -> None:
    """The declaration is copied from `x402.extensions`, whose dependencies are not installed."""
    assert demanded()["extensions"] == {
        "payment-identifier": {
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


def test_the_payment_required_header_has_the_fields_of_the_protocol() -> None:
    demand = demanded()

    assert demand.keys() == {"x402Version", "error", "resource", "accepts", "extensions"}
    assert demand["resource"] == {
        "url": "https://api.example/v1/a",
        "mimeType": "application/json",
    }
    assert demand["accepts"][0].keys() == {
        *("scheme", "network", "asset", "amount", "payTo", "maxTimeoutSeconds", "extra")
    }


def test_receipts_omit_an_absent_payer_or_error() -> None:
    settled = raw(encode_settled(TERMS, payer=Wallet("p"), signature="s"))
    refused = raw(encode_refused(TERMS, reason=RefusalReason.MINT, signature=""))

    assert settled == {
        "success": True,
        "payer": "p",
        "transaction": "s",
        "network": TERMS.network,
    }
    assert refused == {
        "success": False,
        "errorReason": "mint_mismatch",
        "errorMessage": "invalid_exact_svm_payload_mint_mismatch",
        "transaction": "",
        "network": TERMS.network,
    }
    known = encode_refused(TERMS, reason=RefusalReason.MINT, signature="s", payer=Wallet("p"))
    assert raw(known) == refused | {"transaction": "s", "payer": "p"}


def test_a_header_of_8192_characters_is_read_and_a_longer_one_refused() -> None:
    raw_bytes = 8 * 1024 // 4 * 3
    pad = raw_bytes - len(b64decode(paid()))
    longest = paid(pad=pad)
    assert len(longest) == HEADER_BYTES_MAX == 8_192

    assert decode_payment(longest).amount == 7
    assert "at most 8192 characters; was 8196" in refusal(paid(pad=pad + 1))


@pytest.mark.parametrize("amount", [1, 9, 2**63 - 1])
def test_every_amount_that_fits_a_row_is_read(amount: int) -> None:
    assert decode_payment(paid(str(amount))).amount == amount
    assert AMOUNT_MAX == 2**63 - 1


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("not base64!", "standard base64 of UTF-8 JSON"),
        ("", "a payment of x402 version 2; it is not a JSON object"),
        (b64encode(b"\xff\xfe{}").decode(), "a payment of x402 version 2; it is not a JSON object"),
        (b64encode(b"[]").decode(), "a payment of x402 version 2; it is not a JSON object"),
        (b64encode(b"{}").decode(), "a payment of x402 version 2; 'payload' is missing"),
        (paid("1.5"), "accepted.amount to be an integer of atoms, as text"),
        (paid("0"), "accepted.amount between 1 and 9223372036854775807"),
        (paid(str(2**63)), "accepted.amount between 1 and 9223372036854775807"),
        (with_identifier({}), "extensions.payment-identifier.info to be an object"),
        (with_identifier("x"), "extensions.payment-identifier.info to be an object"),
        (with_identifier({"info": {"id": 1}}), "extensions.payment-identifier.info.id to be text"),
    ],
)
def test_the_error_of_an_invalid_header_contains_the_expected_form(
    header: str, expected: str
) -> None:
    assert refusal(header) == f"PAYMENT-SIGNATURE: expected {expected}"


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (["x402Version"], 3, "x402Version 2"),
        (["payload"], {}, "payload.transaction to be text"),
        (["payload"], {"transaction": "***"}, "payload.transaction to be standard base64"),
        (["accepted", "amount"], 7, "a payment of x402 version 2; was wrong at 'accepted.amount'"),
    ],
)
def test_the_error_of_an_invalid_field_names_the_field(
    path: list[str], value: Any, expected: str
) -> None:
    payload = place = raw(paid())
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    header = b64encode(json.dumps(payload).encode()).decode()

    assert refusal(header) == f"PAYMENT-SIGNATURE: expected {expected}"


def test_an_invalid_identifier_is_refused_with_its_form() -> None:
    reported = refusal(with_identifier({"info": {"id": "short"}}))

    assert reported.startswith("PAYMENT-SIGNATURE: expected a key of 16 to 128 ")
    assert reported.endswith("s, digits, '-' and '_'")


def test_identifiers_of_16_and_of_128_characters_are_accepted() -> None:
    for text in ("a" * 16, "Z9_-" * 32):
        assert parse_identifier(text) == text
        assert decode_payment(with_identifier({"info": {"id": text}})).identifier == text
    assert decode_payment(with_identifier({"info": {"required": False}})).identifier is None
