"""Tokens as lines of a table: what the list says of each, and its day.

A page of lines is made once for each state of the list, in a thread: with many tokens it takes some
milliseconds.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec
from markupsafe import Markup

from mintscope.base.primitives import Mint, Slot, UnixS
from mintscope.core.market.listing.listed import (
    ListedTokens,
    ListLine,
    ListPlace,
    ListQuestion,
    Sort,
)
from mintscope.edges.web.figures.sparkline import sparkline
from mintscope.edges.web.market import MarketParts

PAGES_KEPT: Final = 64  # of one state of the list
MOVERS: Final = 8
MOST_TRADED: Final = 100


class ShownToken(NamedTuple):
    """One token: what the list says, and how its day went."""

    line: ListLine
    day: Markup

    @property
    def mint(self) -> Mint:
        """The mint."""
        return self.line.listed.mint

    @property
    def title(self) -> str:
        """Its name: its symbol, its own name, or the ends of its address."""
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

    async def page(self, asked: ListQuestion) -> LinePage:
        """Return what is *asked* for.  Raises ServiceUnavailable while the list is loaded."""
        return await self._made(_hashable(asked), lambda listed: _page(listed, asked))

    async def movers(self) -> LinePage:
        """Return MOVERS of the most traded tokens: those whose price has changed most in a day.

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


def _page(listed: ListedTokens, asked: ListQuestion) -> LinePage:
    found = listed.page(asked)
    return _drawn(listed, found.lines, found.rows, found.next_after)


def _movers(listed: ListedTokens) -> LinePage:
    found = listed.page(ListQuestion(sort=Sort.VOLUME, limit=MOST_TRADED))
    pairs = list(zip(found.lines, found.rows, strict=True))
    moved = [pair for pair in pairs if pair[0].changes[2] is not None and pair[0].volume]
    moved.sort(key=lambda pair: -abs(pair[0].changes[2] or 0.0))
    lines = [line for line, _ in moved[:MOVERS]]
    rows = [row for _, row in moved[:MOVERS]]
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
