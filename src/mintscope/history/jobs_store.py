"""Stores backfill jobs in SQL."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Final

import msgspec
from msgspec.structs import astuple

from mintscope.dex.outcome import Swap
from mintscope.history import backfill
from mintscope.kit.primitives import Mint, Slot, UnixMs, UnixS
from mintscope.kit.sql.database import Batch, Database, Row, SqlStore, marks
from mintscope.kit.time import SECOND_MS, iso_time
from mintscope.market.engine.pool_book import BookedPool, booked
from mintscope.market.log import CandleRow
from mintscope.market.quotes import BASIC
from mintscope.market.series.store import details_blob
from mintscope.market.store import fold as market
from mintscope.market.store.log_reader import standing_blob, swaps_blob, swaps_of
from mintscope.market.store.log_writer import UNAVAILABLE
from mintscope.market.timeframe import WIDTH_S, Timeframe
from mintscope.solana.blocks import Gap

BEGIN: Final = "INSERT INTO history_job (mint, from_time, stage) VALUES (?, ?, 'reading')"
# The lock makes `mintscope tokens remove` wait, so that it also deletes the job begun here.
TRACKED: Final = """
SELECT id FROM mint WHERE address = ? AND since_slot IS NOT NULL /* FOR UPDATE */
"""
BEGUN: Final = """
SELECT mint FROM history_job WHERE mint = (SELECT id FROM mint WHERE address = ?)
"""
ADD_ADDRESS: Final = "INSERT INTO history_address (mint, address, kind) VALUES (?, ?, ?)"

ROUND: Final = """
UPDATE history_job SET round_slot = coalesce(round_slot, ?), stage = 'reading' WHERE mint = ?
RETURNING round_slot
"""
TRY_AGAIN: Final = "UPDATE history_transaction SET tries = 0 WHERE mint = ? AND swaps IS NULL"
TO_LIST: Final = """
SELECT address, before, until FROM history_address
 WHERE mint = ? AND listed_slot IS DISTINCT FROM ?
 ORDER BY kind, address
"""

# A transaction in the lists of a pool and of a rate address is stored with its position in the list
# of the pool.
ADD_LINE: Final = """
INSERT INTO history_transaction (mint, slot, signature, address, line, time)
VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (mint, slot, signature) DO UPDATE
   SET address = excluded.address, line = excluded.line
 WHERE ? = 'pool' AND (SELECT kind FROM history_address
                        WHERE mint = history_transaction.mint
                          AND address = history_transaction.address) = 'rate'
"""
LIST: Final = "SELECT kind, lines FROM history_address WHERE mint = :mint AND address = :address"
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

# With one pool and one rate address, no block is read: the order of each list is sufficient.
UNREAD: Final = """
SELECT slot, signature,
       (SELECT count(DISTINCT address) > 1 FROM history_transaction AS other
         WHERE other.mint = unread.mint AND other.slot = unread.slot)
       AND (SELECT max(same) > 1 FROM (SELECT count(*) AS same FROM history_address
                                        WHERE mint = unread.mint GROUP BY kind) AS kinds)
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
CANDLE_COLUMNS: Final = (
    *("mint", "timeframe", "bucket", "open", "high", "low", "close"),
    *("buy_volume", "sell_volume", "count"),
)
CANDLE_PRICES: Final = ("open", "high", "low", "close")
CANDLES: Final = Batch(
    "history_candle",
    {name: market.CANDLES.columns[name] for name in CANDLE_COLUMNS},
    "ON CONFLICT (mint, timeframe, bucket) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in CANDLE_COLUMNS[3:]),
)
CANDLES_IN_SOL: Final = Batch(
    "history_candle_in_sol",
    {
        name: kind
        for name, kind in market.CANDLES.columns.items()
        if name in CANDLE_COLUMNS[:3] or name.endswith("_sol")
    },
    "ON CONFLICT (mint, timeframe, bucket) DO UPDATE SET "
    + ", ".join(f"{name}_sol = excluded.{name}_sol" for name in CANDLE_PRICES),
)
ADD_SWAPS: Final = """
INSERT INTO history_swap (mint, slot, swaps, deciding, details) VALUES (?, ?, ?, ?, ?)
"""
FINISH: Final = """
UPDATE history_job
   SET stage = 'ready', slot = round_slot, round_slot = NULL, time = :time, state = :state,
       in_sol = :in_sol,
       since_slot = :since_slot, last_swap = :last_swap, deciding = :deciding,
       missing = (SELECT count(*) FROM history_transaction WHERE mint = :mint AND swaps IS NULL)
 WHERE mint = :mint
"""
JOB: Final = """
SELECT from_time, stage, history_job.slot,
       count(signature), count(swaps),
       CASE WHEN stage = 'joined' THEN missing
            ELSE sum(CASE WHEN swaps IS NULL AND tries >= ? THEN 1 ELSE 0 END) END
  FROM history_job LEFT JOIN history_transaction ON history_transaction.mint = history_job.mint
 WHERE history_job.mint = ?
 GROUP BY history_job.mint
"""
POOLS: Final = "SELECT swaps FROM swap WHERE mint = ?"
# A sum of integers could overflow in SQLite.
RECORDED: Final = """
SELECT min(bucket), sum(CAST(buy_volume AS double precision) + sell_volume),
       sum(CAST(count AS double precision)) FROM candle
 WHERE mint = :mint AND timeframe = :timeframe AND bucket <= :last
   AND provider IS NULL AND count > 0
"""
REPLACING: Final = """
SELECT min(bucket),
       sum(CASE WHEN bucket >= :first
                THEN CAST(buy_volume AS double precision) + sell_volume ELSE 0 END)
  FROM history_candle WHERE mint = :mint AND timeframe = :timeframe AND bucket <= :last
"""
BOOK: Final = "SELECT pools FROM state WHERE mint = ?"
# The share of the volume of a token that a backfill may leave out.  Without it, one swap of a
# stranger in a pool of JitoSOL would end the mending of gaps of a token.
OTHERS_MAX: Final = 0.1
# The share of the recorded volume, and of the recorded swaps, that may be before the first candle
# of a backfill, for the same reason.
EARLIER_MAX: Final = 0.01
# The share of the recorded volume that a backfill may lack.  It is more than OTHERS_MAX, because
# the share in other quotes varies: OTHERS_MAX is compared with that of two days.
LACKING_MAX: Final = 2 * OTHERS_MAX
FILLED: Final = "UPDATE gap SET filled_at = ? WHERE first = ? AND last = ?"


TRIES_MAX: Final = 3

_swaps: Final = msgspec.msgpack.Decoder(list[Swap])
_encode: Final = msgspec.msgpack.Encoder().encode


class SqlHistory(SqlStore):
    """Stores the lists and transactions that backfills have read, and the results of their folds.

    Every method may raise ServiceUnavailable.  A method that stores data of a backfill raises
    NoBackfill if its mint has no backfill.
    """

    unavailable = UNAVAILABLE

    async def begin(
        self, mint: Mint, from_time: UnixS, addresses: Mapping[str, backfill.Kind]
    ) -> None:
        """Begin a backfill of *mint*; delete the stored data of an earlier backfill.

        Raises NoBackfill if *mint* is not tracked.
        """

        def work(db: Database) -> None:
            mint_id: int | None = db.execute(TRACKED, (mint,)).get
            if mint_id is None:
                raise backfill.NoBackfill(mint)
            # The rows of the other tables are deleted with it, by their foreign keys.
            db.execute("DELETE FROM history_job WHERE mint = ?", (mint_id,))
            db.execute(BEGIN, (mint_id, from_time))
            rows = ((mint_id, address, kind) for address, kind in addresses.items())
            db.executemany(ADD_ADDRESS, rows)

        await self._write(work)

    async def round(self, mint: Mint, slot: Slot) -> tuple[Slot, Sequence[backfill.Cursor]]:
        """Return the slot up to which a round lists the transactions of *mint*, and its open lists.

        If no round has begun, a new one begins, up to *slot*.  Transactions that the node did not
        return are requested again.
        """

        def work(db: Database) -> tuple[Slot, Sequence[backfill.Cursor]]:
            mint_id = _begun(db, mint)
            reaches = db.execute(ROUND, (slot, mint_id)).get
            db.execute(TRY_AGAIN, (mint_id,))
            return Slot(reaches), [
                backfill.Cursor(*row) for row in db.execute(TO_LIST, (mint_id, reaches))
            ]

        return await self._write(work)

    async def listed(self, mint: Mint, page: backfill.ListPage) -> None:
        """Store the new transactions of *page*, and the place where the next page begins."""

        def work(db: Database) -> None:
            mint_id = _begun(db, mint)
            at = {"mint": mint_id, "address": page.address}
            kind, first = db.execute(LIST, at).get
            db.executemany(
                ADD_LINE,
                (
                    (mint_id, line.slot, line.signature, page.address, place, line.block_time, kind)
                    for place, line in enumerate(page.lines, first)
                ),
            )
            moved = {"top": page.top, "before": page.before, "lines": len(page.lines)}
            db.execute(MOVE_CURSOR, at | moved)
            if page.is_last:
                db.execute(END_LIST, at)

        await self._write(work)

    async def unread(self, mint: Mint, limit: int) -> Sequence[backfill.UnreadTransaction]:
        """Return up to *limit* unread transactions, oldest first.

        A transaction that the node did not return in TRIES_MAX attempts is omitted.
        """
        rows = await self._read(lambda db: db.execute(UNREAD, (_id(db, mint), TRIES_MAX, limit)))
        return [
            backfill.UnreadTransaction(Slot(slot), sign, bool(is_mixed))
            for slot, sign, is_mixed in rows
        ]

    async def save(self, mint: Mint, transactions: Sequence[backfill.ReadTransaction]) -> None:
        """Store the swaps of *transactions*, and count one attempt to read each transaction."""

        def work(db: Database) -> None:
            mint_id = _begun(db, mint)
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
        """Delete the backfill of *mint*; return False if the backfill is already joined."""

        def work(db: Database) -> bool:
            mint_id = _id(db, mint)
            db.execute("DELETE FROM history_job WHERE mint = ? AND stage <> 'joined'", (mint_id,))
            return db.execute("SELECT 1 FROM history_job WHERE mint = ?", (mint_id,)).get is None

        return await self._write(work)

    async def slots(
        self, mint: Mint, after: Slot, slots_max: int
    ) -> Sequence[backfill.BackfillSlot]:
        """Return up to *slots_max* slots of the backfill: the next ones after the slot *after*."""

        def work(db: Database) -> Sequence[backfill.BackfillSlot]:
            bounds = {"mint": _id(db, mint), "after": after, "most": slots_max}
            return [
                _slot(Slot(slot), [(time, blob) for _, time, blob in same])
                for slot, same in groupby(db.execute(SLOTS, bounds), key=lambda row: int(row[0]))
            ]

        return await self._read(work)

    async def restart(self, mint: Mint) -> None:
        """Delete the candles and swaps of an earlier fold of *mint*."""

        def work(db: Database) -> None:
            mint_id = _begun(db, mint)
            for table in ("history_candle", "history_candle_in_sol", "history_swap"):
                db.execute(f"DELETE FROM {table} WHERE mint = ?", (mint_id,))  # noqa: S608 - ours

        await self._write(work)

    async def candles(self, mint: Mint, changed: Mapping[Timeframe, Sequence[CandleRow]]) -> None:
        """Store *changed*, folded candles of *mint*; they replace earlier versions."""

        def work(db: Database) -> None:
            mint_id = _begun(db, mint)
            for timeframe, rows in changed.items():
                values = [astuple(row) for row in rows]
                db.executemany(CANDLES, ((mint_id, timeframe, *row[:8]) for row in values))
                in_sol = ((mint_id, timeframe, row[0], *row[8:]) for row in values)
                db.executemany(CANDLES_IN_SOL, in_sol)

        await self._write(work)

    async def finish(self, mint: Mint, past: backfill.FoldedBackfill | None) -> None:
        """End the reading of a backfill and store the result, which ingest can then join.

        past   the result; None: the backfill had no slots
        """

        def work(db: Database) -> None:
            mint_id = _begun(db, mint)
            for one in () if past is None else past.recent:
                row = (mint_id, one.slot, swaps_blob(one.swaps), standing_blob(one.standing))
                db.execute(ADD_SWAPS, (*row, details_blob(one.swaps)))
            fields = ("time", "state", "in_sol", "since_slot", "last_swap")
            values = {name: getattr(past, name, None) for name in fields}
            deciding = None if past is None else standing_blob(past.standing)
            db.execute(FINISH, {"mint": mint_id, "deciding": deciding, **values})

        await self._write(work)

    async def one(self, mint: Mint) -> backfill.HistoryJob | None:
        """Return the progress of the backfill of *mint*; None if *mint* has no backfill."""
        row = await self._read(lambda db: db.execute(JOB, (TRIES_MAX, _id(db, mint))).fetchone())
        if row is None:
            return None
        from_time, stage, *rest = row
        return backfill.HistoryJob(UnixS(from_time), backfill.Stage(stage), *rest)

    async def pools(self, mint: Mint) -> Mapping[str, int]:
        """Return the number of swaps in the log for each pool of *mint*.

        Left out are pools of the pool book with another quote than USDC, USDT or SOL.
        """

        def work(db: Database) -> Mapping[str, int]:
            mint_id = _id(db, mint)
            others = {one.pool for one in _unpriced(db, mint_id)}
            rows = db.execute(POOLS, (mint_id,))
            swaps = (swap for (blob,) in rows for swap in swaps_of(mint, blob))
            counts = Counter(swap.pool for swap in swaps if swap.pool is not None)
            return {pool: count for pool, count in counts.items() if pool not in others}

        return await self._read(work)

    async def other_quotes(self, mint: Mint) -> Sequence[Mint]:
        """Return the quotes of *mint* that a backfill cannot price, sorted; () if they are rare."""
        return await self._read(lambda db: other_quotes(db, _id(db, mint)))

    async def booked_pools(self, mint: Mint) -> Sequence[str]:
        """Return the addresses of the pools in the pool book of *mint* that a backfill can price.

        Bonding curves that a pool replaced come first, then the pools with the most volume.
        """
        return await self._read(lambda db: _booked_pools(db, _id(db, mint)))

    async def losses(self, mint: Mint, until: UnixS) -> str | None:
        """Return the reason if a join of the backfill loses candles of *mint*; otherwise None."""
        return await self._read(lambda db: losses(db, _id(db, mint), until))

    async def filled(self, gap: Gap, at: UnixMs) -> None:
        """Close *gap* at the time *at*, after the tokens traded in it were backfilled again."""
        await self._write(lambda db: db.execute(FILLED, (at, gap.first, gap.last)))


def other_quotes(db: Database, mint_id: int | None) -> Sequence[Mint]:
    """Return the quote mints that a backfill of the token *mint_id* cannot price, sorted.

    Return () if their pools have at most the share OTHERS_MAX of the volume of all pools in the
    token's pool book, over two UTC days of each pool.
    """
    others = _unpriced(db, mint_id)
    pools = booked(db.execute(BOOK, (mint_id,)).get)
    if _volume(others) <= OTHERS_MAX * _volume(pools):
        return ()
    return sorted({one.quote for one in others if one.quote is not None})


def _volume(pools: Sequence[BookedPool]) -> int:
    return sum(one.volume + one.volume_before for one in pools)


def losses(db: Database, mint_id: int | None, until: UnixS) -> str | None:
    """Return the reason if a join of a backfill loses candles that ended by *until*; else None.

    Candles of a timeframe are lost if the first candle of the backfill is more than one candle
    later than the first recorded one, and the recorded candles before it have more than the share
    EARLIER_MAX of the recorded volume or swaps.  They are also lost if the backfill lacks more than
    the share LACKING_MAX of the recorded volume.
    """
    for timeframe in Timeframe:
        width_s = WIDTH_S[timeframe]
        at = {"mint": mint_id, "timeframe": timeframe, "last": until - width_s}
        first, recorded, swaps = db.execute(RECORDED, at).get
        if first is None:
            continue
        begins, read = db.execute(REPLACING, at | {"first": first}).get
        if begins is None:
            return f"{timeframe} candles, because some were recorded; the backfill has none"
        _, volume, count = db.execute(RECORDED, at | {"last": min(begins - 1, at["last"])}).get
        is_much = (volume or 0) > EARLIER_MAX * recorded or (count or 0) > EARLIER_MAX * swaps
        if begins > first + width_s and is_much:
            return (
                f"{timeframe} candles from {_at(first)} on, because these were recorded; those of"
                f" the backfill begin at {_at(begins)}"
            )
        if read < (1 - LACKING_MAX) * recorded:
            share = read / recorded
            return (
                f"at least {1 - LACKING_MAX:.0%} of the volume that was recorded since"
                f" {_at(first)}; the backfill has {share:.0%}"
            )
    return None


def _at(time: UnixS) -> str:
    return iso_time(UnixMs(time * SECOND_MS))


def _booked_pools(db: Database, mint_id: int | None) -> Sequence[str]:
    others = {one.pool for one in _unpriced(db, mint_id)}
    pools = [one for one in booked(db.execute(BOOK, (mint_id,)).get) if one.pool not in others]
    pools.sort(key=lambda one: one.volume + one.volume_before, reverse=True)
    curves = [one.came_from for one in pools if one.came_from is not None]
    # The transactions of a pool without an address of its own cannot be listed.
    addresses = [pool for pool in (*curves, *(one.pool for one in pools)) if "+" not in pool]
    return list(dict.fromkeys(addresses))


def _unpriced(db: Database, mint_id: int | None) -> Sequence[BookedPool]:
    """Return the pools in a token's pool book whose quote is known, but not SOL, USDC or USDT.

    A backfill cannot price the swaps of these pools, because it does not read the markets of their
    quotes.
    """
    pools = booked(db.execute(BOOK, (mint_id,)).get)
    return [one for one in pools if one.quote is not None and BASIC.kind(one.quote) is None]


def _id(db: Database, mint: Mint) -> int | None:
    found: int | None = db.execute("SELECT id FROM mint WHERE address = ?", (mint,)).get
    return found


def _begun(db: Database, mint: Mint) -> int:
    """Return the id of *mint*.  Raises NoBackfill if the mint has no backfill."""
    found: int | None = db.execute(BEGUN, (mint,)).get
    if found is None:
        raise backfill.NoBackfill(mint)
    return found


def _slot(slot: Slot, rows: Sequence[tuple[int | None, bytes]]) -> backfill.BackfillSlot:
    """Return the swaps of one slot from *rows*: (time, swaps) of each transaction, in order."""
    times = [time for time, _ in rows if time is not None]
    swaps = [
        # The order of *rows* replaces the places in the block, which are known only if it was read.
        swap._replace(transaction_index=index)
        for index, (_, blob) in enumerate(rows)
        for swap in _swaps.decode(blob)
    ]
    return backfill.BackfillSlot(slot, UnixS(max(times)) if times else None, swaps)


ASK: Final = """
INSERT INTO history_ask (mint, from_time, asked_at, state)
SELECT :mint, :from_time, :now, 'asked'
 WHERE (SELECT count(*) FROM history_ask WHERE ended_at IS NULL) < :most
ON CONFLICT DO NOTHING
RETURNING id
"""
COLUMNS: Final = (
    "id, mint, from_time, asked_at, state, transactions, calls, seconds, listed, read_count, words,"
    " ended_at"
)
NEWEST: Final = f"SELECT {COLUMNS} FROM history_ask ORDER BY id DESC LIMIT ?"  # noqa: S608 - ours
CONFIRM: Final = """
UPDATE history_ask SET state = 'confirmed' WHERE id = ? AND state = 'estimated' RETURNING mint
"""
# A backfill that is being read becomes `cancelling`: ingest, which reads it, drops it.
CANCEL: Final = """
UPDATE history_ask
   SET state = CASE WHEN state = 'reading' THEN 'cancelling' ELSE 'cancelled' END,
       ended_at = CASE WHEN state = 'reading' THEN NULL ELSE CAST(:now AS bigint) END, words = ''
 WHERE id = :id AND state IN ('asked', 'estimated', 'confirmed', 'reading')
RETURNING mint
"""
ESTIMATED: Final = """
UPDATE history_ask
   SET state = 'estimated', from_time = :from_time, transactions = :transactions, calls = :calls,
       seconds = :seconds, words = ''
 WHERE id = :id AND state = 'asked'
"""
BEGAN: Final = """
UPDATE history_ask SET state = 'reading', from_time = :from_time
 WHERE id = :id AND state IN ('confirmed', 'reading')
RETURNING id
"""
PROGRESS: Final = """
UPDATE history_ask SET listed = :listed, read_count = :read, words = :words
 WHERE id = :id AND state IN ('asked', 'confirmed', 'reading')
RETURNING id
"""
END: Final = """
UPDATE history_ask SET state = :state, words = :words, ended_at = :now
 WHERE id = :id AND ended_at IS NULL
"""
FORGET: Final = """
DELETE FROM history_ask
 WHERE ended_at IS NOT NULL
   AND id NOT IN (SELECT id FROM history_ask WHERE ended_at IS NOT NULL ORDER BY id DESC LIMIT ?)
"""


class SqlBackfillJobs(SqlStore):
    """Stores requested backfills.  Every method may raise ServiceUnavailable."""

    unavailable = UNAVAILABLE
    beside = True

    async def ask(self, mint: Mint, from_time: UnixS, now: UnixMs) -> bool:
        """Request a backfill; return False if *mint* has an open one, or if OPEN_MAX are open."""
        values = {"mint": mint, "from_time": from_time, "now": now, "most": backfill.OPEN_MAX}
        return await self._write(lambda db: db.execute(ASK, values).get is not None)

    async def newest(self, limit: int) -> Sequence[backfill.BackfillJob]:
        """Return up to *limit* backfills, newest first."""
        return await self._read(lambda db: [_ask(row) for row in db.execute(NEWEST, (limit,))])

    async def confirm(self, ask_id: int) -> Mint | None:
        """Confirm the backfill, and return its mint; None if it does not wait for confirmation."""
        return await self._write(lambda db: _mint(db.execute(CONFIRM, (ask_id,)).get))

    async def cancel(self, ask_id: int, now: UnixMs) -> Mint | None:
        """Cancel the backfill, and return its mint; None if it has ended or is being cancelled."""
        values = {"id": ask_id, "now": now}
        return await self._write(lambda db: _mint(db.execute(CANCEL, values).get))

    async def first(self, *states: backfill.BackfillState) -> backfill.BackfillJob | None:
        """Return the oldest backfill whose state is one of *states*; None: no such backfill."""
        wanted = (
            f"SELECT {COLUMNS} FROM history_ask"  # noqa: S608 - ours
            f" WHERE state IN ({marks(states)}) ORDER BY id LIMIT 1"
        )
        row = await self._read(lambda db: db.execute(wanted, states).fetchone())
        return None if row is None else _ask(row)

    async def estimated(self, ask_id: int, from_time: UnixS, cost: backfill.Cost) -> None:
        """Store the estimated *cost* and start of the backfill, unless it was cancelled."""
        values = {"id": ask_id, "from_time": from_time, **cost._asdict()}
        values["seconds"] = int(cost.seconds)
        await self._write(lambda db: db.execute(ESTIMATED, values))

    async def began(self, ask_id: int, from_time: UnixS) -> bool:
        """Record that ingest begins to read the backfill; return False if it was cancelled."""
        values = {"id": ask_id, "from_time": from_time}
        return await self._write(lambda db: db.execute(BEGAN, values).get is not None)

    async def progress(self, ask_id: int, listed: int, read: int, words: str) -> bool:
        """Store the progress of a backfill; return False if it was cancelled or has ended."""
        values = {"id": ask_id, "listed": listed, "read": read, "words": words}
        return await self._write(lambda db: db.execute(PROGRESS, values).get is not None)

    async def end(
        self, ask_id: int, state: backfill.BackfillState, words: str, now: UnixMs
    ) -> None:
        """Set the final *state* of the backfill, unless it has ended.

        Delete all but the newest ENDED_MAX backfills that have ended.
        """

        def work(db: Database) -> None:
            db.execute(END, {"id": ask_id, "state": state, "words": words, "now": now})
            db.execute(FORGET, (backfill.ENDED_MAX,))

        await self._write(work)


def _mint(found: str | None) -> Mint | None:
    return None if found is None else Mint(found)


def _ask(row: Row) -> backfill.BackfillJob:
    ask_id, mint, from_time, asked_at, state, transactions, calls, seconds, *rest = row
    cost = None if calls is None else backfill.Cost(transactions, calls, seconds)
    return backfill.BackfillJob(
        ask_id, mint, from_time, asked_at, backfill.BackfillState(state), cost, *rest
    )
