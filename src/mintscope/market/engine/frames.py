"""The frames that are made when they are asked for: 15 seconds, 30 minutes, 4 hours and a day.

Wide frames are made of the candles that are kept: m30 of m15, h4 and d1 of h1, by UTC.  Averages
begin with the first candle since tracking began.  If older candles were dropped, they begin with
the oldest that is kept, and a value is null until it has forgotten that: until less than 1e-13 of
what it began with is left.

s15 is made of the swaps of the newest 15 minutes, which every installation keeps: its indicators
are those of the 60 spans that end with the current one, and of nothing before.

The arithmetic is that of `kernels`; a mint has these frames only while they are asked for.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

import numpy as np

from mintscope.kit.primitives import UnixS
from mintscope.kit.time import DAY_S, HOUR_S, MINUTE_S
from mintscope.market.engine import kernels
from mintscope.market.engine.given import Candles, Floats
from mintscope.market.engine.kernels import ACC, AVERAGES, FRAME, READ, SERVICE, SWING
from mintscope.market.timeframe import Timeframe


class AskedFrame(StrEnum):
    """A frame that reports have if it is asked for."""

    S15 = "s15"
    M30 = "m30"
    H4 = "h4"
    D1 = "d1"


class Wide(NamedTuple):
    """A wide frame: its width, and the candles that it is made of."""

    frame: AskedFrame
    width_s: int
    made_of: Timeframe


class Bar(NamedTuple):
    """The prices of a kept candle."""

    bucket: UnixS
    high: float
    low: float
    close: float


WIDE: Final = (
    Wide(AskedFrame.M30, 30 * MINUTE_S, Timeframe.M15),
    Wide(AskedFrame.H4, 4 * HOUR_S, Timeframe.H1),
    Wide(AskedFrame.D1, DAY_S, Timeframe.H1),
)
SHORT_S: Final = 15
SHORT_SPANS: Final = 60
SHORT_REACH_S: Final = SHORT_SPANS * SHORT_S
# After so many candles less than 1e-13 is left of what an average began with: EMA 9, 21, 50, 200,
# RSI, and the three of MACD.
FORGOTTEN: Final = (150, 330, 765, 3_015, 410, 410, 410, 410)

SPAN: Final = np.dtype([("bucket", "i8"), ("high", "f8"), ("low", "f8"), ("close", "f8")])
STATE: Final = np.dtype(
    [
        ("frames", FRAME, len(WIDE)),
        ("accs", "f8", (len(WIDE), ACC)),
        ("rings", "f8", (len(WIDE), SWING, 2)),
        ("is_cut", "i8", len(WIDE)),
        ("has_short", "i8"),
        ("short_count", "i8"),
        ("short", SPAN, SHORT_SPANS),
    ]
)


class Frames:
    """The asked frames of one mint, after its newest swap."""

    def __init__(self, state: bytes | None = None) -> None:
        """Continue from *state*, as `packed` returned it.

        Raises ValueError for bytes of another length.
        """
        if state is not None and len(state) != STATE.itemsize:
            raise ValueError(f"expected frames of {STATE.itemsize} bytes, was {len(state)}")
        self._state = np.zeros(1, STATE) if state is None else np.frombuffer(state, STATE).copy()

    def packed(self) -> bytes:
        """Return everything that a continuation needs."""
        return self._state.tobytes()

    def has(self, asked: Collection[str]) -> bool:
        """Return whether all frames *asked* for are there; wide ones always are."""
        return AskedFrame.S15 not in asked or bool(self._state["has_short"][0])

    def begin_wide(
        self, kept: Mapping[Timeframe, Sequence[Bar]], cut: Collection[Timeframe]
    ) -> None:
        """Make the wide frames of *kept* candles, oldest first.

        cut   timeframes of which older candles were dropped
        """
        for k, wide in enumerate(WIDE):
            is_cut = wide.made_of in cut
            self._state["is_cut"][0, k] = is_cut
            for bar in _widened(kept.get(wide.made_of, ()), wide.width_s, is_cut=is_cut):
                frame, acc, ring = self._of(k)
                kernels.next_candle(frame, acc, ring, SERVICE)
                frame["bucket"], frame["high"], frame["low"], frame["close"] = bar

    def begin_short(self, trades: Iterable[tuple[UnixS, float]]) -> None:
        """Make s15 of *trades* (time, price), in order: those of the newest SHORT_REACH_S."""
        self._state["has_short"] = 1
        for at, price in trades:
            self._add_short(at, price)

    def apply(self, at: UnixS, price: float) -> None:
        """Add a *price* that sets candles, at a time that never goes back."""
        for k, wide in enumerate(WIDE):
            frame, acc, ring = self._of(k)
            kernels.add_price(frame, acc, ring, at // wide.width_s, price)
        if self._state["has_short"][0]:
            self._add_short(at, price)

    def read(
        self, asked: Collection[str], now: UnixS, *, leaves_out_open: bool
    ) -> dict[str, Floats]:
        """Return the values of the frames *asked* for, READ of each, as of *now*; NaN for null."""
        found = {}
        for k, wide in enumerate(WIDE):
            if wide.frame in asked:
                found[wide.frame.value] = self._read_wide(k, now, leaves_out_open=leaves_out_open)
        if AskedFrame.S15 in asked:
            found[AskedFrame.S15.value] = self._read_short(now, leaves_out_open=leaves_out_open)
        return found

    def _of(self, k: int) -> tuple[Any, Floats, Floats]:
        state = self._state
        return state["frames"][0, k], state["accs"][0, k], state["rings"][0, k]

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
        frame, acc, ring = self._of(k)
        out = np.full(READ, np.nan)
        count = int(frame["count"])
        if not count:
            return out
        is_open = (int(frame["bucket"]) + 1) * WIDE[k].width_s > now
        if leaves_out_open and is_open:
            count -= 1
            kernels.read_closed_averages(acc, count, SERVICE, out)
            if count:
                kernels.read_levels(*kernels.extremes(ring, count, SWING), out[AVERAGES:])
        else:
            kernels.read_averages(acc, count - 1, frame["close"], SERVICE, out)
            kernels.read_swing(frame, out[AVERAGES:])
        if self._state["is_cut"][0, k]:
            for z, least in enumerate(FORGOTTEN):
                if count < least:
                    out[z] = np.nan
            if count < SWING:
                out[AVERAGES:] = np.nan
        return out

    def _read_short(self, now: UnixS, *, leaves_out_open: bool) -> Floats:
        spans = self._state["short"][0][: int(self._state["short_count"][0])]
        return short_values(spans, now, leaves_out_open=leaves_out_open)


def short_values(spans: Any, now: UnixS, *, leaves_out_open: bool) -> Floats:
    """Return the values of s15 as of *now*, made of *spans* (SPAN), oldest first; NaN for null."""
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
    """Return candles of *width_s* as (number, high, low, close), each with its beginning."""
    if not kept:
        return []
    buckets, highs, lows, closes = (np.array(column) for column in zip(*kept, strict=True))
    numbers = buckets // width_s
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
