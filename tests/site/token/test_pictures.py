"""Pictures of tokens: their content, their cost, and the process that draws them."""

import asyncio
import re
import struct
from html import unescape
from importlib import import_module
from importlib.resources import files
from typing import Final
from xml.etree import ElementTree as ET

import pytest

from mintscope.kit.clock import ManualClock
from mintscope.kit.errors import RateLimited, ServiceUnavailable
from mintscope.kit.limits import MemoryLimits
from mintscope.kit.primitives import Mint, Slot, UnixMs, UnixS
from mintscope.market.series.series import WIDTHS
from mintscope.site.chart import ChartPoint
from mintscope.site.figures import percent, short_price
from mintscope.site.token.pages import TokenPages
from mintscope.site.token.picture import PIXELS, PictureFacts, draw_picture, title_of
from mintscope.site.token.pictures import (
    DRAWN,
    FONT_FILE,
    KEPT_MAX,
    RASTERISER,
    WAITING_MAX,
    PictureKey,
    Pictures,
    rasterise,
)
from support.scenes.people.web_person import Person
from support.scenes.service import bearer, credit_token
from support.scenes.token_market import BONE, SOL, UNTRACKED, YOUNG
from support.scenes.website import Website

PNG: Final = b"\x89PNG\r\n\x1a\n"
META: Final = re.compile('<meta (?:property|name)="((?:og|twitter):[a-z:]+)" content="([^"]*)">')
TAG: Final = "{http://www.w3.org/2000/svg}text"
FACTS: Final = PictureFacts(
    mint=BONE,
    symbol="BONE",
    name="Bone Token",
    usd=0.000022584,
    change=-0.0312,
    slot=Slot(380_054_000),
    as_of=UnixS(1_795_000_200),
    timeframe="5m",
    host="shop.example",
)
QUIET: Final = ChartPoint(1_795_000_200, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0)


def texts(svg: str) -> dict[str, str]:
    """Return the texts in the SVG picture *svg*, by class: the last text of each class."""
    return {each.get("class", ""): each.text or "" for each in ET.fromstring(svg).iter(TAG)}


def pages_of(site: Website) -> TokenPages:
    handlers = [each.handler for each in site.routes() if each.path.endswith("/chart.png")]
    (owner,) = [getattr(each, "__self__", None) for each in handlers]
    assert isinstance(owner, TokenPages)
    return owner


async def test_the_numbers_of_a_picture_equal_those_of_page_and_api_at_one_slot(
    shown_site: Website, stranger: Person
) -> None:
    svg = await pages_of(shown_site).draw(BONE, WIDTHS["m5"])
    page = (await stranger.open(f"/token/{BONE}?tf=m5")).text
    token = credit_token(3)
    await shown_site.ledger.issue(token, 1, "")
    answer = await stranger.client.get(f"/v1/token/{BONE}", headers=bearer(token))
    listed = (await stranger.open("/v1/tokens?limit=100")).json()["data"]["tokens"]
    price = answer.json()["data"]["price"]["usd"]
    (change,) = [each["change"]["d1"] for each in listed if each["mint"] == BONE]
    reported = texts(svg)

    assert reported["usd"] == f"${short_price(price)}"
    assert f'title="${price!r}"' in page or short_price(price) in page
    shown = percent(change).striptags().replace("\xa0", " ")
    assert reported["change"] == f"{shown} since its first price"  # which is six hours old
    slot = int(answer.headers["x-data-slot"])
    assert f">{slot:,}<" in page
    assert reported["as-of"].endswith(f", slot {slot:,}")
    assert reported["title"] == "BONE"
    assert reported["name"].endswith(f"{BONE[:4]}…{BONE[-4:]}")


@pytest.mark.process
async def test_a_token_page_names_its_picture_which_everyone_may_open(
    shown_site: Website, stranger: Person
) -> None:
    page = (await stranger.open(f"/token/{BONE}?tf=h1")).text
    reported = dict(META.findall(page))
    address = unescape(reported["og:image"])
    assert address == f"{shown_site.origin}/token/{BONE}/chart.png?tf=h1"
    assert (reported["og:image:width"], reported["og:image:height"]) == ("1200", "630")
    assert reported["twitter:card"] == "summary_large_image"
    closed = (await stranger.open(f"/token/{SOL}")).text
    assert 'property="og:image"' in closed

    answer = await stranger.open(address.removeprefix(shown_site.origin))
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "image/png"
    assert answer.headers["cache-control"] == "public, max-age=60"
    assert answer.headers["cross-origin-resource-policy"] == "cross-origin"
    assert answer.content.startswith(PNG)
    assert struct.unpack(">II", answer.content[16:24]) == PIXELS
    assert len(answer.content) < 150_000
    for mint, status in ((YOUNG, 200), (UNTRACKED, 404), ("nonsense", 404)):
        assert (await stranger.open(f"/token/{mint}/chart.png")).status_code == status


async def test_the_font_of_the_package_has_each_character_that_is_drawn() -> None:
    resvg = import_module(RASTERISER)
    drawn = [chr(code) for code in (*range(0x21, 0x7F), *range(0xA1, 0x100))]
    drawn += [*"₀₁₂₃₄₅₆₇₈₉\u2212\u2013…"]
    drawn.remove("\xad")  # the soft hyphen is visible only at the end of a line
    font = str(files("mintscope.site.token") / FONT_FILE)

    def picture(text: str) -> bytes:
        svg = (
            '<svg xmlns="http://www.w3.org/2000/svg" width="24" height="24"><text x="4" y="18"'
            f' font-family="DejaVu Sans" font-size="16">&#{ord(text)};</text></svg>'
        )
        return bytes(resvg.svg_to_bytes(svg_string=svg, skip_system_fonts=True, font_files=[font]))

    missing = picture("\u4e00")
    assert [each for each in drawn if picture(each) in {missing, picture(" ")}] == []


def test_a_name_that_the_font_lacks_is_replaced_by_the_mint() -> None:
    ends = f"{BONE[:4]}…{BONE[-4:]}"
    assert title_of(FACTS._replace(symbol="骨", name="Кость")) == ends
    assert title_of(FACTS._replace(symbol="骨")) == "Bone Token"
    svg = draw_picture(FACTS._replace(symbol="<b>&", name="W" * 64), [QUIET], 300)
    assert texts(svg)["title"] == "<b>&"
    assert texts(svg)["name"].startswith("W" * 23 + "…")


def test_a_token_that_has_not_traded_for_a_day_has_no_change() -> None:
    old = ChartPoint(1_795_000_200 - 3 * 86_400, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0)
    assert texts(draw_picture(FACTS, [old], 300))["change"] == "Last trade 15 Nov 2026"
    assert texts(draw_picture(FACTS, [QUIET], 300))["change"] == "\u22123.12 % in 24h"


def test_the_change_of_a_token_younger_than_a_day_is_since_its_first_price() -> None:
    svg = draw_picture(FACTS._replace(is_young=True), [QUIET], 300)
    assert texts(svg)["change"] == "\u22123.12 % since its first price"


@pytest.mark.parametrize("usd", [1e-15, 3.2e-13, 1.0, 1e9])
def test_any_price_is_drawn(usd: float) -> None:
    points = [
        ChartPoint(1_795_000_200 + 300 * at, usd, usd * 1.1, usd * 0.9, usd, 1.0, 1.0, 0.0)
        for at in range(3)
    ]
    svg = draw_picture(FACTS._replace(usd=usd), points, 300)
    assert not re.search(r"nan|inf", svg)
    assert len(re.findall('class="tick"', svg)) >= 2
    assert "No candles yet" in draw_picture(FACTS, [], 300)


class Artist:
    """A fake rasteriser that draws once the event `may` is set, and counts its drawings."""

    def __init__(self) -> None:
        self.may = asyncio.Event()
        self.count = 0

    async def __call__(self, svg: str) -> bytes:
        await self.may.wait()
        self.count += 1
        return svg.encode()


async def source() -> str:
    return "<svg/>"


def key(number: int) -> PictureKey:
    return PictureKey(Mint(f"{number}"), "m5")


async def test_a_picture_is_drawn_once_a_minute_for_any_number_of_clients() -> None:
    artist = Artist()
    pictures = Pictures(MemoryLimits(ManualClock(UnixMs(0))), artist)
    asked = [asyncio.create_task(pictures.get(key(1), 7, str(n), source)) for n in range(50)]
    await asyncio.sleep(0)  # so that all of them have begun before the first is drawn
    artist.may.set()
    assert set(await asyncio.gather(*asked)) == {b"<svg/>"}
    await pictures.get(key(1), 7, "late", source)
    assert artist.count == 1
    await pictures.get(key(1), 8, "later", source)
    assert artist.count == 2


async def test_drawings_of_a_client_and_waiting_drawings_are_limited() -> None:
    artist = Artist()
    pictures = Pictures(MemoryLimits(ManualClock(UnixMs(0))), artist)
    asked = [
        asyncio.create_task(pictures.get(key(n), 7, str(n), source)) for n in range(WAITING_MAX)
    ]
    await asyncio.sleep(0)  # so that WAITING_MAX drawings wait
    with pytest.raises(ServiceUnavailable):
        await pictures.get(key(99), 7, "one more", source)
    artist.may.set()
    await asyncio.gather(*asked)
    for number in range(DRAWN.count):
        await pictures.get(key(100 + number), 7, "one", source)
    with pytest.raises(RateLimited):
        await pictures.get(key(98), 7, "one", source)
    await pictures.get(key(100), 7, "one", source)
    assert len(pictures._kept) <= KEPT_MAX  # noqa: SLF001 - the bound


@pytest.mark.process
async def test_a_failed_drawing_is_reported_and_tried_again() -> None:
    pictures = Pictures(MemoryLimits(ManualClock(UnixMs(0))), rasterise)

    async def broken() -> str:
        return "<svg"

    for _ in range(2):
        with pytest.raises(ServiceUnavailable):
            await pictures.get(key(1), 7, "one", broken)
