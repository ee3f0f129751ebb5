"""Names that strangers wrote on chain: fit to be shown in a line, and to be searched.

A name may hold what turns the direction of the line around it (bidi controls), hides (zero width)
or breaks it (line ends).  None of that is shown.
"""

from collections.abc import Sequence
from typing import Final
from unicodedata import category, normalize

import numpy as np
from numpy.typing import NDArray

from mintscope.base.primitives import MINT_LENGTH_MAX

NAME_END: Final = b"\n"  # in no name, so that nothing is found across two


def cleaned(text: str | None) -> str | None:
    """Return *text* without control, format and private characters; None if nothing is left.

    Printable, as Python says: not of the Unicode categories Other and Separator, but for a space.
    """
    if text is None:
        return None
    if not text.isprintable():
        text = "".join(c if c.isprintable() else " " if c.isspace() else "" for c in text)
    return " ".join(text.split()) or None


def hides(text: str | None) -> bool:
    """Say whether *text* holds characters that are never shown: control, format, private ones."""
    return text is not None and any(category(each).startswith("C") for each in text)


def searched(text: str) -> bytes:
    """Return *text* as it is compared: in one case, and in one form of its characters."""
    return normalize("NFKC", normalize("NFKC", text).casefold()).encode()


def search_line(name: str | None, symbol: str | None) -> bytes:
    """Return what a mint is found by, beside its address."""
    return b"".join(searched(text) + NAME_END for text in (name, symbol) if text)


class NameIndex:
    """Finds a text in many lines, the number of each its place in *lines*.

    One pass over all bytes: some milliseconds for 100,000 lines at the most.
    """

    def __init__(self, lines: Sequence[bytes], lengths: NDArray[np.int32]) -> None:
        """Take *lines*, and how long each of them is."""
        self._bytes = np.frombuffer(b"".join(lines), np.uint8)
        self._count = len(lines)
        self._ends = np.cumsum(lengths, dtype=np.int64)  # a number for each byte would be 13 MB

    def find(self, text: str) -> NDArray[np.bool_]:
        """Return for each line whether it holds *text*; an empty one is held by all."""
        needle = searched(text)
        found = np.zeros(self._count, np.bool_)
        last = len(self._bytes) - len(needle)
        if last < 0 or not needle:
            found[:] = not needle
            return found
        here = self._bytes[: last + 1] == needle[0]
        if len(needle) > 1:
            here &= self._bytes[1 : last + 2] == needle[1]
        at = np.flatnonzero(here)
        for offset, byte in enumerate(needle[2:], 2):
            at = at[self._bytes[at + offset] == byte]
        found[np.searchsorted(self._ends, at, side="right")] = True
        return found


class AddressIndex:
    """Finds what addresses begin with.

    address_bytes   a row each, in ASCII, filled with 0
    """

    def __init__(self, address_bytes: NDArray[np.uint8]) -> None:
        self._address_bytes = address_bytes

    def find(self, text: str) -> NDArray[np.bool_]:
        """Return for each address whether it begins with *text*; base58 has two cases."""
        found = np.zeros(len(self._address_bytes), np.bool_)
        if not text.isascii() or len(text) > MINT_LENGTH_MAX:
            return found
        at = np.arange(len(self._address_bytes))
        for place, byte in enumerate(text.encode()):
            at = at[self._address_bytes[at, place] == byte]
        found[at] = True
        return found
