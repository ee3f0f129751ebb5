"""The durable fold of one mint: swaps in, candle rows and a small state out.

The finalized fold keeps one MintFold per touched mint, hands it the swaps of
each final slot in order, and writes `changed()` and `state()` in the
transaction that moves its checkpoint.  A fold that is made again from what
was written goes on bit for bit as if it had never stopped, and the engine
loads the same bytes: both close candles with one kernel.
"""

from struct import Struct
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from mintscope.base.primitives import UnixS
from mintscope.core.market.engine.kernels import ACC, SERVICE, close_candle, sets_candle
from mintscope.core.market.log import CandleRow, PricedSwap
from mintscope.core.market.timeframe import TIMEFRAMES, Timeframe, bucket

STATE_VERSION: Final = 2
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
                ("open_bucket", "<i8"),
                ("prices", "<f8", 4),
                ("trades", "<i8"),
            ],
            len(Timeframe),
        ),
    ]
)
FRAME_VALUES: Final = ACC + 10
PACKED: Final = Struct("<qqd" + f"{ACC}d5q4dq" * len(Timeframe))  # STATE, at a tenth of its price
assert PACKED.size == STATE.itemsize


def read_state(state: bytes) -> NDArray[Any]:
    """Return *state* as one STATE record.

    Per timeframe: accumulators, candles with a price, the newest bucket and its flow, and the
    newest candle with a price: its bucket (-1: none), open, high, low, close, and its trades.

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

    __slots__ = ("_first", "_frames", "_price_sol")

    def __init__(self) -> None:
        self._first = UnixS(0)
        self._price_sol = 0.0
        self._frames = {timeframe: _Frame(timeframe) for timeframe in TIMEFRAMES}

    @classmethod
    def from_state(cls, state: bytes | None) -> "MintFold":
        """Go on from *state*, the newest written `state()`; None for a mint without one.

        Raises ValueError as `read_state` does.
        """
        fold = cls()
        if state is None:
            return fold
        if len(state) != PACKED.size:
            read_state(state)
        version, fold._first, fold._price_sol, *values = PACKED.unpack(state)
        if version != STATE_VERSION:
            read_state(state)
        for n, frame in enumerate(fold._frames.values()):
            frame.unpack(values[n * FRAME_VALUES : (n + 1) * FRAME_VALUES])
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

    def opened(self) -> list[Timeframe]:
        """Return the timeframes in which a row began since the last call."""
        return [timeframe for timeframe, frame in self._frames.items() if frame.has_opened()]

    def state(self) -> bytes:
        """Return all that `from_state` needs: at most 700 bytes."""
        values = [STATE_VERSION, self._first, self._price_sol]
        for frame in self._frames.values():
            values += frame.packed()
        return PACKED.pack(*values)


class _Frame:
    """One timeframe: accumulators, the open candle, and the flow of the newest bucket.

    The flow runs ahead of the candle while a bucket has volume but no price yet.
    """

    __slots__ = (
        "_candle", "_changed", "_has_opened", "_is_changed", "_newest_row", "_timeframe",
        "acc", "bucket", "buy", "count", "sell",
    )  # fmt: skip

    def __init__(self, timeframe: Timeframe) -> None:
        self.acc = [0.0] * ACC
        self.count = 0
        self.bucket = UnixS(-1)
        self.buy = 0
        self.sell = 0
        self._candle: _Open | None = None
        self._timeframe = timeframe
        self._changed: list[CandleRow] = []
        self._is_changed = False
        self._newest_row = UnixS(-1)
        self._has_opened = False

    def unpack(self, values: list[Any]) -> None:
        """Take what was packed."""
        self.acc = values[:ACC]
        self.count, self.bucket, self.buy, self.sell, open_bucket, *candle = values[ACC:]
        if open_bucket >= 0:
            self._candle = _Open(open_bucket, *candle)
        if self._has_row():  # it was written with the state
            self._newest_row = self.bucket

    def packed(self) -> list[float]:
        """Return its part of STATE."""
        c = self._candle or NO_CANDLE
        candle = (c.bucket, c.open, c.high, c.low, c.close, c.count)
        return [*self.acc, self.count, self.bucket, self.buy, self.sell, *candle]

    def apply(self, time: UnixS, price: float | None, swap: PricedSwap) -> None:
        """Add one swap; *price* is None where it sets no candle."""
        at = bucket(self._timeframe, time)
        if at != self.bucket:
            self._open(at)
        self._is_changed = True
        if swap.is_buy:
            self.buy += swap.volume
        else:
            self.sell += swap.volume
        if price is not None:
            self._trade(price)

    def changed(self) -> list[CandleRow]:
        """Return the touched rows and forget that they were."""
        self._note()
        rows, self._changed = self._changed, []
        return rows

    def has_opened(self) -> bool:
        """Say whether a row began since the last call."""
        has_opened, self._has_opened = self._has_opened, False
        return has_opened

    def _open(self, bucket: UnixS) -> None:
        assert bucket > self.bucket, f"expected times in order, was {bucket}"
        self._note()
        self.bucket, self.buy, self.sell = bucket, 0, 0

    def _note(self) -> None:
        """Keep the row of the newest bucket if it was touched."""
        if self._is_changed and self._has_row():
            self._changed.append(self._row())
            if self._newest_row != self.bucket:
                self._newest_row, self._has_opened = self.bucket, True
        self._is_changed = False

    def _trade(self, price: float) -> None:
        candle = self._candle
        if candle is not None and candle.bucket == self.bucket:
            candle.high = max(candle.high, price)
            candle.low = min(candle.low, price)
            candle.close = price
            candle.count += 1
            return
        if candle is not None:
            acc = np.array(self.acc)
            close_candle(acc, self.count - 1, candle.close, SERVICE)
            self.acc = acc.tolist()
        self.count += 1
        self._candle = _Open(self.bucket, price, price, price, price, 1)

    def _has_row(self) -> bool:
        """Say whether the newest bucket has a row: a price, or in m1 volume."""
        if self._candle is not None and self._candle.bucket == self.bucket:
            return True
        return self._timeframe is Timeframe.M1 and self.buy + self.sell > 0

    def _row(self) -> CandleRow:
        c = self._candle
        if c is not None and c.bucket == self.bucket:
            return CandleRow(c.bucket, c.open, c.high, c.low, c.close, self.buy, self.sell, c.count)
        return CandleRow(self.bucket, None, None, None, None, self.buy, self.sell, 0)


class _Open(msgspec.Struct, gc=False):
    """The prices of the candle still being formed."""

    bucket: UnixS
    open: float
    high: float
    low: float
    close: float
    count: int


NO_CANDLE: Final = _Open(UnixS(-1), 0.0, 0.0, 0.0, 0.0, 0)
