"""Watchlists in SQL."""

from collections.abc import Sequence
from typing import Final

from mintscope.kit.audit import UserId
from mintscope.kit.primitives import Mint, UnixMs
from mintscope.kit.sql.database import Database
from mintscope.watchlists.rows import WatchlistId, WatchlistLine

# The column "user" is in quotation marks, because PostgreSQL reserves the word.
LINES: Final = """
SELECT id, name, (SELECT count(*) FROM watched_mint AS w WHERE w.watchlist = watchlist.id),
       created_at
  FROM watchlist
"""
OF_USER: Final = f'{LINES} WHERE "user" = ? ORDER BY id'
FIND: Final = f'{LINES} WHERE "user" = ? AND id = ?'
INSERT: Final = 'INSERT INTO watchlist ("user", name, created_at) VALUES (?, ?, ?) RETURNING id'
RENAME: Final = "UPDATE watchlist SET name = ? WHERE id = ?"
CLEAR: Final = "DELETE FROM watched_mint WHERE watchlist = ?"
DELETE: Final = "DELETE FROM watchlist WHERE id = ?"
HAND_OVER: Final = 'UPDATE watchlist SET "user" = ? WHERE "user" = ?'
ON: Final = "SELECT mint FROM watched_mint WHERE watchlist = ? ORDER BY id"
ADD: Final = "INSERT INTO watched_mint (watchlist, mint, added_at) VALUES (?, ?, ?)"
REMOVE: Final = "DELETE FROM watched_mint WHERE watchlist = ? AND mint = ?"


class SqlWatchlistRows:
    """Reads and writes watchlists and their mints, inside one transaction."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def of_user(self, user_id: UserId) -> Sequence[WatchlistLine]:
        """Return the watchlists of a user, in order of creation."""
        return self._lines(OF_USER, user_id)

    def find(self, user_id: UserId, watchlist_id: WatchlistId) -> WatchlistLine | None:
        """Return a watchlist of a user; None if the user has no such watchlist."""
        return next(iter(self._lines(FIND, user_id, watchlist_id)), None)

    def insert(self, user_id: UserId, name: str, at: UnixMs) -> WatchlistId:
        """Add a watchlist without mints, and return its id."""
        return WatchlistId(self._db.execute(INSERT, (user_id, name, at)).get)

    def rename(self, watchlist_id: WatchlistId, name: str) -> None:
        """Rename a watchlist."""
        self._db.execute(RENAME, (name, watchlist_id))

    def delete(self, watchlist_id: WatchlistId) -> None:
        """Delete a watchlist and its entries."""
        # The entries reference the watchlist, so they must be deleted first.
        self._db.execute(CLEAR, (watchlist_id,))
        self._db.execute(DELETE, (watchlist_id,))

    def hand_over(self, giver: UserId, taker: UserId) -> None:
        """Transfer the watchlists of *giver* to *taker*, even beyond the limit of watchlists."""
        self._db.execute(HAND_OVER, (taker, giver))

    def mints(self, watchlist_id: WatchlistId) -> Sequence[Mint]:
        """Return the mints on a watchlist, in the order in which they were added."""
        return [Mint(mint) for (mint,) in self._db.execute(ON, (watchlist_id,))]

    def add(self, watchlist_id: WatchlistId, mint: Mint, at: UnixMs) -> None:
        """Add a mint that is not on the watchlist yet."""
        self._db.execute(ADD, (watchlist_id, mint, at))

    def remove(self, watchlist_id: WatchlistId, mint: Mint) -> bool:
        """Remove a mint from a watchlist; return whether it was on the watchlist."""
        self._db.execute(REMOVE, (watchlist_id, mint))
        return self._db.changes() == 1

    def _lines(self, statement: str, *values: int) -> list[WatchlistLine]:
        return [
            WatchlistLine(WatchlistId(row_id), name, count, UnixMs(at))
            for row_id, name, count, at in self._db.execute(statement, values)
        ]
