"""Rows, queries and searches of the list of tokens.

A page of rows is created in a thread, because that takes some milliseconds with many tokens.  Up to
PAGES_KEPT pages are cached for each state of the list.

Tokens are never selected by name alone, because anyone can use any name.
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

import msgspec
from markupsafe import Markup

from mintscope.accounts.session import Session
from mintscope.kit.audit import UserId
from mintscope.kit.errors import BadRequest, InvalidTokenAddress, NotFound, ServiceUnavailable
from mintscope.kit.primitives import MICRO_USD, Mint, Slot, UnixS, parse_mint
from mintscope.kit.time import DAY_S, HOUR_S
from mintscope.market.screening.grammar import TEXT_MAX, ConditionError, crossed_in, parse_condition
from mintscope.market.screening.listed import (
    ListedPage,
    ListedTokens,
    ListLine,
    ListPlace,
    ListQuestion,
    Sort,
)
from mintscope.market.screening.look_alikes import cleaned
from mintscope.site.figures import ends_of, sparkline
from mintscope.site.page import Page, PageResponse, Redirect
from mintscope.site.routes import FormData, PageRequest, PageRoute, get
from mintscope.site.sol import MarketParts
from mintscope.site.token.typos import TYPO_LENGTH_MIN, NearNames
from mintscope.solana.blocks import WSOL
from mintscope.watchlists.rows import WatchDenied, WatchlistLine
from mintscope.watchlists.watchlists import Watchlists

PAGES_KEPT: Final = 64  # the most pages that are cached for one state of the list
MOVERS: Final = 8
MOST_TRADED: Final = 100


class ShownToken(NamedTuple):
    """One token: its list entry, and its prices of the last day as a sparkline."""

    line: ListLine
    day: Markup

    @property
    def mint(self) -> Mint:
        """The mint of the token."""
        return self.line.listed.mint

    @property
    def title(self) -> str:
        """The symbol or the name of the token, or its shortened mint."""
        listed = self.line.listed
        return listed.symbol or listed.name or ends_of(self.mint)


class LinePage(NamedTuple):
    """A page of rows, all as of one final slot.

    followed   number of tracked tokens in the list, including those that do not match
    left       number of matching tokens from the first row of this page on
    mark       identifies the state of the list in this process: the slot, and after a "." the
               number of earlier states with this slot, if there are any
    """

    lines: Sequence[ShownToken]
    next_after: ListPlace | None
    slot: Slot | None
    time: UnixS | None
    followed: int
    left: int
    mark: str


class TokenLines:
    """Creates the rows of the token list for all pages that show tokens, and caches them."""

    def __init__(self, market: MarketParts) -> None:
        self._market = market
        self._listed: ListedTokens | None = None
        self._changes = 0  # earlier states of the list with the slot of `_listed`
        self._pages: dict[object, asyncio.Task[LinePage]] = {}

    async def page(self, asked: ListQuestion) -> LinePage:
        """Return the page for *asked*.  Raises ServiceUnavailable while the list is loading."""
        if asked.among is not None:  # the query is a key, so it must be hashable
            asked = msgspec.structs.replace(asked, among=tuple(asked.among))
        return await self._made(
            asked, lambda listed, mark: _drawn(listed, listed.page(asked), mark)
        )

    async def movers(self) -> LinePage:
        """Return up to MOVERS of the most traded tokens: those whose price changed most in a day.

        Raises ServiceUnavailable while the list is loading.
        """
        return await self._made(MOVERS, _movers)

    async def _made(self, key: object, make: Callable[[ListedTokens, str], LinePage]) -> LinePage:
        """Return the page that *make* creates from the newest list; all requests share it."""
        listed = self._market.lists.newest()
        before = self._listed
        if listed is not before:
            has_same_slot = before is not None and before.folded.slot == listed.folded.slot
            self._changes = self._changes + 1 if has_same_slot else 0
            self._listed = listed
            self._pages.clear()
        page = self._pages.get(key)
        if page is None:
            mark = f"{listed.folded.slot}.{self._changes}".removesuffix(".0")
            page = asyncio.create_task(asyncio.to_thread(make, listed, mark))
            if len(self._pages) < PAGES_KEPT:
                self._pages[key] = page
        # If this request is cancelled, the page is still created: others may wait for it.
        return await asyncio.shield(page)


def _movers(listed: ListedTokens, mark: str) -> LinePage:
    found = listed.page(ListQuestion(sort=Sort.VOLUME, limit=MOST_TRADED))
    pairs = list(zip(found.lines, found.rows, strict=True))
    moved = [pair for pair in pairs if pair[0].changes[2] is not None and pair[0].volume]
    moved.sort(key=lambda pair: -abs(pair[0].changes[2] or 0.0))
    lines = [line for line, _ in moved[:MOVERS]]
    rows = [row for _, row in moved[:MOVERS]]
    return _drawn(listed, ListedPage(lines, None, rows, len(rows)), mark)


def _drawn(listed: ListedTokens, found: ListedPage, mark: str) -> LinePage:
    days = listed.days(found.rows)
    drawn = [ShownToken(line, sparkline(day)) for line, day in zip(found.lines, days, strict=True)]
    folded = listed.folded
    after = found.next_after
    return LinePage(drawn, after, folded.slot, folded.time, len(listed), found.left, mark)


QUESTION_PATH: Final = "/tokens"
LENGTHS: Final = {"": 50, "200": 200}  # rows per page
WATCHED_SHOWN: Final = 12  # watched tokens on the start page
TEXT_LENGTH_MAX: Final = 64
PLACE: Final = re.compile(r"(-?[0-9.]{1,24}(?:e[+-]?[0-9]{1,3})?)?~([1-9A-HJ-NP-Za-km-z]{32,44})")
FIELDS: Final = ("q", "sort", "order", "volume", "age", "where", "rows")  # fields of the form
# Columns other than the name, in order, with their headings.
COLUMNS: Final[Mapping[str, str]] = {
    "price": "Price",
    "m5": "5m",
    "h1": "1h",
    "d1": "24h",
    "volume": "Volume",
    "cap": "Market cap",
    "rsi": "RSI 1h",
    "buys": "Buy share 1h",
    "day": "Last day",
    "age": "Age",
}
TICKED: Final = "column"  # form field, sent once for each checked column
SORTS: Final = {
    "volume": Sort.VOLUME,
    "price": Sort.PRICE,
    "m5": Sort.CHANGE_M5,
    "h1": Sort.CHANGE_H1,
    "d1": Sort.CHANGE,
    "cap": Sort.MARKET_CAP,
    "rsi": Sort.RSI_H1,
    "buys": Sort.PRESSURE_H1,
    "age": Sort.AGE,
}


# Numbers in the form, which become conditions in the address.
LIMITS: Final[Mapping[str, tuple[str, str, float]]] = {
    "rsi_below": ("RSI 1h below", "rsi_h1 < {:g}", 1.0),
    "rsi_above": ("RSI 1h above", "rsi_h1 > {:g}", 1.0),
    # `:g` alone has six digits, too few for an exact amount of millions.
    "liquidity_above": ("Liquidity above, US dollars", "liquidity > {:.15g}", 1.0),
    "buys_above": ("Buy share 1h above, %", "pressure_h1 > {:g}", 0.01),
    "change_above": ("Change of a day above, %", "change_d1 > {:g}", 0.01),
    "change_below": ("Change of a day below, %", "change_d1 < {:g}", 0.01),
}


NUMBER: Final = re.compile(
    r"[+-]?\s?\$?\s?(\d{1,3}(,\d{3})+(\.\d*)?|\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?\s?%?",
    re.ASCII | re.IGNORECASE,
)
NO_NUMBER: Final = "Enter a number, such as 10,000 or 2.5."
CROSSED_MAX: Final = 4  # the most candle fields in crossings of a condition


class Choice(NamedTuple):
    """A filter value with its label.

    amount   the limit, in micro-USD for a volume or seconds for an age; 0 if there is none
    """

    value: str
    name: str
    amount: int


VOLUMES: Final = (
    Choice("", "Any volume", 0),
    Choice("1k", "Over $1k a day", 1_000 * MICRO_USD),
    Choice("10k", "Over $10k a day", 10_000 * MICRO_USD),
    Choice("100k", "Over $100k a day", 100_000 * MICRO_USD),
    Choice("1m", "Over $1M a day", 1_000_000 * MICRO_USD),
)
AGES: Final = (
    Choice("", "Any age", 0),
    Choice("1h", "Up to an hour old", HOUR_S),
    Choice("1d", "Up to a day old", DAY_S),
    Choice("7d", "Up to a week old", 7 * DAY_S),
)


class TokensQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A list of tokens as its URL describes it: filters, order, columns and position.

    sort         key of SORTS
    volume, age  values of VOLUMES and of AGES
    where        screening condition, not checked yet; "" if there is none
    rows         key of LENGTHS
    columns      comma-separated keys of COLUMNS, in order; "" means all columns
    is_watched   whether to list only the reader's watchlist
    after        end of the previous page
    """

    text: str = ""
    sort: str = "volume"
    is_rising: bool = False
    volume: str = ""
    age: str = ""
    where: str = ""
    rows: str = ""
    columns: str = ""
    is_watched: bool = False
    after: ListPlace | None = None

    @property
    def length(self) -> int:
        """The number of rows per page."""
        return LENGTHS[self.rows]

    @property
    def shown(self) -> list[str]:
        """The keys of the shown columns, in order."""
        return [key for key in COLUMNS if key in self.columns.split(",")] or list(COLUMNS)

    def address(self, path: str = QUESTION_PATH, /, **changes: Any) -> str:
        """Return the URL of this list with *changes*, at its first page by default."""
        asked = msgspec.structs.replace(self, **{"after": None, **changes})
        fields = {
            "q": asked.text,
            "sort": "" if asked.sort == "volume" else asked.sort,
            "order": "asc" if asked.is_rising else "",
            "volume": asked.volume,
            "age": asked.age,
            "where": asked.where,
            "rows": asked.rows,
            "columns": asked.columns,
            "watched": "1" if asked.is_watched else "",
            "after": "" if asked.after is None else _written(asked.after),
        }
        query = urlencode({name: value for name, value in fields.items() if value})
        return f"{path}?{query}" if query else path

    def of_list(self, watched: list[Mint] | None, now: UnixS) -> ListQuestion:
        """Return these search settings as a query for the list of tokens.

        watched   mints of the reader's watchlist, to which the list is limited if the reader chose
                  so
        now       time from which the least age of the tokens is counted
        """
        age_s = next(each.amount for each in AGES if each.value == self.age)
        return ListQuestion(
            text=self.text,
            among=watched if self.is_watched else None,
            volume_min=next(each.amount for each in VOLUMES if each.value == self.volume),
            since_min=UnixS(now - age_s) if age_s else None,
            where=self.where,
            sort=SORTS[self.sort],
            is_rising=self.is_rising,
            limit=self.length,
            after=self.after,
        )


def question_of(query: FormData) -> TokensQuestion:
    """Return the list described by *query*.  Raises NotFound if a value is invalid."""
    sort = query.text("sort") or "volume"
    after = query.text("after")
    volume = query.text("volume")
    age = query.text("age")
    rows = query.text("rows")
    if (
        sort not in SORTS
        or rows not in LENGTHS
        or volume not in {each.value for each in VOLUMES}
        or age not in {each.value for each in AGES}
    ):
        raise NotFound
    # Longer than a name, because the text may be a link to a token.
    typed = query.text("q")[:LINK_LENGTH_MAX]
    return TokensQuestion(
        text=mint_in(typed) or name_of(typed),
        sort=sort,
        is_rising=query.text("order") == "asc",
        volume=volume,
        age=age,
        # One more than allowed, so that a longer condition is refused, not cut.
        where=query.line("where")[: TEXT_MAX + 1],
        rows=rows,
        columns=_columns(query.text("columns").split(",")),
        is_watched=query.text("watched") == "1",
        after=_read(after) if after else None,
    )


def with_columns(asked: TokensQuestion, query: FormData) -> TokensQuestion:
    """Return *asked* with the columns checked in the form, or unchanged if none is checked."""
    ticked = query.texts(TICKED)
    return msgspec.structs.replace(asked, columns=_columns(ticked)) if ticked else asked


def _columns(keys: Sequence[str]) -> str:
    """Return *keys* as in a URL: unknown keys are dropped, and "" means all columns."""
    known = [key for key in COLUMNS if key in keys]
    return "" if len(known) == len(COLUMNS) else ",".join(known)


def flaw_of(asked: TokensQuestion) -> str | None:
    """Return the error in the condition of *asked*, or None if the condition is valid or absent.

    The message states the expected form, as for the API's screens.  Crossings of many fields are
    refused: anyone can open these pages, and each field takes 5 MB for 100,000 tokens.
    """
    if not asked.where:
        return None
    try:
        crossed = len(crossed_in(parse_condition(asked.where)))
    except ConditionError as flaw:
        return str(flaw)
    if crossed > CROSSED_MAX:
        return f"expected at most {CROSSED_MAX} different fields in crossings; were {crossed}"
    return None


def expect_condition(asked: TokensQuestion) -> TokensQuestion:
    """Return *asked* if its condition is valid or absent.  Raises BadRequest with the problem."""
    flaw = flaw_of(asked)
    if flaw is not None:
        raise BadRequest(f"where: {flaw}")
    return asked


def flaws_of_limits(query: FormData) -> Mapping[str, str]:
    """Return an error for each limit in the form that is not a number."""
    sent = {name: query.line(name) for name in LIMITS}
    return {name: NO_NUMBER for name, text in sent.items() if text and read_number(text) is None}


def with_limits(asked: TokensQuestion, query: FormData) -> TokensQuestion:
    """Add the lowest and highest values entered in the form to the condition of *asked*.

    Return the changed *asked*, whose condition must be valid before.
    """
    limits = []
    for name, (_, condition, factor) in LIMITS.items():
        number = read_number(query.line(name))
        if number is not None:
            limits.append(condition.format(number * factor))
    if not limits:
        return asked
    # In parentheses: an `or` in the condition must not take in the limits.
    before = [f"({asked.where})"] if asked.where else []
    return msgspec.structs.replace(asked, where=" and ".join([*before, *limits]))


def read_number(text: str) -> float | None:
    """Return the number in *text* (`10,000`, `$500`, `30%`), or None if *text* is not a number."""
    if NUMBER.fullmatch(text) is None:
        return None
    number = float(re.sub(r"[$%,\s]", "", text))
    return number if isfinite(number) else None


def has_limits(query: FormData) -> bool:
    """Return whether *query* has fields of limits or columns, which only the filter form sends."""
    return any(query.texts(name) for name in (*LIMITS, TICKED))


def has_empty_fields(query: FormData) -> bool:
    """Return whether *query* has empty fields, as a browser sends them from the filter form."""
    return any("" in query.texts(name) for name in FIELDS)


def _written(place: ListPlace) -> str:
    value = "" if place.value is None else repr(place.value)
    return f"{value}~{place.mint}"


def _read(text: str) -> ListPlace:
    found = PLACE.fullmatch(text)
    if found is None:
        raise NotFound
    try:
        mint = parse_mint(found[2])
        value = None if found[1] is None else float(found[1])
    except (InvalidTokenAddress, ValueError):
        raise NotFound from None
    # A text such as 1e999 matches PLACE and becomes infinite.
    if value is not None and not isfinite(value):
        raise NotFound
    return ListPlace(value, mint)


FOUND_MAX: Final = 6
NONE_NAMED: Final = "Name a token: its name or symbol, or its mint address."
CHOOSE_ONE: Final = "Choose one of these: names are not unique."
NONE_FOUND: Final = "No tracked token has this name. You can also enter a mint address."


class TokenSearch:
    """Finds tracked tokens by a text; *lines* is None if there is no list to search."""

    def __init__(self, lines: TokenLines | None) -> None:
        self._lines = lines

    async def find(self, text: str) -> Sequence[ShownToken]:
        """Return up to FOUND_MAX tokens that match *text*, the most traded first.

        The result is empty if there is no list, or while the list is loading.
        """
        name = (cleaned(text) or "")[:TEXT_LENGTH_MAX]
        return await self._page(ListQuestion(text=name, limit=FOUND_MAX)) if name else []

    async def named(self, mints: Sequence[Mint]) -> Mapping[Mint, ShownToken]:
        """Return the list entries of the tracked tokens in *mints*; empty without a loaded list."""
        if not mints:
            return {}
        lines = await self._page(ListQuestion(among=mints, limit=len(mints)))
        return {each.mint: each for each in lines}

    async def flaw(self, text: str, error: str) -> tuple[str, Sequence[ShownToken]]:
        """Return the error for *text*, which is not a mint, and the tokens that match it.

        error   message if there is no list to search
        """
        if not text:
            return NONE_NAMED, []
        if self._lines is None:
            return error, []
        found = await self.find(text)
        return CHOOSE_ONE if found else NONE_FOUND, found

    async def _page(self, asked: ListQuestion) -> Sequence[ShownToken]:
        if self._lines is None:
            return []
        try:
            return (await self._lines.page(asked)).lines
        except ServiceUnavailable:
            return []


def mint_of(text: str) -> Mint | None:
    """Return *text* as a mint, or None if it is not a mint."""
    try:
        return parse_mint(text)
    except InvalidTokenAddress:
        return None


NAME: Final = "Watchlist"


@dataclass(frozen=True, slots=True)
class Watching:
    """Reads and changes the first watchlist of a user.  Methods may raise ServiceUnavailable."""

    watchlists: Watchlists

    async def mints(self, session: Session | None) -> list[Mint] | None:
        """Return the mints on a user's watchlist, in the order added; None for a visitor."""
        if session is None:
            return None
        user_id = session.user.user_id
        first = await self._first(user_id)
        if first is None:
            return []
        found = await self.watchlists.find(user_id, first.watchlist_id)
        return [] if found is None else list(found.mints)

    async def add(self, user_id: UserId, mint: Mint) -> bool:
        """Add *mint* to a user's watchlist; return False if the watchlist is full."""
        added = await self.watchlists.add_to_first(user_id, mint, NAME)
        return not isinstance(added, WatchDenied)

    async def remove(self, user_id: UserId, mint: Mint) -> None:
        """Remove *mint* from a user's watchlist."""
        first = await self._first(user_id)
        if first is not None:
            await self.watchlists.remove(user_id, first.watchlist_id, mint)

    async def _first(self, user_id: UserId) -> WatchlistLine | None:
        lines = await self.watchlists.of_user(user_id)
        return lines[0] if lines else None


PATH: Final = "/search"
LINK_LENGTH_MAX: Final = 300
PARTS: Final = re.compile(r"[1-9A-HJ-NP-Za-km-z]{32,44}")
ALSO: Final = {"solana": Mint(WSOL), "sol": Mint(WSOL), "wsol": Mint(WSOL)}


class SearchPages:
    """Redirects a search to a token, or to the list of matching tokens."""

    def __init__(self, market: MarketParts, search: TokenSearch) -> None:
        self._market = market
        self._search = search
        self._names = NearNames()

    def routes(self) -> Iterable[PageRoute]:
        """Return the route of the search."""
        yield get(PATH, self.find)

    async def find(self, request: PageRequest) -> PageResponse:
        """Redirect to the token whose mint or link was typed, or else to a list.

        The list has the tokens with the typed name or, if there are none, with a known name one
        typo away.  A name of SOL redirects to SOL.  Without a text, show the search page.
        """
        typed = request.query_params.line("q")[:LINK_LENGTH_MAX]
        if not typed:
            return Page("tokens/search_page.html")
        mint = mint_in(typed)
        if mint is not None:
            return Redirect(f"/token/{mint}")
        name = name_of(typed)
        if not name:
            return Redirect(PATH)
        # A name of SOL means SOL, although other tokens may have the same name.
        is_named = name.casefold() not in ALSO and await self._search.find(name)
        meant = None if is_named else await self.meant(name)
        return meant or Redirect(f"/tokens?{urlencode({'q': name})}")

    async def meant(self, name: str) -> Redirect | None:
        """Return a redirect for a search for *name*: to SOL, or to the list for a similar name.

        A search for a name of SOL redirects to the page of SOL; a search for a text that is one
        typo away from a known name redirects to the list for that name.  Return None for other
        texts.
        """
        if name.casefold() in ALSO:
            return Redirect(f"/token/{ALSO[name.casefold()]}")
        near = await self._near(name)
        if near is None:
            return None
        return Redirect(f"/tokens?{urlencode({'q': near})}", notice="search-near")

    async def _near(self, name: str) -> str | None:
        """Return the name of the most traded token at most one typo away from *name*, if any."""
        if len(name) < TYPO_LENGTH_MIN:
            return None
        try:
            listed = self._market.lists.newest()
        except ServiceUnavailable:
            return None
        return await asyncio.to_thread(self._names.nearest, listed, name)


def mint_in(text: str) -> Mint | None:
    """Return *text* as a mint, or the last mint in a link, or None if there is no mint."""
    mint = mint_of(text)
    if mint is not None or "/" not in text:
        return mint
    found = (mint_of(part) for part in reversed(PARTS.findall(text)))
    return next((each for each in found if each is not None), None)


def name_of(text: str) -> str:
    """Return the name or symbol in *text*: `$GOAT` becomes GOAT."""
    return (cleaned(text.removeprefix("$")) or "")[:TEXT_LENGTH_MAX]
