"""The list of tokens as a live page.

Rows are sent without the star that marks watched tokens, because it differs between readers.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

from mintscope.kit.errors import NotFound, ServiceUnavailable
from mintscope.kit.http.response import Outlet
from mintscope.kit.http.server_sent import encode_event
from mintscope.kit.primitives import MICRO_USD, Mint, UnixMs, UnixS
from mintscope.kit.time import SECOND_MS
from mintscope.market.screening.listed import ListedTokens, ListLine
from mintscope.site.figures import csv_text, spreadsheet_text
from mintscope.site.live import NEWS, Channel, News, OpenPages, PageStream
from mintscope.site.page import Macros, NoContent, Page, PageResponse, Redirect, TextFile
from mintscope.site.routes import Access, PageRequest, PageRoute, get, post
from mintscope.site.sol import MarketParts
from mintscope.site.token import listing
from mintscope.site.token.listing import QUESTION_PATH as PATH

PAUSE_S: Final = 1.0  # pause between two reads, in seconds
PLACES: Final = {
    key: place for place, key in enumerate(listing.COLUMNS, 1)
}  # indexes of cells; the name has index 0
# Matches before the tag of each cell, so that a split keeps the tags.
CELL: Final = re.compile(r"(?=<t[hd][ >])")


ListPreset = Mapping[str, str | bool]


class ListView(NamedTuple):
    """A page of a list; *watched* is the reader's watchlist if only its tokens are listed."""

    asked: listing.TokensQuestion
    watched: tuple[Mint, ...] | None


class _Lines(NamedTuple):
    """The cells of each row, as HTML; *mark* and *time* are those of the LinePage."""

    mark: str
    time: UnixS | None
    rows: Mapping[Mint, Sequence[str]]


@dataclass(eq=False, repr=False)
class LiveLists:
    """Sends changes of the list of tokens to the list pages that are open in this process."""

    market: MarketParts
    lines: listing.TokenLines
    watching: listing.Watching
    pages: OpenPages
    _channel: Channel[ListView] | None = field(default=None, init=False)
    _listed: ListedTokens | None = field(default=None, init=False)
    _newest: dict[ListView, _Lines] = field(default_factory=dict, init=False)
    # The mark of the newest drawn page, and cells of this state, shared by all pages of the list.
    _mark: str = field(default="", init=False)
    _cells: dict[Mint, Sequence[str]] = field(default_factory=dict, init=False)

    async def open(self, request: PageRequest) -> PageResponse:
        """Open the event stream of the list page whose search and sorting are in the query.

        The query's `seen` identifies the state that the page already shows.  Return no content if
        too many pages are open, or if a visitor who is not signed in requests a watchlist.  Raises
        BadRequest, NotFound, RateLimited and ServiceUnavailable.
        """
        asked = listing.expect_condition(listing.question_of(request.query_params))
        watched = await self.watching.mints(request.session) if asked.is_watched else None
        if asked.is_watched and watched is None:
            return NoContent()
        view = ListView(asked, None if watched is None else tuple(watched))
        seen = request.query_params.text("seen")
        return await self.pages.open(request, [], partial(self._serve, view, seen))

    async def _serve(self, view: ListView, seen: str, outlet: Outlet, macros: Macros) -> None:
        if self._channel is None:
            look = partial(self._look, macros)
            self._channel = Channel(look, PAUSE_S, is_watched=True)
        streams = self.market.streams
        stream = PageStream(outlet, [], on_behind=streams.note_behind, known=seen)
        with self._channel.reading(stream, view):
            await streams.serve(stream)

    async def _look(self, macros: Macros, views: Collection[ListView]) -> Mapping[ListView, News]:
        """Return the news of *views* since the last read."""
        self._newest = {view: kept for view, kept in self._newest.items() if view in views}
        found: dict[ListView, News] = {}
        try:
            listed = self.market.lists.newest()
            is_new = listed is not self._listed
            for view in views if is_new else [each for each in views if each not in self._newest]:
                watched = None if view.watched is None else list(view.watched)
                asked = view.asked.of_list(watched, listed.folded.time or UnixS(0))
                found[view] = self._news(macros, view, await self.lines.page(asked))
        except ServiceUnavailable:
            return found  # the list is still loading
        # Only after all views are read, so that all are read again after a failure.
        self._listed = listed
        return found

    def _news(self, macros: Macros, view: ListView, page: listing.LinePage) -> News:
        if page.mark != self._mark:
            self._mark = page.mark
            self._cells.clear()
        drawn = macros("tokens/macros.html")
        places = [0, *(PLACES[key] for key in view.asked.shown)]
        rows = {}
        for each in page.lines:
            cells = self._cells_of(drawn, each)
            rows[each.mint] = [cells[place] for place in places]
        before = self._newest.get(view)
        now = self._newest[view] = _Lines(page.mark, page.time, rows)
        footing = str(drawn.footing(page, view.asked)).strip()
        whole = _event(now, footing, dict.fromkeys(rows, ()))
        if before is None:
            return News(now.mark, whole)
        return News(now.mark, whole, before.mark, _event(now, footing, before.rows))

    def _cells_of(self, drawn: Any, each: listing.ShownToken) -> Sequence[str]:
        cells = self._cells.get(each.mint)
        if cells is None:
            parts = CELL.split(str(drawn.cells(each)))
            cells = self._cells[each.mint] = [part.strip() for part in parts if part.strip()]
        return cells


def _event(now: _Lines, footing: str, before: Mapping[Mint, Sequence[str]]) -> bytes:
    """Return the event with the changes from *before* to *now*."""
    reported = {
        "slot": now.mark,
        "asOf": None if now.time is None else now.time * SECOND_MS,
        "order": list(now.rows),
        "rows": {
            mint: changed
            for mint, cells in now.rows.items()
            if (changed := _changed(cells, before.get(mint, ())))
        },
        "footing": footing,
    }
    return encode_event(NEWS, msgspec.json.encode(reported))


def _changed(cells: Sequence[str], before: Sequence[str]) -> list[tuple[int, str]]:
    """Return the changed cells with their indexes."""
    known = dict(enumerate(before))
    return [(number, cell) for number, cell in enumerate(cells) if known.get(number) != cell]


UNAVAILABLE: Final = 503
WRONG: Final = 422
# The list counts as late at this multiple of degraded_after_s, because it waits for final blocks.
LATE: Final = 2


def _preset(sort: str, *, is_rising: bool = False, volume: str = "", where: str = "") -> ListPreset:
    return {"sort": sort, "is_rising": is_rising, "volume": volume, "age": "", "where": where}


PRESETS: Final = (
    ("Most traded", _preset("volume")),
    ("Gainers", _preset("d1", volume="10k")),
    ("Losers", _preset("d1", is_rising=True, volume="10k")),
    ("Newest", _preset("age", is_rising=True)),
    ("Oversold", _preset("rsi", is_rising=True, volume="10k", where="rsi_h1 < 30")),
)
NARROW: Final = 6  # maximum number of columns on a tablet
STARRED_AT: Final = (PATH, "/token/")  # pages to return to after a click on a star


@dataclass(eq=False, repr=False)
class TokensPages:
    """The list of tokens, and the watch buttons in its rows."""

    market: MarketParts
    lines: listing.TokenLines
    watching: listing.Watching
    pages: InitVar[OpenPages]
    search: listing.SearchPages

    def __post_init__(self, pages: OpenPages) -> None:
        self._live = LiveLists(self.market, self.lines, self.watching, pages)

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of the list of tokens."""
        yield get(PATH, self.show)
        yield get(f"{PATH}.csv", self.download)
        yield get(f"{PATH}/events", self._live.open)
        yield post(f"{PATH}/watch", self.watch, Access.SIGNED_IN)

    async def show(self, request: PageRequest) -> PageResponse:
        """Show a page of the list of tokens.

        Return no content if nothing has changed since the state that `seen` in the query
        identifies.
        """
        asked = listing.question_of(request.query_params)
        query = request.query_params
        flaws = listing.flaws_of_limits(query)
        if flaws or listing.flaw_of(asked) is not None:
            form = self._page(asked, None, None, now=request.now, is_stale=False)
            values = {name: query.line(name) for name in listing.LIMITS}
            return replace(form, errors=flaws, values=values, status=WRONG)
        if listing.has_empty_fields(query) or listing.has_limits(query):
            chosen = listing.with_columns(listing.with_limits(asked, query), query)
            return Redirect(chosen.address(after=asked.after))
        if asked.is_watched and request.session is None:
            return Redirect(f"/sign-in?next={PATH}")
        watched = await self.watching.mints(request.session)
        now_s = UnixS(request.now // SECOND_MS)
        try:
            page = await self.lines.page(asked.of_list(watched, now_s))
        except ServiceUnavailable:
            return self._page(asked, None, watched, now=request.now, is_stale=False)
        meant = None
        if not page.lines and asked == listing.TokensQuestion(text=asked.text):
            meant = await self.search.meant(asked.text)
        return meant or self._found(request, asked, page, watched)

    def _found(
        self,
        request: PageRequest,
        asked: listing.TokensQuestion,
        page: listing.LinePage,
        watched: list[Mint] | None,
    ) -> PageResponse:
        age_ms = 0 if page.time is None else request.now - page.time * SECOND_MS
        is_stale = self.market.is_stale(age_ms)
        if request.query_params.text("seen") == _mark(page, is_stale=is_stale):
            return NoContent()
        return self._page(asked, page, watched, now=request.now, is_stale=is_stale)

    async def download(self, request: PageRequest) -> PageResponse:
        """Return a page of the list as CSV.  Raises BadRequest, NotFound, ServiceUnavailable."""
        asked = listing.expect_condition(listing.question_of(request.query_params))
        watched = await self.watching.mints(request.session)
        if asked.is_watched and watched is None:
            return Redirect(f"/sign-in?next={PATH}")
        page = await self.lines.page(asked.of_list(watched, UnixS(request.now // SECOND_MS)))
        return TextFile("mintscope-tokens.csv", "text/csv", table_of(page, asked.shown))

    async def watch(self, request: PageRequest) -> PageResponse:
        """Add a token to the signed-in user's watchlist, or remove it."""
        wanted = request.form.text("add")
        mint = listing.mint_of(wanted or request.form.text("remove"))
        if mint is None:
            raise NotFound
        back = request.next_path if request.next_path.startswith(STARRED_AT) else PATH
        if not wanted:
            await self.watching.remove(request.user_id, mint)
        elif not await self.watching.add(request.user_id, mint):
            return Redirect(back, notice="watchlist-full")
        return Redirect(back)

    def _page(
        self,
        asked: listing.TokensQuestion,
        page: listing.LinePage | None,
        watched: list[Mint] | None,
        *,
        now: UnixMs,
        is_stale: bool,
    ) -> Page:
        facts = {
            "asked": asked,
            "page": page,
            "watched": watched,
            "is_stale": is_stale,
            "now": now,
            "late_ms": int(LATE * self.market.degraded_after_s * SECOND_MS),
            "mark": "" if page is None else _mark(page, is_stale=is_stale),
            "columns": [(key, listing.COLUMNS[key]) for key in asked.shown],
            "all_columns": listing.COLUMNS,
            "sorts": listing.SORTS,
            "is_narrow": len(asked.shown) <= NARROW,
            "volumes": listing.VOLUMES,
            "ages": listing.AGES,
            "presets": [
                (name, asked.address(**each), asked == msgspec.structs.replace(asked, **each))
                for name, each in PRESETS
            ],
            "lengths": listing.LENGTHS,
            "limits": {name: label for name, (label, _, _) in listing.LIMITS.items()},
            "flaw": listing.flaw_of(asked),
            "csv": asked.address(f"{PATH}.csv", after=asked.after),
            "here": asked.address(after=asked.after),
        }
        status = UNAVAILABLE if page is None else None
        return Page("tokens/list.html", facts, status=status)


# Columns of the file and their values, by columns of the page; the sparkline has none.
FIELDS: Final[Mapping[str, tuple[str, Callable[[ListLine], float | None]]]] = {
    "price": ("price_usd", lambda line: line.usd),
    "m5": ("change_m5", lambda line: line.changes[0]),
    "h1": ("change_h1", lambda line: line.changes[1]),
    "d1": ("change_d1", lambda line: line.changes[2]),
    "volume": ("volume_d1_usd", lambda line: line.volume / MICRO_USD),
    "cap": ("market_cap_usd", lambda line: line.market_cap),
    "rsi": ("rsi_h1", lambda line: line.rsi),
    "buys": ("buy_share_h1", lambda line: line.pressure),
    "age": ("age_s", lambda line: line.age_s),
}


def table_of(page: listing.LinePage, shown: Sequence[str]) -> str:
    """Return *page* as CSV with the columns *shown*: unformatted numbers, "" for null."""
    lines = []
    fields = [field for key, field in FIELDS.items() if key in shown]
    for line in (each.line for each in page.lines):
        listed = line.listed
        names = [spreadsheet_text(each or "") for each in (listed.symbol, listed.name)]
        numbers = [value(line) for _, value in fields]
        lines.append([listed.mint, *names, *numbers, line.look_alike_of, page.slot])
    header = ["mint", "symbol", "name", *(name for name, _ in fields), "look_alike_of", "slot"]
    return csv_text(header, lines)


def _mark(page: listing.LinePage, *, is_stale: bool) -> str:
    """Return the mark to send as `seen`: the mark of the list, and "!" if the data is stale."""
    return f"{page.mark}{'!' if is_stale else ''}"
