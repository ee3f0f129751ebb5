"""Stores the list of tracked mints in SQL.

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
    """A time before which the candles of a mint and a timeframe are deleted."""

    mint_id: int
    timeframe: Timeframe
    cut: UnixS


class MarketTables(Protocol):
    """Bulk reads and writes of the market, and notifications of other processes.

    SQLite and PostgreSQL need different SQL for them.
    """

    def version(self, db: Database) -> int:
        """Return a number that changes when another process tracks or untracks a mint."""

    def numbers(
        self, db: Database, mints: Collection[Mint], *, creates: bool
    ) -> Mapping[Mint, int]:
        """Return the ids of the tracked mints in *mints*, or of all *mints* if *creates*.

        creates   whether to insert a row for each mint without a row
        """

    def kept(self, db: Database, mints: Collection[Mint]) -> Iterable[Row]:
        """Return the rows that the SQL `fold.KEPT` selects for *mints*: their data before a fold.

        Mints without a row are left out.
        """

    def drop_old(self, db: Database, cuts: Sequence[Cut], newest: int) -> None:
        """Delete the candles before *cuts*, and waypoints without candles.

        newest   this number of the newest candles with a price is kept of each mint and timeframe
        """

    def drop_old_spans(
        self, db: Database, table: SpanTable, cuts: Sequence[tuple[int, UnixS]]
    ) -> None:
        """Delete old rows of *table*, for each mint those that begin before a given time.

        cuts   (id of the mint, this time)
        """

    def written(self, db: Database) -> None:
        """Notify processes that listen for new log events; call this in the write's transaction."""

    def unfollow(self, db: Database, mints: Sequence[Mint]) -> Mapping[Mint, int]:
        """End the tracking of *mints*; return the ids of those that were tracked.

        Their candles are only marked; `retention.clear_some` deletes them later.
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
    """A cache of the ids of mints in the table `mint`: of those whose swaps are logged.

    It is kept from one transaction to the next.  It is cleared if it is full, or if another
    process, such as a command of an operator, may have tracked or untracked a mint.
    """

    def __init__(self, tables: MarketTables, *, creates: bool) -> None:
        """Begin with an empty cache.

        creates   whether the swaps of each mint are logged, so that each mint gets a row; if False,
                  only those of tracked mints are
        """
        self._tables = tables
        self._creates = creates
        self._version: int | None = None
        self._ids: dict[Mint, int | None] = {}

    def refresh(self, db: Database) -> None:
        """Clear the cache of mint ids if it is full, or if another process has changed the mints.

        Call this in a transaction.
        """
        version = self._tables.version(db)
        # Not in `look_up`: its callers use this dictionary until their transaction ends.
        if version != self._version or len(self._ids) >= KNOWN_MAX:
            self._ids.clear()
            self._version = version

    def forget(self) -> None:
        """Mark the cache of mint ids as outdated, because this process has changed mints.

        The next call of `refresh` clears it.
        """
        self._version = None

    def drop(self, mints: Sequence[Mint]) -> None:
        """Remove *mints*, whose rows in the table were deleted, from the cache of their ids."""
        for mint in mints:
            self._ids.pop(mint, None)

    def look_up(self, db: Database, mints: Collection[Mint]) -> Mapping[Mint, int | None]:
        """Return a mapping with the ids of at least *mints*; None: its swaps are not logged."""
        unknown = [mint for mint in mints if mint not in self._ids]
        if unknown:
            found = self._tables.numbers(db, unknown, creates=self._creates)
            self._ids.update((mint, found.get(mint)) for mint in unknown)
        return self._ids


def number(db: Database, mint: Mint) -> int:
    """Return the id of *mint* in the table `mint`; insert a row if there is none."""
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
    by_rule   whether a rule tracks the mint, not an operator.  A mint that an operator tracks is
              listed: no rule untracks it
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
    """Untrack *mint* and mark it as removed; return False if it was not tracked.

    No rule tracks it again until an operator adds it.
    """
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
    """End the tracking of *mints*, in their order.

    Their candles are only marked; `retention.clear_some` deletes them later.
    """
    for first in range(0, len(mints), UNFOLLOWED_A_STATEMENT):
        part = mints[first : first + UNFOLLOWED_A_STATEMENT]
        gone = tables.unfollow(db, part)
        in_order = [mint for mint in part if mint in gone]
        seq = last_seq(db) + 1
        db.executemany(
            UNTRACKED, ((seq + n, "untrack", mints_blob([mint])) for n, mint in enumerate(in_order))
        )
