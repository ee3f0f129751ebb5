"""Roots, the secrets of derived keys: their form as text, their lifetime, and the keys."""

from hashlib import sha256

import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given
from hypothesis import strategies as st

from mintscope.kit.credentials import Root, derived, parse_root, rotated
from mintscope.kit.time import DAY_S

SECRET = sha256(b"a root").digest()


@given(st.binary(min_size=32, max_size=32), st.sampled_from(["quotes", "receipts", "sessions"]))
def test_keys_are_derived_by_hkdf(root: bytes, purpose: str) -> None:
    """The package cryptography derives the expected key."""
    label = f"mintscope {purpose} 2".encode()
    expected = HKDF(algorithm=SHA256(), length=32, salt=None, info=label).derive(root)

    assert derived(root, purpose) == expected


def test_each_purpose_has_its_own_key() -> None:
    uses = ("quotes", "receipts", "credentials", "sessions", "signed receipts")
    assert len({derived(SECRET, use) for use in uses}) == len(uses)


def test_a_root_is_read_as_it_is_written_and_not_shown() -> None:
    root = Root(1_800_000_000, SECRET)

    assert str(root) == f"1800000000:{SECRET.hex()}"
    assert parse_root(f" {root}\n") == root
    assert root.since == 1_800_000_000_000
    assert SECRET.hex() not in repr(root)
    assert repr(SECRET) not in repr([root])


@pytest.mark.parametrize(
    "text",
    ["", SECRET.hex(), f"-1:{SECRET.hex()}", f"1:{SECRET.hex()}0", f"1:{SECRET.hex().upper()}"],
)
def test_a_malformed_root_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected SECONDS:HEX") as caught:
        parse_root(text)
    assert SECRET.hex() not in str(caught.value).lower()


def test_a_root_that_can_be_guessed_is_refused() -> None:
    with pytest.raises(ValueError, match="the documents of mintscope, which are public"):
        parse_root("1:" + "0" * 64)


def test_a_replaced_root_is_kept_for_two_days() -> None:
    first, second, third = (Root(at, sha256(bytes([at])).digest()) for at in (1, 2, 3))
    new = Root(2 + 2 * DAY_S, SECRET)

    assert rotated([], first) == [first]
    assert rotated([first], second) == [first, second]
    assert rotated([third, first, second], new) == [second, third, new]
    assert rotated([new], first) == [first, new]
