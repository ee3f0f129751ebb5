"""MarketReader: one thread and one connection, beside the writer."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from mintscope.base.primitives import Mint, Slot, UnixS
from mintscope.base.solana import Gap
from mintscope.core.market import log
from mintscope.core.market.coverage import Coverage, MissedMints, NotRead
from mintscope.core.market.store import (
    CANDLES_MIN,
    MINUTES_S,
    RECENT_S,
    MarketOverview,
)
from mintscope.edges.storage.database import AccessInThreads, Database, Row
from mintscope.edges.storage.sql.market.coverage import coverage_of, missed_mints
from mintscope.edges.storage.sql.market.growth import candles_a_day
from mintscope.edges.storage.sql.market.not_read import largest
from mintscope.edges.storage.sql.market.rows import (
    header_of,
    last_seq,
    mints_of,
    newest_candles,
    swaps_of,
)
from mintscope.edges.storage.sql.market_reading import MarketReading

TIP: Final = """
SELECT (SELECT coalesce(max(seq), 0) FROM event), slot, time, follows_files,
       finalized_slot, folded_slot, genesis_hash
  FROM progress LEFT JOIN header
    ON header.seq = (SELECT max(seq) FROM header WHERE is_dead = 0)
"""

# All that is one value.  The time is the least that "now" can step back to, should every slot die
# that still can.
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

SWAPS: Final = """
SELECT seq, address, swaps, deciding FROM swap JOIN mint ON mint.id = swap.mint
 WHERE seq BETWEEN ? AND ?
"""

MINUTES: Final = """
SELECT bucket, buy_volume, sell_volume
  FROM candle
 WHERE mint = ? AND timeframe = 'm1' AND bucket >= ? AND buy_volume + sell_volume > 0
 ORDER BY bucket
"""

# All of it is in the index `swap_by_mint`: no swap is read.  The signs keep SQLite from beginning
# with the headers.
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

# The pools of a mint after the newest folded slot that changed them, and after each one since.
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


# The newest block, and how far the finalized fold has come.
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
    """Implements MarketReader and CoverageReader; `close` it when done.

    access    of one thread
    version   shows cheaply whether anything was committed; None: nothing is cheaper than the tip
    """

    def __init__(
        self, access: AccessInThreads[Database], version: Callable[[Database], int] | None = None
    ) -> None:
        self._reading = MarketReading(access)
        self._version = version
        self._tip: tuple[int, log.LogTip] | None = None

    async def tip(self) -> log.LogTip:
        """Return the newest committed position; cheap while nothing was committed."""
        return await self._reading.run(self._read_tip)

    async def events(self, after_seq: int, limit: int) -> Sequence[log.Event]:
        """Return up to *limit* events after *after_seq*, in order.

        Raises LogTrimmed when the first of them is no longer kept.
        """
        return await self._reading.in_snapshot(lambda db: _events(db, after_seq, limit))

    async def tracked(self) -> tuple[int, frozenset[Mint]]:
        """Return a seq and the mints tracked at it."""
        return await self._reading.in_snapshot(_tracked)

    async def seconds(self, span_s: int) -> Sequence[tuple[Slot, UnixS]]:
        """Return the first living slot of each second of the newest *span_s*, oldest first."""
        return await self._reading.run(
            lambda db: [(Slot(slot), UnixS(time)) for slot, time in db.execute(SECONDS, (span_s,))]
        )

    async def load(self, mint: Mint) -> log.LoadedMint | None:
        """Return what is kept of *mint*, from one snapshot; None if it is not tracked."""
        return await self._reading.in_snapshot(lambda db: _load(db, mint))

    async def overview(self) -> MarketOverview:
        """Return where the market stands."""
        return await self._reading.in_snapshot(_overview)

    async def gaps(self, limit: int) -> Sequence[Gap]:
        """Return up to *limit* open gaps, newest first."""
        return await self._reading.in_snapshot(
            lambda db: [Gap(*row) for row in db.execute(NEWEST_GAPS, (limit,))]
        )

    async def not_read(self, limit: int) -> Sequence[NotRead]:
        """Return up to *limit* kinds of the newest block's day, the most volume first."""
        return await self._reading.in_snapshot(lambda db: largest(db, limit))

    async def coverage(self, hours: int) -> Coverage | None:
        """Return what was read and missed in the newest block's hour and before, *hours* in all."""
        return await self._reading.in_snapshot(lambda db: coverage_of(db, hours))

    async def missed_mints(self) -> MissedMints:
        """Return the mints of which calls were missed in the window."""
        return await self._reading.in_snapshot(missed_mints)

    async def close(self) -> None:
        """Let go of the database and the thread."""
        self._reading.close()

    def _read_tip(self, db: Database) -> log.LogTip:
        version = None if self._version is None else self._version(db)
        if version is not None and self._tip is not None and self._tip[0] == version:
            return self._tip[1]
        tip = tip_of(db)
        if version is not None:
            self._tip = (version, tip)
        return tip


def tip_of(db: Database) -> log.LogTip:
    """Return where the log stands, within a snapshot."""
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
    for seq, address, blob, deciding in db.execute(SWAPS, (rows[0][0], rows[-1][0])):
        swaps.setdefault(seq, []).extend(swaps_of(Mint(address), blob))
        if deciding is not None:
            standings.setdefault(seq, {})[Mint(address)] = deciding
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


def _load(db: Database, mint: Mint) -> log.LoadedMint | None:
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
    return log.LoadedMint(
        mint=mint,
        seq=seq,
        state=state,
        candles=newest_candles(db, mint_id, CANDLES_MIN),
        minutes=[
            (at, bought, sold)
            for at, bought, sold in db.execute(MINUTES, (mint_id, final - MINUTES_S))
        ],
        tail=_tail(db, mint, bounds),
        imported_from=imported_from,
        standings=_standings(db, bounds),
    )


def _standings(db: Database, bounds: Mapping[str, int]) -> list[tuple[Slot, bytes]]:
    """Return the pools of a mint, oldest first."""
    folded = list(db.execute(FOLDED_STANDING, bounds))
    before = folded or list(db.execute(TRIMMED_STANDING, bounds))
    return [
        (Slot(slot), packed) for slot, packed in (*before, *db.execute(NEWER_STANDINGS, bounds))
    ]


def _tail(db: Database, mint: Mint, bounds: Mapping[str, int]) -> list[log.TailSwap]:
    folded = [
        log.TailSwap(slot, time, folded=True, swap=swap)
        for slot, time, *volumes in db.execute(FOLDED_SECONDS, bounds)
        for swap in _volumes(mint, volumes)
    ]
    ahead = [
        log.TailSwap(slot, time, folded=False, swap=swap)
        for slot, time, blob in db.execute(NOT_FOLDED, bounds)
        for swap in swaps_of(mint, blob)
    ]
    return folded + ahead


def _volumes(mint: Mint, volumes: Iterable[int]) -> list[log.PricedSwap]:
    """Return what was bought and what was sold of *mint* in one second."""
    return [
        log.PricedSwap(mint, 0, 0, -1, 0, is_buy, volume, None, None)
        for is_buy, volume in zip((True, False), volumes, strict=True)
        if volume
    ]
