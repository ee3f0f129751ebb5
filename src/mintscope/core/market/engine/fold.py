"""The durable fold of one mint: swaps in, candle rows and a small state out.

The finalized fold keeps one MintFold per touched mint, hands it the swaps of
each final slot in order, and writes `changed()` and `state()` in the
transaction that moves its checkpoint.  A fold that is made again from what
was written goes on bit for bit as if it had never stopped, and the engine
loads the same bytes: both close candles with one kernel.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mintscope.base.primitives import UnixS
from mintscope.core.market.engine.kernels import ACC, SERVICE, close_candle, sets_candle
from mintscope.core.market.log import CandleRow, PricedSwap
from mintscope.core.market.timeframe import Timeframe, bucket

STATE_VERSION: Final = 1
STATE: Final = np.dtype(
    [
        ("version", "<i8"),
        ("first", "<i8"),
        ("price_sol", "<f8"),
        (
            "frames",
            [
                ("acc", "<f8", ACC),
                ("count", "<i8"),
                ("bucket", "<i8"),
                ("buy", "<i8"),
                ("sell", "<i8"),
            ],
            len(Timeframe),
        ),
    ]
)


def read_state(state: bytes) -> NDArray[Any]:
    """Return *state* as one STATE record.

    Raises ValueError for bytes of another length or version.
    """
    if len(state) != STATE.itemsize:
        raise ValueError(f"expected a state of {STATE.itemsize} bytes, was {len(state)}")
    record = np.frombuffer(state, STATE).copy()
    if record["version"][0] != STATE_VERSION:
        raise ValueError(f"expected state version {STATE_VERSION}, was {record['version'][0]}")
    return record


class MintFold:
    """One mint between two writes."""

    def __init__(self) -> None:
        self._first = UnixS(0)
        self._price_sol = 0.0
        self._frames = {timeframe: _Frame(timeframe) for timeframe in Timeframe}

    @classmethod
    def from_state(
        cls, state: bytes | None, open_candles: dict[Timeframe, CandleRow]
    ) -> "MintFold":
        """Go on from what was written.

        state          the newest written `state()`, None for a mint without one
        open_candles   per timeframe the newest written row with a price (count >= 1);
                       a timeframe without one has no entry
        """
        fold = cls()
        if state is None:
            return fold
        record = read_state(state)
        fold._first = UnixS(int(record["first"][0]))
        fold._price_sol = float(record["price_sol"][0])
        for (timeframe, frame), kept in zip(fold._frames.items(), record["frames"][0], strict=True):
            frame.acc[:] = kept["acc"]
            frame.count = int(kept["count"])
            frame.bucket = UnixS(int(kept["bucket"]))
            frame.buy = int(kept["buy"])
            frame.sell = int(kept["sell"])
            if timeframe in open_candles:
                frame.reopen(open_candles[timeframe])
        return fold

    def apply(self, time: UnixS, swap: PricedSwap) -> None:
        """Add the next *swap*, of a slot with effective *time*; times never go back."""
        price = swap.price_usd
        if price is not None and not sets_candle(price):
            price = None
        if price is not None:
            if self._frames[Timeframe.M1].count == 0:
                self._first = bucket(Timeframe.M1, time)
            self._price_sol = swap.price_sol or 0.0
        for frame in self._frames.values():
            frame.apply(time, price, swap)

    def changed(self) -> dict[Timeframe, list[CandleRow]]:
        """Return the rows touched since the last call, oldest first, to insert or replace.

        A minute with volume but no price is a row of m1 with count 0; wider
        timeframes have rows with a price only, whose volumes hold all of the bucket.
        """
        return {timeframe: frame.changed() for timeframe, frame in self._frames.items()}

    def state(self) -> bytes:
        """Return what `from_state` needs besides the open candles: at most 600 bytes."""
        record = np.zeros(1, STATE)
        record["version"] = STATE_VERSION
        record["first"] = self._first
        record["price_sol"] = self._price_sol
        for kept, frame in zip(record["frames"][0], self._frames.values(), strict=True):
            kept["acc"] = frame.acc
            kept["count"] = frame.count
            kept["bucket"] = frame.bucket
            kept["buy"] = frame.buy
            kept["sell"] = frame.sell
        return record.tobytes()


class _Frame:
    """One timeframe: accumulators, the open candle, and the flow of the newest bucket.

    The flow runs ahead of the candle while a bucket has volume but no price yet.
    """

    def __init__(self, timeframe: Timeframe) -> None:
        self.acc = np.zeros(ACC)
        self.count = 0
        self.bucket = UnixS(-1)
        self.buy = 0
        self.sell = 0
        self._candle: _Open | None = None
        self._timeframe = timeframe
        self._changed: dict[UnixS, CandleRow] = {}

    def reopen(self, row: CandleRow) -> None:
        """Take *row* as the open candle."""
        prices = (row.open, row.high, row.low, row.close)
        open_, high, low, close = (price for price in prices if price is not None)
        self._candle = _Open(row.bucket, open_, high, low, close, row.count)

    def apply(self, time: UnixS, price: float | None, swap: PricedSwap) -> None:
        """Add one swap; *price* is None where it sets no candle."""
        self._flow(bucket(self._timeframe, time), swap)
        if price is not None:
            self._trade(price)
        row = self._row()
        if row is not None:
            self._changed[row.bucket] = row

    def changed(self) -> list[CandleRow]:
        """Return the touched rows and forget that they were."""
        rows = list(self._changed.values())
        self._changed.clear()
        return rows

    def _flow(self, bucket: UnixS, swap: PricedSwap) -> None:
        if bucket != self.bucket:
            assert bucket > self.bucket, f"expected times in order, was {bucket}"
            self.bucket, self.buy, self.sell = bucket, 0, 0
        if swap.is_buy:
            self.buy += swap.volume
        else:
            self.sell += swap.volume

    def _trade(self, price: float) -> None:
        candle = self._candle
        if candle is not None and candle.bucket == self.bucket:
            candle.high = max(candle.high, price)
            candle.low = min(candle.low, price)
            candle.close = price
            candle.count += 1
            return
        if candle is not None:
            close_candle(self.acc, self.count - 1, candle.close, SERVICE)
        self.count += 1
        self._candle = _Open(self.bucket, price, price, price, price, 1)

    def _row(self) -> CandleRow | None:
        """Return the row of the newest bucket, None where it has none."""
        c = self._candle
        if c is not None and c.bucket == self.bucket:
            return CandleRow(c.bucket, c.open, c.high, c.low, c.close, self.buy, self.sell, c.count)
        if self._timeframe is Timeframe.M1 and self.buy + self.sell:
            return CandleRow(self.bucket, None, None, None, None, self.buy, self.sell, 0)
        return None


@dataclass(slots=True)
class _Open:
    """The prices of the candle still being formed."""

    bucket: UnixS
    open: float
    high: float
    low: float
    close: float
    count: int
