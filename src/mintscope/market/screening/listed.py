"""The list of all tokens as clients read it: filtered, sorted and in pages.

A page ends at a place, (value, mint), and the next page continues after this place, in the newest
list at the time of the request.  So a mint whose value does not change is on exactly one page.  A
mint whose value moves past the place between two requests may be missing, or appear twice.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import cached_property
from hashlib import blake2b
from itertools import compress
from math import isnan
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from mintscope.kit.primitives import Mint, UnixS
from mintscope.market.engine.given import Bools, Floats, Ints
from mintscope.market.mint_facts import MintFacts, ScaledUiAmount
from mintscope.market.ports import CANDLES_FOR_ALL
from mintscope.market.report import Price
from mintscope.market.screening import screen
from mintscope.market.screening.averages import Averages
from mintscope.market.screening.columns import Closes, DayCloses, Signers
from mintscope.market.screening.grammar import parse_condition
from mintscope.market.screening.look_alikes import AddressIndex, NameIndex, cleaned, fold_key, hides
from mintscope.market.screening.snapshot import FoldedTo
from mintscope.market.standings import basis_of
from mintscope.market.timeframe import TIMEFRAMES, Timeframe

Numbers = NDArray[Any]  # integers or floats
Rows = NDArray[np.integer[Any]]


class RowOrder(NamedTuple):
    """The rows of a token list in the order of a field.

    rows      the rows with a value, the least first; rows with equal values are in the order of
              keys
    without   the rows without a value, in the order of their keys
    """

    rows: Rows
    without: Rows


def _values_of(column: Floats) -> list[Any]:
    """Return the values of *column*, with None for NaN."""
    objects = column.astype(object)
    objects[np.isnan(column)] = None
    values: list[Any] = objects.tolist()
    return values


def _times_of(column: Floats) -> list[UnixS | None]:
    """Return the values of *column* as Unix seconds; None for NaN."""
    return [None if isnan(at) else UnixS(int(at)) for at in column.tolist()]


def order_of(by_key: Rows, values: Numbers) -> RowOrder:
    """Return the order of a list that is sorted by *values*.

    by_key   the rows of listed mints in the order of their keys
    values   by row; NaN: no value
    """
    of = values[by_key]
    is_known = ~np.isnan(of)
    rows = by_key[is_known]
    # A stable sort leaves rows of equal values in the order of their keys.
    order = np.argsort(of[is_known], kind="stable")
    return RowOrder(rows[order], by_key[~is_known])


def are_in(keys: NDArray[np.uint64], wanted: Sequence[int]) -> Bools:
    """Return a boolean for each of *keys*: whether it is one of *wanted*.

    wanted   a few keys in ascending order
    """
    if not wanted:
        return np.zeros(len(keys), np.bool_)
    few = np.array(wanted, np.uint64)
    # Without the last key, the search returns an index of *few* even for greater keys.
    found: Bools = few[np.searchsorted(few[:-1], keys)] == keys
    return found


def shares_of(parts: NDArray[Any], wholes: NDArray[Any]) -> Floats:
    """Return each of *parts* divided by its whole, 0 to 1; NaN if the whole is 0 or negative."""
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Floats = np.where(wholes > 0, parts / wholes, np.nan)
    return found


class Sort(StrEnum):
    """The values by which the list of all tokens can be sorted; volume and change are of a day."""

    VOLUME = "volume"
    CHANGE = "change"
    AGE = "age"
    PRICE = "price"
    CHANGE_M5 = "change_m5"
    CHANGE_H1 = "change_h1"
    MARKET_CAP = "market_cap"
    RSI_H1 = "rsi_h1"
    PRESSURE_H1 = "pressure_h1"


class ListPlace(NamedTuple):
    """The end of a page of the list, after which the next page begins.

    value   the value by which the last mint of the page is sorted; None: unknown
    mint    this mint
    """

    value: float | None
    mint: Mint


class ListQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A query of the list of all tokens.

    text         a part of the name or symbol, or the start of the address; "" finds all
    in_any_case  whether the case of an address is ignored
    symbol       the exact symbol; None: any
    among        the only mints to find; None: all
    volume_min   the least volume in a day, in micro-USD
    since_min    find only mints whose tracking began at this time or later; None: all
    where        a condition in the syntax of `grammar`; "": none
    sort         the value by which the mints are sorted
    is_rising    whether the least value comes first
    limit        the most mints on the page
    after        the end of the previous page; None: the first page
    """

    text: str = ""
    in_any_case: bool = False
    symbol: str | None = None
    among: Sequence[Mint] | None = None
    volume_min: int = 0
    since_min: UnixS | None = None
    where: str = ""
    sort: Sort = Sort.VOLUME
    is_rising: bool = False
    limit: int
    after: ListPlace | None = None


class ListedMint(msgspec.Struct, frozen=True, gc=False):
    """A mint in the list, apart from its trades: name, symbol, decimals and time of tracking.

    is_cleaned   whether name or symbol contained characters that are never shown; they are removed
    """

    mint: Mint
    since: UnixS | None
    name: str | None
    symbol: str | None
    decimals: int | None
    scaled: ScaledUiAmount | None = None
    is_cleaned: bool = False

    @classmethod
    def of(cls, mint: Mint, since: UnixS | None, facts: MintFacts | None) -> "ListedMint":
        """Return the entry of *mint* in the list.

        since   the time from which it is tracked
        facts   its name, symbol and other facts; None: not known yet
        """
        if facts is None:
            return cls(mint, since, None, None, None)
        return cls(
            mint=mint,
            since=since,
            name=cleaned(facts.name),
            symbol=cleaned(facts.symbol),
            decimals=facts.decimals,
            scaled=facts.scaled_ui_amount,
            is_cleaned=hides(facts.name) or hides(facts.symbol),
        )


class ListLine(NamedTuple):
    """A mint as it is shown in the list of all tokens; unknown values are None.

    changes         the changes of the price over five minutes, an hour and a day: 0.05 is five
                    percent more
    change_since    the time of the first price, if there was no price a day ago: the change over
                    the day is measured from it
    volume          the volume in a day, in micro-USD
    swaps           the number of swaps in a day that have a price
    market_cap      USD: price times supply; also None if the chain records no supply, as for
                    wrapped SOL
    rsi             the RSI of h1, 0 to 100; None while there are too few candles
    pressure        the bought share of the volume within an hour, 0 to 1; None: no volume
    ready           the timeframes in which all indicators have values
    age_s           seconds since tracking of the mint began
    ui_multiplier   the number of tokens that wallets show for one, at the time of the list
    look_alike_of   the mint with the most volume in a day whose symbol looks the same, or else
                    whose name does, if it has more volume than this one
    namesakes       the number of tokens, this one included, whose symbol looks the same, or whose
                    name looks the same: the greater of these two numbers
    price           the price in USD and SOL, with what it is based on
    """

    listed: ListedMint
    usd: float | None
    sol: float | None
    changes: tuple[float | None, float | None, float | None]
    volume: int
    swaps: int
    market_cap: float | None
    rsi: float | None
    pressure: float | None
    ready: list[Timeframe]
    age_s: int | None
    ui_multiplier: float | None = None
    change_since: UnixS | None = None
    look_alike_of: Mint | None = None
    namesakes: int = 1
    price: Price | None = None


class ListedPage(NamedTuple):
    """A page of the list of all tokens.

    lines        the tokens on the page
    next_after   the end of the page, from which the next one continues; None: it is the last page
    rows         the rows of the tokens, for `ListedTokens.days`
    left         the number of matching tokens on this page and all later ones
    """

    lines: Sequence[ListLine]
    next_after: ListPlace | None
    rows: Sequence[int]
    left: int


class RowKeys(NamedTuple):
    """The keys that order tokens with equal values; valid until mints are added or removed.

    keys     the key of each row, see `key_of`
    by_key   the rows of listed mints in the order of their keys
    """

    keys: NDArray[np.uint64]
    by_key: Rows

    @classmethod
    def of(cls, rows: Any) -> "RowKeys":
        """Return the keys of *rows*, the records of the list, which may change afterwards."""
        keys: NDArray[np.uint64] = rows["key"].copy()
        listed = np.flatnonzero(rows["is_listed"])
        # 32 bits suffice; each sort order has a copy of these numbers.
        return cls(keys, listed[np.argsort(keys[listed])].astype(np.int32))


def key_of(mint: Mint) -> int:
    """Return a number that is the same in every process; it orders tokens with equal values."""
    return int.from_bytes(blake2b(mint.encode(), digest_size=8).digest())


class ListedTokens:
    """The list of all tokens as of one slot; it does not change when new trades arrive.

    folded    the newest log event that is included
    columns   the values of each field by row, which conditions compare
    """

    def __init__(  # noqa: PLR0913 - one argument for each index
        self,
        folded: FoldedTo,
        mints: Sequence[ListedMint | None],
        rows: Any,
        *,
        keys: RowKeys,
        averages: Averages,
        signers: Signers | None,
        standings: Sequence[bytes | None],
        names: NameIndex,
        addresses: AddressIndex,
        days: DayCloses,
        folds: Ints,
    ) -> None:
        """Copy the needed parts of *rows*, the records of the list, which may change afterwards.

        mints       by row, the mint; None: the row is not used
        signers     the signers of the last five minutes; None: not known yet
        standings   by row, the pools of its mint, packed
        folds       by row, the `fold_key` of its name and of its symbol
        """
        self.folded = folded
        self._mints = mints
        self._standings = standings
        self._names = names
        self._addresses = addresses
        self._days = days
        self._folds = folds
        self._keys = keys.keys
        self._by_key = keys.by_key
        self._usd: Floats = averages.usd
        self._sol: Floats = rows["sol"].copy()
        is_young = np.isnan(rows["before"][:, -1])
        self._change_since: Floats = np.where(is_young, rows["first_at"], np.nan)
        before = rows["before"].copy()
        # The change of a young token is measured from its first price.
        before[is_young, -1] = rows["first"][is_young]
        with np.errstate(divide="ignore", invalid="ignore"):  # unknown prices are NaN
            self._changes: Floats = rows["usd"][:, None] / before - 1.0
        self._volume: NDArray[np.int64] = rows["volume"].copy()
        self._swaps: NDArray[np.int64] = rows["swaps"].copy()
        self._caps: Floats = rows["usd"] * rows["supply"]
        self._rsi: Floats = averages.rsi
        self._pressure: Floats = shares_of(rows["h1_bought"], rows["h1_volume"])
        self._counts = averages.counts
        self._since: Floats = rows["since"].copy()
        shared = {
            "price": self._usd,
            "price_sol": self._sol,
            "change_m5": self._changes[:, 0],
            "change_h1": self._changes[:, 1],
            "change_d1": self._changes[:, 2],
            "pressure_h1": self._pressure,
            "market_cap": self._caps,
        }
        self._sorted: dict[str, Numbers] = shared | {
            Sort.VOLUME: self._volume,
            Sort.CHANGE: shared["change_d1"],
            Sort.RSI_H1: self._rsi,
        }
        of_day = {"volume": self._volume, "swaps": self._swaps, "since": self._since}
        self.columns = screen.ScreenColumns(
            rows, shared, of_day, averages, folded.time, signers=signers
        )
        self._table = screen.ScreenTable(self._by_key, self._keys, self.columns.column)
        # Sorted on first use: it takes some milliseconds, and most states are never requested.
        self._orders: dict[Sort, RowOrder] = {}

    def __len__(self) -> int:
        """Return the number of mints in the list."""
        return len(self._by_key)

    def page(self, asked: ListQuestion) -> ListedPage:
        """Return the page of the token list that *asked* describes.

        This takes some milliseconds and may run in any thread.

        Raises ConditionError if `asked.where` is not a condition.
        """
        rows = self._rows_after(asked)
        for is_wanted in self._wanted(asked):
            rows = rows[is_wanted[rows]]
        shown = rows[: asked.limit]
        is_last = len(rows) <= asked.limit
        place = None if is_last else self._place(int(shown[-1]), asked.sort)
        return ListedPage(list(self._lines(shown)), place, shown.tolist(), len(rows))

    def screen(self, asked: screen.ScreenQuestion) -> screen.FoundRows:
        """Return the page of tokens that *asked* describes: those for which its condition is true.

        This takes some milliseconds and may run in any thread.
        """
        return screen.find_rows(self._table, asked)

    def mint_in(self, row: int) -> ListedMint:
        """Return the mint in row number *row*, which `screen` or `page` has returned."""
        listed = self._mints[row]
        assert listed is not None
        return listed

    def days(self, rows: Sequence[int]) -> Sequence[Closes]:
        """Return the prices of the tokens in *rows* over the last day, oldest first.

        Raises OSError if a file of the list cannot be read.
        """
        return self._days.of(rows)

    def larger_like(self, mint: Mint) -> Mint | None:
        """Return the most traded mint whose symbol, or else whose name, looks like that of *mint*.

        None if it is not traded more than *mint*, or if *mint* is not in the list.
        """
        key = np.uint64(key_of(mint))
        at = int(np.searchsorted(self._keys[self._by_key], key))
        if at == len(self._by_key) or self._keys[self._by_key[at]] != key:
            return None
        return self._mint_at(int(self._larger[self._by_key[at]]))

    def traded_like(self, name: str | None, symbol: str | None) -> Mint | None:
        """Return the most traded mint whose symbol looks like *symbol*, or else name like *name*.

        None if no such token was traded within a day.
        """
        for text, ids in ((symbol, self._folds[:, 1]), (name, self._folds[:, 0])):
            key = fold_key(cleaned(text))
            rows = self._by_key[(ids[self._by_key] == key) & (key != 0)]
            volumes = self._volume[rows]
            if volumes.max(initial=0) > 0:
                return self._mint_at(int(rows[volumes.argmax()]))
        return None

    @cached_property
    def _larger(self) -> Rows:
        """For each row, the row of the most traded token with the same symbol, or else same name.

        It is -1 if no such token has more volume.  Symbols and names that look alike count as the
        same.
        """
        found = np.full(len(self._volume), -1, np.int32)
        rising = self._by_key[np.argsort(self._volume[self._by_key], kind="stable")]
        # Names come before symbols, so that a symbol's result replaces a name's.
        for ids in self._folds.T:
            rows = rising[ids[rising] != 0]
            alike, groups = np.unique(ids[rows], return_inverse=True)
            most = np.zeros(len(alike), np.int32)
            most[groups] = rows  # of the rows of a group, the last one remains
            top = most[groups]
            is_larger = self._volume[top] > self._volume[rows]
            found[rows[is_larger]] = top[is_larger]
        return found

    @cached_property
    def _namesakes(self) -> NDArray[np.int32]:
        """By row, the number of tokens with the same symbol, or the same name if these are more.

        Symbols and names that look alike count as the same.
        """
        found = np.ones(len(self._volume), np.int32)
        for ids in self._folds.T:
            rows = self._by_key[ids[self._by_key] != 0]
            _, groups, counts = np.unique(ids[rows], return_inverse=True, return_counts=True)
            found[rows] = np.maximum(found[rows], counts[groups])
        return found

    def _mint_at(self, row: int) -> Mint | None:
        listed = None if row < 0 else self._mints[row]
        return None if listed is None else listed.mint

    def _values(self, sort: Sort) -> Numbers:
        """Return, by row, the values by which a list is sorted; the least is first."""
        return -self._since if sort is Sort.AGE else self._sorted[sort]

    def _wanted(self, asked: ListQuestion) -> Iterator[Bools]:
        """Yield, for each filter in *asked*, a boolean by row: whether the token passes it."""
        if asked.text:
            addresses = self._addresses.find(asked.text, in_any_case=asked.in_any_case)
            yield self._names.find(asked.text) | addresses
        if asked.symbol is not None:
            yield self._have_symbol(asked.symbol)
        if asked.among is not None:
            yield are_in(self._keys, sorted(map(key_of, asked.among)))
        if asked.volume_min:
            yield self._volume >= asked.volume_min
        if asked.since_min is not None:
            yield self._since >= asked.since_min
        if asked.where:
            wanted = parse_condition(asked.where)
            yield screen.rows_where(wanted, self._table.column, len(self._keys))

    def _have_symbol(self, symbol: str) -> Bools:
        """Return a boolean for each row: whether the token's symbol is exactly *symbol*."""
        # Equal symbols have equal keys; the keys leave few rows to compare.
        found: Bools = self._names.find(symbol) & (self._folds[:, 1] == fold_key(symbol))
        for row in np.flatnonzero(found).tolist():
            listed = self._mints[row]
            found[row] = listed is not None and listed.symbol == symbol
        return found

    def _order(self, sort: Sort) -> RowOrder:
        if sort not in self._orders:
            self._orders[sort] = order_of(self._by_key, self._values(sort))
        return self._orders[sort]

    def _rows_after(self, asked: ListQuestion) -> Rows:
        """Return all rows after the previous page, in order, without the filters of *asked*."""
        order = self._order(asked.sort)
        after = asked.after
        rows = order.rows
        without = order.without
        if not asked.is_rising:
            rows = rows[::-1]
            without = without[::-1]
        if after is None:
            return np.concatenate((rows, without))
        key = np.uint64(key_of(after.mint))
        if after.value is None:
            return without[self._behind(order.without, key, is_rising=asked.is_rising) :]
        values = self._values(asked.sort)
        # With a key, bisect reads some 20 values; a sorted column would be a copy of all values.
        first = bisect_left(order.rows, after.value, key=lambda row: float(values[row]))
        last = bisect_right(order.rows, after.value, key=lambda row: float(values[row]))
        begin = first if asked.is_rising else len(rows) - last
        equal = order.rows[first:last]
        begin += self._behind(equal, key, is_rising=asked.is_rising)
        return np.concatenate((rows[begin:], without))

    def _behind(self, rows: Rows, key: np.uint64, *, is_rising: bool) -> int:
        """Return the number of *rows* that are before or at *key* in the sort order.

        rows   rows with equal values, sorted by key
        """
        keys = self._keys[rows]
        if is_rising:
            return int(np.searchsorted(keys, key, "right"))
        return len(rows) - int(np.searchsorted(keys, key, "left"))

    def _place(self, row: int, sort: Sort) -> ListPlace:
        return ListPlace(screen.known(float(self._values(sort)[row])), self.mint_in(row).mint)

    def _lines(self, rows: Rows) -> Iterator[ListLine]:
        now = self.folded.time
        columns = (
            *(_values_of(self._usd[rows]), _values_of(self._sol[rows])),
            *(map(tuple, _values_of(self._changes[rows])), self._volume[rows].tolist()),
            *(self._swaps[rows].tolist(), _values_of(self._caps[rows])),
            *(_values_of(self._rsi[rows]), _values_of(self._pressure[rows])),
            *(
                (self._counts[rows] >= CANDLES_FOR_ALL).tolist(),
                _times_of(self._change_since[rows]),
            ),
            *(self._larger[rows].tolist(), self._namesakes[rows].tolist()),
        )
        for line in zip(rows.tolist(), *columns, strict=True):
            row, usd, sol, changes, volume, swaps, cap, rsi, pressure, ready, at, top, alike = line
            listed = self.mint_in(row)
            since = listed.since
            scaled = listed.scaled
            # By position, in the order of the class: keyword arguments would take a fifth of the
            # total time.
            yield ListLine(
                listed,
                usd,
                sol,
                changes,
                volume,
                swaps,
                cap,
                rsi,
                pressure,
                [*compress(TIMEFRAMES, ready)],
                None if since is None or now is None else max(0, now - since),
                None if scaled is None or now is None else scaled.at(now),
                at,
                None if top < 0 else self._mint_at(top),
                alike,
                self._price(row, usd, sol),
            )

    def _price(self, row: int, usd: float | None, sol: float | None) -> Price | None:
        if usd is None or sol is None or self.folded.time is None:
            return None
        return Price.of(usd, sol, basis_of(self._standings[row]), self.folded.time)
