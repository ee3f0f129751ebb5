"""Names that look the same have the same normal form; other names do not."""

from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mintscope.market.screening.look_alikes import fold_key, folded, hides


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("USDC", "usdc"),
        ("USDC", "US\u216eC"),  # a Roman numeral
        ("USDC", "USD\u0421"),  # Cyrillic
        ("USDC", "USD\u03f9"),  # Greek
        ("USDC", "\uff35\uff33\uff24\uff23"),  # full width
        ("USDC", "\U0001d414\U0001d412\U0001d403\U0001d402"),  # bold, of mathematics
        ("USDC", "U\u200bSD\u2060C"),  # zero width
        ("USDC", "U S D C"),
        ("SOL", "S0L"),
        ("BITCOIN", "BlTC0IN"),
        ("Bitcoin", "BITCOIN"),
        ("bonk", "b\u03bfnk"),
        ("Moon", "rnoon"),
        ("PEPE", "\u0420\u0415\u0420\u0415"),
        ("caf\u00e9", "cafe\u0301"),
    ],
)
def test_look_alikes_have_the_same_folded_form_and_key(one: str, other: str) -> None:
    assert folded(one) == folded(other) != ""
    assert fold_key(one) == fold_key(other) != 0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("USDC", "USDT"),
        ("SOL", "SOLO"),
        ("\u72d7", "\u732b"),
        ("cafe", "caf\u00e9"),
        ("WIF", "WIN"),
    ],
)
def test_different_names_have_different_forms_and_keys(one: str, other: str) -> None:
    assert folded(one) != folded(other)
    assert fold_key(one) != fold_key(other)


@pytest.mark.parametrize("text", [None, "", " ", "\u200b"])
def test_no_text_has_the_key_0(text: str | None) -> None:
    assert fold_key(text) == 0


@given(st.text(max_size=70))
def test_the_unicode_form_of_a_text_makes_no_difference(text: str) -> None:
    assert folded(normalize("NFC", text)) == folded(normalize("NFD", text))


@pytest.mark.parametrize("text", [None, "", " ", "\u00a0", "USD Coin", "\u72d7", "a\u0301"])
def test_shown_characters_are_not_reported_as_hidden(text: str | None) -> None:
    assert not hides(text)


@pytest.mark.parametrize("sign", ["\x00", "\x07", "\n", "\u200b", "\u202e", "\u2060", "\ue000"])
def test_removed_characters_are_reported_as_hidden(sign: str) -> None:
    assert hides(f"US{sign}DC")
