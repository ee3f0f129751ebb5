"""Search for names that are one typo away from the entered name."""

from collections.abc import Sequence
from typing import Final

from mintscope.kit.time import MINUTE_S
from mintscope.market.screening.listed import ListedTokens, ListQuestion
from mintscope.market.screening.look_alikes import searched

TYPO_LENGTH_MIN: Final = 3  # the shortest name that is corrected: many shorter ones are near others
NEAR_AMONG: Final = 2_000  # number of tokens whose names are compared; they are the most traded


class NearNames:
    """The names of the most traded tokens, prepared for comparison; refreshed once a minute.

    Reading the names takes time, and anyone can search for any name.
    """

    def __init__(self) -> None:
        self._minute: int | None = None
        self._by_length: dict[int, list[tuple[int, bytes, str]]] = {}

    def nearest(self, listed: ListedTokens, name: str) -> str | None:
        """Return the name or symbol at most one typo away from *name*, or None if there is none.

        Of several names, return that of the most traded token.  The method may run in any thread.
        """
        wanted = searched(name)
        by_length = self._names(listed)
        near = [
            (place, text)
            for length in range(len(wanted) - 1, len(wanted) + 2)
            for place, form, text in by_length.get(length, ())
            if is_near(wanted, form)
        ]
        return min(near)[1] if near else None

    def _names(self, listed: ListedTokens) -> dict[int, list[tuple[int, bytes, str]]]:
        minute = (listed.folded.time or 0) // MINUTE_S
        if minute != self._minute:
            by_length: dict[int, list[tuple[int, bytes, str]]] = {}
            place = 0
            for line in listed.page(ListQuestion(limit=NEAR_AMONG)).lines:
                for text in (line.listed.symbol, line.listed.name):
                    if text:
                        form = searched(text)
                        by_length.setdefault(len(form), []).append((place, form, text))
                        place += 1
            self._by_length = by_length
            self._minute = minute
        return self._by_length


def is_near(one: Sequence[int], other: Sequence[int]) -> bool:
    """Return whether *one* and *other* differ by at most one typo.

    A typo adds, removes or changes one character, or swaps two adjacent characters.
    """
    if abs(len(one) - len(other)) > 1:
        return False
    start = 0
    while start < min(len(one), len(other)) and one[start] == other[start]:
        start += 1
    mine = one[start:]
    theirs = other[start:]
    # theirs[1::-1] is the first two characters of *theirs*, swapped.
    if mine[:2] == theirs[1::-1] and len(theirs) > 1 and mine[2:] == theirs[2:]:
        return True
    return mine[1:] == theirs[1:] or mine[1:] == theirs or mine == theirs[1:]
