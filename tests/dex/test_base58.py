from inspect import unwrap

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mintscope.dex import base58
from mintscope.dex.outcome import Unreadable
from support.scenes.made_transactions import ALPHABET, b58, unb58

DIGITS = st.text(ALPHABET, max_size=300) | st.text("1z", max_size=300)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.binary(max_size=450))
def test_decoding_undoes_encoding(data: bytes) -> None:
    assert base58.decode(b58(data)) == data


@settings(max_examples=200, deadline=None, derandomize=True)
@given(DIGITS)
def test_decoding_agrees_with_the_reference_for_any_digits(text: str) -> None:
    assert base58.decode(text) == unb58(text)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.text(ALPHABET, min_size=70, max_size=70))
def test_the_uncompiled_kernel_agrees_with_the_reference(text: str) -> None:
    limbs = np.zeros(7, np.uint64)

    assert unwrap(base58.convert)(text.encode(), limbs)
    assert limbs.tobytes().lstrip(b"\0") == unb58(text).lstrip(b"\0")


@settings(max_examples=300, deadline=None, derandomize=True)
@given(DIGITS, st.sampled_from(["", "z" * 13, "1" * 13, "HDwcJBJXjL9"]))
def test_the_head_of_a_base58_text_is_its_first_eight_bytes(text: str, start: str) -> None:
    assert base58.head(start + text) == unb58(start + text)[:8]
    assert base58.head(start + text, 1) == unb58(start + text)[:1]


@pytest.mark.parametrize(
    "text", ["0", "l", "I" * 10, "é", "1" * 80 + "0", "z" * 61 + "\x00", "ü" * 70, "1" * 14_001]
)
def test_text_that_is_not_base58_is_refused(text: str) -> None:
    with pytest.raises(Unreadable, match="bad_base58"):
        base58.decode(text)
