"""`/search`: the box in the header of every page: a name, `$GOAT`, a mint, an explorer link."""

import asyncio
import re
from collections.abc import Iterable, Sequence
from typing import Final
from urllib.parse import urlencode

from mintscope.base.errors import ServiceUnavailable
from mintscope.base.primitives import Mint
from mintscope.base.solana import WSOL
from mintscope.core.market.listing.listed import ListedTokens, ListQuestion
from mintscope.core.market.listing.names import cleaned, searched
from mintscope.edges.web.market import MarketParts
from mintscope.edges.web.pages.page import Page, PageResponse, Redirect
from mintscope.edges.web.routes import PageRequest, PageRoute, get
from mintscope.edges.web.tokens.question import TEXT_LENGTH_MAX
from mintscope.edges.web.tokens.search import TokenSearch, mint_of

PATH: Final = "/search"
LINK_LENGTH_MAX: Final = 300
TYPO_LENGTH_MIN: Final = 3  # of shorter names too many are one sign away
NEAR_AMONG: Final = 2_000  # the most traded tokens, whose names are compared
PARTS: Final = re.compile(r"[1-9A-HJ-NP-Za-km-z]{32,44}")
ALSO: Final = {"solana": Mint(WSOL), "sol": Mint(WSOL), "wsol": Mint(WSOL)}


class SearchPages:
    """Leads from what was typed to a token, or to the list of what it may mean."""

    def __init__(self, market: MarketParts, search: TokenSearch) -> None:
        self._market = market
        self._search = search

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of this group."""
        yield get(PATH, self.find)

    async def find(self, request: PageRequest) -> PageResponse:
        """Lead to a token by its mint or a link; else to the list of those with such a name."""
        typed = request.query_params.line("q")[:LINK_LENGTH_MAX]
        if not typed:
            return Page("tokens/search_page.html")
        mint = mint_in(typed)
        if mint is not None:
            return Redirect(f"/token/{mint}")
        name = name_of(typed)
        if name.casefold() in ALSO:
            return Redirect(f"/token/{ALSO[name.casefold()]}")
        if not name or await self._search.find(name):
            return Redirect(f"/tokens?{urlencode({'q': name})}" if name else PATH)
        near = await self._near(name)
        if near is None:
            return Redirect(f"/tokens?{urlencode({'q': name})}")
        return Redirect(f"/tokens?{urlencode({'q': near})}", notice="search-near")

    async def _near(self, name: str) -> str | None:
        """Return the name of the most traded token that is one typo away from *name*."""
        if len(name) < TYPO_LENGTH_MIN:
            return None
        try:
            listed = self._market.lists.newest()
        except ServiceUnavailable:
            return None
        return await asyncio.to_thread(_nearest, listed, name)


def mint_in(text: str) -> Mint | None:
    """Return *text* as a mint, or the last mint in a link; None if there is none."""
    mint = mint_of(text)
    if mint is not None or "/" not in text:
        return mint
    found = (mint_of(part) for part in reversed(PARTS.findall(text)))
    return next((each for each in found if each is not None), None)


def name_of(text: str) -> str:
    """Return the name or symbol that *text* asks for: `$GOAT` is GOAT."""
    return (cleaned(text.removeprefix("$")) or "")[:TEXT_LENGTH_MAX]


def is_near(one: Sequence[int], other: Sequence[int]) -> bool:
    """Say whether one typo makes *one* of *other*: a sign more, less, another, or two swapped."""
    if abs(len(one) - len(other)) > 1:
        return False
    start = 0
    while start < min(len(one), len(other)) and one[start] == other[start]:
        start += 1
    mine, theirs = one[start:], other[start:]
    if mine[:2] == theirs[1::-1] and len(theirs) > 1 and mine[2:] == theirs[2:]:
        return True
    return mine[1:] == theirs[1:] or mine[1:] == theirs or mine == theirs[1:]


def _nearest(listed: ListedTokens, name: str) -> str | None:
    wanted = searched(name)
    for line in listed.page(ListQuestion(limit=NEAR_AMONG)).lines:
        for text in (line.listed.symbol, line.listed.name):
            if text and is_near(wanted, searched(text)):
                return text
    return None
