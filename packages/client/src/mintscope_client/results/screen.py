"""Tokens for which a condition is true."""

import msgspec


class ScreenedToken(msgspec.Struct, frozen=True):
    """One token that was found.

    values    the fields that are shown, by their names; None: not known, or too few candles yet
    """

    mint: str
    symbol: str | None
    name: str | None
    values: dict[str, float | str | None]


class ScreenPage(msgspec.Struct, frozen=True, rename="camel"):
    """Tokens that were found, as of a final slot, whose time is *as_of*, in Unix seconds.

    matches    how many tokens there are on all pages
    """

    tokens: list[ScreenedToken]
    matches: int
    slot: int
    as_of: int
    next_cursor: str | None
