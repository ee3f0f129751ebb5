"""The clicks and seconds that tasks take, measured in the browser, from the page where they begin.

Typing takes no click: the keyboard leads from field to field.  The seconds are measured at the pace
of this script: a person who reads and types takes longer.  The bounds of the seconds are wide,
because other tests run at the same time; a page that hangs, or asks for a wait, exceeds them.
"""

from pathlib import Path
from typing import Final

import pytest
from clicks import Clicks
from playwright.async_api import Browser, expect

from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import DAY_MS
from support.scenes.payments.paid_rows import PaidRow, insert
from support.scenes.people.browsing import visiting
from support.scenes.website import ADMINISTRATOR, Website, served_website

ANN: Final = "ann@clicks.example"
CLICKS_MAX: Final = {"top_mover": 3, "rsi": 1, "alert": 6, "key": 5, "paid": 2}
TASK_S_MAX: Final = 60.0  # for tasks that take one or two on an idle machine


async def top_mover(clicks: Clicks) -> None:
    """Find the token whose price rose most, and its buy and sell pressure."""
    visitor = clicks.visitor
    await clicks.begin("/")
    await visitor.follow("Tokens")
    await visitor.follow("Gainers")
    async with visitor.page.expect_navigation():
        await visitor.page.locator("tbody tr").first.get_by_role("link").first.click()
    await expect(visitor.page.locator("#pressure")).to_be_visible()
    clicks.token = visitor.path


async def rsi(clicks: Clicks) -> None:
    """Follow the link of the RSI in the list of tokens to its explanation."""
    await clicks.begin("/tokens")
    await clicks.visitor.page.get_by_role("link", name="RSI", exact=True).first.click()
    await clicks.visitor.reads("A token is called overbought above 70")


async def alert(clicks: Clicks) -> None:
    """Create an alert that sends an e-mail when the RSI rises above 70."""
    visitor = clicks.visitor
    await clicks.begin(clicks.token)
    await visitor.follow("Make an alert")
    await visitor.fill(Level="70", Name="High RSI")
    await visitor.page.get_by_label("E-mail to").check()
    await visitor.press("Create alert")
    if await visitor.page.get_by_role("button", name="Create it anyway").count():
        await visitor.press("Create it anyway")
    await visitor.reads("High RSI")


async def key(clicks: Clicks) -> None:
    """Create an API key with a monthly cap."""
    visitor = clicks.visitor
    await clicks.begin("/")
    await visitor.follow("Settings")
    await visitor.follow("New key")
    await visitor.fill(Name="My bot")
    await visitor.page.get_by_label("Credits a month").fill("100")
    await visitor.press("Review")
    await visitor.press("Create key")
    await expect(visitor.page.locator("#secret")).to_be_visible()


async def paid(site: Website, clicks: Clicks) -> None:
    """As an administrator, find the payment that a customer made last week."""
    user = next(u for u in await site.accounts.review.users(limit=9) if u.email == ANN)
    account = await site.accounts.credits.open(user.user_id)
    at = UnixMs(site.clock.now() - 6 * DAY_MS)
    insert(site.folder, PaidRow(number=1, begun_at=at, account=account))
    await clicks.begin("/admin")
    await clicks.visitor.follow("Users")
    await clicks.visitor.follow(user.username)
    await clicks.visitor.reads("0.025 USDC")


@pytest.mark.asyncio(loop_scope="session")
async def test_each_task_takes_at_most_its_allowed_clicks_and_seconds(
    chromium: Browser, tmp_path: Path
) -> None:
    took: dict[str, int] = {}
    seconds: dict[str, float] = {}
    async with served_website(tmp_path, has_market=True) as site:
        assert site.market is not None
        await site.market.trade()
        async with visiting(chromium, site.origin) as visitor:
            clicks = Clicks(visitor)
            await clicks.listen()
            await visitor.sign_up(ANN)
            await visitor.open(await site.link(ANN))
            await visitor.page.locator("main button").click()
            for task in (top_mover, rsi, alert, key):
                await task(clicks)
                took[task.__name__] = clicks.count
                seconds[task.__name__] = clicks.seconds
        await site.make_administrator()
        async with visiting(chromium, site.origin) as visitor:
            clicks = Clicks(visitor)
            await clicks.listen()
            await visitor.sign_in(ADMINISTRATOR)
            await paid(site, clicks)
            took["paid"] = clicks.count
            seconds["paid"] = clicks.seconds
    for name, count in took.items():
        print(f"{name:12} {count} of {CLICKS_MAX[name]} clicks, {seconds[name]:.1f} s")  # noqa: T201
    assert {name: count for name, count in took.items() if count > CLICKS_MAX[name]} == {}
    assert min(took.values()) >= 1, "clicks are counted"
    assert {name: each for name, each in seconds.items() if each > TASK_S_MAX} == {}
