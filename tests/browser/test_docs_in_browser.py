"""The documentation in a browser: requests, search, languages, and pages without scripts."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from page_checks import look_at
from playwright.async_api import Browser, Route, expect

from mintscope.solana.blocks import WSOL
from support.scenes.people.browsing import Visitor, visiting
from support.scenes.service import credit_token
from support.scenes.website import Website, served_website

CREDIT_TOKEN, OTHER = credit_token(77), credit_token(78)
pytestmark = pytest.mark.asyncio(loop_scope="session")


# The vertical position of each page that was found, by its title.
TOPS = """Object.fromEntries([...document.querySelectorAll(".docs-lists li:not([hidden]) a")].map(
  (each) => [each.textContent, each.getBoundingClientRect().top]))"""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def documented(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Website]:
    async with served_website(tmp_path_factory.mktemp("docs")) as site:
        for token in (CREDIT_TOKEN, OTHER):
            await site.ledger.issue(token, 5, "")
        yield site


@pytest_asyncio.fixture(loop_scope="session")
async def reader(chromium: Browser, documented: Website) -> AsyncIterator[Visitor]:
    async with visiting(chromium, documented.origin) as visitor:
        yield visitor


async def test_a_reader_tries_an_endpoint_with_a_credit_token_of_their_own(
    reader: Visitor,
) -> None:
    sent: list[tuple[str, str | None]] = []
    reader.page.on(
        "request", lambda each: sent.append((each.url, each.headers.get("authorization")))
    )
    await reader.open("/docs/api/get-token")
    await reader.page.get_by_text("Try it here").click()
    await reader.page.get_by_label("Credit token or API key").fill(CREDIT_TOKEN)
    await reader.page.get_by_role("button", name="Send").click()
    await reader.reads("200 OK after")
    await reader.page.get_by_text("Headers", exact=True).click()
    shown = await reader.page.locator(".try-answer").inner_text()
    faults = await look_at(reader.page, "docs-tried")

    assert '"usd": 150.5' in shown
    assert "x-credits-remaining: 4" in shown
    asked = [each for each in sent if "/v1/" in each[0]]
    assert asked == [(f"{reader.origin}/v1/token/{WSOL}", f"Bearer {CREDIT_TOKEN}")]
    assert [each for each in sent if CREDIT_TOKEN in str(each)] == asked
    assert CREDIT_TOKEN not in reader.page.url
    assert faults == []


async def test_an_error_of_a_tried_request_is_shown_with_its_status(reader: Visitor) -> None:
    await reader.open("/docs/api/get-token")
    await reader.page.get_by_text("Try it here").click()
    await reader.page.get_by_label("tokenAddress").fill("nothing")
    await reader.page.get_by_role("button", name="Send").click()

    await reader.reads("400 Bad Request after")
    await reader.page.locator(".try-body", has_text="INVALID_TOKEN_ADDRESS").wait_for()
    assert [each[:4] for each in reader.mishaps] == ["400:"]
    reader.mishaps.clear()


async def test_events_of_a_tried_stream_are_shown_until_it_is_stopped(reader: Visitor) -> None:
    await reader.open("/docs/api/get-stream")
    await reader.page.get_by_text("Try it here").click()
    await reader.page.get_by_label("Credit token or API key").fill(OTHER)
    await reader.page.get_by_role("button", name="Send").click()
    await reader.reads("event: snapshot")
    await reader.page.get_by_role("button", name="Stop").click()
    await reader.reads("stopped")


async def test_a_page_is_found_by_a_field_that_is_on_it(reader: Visitor) -> None:
    await reader.open("/docs")
    find = reader.page.get_by_label("Find in the documentation")
    await find.fill("swingHigh")
    await reader.page.get_by_text("pages have it").wait_for(state="attached")
    found = await reader.page.locator(".docs-lists li:not([hidden]) a").all_inner_texts()
    await find.fill("rsi")
    tops = await reader.page.evaluate(TOPS)
    await find.fill("swingHihg")
    near = await reader.page.locator(".docs-lists li:not([hidden]) a").all_inner_texts()
    await find.fill("withdraw")
    await reader.page.get_by_text("1 page has it.").wait_for(state="attached")
    await find.fill("nothing has this")
    await reader.reads("No page matches.")
    await find.fill("tokens batch")
    await find.press("Enter")
    await reader.page.wait_for_url("**/docs/api/post-tokens-batch")

    assert any("Price and indicators of a token" in each for each in found)
    assert not any("Watchlists" in each for each in found)
    by_place = sorted(tops, key=lambda name: tops[name])
    assert by_place[0].startswith("What each number means"), "it defines the RSI"
    assert any(each.startswith("Price and indicators") for each in by_place)
    assert not any("health" in each for each in by_place), "version has rsi inside"
    assert near == found, "one typo is forgiven"


async def test_the_search_works_in_a_field_that_has_the_focus_before_the_script(
    reader: Visitor,
) -> None:
    has_focus = asyncio.Event()

    async def delay(route: Route) -> None:
        await has_focus.wait()
        await route.continue_()

    page = reader.page
    await page.route("**/docs*.js*", delay)
    await page.goto(f"{reader.origin}/docs", wait_until="commit")
    find = page.get_by_label("Find in the documentation")
    await find.focus()
    has_focus.set()
    await page.wait_for_load_state("load")
    await find.press_sequentially("swingHigh")
    found = page.locator(".docs-lists li:not([hidden]) a", has_text="Price and indicators")
    await expect(found.first).to_be_visible()


async def test_the_chosen_language_is_kept_on_the_next_page(reader: Visitor) -> None:
    await reader.open("/docs/api/get-token")
    await reader.page.get_by_role("radio", name="Python").check()
    await reader.open("/docs/api/get-tokens")

    await reader.reads("from mintscope_client import Client")
    assert not await reader.page.get_by_text("curl -s", exact=False).first.is_visible()


async def test_the_contents_open_on_a_phone(reader: Visitor) -> None:
    await reader.page.set_viewport_size({"width": 360, "height": 780})
    await reader.open("/docs")
    assert not await reader.page.locator(".docs-lists").is_visible()
    await reader.page.get_by_label("Show the contents").check()
    await reader.follow("Every error")

    assert reader.path == "/docs/errors"


async def test_pages_without_scripts_show_the_examples_and_hide_the_controls(
    chromium: Browser, documented: Website
) -> None:
    context = await chromium.new_context(java_script_enabled=False)
    page = await context.new_page()
    await page.goto(f"{documented.origin}/docs/api/get-token")

    assert await page.get_by_text("curl -s").first.is_visible()
    assert not await page.get_by_text("Try it here").is_visible()
    assert not await page.get_by_label("Find in the documentation").is_visible()
    await page.get_by_role("radio", name="TypeScript").check()
    assert await page.get_by_text('import { Client } from "mintscope-client"').is_visible()
    await context.close()
