"""The list of tokens for people: the numbers of the API, with filters and a watchlist."""

import asyncio
import csv
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from html import unescape
from io import StringIO
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as replace_fields

from mintscope.kit.errors import NotFound, ServiceError
from mintscope.kit.primitives import Mint
from mintscope.market.follow.list_cache import ListCache
from mintscope.market.follow.tailer import look_again_soon
from mintscope.market.screening.listed import ListPlace
from mintscope.site.live import OpenPages
from mintscope.site.page import Page
from mintscope.site.routes import PageRequest, parse_form
from mintscope.site.token.listing import (
    AGES,
    COLUMNS,
    SORTS,
    VOLUMES,
    SearchPages,
    TokenLines,
    TokenSearch,
    TokensQuestion,
    Watching,
    question_of,
)
from mintscope.site.token.listing_live import TokensPages
from support.fakes.facts import FACTS
from support.scenes.people.web_person import ORIGIN, Person, where, words
from support.scenes.shown_market import mint_named
from support.scenes.website import HERE, Website, website

JUP: Final = mint_named("JUP")
WIF: Final = mint_named("WIF")
BONK: Final = mint_named("BONK")
PYTH: Final = mint_named("PYTH")
MINUS, NOTHING = "\N{MINUS SIGN}", "\N{EN DASH}"
ROW: Final = re.compile(r'<tr data-mint="(\w+)">(.*?)</tr>', re.DOTALL)
CELL: Final = re.compile(r"<td([^>]*)>(.*?)</td>", re.DOTALL)


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Website]:
    async with website(tmp_path, origin=ORIGIN, has_market=True) as site:
        yield site


def rows(response: httpx.Response) -> dict[str, dict[str, str]]:
    """Return the cells of each token by their labels, with whole numbers instead of short ones."""
    return {
        mint: {
            found[1]: reported(cell)
            for attributes, cell in CELL.findall(body)
            if (found := re.search(r'data-label="([^"]+)"', attributes))
        }
        for mint, body in ROW.findall(response.text)
    }


def reported(cell: str) -> str:
    whole = re.search(r'<span class="number" title="([^"]*)"', cell)
    text = whole[1] if whole else re.sub(r"<[^>]*>", " ", cell)
    return unescape(text).replace("\xa0", "").replace(" ", "").replace(MINUS, "-").strip()


def number(text: str) -> float | None:
    return None if text == NOTHING else float(re.sub(r"[$,%+]", "", text))


@pytest.mark.parametrize("sort", ["volume", "price", "change", "age", "rsi_h1", "pressure_h1"])
async def test_the_numbers_of_the_list_equal_those_of_the_api_at_the_same_slot(
    shop: Website, sort: str
) -> None:
    column = {"change": "d1", "rsi_h1": "rsi", "pressure_h1": "buys"}.get(sort, sort)
    async with Person(shop) as person:
        page = await person.open(f"/tokens?sort={column}&order=asc")
        answer = await person.open(f"/v1/tokens?sort={sort}&order=asc")
    data = answer.json()["data"]
    shown = rows(page)

    assert f'data-live="{data["slot"]}"' in page.text
    assert list(shown) == [each["mint"] for each in data["tokens"]]
    for each in data["tokens"]:
        cells = shown[each["mint"]]
        assert number(cells["Price"]) == each["price"]["usd"]
        assert number(cells["Volume"]) == pytest.approx(each["volumeUsdD1"], abs=0.005)
        cap = each["marketCapUsd"]
        assert number(cells["Cap"]) == (cap and pytest.approx(cap, abs=0.005))
        for label, span in (("5min", "m5"), ("1h", "h1"), ("1day", "d1")):
            assert_change(cells, label, each["change"][span])


async def test_a_price_of_low_confidence_is_marked(shop: Website) -> None:
    async with Person(shop) as person:
        page = (await person.open("/tokens")).text
        listed = (await person.open("/v1/tokens")).json()["data"]["tokens"]
    low = [each for each in listed if (each["price"] or {}).get("confidence") == "low"]
    assert low
    assert page.count('aria-label="low confidence"') == len(low)


async def test_a_change_since_the_first_price_is_marked(shop: Website) -> None:
    async with Person(shop) as person:
        page = (await person.open("/tokens")).text
        listed = (await person.open("/v1/tokens")).json()["data"]["tokens"]
        young = [each["mint"] for each in listed if each["changeSince"] is not None]
        shown = words(await person.open(f"/token/{young[0]}"))
    assert page.count('title="since its first price, less than a day ago"') == len(young)
    assert "since its first price" in shown


def assert_change(cells: dict[str, str], label: str, change: float | None) -> None:
    name = {"5min": "5m", "1h": "1h", "1day": "24h"}[label]
    value = number(cells[name])
    assert (value is None) is (change is None)
    if value is not None and change is not None:
        assert value == pytest.approx(change * 100, abs=0.5 if abs(change) >= 1 else 0.0051)


async def test_rsi_and_pressure_equal_those_of_the_report(shop: Website) -> None:
    assert shop.market is not None
    async with Person(shop) as person:
        shown = rows(await person.open("/tokens"))
    compared = 0
    for mint, cells in shown.items():
        with suppress(ServiceError):
            report = await shop.market.follower.read(Mint(mint))
            data = httpx.Response(200, content=report.body).json()["indicators"]
            compared += 1
            rsi, pressure = data["h1"]["rsi"], data["buySellPressure"]["h1"]
            assert number(cells["RSI 1h"]) == (rsi and pytest.approx(rsi, abs=0.051))
            if cells["Buy share"] == "notrades":
                assert pressure == 0
            else:
                assert number(cells["Buy share"]) == pytest.approx(pressure * 100, abs=0.51)
    assert compared > 10


async def test_the_list_is_searched_and_filtered(shop: Website) -> None:
    async with Person(shop) as person:
        by_name = rows(await person.open("/tokens?q=jupiter"))
        by_mint = rows(await person.open(f"/tokens?q={JUP[:9]}"))
        large = rows(await person.open("/tokens?volume=100k"))
        nothing = await person.open("/tokens?q=there+is+no+such+token")
        sent = await person.open("/tokens?q=jup+&volume=&age=&sort=volume&order=")
        empty = await person.open("/tokens?q=&volume=&age=&sort=volume&order=")
    assert (where(sent), where(empty)) == ("/tokens?q=jup", "/tokens")
    assert [*by_name] == [*by_mint] == [JUP]
    assert 0 < len(large) < 20
    assert all((number(cells["Volume"]) or 0) >= 100_000 for cells in large.values())
    assert 'No tokens match "there is no such token".' in words(nothing)


async def test_a_page_that_is_current_is_not_sent_again(shop: Website) -> None:
    assert shop.market is not None
    async with Person(shop) as person:
        slot = shop.market.slot
        again = await person.open(f"/tokens?seen={slot}")
        shop.clock.advance(1_000)
        await shop.market.trade()
        changed = await person.open(f"/tokens?seen={slot}")
    assert (again.status_code, again.content) == (204, b"")
    assert (changed.status_code, f'data-live="{slot + 1}"' in changed.text) == (200, True)


async def test_html_in_the_list_is_escaped(shop: Website) -> None:
    async with Person(shop) as person:
        text = (await person.open("/tokens")).text
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)" in text


async def test_a_star_puts_a_token_on_the_watchlist_and_takes_it_off(shop: Website) -> None:
    async with Person(shop) as person:
        await person.sign_up()
        for mint in (JUP, WIF, JUP):
            sent = {"add": mint, "next": "/tokens?q=jup"}
            response = await person.send("/tokens/watch", sent)
            assert (response.status_code, response.headers["location"]) == (303, "/tokens?q=jup")
        assert {*rows(await person.open("/tokens?watched=1"))} == {JUP, WIF}
        await person.send("/tokens/watch", {"remove": JUP})
        page = await person.open("/tokens?watched=1")
        assert [*rows(page)] == [WIF]
        assert "Stop watching WIF" in words(page)
    users = await shop.accounts.review.users(limit=5)
    lists = await shop.accounts.watchlists.of_user(users[0].user_id)
    assert [(each.name, each.mint_count) for each in lists] == [("Watchlist", 1)]


async def test_two_first_stars_at_the_same_moment_make_one_watchlist(shop: Website) -> None:
    async with Person(shop) as person:
        await person.sign_up()
        csrf = await person.csrf()
        stars = [{"add": mint, "csrf": csrf} for mint in (JUP, WIF)]
        await asyncio.gather(*(person.send("/tokens/watch", star) for star in stars))
    (user,) = await shop.accounts.review.users(limit=5)
    lists = await shop.accounts.watchlists.of_user(user.user_id)
    assert [each.mint_count for each in lists] == [2]


async def test_a_star_is_refused_with_a_notice_if_the_watchlist_is_full(shop: Website) -> None:
    async with Person(shop) as person:
        await person.sign_up()
        await person.send("/tokens/watch", {"add": JUP})
        (user,) = await shop.accounts.review.users(limit=5)
        (line,) = await shop.accounts.watchlists.of_user(user.user_id)
        for n in range(199):  # a watchlist has at most 200 tokens
            mint = mint_named(f"one more {n}")
            await shop.accounts.watchlists.add(user.user_id, line.watchlist_id, mint)
        full = await person.send("/tokens/watch", {"add": WIF})
        assert "Your watchlist is full" in words(await person.open(full.headers["location"]))


async def test_a_visitor_must_sign_in_to_watch_a_token(shop: Website) -> None:
    async with Person(shop) as person:
        page = await person.open("/tokens")
        assert 'name="add"' not in page.text
        listed = await person.open("/tokens?watched=1")
        sent = await person.send("/tokens/watch", {"add": JUP})
    assert listed.headers["location"].startswith("/sign-in")
    assert sent.headers["location"].startswith("/sign-in")


@pytest.mark.parametrize(
    "query", ["sort=macd", "volume=2k", "age=2d", "after=x", "after=1~short", "after=1e999~" + JUP]
)
async def test_an_unknown_sort_filter_or_place_is_a_404(shop: Website, query: str) -> None:
    async with Person(shop) as person:
        assert (await person.open(f"/tokens?{query}")).status_code == 404


async def test_the_list_is_a_503_while_it_is_being_loaded(shop: Website) -> None:
    assert shop.market is not None
    unread = ListCache(shop.market.kept.market.lists, shop.clock, wait=look_again_soon)
    parts = replace(shop.market.parts, lists=unread)
    watching = Watching(shop.accounts.watchlists)
    lines = TokenLines(parts)
    search = SearchPages(parts, TokenSearch(lines))
    pages = TokensPages(parts, lines, watching, OpenPages(parts), search)
    page = await pages.show(PageRequest(now=shop.clock.now(), browser=HERE))
    assert isinstance(page, Page)
    assert (page.status, page.facts["page"]) == (503, None)


PLACES: Final = st.builds(
    ListPlace,
    st.none() | st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([Mint(JUP), Mint(WIF)]),
)


@given(
    st.builds(
        TokensQuestion,
        text=st.text("abcXYZ &?=%+#é", max_size=9)
        .map(str.strip)
        .map(lambda t: " ".join(t.split())),
        sort=st.sampled_from([*SORTS]),
        is_rising=st.booleans(),
        volume=st.sampled_from([each.value for each in VOLUMES]),
        age=st.sampled_from([each.value for each in AGES]),
        where=st.sampled_from(["", "rsi_h1 < 30", "price > 1 and (liquidity > 2 or age_s < 3)"]),
        is_watched=st.booleans(),
        after=st.none() | PLACES,
    )
)
def test_a_question_is_restored_from_its_address(asked: TokensQuestion) -> None:
    address = asked.address(after=asked.after)
    assert question_of(parse_form(address.partition("?")[2].encode())) == asked


@given(st.text(max_size=40))
def test_any_text_is_a_place_in_the_list_or_not_found(text: str) -> None:
    query = urlencode({"after": text.replace("\0", "")})
    with suppress(NotFound):
        question_of(parse_form(query.encode()))


async def test_the_csv_of_the_list_has_the_numbers_of_the_api(shop: Website) -> None:
    """The file has the order and the filters of the page."""
    async with Person(shop) as person:
        whole = list(csv.DictReader(StringIO((await person.open("/tokens.csv")).text)))
        gainers = await person.open("/tokens.csv?sort=d1&volume=10k")
        listed = (await person.open("/v1/tokens?limit=50")).json()["data"]["tokens"]

    assert [each["mint"] for each in whole] == [each["mint"] for each in listed]
    for row, line in zip(whole, listed, strict=True):
        assert float(row["price_usd"]) == line["price"]["usd"]
        assert row["change_h1"] == (
            "" if line["change"]["h1"] is None else str(line["change"]["h1"])
        )
        assert float(row["volume_d1_usd"]) == line["volumeUsdD1"]
    assert gainers.headers["content-type"].startswith("text/csv")
    changes = [float(each["change_d1"]) for each in csv.DictReader(StringIO(gainers.text))]
    assert changes == sorted(changes, reverse=True)
    assert 0 < len(changes) < len(whole)


async def test_a_symbol_or_name_like_a_formula_becomes_text_in_the_csv(shop: Website) -> None:
    """Spreadsheets compute a cell that begins with =, +, - or @, and show one after an apostrophe.

    They also skip a tab or a line break at the beginning, which no name has on pages either.
    """
    assert shop.market is not None
    given = {
        JUP: ('=HYPERLINK("http://evil.example","free")', "+1+1"),
        WIF: ("-2+3", "@SUM(1,2)"),
        BONK: ("\t=1+1", "\r\n=1+1"),
        PYTH: ("a=b", "Plain + simple"),
    }
    shop.clock.advance(1_000)  # newer facts replace the facts that the market began with
    for mint, (symbol, name) in given.items():
        facts = replace_fields(FACTS, read_at_ms=shop.clock.now(), symbol=symbol, name=name)
        await shop.market.kept.learn(mint, facts)
    await shop.market.catch_up()
    async with Person(shop) as person:
        table = (await person.open("/tokens.csv?rows=200")).text
    written = {each["mint"]: each for each in csv.DictReader(StringIO(table))}
    shown = {mint: (written[mint]["symbol"], written[mint]["name"]) for mint in given}

    assert shown == {
        JUP: ('\'=HYPERLINK("http://evil.example","free")', "'+1+1"),
        WIF: ("'-2+3", "'@SUM(1,2)"),
        BONK: ("'=1+1", "'=1+1"),
        PYTH: ("a=b", "Plain + simple"),
    }


async def test_presets_and_rows_are_in_the_address(shop: Website) -> None:
    async with Person(shop) as person:
        page = (await person.open("/tokens?rows=200&q=a")).text
        wrong = await person.open("/tokens?rows=51")

    for preset in ("sort=d1&volume=10k", "sort=d1&order=asc&volume=10k", "sort=age&order=asc"):
        assert f'href="/tokens?q=a&{preset}&rows=200"' in unescape(page)
    assert '<a href="/tokens?q=a&rows=200" aria-current="true">Most traded</a>' in unescape(page)
    assert 'value="200" selected' in page
    assert wrong.status_code == 404


async def test_any_column_is_filtered_by_a_condition_in_the_address(shop: Website) -> None:
    """The numbers of the form become a condition in the URL, for the page and for the CSV."""
    async with Person(shop) as person:
        sent = await person.open("/tokens?where=&rsi_below=60&buys_above=40&liquidity_above=")
        both = "rsi_h1+%3C+60+and+pressure_h1+%3E+0.4"
        shown = rows(await person.open(f"/tokens?where={both}&rows=200"))
        every = (await person.open("/tokens.csv?rows=200")).text
        table = await person.open(f"/tokens.csv?where={both}&rows=200")
        more = await person.open("/tokens?where=price+%3E+1+or+age_s+%3C+9&change_above=5")
        wrong = await person.open("/tokens?where=rsi_h2+%3C+30")
        stream = await person.open("/tokens/events?where=rsi_h2+%3C+30")

    lines = list(csv.DictReader(StringIO(every)))
    expected = {
        each["mint"]
        for each in lines
        if float(each["rsi_h1"] or 99) < 60 and float(each["buy_share_h1"] or 0) > 0.4
    }
    assert where(sent) == f"/tokens?where={both}"
    assert 0 < len(expected) < len(lines)
    assert shown.keys() == expected
    assert {line.partition(",")[0] for line in table.text.splitlines()[1:]} == expected
    assert "%28price+%3E+1+or+age_s+%3C+9%29+and+change_d1+%3E+0.05" in where(more)
    assert wrong.status_code == 422
    assert "rsi_h2" in words(wrong)
    assert stream.status_code == 400


async def test_numbers_of_the_form_are_read_as_written_or_refused(shop: Website) -> None:
    async with Person(shop) as person:
        sent = await person.open(
            "/tokens?liquidity_above=%2410%2C000&buys_above=30%25&rsi_below=1e1"
            "&where=price+%3E+1%0AOR(age_s+%3C+9)"
        )
        refused = await person.open("/tokens?where=&liquidity_above=much&rsi_below=60&age=1h")
        halves = [
            await person.open(f"/tokens?change_above={text}")
            for text in ("1%2C5", "nan", "1e999", "%25", "-")
        ]
        unpaired = await person.open("/tokens?where=price+%3E+1)or(age_s+%3C+9&rsi_below=60")
        wrong = await person.open("/tokens.csv?where=rsi_h2+%3C+30")
        crossings = [f"crosses_above(ema9_{each},{{}})" for each in ("m1", "m5", "m15", "h1")]
        few = " or ".join(each.format(1) for each in crossings)
        many = few + " or crosses_below(rsi_h1,30)"
        at_most = await person.client.get("/tokens", params={"where": few})
        too_many = [
            await person.client.get(path, params={"where": many})
            for path in ("/tokens", "/tokens.csv", "/tokens/events")
        ]

    assert where(sent) == "/tokens?" + urlencode(
        {
            "where": "(price > 1\nOR(age_s < 9)) and rsi_h1 < 10 and liquidity > 10000"
            " and pressure_h1 > 0.3"
        }
    )
    assert refused.status_code == 422
    assert "Enter a number, such as 10,000 or 2.5." in words(refused)
    assert 'value="much"' in refused.text
    assert 'value="60"' in refused.text
    assert {each.status_code for each in (*halves, unpaired)} == {422}
    assert (wrong.status_code, at_most.status_code) == (400, 200)
    assert "unknown field 'rsi_h2'" in words(wrong)
    assert [each.status_code for each in too_many] == [422, 400, 400]
    assert "expected at most 4 different fields in crossings; were 5" in words(too_many[0])


async def test_columns_are_chosen_by_the_form_and_kept_in_the_address(shop: Website) -> None:
    async with Person(shop) as person:
        sent = await person.open("/tokens?q=&column=price&column=rsi&column=nonsense&rows=200")
        address = where(sent)
        page = await person.open(address)
        table = (await person.open(address.replace("/tokens?", "/tokens.csv?"))).text
        whole = await person.open("/tokens?" + "&".join(f"column={key}" for key in COLUMNS))
        unknown = await person.open("/tokens?columns=of-no-one")

    assert address == "/tokens?rows=200&columns=price%2Crsi"
    assert {tuple(cells) for cells in rows(page).values()} == {("Price", "RSI 1h")}
    assert page.text.count('<th scope="col"') == 3
    assert re.findall('name="column" value="([a-z0-9]+)" checked', page.text) == ["price", "rsi"]
    for path in ("/tokens?sort=price&", "/tokens.csv?"):
        assert f'href="{path}rows=200&columns=price%2Crsi"' in unescape(page.text)
    read = list(csv.reader(StringIO(table)))
    assert read[0] == ["mint", "symbol", "name", "price_usd", "rsi_h1", "look_alike_of", "slot"]
    assert {len(each) for each in read} == {7}
    assert where(whole) == "/tokens"
    assert (
        len(next(iter(rows(unknown).values()))) == len(COLUMNS) - 1
    )  # the cell of the day has no label
