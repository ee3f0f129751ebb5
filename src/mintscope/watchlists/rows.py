"""Watchlists of users: named lists of mints."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NewType, Protocol

from mintscope.kit.audit import UserId
from mintscope.kit.primitives import Mint, UnixMs

WATCHLISTS_MAX: Final = 20
WATCHED_MAX: Final = 200
WATCHLIST_NAME_LENGTH_MAX: Final = 64

WatchlistId = NewType("WatchlistId", int)


class WatchDenied(Enum):
    """The reason why nothing was changed."""

    NOT_FOUND = auto()
    TOO_MANY = auto()
    KEY_USED = auto()  # the Idempotency-Key was sent with another request before


@dataclass(frozen=True, slots=True)
class WatchlistLine:
    """A watchlist, without its mints."""

    watchlist_id: WatchlistId
    name: str
    mint_count: int
    created_at: UnixMs


@dataclass(frozen=True, slots=True)
class Watchlist:
    """A watchlist with its mints, in the order they were added."""

    line: WatchlistLine
    mints: Sequence[Mint]


class WatchlistRows(Protocol):
    """The watchlists of users in one transaction; those of other users are not found."""

    def of_user(self, user_id: UserId) -> Sequence[WatchlistLine]:
        """Return the watchlists of a user, in the order they were made."""

    def find(self, user_id: UserId, watchlist_id: WatchlistId) -> WatchlistLine | None:
        """Return one watchlist of a user."""

    def insert(self, user_id: UserId, name: str, at: UnixMs) -> WatchlistId:
        """Add a watchlist without mints."""

    def rename(self, watchlist_id: WatchlistId, name: str) -> None:
        """Rename a watchlist."""

    def delete(self, watchlist_id: WatchlistId) -> None:
        """Delete a watchlist and its entries."""

    def hand_over(self, giver: UserId, taker: UserId) -> None:
        """Transfer all watchlists of *giver* to *taker*, even beyond the usual limit."""


class WatchedRows(Protocol):
    """The mints on watchlists, within one transaction."""

    def on(self, watchlist_id: WatchlistId) -> Sequence[Mint]:
        """Return the mints on a watchlist, in the order they were added."""

    def add(self, watchlist_id: WatchlistId, mint: Mint, at: UnixMs) -> None:
        """Add a mint that is not on this watchlist yet."""

    def remove(self, watchlist_id: WatchlistId, mint: Mint) -> bool:
        """Take a mint off a watchlist; return whether it was on it."""
