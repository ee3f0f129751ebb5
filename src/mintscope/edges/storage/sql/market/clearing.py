"""Deletion of the candles of mints that are no longer followed, some at a time.

Many thousands of mints can be dropped in a day, each with thousands of candles.  The log drops
them all at once; a mark in each row has their candles deleted afterwards, at the latest before the
mint is followed again.
"""

from typing import Final

from mintscope.base.metrics import UNCLEARED_MINTS
from mintscope.edges.storage.database import Database

MINTS_A_STEP: Final = 25
ROWS_A_STEP: Final = 5_000  # after which a step ends: some 20 ms

NEXT: Final = "SELECT id FROM mint WHERE is_uncleared = 1 ORDER BY id LIMIT ?"
LEFT: Final = "SELECT count(*) FROM mint WHERE is_uncleared = 1"
IS_UNCLEARED: Final = "SELECT is_uncleared FROM mint WHERE id = ?"
DELETE_CANDLES: Final = "DELETE FROM candle WHERE mint = ?"
DELETE_WAYPOINTS: Final = "DELETE FROM waypoint WHERE mint = ?"
CLEARED: Final = "UPDATE mint SET is_uncleared = 0 WHERE id = ?"


def clear(db: Database, mint_id: int) -> int:
    """Delete the candles of one mint; return their number."""
    db.execute(DELETE_CANDLES, (mint_id,))
    count = db.changes()
    db.execute(DELETE_WAYPOINTS, (mint_id,))
    db.execute(CLEARED, (mint_id,))
    return count


def clear_if_left(db: Database, mint_id: int) -> None:
    """Delete the candles of one mint if they are still marked: it is to be followed again."""
    if db.execute(IS_UNCLEARED, (mint_id,)).get:
        clear(db, mint_id)


def clear_some(db: Database) -> None:
    """Delete the candles of the next marked mints, in a transaction of its own."""
    found = [int(mint_id) for (mint_id,) in db.execute(NEXT, (MINTS_A_STEP,))]
    if not found:
        return
    count = 0
    with db.transaction():
        for mint_id in found:
            if count >= ROWS_A_STEP:
                break
            count += clear(db, mint_id)
    UNCLEARED_MINTS.set(db.execute(LEFT).get)
