"""Reads the data of a mint as of a past slot from SQL, in one transaction."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from mintscope.kit.primitives import Mint, Slot, UnixS
from mintscope.kit.sql.database import Database
from mintscope.market.engine.crowd_book import CrowdBook
from mintscope.market.engine.fold import read_state
from mintscope.market.log import CandleRow, LoadedMint, Waypoint
from mintscope.market.ports import CANDLES_MIN, MINUTES_S, RECENT_S
from mintscope.market.series import past
from mintscope.market.store.frames import NEVER, Folded, with_frames
from mintscope.market.store.log_reader import folded_standing, newest_candles, tail_of
from mintscope.market.timeframe import TIMEFRAMES, Timeframe, bucket

STANDS: Final = """
SELECT mint.id, since_slot, since_time, state.state, traders, imported_from, folded_slot,
       (SELECT coalesce(max(seq), 0) FROM event)
  FROM mint CROSS JOIN progress LEFT JOIN state ON state.mint = mint.id
 WHERE address = ? AND since_slot IS NOT NULL
"""
NEVER_LATER: Final = -1  # Unix seconds, before any block
FIRST_HEADER: Final = "SELECT slot, time FROM header WHERE is_dead = 0 ORDER BY slot LIMIT 1"
LAST_HEADER: Final = "SELECT slot, time FROM header WHERE is_dead = 0 ORDER BY slot DESC LIMIT 1"
HEADER: Final = """
SELECT slot, time, seq FROM header WHERE is_dead = 0 AND slot <= ? ORDER BY slot DESC LIMIT 1
"""

ROWS: Final = """
SELECT bucket, open, high, low, close, buy_volume, sell_volume, count,
       open_sol, high_sol, low_sol, close_sol
  FROM candle
 WHERE mint = :mint AND timeframe = :timeframe AND bucket <= :until AND count > 0
 ORDER BY bucket DESC LIMIT :limit
"""
NEWER: Final = """
SELECT count(*) FROM candle
 WHERE mint = :mint AND timeframe = :timeframe AND bucket > :until AND count > 0
"""
WAYPOINTS: Final = """
SELECT bucket, closed, acc FROM waypoint
 WHERE mint = :mint AND timeframe = :timeframe AND bucket >= :oldest AND bucket <= :until
 ORDER BY bucket
"""
OLDEST_MINUTE: Final = "SELECT min(bucket) FROM candle WHERE mint = ? AND timeframe = 'm1'"
PRICED_MINUTES: Final = """
SELECT count(*) FROM candle WHERE mint = ? AND timeframe = 'm1' AND count > 0
"""
MINUTES: Final = """
SELECT bucket, buy_volume, sell_volume
  FROM candle
 WHERE mint = :mint AND timeframe = 'm1' AND bucket >= :oldest AND bucket < :before
   AND buy_volume + sell_volume > 0
 ORDER BY bucket
"""

# The unary plus signs keep SQLite from reading the table `header` first.
SECONDS: Final = """
SELECT max(slot), time, sum(bought), sum(sold)
  FROM swap JOIN header USING (seq)
 WHERE swap.mint = :mint AND seq <= :seq
   AND +is_dead = 0 AND +slot > :since AND +slot <= :folded
   AND +time > :recent AND +time < :before
 GROUP BY time
 ORDER BY time
"""
AHEAD: Final = """
SELECT slot, time, swaps
  FROM swap JOIN header USING (seq)
 WHERE swap.mint = :mint AND seq <= :seq
   AND +is_dead = 0 AND +slot > :since
   AND (+time >= :before OR +slot > :folded)
 ORDER BY seq
"""


class _Stands(NamedTuple):
    mint_id: int
    since_slot: int
    since_time: int | None
    state: bytes | None
    traders: bytes | None
    imported_from: UnixS | None
    folded_slot: Slot | None
    seq: int


class _Found(NamedTuple):
    slot: Slot
    time: UnixS
    seq: int


def read_past(
    db: Database, mint: Mint, moment: past.Moment, timeframes: Collection[str] = ()
) -> past.PastMint | past.OutOfReach | None:
    """Return *mint* as it was at *moment*; None if it is not tracked.

    Returns OutOfReach if the stored rows do not suffice for an exact report of *moment*.

    db           must be in a transaction whose statements all see the same state
    timeframes   further timeframes to load, such as m30; each is an `AskedFrame`
    """
    row = db.execute(STANDS, (mint,)).fetchone()
    if row is None:
        return None
    stands = _Stands(*row)
    last = db.execute(LAST_HEADER).fetchone()
    if last is None:
        return past.OutOfReach(None, None)
    newest = past.SlotTime(*last)
    since = _reach(db, stands)
    found = _header(db, moment, newest)
    if found is None or found.slot <= stands.since_slot or found.time < since:
        return past.OutOfReach(since, newest)
    try:
        loaded = _load(db, mint, stands, found, timeframes)
        return past.PastMint(past.SlotTime(found.slot, found.time), loaded)
    except past.Unreached:
        return past.OutOfReach(since, newest)


def has_all_swaps(
    db: Database,
    since_slot: int,
    since_time: int | None,
    state: bytes | None,
    traders: bytes | None,
) -> bool:
    """Return whether the log has all swaps of a mint since tracking of the mint began.

    since_slot, since_time   the start of tracking, or of a backfill; the time is None if no block
                             was logged then
    state, traders           the stored states of the fold and of the crowd book of the mint
    """
    trimmed = bool(db.execute("SELECT trimmed_seq FROM progress").get)
    first = db.execute(FIRST_HEADER).fetchone()
    if first is None:
        return not trimmed
    first_slot, first_time = first
    # A backfill may begin before a log from which no swap was deleted.
    begins_later = since_time is not None and first_time > since_time
    if first_slot <= since_slot or not (trimmed or begins_later):
        return True
    return state is None or _first_swap(state, traders) > first_time


def _first_swap(state: bytes, traders: bytes | None) -> int:
    """Return the time of the first folded swap of a mint, or an earlier time.

    Return NEVER_LATER if the store lacks the time, because an old version folded the swap.
    """
    first = CrowdBook(traders).since
    if first is None:
        return NEVER_LATER
    record = read_state(state)[0]
    is_priced = record["frames"]["count"][TIMEFRAMES.index(Timeframe.M1)] > 0
    return min(first, int(record["first"])) if is_priced else first


def _reach(db: Database, stands: _Stands) -> UnixS:
    """Return the earliest time of which an exact report of the mint can be made."""
    _, first_time = db.execute(FIRST_HEADER).get
    since = UnixS(first_time)
    if not has_all_swaps(db, stands.since_slot, stands.since_time, stands.state, stands.traders):
        since = UnixS(first_time + RECENT_S)  # the windows m1, m5 and m15 reach back RECENT_S
    if stands.since_time is not None:
        since = UnixS(max(since, stands.since_time))
    return since


def _header(db: Database, moment: past.Moment, newest: past.SlotTime) -> _Found | None:
    """Return the newest slot up to *moment*; None if *moment* is earlier or later than the log."""
    if moment.slot is not None:
        return None if moment.slot > newest.slot else _by_slot(db, moment.slot)
    time = moment.time
    if time is None or time > newest.time:
        return None
    low = int(db.execute(FIRST_HEADER).get[0])
    high = int(newest.slot)
    found = _by_slot(db, Slot(low))
    if found is None or found.time > time:
        return None
    # Headers have an index by slot, but none by time.
    while low <= high:  # times do not decrease from slot to slot
        middle = (low + high) // 2
        one = _by_slot(db, Slot(middle))
        assert one is not None
        if one.time <= time:
            found = one
            low = middle + 1
        else:
            high = one.slot - 1
    return found


def _by_slot(db: Database, slot: Slot) -> _Found | None:
    row = db.execute(HEADER, (slot,)).fetchone()
    return None if row is None else _Found(*row)


def _load(
    db: Database, mint: Mint, stands: _Stands, at: _Found, timeframes: Collection[str]
) -> LoadedMint:
    """Return the stored data of *mint* as of the slot *at*.

    Raises Unreached if too little is stored.

    stands       what the table `mint` has about it
    timeframes   further timeframes to load, such as m30; each is an `AskedFrame`
    """
    # Before the first fold, every slot is ahead of it.
    folded = -1 if stands.folded_slot is None else int(stands.folded_slot)
    if at.slot >= folded:  # the fold has not passed this slot
        before = NEVER
        state = stands.state
        candles: Mapping[Timeframe, Sequence[CandleRow]] = newest_candles(
            db, stands.mint_id, CANDLES_MIN
        )
    else:
        before = bucket(Timeframe.M1, at.time)
        state, candles = _rebuilt(db, stands, before)
    oldest = at.time - MINUTES_S
    recent = at.time - RECENT_S
    _expect_minutes(db, stands, oldest)
    bounds = {
        "mint": stands.mint_id,
        "since": stands.since_slot,
        "seq": at.seq,
        "folded": folded,
        "before": before,
        "recent": recent,
        "oldest": oldest,
    }
    loaded = LoadedMint(
        mint=mint,
        seq=stands.seq,
        state=state,
        candles=dict(candles),
        minutes=[(UnixS(t), bought, sold) for t, bought, sold in db.execute(MINUTES, bounds)],
        tail=tail_of(db, mint, bounds, SECONDS, AHEAD),
        imported_from=stands.imported_from,
        standings=folded_standing(db, stands.mint_id, at.seq),
    )
    held = Folded(stands.mint_id, at.seq, Slot(stands.since_slot), recent, Slot(folded), before)
    return with_frames(db, loaded, held, timeframes)


def _rebuilt(
    db: Database, stands: _Stands, before: UnixS
) -> tuple[bytes | None, dict[Timeframe, Sequence[CandleRow]]]:
    if stands.state is None:
        return None, {}
    frames = {
        timeframe: _frame(
            db, {"mint": stands.mint_id, "timeframe": timeframe.value, "until": before - 1}
        )
        for timeframe in Timeframe
    }
    return past.rebuilt(stands.state, frames, before)


def _frame(db: Database, bounds: Mapping[str, Any]) -> past.FrameRows:
    read = list(db.execute(ROWS, {**bounds, "limit": past.ROWS_READ}))
    rows = [CandleRow(*row) for row in reversed(read)]
    newer = int(db.execute(NEWER, bounds).get)
    # Without rows, no waypoint is in this range.
    since = {**bounds, "oldest": rows[0].bucket if rows else bounds["until"] + 1}
    return past.FrameRows(rows, newer, [Waypoint(*row) for row in db.execute(WAYPOINTS, since)])


def _expect_minutes(db: Database, stands: _Stands, oldest: int) -> None:
    """Raise Unreached if some minutes of a mint since *oldest* may have been deleted."""
    kept_from = db.execute(OLDEST_MINUTE, (stands.mint_id,)).get
    if stands.state is None or kept_from is None or kept_from <= oldest:
        return
    # If as many minutes with a price are stored as the state counts, none was dropped.
    count = int(read_state(stands.state)["frames"][0][0]["count"])
    if count != db.execute(PRICED_MINUTES, (stands.mint_id,)).get:
        raise past.Unreached
