"""The query of an address of the list, and the addresses of lists that differ in one thing."""

import re
from math import isfinite
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

import msgspec

from mintscope.base.errors import InvalidTokenAddress, NotFound
from mintscope.base.primitives import MICRO_USD, Mint, UnixS, parse_mint
from mintscope.base.time import DAY_S, HOUR_S
from mintscope.core.market.listing.listed import ListPlace, ListQuestion, Sort
from mintscope.core.market.listing.names import cleaned
from mintscope.edges.web.form import FormData

PATH: Final = "/tokens"
PAGE_LENGTH: Final = 50
WATCHED_SHOWN: Final = 12  # on the first page
TEXT_LENGTH_MAX: Final = 64
PLACE: Final = re.compile(r"(-?[0-9.]{1,24}(?:e[+-]?[0-9]{1,3})?)?~([1-9A-HJ-NP-Za-km-z]{32,44})")
FIELDS: Final = ("q", "sort", "order", "volume", "age")  # of the form
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


class Choice(NamedTuple):
    """A value of a filter, and what it is called."""

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
    """A list by its address.

    sort         a key of SORTS
    volume, age  a value of VOLUMES and of AGES
    is_watched   nothing but what the reader watches
    after        where the page before ended
    """

    text: str = ""
    sort: str = "volume"
    is_rising: bool = False
    volume: str = ""
    age: str = ""
    is_watched: bool = False
    after: ListPlace | None = None

    def address(self, **changes: Any) -> str:
        """Return the address of this list with *changes*; another list begins at its first page."""
        asked = msgspec.structs.replace(self, **{"after": None, **changes})
        fields = {
            "q": asked.text,
            "sort": "" if asked.sort == "volume" else asked.sort,
            "order": "asc" if asked.is_rising else "",
            "volume": asked.volume,
            "age": asked.age,
            "watched": "1" if asked.is_watched else "",
            "after": "" if asked.after is None else _written(asked.after),
        }
        query = urlencode({name: value for name, value in fields.items() if value})
        return f"{PATH}?{query}" if query else PATH

    def of_list(self, watched: list[Mint] | None, now: UnixS) -> ListQuestion:
        """Return the same for a list as of *now*; *watched* is what the reader watches."""
        age_s = next(each.amount for each in AGES if each.value == self.age)
        return ListQuestion(
            text=self.text,
            among=watched if self.is_watched else None,
            volume_min=next(each.amount for each in VOLUMES if each.value == self.volume),
            since_min=UnixS(now - age_s) if age_s else None,
            sort=SORTS[self.sort],
            is_rising=self.is_rising,
            limit=PAGE_LENGTH,
            after=self.after,
        )


def question_of(query: FormData) -> TokensQuestion:
    """Return what *query* asks for.  Raises NotFound where no page of ours leads there."""
    sort = query.text("sort") or "volume"
    after = query.text("after")
    volume = query.text("volume")
    age = query.text("age")
    if (
        sort not in SORTS
        or volume not in {each.value for each in VOLUMES}
        or age not in {each.value for each in AGES}
    ):
        raise NotFound
    return TokensQuestion(
        text=(cleaned(query.text("q")) or "")[:TEXT_LENGTH_MAX],
        sort=sort,
        is_rising=query.text("order") == "asc",
        volume=volume,
        age=age,
        is_watched=query.text("watched") == "1",
        after=_read(after) if after else None,
    )


def has_empty_fields(query: FormData) -> bool:
    """Say whether *query* has fields that ask for nothing, as a form sends them."""
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
    if value is not None and not isfinite(value):
        raise NotFound
    return ListPlace(value, mint)
