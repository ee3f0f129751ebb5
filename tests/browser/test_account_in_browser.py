"""Pages of accounts in a browser, by pointer and by keyboard, with and without scripts."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from support.scenes.people.browsing import Visitor, visiting
from support.scenes.website import MINUTE_MS, PASSWORD, Website, served_website

pytestmark = pytest.mark.asyncio(loop_scope="session")

EMAIL = "ann@browser.example"
NEW_PASSWORD = "a different good one"


@pytest_asyncio.fixture(loop_scope="session")
async def own_site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Website]:
    """Yield a service for one test, so that other tests cannot use up its limits."""
    async with served_website(tmp_path_factory.mktemp("site")) as site:
        yield site


@pytest_asyncio.fixture(loop_scope="session", params=[True, False], ids=["scripts", "no scripts"])
async def ann(
    request: pytest.FixtureRequest, chromium: Browser, own_site: Website
) -> AsyncIterator[Visitor]:
    async with visiting(chromium, own_site.origin, scripts=request.param) as visitor:
        yield visitor


async def test_a_person_signs_up_verifies_signs_out_and_resets_the_password(
    own_site: Website, ann: Visitor
) -> None:
    await ann.open("/")
    await ann.follow("Sign up")
    await ann.fill(E_mail_address=EMAIL, Password="short")
    await ann.press("Create the account")
    await ann.reads("Expected 10 to 200 characters; there were 5.")
    await expect(ann.page.locator("#password")).to_be_focused()
    await expect(ann.page.locator("#email")).to_have_value(EMAIL)
    await ann.fill(Password=PASSWORD)
    await ann.press("Create the account")
    await ann.reads("Welcome. Your account is ready.")

    await ann.open(await own_site.link(EMAIL))
    await ann.press("Yes, verify it")
    await ann.reads("Your mailbox is verified.")
    await ann.press("Sign out")
    await ann.reads("You are signed out.")

    await ann.open("/settings/sessions")
    await ann.reads("Sign in to continue.")
    await ann.fill(E_mail_address=EMAIL, Password="not my password")
    await ann.press("Sign in")
    await ann.reads("The e-mail address or the password is wrong.")
    await expect(ann.page.locator("#password")).to_be_focused()
    await ann.follow("I forgot my password")
    await ann.fill(E_mail_address=EMAIL)
    await ann.press("Send the link")
    await ann.reads("If there is an account with that address")
    await ann.open(await own_site.link(EMAIL))
    await ann.fill(New_password=NEW_PASSWORD)
    await ann.press("Set the password")
    await ann.reads("Your new password is set. Sign in with it.")
    await ann.fill(E_mail_address=EMAIL, Password=NEW_PASSWORD)
    await ann.press("Sign in")
    assert ann.path == "/"


async def test_signing_up_needs_only_the_keyboard(ann: Visitor) -> None:
    await ann.open("/sign-up")
    keyboard = ann.page.keyboard
    await keyboard.type(EMAIL)  # the first field has the focus
    await keyboard.press("Tab")
    await keyboard.type(PASSWORD)
    async with ann.page.expect_navigation():
        await keyboard.press("Enter")
    await ann.reads("Welcome. Your account is ready.")
    await keyboard.press("Tab")
    await expect(ann.page.get_by_role("link", name="Skip to the content")).to_be_in_viewport()
    await keyboard.press("Enter")
    await expect(ann.page.locator("main")).to_be_focused()


async def test_a_session_is_ended_from_another_session(
    chromium: Browser, own_site: Website, ann: Visitor
) -> None:
    await ann.sign_up(EMAIL)
    async with visiting(chromium, own_site.origin) as elsewhere:
        await elsewhere.sign_in(EMAIL)
        await ann.open("/settings/sessions")
        await expect(ann.page.get_by_role("row")).to_have_count(3)
        await ann.page.get_by_role("button", name="End the session of").click()
        await ann.reads("That session is ended.")
        await expect(ann.page.get_by_role("row")).to_have_count(2)
        await elsewhere.open("/settings/account")
        await elsewhere.reads("Sign in to continue.")


async def test_an_application_is_confirmed_or_disowned(own_site: Website, ann: Visitor) -> None:
    for name, answer in [
        ("Yes, confirm the application", "The application is confirmed"),
        ("No, this was not me", "The application is deleted"),
    ]:
        email = f"{answer.rpartition(' ')[2]}@browser.example"
        await own_site.apply(email)
        await ann.open(await own_site.link(email))
        await ann.press(name)
        await expect(ann.page.get_by_role("heading", name=answer)).to_be_visible()


async def test_entering_the_password_again_leads_to_the_requested_page(
    own_site: Website, ann: Visitor
) -> None:
    await ann.sign_up(EMAIL)
    own_site.clock.advance(11 * MINUTE_MS)
    await ann.open("/settings/account")
    await ann.follow("Change the password")
    await ann.page.locator("#password").fill("not my password")
    await ann.press("Continue")
    await ann.reads("That is not your password.")
    await ann.page.locator("#password").fill(PASSWORD)
    await ann.press("Continue")
    assert ann.path == "/settings/account/password"
    await ann.fill(New_password=NEW_PASSWORD)
    await ann.press("Set the password")
    await ann.reads("Your password was changed. All other sessions were ended.")


class TestScripts:
    """Tests of the parts of pages that scripts add."""

    async def test_a_typed_password_can_be_shown_and_hidden(
        self, chromium: Browser, own_site: Website
    ) -> None:
        async with visiting(chromium, own_site.origin) as ann:
            await ann.open("/sign-in")
            password = ann.page.locator("#password")
            await password.fill(PASSWORD)
            await ann.page.get_by_role("button", name="Show: Password").click()
            await expect(password).to_have_attribute("type", "text")
            await expect(password).to_be_focused()
            await ann.page.get_by_role("button", name="Hide: Password").click()
            await expect(password).to_have_attribute("type", "password")

    async def test_a_session_that_ended_leads_to_signing_in(
        self, chromium: Browser, own_site: Website
    ) -> None:
        async with visiting(chromium, own_site.origin) as ann:
            await ann.sign_up(EMAIL)
            async with visiting(chromium, own_site.origin) as elsewhere:
                await elsewhere.sign_in(EMAIL)
                await ann.open("/settings/sessions")
                own_site.clock.advance(31 * MINUTE_MS)
                await ann.press("End the session of Chromium on Linux at 127.0.0.1")
                await ann.reads("Sign in")
                assert ann.path == "/sign-in?next=%2Fsettings%2Fsessions"

    async def test_a_refusal_is_shown_in_place_of_the_page(
        self, chromium: Browser, own_site: Website
    ) -> None:
        async with visiting(chromium, own_site.origin) as ann:
            await ann.sign_up(EMAIL)
            async with visiting(chromium, own_site.origin) as elsewhere:
                await elsewhere.sign_in(EMAIL)
            await ann.open("/settings/sessions")
            await ann.page.eval_on_selector("td [name=csrf]", "field => field.value = 'x'")
            await ann.page.get_by_role("button", name="End the session of").click()
            await ann.reads("This form belongs to another session, or to none.")
            assert f"403: {own_site.origin}/settings/sessions/end" in ann.mishaps
            ann.mishaps.clear()  # htmx logs the 403 in the console, too

    async def test_new_emails_appear_on_the_open_page(
        self, chromium: Browser, own_site: Website
    ) -> None:
        async with visiting(chromium, own_site.origin) as ann:
            await ann.open("/mailbox")
            await ann.reads("No e-mails yet.")
            await own_site.apply("late@browser.example")
            await ann.reads("to late@browser.example")
            email = ann.page.locator("#email-1")
            await email.focus()
            await own_site.apply("later@browser.example")
            await ann.reads("to later@browser.example")
            await expect(email).to_be_focused()
