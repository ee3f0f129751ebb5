"""The list of tokens in a browser: it is updated in place, and is usable without scripts."""

import asyncio
import re
from collections.abc import AsyncIterator
from urllib.parse import urljoin

import pytest
import pytest_asyncio
from page_checks import PAINTED
from playwright.async_api import Browser, Page, Route, expect

from support.scenes.people.browsing import MOVED, Visitor, visiting
from support.scenes.shown_market import mint_named
from support.scenes.website import PASSWORD, Website, served_website

pytestmark = pytest.mark.asyncio(loop_scope="session")

JUP, WIF = mint_named("JUP"), mint_named("WIF")
EVENTS = re.compile("/tokens/events")
MINTS = "() => [...document.querySelectorAll('tr[data-mint]')].map((row) => row.dataset.mint)"
LOSE = """(mints) => {
  for (const mint of mints) document.querySelector(`tr[data-mint="${mint}"]`).remove();
  document.getElementById("list").dataset.live = "";
}"""
HEIGHTS = """() => [...document.querySelectorAll("tr[data-mint]")]
  .map((row) => row.getBoundingClientRect().height)"""
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
SEEN = """(hidden) => {
  Object.defineProperty(document, "hidden", { value: hidden !== "", configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shop(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Website]:
    async with served_website(tmp_path_factory.mktemp("shop"), has_market=True) as site:
        yield site


async def watched(visitor: Visitor) -> list[str]:
    stars = visitor.page.locator("tr:has(.star.on)")
    return [each for star in await stars.all() if (each := await star.get_attribute("data-mint"))]


async def test_rows_change_in_place_and_nothing_moves(chromium: Browser, shop: Website) -> None:
    assert shop.market is not None
    async with visiting(chromium, shop.origin) as visitor:
        page = visitor.page
        await page.add_init_script(MOVED)
        await visitor.open("/tokens?sort=age")  # all are of one age, so that their order stays
        row = page.locator(f'tr[data-mint="{JUP}"]')
        link = page.get_by_role("link", name="Price", exact=True)
        await link.focus()
        await row.evaluate("row => { row.dataset.mine = 'yes' }")
        shop.clock.advance(1_000)
        await shop.market.trade()
        slot = shop.market.slot
        await page.locator(f'#list[data-live="{slot}"]').wait_for()

        shown = float(await row.locator(".price").get_attribute("data-value") or 0)
        assert shown == shop.market.prices[JUP]
        assert await row.get_attribute("data-mine") == "yes"
        await expect(link).to_be_focused()
        assert await page.evaluate("window.moved") == []
        await expect(page.locator("#late")).to_be_hidden()

        async with page.expect_navigation():
            await page.get_by_role("combobox", name="Volume").select_option("1m")
        await page.go_back()
        await expect(page.get_by_role("combobox", name="Volume")).to_have_value("")


async def test_a_text_that_is_typed_while_the_page_loads_stays(
    chromium: Browser, shop: Website
) -> None:
    is_typed = asyncio.Event()

    async def delay(route: Route) -> None:
        await is_typed.wait()
        await route.continue_()

    async with visiting(chromium, shop.origin) as visitor:
        page = visitor.page
        await page.route("**/tokens*.js*", delay)
        await page.goto(f"{shop.origin}/tokens", wait_until="commit")
        name = page.get_by_label("Name, symbol or mint")
        await name.fill("jup")
        is_typed.set()
        await page.wait_for_load_state("load")
        await page.evaluate(PAINTED)  # by then, the listeners of the event pageshow have run
        await expect(name).to_have_value("jup")


async def test_a_row_that_is_added_to_the_list_has_its_star(
    chromium: Browser, shop: Website
) -> None:
    """The test removes two rows; the page gets all rows when it is shown again."""
    async with visiting(chromium, shop.origin) as visitor:
        page = visitor.page
        await visitor.sign_up("stars@people.example")
        await visitor.reads("Your account is ready")
        assert visitor.path == "/"  # a reload of this address does not repeat the text
        await visitor.open("/tokens?sort=age")
        await page.get_by_role("button", name="Watch JUP", exact=True).click()
        await page.get_by_role("button", name="Stop watching JUP", exact=True).wait_for()
        await expect(page.locator("#watched")).to_have_text("1")
        mints = await page.evaluate(MINTS)
        await page.evaluate(LOSE, [JUP, WIF])
        assert len(await page.evaluate(MINTS)) == len(mints) - 2
        for hidden in ("hidden", ""):
            await page.evaluate(SEEN, hidden)
        await page.locator(f'tr[data-mint="{WIF}"]').wait_for()

        assert await page.evaluate(MINTS) == mints
        assert await watched(visitor) == [JUP]
        cells = page.locator(f'tr[data-mint="{WIF}"] > *')
        assert await cells.count() == await page.locator("thead th").count()
        await page.get_by_role("button", name="Watch WIF", exact=True).click()
        await page.get_by_role("button", name="Stop watching WIF", exact=True).wait_for()


@pytest.mark.parametrize("scripts", ["with", "without"])
async def test_a_token_is_found_and_watched(chromium: Browser, shop: Website, scripts: str) -> None:
    shop.clock.advance(60_000)
    async with visiting(chromium, shop.origin, scripts=scripts == "with") as visitor:
        page = visitor.page
        await visitor.sign_up(f"watcher-{scripts}@people.example")
        await visitor.follow("Tokens")
        await page.get_by_label("Name, symbol or mint").fill("jup")
        await visitor.press("Show")
        assert visitor.path.startswith("/tokens?q=jup")
        await page.get_by_role("button", name="Watch JUP", exact=True).click()
        off = page.get_by_role("button", name="Stop watching JUP", exact=True)
        await off.wait_for()
        if scripts == "with":
            await expect(off).to_be_focused()
        assert visitor.path.startswith("/tokens?q=jup")
        await visitor.open("/tokens?watched=1")
        assert await watched(visitor) == [JUP]
        async with page.expect_response(lambda answer: answer.request.method == "POST"):
            await page.get_by_role("button", name="Stop watching JUP", exact=True).click()
        await visitor.open("/tokens")
        assert await watched(visitor) == []


async def test_a_star_without_a_connection_says_that_nothing_was_changed(
    chromium: Browser, shop: Website
) -> None:
    shop.clock.advance(60_000)
    async with visiting(chromium, shop.origin) as visitor:
        page = visitor.page
        await visitor.sign_up("offline@people.example")
        await visitor.open("/tokens")
        await page.route("**/tokens/watch", lambda route: route.abort())
        await page.get_by_role("button", name="Watch JUP", exact=True).click()
        failure = page.get_by_text("The watchlist was not changed")
        await expect(failure).to_be_visible()
        await page.unroute("**/tokens/watch")
        await page.get_by_role("button", name="Watch JUP", exact=True).click()
        await page.get_by_role("button", name="Stop watching JUP", exact=True).wait_for()
        await expect(failure).to_be_hidden()
        visitor.mishaps[:] = [each for each in visitor.mishaps if "/tokens/watch" not in each]


@pytest.mark.parametrize("scripts", ["with", "without"])
async def test_the_token_of_an_alert_is_found_by_its_name(
    chromium: Browser, shop: Website, scripts: str
) -> None:
    shop.clock.advance(60_000)
    async with visiting(chromium, shop.origin, scripts=scripts == "with") as visitor:
        page = visitor.page
        await visitor.sign_up(f"alerted-{scripts}@people.example")
        await visitor.open("/alerts/new")
        await page.get_by_label("Name", exact=True).fill("Kept")
        await page.get_by_label("Token", exact=True).focus()
        below = await page.get_by_label("Level").bounding_box()
        await page.get_by_label("Token", exact=True).fill("jup")
        if scripts == "without":
            await visitor.press("Find")
        choice = page.get_by_role("list", name="Tokens that were found").get_by_role("button")
        await expect(choice).to_contain_text("JUP")
        if scripts == "with":
            assert await page.get_by_label("Level").bounding_box() == below
            await page.keyboard.press("Escape")
            await expect(choice).to_be_hidden()
            await page.get_by_label("Token", exact=True).press_sequentially(" ")
            await expect(choice).to_be_visible()
            await page.keyboard.press("ArrowDown")
            await expect(choice).to_be_focused()
            await page.keyboard.press("Enter")
        else:
            await choice.click()
        await visitor.reads("This is JUP")
        if scripts == "with":
            assert await page.get_by_label("Level").bounding_box() == below
        await expect(page.get_by_label("Token", exact=True)).to_have_value(JUP)
        await page.get_by_label("Level").fill("70")
        await page.get_by_label("Level").press("Enter")  # sends the form, and does not search again
        await visitor.reads("Nothing notifies you")
        await visitor.press("Create it anyway")
        await visitor.reads("RSI, 1 hour rises above 70.0")
        await visitor.reads("Kept")


async def test_print_hides_controls_and_forced_colours_mark_the_current_link(
    chromium: Browser, shop: Website
) -> None:
    async with visiting(chromium, shop.origin) as visitor:
        page = visitor.page
        await visitor.open("/tokens")
        await page.emulate_media(media="print")
        await expect(page.get_by_role("navigation", name="Main")).to_be_hidden()
        await expect(page.get_by_role("combobox", name="Volume")).to_be_hidden()
        await expect(page.locator(f'tr[data-mint="{JUP}"]')).to_be_visible()
        await page.emulate_media(media="screen", forced_colors="active")
        current = page.get_by_role("link", name="Most traded")
        assert await current.evaluate("link => getComputedStyle(link).outlineStyle") == "solid"


async def test_a_form_sent_after_the_session_ended_is_kept_for_its_sender(
    chromium: Browser, shop: Website
) -> None:
    """The form is shown once, to its sender, and not to another account."""
    async with visiting(chromium, shop.origin) as visitor:
        page = visitor.page
        level, name = page.get_by_label("Level"), page.get_by_label("Name", exact=True)
        await visitor.sign_up("other@people.example")
        await page.context.clear_cookies()
        await visitor.sign_up("typed@people.example")
        await type_an_alert(page)
        await visitor.press("Create alert")
        assert visitor.path == "/sign-in?next=%2Falerts%2Fnew"
        await visitor.fill(E_mail_address="typed@people.example", Password=PASSWORD)
        await visitor.press("Sign in")
        await visitor.reads("What you typed is here again")
        await expect(level).to_have_value("171.5")
        await expect(name).to_have_value("Mine")
        await page.reload()
        await expect(level).to_have_value("")

        await type_an_alert(page)
        await visitor.press("Create alert")
        await visitor.fill(E_mail_address="other@people.example", Password=PASSWORD)
        await visitor.press("Sign in")
        await expect(name).to_have_value("")


async def test_a_form_of_an_earlier_session_is_kept_for_its_sender(
    chromium: Browser, shop: Website
) -> None:
    """The sender has signed out and in again in another tab before the form is sent."""
    async with visiting(chromium, shop.origin) as visitor:
        page = visitor.page
        email = "twice@people.example"
        await visitor.sign_up(email)
        await visitor.open("/settings/account")
        await page.get_by_label("User name").fill("typed-name")
        other = Visitor(await page.context.new_page(), shop.origin)
        await other.open("/")
        await other.press("Sign out")
        await other.sign_in(email)
        await page.locator('form[action="/settings/account/name"] button').click()
        await visitor.reads("This form belongs to another session")
        await visitor.follow("Open the page again")
        await visitor.reads("What you typed is here again")
        await page.locator('form[action="/settings/account/name"] button').click()
        await visitor.reads("Your user name is changed.")
        await expect(page.get_by_label("User name")).to_have_value("typed-name")


@pytest.mark.parametrize("scripts", [True, False])
async def test_a_copied_price_is_copied_once(
    chromium: Browser, shop: Website, *, scripts: bool
) -> None:
    """With scripts, the whole number is copied; without scripts, the number as it is shown."""
    async with visiting(chromium, shop.origin, scripts=scripts) as visitor:
        page = visitor.page
        await visitor.open("/tokens")
        price = page.locator("#list .number[title]:has(.unseen)").first
        shown = await price.locator("[aria-hidden]").text_content()
        whole = await price.get_attribute("title")
        await price.evaluate("each => getSelection().selectAllChildren(each.closest('td'))")
        await page.keyboard.press("ControlOrMeta+c")
        copied = await page.evaluate("navigator.clipboard.readText()")
        assert shown
        assert whole
        wanted = whole if scripts else shown
        assert copied.count(wanted) == 1
        # The rest alone: digits of the whole number may begin with the number that is shown.
        rest = copied.replace(wanted, "", 1)
        assert (shown if scripts else whole) not in rest


async def type_an_alert(page: Page) -> None:
    """Fill in the form of a new alert, and then delete the session cookie."""
    await page.goto(urljoin(page.url, "/alerts/new"))
    await page.get_by_label("Level").fill("171.5")
    await page.get_by_label("Name", exact=True).fill("Mine")
    await page.context.clear_cookies()


async def test_a_list_without_updates_says_that_it_is_late(
    chromium: Browser, shop: Website
) -> None:
    async with visiting(chromium, shop.origin) as visitor:
        await visitor.open("/tokens")
        await visitor.page.clock.install()
        await visitor.page.route(EVENTS, lambda route: route.fulfill(status=503))
        await visitor.page.route("**/tokens?*", lambda route: route.abort("internetdisconnected"))
        await visitor.page.reload()
        for _ in range(4):
            await visitor.page.clock.run_for(20_000)
        await expect(visitor.page.locator("#lost")).to_be_visible()
        await expect(visitor.page.locator("#late")).to_be_visible()
        visitor.mishaps.clear()


async def test_a_token_is_a_line_of_64_px_on_a_phone_and_a_row_on_a_tablet(
    chromium: Browser, shop: Website
) -> None:
    async with visiting(chromium, shop.origin, size=(390, 844)) as visitor:
        for address in ("/tokens", "/tokens?sort=rsi", "/tokens?sort=buys", "/tokens?sort=age"):
            await visitor.open(address)
            heights = await visitor.page.evaluate(HEIGHTS)
            assert max(heights) <= 66, address  # with its border
            assert await visitor.page.evaluate(OVERFLOW) == 0
        await visitor.page.set_viewport_size({"width": 820, "height": 1180})
        await visitor.open("/tokens")
        assert max(await visitor.page.evaluate(HEIGHTS)) <= 70  # with the longest name
        await expect(visitor.page.get_by_role("columnheader", name="RSI 1h")).to_be_visible()
        assert await visitor.page.evaluate(OVERFLOW) == 0


async def test_chosen_columns_are_kept_at_the_next_visit_and_fit_a_tablet(
    chromium: Browser, shop: Website
) -> None:
    heads = "#list thead th:not(.star-cell)"
    async with visiting(chromium, shop.origin) as visitor:
        page = visitor.page
        await visitor.open("/tokens")
        await page.locator(".choice summary").click()
        for name in ("5m", "1h", "Market cap", "Last day", "Age"):
            await page.get_by_role("checkbox", name=name, exact=True).uncheck()
        await page.get_by_role("button", name="Show", exact=True).click()
        await page.wait_for_url("**/tokens?columns=*")
        assert await page.locator(heads).count() == 6
        await page.add_init_script(MOVED)
        await visitor.open("/tokens")
        await page.wait_for_url("**/tokens?columns=*")
        assert await page.locator(heads).count() == 6
        await page.set_viewport_size({"width": 820, "height": 900})
        assert await page.locator(f"{heads}:visible").count() == 6
        assert await page.evaluate(OVERFLOW) == 0
        await visitor.open("/tokens?columns=price")
        assert await page.locator(heads).count() == 2
