"""The page of a mint that is not tracked, and the effect of its button "Track it"."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest
from msgspec import structs

from mintscope.accounts.signups.reviews import DECLINED, MINT, REQUESTS_READ_MAX
from mintscope.app.config.config import WebConfig
from mintscope.app.stores.folder import MARKET_FILE
from mintscope.kit.audit import COMMAND_LINE, UserId
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.primitives import Mint
from mintscope.market.mint_facts import MintFacts
from mintscope.market.series.pools import AskedCandles, KeptCandles
from mintscope.site.live import OpenPages
from mintscope.site.page import Page
from mintscope.site.routes import PageRequest
from mintscope.site.token.listing import Watching
from mintscope.site.token.pages import TokenPages, UntrackedTokens, Views
from support.fakes.facts import FACTS
from support.scenes.people.web_person import ALICE, ORIGIN, Person, where, words
from support.scenes.token_market import BONE, UNTRACKED, TokenMarket
from support.scenes.website import ADMINISTRATOR, HERE, Website, website

OTHER = Mint("9n4nbM75f5Ui33ZbPYXn59EwSgE8CGsHtAeTH5YFeJ9E")
WALLET = Mint("7fUAJdStEuGbc3sM84cKRL6yYaaSstyLSU4ve5oovLS7")
IMITATION = Mint("HZ1JovNiVvGrGNiiYvEozEVgZ58xaU3RKwX8eACQBCt3")
SILENT_NODE = Mint("2b1kV6DkPAnxd5ixfnxCpjxmKwqjjaYmCZfHsFu24GXo")


async def facts_of(mint: Mint) -> MintFacts | None:
    """Return the facts of *mint*; None for WALLET. Raises ServiceUnavailable for SILENT_NODE."""
    if mint == SILENT_NODE:
        raise ServiceUnavailable("down")
    if mint == IMITATION:
        return structs.replace(FACTS, name="Some token", symbol="B\u043eNE")  # a Cyrillic o
    return None if mint == WALLET else FACTS


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Website]:
    """Yield a service on which a user can track one token a day without approval."""
    web = WebConfig(tracks_per_day=1, free_views_per_day=20)
    async with website(
        tmp_path, origin=ORIGIN, web=web, facts=facts_of, has_token_market=True
    ) as site:
        yield site


async def verify(site: Website, person: Person) -> None:
    await person.send("/settings/account/email")
    await person.send(await site.link(ALICE))


async def test_the_page_of_an_untracked_mint_shows_the_facts_of_the_chain(site: Website) -> None:
    async with Person(site) as person:
        page = await person.open(f"/token/{UNTRACKED}")
        wallet = words(await person.open(f"/token/{WALLET}"))
        unread = words(await person.open(f"/token/{SILENT_NODE}"))

    assert page.status_code == 404
    for part in ("We do not track A yet", "No more can be made", "Sign in to track it"):
        assert part in words(page)
    assert "No token has this address" in wallet
    assert "do not track" not in wallet
    assert "track it" not in wallet
    assert "The chain is not available right now." in unread
    assert "Sign in to track it" in unread


async def test_the_page_of_an_untracked_mint_warns_of_a_tracked_token_that_looks_the_same(
    site: Website,
) -> None:
    async with Person(site) as person:
        imitation = await person.open(f"/token/{IMITATION}")
        other = words(await person.open(f"/token/{UNTRACKED}"))

    assert "A tracked token looks the same" in words(imitation)
    assert BONE in imitation.text
    assert "looks the same" not in other


class UntrackingSeries:
    """Returns the series of *market*, but untracks a token before its candles are read."""

    def __init__(self, market: TokenMarket) -> None:
        self._market = market

    def __getattr__(self, name: str) -> Any:
        return getattr(self._market.series, name)

    async def candles(self, mint: Mint, asked: AskedCandles) -> KeptCandles | None:
        assert await self._market.market.tracking.remove(mint)
        found: KeptCandles | None = await self._market.series.candles(mint, asked)
        return found


async def test_a_token_untracked_while_its_page_is_read_gets_the_untracked_page(
    site: Website,
) -> None:
    assert site.token_market is not None
    accounts = site.accounts
    series: Any = UntrackingSeries(site.token_market)
    parts = replace(site.token_market.parts, series=series)
    pages = TokenPages(
        parts,
        Views(parts, accounts.credits),
        Watching(accounts.watchlists),
        OpenPages(parts),
        UntrackedTokens(parts, accounts.operations, accounts.review),
        origin=ORIGIN,
    )
    request = PageRequest(now=site.clock.now(), browser=HERE, path_params={"mint": BONE})
    page = await pages.show(request)

    assert isinstance(page, Page)
    assert (page.status, page.facts["state"], page.facts["mint"]) == (404, "found", BONE)


@pytest.mark.parametrize("is_noticed", [False, True])
async def test_a_token_that_is_untracked_during_a_view_has_no_stream_and_no_picture(
    site: Website, *, is_noticed: bool
) -> None:
    """*is_noticed*: a slot has come since, by which the reports know of the change."""
    market = site.token_market
    assert market is not None
    async with Person(site) as person:
        assert (await person.open(f"/token/{BONE}")).status_code == 200
        assert await market.market.tracking.remove(BONE)
        if is_noticed:
            await market.trade()
        answers = [
            (await person.open(f"/token/{BONE}/{path}")).status_code
            for path in ("chart.png", "live?tf=s15")
        ]

    assert answers == [404, 404]


async def test_look_ups_of_an_address_are_limited(site: Website) -> None:
    async with Person(site) as person:
        pages = [words(await person.open(f"/token/{UNTRACKED}")) for _ in range(11)]

    assert "No more can be made" in pages[9]
    assert "The chain is not available right now." in pages[10]


async def test_the_first_token_is_tracked_at_once_and_the_next_is_a_request(
    site: Website, alice: Person
) -> None:
    assert site.accounts.operations is not None
    refused = where(await alice.send(f"/token/{UNTRACKED}/track"))
    verify_first = "Verify your e-mail address first, under Settings > Account."
    assert verify_first in words(await alice.open(refused))
    await verify(site, alice)
    first = where(await alice.send(f"/token/{UNTRACKED}/track"))
    second = where(await alice.send(f"/token/{OTHER}/track"))
    await alice.send(f"/token/{WALLET}/track")

    assert refused.endswith("notice=track-verify")
    assert first.endswith("notice=token-added")
    assert second.endswith("notice=track-requested")
    assert await site.accounts.operations.tracking.one(UNTRACKED) is not None
    assert await site.accounts.operations.tracking.one(OTHER) is None
    assert "This token is tracked now" in words(await alice.open(f"/token/{UNTRACKED}"))
    assert set(await site.accounts.review.asked_tokens()) == {OTHER}


async def test_a_failed_tracking_does_not_use_up_the_daily_allowance(
    site: Website, alice: Person
) -> None:
    await verify(site, alice)
    market = apsw.Connection(str(site.folder / MARKET_FILE))
    full = "BEFORE UPDATE ON mint BEGIN SELECT raise(FAIL, 'full'); END"
    market.execute(f"CREATE TRIGGER full {full}")
    failed = await alice.send(f"/token/{UNTRACKED}/track")
    market.execute("DROP TRIGGER full")
    market.close()
    again = where(await alice.send(f"/token/{UNTRACKED}/track"))

    assert failed.status_code == 503
    assert again.endswith("notice=token-added")


async def test_a_declined_request_stays_declined_after_many_other_decisions(
    site: Website, alice: Person
) -> None:
    review = site.accounts.review
    await verify(site, alice)
    for mint in (UNTRACKED, OTHER):
        await alice.send(f"/token/{mint}/track")
    for name in (OTHER, *map(str, range(REQUESTS_READ_MAX))):
        await review.record(DECLINED, f"{MINT}{name}", actor=COMMAND_LINE)

    assert set(await review.asked_tokens()) == set()


async def test_a_request_after_a_refusal_is_shown_though_its_clock_is_behind(
    site: Website,
) -> None:
    review = site.accounts.review
    await review.record(DECLINED, f"{MINT}{OTHER}", actor=COMMAND_LINE)
    site.clock.step(-1_000)
    await review.ask_for_token(OTHER, UserId(1), is_tracked=False)

    assert set(await review.asked_tokens()) == {OTHER}


@pytest.mark.parametrize("decision", ["track", "decline"])
async def test_administrators_see_requests_and_decide(
    site: Website, alice: Person, decision: str
) -> None:
    assert site.accounts.operations is not None
    await verify(site, alice)
    for mint in (UNTRACKED, OTHER):
        await alice.send(f"/token/{mint}/track")
    await site.make_administrator()
    async with Person(site) as administrator:
        await administrator.sign_in(ADMINISTRATOR)
        asked = await administrator.open("/admin/tokens")
        path = "/admin/tokens" if decision == "track" else f"/admin/tokens/{OTHER}/decline"
        await administrator.send(path, {"mint": OTHER})
        decided = words(await administrator.open("/admin/tokens"))

    assert f"Requested by users Token Requested Decide {OTHER}" in words(asked)
    assert "Requested by users" not in decided
    assert (await site.accounts.operations.tracking.one(OTHER) is not None) == (decision == "track")


async def test_the_free_views_that_are_left_are_counted_down(site: Website) -> None:
    async with Person(site) as person:
        first = words(await person.open(f"/token/{BONE}"))
        again = words(await person.open(f"/token/{BONE}?tf=h1"))

    assert "19 of 20 free views left today." in first
    assert "19 of 20 free views left today." in again
