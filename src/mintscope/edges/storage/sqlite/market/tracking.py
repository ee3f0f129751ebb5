"""Tracking on SQLite: short immediate transactions beside a running ingest."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import apsw

from mintscope.base.primitives import Mint, Slot
from mintscope.core.market.store import TrackedMint
from mintscope.edges.storage.sqlite.connection import (
    open_store,
    snapshot,
    transaction,
    unavailable_on_error,
)
from mintscope.edges.storage.sqlite.market.mints import remove, track

TRACKED: Final = """
SELECT address, since_slot, since_time, is_listed, last_swap, state.state
  FROM mint LEFT JOIN state ON state.mint = id
 WHERE since_slot IS NOT NULL AND (:mint IS NULL OR address = :mint)
 ORDER BY address
"""

UNAVAILABLE: Final = "The market file does not answer; try again."
IS_LISTED: Final = "SELECT is_listed FROM mint WHERE address = ?"


class SqliteTracking:
    """Implements Tracking."""

    def __init__(self, path: Path) -> None:
        self._db = open_store(path, "market")

    async def add(self, mint: Mint) -> bool:
        """Follow *mint* from the next slot on; False if it was listed already."""
        with unavailable_on_error(UNAVAILABLE, kind="market"), transaction(self._db) as db:
            was_listed = bool(db.execute(IS_LISTED, (mint,)).get)
            track(db, mint)
            return not was_listed

    async def remove(self, mint: Mint) -> bool:
        """Stop following *mint* and drop what was kept; False if it was not tracked."""
        with unavailable_on_error(UNAVAILABLE, kind="market"), transaction(self._db) as db:
            return remove(db, mint)

    async def all(self) -> Sequence[TrackedMint]:
        """Return every tracked mint, by address."""
        with unavailable_on_error(UNAVAILABLE, kind="market"), snapshot(self._db) as db:
            return _tracked(db, None)

    async def one(self, mint: Mint) -> TrackedMint | None:
        """Return *mint* if it is tracked."""
        with unavailable_on_error(UNAVAILABLE, kind="market"), snapshot(self._db) as db:
            return next(iter(_tracked(db, mint)), None)

    async def close(self) -> None:
        """Let go of the file."""
        self._db.close()


def _tracked(db: apsw.Connection, mint: Mint | None) -> list[TrackedMint]:
    return [
        TrackedMint(Mint(address), Slot(since_slot), since_time, bool(is_listed), last_swap, state)
        for address, since_slot, since_time, is_listed, last_swap, state in db.execute(
            TRACKED, {"mint": mint}
        )
    ]
