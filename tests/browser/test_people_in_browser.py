"""Problems of an account, and actions with several browsers or an agent."""

import re
from datetime import datetime, timedelta, timezone

import pytest
from playwright.async_api import Browser, expect

from mintscope.kit.audit import COMMAND_LINE
from support.scenes.people.browsing import Visitor, visiting
from support.scenes.website import PASSWORD, Website

pytestmark = pytest.mark.asyncio(loop_scope="session")

BETTER = "a better password of mine"


async def follow_email(visitor: Visitor, email: str, subject: str) -> None:
    """Open the newest e-mail to *email* with *subject* at /mailbox, and follow its first link."""
    await visitor.open(f"/mailbox?to={email}")
    await visitor.page.get_by_role("link", name=subject).first.click()
    async with visitor.page.expect_navigation():
        await visitor.page.locator(".email a").first.click()


@pytest.mark.parametrize("scripts", ["with", "without"])
async def test_mistakes_at_signing_up_are_shown_beside_the_field(
    chromium: Browser, live_site: Website, scripts: str
) -> None:
    async with visiting(chromium, live_site.origin, scripts=scripts == "with") as visitor:
        await visitor.open("/sign-up")
        await visitor.press("Create the account")
        await visitor.reads("It is empty")
        await visitor.fill(E_mail_address="no address", Password="short")
        await visitor.press("Create the account")
        await visitor.reads("Expected 10 to 200 characters; there were 5.")
        await expect(visitor.page.get_by_label("E-mail address")).to_have_value("no address")
        await expect(visitor.page.get_by_label("E-mail address")).to_be_focused()
        email = f"twice-{scripts}@people.example"
        await visitor.fill(E_mail_address=email, Password="a" * 12)
        await visitor.press("Create the account")
        await visitor.reads("Expected a password that is harder to guess.")
        await visitor.fill(E_mail_address=email, Password=PASSWORD)
        await visitor.press("Create the account")
        await visitor.press("Sign out")
        await visitor.open("/sign-up")
        await visitor.fill(E_mail_address=email, Password=PASSWORD)
        await visitor.press("Create the account")
        await visitor.reads("An account with this address")


async def test_guesses_of_a_password_are_refused_and_limited(
    live_site: Website, visitor: Visitor
) -> None:
    await visitor.sign_up("victim@people.example")
    await visitor.press("Sign out")
    await visitor.open("/sign-in")
    for _ in range(20):
        await visitor.fill(E_mail_address="victim@people.example", Password="a wrong guess")
        await visitor.press("Sign in")
        if await visitor.page.get_by_text("Too many attempts").count():
            break
        await visitor.reads("The e-mail address or the password is wrong.")
    await visitor.reads("Too many attempts")
    live_site.clock.advance(3_600_000)
    await visitor.sign_in("victim@people.example")
    await visitor.reads("Signed in as victim@people.example")


async def test_the_password_is_changed_and_other_sessions_end(
    chromium: Browser, live_site: Website, visitor: Visitor
) -> None:
    email = "changing@people.example"
    await visitor.sign_up(email)
    async with visiting(chromium, live_site.origin) as elsewhere:
        await elsewhere.sign_in(email)
        await visitor.open("/settings/account")
        await visitor.follow("Change the password")
        await visitor.press("Set the password")
        await visitor.reads("Expected 10 to 200 characters; there were 0.")
        await visitor.page.get_by_label("New password", exact=True).fill(BETTER)
        await visitor.press("Set the password")
        await visitor.reads("Your password was changed. All other sessions were ended.")
        await elsewhere.open("/settings/account")
        assert elsewhere.path.startswith("/sign-in")


async def test_sessions_are_ended_one_by_one_and_all(
    chromium: Browser, live_site: Website, visitor: Visitor
) -> None:
    email = "sessions@people.example"
    await visitor.sign_up(email)
    async with (
        visiting(chromium, live_site.origin) as second,
        visiting(chromium, live_site.origin) as third,
        visiting(chromium, live_site.origin) as fourth,
    ):
        for each in (second, third, fourth):
            await each.sign_in(email)
        await visitor.open("/settings/sessions")
        rows = visitor.page.get_by_role("row")
        await expect(rows).to_have_count(5)
        await rows.last.get_by_role("button").click()  # a script removes the row
        await expect(rows).to_have_count(4)
        await visitor.press("End all others")
        await visitor.reads("All other sessions are ended.")
        await expect(rows).to_have_count(2)
        for each in (second, third, fourth):
            await each.open("/settings/sessions")
            assert each.path.startswith("/sign-in")


async def test_an_agent_is_claimed_by_the_person_who_reads_its_mailbox(
    live_site: Website, visitor: Visitor
) -> None:
    email = "owner@people.example"
    signup_id, secret = await live_site.apply_for_key(email)
    confirm = await live_site.link(email)
    assert await live_site.accounts.signup.confirm_by_link(confirm.rpartition("/")[2])
    await live_site.accounts.review.approve(
        signup_id, scopes=frozenset(), note="", actor=COMMAND_LINE
    )
    await live_site.exchange(email, secret)
    await visitor.sign_up(email)
    await follow_email(visitor, email, "Verify")
    await visitor.page.get_by_role("main").get_by_role("button").click()
    await visitor.reads("Agents you can claim")
    await visitor.page.get_by_role("button", name="Claim").click()
    await visitor.reads("We sent a link to the mailbox of that agent")
    await follow_email(visitor, email, "Take over")
    await visitor.page.get_by_role("main").get_by_role("button").click()
    await visitor.reads("The agent's API keys are yours now.")
    assert await visitor.page.get_by_role("link", name="Revoke").count() == 1


async def test_a_refused_request_is_answered_by_a_page(visitor: Visitor) -> None:
    await visitor.sign_up("clumsy@people.example")
    await visitor.open("/settings/account/password")
    await visitor.page.locator("main [name=csrf]").evaluate("field => { field.value = 'x' }")
    await visitor.press("Set the password")
    await visitor.reads("This form belongs to another session, or to none.")
    await visitor.open("/settings/account/password")
    await visitor.page.locator("#password").evaluate("field => { field.maxLength = 99999 }")
    await visitor.page.locator("#password").fill("x" * 17_000)
    await visitor.press("Set the password")
    await visitor.reads("The text is too long")
    for path, title in (
        ("/settings/api-keys/new?name=a&name=b", "This request cannot be read"),
        ("/settings/account/verify", "This page cannot be used this way"),
        ("/settings/api-keys/1", "This page does not exist"),
        ("/admin", "This page does not exist"),
    ):
        await visitor.open(path)
        await visitor.reads(title)
    await visitor.follow("Go to the start")
    await visitor.reads("Signed in as clumsy@people.example")


async def test_times_are_shown_in_the_zone_of_the_reader_with_utc_on_hover(
    chromium: Browser, live_site: Website
) -> None:
    async with visiting(chromium, live_site.origin, zone="Asia/Kolkata") as visitor:
        await visitor.sign_up("far-away@people.example")
        await visitor.open("/settings/account")
        moment = visitor.page.locator("time[data-moment]").first
        at = datetime.fromisoformat(await moment.get_attribute("datetime") or "")
        there = at.astimezone(timezone(timedelta(hours=5, minutes=30)))
        await expect(moment).to_have_text(
            re.compile(rf"^{there.day} {there:%b}\w* {there:%Y, %H:%M} (IST|GMT\+5:30)$")
        )
        await expect(moment).to_have_attribute("title", f"{at.day} {at:%b %Y, %H:%M} UTC")
        await visitor.page.evaluate(
            """() => document.querySelector("main").insertAdjacentHTML("beforeend",
               '<time id="later" datetime="2026-11-22T22:13:20Z" data-moment="clock">x</time>')"""
        )
        await expect(visitor.page.locator("#later")).to_have_text("03:43:20")
    async with visiting(chromium, live_site.origin, scripts=False, zone="Asia/Kolkata") as visitor:
        await visitor.sign_in("far-away@people.example", "/settings/account")
        await expect(visitor.page.locator("time[data-moment]").first).to_have_text(
            f"{at.day} {at:%b %Y, %H:%M} UTC"
        )
