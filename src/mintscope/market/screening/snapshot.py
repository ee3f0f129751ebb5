"""Ports of the token list: its reads of the market, and the store of its snapshots.

A list contains the trades of final slots only, so none of them is ever retracted.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from mintscope.kit.primitives import Mint, Slot, UnixMs, UnixS
from mintscope.market.mint_facts import MintFacts
from mintscope.market.timeframe import Timeframe


class FoldedTo(NamedTuple):
    """The newest log event that was folded: added to the stored candles, after its slot was final.

    slot, time   the slot of the event and its effective time; None if nothing was folded yet
    """

    seq: int
    slot: Slot | None
    time: UnixS | None


class PartVolume(NamedTuple):
    """The trades of a mint in part *number* of the span D1.

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

    volume, bought   the volume in micro-USD, and the bought part of it
    close            the newest price; None: there is no price
    """

    minute: UnixS
    volume: int
    bought: int
    close: float | None


class RecentCandles(NamedTuple):
    """Closed candles of one timeframe, up to the newest.

    closed   the number of candles before these, from a waypoint; 0 if there is no waypoint
    acc      the accumulators before these candles: floats of 64 bits, little-endian
    closes   the closes of these candles, oldest first: floats of 64 bits
    """

    closed: int
    acc: bytes
    closes: bytes


class MintAsFolded(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A tracked mint as of the newest folded slot.

    since      the time from which its swaps count; None: from the first slot on
    state      the stored accumulators; None before its first swap
    facts      its newest facts from a node; None if they were not read
    before     the newest prices from before the spans M5, H1 and D1; None: there is no price
    first_usd  the open of the first stored minute that was not imported; None: no such minute
    minutes    the minutes of H1 with trades, oldest first
    parts      the parts of D1 with trades, oldest first
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


class MintPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some mints, read from one snapshot of the database.

    folded   the newest folded event in this snapshot
    last     the argument *after* with which `ListReader.mints` returns the next page
    """

    folded: FoldedTo
    mints: Sequence[MintAsFolded]
    last: int


class MintTrades(NamedTuple):
    """Trades of a mint in one slot.

    volume, bought        the volume in micro-USD, and the bought part of it
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
    """A folded slot, with one entry for each tracked mint that was traded in it."""

    folded: FoldedTo
    trades: Sequence[MintTrades]


class FactPlace(NamedTuple):
    """The position up to which stored facts of mints were read."""

    read_at_ms: UnixMs
    mint: Mint


class ListReader(Protocol):
    """Reads the data of a token list from the store; this is safe while ingest writes.

    Every method raises ServiceUnavailable if the store does not answer.
    """

    async def folded(self) -> tuple[FoldedTo, int]:
        """Return (the newest folded event, number of the newest event of the log)."""

    async def mints(self, after: int, limit: int) -> MintPage:
        """Return the next page of tracked mints, at most *limit*.

        A page without mints means that there are no more.

        after   the `MintPage.last` of the previous page; 0: the first page
        """

    async def some(self, mints: Sequence[Mint]) -> MintPage:
        """Return those of *mints* that are tracked."""

    async def trades(self, after_seq: int, until_seq: int, limit: int) -> Sequence[SlotTrades]:
        """Return the trades of the first slots whose events are after *after_seq*, in order.

        until_seq   the last event that may be returned; it must be folded
        limit       the number of trades after which no further slot is returned

        Raises LogTrimmed if the first of the slots is no longer stored.
        """

    async def tracked(self, after_seq: int, until_seq: int) -> Sequence[Mint]:
        """Return each mint that was tracked or untracked after *after_seq*, up to *until_seq*.

        Each mint is returned once.  Raises LogTrimmed if the first of these events is no longer
        stored.
        """

    async def facts_after(
        self, place: FactPlace, limit: int
    ) -> Sequence[tuple[FactPlace, MintFacts]]:
        """Return the facts of tracked mints that were read after *place*, oldest first.

        At most *limit* are returned, each with its position.
        """

    async def facts_of(self, mint: Mint) -> MintFacts | None:
        """Return the stored facts of *mint*, if any.  Raises TokenNotFound if it is not tracked."""


class SnapshotMark(NamedTuple):
    """A complete snapshot of a list.

    number       the number of the snapshot; newer snapshots have larger numbers
    form         the format of its pieces
    folded_seq   the newest event in the list
    """

    number: int
    form: str
    folded_seq: int
    piece_count: int


class ListSnapshots(Protocol):
    """Stores snapshots, so that a starting process need not load all mints.

    Any process may store a snapshot, one process at a time.
    Every method raises ServiceUnavailable if the store does not answer.
    """

    async def newest(self, form: str) -> SnapshotMark | None:
        """Return the newest complete snapshot of *form*; None if no snapshot is complete."""

    async def is_due(self, form: str, mints_min: int) -> bool:
        """Return whether a new snapshot of *form* is needed.

        True if the newest snapshot of *form* is in the oldest third of the log, which may soon be
        deleted, or if there is no snapshot; always False while fewer than *mints_min* mints are
        tracked, or nothing was folded.
        """

    async def piece(self, number: int, place: int) -> bytes | None:
        """Return piece *place*, from 0 on, of a snapshot; None if it is no longer stored."""

    async def begin(self, now: UnixMs) -> int | None:
        """Begin a snapshot and return its number, or None while another process stores one."""

    async def add(self, number: int, place: int, piece: bytes) -> None:
        """Store piece *place* of snapshot *number*, which `begin` returned."""

    async def end(self, mark: SnapshotMark) -> None:
        """Make the snapshot of *mark* the newest, and delete older snapshots of the same form.

        Snapshots of other forms are stored for a day, because other versions read them.
        """

    async def close(self) -> None:
        """Close the store."""
