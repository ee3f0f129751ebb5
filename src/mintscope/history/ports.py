"""The ports for reading a mint's past: of the reader, the fold, the operator and ingest.

Everything is kept as it comes, so reading can be cut off anywhere and goes on where it was.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

from mintscope.dex.swap import Swap
from mintscope.kit.primitives import Mint, Signature, Slot, UnixS
from mintscope.kit.time import DAY_S
from mintscope.market.log import PricedSwap
from mintscope.market.standing import Standing


class BackfillSlot(NamedTuple):
    """The swaps of one slot that was read, in order; *time* is None if the node knows none."""

    slot: Slot
    time: UnixS | None
    swaps: Sequence[Swap]


class BackfillSwaps(NamedTuple):
    """The swaps of the mint in one slot, in the form of the log."""

    slot: Slot
    time: UnixS
    swaps: Sequence[PricedSwap]
    deciding: Standing | None


class FoldedBackfill(NamedTuple):
    """The result of the past; None if the mint never traded in it.

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
    """The reason to read an address: it is a pool of the mint, or shows the price of SOL."""

    POOL = "pool"
    RATE = "rate"


class Stage(StrEnum):
    """The stage of a backfill: joined is the end; ingest returns a late one to reading."""

    READING = "reading"
    READY = "ready"
    JOINED = "joined"


class Cursor(NamedTuple):
    """The progress of listing an address in the current round.

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
    """A transaction that was asked for; *swaps* is None if the node did not give it."""

    slot: Slot
    signature: Signature
    position: int
    swaps: Sequence[Swap] | None


class HistoryJob(NamedTuple):
    """The backfill of a mint that is being read.

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
        """Return whether a backfill from *from_time* is the one that is already being read."""
        return self.stage is not Stage.JOINED and abs(self.from_time - from_time) < DAY_S


class BackfillMerge(Protocol):
    """The merge of a backfill by ingest: between two folds, in one transaction."""

    async def join(self) -> Mint | None:
        """Join a finished backfill, and return its mint; None if no backfill can be joined now.

        Candles, state, the swaps that the log still holds, and which pool decides are replaced by
        what they would be had the mint been followed since the beginning of its past.  A past
        that ends before what the log still holds goes back to reading.
        """
