"""The watchlist that stars belong to: the first of a person's, made with the first star."""

from dataclasses import dataclass
from typing import Final

from mintscope.base.primitives import Mint
from mintscope.core.accounts.holdings.watching import Watchlists
from mintscope.core.accounts.holdings.watchlists import WatchDenied, WatchlistLine
from mintscope.core.accounts.people.session import Session
from mintscope.core.accounts.user import UserId

NAME: Final = "Watchlist"


@dataclass(frozen=True, slots=True)
class Watching:
    """Watchlists of people.  Raises ServiceUnavailable from every verb."""

    watchlists: Watchlists

    async def mints(self, session: Session | None) -> list[Mint] | None:
        """Return what who is signed in watches, in the order of the stars; None for a stranger."""
        if session is None:
            return None
        user_id = session.user.user_id
        first = await self._first(user_id)
        if first is None:
            return []
        found = await self.watchlists.find(user_id, first.watchlist_id)
        return [] if found is None else list(found.mints)

    async def add(self, user_id: UserId, mint: Mint) -> bool:
        """Let a user watch *mint*; False if as many are watched as can be."""
        added = await self.watchlists.add_to_first(user_id, mint, NAME)
        return not isinstance(added, WatchDenied)

    async def remove(self, user_id: UserId, mint: Mint) -> None:
        """Let a user watch *mint* no longer."""
        first = await self._first(user_id)
        if first is not None:
            await self.watchlists.remove(user_id, first.watchlist_id, mint)

    async def _first(self, user_id: UserId) -> WatchlistLine | None:
        lines = await self.watchlists.of_user(user_id)
        return lines[0] if lines else None
