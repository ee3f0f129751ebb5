"""Views of a token: free for everyone, within a daily number of free views, or for a credit."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mintscope.app.config.config import WebConfig
from mintscope.credits.ledger import Empty, Spent
from mintscope.kit.audit import UserId
from mintscope.kit.clock import ManualClock
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.primitives import CreditAccount
from support.scenes.limits import empty_postgres, shared
from support.scenes.people.web_person import ALICE, ORIGIN, Person, where, words
from support.scenes.service import credit_token
from support.scenes.token_market import BONE, RISKY, SILENT, SOL
from support.scenes.website import MINUTE_MS, NOW, Website, website

USED_UP = "The rest of the page is free for everyone."
AT_ONCE = 3  # fewer than the views of a site in a day


async def account_of(site: Website, email: str) -> UserId:
    users = await site.accounts.review.users(limit=50)
    return next(each.user_id for each in users if each.email == email)


async def give_credits(site: Website, email: str, credit_count: int) -> None:
    """Move credits from a new credit token into the account with *email*."""
    granted = await site.ledger.issue(credit_token(7), credit_count, "")
    await site.accounts.credits.deposit(await account_of(site, email), granted, None, None)


async def balance(site: Website, email: str) -> int:
    return (await site.accounts.credits.summary(await account_of(site, email))).balance


async def sees(person: Person, mint: str, **query: str) -> bool:
    """Return whether the page shows a chart; otherwise it must say that the free views are used."""
    tail = "&".join(f"{name}={value}" for name, value in query.items())
    page = await person.open(f"/token/{mint}?{tail}")
    assert page.status_code == 200
    is_shown = 'id="chart"' in page.text
    assert is_shown or USED_UP in words(page)
    return is_shown


async def test_sol_is_free_for_everyone(stranger: Person) -> None:
    for _ in range(5):
        assert await sees(stranger, SOL)
    assert await sees(stranger, BONE)


async def test_a_free_view_covers_one_token_in_every_timeframe(stranger: Person) -> None:
    assert await sees(stranger, BONE)
    assert await sees(stranger, BONE, tf="h1")
    assert await sees(stranger, BONE, tf="m1")
    assert not await sees(stranger, RISKY)


async def test_a_free_view_ends_and_another_is_free_the_next_day(
    shown_site: Website, stranger: Person
) -> None:
    market = shown_site.token_market
    assert market is not None
    assert await sees(stranger, BONE)
    await market.trade(after_s=14 * 60)  # a view lasts 15 minutes
    assert await sees(stranger, BONE)
    await market.trade(after_s=2 * 60)
    assert not await sees(stranger, BONE)
    await market.trade(after_s=24 * 3_600)
    assert await sees(stranger, RISKY)


async def test_free_views_are_counted_by_ipv4_address_and_ipv6_network(shown_site: Website) -> None:
    seen = []
    for address in ("198.51.100.2", "198.51.100.3", "2001:db8:0:1::1", "2001:db8:0:1::2"):
        async with Person(shown_site, address=address) as person:
            seen.append(await sees(person, BONE) and await sees(person, BONE))
            assert not await sees(person, RISKY)
    assert seen == [True] * 4  # the last two are one network, and share a view


async def test_a_closed_page_still_shows_the_free_facts(stranger: Person) -> None:
    await sees(stranger, BONE)
    reported = words(await stranger.open(f"/token/{RISKY}"))

    assert "More can be made at any time" in reported
    assert "Volume 24h $" in reported
    assert "Price, at a final block $" in reported
    assert "Sign in" in reported
    assert "EMA" not in reported


async def test_tokens_of_the_showcase_are_free_for_everyone(tmp_path: Path) -> None:
    web = WebConfig(free_views_per_day=0, showcase=(BONE,))
    async with (
        website(tmp_path, origin=ORIGIN, web=web, has_token_market=True) as site,
        Person(site) as stranger,
    ):
        assert await sees(stranger, BONE)
        assert await sees(stranger, SOL)
        assert not await sees(stranger, RISKY)


async def test_a_credit_buys_a_view_and_a_second_look_costs_nothing(
    shown_site: Website, stranger: Person
) -> None:
    await stranger.sign_up()
    await give_credits(shown_site, ALICE, 10)
    await sees(stranger, BONE)
    offer = words(await stranger.open(f"/token/{RISKY}"))
    assert "Show it for one credit" in offer
    assert "You have 10 credits" in offer

    sent = await stranger.send(f"/token/{RISKY}/view", {"tf": "m1"})
    assert where(sent) == f"/token/{RISKY}?tf=m1&notice=view-bought"
    assert await sees(stranger, RISKY)
    assert await sees(stranger, RISKY, tf="h1")
    again = await stranger.send(f"/token/{RISKY}/view")
    assert where(again) == f"/token/{RISKY}?tf=m5"
    assert await balance(shown_site, ALICE) == 9
    async with Person(shown_site) as other:
        assert not await sees(other, RISKY)  # the view belongs to the person, not to the address


async def test_a_view_is_not_bought_without_credits(stranger: Person) -> None:
    await stranger.sign_up()
    await sees(stranger, BONE)
    assert "You have no credits" in words(await stranger.open(f"/token/{RISKY}"))

    sent = await stranger.send(f"/token/{RISKY}/view")
    assert where(sent) == f"/token/{RISKY}?tf=m5&notice=no-credits"
    assert not await sees(stranger, RISKY)


async def test_a_view_that_cannot_be_shown_costs_nothing(
    shown_site: Website, stranger: Person
) -> None:
    await stranger.sign_up()
    await give_credits(shown_site, ALICE, 3)
    await stranger.send(f"/token/{SILENT}/view")
    shown_site.clock.advance(6 * MINUTE_MS)
    await stranger.send(f"/token/{RISKY}/view")

    assert await balance(shown_site, ALICE) == 3


async def test_a_form_of_another_site_spends_nothing(shown_site: Website, stranger: Person) -> None:
    await stranger.sign_up()
    await give_credits(shown_site, ALICE, 3)
    for fields, headers in (({"csrf": "x"}, {}), ({}, {"origin": "https://evil.example"})):
        refused = await stranger.send(f"/token/{RISKY}/view", fields, **headers)
        assert refused.status_code == 403
    async with Person(shown_site) as other:
        assert where(await other.send(f"/token/{RISKY}/view")).startswith("/sign-in")

    assert await balance(shown_site, ALICE) == 3


async def test_a_view_is_not_bought_if_the_ledger_does_not_answer(
    shown_site: Website, stranger: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stranger.sign_up()
    await give_credits(shown_site, ALICE, 1)
    await sees(stranger, BONE)

    async def fail(_account: CreditAccount) -> Spent | Empty:
        raise ServiceUnavailable("the store does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(shown_site.ledger, "spend", fail)
        assert (await stranger.send(f"/token/{RISKY}/view")).status_code == 503
    assert not await sees(stranger, RISKY)
    await stranger.send(f"/token/{RISKY}/view")
    assert await sees(stranger, RISKY)
    assert await balance(shown_site, ALICE) == 0


@pytest.fixture
async def counted_site(tmp_path: Path) -> AsyncIterator[Website]:
    """Yield a service whose limits are in PostgreSQL, like those that several processes share."""
    empty_postgres()
    clock = ManualClock(NOW)
    async with (
        shared(clock, store_clock=clock) as limits,
        website(
            tmp_path,
            origin=ORIGIN,
            clock=clock,
            limits=limits,
            web=WebConfig(free_views_per_day=1),
            has_token_market=True,
        ) as site,
    ):
        yield site


async def test_pages_opened_at_once_get_no_more_free_views_than_pages_opened_in_turn(
    counted_site: Website,
) -> None:
    async with Person(counted_site) as person:
        first = await asyncio.gather(*(sees(person, BONE) for _ in range(AT_ONCE)))
        second = await asyncio.gather(*(sees(person, RISKY) for _ in range(AT_ONCE)))

    assert first == [True] * AT_ONCE
    assert second == [False] * AT_ONCE


async def test_a_view_that_is_bought_while_its_page_is_opened_is_paid(
    counted_site: Website,
) -> None:
    async with Person(counted_site) as person:
        await person.sign_up()
        await give_credits(counted_site, ALICE, 3)
        await sees(person, BONE)
        opened = [person.open(f"/token/{RISKY}") for _ in range(AT_ONCE)]
        sent, *_ = await asyncio.gather(person.send(f"/token/{RISKY}/view"), *opened)

    assert where(sent).endswith("notice=view-bought")
    assert await balance(counted_site, ALICE) == 2
