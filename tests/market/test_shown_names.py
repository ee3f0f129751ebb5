"""The forms of a name for display and for search, and the names that a search finds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mintscope.kit.primitives import MINT_LENGTH_MAX
from mintscope.market.screening.look_alikes import (
    AddressIndex,
    NameIndex,
    cleaned,
    search_line,
    searched,
)

FEW = st.text("ab", max_size=4)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (None, None),
        ("", None),
        ("\u200b", None),
        (" \u202e ", None),
        ("USD Coin", "USD Coin"),
        ("  USD   Coin ", "USD Coin"),
        ("US\u200bD\x07C", "USDC"),
        ("USD\nCoin", "USD Coin"),
        ("USD\u00a0Coin\u2028", "USD Coin"),
        ("Z" + "\u0335" * 40 + "O", "Z" + "\u0335" * 3 + "O"),
        ("\u05e9\u05bc\u05c1\u05b8", "\u05e9\u05bc\u05c1\u05b8"),
        ("Ti\u1ebfng Vie\u0323\u0302t", "Ti\u1ebfng Vie\u0323\u0302t"),
    ],
)
def test_a_name_is_shown_without_invisible_characters(text: str | None, shown: str | None) -> None:
    assert cleaned(text) == shown


def test_a_line_to_search_has_both_names_in_one_case() -> None:
    assert search_line("USD Coin", "USDC") == b"usd coin\nusdc\n"
    assert search_line(None, "\uff35") == b"u\n"
    assert search_line("Stra\u00dfe", "") == b"strasse\n"
    assert search_line(None, None) == b""


@given(st.lists(st.tuples(FEW, FEW), max_size=6), FEW | st.text("ab", min_size=20, max_size=60))
def test_a_text_is_found_at_any_place_of_a_line(names: list[tuple[str, str]], text: str) -> None:
    lines = [search_line(*each) for each in names]
    index = NameIndex(lines, np.array([len(line) for line in lines], np.int32))

    assert index.find(text).tolist() == [text.encode() in line for line in lines]


def test_a_text_is_found_in_any_case_and_an_empty_text_in_all_lines() -> None:
    lines = [search_line("Bonk", None), search_line(None, "a"), b""]
    index = NameIndex(lines, np.array([len(line) for line in lines], np.int32))

    assert index.find("BONK").tolist() == [True, False, False]
    assert index.find("A").tolist() == [False, True, False]
    assert index.find("").tolist() == [True, True, True]
    assert searched("BoNK") == b"bonk"


@given(st.lists(st.text("aB", min_size=1, max_size=6), max_size=6), st.text("aB", max_size=8))
def test_an_address_is_found_by_its_beginning(addresses: list[str], text: str) -> None:
    rows = np.zeros((len(addresses), MINT_LENGTH_MAX), np.uint8)
    for row, address in zip(rows, addresses, strict=True):
        row[: len(address)] = list(address.encode())

    found = AddressIndex(rows).find(text).tolist()
    assert found == [address.startswith(text) for address in addresses]


def test_a_whole_address_is_found_but_not_by_a_longer_text() -> None:
    index = AddressIndex(np.full((1, MINT_LENGTH_MAX), ord("z"), np.uint8))

    assert index.find("z" * MINT_LENGTH_MAX).tolist() == [True]
    assert index.find("z" * (MINT_LENGTH_MAX + 1)).tolist() == [False]
    assert index.find("\u00e9").tolist() == [False]
