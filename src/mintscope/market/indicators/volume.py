"""Indicators of traded volume and its prices.

A candle's tokens are its volume in USD over its typical price, as those of `vwap`: swaps of all
pools are valued in USD.
"""

from typing import Final

import numpy as np

from mintscope.market.engine.given import Floats, Ints
from mintscope.market.engine.kernels import ROUNDING
from mintscope.market.indicators.bars import Bars, nothing, windows
from mintscope.market.indicators.registry import Parameter, indicator, period

ANCHORED_MAX: Final = 10_000  # candles between an anchor and the newest that counts from it
ANCHOR: Final = Parameter("anchor", 0, 0, 10_000_000_000)  # Unix seconds; 0: the first of all


def _since(bars: Bars, anchor: int) -> Ints | None:
    """Return the places of *bars* from *anchor* on; None if some of them may be missing."""
    places = np.flatnonzero(bars.times >= anchor)
    is_there = bars.is_whole or (len(bars.times) > 0 and bars.times[0] < anchor)
    return places if is_there and len(places) <= ANCHORED_MAX else None


@indicator("obv", ANCHOR, reach=lambda _: 0, reads=ANCHORED_MAX)
def obv(bars: Bars, anchor: int) -> Floats:
    """On-balance volume, USD, since the anchor: a candle that closes higher adds, a lower takes."""
    found = nothing(bars)
    places = _since(bars, anchor)
    if places is not None and len(places):
        signs = np.sign(np.diff(bars.closes[places]))
        flows = bars.volumes[places] * np.concatenate([[1.0], signs])
        found[places] = np.cumsum(flows)
    return found


@indicator("avwap", ANCHOR, reach=lambda _: 0, reads=ANCHORED_MAX)
def avwap(bars: Bars, anchor: int) -> Floats:
    """Volume-weighted price since the anchor, USD; null until something was traded."""
    found = nothing(bars)
    places = _since(bars, anchor)
    if places is not None:
        paid = np.cumsum(bars.volumes[places])
        tokens = np.cumsum(bars.volumes[places] / bars.typical[places])
        none = np.full(len(paid), np.nan)
        found[places] = np.divide(paid, tokens, out=none, where=tokens > 0)
    return found


@indicator("mfi", period(14), reach=lambda size: size)
def mfi(bars: Bars, size: int) -> Floats:
    """Money flow index, 0 to 100: the share of what was traded at rising typical prices.

    Null if the typical price did not move, or nothing was traded.  Typical prices that differ by
    rounding alone are equal.
    """
    found = nothing(bars)
    moves = np.diff(bars.typical)
    moves[np.abs(moves) <= ROUNDING * bars.typical[1:]] = 0.0
    flows = bars.volumes[1:]
    rising = windows(np.where(moves > 0, flows, 0.0), size).sum(axis=1)
    falling = windows(np.where(moves < 0, flows, 0.0), size).sum(axis=1)
    both = rising + falling
    none = np.full(len(both), np.nan)
    found[1:] = np.divide(100.0 * rising, both, out=none, where=both > 0)
    return found
