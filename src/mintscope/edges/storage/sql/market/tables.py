"""The parts that differ in each engine of the market."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from mintscope.base.primitives import Mint, UnixS
from mintscope.core.market.timeframe import Timeframe
from mintscope.edges.storage.database import Database, Row


class Cut(NamedTuple):
    """From where on the candles of a mint's timeframe are old: before that bucket."""

    mint_id: int
    timeframe: Timeframe
    cut: UnixS


class MarketTables(Protocol):
    """Bulk reads and writes, and the engine's knowledge of other writers."""

    def version(self, db: Database) -> int:
        """Return a number that changes when another process has tracked or untracked a mint."""

    def numbers(
        self, db: Database, mints: Collection[Mint], *, creates: bool
    ) -> Mapping[Mint, int]:
        """Return the numbers of those *mints* that have one: the tracked ones.

        creates   give each mint a number
        """

    def kept(self, db: Database, mints: Collection[Mint]) -> Iterable[Row]:
        """Return the rows of `fold.KEPT` for *mints*."""

    def drop_old(self, db: Database, cuts: Sequence[Cut], newest: int) -> None:
        """Drop the candles before *cuts*, beyond the *newest* ones that have a price."""

    def written(self, db: Database) -> None:
        """Wake who reads the log; within the transaction that wrote it."""

    def unfollow(self, db: Database, mints: Sequence[Mint]) -> Mapping[Mint, int]:
        """Stop following *mints*, and keep their candles; return the numbers of those followed."""

    def tidy(self, db: Database) -> None:
        """Return a bounded part of the unused space to the disk."""
