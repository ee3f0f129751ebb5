"""SeriesReader: each verb reads one snapshot, beside the writer."""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from mintscope.base.errors import ServiceUnavailable
from mintscope.base.primitives import Mint, UnixS
from mintscope.core.market.log import LogTip, Waypoint
from mintscope.core.market.series.store import AskedCandles, KeptCandles, SeriesCandle
from mintscope.edges.storage.database import AccessInThreads, Database, DatabaseError
from mintscope.edges.storage.sql.market.log_reader import NOT_FOLDED, READ_TIMEOUT_S, TIP
from mintscope.edges.storage.sql.market.rows import swaps_of

Result = TypeVar("Result")

STANDS: Final = """
SELECT mint.id, since_slot, state.state, in_sol, folded_seq
  FROM mint CROSS JOIN progress LEFT JOIN state ON state.mint = mint.id
 WHERE address = ? AND since_slot IS NOT NULL
"""
ROWS: Final = """
SELECT bucket, open, high, low, close, buy_volume, sell_volume, count,
       open_sol, high_sol, low_sol, close_sol,
       CASE WHEN provider IS NOT NULL THEN coalesce(provider_volume, 0) END
  FROM candle
 WHERE mint = :mint AND timeframe = :timeframe AND bucket <= :until AND count > 0
 ORDER BY bucket DESC LIMIT :limit
"""
NEWER: Final = """
SELECT count(*) FROM candle
 WHERE mint = :mint AND timeframe = :timeframe AND bucket > :until AND count > 0
"""
WAYPOINTS: Final = """
SELECT bucket, closed, acc FROM waypoint
 WHERE mint = :mint AND timeframe = :timeframe AND bucket >= :oldest AND bucket <= :until
 ORDER BY bucket
"""


class SqlSeries:
    """Implements SeriesReader; `close` it when done."""

    def __init__(self, access: AccessInThreads[Database]) -> None:
        self._access = access

    async def candles(self, mint: Mint, asked: AskedCandles) -> KeptCandles | None:
        """Return the candles of *mint* that are asked for; None if it is not tracked."""
        return await self._read(lambda db: _candles(db, mint, asked))

    async def close(self) -> None:
        """Let go of the database and the threads."""
        self._access.close()

    async def _read(self, read: Callable[[Database], Result]) -> Result:
        def in_snapshot(db: Database) -> Result:
            with db.snapshot():
                return read(db)

        try:
            async with asyncio.timeout(READ_TIMEOUT_S):
                return await self._access.run(in_snapshot)
        except (DatabaseError, TimeoutError) as cause:
            raise ServiceUnavailable("The market data cannot be read now; try again.") from cause


def tip_of(db: Database) -> LogTip:
    """Return where the log stands, within a snapshot."""
    seq, slot, time, follows_files = db.execute(TIP).get
    return LogTip(seq=seq, slot=slot, time=time, follows_files=bool(follows_files))


def _candles(db: Database, mint: Mint, asked: AskedCandles) -> KeptCandles | None:
    found = db.execute(STANDS, (mint,)).fetchone()
    if found is None:
        return None
    mint_id, since_slot, state, in_sol, folded_seq = found
    bounds = {"mint": mint_id, "timeframe": asked.timeframe, "until": asked.until}
    read = list(db.execute(ROWS, bounds | {"limit": asked.rows_max + 1}))
    rows = [SeriesCandle(*row) for row in reversed(read[: asked.rows_max])]
    waypoints = []
    if rows:
        waypoints = [
            Waypoint(*row) for row in db.execute(WAYPOINTS, bounds | {"oldest": rows[0].bucket})
        ]
    ahead = {"mint": mint_id, "since": since_slot, "folded": folded_seq}
    return KeptCandles(
        tip=tip_of(db),
        state=state,
        in_sol=in_sol,
        rows=rows,
        has_older=len(read) > asked.rows_max,
        newer=db.execute(NEWER, bounds).get,
        waypoints=waypoints,
        tail=[
            (UnixS(time), swap)
            for _, time, blob in db.execute(NOT_FOLDED, ahead)
            for swap in swaps_of(mint, blob)
        ],
    )
