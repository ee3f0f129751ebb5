"""`/tokens`: all tokens that are followed, in a table that stays current."""

from collections.abc import Iterable
from typing import Final

from mintscope.base.errors import InvalidTokenAddress, NotFound, ServiceUnavailable
from mintscope.base.primitives import Mint, UnixS, parse_mint
from mintscope.base.time import SECOND_MS
from mintscope.edges.web.live.open_pages import OpenPages
from mintscope.edges.web.market import MarketParts
from mintscope.edges.web.pages.page import NoContent, Page, PageResponse, Redirect
from mintscope.edges.web.routes import Access, PageRequest, PageRoute, get, post
from mintscope.edges.web.tokens.lines import LinePage, TokenLines
from mintscope.edges.web.tokens.live import LiveLists
from mintscope.edges.web.tokens.question import (
    AGES,
    PATH,
    VOLUMES,
    TokensQuestion,
    has_empty_fields,
    question_of,
)
from mintscope.edges.web.tokens.watching import Watching

UNAVAILABLE: Final = 503
# Sort keys of a list, "" for a column without one, and the text above the column.
COLUMNS: Final = (
    ("price", "Price"),
    ("m5", "5 min"),
    ("h1", "1 h"),
    ("d1", "1 day"),
    ("volume", "Volume"),
    ("cap", "Market cap"),
    ("rsi", "RSI 1 h"),
    ("buys", "Buys 1 h"),
    ("", "Last day"),
    ("age", "Age"),
)
STARRED_AT: Final = (PATH, "/token/")  # who presses a star goes back there


class TokensPages:
    """The list, and the stars beside its lines."""

    def __init__(
        self, market: MarketParts, lines: TokenLines, watching: Watching, pages: OpenPages
    ) -> None:
        self._market = market
        self._lines = lines
        self._watching = watching
        self._live = LiveLists(market, lines, watching, pages)

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of this group."""
        yield get(PATH, self.show)
        yield get(f"{PATH}/events", self._live.open)
        yield post(f"{PATH}/watch", self.watch, Access.SIGNED_IN)

    async def show(self, request: PageRequest) -> PageResponse:
        """Show a page of the list; with `seen`, a slot, nothing if it is still the newest."""
        asked = question_of(request.query_params)
        if has_empty_fields(request.query_params):
            return Redirect(asked.address(after=asked.after))
        if asked.is_watched and request.session is None:
            return Redirect(f"/sign-in?next={PATH}")
        watched = await self._watching.mints(request.session)
        now_s = UnixS(request.now // SECOND_MS)
        try:
            page = await self._lines.page(asked.of_list(watched, now_s))
        except ServiceUnavailable:
            return self._page(asked, None, watched, is_stale=False)
        age_ms = 0 if page.time is None else request.now - page.time * SECOND_MS
        is_stale = self._market.is_stale(age_ms)
        if request.query_params.text("seen") == _mark(page, is_stale=is_stale):
            return NoContent()
        return self._page(asked, page, watched, is_stale=is_stale)

    async def watch(self, request: PageRequest) -> PageResponse:
        """Put a token on the watchlist of who is signed in, or take it off."""
        wanted = request.form.text("add")
        unwanted = request.form.text("remove")
        try:
            mint = parse_mint(wanted or unwanted)
        except InvalidTokenAddress:
            raise NotFound from None
        user_id = request.signed_in.user.user_id
        back = request.next_path if request.next_path.startswith(STARRED_AT) else PATH
        if not wanted:
            await self._watching.remove(user_id, mint)
        elif not await self._watching.add(user_id, mint):
            return Redirect(back, notice="watchlist-full")
        return Redirect(back)

    def _page(
        self,
        asked: TokensQuestion,
        page: LinePage | None,
        watched: list[Mint] | None,
        *,
        is_stale: bool,
    ) -> Page:
        facts = {
            "asked": asked,
            "page": page,
            "watched": watched,
            "is_stale": is_stale,
            "mark": "" if page is None else _mark(page, is_stale=is_stale),
            "columns": COLUMNS,
            "volumes": VOLUMES,
            "ages": AGES,
            "here": asked.address(after=asked.after),
        }
        return Page("tokens/list.html", facts, status=UNAVAILABLE if page is None else None)


def _mark(page: LinePage, *, is_stale: bool) -> str:
    """Return the mark of a page for its next request: its slot, and whether it is old."""
    return f"{page.slot}{'!' if is_stale else ''}"
