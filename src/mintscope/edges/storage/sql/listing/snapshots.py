"""Snapshots of the list, in a few rows of the market: a statement moves at most two pieces.

Ingest writes to the same file or database, so each piece is a transaction of its own.
"""

from typing import Final

from mintscope.base.primitives import UnixMs
from mintscope.base.time import MINUTE_MS
from mintscope.core.market.listing.store import SnapshotMark
from mintscope.edges.storage.database import AccessInThreads, Database
from mintscope.edges.storage.sql.market_reading import MarketReading

WRITE_TIMEOUT_S: Final = 30.0
# A snapshot that is incomplete by then belongs to a process that has ended.
LEFT_BEHIND_MS: Final = 5 * MINUTE_MS
PIECES_A_STEP: Final = 4

NEWEST: Final = """
SELECT number, form, folded_seq, piece_count FROM list_snapshot
 WHERE piece_count IS NOT NULL ORDER BY number DESC LIMIT 1
"""
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
# Orphans too, from a process that went on after another one had taken its place.
OLDER: Final = """
SELECT snapshot, place FROM list_snapshot_piece WHERE snapshot < ? ORDER BY snapshot, place LIMIT ?
"""
DROP_PIECE: Final = "DELETE FROM list_snapshot_piece WHERE snapshot = ? AND place = ?"
DROP: Final = "DELETE FROM list_snapshot WHERE number < ?"


class SqlListSnapshots:
    """Implements ListSnapshots; `close` it when done."""

    def __init__(
        self, reading: AccessInThreads[Database], writing: AccessInThreads[Database]
    ) -> None:
        """Read with *reading*, and write with *writing*, which connects when it is first needed."""
        self._reading = MarketReading(reading, timeout_s=WRITE_TIMEOUT_S)
        self._writing = MarketReading(writing, timeout_s=WRITE_TIMEOUT_S)

    async def newest(self) -> SnapshotMark | None:
        """Return the newest complete snapshot, None without any."""
        found = await self._reading.run(lambda db: db.execute(NEWEST).fetchone())
        return None if found is None else SnapshotMark(*found)

    async def piece(self, number: int, place: int) -> bytes | None:
        """Return piece *place* of snapshot *number*; None once a newer one is complete."""
        found: bytes | None = await self._reading.run(
            lambda db: db.execute(PIECE, (number, place)).get
        )
        return found

    async def begin(self, now: UnixMs) -> int | None:
        """Begin a snapshot and return its number; None while another process stores one."""

        def begin(db: Database) -> int | None:
            with db.transaction(beside=True):
                newest, begun_at = db.execute(UNDER_WAY).get
                if now - begun_at < LEFT_BEHIND_MS:
                    return None
                number: int | None = db.execute(BEGIN, (newest + 1, now)).get
                return number

        return await self._writing.run(begin)

    async def add(self, number: int, place: int, piece: bytes) -> None:
        """Store piece *place* of snapshot *number*, which was begun."""

        def add(db: Database) -> None:
            with db.transaction(beside=True):
                db.execute(ADD, (number, place, piece))

        await self._writing.run(add)

    async def end(self, mark: SnapshotMark) -> None:
        """Make the snapshot of *mark* the newest, and delete those before it."""

        def end(db: Database) -> None:
            with db.transaction(beside=True):
                db.execute(END, (mark.form, mark.folded_seq, mark.piece_count, mark.number))
                db.execute(DROP, (mark.number,))

        def drop(db: Database) -> bool:
            with db.transaction(beside=True):
                found = list(db.execute(OLDER, (mark.number, PIECES_A_STEP)))
                for older in found:
                    db.execute(DROP_PIECE, older)
            return bool(found)

        await self._writing.run(end)
        while await self._writing.run(drop):
            pass

    async def close(self) -> None:
        """Close the database and stop the threads."""
        self._reading.close()
        self._writing.close()
