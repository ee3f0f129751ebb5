"""Operations on watchlists."""

from collections.abc import Sequence
from dataclasses import dataclass

from mintscope.accounts.rows import AccountRows, AccountStore, asked_for
from mintscope.accounts.secrets import AccountSecrets, IdempotencyRecord
from mintscope.kit.audit import UserId
from mintscope.kit.clock import Clock
from mintscope.kit.credentials import CredentialHash
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

    Every method raises ServiceUnavailable if the database fails; nothing was then changed.
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
        """
        now = self.clock.now()
        key_hash = self.secrets.request_hash(key, user_id)
        return await self.store.transact(lambda rows: _make(rows, user_id, name, key_hash, now))

    async def rename(
        self, user_id: UserId, watchlist_id: WatchlistId, name: str
    ) -> Watchlist | None:
        """Rename a watchlist, and return it; None if the user has no such watchlist."""
        return await self.store.transact(lambda rows: _rename(rows, user_id, watchlist_id, name))

    async def delete(
        self, user_id: UserId, watchlist_id: WatchlistId
    ) -> Sequence[WatchlistLine] | None:
        """Delete a watchlist; return the others, or None if the user had no such watchlist."""
        return await self.store.transact(lambda rows: _delete(rows, user_id, watchlist_id))

    async def add(
        self, user_id: UserId, watchlist_id: WatchlistId, mint: Mint
    ) -> Watchlist | WatchDenied:
        """Add a mint to a watchlist of a user, unless it is already there; return the watchlist.

        Return WatchDenied if the user has no such watchlist, or if it is full.
        """
        now = self.clock.now()
        return await self.store.transact(lambda rows: _add(rows, user_id, watchlist_id, mint, now))

    async def add_to_first(self, user_id: UserId, mint: Mint, name: str) -> Watchlist | WatchDenied:
        """Add a mint to the oldest watchlist of a user; if there is none, create it with *name*.

        Return the watchlist, or WatchDenied if it is full.
        """
        now = self.clock.now()
        return await self.store.transact(
            lambda rows: _add(rows, user_id, _first(rows, user_id, name, now), mint, now)
        )

    async def remove(
        self, user_id: UserId, watchlist_id: WatchlistId, mint: Mint
    ) -> Watchlist | None:
        """Remove a mint from a watchlist, and return the watchlist.

        Return None if the user has no such watchlist, or if the mint was not on it.
        """
        return await self.store.transact(lambda rows: _remove(rows, user_id, watchlist_id, mint))


def _find(rows: AccountRows, user_id: UserId, watchlist_id: WatchlistId) -> Watchlist | None:
    line = rows.watchlists.find(user_id, watchlist_id)
    return None if line is None else Watchlist(line, rows.watched.on(watchlist_id))


def _make(
    rows: AccountRows, user_id: UserId, name: str, key_hash: CredentialHash | None, at: UnixMs
) -> Watchlist | WatchDenied:
    asked = asked_for("watchlist", name)
    made = None if key_hash is None else rows.made.find(key_hash)
    if made is not None:
        if made.asked != asked:
            return WatchDenied.KEY_USED
        return _find(rows, user_id, WatchlistId(made.thing_id)) or WatchDenied.NOT_FOUND
    if len(rows.watchlists.of_user(user_id)) >= WATCHLISTS_MAX:
        return WatchDenied.TOO_MANY
    watchlist_id = rows.watchlists.insert(user_id, name, at)
    if key_hash is not None:
        rows.made.insert(key_hash, IdempotencyRecord(asked, watchlist_id), at)
    return Watchlist(WatchlistLine(watchlist_id, name, 0, at), [])


def _first(rows: AccountRows, user_id: UserId, name: str, at: UnixMs) -> WatchlistId:
    lines = rows.watchlists.of_user(user_id)
    return lines[0].watchlist_id if lines else rows.watchlists.insert(user_id, name, at)


def _rename(
    rows: AccountRows, user_id: UserId, watchlist_id: WatchlistId, name: str
) -> Watchlist | None:
    if rows.watchlists.find(user_id, watchlist_id) is None:
        return None
    rows.watchlists.rename(watchlist_id, name)
    return _find(rows, user_id, watchlist_id)


def _delete(
    rows: AccountRows, user_id: UserId, watchlist_id: WatchlistId
) -> Sequence[WatchlistLine] | None:
    if rows.watchlists.find(user_id, watchlist_id) is None:
        return None
    rows.watchlists.delete(watchlist_id)
    return rows.watchlists.of_user(user_id)


def _add(
    rows: AccountRows, user_id: UserId, watchlist_id: WatchlistId, mint: Mint, at: UnixMs
) -> Watchlist | WatchDenied:
    found = _find(rows, user_id, watchlist_id)
    if found is None:
        return WatchDenied.NOT_FOUND
    if mint in found.mints:
        return found
    if len(found.mints) >= WATCHED_MAX:
        return WatchDenied.TOO_MANY
    rows.watched.add(watchlist_id, mint, at)
    return _find(rows, user_id, watchlist_id) or WatchDenied.NOT_FOUND


def _remove(
    rows: AccountRows, user_id: UserId, watchlist_id: WatchlistId, mint: Mint
) -> Watchlist | None:
    if rows.watchlists.find(user_id, watchlist_id) is None:
        return None
    if not rows.watched.remove(watchlist_id, mint):
        return None
    return _find(rows, user_id, watchlist_id)
