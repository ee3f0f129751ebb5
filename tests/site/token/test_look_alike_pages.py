"""Pages warn of a token that imitates a larger one, or whose name hides characters."""

from pathlib import Path
from typing import Final

from mintscope.kit.primitives import Slot, UnixMs
from mintscope.market.mint_facts import MintFacts, TokenProgram
from support.scenes.people.web_person import ORIGIN, Person, words
from support.scenes.token_market import BEGIN_SLOT, BONE, YOUNG
from support.scenes.website import website

IMITATES: Final = "Another token looks the same"
HIDES: Final = "Its name hides characters"
CYRILLIC_O: Final = "\u043e"
ZERO_WIDTH: Final = "\u200b"


def imitation(now: UnixMs) -> MintFacts:
    return MintFacts(
        slot=Slot(BEGIN_SLOT + 1),
        read_at_ms=now,
        program=TokenProgram.SPL,
        decimals=6,
        supply=7,
        mint_authority=None,
        freeze_authority=None,
        name=f"B{CYRILLIC_O}ne T{ZERO_WIDTH}oken",
        symbol="B0NE",
        transfer_fee_bps=None,
        transfer_hook=None,
        permanent_delegate=None,
    )


async def test_a_look_alike_is_marked_on_its_page_and_in_the_list(tmp_path: Path) -> None:
    async with (
        website(tmp_path, origin=ORIGIN, has_token_market=True) as site,
        Person(site) as person,
    ):
        market = site.token_market
        assert market is not None
        await market.market.facts.save(YOUNG, imitation(site.clock.now()))
        await market.lister.refresh()
        listed = (await person.open("/tokens")).text
        own, larger = [await person.open(f"/token/{mint}") for mint in (YOUNG, BONE)]

    assert listed.count(">look-alike<") == listed.count(">cleaned<") == 1
    assert listed.count(">2 same name<") == 2
    for mint in (YOUNG, BONE):
        assert f">{mint[:4]}…{mint[-4:]}<" in listed
    assert f"{BONE} is traded more" in listed
    assert IMITATES in words(own)
    assert HIDES in words(own)
    assert "2 tokens have this name or symbol" in words(larger)
    assert BONE in own.text
    assert ZERO_WIDTH not in listed + own.text
    for warning in (IMITATES, HIDES):
        assert warning not in words(larger)
