"""Bearer credentials: their form, their checksum and their hash."""

import hashlib
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mintscope.kit.credentials import (
    CredentialKind,
    hash_credential,
    hint,
    is_well_formed,
    make_api_key,
    make_application_secret,
    make_credit_token,
)

ENTROPY = st.binary(min_size=28, max_size=28)
CREDIT_TOKEN = CredentialKind.CREDIT_TOKEN


def hmac_sha256(key: bytes, message: bytes) -> bytes:
    """Return HMAC-SHA-256 of *message*, computed by the definition in RFC 2104."""
    padded = key.ljust(64, b"\0")
    inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in padded) + message).digest()
    return hashlib.sha256(bytes(byte ^ 0x5C for byte in padded) + inner).digest()


@given(ENTROPY)
def test_a_credit_token_is_its_prefix_and_64_hex_digits(entropy: bytes) -> None:
    token = make_credit_token(entropy)

    assert token.startswith("svc_credit_")
    assert len(token) == len("svc_credit_") + 64
    assert token[11:-8] == entropy.hex()
    assert is_well_formed(CREDIT_TOKEN, token)


@given(ENTROPY)
def test_the_last_8_digits_are_the_crc32_of_the_rest(entropy: bytes) -> None:
    token = make_credit_token(entropy)

    assert int(token[-8:], 16) == zlib.crc32(token[:-8].encode("ascii"))
    assert hint(token) == token[-8:]


def test_a_credit_token_of_zeros_has_a_known_checksum() -> None:
    """The last eight digits are the CRC-32 of the bytes before them, as gzip(1) writes it."""
    assert make_credit_token(bytes(28)) == "svc_credit_" + "0" * 56 + "460aee5e"


def test_an_application_secret_and_an_api_key_of_zeros_have_a_crc32() -> None:
    assert make_application_secret(bytes(28)) == checked("svc_app_" + "0" * 56)
    assert make_api_key(bytes(36)) == checked("svc_live_" + "0" * 72)


def checked(text: str) -> str:
    return f"{text}{zlib.crc32(text.encode()):08x}"


@given(ENTROPY, st.integers(0, 74), st.sampled_from("0123456789abcdef"))
def test_one_mistyped_character_is_detected(entropy: bytes, at: int, digit: str) -> None:
    token = make_credit_token(entropy)
    mistyped = token[:at] + digit + token[at + 1 :]

    assert is_well_formed(CREDIT_TOKEN, mistyped) is (mistyped == token)


@pytest.mark.parametrize(
    "change",
    [str.upper, lambda text: text + "0", lambda text: text[:-1], lambda text: text + "\n"],
)
def test_other_forms_of_a_credit_token_are_refused(change: object) -> None:
    assert callable(change)
    assert not is_well_formed(CREDIT_TOKEN, change(make_credit_token(bytes(28))))


@pytest.mark.parametrize("kind", CredentialKind)
def test_every_kind_holds_its_entropy_and_a_checksum(kind: CredentialKind) -> None:
    prefix, digits = kind.value

    assert kind.entropy_bytes * 2 + 8 == digits
    assert not is_well_formed(kind, prefix + "0" * digits)


@given(st.text(st.characters(codec="utf-8"), max_size=100), st.binary(min_size=32, max_size=32))
def test_the_hash_is_hmac_sha_256(text: str, pepper: bytes) -> None:
    assert hash_credential(text, pepper=pepper) == hmac_sha256(pepper, text.encode())
