"""Watchlists of users: named lists of mints."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NewType

from mintscope.kit.primitives import Mint, UnixMs

WATCHLISTS_MAX: Final = 20
WATCHED_MAX: Final = 200
WATCHLIST_NAME_LENGTH_MAX: Final = 64

WatchlistId = NewType("WatchlistId", int)


class WatchDenied(Enum):
    """A reason why a watchlist is not created or changed."""

    NOT_FOUND = auto()
    TOO_MANY = auto()
    KEY_USED = auto()  # the Idempotency-Key was used by another request


@dataclass(frozen=True, slots=True)
class WatchlistLine:
    """A watchlist with the number of its mints, but without the mints."""

    watchlist_id: WatchlistId
    name: str
    mint_count: int
    created_at: UnixMs


@dataclass(frozen=True, slots=True)
class Watchlist:
    """A watchlist with its mints, in the order in which they were added."""

    line: WatchlistLine
    mints: Sequence[Mint]
