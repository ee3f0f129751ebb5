"""Settings > API keys, used by a person in a browser."""

import re

import httpx
import pytest
from playwright.async_api import Browser, Dialog, expect

from support.scenes.people.browsing import Visitor, visiting
from support.scenes.service import bearer
from support.scenes.website import PASSWORD, Website

pytestmark = pytest.mark.asyncio(loop_scope="session")

KEYS = "/settings/api-keys"
SECRET = re.compile("svc_live_[0-9a-f]{80}")


async def ask_for_key(visitor: Visitor, name: str = "My bot") -> None:
    """Fill in the form for a new API key, and open the page that reviews it."""
    await visitor.open(f"{KEYS}/new")
    await visitor.fill(Name=name)
    await (
        visitor.page.get_by_role("group", name="Data and credits")
        .get_by_label("Read and write")
        .check()
    )
    await visitor.page.get_by_label("30 days").check()
    await visitor.press("Review")


async def make_key(visitor: Visitor, name: str = "My bot") -> str:
    """Make a key and leave the page that shows it; return the key."""
    await ask_for_key(visitor, name)
    await visitor.press("Create key")
    secret = await visitor.page.locator("#secret").inner_text()
    await visitor.page.get_by_label("I saved it").check()
    await visitor.press("Done")
    return secret


async def whose(site: Website, secret: str) -> httpx.Response:
    async with httpx.AsyncClient() as client:
        return await client.get(f"{site.origin}/v1/me", headers=bearer(secret))


async def test_a_key_is_made_copied_saved_and_works(live_site: Website, visitor: Visitor) -> None:
    await visitor.sign_up("ann@keys.example")
    await visitor.open(KEYS)
    await visitor.reads("No active keys.")
    await visitor.follow("New key")
    await visitor.fill(Name="My bot")
    await (
        visitor.page.get_by_role("group", name="Data and credits")
        .get_by_label("Read and write")
        .check()
    )
    await visitor.press("Review")
    for text in ("Buy credits, move credits", "Spend the credits of your account", "It expires on"):
        await visitor.reads(text)
    await visitor.press("Create key")

    secret = await visitor.page.locator("#secret").inner_text()
    assert SECRET.fullmatch(secret)
    await visitor.page.get_by_role("button", name="Copy the key").click()
    await expect(visitor.page.get_by_role("button", name="Copied")).to_be_visible()
    await expect(visitor.page.locator("#copy-status")).to_have_text("Copied to the clipboard.")
    assert await visitor.page.evaluate("navigator.clipboard.readText()") == secret
    await expect(visitor.page.get_by_role("button", name="Done")).to_be_disabled()
    await visitor.page.get_by_label("I saved it").check()
    await visitor.press("Done")

    assert visitor.path == KEYS
    assert secret not in await visitor.page.content()
    me = (await whose(live_site, secret)).json()["data"]
    assert me["keyName"] == "My bot"
    assert me["scopes"] == ["trade:read", "trade:write"]


async def test_a_person_who_leaves_before_the_key_is_saved_is_asked(visitor: Visitor) -> None:
    await visitor.sign_up("bea@keys.example")
    await ask_for_key(visitor)
    await visitor.press("Create key")
    asked: list[str] = []

    async def stay(dialog: Dialog) -> None:
        asked.append(dialog.type)
        await dialog.dismiss()

    visitor.page.on("dialog", stay)
    await visitor.page.get_by_role("link", name="Account").click()
    await expect(visitor.page.locator("#secret")).to_be_visible()

    assert asked == ["beforeunload"]


async def test_a_reload_shows_the_list_and_makes_no_second_key(
    visitor: Visitor,
) -> None:
    await visitor.sign_up("cid@keys.example")
    await ask_for_key(visitor)
    await visitor.press("Create key")
    secret = await visitor.page.locator("#secret").inner_text()
    assert visitor.path.rstrip("?") == KEYS
    await visitor.page.get_by_label("I saved it").check()
    await visitor.page.reload()

    assert await visitor.page.get_by_role("link", name="My bot", exact=True).count() == 1
    await visitor.page.go_back()
    assert secret not in await visitor.page.content()


async def test_a_key_is_made_without_scripts(chromium: Browser, live_site: Website) -> None:
    async with visiting(chromium, live_site.origin, scripts=False) as visitor:
        await visitor.sign_up("dan@keys.example")
        await ask_for_key(visitor)
        await visitor.press("Create key")
        secret = await visitor.page.locator("#secret").inner_text()
        assert await visitor.page.get_by_role("button", name="Copy the key").count() == 0

        # A reload sends the form again, which makes no second key.
        await visitor.page.reload()
        await visitor.reads("This was already done")
        await visitor.follow("See your keys")
        assert await visitor.page.get_by_role("link", name="My bot", exact=True).count() == 1
    assert (await whose(live_site, secret)).status_code == 200


async def test_a_refused_form_says_why_and_keeps_the_typed_text(
    visitor: Visitor,
) -> None:
    await visitor.sign_up("eve@keys.example")
    await visitor.open(f"{KEYS}/new?preset=trading-bot")
    await visitor.press("Review")
    await visitor.reads("Enter a name by which you recognize the key later.")
    trade = visitor.page.get_by_role("group", name="Data and credits")
    await expect(trade.get_by_label("Read and write")).to_be_checked()
    await expect(visitor.page.get_by_label("Name")).to_be_focused()

    await visitor.open(f"{KEYS}/new/review?name={'x' * 65}&trade=all&lifetime=2d")
    for text in (
        "Expected at most 64 characters; there were 65.",
        "Choose none, read, or read and write.",
    ):
        await visitor.reads(text)
    await visitor.reads("Choose one of the listed options.")
    await visitor.open(f"{KEYS}/new/review?name=a%09b")
    await visitor.reads("Expected a name without control characters.")


@pytest.mark.parametrize(
    ("preset", "can"), [("read", 4), ("trading-bot", 3), ("everything", 8), ("", 0)]
)
async def test_a_preset_fills_in_the_scopes_of_a_new_key(
    visitor: Visitor, preset: str, can: int
) -> None:
    await visitor.sign_up(f"preset{preset}@keys.example")
    await visitor.open(f"{KEYS}/new?preset={preset}")
    await visitor.fill(Name="Begun")
    await visitor.press("Review")

    assert await visitor.page.locator(".can li").count() == can + 1
    is_warned = await visitor.page.get_by_text("This key has no scopes").count() == 1
    assert is_warned == (can == 0)


async def test_a_key_is_rotated_with_an_overlap_and_revoked(
    live_site: Website, visitor: Visitor
) -> None:
    await visitor.sign_up("fay@keys.example")
    old = await make_key(visitor)
    await visitor.follow("Rotate My bot")
    await visitor.page.get_by_label("After 1 hour").check()
    await visitor.press("Rotate key")
    new = await visitor.page.locator("#secret").inner_text()
    await visitor.reads("keeps working for an hour")
    await visitor.page.get_by_label("I saved it").check()
    await visitor.press("Done")
    await visitor.reads("Replaced")
    assert [(await whose(live_site, key)).status_code for key in (old, new)] == [200, 200]

    await visitor.page.get_by_role("link", name="Revoke My bot").first.click()
    await visitor.reads("This cannot be undone.")
    await visitor.press("Revoke the key")
    await visitor.reads("The key is revoked.")
    live_site.clock.advance(3_600_000)
    assert [(await whose(live_site, key)).status_code for key in (old, new)] == [401, 401]


async def test_an_unknown_overlap_is_refused_and_the_key_stays_valid(
    live_site: Website, visitor: Visitor
) -> None:
    await visitor.sign_up("gil@keys.example")
    secret = await make_key(visitor)
    await visitor.follow("Rotate My bot")
    await visitor.page.evaluate("document.querySelector(':checked').value = '9y'")
    await visitor.press("Rotate key")

    await visitor.reads("Choose one of the listed options.")
    assert (await whose(live_site, secret)).status_code == 200


async def test_the_typed_form_is_kept_while_the_password_is_asked_for(
    live_site: Website, visitor: Visitor
) -> None:
    await visitor.sign_up("hal@keys.example")
    await ask_for_key(visitor, "Late & slow")
    live_site.clock.advance(11 * 60_000)
    await visitor.press("Create key")
    await visitor.reads("The next step needs your password again.")
    password = visitor.page.get_by_label("Password of hal@keys.example", exact=True)
    await password.fill("wrong password")
    await visitor.press("Continue")
    await visitor.reads("That is not your password.")
    await password.fill(PASSWORD)
    await visitor.press("Continue")
    await visitor.reads("Review “Late & slow”")
    await visitor.press("Create key")

    assert SECRET.fullmatch(await visitor.page.locator("#secret").inner_text())


async def test_badges_show_the_state_of_each_key(live_site: Website, visitor: Visitor) -> None:
    await visitor.sign_up("ida@keys.example")
    secret = await make_key(visitor)
    await visitor.reads("Never used")
    await whose(live_site, secret)
    await live_site.accounts.keys.flush()
    await visitor.page.reload()
    await visitor.reads("Active")
    live_site.clock.advance(24 * 86_400_000)
    await visitor.sign_in("ida@keys.example", KEYS)
    await visitor.reads("Expires soon")
    live_site.clock.advance(7 * 86_400_000)
    await visitor.sign_in("ida@keys.example", KEYS)
    await visitor.page.get_by_text("Ended keys").click()

    await visitor.reads("Expired")
