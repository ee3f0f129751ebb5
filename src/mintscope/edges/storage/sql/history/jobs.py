"""HistoryReading, PastFolding and HistoryJobs: short transactions beside ingest."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Final, TypeVar

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
from mintscope.edges.storage.database import (
    Database,
    DatabaseAccess,
    unavailable_on_database_error,
)
from mintscope.edges.storage.sql.history.statements import (
    ADD_ADDRESS,
    ADD_LINE,
    ADD_SWAPS,
    BEGIN,
    CANDLES,
    CANDLES_IN_SOL,
    END_LIST,
    FILLED,
    FINISH,
    JOB,
    LIST,
    MOVE_CURSOR,
    POOLS,
    ROUND,
    SAVE,
    SLOTS,
    TO_LIST,
    TRY_AGAIN,
    UNREAD,
)
from mintscope.edges.storage.sql.market.mints import number
from mintscope.edges.storage.sql.market.rows import deciding_blob, swaps_blob, swaps_of
from mintscope.edges.storage.sql.market.tracking import UNAVAILABLE
from mintscope.edges.storage.sql.series.details import details_blob

TRIES_MAX: Final = 3


T = TypeVar("T")

_swaps: Final = msgspec.msgpack.Decoder(list[Swap])
_encode: Final = msgspec.msgpack.Encoder().encode


class SqlHistory:
    """Implements HistoryReading, PastFolding and HistoryJobs."""

    def __init__(self, access: DatabaseAccess[Database]) -> None:
        self._access = access

    async def begin(self, mint: Mint, from_time: UnixS, addresses: Mapping[str, Kind]) -> None:
        """Read the past of *mint*, a tracked one, again; what was read before is dropped."""

        def work(db: Database) -> None:
            mint_id = number(db, mint)
            db.execute("DELETE FROM history_job WHERE mint = ?", (mint_id,))
            db.execute(BEGIN, (mint_id, from_time))
            rows = ((mint_id, address, kind) for address, kind in addresses.items())
            db.executemany(ADD_ADDRESS, rows)

        await self._write(work)

    async def round(self, mint: Mint, slot: Slot) -> tuple[Slot, Sequence[Cursor]]:
        """Return how far the present round reaches, *slot* if it begins now, and what is left."""

        def work(db: Database) -> tuple[Slot, Sequence[Cursor]]:
            mint_id = number(db, mint)
            reaches = db.execute(ROUND, (slot, mint_id)).get
            db.execute(TRY_AGAIN, (mint_id,))
            return Slot(reaches), [Cursor(*row) for row in db.execute(TO_LIST, (mint_id, reaches))]

        return await self._write(work)

    async def listed(self, mint: Mint, page: ListPage) -> None:
        """Keep a page, and that it was listed; a line that is known already changes nothing."""

        def work(db: Database) -> None:
            at = {"mint": number(db, mint), "address": page.address}
            kind, first = db.execute(LIST, at).get
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

        await self._write(work)

    async def unread(self, mint: Mint, limit: int) -> Sequence[UnreadTransaction]:
        """Return up to *limit* transactions to read, oldest first."""
        rows = await self._read(lambda db: db.execute(UNREAD, (_id(db, mint), TRIES_MAX, limit)))
        return [
            UnreadTransaction(Slot(slot), sign, bool(is_mixed)) for slot, sign, is_mixed in rows
        ]

    async def save(self, mint: Mint, transactions: Sequence[ReadTransaction]) -> None:
        """Keep what was read, and what was asked for in vain."""

        def work(db: Database) -> None:
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

        await self._write(work)

    async def drop(self, mint: Mint) -> bool:
        """Drop what was read of *mint*; False where that is joined already."""

        def work(db: Database) -> bool:
            mint_id = _id(db, mint)
            db.execute("DELETE FROM history_job WHERE mint = ? AND stage <> 'joined'", (mint_id,))
            return db.execute("SELECT 1 FROM history_job WHERE mint = ?", (mint_id,)).get is None

        return await self._write(work)

    async def slots(self, mint: Mint, after: Slot, slots_max: int) -> Sequence[PastSlot]:
        """Return up to *slots_max* slots that were read, after *after*, in order."""

        def work(db: Database) -> Sequence[PastSlot]:
            bounds = {"mint": _id(db, mint), "after": after, "most": slots_max}
            return [
                _slot(Slot(slot), [(time, blob) for _, time, blob in same])
                for slot, same in groupby(db.execute(SLOTS, bounds), key=lambda row: int(row[0]))
            ]

        return await self._read(work)

    async def restart(self, mint: Mint) -> None:
        """Drop the candles that were folded."""

        def work(db: Database) -> None:
            db.execute("DELETE FROM history_candle WHERE mint = ?", (_id(db, mint),))
            db.execute("DELETE FROM history_candle_in_sol WHERE mint = ?", (_id(db, mint),))
            db.execute("DELETE FROM history_swap WHERE mint = ?", (_id(db, mint),))

        await self._write(work)

    async def candles(self, mint: Mint, changed: Mapping[Timeframe, Sequence[CandleRow]]) -> None:
        """Add or replace candles."""

        def work(db: Database) -> None:
            mint_id = _id(db, mint)
            for timeframe, rows in changed.items():
                values = [astuple(row) for row in rows]
                db.executemany(CANDLES, ((mint_id, timeframe, *row[:8]) for row in values))
                in_sol = ((mint_id, timeframe, row[0], *row[8:]) for row in values)
                db.executemany(CANDLES_IN_SOL, in_sol)

        await self._write(work)

    async def finish(self, mint: Mint, past: FoldedPast | None) -> None:
        """End the round: ingest may join *past* now; None: there is nothing in it."""

        def work(db: Database) -> None:
            mint_id = _id(db, mint)
            for one in () if past is None else past.recent:
                row = (mint_id, one.slot, swaps_blob(one.swaps), deciding_blob(one.deciding))
                db.execute(ADD_SWAPS, (*row, details_blob(one.swaps)))
            db.execute(
                FINISH,
                {
                    "mint": mint_id,
                    "time": None if past is None else past.time,
                    "state": None if past is None else past.state,
                    "in_sol": None if past is None else past.in_sol,
                    "since_slot": None if past is None else past.since_slot,
                    "last_swap": None if past is None else past.last_swap,
                    "deciding": None if past is None else deciding_blob(past.deciding),
                },
            )

        await self._write(work)

    async def one(self, mint: Mint) -> HistoryJob | None:
        """Return how far the past of *mint* has come, None if none was asked for."""
        row = await self._read(lambda db: db.execute(JOB, (TRIES_MAX, _id(db, mint))).fetchone())
        if row is None:
            return None
        from_time, stage, *rest = row
        return HistoryJob(UnixS(from_time), Stage(stage), *rest)

    async def pools(self, mint: Mint) -> Mapping[str, int]:
        """Return the pools of *mint* in the log, each with its number of swaps."""

        def work(db: Database) -> Mapping[str, int]:
            rows = db.execute(POOLS, (_id(db, mint),))
            swaps = (swap for (blob,) in rows for swap in swaps_of(mint, blob))
            return Counter(swap.pool for swap in swaps if swap.pool is not None)

        return await self._read(work)

    async def filled(self, gap: Gap, at: UnixMs) -> None:
        """Note that the tokens which traded in *gap* were read again: it is no longer open."""
        await self._write(lambda db: db.execute(FILLED, (at, gap.first, gap.last)))

    async def close(self) -> None:
        """Let go of the database."""
        self._access.close()

    async def _read(self, work: Callable[[Database], T]) -> T:
        def in_snapshot(db: Database) -> T:
            with db.snapshot():
                return work(db)

        with unavailable_on_database_error(UNAVAILABLE):
            return await self._access.run(in_snapshot)

    async def _write(self, work: Callable[[Database], T]) -> T:
        def in_transaction(db: Database) -> T:
            with db.transaction():
                return work(db)

        with unavailable_on_database_error(UNAVAILABLE):
            return await self._access.run(in_transaction)


def _id(db: Database, mint: Mint) -> int | None:
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
