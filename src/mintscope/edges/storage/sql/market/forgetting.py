"""Forgetting mints that no longer trade: some at a time, from a mark that is kept.

On a new day of the market every mint is looked at once: those that are not followed and have not
traded on it are forgotten.  A day may leave hundreds of thousands, so no statement takes them all.
"""

from collections.abc import Callable, Sequence
from typing import Final

import structlog

from mintscope.base.metrics import FORGOTTEN_MINTS, MINTS_TO_LOOK_AT
from mintscope.base.primitives import Mint
from mintscope.edges.storage.database import Database

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
    """Looks at some mints with each step, while a day has any that were not looked at.

    on_forget   called with the mints that have lost their numbers
    """

    def __init__(
        self, on_forget: Callable[[Sequence[Mint]], None], *, mints_a_step: int = MINTS_A_STEP
    ) -> None:
        self._on_forget = on_forget
        self._mints_a_step = mints_a_step
        self._count = 0

    def step(self, db: Database) -> None:
        """Look at the next mints, in a transaction of their own."""
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
