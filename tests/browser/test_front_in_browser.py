"""The front page in a browser: painted soon, without layout shifts, usable without scripts."""

import asyncio
import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, Route, expect

from support.scenes.people.browsing import MOVED, visiting
from support.scenes.shown_market import mint_named
from support.scenes.website import Website, served_website

pytestmark = pytest.mark.asyncio(loop_scope="session")

LARGEST_PAINT_MS_MAX = 1_000
WEIGHT_BYTES_MAX = 60_000
PAINTED = """() => {
  new PerformanceObserver((list) => { window.painted = list.getEntries().at(-1).startTime; })
    .observe({ type: "largest-contentful-paint", buffered: true });
}"""
WEIGHT = """() => performance.getEntriesByType("navigation")
  .concat(performance.getEntriesByType("resource"))
  .reduce((sum, entry) => sum + entry.encodedBodySize, 0)"""
SEEN = """(hidden) => {
  Object.defineProperty(document, "hidden", { value: hidden !== "", configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
SCRIPTS_LATE_S = 0.4
NARROW = (360, 780)
WIDE = (1280, 900)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shop(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Website]:
    folder = tmp_path_factory.mktemp("shop")
    async with served_website(folder, has_market=True, has_payments=True) as site:
        yield site


@pytest.mark.parametrize("path", ["/", "/tokens", "/status"])
async def test_a_page_is_light_and_painted_soon_with_an_empty_cache(
    chromium: Browser, shop: Website, path: str
) -> None:
    """The quickest of three visits counts, because other tests run on this machine."""
    painted = []
    for _ in range(3):
        async with visiting(chromium, shop.origin) as visitor:
            await visitor.open(path)
            await visitor.page.evaluate(PAINTED)
            await visitor.page.wait_for_load_state("networkidle")
            await visitor.page.wait_for_function("window.painted > 0")
            painted.append(await visitor.page.evaluate("window.painted"))
            weight = await visitor.page.evaluate(WEIGHT)
        assert 0 < weight <= WEIGHT_BYTES_MAX
    assert min(painted) < LARGEST_PAINT_MS_MAX


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
async def test_nothing_moves_if_scripts_load_late(
    chromium: Browser, shop: Website, size: tuple[int, int]
) -> None:
    """On a slow machine, scripts show or write parts after the page was painted."""

    async def late(route: Route) -> None:
        await asyncio.sleep(SCRIPTS_LATE_S)
        await route.continue_()

    async with visiting(chromium, shop.origin, size=size, zone="Asia/Tokyo") as visitor:
        page = visitor.page
        await page.add_init_script(MOVED)
        await page.route("**/*.js", late)
        token = f"/token/{mint_named('SOL')}"
        for path in ("/", "/tokens", token, "/pricing", "/credits", "/docs", "/status"):
            await visitor.open(path)
            await page.wait_for_timeout(100)  # until all layout shifts are recorded
            if path == token:
                await page.locator(".chart .moving canvas").first.wait_for()
            assert [path, *await page.evaluate("window.moved")] == [path]


@pytest.mark.parametrize("way", ["event", "asked for again"])
async def test_live_parts_of_the_front_page_change_and_nothing_moves(
    chromium: Browser, shop: Website, way: str
) -> None:
    assert shop.market is not None
    async with visiting(chromium, shop.origin) as visitor:
        page = visitor.page
        if way != "event":
            await page.route("**/live/events", lambda route: route.fulfill(status=503))
        await page.add_init_script(MOVED)
        await visitor.open("/")
        finder = page.get_by_label("Find a token")
        await finder.fill("ju")
        await expect(page.locator('[data-part="age"]')).to_have_text(re.compile(r"^[1-9] s old$"))
        for _ in range(2):
            shop.clock.advance(1_000)
            await shop.market.trade()
            await page.locator(f'#live[data-live="{shop.market.slot}"]').wait_for()
        price = shop.market.prices[mint_named("SOL")]
        await expect(page.locator('[data-part="answer"]')).to_contain_text(str(price))
        await expect(page.locator('[data-part="price"]')).to_contain_text(f"${price:.2f}")
        await expect(finder).to_be_focused()
        await expect(finder).to_have_value("ju")
        assert await page.evaluate("window.moved") == []
        visitor.mishaps.clear()  # the browser reports the refused requests
        if way == "event":
            await _be_hidden(page, shop)
            slot = shop.market.slot
            await shop.market.trade()
            await page.evaluate(SEEN, "")
            await page.locator(f'#live[data-live="{slot + 1}"]').wait_for()


async def _be_hidden(page: Page, shop: Website) -> None:
    """Hide the page, and wait until its stream is closed."""
    assert shop.market is not None
    streams = shop.market.parts.streams
    assert streams.open_count == 1
    await page.evaluate(SEEN, "hidden")
    for _ in range(100):
        if not streams.open_count:
            break
        await page.wait_for_timeout(50)
    assert streams.open_count == 0


@pytest.mark.parametrize("scripts", ["with", "without"])
async def test_a_stranger_finds_a_token_and_a_line_to_copy(
    chromium: Browser, shop: Website, scripts: str
) -> None:
    async with visiting(chromium, shop.origin, scripts=scripts == "with") as visitor:
        page = visitor.page
        await visitor.open("/")
        assert await page.locator(".area-chart path.line").get_attribute("d")
        for way in ("MCP", "Python", "curl"):
            await page.get_by_role("radio", name=way, exact=True).check()
            await expect(page.locator(".way:visible")).to_have_count(1)
        await expect(page.locator(".way:visible")).to_contain_text("curl -H")
        copy = page.get_by_role("button", name="Copy", exact=True)
        await expect(copy).to_have_count(1 if scripts == "with" else 0)
        await page.get_by_label("Find a token").fill("jup")
        await visitor.press("Find")
        await expect(page.locator("tr[data-mint]")).to_have_count(1)
