"""Interfaces through which the token list reads the market, and stores its snapshots.

The list includes trades of final slots only, so none of them is ever retracted.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np

from mintscope.kit.primitives import Mint, Slot, UnixMs, UnixS
from mintscope.market.mint_facts import MintFacts
from mintscope.market.timeframe import Timeframe


class FoldedTo(NamedTuple):
    """A position in the log: its newest event that has been folded.

    slot, time   the slot of the event and its effective time; None if nothing was folded yet
    """

    seq: int
    slot: Slot | None
    time: UnixS | None


class PartVolume(NamedTuple):
    """The trades of a mint in one part of a day, added up.

    number   the number of the part, counted from 1970
    volume   in micro-USD
    swaps    the number of swaps that have a price
    close    the newest price; None: there is no price
    """

    number: int
    volume: int
    swaps: int
    close: float | None


class MinuteVolume(NamedTuple):
    """The trades of a mint in the minute that begins at *minute*.

    volume   the volume in micro-USD
    bought   the part of the volume that was bought
    close    the newest price; None: there is no price
    """

    minute: UnixS
    volume: int
    bought: int
    close: float | None


class RecentCandles(NamedTuple):
    """The newest closed candles of one timeframe of a mint.

    closed   the number of candles before these, from a waypoint; 0 if there is no waypoint
    acc      the accumulators before these candles: floats of 64 bits, little-endian
    closes   the closes of these candles, oldest first: floats of 64 bits
    """

    closed: int
    acc: bytes
    closes: bytes


class MintAsFolded(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A tracked mint with its stored data, as of the newest folded slot.

    since      the time from which its swaps count; None: from the first slot on
    state      the stored accumulators; None before its first swap
    facts      its newest facts from a node, such as its name; None if they were not read
    before     the newest prices from before the last five minutes, hour and day; None: no price
    first_usd  the open of the first stored minute that was not imported; None: no such minute
    minutes    the minutes of the last hour with trades, oldest first
    parts      the parts of the last day with trades, oldest first
    standing   its pools, packed by `standings.pack`; None before its first priced swap
    recent     its newest closed candles by timeframe: at least `kernels.AGES`, or all
    newest     high, low and close of its newest closed candles by timeframe, oldest first, as
               floats of 64 bits: `engine.recent.READ_BACK` candles, or all

    Only *state*, *recent* and *newest* include imported candles.
    """

    mint: Mint
    since: UnixS | None
    state: bytes | None
    facts: MintFacts | None
    before: tuple[float | None, float | None, float | None]
    minutes: Sequence[MinuteVolume]
    parts: Sequence[PartVolume]
    first_usd: float | None = None
    standing: bytes | None = None
    recent: Mapping[Timeframe, RecentCandles] = {}
    newest: Mapping[Timeframe, bytes] = {}


def by_number(
    rows: Sequence[int], traded: Sequence[Sequence[PartVolume | MinuteVolume]], part_s: int
) -> dict[int, tuple[Any, ...]]:
    """Return the trades in *traded* by the number of the part of time in which they were made.

    The trades of a part are four columns: the rows, the volumes, the numbers of swaps or the bought
    volumes, and the closes.

    traded   the trades of each of *rows*
    part_s   the divisor by which the first field of a trade becomes the number of its part: 1 if
             this field is the number, otherwise the length of a part in seconds
    """
    found: dict[int, list[tuple[float | None, ...]]] = defaultdict(list)
    for row, trades in zip(rows, traded, strict=True):
        for first, volume, other, close in trades:
            found[first // part_s].append((row, volume, other, close))
    kinds = (np.int32, np.int64, np.int64, np.float64)
    return {
        number: tuple(map(np.array, zip(*of_number, strict=True), kinds))
        for number, of_number in found.items()
    }


class MintPage(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the stored mints, read in one transaction.

    folded   the newest event whose swaps were in the stored candles at that time
    last     the value for *after* with which `ListReader.mints` returns the next part
    """

    folded: FoldedTo
    mints: Sequence[MintAsFolded]
    last: int


class MintTrades(NamedTuple):
    """The trades of a mint in one slot, added up.

    volume                in micro-USD
    bought                the part of it that was bought
    swaps                 the number of priced swaps
    price_usd, price_sol  the newest price
    first_usd             the first price
    standing              the pools of the mint after the slot, packed; None: they did not change
    high_usd, low_usd     the highest and the lowest price; None: equal to the newest price
    signers               the signers of the swaps, as numbers from `signer_number`
    """

    mint: Mint
    volume: int
    bought: int
    swaps: int
    price_usd: float | None
    price_sol: float | None
    first_usd: float | None = None
    standing: bytes | None = None
    high_usd: float | None = None
    low_usd: float | None = None
    signers: tuple[int, ...] = ()


class SlotTrades(NamedTuple):
    """The trades of tracked mints in one folded slot.

    folded   the slot, with its event in the log
    trades   one entry for each mint that was traded
    """

    folded: FoldedTo
    trades: Sequence[MintTrades]


class FactPlace(NamedTuple):
    """The position up to which facts of mints, such as names, were read from the store."""

    read_at_ms: UnixMs
    mint: Mint


class ListReader(Protocol):
    """Reads the data of a token list from the store; this is safe while ingest writes.

    Every method raises ServiceUnavailable if the store does not answer.
    """

    async def folded(self) -> tuple[FoldedTo, int]:
        """Return the newest folded event, and the position of the newest event of the log."""

    async def mints(self, after: int, limit: int) -> MintPage:
        """Return a page of up to *limit* tracked mints with their stored data.

        A page without mints means that there are no more.

        after   the field `last` of the previous page; 0: the first page
        """

    async def some(self, mints: Sequence[Mint]) -> MintPage:
        """Return the stored data of *mints*; those that are not tracked are left out."""

    async def trades(self, after_seq: int, until_seq: int, limit: int) -> Sequence[SlotTrades]:
        """Return the trades in the log after position *after_seq*, slot by slot, oldest first.

        until_seq   the last log event to read; it must be folded
        limit       no further slot is returned once there are this many trades

        Raises LogTrimmed if the first of the slots is no longer stored.
        """

    async def tracked(self, after_seq: int, until_seq: int) -> Sequence[Mint]:
        """Return the mints that began or ceased to be tracked in the events of a part of the log.

        The part begins after position *after_seq* and ends with *until_seq*.  Each mint is returned
        once.  Raises LogTrimmed if the first of these events is no longer stored.
        """

    async def facts_after(
        self, place: FactPlace, limit: int
    ) -> Sequence[tuple[FactPlace, MintFacts]]:
        """Return up to *limit* facts of tracked mints that were read from a node after *place*.

        They are in the order in which they were read, each with its own place.
        """

    async def facts_of(self, mint: Mint) -> MintFacts | None:
        """Return the stored facts of *mint*, such as its name and supply; None if none are stored.

        Raises TokenNotFound if it is not tracked.
        """


class SnapshotMark(NamedTuple):
    """Describes a complete stored snapshot of the token list.

    number        the number of the snapshot; newer snapshots have larger numbers
    form          the format of its pieces
    folded_seq    the newest log event that the list includes
    piece_count   the number of its pieces
    """

    number: int
    form: str
    folded_seq: int
    piece_count: int


class ListSnapshots(Protocol):
    """Stores snapshots of the token list, so that a starting process need not load all mints.

    Any process may store a snapshot, one process at a time.  Every method raises ServiceUnavailable
    if the store does not answer.
    """

    async def newest(self, form: str) -> SnapshotMark | None:
        """Return the newest complete snapshot of the format *form*; None if there is none."""

    async def is_due(self, form: str, mints_min: int) -> bool:
        """Return whether a new snapshot of the format *form* is needed.

        True if the newest one is in the oldest third of the log, which may soon be deleted, or if
        there is none; always False while fewer than *mints_min* mints are tracked, or nothing was
        folded.
        """

    async def piece(self, number: int, place: int) -> bytes | None:
        """Return the piece at index *place* of a stored snapshot; None if it was replaced.

        number   the number of the snapshot
        """

    async def begin(self, now: UnixMs) -> int | None:
        """Begin a snapshot at the time *now* and return its number.

        None while another process stores one.
        """

    async def add(self, number: int, place: int, piece: bytes) -> None:
        """Store a piece of a snapshot of the token list.

        number   the number of the snapshot, which `begin` has returned
        place    the index of the piece in the snapshot
        """

    async def end(self, mark: SnapshotMark) -> None:
        """Make a stored snapshot the newest one, and delete older snapshots of the same format.

        Snapshots of other formats are kept for a day, because other versions read them.

        mark   describes the snapshot, of which all pieces are stored
        """

    async def close(self) -> None:
        """Close the database in which snapshots are stored."""
