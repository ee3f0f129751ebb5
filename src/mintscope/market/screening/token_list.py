"""The list of all tokens.

`seed` adds mints, `apply` adds slots that were folded later, and `listed` returns a state for
readers, which never changes.

A list is loaded from the store by reading each mint, or restored from a snapshot, which has the
bytes of the numbers in memory.  A restored list to which later slots are added has the same bits as
a list that was never stored.
"""

import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np

from mintscope.kit.primitives import MINT_LENGTH_MAX, Mint, UnixS
from mintscope.market.engine.fold import read_states
from mintscope.market.engine.recent import RECENTS
from mintscope.market.mint_facts import MintFacts
from mintscope.market.screening.averages import ClosedCandles, recents_of
from mintscope.market.screening.columns import (
    D1,
    H1,
    IN_MEMORY,
    ROW,
    ROWS_MIN,
    SPANS,
    DayCloses,
    ListColumns,
    ListMemory,
    PartChunk,
)
from mintscope.market.screening.listed import ListedMint, ListedTokens, RowKeys, key_of
from mintscope.market.screening.look_alikes import (
    AddressIndex,
    NameIndex,
    fold_key,
    search_line,
)
from mintscope.market.screening.snapshot import (
    FactPlace,
    FoldedTo,
    MintAsFolded,
    MintPage,
    SlotTrades,
    by_number,
)
from mintscope.market.standings import basis_of
from mintscope.market.timeframe import TIMEFRAMES, Timeframe

M1: Final = list(Timeframe).index(Timeframe.M1)
HIGH_AND_LOW: Final = slice(1, 3)  # of the four prices of a candle
CLOSE: Final = 3


class KeptRows(msgspec.Struct, frozen=True, array_like=True):
    """Some rows of the token list, as stored in a snapshot.

    numbers, averages, folds   the bytes of the arrays that hold these data in memory
    """

    numbers: bytes
    averages: list[bytes]
    folds: bytes
    mints: list[ListedMint | None]
    standings: list[bytes | None]
    lines: list[bytes]


class TokenList:
    """The list of all tracked mints, updated with each folded slot.

    folded    the newest log event that is in the list
    columns   the numbers of the mints, such as prices and volumes, with one row for each
    """

    def __init__(self, folded: FoldedTo, keep: ListMemory = IN_MEMORY) -> None:
        """Begin an empty list as of the log event *folded*.

        keep   stores the large parts of the list, in memory or in files
        """
        self.folded = folded
        self.columns = ListColumns(folded.time or UnixS(0), keep)
        self._rows: dict[Mint, int] = {}
        self._mints: list[ListedMint | None] = []
        self._standings: list[bytes | None] = []  # the pools of the mint of each row, packed
        self._restood: set[int] = set()  # rows whose pools have changed since the last `_stand`
        self._lines: list[bytes] = []
        self._lengths = np.zeros(ROWS_MIN, np.int32)  # lengths of the search lines
        self._folds = np.zeros((ROWS_MIN, 2), np.int64)  # look-alike keys of name and symbol
        self._address_bytes = np.zeros((ROWS_MIN, MINT_LENGTH_MAX), np.uint8)
        self._names: NameIndex | None = None  # of the last list; None if a name has changed
        self._keys: RowKeys | None = None  # of the last list; None if mints have changed
        self._lost_to = 0  # the row at which the next search for lost candles begins
        self._is_shown = False  # whether the last list shares `_folds` and `_address_bytes`
        # Rows of removed mints, and the part in which each was removed.  Closed parts have trades
        # of these rows for another day; after that, other mints may use the rows.
        self._gone: deque[tuple[int, int]] = deque()

    def seed(self, page: MintPage) -> None:
        """Add the mints of *page* to the list; those that are listed already are replaced.

        *page* must be as of the same slot as this list.
        """
        assert page.folded == self.folded, f"expected {self.folded}, was {page.folded}"
        traded = [one for one in page.mints if one.state is not None]
        states = _states_of(traded)
        firsts = _firsts(traded, states)
        rows = self._start(page.mints, firsts)
        self._read(traded, states)
        self._load(traded, states)
        for number, trades in by_number(rows, [one.parts for one in page.mints], 1).items():
            at, volumes, swaps, closes = trades
            chunk = PartChunk(at, closes, volumes, swaps.astype(np.int32))
            self.columns.add_parts(number, chunk)
        minutes = [one.minutes for one in page.mints]
        for number, trades in by_number(rows, minutes, H1.part_s).items():
            at, volumes, bought, closes = trades
            self.columns.add_minutes(number, PartChunk(at, closes, volumes, bought=bought))

    def drop(self, mint: Mint) -> None:
        """Remove *mint* from the list of tokens."""
        row = self._rows.pop(mint, None)
        if row is not None:
            self._keys = None
            self.columns.start_row(row)
            self._gone.append((self.columns.part, row))
            self._mints[row] = None
            self._standings[row] = None
            self._put_line(row, b"")
            self._let_go()
            self._folds[row] = 0

    def apply(self, slots: Iterable[SlotTrades]) -> None:
        """Add the trades of *slots* to the list: the next folded slots, in order."""
        find = self._rows.get
        for slot in slots:
            numbers = np.array([find(trade.mint, -1) for trade in slot.trades], np.int32)
            for row, trade in zip(numbers.tolist(), slot.trades, strict=True):
                if row >= 0 and trade.standing is not None:
                    self._standings[row] = trade.standing
                    self._restood.add(row)
            self.columns.apply(slot, numbers)
            for row, trade in zip(numbers.tolist(), slot.trades, strict=True):
                if row >= 0 and trade.price_usd is not None:
                    self._note_first(row)
            self.folded = slot.folded

    def _note_first(self, row: int) -> None:
        """Set the time since which the mint in *row* is tracked, if it is not known.

        It is not known for a mint that is tracked from the first slot on, until its first price.
        """
        listed = self._mints[row]
        assert listed is not None
        if listed.since is None:
            since = UnixS(int(self.columns.rows["first_at"][row]))
            self.columns.rows["since"][row] = since
            self._mints[row] = msgspec.structs.replace(listed, since=since)

    def describe(self, mint: Mint, facts: MintFacts) -> None:
        """Replace the facts of *mint*, such as its name, with *facts*, if it is in the list."""
        row = self._rows.get(mint)
        if row is not None:
            old = self._mints[row]
            assert old is not None
            self._describe([row], [ListedMint.of(mint, old.since, facts)], [facts])

    def lost(self, limit: int) -> list[Mint]:
        """Return up to *limit* mints of which a swing (the high and low of 100 candles) is unknown.

        It stays unknown until `recall` replaces their candles.  Successive calls return different
        mints, until each was returned once.
        """
        rows = self.columns.averages.lost_rows()
        behind = int(
            np.searchsorted(rows, self._lost_to)
        )  # in rotation, so that each mint is returned at some time
        found = np.concatenate((rows[behind:], rows[:behind]))[:limit].tolist()
        self._lost_to = found[-1] + 1 if found else 0
        return [one.mint for row in found if (one := self._mints[row]) is not None]

    def recall(self, page: MintPage) -> None:
        """Replace the stored newest candles of the mints in *page* that are in this list.

        *page* must be as of the same slot as this list.
        """
        assert page.folded == self.folded, f"expected {self.folded}, was {page.folded}"
        found = [one for one in page.mints if one.mint in self._rows and one.state is not None]
        self._load(found, _states_of(found))

    def listed(self) -> ListedTokens:
        """Return the list as it is now, for readers.

        It does not change afterwards.  This list must not change while the method runs.
        """
        mints = list(self._mints)
        columns = self.columns
        if self._names is None:
            self._names = NameIndex(self._lines, self._lengths[: len(mints)])
        rows = columns.rows[: len(mints)]
        self._stand(rows)
        before = rows["before"][:, 2].copy()
        averages = columns.averages.shown(rows)
        if self._keys is None:
            self._keys = RowKeys.of(rows)
        self._is_shown = True
        return ListedTokens(
            self.folded,
            mints,
            rows,
            keys=self._keys,
            averages=averages,
            signers=columns.signers(),
            standings=list(self._standings),
            names=self._names,
            addresses=AddressIndex(self._address_bytes[: len(mints)]),
            folds=self._folds[: len(mints)],
            days=DayCloses(columns.closed_parts(), columns.part, before, averages.usd),
        )

    def __len__(self) -> int:
        """Return the number of mints in the list."""
        return len(self._rows)

    @property
    def row_count(self) -> int:
        """The number of rows, including those of removed mints."""
        return len(self._mints)

    def gone_rows(self) -> list[tuple[int, int]]:
        """Return the rows of removed mints that no other mint uses yet.

        Each is (number of the part of the day in which the mint was removed, row).
        """
        return list(self._gone)

    def kept_rows(self, first: int, last: int) -> KeptRows:
        """Return the rows from number *first* to *last* - 1 as they are stored in a snapshot."""
        # Otherwise `_stand` runs only in `listed`, and the bytes would lack newer bases.
        self._stand(self.columns.rows)
        return KeptRows(
            self.columns.rows[first:last].tobytes(),
            [*self.columns.averages.kept(first, last)],
            self._folds[first:last].tobytes(),
            self._mints[first:last],
            self._standings[first:last],
            self._lines[first:last],
        )

    def expect_rows(self, count: int, gone: Iterable[tuple[int, int]]) -> None:
        """Make room for *count* rows from a snapshot.

        gone   the rows of removed mints among them, as `gone_rows` returned them
        """
        # Room for all rows at once: growing piece by piece would copy the first rows many times.
        self._make_room(count)
        self._gone.extend(gone)

    def restore_rows(self, first: int, kept: KeptRows) -> None:
        """Append *kept*, rows from a snapshot.

        first   the number of the first of them; ValueError is raised if it is not the next row
        """
        if first != self.row_count:
            raise ValueError(f"expected row {self.row_count}, was {first}")
        last = first + len(kept.mints)
        self._make_room(last)
        self._let_go()
        self.columns.rows[first:last] = np.frombuffer(kept.numbers, ROW)
        self.columns.averages.restore(first, kept.averages)
        self._folds[first:last] = np.frombuffer(kept.folds, np.int64).reshape(-1, 2)
        self._mints += kept.mints
        self._standings += kept.standings
        self._lines += kept.lines
        self._lengths[first:last] = [len(line) for line in kept.lines]
        self._address_bytes[first:last] = _address_bytes(
            "" if one is None else one.mint for one in kept.mints
        )
        self._rows.update(
            (one.mint, row) for row, one in enumerate(kept.mints, first) if one is not None
        )
        self._names = None

    def _start(self, mints: Sequence[MintAsFolded], firsts: Mapping[Mint, UnixS]) -> list[int]:
        """Add a row for each of *mints*, without the data of its state; return the row numbers.

        firsts   the start of the first minute of each mint that has a candle
        """
        # A listed mint gets another row, because closed parts have trades of its old row.
        for one in mints:
            self.drop(one.mint)
        self._make_room(len(self._mints) + len(mints))
        rows = [self._take_row() for _ in mints]
        sinces = [firsts.get(one.mint) if one.since is None else one.since for one in mints]
        for row, one in zip(rows, mints, strict=True):
            self._rows[one.mint] = row
            self._standings[row] = one.standing
        self._restood.update(rows)
        self._keys = None
        kept = self.columns.rows
        at = np.array(rows, np.int32)
        kept["before"][at] = np.array([one.before for one in mints], np.float64).reshape(-1, 3)
        kept["first"][at] = np.array([one.first_usd for one in mints], np.float64)
        kept["since"][at] = np.array(sinces, np.float64)
        kept["key"][at] = np.array([key_of(one.mint) for one in mints], np.uint64)
        kept["is_listed"][at] = True
        listed = [
            ListedMint.of(one.mint, since, one.facts)
            for one, since in zip(mints, sinces, strict=True)
        ]
        self._describe(rows, listed, [one.facts for one in mints])
        self._address_bytes[at] = _address_bytes(one.mint for one in mints)
        return rows

    def _read(self, traded: Sequence[MintAsFolded], states: Any) -> None:
        """Store the candle counts, start times and newest prices of the mints in *traded*.

        states   the decoded fold states of these mints, in the same order
        """
        at = np.array([self._rows[one.mint] for one in traded], np.int32)
        self.columns.note_read(at)
        rows = self.columns.rows
        frames = states["frames"]
        rows["counts"][at] = frames["count"]
        rows["buckets"][at] = frames["open_bucket"]
        is_priced = frames["count"][:, M1] > 0
        at = at[is_priced]
        rows["first_at"][at] = states["first"][is_priced]
        rows["usd"][at] = frames["prices"][is_priced, M1, CLOSE]
        rows["sol"][at] = states["price_sol"][is_priced]

    def _load(self, traded: Sequence[MintAsFolded], states: Any) -> None:
        """Store the newest candles of the mints in *traded* in their rows.

        states   the decoded fold states of these mints, in the same order
        """
        if not traded:
            return
        frames = states["frames"]
        recents = [
            recents_of(
                k,
                ClosedCandles(
                    np.maximum(frames["count"][:, k] - 1, 0),
                    np.ascontiguousarray(frames["acc"][:, k]),
                    [one.recent.get(timeframe) for one in traded],
                    [one.newest.get(timeframe, b"") for one in traded],
                ),
            )
            for k, timeframe in enumerate(TIMEFRAMES)
        ]
        at = np.array([self._rows[one.mint] for one in traded])
        self.columns.averages.load(at, recents, frames["prices"][:, :, HIGH_AND_LOW])

    def _stand(self, rows: Any) -> None:
        """Store the basis of the price in *rows* whose pools changed since the last call."""
        for row in self._restood:
            basis = basis_of(self._standings[row])
            if basis is not None:
                kept = rows[row]
                kept["depth"] = np.nan if basis.depth is None else basis.depth
                kept["set_at"] = basis.at
                kept["set_since"] = basis.since
                kept["is_agreed"] = basis.is_agreed
        self._restood.clear()

    def _take_row(self) -> int:
        """Return the number of an unused row; add a row if there is none."""
        if self._gone and self._gone[0][0] + D1.parts < self.columns.part:
            row = self._gone.popleft()[1]
            self.columns.start_row(row)
            return row
        self._mints.append(None)
        self._standings.append(None)
        self._lines.append(b"")
        self._names = None
        return len(self._mints) - 1

    def _make_room(self, count: int) -> None:
        self.columns.make_room(count)
        more = len(self.columns.rows) - len(self._address_bytes)
        if more:
            self._address_bytes = np.pad(self._address_bytes, ((0, more), (0, 0)))
            self._lengths = np.pad(self._lengths, (0, more))
            self._folds = np.pad(self._folds, ((0, more), (0, 0)))

    def _describe(
        self, rows: Sequence[int], listed: Sequence[ListedMint], facts: Sequence[MintFacts | None]
    ) -> None:
        """Store the name, the symbol and the supply of the mints in *rows*.

        listed   these mints, in the order of *rows*
        facts    their facts, which have the supplies; None: unknown
        """
        for row, mint, known in zip(rows, listed, facts, strict=True):
            self._mints[row] = mint
            self._put_line(row, search_line(mint.name, mint.symbol))
            if known is not None:
                # A supply of 0 means that the chain counts none, as for wrapped SOL.
                supply = known.supply / 10**known.decimals
                self.columns.rows["supply"][row] = supply or np.nan
        self._let_go()
        folds = [(fold_key(mint.name), fold_key(mint.symbol)) for mint in listed]
        self._folds[rows] = np.array(folds, np.int64).reshape(-1, 2)

    def _let_go(self) -> None:
        """Copy `_folds` and `_address_bytes` before a change if a list for readers uses them."""
        if self._is_shown:
            self._folds = self._folds.copy()
            self._address_bytes = self._address_bytes.copy()
            self._is_shown = False

    def _put_line(self, row: int, line: bytes) -> None:
        if line != self._lines[row]:
            self._lines[row], self._lengths[row] = line, len(line)
            self._names = None


def _address_bytes(addresses: Iterable[str]) -> Any:
    """Return the ASCII characters of each of *addresses* as a row, padded with zeros."""
    padded = b"".join(each.encode().ljust(MINT_LENGTH_MAX, b"\0") for each in addresses)
    return np.frombuffer(padded, np.uint8).reshape(-1, MINT_LENGTH_MAX)


def _states_of(traded: Sequence[MintAsFolded]) -> Any:
    """Return the stored fold states of *traded* as an array of STATE records."""
    return read_states([one.state for one in traded if one.state is not None])


def _firsts(traded: Sequence[MintAsFolded], states: Any) -> dict[Mint, UnixS]:
    """Return, for each mint in *traded* with a candle, the start of its first minute.

    states   the decoded fold states of these mints, in the same order
    """
    is_priced = (states["frames"]["count"][:, M1] > 0).tolist()
    firsts = zip(traded, states["first"].tolist(), is_priced, strict=True)
    return {one.mint: UnixS(first) for one, first, has_candle in firsts if has_candle}


VERSION: Final = 6
# The format of snapshots.  Snapshots of other formats are not read; all mints are then loaded from
# the store.  The types of records are a part of the format, because snapshots have their bytes.
FORM: Final = blake2b(
    repr((VERSION, ROW.descr, RECENTS, SPANS)).encode(), digest_size=8
).hexdigest()
ROWS_A_PART: Final = 2_000  # rows; they take the interpreter some milliseconds
PIECE_BYTES: Final = 1 << 20  # the size of a piece before it is compressed
LEVEL: Final = 1  # of zlib: the fastest


class NotASnapshot(Exception):
    """The pieces of a stored snapshot do not form a whole list in the current format."""


class Head(msgspec.Struct, frozen=True, array_like=True, tag="head"):
    """The state of the token list when a snapshot of it was stored.

    rows          the number of rows, including those of removed mints
    gone          the rows of removed mints that no other mint uses, see `TokenList.gone_rows`
    tracked_seq   the log event up to which tracked and untracked mints were read
    facts         the position up to which facts of mints were read
    """

    folded: FoldedTo
    rows: int
    gone: list[tuple[int, int]]
    tracked_seq: int
    facts: FactPlace


class Rows(msgspec.Struct, frozen=True, array_like=True, tag="rows"):
    """Some rows of the token list in a stored snapshot, from number *first* on."""

    first: int
    rows: KeptRows


class Chunk(msgspec.Struct, frozen=True, array_like=True, tag="chunk"):
    """The trades of a part of time in a stored snapshot: of a part of a day, or of a minute."""

    of_day: bool
    number: int
    rows: bytes
    closes: bytes
    volumes: bytes
    swaps: bytes | None
    bought: bytes | None


Part: TypeAlias = Head | Rows | Chunk

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(list[Part]).decode


def pieces(tokens: TokenList, tracked_seq: int, facts: FactPlace) -> Iterator[bytes]:
    """Yield the pieces of a snapshot of *tokens*, which must not change before the last one.

    tracked_seq   the log event up to which tracked and untracked mints were read
    facts         the position up to which facts of mints were read
    """
    waiting: list[msgspec.Raw] = []
    size = 0
    for part in _snapshot_parts(tokens, tracked_seq, facts):
        encoded = _encode(part)
        # Raw bytes, so that a part whose size was measured is not encoded again.
        waiting.append(msgspec.Raw(encoded))
        size += len(encoded)
        if size >= PIECE_BYTES:
            yield zlib.compress(_encode(waiting), LEVEL)
            waiting = []
            size = 0
    if waiting:
        yield zlib.compress(_encode(waiting), LEVEL)


def _snapshot_parts(tokens: TokenList, tracked_seq: int, facts: FactPlace) -> Iterator[Part]:
    rows = tokens.row_count
    yield Head(tokens.folded, rows, tokens.gone_rows(), tracked_seq, facts)
    for first in range(0, rows, ROWS_A_PART):
        yield Rows(first, tokens.kept_rows(first, min(first + ROWS_A_PART, rows)))
    for of_day, number, chunk in tokens.columns.closed_chunks():
        kept: list[Any] = [None if column is None else column.tobytes() for column in chunk]
        yield Chunk(of_day, number, *kept)


class Restoring:
    """Restores a token list from the pieces of its snapshot, which must be added in order.

    The methods `add` and `whole` raise NotASnapshot if the pieces do not form a list.
    """

    def __init__(self, keep: ListMemory = IN_MEMORY) -> None:
        """Restore a list whose large parts are stored by *keep*, in memory or in files."""
        self._keep = keep
        self._head: Head | None = None
        self._tokens: TokenList | None = None

    def add(self, piece: bytes) -> None:
        """Add the rows in *piece*, the next piece of a stored snapshot.

        This takes some milliseconds and may run in any thread.  Raises NotASnapshot if it cannot be
        read.
        """
        try:
            for part in _decode(zlib.decompress(piece)):
                self._add(part)
        except (zlib.error, msgspec.MsgspecError, ValueError) as cause:
            raise NotASnapshot(f"expected a piece of a list; {cause}") from cause

    def whole(self) -> tuple[TokenList, Head]:
        """Return the restored list, and the positions from which to continue to read the store.

        Raises NotASnapshot if rows are missing.
        """
        if self._head is None or self._tokens is None:
            raise NotASnapshot("expected the pieces of a list, were none")
        if self._tokens.row_count != self._head.rows:
            raise NotASnapshot(f"expected {self._head.rows} rows, were {self._tokens.row_count}")
        return self._tokens, self._head

    def _add(self, part: Part) -> None:
        if isinstance(part, Head):
            self._head = part
            self._tokens = TokenList(part.folded, self._keep)
            self._tokens.expect_rows(part.rows, part.gone)
            return
        if self._tokens is None:
            raise NotASnapshot("expected the head of a list first")
        match part:
            case Rows(first, rows):
                self._tokens.restore_rows(first, rows)
            case Chunk():
                self._tokens.columns.restore_chunk(part.number, _chunk(part), of_day=part.of_day)


def _chunk(kept: Chunk) -> PartChunk:
    return PartChunk(
        np.frombuffer(kept.rows, np.int32).copy(),
        np.frombuffer(kept.closes, np.float64).copy(),
        np.frombuffer(kept.volumes, np.int64).copy(),
        None if kept.swaps is None else np.frombuffer(kept.swaps, np.int32).copy(),
        None if kept.bought is None else np.frombuffer(kept.bought, np.int64).copy(),
    )
