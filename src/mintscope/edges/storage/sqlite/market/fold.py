"""One transaction of the finalized fold on SQLite."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from operator import itemgetter
from typing import Final

import apsw
from msgspec.structs import astuple

from mintscope.base.primitives import Mint, Slot, UnixS
from mintscope.core.market.log import PricedSwap
from mintscope.core.market.registry import Activity, day_of
from mintscope.core.market.store import (
    CANDLES_MIN,
    FinalizedSlot,
    Folded,
    FoldedMint,
    Kept,
    Retention,
)
from mintscope.core.market.timeframe import Timeframe
from mintscope.edges.storage.sqlite.connection import transaction
from mintscope.edges.storage.sqlite.market.mints import track, untrack
from mintscope.edges.storage.sqlite.market.rows import last_seq, swaps_of

FINAL_SLOTS: Final = """
SELECT slot, time, seq FROM header
 WHERE seq > (SELECT folded_seq FROM progress)
   AND slot <= (SELECT finalized_slot FROM progress)
   AND NOT is_dead
 ORDER BY seq
 LIMIT ?
"""

# By an operator, or by a past that was joined: what was read is no longer so.
OVERTAKEN: Final = """
SELECT EXISTS (SELECT 1 FROM event WHERE seq > ? AND kind IN ('track', 'untrack'))
"""
COUNT_TRACKED: Final = "SELECT count(*) FROM mint WHERE since_slot IS NOT NULL"

SWAPS: Final = """
SELECT address, swaps FROM swap JOIN mint ON mint.id = swap.mint WHERE seq = ? ORDER BY mint
"""

KEPT: Final = """
SELECT address, mint.id, since_slot, is_removed, state, day, swaps, volume, lively_day
  FROM json_each(?) JOIN mint ON address = value
  LEFT JOIN state ON state.mint = mint.id LEFT JOIN activity ON activity.mint = mint.id
"""

FOLLOWED: Final = """
SELECT address, day, swaps, volume, lively_day
  FROM mint JOIN activity ON activity.mint = id
 WHERE since_slot IS NOT NULL AND NOT is_listed
 ORDER BY id
"""

SAVE_ACTIVITY: Final = "INSERT OR REPLACE INTO activity VALUES (?, ?, ?, ?, ?)"
# Most rows are there already: to change one in its place takes less than to replace it.
SAVE_STATE: Final = """
INSERT INTO state VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET state = excluded.state, last_swap = excluded.last_swap
"""
SAVE_CANDLE: Final = """
INSERT INTO candle
       (mint, timeframe, bucket, open, high, low, close, buy_volume, sell_volume, count)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE
   SET open = excluded.open, high = excluded.high, low = excluded.low, close = excluded.close,
       buy_volume = excluded.buy_volume, sell_volume = excluded.sell_volume, count = excluded.count
"""

CHECKPOINT: Final = """
UPDATE progress SET folded_slot = ?, folded_day = ?,
       folded_seq = (SELECT seq FROM header WHERE slot = ? AND NOT is_dead)
"""

HAS_OLD: Final = "SELECT 1 FROM candle WHERE mint = ? AND timeframe = ? AND bucket < ? LIMIT 1"

# Beyond the cut a mint keeps its newest candles; minutes without a price are no candles.
DROP_OLD: Final = """
DELETE FROM candle
 WHERE mint = :mint AND timeframe = :timeframe AND bucket < :cut
   AND (count = 0
        OR bucket < (SELECT bucket FROM candle
                      WHERE mint = :mint AND timeframe = :timeframe AND count > 0
                      ORDER BY bucket DESC LIMIT 1 OFFSET :newest - 1))
"""


# A mint that is not followed and did not trade today is forgotten.
FORGET_ACTIVITY: Final = """
DELETE FROM activity
 WHERE day < ? AND mint IN (SELECT id FROM mint WHERE since_slot IS NULL)
"""
FORGET_MINTS: Final = """
DELETE FROM mint
 WHERE since_slot IS NULL AND NOT is_removed
   AND id NOT IN (SELECT mint FROM activity)
   AND id NOT IN (SELECT mint FROM swap)
"""


class SqliteFolding:
    """Implements market.store.Folding; *on_forget* is called once mints have lost their numbers."""

    def __init__(
        self,
        db: apsw.Connection,
        *,
        slots_max: int,
        retention: Retention,
        on_forget: Callable[[], None],
    ) -> None:
        self._db = db
        self._retention = retention
        self._on_forget = on_forget
        self._ids: dict[Mint, int] = {}
        self._seq = last_seq(db)
        self.day: int | None = db.execute("SELECT folded_day FROM progress").get
        self.slots: Sequence[FinalizedSlot] = [
            FinalizedSlot(Slot(slot), UnixS(time), seq)
            for slot, time, seq in db.execute(FINAL_SLOTS, (slots_max,))
        ]

    async def swaps(self, slot: FinalizedSlot) -> dict[Mint, list[PricedSwap]]:
        """Return the swaps of *slot* by mint, each in order."""
        rows = self._db.execute(SWAPS, (slot.seq,))
        return {Mint(address): swaps_of(Mint(address), blob) for address, blob in rows}

    async def kept(self, mints: Collection[Mint]) -> dict[Mint, Kept]:
        """Return what is kept of each of *mints*."""
        found = {}
        for address, mint_id, since_slot, is_removed, state, *counted in self._db.execute(
            KEPT, (json.dumps(list(mints)),)
        ):
            mint = Mint(address)
            self._ids[mint] = mint_id
            activity = None if counted[0] is None else Activity(*counted)
            found[mint] = Kept(since_slot, bool(is_removed), state, activity)
        return found

    async def followed(self) -> dict[Mint, Activity]:
        """Return the mints a rule may drop: tracked, and not listed by an operator."""
        rows = self._db.execute(FOLLOWED)
        return {Mint(address): Activity(*counted) for address, *counted in rows}

    async def save(self, folded: Folded) -> int | None:
        """Write *folded*, move the checkpoint to its last slot; return how many are followed.

        None, and nothing is written, if a mint was tracked or untracked since the batch was read.
        """
        with transaction(self._db) as db:
            if db.execute(OVERTAKEN, (self._seq,)).get:
                return None
            self._follow(folded)
            self._save_mints(folded.mints)
            last = folded.checkpoint
            day = day_of(last.time)
            db.execute(CHECKPOINT, (last.slot, day, last.slot))
            if day != self.day:
                db.execute(FORGET_ACTIVITY, (day,))
                db.execute(FORGET_MINTS)
            tracked: int = db.execute(COUNT_TRACKED).get
        if day != self.day:
            self._on_forget()
        return tracked

    def _follow(self, folded: Folded) -> None:
        for mint in folded.untracked:
            untrack(self._db, mint)
        for mint, slot in folded.tracked.items():
            track(self._db, mint, (Slot(slot.slot - 1), slot.time), by_rule=True)
        self._db.executemany(
            SAVE_ACTIVITY,
            ((self._ids[mint], *activity) for mint, activity in folded.activity.items()),
        )

    def _save_mints(self, mints: Mapping[Mint, FoldedMint]) -> None:
        of = [(self._ids[mint], one) for mint, one in mints.items()]
        of.sort(key=itemgetter(0))  # as they lie in the file
        self._db.executemany(SAVE_STATE, ((id_, one.state, one.last_swap) for id_, one in of))
        self._db.executemany(
            SAVE_CANDLE,
            (
                (id_, timeframe, *astuple(row))
                for id_, one in of
                for timeframe, rows in one.changed.items()
                for row in rows
            ),
        )
        for id_, one in of:  # what is too old grows with the newest bucket alone
            for timeframe in one.opened:
                if rows := one.changed[timeframe]:
                    drop_old(self._db, self._retention, id_, timeframe, rows[-1].bucket)


def drop_old(
    db: apsw.Connection, retention: Retention, mint_id: int, timeframe: Timeframe, newest: UnixS
) -> None:
    """Drop the candles that are too far behind bucket *newest*."""
    cut = newest - retention.keep_s[timeframe]
    if db.execute(HAS_OLD, (mint_id, timeframe, cut)).get is None:
        return
    db.execute(
        DROP_OLD, {"mint": mint_id, "timeframe": timeframe, "cut": cut, "newest": CANDLES_MIN}
    )
