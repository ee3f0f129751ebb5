"""Secrets that others can guess are refused, and random ones never are."""

import itertools
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mintscope.kit.credentials import (
    IS_EXAMPLE,
    IS_REGULAR,
    IS_TEXT,
    flaw_of_key,
    flaw_of_password,
    has_example,
    holds_secret,
    passwords_in,
)


@pytest.mark.parametrize(
    ("key", "flaw"),
    [
        (bytes(32), IS_EXAMPLE),
        (b"\xff" * 32, IS_REGULAR),
        (bytes(range(32)), IS_REGULAR),
        (bytes(range(0, 256, 8)), IS_REGULAR),
        (bytes.fromhex("0123456789abcdef" * 4), IS_REGULAR),
        (bytes.fromhex("deadbeef" * 8), IS_REGULAR),
        (sha256(b"").digest()[:8] * 4, IS_REGULAR),
        (b"correct horse battery staple, now", IS_TEXT),
    ],
)
def test_keys_made_by_hand_are_refused(key: bytes, flaw: str) -> None:
    assert flaw_of_key(key) == flaw


@given(st.integers(0, 2**64))
def test_random_keys_are_accepted(number: int) -> None:
    assert flaw_of_key(sha256(number.to_bytes(9)).digest()) is None


@pytest.mark.parametrize(("count", "flaw"), [(15, IS_REGULAR), (16, None)])
def test_a_key_needs_16_different_steps_between_its_bytes(count: int, flaw: str | None) -> None:
    """A step is the difference of adjacent bytes modulo 256; the last step is repeated."""
    steps = [*range(1, count + 1), *[count] * (31 - count)]
    key = bytes(each % 256 for each in itertools.accumulate(steps, initial=0))

    assert len(set(key)) > 16
    assert flaw_of_key(key) == flaw


@pytest.mark.parametrize(
    ("text", "is_taken"),
    [
        ("abcdefabcdef", True),
        ("abcdefabcde", False),
        ("abcdeabcdeab", False),
    ],
)
def test_a_password_needs_12_characters_6_of_them_different(text: str, *, is_taken: bool) -> None:
    assert (flaw_of_password(text) is None) is is_taken


@pytest.mark.parametrize(
    "text", ["PASSWORD", "Pass-Word", "secret", "postgres", "aaaaaaaaaaaaaaaa"]
)
def test_passwords_that_are_guessed_first_are_refused(text: str) -> None:
    assert flaw_of_password(text) is not None


def test_a_password_of_random_digits_is_accepted() -> None:
    assert flaw_of_password("b8e1f3a09c5d72e4") is None


@pytest.mark.parametrize(
    ("url", "passwords"),
    [
        ("postgresql://postgres@127.0.0.1:5432/x", []),
        ("postgresql://u:a%40b@/x?host=db-1,db-2&password=other", ["a@b", "other"]),
        ("postgresql://:hidden@host:5432/data", ["hidden"]),
        ("postgresql://host:5432/data", []),
    ],
)
def test_passwords_are_found_in_addresses(url: str, passwords: list[str]) -> None:
    assert passwords_in(url) == passwords


def test_an_example_is_found_in_any_part_of_an_address() -> None:
    assert has_example("https://provider.example/your-key")
    assert has_example("postgresql://mintscope:secret@host/mintscope")
    assert has_example("https://provider.example/v2?api-key=YOUR_KEY")
    assert not has_example("https://provider.example/v2/0123456789?key=abcdef")


def test_an_address_with_a_password_or_parameter_is_a_secret() -> None:
    assert holds_secret("postgresql://u:p@host/x")
    assert holds_secret("https://host/v2?api-key=7")
    assert not holds_secret("http://127.0.0.1:8899")
    assert not holds_secret("postgresql://u@host/x")
