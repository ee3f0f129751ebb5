"""The records that ingest reads from and writes to the market store.

They are slots, folded and tracked mints, retention and activity.  The fold reads only final slots,
and decides, slot by slot, which mints trade enough to be tracked without being listed.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from mintscope.kit.primitives import Mint, Signature, Slot, UnixS
from mintscope.kit.time import DAY_S, MINUTE_S
from mintscope.market.coverage import NotRead, SlotCoverage
from mintscope.market.engine.crowd_book import NO_CROWD, CrowdChange
from mintscope.market.engine.fold import read_state
from mintscope.market.engine.pool_book import NO_POOLS, BookChange
from mintscope.market.log import CandleRow, PricedSwap, SlotHeader, Waypoint
from mintscope.market.standing import SUM_MAX, Standing
from mintscope.market.timeframe import WIDTH_S, Timeframe, bucket
from mintscope.solana.blocks import Gap


class Floor(msgspec.Struct, frozen=True, kw_only=True):
    """The least trading of a mint for which it is tracked without an operator.

    swaps_min        the least number of swaps in one UTC day, by the time of the chain
    volume_min       the least volume on the same day, in micro-USD
    dead_after_days  a tracked mint is dropped after more days than this without such a day
    """

    swaps_min: int
    volume_min: int
    dead_after_days: int

    def __post_init__(self) -> None:
        if min(self.swaps_min, self.volume_min, self.dead_after_days) < 1:
            raise ValueError(f"expected a floor of positive numbers; was {self}")


class Activity(NamedTuple):
    """The trading of a mint on the last day on which it was traded.

    day         this UTC day, in days since 1970
    swaps       the number of swaps on that day
    volume      the volume on that day, in micro-USD
    lively_day  the newest day on which the mint reached the floor; None: it never did
    """

    day: int
    swaps: int
    volume: int
    lively_day: int | None


def day_of(time: UnixS) -> int:
    """Return the UTC day of *time*, in days since 1970."""
    return time // DAY_S


def count(before: Activity | None, *, day: int, swaps: int, volume: int, floor: Floor) -> Activity:
    """Return the activity of a mint after a slot in which it was traded.

    before         the activity before the slot; None: the mint was not traded before
    day            the UTC day of the slot
    swaps, volume  the swaps of the mint in the slot, and their micro-USD
    floor          how many swaps and how much volume in a day keep a mint tracked

    The volume of a day is limited to SUM_MAX.
    """
    if before is not None and before.day == day:
        swaps += before.swaps
        volume += before.volume
    volume = min(volume, SUM_MAX)
    is_lively = swaps >= floor.swaps_min and volume >= floor.volume_min
    lively_day = day if is_lively else None if before is None else before.lively_day
    return Activity(day, swaps, volume, lively_day)


def is_lively(activity: Activity) -> bool:
    """Return whether a mint traded enough to be tracked on the last day on which it traded."""
    return activity.lively_day == activity.day


def is_dead(activity: Activity, *, today: int, floor: Floor) -> bool:
    """Return whether a mint trades too little to stay tracked by a rule.

    It has never reached *floor*, or not for more than `dead_after_days` days.

    today   the UTC day, in days since 1970
    """
    return activity.lively_day is None or today - activity.lively_day > floor.dead_after_days


# Loading a mint reads up to CANDLES_MIN candles of each timeframe and, for the pressure, the minute
# candles of the last MINUTES_S.
CANDLES_MIN: Final = 101
MINUTES_S: Final = DAY_S + 24 * MINUTE_S
# Single swaps are stored at least until they are this many seconds older than the checkpoint.
RECENT_S: Final = 900


class NewSlot(msgspec.Struct, frozen=True):
    """A slot to append to the log.

    swaps       the swaps to log, see `pricing.Priced`
    standings   for each mint whose pools the slot changed: its pools after the slot
    """

    header: SlotHeader
    swaps: Sequence[PricedSwap]
    standings: Mapping[Mint, Standing] = msgspec.field(default_factory=dict)


class OrphanedSlot(msgspec.Struct, frozen=True):
    """The newest slot of the log is no longer in the chain: a reorg abandoned it."""

    slot: Slot


class FinalSlot(msgspec.Struct, frozen=True):
    """The event that a slot in the log has become final."""

    slot: Slot


class Unread(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction, or one call of *program* in it, that could not be read.

    signature   of the transaction; None if unknown
    reason      why it could not be read
    """

    slot: Slot
    signature: Signature | None
    program: str
    reason: str


UNKNOWN_PROGRAM: Final = "unknown_program"

Change = NewSlot | OrphanedSlot | FinalSlot | Gap | Unread | NotRead | SlotCoverage


class FinalizedSlot(NamedTuple):
    """A final slot to fold.

    seq   the position of the event that appended it to the log
    """

    slot: Slot
    time: UnixS
    seq: int


class Kept(NamedTuple):
    """The stored data of a mint before a batch is folded.

    since_slot   swaps of later slots count; None: the mint is not tracked
    is_removed   whether an operator removed the mint, so that no rule tracks it
    state        the state of its `fold.MintFold`; None before its first swap
    in_sol       the prices in SOL of that state; None if they are not stored
    activity     the trading of the mint; counted only if mints are tracked by a floor
    pools        the state of its `pool_book`; None if it has none
    traders      the state of its `crowd_book`; None if it has none
    """

    since_slot: Slot | None
    is_removed: bool
    state: bytes | None
    in_sol: bytes | None
    activity: Activity | None
    pools: bytes | None = None
    traders: bytes | None = None


class FoldedMint(NamedTuple):
    """The changes that a batch of slots makes to the stored data of one mint.

    The fields up to `opened` are the results of the methods of `fold.MintFold` with these names;
    candles are oldest first.

    last_swap   the effective time of its newest swap
    pools       the changes of its pool book
    crowd       the changes of its crowd book
    """

    state: bytes
    in_sol: bytes
    changed: Mapping[Timeframe, Sequence[CandleRow]]
    waypoints: Sequence[tuple[Timeframe, Waypoint]]
    opened: Sequence[Timeframe]
    last_swap: UnixS
    pools: BookChange = NO_POOLS
    crowd: CrowdChange = NO_CROWD


class Folded(msgspec.Struct, frozen=True, kw_only=True):
    """The changes that the fold of a batch of slots makes to the store.

    checkpoint   the last slot of the batch
    untracked    mints that a rule ceases to track; these are dropped first
    tracked      mints that a rule begins to track, each with the slot from which it is tracked
    activity     how much mints were traded, if mints are tracked by that
    mints        the changes of tracked mints
    """

    checkpoint: FinalizedSlot
    untracked: Sequence[Mint]
    tracked: Mapping[Mint, FinalizedSlot]
    activity: Mapping[Mint, Activity]
    mints: Mapping[Mint, FoldedMint]


class TrackedMint(NamedTuple):
    """A tracked mint.

    since_slot    its data begin after this slot
    since_time    effective time of that slot; None: the mint was added before the first slot
    is_listed     whether an operator added the mint, so that no rule drops it
    last_swap     time of the newest folded swap; None before the first
    state         the state of its fold; None before the first swap, or if it was not read
    """

    mint: Mint
    since_slot: Slot
    since_time: UnixS | None
    is_listed: bool
    last_swap: UnixS | None
    state: bytes | None


class FoundMints(NamedTuple):
    """The result of a search for mints by a part of their address.

    total   the number of tracked mints found
    mints   some of them
    """

    total: int
    mints: Sequence[TrackedMint]


class MarketOverview(NamedTuple):
    """The position of the market, with its open gaps and what is stored.

    slot, time     the slot and the time of the newest block; None before the first
    folded_slot    the last final slot whose swaps are in the stored state of the mints; None before
                   the first
    follows_files  whether the market's clock follows replayed files
    gap_count      the number of open gaps
    gap_slots      the number of slots in the open gaps
    newest_gap     the last slot of the newest open gap; None if no gap is open
    candles_a_day  the estimated number of new candles in a day, by timeframe; None: it cannot be
                   estimated yet
    gaps_given_up  the number of open gaps that ingest no longer tries to fill
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


class Retention(msgspec.Struct, frozen=True):
    """The times for which candles and swaps are kept.

    The newest 101 candles with a price are always kept, for each tracked mint and timeframe.

    keep_s    by timeframe: a candle may be deleted once it is this many seconds older than the
              newest candle of its mint
    swaps_s   a swap may be deleted once it is this many seconds older than the newest folded slot
    """

    keep_s: Mapping[Timeframe, int]
    swaps_s: int = RECENT_S

    def __post_init__(self) -> None:
        """Raise ValueError if *keep_s* of a timeframe is shorter than loading a mint needs."""
        for timeframe in Timeframe:
            floor = MINUTES_S if timeframe is Timeframe.M1 else WIDTH_S[timeframe]
            if self.keep_s.get(timeframe, 0) < floor:
                raise ValueError(
                    f"expected at least {floor} seconds of {timeframe} candles;"
                    f" was {self.keep_s.get(timeframe)}"
                )


DEFAULT_RETENTION: Final = Retention(
    {
        Timeframe.M1: 3 * DAY_S,
        Timeframe.M5: 14 * DAY_S,
        Timeframe.M15: 45 * DAY_S,
        Timeframe.H1: 180 * DAY_S,
    }
)


CANDLES_FOR_ALL: Final = 200  # all indicators have values: EMA-200 needs the most candles


def ready_from(state: bytes | None, now: UnixS) -> Mapping[Timeframe, UnixS | None]:
    """Return, by timeframe, the earliest time at which all indicators of a mint can have values.

    None: they have values now.  The actual time is later if there is a candle's span without a
    swap. A span that has volume but no price yet counts as one without a swap, so the time may be
    one span late.

    state   the state of the mint's fold; None before its first swap
    now     effective time of the newest slot
    """
    frames = [None] * len(Timeframe) if state is None else read_state(state)["frames"][0]
    ready: dict[Timeframe, UnixS | None] = {}
    for timeframe, frame in zip(Timeframe, frames, strict=True):
        width = WIDTH_S[timeframe]
        count = 0 if frame is None else int(frame["count"])
        following: int = bucket(timeframe, now)  # the start of the next candle
        if count:
            following = max(following, int(frame["bucket"]) + width)
        missing = CANDLES_FOR_ALL - count
        ready[timeframe] = UnixS(following + (missing - 1) * width) if missing > 0 else None
    return ready
