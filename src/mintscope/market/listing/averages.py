"""EMAs, RSI, MACD, ATR, Bollinger bands and swings of all tokens, by timeframe.

The engine has these values for the mints in use, a list for all.  A row holds the accumulators of
its closed candles, as the finalized fold packs them, and its newest candles.  Readers see values
with the open candle, and those before it.  Only rows that were traded are read again.
"""

import weakref
from collections.abc import Callable, Iterator, Sequence
from threading import Lock
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mintscope.market.engine import kernels, recent
from mintscope.market.engine.kernels import ACC, HISTORY, READ_A_ROW
from mintscope.market.engine.recent import RECENT
from mintscope.market.screening.grammar import before
from mintscope.market.timeframe import TIMEFRAMES, Timeframe

Floats = NDArray[np.float64]
AverageRows = NDArray[Any]

NAMES: Final = ("ema9", "ema21", "ema50", "ema200", "rsi", "macd", "macd_signal", "macd_histogram")
"""Of one timeframe, in the order in which a kernel writes them."""
PLACES: Final = {
    name: k * READ_A_ROW + z
    for k, timeframe in enumerate(TIMEFRAMES)
    for z, name in enumerate(
        (
            *(f"{name}_{timeframe}" for name in NAMES),
            *(before(f"{name}_{timeframe}", timeframe) for name in NAMES),
            before("price", timeframe),
        )
    )
}
"""Where the values of a name stand: number of the timeframe * READ_A_ROW + place in it."""
OF_RECENT: Final = {
    f"{name}_{timeframe}": (k, z)
    for k, timeframe in enumerate(TIMEFRAMES)
    for z, name in enumerate(recent.NAMES)
}
"""Of a name of `engine.recent`: the number of its timeframe, and its place."""
H1_FRAME: Final = list(TIMEFRAMES).index(Timeframe.H1)
RSI: Final = NAMES.index("rsi")
GROWS: Final = 8  # an eighth more, as of rows


# Takes what is kept, where some rows stand in it, their candles, and their numbers; returns their
# columns.
ReadRows: TypeAlias = Callable[[Any, Any, Any, Any], Floats]


class RecentRows:
    """The newest candles of the rows of one timeframe: of RECENT for each that has a closed one.

    Most tokens have none of the wider timeframes.  These stand at place 0, which stays empty.
    """

    def __init__(self, count: int) -> None:
        self.kept = np.zeros(1, RECENT)
        self.places = np.zeros(count, np.int32)
        self._used = 1

    def make_room(self, count: int) -> None:
        """Extend to *count* rows, no fewer than before."""
        self.places = np.pad(self.places, (0, count - len(self.places)))

    def take(self, at: AverageRows) -> Any:
        """Return the places of rows *at*, each once, which are given one if they have none."""
        new = at[self.places[at] == 0]
        last = self._used + len(new)
        if last > len(self.kept):
            grown = np.zeros(max(last, len(self.kept) + len(self.kept) // GROWS), RECENT)
            grown[: self._used] = self.kept[: self._used]
            self.kept = grown
        self.places[new] = np.arange(self._used, last, dtype=np.int32)
        self._used = last
        return self.places[at]

    def read(self, at: Any) -> Any:
        """Return the records of rows *at*."""
        return self.kept[self.places[at]]

    def write(self, at: AverageRows, recents: Any) -> None:
        """Keep *recents* of rows *at*, each once."""
        is_filled = np.frombuffer(recents.tobytes(), np.uint8).reshape(len(at), -1).any(axis=1)
        is_needed = is_filled | (self.places[at] > 0)
        places = self.take(at[is_needed])  # which may replace what is kept
        self.kept[places] = recents[is_needed]


class AverageColumns:
    """The accumulators of each row and timeframe, its newest candles, and the values last shown."""

    def __init__(self, count: int) -> None:
        self.accs = np.zeros((count, len(TIMEFRAMES), ACC))
        self._histories = np.zeros((len(TIMEFRAMES), count, HISTORY))
        self._recents = [RecentRows(count) for _ in TIMEFRAMES]
        self._opens = np.zeros((count, len(TIMEFRAMES), 2))  # high and low of the open candles
        self._lost = np.zeros(count, np.bool_)  # rows with a swing that must be read again
        self._rsi = np.zeros(0)
        self._is_stale = np.ones(count, np.bool_)
        self._lock = Lock()
        self._newest: Callable[[], Averages | None] = lambda: None  # a weak reference

    def make_room(self, count: int) -> None:
        """Extend to *count* rows, no fewer than before."""
        more = count - len(self.accs)
        with self._lock:
            self.accs = np.pad(self.accs, ((0, more), (0, 0), (0, 0)))
            self._histories = np.pad(self._histories, ((0, 0), (0, more), (0, 0)))
            for each in self._recents:
                each.make_room(count)
        self._opens = np.pad(self._opens, ((0, more), (0, 0), (0, 0)))
        self._lost = np.pad(self._lost, (0, more))
        self._is_stale = np.pad(self._is_stale, (0, more), constant_values=True)

    def start_row(self, row: int) -> None:
        """Reset *row* for a mint that was never traded."""
        self.load(row, 0.0, 0.0)
        self.load_recent(row, np.zeros(len(TIMEFRAMES), RECENT), 0.0)

    def load(self, row: int, accs: Any, histories: Any) -> None:
        """Take *accs* and *histories*, a line of each for each timeframe, for *row*."""
        with self._lock:
            self._save_all(row)
            self.accs[row] = accs
            self._histories[:, row] = histories
        self._is_stale[row] = True

    def load_recent(self, row: int, recents: Any, opens: Any) -> None:
        """Take *recents*, one of RECENT for each timeframe, and *opens* for *row*.

        opens   high and low of the open candle of each timeframe
        """
        with self._lock:
            self._save_all(row)
            for k, each in enumerate(self._recents):
                each.write(np.array([row]), recents[k : k + 1])
        self._opens[row] = opens
        self._lost[row] = False

    def close(self, rows: Any, at: AverageRows, k: int) -> None:
        """Close the open candles of timeframe *k* of rows *at* at their newest prices."""
        counts = rows["counts"]
        prices = np.column_stack([self._opens[at, k], rows["usd"][at]])
        with self._lock:
            self._save(at, k)
            kernels.keep_closes(self._histories, counts, rows["usd"], at, k)
            kernels.close_rows(self.accs, counts, rows["usd"], at, k)
            closing = self._recents[k]
            places = closing.places[at]
            is_closing = counts[at, k] > 0
            places[is_closing] = closing.take(at[is_closing])
            lost = recent.keep_candles(closing.kept, places, counts, prices, at, k)
        self._lost[at[lost]] = True

    def _save_all(self, row: int) -> None:
        for k in range(len(TIMEFRAMES)):
            self._save(np.array([row]), k)

    def _save(self, at: AverageRows, k: int) -> None:
        newest = self._newest()
        if newest is not None:
            had = Closed(self.accs[at, k], self._histories[k, at], self._recents[k].read(at))
            newest.save(at, k, had)

    def note(self, at: AverageRows, k: int, prices: Floats, is_next: NDArray[np.bool_]) -> None:
        """Record the high and low in *prices* of rows *at*; *is_next*: they open a candle."""
        self._is_stale[at] = True
        high, low = self._opens[at, k].T
        self._opens[at, k, 0] = np.where(is_next, prices[0], np.maximum(high, prices[0]))
        self._opens[at, k, 1] = np.where(is_next, prices[1], np.minimum(low, prices[1]))

    def lost_rows(self) -> AverageRows:
        """Return the rows with a swing that is not known until their candles are read again."""
        return np.flatnonzero(self._lost)

    def restore(self, first: int, kept: Sequence[bytes]) -> None:
        """Restore rows that `kept` returned, from *first* on, before the first call of `shown`."""
        accs = np.frombuffer(kept[0]).reshape(-1, len(TIMEFRAMES), ACC)
        last = first + len(accs)
        self.accs[first:last] = accs
        shape = (len(TIMEFRAMES), len(accs), HISTORY)
        self._histories[:, first:last] = np.frombuffer(kept[1]).reshape(shape)
        recents = np.frombuffer(kept[2], RECENT).reshape(shape[:2])
        for each, of in zip(self._recents, recents, strict=True):
            each.write(np.arange(first, last), of)
        self._opens[first:last] = np.frombuffer(kept[3]).reshape(-1, len(TIMEFRAMES), 2)
        self._lost[first:last] = np.frombuffer(kept[4], np.bool_)

    def kept(self, first: int, last: int) -> Sequence[bytes]:
        """Return the rows from *first* until before *last*, for `restore`."""
        rows = slice(first, last)
        recents = np.stack([each.read(rows) for each in self._recents])
        parts = self.accs[rows], self._histories[:, rows], recents
        return [each.tobytes() for each in (*parts, self._opens[rows], self._lost[rows])]

    def shown(self, rows: Any) -> "Averages":
        """Return the current values of *rows*, which are the first of all rows."""
        count = len(rows)
        self._rsi = np.append(self._rsi, np.full(count - len(self._rsi), np.nan))
        at = np.flatnonzero(self._is_stale[:count])
        counts = rows["counts"][at, H1_FRAME]
        values = kernels.read_rows(self.accs[at, H1_FRAME], counts, rows["usd"][at])
        self._rsi[at] = values[RSI]
        self._is_stale[:count] = False
        opens = self._opens[:count].copy()
        found = Averages(self, rows["counts"].copy(), rows["usd"].copy(), self._rsi.copy(), opens)
        with self._lock:
            newest = self._newest()
            if newest is not None:
                newest.next = found
            self._newest = weakref.ref(found)
        return found

    def as_of(self, state: "Averages", k: int) -> Floats:
        """Return the accumulators of timeframe *k* of all rows at the time of *state*."""
        with self._lock:
            found = self.accs[: len(state.usd), k].copy()
            for of in _since(state):
                for at, had in of.changes(k, "accs"):
                    is_ours = at < len(found)
                    found[at[is_ours]] = had[is_ours]
        return found

    def read(self, state: "Averages", k: int, kind: str, kernel: ReadRows) -> Floats:
        """Return the columns of *kernel* for timeframe *k* of all rows, as they were in *state*.

        Rows that have changed since are read as they were then: nothing is copied.

        kind   of Closed
        """
        counts = state.counts[:, k].copy()
        count = len(counts)
        is_changed = np.zeros(count, np.bool_)
        changed = []
        with self._lock:
            changes = [each for of in _since(state) for each in of.changes(k, kind)]
            for at, had in reversed(changes):  # the oldest first: what a row had then
                is_ours = at < count
                is_ours[is_ours] = ~is_changed[at[is_ours]]
                is_changed[at[is_ours]] = True
                changed.append((at[is_ours], had[is_ours]))
            kept: Any = self._histories[k, :count]
            if kind == "recents":
                kept = self._recents[k].kept
            places = self._recents[k].places[:count]
            found = kernel(kept, places, np.where(is_changed, 0, counts), slice(None))
        for at, had in changed:
            if len(at):
                found[:, at] = kernel(had, np.arange(len(at), dtype=np.int32), counts[at], at)
        return found


class Closed(NamedTuple):
    """Some rows of one timeframe: `kernels.ACC`, `kernels.HISTORY`, `recent.RECENT`."""

    accs: Floats
    histories: Floats
    recents: NDArray[Any]


class Averages:
    """The values of all rows at one time; immutable, and computed on first use.

    All columns of 100,000 tokens are 54 MB, and most are never asked for.  So accumulators are
    kept as they are now, and here what they were before each change of theirs since.

    counts, usd   candles by timeframe and the newest price of each row
    rsi           of h1
    next          the state after this one, if it was made while this one was in use
    """

    def __init__(
        self,
        columns: AverageColumns,
        counts: NDArray[Any],
        usd: Floats,
        rsi: Floats,
        opens: Floats,
    ) -> None:
        self.counts = counts
        self._opens = opens
        self.usd = usd
        self.rsi = rsi
        self.next: Averages | None = None
        self._columns = columns
        self._found: dict[int, Floats] = {}
        self._of_recent: dict[int, Floats] = {}
        self._earlier: dict[tuple[str, Timeframe], Floats] = {}
        self._before: list[tuple[AverageRows, int, Closed]] = []

    def column(self, name: str) -> Floats:
        """Return the values of *name*, of PLACES or OF_RECENT, for all rows; NaN for none."""
        if name in OF_RECENT:
            k, z = OF_RECENT[name]
            if k not in self._of_recent:
                self._of_recent[k] = self._columns.read(self, k, "recents", self._read_recent(k))
            found: Floats = self._of_recent[k][z]
            return found
        k, place = divmod(PLACES[name], READ_A_ROW)
        if k not in self._found:
            accs = self._columns.as_of(self, k)
            self._found[k] = kernels.read_rows(accs, self.counts[:, k].copy(), self.usd)
        values: Floats = self._found[k][place]
        return values

    def _read_recent(self, k: int) -> ReadRows:
        prices = np.column_stack([self._opens[:, k], self.usd])
        return lambda kept, places, counts, at: recent.read_recent(kept, places, counts, prices[at])

    def earlier(self, name: str, timeframe: Timeframe) -> Floats:
        """Return the values of *name* of the newest closed candles, by age: [age, row]; NaN: none.

        The newest closed candle of *timeframe* has age 1.
        """
        found = self._earlier.get((name, timeframe))
        if found is None:
            k = TIMEFRAMES.index(timeframe)
            kind = name.removesuffix(f"_{timeframe}")
            read: ReadRows
            if kind in recent.CROSSED:
                z = recent.CROSSED.index(kind)
                read = lambda kept, places, counts, _: recent.read_earlier_recent(  # noqa: E731
                    kept, places, counts, z
                )
                found = self._columns.read(self, k, "recents", read)
            else:
                z = kernels.PRICE if kind == "price" else NAMES.index(kind)
                read = lambda kept, _, counts, __: kernels.read_earlier(kept, counts, z)  # noqa: E731
                found = self._columns.read(self, k, "histories", read)
            self._earlier[name, timeframe] = found
        return found

    def save(self, at: AverageRows, k: int, had: Closed) -> None:
        """Note what rows *at* *had* of timeframe *k* until now."""
        self._before.append((at, k, had))

    def changes(self, k: int, kind: str) -> Iterator[tuple[AverageRows, Any]]:
        """Yield rows and what they had of timeframe *k* before each change, the last one first.

        kind   of Closed
        """
        for at, of, had in reversed(self._before):
            if of == k:
                yield at, getattr(had, kind)


def _since(state: Averages) -> Iterator[Averages]:
    """Yield the states from the newest back to *state*."""
    states = [state]
    while (later := states[-1].next) is not None:
        states.append(later)
    yield from reversed(states)
