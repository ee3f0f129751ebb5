"""Volume profile: traded volume by price, its point of control and its value area.

Bins        of equal width, from the lowest low to the highest high
Volume      the volume of a candle is spread evenly from its low to its high; if these are equal, it
            falls into the bin that begins with this price or contains it; the highest high falls
            into the last bin
Control     the bin with the most volume; if several have the most, the lowest of them
Value area  begins as the point of control.  Of the next two bins above and the next two below,
            the pair with more volume is added, the upper one if they are equal, until the area
            has 70 % of the volume or more (CBOT, A Six-Part Study Guide to Market Profile, 1996)
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from mintscope.market.engine.given import Floats

VALUE_AREA: Final = 0.7
BINS_MAX: Final = 200
PAIR: Final = 2


class VolumeProfile(NamedTuple):
    """The volume of candles by price, in bins.

    edges         the limits of the bins, in the unit of the candles, ascending; there is one more
                  limit than bins
    volumes       the volume of each bin, USD
    control       the index of the bin with the most volume
    first, last   the indices of the lowest and highest bin of the value area
    """

    edges: Sequence[float]
    volumes: Sequence[float]
    control: int
    first: int
    last: int


def volume_profile(
    highs: Floats, lows: Floats, volumes: Floats, bin_count: int
) -> VolumeProfile | None:
    """Return the volume of candles by price; None if there is no volume.

    highs, lows, volumes   one value for each candle; volumes are in USD
    bin_count              the number of price ranges, 1 to BINS_MAX; there is only one if all
                           candles have the same price
    """
    if not len(highs) or not volumes.sum() > 0.0:
        return None
    low = float(lows.min())
    high = float(highs.max())
    count = bin_count if high > low else 1
    edges = np.linspace(low, high, count + 1)
    spans = highs - lows
    places = np.minimum(np.searchsorted(edges, lows, side="right") - 1, count - 1)
    is_wide = spans > 0.0
    of_bins = np.bincount(places[~is_wide], volumes[~is_wide], count).astype(np.float64)
    tops = np.minimum(highs[is_wide, None], edges[1:])
    bottoms = np.maximum(lows[is_wide, None], edges[:-1])
    shares = np.maximum(tops - bottoms, 0.0) / spans[is_wide, None]
    of_bins += volumes[is_wide] @ shares
    control = int(of_bins.argmax())
    first, last = _value_area(of_bins.tolist(), control)
    return VolumeProfile(edges.tolist(), of_bins.tolist(), control, first, last)


def _value_area(volumes: list[float], control: int) -> tuple[int, int]:
    first = last = control
    wanted = VALUE_AREA * sum(volumes)
    held = volumes[control]
    while held < wanted and (first > 0 or last < len(volumes) - 1):
        above = volumes[last + 1 : last + 1 + PAIR]
        below = volumes[max(0, first - PAIR) : first]
        if above and (not below or sum(above) >= sum(below)):
            last += len(above)
            held += sum(above)
        else:
            first -= len(below)
            held += sum(below)
    return first, last
