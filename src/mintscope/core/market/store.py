"""The ports of the market store: its one writer, the list of mints, its status."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from mintscope.base.primitives import Mint, Signature, Slot, UnixS
from mintscope.base.solana import Gap
from mintscope.base.time import DAY_S, MINUTE_S
from mintscope.core.market.coverage import NotRead, SlotCoverage
from mintscope.core.market.engine.tail import Tail
from mintscope.core.market.log import CandleRow, LogReader, PricedSwap, SlotHeader, Waypoint
from mintscope.core.market.registry import Activity
from mintscope.core.market.standing import Standing
from mintscope.core.market.timeframe import Timeframe

# Loading a mint reads this many candles and this much pressure history.
CANDLES_MIN: Final = 101
MINUTES_S: Final = DAY_S + 24 * MINUTE_S
# The swaps this far behind the checkpoint are kept one by one.
RECENT_S: Final = 900


class NewSlot(msgspec.Struct, frozen=True):
    """A slot joins the log, with the swaps that have a price or a volume.

    deciding   which pool decides after it, for each mint whose price it set
    """

    header: SlotHeader
    swaps: Sequence[PricedSwap]
    deciding: Mapping[Mint, Standing] = msgspec.field(default_factory=dict)


class DeadSlot(msgspec.Struct, frozen=True):
    """The newest living slot of the log died."""

    slot: Slot


class FinalSlot(msgspec.Struct, frozen=True):
    """*slot*, which is in the log, can no longer die."""

    slot: Slot


class Unread(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction, or one call of *program* in it, that the decoder could not read."""

    slot: Slot
    signature: Signature | None
    program: str
    reason: str


UNKNOWN_PROGRAM: Final = "unknown_program"

Change = NewSlot | DeadSlot | FinalSlot | Gap | Unread | NotRead | SlotCoverage


class FinalizedSlot(NamedTuple):
    """A slot to fold; *seq* is its place in the log."""

    slot: Slot
    time: UnixS
    seq: int


class Kept(NamedTuple):
    """The rows of the fold about a mint so far.

    since_slot   swaps of later slots count; None: not tracked
    is_removed   by an operator: no rule follows it
    activity     counted while mints are followed by a floor
    """

    since_slot: Slot | None
    is_removed: bool
    state: bytes | None
    in_sol: bytes | None
    activity: Activity | None


class FoldedMint(NamedTuple):
    """Changes of a batch to one mint, as its fold returns it: rows are oldest first."""

    state: bytes
    in_sol: bytes
    changed: Mapping[Timeframe, Sequence[CandleRow]]
    waypoints: Sequence[tuple[Timeframe, Waypoint]]
    opened: Sequence[Timeframe]
    last_swap: UnixS


class Folded(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of a batch of slots.

    checkpoint   the last slot of the batch
    untracked    dropped by the rule, before everything else
    tracked      followed from a slot on
    mints        those touched that are followed
    """

    checkpoint: FinalizedSlot
    untracked: Sequence[Mint]
    tracked: Mapping[Mint, FinalizedSlot]
    activity: Mapping[Mint, Activity]
    mints: Mapping[Mint, FoldedMint]


class Folding(Protocol):
    """One batch of the finalized fold: read at leisure, written in one transaction.

    slots    final slots not folded yet, oldest first
    day      of the checkpoint, None before the first
    """

    slots: Sequence[FinalizedSlot]
    day: int | None

    async def swaps(self, slot: FinalizedSlot) -> Mapping[Mint, Sequence[PricedSwap]]:
        """Return the swaps of *slot* by mint, each in order."""

    async def kept(self, mints: Collection[Mint]) -> dict[Mint, Kept]:
        """Return what is kept of each of *mints*."""

    async def followed(self) -> dict[Mint, Activity]:
        """Return the mints a rule may drop: tracked, and not listed by an operator."""

    async def save(self, folded: Folded) -> int | None:
        """Write *folded* and move the checkpoint; return how many mints are followed.

        None, and nothing is written, if that has changed since the batch was read.
        """


class MarketStore(Protocol):
    """Where the market is kept."""

    async def start(self, *, mints: Sequence[Mint], follows_files: bool) -> Tail:
        """Return where the log stands; track *mints* before the first slot ever.

        A store that logs tracked mints alone drops those that a rule chose.

        follows_files   recorded for the readers: the market's clock is the files'
        """

    async def deciding_pools(self) -> Sequence[tuple[Slot, Mint, Standing]]:
        """Return which pools decided after which living slots, oldest first.

        For each mint at least what held after the newest slot that is not kept.
        """

    async def claim(self, genesis_hash: str) -> str:
        """Return the genesis hash of the log's chain: *genesis_hash* if none was recorded."""

    async def write(self, changes: Sequence[Change]) -> None:
        """Add *changes* to the log, all or none of them."""

    async def fold(self, slots_max: int) -> Folding:
        """Return a batch of up to *slots_max* final slots; one at a time."""

    async def trim(self, events_max: int) -> int:
        """Forget up to *events_max* of the oldest events that are not needed; return how many.

        On a new day some mints that no longer trade are forgotten with each call.
        """

    async def close(self) -> None:
        """Let go of the store."""


class TrackedMint(NamedTuple):
    """A mint that is followed.

    since_slot    swaps of later slots count
    since_time    effective time of that slot; None: before the first slot
    is_listed     named by an operator, so that no rule drops it
    last_swap     time of the newest folded swap
    state         what the finalized fold kept; None before the first swap, or if not read
    """

    mint: Mint
    since_slot: Slot
    since_time: UnixS | None
    is_listed: bool
    last_swap: UnixS | None
    state: bytes | None


class FoundMints(NamedTuple):
    """Some tracked mints with a text in their address, and the number of all of them."""

    total: int
    mints: Sequence[TrackedMint]


class Tracking(Protocol):
    """The list of mints, as an operator changes it while ingest runs.

    Raises ServiceUnavailable from every verb when the store does not answer.
    """

    async def add(self, mint: Mint) -> bool:
        """Follow *mint* from the next slot on; False if it was listed already."""

    async def remove(self, mint: Mint) -> bool:
        """Stop following *mint* and drop what was kept; False if it was not tracked.

        No rule follows it again, until `add` does.
        """

    async def page(self, after: str, limit: int) -> Sequence[TrackedMint]:
        """Return up to *limit* tracked mints whose addresses follow *after*, by address."""

    async def found(self, text: str, limit: int) -> FoundMints:
        """Return the tracked mints with *text* in their address, up to *limit* of them.

        Those listed by an operator are first, then those with the newest swap.  Their states are
        not read.
        """

    async def one(self, mint: Mint) -> TrackedMint | None:
        """Return *mint* if it is tracked."""


class MarketOverview(NamedTuple):
    """Where the market stands.

    slot, time     of the newest block, None before the first
    folded_slot    how far the finalized fold has come
    newest_gap     the last slot of the newest gap
    candles_a_day  that a day adds, estimated; None while that cannot be said
    gaps_given_up  of *gap_count*: ingest no longer tries to mend them
    """

    slot: Slot | None
    time: UnixS | None
    folded_slot: Slot | None
    follows_files: bool
    tracked_count: int
    gap_count: int
    gap_slots: int
    newest_gap: Slot | None
    candles_a_day: Mapping[Timeframe, int] | None = None
    gaps_given_up: int = 0


class MarketReader(LogReader, Protocol):
    """The log, and the market as an operator asks for it; safe while ingest writes."""

    async def overview(self) -> MarketOverview:
        """Return where the market stands.  Raises ServiceUnavailable, UnusableStore."""

    async def gaps(self, limit: int) -> Sequence[Gap]:
        """Return up to *limit* open gaps, newest first.  Raises ServiceUnavailable.

        Their reasons say whether attempts to mend them were in vain.
        """
