"""Names that are one typo away from one that was typed."""

from collections.abc import Sequence
from typing import Final

from mintscope.kit.time import MINUTE_S
from mintscope.market.screening.listed import ListedTokens, ListQuestion
from mintscope.market.screening.look_alikes import searched

TYPO_LENGTH_MIN: Final = 3  # of shorter names too many are one sign away
NEAR_AMONG: Final = 2_000  # the most traded tokens, whose names are compared


class NearNames:
    """The names of the most traded tokens, prepared for comparison; renewed once a minute.

    To read the names takes time, and anyone may search for any name.
    """

    def __init__(self) -> None:
        self._minute: int | None = None
        self._by_length: dict[int, list[tuple[int, bytes, str]]] = {}

    def nearest(self, listed: ListedTokens, name: str) -> str | None:
        """Return the name of the most traded token that is one typo away from *name*.

        May run in any thread.
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
        """Return place, form and text of each name, by the length of its form."""
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
    """Return whether the two differ by one typo: a sign added, removed, changed, or two swapped."""
    if abs(len(one) - len(other)) > 1:
        return False
    start = 0
    while start < min(len(one), len(other)) and one[start] == other[start]:
        start += 1
    mine = one[start:]
    theirs = other[start:]
    if mine[:2] == theirs[1::-1] and len(theirs) > 1 and mine[2:] == theirs[2:]:
        return True
    return mine[1:] == theirs[1:] or mine[1:] == theirs or mine == theirs[1:]
