"""EMAs, RSI, MACD, ATR, Bollinger bands and swings of all tokens in a list, by timeframe.

`market.engine` computes these indicators for the mints in use; a token list computes them for all
mints, of which each has a row.  For each row and timeframe, the list stores the data of closed
candles that the indicators depend on (`engine.recent`).  Readers get indicators with the open
candle and without it.  They are computed when they are read, except the RSI of h1, which each page
of a list shows.
"""

import weakref
from collections.abc import Callable, Iterator, Sequence
from threading import Lock
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mintscope.market.engine import kernels, recent
from mintscope.market.engine.given import Floats, Ints
from mintscope.market.engine.kernels import ACC, LAST
from mintscope.market.engine.recent import RECENTS
from mintscope.market.screening.snapshot import RecentCandles
from mintscope.market.timeframe import TIMEFRAMES, Timeframe

AverageRows = NDArray[Any]

NAMES: Final = ("ema9", "ema21", "ema50", "ema200", "rsi", "macd", "macd_signal", "macd_histogram")
"""The averages of one timeframe, in the order in which a kernel writes them."""


def _places(names: Sequence[str]) -> dict[str, tuple[int, int]]:
    return {
        f"{name}_{timeframe}": (k, z)
        for k, timeframe in enumerate(TIMEFRAMES)
        for z, name in enumerate(names)
    }


OF_OPEN: Final = _places(NAMES)
OF_RECENT: Final = _places(recent.NAMES)
H1_FRAME: Final = list(TIMEFRAMES).index(Timeframe.H1)
RSI: Final = NAMES.index("rsi")
NO_ACC: Final = bytes(8 * ACC)
# Takes records, the places of some rows in them, the candle counts of these rows, and the closes of
# their open candles (or high, low and close); returns the columns of these rows.
ReadRows: TypeAlias = Callable[[Any, Any, Any, Any], Floats]
# Takes a count and a type; returns this number of records, all zero.
MakeRecords: TypeAlias = Callable[[int, np.dtype[Any]], Any]


class RecentRows:
    """Stores the newest candles of one timeframe, in one record for each row of a token list.

    Most tokens have no closed candle of the wider timeframes: their rows share record 0, which is
    empty.
    """

    def __init__(self, count: int, of: np.dtype[Any], make: MakeRecords = np.zeros) -> None:
        """Begin with *count* rows that have no candles.

        of     the type of the record that a row with candles has, one of RECENTS
        make   allocates the records
        """
        self._make = make
        self.kept = make(1, of)
        self.places = np.zeros(count, np.int32)
        # Place 0 stays empty, for all rows without a closed candle.
        self._used = 1

    def make_room(self, count: int) -> None:
        """Add empty rows until there are *count* of them; there must not be more already."""
        self.places = np.pad(self.places, (0, count - len(self.places)))

    def take(self, at: AverageRows) -> Any:
        """Return the index of the record of each of the rows *at*; rows without a record get one.

        No row may be in *at* twice.
        """
        new = at[self.places[at] == 0]
        last = self._used + len(new)
        if last > len(self.kept):
            # Zeros that were never written take no memory.
            size = max(last, 2 * len(self.kept))
            grown = self._make(size, self.kept.dtype)
            grown[: self._used] = self.kept[: self._used]
            self.kept = grown
        self.places[new] = np.arange(self._used, last, dtype=np.int32)
        self._used = last
        return self.places[at]

    def read(self, at: Any) -> Any:
        """Return the newest candles of each of the rows *at*."""
        return self.kept[self.places[at]]

    def write(self, at: AverageRows, recents: Any) -> None:
        """Store *recents*, the newest candles of the tokens in the rows *at*.

        No row may be in *at* twice.
        """
        # An empty record takes no place, but it must replace a record that the row already has.
        is_filled = np.frombuffer(recents.tobytes(), np.uint8).reshape(len(at), -1).any(axis=1)
        is_needed = is_filled | (self.places[at] > 0)
        places = self.take(at[is_needed])  # this may replace `kept`
        self.kept[places] = recents[is_needed]


class AverageColumns:
    """Stores the newest candles of each token of a list, from which indicators are computed.

    There is a record for each token and timeframe.
    """

    def __init__(self, count: int, make: MakeRecords = np.zeros) -> None:
        """Begin with *count* rows that have no candles.

        make   allocates the memory for candles of timeframes wider than a minute
        """
        # Candles of a minute close so often that a file of them would be written all the time.
        self._recents = [
            RecentRows(count, of, np.zeros if timeframe == Timeframe.M1 else make)
            for timeframe, of in zip(TIMEFRAMES, RECENTS, strict=True)
        ]
        self._opens = np.zeros((count, len(TIMEFRAMES), 2))  # high and low of the open candles
        self._lost = np.zeros(count, np.bool_)  # rows whose swing must be read again
        self._rsi = np.zeros(0)
        self._is_stale = np.ones(count, np.bool_)
        # Threads compute columns from the records that an update changes.
        self._lock = Lock()
        self._newest: Callable[[], Averages | None] = lambda: None  # later a weak reference

    def make_room(self, count: int) -> None:
        """Add empty rows until there are *count* of them; there must not be more already."""
        more = count - len(self._opens)
        with self._lock:
            for each in self._recents:
                each.make_room(count)
            self._opens = np.pad(self._opens, ((0, more), (0, 0), (0, 0)))
        self._lost = np.pad(self._lost, (0, more))
        self._is_stale = np.pad(self._is_stale, (0, more), constant_values=True)

    def start_row(self, row: int) -> None:
        """Clear the indicators in *row* of the token list, for a mint that has not traded yet."""
        # Most rows were never used: `load` would only copy their zeros for the newest state.
        if not (self._opens[row].any() or any(each.places[row] for each in self._recents)):
            return
        nothing = [np.zeros(1, of) for of in RECENTS]
        self.load(np.array([row]), nothing, np.zeros((1, len(TIMEFRAMES), 2)))

    def load(self, at: AverageRows, recents: Sequence[Any], opens: Any) -> None:
        """Replace the candles of the tokens in the rows *at*.

        recents   for each timeframe, the closed candles of these tokens
        opens     high and low of the open candle, by token and timeframe
        """
        with self._lock:
            for k, each in enumerate(self._recents):
                self._save(at, k)
                each.write(at, recents[k])
            self._opens[at] = opens
        self._lost[at] = False
        self._is_stale[at] = True

    def close(self, rows: Any, at: AverageRows, k: int) -> None:
        """Store the open candles of the rows *at* as closed.

        rows   the records of the list; the field `usd` has the closes of these candles
        k      the index of the timeframe in TIMEFRAMES
        """
        counts = rows["counts"]
        prices = np.column_stack([self._opens[at, k], rows["usd"][at]])
        with self._lock:
            self._save(at, k)
            closing = self._recents[k]
            places = closing.places[at]
            # A row that never traded has no open candle, and gets no record.
            is_closing = counts[at, k] > 0
            places[is_closing] = closing.take(at[is_closing])
            kernels.close_rows(closing.kept, places, counts, at, k)
            lost = recent.keep_candles(closing.kept, places, counts, prices, at, k)
        self._lost[at[lost]] = True

    def _save(self, at: AverageRows, k: int) -> None:
        # The newest state may compute its columns after this change.  Older states find the values
        # through their `next`.
        newest = self._newest()
        if newest is not None:
            newest.save(at, k, self._recents[k].read(at), self._opens[at, k])

    def note(self, at: AverageRows, k: int, prices: Floats, is_next: NDArray[np.bool_]) -> None:
        """Add new trades to the open candles of the rows *at*.

        k         the index of the timeframe in TIMEFRAMES
        prices    the highest prices of these trades by row, and the lowest ones
        is_next   for each of *at*, whether the trades begin a new candle
        """
        self._is_stale[at] = True
        high, low = self._opens[at, k].T
        with self._lock:
            newest = self._newest()
            if newest is not None:
                newest.save(at, k, None, self._opens[at, k])
            self._opens[at, k, 0] = np.where(is_next, prices[0], np.maximum(high, prices[0]))
            self._opens[at, k, 1] = np.where(is_next, prices[1], np.minimum(low, prices[1]))

    def lost_rows(self) -> AverageRows:
        """Return the rows of the tokens with an unknown swing, the high and low of 100 candles.

        It stays unknown until `load` replaces the candles of the row.
        """
        return np.flatnonzero(self._lost)

    def restore(self, first: int, kept: Sequence[bytes]) -> None:
        """Restore the rows from number *first* on from what `kept` has returned for them.

        This is only possible before the first call of `shown`.
        """
        opens = np.frombuffer(kept[-2]).reshape(-1, len(TIMEFRAMES), 2)
        last = first + len(opens)
        # The last two of *kept* are the open candles and the lost rows.
        for each, of in zip(self._recents, kept, strict=False):
            recents = np.frombuffer(of, each.kept.dtype)
            each.write(np.arange(first, last), recents)
        self._opens[first:last] = opens
        self._lost[first:last] = np.frombuffer(kept[-1], np.bool_)

    def kept(self, first: int, last: int) -> Sequence[bytes]:
        """Return the data of the rows from *first* to *last* - 1 as bytes for `restore`."""
        rows = slice(first, last)
        recents = (each.read(rows) for each in self._recents)
        return [each.tobytes() for each in (*recents, self._opens[rows], self._lost[rows])]

    def shown(self, rows: Any) -> "Averages":
        """Return the indicators of all tokens as they are now.

        rows   the records of all rows in use
        """
        count = len(rows)
        self._rsi = np.append(self._rsi, np.full(count - len(self._rsi), np.nan))
        at = np.flatnonzero(self._is_stale[:count])
        hours = self._recents[H1_FRAME]
        counts = rows["counts"][at, H1_FRAME]
        values = kernels.read_rows(hours.kept, hours.places[at], counts, rows["usd"][at])
        self._rsi[at] = values[RSI]
        self._is_stale[:count] = False
        found = Averages(self, rows["counts"].copy(), rows["usd"].copy(), self._rsi.copy())
        with self._lock:
            newest = self._newest()
            if newest is not None:
                newest.next = found
            # A weak reference: a state without readers must not collect values from before changes.
            self._newest = weakref.ref(found)
        return found

    def read(
        self, state: "Averages", k: int, kernel: ReadRows, *, has_extremes: bool = False
    ) -> Floats:
        """Return an indicator, or several, for all rows, as of the time of *state*.

        Rows that changed later are computed from the values that *state* keeps of them.

        k              the index of the timeframe in TIMEFRAMES
        kernel         computes the indicators
        has_extremes   whether *kernel* takes high, low and close of open candles, not only closes
        """
        counts = state.counts[:, k].copy()
        count = len(counts)
        # The kernel releases the GIL, so without the lock an update could change its records.
        with self._lock:
            changed = _before(state, k, RECENT)
            is_changed = np.zeros(count, np.bool_)
            for at, _ in changed:
                is_changed[at] = True
            prices = self._prices(state, k) if has_extremes else state.usd
            now = self._recents[k]
            # A count of 0 makes the kernel skip a row; changed rows are computed below.
            found = kernel(now.kept, now.places[:count], np.where(is_changed, 0, counts), prices)
        for at, had in changed:
            if len(at):
                places = np.arange(len(at), dtype=np.int32)
                found[:, at] = kernel(had, places, counts[at], prices[at])
        return found

    def _prices(self, state: "Averages", k: int) -> Floats:
        """Return high, low and close of the open candles of a timeframe, by row, as of *state*.

        k   the index of the timeframe in TIMEFRAMES
        """
        opens = self._opens[: len(state.usd), k].copy()
        for at, had in _before(state, k, OPENS):
            opens[at] = had
        return np.column_stack([opens, state.usd])


RECENT, OPENS = range(2)


class Averages:
    """The indicators of all tokens of a list, as of one time.

    The values of one indicator and timeframe are computed when they are first requested, because
    those of 100,000 tokens take 54 MB in all, and most are never requested.  They are computed from
    the current candles in `AverageColumns`; for tokens that have traded since then, this object
    stores the earlier candles.

    counts   the number of candles by row and timeframe
    usd      the newest price by row
    rsi      the RSI of h1 by row
    next     the `Averages` of the next later time; None if this is the newest
    """

    def __init__(
        self, columns: AverageColumns, counts: NDArray[Any], usd: Floats, rsi: Floats
    ) -> None:
        self.counts = counts
        self.usd = usd
        self.rsi = rsi
        self.next: Averages | None = None
        self._columns = columns
        self._found: dict[tuple[str, int], Floats] = {}
        self._earlier: dict[tuple[str, Timeframe], Floats] = {}
        self._before: list[tuple[AverageRows, int, Any, Floats]] = []

    def column(self, name: str) -> Floats:
        """Return the values of the indicator *name* by row, with the open candle; NaN: unknown.

        name   a key of OF_OPEN or OF_RECENT, such as `rsi_h1`
        """
        for kind, (places, kernel) in COLUMNS.items():
            if name in places:
                k, z = places[name]
                if (kind, k) not in self._found:
                    is_recent = kind == "recent"
                    read = self._columns.read(self, k, kernel, has_extremes=is_recent)
                    self._found[kind, k] = read
                found: Floats = self._found[kind, k][z]
                return found
        raise KeyError(name)

    def earlier(self, name: str, timeframe: Timeframe) -> Floats:
        """Return the values of the field *name* at newest closed candles, as an array [age, row].

        The newest closed candle of *timeframe* has age 1.  NaN: unknown.
        """
        found = self._earlier.get((name, timeframe))
        if found is None:
            k = TIMEFRAMES.index(timeframe)
            kind = name.removesuffix(f"_{timeframe}")
            if kind in recent.CROSSED:
                z = recent.CROSSED.index(kind)
                read = recent.read_earlier_recent
            else:
                z = kernels.PRICE if kind == "price" else NAMES.index(kind)
                read = kernels.read_earlier
            found = self._columns.read(
                self, k, lambda kept, places, counts, _: read(kept, places, counts, z)
            )
            self._earlier[name, timeframe] = found
        return found

    def save(self, at: AverageRows, k: int, recents: Any, opens: Floats) -> None:
        """Store the values that the rows *at* had in a timeframe before a change.

        k         the index of the timeframe in TIMEFRAMES
        recents   the closed candles of these rows; None: only open candles change
        opens     high and low of the open candles
        """
        self._before.append((at, k, recents, opens))

    def changes(self, k: int, kind: int) -> Iterator[tuple[AverageRows, Any]]:
        """Yield the changes of rows after this state: (the rows, their values before the change).

        The newest change comes first.

        k      the index of the timeframe in TIMEFRAMES
        kind   RECENT for the closed candles of these rows, OPENS for high and low of their open
               candles
        """
        for at, of, *had in reversed(self._before):
            if of == k and had[kind] is not None:
                yield at, had[kind]


COLUMNS: Final[dict[str, tuple[dict[str, tuple[int, int]], ReadRows]]] = {
    "open": (OF_OPEN, kernels.read_rows),
    "recent": (OF_RECENT, recent.read_recent),
}


class ClosedCandles(NamedTuple):
    """The stored candles of one timeframe that are closed; each field has an entry for each mint.

    closed   the number of closed candles
    accs     the accumulators after these candles
    recent   the closes of the newest candles; None: unknown
    newest   high, low and close of the newest candles, as floats of 64 bits
    """

    closed: Ints
    accs: Floats
    recent: Sequence[RecentCandles | None]
    newest: Sequence[bytes]


NO_CANDLES: Final = ClosedCandles(np.zeros(0, np.int64), np.zeros((0, ACC)), (), ())


def recents_of(k: int, candles: ClosedCandles) -> Any:
    """Return, for each mint of *candles*, the record of its newest closed candles.

    If the closing prices of a mint are not stored, its averages begin with its newest closed
    candle.

    k   the index of the timeframe in TIMEFRAMES, whose records have the type RECENTS[k]
    """
    closed = candles.closed
    accs = candles.accs
    found = np.zeros(len(closed), RECENTS[k])
    newest = np.frombuffer(b"".join(candles.newest), np.float64).reshape(-1, 3)
    counts = np.array([len(each) // newest.itemsize // 3 for each in candles.newest], np.int64)
    recent.begin_recents(found, closed, accs[:, LAST].copy(), counts, newest)
    known = [each or RecentCandles(0, NO_ACC, b"") for each in candles.recent]
    begun = np.frombuffer(b"".join(each.acc for each in known), np.float64).reshape(-1, ACC)
    since = np.array([each.closed for each in known], np.int64)
    closes = np.frombuffer(b"".join(each.closes for each in known), np.float64)
    sizes = np.array([len(each.closes) // closes.itemsize for each in known], np.int64)
    kernels.begin_averages(found, closed, accs, since, begun, sizes, closes)
    return found


def _before(state: Averages, k: int, kind: int) -> list[tuple[AverageRows, Any]]:
    """Return the rows that changed after *state*, each once, with their values as of *state*."""
    found = []
    is_found = np.zeros(len(state.usd), np.bool_)
    changes = [each for of in _since(state) for each in of.changes(k, kind)]
    for at, had in reversed(changes):  # the oldest first: its value is that of *state*
        # Rows that were added after *state* are not in it.
        is_ours = at < len(is_found)
        is_ours[is_ours] = ~is_found[at[is_ours]]
        is_found[at[is_ours]] = True
        found.append((at[is_ours], had[is_ours]))
    return found


def _since(state: Averages) -> Iterator[Averages]:
    """Yield the states of a list from the newest one back to *state*, which is the last."""
    states = [state]
    while (later := states[-1].next) is not None:
        states.append(later)
    yield from reversed(states)
