"""Reads the data of a token list from SQL, and stores snapshots of the list.

A snapshot is a row, and its pieces are rows of another table.  Ingest writes to the same database,
so each piece is stored in a transaction of its own, which takes little time.
"""

from array import array
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain, groupby, pairwise
from operator import itemgetter
from typing import Any, Final

import msgspec
import numpy as np

from mintscope.kit.errors import TokenNotFound
from mintscope.kit.primitives import Mint, UnixMs, UnixS
from mintscope.kit.sql.database import AccessInThreads, Database
from mintscope.kit.time import DAY_MS, MINUTE_MS
from mintscope.market.engine.frames import WAYPOINT_EVERY
from mintscope.market.engine.kernels import ACC, AGES
from mintscope.market.engine.recent import READ_BACK
from mintscope.market.log import LogTrimmed, signer_number
from mintscope.market.mint_facts import MintFacts
from mintscope.market.screening.columns import D1, H1, M5
from mintscope.market.screening.snapshot import (
    FactPlace,
    FoldedTo,
    MintAsFolded,
    MintPage,
    MintTrades,
    MinuteVolume,
    PartVolume,
    RecentCandles,
    SlotTrades,
    SnapshotMark,
)
from mintscope.market.store.log_reader import MarketReading, mints_of, swaps_of
from mintscope.market.timeframe import TIMEFRAMES, Timeframe

FOLDED: Final = """
SELECT folded_seq, slot, time, (SELECT coalesce(max(seq), 0) FROM event), trimmed_seq
  FROM progress LEFT JOIN header ON header.seq = folded_seq
"""

LAST_OF_PAGE: Final = """
SELECT max(id) FROM (
    SELECT id FROM mint WHERE id > ? AND since_slot IS NOT NULL ORDER BY id LIMIT ?) AS page
"""
NUMBER: Final = "SELECT id FROM mint WHERE address = ? AND since_slot IS NOT NULL"

# The newest price of a mint before some time, without imported candles.  Minutes are kept for
# more than a day, and the newest hundred minutes whatever their age; an older price is in a wider
# candle that ended before that time.
BEFORE: Final = """
(SELECT close FROM candle
  WHERE mint = id AND timeframe = '{timeframe}' AND count > 0 AND provider IS NULL
    AND bucket <= {moment} - {width}
  ORDER BY bucket DESC LIMIT 1)
"""


def _before(moment: str, *timeframes: tuple[str, int]) -> str:
    found = [
        BEFORE.format(moment=moment, timeframe=timeframe, width=width)
        for timeframe, width in timeframes
    ]
    return found[0] if len(found) == 1 else f"coalesce({', '.join(found)})"


M1: Final = ("m1", 60)
# Minutes are kept for more than a day, so a first price younger than a day is still stored.
FIRST_USD: Final = """
(SELECT open FROM candle
  WHERE mint = id AND timeframe = 'm1' AND count > 0 AND provider IS NULL
  ORDER BY bucket LIMIT 1)
"""
# The pools of a mint after the newest folded slot that changed them.  Headers are read one by one,
# because both databases would begin a join by reading all headers.
STANDING: Final = """
coalesce(
    (SELECT deciding FROM swap
      WHERE swap.mint = mint.id AND deciding IS NOT NULL
        AND seq <= (SELECT folded_seq FROM progress)
        AND (SELECT is_dead FROM header WHERE header.seq = swap.seq) = 0
      ORDER BY seq DESC LIMIT 1),
    (SELECT deciding FROM deciding_pool WHERE deciding_pool.mint = mint.id))
"""
MINTS: Final = f"""
SELECT id, address, since_time, state.state, facts, {FIRST_USD}, {STANDING},
       {_before(":five", M1)}, {_before(":hour", M1)},
       {_before(":day", M1, ("m5", 300), ("m15", 900), ("h1", 3600))}
  FROM mint LEFT JOIN state ON state.mint = id LEFT JOIN mint_fact ON mint_fact.mint = id
 WHERE id BETWEEN :first AND :last AND since_slot IS NOT NULL ORDER BY id
"""  # noqa: S608 - constants

# These queries read one mint at a time: for a range of mints, SQLite would read all candles,
# however old.  MATERIALIZED is needed because PostgreSQL without statistics would read all mints
# for each page.
MINTS_OF_PAGE: Final = """
page AS MATERIALIZED (
    SELECT id FROM mint WHERE id BETWEEN :first AND :last AND since_slot IS NOT NULL)
"""
MINUTES: Final = f"""
WITH {MINTS_OF_PAGE}
SELECT candle.mint, bucket, buy_volume + sell_volume, buy_volume, close
  FROM page CROSS JOIN candle
 WHERE candle.mint = id AND timeframe = 'm1' AND bucket >= :hour AND provider IS NULL
 ORDER BY candle.mint, bucket
"""  # noqa: S608 - constants
PARTS: Final = f"""
WITH {MINTS_OF_PAGE},
part AS (
    SELECT candle.mint AS mint, bucket / {D1.part_s} AS number,
           CAST(sum(buy_volume + sell_volume) AS bigint) AS volume,
           CAST(sum(count) AS bigint) AS swaps,
           max(CASE WHEN count > 0 THEN bucket END) AS newest
      FROM page CROSS JOIN candle
     WHERE candle.mint = id AND timeframe = 'm1' AND bucket >= :day AND provider IS NULL
     GROUP BY candle.mint, bucket / {D1.part_s})
SELECT part.mint, number, volume, swaps, close
  FROM part LEFT JOIN candle
    ON candle.mint = part.mint AND timeframe = 'm1' AND bucket = newest
 ORDER BY part.mint, number
"""  # noqa: S608 - constants

# Reads the newest AGES closed candles and the open one, from the newest waypoint before them on.
# Without a waypoint, it reads WAYPOINT_EVERY more candles, or all if there are fewer.
# MATERIALIZED and CROSS JOIN keep SQLite from reading all candles of a mint first.
RECENT: Final = f"""
WITH place AS MATERIALIZED (
    SELECT id, (SELECT bucket FROM candle
                 WHERE mint = id AND timeframe = :timeframe AND count > 0
                 ORDER BY bucket DESC LIMIT 1 OFFSET {AGES}) AS newest,
           (SELECT bucket FROM candle
             WHERE mint = id AND timeframe = :timeframe AND count > 0
             ORDER BY bucket DESC LIMIT 1 OFFSET {AGES + WAYPOINT_EVERY}) AS oldest
      FROM mint WHERE id BETWEEN :first AND :last AND since_slot IS NOT NULL),
base AS MATERIALIZED (
    SELECT id, coalesce(
               (SELECT max(bucket) FROM waypoint
                 WHERE mint = id AND timeframe = :timeframe AND bucket <= newest),
               oldest, 0) AS since
      FROM place)
SELECT candle.mint, close, closed, acc
  FROM base
  LEFT JOIN waypoint ON waypoint.mint = id AND waypoint.timeframe = :timeframe
                    AND waypoint.bucket = since
 CROSS JOIN candle
 WHERE candle.mint = id AND candle.timeframe = :timeframe
   AND candle.bucket >= since AND count > 0
 ORDER BY candle.mint, candle.bucket
"""  # noqa: S608 - constants

# Reads the newest READ_BACK closed candles and the open one, or all if there are fewer.  They are
# in any order: sorting in SQLite would double the time.
CLOSED_COLUMNS: Final = 5
CLOSED: Final = f"""
WITH place AS MATERIALIZED (
    SELECT id, coalesce((SELECT bucket FROM candle
                          WHERE mint = id AND timeframe = :timeframe AND count > 0
                          ORDER BY bucket DESC LIMIT 1 OFFSET {READ_BACK}), 0) AS since
      FROM mint WHERE id BETWEEN :first AND :last AND since_slot IS NOT NULL)
SELECT candle.mint, candle.bucket, high, low, close
  FROM place CROSS JOIN candle
 WHERE candle.mint = id AND candle.timeframe = :timeframe
   AND candle.bucket >= since AND count > 0
"""  # noqa: S608 - constants

SLOTS: Final = """
SELECT seq, slot, time FROM header WHERE seq > ? AND seq <= ? AND is_dead = 0 ORDER BY seq LIMIT ?
"""
# Mints are read one by one: PostgreSQL would begin a join by reading all mints.
SWAPS: Final = """
WITH logged AS MATERIALIZED (
    SELECT (SELECT CASE WHEN since_slot < :slot THEN address END
              FROM mint WHERE mint.id = swap.mint) AS address,
           bought, bought + sold AS volume, swaps, deciding
      FROM swap WHERE seq = :seq)
SELECT * FROM logged WHERE address IS NOT NULL
"""

TRACKED: Final = """
SELECT mints FROM event WHERE seq > ? AND seq <= ? AND kind IN ('track', 'untrack')
"""

FACTS: Final = """
SELECT read_at_ms, address, facts FROM mint_fact JOIN mint ON mint.id = mint_fact.mint
 WHERE (read_at_ms > :at OR (read_at_ms = :at AND address > :mint))
   AND facts IS NOT NULL AND since_slot IS NOT NULL
 ORDER BY read_at_ms, address LIMIT :limit
"""
FACTS_OF: Final = """
SELECT facts FROM mint LEFT JOIN mint_fact ON mint_fact.mint = id
 WHERE address = ? AND since_slot IS NOT NULL
"""


READ_TIMEOUT_S: Final = 30.0  # a list is not urgent, and its first load is large
SLOTS_MAX: Final = 100

_facts: Final = msgspec.json.Decoder(MintFacts)


class SqlListReader:
    """Reads the data of the token list from SQL; call `close` when done."""

    def __init__(self, access: AccessInThreads[Database]) -> None:
        self._reading = MarketReading(access, timeout_s=READ_TIMEOUT_S)

    async def folded(self) -> tuple[FoldedTo, int]:
        """Return the newest folded event, and the position of the newest event of the log."""

        def read(db: Database) -> tuple[FoldedTo, int]:
            *folded, newest, _ = db.execute(FOLDED).get
            return FoldedTo(*folded), newest

        return await self._reading.in_snapshot(read)

    async def mints(self, after: int, limit: int) -> MintPage:
        """Return a page of up to *limit* tracked mints with their stored data.

        after   the field `last` of the previous page; 0: the first page
        """

        def read(db: Database) -> MintPage:
            last = db.execute(LAST_OF_PAGE, (after, limit)).get
            found = [] if last is None else _mints(db, after + 1, last)
            return MintPage(folded=_folded(db), mints=found, last=last or after)

        return await self._reading.in_snapshot(read)

    async def some(self, mints: Sequence[Mint]) -> MintPage:
        """Return the stored data of *mints*; those that are not tracked are left out."""

        def read(db: Database) -> MintPage:
            numbers = [db.execute(NUMBER, (mint,)).get for mint in mints]
            known = [number for number in numbers if number is not None]
            found = [one for number in known for one in _mints(db, number, number)]
            return MintPage(folded=_folded(db), mints=found, last=0)

        return await self._reading.in_snapshot(read)

    async def trades(self, after_seq: int, until_seq: int, limit: int) -> Sequence[SlotTrades]:
        """Return the trades in the log after position *after_seq*, slot by slot, oldest first.

        until_seq   the last log event to read; it must be folded
        limit       no further slot is returned once there are this many trades

        Raises LogTrimmed if the first of the slots is no longer stored.
        """
        return await self._reading.in_snapshot(lambda db: _trades(db, after_seq, until_seq, limit))

    async def tracked(self, after_seq: int, until_seq: int) -> Sequence[Mint]:
        """Return the mints that began or ceased to be tracked in a part of the log.

        The part begins after position *after_seq* and ends with *until_seq*.
        """

        def read(db: Database) -> Sequence[Mint]:
            _expect_kept(db, after_seq)
            rows = db.execute(TRACKED, (after_seq, until_seq))
            return list(dict.fromkeys(mints_of(blob)[0] for (blob,) in rows))

        return await self._reading.in_snapshot(read)

    async def facts_after(
        self, place: FactPlace, limit: int
    ) -> Sequence[tuple[FactPlace, MintFacts]]:
        """Return up to *limit* facts of tracked mints that were read from a node after *place*.

        They are in the order in which they were read, each with its own place.
        """
        values = {"at": place.read_at_ms, "mint": place.mint, "limit": limit}
        rows = await self._reading.in_snapshot(lambda db: list(db.execute(FACTS, values)))
        return [(FactPlace(at, Mint(mint)), _facts.decode(kept)) for at, mint, kept in rows]

    async def facts_of(self, mint: Mint) -> MintFacts | None:
        """Return the stored facts of *mint*, such as its name and supply; None if none are stored.

        Raises TokenNotFound if it is not tracked.
        """
        found = await self._reading.in_snapshot(lambda db: db.execute(FACTS_OF, (mint,)).fetchone())
        if found is None:
            raise TokenNotFound(f"This service does not track {mint}.")
        (kept,) = found
        return None if kept is None else _facts.decode(kept)

    async def close(self) -> None:
        """Close the database and stop the thread."""
        self._reading.close()


def _folded(db: Database) -> FoldedTo:
    seq, slot, time, *_ = db.execute(FOLDED).get
    return FoldedTo(seq, slot, time)


def _mints(db: Database, first: int, last: int) -> list[MintAsFolded]:
    """Return the stored data of the tracked mints whose ids are from *first* to *last*."""
    now = _folded(db).time or UnixS(0)
    numbers: dict[str, int] = {"first": first, "last": last}
    moments: dict[str, int] = {"five": M5.start(now), "hour": H1.start(now), "day": D1.start(now)}
    minutes: dict[int, list[MinuteVolume]] = defaultdict(list)
    for number, *minute in db.execute(MINUTES, numbers | {"hour": moments["hour"]}):
        minutes[number].append(MinuteVolume(*minute))
    parts: dict[int, list[PartVolume]] = defaultdict(list)
    for number, *part in db.execute(PARTS, numbers | {"day": moments["day"]}):
        parts[number].append(PartVolume(*part))
    recent = _recent(db, numbers)
    newest = _newest(db, numbers)
    return [
        MintAsFolded(
            mint=Mint(address),
            since=since,
            state=state,
            facts=None if facts is None else _facts.decode(facts),
            before=tuple(before),
            minutes=minutes[number],
            parts=parts[number],
            first_usd=first_usd,
            standing=standing,
            recent=recent.get(number, {}),
            newest=newest.get(number, {}),
        )
        for number, address, since, state, facts, first_usd, standing, *before in db.execute(
            MINTS, numbers | moments
        )
    ]


def _recent(
    db: Database, numbers: Mapping[str, int]
) -> Mapping[int, dict[Timeframe, RecentCandles]]:
    """Return the closing prices of the newest closed candles, by mint id and timeframe.

    numbers   the least and the greatest id of a mint to read: `first` and `last`
    """
    found: dict[int, dict[Timeframe, RecentCandles]] = defaultdict(dict)
    for timeframe in TIMEFRAMES:
        rows = db.execute(RECENT, {**numbers, "timeframe": timeframe})
        for number, group in groupby(rows, itemgetter(0)):
            (_, _, closed, acc), *_ = candles = list(group)
            closes = array("d", [row[1] for row in candles[:-1]]).tobytes()  # the newest is open
            found[number][timeframe] = RecentCandles(closed or 0, acc or bytes(8 * ACC), closes)
    return found


def _newest(db: Database, numbers: Mapping[str, int]) -> Mapping[int, dict[Timeframe, bytes]]:
    """Return high, low and close of the newest closed candles, packed, by mint id and timeframe.

    numbers   the least and the greatest id of a mint to read: `first` and `last`
    """
    found: dict[int, dict[Timeframe, bytes]] = defaultdict(dict)
    for timeframe in TIMEFRAMES:
        rows = db.execute(CLOSED, {**numbers, "timeframe": timeframe})
        # There are hundreds of candles for each mint, so no Python code runs for single candles.
        # The numbers of mints and the buckets are exact as floats.
        candles = np.fromiter(chain.from_iterable(rows), np.float64).reshape(-1, CLOSED_COLUMNS)
        candles = candles[np.lexsort((candles[:, 1], candles[:, 0]))]
        begins = np.flatnonzero(np.diff(candles[:, 0], prepend=np.nan))
        for begin, end in pairwise([*begins.tolist(), len(candles)]):
            closed = candles[begin : end - 1, 2:]  # the newest candle is open
            found[int(candles[begin, 0])][timeframe] = closed.tobytes()
    return found


def _trades(db: Database, after_seq: int, until_seq: int, limit: int) -> list[SlotTrades]:
    _expect_kept(db, after_seq)
    slots: list[SlotTrades] = []
    count = 0
    # Slots are not divided, so the trades of the last one may exceed *limit*.
    for seq, slot, time in db.execute(SLOTS, (after_seq, until_seq, SLOTS_MAX)):
        if count >= limit:
            break
        trades = [_trade(row) for row in db.execute(SWAPS, {"seq": seq, "slot": slot})]
        slots.append(SlotTrades(FoldedTo(seq, slot, time), trades))
        count += len(trades)
    return slots


def _trade(row: Any) -> MintTrades:
    address, bought, volume, blob, standing = row
    mint = Mint(address)
    swaps = swaps_of(mint, blob)
    signers = {swap.evidence.signer for swap in swaps if swap.evidence and swap.evidence.signer}
    numbers = tuple(sorted(map(signer_number, signers)))
    priced = [swap for swap in swaps if swap.price_usd is not None]
    if not priced:
        return MintTrades(mint, volume, bought, 0, None, None, standing=standing, signers=numbers)
    newest = priced[-1]
    first_usd = priced[0].price_usd
    usd = [swap.price_usd for swap in priced if swap.price_usd is not None]
    prices = (newest.price_usd, newest.price_sol, first_usd)
    return MintTrades(
        mint, volume, bought, len(priced), *prices, standing, max(usd), min(usd), numbers
    )


def _expect_kept(db: Database, after_seq: int) -> None:
    trimmed = db.execute(FOLDED).get[-1]
    if after_seq < trimmed:
        raise LogTrimmed(f"expected events after {after_seq}; they are no longer kept")


WRITE_TIMEOUT_S: Final = 30.0
# If a snapshot is still incomplete after this time, its process is assumed to have ended.
LEFT_BEHIND_MS: Final = 5 * MINUTE_MS
PIECES_A_STEP: Final = 4
OLDEST_PART: Final = 3  # a snapshot is due if the newest one is in the oldest third of the log

NEWEST: Final = """
SELECT number, form, folded_seq, piece_count FROM list_snapshot
 WHERE piece_count IS NOT NULL AND form = ? ORDER BY number DESC LIMIT 1
"""
# The count of mints stops at :mints_min, so it takes the same time for any number of mints.
DUE: Final = f"""
SELECT folded_seq > 0
       AND (SELECT count(*) FROM (
                SELECT id FROM mint WHERE since_slot IS NOT NULL LIMIT :mints_min) AS followed)
           >= :mints_min
       AND coalesce((
               SELECT folded_seq FROM list_snapshot
                WHERE piece_count IS NOT NULL AND form = :form ORDER BY number DESC LIMIT 1), -1)
           < trimmed_seq + (folded_seq - trimmed_seq) / {OLDEST_PART}
  FROM progress
"""  # noqa: S608 - constants
PIECE: Final = "SELECT content FROM list_snapshot_piece WHERE snapshot = ? AND place = ?"
UNDER_WAY: Final = """
SELECT coalesce(max(number), 0),
       coalesce(max(CASE WHEN piece_count IS NULL THEN begun_at END), 0)
  FROM list_snapshot
"""
BEGIN: Final = """
INSERT INTO list_snapshot (number, begun_at) VALUES (?, ?) ON CONFLICT DO NOTHING RETURNING number
"""
ADD: Final = "INSERT INTO list_snapshot_piece (snapshot, place, content) VALUES (?, ?, ?)"
END: Final = """
UPDATE list_snapshot SET form = ?, folded_seq = ?, piece_count = ? WHERE number = ?
"""
# Pieces of deleted snapshots, also those that a process stored after the deletion.
OLDER: Final = """
SELECT snapshot, place FROM list_snapshot_piece
 WHERE snapshot < ? AND NOT EXISTS (SELECT 1 FROM list_snapshot WHERE number = snapshot)
 ORDER BY snapshot, place LIMIT ?
"""
DROP_PIECE: Final = "DELETE FROM list_snapshot_piece WHERE snapshot = ? AND place = ?"
# During an upgrade api processes of two versions run, and each starts from snapshots of its own
# form, so older ones of other forms are deleted only after a day.
DROP: Final = f"""
DELETE FROM list_snapshot
 WHERE number < :number
   AND (piece_count IS NULL OR form = :form OR begun_at < (
        SELECT newest.begun_at - {DAY_MS} FROM list_snapshot AS newest
         WHERE newest.number = :number))
"""  # noqa: S608 - constants


class SqlListSnapshots:
    """Stores snapshots of the token list in SQL; call `close` when done."""

    def __init__(
        self, reading: AccessInThreads[Database], writing: AccessInThreads[Database]
    ) -> None:
        """Read snapshots with *reading*; write them with *writing*, which connects on first use."""
        self._reading = MarketReading(reading, timeout_s=WRITE_TIMEOUT_S)
        self._writing = MarketReading(writing, timeout_s=WRITE_TIMEOUT_S)

    async def newest(self, form: str) -> SnapshotMark | None:
        """Return the newest complete snapshot of the format *form*; None if there is none."""
        found = await self._reading.run(lambda db: db.execute(NEWEST, (form,)).fetchone())
        return None if found is None else SnapshotMark(*found)

    async def is_due(self, form: str, mints_min: int) -> bool:
        """Return whether a new snapshot of the format *form* is needed.

        True if the newest one is in the oldest third of the log, which may soon be deleted, or if
        there is none; always False while fewer than *mints_min* mints are tracked, or nothing was
        folded.
        """
        values = {"form": form, "mints_min": mints_min}
        return bool(await self._reading.run(lambda db: db.execute(DUE, values).get))

    async def piece(self, number: int, place: int) -> bytes | None:
        """Return the piece at index *place* of a stored snapshot; None if it was replaced.

        number   the number of the snapshot
        """
        found: bytes | None = await self._reading.run(
            lambda db: db.execute(PIECE, (number, place)).get
        )
        return found

    async def begin(self, now: UnixMs) -> int | None:
        """Begin a snapshot at the time *now* and return its number.

        None while another process stores one.
        """

        def begin(db: Database) -> int | None:
            with db.transaction(beside=True):
                newest, begun_at = db.execute(UNDER_WAY).get
                if now - begun_at < LEFT_BEHIND_MS:
                    return None
                # On PostgreSQL two processes may read the same *newest*: one then inserts no row.
                number: int | None = db.execute(BEGIN, (newest + 1, now)).get
                return number

        return await self._writing.run(begin)

    async def add(self, number: int, place: int, piece: bytes) -> None:
        """Store a piece of a snapshot of the token list.

        number   the number of the snapshot, which `begin` has returned
        place    the index of the piece in the snapshot
        """

        def add(db: Database) -> None:
            with db.transaction(beside=True):
                db.execute(ADD, (number, place, piece))

        await self._writing.run(add)

    async def end(self, mark: SnapshotMark) -> None:
        """Make a stored snapshot the newest one, and delete older snapshots of the same format.

        Older snapshots of other formats are kept for a day, because other versions read them.

        mark   describes the snapshot, of which all pieces are stored
        """

        def end(db: Database) -> None:
            with db.transaction(beside=True):
                db.execute(END, (mark.form, mark.folded_seq, mark.piece_count, mark.number))
                db.execute(DROP, {"number": mark.number, "form": mark.form})

        def drop(db: Database) -> bool:
            with db.transaction(beside=True):
                found = list(db.execute(OLDER, (mark.number, PIECES_A_STEP)))
                for older in found:
                    db.execute(DROP_PIECE, older)
            return bool(found)

        await self._writing.run(end)
        # A few pieces in each transaction, because ingest waits while SQLite writes.
        while await self._writing.run(drop):
            pass

    async def close(self) -> None:
        """Close the database and stop the threads."""
        self._reading.close()
        self._writing.close()
