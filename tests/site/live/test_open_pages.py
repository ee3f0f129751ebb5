"""An open front page and an open token list get changes, and then equal a newly loaded page."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from html import unescape
from pathlib import Path
from time import process_time
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from msgspec.structs import replace

from mintscope.app.config.config import WebConfig
from mintscope.app.config.groups import StreamsConfig
from mintscope.kit.primitives import Mint
from mintscope.solana.blocks import WSOL
from support.fakes.facts import FACTS
from support.processes.served import PATIENCE_S, Client
from support.scenes.service import bearer, credit_token
from support.scenes.shown_market import mint_named
from support.scenes.streaming import Reader
from support.scenes.website import Website, served_website

SOON_S = 5.0  # of processor time, which does not depend on other processes
ROW = re.compile(r'<tr data-mint="(\w+)">(.*?)</tr>', re.DOTALL)
CELL = re.compile(r"<t[hd][ >].*?</t[hd]>", re.DOTALL)
ANSWERED = b"HTTP/1.1 200 "
Rows = dict[str, list[str]]


@asynccontextmanager
async def stream(site: Website, path: str) -> AsyncIterator[Reader]:
    async with (
        httpx.AsyncClient(base_url=site.origin, timeout=30) as client,
        client.stream("GET", path, headers={"accept": "text/event-stream"}) as response,
    ):
        assert response.status_code == 200
        assert response.headers["content-type"] == "text/event-stream"
        yield Reader(response)


async def page(site: Website, path: str) -> str:
    async with httpx.AsyncClient(base_url=site.origin, headers={"accept": "text/html"}) as client:
        return (await client.get(path)).text


async def trade(site: Website) -> int:
    """Let all tokens trade a second later; return the slot of these trades."""
    assert site.market is not None
    site.clock.advance(1_000)
    await site.market.trade()
    return site.market.slot


def rows(text: str) -> Rows:
    """Return the cells of each row of the page's table, by mint."""
    return {mint: [cell.strip() for cell in CELL.findall(row)] for mint, row in ROW.findall(text)}


def put(known: Rows, reported: dict[str, Any]) -> Rows:
    """Return the rows of a page that had the rows *known* and got the changes *reported*."""
    shown = {}
    for mint in reported["order"]:
        cells = dict(enumerate(known.get(mint, ()))) | dict(reported["rows"].get(mint, ()))
        shown[mint] = [cells[number] for number in sorted(cells)]
    return shown


async def test_an_open_first_page_gets_the_content_of_a_new_page(tmp_path: Path) -> None:
    async with served_website(tmp_path, has_market=True) as site, AsyncExitStack() as stack:
        assert site.market is not None
        first = await stack.enter_async_context(stream(site, "/live/events"))
        whole = (await first.next()).data
        late = await stack.enter_async_context(stream(site, "/live/events"))
        assert (await late.next()).data == whole
        began_s = process_time()
        slot = await trade(site)
        reported = [(await reader.next()).data for reader in (first, late)]
        assert process_time() - began_s < SOON_S
        report = await site.market.follower.read(Mint(WSOL))
        shown = await page(site, "/")

    assert reported[0] == reported[1]
    assert (reported[0]["slot"], reported[0]["asOf"]) == (slot, site.clock.now() // 1000 * 1000)
    assert {"slot", "price", "answer", "chart"} <= set(reported[0]["parts"]) < set(whole["parts"])
    for html in (whole["parts"] | reported[0]["parts"]).values():
        assert html in shown
    answer = json.loads(unescape(re.sub("<[^>]*>", "", reported[0]["parts"]["answer"])))
    price = json.loads(report.body)["price"]
    assert answer["price"] == {unit: price[unit] for unit in ("usd", "sol")}


async def test_an_open_list_gets_only_the_cells_that_change(tmp_path: Path) -> None:
    async with served_website(tmp_path, has_market=True) as site, AsyncExitStack() as stack:
        assert site.market is not None
        asked, slot = "sort=d1&volume=1k", site.market.slot
        before = rows(await page(site, f"/tokens?{asked}"))
        chosen = "q=jup&columns=price,day,age"
        paths = [f"{asked}&seen={slot}", asked, chosen]
        current, new, narrow = [
            await stack.enter_async_context(stream(site, f"/tokens/events?{path}"))
            for path in paths
        ]
        whole = (await new.next()).data
        assert (whole["slot"], put({}, whole)) == (str(slot), before)
        few = put({}, (await narrow.next()).data)
        assert few == rows(await page(site, f"/tokens?{chosen}"))
        assert [len(cells) for cells in few.values()] == [4]
        slot = await trade(site)
        after = rows(await page(site, f"/tokens?{asked}"))
        reported = [(await reader.next()).data for reader in (current, new)]

        assert reported[0] == reported[1]
        assert reported[0]["slot"] == str(slot)
        assert f'(slot <span class="number">{slot:,}</span>, finalized)' in reported[0]["footing"]
        assert put(before, reported[0]) == after != before
        assert sum(map(len, reported[0]["rows"].values())) < sum(map(len, after.values()))
        assert len((await narrow.next()).data["rows"]) == 1


async def test_each_change_of_a_list_without_a_new_slot_reaches_every_page(tmp_path: Path) -> None:
    async with served_website(tmp_path, has_market=True) as site, AsyncExitStack() as stack:
        assert site.market is not None
        slot, jup = site.market.slot, mint_named("JUP")
        before = rows(await page(site, "/tokens"))
        path = f"/tokens/events?seen={slot}"
        current = await stack.enter_async_context(stream(site, path))
        marks = [str(slot)]
        for number in range(2):
            site.clock.advance(1_000)
            facts = replace(FACTS, read_at_ms=site.clock.now(), symbol=f"JUP{number}")
            await site.market.kept.learn(jup, facts)
            await site.market.catch_up()
            marks.append((await current.next()).data["slot"])
        late = await stack.enter_async_context(stream(site, path))
        whole = (await late.next()).data
        shown = await page(site, "/tokens")
        client = await stack.enter_async_context(httpx.AsyncClient(base_url=site.origin))
        polled = [(await client.get(f"/tokens?seen={mark}")).status_code for mark in marks]

    assert site.market.slot == slot
    assert len({*marks}) == 3
    assert whole["slot"] == marks[-1]
    assert put({}, whole) == rows(shown) != before
    assert f'data-live="{marks[-1]}"' in shown
    assert polled == [200, 200, 204]


@pytest.mark.parametrize("path", ["/live/events", "/tokens/events", f"/token/{WSOL}/live"])
async def test_a_head_request_to_a_stream_has_no_body_and_opens_no_page(
    tmp_path: Path, path: str
) -> None:
    web = WebConfig(live_pages_max=1)
    request = f"HEAD {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    async with served_website(tmp_path, has_market=True, web=web) as site:
        place = urlsplit(site.origin)
        client = Client(*await asyncio.open_connection(place.hostname, place.port))
        await client.send(request * 2)
        status, headers, _ = await client.answer()
        async with asyncio.timeout(PATIENCE_S):
            second = await client.reader.readexactly(len(ANSWERED))
        await client.close()

    assert (status, headers["content-type"]) == (200, "text/event-stream")
    assert "transfer-encoding" not in headers
    assert second == ANSWERED


async def test_the_limit_of_open_pages_counts_pages_of_all_kinds(tmp_path: Path) -> None:
    web = WebConfig(live_pages_max=2)
    async with (
        served_website(tmp_path, has_market=True, web=web) as site,
        stream(site, "/live/events"),
        stream(site, "/tokens/events"),
        httpx.AsyncClient(base_url=site.origin) as client,
    ):
        paths = ("/live/events", "/tokens/events", f"/token/{WSOL}/live")
        answers = await asyncio.gather(*map(client.get, paths))
        assert [answer.status_code for answer in answers] == [204] * 3
        assert (await client.get("/tokens/events?watched=1")).status_code == 204


async def test_a_paid_stream_has_room_while_the_limit_of_open_pages_is_reached(
    tmp_path: Path,
) -> None:
    """Pages may use two of the three streams of the process, so one is left for a paid stream."""
    web, streams, token = WebConfig(live_pages_max=2), StreamsConfig(open_max=3), credit_token(1)
    async with (
        served_website(tmp_path, has_market=True, web=web, streams=streams) as site,
        httpx.AsyncClient(base_url=site.origin) as client,
        AsyncExitStack() as stack,
    ):
        await site.ledger.issue(token, 9, "")

        async def opened(path: str, **headers: str) -> httpx.Response:
            return await stack.enter_async_context(client.stream("GET", path, headers=headers))

        pages = [await opened(f"/token/{WSOL}/live") for _ in range(3)]
        paid = [await opened(f"/v1/stream?mints={WSOL}", **bearer(token)) for _ in range(2)]

        assert [each.status_code for each in pages] == [200, 200, 204]
        assert [each.status_code for each in paid] == [200, 503]
        events = await Reader(paid[0]).some(2)
        assert [each.name for each in events] == ["minute", "snapshot"]
