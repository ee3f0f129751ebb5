"""A quote is valid only if the service wrote it, for one purchase, and for two minutes."""

import hmac
import json
from base64 import urlsafe_b64encode
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mintscope.kit.primitives import Mint, UnixMs, Wallet
from mintscope.payments.protocol.envelope import Resource, ResourceKind, kind_of
from mintscope.payments.protocol.memo import (
    MEMO_BYTES,
    VALID_S,
    Flaw,
    find_flaw,
    quoted_at,
    write_memo,
)
from support.scenes.payments.payment_build import TERMS

KEY: Final = b"k" * 32
NOW: Final = UnixMs(1_700_000_000_000)
BOUND: Final[dict[str, Any]] = {"terms": TERMS, "resource": Resource("/v1/a"), "amount": 2_500}
QUOTE: Final = write_memo(KEY, now=NOW, nonce=bytes(8), **BOUND).encode()


def test_a_new_quote_fits_the_memo_and_is_valid() -> None:
    assert len(QUOTE) == MEMO_BYTES
    assert QUOTE.isascii()
    assert find_flaw(KEY, QUOTE, now=NOW, **BOUND) is None


def test_a_quote_is_honoured_for_two_minutes() -> None:
    last = UnixMs(NOW + VALID_S * 1000)

    assert find_flaw(KEY, QUOTE, now=last, **BOUND) is None
    assert find_flaw(KEY, QUOTE, now=UnixMs(last + 1), **BOUND) is Flaw.EXPIRED


@pytest.mark.parametrize(
    "change",
    [
        {"resource": Resource("/v1/b")},
        {"amount": 2_499},
        {"terms": replace(TERMS, asset=Mint("other"))},
        {"terms": replace(TERMS, pay_to=Wallet("other"))},
        {"terms": replace(TERMS, network="solana:other")},
    ],
)
def test_a_quote_is_invalid_for_any_other_purchase(change: dict[str, Any]) -> None:
    assert find_flaw(KEY, QUOTE, now=NOW, **(BOUND | change)) is Flaw.FORGED


@pytest.mark.parametrize(
    ("resource", "path"),
    [
        ("/v1/token/MINT/candles?tf=m5&cursor=a/b", "/v1/token"),
        ("/v1/credits/purchase?bundle=10", "/v1/credits"),
        ("/v1/a", "/v1/a"),
        ("/else?a/b/c", "/else"),
    ],
)
def test_a_quote_is_verified_by_resource_kind_if_the_resource_is_unknown(
    resource: str, path: str
) -> None:
    bound = BOUND | {"resource": Resource(resource)}
    memo = write_memo(KEY, now=NOW, nonce=bytes(8), **bound).encode()
    assert kind_of(Resource(resource)) == ResourceKind(path)

    def flaw(**changes: Any) -> Flaw | None:
        asked = bound | {"resource": ResourceKind(path), "now": NOW} | changes
        return find_flaw(KEY, memo, **asked)

    assert flaw() is None
    assert flaw(now=UnixMs(NOW + VALID_S * 1000 + 1)) is Flaw.EXPIRED
    others: list[dict[str, Any]] = [
        {"resource": ResourceKind("/v1/other")},
        {"resource": ResourceKind("/v1")},
        {"resource": Resource(path + "/other")},
        {"amount": 2_501},
        {"terms": replace(TERMS, pay_to=Wallet("other"))},
    ]
    for changes in others:
        assert flaw(**changes) is Flaw.FORGED
    assert (
        find_flaw(b"x" * 32, memo, now=NOW, **(bound | {"resource": ResourceKind(path)}))
        is Flaw.FORGED
    )


def test_quotes_from_before_resource_kinds_are_still_valid() -> None:
    """The chain keeps payments for ever, also those with quotes of the older form."""
    head = b"\x01" + (NOW // 1000 + VALID_S).to_bytes(4) + b"12345678"
    bound = ["/v1/a", 2_500, TERMS.network, TERMS.asset, TERMS.pay_to]
    written = head + json.dumps(bound, separators=(",", ":")).encode()
    memo = urlsafe_b64encode(head + hmac.digest(KEY, written, "sha256")[:11])

    assert find_flaw(KEY, memo, now=NOW, **BOUND) is None
    assert find_flaw(KEY, memo, now=NOW, **(BOUND | {"amount": 1})) is Flaw.FORGED
    assert (
        find_flaw(KEY, memo, now=NOW, **(BOUND | {"resource": ResourceKind("/v1/a")}))
        is Flaw.FORGED
    )


def test_a_quote_is_invalid_under_another_key() -> None:
    assert find_flaw(b"x" * 32, QUOTE, now=NOW, **BOUND) is Flaw.FORGED


def test_equal_purchases_have_unequal_quotes() -> None:
    assert write_memo(KEY, now=NOW, nonce=b"1" * 8, **BOUND) != QUOTE.decode()


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.binary(max_size=40) | st.binary(min_size=32, max_size=32))
def test_random_bytes_are_never_a_valid_quote(memo: bytes) -> None:
    assert find_flaw(KEY, memo, now=NOW, **BOUND) is Flaw.FORGED


@pytest.mark.storm
@given(st.integers(0, MEMO_BYTES - 1), st.integers(1, 255))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_a_quote_with_a_changed_character_is_invalid(place: int, change: int) -> None:
    changed = bytearray(QUOTE)
    changed[place] ^= change

    assert find_flaw(KEY, bytes(changed), now=NOW, **BOUND) is Flaw.FORGED


def test_a_quote_in_the_other_base64_alphabet_is_invalid() -> None:
    """The decoder also accepts the other alphabet, with + and /, so `find_flaw` must refuse it."""
    spellings = [
        write_memo(KEY, now=NOW, nonce=bytes([n]) * 8, **BOUND).encode() for n in range(64)
    ]
    respelled = [each.replace(b"-", b"+").replace(b"_", b"/") for each in spellings]

    assert any(one != other for one, other in zip(spellings, respelled, strict=True))
    for one, other in zip(spellings, respelled, strict=True):
        assert one == other or find_flaw(KEY, other, now=NOW, **BOUND) is Flaw.FORGED


def test_a_quote_contains_its_time() -> None:
    assert quoted_at(QUOTE) == NOW


def test_a_nonce_must_have_eight_bytes() -> None:
    with pytest.raises(ValueError, match="8 bytes; was 7"):
        write_memo(KEY, now=NOW, nonce=bytes(7), **BOUND)
