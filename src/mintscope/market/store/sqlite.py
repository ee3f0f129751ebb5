"""The parts of the market's store that are specific to SQLite."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import structlog

from mintscope.kit.primitives import Mint, UnixS
from mintscope.kit.sql.database import Database, Row
from mintscope.kit.sql.sqlite import (
    BUSY_TIMEOUT_MS,
    WAL_BYTES_MAX,
    SqliteDatabase,
    return_free_pages,
    size_of,
)
from mintscope.market.store.fold import KEPT
from mintscope.market.store.mints import (
    DROP_OF_ALL,
    DROPPED_AT_ONCE,
    UNFOLLOW_ALL,
    Cut,
    SpanTable,
    number,
)

TRACKED: Final = "SELECT id FROM mint WHERE address = ? AND since_slot IS NOT NULL"
KEPT_OF: Final = KEPT.format(asked="SELECT value FROM json_each(?)")
UNFOLLOWED: Final = UNFOLLOW_ALL.format(asked="SELECT value FROM json_each(?)")
DROPPED: Final = [
    DROP_OF_ALL.format(table=table, numbers="SELECT value FROM json_each(?)")
    for table in DROPPED_AT_ONCE
]
# Of the cuts in a JSON array, the indices of those before which there are candles: this is faster
# than one statement for each cut.
WITH_OLD: Final = """
SELECT key FROM json_each(?)
 WHERE EXISTS (SELECT 1 FROM candle
                WHERE mint = value ->> 0 AND timeframe = value ->> 1 AND bucket < value ->> 2)
"""

# Before the cut, a mint keeps only its newest candles with a price.
DROP_OLD: Final = """
DELETE FROM candle
 WHERE mint = :mint AND timeframe = :timeframe AND bucket < :cut
   AND (count = 0
        OR bucket < (SELECT bucket FROM candle
                      WHERE mint = :mint AND timeframe = :timeframe AND count > 0
                      ORDER BY bucket DESC LIMIT 1 OFFSET :newest - 1))
"""

# A waypoint is needed only while its candle is stored.
DROP_WAYPOINTS: Final = """
DELETE FROM waypoint
 WHERE mint = :mint AND timeframe = :timeframe
   AND bucket < (SELECT min(bucket) FROM candle WHERE mint = :mint AND timeframe = :timeframe)
"""

DROP_OLD_SPANS: Final = "DELETE FROM {table} WHERE mint = ? AND bucket < ?"

CHECKPOINT_MS: Final = 50  # the longest wait for readers of older pages
LOG_PAGES: Final = 1_000

log = structlog.get_logger()


def version(db: Database) -> int:
    """Return a number that changes when another connection commits a change of the database."""
    return int(db.execute("PRAGMA data_version").get)


class SqliteMarketTables:
    """The bulk SQL of `MarketTables` for SQLite."""

    def version(self, db: Database) -> int:
        """Return a number that changes when another connection commits a change of the database."""
        return version(db)

    def numbers(
        self, db: Database, mints: Collection[Mint], *, creates: bool
    ) -> Mapping[Mint, int]:
        """Return the database ids of the tracked mints in *mints*, or of all *mints* if *creates*.

        creates   whether to insert a row for each mint without a row
        """
        if creates:
            return {mint: number(db, mint) for mint in mints}
        found = {mint: db.execute(TRACKED, (mint,)).get for mint in mints}
        return {mint: one for mint, one in found.items() if one is not None}

    def kept(self, db: Database, mints: Collection[Mint]) -> Iterable[Row]:
        """Return the stored state of *mints*, with which their fold begins: the rows of `KEPT`.

        Mints without a row are left out.
        """
        return db.execute(KEPT_OF, (json.dumps(list(mints)),))

    def drop_old(self, db: Database, cuts: Sequence[Cut], newest: int) -> None:
        """Delete the candles before *cuts*, and waypoints without candles.

        newest   this number of the newest candles with a price is kept of each mint and timeframe
        """
        for (place,) in db.execute(WITH_OLD, (json.dumps(cuts),)):
            mint_id, timeframe, cut = cuts[place]
            bounds = {"mint": mint_id, "timeframe": timeframe, "cut": cut, "newest": newest}
            db.execute(DROP_OLD, bounds)
            db.execute(DROP_WAYPOINTS, bounds)

    def drop_old_spans(
        self, db: Database, table: SpanTable, cuts: Sequence[tuple[int, UnixS]]
    ) -> None:
        """Delete old rows of *table*, for each mint those that begin before a given time.

        cuts   (id of the mint, this time)
        """
        db.executemany(DROP_OLD_SPANS.format(table=table), cuts)

    def written(self, db: Database) -> None:
        """Do nothing, because readers poll a SQLite file."""

    def unfollow(self, db: Database, mints: Sequence[Mint]) -> Mapping[Mint, int]:
        """End the tracking of *mints*; return the ids of those that were tracked."""
        found = {
            Mint(address): int(number)
            for address, number in db.execute(UNFOLLOWED, (json.dumps(list(mints)),))
        }
        for statement in DROPPED:
            db.execute(statement, (json.dumps(list(found.values())),))
        return found

    def tidy(self, db: Database) -> None:
        """Return some unused pages of the database file to the disk.

        If the write-ahead log is larger than WAL_BYTES_MAX, it is emptied, too.
        """
        assert isinstance(db, SqliteDatabase)
        return_free_pages(db, "market")
        if size_of(db.wal) > WAL_BYTES_MAX:
            _empty_log(db)


def copy_log(db: Database) -> None:
    """Copy SQLite's write-ahead log into the database file if over LOG_PAGES of it are not copied.

    *db* is not the writer's connection, and is used in another thread, so no slot waits for the
    copy.  A page that several commits changed is copied only once.
    """
    _, pages, copied = db.execute("PRAGMA wal_checkpoint(NOOP)").get
    if pages - copied > LOG_PAGES:
        db.execute("PRAGMA wal_checkpoint(PASSIVE)")


def _empty_log(db: SqliteDatabase) -> None:
    """Empty SQLite's write-ahead log, unless a reader still needs it."""
    # *db* is the writer's connection: while it waits for readers, blocks wait, too.
    db.connection.set_busy_timeout(CHECKPOINT_MS)
    try:
        busy, *_ = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").get
    finally:
        db.connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    log.debug("wal_emptied" if not busy else "wal_needed_by_a_reader", bytes=size_of(db.wal))
