"""The numbers of all tokens of a list, as columns, and their trades in the spans that it shows.

A span, such as H1, consists of parts of equal length, such as minutes; the newest part is open.
Each mint has a row, which has its trades of the open part.  A closed part is stored as chunks: the
rows of the mints that traded in the part, and their trades, because most mints trade in few parts.
When a part leaves a span, its volume is subtracted from that of the span, and its prices become the
prices from before the span.  So an update of a list takes time only for mints that traded.  The
change of a price compares the newest price with the newest price from before the span.

The chunks of 100,000 tokens that trade all day are half of a list's memory, and most chunks are not
read for an hour or a day.  So `ListMemory` is a port: an api process keeps chunks in files.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mintscope.kit.primitives import UnixS
from mintscope.kit.time import DAY_S, MINUTE_S
from mintscope.market.engine.given import Floats
from mintscope.market.screening.averages import NO_CANDLES, AverageColumns, recents_of
from mintscope.market.screening.snapshot import FoldedTo, MintTrades, SlotTrades
from mintscope.market.timeframe import TIMEFRAMES, VOLUME_S_MAX, WIDTH_S
from mintscope.solana.blocks import WSOL

Rows: TypeAlias = NDArray[np.int32]


class KeptChunk(Protocol):
    """A part of the trades in a closed span, one entry for each row; it never changes.

    The rows are in ascending order.  Methods raise OSError if a file cannot be read.
    """

    @property
    def row_count(self) -> int:
        """The number of rows, including those of removed mints."""

    def column(self, name: str) -> Any:
        """Return the column *name*, a field of `PartChunk`; None if the chunk does not have it."""

    def whole(self) -> "PartChunk":
        """Return the chunk with all columns in memory."""


class PartChunk(NamedTuple):
    """The closes and volumes of the tokens that traded in one part of time.

    The part is a minute, and then the chunk has `bought`, or a part of a day, and then it has
    `swaps`.  Each token has an entry.  This class implements `KeptChunk` in memory.

    rows   the rows of these tokens in the list
    """

    rows: Rows
    closes: NDArray[np.float64]
    volumes: NDArray[np.int64]
    swaps: NDArray[np.int32] | None = None
    bought: NDArray[np.int64] | None = None

    @property
    def row_count(self) -> int:
        """The number of rows, including those of removed mints."""
        return len(self.rows)

    def column(self, name: str) -> Any:
        """Return the column *name*, a field of this class; None if this chunk does not have it."""
        return getattr(self, name)

    def whole(self) -> "PartChunk":
        """Return this chunk, because it is in memory."""
        return self


class ListMemory(Protocol):
    """Stores the large parts of the token list, which are rarely read: in memory, or in files."""

    def chunk(self, chunk: PartChunk) -> KeptChunk:
        """Store *chunk*, and return it as it is stored."""

    def records(self, count: int, of: np.dtype[Any]) -> Any:
        """Return *count* zero records of the type *of*, an array in memory or in a file."""

    def release(self) -> None:
        """Free the memory of records that are in files; they are read again when they are used."""


class InMemory:
    """Stores the large parts of the token list as arrays in memory; implements `ListMemory`."""

    def chunk(self, chunk: PartChunk) -> KeptChunk:
        """Return *chunk* itself, which stays in memory."""
        return chunk

    def records(self, count: int, of: np.dtype[Any]) -> Any:
        """Return an array of *count* records of the type *of*, all zero, in memory."""
        return np.zeros(count, of)

    def release(self) -> None:
        """Do nothing, because no record is in a file."""


IN_MEMORY: Final = InMemory()


def by_row(chunk: PartChunk) -> PartChunk:
    """Return *chunk* with its rows in ascending order."""
    if np.all(chunk.rows[1:] > chunk.rows[:-1]):
        return chunk
    order = np.argsort(chunk.rows)
    columns: list[Any] = [None if column is None else column[order] for column in chunk]
    return PartChunk(*columns)


def joined(chunks: Sequence[PartChunk]) -> PartChunk:
    """Return the rows of all *chunks* as one chunk, in ascending order."""
    columns: list[Any] = [
        None if column[0] is None else np.concatenate(column)
        for column in zip(*chunks, strict=True)
    ]
    return by_row(PartChunk(*columns))


def closes_of(chunk: KeptChunk, rows: Sequence[int]) -> tuple[Any, Any]:
    """Return the indices of those of *rows* with a closing price in *chunk*, and these prices."""
    kept = chunk.column("rows")
    wanted = np.asarray(rows)
    # A row above all of *kept* would get an index behind the end.
    at = np.minimum(np.searchsorted(kept, wanted), len(kept) - 1)
    closes = chunk.column("closes")[at]
    is_ours = (kept[at] == wanted) & ~np.isnan(closes)
    return np.flatnonzero(is_ours), closes[is_ours]


class ListSpan(NamedTuple):
    """The span of time that ends now: *parts* parts of *part_s* seconds, numbered from 1970 on."""

    part_s: int
    parts: int

    def first_part(self, now: UnixS) -> int:
        """Return the number of the oldest part in the span that ends at *now*."""
        return now // self.part_s - self.parts + 1

    def start(self, now: UnixS) -> UnixS:
        """Return the start of the span that ends at *now*."""
        return UnixS(self.first_part(now) * self.part_s)


# M5 and H1 consist of minutes; D1 of the same parts as the pressure window of a day.
M5: Final = ListSpan(MINUTE_S, 5)
H1: Final = ListSpan(MINUTE_S, 60)
D1: Final = ListSpan(24 * MINUTE_S, 60)
SPANS: Final = (M5, H1, D1)
MINUTE_MAX: Final = 2 * MINUTE_S * VOLUME_S_MAX  # micro-USD


# NaN means that a value is not known.
#
# since        the time from which swaps count, Unix seconds
# supply       in whole tokens
# before       the newest price from before each span
# first        the first price; first_at: the start of its minute, Unix seconds
# buckets      start of the newest candle of each timeframe; counts: the number of candles
# volume       micro-USD in D1; swaps: the number of swaps in D1 that have a price
# open_...     the open part of D1, as is part_close; minute_...: the open minute
# h1_...       volume of H1, and its bought part
# depth        micro-USD in the pools that agree on the price; set_since, set_at: when the price was
#              first and last set; is_agreed: these pools weigh more than the others
ROW: Final = np.dtype(
    [
        ("is_listed", "?"),
        ("key", "u8"),
        ("since", "f8"),
        ("supply", "f8"),
        ("usd", "f8"),
        ("sol", "f8"),
        ("before", "f8", len(SPANS)),
        ("first", "f8"),
        ("first_at", "f8"),
        ("volume", "i8"),
        ("swaps", "i8"),
        ("buckets", "i8", len(TIMEFRAMES)),
        ("counts", "i4", len(TIMEFRAMES)),
        ("open_volume", "i8"),
        ("open_swaps", "i8"),
        ("part_close", "f8"),
        ("minute_close", "f8"),
        ("minute_volume", "i8"),
        ("minute_bought", "i8"),
        ("h1_volume", "i8"),
        ("h1_bought", "i8"),
        ("depth", "f8"),
        ("set_at", "f8"),
        ("set_since", "f8"),
        ("is_agreed", "?"),
    ],
    align=True,  # without it, reading a column takes twice as long
)
NEVER_TRADED: Final = np.zeros((), ROW)
for _name in (
    "since", "supply", "usd", "sol", "before", "part_close", "minute_close",
    "first", "first_at", "depth", "set_at", "set_since",
):  # fmt: skip
    NEVER_TRADED[_name] = np.nan
NEVER_TRADED["buckets"] = -1
NEVER_TRADED_BYTES: Final = np.frombuffer(NEVER_TRADED.tobytes(), np.uint8)
NO_ROWS: Final = np.zeros(0, ROW)
ROWS_MIN: Final = 64
TRADERS_S: Final = 5 * MINUTE_S
GROWS: Final = 8  # rows grow by an eighth only, because a spare row takes 600 bytes, too


class SlotSigners(NamedTuple):
    """The signers of the trades in one slot, as numbers, each with the row of the traded token."""

    time: UnixS
    rows: Rows
    signers: NDArray[np.uint64]


class Signers(NamedTuple):
    """The signers of trades in the last TRADERS_S seconds, by slot.

    unknown   the rows of tokens of which some signers may be missing
    """

    slots: Sequence[SlotSigners]
    unknown: Rows


def distinct_signers(signers_of: Signers, count: int) -> NDArray[np.float64]:
    """Return, for *count* rows, the number of distinct signers of their trades; NaN: unknown."""
    found = _distinct(signers_of.slots, count)
    found[signers_of.unknown] = np.nan
    return found


def _distinct(slots: Sequence[SlotSigners], count: int) -> NDArray[np.float64]:
    if not slots:
        return np.zeros(count)
    rows = np.concatenate([each.rows for each in slots])
    signers = np.concatenate([each.signers for each in slots])
    order = np.lexsort((signers, rows))
    rows = rows[order]
    signers = signers[order]
    is_new = np.ones(len(rows), np.bool_)
    is_new[1:] = (rows[1:] != rows[:-1]) | (signers[1:] != signers[:-1])
    return np.bincount(rows[is_new], minlength=count).astype(np.float64)


class ListColumns:
    """Stores prices, volumes and other numbers of all mints as of one time, a row for each mint."""

    def __init__(self, now: UnixS, keep: ListMemory = IN_MEMORY) -> None:
        """Begin without rows; *keep* stores closed parts, and candles of timeframes above m1."""
        self.rows = _spare(ROWS_MIN)
        self.averages = AverageColumns(ROWS_MIN, keep.records)
        self._keep = keep
        self._minutes: dict[int, list[KeptChunk]] = {}
        self._parts: dict[int, list[KeptChunk]] = {}
        self._now = now
        self._began = now
        self._signers: deque[SlotSigners] = deque()
        self._read_at = np.full(ROWS_MIN, -np.inf)  # by row, the time of the last `note_read`

    @property
    def part(self) -> int:
        """The number of the part of the day that is open, counted from 1970."""
        return self._now // D1.part_s

    def make_room(self, count: int) -> None:
        """Ensure that there is room for *count* rows, or more."""
        if count > len(self.rows):
            self.rows = _spare(max(count, len(self.rows) + len(self.rows) // GROWS), self.rows)
            self.averages.make_room(len(self.rows))
            more = len(self.rows) - len(self._read_at)
            self._read_at = np.pad(self._read_at, (0, more), constant_values=-np.inf)

    def start_row(self, row: int) -> None:
        """Clear *row*, for a mint that has not traded yet."""
        self.rows[row] = NEVER_TRADED
        self._read_at[row] = -np.inf
        self.averages.start_row(row)

    def note_read(self, rows: Rows) -> None:
        """Record that *rows* were read from the store now, so their earlier signers are unknown."""
        self._read_at[rows] = self._now

    def add_minutes(self, number: int, chunk: PartChunk) -> None:
        """Add the trades of minute *number* since 1970 to rows that `start_row` just cleared."""
        rows = self.rows
        rows["h1_volume"][chunk.rows] += chunk.volumes
        rows["h1_bought"][chunk.rows] += chunk.bought
        if number == self._now // H1.part_s:
            rows["minute_close"][chunk.rows] = chunk.closes
            rows["minute_volume"][chunk.rows] = chunk.volumes
            rows["minute_bought"][chunk.rows] = chunk.bought
        else:
            self._append(self._minutes.setdefault(number, []), chunk)

    def add_parts(self, number: int, chunk: PartChunk) -> None:
        """Add the trades in *chunk* to the last day of rows that `start_row` has just cleared.

        number   the number of the part of the day in which they were made
        """
        rows = self.rows
        assert chunk.swaps is not None
        rows["volume"][chunk.rows] += chunk.volumes
        rows["swaps"][chunk.rows] += chunk.swaps
        if number == self.part:
            rows["open_volume"][chunk.rows] = chunk.volumes
            rows["open_swaps"][chunk.rows] = chunk.swaps
            rows["part_close"][chunk.rows] = chunk.closes
        else:
            self._append(self._parts.setdefault(number, []), chunk)

    def apply(self, slot: SlotTrades, numbers: Rows) -> None:
        """Add the trades of the next folded slot.

        numbers   the row of each trade; -1 if its mint has no row
        """
        assert slot.folded.time is not None
        self.advance(slot.folded.time)
        if not len(numbers):
            return
        is_known = numbers >= 0
        at = numbers[is_known]
        self._sign(slot, numbers)
        volumes, bought, swaps, usd, sol, first = (
            np.array(column, kind)[is_known]
            for column, kind in zip(
                list(zip(*slot.trades, strict=True))[1:7],
                ("i8", "i8", "i8", "f8", "f8", "f8"),
                strict=True,
            )
        )
        rows = self.rows
        # As much as two sides of a candle have, so that no sum of a day exceeds 64 bits.
        volumes = np.minimum(volumes, MINUTE_MAX - rows["minute_volume"][at])
        bought = np.minimum(bought, volumes)
        # A slot has one entry for each mint.  If a row was in *at* twice, NumPy would add only one.
        for name in ("volume", "open_volume", "h1_volume", "minute_volume"):
            rows[name][at] += volumes
        for name in ("h1_bought", "minute_bought"):
            rows[name][at] += bought
        for name in ("swaps", "open_swaps"):
            rows[name][at] += swaps
        is_priced = ~np.isnan(usd)
        is_first = is_priced & np.isnan(rows["first"][at])
        rows["first"][at[is_first]] = first[is_first]
        rows["first_at"][at[is_first]] = self._now - self._now % MINUTE_S
        prices = _extremes(slot, is_known)[:, is_priced]
        # Before `usd` changes, because it is the close of the candles that end now.
        self._count_candles(at[is_priced], prices)
        for name in ("usd", "part_close", "minute_close"):
            rows[name][at[is_priced]] = usd[is_priced]
        rows["sol"][at[is_priced]] = sol[is_priced]

    def _sign(self, slot: SlotTrades, numbers: Rows) -> None:
        rows = [
            (row, signer)
            for row, trade in zip(numbers.tolist(), slot.trades, strict=True)
            if row >= 0
            for signer in trade.signers
        ]
        if rows:
            at, signers = zip(*rows, strict=True)
            kept = SlotSigners(self._now, np.array(at, np.int32), np.array(signers, np.uint64))
            self._signers.append(kept)

    def signers(self) -> Signers | None:
        """Return the signers of the trades of each token in the last TRADERS_S seconds.

        None until this list has followed the trades for that long.
        """
        if self._now - self._began < TRADERS_S:
            return None
        unknown = np.flatnonzero(self._read_at > self._now - TRADERS_S).astype(np.int32)
        return Signers(list(self._signers), unknown)

    def advance(self, now: UnixS) -> None:
        """Set the time to *now*: close spans that have ended, and drop trades that are too old."""
        if now // M5.part_s > self._now // M5.part_s:
            self._close_minute()
            self._leave_minutes(now)
        if now // D1.part_s > self._now // D1.part_s:
            self._close_part()
            self._leave_parts(now)
        while self._signers and self._signers[0].time <= now - TRADERS_S:
            self._signers.popleft()
        # Last, because the closed parts belong to the time before.
        self._now = now

    def _count_candles(self, at: Rows, prices: Floats) -> None:
        """Close the candles of the rows *at* that have ended; count the candles that begin.

        prices   the highest prices of the new trades by row, and the lowest ones
        """
        rows = self.rows
        for k, timeframe in enumerate(TIMEFRAMES):
            bucket = self._now - self._now % WIDTH_S[timeframe]
            is_next = rows["buckets"][at, k] != bucket
            self.averages.close(rows, at[is_next], k)
            self.averages.note(at, k, prices, is_next)
            rows["counts"][at, k] += is_next
            rows["buckets"][at, k] = bucket

    def _close_minute(self) -> None:
        rows = self.rows
        closes, volumes, bought = (
            rows[name] for name in ("minute_close", "minute_volume", "minute_bought")
        )
        # A swap can have a price without volume, or volume without a price.
        at = np.flatnonzero((volumes > 0) | ~np.isnan(closes)).astype(np.int32)
        if len(at):
            chunk = PartChunk(at, closes[at], volumes[at], bought=bought[at])
            self._append(self._minutes.setdefault(self._now // M5.part_s, []), chunk)
            closes[at] = np.nan
            volumes[at] = bought[at] = 0

    def _close_part(self) -> None:
        rows = self.rows
        is_traded = (rows["open_volume"] > 0) | (rows["open_swaps"] > 0)
        at = np.flatnonzero(is_traded).astype(np.int32)
        if len(at):
            open_swaps = rows["open_swaps"][at].astype(np.int32)
            chunk = PartChunk(at, rows["part_close"][at], rows["open_volume"][at], open_swaps)
            self._append(self._parts.setdefault(self.part, []), chunk)
            rows["open_volume"][at] = 0
            rows["open_swaps"][at] = 0
            rows["part_close"][at] = np.nan

    def _leave_minutes(self, now: UnixS) -> None:
        """Remove trades of minutes that are now older than five minutes, or than an hour.

        The newest prices of these minutes become the prices from before the span.
        """
        rows = self.rows
        before = self.rows["before"]
        were_in = M5.first_part(self._now)
        # In the order of time, so that the newest price of a row is written last.
        for number in sorted(self._minutes):
            # A minute leaves M5 before it leaves H1, so it stays stored until then.
            if were_in <= number < M5.first_part(now):
                _write(before[:, 0], self._minutes[number])
            if number < H1.first_part(now):
                chunks = self._minutes.pop(number)
                _write(before[:, 1], chunks)
                for chunk in (each.whole() for each in chunks):
                    rows["h1_volume"][chunk.rows] -= chunk.volumes
                    rows["h1_bought"][chunk.rows] -= chunk.bought

    def _leave_parts(self, now: UnixS) -> None:
        rows = self.rows
        for number in sorted(self._parts):
            if number >= D1.first_part(now):
                break
            chunks = self._parts.pop(number)
            _write(rows["before"][:, 2], chunks)
            for chunk in (each.whole() for each in chunks):
                rows["volume"][chunk.rows] -= chunk.volumes
                rows["swaps"][chunk.rows] -= chunk.swaps

    def closed_parts(self) -> dict[int, tuple[KeptChunk, ...]]:
        """Return the trades of the last day in chunks, by the number of their part of the day.

        The open part is left out.
        """
        return {number: tuple(chunks) for number, chunks in self._parts.items()}

    def closed_chunks(self) -> Iterator[tuple[bool, int, PartChunk]]:
        """Yield the chunks of closed parts of time, in which trades are stored.

        Each result is (whether the part is one of a day, not a minute; its number; the chunk).
        """
        for of_day, parts in ((False, self._minutes), (True, self._parts)):
            for number, chunks in parts.items():
                for chunk in chunks:
                    yield of_day, number, chunk.whole()

    def restore_chunk(self, number: int, chunk: PartChunk, *, of_day: bool) -> None:
        """Add the trades in *chunk* from a snapshot; `closed_chunks` has yielded the arguments.

        of_day   whether they were made in a part of a day, not in a minute
        """
        chunks = (self._parts if of_day else self._minutes).setdefault(number, [])
        chunks.append(self._keep.chunk(by_row(chunk)))

    def _append(self, chunks: list[KeptChunk], chunk: PartChunk) -> None:
        """Add *chunk* to *chunks*, merged with the last ones if these are not longer."""
        added = [chunk]
        while chunks and chunks[-1].row_count <= sum(len(each.rows) for each in added):
            added.append(chunks.pop().whole())
        chunks.append(self._keep.chunk(joined(added)))


def _extremes(slot: SlotTrades, is_known: NDArray[np.bool_]) -> Floats:
    """Return the highest and the lowest price of each trade of *slot* that *is_known* marks."""
    prices = [(trade.price_usd, trade.high_usd, trade.low_usd) for trade in slot.trades]
    usd, high, low = np.array(prices, float).reshape(-1, 3)[is_known].T
    return np.array([np.fmax(high, usd), np.fmin(low, usd)])


def _spare(count: int, rows: Any = NO_ROWS) -> Any:
    """Return an array of *count* rows: first *rows*, then empty ones.

    NumPy copies bytes without the lock of the interpreter; np.full takes longer.  An assignment of
    rows would leave out the padding between their fields, which snapshots contain.
    """
    spare = np.empty(count, ROW)
    content = spare.view(np.uint8).reshape(-1, ROW.itemsize)
    content[: len(rows)] = rows.view(np.uint8).reshape(-1, ROW.itemsize)
    content[len(rows) :] = NEVER_TRADED_BYTES
    return spare


def _write(column: NDArray[np.float64], chunks: list[KeptChunk]) -> None:
    for chunk in chunks:
        closes = chunk.column("closes")
        is_priced = ~np.isnan(closes)
        column[chunk.column("rows")[is_priced]] = closes[is_priced]


def load_list_kernels() -> None:
    """Compile or load the kernels of a token list, so that the first list need not wait."""
    columns = ListColumns(UnixS(0))
    columns.start_row(0)
    traded = MintTrades(WSOL, 1, 1, 1, 1.0, 1.0, first_usd=1.0)
    for time in (0, DAY_S):  # the second time closes a candle in each timeframe
        columns.apply(SlotTrades(FoldedTo(0, None, UnixS(time)), [traded]), np.zeros(1, np.int32))
    averages = columns.averages.shown(columns.rows)
    for k, timeframe in enumerate(TIMEFRAMES):  # their records differ, and so do their kernels
        recents_of(k, NO_CANDLES)
        averages.column(f"rsi_{timeframe}")
        averages.column(f"atr_{timeframe}")
        averages.earlier(f"rsi_{timeframe}", timeframe)
        averages.earlier(f"atr_{timeframe}", timeframe)


# The newest price from before the day, then the price at the end of each closed part, then the
# newest price; None before the first price.
Closes = list[float | None]


class DayCloses(NamedTuple):
    """The prices of all mints over the last day, as of one state of the list.

    parts    the closed parts of the day, by number
    open     the number of the open part
    before   by row, the newest price from before the day; NaN: there is no such price
    now      by row, the newest price; NaN: there is no price
    """

    parts: Mapping[int, Sequence[KeptChunk]]
    open: int
    before: Any
    now: Any

    def of(self, rows: Sequence[int]) -> Sequence[Closes]:
        """Return the prices of the tokens in *rows* over the last day, oldest first.

        They are the newest price from before the day, the price at the end of each closed part of
        the day, and the newest price; None before the first price.  Raises OSError if a file cannot
        be read.
        """
        found = np.full((len(rows), D1.parts + 1), np.nan)
        found[:, 0] = self.before[rows]
        first = self.open - D1.parts + 1
        for number, chunks in self.parts.items():
            if not first <= number < self.open:
                continue
            for chunk in chunks:
                at, closes = closes_of(chunk, rows)
                found[at, number - first + 1] = closes
        found[:, -1] = self.now[rows]
        return _carried(found)


def _carried(found: Any) -> Sequence[Closes]:
    """Return the rows of *found*; NaN becomes the price to its left, or None at the left end."""
    places = np.where(np.isnan(found), 0, np.arange(found.shape[1]))
    np.maximum.accumulate(places, axis=1, out=places)
    held = np.take_along_axis(found, places, axis=1)
    return [[None if value != value else value for value in row] for row in held.tolist()]  # noqa: PLR0124 - NaN
