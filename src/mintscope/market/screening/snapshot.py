"""Ports of the list: its reads of the market, and its snapshots.

A list contains final slots only, so no slot of it is ever retracted.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from mintscope.kit.primitives import Mint, Slot, UnixMs, UnixS
from mintscope.market.mint_facts import MintFacts
from mintscope.market.timeframe import Timeframe


class FoldedTo(NamedTuple):
    """The newest event of the finalized fold, with its slot and effective time.

    slot, time   None if nothing was folded yet
    """

    seq: int
    slot: Slot | None
    time: UnixS | None


class PartVolume(NamedTuple):
    """Part *number* of a day: volume in micro-USD, number of priced swaps, newest price."""

    number: int
    volume: int
    swaps: int
    close: float | None


class MinuteVolume(NamedTuple):
    """The minute that begins at *minute*: volume in micro-USD, its bought part, newest price."""

    minute: UnixS
    volume: int
    bought: int
    close: float | None


class RecentCandles(NamedTuple):
    """Closed candles of one timeframe, up to the newest.

    closed   the number of candles before these; 0 if no waypoint gives it
    acc      the accumulators before these candles: floats of 64 bits, little-endian
    closes   the closes of these candles, oldest first: floats of 64 bits
    """

    closed: int
    acc: bytes
    closes: bytes


class MintAsFolded(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A tracked mint as of the finalized fold.

    since      the time from which its swaps count; None: from the first slot on
    state      the accumulators of the fold; None before its first swap
    facts      its newest facts from a node; None if they were not read
    before     the newest prices from before the spans M5, H1 and D1; None: there is no price
    first_usd  the open of the first stored minute that was not imported; None: there is none
    minutes    the minutes of H1 with trades, oldest first
    parts      the parts of D1 with trades, oldest first
    standing   its pools, packed by `standings.pack`; None before its first priced swap
    recent     its newest closed candles by timeframe: at least `kernels.AGES`, or all
    newest     high, low and close of its newest closed candles by timeframe, oldest first, as
               floats of 64 bits: `engine.recent.READ_BACK` candles, or all
    Of these, only *state*, *recent* and *newest* include imported candles.
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

    folded   the checkpoint of the fold in this snapshot
    last     the argument *after* with which `ListReader.mints` returns the next page
    """

    folded: FoldedTo
    mints: Sequence[MintAsFolded]
    last: int


class MintTrades(NamedTuple):
    """Trades of a mint in one slot.

    volume, bought        all micro-USD, and the bought part
    swaps                 the number of priced swaps
    price_usd, price_sol  the newest price
    first_usd             the first price
    standing              its pools after the slot, packed; None: they did not change
    high_usd, low_usd     the highest and the lowest price; None: equal to the newest price
    signers               the signers of its swaps, as `signer_number` returns them
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
    """Reads the market for a list; safe while ingest writes.

    Every method raises ServiceUnavailable if the store does not answer.
    """

    async def folded(self) -> tuple[FoldedTo, int]:
        """Return the checkpoint of the fold, and the newest event of the log."""

    async def mints(self, after: int, limit: int) -> MintPage:
        """Return up to *limit* tracked mints after the page with `last` *after*; 0: the first page.

        A page without mints means that there are no more.
        """

    async def some(self, mints: Sequence[Mint]) -> MintPage:
        """Return those of *mints* that are tracked."""

    async def trades(self, after_seq: int, until_seq: int, limit: int) -> Sequence[SlotTrades]:
        """Return folded slots after event *after_seq* up to *until_seq*: the first ones, in order.

        limit    number of trades after which no further slot is returned

        Raises LogTrimmed if the first of the slots is no longer stored.
        """

    async def tracked(self, after_seq: int, until_seq: int) -> Sequence[Mint]:
        """Return the mints tracked or untracked after *after_seq* up to *until_seq*, each once.

        Raises LogTrimmed if the first of these events is no longer stored.
        """

    async def facts_after(
        self, place: FactPlace, limit: int
    ) -> Sequence[tuple[FactPlace, MintFacts]]:
        """Return up to *limit* facts of tracked mints that were read after *place*, in order."""

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
        """Return the newest complete snapshot of *form*, or None if there is none."""

    async def is_due(self, form: str, mints_min: int) -> bool:
        """Return whether the log may soon not reach back to the newest snapshot of *form*.

        True if that snapshot is in the oldest third of the log, or if there is none; always False
        while fewer than *mints_min* mints are tracked, or nothing was folded.
        """

    async def piece(self, number: int, place: int) -> bytes | None:
        """Return piece *place*, from 0 on, of a snapshot; None if it is no longer stored."""

    async def begin(self, now: UnixMs) -> int | None:
        """Begin a snapshot and return its number, or None while another process stores one."""

    async def add(self, number: int, place: int, piece: bytes) -> None:
        """Store piece *place* of snapshot *number*, which `begin` returned."""

    async def end(self, mark: SnapshotMark) -> None:
        """Make the snapshot of *mark* the newest, and delete older ones of its form.

        Snapshots of other forms are stored for a day, because other versions read them.
        """

    async def close(self) -> None:
        """Close the store."""
