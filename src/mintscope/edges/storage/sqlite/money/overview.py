"""What an operator asks of market.sqlite; safe while ingest writes."""

from pathlib import Path
from typing import Final, NamedTuple

from mintscope.base.primitives import Slot, UnixS
from mintscope.edges.storage.sqlite.connection import open_store, snapshot

# The newest block, and how far the finalized fold has come.
STANDING: Final = """
SELECT header.slot, header.time, progress.folded_slot, progress.follows_files
  FROM progress LEFT JOIN header ON header.seq =
       (SELECT max(seq) FROM header WHERE NOT is_dead)
"""
TRACKED: Final = "SELECT count(*) FROM mint WHERE since_slot IS NOT NULL"
GAPS: Final = "SELECT count(*), coalesce(sum(last - first + 1), 0), max(last) FROM gap"
UNREAD: Final = """
SELECT program, reason, count(*) FROM quarantine GROUP BY program, reason ORDER BY 3 DESC, 1, 2
"""


class Unread(NamedTuple):
    """How many transactions of *program* in quarantine could not be read, and why."""

    program: str
    reason: str
    transactions: int


class Overview(NamedTuple):
    """Where the market stands."""

    slot: Slot | None
    time: UnixS | None
    folded_slot: Slot | None
    follows_files: bool
    tracked_count: int
    gap_count: int
    gap_slots: int
    newest_gap: Slot | None
    unread: tuple[Unread, ...]


def read_overview(path: Path) -> Overview:
    """Return where the market in *path* stands.

    Raises UnusableStore.
    """
    db = open_store(path, "market", read_only=True)
    try:
        with snapshot(db):
            slot, time, folded_slot, follows_files = db.execute(STANDING).get
            gap_count, gap_slots, newest_gap = db.execute(GAPS).get
            return Overview(
                slot=slot,
                time=time,
                folded_slot=folded_slot,
                follows_files=bool(follows_files),
                tracked_count=db.execute(TRACKED).get,
                gap_count=gap_count,
                gap_slots=gap_slots,
                newest_gap=newest_gap,
                unread=tuple(Unread(*row) for row in db.execute(UNREAD)),
            )
    finally:
        db.close()
