"""Searches the list of all tokens for those for which a condition is true.

The next page continues after the place at which a page ends: (value, key of the mint).

NaN means that a value is unknown.  A comparison with NaN is neither true nor false; the same holds
for the negation of such a comparison.  Only rows for which the whole condition is true are found.
Division by zero returns NaN.
"""

from collections.abc import Callable, Mapping, Sequence
from math import isnan
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mintscope.kit.primitives import MICRO_USD, UnixS
from mintscope.market.engine.given import Bools, Floats
from mintscope.market.screening import grammar
from mintscope.market.screening.averages import OF_OPEN, OF_RECENT, Averages
from mintscope.market.screening.columns import Signers, distinct_signers
from mintscope.market.standings import FRESH_S, HIGH_MICRO_USD, MEDIUM_MICRO_USD, YOUNG_S
from mintscope.market.standings import OLD_BASIS_S as OLD_S
from mintscope.market.timeframe import TIMEFRAMES, Timeframe

Column: TypeAlias = Callable[[str], Floats]
Compare: TypeAlias = Callable[[Any, Any], Any]


class Truth(NamedTuple):
    """The result of a condition for each row of a token list; both are false where it is unknown.

    is_true    whether the condition is true
    is_false   whether the condition is false
    """

    is_true: Bools
    is_false: Bools


def _is_unequal(left: Any, right: Any) -> Any:
    return (left < right) | (left > right)  # NaN is neither


# By sign: whether a comparison is true, and whether it is false.  With NaN it is neither.
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


def rows_where(condition: grammar.Condition, column: Column, count: int) -> Bools:
    """Return a boolean for each of *count* rows: whether *condition* is true.

    column    returns the values of the field with a given name, by row
    """
    with np.errstate(all="ignore"):
        truth = _truth(condition, column)
    # A condition without fields, such as 1 < 2, has a single value.
    return np.broadcast_to(np.asarray(truth.is_true), (count,))


def _truth(condition: grammar.Condition, column: Column) -> Truth:
    match condition:
        case grammar.Comparison(mark, left, right):
            holds, fails = COMPARE[mark]
            ours = _values(left, column)
            theirs = _values(right, column)
            return Truth(holds(ours, theirs), fails(ours, theirs))
        case grammar.Negation(part):
            truth = _truth(part, column)
            return Truth(truth.is_false, truth.is_true)
        case grammar.Junction(word, parts):
            return _joined(word, [_truth(part, column) for part in parts])


def _joined(word: str, parts: list[Truth]) -> Truth:
    found = parts[0]
    for part in parts[1:]:
        if word == "and":
            found = Truth(found.is_true & part.is_true, found.is_false | part.is_false)
        else:
            found = Truth(found.is_true | part.is_true, found.is_false & part.is_false)
    return found


def _values(value: grammar.Value, column: Column) -> Any:
    match value:
        case grammar.NumberOf(number):
            return np.float64(number)
        case grammar.FieldOf(name):
            return column(name)
        case grammar.BeforeOf(name, timeframe, age):
            return column(grammar.before(name, timeframe, age))
        case grammar.Arithmetic(mark, left, right):
            return COMPUTE[mark](_values(left, column), _values(right, column))


Rows = NDArray[np.integer[Any]]
Shown = float | int | str | None


class Place(NamedTuple):
    """The end of a page of tokens, after which the next page begins.

    value   the value by which the last token of the page is sorted; None: unknown
    key     the key of this token, see `listed.key_of`
    """

    value: float | None
    key: int


class ScreenQuestion(NamedTuple):
    """A query for a page of the tokens for which a condition is true.

    condition   the condition; None: all tokens are found
    sort        the field by which the tokens are sorted
    is_rising   whether the least value comes first
    fields      the fields whose values are returned for each token
    limit       the most tokens on the page
    after       the end of the previous page; None: this is the first page
    """

    condition: grammar.Condition | None
    sort: str
    is_rising: bool
    fields: Sequence[str]
    limit: int
    after: Place | None = None


class ScreenTable(NamedTuple):
    """The numbers of all tokens at one time, which a condition compares.

    rows      the rows of the listed tokens
    keys      by row, the key that orders rows of equal values
    column    returns the values of the field with a given name, by row
    """

    rows: Rows
    keys: NDArray[np.uint64]
    column: Column


class FoundRows(NamedTuple):
    """A page of a screen: of the tokens for which a condition is true.

    rows      the numbers of the tokens' rows in the list, in the order of the page
    values    for each of *rows*, the values of the fields that were requested
    matches   the number of tokens on all pages
    after     the end of this page, from which the next one continues; None: this is the last one
    """

    rows: Sequence[int]
    values: Sequence[Sequence[Shown]]
    matches: int
    after: Place | None


def find_rows(table: ScreenTable, asked: ScreenQuestion) -> FoundRows:
    """Return the page of tokens in *table* for the query *asked*.

    This takes some milliseconds and may run in any thread.
    """
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
        after = Place(known(float(values[last])), int(table.keys[last]))
    columns = [_shown(name, table.column(name)[shown]) for name in asked.fields]
    lines = list(zip(*columns, strict=True)) if columns else [()] * len(shown)
    return FoundRows(shown.tolist(), lines, matches, after)


def _behind(table: ScreenTable, rows: Rows, values: Floats, asked: ScreenQuestion) -> Rows:
    """Return those of *rows* that come after the end of the previous page.

    values   the values by which tokens are sorted, by row of *table*
    """
    after = asked.after
    if after is None:
        return rows
    of: Floats = values[rows]
    keys = table.keys[rows]
    key = np.uint64(after.key)
    is_behind = keys > key if asked.is_rising else keys < key
    # Unknown values come last in both directions, so only such rows are left.
    if after.value is None:
        without: Rows = rows[np.isnan(of) & is_behind]
        return without
    is_next = of > after.value if asked.is_rising else of < after.value
    found: Rows = rows[is_next | ((of == after.value) & is_behind) | np.isnan(of)]
    return found


def _first(table: ScreenTable, rows: Rows, values: Floats, asked: ScreenQuestion) -> Rows:
    """Return those of *rows* that come first in the sort order, one more than a page can have.

    If there is one more, another page follows.

    values   the values by which tokens are sorted, by row of *table*
    """
    of = values[rows] if asked.is_rising else -values[rows]
    # ~ reverses the order of unsigned integers; with a minus, 0 would stay the least.
    keys = table.keys[rows] if asked.is_rising else ~table.keys[rows]
    return rows[least(np.where(np.isnan(of), np.inf, of), keys, asked.limit + 1)]


def least(values: Floats, keys: NDArray[np.uint64], count: int) -> Rows:
    """Return the indices of the *count* least *values*, in order.

    Equal values are in the order of their *keys*.  Only the least values are sorted: there may be
    100,000 values, many of them equal.
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
    field = grammar.FIELDS[name]
    if field.is_level:
        return [grammar.LEVEL_NAMES[int(value)] for value in values.tolist()]
    numbers = map(known, values.tolist())
    return [int(one) if field.is_integer and one is not None else one for one in numbers]


def known(value: float) -> float | None:
    """Return *value*, or None for NaN."""
    return None if isnan(value) else value


KEPT: Final = ("confidence", "traders_m5")  # cached columns; computing the others again is cheaper
IN_MICRO_USD: Final = {"volume_d1": "volume", "volume_h1": "h1_volume", "liquidity": "depth"}


class ScreenColumns:
    """The values of each of `grammar.FIELDS` for all tokens of a list, computed when they are read.

    NaN means that a value is unknown.
    """

    def __init__(  # noqa: PLR0913 - one argument for each source
        self,
        rows: Any,
        known: Mapping[str, Floats],
        of_day: Mapping[str, NDArray[Any]],
        averages: Averages,
        now: UnixS | None,
        *,
        signers: Signers | None,
    ) -> None:
        """Prepare to compute the values of fields for all rows of a token list.

        Each field is computed when it is first used.

        rows       the records of the list, which may change afterwards
        known      values that are already computed, by field
        of_day     the columns volume (micro-USD), swaps and since, which do not change
        averages   the indicators of all rows
        now        the time of the list; None: nothing was folded yet
        signers    the signers of the last five minutes; None: not known yet
        """
        self._now = float("nan") if now is None else float(now)
        self._found: dict[str, Floats] = dict(known)
        self._averages = averages
        self._signers = signers
        self._taken = dict(of_day) | {
            name: rows[name].copy()
            for name in ("h1_volume", "depth", "set_at", "set_since", "is_agreed")
        }

    def column(self, name: str) -> Floats:
        """Return the values of a field by row, or those of an earlier candle.

        name   the name of a field, or a name that `grammar.before` returned
        """
        if name in OF_OPEN or name in OF_RECENT:
            return self._averages.column(name)
        found = self._found.get(name)
        if found is None:
            earlier = grammar.read_before(name)
            if earlier is not None:
                values: Floats = self._averages.earlier(earlier.name, Timeframe(earlier.timeframe))
                of_age: Floats = values[earlier.age]
                return of_age
            found = self._made(name)
            if name in KEPT:
                self._found[name] = found
        return found

    def _made(self, name: str) -> Floats:
        match name:
            case "volume_d1" | "volume_h1" | "liquidity":
                return dollars(self._taken[IN_MICRO_USD[name]])
            case "swaps_d1":
                swaps: Floats = self._taken["swaps"].astype(np.float64)
                return swaps
            case "age_s" | "price_age_s":
                since = self._taken["since" if name == "age_s" else "set_at"]
                ages: Floats = np.maximum(0.0, self._now - since)
                return ages
            case "confidence":
                return self._confidence()
            case "traders_m5":
                return self._traders()
            case _:
                kind, _, timeframe = name.partition("_")
                return self._of_newest(kind, Timeframe(timeframe))

    def _of_newest(self, kind: str, timeframe: Timeframe) -> Floats:
        """Return a field of *timeframe* by row, including the open candle.

        kind   "candles": the number of candles; or a key of `grammar.FIBONACCI`: how far the price
               is from that level, as a fraction of the level
        """
        if kind == "candles":
            counts = self._averages.counts[:, TIMEFRAMES.index(timeframe)]
            return counts.astype(np.float64)
        high = self.column(f"swing_high_{timeframe}")
        level = high - grammar.FIBONACCI[kind] * (high - self.column(f"swing_low_{timeframe}"))
        found: Floats = self.column("price") / level - 1.0
        return found

    def _traders(self) -> Floats:
        count = len(self._averages.usd)
        if self._signers is None:
            return np.full(count, np.nan)
        return distinct_signers(self._signers, count)

    def _confidence(self) -> Floats:
        """Return the confidence of each row's price, as a number from `grammar.LEVELS`."""
        depth = self._taken["depth"]
        at = self._taken["set_at"]
        is_sure = self._taken["is_agreed"] & (at - self._taken["set_since"] >= YOUNG_S)
        age_s = self._now - at
        # Comparisons with NaN are false, so a price without a known basis has low confidence.
        is_medium = is_sure & (depth >= MEDIUM_MICRO_USD) & (age_s <= OLD_S)
        is_high = is_sure & (depth >= HIGH_MICRO_USD) & (age_s <= FRESH_S)
        found = np.where(is_medium, grammar.LEVELS["medium"], grammar.LEVELS["low"])
        return np.where(is_high, grammar.LEVELS["high"], found)


def dollars(micro_usd: NDArray[Any]) -> Floats:
    """Return *micro_usd* in US dollars."""
    found: Floats = micro_usd / MICRO_USD
    return found
