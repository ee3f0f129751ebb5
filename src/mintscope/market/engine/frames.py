"""The timeframes that are computed only on request: 15 seconds, 30 minutes, 4 hours and a day.

Wide frames are computed from stored candles: m30 from m15; h4 and d1 from h1, aligned to UTC.
Averages, RSI and MACD begin with the first candle of the mint.  If its older candles were dropped,
they begin with the first wide candle that is stored as a whole, and are null until less than 1e-13
of their first value is left in them.

s15 is computed from the swaps of the newest 15 minutes, which every installation stores: its
indicators are those of the candles in the 60 spans that end with the current one.

The arithmetic is that of `kernels`.  A mint has these frames in memory only after a request.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import nan
from struct import Struct
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from mintscope.kit.primitives import UnixS
from mintscope.market.engine import kernels
from mintscope.market.engine.given import Candles, Floats, Held
from mintscope.market.engine.kernels import ACC, FRAME, READ, SERVICE, SWING, close_candle
from mintscope.market.log import CandleRow, PricedSwap, Waypoint
from mintscope.market.timeframe import FRAME_S, VOLUME_S_MAX, WIDTH_S, AskedFrame, Timeframe

NO_ACC: Final = bytes(8 * ACC)
PACKED: Final = Struct(f"<{8 * ACC}s5q4dq")  # reads a frame ten times as fast as `fold.STATE`
MINUTE_VOLUME_MAX: Final = VOLUME_S_MAX * WIDTH_S[Timeframe.M1]
WAYPOINT_EVERY: Final = 64  # candles from one waypoint to the next; more candles are always stored


class Part(msgspec.Struct, gc=False):
    """The sum of the swaps of a mint in a span, which lies within one candle of each timeframe.

    time        the start of the span
    buy, sell   micro-USD
    count       the number of swaps with a price; if it is 0, the prices are NaN
    """

    time: UnixS
    buy: int = 0
    sell: int = 0
    count: int = 0
    open: float = nan
    high: float = nan
    low: float = nan
    close: float = nan
    open_sol: float = nan
    high_sol: float = nan
    low_sol: float = nan
    close_sol: float = nan

    def add(self, price: float | None, swap: PricedSwap) -> None:
        """Add *swap*; *price* is the USD price that it adds to a candle, None for no price."""
        if swap.is_buy:
            self.buy += swap.volume
        else:
            self.sell += swap.volume
        if price is None:
            return
        sol = nan if swap.price_sol is None else swap.price_sol
        if not self.count:
            self.open = self.high = self.low = price
            self.open_sol = self.high_sol = self.low_sol = sol
        elif price > self.high:
            self.high = price
        elif price < self.low:
            self.low = price
        self.close = price
        # Compared apart: as the rate of SOL changes, another swap may have the highest SOL price.
        if sol > self.high_sol:
            self.high_sol = sol
        elif sol < self.low_sol:
            self.low_sol = sol
        self.close_sol = sol
        self.count += 1


class Frame(msgspec.Struct, gc=False):
    """One timeframe of a mint: accumulators, the newest candle, and the volume of the newest span.

    passed      the list to which waypoints are appended
    width_s     the length of the candles, in seconds
    acc         the accumulators after all candles with a price except the newest
    count       the number of candles with a price
    bucket      the start of the newest span with volume; -1 before the first
    buy, sell   micro-USD in this span
    candle      the newest candle with a price; None before the first

    While the newest span has volume but no price yet, the candle is that of an earlier span.
    """

    timeframe: Timeframe
    passed: list[tuple[Timeframe, Waypoint]]
    width_s: int
    acc: bytes = NO_ACC
    count: int = 0
    bucket: UnixS = UnixS(-1)
    buy: int = 0
    sell: int = 0
    candle: "OpenCandle | None" = None
    _newest_row: UnixS = UnixS(-1)
    _changed: list[CandleRow] | None = None
    _is_changed: bool = False
    _has_opened: bool = False

    @classmethod
    def unpacked(
        cls,
        timeframe: Timeframe,
        passed: list[tuple[Timeframe, Waypoint]],
        state: bytes,
        at: int,
        in_sol: Sequence[float],
    ) -> "Frame":
        """Return the frame of *timeframe* that is packed at index *at* of *state*.

        passed   the list to which it appends waypoints
        in_sol   open, high, low and close of its candle in SOL; NaN if they are unknown
        """
        # Without loops or keywords, because it runs for each frame of each mint in a batch.
        acc, count, bucket, buy, sell, opened, open_, high, low, close, trades = PACKED.unpack_from(
            state, at
        )
        candle = None
        newest = -1
        if opened >= 0:
            candle = OpenCandle(opened, open_, high, low, close, trades, *in_sol)
            if opened == bucket:
                newest = bucket
        if buy + sell > 0:
            newest = bucket  # the row was written with the state
        width_s = WIDTH_S[timeframe]
        return cls(timeframe, passed, width_s, acc, count, bucket, buy, sell, candle, UnixS(newest))

    def packed(self) -> bytes:
        """Return this timeframe as bytes, which are a part of the stored state of a fold."""
        c = self.candle or NO_CANDLE
        return PACKED.pack(
            self.acc,
            self.count,
            self.bucket,
            self.buy,
            self.sell,
            c.bucket,
            c.open,
            c.high,
            c.low,
            c.close,
            c.count,
        )

    def apply(self, time: UnixS, price: float | None, swap: PricedSwap) -> None:
        """Add *swap*; *price* is the USD price that it adds to a candle, None for no price.

        A swap that has neither a price nor volume has no effect.
        """
        if price is None and not swap.volume:
            return
        part = Part(time)
        part.add(price, swap)
        self.add(part)

    def add(self, part: Part) -> None:
        """Add *part*, a sum of swaps that lies within one candle, to that candle.

        The volume of the candle is limited to VOLUME_S_MAX a second.
        """
        at = part.time - part.time % self.width_s  # as `timeframe.bucket` does, without a call
        if at != self.bucket:
            self._open(UnixS(at))
        self._is_changed = True
        buy = self.buy + part.buy
        sell = self.sell + part.sell
        if buy + sell > MINUTE_VOLUME_MAX:  # no candle has a lower limit
            most = VOLUME_S_MAX * self.width_s
            buy = min(buy, most)
            sell = min(sell, most)
        self.buy = buy
        self.sell = sell
        if part.count:
            self._trade(part)

    def changed(self) -> list[CandleRow]:
        """Return the candles that changed since the last call, oldest first."""
        if self._is_changed:
            self._note()
        rows = self._changed
        self._changed = None
        return [] if rows is None else rows

    def has_opened(self) -> bool:
        """Return whether a candle has begun since the last call; call `changed` first."""
        has_opened = self._has_opened
        self._has_opened = False
        return has_opened

    def _open(self, bucket: UnixS) -> None:
        assert bucket > self.bucket, f"expected times in order, was {bucket}"
        if self._is_changed:
            self._note()
        self.bucket = bucket
        self.buy = 0
        self.sell = 0

    def _note(self) -> None:
        """Add the candle of the newest span, which may lack a price, to the changed candles."""
        self._is_changed = False
        c = self.candle
        if c is not None and c.bucket == self.bucket:
            row = CandleRow(
                c.bucket,
                c.open,
                c.high,
                c.low,
                c.close,
                self.buy,
                self.sell,
                c.count,
                *c.known_sol(),
            )
        elif self.buy + self.sell > 0:
            row = CandleRow(self.bucket, None, None, None, None, self.buy, self.sell, 0)
        else:
            return
        if self._changed is None:
            self._changed = [row]
        else:
            self._changed.append(row)
        if self._newest_row != self.bucket:
            self._newest_row = self.bucket
            self._has_opened = True

    def _trade(self, part: Part) -> None:
        candle = self.candle
        if candle is not None and candle.bucket == self.bucket:
            candle.add(part)
            return
        if candle is not None:
            acc = np.frombuffer(self.acc, "<f8").astype(np.float64)  # a copy, to write into
            close_candle(acc, self.count - 1, candle.close, SERVICE)
            self.acc = acc.astype("<f8").tobytes()
            if self.count % WAYPOINT_EVERY == 0:
                self.passed.append((self.timeframe, waypoint(self.bucket, self.count, acc)))
        self.count += 1
        self.candle = OpenCandle(
            self.bucket,
            part.open,
            part.high,
            part.low,
            part.close,
            part.count,
            part.open_sol,
            part.high_sol,
            part.low_sol,
            part.close_sol,
        )


def waypoint(bucket: UnixS, closed: int, acc: Floats) -> Waypoint:
    """Return the state of accumulators, to be stored: averages can continue from it.

    bucket   the start of the next candle
    closed   the number of candles that *acc* includes
    """
    return Waypoint(bucket, closed, acc.astype("<f8").tobytes())


class OpenCandle(msgspec.Struct, gc=False):
    """The newest candle of a mint with a price; its prices in SOL are NaN if unknown."""

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

    def add(self, part: Part) -> None:
        """Add *part*, a sum of swaps with a price; a high or low in SOL that is NaN stays NaN."""
        if part.high > self.high:  # noqa: PLR1730 - a call costs twice the comparison
            self.high = part.high
        if part.low < self.low:  # noqa: PLR1730
            self.low = part.low
        self.close = part.close
        self.count += part.count
        if part.high_sol > self.high_sol:  # noqa: PLR1730
            self.high_sol = part.high_sol
        if part.low_sol < self.low_sol:  # noqa: PLR1730
            self.low_sol = part.low_sol
        self.close_sol = part.close_sol

    def known_sol(self) -> tuple[float, float, float, float] | tuple[None, None, None, None]:
        """Return the open, high, low and close in SOL; all are None if they are unknown."""
        if self.open_sol >= 0:  # False for NaN
            return self.open_sol, self.high_sol, self.low_sol, self.close_sol
        return NO_SOL


NO_SOL: Final = (None, None, None, None)
NO_CANDLE: Final = OpenCandle(UnixS(-1), 0.0, 0.0, 0.0, 0.0, 0, 0.0, 0.0, 0.0, 0.0)


class Wide(NamedTuple):
    """A timeframe that is computed from the candles of a narrower one.

    frame     its name
    width_s   the length of its candles in seconds
    made_of   the narrower timeframe
    """

    frame: AskedFrame
    width_s: int
    made_of: Timeframe


class Bar(NamedTuple):
    """The start and the prices of a stored candle from which a wider candle is made."""

    bucket: UnixS
    high: float
    low: float
    close: float


WIDE: Final = (
    Wide(AskedFrame.M30, FRAME_S[AskedFrame.M30], Timeframe.M15),
    Wide(AskedFrame.H4, FRAME_S[AskedFrame.H4], Timeframe.H1),
    Wide(AskedFrame.D1, FRAME_S[AskedFrame.D1], Timeframe.H1),
)
SHORT_S: Final = FRAME_S[AskedFrame.S15]
SHORT_SPANS: Final = 60
SHORT_REACH_S: Final = SHORT_SPANS * SHORT_S
# The number of candles after which less than 1e-13 of the first value is left: in EMA 9, 21, 50 and
# 200, RSI, and the three values of MACD.
FORGOTTEN: Final = (150, 330, 765, 3_015, 410, 410, 410, 410)

SPAN: Final = np.dtype([("bucket", "i8"), ("high", "f8"), ("low", "f8"), ("close", "f8")])
STATE: Final = np.dtype(
    [
        ("frames", FRAME, len(WIDE)),
        ("accs", "f8", (len(WIDE), ACC)),
        ("rings", kernels.RING, len(WIDE)),
        ("is_cut", "i8", len(WIDE)),
        ("made", "i8"),
        ("short_count", "i8"),
        ("short", SPAN, SHORT_SPANS),
    ]
)


# The bits of `made` in STATE.
MADE_WIDE: Final = 2
MADE_SHORT: Final = 1


class Frames:
    """The timeframes of one mint that are computed only on request, as of its newest swap."""

    def __init__(self, state: bytes | None = None) -> None:
        """Continue from *state*, which `packed` has returned; None: no timeframe is computed yet.

        Raises ValueError for bytes of another length.
        """
        if state is not None and len(state) != STATE.itemsize:
            raise ValueError(f"expected frames of {STATE.itemsize} bytes, was {len(state)}")
        self._state = np.zeros(1, STATE) if state is None else np.frombuffer(state, STATE).copy()

    def packed(self) -> bytes:
        """Return all timeframes as bytes, from which another instance continues."""
        return self._state.tobytes()

    def has(self, asked: Collection[str]) -> bool:
        """Return whether all timeframes in *asked* are computed for this mint."""
        return all(
            self._is_made(MADE_SHORT if each == AskedFrame.S15 else MADE_WIDE) for each in asked
        )

    def begin_wide(
        self, kept: Mapping[Timeframe, Sequence[Bar]], cut: Collection[Timeframe]
    ) -> None:
        """Compute the candles of 30 minutes, 4 hours and a day from the stored candles *kept*.

        kept   by timeframe, oldest first
        cut    the timeframes whose older candles were deleted
        """
        self._state["made"] |= MADE_WIDE
        for k, wide in enumerate(WIDE):
            is_cut = wide.made_of in cut
            self._state["is_cut"][0, k] = is_cut
            for bar in _widened(kept.get(wide.made_of, ()), wide.width_s, is_cut=is_cut):
                acc, frame, ring = self._of(k)
                kernels.next_candle(frame, acc, ring, SERVICE)
                frame["bucket"], frame["high"], frame["low"], frame["close"] = bar

    def begin_short(self, trades: Iterable[tuple[UnixS, float]]) -> None:
        """Compute candles of 15 seconds from the swaps of the newest SHORT_REACH_S seconds.

        trades   (time, price) in order
        """
        self._state["made"] |= MADE_SHORT
        for at, price in trades:
            self._add_short(at, price)

    def apply(self, at: UnixS, price: float) -> None:
        """Add *price*, the USD price of a swap at the time *at*; times must not decrease."""
        for k, wide in enumerate(WIDE if self._is_made(MADE_WIDE) else ()):
            acc, frame, ring = self._of(k)
            kernels.add_price(frame, acc, ring, at // wide.width_s, price)
        if self._is_made(MADE_SHORT):
            self._add_short(at, price)

    def read(
        self, asked: Collection[str], now: UnixS, *, leaves_out_open: bool
    ) -> dict[str, Floats]:
        """Return the indicators of each timeframe in *asked* as of *now*; NaN: too few candles.

        They are in the order in which `kernels.read_open` writes them.

        leaves_out_open   whether the candles that are open at *now* are left out
        """
        found = {}
        for k, wide in enumerate(WIDE):
            if wide.frame in asked:
                found[wide.frame.value] = self._read_wide(k, now, leaves_out_open=leaves_out_open)
        if AskedFrame.S15 in asked:
            found[AskedFrame.S15.value] = self._read_short(now, leaves_out_open=leaves_out_open)
        return found

    def _is_made(self, part: int) -> bool:
        return bool(self._state["made"][0] & part)

    def _of(self, k: int) -> Held:
        state = self._state
        return Held(state["accs"][0, k], state["frames"][0, k], state["rings"][0, k])

    def _add_short(self, at: UnixS, price: float) -> None:
        bucket = at - at % SHORT_S
        spans = self._state["short"][0]
        count = int(self._state["short_count"][0])
        if count and spans[count - 1]["bucket"] == bucket:
            span = spans[count - 1]
            span["high"] = max(span["high"], price)
            span["low"] = min(span["low"], price)
            span["close"] = price
            return
        if count == SHORT_SPANS:
            spans[:-1] = spans[1:].copy()
            count -= 1
        spans[count] = (bucket, price, price, price)
        self._state["short_count"] = count + 1

    def _read_wide(self, k: int, now: UnixS, *, leaves_out_open: bool) -> Floats:
        held = self._of(k)
        frame = held.frame
        out = np.full(READ, np.nan)
        count = int(frame["count"])
        if not count:
            return out
        is_open = (int(frame["bucket"]) + 1) * WIDE[k].width_s > now
        if leaves_out_open and is_open:
            count -= 1
            kernels.read_closed(held, count, out)
        else:
            kernels.read_open(held, count - 1, SERVICE, out)
        if self._state["is_cut"][0, k]:
            for z, least in enumerate(FORGOTTEN):
                if count < least:
                    out[z] = np.nan
            if count < SWING:
                out[kernels.AVERAGES : kernels.FURTHER] = np.nan
        return out

    def _read_short(self, now: UnixS, *, leaves_out_open: bool) -> Floats:
        spans = self._state["short"][0][: int(self._state["short_count"][0])]
        return short_values(spans, now, leaves_out_open=leaves_out_open)


def short_values(spans: Any, now: UnixS, *, leaves_out_open: bool) -> Floats:
    """Return the indicators of candles of 15 seconds as of *now*; NaN: too few candles.

    They are in the order in which `kernels.read_open` writes them.

    spans             the stored candles of 15 seconds, oldest first
    leaves_out_open   whether the candle that is open at *now* is left out
    """
    current = now - now % SHORT_S
    is_shown = spans["bucket"] > current - SHORT_REACH_S
    if leaves_out_open:
        is_shown &= spans["bucket"] < current
    shown = spans[is_shown]
    if not len(shown):
        return np.full(READ, np.nan)
    prices = (np.ascontiguousarray(shown[name]) for name in ("high", "low", "close"))
    out = np.zeros((len(shown), READ))
    frame = np.zeros(1, FRAME)[0]
    kernels.series(frame, np.zeros(ACC), Candles(*prices), SERVICE, out)
    newest: Floats = out[-1]
    return newest


def _widened(
    kept: Sequence[Bar], width_s: int, *, is_cut: bool
) -> list[tuple[int, float, float, float]]:
    """Return *kept* merged into candles of *width_s* seconds, oldest first.

    Each is (start // *width_s*, high, low, close).

    is_cut   whether candles before *kept* were deleted: then an incomplete first candle is left out
    """
    if not kept:
        return []
    buckets, highs, lows, closes = (np.array(column) for column in zip(*kept, strict=True))
    numbers = buckets // width_s
    # The prepended number differs from the first one, so the first candle begins a wide one, too.
    firsts = np.flatnonzero(np.diff(numbers, prepend=numbers[0] - 1))
    lasts = np.append(firsts[1:], len(numbers)) - 1
    made = list(
        zip(
            numbers[firsts].tolist(),
            np.maximum.reduceat(highs, firsts).tolist(),
            np.minimum.reduceat(lows, firsts).tolist(),
            closes[lasts].tolist(),
            strict=True,
        )
    )
    return made[1:] if is_cut and kept[0].bucket % width_s else made
