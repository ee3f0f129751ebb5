"""Reads the candles and swaps from which m30, h4, d1 and candles of 15 seconds are computed.

A frame has the indicators of such a timeframe for one mint; it is computed only on request.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from mintscope.kit.primitives import Slot, UnixS
from mintscope.kit.sql.database import Database
from mintscope.market.engine.fold import read_state
from mintscope.market.engine.frames import WIDE, Bar, Frames
from mintscope.market.engine.kernels import PRICE_MAX
from mintscope.market.log import CandleRow, LoadedMint
from mintscope.market.timeframe import TIMEFRAMES, AskedFrame, Timeframe

BARS_MAX: Final = 20_000  # the most candles read of a timeframe; more than 2 years of h1
NEVER: Final = UnixS(1 << 62)
ALL_SLOTS: Final = Slot(1 << 62)


class _PriceRow(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The first fields of a logged swap; decoding only these is faster."""

    transaction_index: int
    outer: int
    inner: int
    leg: int
    is_buy: bool
    volume: int
    price_usd: float | None


_rows: Final = msgspec.msgpack.Decoder(list[_PriceRow])

BARS: Final = """
SELECT bucket, high, low, close FROM candle
 WHERE mint = :mint AND timeframe = :timeframe AND bucket < :before AND count > 0
 ORDER BY bucket DESC LIMIT :limit
"""
# The unary plus signs keep SQLite from reading the table `header` first.
SHORT: Final = """
SELECT time, swaps
  FROM swap JOIN header USING (seq)
 WHERE swap.mint = :mint AND seq <= :seq
   AND +is_dead = 0 AND +slot > :since AND +slot <= :folded
   AND +time >= :recent AND +time < :before
 ORDER BY seq
"""


class Folded(NamedTuple):
    """Selects the stored swaps of a mint that its loaded state already includes.

    A swap is included if it satisfies all bounds except *recent*.

    seq      the newest event in the log
    since    the slot after which swaps are included
    recent   the time from which swaps are part of candles of 15 seconds
    folded   the newest slot
    before   the time before which swaps are included
    """

    mint_id: int
    seq: int
    since: Slot
    recent: int
    folded: Slot = ALL_SLOTS
    before: UnixS = NEVER


def with_frames(
    db: Database,
    loaded: LoadedMint,
    folded: Folded,
    timeframes: Collection[str],
) -> LoadedMint:
    """Return *loaded* with the frames in *timeframes* added: they are computed on request.

    folded   the fold in *loaded*, from whose stored candles and swaps the frames are computed
    """
    if not timeframes:
        return loaded
    frames = Frames()
    if any(wide.frame in timeframes for wide in WIDE):
        _add_wide(db, frames, loaded, folded.mint_id)
    if AskedFrame.S15 in timeframes:
        frames.begin_short(_prices(db, folded))
    return replace(loaded, frames=frames.packed())


def _add_wide(db: Database, frames: Frames, loaded: LoadedMint, mint_id: int) -> None:
    if loaded.state is None:
        frames.begin_wide({}, ())
        return
    counts = read_state(loaded.state)[0]["frames"]["count"]
    kept: dict[Timeframe, list[Bar]] = {}
    cut = []
    for timeframe in {wide.made_of for wide in WIDE}:
        bars = _bars(db, loaded.candles, mint_id, timeframe)
        kept[timeframe] = bars
        if len(bars) < int(counts[TIMEFRAMES.index(timeframe)]):  # older candles were dropped
            cut.append(timeframe)
    frames.begin_wide(kept, cut)


def _bars(
    db: Database, candles: Mapping[Timeframe, Any], mint_id: int, timeframe: Timeframe
) -> list[Bar]:
    """Return the candles of *timeframe* with a price, oldest first.

    candles   by timeframe, candles that were loaded: the newest one is taken from here, and up to
              BARS_MAX older ones from *db*; if it has none, the result is empty
    """
    loaded = candles.get(timeframe)
    if not loaded:
        return []
    newest: CandleRow = loaded[-1]
    bounds = {"mint": mint_id, "timeframe": timeframe.value, "before": newest.bucket}
    rows = [Bar(*row) for row in db.execute(BARS, {**bounds, "limit": BARS_MAX})]
    assert newest.high is not None
    assert newest.low is not None
    assert newest.close is not None
    return [*reversed(rows), Bar(newest.bucket, newest.high, newest.low, newest.close)]


def _prices(db: Database, folded: Folded) -> Iterator[tuple[UnixS, float]]:
    """Yield the (time, price in USD) of each recent folded swap that sets a price, oldest first."""
    bounds = {**folded._asdict(), "mint": folded.mint_id}
    del bounds["mint_id"]
    for time, blob in db.execute(SHORT, bounds):
        for row in _rows.decode(blob):
            price = row.price_usd
            if price is not None and 0.0 < price <= PRICE_MAX:  # as `fold.price_of` does
                yield UnixS(time), price
