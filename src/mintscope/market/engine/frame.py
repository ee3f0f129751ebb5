"""The candles of one timeframe as swaps come in, for the durable fold."""

from collections.abc import Sequence
from math import nan
from typing import Any, Final

import msgspec
import numpy as np

from mintscope.kit.primitives import UnixS
from mintscope.market.engine.given import Floats
from mintscope.market.engine.kernels import ACC, SERVICE, close_candle
from mintscope.market.log import CandleRow, PricedSwap, Waypoint
from mintscope.market.timeframe import WIDTH_S, Timeframe

WAYPOINT_EVERY: Final = 64  # candles: fewer than a mint keeps at least


class Frame:
    """One timeframe: accumulators, the open candle, and the flow of the newest bucket.

    The flow runs ahead of the candle while a bucket has volume but no price yet.
    """

    __slots__ = (
        "_changed", "_has_opened", "_is_changed", "_newest_row", "_passed", "_timeframe",
        "_width_s", "acc", "bucket", "buy", "candle", "count", "sell",
    )  # fmt: skip

    def __init__(
        self,
        timeframe: Timeframe,
        passed: list[tuple[Timeframe, Waypoint]],
        *,
        width_s: int | None = None,
    ) -> None:
        """Add waypoints to *passed*; candles of *width_s* are of no timeframe that is stored."""
        self.acc = [0.0] * ACC
        self.count = 0
        self.bucket = UnixS(-1)
        self.buy = 0
        self.sell = 0
        self.candle: OpenCandle | None = None
        self._passed = passed
        self._timeframe = timeframe
        self._width_s = WIDTH_S[timeframe] if width_s is None else width_s
        self._changed: list[CandleRow] = []
        self._is_changed = False
        self._newest_row = UnixS(-1)
        self._has_opened = False

    def unpack(self, values: list[Any], in_sol: Sequence[float]) -> None:
        """Read the packed values, and the prices in SOL of the newest candle."""
        self.acc = values[:ACC]
        self.count, self.bucket, self.buy, self.sell, open_bucket, *candle = values[ACC:]
        if open_bucket >= 0:
            self.candle = OpenCandle(open_bucket, *candle, *in_sol)
        if self._has_row():  # it was written with the state
            self._newest_row = self.bucket

    def packed(self) -> list[float]:
        """Return this timeframe's part of STATE."""
        c = self.candle or NO_CANDLE
        candle = (c.bucket, c.open, c.high, c.low, c.close, c.count)
        return [*self.acc, self.count, self.bucket, self.buy, self.sell, *candle]

    def apply(self, time: UnixS, price: float | None, swap: PricedSwap) -> None:
        """Add one swap; *price* is None if it sets no candle.

        One without a price and without volume touches nothing.
        """
        if price is None and not swap.volume:
            return
        at = time - time % self._width_s  # as `bucket` does, without a call for each swap
        if at != self.bucket:
            self._open(UnixS(at))
        self._is_changed = True
        if swap.is_buy:
            self.buy += swap.volume
        else:
            self.sell += swap.volume
        if price is not None:
            self._trade(price, swap.price_sol)

    def changed(self) -> list[CandleRow]:
        """Return the rows changed since the last call."""
        self._note()
        rows = self._changed
        self._changed = []
        return rows

    def has_opened(self) -> bool:
        """Return whether a row was started since the last call."""
        has_opened = self._has_opened
        self._has_opened = False
        return has_opened

    def _open(self, bucket: UnixS) -> None:
        assert bucket > self.bucket, f"expected times in order, was {bucket}"
        self._note()
        self.bucket = bucket
        self.buy = 0
        self.sell = 0

    def _note(self) -> None:
        """Keep the row of the newest bucket if it was touched."""
        if self._is_changed and self._has_row():
            self._changed.append(self._row())
            if self._newest_row != self.bucket:
                self._newest_row = self.bucket
                self._has_opened = True
        self._is_changed = False

    def _trade(self, price: float, in_sol: float | None) -> None:
        candle = self.candle
        sol = nan if in_sol is None else in_sol
        if candle is not None and candle.bucket == self.bucket:
            candle.add(price, sol)
            return
        if candle is not None:
            acc = np.array(self.acc)
            close_candle(acc, self.count - 1, candle.close, SERVICE)
            self.acc = acc.tolist()
            if self.count % WAYPOINT_EVERY == 0:
                self._passed.append((self._timeframe, waypoint(self.bucket, self.count, acc)))
        self.count += 1
        self.candle = OpenCandle(self.bucket, price, price, price, price, 1, sol, sol, sol, sol)

    def _has_row(self) -> bool:
        """Return whether the newest bucket has a row: a price, or volume."""
        if self.candle is not None and self.candle.bucket == self.bucket:
            return True
        return self.buy + self.sell > 0

    def _row(self) -> CandleRow:
        c = self.candle
        if c is not None and c.bucket == self.bucket:
            flow = (self.buy, self.sell, c.count)
            sol = c.in_sol()
            in_sol = sol if sol[0] >= 0 else (None, None, None, None)
            return CandleRow(c.bucket, c.open, c.high, c.low, c.close, *flow, *in_sol)
        return CandleRow(self.bucket, None, None, None, None, self.buy, self.sell, 0)


def waypoint(bucket: UnixS, closed: int, acc: Floats) -> Waypoint:
    """Return the state after *closed* candles with accumulators *acc*, before *bucket*."""
    return Waypoint(bucket, closed, acc.astype("<f8").tobytes())


class OpenCandle(msgspec.Struct, gc=False):
    """The prices of the candle still being formed; those in SOL are NaN if unknown."""

    bucket: UnixS
    open: float
    high: float
    low: float
    close: float
    count: int
    open_sol: float = nan
    high_sol: float = nan
    low_sol: float = nan
    close_sol: float = nan

    def add(self, price: float, sol: float) -> None:
        """Add the price of one more swap; a high or low that is NaN stays NaN."""
        if price > self.high:
            self.high = price
        elif price < self.low:
            self.low = price
        self.close = price
        self.count += 1
        if sol > self.high_sol:
            self.high_sol = sol
        elif sol < self.low_sol:
            self.low_sol = sol
        self.close_sol = sol

    def in_sol(self) -> tuple[float, float, float, float]:
        """Return open, high, low and close in SOL."""
        return self.open_sol, self.high_sol, self.low_sol, self.close_sol


NO_CANDLE: Final = OpenCandle(UnixS(-1), 0.0, 0.0, 0.0, 0.0, 0, 0.0, 0.0, 0.0, 0.0)
