"""A takeover of an account, in the browser of the thief and in that of the owner."""

import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from mintscope.kit.audit import UserId
from support.scenes.people.browsing import visiting
from support.scenes.people.takeover import (
    THEIR_WALLET,
    break_in,
    expect_the_owners_alone,
    move_in,
)
from support.scenes.website import MINUTE_MS, PASSWORD, Website, served_website

pytestmark = pytest.mark.asyncio(loop_scope="session")

OWNER, THIEF = "ann@takeover.example", "mallory@takeover.example"
NEW_PASSWORD = "a different good one"


@pytest_asyncio.fixture(loop_scope="session")
async def own_site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Website]:
    """Yield a service for one test, so that other tests cannot use up its limits."""
    async with served_website(tmp_path_factory.mktemp("site")) as site:
        yield site


async def link_to(site: Website, email: str, path: str) -> str:
    """Return the link under *path* in the newest e-mail to *email*."""
    found = re.search(re.escape(site.origin) + rf"({path}\S+)", await site.email(email))
    assert found
    return found[1]


async def reported_of(site: Website, text: str) -> str:
    """Return the text of the newest e-mail that contains *text*."""
    assert site.accounts.mailbox is not None
    posted = await site.accounts.mailbox.recent(limit=100)
    return next(each.email.text for each in posted if text in each.email.text)


async def test_the_undo_removes_all_of_the_thief_and_keeps_all_of_the_owner(
    own_site: Website, chromium: Browser
) -> None:
    origin = own_site.origin
    async with visiting(chromium, origin) as owner, visiting(chromium, origin) as thief:
        await owner.sign_up(OWNER)
        await owner.open(await link_to(own_site, OWNER, "/verify/"))
        await owner.press("Yes, verify it")
        found = await move_in(own_site, OWNER)
        own_site.clock.advance(MINUTE_MS)

        await thief.sign_in(OWNER)
        own_site.clock.advance(11 * MINUTE_MS)
        await thief.open("/settings/account/email")
        assert thief.path.startswith("/prove")  # a sign-in is fresh for ten minutes
        await thief.page.get_by_label(f"Password of {OWNER}", exact=True).fill(PASSWORD)
        await thief.press("Continue")
        await thief.page.get_by_label("New e-mail address", exact=True).fill(THIEF)
        await thief.press("Send the link")
        await thief.open(await link_to(own_site, THIEF, "/change-email/"))
        await thief.press("Use this address")
        undo = await link_to(own_site, OWNER, "/undo-email/")
        (session,) = await own_site.accounts.people.sessions(UserId(1))
        stolen = await break_in(own_site, session, found)
        await owner.open("/settings/account")
        assert owner.path.startswith("/sign-in")
        for made in ("new API key", "authenticator app", THEIR_WALLET):
            assert "/undo-email/" in await reported_of(own_site, made)
        async with visiting(chromium, origin) as stranger:
            await stranger.open("/sign-up")
            await stranger.fill(E_mail_address=OWNER, Password=NEW_PASSWORD)
            await stranger.press("Create the account")
            await stranger.reads("An account with this address")

        await owner.open(undo)
        await owner.reads("Take the account back?")
        await owner.press("Take it back")
        await owner.reads("The account is yours again")
        for line in (
            *(
                "One session.",
                "One API key.",
                "2 authenticator apps and passkeys.",
                "One linked wallet.",
            ),
            *("One alert.", "The webhook of one alert", "One cap of an API key"),
        ):
            await owner.reads(line)
        await owner.follow("Choose a new password")
        await owner.fill(New_password=NEW_PASSWORD)
        await owner.press("Set the password")
        await owner.fill(E_mail_address=OWNER, Password=NEW_PASSWORD)
        await owner.press("Sign in")
        await owner.open("/settings/account")
        await owner.reads(OWNER)

        await thief.open("/settings/account")
        assert thief.path.startswith("/sign-in")
        for email in (OWNER, THIEF):
            await thief.open("/sign-in")
            await thief.fill(E_mail_address=email, Password=PASSWORD)
            await thief.press("Sign in")
            await thief.reads("The e-mail address or the password is wrong.")

    expect_the_owners_alone(own_site)
    keys = own_site.accounts.keys
    assert await keys.find(stolen) is None
    assert await keys.find(found.key) is not None
