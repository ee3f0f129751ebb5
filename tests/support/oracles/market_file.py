"""Reads those tables of a market file that must be the same however often ingest was killed."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw

from mintscope.app.stores.folder import MARKET_FILE

QUERIES = {
    "candles": """
SELECT address, timeframe, bucket, open, high, low, close, buy_volume, sell_volume, count
  FROM candle JOIN mint ON mint.id = mint ORDER BY 1, 2, 3
""",
    "states": "SELECT address, state, last_swap FROM state JOIN mint ON mint.id = mint ORDER BY 1",
    "tracking": """
SELECT address, since_slot, since_time, is_listed FROM mint WHERE since_slot IS NOT NULL ORDER BY 1
""",
    # Earlier days of a mint that is not tracked are left out: ingest deletes them in steps after
    # commits, and a run that is killed has another number of commits.
    "activity": """
SELECT address, day, swaps, volume, lively_day
  FROM activity JOIN mint ON mint.id = mint
 WHERE since_slot IS NOT NULL OR day >= (SELECT folded_day FROM progress)
 ORDER BY 1
""",
    "progress": "SELECT finalized_slot, folded_slot, folded_day FROM progress",
}


def kept(folder: Path) -> dict[str, list[Any]]:
    """Return the rows of each of QUERIES, by name, in the market file of *folder*.

    Fails if the file is damaged, or if its log has a gap.
    """
    path = str(folder / MARKET_FILE)
    with closing(apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)) as db:
        assert db.execute("PRAGMA integrity_check").get == "ok"
        assert not list(db.execute("PRAGMA foreign_key_check"))
        return kept_in(lambda query: db.execute(query).fetchall())


def kept_in(ask: Callable[[str], list[Any]]) -> dict[str, list[Any]]:
    """Return the rows of each of QUERIES by name, read by *ask*; the log's numbers have no hole."""
    seqs = [seq for (seq,) in ask("SELECT seq FROM event ORDER BY seq")]
    first = ask("SELECT trimmed_seq FROM progress")[0][0] + 1
    assert seqs == list(range(first, first + len(seqs)))
    return {name: ask(query) for name, query in QUERIES.items()}
