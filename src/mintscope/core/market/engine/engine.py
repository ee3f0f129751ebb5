"""The live state of many mints: one row each, O(1) per swap, read at any time.

There is no timer and no roll: candles close when a later one opens, and a
read computes what depends on "now".  A row is filled either by every swap of
its mint since tracking began, or by `load`, and serves the same bits.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from mintscope.base.primitives import UnixS
from mintscope.core.market.engine import kernels
from mintscope.core.market.engine.fold import read_state
from mintscope.core.market.engine.kernels import Floats, Trades, Volumes
from mintscope.core.market.log import CandleRow, LoadedMint, PricedSwap
from mintscope.core.market.timeframe import Timeframe

CANDLES_LOADED: Final = kernels.SWING + 1  # the open one, too

# Windows that `load` refills from swaps, and from minutes: windows m1 m5 m15, and h1 h4 d1.
FROM_SWAPS: Final = (0, 3)
FROM_MINUTES: Final = (3, len(kernels.GRAINS))


def as_trades(swaps: Sequence[tuple[int, UnixS, PricedSwap]]) -> Trades:
    """Return *swaps* (row, effective time, swap), which are in order, as arrays.

    Those without a price and without volume touch nothing, and are left out.
    """
    swaps = [one for one in swaps if one[2].volume or one[2].price_usd is not None]
    return Trades(
        np.array([row for row, _, _ in swaps], np.int64),
        np.array([time for _, time, _ in swaps], np.int64),
        np.array([swap.price_usd for _, _, swap in swaps], np.float64),
        np.array([swap.price_sol for _, _, swap in swaps], np.float64),
        np.array([swap.volume for _, _, swap in swaps], np.int64),
        np.array([swap.is_buy for _, _, swap in swaps], np.bool_),
    )


class Engine:
    """Rows 0 to *capacity* - 1, all of mints that have not traded.

    Memory is taken row by row as they are first used.
    """

    def __init__(self, capacity: int) -> None:
        self._rows = np.zeros(capacity, kernels.ROW)
        self._out = np.zeros(kernels.SNAPSHOT)
        self._warm_up()

    def apply(self, trades: Trades) -> None:
        """Apply *trades*; the times of one row never go back."""
        kernels.apply(self._rows, trades)

    def snapshot(self, row: int, now: UnixS, *, leaves_out_open: bool = False) -> Floats:
        """Return everything that is served of *row* as of *now*, laid out as in kernels.

        The indicators are without the candles that are open at *now* if *leaves_out_open*.

        The array is the engine's own and is overwritten by the next call.  A count of
        0 means that the row has no price, and that nothing else in it has a meaning.
        """
        kernels.snapshot(self._rows, row, now, self._out)
        if leaves_out_open:
            kernels.leave_out_open(self._rows, row, now, self._out)
        return self._out

    def clear(self, row: int) -> None:
        """Make *row* that of a mint that has not traded."""
        self._rows[row] = np.zeros((), kernels.ROW)

    def load(self, row: int, loaded: LoadedMint) -> None:
        """Make *row* what it would be had it seen every swap up to `loaded.seq`.

        Raises ValueError when the state and the candles contradict each other.
        """
        self.clear(row)
        if loaded.state is not None:
            self._load_candles(row, loaded.state, loaded)
            if loaded.imported_from is not None:
                # The first that is reported; how far a node reaches is known by the state alone.
                first = min(loaded.imported_from, int(self._rows[row]["first"]))
                self._rows[row]["first"] = first
        self._refill(row, FROM_MINUTES, loaded.minutes)
        folded = [
            (kept.time, *((kept.swap.volume, 0) if kept.swap.is_buy else (0, kept.swap.volume)))
            for kept in loaded.tail
            if kept.folded
        ]
        self._refill(row, FROM_SWAPS, folded)
        ahead = [(row, kept.time, kept.swap) for kept in loaded.tail if not kept.folded]
        self.apply(as_trades(ahead))

    def _load_candles(self, row: int, state: bytes, loaded: LoadedMint) -> None:
        record = read_state(state)[0]
        target = self._rows[row]
        target["first"] = record["first"]
        target["price_sol"] = record["price_sol"]
        for k, timeframe in enumerate(Timeframe):
            kept = record["frames"][k]
            candles = loaded.candles.get(timeframe, ())[-CANDLES_LOADED:]
            expected = min(int(kept["count"]), CANDLES_LOADED)
            if len(candles) == expected - 1 == kernels.SWING:
                # Kept by an earlier version, one fewer: the oldest stands for the one before it.
                candles = (candles[0], *candles)
            if len(candles) != expected:
                raise ValueError(
                    f"expected {expected} {timeframe} candles of {loaded.mint}, were {len(candles)}"
                )
            if not candles:
                continue
            newest = candles[-1]
            target["accs"][k] = kept["acc"]
            target["frames"][k] = (
                kept["count"], newest.bucket // kernels.WIDTHS[k],
                newest.high, newest.low, newest.close, 0.0, 0.0,
            )  # fmt: skip
            self._refill_ring(row, k, candles[:-1])

    def _refill_ring(self, row: int, k: int, closed: Sequence[CandleRow]) -> None:
        highs = np.array([candle.high for candle in closed], np.float64)
        lows = np.array([candle.low for candle in closed], np.float64)
        kernels.refill_ring(self._rows[row], k, highs, lows)

    def _refill(
        self, row: int, windows: tuple[int, int], volumes: Sequence[tuple[int, int, int]]
    ) -> None:
        columns = np.array(volumes, np.int64).reshape(-1, 3).T
        times, buys, sells = (np.ascontiguousarray(column) for column in columns)
        kernels.refill_windows(self._rows[row], windows, Volumes(times, buys, sells))

    def _warm_up(self) -> None:
        """Compile every kernel now: the first swap or request must not wait for it."""
        self._refill(0, FROM_MINUTES, ())
        self._refill_ring(0, 0, ())
        self.apply(as_trades(()))
        self.snapshot(0, UnixS(0), leaves_out_open=True)
        none = np.zeros(0)
        kernels.series(
            np.zeros(1, kernels.FRAME)[0],
            np.zeros(kernels.ACC),
            kernels.Candles(none, none, none),
            kernels.SERVICE,
            np.zeros((0, kernels.READ)),
        )
