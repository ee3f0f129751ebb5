"""Tracking: short transactions beside a running ingest."""

from collections.abc import Sequence
from typing import Final

from mintscope.base.primitives import Mint, Slot
from mintscope.core.market.store import TrackedMint
from mintscope.edges.storage.database import (
    Database,
    DatabaseAccess,
    unavailable_on_database_error,
)
from mintscope.edges.storage.sql.market.mints import remove, track

TRACKED: Final = """
SELECT address, since_slot, since_time, is_listed, last_swap, state.state
  FROM mint LEFT JOIN state ON state.mint = id
 WHERE since_slot IS NOT NULL
 ORDER BY address
"""
ONE: Final = TRACKED.replace("ORDER BY", "AND address = ? ORDER BY")

UNAVAILABLE: Final = "The market does not answer; try again."
IS_LISTED: Final = "SELECT is_listed FROM mint WHERE address = ?"


class SqlTracking:
    """Implements Tracking."""

    def __init__(self, access: DatabaseAccess[Database]) -> None:
        self._access = access

    async def add(self, mint: Mint) -> bool:
        """Follow *mint* from the next slot on; False if it was listed already."""
        with unavailable_on_database_error(UNAVAILABLE):
            return await self._access.run(lambda db: _add(db, mint))

    async def remove(self, mint: Mint) -> bool:
        """Stop following *mint* and drop what was kept; False if it was not tracked."""
        with unavailable_on_database_error(UNAVAILABLE):
            return await self._access.run(lambda db: _remove(db, mint))

    async def all(self) -> Sequence[TrackedMint]:
        """Return every tracked mint, by address."""
        with unavailable_on_database_error(UNAVAILABLE):
            return await self._access.run(lambda db: _tracked(db, None))

    async def one(self, mint: Mint) -> TrackedMint | None:
        """Return *mint* if it is tracked."""
        with unavailable_on_database_error(UNAVAILABLE):
            return next(iter(await self._access.run(lambda db: _tracked(db, mint))), None)

    async def close(self) -> None:
        """Let go of the database."""
        self._access.close()


def _add(db: Database, mint: Mint) -> bool:
    with db.transaction():
        was_listed = bool(db.execute(IS_LISTED, (mint,)).get)
        track(db, mint)
        return not was_listed


def _remove(db: Database, mint: Mint) -> bool:
    with db.transaction():
        return remove(db, mint)


def _tracked(db: Database, mint: Mint | None) -> list[TrackedMint]:
    rows = db.execute(ONE if mint is not None else TRACKED, () if mint is None else (mint,))
    return [
        TrackedMint(Mint(address), Slot(since_slot), since_time, bool(is_listed), last_swap, state)
        for address, since_slot, since_time, is_listed, last_swap, state in rows
    ]
