"""HistoryJoin: a past becomes the mint's own, in one transaction."""

from typing import Final, NamedTuple

from msgspec.structs import astuple

from mintscope.base.primitives import Mint, Slot, UnixS
from mintscope.core.market.engine.fold import MintFold
from mintscope.core.market.history.past import decide_again
from mintscope.core.market.pricing import RATE_AGE_MAX_S, RATE_WINDOW_S
from mintscope.core.market.retention import Retention
from mintscope.core.market.standing import Standing
from mintscope.core.market.store import CANDLES_MIN
from mintscope.core.market.timeframe import Timeframe
from mintscope.edges.storage.database import Batch, Database, DatabaseAccess
from mintscope.edges.storage.sql.history.imports import add_waypoints, join_imported
from mintscope.edges.storage.sql.market import log_writer
from mintscope.edges.storage.sql.market.fold import CANDLES, STATES, WAYPOINTS, cut_of
from mintscope.edges.storage.sql.market.mints import ADD_EVENT
from mintscope.edges.storage.sql.market.rows import (
    deciding_blob,
    deciding_of,
    last_seq,
    mints_blob,
    swaps_blob,
    swaps_of,
    volumes_of,
)
from mintscope.edges.storage.sql.market.tables import MarketTables

READY: Final = """
SELECT mint.id, address, history_job.slot, history_job.time, history_job.since_slot, from_time,
       state, in_sol, last_swap, deciding, mint.since_slot
  FROM history_job JOIN mint ON mint.id = history_job.mint
 WHERE stage = 'ready' AND mint.since_slot IS NOT NULL
 ORDER BY mint.id
"""
ANY: Final = """
SELECT EXISTS (SELECT 1 FROM history_job WHERE stage = 'ready')
       OR EXISTS (SELECT 1 FROM import_candle JOIN state USING (mint))
"""
AGAIN: Final = "UPDATE history_job SET stage = 'reading' WHERE mint = ?"
OLDEST: Final = """
SELECT time FROM header WHERE seq = (SELECT min(seq) FROM header WHERE is_dead = 0)
"""
# Without a rate none has been made for as long as one may last.
RATED_AT: Final = """
SELECT coalesce(sol_usd_time, time - ?) FROM header
 WHERE is_dead = 0 AND slot <= ? ORDER BY seq DESC LIMIT 1
"""

# A longer own past may leave room for fewer of them: they are joined again, before it.
KEEP_IMPORTED: Final = """
INSERT INTO import_candle
SELECT mint, timeframe, bucket, open, high, low, close, provider_volume, provider FROM candle
 WHERE mint = ? AND provider IS NOT NULL
ON CONFLICT DO NOTHING
"""
TAKE_CANDLES: Final = """
INSERT INTO candle
       (mint, timeframe, bucket, open, high, low, close, buy_volume, sell_volume, count,
        open_sol, high_sol, low_sol, close_sol)
SELECT mint, timeframe, bucket, open, high, low, close, buy_volume, sell_volume, count,
       open_sol, high_sol, low_sol, close_sol
  FROM history_candle LEFT JOIN history_candle_in_sol USING (mint, timeframe, bucket)
 WHERE mint = ?
"""
NEWEST_BUCKET: Final = "SELECT max(bucket) FROM candle WHERE mint = ? AND timeframe = ?"

# Swaps that the log lacks because the mint was not followed then, and those decided otherwise.
READ_SWAPS: Final = """
SELECT seq, mint, swaps, deciding, details FROM history_swap JOIN header USING (slot)
 WHERE mint = ? AND is_dead = 0
"""
SWAPS: Final = Batch(
    "swap",
    log_writer.SWAPS.columns,
    "ON CONFLICT (seq, mint) DO UPDATE SET swaps = excluded.swaps, deciding = excluded.deciding,"
    " bought = excluded.bought, sold = excluded.sold, details = excluded.details",
)
LATER: Final = """
SELECT seq, time, sol_usd, swaps FROM swap JOIN header USING (seq)
 WHERE mint = ? AND is_dead = 0 AND slot > ?
 ORDER BY seq
"""
REPRICE: Final = """
UPDATE swap SET swaps = ?, deciding = ?, bought = ?, sold = ? WHERE seq = ? AND mint = ?
"""
KEEP_DECIDING: Final = """
INSERT INTO deciding_pool (mint, deciding) VALUES (?, ?)
ON CONFLICT (mint) DO UPDATE SET deciding = excluded.deciding
"""
FOLLOWED_SINCE: Final = "UPDATE mint SET since_slot = ?, since_time = ? WHERE id = ?"
# The staging goes; that it was joined, and from when, stays.
JOINED: Final = """
UPDATE history_job SET stage = 'joined', state = NULL, deciding = NULL WHERE mint = ?
"""
STAGED: Final = (
    *("history_address", "history_transaction", "history_candle", "history_candle_in_sol"),
    "history_swap",
)


class _Ready(NamedTuple):
    mint_id: int
    mint: Mint
    slot: Slot
    time: UnixS | None
    since_slot: Slot | None
    from_time: UnixS
    state: bytes | None
    in_sol: bytes | None
    last_swap: UnixS | None
    deciding: bytes | None
    followed_since: Slot


class SqlHistoryJoin:
    """Implements HistoryJoin; used by ingest alone, beside its log writer."""

    def __init__(
        self, access: DatabaseAccess[Database], tables: MarketTables, retention: Retention
    ) -> None:
        self._access = access
        self._tables = tables
        self._retention = retention

    async def join(self) -> Mint | None:
        """Join a past that is ready, and return its mint; None if there is none to join now."""
        return await self._access.run(self._join_one)

    async def close(self) -> None:
        """Let go of the database."""
        self._access.close()

    def _join_one(self, db: Database) -> Mint | None:
        if not db.execute(ANY).get:
            return None
        with db.transaction():
            self._tables.written(db)
            folded = db.execute("SELECT folded_slot FROM progress").get
            for ready in [_Ready(*row) for row in db.execute(READY)]:
                if folded is None or folded < ready.slot:
                    continue
                if not _meets_the_log(db, ready):
                    db.execute(AGAIN, (ready.mint_id,))
                    continue
                self._join(db, ready)
                return ready.mint
            return join_imported(db)

    def _join(self, db: Database, ready: _Ready) -> None:
        fold = MintFold.from_state(ready.state, ready.in_sol)
        state = ready.state
        in_sol = ready.in_sol
        last_swap = ready.last_swap
        decided = None if ready.deciding is None else deciding_of(ready.deciding)
        if ready.since_slot is not None:
            db.execute(KEEP_IMPORTED, (ready.mint_id,))
            db.execute("DELETE FROM candle WHERE mint = ?", (ready.mint_id,))
            db.execute("DELETE FROM waypoint WHERE mint = ?", (ready.mint_id,))
            db.execute("UPDATE state SET imported_from = NULL WHERE mint = ?", (ready.mint_id,))
            db.execute("DELETE FROM deciding_pool WHERE mint = ?", (ready.mint_id,))
            db.execute("UPDATE swap SET deciding = NULL WHERE mint = ?", (ready.mint_id,))
            db.execute(TAKE_CANDLES, (ready.mint_id,))
            for timeframe in Timeframe:
                add_waypoints(db, ready.mint_id, timeframe)
            taken = list(db.execute(READ_SWAPS, (ready.mint_id,)))
            volumes = (volumes_of(swaps_of(ready.mint, row[2])) for row in taken)
            rows = zip(taken, volumes, strict=True)
            db.executemany(SWAPS, ((*row[:4], *of, row[4]) for row, of in rows))
            if decided is not None:
                db.execute(KEEP_DECIDING, (ready.mint_id, deciding_blob(decided)))
            newest = self._go_on(db, ready, fold, decided)
            if newest is not None:
                state = fold.state()
                in_sol = fold.in_sol()
                last_swap = newest
            self._save(db, ready, fold)
            if state is not None:
                db.executemany(STATES, [(ready.mint_id, state, last_swap, in_sol)])
            since = min(ready.since_slot, ready.followed_since)
            db.execute(FOLLOWED_SINCE, (since, ready.from_time, ready.mint_id))
            for kind in ("untrack", "track"):
                db.execute(ADD_EVENT, (last_seq(db) + 1, kind, mints_blob([ready.mint])))
        for table in STAGED:
            db.execute(f"DELETE FROM {table} WHERE mint = ?", (ready.mint_id,))  # noqa: S608 - ours
        db.execute(JOINED, (ready.mint_id,))

    def _go_on(
        self, db: Database, ready: _Ready, fold: MintFold, decided: Standing | None
    ) -> UnixS | None:
        """Price again the log after the past, and fold its folded part.

        Return the time of the newest swap that was folded.
        """
        folded_seq: int = db.execute("SELECT folded_seq FROM progress").get
        newest = None
        for seq, time, rate, blob in list(db.execute(LATER, (ready.mint_id, ready.slot))):
            logged = swaps_of(ready.mint, blob)
            swaps, after = decide_again(decided, UnixS(time), logged, rate)
            told = deciding_blob(after) if after is not decided else None
            changed = swaps_blob(swaps), told, *volumes_of(swaps)
            db.execute(REPRICE, (*changed, seq, ready.mint_id))
            decided = after
            if seq <= folded_seq:
                newest = UnixS(time)
                for swap in swaps:
                    fold.apply(newest, swap)
        return newest

    def _save(self, db: Database, ready: _Ready, fold: MintFold) -> None:
        passed = ((ready.mint_id, timeframe, *each) for timeframe, each in fold.waypoints())
        db.executemany(WAYPOINTS, passed)
        for timeframe, rows in fold.changed().items():
            db.executemany(CANDLES, ((ready.mint_id, timeframe, *astuple(row)) for row in rows))
            bucket = db.execute(NEWEST_BUCKET, (ready.mint_id, timeframe)).get
            if bucket is not None:
                cut = cut_of(self._retention, ready.mint_id, timeframe, UnixS(bucket))
                self._tables.drop_old(db, [cut], CANDLES_MIN)


def _meets_the_log(db: Database, ready: _Ready) -> bool:
    """Say whether the log holds everything after the past, priced as if it had been followed.

    A rate rests on the swaps of a minute, so the log must have begun a minute before the rate was
    made that the past ends with.
    """
    oldest: int | None = db.execute(OLDEST).get
    rated: int | None = db.execute(RATED_AT, (RATE_AGE_MAX_S, ready.slot)).get
    if oldest is None or rated is None or ready.followed_since > ready.slot:
        return False
    return rated - oldest > RATE_WINDOW_S
