"""RSI of h1 in a list: a row keeps Wilder's means of its closed candles, a read adds the open one.

The same arithmetic as the engine's, `kernels.wilder` and `kernels.read_averages`, for many rows.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mintscope.core.market.engine.kernels import GAIN, LAST, LOSS, SERVICE
from mintscope.core.market.timeframe import TIMEFRAMES, Timeframe

Floats = NDArray[np.float64]

H1: Final = TIMEFRAMES.index(Timeframe.H1)


def load_means(kept: Any, frames: Any) -> None:
    """Put what the closed candles of *frames*, of a state of the fold, left behind into *kept*."""
    acc = frames["acc"][H1]
    kept["gain"], kept["loss"], kept["last"] = acc[GAIN], acc[LOSS], acc[LAST]


def close_candles(rows: Any, at: NDArray[Any]) -> None:
    """Let the open candles of rows *at* close at their newest prices; it counts them already."""
    of = rows[at]
    has_open = of["counts"][:, H1] > 0
    at, of = at[has_open], of[has_open]
    gain, loss = _means(of)
    has_change = of["counts"][:, H1] > 1
    rows["gain"][at] = np.where(has_change, gain, 0.0)
    rows["loss"][at] = np.where(has_change, loss, 0.0)
    rows["last"][at] = of["usd"]


def rsi_of(rows: Any) -> Floats:
    """Return RSI of each row as if its open candle closed now, 0 to 100 (D5); NaN: too young."""
    gain, loss = _means(rows)
    moved = gain + loss
    with np.errstate(invalid="ignore", divide="ignore"):
        rsi = np.where(moved > 0.0, 100.0 * (gain / moved), 50.0)
    found: Floats = np.where(rows["counts"][:, H1] > SERVICE.rsi, rsi, np.nan)
    return found


def _means(rows: Any) -> tuple[Floats, Floats]:
    """Return the mean gain and loss after the open candle; sums while there are too few."""
    changes, seen = rows["usd"] - rows["last"], rows["counts"][:, H1] - 1
    gain = _wilder(rows["gain"], seen, np.maximum(changes, 0.0))
    return gain, _wilder(rows["loss"], seen, np.maximum(-changes, 0.0))


def _wilder(values: Floats, seen: NDArray[np.int64], moves: Floats) -> Floats:
    """Return Wilder's means after *moves*, of which each is number *seen*."""
    period = SERVICE.rsi
    sums = np.where(seen > period, values * (period - 1), values) + moves
    return np.where(seen < period, sums, sums / period)
