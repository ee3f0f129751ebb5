"""Watchlists of users: mints under a name."""

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
    """The reason why nothing is changed."""

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
    """A watchlist with its mints, in the order in which they were added."""

    line: WatchlistLine
    mints: Sequence[Mint]


class WatchlistRows(Protocol):
    """The watchlists of users inside one transaction; those of others are not found."""

    def of_user(self, user_id: UserId) -> Sequence[WatchlistLine]:
        """Return the watchlists of a user, in the order in which they were made."""

    def find(self, user_id: UserId, watchlist_id: WatchlistId) -> WatchlistLine | None:
        """Return one watchlist of a user."""

    def insert(self, user_id: UserId, name: str, at: UnixMs) -> WatchlistId:
        """Add a watchlist without mints."""

    def rename(self, watchlist_id: WatchlistId, name: str) -> None:
        """Give a watchlist another name."""

    def delete(self, watchlist_id: WatchlistId) -> None:
        """Delete a watchlist and what is on it."""

    def hand_over(self, giver: UserId, taker: UserId) -> None:
        """Let the watchlists of *giver* be those of *taker*, however many that are."""


class WatchedRows(Protocol):
    """The mints on watchlists inside one transaction."""

    def on(self, watchlist_id: WatchlistId) -> Sequence[Mint]:
        """Return the mints on a watchlist, in the order in which they were added."""

    def add(self, watchlist_id: WatchlistId, mint: Mint, at: UnixMs) -> None:
        """Add a mint that is not on this watchlist yet."""

    def remove(self, watchlist_id: WatchlistId, mint: Mint) -> bool:
        """Take a mint off a watchlist; say whether it was there."""
