"""Ports of list snapshots.

All of it is final, so that nothing is ever taken back: a list is as old as finality.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from mintscope.kit.primitives import Mint, Slot, UnixMs, UnixS
from mintscope.market.mint_facts import MintFacts
from mintscope.market.timeframe import Timeframe


class FoldedTo(NamedTuple):
    """The position of the finalized fold: event, slot and effective time of its checkpoint."""

    seq: int
    slot: Slot | None
    time: UnixS | None


class PartVolume(NamedTuple):
    """Volume in part *number* of D1: micro-USD, priced swaps, the newest price."""

    number: int
    volume: int
    swaps: int
    close: float | None


class MinuteVolume(NamedTuple):
    """Volume in the minute that begins then: micro-USD, the bought part, and the newest price."""

    minute: UnixS
    volume: int
    bought: int
    close: float | None


class RecentCandles(NamedTuple):
    """Closed candles of one timeframe, up to the newest.

    closed   how many came before them since tracking began
    acc      what those left behind: floats of 64 bits, little-endian
    closes   of the candles, oldest first: floats of 64 bits
    """

    closed: int
    acc: bytes
    closes: bytes


class MintAsFolded(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A followed mint as the finalized fold left it.

    since      its swaps count from here on; None: from the first slot on
    state      the accumulators of the fold, None before its first swap
    facts      its metadata, as last read from a node
    before     the newest prices from before the spans M5, H1 and D1; None if there is none
    first_usd  the first price of its own that is kept; None before it
    minutes    of H1, those in which something was traded, oldest first
    parts      of D1, those in which something was traded, oldest first
    standing   its pools, packed as by `basis.packed`; None before its first priced swap
    recent     its newest closed candles, by timeframe: `kernels.AGES` or more, if it has so many
    newest     high, low and close of its newest closed candles, by timeframe, oldest first, as
               floats of 64 bits: of `engine.recent.READ_BACK`, or of all
    Imported candles are in none of these but the state, *recent* and *newest*.
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
    """Some mints, from one snapshot.

    folded   as of that snapshot
    last     to ask for the next page with
    """

    folded: FoldedTo
    mints: Sequence[MintAsFolded]
    last: int


class MintTrades(NamedTuple):
    """Volume that one slot adds to a mint: micro-USD, the bought part, priced swaps, newest price.

    first_usd   the first price
    standing    its pools after the slot, packed; None if they did not change
    high_usd, low_usd   the highest and the lowest price; None: the newest
    signers     of its swaps, as numbers: `signer_number`
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
    """A folded slot: one entry for each followed mint that was traded."""

    folded: FoldedTo
    trades: Sequence[MintTrades]


class FactPlace(NamedTuple):
    """The position up to which facts were read."""

    read_at_ms: UnixMs
    mint: Mint


class ListReader(Protocol):
    """The market as a list reads it; safe while ingest writes.

    Raises ServiceUnavailable from every verb when the store does not answer.
    """

    async def folded(self) -> tuple[FoldedTo, int]:
        """Return the position of the fold, and the newest event of the log."""

    async def mints(self, after: int, limit: int) -> MintPage:
        """Return up to *limit* followed mints after the page that ended with *after*; 0: the first.

        No mints: that was the last page.
        """

    async def some(self, mints: Sequence[Mint]) -> MintPage:
        """Return those of *mints* that are followed."""

    async def trades(self, after_seq: int, until_seq: int, limit: int) -> Sequence[SlotTrades]:
        """Return the folded slots after event *after_seq* up to *until_seq*, in order.

        limit    the last of them is the one that reaches so many trades
        Raises   LogTrimmed when the first of them is no longer kept.
        """

    async def tracked(self, after_seq: int, until_seq: int) -> Sequence[Mint]:
        """Return the mints tracked or untracked between these events, each once.

        Raises LogTrimmed when the first event is no longer kept.
        """

    async def facts_after(
        self, place: FactPlace, limit: int
    ) -> Sequence[tuple[FactPlace, MintFacts]]:
        """Return up to *limit* facts of followed mints that were read after *place*, in order."""

    async def facts_of(self, mint: Mint) -> MintFacts | None:
        """Return the stored facts of *mint*.  Raises TokenNotFound if it is not followed."""


class SnapshotMark(NamedTuple):
    """A whole snapshot of a list.

    number       newer ones have larger numbers
    form         how its pieces are written: `snapshot.FORM`
    folded_seq   the last event in the list
    """

    number: int
    form: str
    folded_seq: int
    piece_count: int


class ListSnapshots(Protocol):
    """Storage of snapshots, so that a starting process need not load all mints.

    Several processes may store theirs, one of them at a time.
    Every verb raises ServiceUnavailable if the store does not answer.
    """

    async def newest(self, form: str) -> SnapshotMark | None:
        """Return the newest complete snapshot of *form*, or None if there is none."""

    async def is_due(self, form: str, mints_min: int) -> bool:
        """Return whether the log may soon not reach back to the newest snapshot of *form*.

        That is: it is in the oldest third of the log, or there is none; always False while fewer
        than *mints_min* mints are followed.
        """

    async def piece(self, number: int, place: int) -> bytes | None:
        """Return piece *place*, from 0 on, of snapshot *number*; None if a newer one is whole."""

    async def begin(self, now: UnixMs) -> int | None:
        """Begin a snapshot and return its number, or None while another process stores one."""

    async def add(self, number: int, place: int, piece: bytes) -> None:
        """Store piece *place* of snapshot *number*, which was begun."""

    async def end(self, mark: SnapshotMark) -> None:
        """Make the snapshot of *mark* the newest, and delete those of its form before it.

        Snapshots of other forms, which other versions read, stay for a day.
        """

    async def close(self) -> None:
        """Close the store."""
