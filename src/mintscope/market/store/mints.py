"""Stores tracked mints in SQL.

The number of a mint is its id in the table `mint`.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

from mintscope.kit.primitives import Mint, Slot, UnixS
from mintscope.kit.sql.database import Batch, Database, Row
from mintscope.market.store.log_reader import last_seq, mints_blob
from mintscope.market.store.retention import DELETE, clear, clear_if_left
from mintscope.market.timeframe import Timeframe

SpanTable: TypeAlias = Literal["pool_candle", "crowd"]


class Cut(NamedTuple):
    """The bucket before which the candles of a mint and a timeframe are deleted."""

    mint_id: int
    timeframe: Timeframe
    cut: UnixS


class MarketTables(Protocol):
    """Bulk reads and writes, and notices to other processes, which differ by database engine."""

    def version(self, db: Database) -> int:
        """Return a number that changes when another process has tracked or untracked a mint."""

    def numbers(
        self, db: Database, mints: Collection[Mint], *, creates: bool
    ) -> Mapping[Mint, int]:
        """Return the ids of the tracked mints in *mints*, or of all *mints* if *creates*.

        creates   whether to insert a row for each mint without a row
        """

    def kept(self, db: Database, mints: Collection[Mint]) -> Iterable[Row]:
        """Return the rows that the statement `fold.KEPT` selects for *mints*."""

    def drop_old(self, db: Database, cuts: Sequence[Cut], newest: int) -> None:
        """Delete the candles before *cuts*, and waypoints without candles.

        newest   this number of the newest candles with a price is kept of each mint and timeframe
        """

    def drop_old_spans(
        self, db: Database, table: SpanTable, cuts: Sequence[tuple[int, UnixS]]
    ) -> None:
        """Delete the rows of *table* before *cuts*: (id of a mint, bucket)."""

    def written(self, db: Database) -> None:
        """Notify readers of the log that do not poll; call this in the transaction of the write."""

    def unfollow(self, db: Database, mints: Sequence[Mint]) -> Mapping[Mint, int]:
        """Untrack *mints*; return the ids of those that were tracked.

        The candles of these mints are only marked; `retention.clear_some` deletes them later.
        """

    def tidy(self, db: Database) -> None:
        """Return a limited part of the unused space in the database to the disk."""


KNOWN_MAX: Final = 200_000

ADD_EVENT: Final = "INSERT INTO event (seq, kind, mints) VALUES (?, ?, ?)"
ADD_MINT: Final = "INSERT INTO mint (address) VALUES (?) RETURNING id"

FOLLOW: Final = """
UPDATE mint SET since_slot = ?, since_time = ? WHERE address = ? AND since_slot IS NULL
RETURNING id
"""

UNFOLLOW: Final = """
UPDATE mint SET since_slot = NULL, since_time = NULL, is_listed = 0
 WHERE address = ? AND since_slot IS NOT NULL
RETURNING id
"""

# In these statements, `asked` and `numbers` are subqueries for the values of an array, which differ
# by engine.
UNFOLLOW_ALL: Final = """
UPDATE mint SET since_slot = NULL, since_time = NULL, is_listed = 0, is_uncleared = 1
 WHERE address IN ({asked}) AND since_slot IS NOT NULL
RETURNING address, id
"""
DROP_OF_ALL: Final = "DELETE FROM {table} WHERE mint IN ({numbers})"
DROPPED_AT_ONCE: Final = ("state", "history_job", "import_candle")
UNFOLLOWED_A_STATEMENT: Final = 5_000
UNTRACKED: Final = Batch("event", {"seq": "bigint", "kind": "text", "mints": "bytea"})

TIP: Final = """
SELECT slot, time FROM header WHERE seq = (SELECT max(seq) FROM header WHERE is_dead = 0)
"""
BEFORE_ALL: Final = Slot(-1)


class MintIds:
    """A cache of the ids, in the table `mint`, of the mints whose swaps are logged.

    The cache is kept from one transaction to the next.  It is cleared if it is full, or if another
    process, such as a command of an operator, may have tracked or untracked a mint.
    """

    def __init__(self, tables: MarketTables, *, creates: bool) -> None:
        """Begin with an empty cache.

        creates   whether each mint is logged, and gets a row; if False, only tracked mints are
        """
        self._tables = tables
        self._creates = creates
        self._version: int | None = None
        self._ids: dict[Mint, int | None] = {}

    def refresh(self, db: Database) -> None:
        """Clear the cache if it is full or may be outdated; call it in a transaction."""
        version = self._tables.version(db)
        # Not in `look_up`: its callers use this dictionary until their transaction ends.
        if version != self._version or len(self._ids) >= KNOWN_MAX:
            self._ids.clear()
            self._version = version

    def forget(self) -> None:
        """Mark the cache as outdated, because this process has changed mints; see `refresh`."""
        self._version = None

    def drop(self, mints: Sequence[Mint]) -> None:
        """Remove *mints*, whose rows were deleted, from the cache."""
        for mint in mints:
            self._ids.pop(mint, None)

    def look_up(self, db: Database, mints: Collection[Mint]) -> Mapping[Mint, int | None]:
        """Return ids by mint, at least of *mints*; None: the mint is not logged."""
        unknown = [mint for mint in mints if mint not in self._ids]
        if unknown:
            found = self._tables.numbers(db, unknown, creates=self._creates)
            self._ids.update((mint, found.get(mint)) for mint in unknown)
        return self._ids


def number(db: Database, mint: Mint) -> int:
    """Return the id of *mint*; insert a row for the mint if necessary."""
    found = db.execute("SELECT id FROM mint WHERE address = ?", (mint,)).get
    return int(db.execute(ADD_MINT, (mint,)).get if found is None else found)


def track(
    db: Database,
    mint: Mint,
    since: tuple[Slot, UnixS] | None = None,
    *,
    by_rule: bool = False,
) -> bool:
    """Track *mint* from the slot after *since* on; return False if it was tracked already.

    since     a slot and its time; None: the newest slot of the log
    by_rule   if False, an operator tracks the mint: it becomes listed, so that no rule untracks it
    """
    mint_id = number(db, mint)
    clear_if_left(db, mint_id)  # candles from before would be mixed with the new ones
    if not by_rule:
        db.execute("UPDATE mint SET is_listed = 1, is_removed = 0 WHERE id = ?", (mint_id,))
    slot, time = since or db.execute(TIP).fetchone() or (BEFORE_ALL, None)
    if db.execute(FOLLOW, (slot, time, mint)).get is None:
        return False
    db.execute(ADD_EVENT, (last_seq(db) + 1, "track", mints_blob([mint])))
    return True


def remove(db: Database, mint: Mint) -> bool:
    """Untrack *mint*, so that no rule tracks it again; return False if it was not tracked."""
    db.execute("UPDATE mint SET is_removed = 1 WHERE id = ?", (number(db, mint),))
    return untrack(db, mint)


def untrack(db: Database, mint: Mint) -> bool:
    """Untrack *mint* and delete its stored data; return False if it was not tracked."""
    mint_id = db.execute(UNFOLLOW, (mint,)).get
    if mint_id is None:
        return False
    clear(db, mint_id)
    for table in DROPPED_AT_ONCE:
        db.execute(DELETE.format(table=table), (mint_id,))
    db.execute(ADD_EVENT, (last_seq(db) + 1, "untrack", mints_blob([mint])))
    return True


def untrack_all(db: Database, tables: MarketTables, mints: Sequence[Mint]) -> None:
    """Untrack *mints*, in their order; `retention.clear_some` deletes their candles later."""
    for first in range(0, len(mints), UNFOLLOWED_A_STATEMENT):
        part = mints[first : first + UNFOLLOWED_A_STATEMENT]
        gone = tables.unfollow(db, part)
        in_order = [mint for mint in part if mint in gone]
        seq = last_seq(db) + 1
        db.executemany(
            UNTRACKED, ((seq + n, "untrack", mints_blob([mint])) for n, mint in enumerate(in_order))
        )
