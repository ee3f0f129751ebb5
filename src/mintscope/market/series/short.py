"""Candles of 15 seconds, made of the swaps that are kept."""

from collections.abc import Iterable

import msgspec

from mintscope.kit.primitives import UnixS
from mintscope.market.engine.fold import price_of
from mintscope.market.engine.frame import Frame
from mintscope.market.engine.frames import SHORT_S
from mintscope.market.log import CandleRow, PricedSwap
from mintscope.market.series.pools import KeptSwaps, SeriesCandle, UnpricedVolume
from mintscope.market.series.series import Series
from mintscope.market.timeframe import Timeframe


def short_series(kept: KeptSwaps) -> Series:
    """Return the candles of 15 seconds of *kept*, without one that may lack its beginning."""
    rows = _rows(kept.swaps)
    if not kept.is_whole:
        rows = rows[1:]
    priced = [SeriesCandle(*msgspec.structs.astuple(row)) for row in rows if row.count]
    unpriced = [
        UnpricedVolume(row.bucket, row.buy_volume, row.sell_volume) for row in rows if not row.count
    ]
    if not kept.is_whole and priced:
        unpriced = [each for each in unpriced if each.bucket > priced[0].bucket]
    return Series(priced, kept.has_older, 0 if kept.is_whole else 1, unpriced)


def _rows(swaps: Iterable[tuple[UnixS, PricedSwap]]) -> list[CandleRow]:
    frame = Frame(Timeframe.M1, [], width_s=SHORT_S)
    for time, swap in swaps:
        frame.apply(time, price_of(swap), swap)
    return frame.changed()
