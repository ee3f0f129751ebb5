"""Imports, and how ingest takes them in."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from mintscope.base.primitives import Mint
from mintscope.core.market.engine.fold import read_state
from mintscope.core.market.history.imports import (
    CannotImport,
    Imported,
    ImportedCandle,
    continued,
    waypoints_of,
)
from mintscope.core.market.timeframe import Timeframe
from mintscope.edges.storage.database import Database, DatabaseAccess, unavailable_on_database_error
from mintscope.edges.storage.sql.market.fold import WAYPOINTS
from mintscope.edges.storage.sql.market.mints import ADD_EVENT
from mintscope.edges.storage.sql.market.rows import last_seq, mints_blob
from mintscope.edges.storage.sql.market.tracking import UNAVAILABLE

TRACKED: Final = """
SELECT id, state.state FROM mint LEFT JOIN state ON state.mint = id
 WHERE address = ? AND since_slot IS NOT NULL
"""
STAGE: Final = """
INSERT INTO import_candle VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (mint, timeframe, bucket) DO UPDATE
   SET open = excluded.open, high = excluded.high, low = excluded.low, close = excluded.close,
       volume = excluded.volume, provider = excluded.provider
"""
KEPT: Final = "SELECT count(*) FROM candle WHERE mint = ? AND timeframe = ? AND count > 0"
COUNTS: Final = """
SELECT timeframe, max(provider), sum(1 - is_waiting), sum(is_waiting)
  FROM (SELECT mint, timeframe, provider, 0 AS is_waiting FROM candle WHERE provider IS NOT NULL
        UNION ALL SELECT mint, timeframe, provider, 1 FROM import_candle) AS imported
 WHERE mint = (SELECT id FROM mint WHERE address = ?)
 GROUP BY timeframe
"""

# Imports that wait for a mint that has a candle of its own by now.
WAITING: Final = """
SELECT mint.id, address, timeframe, state.state
  FROM import_candle JOIN mint ON mint.id = import_candle.mint
  JOIN state ON state.mint = mint.id
 WHERE EXISTS (SELECT 1 FROM candle WHERE candle.mint = mint.id AND count > 0
                AND candle.timeframe = import_candle.timeframe AND provider IS NULL)
 ORDER BY mint.id, timeframe LIMIT 1
"""
TAKE: Final = """
INSERT INTO candle (mint, timeframe, bucket, open, high, low, close,
                    buy_volume, sell_volume, count, provider, provider_volume)
SELECT mint, timeframe, bucket, open, high, low, close, 0, 0, 1, provider, volume
  FROM import_candle
 WHERE mint = :mint AND timeframe = :timeframe
   AND bucket < (SELECT min(bucket) FROM candle
                  WHERE mint = :mint AND timeframe = :timeframe AND provider IS NULL)
ON CONFLICT (mint, timeframe, bucket) DO UPDATE
   SET open = excluded.open, high = excluded.high, low = excluded.low, close = excluded.close,
       buy_volume = 0, sell_volume = 0, count = 1, provider = excluded.provider,
       provider_volume = excluded.provider_volume
"""
IMPORTED_FROM: Final = """
UPDATE state SET state = :state, imported_from =
       (SELECT min(bucket) FROM candle WHERE mint = :mint AND provider IS NOT NULL)
 WHERE mint = :mint
"""
DONE: Final = "DELETE FROM import_candle WHERE mint = ? AND timeframe = ?"
CLOSES: Final = """
SELECT bucket, close FROM candle WHERE mint = ? AND timeframe = ? AND count > 0 ORDER BY bucket
"""


class SqlImports:
    """Implements Imports."""

    def __init__(self, access: DatabaseAccess[Database]) -> None:
        self._access = access

    async def add(
        self, mint: Mint, timeframe: Timeframe, provider: str, candles: Sequence[ImportedCandle]
    ) -> None:
        """Let ingest put *candles* before the own ones of *mint*, once it has one."""

        def work(db: Database) -> None:
            found = db.execute(TRACKED, (mint,)).fetchone()
            if found is None:
                raise CannotImport(f"{mint} is not tracked: mintscope tokens add {mint}")
            mint_id, state = found
            if state is not None and not _is_whole(db, mint_id, timeframe, state):
                raise CannotImport(
                    f"the oldest {timeframe} candles of {mint} are no longer kept, so the series"
                    " cannot be continued: remove the mint and add it again"
                )
            rows = ((mint_id, timeframe, *candle, provider) for candle in candles)
            db.executemany(STAGE, rows)

        with unavailable_on_database_error(UNAVAILABLE):
            await self._access.run(lambda db: _in_transaction(db, work))

    async def counts(self, mint: Mint) -> Mapping[Timeframe, Imported]:
        """Return what was imported for *mint*."""
        with unavailable_on_database_error(UNAVAILABLE):
            rows = await self._access.run(lambda db: db.execute(COUNTS, (mint,)))
        return {Timeframe(timeframe): Imported(*counted) for timeframe, *counted in rows}

    async def close(self) -> None:
        """Let go of the database."""
        self._access.close()


def _in_transaction(db: Database, work: Callable[[Database], None]) -> None:
    with db.transaction():
        work(db)


def join_imported(db: Database) -> Mint | None:
    """Put the candles that wait before the own ones of a mint, and return it; None without any.

    Within a transaction of ingest.
    """
    found = db.execute(WAITING).fetchone()
    if found is None:
        return None
    mint_id, mint, name, state = found
    timeframe = Timeframe(name)
    if _is_whole(db, mint_id, timeframe, state):
        db.execute(TAKE, {"mint": mint_id, "timeframe": timeframe})
        closes = [close for _, close in db.execute(CLOSES, (mint_id, timeframe))]
        whole = continued(state, timeframe, closes)
        add_waypoints(db, mint_id, timeframe)
        db.execute(IMPORTED_FROM, {"state": whole, "mint": mint_id})
        for kind in ("untrack", "track"):
            db.execute(ADD_EVENT, (last_seq(db) + 1, kind, mints_blob([mint])))
    db.execute(DONE, (mint_id, timeframe))
    return Mint(mint)


def add_waypoints(db: Database, mint_id: int, timeframe: Timeframe) -> None:
    """Let series begin at some of the candles of a mint, which are all there; in a transaction."""
    db.execute("DELETE FROM waypoint WHERE mint = ? AND timeframe = ?", (mint_id, timeframe))
    closes = [(bucket, close) for bucket, close in db.execute(CLOSES, (mint_id, timeframe))]
    rows = ((mint_id, timeframe, *each) for each in waypoints_of(closes))
    db.executemany(WAYPOINTS, rows)


def _is_whole(db: Database, mint_id: int, timeframe: Timeframe, state: bytes) -> bool:
    """Say whether every candle that the state has counted is still kept."""
    frame = read_state(state)["frames"][0][list(Timeframe).index(timeframe)]
    return bool(db.execute(KEPT, (mint_id, timeframe)).get == int(frame["count"]))
