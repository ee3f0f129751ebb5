"""The front page: the API's numbers at the same slot, and the data of a signed-in user."""

import json
import re
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path
from typing import Final

import httpx
import pytest

from mintscope.api.discovery.surfaces import PAGES
from mintscope.kit.primitives import Mint, UnixS
from mintscope.site.figures import SIZE, draw_area
from mintscope.solana.blocks import WSOL
from support.scenes.people.web_person import ORIGIN, Person, words
from support.scenes.shown_market import mint_named
from support.scenes.website import NOW, Website, website

REVIEW: Final = "/settings/api-keys/new/review"


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Website]:
    async with website(tmp_path, origin=ORIGIN, has_market=True) as site:
        yield site


def shown_answer(page: httpx.Response) -> dict[str, dict[str, float]]:
    """Return the JSON response that the page shows as an example."""
    found = re.search(r'<code [^>]*data-part="answer">(.*?)</code>', page.text, re.DOTALL)
    assert found is not None
    shown: dict[str, dict[str, float]] = json.loads(unescape(re.sub("<[^>]*>", "", found[1])))
    return shown


def is_within(part: object, whole: object) -> bool:
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(name in whole and is_within(part[name], whole[name]) for name in part)
    return part == whole


@pytest.mark.parametrize("path", ["/", "/live"])
async def test_the_answer_about_sol_equals_the_report_at_the_same_slot(
    shop: Website, path: str
) -> None:
    assert shop.market is not None
    shop.clock.advance(1_000)
    await shop.market.trade()
    report = await shop.market.follower.read(Mint(WSOL))
    async with Person(shop) as person:
        page = await person.open(path)
    shown = shown_answer(page)
    assert f'data-live="{report.slot}"' in page.text
    assert is_within(shown, json.loads(report.body))
    assert shown["price"]["usd"] == shop.market.prices[mint_named("SOL")]


async def test_movers_are_the_eight_listed_tokens_with_the_largest_daily_change(
    shop: Website,
) -> None:
    async with Person(shop) as person:
        page = await person.open("/")
        listed = (await person.open("/v1/tokens?limit=100")).json()["data"]["tokens"]
    moved = [each for each in listed if each["change"]["d1"] is not None]
    moved.sort(key=lambda each: -abs(each["change"]["d1"]))
    shown = re.findall(r'data-part="mover-\d">.*?<b><bdi>(.*?)</bdi>', page.text, re.DOTALL)
    names = [each["symbol"] or f"{each['mint'][:4]}\u2026{each['mint'][-4:]}" for each in moved]
    assert [unescape(name) for name in shown] == names[:8]


async def test_the_live_part_is_not_sent_again_without_a_new_slot(shop: Website) -> None:
    assert shop.market is not None
    async with Person(shop) as person:
        slot = shop.market.slot
        again = await person.open(f"/live?seen={slot}")
        assert (again.status_code, again.content) == (204, b"")
        shop.clock.advance(1_000)
        await shop.market.trade()
        assert (await person.open(f"/live?seen={slot}")).status_code == 200


async def test_the_page_shows_the_age_of_its_block_and_hides_data_that_is_too_old(
    shop: Website,
) -> None:
    assert shop.market is not None
    async with Person(shop) as person:
        for age_ms, state, age in (
            (0, "live", "under a second old"),
            (999, "live", "under a second old"),
            (1_000, "live", "1 s old"),
            (30_000, "live", "30 s old"),
            (61_000, "late", "61 s old"),
            (200_000, "late", "3 min old"),
        ):
            shop.clock.step(NOW + age_ms - shop.clock.now())
            page = words(await person.open("/"))
            assert f"SOL the last hour {state} " in page
            assert f"slot: {shop.market.slot:,} , {age}" in page
        shop.clock.step(NOW + 301_000 - shop.clock.now())
        for path in ("/", "/live"):
            late = await person.open(path)
            assert "SOL the last hour" not in words(late)
            assert "SOL is not shown, because its data is too old." in words(late)


async def test_a_signed_in_user_sees_credits_keys_and_watched_tokens(shop: Website) -> None:
    async with Person(shop) as person:
        await person.sign_up()
        new = words(await person.open("/"))
        assert "0 credits are left" in new
        assert "None used in the last 30 days." in new
        assert "Make the first key" in new
        assert "Tokens that you star in the list appear here." in new
        await person.send("/tokens/watch", {"add": mint_named("WIF")})
        await person.send(f"{REVIEW}?name=Bot&trade=write&lifetime=30d", {"newest": "0"})
        page = words(await person.open("/"))
    assert "WIF dogwifhat" in page.partition("API keys")[0]
    assert "Bot 0 this month" in page


async def test_the_first_page_has_no_live_part_without_a_market(tmp_path: Path) -> None:
    async with website(tmp_path) as site, Person(site) as person:
        assert (await person.open("/live")).status_code == 404
        page = await person.open("/")
        assert "data-live" not in page.text
        assert 'href="/tokens"' not in page.text


def test_an_area_stays_in_its_plot() -> None:
    for values in ([], [1.0], [2.0, 2.0], [1e-9, 5.0, 3.0]):
        drawn = str(draw_area(values, UnixS(1_800_000_000), 60, "a label"))
        numbers = [float(y) for y in re.findall(r"[ML][\d.]+ (-?[\d.]+)", drawn)]
        assert all(0 <= y <= SIZE for y in numbers)
        assert "nan" not in drawn


def test_minutes_without_a_trade_are_dotted_and_have_no_area() -> None:
    drawn = str(draw_area([1.0, 1.0, 2.0, 2.0], UnixS(1_800_000_000), 60, "a label", quiet={1, 3}))
    paths = dict(re.findall(r'<path class="(area|dotted|line)" d="([^"]*)"', drawn))
    assert paths == {
        "area": "M333.3 1000L333.3 940.0L666.7 60.0L666.7 1000z",
        "line": "M333.3 940.0L666.7 60.0",
        "dotted": "M0.0 940.0L333.3 940.0M666.7 60.0L1000.0 60.0",
    }


async def test_every_page_of_the_sitemap_is_open_without_a_sign_in(shop: Website) -> None:
    async with Person(shop) as stranger:
        for path in PAGES:
            assert (await stranger.open(path)).status_code == 200, path
