"""Tokens as lines of a table: what the list says of each, its day, and two live indicators.

A page of lines is made once for each state of the list, in a thread: with many tokens it takes some
milliseconds.  RSI and pressure come from the reports, which are read at most once in some seconds
for each mint; one that must be loaded first is shown when it is there.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec
from markupsafe import Markup

from mintscope.base.errors import ServiceError
from mintscope.base.primitives import Mint, Slot, UnixMs, UnixS
from mintscope.core.market.listing.listed import (
    ListedTokens,
    ListLine,
    ListPlace,
    ListQuestion,
    Sort,
)
from mintscope.core.market.report import ReadReport
from mintscope.edges.web.figures.sparkline import sparkline
from mintscope.edges.web.market import MarketParts

PAGES_KEPT: Final = 64  # of one state of the list
LIVE_MS: Final = 2_000
LIVE_KEPT: Final = 10_000
LOAD_S: Final = 0.25  # so long a page waits for reports that must be loaded
MOVERS: Final = 8
MOST_TRADED: Final = 100


class _FrameRead(msgspec.Struct):
    rsi: float | None = None


class _PressureRead(msgspec.Struct):
    h1: float | None = None


class _IndicatorsRead(msgspec.Struct, rename="camel"):
    h1: _FrameRead | None = None
    buy_sell_pressure: _PressureRead | None = None


class _ReportRead(msgspec.Struct):
    indicators: _IndicatorsRead | None = None


DECODER: Final = msgspec.json.Decoder(_ReportRead)


class LiveValues(NamedTuple):
    """RSI and pressure of h1 as of the newest block; None where they are not known."""

    rsi: float | None = None
    pressure: float | None = None


class ShownToken(NamedTuple):
    """One token: what the list says, how its day went, and what its report says."""

    line: ListLine
    day: Markup
    live: LiveValues = LiveValues()

    @property
    def mint(self) -> Mint:
        """The mint."""
        return self.line.listed.mint

    @property
    def title(self) -> str:
        """What it is called: by its symbol, its name, or the ends of its address."""
        listed = self.line.listed
        return (
            listed.symbol
            or listed.name
            or f"{self.mint[:4]}\N{HORIZONTAL ELLIPSIS}{self.mint[-4:]}"
        )


class LinePage(NamedTuple):
    """A page of lines, all as of one final slot.

    followed   how many tokens are listed, found or not
    """

    lines: Sequence[ShownToken]
    next_after: ListPlace | None
    slot: Slot | None
    time: UnixS | None
    followed: int


class TokenLines:
    """Makes lines of the list of *market*; one for all pages."""

    def __init__(self, market: MarketParts) -> None:
        self._market = market
        self._listed: ListedTokens | None = None
        self._pages: dict[object, asyncio.Task[LinePage]] = {}
        self._live: dict[Mint, tuple[UnixMs, LiveValues]] = {}
        self._loads: dict[Mint, asyncio.Task[None]] = {}

    async def page(self, asked: ListQuestion, now: UnixMs) -> LinePage:
        """Return what is *asked* for.  Raises ServiceUnavailable while the list is loaded."""
        page = await self._made(_hashable(asked), lambda listed: _page(listed, asked))
        return await self._with_live(page, now)

    async def movers(self) -> LinePage:
        """Return the eight of the most traded tokens whose price has changed most in a day.

        Raises ServiceUnavailable while the list is loaded.
        """
        return await self._made(MOVERS, _movers)

    async def _made(self, key: object, make: Callable[[ListedTokens], LinePage]) -> LinePage:
        """Return what *make* makes of the newest list: once, however many ask for it meanwhile."""
        listed = self._market.lists.newest()
        if listed is not self._listed:
            self._listed = listed
            self._pages.clear()
        page = self._pages.get(key)
        if page is None:
            page = asyncio.create_task(asyncio.to_thread(make, listed))
            if len(self._pages) < PAGES_KEPT:
                self._pages[key] = page
        return await asyncio.shield(page)

    async def _with_live(self, page: LinePage, now: UnixMs) -> LinePage:
        mints = [each.mint for each in page.lines]
        await self._read(mints, now)
        lines = [each._replace(live=self._live[each.mint][1]) for each in page.lines]
        return page._replace(lines=lines)

    async def _read(self, mints: Sequence[Mint], now: UnixMs) -> None:
        """Have live values of *mints*, those that are kept too long ago read again."""
        if len(self._live) > LIVE_KEPT:
            self._live.clear()
        missing = []
        for mint in mints:
            kept = self._live.get(mint)
            if kept is not None and now - kept[0] < LIVE_MS:
                continue
            report = self._market.reports.ready(mint)
            self._live[mint] = now, self._values(report)
            if report is None:
                missing.append(mint)
        loads = [self._load(mint, now) for mint in missing]
        if loads:
            await asyncio.wait(loads, timeout=LOAD_S)

    def _load(self, mint: Mint, now: UnixMs) -> asyncio.Task[None]:
        load = self._loads.get(mint)
        if load is None:
            load = self._loads[mint] = asyncio.create_task(self._load_one(mint, now))
            load.add_done_callback(lambda _: self._loads.pop(mint, None))
        return load

    async def _load_one(self, mint: Mint, now: UnixMs) -> None:
        try:
            report = await self._market.reports.read(mint)
        except ServiceError:  # too little is known of it, or it cannot be read now
            return
        self._live[mint] = now, self._values(report)

    def _values(self, report: ReadReport | None) -> LiveValues:
        if report is None or self._market.is_stale(report.age_ms):
            return LiveValues()
        found = DECODER.decode(report.body).indicators
        if found is None:
            return LiveValues()
        return LiveValues(
            None if found.h1 is None else found.h1.rsi,
            None if found.buy_sell_pressure is None else found.buy_sell_pressure.h1,
        )


def _page(listed: ListedTokens, asked: ListQuestion) -> LinePage:
    found = listed.page(asked)
    return _drawn(listed, found.lines, found.rows, found.next_after)


def _movers(listed: ListedTokens) -> LinePage:
    found = listed.page(ListQuestion(sort=Sort.VOLUME, limit=MOST_TRADED))
    pairs = list(zip(found.lines, found.rows, strict=True))
    moved = [pair for pair in pairs if pair[0].changes[2] is not None and pair[0].volume]
    moved.sort(key=lambda pair: -abs(pair[0].changes[2] or 0.0))
    lines, rows = [line for line, _ in moved[:MOVERS]], [row for _, row in moved[:MOVERS]]
    return _drawn(listed, lines, rows, None)


def _drawn(
    listed: ListedTokens,
    lines: Sequence[ListLine],
    rows: Sequence[int],
    after: ListPlace | None,
) -> LinePage:
    days = listed.days(rows)
    drawn = [ShownToken(line, sparkline(day)) for line, day in zip(lines, days, strict=True)]
    return LinePage(drawn, after, listed.folded.slot, listed.folded.time, len(listed))


def _hashable(key: object) -> object:
    """Return *key* with no list in it."""
    if isinstance(key, ListQuestion) and key.among is not None:
        return msgspec.structs.replace(key, among=tuple(key.among))
    return key
