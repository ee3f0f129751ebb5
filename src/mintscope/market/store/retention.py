"""Deletion of old rows in SQL.

On a new day of the market every mint is looked at once: those that are not followed and have not
traded on it are forgotten.  A day may leave hundreds of thousands, so no statement takes them all.

Many thousands of mints can be dropped in a day, each with thousands of candles.  The log drops
them all at once; a mark in each row has their candles deleted afterwards, at the latest before the
mint is followed again.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import structlog

from mintscope.kit.metrics import FORGOTTEN_MINTS, MINTS_TO_LOOK_AT, UNCLEARED_MINTS
from mintscope.kit.primitives import Mint, UnixS
from mintscope.kit.sql.database import Database
from mintscope.kit.time import DAY_S, HOUR_S
from mintscope.market.timeframe import Timeframe

# A mint is forgotten in up to 65 us on a quiet PostgreSQL, in ten times as much on a busy one.
MINTS_A_STEP: Final = 500

# A day that begins before all mints were looked at goes on from the mark: later ones are not left.
BEGIN: Final = "UPDATE progress SET forgotten_id = coalesce(forgotten_id, 0)"
MARK: Final = "SELECT folded_day, forgotten_id, (SELECT max(id) FROM mint) FROM progress"
LAST: Final = "SELECT max(id) FROM (SELECT id FROM mint WHERE id > ? ORDER BY id LIMIT ?) AS next"
KEEP_MARK: Final = "UPDATE progress SET forgotten_id = ?"

# Values of a subquery for each row, where EXISTS would let an engine read all of the log at once.
FORGET_ACTIVITY: Final = """
DELETE FROM activity
 WHERE mint > ?1 AND mint <= ?2 AND day < ?3
   AND (SELECT since_slot FROM mint WHERE mint.id = activity.mint) IS NULL
"""
FORGET_MINTS: Final = """
DELETE FROM mint
 WHERE id > ?1 AND id <= ?2 AND since_slot IS NULL AND is_removed = 0 AND is_uncleared = 0
   AND (SELECT activity.day FROM activity WHERE activity.mint = mint.id) IS NULL
   AND (SELECT min(swap.seq) FROM swap WHERE swap.mint = mint.id) IS NULL
RETURNING address
"""

log = structlog.get_logger()


class Forgetting:
    """Checks some mints in each step, while any are unchecked on a day.

    on_forget   called with the mints that have lost their numbers
    """

    def __init__(
        self, on_forget: Callable[[Sequence[Mint]], None], *, mints_a_step: int = MINTS_A_STEP
    ) -> None:
        self._on_forget = on_forget
        self._mints_a_step = mints_a_step
        self._count = 0

    def step(self, db: Database) -> None:
        """Check the next mints, in a separate transaction."""
        day, mark, newest = db.execute(MARK).get
        if mark is None:
            return
        with db.transaction():
            last = db.execute(LAST, (mark, self._mints_a_step)).get
            if last is None:
                db.execute(KEEP_MARK, (None,))
                forgotten = []
            else:
                db.execute(FORGET_ACTIVITY, (mark, last, day))
                forgotten = [Mint(row[0]) for row in db.execute(FORGET_MINTS, (mark, last))]
                db.execute(KEEP_MARK, (last,))
        self._on_forget(forgotten)
        self._count += len(forgotten)
        FORGOTTEN_MINTS.inc(len(forgotten))
        MINTS_TO_LOOK_AT.set(0 if last is None else newest - last)
        if last is None:
            log.info("mints_forgotten", count=self._count)
            self._count = 0


MINTS_CLEARED_A_STEP: Final = 25
ROWS_A_STEP: Final = 5_000  # after which a step ends: some 20 ms

NEXT: Final = "SELECT id FROM mint WHERE is_uncleared = 1 ORDER BY id LIMIT ?"
LEFT: Final = "SELECT count(*) FROM mint WHERE is_uncleared = 1"
IS_UNCLEARED: Final = "SELECT is_uncleared FROM mint WHERE id = ?"
DELETE_CANDLES: Final = "DELETE FROM candle WHERE mint = ?"
DELETE_POOL_CANDLES: Final = "DELETE FROM pool_candle WHERE mint = ?"
DELETE_CROWDS: Final = "DELETE FROM crowd WHERE mint = ?"
DELETE_WAYPOINTS: Final = "DELETE FROM waypoint WHERE mint = ?"
CLEARED: Final = "UPDATE mint SET is_uncleared = 0 WHERE id = ?"


def clear(db: Database, mint_id: int) -> int:
    """Delete the candles of one mint; return their number."""
    db.execute(DELETE_CANDLES, (mint_id,))
    count = db.changes()
    db.execute(DELETE_WAYPOINTS, (mint_id,))
    db.execute(DELETE_POOL_CANDLES, (mint_id,))
    db.execute(DELETE_CROWDS, (mint_id,))
    db.execute(CLEARED, (mint_id,))
    return count


def clear_if_left(db: Database, mint_id: int) -> None:
    """Delete the candles of a mint about to be followed again, if still marked for deletion."""
    if db.execute(IS_UNCLEARED, (mint_id,)).get:
        clear(db, mint_id)


def clear_some(db: Database) -> None:
    """Delete the candles of the next marked mints, in a separate transaction."""
    found = [int(mint_id) for (mint_id,) in db.execute(NEXT, (MINTS_CLEARED_A_STEP,))]
    if not found:
        return
    count = 0
    with db.transaction():
        for mint_id in found:
            if count >= ROWS_A_STEP:
                break
            count += clear(db, mint_id)
    UNCLEARED_MINTS.set(db.execute(LEFT).get)


MINTS_MIN: Final = 500  # of the sample, where there are as many
SAMPLED: Final = "SELECT count(*) FROM mint WHERE since_slot IS NOT NULL AND id % ? = 0"
COUNTED: Final = """
SELECT timeframe, count(*), min(bucket) FROM candle
 WHERE mint IN (SELECT id FROM mint WHERE since_slot IS NOT NULL AND id % ? = 0)
   AND timeframe IN ('m1', 'm5', 'm15', 'h1') AND bucket > ?
 GROUP BY timeframe
"""


def candles_a_day(
    db: Database, time: UnixS | None, tracked_count: int
) -> Mapping[Timeframe, int] | None:
    """Return the number of candles of each timeframe added in the day before *time*.

    A shorter time is extrapolated; None below an hour.
    """
    if time is None:
        return None
    every = max(1, tracked_count // MINTS_MIN)
    sampled = db.execute(SAMPLED, (every,)).get
    rows = {each[0]: each[1:] for each in db.execute(COUNTED, (every, time - DAY_S))}
    if not sampled or Timeframe.M1 not in rows:
        return None
    since_s = time - rows[Timeframe.M1][1]
    if since_s < HOUR_S:
        return None
    share = tracked_count / sampled * DAY_S / min(DAY_S, since_s)
    return {each: round(rows[each][0] * share) if each in rows else 0 for each in Timeframe}
