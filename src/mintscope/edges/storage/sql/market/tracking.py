"""Tracking: short transactions beside a running ingest."""

from collections.abc import Sequence
from typing import Final

from mintscope.base.primitives import Mint, Slot
from mintscope.core.market.store import FoundMints, TrackedMint
from mintscope.edges.storage.database import (
    Database,
    DatabaseAccess,
    unavailable_on_database_error,
)
from mintscope.edges.storage.sql.market.mints import remove, track

TRACKED: Final = """
SELECT address, since_slot, since_time, is_listed, last_swap, state.state
  FROM mint LEFT JOIN state ON state.mint = id
 WHERE since_slot IS NOT NULL AND {which}
"""
PAGE: Final = TRACKED.format(which="address > ? ORDER BY address LIMIT ?")
ONE: Final = TRACKED.format(which="address = ?")
HAS_TEXT: Final = "since_slot IS NOT NULL AND (?1 = '' OR replace(address, ?1, '') <> address)"
COUNT: Final = f"SELECT count(*) FROM mint WHERE {HAS_TEXT}"  # noqa: S608  a constant
FOUND: Final = f"""
SELECT address, since_slot, since_time, is_listed, last_swap, NULL
  FROM mint LEFT JOIN state ON state.mint = id
 WHERE {HAS_TEXT}
 ORDER BY is_listed DESC, coalesce(last_swap, 0) DESC, address LIMIT ?2
"""  # noqa: S608  a constant

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

    async def page(self, after: str, limit: int) -> Sequence[TrackedMint]:
        """Return up to *limit* tracked mints whose addresses follow *after*, by address."""
        with unavailable_on_database_error(UNAVAILABLE):
            return await self._access.run(lambda db: _read(db, PAGE, after, limit))

    async def found(self, text: str, limit: int) -> FoundMints:
        """Return the tracked mints with *text* in their address, up to *limit* of them."""
        with unavailable_on_database_error(UNAVAILABLE):
            return await self._access.run(lambda db: _found(db, text, limit))

    async def one(self, mint: Mint) -> TrackedMint | None:
        """Return *mint* if it is tracked."""
        with unavailable_on_database_error(UNAVAILABLE):
            return next(iter(await self._access.run(lambda db: _read(db, ONE, mint))), None)

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


def _found(db: Database, text: str, limit: int) -> FoundMints:
    return FoundMints(db.execute(COUNT, (text,)).get, _read(db, FOUND, text, limit))


def _read(db: Database, statement: str, *values: str | int) -> list[TrackedMint]:
    return [
        TrackedMint(Mint(address), Slot(since_slot), since_time, bool(is_listed), last_swap, state)
        for address, since_slot, since_time, is_listed, last_swap, state in db.execute(
            statement, values
        )
    ]
