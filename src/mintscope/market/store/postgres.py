"""The parts of the market's store that are specific to PostgreSQL."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from mintscope.kit.primitives import Mint, UnixS
from mintscope.kit.sql.database import Database, Row
from mintscope.market.store.fold import KEPT
from mintscope.market.store.mints import DROP_OF_ALL, DROPPED_AT_ONCE, UNFOLLOW_ALL, Cut, SpanTable

VERSION: Final = "SELECT coalesce(max(seq), 0) FROM event WHERE kind IN ('track', 'untrack')"
NUMBERED: Final = "SELECT address, id FROM mint WHERE address = ANY(?::text[])"
TRACKED: Final = NUMBERED + " AND since_slot IS NOT NULL"
NUMBER: Final = "INSERT INTO mint (address) SELECT unnest(?::text[]) RETURNING address, id"
KEPT_OF: Final = KEPT.format(asked="SELECT unnest(?::text[]) AS value")
UNFOLLOWED: Final = UNFOLLOW_ALL.format(asked="SELECT unnest(?::text[])")
DROPPED: Final = [
    DROP_OF_ALL.format(table=table, numbers="SELECT unnest(?::bigint[])")
    for table in DROPPED_AT_ONCE
]

# Before the cut, a mint keeps only its newest candles with a price.  Rows are found mint by mint
# and deleted by their place.  OFFSET 0 keeps PostgreSQL from merging the subquery into a join: with
# some hundred cuts, it would join these with the whole table, which took longer than its timeout at
# ten million candles.
DROP_OLD: Final = """
DELETE FROM candle WHERE ctid = ANY (ARRAY(
    SELECT place
      FROM unnest(?::bigint[], ?::text[], ?::bigint[]) AS asked (mint, timeframe, cut)
     CROSS JOIN LATERAL (
           SELECT old.ctid AS place FROM candle AS old
            WHERE old.mint = asked.mint AND old.timeframe = asked.timeframe
              AND old.bucket < asked.cut
              AND (old.count = 0
                   OR old.bucket < (SELECT kept.bucket FROM candle AS kept
                                     WHERE kept.mint = asked.mint
                                       AND kept.timeframe = asked.timeframe AND kept.count > 0
                                     ORDER BY kept.bucket DESC LIMIT 1 OFFSET ?::bigint - 1))
           OFFSET 0) AS dropped))
"""
# A waypoint is needed only while its candle is stored.
DROP_WAYPOINTS: Final = """
DELETE FROM waypoint WHERE ctid = ANY (ARRAY(
    SELECT place
      FROM unnest(?::bigint[], ?::text[]) AS asked (mint, timeframe)
     CROSS JOIN LATERAL (
           SELECT old.ctid AS place FROM waypoint AS old
            WHERE old.mint = asked.mint AND old.timeframe = asked.timeframe
              AND old.bucket < (SELECT min(kept.bucket) FROM candle AS kept
                                 WHERE kept.mint = asked.mint
                                   AND kept.timeframe = asked.timeframe)
           OFFSET 0) AS dropped))
"""
DROP_OLD_SPANS: Final = """
DELETE FROM {table} WHERE ctid = ANY (ARRAY(
    SELECT place
      FROM unnest(?::bigint[], ?::bigint[]) AS asked (mint, cut)
     CROSS JOIN LATERAL (
           SELECT old.ctid AS place FROM {table} AS old
            WHERE old.mint = asked.mint AND old.bucket < asked.cut
           OFFSET 0) AS dropped))
"""
CUTS_MAX: Final = 1_000  # the most cuts in one statement, so that no statement takes long
NOTIFY: Final = "SELECT pg_notify('mintscope_market_' || current_schema(), '')"


class PostgresMarketTables:
    """The bulk SQL of `MarketTables` for PostgreSQL."""

    def version(self, db: Database) -> int:
        """Return the position of the newest stored event that tracked or untracked a mint, or 0."""
        return int(db.execute(VERSION).get)

    def numbers(
        self, db: Database, mints: Collection[Mint], *, creates: bool
    ) -> Mapping[Mint, int]:
        """Return the database ids of the tracked mints in *mints*, or of all *mints* if *creates*.

        creates   whether to insert a row for each mint without a row
        """
        found = {
            Mint(address): int(number)
            for address, number in db.execute(NUMBERED if creates else TRACKED, (list(mints),))
        }
        new = [mint for mint in mints if mint not in found] if creates else []
        if new:
            found.update((Mint(address), number) for address, number in db.execute(NUMBER, (new,)))
        return found

    def kept(self, db: Database, mints: Collection[Mint]) -> Iterable[Row]:
        """Return the rows that the SQL `fold.KEPT` selects for *mints*: their data before a fold.

        Mints without a row are left out.
        """
        return db.execute(KEPT_OF, (list(mints),))

    def drop_old(self, db: Database, cuts: Sequence[Cut], newest: int) -> None:
        """Delete the candles before *cuts*, and waypoints without candles.

        newest   this number of the newest candles with a price is kept of each mint and timeframe
        """
        for first in range(0, len(cuts), CUTS_MAX):
            part = zip(*cuts[first : first + CUTS_MAX], strict=True)
            columns = [list(column) for column in part]
            db.execute(DROP_OLD, (*columns, newest))
            if db.changes():  # waypoints become useless only if candles were deleted
                db.execute(DROP_WAYPOINTS, columns[:2])

    def drop_old_spans(
        self, db: Database, table: SpanTable, cuts: Sequence[tuple[int, UnixS]]
    ) -> None:
        """Delete old rows of *table*, for each mint those that begin before a given time.

        cuts   (id of the mint, this time)
        """
        statement = DROP_OLD_SPANS.format(table=table)
        for first in range(0, len(cuts), CUTS_MAX):
            part = zip(*cuts[first : first + CUTS_MAX], strict=True)
            db.execute(statement, [list(column) for column in part])

    def written(self, db: Database) -> None:
        """Notify processes that listen for new log events, once the transaction is committed."""
        db.execute(NOTIFY)

    def unfollow(self, db: Database, mints: Sequence[Mint]) -> Mapping[Mint, int]:
        """End the tracking of *mints*; return the ids of those that were tracked."""
        found = {
            Mint(address): int(number) for address, number in db.execute(UNFOLLOWED, (list(mints),))
        }
        for statement in DROPPED:
            db.execute(statement, (list(found.values()),))
        return found

    def tidy(self, db: Database) -> None:
        """Do nothing: PostgreSQL maintains its own files."""
