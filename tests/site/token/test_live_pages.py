"""Open pages get changes soon, and only of tokens that they may show."""

import asyncio
import gc
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from html import unescape
from pathlib import Path
from time import process_time
from typing import Any

import apsw
import httpx
import pytest

from mintscope.app.config.config import WebConfig
from mintscope.app.stores.folder import MARKET_FILE
from mintscope.site.figures import dollars, percent
from mintscope.site.live import Channel
from mintscope.site.token.reading import CHARTED
from support.scenes.people.web_person import Person
from support.scenes.streaming import Event, Reader
from support.scenes.token_market import BONE, RISKY, SOL, TokenMarket, swap_of
from support.scenes.website import Website, served_website

PAGES = 200
SOON_S = 5.0  # of processor time, which does not depend on other processes
READS_A_LOOK = 3  # the swaps, and the candles of each of two timeframes
LOOKS_MAX = 3  # for one slot and 200 pages: its own look, and the looks that its updates cause
PAGES_ALLOWED = WebConfig()
AVERAGES = ("ema9", "ema21", "ema50", "ema200", "rsi")
LEVELS = ("swingHigh", "level236", "level382", "level500", "level618", "level764", "swingLow")


@asynccontextmanager
async def open_site(
    folder: Path, web: WebConfig = PAGES_ALLOWED
) -> AsyncIterator[tuple[Website, TokenMarket]]:
    async with served_website(folder, web=web, has_token_market=True) as site:
        assert site.token_market is not None
        yield site, site.token_market


@asynccontextmanager
async def page_at(site: Website, mint: str, query: str = "tf=m1") -> AsyncIterator[Reader]:
    """Yield a reader of the live stream of the page of *mint*."""
    async with (
        httpx.AsyncClient(base_url=site.origin, timeout=30) as client,
        client.stream("GET", f"/token/{mint}/live?{query}") as response,
    ):
        assert response.status_code == 200
        assert response.headers["content-type"] == "text/event-stream"
        yield Reader(response)


async def until(reader: Reader, name: str) -> Event:
    """Return the next event named *name*."""
    while True:
        event = await reader.next()
        if event.name == name:
            return event


async def until_candle(reader: Reader, usd: float) -> list[Any]:
    """Wait until the newest candle of the chart closes at *usd*; return this candle."""
    while True:
        candle: list[Any] = (await until(reader, "market")).data["candles"][-1]
        if candle[4] == usd:
            return candle


async def test_200_pages_show_a_swap_at_once_with_few_reads(tmp_path: Path) -> None:
    """The second swap comes while the pages still handle the first swap."""
    async with open_site(tmp_path) as (site, market), AsyncExitStack() as stack:
        frames = [("m1", "h1")[number % 2] for number in range(PAGES)]
        readers = [await stack.enter_async_context(page_at(site, SOL, f"tf={f}")) for f in frames]
        await asyncio.gather(*(until(reader, "snapshot") for reader in readers))
        await asyncio.gather(*(until(reader, "market") for reader in readers))
        for number, usd in enumerate((250.0, 251.5)):
            asked = market.series.count
            began_s = process_time()
            swap = swap_of(SOL, usd, dollars=99.0, number=7 + number)
            await market.trade(swap, after_s=2)
            reported = await asyncio.gather(*(until(reader, "update") for reader in readers))
            report_s = process_time() - began_s
            candles = await asyncio.gather(*(until_candle(reader, usd) for reader in readers))
            all_s = process_time() - began_s

            assert {event.data["price"]["usd"] for event in reported} == {usd}
            assert {candle[2] for candle in candles} == {usd}
            assert len({tuple(candle) for candle in candles}) == len(set(frames))
            assert report_s < SOON_S
            assert all_s < SOON_S
            assert market.series.count - asked <= READS_A_LOOK * LOOKS_MAX


async def test_a_candle_is_sent_as_the_page_would_show_it(tmp_path: Path) -> None:
    async with open_site(tmp_path) as (site, market), AsyncExitStack() as stack:
        await _page(site, BONE)  # a free view
        reader = await stack.enter_async_context(page_at(site, BONE))
        await until(reader, "market")
        await market.trade(swap_of(BONE, 0.00005, dollars=321.5, number=9), after_s=60)
        reported = (await until(reader, "market")).data
        page = await _page(site, BONE)
        shown = _attribute(page, "points")

        assert reported["candles"] == [point[:8] + [None] * 8 for point in shown[-2:]]
        assert reported["candles"][-1][5] == 321.5
        assert reported["swaps"][0]["signature"] == f"{'9':0>4}".replace("0", "Q") + "x" * 83
        assert reported["lastTrade"] == market.clock.now() // 1000


async def test_a_page_gets_its_candles_after_a_read_that_the_store_did_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mintscope.site.token.live.Channel", partial(Channel, again_s=0.001))
    async with open_site(tmp_path) as (site, market), page_at(site, SOL) as reader:
        await until(reader, "market")
        market.series.unanswered = 1
        await market.trade(swap_of(SOL, 250.0, dollars=99.0, number=7), after_s=2)
        async with asyncio.timeout(10):
            candle = await until_candle(reader, 250.0)

    assert candle[4] == 250.0
    assert not market.series.unanswered


async def test_indicators_of_every_chart_move_with_a_swap(tmp_path: Path) -> None:
    """Fibonacci levels are updated too; a page that is loaded then shows the same numbers."""
    async with open_site(tmp_path) as (site, market), AsyncExitStack() as stack:
        readers = {
            frame: await stack.enter_async_context(page_at(site, SOL, f"tf={frame}"))
            for frame in CHARTED
        }
        before = {each: (await until(reader, "snapshot")).data for each, reader in readers.items()}
        await market.trade(swap_of(SOL, 333.0, dollars=99.0, number=9), after_s=2)
        reported = {each: (await until(reader, "update")).data for each, reader in readers.items()}
        pages = {frame: await _page(site, SOL, frame) for frame in CHARTED}
    for frame, page in pages.items():
        change = reported[frame]["indicators"][frame]
        now = before[frame]["indicators"][frame] | change
        macd = now["macd"] or dict.fromkeys(("line", "signal", "histogram"))
        expected = [*(now[name] for name in AVERAGES), *macd.values()]
        assert change["fibonacci"]["swingHigh"] == 333.0
        assert "ema9" in change or frame in {"h1", "h4", "d1"}, "of these there are too few"
        shown = _attribute(page, "points")[-1][8:]
        for number, value in zip(shown, expected, strict=True):
            assert number is value is None or number == pytest.approx(value, rel=1e-9), frame
        levels = [now["fibonacci"][name] for name in LEVELS]
        assert [usd for _, _, usd in _attribute(page, "levels")] == pytest.approx(levels), frame


async def test_the_figures_of_the_list_are_sent_after_a_fold_without_a_swap(tmp_path: Path) -> None:
    async with open_site(tmp_path) as (site, market), AsyncExitStack() as stack:
        await _page(site, BONE)  # a free view
        await market.trade(swap_of(BONE, 0.00005, dollars=321.5, number=9), after_s=60)
        async with page_at(site, BONE) as reader, asyncio.timeout(10):
            before = (await until(reader, "figures")).data
            await market.fold()
            reported = (await until(reader, "figures")).data
        client = await stack.enter_async_context(httpx.AsyncClient(base_url=site.origin))
        answer = (await client.get(f"/v1/tokens?query={BONE}")).json()["data"]
        page = await _page(site, BONE)

    (line,) = answer["tokens"]
    assert answer["slot"] == market.slot
    assert {f'data-figure="{name}">{html}<' in page for name, html in reported.items()} == {True}
    for span in ("m5", "h1", "d1"):
        assert reported[span] == percent(line["change"][span])
    assert all(reported[name] != before[name] for name in ("m5", "h1", "volume", "cap"))
    assert reported["volume"] == dollars(line["volumeUsdD1"])
    assert reported["cap"] == dollars(line["marketCapUsd"])
    assert reported["swaps"] == f"{line['swapsD1']:,}"
    assert line["price"]["confidence"] in reported["confidence"]
    assert reported["liquidity"] == dollars(line["price"]["liquidityUsd"])


async def test_a_page_gets_all_candles_again_if_it_lacks_several(tmp_path: Path) -> None:
    async with open_site(tmp_path) as (site, _):
        page = await _page(site, SOL)
        shown = _attribute(page, "points")
        async with page_at(site, SOL, f"tf=m5&since={shown[-4][0]}") as reader:
            assert (await reader.next()).name == "series"
        async with page_at(site, SOL, f"tf=m5&since={shown[-1][0]}") as reader:
            assert (await reader.next()).name == "snapshot"


async def test_a_page_whose_missed_candles_cannot_be_read_leaves_no_channel(tmp_path: Path) -> None:
    async with open_site(tmp_path) as (site, _):
        await _page(site, SOL)
        before = channel_count()
        market = apsw.Connection(str(site.folder / MARKET_FILE))
        market.execute("ALTER TABLE candle RENAME TO other")
        async with page_at(site, SOL, "tf=m5&since=1") as reader:
            with pytest.raises(httpx.RemoteProtocolError):
                await reader.next()
        market.close()

        assert channel_count() == before


def channel_count() -> int:
    """Return the number of `Channel` objects that exist in this process."""
    gc.collect()
    return sum(isinstance(each, Channel) for each in gc.get_objects())


async def test_a_caller_who_may_not_see_a_token_gets_no_data_of_it(tmp_path: Path) -> None:
    async with open_site(tmp_path, WebConfig(free_views_per_day=1)) as (site, market):
        async with httpx.AsyncClient(base_url=site.origin) as client:
            assert (await client.get(f"/token/{BONE}/live")).status_code == 204
            await client.get(f"/token/{BONE}", headers={"accept": "text/html"})
            assert (await client.get(f"/token/{RISKY}/live")).status_code == 204
        async with page_at(site, BONE) as reader:
            await until(reader, "snapshot")
            for _ in range(16):  # a view lasts 15 minutes
                site.clock.advance(60_000)
                await market.trade()
                market.parts.streams.look()
                await asyncio.sleep(0)
            end = await until(reader, "end")

    assert end.data["message"].startswith("The view has ended")


@pytest.mark.parametrize("mint", ["not-a-mint", "4k3Dyjzvzp8eMZWUXbBCjEvwSkkk59S5iCNLY3QrkX6R"])
async def test_an_untracked_or_invalid_mint_has_no_stream(shown_site: Website, mint: str) -> None:
    async with Person(shown_site) as person:
        assert (await person.open(f"/token/{mint}/live")).status_code in {204, 404}


async def test_a_free_token_without_data_has_no_stream(tmp_path: Path) -> None:
    untracked = "4k3Dyjzvzp8eMZWUXbBCjEvwSkkk59S5iCNLY3QrkX6R"
    async with (
        open_site(tmp_path, WebConfig(showcase=(untracked,))) as (site, _),
        httpx.AsyncClient(base_url=site.origin) as client,
    ):
        assert (await client.get(f"/token/{untracked}/live")).status_code == 404


async def _page(site: Website, mint: str, frame: str = "") -> str:
    frame = frame or ("m1" if mint == BONE else "m5")
    async with httpx.AsyncClient(base_url=site.origin, headers={"accept": "text/html"}) as client:
        return (await client.get(f"/token/{mint}?tf={frame}")).text


def _attribute(page: str, name: str) -> Any:
    return json.loads(unescape(page.partition(f'data-{name}="')[2].partition('"')[0]))
