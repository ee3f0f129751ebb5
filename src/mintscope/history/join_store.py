"""Stores imported candles and attempts to mend gaps in SQL, and merges backfills."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from msgspec.structs import astuple

from mintscope.history import backfill
from mintscope.history.jobs_store import losses, other_quotes
from mintscope.kit.primitives import Mint, Slot, UnixMs, UnixS
from mintscope.kit.sql.database import Batch, Database, DatabaseAccess, Row, SqlStore
from mintscope.market.engine.fold import MintFold, read_state
from mintscope.market.log import volumes_of
from mintscope.market.ports import CANDLES_MIN, Retention
from mintscope.market.pricing import RATE_AGE_MAX_S, RATE_WINDOW_S
from mintscope.market.standing import Standing
from mintscope.market.standings import unpack
from mintscope.market.store import log_writer
from mintscope.market.store.fold import CANDLES, STATES, WAYPOINTS, cut_of
from mintscope.market.store.log_reader import (
    last_seq,
    mints_blob,
    standing_blob,
    swaps_blob,
    swaps_of,
)
from mintscope.market.store.log_writer import UNAVAILABLE
from mintscope.market.store.mints import ADD_EVENT, MarketTables
from mintscope.market.timeframe import Timeframe
from mintscope.solana.blocks import Gap

TRACKED: Final = """
SELECT id, state.state FROM mint LEFT JOIN state ON state.mint = id
 WHERE address = ? AND since_slot IS NOT NULL
"""
STAGE: Final = """
INSERT INTO import_candle VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (mint, timeframe, bucket) DO UPDATE
   SET open = excluded.open, high = excluded.high, low = excluded.low, close = excluded.close,
       volume = excluded.volume, provider = excluded.provider
"""
KEPT: Final = "SELECT count(*) FROM candle WHERE mint = ? AND timeframe = ? AND count > 0"
COUNTS: Final = """
SELECT timeframe, max(provider), sum(1 - is_waiting), sum(is_waiting)
  FROM (SELECT mint, timeframe, provider, 0 AS is_waiting FROM candle WHERE provider IS NOT NULL
        UNION ALL SELECT mint, timeframe, provider, 1 FROM import_candle) AS imported
 WHERE mint = (SELECT id FROM mint WHERE address = ?)
 GROUP BY timeframe
"""

# Selects a mint and a timeframe with both queued candles and candles that are not imported.
WAITING: Final = """
SELECT mint.id, address, timeframe, state.state
  FROM import_candle JOIN mint ON mint.id = import_candle.mint
  JOIN state ON state.mint = mint.id
 WHERE EXISTS (SELECT 1 FROM candle WHERE candle.mint = mint.id AND count > 0
                AND candle.timeframe = import_candle.timeframe AND provider IS NULL)
 ORDER BY mint.id, timeframe LIMIT 1
"""
TAKE: Final = """
INSERT INTO candle (mint, timeframe, bucket, open, high, low, close,
                    buy_volume, sell_volume, count, provider, provider_volume)
SELECT mint, timeframe, bucket, open, high, low, close, 0, 0, 1, provider, volume
  FROM import_candle
 WHERE mint = :mint AND timeframe = :timeframe
   AND bucket < (SELECT min(bucket) FROM candle
                  WHERE mint = :mint AND timeframe = :timeframe AND provider IS NULL)
ON CONFLICT (mint, timeframe, bucket) DO UPDATE
   SET open = excluded.open, high = excluded.high, low = excluded.low, close = excluded.close,
       buy_volume = 0, sell_volume = 0, count = 1, provider = excluded.provider,
       provider_volume = excluded.provider_volume
"""
IMPORTED_FROM: Final = """
UPDATE state SET state = :state, imported_from =
       (SELECT min(bucket) FROM candle WHERE mint = :mint AND provider IS NOT NULL)
 WHERE mint = :mint
"""
DONE: Final = "DELETE FROM import_candle WHERE mint = ? AND timeframe = ?"
CLOSES: Final = """
SELECT bucket, close FROM candle WHERE mint = ? AND timeframe = ? AND count > 0 ORDER BY bucket
"""


class SqlImports(SqlStore):
    """Stores candles that an operator imports.  Every method may raise ServiceUnavailable."""

    unavailable = UNAVAILABLE

    async def add(
        self,
        mint: Mint,
        timeframe: Timeframe,
        provider: str,
        candles: Sequence[backfill.ImportedCandle],
    ) -> None:
        """Queue *candles*, which ingest puts before the candles of *mint* once the mint has some.

        Only candles before the first candle of the mint are used.  Raises CannotImport if the mint
        is not tracked, or if some of its candles of *timeframe* were deleted.
        """

        def work(db: Database) -> None:
            found = db.execute(TRACKED, (mint,)).fetchone()
            if found is None:
                raise backfill.CannotImport(f"{mint} is not tracked: mintscope tokens add {mint}")
            mint_id, state = found
            if state is not None and not _is_whole(db, mint_id, timeframe, state):
                raise backfill.CannotImport(
                    f"the oldest {timeframe} candles of {mint} are no longer kept, so the series"
                    " cannot be continued: remove the mint and add it again"
                )
            rows = ((mint_id, timeframe, *candle, provider) for candle in candles)
            db.executemany(STAGE, rows)

        await self._write(work)

    async def counts(self, mint: Mint) -> Mapping[Timeframe, backfill.Imported]:
        """Return the numbers of candles imported for *mint*, and their provider, by timeframe."""
        rows = await self._read(lambda db: db.execute(COUNTS, (mint,)))
        return {Timeframe(timeframe): backfill.Imported(*counted) for timeframe, *counted in rows}


def join_imported(db: Database) -> Mint | None:
    """Put the queued candles of one mint and timeframe before the mint's own; return the mint.

    Return None if no queued candles can be used yet.  If some of the mint's own candles of the
    timeframe were deleted, delete the queued candles instead.  Call this in a transaction.
    """
    found = db.execute(WAITING).fetchone()
    if found is None:
        return None
    mint_id, mint, name, state = found
    timeframe = Timeframe(name)
    if _is_whole(db, mint_id, timeframe, state):
        db.execute(TAKE, {"mint": mint_id, "timeframe": timeframe})
        closes = [close for _, close in db.execute(CLOSES, (mint_id, timeframe))]
        whole = backfill.continued(state, timeframe, closes)
        add_waypoints(db, mint_id, timeframe)
        db.execute(IMPORTED_FROM, {"state": whole, "mint": mint_id})
        # At these events, every reader of the log loads the mint again.
        for kind in ("untrack", "track"):
            db.execute(ADD_EVENT, (last_seq(db) + 1, kind, mints_blob([mint])))
    db.execute(DONE, (mint_id, timeframe))
    return Mint(mint)


def add_waypoints(db: Database, mint_id: int, timeframe: Timeframe) -> None:
    """Compute and store the waypoints of a mint again, for one timeframe.

    They follow from the stored candles, which must include the mint's first candle.  Call this in a
    transaction.
    """
    db.execute("DELETE FROM waypoint WHERE mint = ? AND timeframe = ?", (mint_id, timeframe))
    closes = [(bucket, close) for bucket, close in db.execute(CLOSES, (mint_id, timeframe))]
    rows = ((mint_id, timeframe, *each) for each in backfill.waypoints_of(closes))
    db.executemany(WAYPOINTS, rows)


def _is_whole(db: Database, mint_id: int, timeframe: Timeframe, state: bytes) -> bool:
    """Return whether all candles that the indicator state *state* includes are stored."""
    frame = read_state(state)["frames"][0][list(Timeframe).index(timeframe)]
    return bool(db.execute(KEPT, (mint_id, timeframe)).get == int(frame["count"]))


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
# Selects the time at which the rate of SOL in a slot was set.  If the slot has no rate: the time of
# a rate that has just expired.
RATED_AT: Final = """
SELECT coalesce(sol_usd_time, time - ?) FROM header
 WHERE is_dead = 0 AND slot <= ? ORDER BY seq DESC LIMIT 1
"""

# A longer backfill may leave less room for imported candles.  They are queued again, and later put
# before the new first candle.
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

# Selects the swaps of a backfill in slots that are still in the log.  The log lacks these swaps
# because the mint was not tracked then, or has them with other price pools.
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
KEEP_PRICE_POOLS: Final = """
INSERT INTO deciding_pool (mint, deciding) VALUES (?, ?)
ON CONFLICT (mint) DO UPDATE SET deciding = excluded.deciding
"""
FOLLOWED_SINCE: Final = "UPDATE mint SET since_slot = ?, since_time = ? WHERE id = ?"
# The row of a joined backfill remains, so that its start and its last slot are known.  Its staged
# data are deleted.
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


@dataclass(eq=False, repr=False)
class SqlBackfillMerge:
    """Joins finished backfills to the swap log, each in one transaction; only ingest may use it.

    The mint's candles, state, price pools and logged swaps become those of a mint that was tracked
    from the start of the backfill.  If the log does not have all swaps after a backfill, or cannot
    price them, or if candles would be lost, the backfill returns to READING.
    """

    access: DatabaseAccess[Database]
    tables: MarketTables
    retention: Retention

    async def join(self) -> Mint | None:
        """Join a finished backfill, or else imported candles, and return the mint.

        Return None if nothing can be joined now.
        """
        return await self.access.run(self._join_one)

    async def close(self) -> None:
        """Close the database."""
        self.access.close()

    def _join_one(self, db: Database) -> Mint | None:
        # Most calls find nothing, and must not wait for the write lock.
        if not db.execute(ANY).get:
            return None
        with db.transaction():
            self.tables.written(db)
            folded = db.execute("SELECT folded_slot FROM progress").get
            for ready in [_Ready(*row) for row in db.execute(READY)]:
                # Otherwise the fold would later apply swaps that are already in the joined state.
                if folded is None or folded < ready.slot:
                    continue
                if not _meets_the_log(db, ready) or _loses_candles(db, ready):
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
        decided = None if ready.deciding is None else unpack(ready.deciding)
        if ready.since_slot is not None:
            db.execute(KEEP_IMPORTED, (ready.mint_id,))
            db.execute("DELETE FROM candle WHERE mint = ?", (ready.mint_id,))
            db.execute("DELETE FROM waypoint WHERE mint = ?", (ready.mint_id,))
            db.execute("UPDATE state SET imported_from = NULL WHERE mint = ?", (ready.mint_id,))
            db.execute("DELETE FROM deciding_pool WHERE mint = ?", (ready.mint_id,))
            # These price pools were decided without the swaps of the backfill.
            db.execute("UPDATE swap SET deciding = NULL WHERE mint = ?", (ready.mint_id,))
            db.execute(TAKE_CANDLES, (ready.mint_id,))
            for timeframe in Timeframe:
                add_waypoints(db, ready.mint_id, timeframe)
            taken = list(db.execute(READ_SWAPS, (ready.mint_id,)))
            volumes = (volumes_of(swaps_of(ready.mint, row[2])) for row in taken)
            rows = zip(taken, volumes, strict=True)
            db.executemany(SWAPS, ((*row[:4], *of, row[4]) for row, of in rows))
            if decided is not None:
                db.execute(KEEP_PRICE_POOLS, (ready.mint_id, standing_blob(decided)))
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
            # At these events, every reader of the log loads the mint again.
            for kind in ("untrack", "track"):
                db.execute(ADD_EVENT, (last_seq(db) + 1, kind, mints_blob([ready.mint])))
        for table in STAGED:
            db.execute(f"DELETE FROM {table} WHERE mint = ?", (ready.mint_id,))  # noqa: S608 - ours
        db.execute(JOINED, (ready.mint_id,))

    def _go_on(
        self, db: Database, ready: _Ready, fold: MintFold, decided: Standing | None
    ) -> UnixS | None:
        """Price again the swaps that were logged after the backfill, and fold them.

        Only swaps up to the checkpoint of the fold are folded; ingest folds later ones.  Return the
        time of the newest folded swap; None if no swap was folded.
        """
        folded_seq: int = db.execute("SELECT folded_seq FROM progress").get
        newest = None
        # A list, because the loop changes the rows that the query reads.
        for seq, time, rate, blob in list(db.execute(LATER, (ready.mint_id, ready.slot))):
            logged = swaps_of(ready.mint, blob)
            swaps, after = backfill.decide_again(decided, UnixS(time), logged, rate)
            newer_standing = standing_blob(after) if after is not decided else None
            changed = swaps_blob(swaps), newer_standing, *volumes_of(swaps)
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
                cut = cut_of(self.retention, ready.mint_id, timeframe, UnixS(bucket))
                self.tables.drop_old(db, [cut], CANDLES_MIN)


def _meets_the_log(db: Database, ready: _Ready) -> bool:
    """Return whether the log holds all swaps after the backfill, and can price them."""
    # A rate of SOL depends on the swaps of the RATE_WINDOW_S seconds before, so the log must begin
    # more than RATE_WINDOW_S seconds before the last rate of the backfill.
    oldest: int | None = db.execute(OLDEST).get
    rated: int | None = db.execute(RATED_AT, (RATE_AGE_MAX_S, ready.slot)).get
    if oldest is None or rated is None or ready.followed_since > ready.slot:
        return False
    return rated - oldest > RATE_WINDOW_S


def _loses_candles(db: Database, ready: _Ready) -> bool:
    """Return whether the join would delete candles that the backfill cannot replace."""
    if other_quotes(db, ready.mint_id):
        return True
    return ready.time is not None and losses(db, ready.mint_id, ready.time) is not None


COLUMNS: Final = "first, last, reason, attempts, next_at, given_up_at, words"
SEEN: Final = "UPDATE gap SET next_at = ? WHERE next_at IS NULL AND filled_at IS NULL"
# This query runs first, so that the table is written only if there is a new gap.
NEW: Final = "SELECT 1 FROM gap WHERE next_at IS NULL AND filled_at IS NULL LIMIT 1"
DUE: Final = f"""
SELECT {COLUMNS} FROM gap
 WHERE filled_at IS NULL AND given_up_at IS NULL AND next_at <= ?
 ORDER BY first, last LIMIT 1
"""  # noqa: S608 - ours
NEWEST: Final = f"""
SELECT {COLUMNS} FROM gap WHERE filled_at IS NULL ORDER BY last DESC, first DESC LIMIT ?
"""  # noqa: S608 - ours
PUT_OFF: Final = """
UPDATE gap SET next_at = :at, words = :words WHERE first = :first AND last = :last
"""
FAILED: Final = """
UPDATE gap SET attempts = attempts + 1, next_at = :at, words = :words
 WHERE first = :first AND last = :last
"""
GIVE_UP: Final = """
UPDATE gap SET attempts = attempts + 1, given_up_at = :at, words = :words
 WHERE first = :first AND last = :last
"""
MENDING_COUNTS: Final = "SELECT count(*), count(given_up_at) FROM gap WHERE filled_at IS NULL"
NEW_DAY: Final = "INSERT INTO gap_calls (day, calls) VALUES (?, 0) ON CONFLICT DO NOTHING"
OLD_DAYS: Final = "DELETE FROM gap_calls WHERE day < ?"
CALLS: Final = "SELECT calls FROM gap_calls WHERE day = ? /* FOR UPDATE */"
TAKE_MEND: Final = "UPDATE gap_calls SET calls = calls + ? WHERE day = ?"


class SqlGapMends(SqlStore):
    """Stores attempts of ingest to mend gaps.  Every method may raise ServiceUnavailable."""

    unavailable = UNAVAILABLE
    beside = True

    async def due(self, now: UnixMs, first_at: UnixMs) -> backfill.GapMend | None:
        """Return the oldest open gap whose next attempt is due at *now*; None if no gap is due.

        first_at   the time of the first attempt at gaps that this method has not seen before
        """
        if await self._read(lambda db: db.execute(NEW).fetchone()) is not None:
            await self._write(lambda db: db.execute(SEEN, (first_at,)))
        row = await self._read(lambda db: db.execute(DUE, (now,)).fetchone())
        return None if row is None else _mend(row)

    async def put_off(self, gap: Gap, next_at: UnixMs, words: str) -> None:
        """Record that *gap* waits until *next_at*, with the reason *words*; no attempt was made."""
        await self._note(PUT_OFF, gap, next_at, words)

    async def failed(self, gap: Gap, next_at: UnixMs, words: str) -> None:
        """Record that an attempt to mend *gap* failed because of *words*.

        next_at   the time of the next attempt
        """
        await self._note(FAILED, gap, next_at, words)

    async def give_up(self, gap: Gap, at: UnixMs, words: str) -> None:
        """Record that *gap* is given up at *at*, with *words*, the error of the last attempt."""
        await self._note(GIVE_UP, gap, at, words)

    async def counts(self) -> backfill.GapCounts:
        """Return the number of open gaps, and the number of those that are given up."""
        count, given_up = await self._read(lambda db: db.execute(MENDING_COUNTS).get)
        return backfill.GapCounts(count, given_up)

    async def newest(self, limit: int) -> Sequence[backfill.GapMend]:
        """Return up to *limit* open gaps, newest first."""
        return await self._read(lambda db: [_mend(row) for row in db.execute(NEWEST, (limit,))])

    async def take_calls(self, day: int, wanted: int, calls_max: int) -> int:
        """Reserve up to *wanted* requests to the node for *day*; return the reserved number.

        day         UTC days since 1970-01-01
        calls_max   the most requests of a day, for all gaps and tokens together
        """

        def work(db: Database) -> int:
            db.execute(OLD_DAYS, (day,))
            db.execute(NEW_DAY, (day,))
            taken = max(0, min(wanted, calls_max - int(db.execute(CALLS, (day,)).get)))
            db.execute(TAKE_MEND, (taken, day))
            return taken

        return await self._write(work)

    async def _note(self, statement: str, gap: Gap, at: UnixMs, words: str) -> None:
        values = {"first": gap.first, "last": gap.last, "at": at, "words": words}
        await self._write(lambda db: db.execute(statement, values))


def _mend(row: Row) -> backfill.GapMend:
    first, last, reason, *rest = row
    return backfill.GapMend(Gap(first, last, reason), *rest)
