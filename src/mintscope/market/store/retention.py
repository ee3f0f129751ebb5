"""Deletion of old rows in SQL.

On each new day of the market, every mint is checked once.  Mints that are not tracked and have not
traded on that day are deleted, unless an operator removed them, or swaps or candles of them are
still stored.  There may be hundreds of thousands of such mints, so each statement deletes a part of
them, and all statements between two blocks take about a tenth of a second.

Many thousands of mints can be untracked in a day, each with thousands of candles.  One transaction
untracks them and marks their rows; their candles are deleted afterwards, at the latest before a
mint is tracked again.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import structlog

from mintscope.kit.metrics import FORGOTTEN_MINTS, MINTS_TO_LOOK_AT, UNCLEARED_MINTS
from mintscope.kit.primitives import Mint, UnixS
from mintscope.kit.sql.database import Database
from mintscope.kit.time import DAY_S, HOUR_S
from mintscope.market.timeframe import Timeframe

# A step checks this number of mints.  Deleting a mint takes up to 65 us on an idle PostgreSQL, and
# ten times as long on a busy one.
MINTS_A_STEP: Final = 500
STEPS_S: Final = 0.1  # no further step begins after this time, because blocks wait

# If a day begins before all mints were checked, the check continues at the mark, so none is left
# out.
BEGIN: Final = "UPDATE progress SET forgotten_id = coalesce(forgotten_id, 0)"
MARK: Final = "SELECT folded_day, forgotten_id, (SELECT max(id) FROM mint) FROM progress"
LAST: Final = "SELECT max(id) FROM (SELECT id FROM mint WHERE id > ? ORDER BY id LIMIT ?) AS next"
KEEP_MARK: Final = "UPDATE progress SET forgotten_id = ?"

# Each subquery returns one value for each row: with EXISTS, a database might read the whole log.
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
    """Checks all mints once a day, some in each step, and deletes those that no longer trade.

    on_forget   called with the deleted mints
    """

    def __init__(self, on_forget: Callable[[Sequence[Mint]], None]) -> None:
        self._on_forget = on_forget
        self._count = 0

    def steps(self, db: Database) -> None:
        """Check mints and delete those no longer needed, for about STEPS_S seconds.

        Each step is a transaction; the next call continues.
        """
        end_s = time.monotonic() + STEPS_S
        while self._step(db) and time.monotonic() < end_s:
            pass

    def _step(self, db: Database) -> bool:
        """Check the next MINTS_A_STEP mints and delete those that are no longer needed.

        Returns False if all mints have been checked on this day.
        """
        day, mark, newest = db.execute(MARK).get
        if mark is None:
            return False
        with db.transaction():
            last = db.execute(LAST, (mark, MINTS_A_STEP)).get
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
        return last is not None


MINTS_CLEARED_A_STEP: Final = 25
ROWS_A_STEP: Final = 5_000  # a step ends after this number of rows, in about 20 ms

NEXT: Final = "SELECT id FROM mint WHERE is_uncleared = 1 ORDER BY id LIMIT ?"
LEFT: Final = "SELECT count(*) FROM mint WHERE is_uncleared = 1"
IS_UNCLEARED: Final = "SELECT is_uncleared FROM mint WHERE id = ?"
DELETE: Final = "DELETE FROM {table} WHERE mint = ?"
CLEARED: Final = "UPDATE mint SET is_uncleared = 0 WHERE id = ?"


def clear(db: Database, mint_id: int) -> int:
    """Delete the candles of one mint; return how many were deleted.

    Its waypoints, the candles of its pools, and its crowds are deleted, too.
    """
    db.execute(DELETE.format(table="candle"), (mint_id,))
    count = db.changes()
    for table in ("waypoint", "pool_candle", "crowd"):
        db.execute(DELETE.format(table=table), (mint_id,))
    db.execute(CLEARED, (mint_id,))
    return count


def clear_if_left(db: Database, mint_id: int) -> None:
    """Delete the candles of a mint that is about to be tracked again.

    Candles are left only if the mint was untracked and its candles are not deleted yet.
    """
    if db.execute(IS_UNCLEARED, (mint_id,)).get:
        clear(db, mint_id)


def clear_some(db: Database) -> None:
    """Delete candles of some mints that were untracked, in a transaction of its own."""
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


MINTS_MIN: Final = 500  # about the least number of mints in the sample, if so many are tracked
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
    """Return an estimate of the number of candles of each timeframe in the day before *time*.

    It is made from a sample of the mints, and from less than a day if the candles of the sample do
    not cover a day.  None if they cover less than an hour, or if there are none.

    tracked_count   the number of tracked mints
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
