"""How prices went within a day: the newest of each part of D1, for the few mints of a page."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from mintscope.core.market.listing.columns import PartChunk
from mintscope.core.market.listing.spans import D1

# The newest price from before the day, then that at the end of each part; None before the first.
Closes = list[float | None]


class DayCloses(NamedTuple):
    """The data of its text, as of one state of a list.

    parts    the closed parts, by number
    open     the number of the open part
    before   by row, the newest price from before the day; NaN: none
    now      by row, the newest price
    """

    parts: Mapping[int, Sequence[PartChunk]]
    open: int
    before: Any
    now: Any

    def of(self, rows: Sequence[int]) -> Sequence[Closes]:
        """Return the closes of *rows*, in their order: one pass over what was traded in a day."""
        found = np.full((len(rows), D1.parts + 1), np.nan)
        places = np.full(len(self.now), -1, np.int32)
        places[rows] = np.arange(len(rows))
        found[:, 0] = self.before[rows]
        first = self.open - D1.parts + 1
        for number, chunks in self.parts.items():
            if not first <= number < self.open:
                continue
            for chunk in chunks:
                at = places[chunk.rows]
                is_ours = (at >= 0) & ~np.isnan(chunk.closes)
                found[at[is_ours], number - first + 1] = chunk.closes[is_ours]
        found[:, -1] = self.now[rows]
        return _carried(found)


def _carried(found: Any) -> Sequence[Closes]:
    """Return rows in which a price holds until the next one."""
    places = np.where(np.isnan(found), 0, np.arange(found.shape[1]))
    np.maximum.accumulate(places, axis=1, out=places)
    held = np.take_along_axis(found, places, axis=1)
    return [[None if value != value else value for value in row] for row in held.tolist()]  # noqa: PLR0124 - NaN
