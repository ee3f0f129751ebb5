"""Reads the swap log from its SQL tables."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import astuple

from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.primitives import Mint, Signature, Slot, UnixS
from mintscope.kit.sql.database import AccessInThreads, Database, DatabaseAccess, DatabaseError, Row
from mintscope.kit.time import HOUR_S
from mintscope.market import log
from mintscope.market.coverage import DAY_HOURS, WEEK_HOURS, Coverage, MissedMints, NotRead
from mintscope.market.log import CandleRow, Evidence, PricedSwap, SlotHeader
from mintscope.market.ports import CANDLES_MIN, MINUTES_S, RECENT_S, MarketOverview
from mintscope.market.sol_rate import Sample
from mintscope.market.standing import Standing
from mintscope.market.standings import pack
from mintscope.market.store.coverage import VOLUME_MAX, coverage_of, missed_mints
from mintscope.market.store.frames import Folded, with_frames
from mintscope.market.store.retention import candles_a_day
from mintscope.market.timeframe import Timeframe
from mintscope.solana.blocks import Gap


class _SwapRow(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A `PricedSwap` as it is stored, without mint and detail, which have their own columns.

    `offered` and `evidence` are left out if these and all later fields are None.  Rows that older
    versions wrote have no pool.
    """

    transaction_index: int
    outer: int
    inner: int
    leg: int
    is_buy: bool
    volume: int
    price_usd: float | None
    price_sol: float | None
    pool: str | None = None
    offered: tuple[float, float] | None = None
    evidence: Evidence | None = None


_rows: Final = msgspec.msgpack.Decoder(list[_SwapRow])
_samples: Final = msgspec.msgpack.Decoder(tuple[Sample, ...])
_mints: Final = msgspec.msgpack.Decoder(tuple[str, ...])
_encode: Final = msgspec.msgpack.Encoder().encode

# In a subquery, because SQLite limits no part of a union; older PostgreSQL requires its alias.
NEWEST: Final = """
SELECT * FROM (SELECT timeframe, bucket, open, high, low, close, buy_volume, sell_volume, count
                 FROM candle WHERE mint = :mint AND timeframe = '{timeframe}' AND count > 0
                ORDER BY bucket DESC LIMIT :limit) AS {timeframe}
"""
NEWEST_CANDLES: Final = "UNION ALL".join(
    NEWEST.format(timeframe=timeframe.value) for timeframe in Timeframe
)


def swaps_blob(swaps: Iterable[PricedSwap]) -> bytes:
    """Return the swaps of one mint and slot as bytes for one column, which `swaps_of` reads."""
    return _encode([_swap_row(swap) for swap in swaps])


def swaps_of(mint: Mint, blob: bytes) -> list[PricedSwap]:
    """Return the swaps of *mint* that are encoded in *blob*, in order."""
    return [
        PricedSwap(
            mint,
            row.transaction_index,
            row.outer,
            row.inner,
            row.leg,
            row.is_buy,
            row.volume,
            row.price_usd,
            row.price_sol,
            row.pool,
            row.offered,
            None,
            row.evidence,
        )
        for row in _rows.decode(blob)
    ]


def _swap_row(swap: PricedSwap) -> tuple[Any, ...]:
    row = (  # field by field, because this runs for each swap: `astuple` takes twice as long
        swap.transaction_index,
        swap.outer,
        swap.inner,
        swap.leg,
        swap.is_buy,
        swap.volume,
        swap.price_usd,
        swap.price_sol,
        swap.pool,
    )
    if swap.evidence is not None:
        return (*row, swap.offered, swap.evidence)
    return (*row, swap.offered) if swap.offered else row


def standing_blob(standing: Standing | None) -> bytes | None:
    """Return the pools of a mint as bytes for one column; None if *standing* is None."""
    return None if standing is None else pack(standing)


def mints_blob(mints: Iterable[Mint]) -> bytes:
    """Return the addresses *mints* as bytes in one column, which `mints_of` reads."""
    return _encode(list(mints))


def mints_of(blob: bytes) -> tuple[Mint, ...]:
    """Return the mint addresses in *blob*, the column that `mints_blob` wrote."""
    return tuple(Mint(address) for address in _mints.decode(blob))


def header_row(header: SlotHeader) -> tuple[Any, ...]:
    """Return *header* as the values of a row of the table `header`, without its column `seq`."""
    *columns, samples = astuple(header)
    return (*columns, _encode(samples))


def header_of(row: Row) -> SlotHeader:
    """Return the header of a slot from *row*, the columns that `header_row` filled."""
    slot, parent_slot, blockhash, time, sol_usd, sol_usd_time, blob = row
    samples = _samples.decode(blob)
    return SlotHeader(slot, parent_slot, blockhash, time, sol_usd, sol_usd_time, samples)


def last_seq(db: Database) -> int:
    """Return the position of the newest event of the log, 0 if it has none."""
    return int(db.execute("SELECT coalesce(max(seq), 0) FROM event").get)


def newest_candles(db: Database, mint_id: int, limit: int) -> dict[Timeframe, Sequence[CandleRow]]:
    """Return, by timeframe, up to *limit* of a mint's newest candles with a price, oldest first."""
    found: dict[Timeframe, list[CandleRow]] = {timeframe: [] for timeframe in Timeframe}
    for timeframe, *row in db.execute(NEWEST_CANDLES, {"mint": mint_id, "limit": limit}):
        found[Timeframe(timeframe)].append(CandleRow(*row))
    return {timeframe: rows[::-1] for timeframe, rows in found.items()}


READ_TIMEOUT_S: Final = 10.0

Result = TypeVar("Result")


class MarketReading:
    """Reads the database of the market while ingest writes.

    access       runs reads over a connection of its own
    timeout_s    the time limit of one read, including the wait for earlier reads

    Every read raises ServiceUnavailable if the database fails or does not answer in time.
    """

    def __init__(
        self, access: DatabaseAccess[Database], *, timeout_s: float = READ_TIMEOUT_S
    ) -> None:
        self._access = access
        self._timeout_s = timeout_s

    async def in_snapshot(self, read: Callable[[Database], Result]) -> Result:
        """Return the result of *read*, whose SQL statements all see one state of the database."""

        def in_one(db: Database) -> Result:
            with db.snapshot():
                return read(db)

        return await self.run(in_one)

    async def run(self, read: Callable[[Database], Result]) -> Result:
        """Return the result of *read*, whose SQL statements may see different states."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._access.run(read)
        except (DatabaseError, TimeoutError) as cause:
            raise ServiceUnavailable("The market data cannot be read now; try again.") from cause

    def close(self) -> None:
        """Close the connections to the database."""
        self._access.close()


KINDS_PER_HOUR_MAX: Final = 500

FORGET: Final = "DELETE FROM not_read WHERE hour <= ?"
KNOWS: Final = """
SELECT EXISTS (SELECT * FROM not_read
                WHERE hour = :hour AND program = :program AND reason = :reason AND head = :head)
    OR (SELECT count(*) FROM not_read WHERE hour = :hour) < :most
"""
ADD: Final = """
INSERT INTO not_read
VALUES (:hour, :program, :reason, :head, :time, :count, :volume, :signature)
ON CONFLICT (hour, program, reason, head) DO UPDATE SET
   time = excluded.time, count = not_read.count + excluded.count,
   volume = CASE WHEN not_read.volume + excluded.volume > :most THEN :most
                 ELSE not_read.volume + excluded.volume END,
   signature = coalesce(excluded.signature, not_read.signature)
"""
# The sum of volumes is a float: it can exceed 64 bits.
LARGEST: Final = """
WITH recent AS (
    SELECT *, row_number() OVER (PARTITION BY program, reason, head ORDER BY time DESC) AS place
      FROM not_read
     WHERE hour > coalesce((SELECT max(time) FROM header WHERE is_dead = 0), 0) / :hour_s - :hours)
SELECT program, reason, head, sum(count), sum(CAST(volume AS double precision)),
       max(CASE WHEN place = 1 THEN signature END), max(time)
  FROM recent
 GROUP BY program, reason, head
 ORDER BY 5 DESC, 4 DESC, 1, 2, 3 LIMIT :limit
"""


def add(db: Database, seen: NotRead) -> None:
    """Add *seen*, calls that could not be read as swaps, to the stored counts of their hour.

    Counts that are a week or more older are deleted.  If the hour has too many kinds of calls, a
    new kind is counted by its reason alone, under the program `other`.
    """
    hour = seen.time // HOUR_S
    kind = {"program": seen.program, "reason": seen.reason, "head": seen.head}
    db.execute(FORGET, (hour - WEEK_HOURS,))
    if not db.execute(KNOWS, {"hour": hour, "most": KINDS_PER_HOUR_MAX, **kind}).get:
        kind = {"program": "other", "reason": seen.reason, "head": ""}
    row = {"hour": hour, "time": seen.time, "count": seen.count, "signature": seen.signature}
    volume = min(seen.volume, VOLUME_MAX)
    db.execute(ADD, {**kind, **row, "volume": volume, "most": VOLUME_MAX})


def largest(db: Database, limit: int) -> list[NotRead]:
    """Return up to *limit* kinds of unread calls of 24 hours, those with the most volume first."""
    bounds = {"hour_s": HOUR_S, "hours": DAY_HOURS, "limit": limit}
    return [
        NotRead(
            time=UnixS(time),
            program=program,
            reason=reason,
            head=head,
            count=count,
            volume=min(int(volume), VOLUME_MAX),
            signature=None if signature is None else Signature(signature),
        )
        for program, reason, head, count, volume, signature, time in db.execute(LARGEST, bounds)
    ]


TIP: Final = """
SELECT (SELECT coalesce(max(seq), 0) FROM event), slot, time, follows_files,
       finalized_slot, folded_slot, genesis_hash
  FROM progress LEFT JOIN header
    ON header.seq = (SELECT max(seq) FROM header WHERE is_dead = 0)
"""

# The number of a tracked mint, its data that are single values, the newest event, the newest folded
# event, and the time of the newest final slot: "now" may step back to it if all newer slots die.
STANDS: Final = """
SELECT id, since_slot, (SELECT state FROM state WHERE mint = mint.id),
       (SELECT imported_from FROM state WHERE mint = mint.id),
       (SELECT coalesce(max(seq), 0) FROM event), (SELECT folded_seq FROM progress),
       (SELECT time FROM header JOIN progress ON slot = finalized_slot WHERE is_dead = 0)
  FROM mint WHERE address = ? AND since_slot IS NOT NULL
"""

SECONDS: Final = """
SELECT min(slot), time
  FROM header
 WHERE is_dead = 0
   AND time > (SELECT max(time) FROM header WHERE is_dead = 0) - ?
 GROUP BY time
 ORDER BY time
"""

EVENTS: Final = """
SELECT seq, kind, event.slot, mints,
       header.slot, parent_slot, blockhash, time, sol_usd, sol_usd_time, samples
  FROM event LEFT JOIN header USING (seq)
 WHERE seq > ?
 ORDER BY seq
 LIMIT ?
"""

# Addresses are looked up one by one: PostgreSQL would begin a join by reading all mints.
SWAPS: Final = """
SELECT seq, (SELECT address FROM mint WHERE mint.id = swap.mint), swaps, deciding
  FROM swap WHERE seq BETWEEN ? AND ?
"""

MINUTES: Final = """
SELECT bucket, buy_volume, sell_volume
  FROM candle
 WHERE mint = ? AND timeframe = 'm1' AND bucket >= ? AND buy_volume + sell_volume > 0
 ORDER BY bucket
"""

# The index `swap_by_mint` has all columns of `swap` that the query needs, so no row of `swap` is
# read.  The unary plus signs keep SQLite from reading the table `header` first.
FOLDED_SECONDS: Final = """
SELECT max(slot), time, sum(bought), sum(sold)
  FROM swap JOIN header USING (seq)
 WHERE swap.mint = :mint
   AND +is_dead = 0
   AND +slot > :since
   AND seq <= :folded
   AND +time >= :recent
 GROUP BY time
 ORDER BY time
"""

# The pools of a mint: after the newest folded slot that changed them (if it is no longer stored:
# TRIMMED_STANDING), and after each later slot that changed them.
TRIMMED_STANDING: Final = "SELECT -1, deciding FROM deciding_pool WHERE mint = :mint"
FOLDED_STANDING: Final = """
SELECT slot, deciding
  FROM swap JOIN header USING (seq)
 WHERE swap.mint = :mint
   AND +is_dead = 0
   AND deciding IS NOT NULL
   AND seq <= :folded
 ORDER BY seq DESC
 LIMIT 1
"""
NEWER_STANDINGS: Final = """
SELECT slot, deciding
  FROM swap JOIN header USING (seq)
 WHERE swap.mint = :mint
   AND +is_dead = 0
   AND deciding IS NOT NULL
   AND seq > :folded
 ORDER BY seq
"""

NOT_FOLDED: Final = """
SELECT slot, time, swaps
  FROM swap JOIN header USING (seq)
 WHERE swap.mint = :mint
   AND +is_dead = 0
   AND +slot > :since
   AND seq > :folded
 ORDER BY seq
"""


# The newest block, the checkpoint of the finalized fold, and whether blocks come from files.
STANDING: Final = """
SELECT header.slot, header.time, progress.folded_slot, progress.follows_files
  FROM progress LEFT JOIN header ON header.seq =
       (SELECT max(seq) FROM header WHERE is_dead = 0)
"""
TRACKED_COUNT: Final = "SELECT count(*) FROM mint WHERE since_slot IS NOT NULL"
GAPS: Final = """
SELECT count(*), coalesce(sum(last - first + 1), 0), max(last), count(given_up_at)
  FROM gap WHERE filled_at IS NULL
"""
NEWEST_GAPS: Final = """
SELECT first, last,
       reason || CASE WHEN given_up_at IS NOT NULL THEN '; mending it was given up'
                      WHEN attempts = 1 THEN '; 1 attempt to mend it was in vain'
                      WHEN attempts > 1 THEN
                           '; ' || attempts || ' attempts to mend it were in vain'
                      ELSE '' END
  FROM gap WHERE filled_at IS NULL ORDER BY last DESC, first DESC LIMIT ?
"""


class SqlLogReader:
    """Reads the swap log and the coverage from SQL; call `close` when done.

    access    runs reads in one thread
    version   returns a number that changes with each commit, and takes less time than `tip_of`;
              None: there is no such number

    Every method may raise ServiceUnavailable, and also UnusableStore, because the first read opens
    the database.
    """

    def __init__(
        self, access: AccessInThreads[Database], version: Callable[[Database], int] | None = None
    ) -> None:
        self._reading = MarketReading(access)
        self._version = version
        self._tip: tuple[int, log.LogTip] | None = None

    async def tip(self) -> log.LogTip:
        """Return the newest position of the log; with `version`, read it only after a commit."""
        return await self._reading.run(self._read_tip)

    async def events(self, after_seq: int, limit: int) -> Sequence[log.Event]:
        """Return up to *limit* log events after position *after_seq*, oldest first."""
        return await self._reading.in_snapshot(lambda db: _events(db, after_seq, limit))

    async def tracked(self) -> tuple[int, frozenset[Mint]]:
        """Return the position of the newest event, and the mints that are tracked after it."""
        return await self._reading.in_snapshot(_tracked)

    async def seconds(self, span_s: int) -> Sequence[tuple[Slot, UnixS]]:
        """Return (slot, time) of the first slot in each of the last *span_s* seconds, in order."""
        return await self._reading.run(
            lambda db: [(Slot(slot), UnixS(time)) for slot, time in db.execute(SECONDS, (span_s,))]
        )

    async def load(self, mint: Mint, timeframes: Collection[str] = ()) -> log.LoadedMint | None:
        """Return the stored data of *mint*; None if it is not tracked.

        timeframes   further timeframes to load, such as m30; each is an `AskedFrame`
        """
        return await self._reading.in_snapshot(lambda db: _load(db, mint, timeframes))

    async def overview(self) -> MarketOverview:
        """Return the position of the market, its gaps and mints.  Raises ServiceUnavailable."""
        return await self._reading.in_snapshot(_overview)

    async def gaps(self, limit: int) -> Sequence[Gap]:
        """Return up to *limit* open gaps, newest first.  Raises ServiceUnavailable.

        The reason of a gap states whether attempts to fill it failed.
        """
        return await self._reading.in_snapshot(
            lambda db: [Gap(*row) for row in db.execute(NEWEST_GAPS, (limit,))]
        )

    async def not_read(self, limit: int) -> Sequence[NotRead]:
        """Return up to *limit* kinds of calls not read in 24 hours, by falling volume."""
        return await self._reading.in_snapshot(lambda db: largest(db, limit))

    async def coverage(self, hours: int) -> Coverage | None:
        """Return the exchanges read and missed in the newest *hours* hours, at most a week.

        None before the first block.
        """
        return await self._reading.in_snapshot(lambda db: coverage_of(db, hours))

    async def missed_mints(self) -> MissedMints:
        """Return the mints of which calls were missed in the newest WINDOW_HOURS hours."""
        return await self._reading.in_snapshot(missed_mints)

    async def close(self) -> None:
        """Close the database and stop the thread."""
        self._reading.close()

    def _read_tip(self, db: Database) -> log.LogTip:
        # Read before the tip: after a commit in between, the next call reads the tip again.
        version = None if self._version is None else self._version(db)
        if version is not None and self._tip is not None and self._tip[0] == version:
            return self._tip[1]
        tip = tip_of(db)
        if version is not None:
            self._tip = (version, tip)
        return tip


def tip_of(db: Database) -> log.LogTip:
    """Return the newest position of the log, read with a single SQL statement."""
    seq, slot, time, follows_files, final, folded, genesis_hash = db.execute(TIP).get
    return log.LogTip(
        seq=seq,
        slot=slot,
        time=time,
        follows_files=bool(follows_files),
        final=final,
        genesis_hash=genesis_hash,
        folded=folded,
    )


def _overview(db: Database) -> MarketOverview:
    slot, time, folded_slot, follows_files = db.execute(STANDING).get
    gap_count, gap_slots, newest_gap, given_up = db.execute(GAPS).get
    tracked_count = db.execute(TRACKED_COUNT).get
    standing = (slot, time, folded_slot, bool(follows_files), tracked_count)
    added = candles_a_day(db, time, tracked_count)
    return MarketOverview(*standing, gap_count, gap_slots, newest_gap, added, given_up)


def _events(db: Database, after_seq: int, limit: int) -> list[log.Event]:
    if after_seq < db.execute("SELECT trimmed_seq FROM progress").get:
        raise log.LogTrimmed(f"expected events after {after_seq}; they are no longer kept")
    rows = list(db.execute(EVENTS, (after_seq, limit)))
    if not rows:
        return []
    swaps: dict[int, list[log.PricedSwap]] = {}
    standings: dict[int, dict[Mint, bytes]] = {}
    for seq, address, blob, standing in db.execute(SWAPS, (rows[0][0], rows[-1][0])):
        swaps.setdefault(seq, []).extend(swaps_of(Mint(address), blob))
        if standing is not None:
            standings.setdefault(seq, {})[Mint(address)] = standing
    return [_event(row, swaps, standings) for row in rows]


def _event(
    row: Row,
    swaps: Mapping[int, Sequence[log.PricedSwap]],
    standings: Mapping[int, Mapping[Mint, bytes]],
) -> log.Event:
    seq, kind, slot, mints, *header = row
    match kind:
        case "append":
            in_order = tuple(sorted(swaps.get(seq, ()), key=_position))
            return log.Appended(seq, header_of(tuple(header)), in_order, standings.get(seq, {}))
        case "finalize":
            return log.SlotFinalized(seq, Slot(slot))
        case "retract":
            return log.Retracted(seq, Slot(slot), mints_of(mints))
        case "track":
            return log.Tracked(seq, mints_of(mints)[0])
        case _:
            return log.Untracked(seq, mints_of(mints)[0])


def _position(swap: log.PricedSwap) -> tuple[int, int, int, int]:
    return (swap.transaction_index, swap.outer, swap.inner, swap.leg)


def _tracked(db: Database) -> tuple[int, frozenset[Mint]]:
    rows = db.execute("SELECT address FROM mint WHERE since_slot IS NOT NULL")
    return last_seq(db), frozenset(Mint(address) for (address,) in rows)


def _load(db: Database, mint: Mint, timeframes: Collection[str]) -> log.LoadedMint | None:
    found = db.execute(STANDS, (mint,)).fetchone()
    if found is None:
        return None
    mint_id, since_slot, state, imported_from, seq, folded_seq, final = found
    final = UnixS(final or 0)
    bounds = {
        "mint": mint_id,
        "since": since_slot,
        "recent": final - RECENT_S,
        "folded": folded_seq,
    }
    loaded = log.LoadedMint(
        mint=mint,
        seq=seq,
        state=state,
        candles=newest_candles(db, mint_id, CANDLES_MIN),
        minutes=[
            (at, bought, sold)
            for at, bought, sold in db.execute(MINUTES, (mint_id, final - MINUTES_S))
        ],
        tail=tail_of(db, mint, bounds),
        imported_from=imported_from,
        standings=[
            *folded_standing(db, mint_id, folded_seq),
            *((Slot(slot), packed) for slot, packed in db.execute(NEWER_STANDINGS, bounds)),
        ],
    )
    held = Folded(mint_id, folded_seq, since_slot, final - RECENT_S)
    return with_frames(db, loaded, held, timeframes)


def folded_standing(db: Database, mint_id: int, seq: int | None) -> list[tuple[Slot, bytes]]:
    """Return [(slot, packed pools of a mint after it)] as of event *seq*; [] without pools.

    The slot is -1 if it is no longer stored.
    """
    bounds = {"mint": mint_id, "folded": seq}
    rows = list(db.execute(FOLDED_STANDING, bounds)) or list(db.execute(TRIMMED_STANDING, bounds))
    return [(Slot(slot), packed) for slot, packed in rows]


def tail_of(
    db: Database,
    mint: Mint,
    bounds: Mapping[str, int],
    folded: str = FOLDED_SECONDS,
    ahead: str = NOT_FOLDED,
) -> list[log.TailSwap]:
    """Return the newest swaps of *mint* in order; those that are folded are summed by second.

    bounds   the values of the parameters of both statements
    folded   the SQL statement that reads the volumes of seconds that are folded
    ahead    the SQL statement that reads the swaps that are not folded yet
    """
    seconds = [
        log.TailSwap(slot, time, folded=True, swap=swap)
        for slot, time, *volumes in db.execute(folded, bounds)
        for swap in _volume_swaps(mint, volumes)
    ]
    swaps = [
        log.TailSwap(slot, time, folded=False, swap=swap)
        for slot, time, blob in db.execute(ahead, bounds)
        for swap in swaps_of(mint, blob)
    ]
    return seconds + swaps


def _volume_swaps(mint: Mint, volumes: Iterable[int]) -> list[log.PricedSwap]:
    """Return a buy and a sell of *mint* with *volumes*, (bought, sold); none for a volume of 0."""
    return [
        log.PricedSwap(mint, 0, 0, -1, 0, is_buy, volume, None, None)
        for is_buy, volume in zip((True, False), volumes, strict=True)
        if volume
    ]
