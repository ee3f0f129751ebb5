"""All rows of a list by one of their values."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


class RowOrder(NamedTuple):
    """All rows by rising value, equal ones by key; then those without a value, by key."""

    rows: Rows
    values: Floats
    without: Rows


def order_of(by_key: Rows, values: Floats) -> RowOrder:
    """Return *by_key*, all rows by rising key, by their *values*; NaN: none."""
    of = values[by_key]
    is_known = ~np.isnan(of)
    rows = by_key[is_known]
    known = of[is_known]
    order = np.argsort(known, kind="stable")
    return RowOrder(rows[order], known[order], by_key[~is_known])


def are_in(keys: NDArray[np.uint64], wanted: Sequence[int]) -> NDArray[np.bool_]:
    """Return for each of *keys* whether it is one of *wanted*, a few in rising order."""
    if not wanted:
        return np.zeros(len(keys), np.bool_)
    few = np.array(wanted, np.uint64)
    found: NDArray[np.bool_] = few[np.searchsorted(few[:-1], keys)] == keys
    return found


def shares_of(parts: NDArray[Any], wholes: NDArray[Any]) -> Floats:
    """Return *parts* of *wholes*, 0 to 1; NaN where there is no whole."""
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Floats = np.where(wholes > 0, parts / wholes, np.nan)
    return found
