"""What SQLite does in its own way for the market."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from mintscope.base.primitives import Mint
from mintscope.edges.storage.database import Database, Row
from mintscope.edges.storage.sql.market.fold import KEPT
from mintscope.edges.storage.sql.market.mints import number
from mintscope.edges.storage.sql.market.tables import Cut

TRACKED: Final = "SELECT id FROM mint WHERE address = ? AND since_slot IS NOT NULL"
KEPT_OF: Final = KEPT.format(asked="SELECT value FROM json_each(?)")
HAS_OLD: Final = "SELECT 1 FROM candle WHERE mint = ? AND timeframe = ? AND bucket < ? LIMIT 1"

# Beyond the cut a mint keeps its newest candles; minutes without a price are no candles.
DROP_OLD: Final = """
DELETE FROM candle
 WHERE mint = :mint AND timeframe = :timeframe AND bucket < :cut
   AND (count = 0
        OR bucket < (SELECT bucket FROM candle
                      WHERE mint = :mint AND timeframe = :timeframe AND count > 0
                      ORDER BY bucket DESC LIMIT 1 OFFSET :newest - 1))
"""

# One is of use while its candle is kept.
DROP_WAYPOINTS: Final = """
DELETE FROM waypoint
 WHERE mint = :mint AND timeframe = :timeframe
   AND bucket < (SELECT min(bucket) FROM candle WHERE mint = :mint AND timeframe = :timeframe)
"""


def version(db: Database) -> int:
    """Return a number that changes when another connection has committed."""
    return int(db.execute("PRAGMA data_version").get)


class SqliteMarketTables:
    """Implements MarketTables."""

    def version(self, db: Database) -> int:
        """Return a number that changes when another process has written."""
        return version(db)

    def numbers(
        self, db: Database, mints: Collection[Mint], *, creates: bool
    ) -> Mapping[Mint, int]:
        """Return the numbers of those *mints* that have one."""
        if creates:
            return {mint: number(db, mint) for mint in mints}
        found = {mint: db.execute(TRACKED, (mint,)).get for mint in mints}
        return {mint: one for mint, one in found.items() if one is not None}

    def kept(self, db: Database, mints: Collection[Mint]) -> Iterable[Row]:
        """Return the rows of `fold.KEPT` for *mints*."""
        return db.execute(KEPT_OF, (json.dumps(list(mints)),))

    def drop_old(self, db: Database, cuts: Sequence[Cut], newest: int) -> None:
        """Drop the candles before *cuts*; most mints have none, which the index tells."""
        for mint_id, timeframe, cut in cuts:
            if db.execute(HAS_OLD, (mint_id, timeframe, cut)).get is not None:
                bounds = {"mint": mint_id, "timeframe": timeframe, "cut": cut, "newest": newest}
                db.execute(DROP_OLD, bounds)
                db.execute(DROP_WAYPOINTS, bounds)

    def written(self, db: Database) -> None:
        """Do nothing: readers see a commit when they look."""
