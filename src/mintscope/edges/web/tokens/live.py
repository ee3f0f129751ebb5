"""Open lists: each page of a list is made once for all who look at it, and sent as it changes.

A line is sent without its star, which differs from reader to reader.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

from mintscope.base.errors import ServiceUnavailable
from mintscope.base.primitives import Mint, UnixS
from mintscope.core.market.listing.listed import ListedTokens
from mintscope.core.market.updates.server_sent import encode_event
from mintscope.edges.server.streams.outlet import Outlet
from mintscope.edges.web.live.channel import Channel, News, PageStream
from mintscope.edges.web.live.open_pages import NEWS, OpenPages
from mintscope.edges.web.market import MarketParts
from mintscope.edges.web.pages.page import Macros, NoContent, PageResponse
from mintscope.edges.web.routes import PageRequest
from mintscope.edges.web.tokens.lines import LinePage, ShownToken, TokenLines
from mintscope.edges.web.tokens.question import TokensQuestion, question_of
from mintscope.edges.web.tokens.watching import Watching

PAUSE_S: Final = 1.0  # between two looks
CELL: Final = re.compile(r"(?=<t[hd][ >])")


class ListView(NamedTuple):
    """A page of a list; *watched* is what its reader watches, where it shows nothing else."""

    asked: TokensQuestion
    watched: tuple[Mint, ...] | None


class _Lines(NamedTuple):
    """The cells of each line, as HTML; *mark* is the slot that they are of."""

    mark: str
    rows: Mapping[Mint, Sequence[str]]


class LiveLists:
    """All open lists of this process."""

    def __init__(
        self, market: MarketParts, lines: TokenLines, watching: Watching, pages: OpenPages
    ) -> None:
        self._market = market
        self._lines = lines
        self._watching = watching
        self._pages = pages
        self._channel: Channel[ListView] | None = None
        self._listed: ListedTokens | None = None
        self._newest: dict[ListView, _Lines] = {}
        self._cells: dict[Mint, Sequence[str]] = {}  # of that list, whatever page they are on

    async def open(self, request: PageRequest) -> PageResponse:
        """Return the stream of a list; with `seen`, a slot, what has changed since.

        Raises NotFound, RateLimited and ServiceUnavailable.
        """
        asked = question_of(request.query_params)
        watched = await self._watching.mints(request.session) if asked.is_watched else None
        if asked.is_watched and watched is None:
            return NoContent()
        view = ListView(asked, None if watched is None else tuple(watched))
        seen = request.query_params.text("seen")
        return await self._pages.open(request, [], partial(self._serve, view, seen))

    async def _serve(self, view: ListView, seen: str, outlet: Outlet, macros: Macros) -> None:
        if self._channel is None:
            look = partial(self._look, macros)
            self._channel = Channel(look, PAUSE_S, is_watched=True)
        streams = self._market.streams
        stream = PageStream(outlet, [], on_behind=streams.note_behind, known=seen)
        with self._channel.reading(stream, view):
            await streams.serve(stream)

    async def _look(self, macros: Macros, views: Collection[ListView]) -> Mapping[ListView, News]:
        """Return what is new in *views* since the last look."""
        self._newest = {view: kept for view, kept in self._newest.items() if view in views}
        found: dict[ListView, News] = {}
        try:
            listed = self._market.lists.newest()
            is_new = listed is not self._listed
            if is_new:
                self._cells.clear()
            for view in views if is_new else [each for each in views if each not in self._newest]:
                watched = None if view.watched is None else list(view.watched)
                asked = view.asked.of_list(watched, listed.folded.time or UnixS(0))
                found[view] = self._news(macros, view, await self._lines.page(asked))
        except ServiceUnavailable:
            return found  # the list is being loaded
        self._listed = listed
        return found

    def _news(self, macros: Macros, view: ListView, page: LinePage) -> News:
        drawn = macros("tokens/macros.html")
        rows = {each.mint: self._cells_of(drawn, each) for each in page.lines}
        mark = str(page.slot)
        before = self._newest.get(view)
        if before is not None and before.mark == mark:
            mark += "+"  # the line of a mint may change without a slot
        now = self._newest[view] = _Lines(mark, rows)
        footing = str(drawn.footing(page)).strip()
        whole = _event(now, footing, dict.fromkeys(rows, ()))
        if before is None:
            return News(now.mark, whole)
        return News(now.mark, whole, before.mark, _event(now, footing, before.rows))

    def _cells_of(self, drawn: Any, each: ShownToken) -> Sequence[str]:
        cells = self._cells.get(each.mint)
        if cells is None:
            parts = CELL.split(str(drawn.cells(each)))
            cells = self._cells[each.mint] = [part.strip() for part in parts if part.strip()]
        return cells


def _event(now: _Lines, footing: str, before: Mapping[Mint, Sequence[str]]) -> bytes:
    """Return the event of *now* for those who know *before*."""
    told = {
        "slot": now.mark,
        "order": list(now.rows),
        "rows": {
            mint: changed
            for mint, cells in now.rows.items()
            if (changed := _changed(cells, before.get(mint, ())))
        },
        "footing": footing,
    }
    return encode_event(NEWS, msgspec.json.encode(told))


def _changed(cells: Sequence[str], before: Sequence[str]) -> list[tuple[int, str]]:
    """Return the cells that are not as before, each with its number."""
    known = dict(enumerate(before))
    return [(number, cell) for number, cell in enumerate(cells) if known.get(number) != cell]
