"""The search in the header: a name, one typo, `$GOAT`, a mint, a link of an explorer."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mintscope.site.token.listing import mint_in, name_of
from mintscope.site.token.typos import NearNames, is_near
from mintscope.solana.blocks import WSOL
from support.scenes.people.web_person import ORIGIN, Person, where, words
from support.scenes.shown_market import mint_named
from support.scenes.website import Website, website

JUP = mint_named("JUP")


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Website]:
    async with website(tmp_path, origin=ORIGIN, has_market=True) as site:
        yield site


async def test_a_search_leads_to_a_token_or_to_the_list(shop: Website) -> None:
    async with Person(shop) as person:
        found = {
            typed: where(await person.client.get("/search", params={"q": typed}))
            for typed in (
                JUP,
                f"https://solscan.io/token/{JUP}?cluster=mainnet",
                f"https://dexscreener.com/solana/{JUP}",
                "$JUP",
                "jup",
                "JUPP",
                "solana",
                "nothing like it",
            )
        }
        listed = {
            typed: await person.client.get("/tokens", params={"q": typed})
            for typed in (f"https://solscan.io/token/{JUP}", "$JUP", "JUPP", "solana", "zzz")
        }
        page = words(await person.open("/search"))
        header = (await person.open("/pricing")).text

    assert {where_to for typed, where_to in found.items() if JUP in typed} == {f"/token/{JUP}"}
    assert found["$JUP"] == "/tokens?q=JUP"
    assert found["jup"] == "/tokens?q=jup"
    assert found["JUPP"] == "/tokens?q=JUP&notice=search-near"
    assert found["solana"] == f"/token/{WSOL}"
    assert found["nothing like it"] == "/tokens?q=nothing+like+it"
    assert where(listed["JUPP"]) == found["JUPP"]
    assert where(listed["solana"]) == found["solana"]
    for typed in (f"https://solscan.io/token/{JUP}", "$JUP"):
        assert f'data-mint="{JUP}"' in listed[typed].text
        assert re.search(r"\b1 of [0-9]+ tokens\.", listed[typed].text), "hits are counted"
    assert "No tokens match" in words(listed["zzz"])
    assert "Search tokens" in page
    assert 'action="/search"' in header


def test_a_mint_is_read_from_a_link_and_a_name_from_a_cashtag() -> None:
    assert mint_in(f"https://birdeye.so/token/{JUP}?chain=solana") == JUP
    assert mint_in("https://example.org/about") is None
    assert name_of("$GOAT") == "GOAT"
    assert name_of("\u202e") == ""


def slow_near(one: str, other: str) -> bool:
    """Return whether *other* is *one* with at most one typo; it tries every possible typo."""
    signs = set(one + other)
    typos = {one}
    for place in range(len(one) + 1):
        typos |= {one[:place] + sign + one[place:] for sign in signs}
        typos |= {one[:place] + sign + one[place + 1 :] for sign in signs}
        typos.add(one[:place] + one[place + 1 :])
        if place + 1 < len(one):
            typos.add(one[:place] + one[place + 1] + one[place] + one[place + 2 :])
    return other in typos


@given(st.text("abc", max_size=5), st.text("abc", max_size=5))
def test_two_names_are_near_if_at_most_one_typo_separates_them(one: str, other: str) -> None:
    assert is_near(one.encode(), other.encode()) == slow_near(one, other)


class NamedTokens:
    """A list of symbols and names, the most traded first, that counts how often it is read."""

    def __init__(self, time: int | None, *named: tuple[str | None, str | None]) -> None:
        self.folded = SimpleNamespace(time=time)
        self.reads = 0
        self.lines = [
            SimpleNamespace(listed=SimpleNamespace(symbol=symbol, name=name))
            for symbol, name in named
        ]

    def page(self, _: object) -> Any:
        self.reads += 1
        return self


def test_names_are_compared_without_reading_the_list_each_time() -> None:
    listed: Any = NamedTokens(
        120, ("JUP", "Jupiter"), (None, "WIF"), ("WIFE", None), ("B\u00c9TA", "Beta")
    )
    names = NearNames()
    found = {
        typed: names.nearest(listed, typed)
        for typed in ("jupp", "Jupitre", "wifs", "wief", "b\u00e9tas", "betas", "garbage", "xyz")
    }
    assert found == {
        "jupp": "JUP", "Jupitre": "Jupiter", "wifs": "WIF", "wief": "WIF",
        "b\u00e9tas": "B\u00c9TA", "betas": "Beta", "garbage": None, "xyz": None,
    }  # fmt: skip
    assert listed.reads == 1
    later: Any = NamedTokens(179, ("XYZZ", None))
    assert names.nearest(later, "xyz") is None
    later.folded.time = 180
    assert names.nearest(later, "xyz") == "XYZZ"
    assert later.reads == 1
