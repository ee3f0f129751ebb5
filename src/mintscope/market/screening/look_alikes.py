"""Compares names that look alike, and removes invisible characters from names.

`look_alikes.txt` has the characters of Unicode's `confusables.txt` that look like ASCII, as the
package confusable_homoglyphs 3.3.1 (MIT) holds them, under the licence of Unicode, version 3, in
`look_alikes.LICENSE.txt`.  Names in other scripts are compared as they are: nearly every token that
is imitated has a Latin name.

A name may contain characters that change the direction of the line (bidi controls), are invisible
(zero width) or break the line.  None of these characters is shown.
"""

import re
from collections.abc import Sequence
from hashlib import blake2b
from importlib.resources import files
from typing import Final
from unicodedata import category, normalize

import numpy as np
from numpy.typing import NDArray

from mintscope.kit.primitives import MINT_LENGTH_MAX


def _prototypes() -> dict[int, str]:
    lines = files("mintscope.market.screening").joinpath("look_alikes.txt").read_text().splitlines()
    rows = (line.split() for line in lines if not line.startswith("#"))
    return {int(code, 16): prototype for prototype, *codes in rows for code in codes}


_PROTOTYPES: Final = _prototypes()
_TURNS: Final = 2  # a capital may look like another one, whose lower case looks like a third one
# Each of these looks like one character in upper case and like another one in lower case.
_IN_ONE_CASE: Final = str.maketrans({"0": "o", "1": "l", "i": "l"})


def folded(text: str) -> str:
    """Return one text for all texts that look like *text*; "" if nothing in *text* is visible.

    This is the skeleton of Unicode TR39, section 4, in one case and without spaces, but only
    characters that look like ASCII text are replaced.
    """
    for _ in range(_TURNS):
        text = normalize("NFKD", normalize("NFD", text).translate(_PROTOTYPES)).casefold()
    shown = "".join(each for each in text if each.isprintable() and not each.isspace())
    return normalize("NFC", shown.translate(_IN_ONE_CASE))


def fold_key(text: str | None) -> int:
    """Return a 64-bit number that is equal for texts that look alike; 0 if no character is visible.

    It is a hash of `folded(text)`.  A hash needs no table of all names that were ever listed.
    """
    if not text:
        return 0
    alike = folded(text).encode(errors="surrogatepass")
    return int.from_bytes(blake2b(alike, digest_size=8).digest(), signed=True) if alike else 0


MARKS_MAX: Final = 3  # Hebrew has up to 3 marks on a character; more would cover other lines
# Blocks of combining marks of Latin, Greek, Cyrillic and symbols, which are stacked on names.
_MARKS: Final = "\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
_STACK: Final = re.compile(f"([{_MARKS}]{{{MARKS_MAX}}})[{_MARKS}]+")
NAME_END: Final = b"\n"  # no name contains it, so a text without it never spans two names


def cleaned(text: str | None) -> str | None:
    """Return *text* without control, format and private characters; None if nothing is left.

    The characters that Python calls printable stay: the space, and all outside the categories Other
    and Separator of Unicode.  Other white space becomes a space; spaces are merged, and removed at
    both ends.  Of the marks on one character, the first MARKS_MAX stay.
    """
    if text is None:
        return None
    if not text.isprintable():
        text = "".join(c if c.isprintable() else " " if c.isspace() else "" for c in text)
    if not text.isascii():
        text = _STACK.sub(r"\1", text)
    return " ".join(text.split()) or None


def hides(text: str | None) -> bool:
    """Return whether *text* has characters that are never shown.

    These are characters of the Unicode category Other, such as control characters, and marks after
    the first MARKS_MAX of a character.
    """
    if text is None or (text.isascii() and text.isprintable()):
        return False
    return any(category(each).startswith("C") for each in text) or bool(_STACK.search(text))


def searched(text: str) -> bytes:
    """Return *text* as it is compared in searches: in one case and one Unicode form, as UTF-8."""
    # `casefold` can undo the normal form, so it is made again.
    return normalize("NFKC", normalize("NFKC", text).casefold()).encode()


def search_line(name: str | None, symbol: str | None) -> bytes:
    """Return the name and the symbol of a mint in the form in which they are searched."""
    return b"".join(searched(text) + NAME_END for text in (name, symbol) if text)


class NameIndex:
    """Finds the tokens whose name or symbol contains a text.

    A search is one pass over all names and symbols: some milliseconds for 100,000 tokens.
    """

    def __init__(self, lines: Sequence[bytes], lengths: NDArray[np.int32]) -> None:
        """Prepare to search the names of tokens.

        lines     for each token, what `search_line` returned
        lengths   the length of each of *lines* in bytes
        """
        self._bytes = np.frombuffer(b"".join(lines), np.uint8)
        self._count = len(lines)
        self._ends = np.cumsum(lengths, dtype=np.int64)  # a number for each byte would be 13 MB

    def find(self, text: str) -> NDArray[np.bool_]:
        """Return a boolean for each indexed token: whether its name or symbol contains *text*.

        All are true if *text* is empty.
        """
        needle = searched(text)
        found = np.zeros(self._count, np.bool_)
        last = len(self._bytes) - len(needle)
        if last < 0 or not needle:
            found[:] = not needle
            return found
        # Two bytes are compared at all places; few places remain for the others.
        here = self._bytes[: last + 1] == needle[0]
        if len(needle) > 1:
            here &= self._bytes[1 : last + 2] == needle[1]
        at = np.flatnonzero(here)
        for offset, byte in enumerate(needle[2:], 2):
            at = at[self._bytes[at + offset] == byte]
        found[np.searchsorted(self._ends, at, side="right")] = True
        return found


class AddressIndex:
    """Finds the tokens whose address begins with a text.

    address_bytes   a row for each address, in ASCII, padded with 0
    """

    def __init__(self, address_bytes: NDArray[np.uint8]) -> None:
        self._address_bytes = address_bytes

    def find(self, text: str, *, in_any_case: bool = False) -> NDArray[np.bool_]:
        """Return a boolean for each indexed address: whether it begins with *text*.

        in_any_case   whether upper and lower case are equal, although they differ in base58
        """
        found = np.zeros(len(self._address_bytes), np.bool_)
        if not text.isascii() or len(text) > MINT_LENGTH_MAX:
            return found
        at = np.arange(len(self._address_bytes))
        either = zip(text.encode(), text.swapcase().encode(), strict=True)
        for place, (byte, other) in enumerate(either):
            column = self._address_bytes[at, place]
            at = at[(column == byte) | (column == other) if in_any_case else column == byte]
        found[at] = True
        return found
