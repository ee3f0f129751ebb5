"""Stores coverage in SQL: the token exchanges that were read or missed, by hour and program.

If an hour has too many programs or mints, those with the least volume are summed under the name
OTHER.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final

from mintscope.kit.primitives import Mint, Slot, UnixS
from mintscope.kit.sql.database import Batch, Database
from mintscope.kit.time import HOUR_S
from mintscope.market.coverage import (
    NONE,
    OTHER,
    WEEK_HOURS,
    WINDOW_HOURS,
    Coverage,
    MintCoverage,
    MissedMints,
    ProgramHour,
    SlotCoverage,
    Tally,
    first_hour,
    summed,
)
from mintscope.market.timeframe import Timeframe
from mintscope.solana.blocks import Gap

# The largest numbers of programs and mints that an hour keeps by name once a later hour has begun;
# until then, there may be twice as many.
PROGRAMS_MAX: Final = 200
MINTS_MAX: Final = 1_000
# Sums stay integers: SQLite would convert a larger sum to a float.
VOLUME_MAX: Final = 10**18

TALLY: Final = dict.fromkeys(("calls", "valued", "volume"), "bigint")
ADDED: Final = """
calls = {table}.calls + excluded.calls, valued = {table}.valued + excluded.valued,
volume = CASE WHEN {table}.volume + excluded.volume > 1000000000000000000 THEN 1000000000000000000
              ELSE {table}.volume + excluded.volume END
"""
PROGRAMS: Final = Batch(
    "coverage",
    {"hour": "bigint", "program": "text", "outcome": "text", **TALLY},
    f"ON CONFLICT (hour, program, outcome) DO UPDATE SET {ADDED.format(table='coverage')}",
)
MINTS: Final = Batch(
    "coverage_mint",
    {"hour": "bigint", "mint": "text", **TALLY},
    f"ON CONFLICT (hour, mint) DO UPDATE SET {ADDED.format(table='coverage_mint')}",
)
SLOTS: Final = Batch(
    "coverage_slots",
    dict.fromkeys(("hour", "first_slot", "blocks", "skipped"), "bigint"),
    "ON CONFLICT (hour) DO UPDATE SET blocks = coverage_slots.blocks + excluded.blocks,"
    " skipped = coverage_slots.skipped + excluded.skipped",
)
DIED: Final = """
UPDATE coverage_slots SET blocks = blocks - 1, skipped = skipped - ? WHERE hour = ? AND blocks > 0
"""

# In SQL, sums of volumes are floats, because the sum of several rows can exceed 64 bits.
LARGEST_PROGRAMS: Final = """
SELECT program FROM coverage WHERE hour = ? AND program <> 'other'
 GROUP BY program ORDER BY sum(CAST(volume AS double precision)) DESC, sum(calls) DESC, program
"""
LARGEST_MINTS: Final = """
SELECT mint FROM coverage_mint WHERE hour = ? AND mint <> 'other'
 ORDER BY volume DESC, calls DESC, mint
"""
OF_PROGRAM: Final = """
DELETE FROM coverage WHERE hour = ? AND program = ? RETURNING outcome, calls, valued, volume
"""
OF_MINT: Final = """
DELETE FROM coverage_mint WHERE hour = ? AND mint = ? RETURNING calls, valued, volume
"""

NEWEST_TIME: Final = """
SELECT time FROM header WHERE seq = (SELECT max(seq) FROM header WHERE is_dead = 0)
"""
ROWS: Final = """
SELECT hour, program, outcome, calls, valued, volume FROM coverage WHERE hour >= ? ORDER BY 1, 2, 3
"""
READ_SLOTS: Final = """
SELECT coalesce(sum(blocks), 0), coalesce(sum(skipped), 0), min(first_slot)
  FROM coverage_slots WHERE hour >= ?
"""
# The oldest and the newest block that the log has.
ENDS: Final = """
SELECT slot, time FROM header
 WHERE seq IN ((SELECT min(seq) FROM header WHERE is_dead = 0),
               (SELECT max(seq) FROM header WHERE is_dead = 0))
 ORDER BY slot
"""
MISSING: Final = """
SELECT coalesce(sum(last - CASE WHEN first < :since THEN :since ELSE first END + 1), 0)
  FROM gap WHERE filled_at IS NULL AND last >= :since
"""
# A source that begins again from the same block reports its gap again, up to a later slot.
DROP_SHORTER: Final = "DELETE FROM gap WHERE first = ? AND last < ? AND filled_at IS NULL"
ADD_GAP: Final = """
INSERT INTO gap (first, last, reason)
SELECT :first, :last, :reason
 WHERE NOT EXISTS (SELECT 1 FROM gap WHERE first = :first AND last > :last AND filled_at IS NULL)
ON CONFLICT DO NOTHING
"""
MISSED_MINTS: Final = """
SELECT mint, sum(calls), sum(valued), sum(CAST(volume AS double precision))
  FROM coverage_mint WHERE hour >= ? GROUP BY mint ORDER BY mint
"""
# Of each tracked mint with missed calls: the folded swaps in the window that set a price, and the
# folded volume.
READ_OF_MINTS: Final = """
SELECT address, sum(count), sum(CAST(buy_volume + sell_volume AS double precision))
  FROM candle JOIN mint ON mint.id = candle.mint
 WHERE address IN (SELECT mint FROM coverage_mint WHERE hour >= :hour)
   AND timeframe = :timeframe AND bucket >= :since AND since_slot IS NOT NULL
 GROUP BY address
"""


class CoverageWriter:
    """Adds up how many exchanges of each block were read and missed, by hour, in the store.

    One process writes; the counts are added in its transactions.
    """

    def __init__(self) -> None:
        self._hour = -1
        # The names in the current hour: all committed names, and perhaps some that were rolled
        # back.
        self._programs: set[str] = set()
        self._mints: set[str] = set()

    def add(self, db: Database, seen: Sequence[SlotCoverage]) -> None:
        """Add the exchanges of the blocks *seen*, read and missed, to the stored counts.

        seen   sorted by time
        """
        for hour, slots in groupby(seen, lambda each: each.time // HOUR_S):
            if hour != self._hour:
                self._begin(db, hour)
            self._add(db, hour, list(slots))

    def _begin(self, db: Database, hour: int) -> None:
        """Begin the counts of *hour*; delete those of old hours, and shorten the newest ones.

        Of the newest stored hour, only the largest programs and mints are kept by name; the others
        are summed under the name OTHER.
        """
        newest = db.execute("SELECT max(hour) FROM coverage").get
        if newest is not None:
            _keep_programs(db, newest)
            _keep_mints(db, newest)
        for table, kept in (
            ("coverage", WEEK_HOURS),
            ("coverage_slots", WEEK_HOURS),
            ("coverage_mint", WINDOW_HOURS),
        ):
            db.execute(f"DELETE FROM {table} WHERE hour <= ?", (hour - kept,))  # noqa: S608 - ours
        self._hour = hour
        self._look(db, hour)

    def _look(self, db: Database, hour: int) -> None:
        self._programs = {name for (name,) in db.execute(LARGEST_PROGRAMS, (hour,))}
        self._mints = {mint for (mint,) in db.execute(LARGEST_MINTS, (hour,))}

    def _add(self, db: Database, hour: int, slots: Sequence[SlotCoverage]) -> None:
        calls: dict[tuple[str, str], list[Tally]] = defaultdict(list)
        missed: dict[Mint, list[Tally]] = defaultdict(list)
        for slot in slots:
            for key, tally in slot.calls.items():
                calls[key].append(tally)
            for mint, tally in slot.missed.items():
                missed[mint].append(tally)
        skipped = sum(slot.slot - slot.parent_slot - 1 for slot in slots)
        db.executemany(SLOTS, [(hour, slots[0].slot, len(slots), skipped)])
        if calls:
            _add_programs(db, hour, {key: summed(each) for key, each in calls.items()}.items())
            self._programs.update(program for program, _ in calls)
        if missed:
            _add_mints(db, hour, {mint: summed(each) for mint, each in missed.items()}.items())
            self._mints.update(missed)
        if len(self._programs) > 2 * PROGRAMS_MAX or len(self._mints) > 2 * MINTS_MAX:
            _keep_programs(db, hour)
            _keep_mints(db, hour)
            self._look(db, hour)


def lost(db: Database, gap: Gap) -> None:
    """Store *gap*, which replaces shorter open gaps with the same first slot.

    If a longer gap with this first slot is open, nothing changes.
    """
    db.execute(DROP_SHORTER, (gap.first, gap.last))
    values = {"first": gap.first, "last": gap.last, "reason": gap.reason}
    db.execute(ADD_GAP, values)


def died(db: Database, slot: Slot, parent_slot: Slot, time: UnixS) -> None:
    """Record that the chain abandoned the block at *slot*, whose effective time is *time*.

    The slots between it and its parent no longer count as skipped.  The program calls of the block
    still count, because they show how well blocks are read.
    """
    db.execute(DIED, (slot - parent_slot - 1, time // HOUR_S))


def _add_programs(db: Database, hour: int, rows: Iterable[tuple[tuple[str, str], Tally]]) -> None:
    db.executemany(PROGRAMS, [(hour, *key, *_bounded(tally)) for key, tally in rows])


def _add_mints(db: Database, hour: int, rows: Iterable[tuple[str, Tally]]) -> None:
    db.executemany(MINTS, [(hour, mint, *_bounded(tally)) for mint, tally in rows])


def _bounded(tally: Tally) -> Tally:
    return tally._replace(volume=min(tally.volume, VOLUME_MAX))


def _keep_programs(db: Database, hour: int) -> None:
    """Add up the counts of all but the largest programs of *hour*, and store them as OTHER."""
    rest: dict[tuple[str, str], list[Tally]] = defaultdict(list)
    for (program,) in list(db.execute(LARGEST_PROGRAMS, (hour,)))[PROGRAMS_MAX:]:
        for outcome, *tally in db.execute(OF_PROGRAM, (hour, program)):
            rest[OTHER, outcome].append(Tally(*tally))
    if rest:
        _add_programs(db, hour, {key: summed(each) for key, each in rest.items()}.items())


def _keep_mints(db: Database, hour: int) -> None:
    rest = [
        Tally(*tally)
        for (mint,) in list(db.execute(LARGEST_MINTS, (hour,)))[MINTS_MAX:]
        for tally in db.execute(OF_MINT, (hour, mint))
    ]
    if rest:
        _add_mints(db, hour, [(OTHER, summed(rest))])


def coverage_of(db: Database, hours: int) -> Coverage | None:
    """Return the numbers of exchanges read and missed in *hours* hours; None before any block.

    The last of these hours is that of the newest block.

    hours   at most a week
    """
    time = db.execute(NEWEST_TIME).get
    if time is None:
        return None
    since = first_hour(UnixS(time), hours)
    blocks, skipped, first_slot = db.execute(READ_SLOTS, (since // HOUR_S,)).get
    missing = 0
    if first_slot is not None:
        first_slot = min(first_slot, _slot_at(db, since))
        missing = db.execute(MISSING, {"since": first_slot}).get
    rows = [
        ProgramHour(hour, program, outcome, Tally(calls, valued, volume))
        for hour, program, outcome, calls, valued, volume in db.execute(ROWS, (since // HOUR_S,))
    ]
    return Coverage(since, UnixS(time), rows, int(blocks), int(skipped), int(missing))


def _slot_at(db: Database, time: UnixS) -> Slot:
    """Return the slot at *time*, estimated by the pace of the logged blocks.

    If *time* is in a gap, no block shows the slot.  The log must have a block.
    """
    ends = list(db.execute(ENDS))
    oldest, oldest_at = ends[0]
    newest, newest_at = ends[-1]
    if newest_at <= oldest_at:
        return Slot(newest)
    slots_a_second = (newest - oldest) / (newest_at - oldest_at)
    return Slot(newest - round((newest_at - time) * slots_a_second))


def missed_mints(db: Database) -> MissedMints:
    """Return the mints of which calls were missed in the newest WINDOW_HOURS hours."""
    time = db.execute(NEWEST_TIME).get
    if time is None:
        return MissedMints({}, is_whole=True)
    since = first_hour(UnixS(time), WINDOW_HOURS)
    asked = {"hour": since // HOUR_S, "since": since, "timeframe": Timeframe.H1}
    read = {
        address: Tally(int(count), int(count), int(volume))
        for address, count, volume in db.execute(READ_OF_MINTS, asked)
    }
    missed = {
        mint: Tally(int(calls), int(valued), int(volume))
        for mint, calls, valued, volume in db.execute(MISSED_MINTS, (since // HOUR_S,))
    }
    is_whole = missed.pop(OTHER, None) is None
    by_mint = {
        Mint(mint): MintCoverage(read.get(mint, NONE), each) for mint, each in missed.items()
    }
    return MissedMints(by_mint, is_whole)
