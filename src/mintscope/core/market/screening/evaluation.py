"""Whether a condition is true, for all rows at once.

A value that is not known is NaN.  A comparison with it is neither true nor false, nor is what
depends on that alone: `not` of it is unknown again, and only rows for which the whole is true are
found.  Division by zero gives no value.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mintscope.core.market.screening.fields import before
from mintscope.core.market.screening.grammar import (
    Arithmetic,
    BeforeOf,
    Comparison,
    Condition,
    FieldOf,
    Junction,
    Negation,
    NumberOf,
    Value,
)

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]
Column: TypeAlias = Callable[[str], Floats]
Compare: TypeAlias = Callable[[Any, Any], Any]


class Truth(NamedTuple):
    """The rows for which something is true, and those for which it is false."""

    is_true: Bools
    is_false: Bools


def _is_unequal(left: Any, right: Any) -> Any:
    return (left < right) | (left > right)  # NaN is neither


COMPARE: Final[Mapping[str, tuple[Compare, Compare]]] = {
    "<": (np.less, np.greater_equal),
    "<=": (np.less_equal, np.greater),
    ">": (np.greater, np.less_equal),
    ">=": (np.greater_equal, np.less),
    "=": (np.equal, _is_unequal),
    "!=": (_is_unequal, np.equal),
}
COMPUTE: Final[Mapping[str, Compare]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": lambda left, right: np.divide(left, np.where(right == 0.0, np.nan, right)),
}


def rows_where(condition: Condition, column: Column, count: int) -> Bools:
    """Return for each of *count* rows whether *condition* is true.

    column    returns the values of a field by its name
    """
    with np.errstate(all="ignore"):
        truth = _truth(condition, column)
    return np.broadcast_to(np.asarray(truth.is_true), (count,))


def _truth(condition: Condition, column: Column) -> Truth:
    match condition:
        case Comparison(mark, left, right):
            holds, fails = COMPARE[mark]
            ours = _values(left, column)
            theirs = _values(right, column)
            return Truth(holds(ours, theirs), fails(ours, theirs))
        case Negation(part):
            truth = _truth(part, column)
            return Truth(truth.is_false, truth.is_true)
        case Junction(word, parts):
            return _joined(word, [_truth(part, column) for part in parts])


def _joined(word: str, parts: list[Truth]) -> Truth:
    found = parts[0]
    for part in parts[1:]:
        if word == "and":
            found = Truth(found.is_true & part.is_true, found.is_false | part.is_false)
        else:
            found = Truth(found.is_true | part.is_true, found.is_false & part.is_false)
    return found


def _values(value: Value, column: Column) -> Any:
    match value:
        case NumberOf(number):
            return np.float64(number)
        case FieldOf(name):
            return column(name)
        case BeforeOf(name, timeframe):
            return column(before(name, timeframe))
        case Arithmetic(mark, left, right):
            return COMPUTE[mark](_values(left, column), _values(right, column))
