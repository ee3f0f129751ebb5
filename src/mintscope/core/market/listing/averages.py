"""EMAs, RSI and MACD of every timeframe in a list: what the engine has of the mints in use, of all.

A row keeps what its closed candles left behind, as the finalized fold packs it; what a reader is
shown has the open candle as well, and the values before it.  Only rows that were traded are read
again.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mintscope.core.market.engine import kernels
from mintscope.core.market.engine.kernels import ACC, READ_A_ROW
from mintscope.core.market.screening.fields import before
from mintscope.core.market.timeframe import TIMEFRAMES

Floats = NDArray[np.float64]
Rows = NDArray[Any]

NAMES: Final = ("ema9", "ema21", "ema50", "ema200", "rsi", "macd", "macd_signal", "macd_histogram")
"""Of one timeframe, in the order in which a kernel writes them."""
PLACES: Final = {
    name: k * READ_A_ROW + z
    for k, timeframe in enumerate(TIMEFRAMES)
    for z, name in enumerate(
        (
            *(f"{name}_{timeframe}" for name in NAMES),
            *(before(f"{name}_{timeframe}", timeframe) for name in NAMES),
            before("price", timeframe),
        )
    )
}
"""Where the values of a name stand in what is shown."""


class AverageColumns:
    """The accumulators of each row and timeframe, and the values last shown."""

    def __init__(self, count: int) -> None:
        self.accs = np.zeros((count, len(TIMEFRAMES), ACC))
        self._shown = np.zeros((len(PLACES), 0))
        self._is_stale = np.ones(count, np.bool_)

    def make_room(self, count: int) -> None:
        """Have *count* rows, no fewer than before."""
        more = count - len(self.accs)
        self.accs = np.pad(self.accs, ((0, more), (0, 0), (0, 0)))
        self._is_stale = np.pad(self._is_stale, (0, more), constant_values=True)

    def start_row(self, row: int) -> None:
        """Make *row* that of a mint that was never traded."""
        self.load(row, 0.0)

    def load(self, row: int, accs: Any) -> None:
        """Take *accs*, a line for each timeframe, for *row*."""
        self.accs[row] = accs
        self._is_stale[row] = True

    def close(self, rows: Any, at: Rows, k: int) -> None:
        """Let the open candles of timeframe *k* of rows *at* close at their newest prices."""
        kernels.close_rows(self.accs, rows["counts"], rows["usd"], at, k)

    def note(self, at: Rows) -> None:
        """Note that rows *at* have another newest price."""
        self._is_stale[at] = True

    def restore(self, first: int, accs: bytes) -> None:
        """Take what `kept` returned of the rows from *first* on."""
        kept = np.frombuffer(accs).reshape(-1, len(TIMEFRAMES), ACC)
        self.accs[first : first + len(kept)] = kept

    def kept(self, first: int, last: int) -> bytes:
        """Return the accumulators of the rows from *first* until before *last*."""
        return self.accs[first:last].tobytes()

    def shown(self, rows: Any) -> Floats:
        """Return the values of *rows*, the first of all, one line for each of PLACES; NaN: none.

        It never changes afterwards.
        """
        count = len(rows)
        found = np.empty((len(PLACES), count))
        before = min(count, self._shown.shape[1])
        found[:, :before] = self._shown[:, :before]
        stale = self._is_stale[:count]
        stale[before:] = True
        at = np.flatnonzero(stale)
        kernels.read_rows(self.accs, rows["counts"], rows["usd"], at, found)
        stale[:] = False
        self._shown = found
        return found

    @property
    def nbytes(self) -> int:
        """How much memory all of it takes."""
        return self.accs.nbytes + self._shown.nbytes + self._is_stale.nbytes
