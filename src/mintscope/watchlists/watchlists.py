"""Operations on watchlists."""

from collections.abc import Sequence
from dataclasses import dataclass

from mintscope.accounts.rows import AccountRows, AccountStore, asked_for, expect_user
from mintscope.accounts.secrets import AccountSecrets, IdempotencyRecord
from mintscope.kit.audit import UserId
from mintscope.kit.clock import Clock
from mintscope.kit.primitives import Mint, UnixMs
from mintscope.watchlists.rows import (
    WATCHED_MAX,
    WATCHLISTS_MAX,
    WatchDenied,
    Watchlist,
    WatchlistId,
    WatchlistLine,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watchlists:
    """The watchlists of all users; each method is one transaction.

    Every method raises ServiceUnavailable if the database fails; a change is then undone, unless
    its commit had already begun.
    """

    store: AccountStore
    secrets: AccountSecrets
    clock: Clock

    async def of_user(self, user_id: UserId) -> Sequence[WatchlistLine]:
        """Return the watchlists of a user, in order of creation."""
        return await self.store.read(lambda rows: rows.watchlists.of_user(user_id))

    async def find(self, user_id: UserId, watchlist_id: WatchlistId) -> Watchlist | None:
        """Return a watchlist with its mints; None if the user has no such watchlist."""
        return await self.store.read(lambda rows: _find(rows, user_id, watchlist_id))

    async def make(
        self, user_id: UserId, name: str, key: str | None = None
    ) -> Watchlist | WatchDenied:
        """Create a watchlist without mints; return it, or the reason why it was not created.

        key   the Idempotency-Key, if any; a repetition with the same key and name returns the
              watchlist that was created, unless it was deleted
        Raises UserRemoved.
        """
        now = self.clock.now()
        key_hash = self.secrets.request_hash(key, user_id)
        asked = asked_for("watchlist", name)

        def make(rows: AccountRows) -> Watchlist | WatchDenied:
            # The user may have been deleted since the request was authorized.
            expect_user(rows, user_id)
            # Looked up before the limit is checked, because a repetition creates nothing.
            made = None if key_hash is None else rows.made.find(key_hash)
            if made is not None:
                if made.asked != asked:
                    return WatchDenied.KEY_USED
                return _find(rows, user_id, WatchlistId(made.thing_id)) or WatchDenied.NOT_FOUND
            if len(rows.watchlists.of_user(user_id)) >= WATCHLISTS_MAX:
                return WatchDenied.TOO_MANY
            watchlist_id = rows.watchlists.insert(user_id, name, now)
            if key_hash is not None:
                rows.made.insert(key_hash, IdempotencyRecord(asked, watchlist_id), now)
            return Watchlist(WatchlistLine(watchlist_id, name, 0, now), [])

        return await self.store.transact(make)

    async def rename(
        self, user_id: UserId, watchlist_id: WatchlistId, name: str
    ) -> Watchlist | None:
        """Rename a watchlist, and return it; None if the user has no such watchlist."""

        def rename(rows: AccountRows) -> Watchlist | None:
            if rows.watchlists.find(user_id, watchlist_id) is None:
                return None
            rows.watchlists.rename(watchlist_id, name)
            return _find(rows, user_id, watchlist_id)

        return await self.store.transact(rename)

    async def delete(
        self, user_id: UserId, watchlist_id: WatchlistId
    ) -> Sequence[WatchlistLine] | None:
        """Delete a watchlist; return the user's others, or None if there was no such watchlist."""

        def delete(rows: AccountRows) -> Sequence[WatchlistLine] | None:
            if rows.watchlists.find(user_id, watchlist_id) is None:
                return None
            rows.watchlists.delete(watchlist_id)
            return rows.watchlists.of_user(user_id)

        return await self.store.transact(delete)

    async def add(
        self, user_id: UserId, watchlist_id: WatchlistId, mint: Mint
    ) -> Watchlist | WatchDenied:
        """Add a mint to a watchlist of a user, unless it is already there; return the watchlist.

        Return WatchDenied if the user has no such watchlist, or if the watchlist is full.
        """
        now = self.clock.now()
        return await self.store.transact(lambda rows: _add(rows, user_id, watchlist_id, mint, now))

    async def add_to_first(self, user_id: UserId, mint: Mint, name: str) -> Watchlist | WatchDenied:
        """Add a mint to the oldest watchlist of a user; if there is none, create it with *name*.

        Return the watchlist, or WatchDenied if it is full.  Raises UserRemoved.
        """
        now = self.clock.now()

        def add(rows: AccountRows) -> Watchlist | WatchDenied:
            expect_user(rows, user_id)
            lines = rows.watchlists.of_user(user_id)
            first = lines[0].watchlist_id if lines else rows.watchlists.insert(user_id, name, now)
            return _add(rows, user_id, first, mint, now)

        return await self.store.transact(add)

    async def remove(
        self, user_id: UserId, watchlist_id: WatchlistId, mint: Mint
    ) -> Watchlist | None:
        """Remove a mint from a watchlist of a user; return the watchlist.

        Return None if the user has no such watchlist, or if the mint is not in it.
        """

        def remove(rows: AccountRows) -> Watchlist | None:
            if rows.watchlists.find(user_id, watchlist_id) is None:
                return None
            if not rows.watchlists.remove(watchlist_id, mint):
                return None
            return _find(rows, user_id, watchlist_id)

        return await self.store.transact(remove)


def _find(rows: AccountRows, user_id: UserId, watchlist_id: WatchlistId) -> Watchlist | None:
    line = rows.watchlists.find(user_id, watchlist_id)
    return None if line is None else Watchlist(line, rows.watchlists.mints(watchlist_id))


def _add(
    rows: AccountRows, user_id: UserId, watchlist_id: WatchlistId, mint: Mint, at: UnixMs
) -> Watchlist | WatchDenied:
    found = _find(rows, user_id, watchlist_id)
    if found is None:
        return WatchDenied.NOT_FOUND
    if mint in found.mints:  # no error on a full watchlist, because nothing is added
        return found
    if len(found.mints) >= WATCHED_MAX:
        return WatchDenied.TOO_MANY
    rows.watchlists.add(watchlist_id, mint, at)
    return _find(rows, user_id, watchlist_id) or WatchDenied.NOT_FOUND
