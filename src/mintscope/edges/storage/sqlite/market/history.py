"""HistoryReading, PastFolding and HistoryJobs on SQLite: short transactions beside ingest."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import groupby
from pathlib import Path
from typing import Final

import apsw
import msgspec
from msgspec.structs import astuple

from mintscope.base.primitives import Mint, Slot, UnixMs, UnixS
from mintscope.base.solana import Gap
from mintscope.core.market.history.store import (
    Cursor,
    FoldedPast,
    HistoryJob,
    Kind,
    ListPage,
    PastSlot,
    ReadTransaction,
    Stage,
    UnreadTransaction,
)
from mintscope.core.market.log import CandleRow
from mintscope.core.market.swap import Swap
from mintscope.core.market.timeframe import Timeframe
from mintscope.edges.storage.sqlite.connection import (
    open_store,
    snapshot,
    transaction,
    unavailable_on_error,
)
from mintscope.edges.storage.sqlite.market.mints import number
from mintscope.edges.storage.sqlite.market.rows import deciding_blob, swaps_blob, swaps_of

UNAVAILABLE: Final = "The market file does not answer; try again."
TRIES_MAX: Final = 3

BEGIN: Final = "INSERT INTO history_job (mint, from_time, stage) VALUES (?, ?, 'reading')"
ADD_ADDRESS: Final = "INSERT INTO history_address (mint, address, kind) VALUES (?, ?, ?)"

ROUND: Final = """
UPDATE history_job SET round_slot = coalesce(round_slot, ?), stage = 'reading' WHERE mint = ?
RETURNING round_slot
"""
TRY_AGAIN: Final = "UPDATE history_transaction SET tries = 0 WHERE mint = ? AND swaps IS NULL"
TO_LIST: Final = """
SELECT address, before, until FROM history_address
 WHERE mint = ? AND listed_slot IS NOT ?
 ORDER BY kind, address
"""

# Where several lists have a transaction, that of a pool says the order.
ADD_LINE: Final = """
INSERT INTO history_transaction (mint, slot, signature, address, line, time)
VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET address = excluded.address, line = excluded.line
 WHERE ? = 'pool' AND (SELECT kind FROM history_address
                        WHERE mint = history_transaction.mint
                          AND address = history_transaction.address) = 'rate'
"""
MOVE_CURSOR: Final = """
UPDATE history_address
   SET top = coalesce(top, :top), before = coalesce(:before, before), lines = lines + :lines
 WHERE mint = :mint AND address = :address
"""
END_LIST: Final = """
UPDATE history_address
   SET until = coalesce(top, until), top = NULL, before = NULL,
       listed_slot = (SELECT round_slot FROM history_job WHERE mint = :mint)
 WHERE mint = :mint AND address = :address
"""

# One pool and one address of the rate: each says the order of its own, which is all that counts.
UNREAD: Final = """
SELECT slot, signature,
       (SELECT count(DISTINCT address) > 1 FROM history_transaction AS other
         WHERE other.mint = unread.mint AND other.slot = unread.slot)
       AND (SELECT max(same) > 1 FROM (SELECT count(*) AS same FROM history_address
                                        WHERE mint = unread.mint GROUP BY kind))
  FROM history_transaction AS unread
 WHERE mint = ? AND swaps IS NULL AND tries < ?
 ORDER BY slot
 LIMIT ?
"""
SAVE: Final = """
UPDATE history_transaction SET position = ?, tries = tries + 1, swaps = ?
 WHERE mint = ? AND slot = ? AND signature = ?
"""

SLOTS: Final = """
SELECT slot, time, swaps FROM history_transaction
 WHERE mint = :mint AND swaps IS NOT NULL
   AND slot IN (SELECT DISTINCT slot FROM history_transaction
                 WHERE mint = :mint AND slot > :after AND swaps IS NOT NULL
                 ORDER BY slot LIMIT :most)
 ORDER BY slot, position, line DESC
"""
SAVE_CANDLE: Final = """
INSERT OR REPLACE INTO history_candle VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
FINISH: Final = """
UPDATE history_job
   SET stage = 'ready', slot = round_slot, round_slot = NULL, time = :time, state = :state,
       since_slot = :since_slot, last_swap = :last_swap, deciding = :deciding,
       missing = (SELECT count(*) FROM history_transaction WHERE mint = :mint AND swaps IS NULL)
 WHERE mint = :mint
"""
JOB: Final = """
SELECT from_time, stage, history_job.slot,
       count(signature), count(swaps),
       iif(stage = 'joined', missing, coalesce(sum(swaps IS NULL AND tries >= ?), 0))
  FROM history_job LEFT JOIN history_transaction USING (mint)
 WHERE mint = ?
 GROUP BY mint
"""
FILLED: Final = "UPDATE gap SET filled_at = ? WHERE first = ? AND last = ?"

_swaps: Final = msgspec.msgpack.Decoder(list[Swap])
_encode: Final = msgspec.msgpack.Encoder().encode


class SqliteHistory:
    """Implements HistoryReading, PastFolding and HistoryJobs."""

    def __init__(self, path: Path) -> None:
        self._db = open_store(path, "market")

    async def begin(self, mint: Mint, from_time: UnixS, addresses: Mapping[str, Kind]) -> None:
        """Read the past of *mint*, a tracked one, anew; what was read before is dropped."""
        with _answering(), transaction(self._db) as db:
            mint_id = number(db, mint)
            db.execute("DELETE FROM history_job WHERE mint = ?", (mint_id,))
            db.execute(BEGIN, (mint_id, from_time))
            rows = ((mint_id, address, kind) for address, kind in addresses.items())
            db.executemany(ADD_ADDRESS, rows)

    async def round(self, mint: Mint, slot: Slot) -> tuple[Slot, Sequence[Cursor]]:
        """Return how far the present round reaches, *slot* if it begins now, and what is left."""
        with _answering(), transaction(self._db) as db:
            mint_id = number(db, mint)
            reaches = db.execute(ROUND, (slot, mint_id)).get
            db.execute(TRY_AGAIN, (mint_id,))
            return Slot(reaches), [Cursor(*row) for row in db.execute(TO_LIST, (mint_id, reaches))]

    async def listed(self, mint: Mint, page: ListPage) -> None:
        """Keep a page, and that it was listed; a line that is known already changes nothing."""
        with _answering(), transaction(self._db) as db:
            at = {"mint": number(db, mint), "address": page.address}
            kind, first = db.execute(
                "SELECT kind, lines FROM history_address WHERE mint = :mint AND address = :address",
                at,
            ).get
            db.executemany(
                ADD_LINE,
                (
                    (at["mint"], line.slot, line.signature, page.address, place, line.time, kind)
                    for place, line in enumerate(page.lines, first)
                ),
            )
            moved = {"top": page.top, "before": page.before, "lines": len(page.lines)}
            db.execute(MOVE_CURSOR, at | moved)
            if page.is_last:
                db.execute(END_LIST, at)

    async def unread(self, mint: Mint, limit: int) -> Sequence[UnreadTransaction]:
        """Return up to *limit* transactions to read, oldest first."""
        with _answering(), snapshot(self._db) as db:
            rows = db.execute(UNREAD, (_id(db, mint), TRIES_MAX, limit))
            return [
                UnreadTransaction(Slot(slot), sign, bool(is_mixed)) for slot, sign, is_mixed in rows
            ]

    async def save(self, mint: Mint, transactions: Sequence[ReadTransaction]) -> None:
        """Keep what was read, and what was asked for in vain."""
        with _answering(), transaction(self._db) as db:
            mint_id = _id(db, mint)
            db.executemany(
                SAVE,
                (
                    (
                        one.position,
                        None if one.swaps is None else _encode(one.swaps),
                        mint_id,
                        one.slot,
                        one.signature,
                    )
                    for one in transactions
                ),
            )

    async def slots(self, mint: Mint, after: Slot, slots_max: int) -> Sequence[PastSlot]:
        """Return up to *slots_max* slots that were read, after *after*, in order."""
        with _answering(), snapshot(self._db) as db:
            bounds = {"mint": _id(db, mint), "after": after, "most": slots_max}
            rows = list(db.execute(SLOTS, bounds))
        return [
            _slot(Slot(slot), [(time, blob) for _, time, blob in same])
            for slot, same in groupby(rows, key=lambda row: int(row[0]))
        ]

    async def restart(self, mint: Mint) -> None:
        """Drop the candles that were folded."""
        with _answering(), transaction(self._db) as db:
            db.execute("DELETE FROM history_candle WHERE mint = ?", (_id(db, mint),))
            db.execute("DELETE FROM history_swap WHERE mint = ?", (_id(db, mint),))

    async def candles(self, mint: Mint, changed: Mapping[Timeframe, Sequence[CandleRow]]) -> None:
        """Add or replace candles."""
        with _answering(), transaction(self._db) as db:
            mint_id = _id(db, mint)
            for timeframe, rows in changed.items():
                db.executemany(SAVE_CANDLE, ((mint_id, timeframe, *astuple(row)) for row in rows))

    async def finish(self, mint: Mint, past: FoldedPast | None) -> None:
        """End the round: ingest may join *past* now; None: there is nothing in it."""
        with _answering(), transaction(self._db) as db:
            mint_id = _id(db, mint)
            for one in () if past is None else past.recent:
                row = (mint_id, one.slot, swaps_blob(one.swaps), deciding_blob(one.deciding))
                db.execute("INSERT INTO history_swap VALUES (?, ?, ?, ?)", row)
            db.execute(
                FINISH,
                {
                    "mint": mint_id,
                    "time": None if past is None else past.time,
                    "state": None if past is None else past.state,
                    "since_slot": None if past is None else past.since_slot,
                    "last_swap": None if past is None else past.last_swap,
                    "deciding": None if past is None else deciding_blob(past.deciding),
                },
            )

    async def one(self, mint: Mint) -> HistoryJob | None:
        """Return how far the past of *mint* has come, None if none was asked for."""
        with _answering(), snapshot(self._db) as db:
            row = db.execute(JOB, (TRIES_MAX, _id(db, mint))).fetchone()
        if row is None:
            return None
        from_time, stage, *rest = row
        return HistoryJob(UnixS(from_time), Stage(stage), *rest)

    async def pools(self, mint: Mint) -> Mapping[str, int]:
        """Return the pools of *mint* in the log, each with its number of swaps."""
        with _answering(), snapshot(self._db) as db:
            rows = db.execute("SELECT swaps FROM swap WHERE mint = ?", (_id(db, mint),))
            swaps = (swap for (blob,) in rows for swap in swaps_of(mint, blob))
            return Counter(swap.pool for swap in swaps if swap.pool is not None)

    async def filled(self, gap: Gap, at: UnixMs) -> None:
        """Note that the tokens which traded in *gap* were read anew: it is open no more."""
        with _answering(), transaction(self._db) as db:
            db.execute(FILLED, (at, gap.first, gap.last))

    async def close(self) -> None:
        """Let go of the file."""
        self._db.close()


def _answering() -> AbstractContextManager[None]:
    return unavailable_on_error(UNAVAILABLE, kind="market")


def _id(db: apsw.Connection, mint: Mint) -> int | None:
    """Return the number of *mint*, None if it has none."""
    found: int | None = db.execute("SELECT id FROM mint WHERE address = ?", (mint,)).get
    return found


def _slot(slot: Slot, rows: Sequence[tuple[int | None, bytes]]) -> PastSlot:
    """Return the slot that *rows*, in order, are of: each counts as one transaction of it."""
    times = [time for time, _ in rows if time is not None]
    swaps = [
        swap._replace(transaction_index=index)
        for index, (_, blob) in enumerate(rows)
        for swap in _swaps.decode(blob)
    ]
    return PastSlot(slot, UnixS(max(times)) if times else None, swaps)
