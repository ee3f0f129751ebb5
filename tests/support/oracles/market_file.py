"""Reads those tables of a market file that must be the same however often ingest was killed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

from mintscope.app.stores.folder import MARKET_FILE

CANDLES = """
SELECT address, timeframe, bucket, open, high, low, close, buy_volume, sell_volume, count
  FROM candle JOIN mint ON mint.id = mint ORDER BY 1, 2, 3
"""
STATES = "SELECT address, state, last_swap FROM state JOIN mint ON mint.id = mint ORDER BY 1"
TRACKING = """
SELECT address, since_slot, since_time, is_listed FROM mint WHERE since_slot IS NOT NULL ORDER BY 1
"""
# Earlier days of a mint that is not tracked are left out: ingest deletes them in steps after
# commits, and a run that is killed has another number of commits.
ACTIVITY = """
SELECT address, day, swaps, volume, lively_day
  FROM activity JOIN mint ON mint.id = mint
 WHERE since_slot IS NOT NULL OR day >= (SELECT folded_day FROM progress)
 ORDER BY 1
"""
PROGRESS = "SELECT finalized_slot, folded_slot, folded_day FROM progress"
SEQ = "SELECT seq FROM event ORDER BY seq"
TRIMMED = "SELECT trimmed_seq FROM progress"


QUERIES = {
    "candles": CANDLES,
    "states": STATES,
    "tracking": TRACKING,
    "activity": ACTIVITY,
    "progress": PROGRESS,
}


def has_begun(folder: Path) -> bool:
    """Return whether the tables of the market exist.

    If ingest was killed before it created them, the file is empty or missing.  All tables are
    created in one transaction.  A kill within it leaves a journal, which only a connection with
    write access can roll back.
    """
    if not (folder / MARKET_FILE).exists():
        return False
    db = apsw.Connection(str(folder / MARKET_FILE), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        return bool(db.execute("SELECT count(*) FROM sqlite_schema").get)
    finally:
        db.close()


def kept(folder: Path) -> dict[str, list[Any]]:
    """Return the folded rows of the market in *folder*, and check that its log has no gap."""
    db = apsw.Connection(str(folder / MARKET_FILE), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        assert db.execute("PRAGMA integrity_check").get == "ok"
        assert not list(db.execute("PRAGMA foreign_key_check"))
        return kept_in(lambda query: db.execute(query).fetchall())
    finally:
        db.close()


def kept_in(ask: Callable[[str], list[Any]]) -> dict[str, list[Any]]:
    """Return the folded rows that *ask* reads, and check that the log has no gap."""
    seqs = [seq for (seq,) in ask(SEQ)]
    first = ask(TRIMMED)[0][0] + 1
    assert seqs == list(range(first, first + len(seqs)))
    return {name: ask(query) for name, query in QUERIES.items()}
