"""A pasted credit token is topped up from a wallet once, and is not stored in the browser."""

from typing import Final
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from buyers import balance, choose, forgive, lose, lose_before, state
from page_checks import look_at
from playwright.async_api import Request, expect

from mintscope.kit.credentials import CreditToken
from support.scenes.payments.shopfront import Shopfront
from support.scenes.people.browsing import Visitor
from support.scenes.service import credit_token
from support.scenes.website import MINUTE_MS

pytestmark = pytest.mark.asyncio(loop_scope="session")

PRICES: Final = {10: 25_000, 50: 112_500}
KEPT: Final = "JSON.stringify([localStorage, sessionStorage, history.state])"


@pytest_asyncio.fixture(loop_scope="session")
async def shop(lasting_shop: Shopfront) -> Shopfront:
    """Return the shop some minutes later, when no limit counts requests of the previous test."""
    lasting_shop.world.seconds(6 * MINUTE_MS // 1_000)
    return lasting_shop


async def issued(shop: Shopfront, number: int) -> CreditToken:
    """Return a new credit token of three credits."""
    token = credit_token(number)
    await shop.site.ledger.issue(token, 3, "")
    return token


async def paste(visitor: Visitor, token: str) -> None:
    await visitor.page.get_by_role("textbox", name="Credit token").fill(token)
    await visitor.page.get_by_role("button", name="Check").click()


async def offer(visitor: Visitor, token: str) -> None:
    """Paste the credit token *token* on the page of credits, and ask to top it up."""
    await visitor.open("/credits")
    await paste(visitor, token)
    await visitor.page.get_by_role("button", name="Top it up").click()
    await state(visitor, "choose")


async def test_a_pasted_token_is_topped_up_and_not_stored_in_the_browser(
    shop: Shopfront, buyer: Visitor
) -> None:
    token, before = await issued(shop, 1), shop.world.received()
    sent = list[Request]()

    def note(request: Request) -> None:
        sent.append(request)

    buyer.page.on("request", note)
    await shop.wallet("filler").enter(buyer.page)
    await offer(buyer, token)
    await buyer.page.get_by_role("link", name="50", exact=True).click()
    await buyer.reads("50 credits")
    await choose(buyer)
    await state(buyer, "topped-up")
    await buyer.reads("53 credits are on it now")
    await expect(buyer.page.locator("[data-balance]")).to_have_text("53")
    assert await look_at(buyer.page, "topped-up") == []

    assert shop.world.received() - before == PRICES[50]
    assert await balance(shop, token) == 53
    assert_shown_to(sent, token, {"/v1/credits/history", "/buy/50"})
    assert token not in await buyer.page.evaluate(KEPT)
    assert await buyer.page.evaluate("localStorage.length") == 0
    assert token not in await buyer.page.content()
    assert await shop.world.audit() == []


def assert_shown_to(sent: list[Request], token: str, paths: set[str]) -> None:
    """Expect that *token* was sent only to *paths*, and only in the header Authorization."""
    assert not [each for each in sent if token in each.url or token in (each.post_data or "")]
    shown = [each for each in sent if token in str(each.headers)]
    assert {each.headers["authorization"] for each in shown} == {f"Bearer {token}"}
    assert {urlsplit(each.url).path for each in shown} == paths
    assert {each.method for each in shown if "/buy/" in each.url} == {"POST"}


async def test_a_wallet_that_does_not_sign_tops_nothing_up_and_two_tabs_top_up_once(
    shop: Shopfront, buyer: Visitor
) -> None:
    token, before, wallet = await issued(shop, 2), shop.world.received(), shop.wallet("reluctant")
    await wallet.enter(buyer.page)
    await offer(buyer, token)
    for manner, then in {"refuses": "declined", "closes": "closed"}.items():
        wallet.manner = manner
        await choose(buyer)
        await state(buyer, then)
        await buyer.page.get_by_role("link", name="Start again").click()
        await state(buyer, "choose")
    wallet.manner, wallet.shows = "signs", shop.wallet("shown").key
    await choose(buyer)
    await state(buyer, "refused")
    await buyer.reads("Another wallet has signed")
    forgive(buyer, 402)
    assert shop.world.received() == before

    wallet.manner, wallet.shows = "waits", None
    await buyer.page.get_by_role("link", name="Start again").click()
    await choose(buyer)
    await state(buyer, "approve")
    async with await buyer.page.context.new_page() as page:
        other = Visitor(page, shop.site.origin)
        await wallet.enter(page)
        await offer(other, token)
        await choose(other)
        await state(other, "elsewhere")
    await buyer.page.get_by_role("button", name="Move the credits").click()
    await buyer.reads("It is being topped up: finish that first")
    wallet.goes_on.set()
    await state(buyer, "topped-up")
    assert shop.world.received() - before == PRICES[10]
    assert await balance(shop, token) == 13


@pytest.mark.parametrize("arrives", [True, False])
async def test_a_top_up_whose_connection_is_lost_happens_once(
    shop: Shopfront, buyer: Visitor, *, arrives: bool
) -> None:
    token, before = await issued(shop, 4 + arrives), shop.world.received()
    await buyer.page.route("**/buy/10", lose if arrives else lose_before)
    await shop.wallet(f"unlucky {arrives}").enter(buyer.page)
    await offer(buyer, token)
    await choose(buyer)
    await state(buyer, "lost")
    assert token not in await buyer.page.evaluate(KEPT)
    await buyer.page.unroute("**/buy/10")
    await buyer.open("/credits" if arrives else "/buy/500")
    if arrives:
        await state(buyer, "arrived")
    else:
        await state(buyer, "not-shown")
        await buyer.page.get_by_role("link", name="Paste the credit token").click()
        await state(buyer, "not-shown")
        await paste(buyer, await issued(shop, 6))  # another one is not topped up instead
        await expect(buyer.page.locator("[data-balance]")).to_have_text("3")
        await state(buyer, "not-shown")
        await paste(buyer, token)
        await state(buyer, "topped-up")
        forgive(buyer, 403)
    assert shop.world.received() - before == PRICES[10]
    assert await balance(shop, token) == 13
    assert await buyer.page.evaluate("localStorage.length") == 0
    assert await shop.world.audit() == []
