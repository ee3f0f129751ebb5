"""Deleting the candles of mints that are followed no more: some at a time, from a mark in each row.

A day may drop many thousands of mints, each with thousands of candles.  Which they are is decided
at once, as the log says; what was kept of them is deleted afterwards, or before one is followed
again.
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
    """Delete the candles of one mint; return how many there were."""
    db.execute(DELETE_CANDLES, (mint_id,))
    count = db.changes()
    db.execute(DELETE_WAYPOINTS, (mint_id,))
    db.execute(CLEARED, (mint_id,))
    return count


def clear_if_left(db: Database, mint_id: int) -> None:
    """Delete the candles of one mint if they wait for it: it is to be followed again."""
    if db.execute(IS_UNCLEARED, (mint_id,)).get:
        clear(db, mint_id)


def clear_some(db: Database) -> None:
    """Delete the candles of the next mints, in a transaction of their own."""
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
