"""Series of a token: candles, oldest first in each page, the newest page first."""

import msgspec


class PricesInSol(msgspec.Struct, frozen=True):
    """The prices of a candle in SOL a whole token."""

    o: float
    h: float
    l: float  # noqa: E741 - as charts do
    c: float


class CandleLine(msgspec.Struct, frozen=True, rename="camel"):
    """One candle: prices in USD a whole token, volumes in USD.

    t              when it begins, Unix seconds
    sol            None where prices in SOL were not kept
    buy_volume, sell_volume, swaps    None in imported candles
    imported       a provider gave it, or a part of it
    is_open        it has not ended, and may change
    """

    t: int
    o: float
    h: float
    l: float  # noqa: E741 - as charts do
    c: float
    sol: PricesInSol | None
    volume: float
    buy_volume: float | None
    sell_volume: float | None
    swaps: int | None
    imported: bool
    is_open: bool


class CandlesPage(msgspec.Struct, frozen=True, rename="camel"):
    """Candles of a token, oldest first; the next page has those before them."""

    token: str
    tf: str
    candles: list[CandleLine]
    next_cursor: str | None
