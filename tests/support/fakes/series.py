"""Series in memory, obeying `market.series.store`, over a log in memory."""

from msgspec.structs import astuple

from mintscope.base.primitives import Mint
from mintscope.core.market.series.store import AskedCandles, KeptCandles, SeriesCandle
from support.fakes.log import FakeLog, Kept


class FakeSeries:
    """Reads *log*; what is final is folded."""

    def __init__(self, log: FakeLog) -> None:
        self._log = log

    async def candles(self, mint: Mint, asked: AskedCandles) -> KeptCandles | None:
        log = self._log
        if mint not in log.tracked_at(log.seq):
            return None
        swaps, folded, kept = log.swaps_at(log.seq, mint), log.folded_at(log.seq, mint), Kept()
        if folded:
            kept.fold(swaps[:folded])
        all_rows = [
            SeriesCandle(*astuple(row)) for row in kept.rows[asked.timeframe].values() if row.count
        ]
        rows = [row for row in all_rows if row.bucket <= asked.until]
        shown = rows[-asked.rows_max :]
        return KeptCandles(
            tip=log.tip_at(log.seq),
            state=kept.state,
            in_sol=kept.in_sol,
            rows=shown,
            has_older=len(rows) > len(shown),
            newer=len(all_rows) - len(rows),
            waypoints=[
                each
                for each in kept.waypoints[asked.timeframe]
                if shown and shown[0].bucket <= each.bucket <= asked.until
            ],
            tail=swaps[folded:],
        )
