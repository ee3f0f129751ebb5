"""Long lists, a page at a time: numbers in addresses, and whether there is more."""

from collections.abc import Sequence
from typing import Final, TypeVar

from mintscope.base.errors import NotFound

DIGITS_MAX: Final = 18  # an id fits 63 bits

Row = TypeVar("Row")


def parse_id(text: str) -> int:
    """Return the id that *text* is.

    Raises    NotFound: an address with anything else leads nowhere
    """
    if not (text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX):
        raise NotFound
    return int(text)


def parse_place(text: str) -> int | None:
    """Return where a list goes on; "" is its beginning.  Raises as `parse_id` does."""
    return parse_id(text) if text else None


def cut(rows: Sequence[Row], length: int) -> tuple[Sequence[Row], bool]:
    """Return the first *length* of *rows*, of which one more was asked for, and whether it came."""
    return rows[:length], len(rows) > length
