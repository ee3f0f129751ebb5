"""The page of credits, for a credit token that stays in the browser, and for an account."""

import re
from collections.abc import AsyncIterator
from typing import Final

import pytest
import pytest_asyncio
from clicks import Clicks
from page_checks import look_at
from playwright.async_api import Browser, Locator, Request, Route, expect

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.keys.scope import Scope
from mintscope.credits.ledger import Debit, DebitLedger
from mintscope.kit.credentials import CreditToken
from support.scenes.payments.shopfront import Shopfront, shopfront
from support.scenes.people.browsing import Visitor, visiting
from support.scenes.service import credit_token
from support.scenes.website import HERE, PASSWORD, Website, served_website

pytestmark = pytest.mark.asyncio(loop_scope="session")

DAY_MS: Final = 86_400_000
USE: Final = (40, 0, 12, 55, 61, 0, 0, 90, 34, 28, 71, 15, 22, 48, 0, 83, 66, 5, 37, 29)
ANN: Final = EmailAddress("ann@credits.example")
BEN: Final = EmailAddress("ben@credits.example")
SENT_OF_TWO: Final = """(form) => {
  let sent = 0;
  addEventListener("submit", (event) => {
    sent += event.defaultPrevented ? 0 : 1;
    event.preventDefault();
  });
  form.requestSubmit();
  form.requestSubmit();
  return sent;
}"""
SECRET: Final = re.compile("svc_credit_[0-9a-f]{64}")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shop(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shopfront]:
    async with shopfront(tmp_path_factory.mktemp("credits")) as shop:
        yield shop


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Website]:
    """Yield a service without a chain, so that a test can let days pass at once."""
    async with served_website(tmp_path_factory.mktemp("days")) as site:
        yield site


async def used_token(site: Website, number: int) -> CreditToken:
    """Return a token of 1,000 credits that has spent the numbers in USE, one on each day."""
    token, ledger = credit_token(number), site.ledger
    account = await ledger.issue(token, 1_000, "")
    assert isinstance(ledger, DebitLedger)
    for count in USE:
        site.clock.advance(DAY_MS)
        if count:
            await ledger.debit(Debit(account, count))
    return token


def field_of(visitor: Visitor) -> Locator:
    return visitor.page.get_by_role("textbox", name="Credit token")


async def paste(visitor: Visitor, text: str) -> None:
    await field_of(visitor).fill(text)
    await visitor.page.get_by_role("button", name="Check").click()


async def test_a_pasted_token_shows_its_use_and_is_sent_only_as_a_credential(
    chromium: Browser, site: Website
) -> None:
    token, sent, faults = await used_token(site, 1), list[Request](), []

    def note(request: Request) -> None:
        sent.append(request)

    async with visiting(chromium, site.origin) as visitor:
        # The bars are of the days up to today: the browser needs the date of the service's clock.
        await visitor.page.clock.set_fixed_time(site.clock.now() / 1000)
        visitor.page.on("request", note)
        await visitor.open("/credits")
        await paste(visitor, "svc_live_" + "0" * 80)
        await visitor.reads("This is an API key")
        await paste(visitor, token[:-1])
        await visitor.reads("Expected svc_credit_ and 64 digits")
        assert not [each for each in sent if "/v1/" in each.url]
        await paste(visitor, token)
        await expect(visitor.page.locator("[data-balance]")).to_have_text(str(1_000 - sum(USE)))
        await visitor.reads(f"{sum(USE)} in 30 days, {USE[-1]} today")
        titles = await visitor.page.locator(".days title").all_text_contents()
        assert [int(each.rpartition(" ")[2]) for each in titles] == [0] * 10 + [*USE]
        await visitor.reads("Granted by the operator")
        async with visitor.page.expect_download() as downloading:
            await visitor.page.get_by_role("button", name="As CSV").click()
        lines = (await (await downloading.value).path()).read_text().splitlines()
        assert lines[0] == "at,kind,credits,balance"
        assert lines[-1].endswith(",grant,1000,1000")
        assert len(lines) == 2 + sum(map(bool, USE))
        faults += await look_at(visitor.page, "credits-of-token")

        assert not [each for each in sent if token in each.url or token in (each.post_data or "")]
        shown = [each for each in sent if "authorization" in each.headers]
        assert {each.headers["authorization"] for each in shown} == {f"Bearer {token}"}
        kept = await visitor.page.evaluate("JSON.stringify([localStorage, sessionStorage])")
        assert token not in kept
        assert token not in await visitor.page.content()
        await visitor.open("/pricing")
        await visitor.page.go_back()
        await expect(field_of(visitor)).to_have_value("")
        await expect(visitor.page.locator("#found")).to_be_hidden()
    assert faults == []


async def test_credits_are_moved_to_a_new_token_even_if_the_answer_is_lost(
    chromium: Browser, shop: Shopfront
) -> None:
    token = credit_token(2)
    await shop.site.ledger.issue(token, 7, "")
    async with visiting(chromium, shop.site.origin) as visitor:
        await visitor.open("/credits")
        await paste(visitor, token)

        async def lose(route: Route) -> None:
            await route.fetch()
            await route.abort("aborted")

        await visitor.page.route("**/v1/credits/rotate", lose)
        await visitor.page.get_by_role("button", name="Move the credits").click()
        await visitor.reads("There is no connection")
        await visitor.page.unroute("**/v1/credits/rotate")
        await visitor.page.get_by_role("button", name="Move the credits").click()
        await visitor.reads("It holds 7 credits")
        secret = await visitor.page.locator("#secret").inner_text()
        assert SECRET.fullmatch(secret)
        assert secret != token
        faults = await look_at(visitor.page, "credits-moved")
        await visitor.page.get_by_label("I saved it").check()
        await visitor.page.get_by_role("button", name="Done").click()
        await expect(visitor.page.locator("[data-balance]")).to_have_text("7")
    balances = shop.site.rows("SELECT balance FROM credit_account WHERE balance = 7")
    assert balances == [(7,)]
    assert faults == []


async def test_the_wallet_that_paid_moves_the_credits_of_a_lost_token(
    chromium: Browser, shop: Shopfront
) -> None:
    async with visiting(chromium, shop.site.origin) as visitor:
        wallet, clicks = shop.wallet("forgetful"), Clicks(visitor)
        await wallet.enter(visitor.page)
        await clicks.listen()
        await visitor.open("/buy/50")
        await visitor.page.get_by_role("button", name="Test wallet").click()
        receipt = visitor.page.locator(".receipt code")
        await receipt.wait_for()
        lost, purchase = (
            await visitor.page.locator("#secret").inner_text(),
            await receipt.inner_text(),
        )
        await visitor.page.get_by_label("I saved it").check()
        await visitor.press("Done")
        await visitor.page.get_by_label("Transaction that paid").fill("nothing")
        await visitor.page.get_by_role("button", name="Test wallet").click()
        await visitor.reads("Expected the signature of a transaction")
        await clicks.begin("/")
        await visitor.follow("Credits")
        await visitor.page.get_by_label("Transaction that paid").fill(purchase)
        await visitor.page.get_by_role("button", name="Test wallet").click()
        await visitor.reads("It holds 50 credits")
        assert 1 <= clicks.count <= 3, "from the front page"
        print(f"recover      {clicks.count} of 3 clicks, {clicks.seconds:.1f} s")  # noqa: T201
        assert clicks.seconds <= 60.0, "as in test_clicks"
        assert await visitor.page.locator("#secret").inner_text() != lost
        await visitor.page.get_by_label("I saved it").check()
    assert await shop.world.audit() == []


async def test_credits_that_a_wallet_cannot_move_are_refused_with_the_reason(
    chromium: Browser, shop: Shopfront
) -> None:
    async with visiting(chromium, shop.site.origin) as visitor:
        page = visitor.page
        await shop.wallet("forgetful").enter(page)
        await visitor.open("/credits")
        await page.get_by_label("Transaction that paid").fill("5" * 88)
        button, reason = page.get_by_role("button", name="Test wallet"), page.locator("#lost-error")
        await button.click()
        await expect(reason).to_contain_text(
            "This wallet did not buy credits with this transaction"
        )
        await page.context.set_offline(True)
        await button.click()
        await expect(reason).to_contain_text("There is no connection")
        visitor.mishaps.clear()  # the refusal, and the request without a connection


async def press_twice(visitor: Visitor) -> None:
    """Submit the form that empties a credit token twice; only one request may be sent."""
    await visitor.open("/credits?of=token")
    await visitor.page.get_by_label("Credit token to empty").fill(credit_token(5))
    form = visitor.page.locator("form[action='/credits/deposit']")
    assert await form.evaluate(SENT_OF_TWO) == 1


async def test_an_account_shows_its_credits_and_their_use_also_without_scripts(
    chromium: Browser, site: Website
) -> None:
    faults, token, ledger = [], credit_token(4), site.ledger
    await site.accounts.people.sign_up(ANN, PASSWORD, HERE)
    cookie = await site.accounts.people.sign_in(ANN, PASSWORD, HERE)
    session = await site.accounts.people.session(cookie)
    assert session is not None
    assert isinstance(ledger, DebitLedger)
    user_id = session.user.user_id
    bot = await site.accounts.keys.create(
        session, name="Bot in Frankfurt", scopes=frozenset({Scope.TRADE_READ}), lifetime_ms=None
    )
    given = await ledger.issue(token, 1_000, "")
    await site.accounts.credits.deposit(user_id, given, None, None)
    account = await site.accounts.credits.open(user_id)
    for count in USE:
        site.clock.advance(DAY_MS)
        if count:
            await ledger.debit(Debit(account, count, bot.line.key_id))
    left = 1_000 - sum(USE)
    for scripts in (True, False):
        async with visiting(chromium, site.origin, scripts=scripts) as visitor:
            await visitor.sign_in(ANN, "/credits")
            await expect(visitor.page.locator(".balance")).to_have_text(str(left))
            await visitor.reads(f"{sum(USE)} in 30 days, {USE[-1]} today")
            await visitor.reads("Moved in from a credit token")
            if scripts:
                faults += await look_at(visitor.page, "credits-of-account")
                async with visitor.page.expect_download() as downloading:
                    await visitor.page.get_by_role("link", name="As CSV").click()
                text = (await (await downloading.value).path()).read_text()
                assert text.count(",spend,") == sum(map(bool, USE))
                await press_twice(visitor)
    assert faults == []


async def test_a_wallet_is_linked_and_unlinked_on_a_page(
    chromium: Browser, shop: Shopfront
) -> None:
    people = shop.site.accounts.people
    await people.sign_up(BEN, PASSWORD, HERE)
    async with visiting(chromium, shop.site.origin) as visitor:
        page = visitor.page
        wallet = shop.wallet("linker")
        clicks = Clicks(visitor)
        await wallet.enter(page)
        await clicks.listen()
        await visitor.sign_in(BEN, "/credits")
        await clicks.begin("/credits/wallets")
        wallet.shows = shop.wallet("of another").key
        await page.get_by_role("button", name="Test wallet").click()
        await visitor.reads("The wallet did not sign the text of this page")
        wallet.shows = None
        await page.get_by_role("button", name="Test wallet").click()
        await visitor.reads("The wallet is linked.")
        await visitor.reads(str(wallet.key.pubkey()))
        assert clicks.count == 2
        assert await look_at(page, "wallet-linked") == []
        await page.get_by_role("button", name=f"Unlink {wallet.key.pubkey()}").click()
        await visitor.reads("The wallet is unlinked.")
        await visitor.reads("No linked wallets.")
        await page.context.set_offline(True)
        await page.get_by_role("button", name="Test wallet").click()
        await visitor.reads("The service did not answer with a text to sign.")
        visitor.mishaps.clear()  # the request without a connection
