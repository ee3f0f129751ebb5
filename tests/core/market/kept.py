"""What storage keeps of one mint, in dictionaries: rows by the MintFold, loads as from SQL."""

from collections.abc import Sequence

from slow import Trade
from streams import MINT, swap

from mintscope.market.fold import MintFold
from mintscope.market.log import CandleRow, LoadedMint, PricedSwap, TailSwap
from mintscope.market.timeframe import Timeframe
from mintscope.primitives import Mint, Slot, UnixS

DAY_S = 86_400
TAIL_S = 900


class Kept:
    """The written candles and state of a mint; every `fold` is one transaction."""

    def __init__(self) -> None:
        self.rows: dict[Timeframe, dict[UnixS, CandleRow]] = {t: {} for t in Timeframe}
        self.state: bytes | None = None

    def open_candles(self) -> dict[Timeframe, CandleRow]:
        priced = {t: [row for row in rows.values() if row.count] for t, rows in self.rows.items()}
        return {timeframe: rows[-1] for timeframe, rows in priced.items() if rows}

    def fold(self, swaps: Sequence[tuple[UnixS, PricedSwap]]) -> None:
        fold = MintFold.from_state(self.state, self.open_candles())
        for time, priced in swaps:
            fold.apply(time, priced)
        for timeframe, rows in fold.changed().items():
            self.rows[timeframe].update((row.bucket, row) for row in rows)
        self.state = fold.state()

    def load(
        self,
        seq: int,
        tip: int,
        swaps: Sequence[tuple[Slot, UnixS, PricedSwap]],
        folded: int,
        mint: Mint = MINT,
    ) -> LoadedMint:
        """Return the mint at *seq*, when the first *folded* of its *swaps* are folded."""
        tail = [
            TailSwap(slot, time, n < folded, priced)
            for n, (slot, time, priced) in enumerate(swaps)
            if n >= folded or time > tip - TAIL_S
        ]
        minutes = self.rows[Timeframe.M1].values()
        return LoadedMint(
            mint=mint,
            seq=seq,
            state=self.state,
            candles={
                t: [row for row in rows.values() if row.count][-100:]
                for t, rows in self.rows.items()
            },
            minutes=[
                (row.bucket, row.buy_volume, row.sell_volume)
                for row in minutes
                if row.bucket > tip - DAY_S - 60
            ],
            tail=tail,
        )


def logged(trades: Sequence[Trade]) -> list[tuple[Slot, UnixS, PricedSwap]]:
    """Return *trades*, each in a slot of its own."""
    return [(Slot(n), UnixS(trade.time), swap(trade)) for n, trade in enumerate(trades)]
