"""Open pages behind a faulty proxy say that they are not connected, and recover after the fault.

The test moves the clock of each page; the time that the proxy and the network take is negligible.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

import mintscope.site
from support.scenes.people.browsing import Visitor, visiting
from support.scenes.token_market import BONE, swap_of
from support.scenes.website import Website, served_website

Trouble = Literal["none", "bad_gateway", "cuts", "sleeps"]
CHUNK: Final = 65_536
BAD_GATEWAY: Final = b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class TroubledProxy:
    """A proxy of the server at *port*.

    origin     its URL
    attempts   a semaphore, released at each connection that the proxy does not forward
    """

    def __init__(self, port: int) -> None:
        self.origin = ""
        self.attempts = asyncio.Semaphore(0)
        self._port = port
        self._trouble: Trouble = "none"
        self._is_awake = asyncio.Event()
        self._open: set[asyncio.StreamWriter] = set()

    def begin(self, trouble: Trouble) -> None:
        """Begin *trouble*: close the open connections, or pause them if *trouble* is "sleeps"."""
        self._trouble = trouble
        if trouble == "sleeps":
            self._is_awake.clear()
        else:
            self.cut()

    def end(self) -> None:
        """Stop causing faults, and close all connections."""
        self._trouble = "none"
        self.cut()
        self._is_awake.set()

    def cut(self) -> None:
        for writer in self._open:
            writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection: forward it to the server, or refuse it during a trouble."""
        self._open.add(writer)
        try:
            if self._trouble == "none":
                await self._pass_on(reader, writer)
            else:
                await self._refuse(reader, writer)
        except ConnectionError:
            pass  # the browser has disconnected, or `cut` closed the connection
        finally:
            self._open.discard(writer)
            writer.close()

    async def _refuse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.attempts.release()
        if self._trouble == "sleeps":
            await self._is_awake.wait()
        elif self._trouble == "bad_gateway":
            with suppress(asyncio.IncompleteReadError):
                await reader.readuntil(b"\r\n\r\n")
            writer.write(BAD_GATEWAY)
            await writer.drain()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection("127.0.0.1", self._port)
        ways = [
            asyncio.create_task(self._pipe(reader, to_server)),
            asyncio.create_task(self._pipe(from_server, writer)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            to_server.close()

    async def _pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(CHUNK):
            await self._is_awake.wait()
            writer.write(data)
            await writer.drain()


@asynccontextmanager
async def troubled_proxy(port: int) -> AsyncIterator[TroubledProxy]:
    proxy = TroubledProxy(port)
    proxy.end()
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.origin = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        proxy.end()
        server.close()


pytestmark = pytest.mark.asyncio(loop_scope="session")

STEP_MS = 500
TROUBLE_MS = 60_000
AGAIN_MS_MAX = 5_000
SLEEP_SEEN_MS = 25_000
POLL_MS = 3_500


@dataclass
class Subject:
    """A live page, and a way to change its content.

    stream    the path of the updates; None if the page polls
    lost      the selector of the page's text about the connection
    trade     lets the market trade; returns a selector that matches once the page shows the trade
    seen_ms   the most milliseconds until the page shows that the connection is closed
    """

    path: str
    stream: str | None
    lost: str
    trade: Callable[[Website, Page], Awaitable[str]]
    seen_ms: int = 500


async def trade_all(site: Website, attribute: str) -> str:
    assert site.market is not None
    site.clock.advance(1_000)
    await site.market.trade()
    return f'{attribute}[data-live="{site.market.slot}"]'


async def trade_seen(site: Website, _page: Page) -> str:
    site.clock.advance(3_000)  # the status is read every 3 s
    await trade_all(site, "")
    assert site.market is not None
    return f'#status .number:text-is("{site.market.slot:,}")'


async def trade_one(site: Website, page: Page) -> str:
    market = site.token_market
    assert market is not None
    shown = await page.locator("#swap-lines a.mono").first.get_attribute("title")
    await market.trade(swap_of(BONE, 0.0001, dollars=500.0, number=next(NUMBERS)), after_s=1)
    return f'#swap-lines tr:first-child:not(:has(a[title="{shown}"]))'


SLEEPS: Trouble = "sleeps"
NUMBERS = iter(range(700, 800))
LOST = "not connected"
TEMPLATES = Path(mintscope.site.__file__).parent / "templates"
WITH_POLLS = '{% include "htmx.html" %}'
FORGIVEN = (
    "no answer",
    "502",
    *(f"console: {each}" for each in ("Failed", "Event", "htmx:", "Resp")),
)
SUBJECTS = {
    "front": Subject(
        "/", "/live/events", '[data-part="word"]', lambda site, _: trade_all(site, "#live")
    ),
    "list": Subject(
        "/tokens", "/tokens/events", "#lost:not([hidden])", lambda site, _: trade_all(site, "#list")
    ),
    "status": Subject("/status", None, "#not-connected", trade_seen, seen_ms=POLL_MS),
    "token": Subject(f"/token/{BONE}?tf=m1", "/token/{mint}/live", "#age", trade_one),
}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def listed(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Website]:
    async with served_website(tmp_path_factory.mktemp("listed"), has_market=True) as site:
        yield site


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def drawn(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Website]:
    async with served_website(tmp_path_factory.mktemp("drawn"), has_token_market=True) as site:
        yield site


@pytest.mark.parametrize("trouble", ["bad_gateway", "cuts", "sleeps"])
@pytest.mark.parametrize("name", SUBJECTS)
async def test_an_open_page_shows_a_fault_of_the_proxy_and_recovers_after_it(
    chromium: Browser, listed: Website, drawn: Website, name: str, trouble: Trouble
) -> None:
    subject = SUBJECTS[name]
    site = drawn if name == "token" else listed
    port = urlsplit(site.origin).port
    assert port is not None
    async with troubled_proxy(port) as proxy, visiting(chromium, proxy.origin) as visitor:
        page = visitor.page
        await page.clock.install()
        await visitor.open(subject.path)
        await settles(page, subject, is_lost=False)
        traded = await subject.trade(site, page)
        if subject.stream is None:
            await page.clock.run_for(POLL_MS)
        await page.locator(traded).wait_for(state="attached")

        proxy.begin(trouble)
        seen_ms = SLEEP_SEEN_MS if trouble == SLEEPS else subject.seen_ms
        await passes(page, seen_ms, subject, is_lost=True, has_answers=trouble != SLEEPS)
        await rides_out(page, proxy)
        assert await is_lost(page, subject)
        awaited = await subject.trade(site, page)

        proxy.end()
        await passes(page, AGAIN_MS_MAX, subject, is_lost=False)
        await page.locator(awaited).wait_for(state="attached")
        forgive(visitor)


async def test_every_page_with_updates_is_tested_or_says_if_it_is_not_connected(
    drawn: Website,
) -> None:
    streams = {each.path for each in drawn.routes() if each.path.endswith(("/live", "/events"))}
    polled = {"/live"}  # the front page polls this path if it gets no updates
    assert streams - polled == {each.stream for each in SUBJECTS.values() if each.stream}
    texts = [each.read_text(encoding="utf-8") for each in TEMPLATES.rglob("*.html")]
    asking = [text for text in texts if 'hx-trigger="every ' in text]
    assert asking
    assert all(WITH_POLLS in text for text in asking), "they say that they are not connected"


async def is_lost(page: Page, subject: Subject) -> bool:
    texts = await page.locator(subject.lost).all_inner_texts()
    return any(LOST in text.lower() for text in texts)


async def settles(page: Page, subject: Subject, *, is_lost: bool) -> None:
    """Wait until the page says that its connection is lost, or unless *is_lost* until it does not.

    The clock of the page is not moved.
    """
    place = page.locator(subject.lost).filter(has_text="ot connected")
    await expect(place).to_have_count(1 if is_lost else 0)


async def passes(
    page: Page, span_ms: int, subject: Subject, *, is_lost: bool, has_answers: bool = True
) -> None:
    """Advance the page's clock by *span_ms*; check the page's text about the connection."""
    for _ in range(0, span_ms, STEP_MS):
        await page.clock.run_for(STEP_MS)
        if has_answers:  # once this request has ended, requests that were due have, too
            await page.evaluate("fetch('/robots.txt').catch(() => null)")
    await settles(page, subject, is_lost=is_lost)


async def rides_out(page: Page, proxy: TroubledProxy) -> None:
    """Advance the page's clock by a minute; expect that the page keeps trying to connect."""
    for _ in range(0, TROUBLE_MS, 5_000):
        await page.clock.run_for(5_000)
        await proxy.attempts.acquire()


def forgive(visitor: Visitor) -> None:
    """Remove the problems that the proxy has caused from `visitor.mishaps`."""
    visitor.mishaps[:] = [each for each in visitor.mishaps if not each.startswith(FORGIVEN)]
