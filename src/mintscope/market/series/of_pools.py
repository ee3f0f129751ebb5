"""Candles of one pool, made of those of five minutes that the fold keeps."""

from mintscope.market.engine.pool_book import POOL_CANDLES_S, key_of
from mintscope.market.series.pools import KeptPools, SeriesCandle, UnpricedVolume
from mintscope.market.series.series import Series, Width, widened
from mintscope.market.timeframe import Timeframe, bucket


def pool_series(kept: KeptPools, pool: str, width: Width) -> Series:
    """Return the candles of *pool* in *kept*, without one that may lack its beginning.

    Empty for a pool that is not booked.  The count of a candle is of all its swaps.
    """
    book = next((one for one in kept.booked if one.pool == pool), None)
    if book is None or kept.time is None:
        return Series([], False, 0)  # noqa: FBT003
    key = key_of(pool)
    rows = [row for row in kept.rows if row.key == key]
    candles = [
        SeriesCandle(
            row.bucket,
            row.open,
            row.high,
            row.low,
            row.close,
            row.buy_volume,
            row.sell_volume,
            row.swaps,
            *(None,) * 4,
        )
        for row in rows
        if row.open is not None
        and row.high is not None
        and row.low is not None
        and row.close is not None
    ]
    unpriced = [
        UnpricedVolume(row.bucket, row.buy_volume, row.sell_volume)
        for row in rows
        if row.open is None
    ]
    first_kept = bucket(Timeframe.M5, kept.time) - POOL_CANDLES_S
    closed = int(book.since <= first_kept)
    series = Series(candles, False, closed, unpriced)  # noqa: FBT003
    return widened(series, Width(width.name, width.seconds, Timeframe.M5))
