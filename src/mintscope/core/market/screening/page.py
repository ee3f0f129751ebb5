"""Pages of the tokens for which a condition is true.

As pages of a list: one ends at a place, (value, mint), and the next one goes on behind it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mintscope.core.market.screening.evaluation import Column, rows_where
from mintscope.core.market.screening.fields import FIELDS, LEVEL_NAMES
from mintscope.core.market.screening.grammar import Condition

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
Shown = float | int | str | None


class Place(NamedTuple):
    """Where a page ends: the value that is sorted by, None for none, and the key of the mint."""

    value: float | None
    key: int


class ScreenQuestion(NamedTuple):
    """The query.

    condition   None: all tokens
    sort        the field that is sorted by
    fields      that are shown of each token
    after       where the page before ended
    """

    condition: Condition | None
    sort: str
    is_rising: bool
    fields: Sequence[str]
    limit: int
    after: Place | None = None


class ScreenTable(NamedTuple):
    """The numbers of all tokens at one time.

    rows      those that are listed
    keys      of each row what decides between equal values, rising and falling alike
    column    returns the values of a field by its name
    """

    rows: Rows
    keys: NDArray[np.uint64]
    column: Column


class FoundRows(NamedTuple):
    """A page.

    rows      in order, and their values in the order of the fields that were asked for
    matches   how many tokens there are on all pages
    after     where the page ends if there are more
    """

    rows: Sequence[int]
    values: Sequence[Sequence[Shown]]
    matches: int
    after: Place | None


def find_rows(table: ScreenTable, asked: ScreenQuestion) -> FoundRows:
    """Return the page of *table* that answers *asked*: some milliseconds, in any thread."""
    rows = table.rows
    if asked.condition is not None:
        wanted = rows_where(asked.condition, table.column, len(table.keys))
        rows = rows[wanted[rows]]
    matches = len(rows)
    values = table.column(asked.sort)
    rows = _behind(table, rows, values, asked)
    first = _first(table, rows, values, asked)
    shown = first[: asked.limit]
    after = None
    if len(first) > asked.limit:
        last = int(shown[-1])
        after = Place(_known(float(values[last])), int(table.keys[last]))
    columns = [_shown(name, table.column(name)[shown]) for name in asked.fields]
    lines = list(zip(*columns, strict=True)) if columns else [()] * len(shown)
    return FoundRows(shown.tolist(), lines, matches, after)


def _behind(table: ScreenTable, rows: Rows, values: Floats, asked: ScreenQuestion) -> Rows:
    """Return those of *rows* that come after the page before."""
    after = asked.after
    if after is None:
        return rows
    of: Floats = values[rows]
    keys = table.keys[rows]
    key = np.uint64(after.key)
    is_behind = keys > key if asked.is_rising else keys < key
    if after.value is None:
        without: Rows = rows[np.isnan(of) & is_behind]
        return without
    is_next = of > after.value if asked.is_rising else of < after.value
    found: Rows = rows[is_next | ((of == after.value) & is_behind) | np.isnan(of)]
    return found


def _first(table: ScreenTable, rows: Rows, values: Floats, asked: ScreenQuestion) -> Rows:
    """Return the first of *rows* in order, one more than are asked for."""
    of = values[rows] if asked.is_rising else -values[rows]
    keys = table.keys[rows] if asked.is_rising else ~table.keys[rows]
    return rows[least(np.where(np.isnan(of), np.inf, of), keys, asked.limit + 1)]


def least(values: Floats, keys: NDArray[np.uint64], count: int) -> Rows:
    """Return the places of the *count* least *values*, equal ones by *keys*, in this order.

    No more are sorted: there may be 100,000, and many of them equal.
    """
    at = np.arange(len(values))
    if len(values) > count:
        limit = np.partition(values, count - 1)[count - 1]
        below = np.flatnonzero(values < limit)
        equal = np.flatnonzero(values == limit)
        more = count - len(below)
        if len(equal) > more:
            equal = equal[np.argpartition(keys[equal], more - 1)[:more]]
        at = np.concatenate((below, equal))
    return at[np.lexsort((keys[at], values[at]))]


def _shown(name: str, values: Floats) -> list[Shown]:
    field = FIELDS[name]
    if field.is_level:
        return [LEVEL_NAMES[int(value)] for value in values.tolist()]
    known = [_known(value) for value in values.tolist()]
    if field.is_integer:
        return [None if value is None else int(value) for value in known]
    return list(known)


def _known(value: float) -> float | None:
    return None if value != value else value  # noqa: PLR0124 - NaN
