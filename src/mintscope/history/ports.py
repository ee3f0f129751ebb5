"""The ports of reading a mint's past: the reader's, the fold's, the operator's and ingest's.

Everything is kept as it comes, so reading can be cut off anywhere and goes on where it was.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

from mintscope.dex.swap import Swap
from mintscope.kit.primitives import Mint, Signature, Slot, UnixMs, UnixS
from mintscope.kit.time import DAY_S
from mintscope.market.log import CandleRow, PricedSwap
from mintscope.market.standing import Standing
from mintscope.market.timeframe import Timeframe
from mintscope.solana.blocks import Gap


class BackfillSlot(NamedTuple):
    """The swaps of one slot that was read, in order; *time* is None where the node knows none."""

    slot: Slot
    time: UnixS | None
    swaps: Sequence[Swap]


class BackfillSwaps(NamedTuple):
    """The swaps of the mint in one slot, as the log would hold them."""

    slot: Slot
    time: UnixS
    swaps: Sequence[PricedSwap]
    deciding: Standing | None


class FoldedBackfill(NamedTuple):
    """The result of the past; None where the mint never traded in it.

    time        effective, of the newest slot
    since_slot  before the oldest slot
    recent      the newest swaps, oldest first
    """

    since_slot: Slot
    time: UnixS
    state: bytes | None
    in_sol: bytes | None
    last_swap: UnixS | None
    deciding: Standing | None
    recent: Sequence[BackfillSwaps]


class Kind(StrEnum):
    """The reason why an address is read: it is a pool of the mint, or shows the price of SOL."""

    POOL = "pool"
    RATE = "rate"


class Stage(StrEnum):
    """The stage of a past: joined is the end; ingest sends a late one back to reading."""

    READING = "reading"
    READY = "ready"
    JOINED = "joined"


class Cursor(NamedTuple):
    """The progress of listing an address in the present round.

    before   go on below this signature; None: from the newest on
    until    listed in an earlier round, and everything below
    """

    address: str
    before: Signature | None
    until: Signature | None


class Line(NamedTuple):
    """A transaction that succeeded, as a node lists it."""

    signature: Signature
    slot: Slot
    time: UnixS | None


class ListPage(NamedTuple):
    """Part of the list of an address, newest first.

    before   the oldest signature of the page, failed transactions and too new ones counted
    top      the newest of the round, as far as this page knows it
    is_last  nothing older is wanted
    """

    address: str
    lines: Sequence[Line]
    before: Signature | None
    top: Signature | None
    is_last: bool


class UnreadTransaction(NamedTuple):
    """A transaction to read.

    is_mixed   its place in the block must be asked: lists of several addresses have its slot
    """

    slot: Slot
    signature: Signature
    is_mixed: bool


class ReadTransaction(NamedTuple):
    """A transaction that was asked for; *swaps* is None where the node did not give it."""

    slot: Slot
    signature: Signature
    position: int
    swaps: Sequence[Swap] | None


class HistoryJob(NamedTuple):
    """The past of a mint that is being read.

    slot      how far it was read, None before the first round ended
    listed    transactions
    read      of them
    missing   of them that the node did not give, however often it was asked; known when joined too
    """

    from_time: UnixS
    stage: Stage
    slot: Slot | None
    listed: int
    read: int
    missing: int

    def goes_on(self, from_time: UnixS) -> bool:
        """Return whether a past since *from_time* is the one that is read here already."""
        return self.stage is not Stage.JOINED and abs(self.from_time - from_time) < DAY_S


class HistoryReading(Protocol):
    """Writes of the reader of a past.  Raises ServiceUnavailable from every verb."""

    async def begin(self, mint: Mint, from_time: UnixS, addresses: Mapping[str, Kind]) -> None:
        """Read the past of *mint*, a tracked one, again; what was read before is dropped."""

    async def round(self, mint: Mint, slot: Slot) -> tuple[Slot, Sequence[Cursor]]:
        """Return the reach of the present round, *slot* if it begins now, and the cursors left.

        Requests that failed before are made again.
        """

    async def listed(self, mint: Mint, page: ListPage) -> None:
        """Keep a page, and that it was listed; a line that is known already changes nothing."""

    async def unread(self, mint: Mint, limit: int) -> Sequence[UnreadTransaction]:
        """Return up to *limit* transactions to read, oldest first.

        One that was asked for three times in vain is asked no more.
        """

    async def save(self, mint: Mint, transactions: Sequence[ReadTransaction]) -> None:
        """Store the transactions, and the failed requests."""

    async def drop(self, mint: Mint) -> bool:
        """Drop the transactions of *mint*; False if they are joined already."""


class BackfillFolding(Protocol):
    """Reads and writes of the fold of a past.  Raises ServiceUnavailable from every verb."""

    async def slots(self, mint: Mint, after: Slot, slots_max: int) -> Sequence[BackfillSlot]:
        """Return up to *slots_max* slots that were read, after *after*, in order."""

    async def restart(self, mint: Mint) -> None:
        """Drop the candles that were folded."""

    async def candles(self, mint: Mint, changed: Mapping[Timeframe, Sequence[CandleRow]]) -> None:
        """Add or replace candles."""

    async def finish(self, mint: Mint, past: FoldedBackfill | None) -> None:
        """End the round: ingest may join *past* now; None: there is nothing in it."""


class HistoryJobs(Protocol):
    """Requests of an operator on pasts.  Raises ServiceUnavailable from every verb."""

    async def one(self, mint: Mint) -> HistoryJob | None:
        """Return the progress of the past of *mint*, None if none was asked for."""

    async def pools(self, mint: Mint) -> Mapping[str, int]:
        """Return the pools of *mint* in the log, each with its number of swaps."""

    async def filled(self, gap: Gap, at: UnixMs) -> None:
        """Note that the tokens which traded in *gap* were read again: it is no longer open."""


class BackfillMerge(Protocol):
    """The merge of a past by ingest: between two folds, in one transaction."""

    async def join(self) -> Mint | None:
        """Join a past that is ready, and return its mint; None if there is none to join now.

        Candles, state, the swaps that the log still holds, and which pool decides are replaced by
        what they would be had the mint been followed since the beginning of its past.  A past
        that ends before what the log still holds goes back to reading.
        """
