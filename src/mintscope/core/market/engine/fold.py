"""The durable fold of one mint: swaps in, candle rows and a small state out.

The finalized fold keeps one MintFold per touched mint, hands it the swaps of
each final slot in order, and writes `changed()` and `state()` in the
transaction that moves its checkpoint.  A fold that is made again from what
was written goes on bit for bit as if it had never stopped, and the engine
loads the same bytes: both close candles with one kernel.
"""

from collections.abc import Iterable, Sequence
from math import nan
from struct import Struct
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mintscope.base.primitives import UnixS
from mintscope.core.market.engine.frame import NO_CANDLE, Frame
from mintscope.core.market.engine.kernels import ACC, sets_candle
from mintscope.core.market.log import CandleRow, PricedSwap, Waypoint
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
NEWEST_H1: Final = len(Timeframe) * FRAME_VALUES - 6  # where its bucket stands
PACKED: Final = Struct("<qqd" + f"{ACC}d5q4dq" * len(Timeframe))  # STATE, at a tenth of its price
assert PACKED.size == STATE.itemsize

# The newest candles in SOL, of m1 to h1, beside a state of the same h1 candle: its bucket (-1:
# none) and its trades, for any swap with a price changes them.
IN_SOL: Final = Struct("<qq" + "4d" * len(Timeframe))
UNKNOWN: Final = (nan,) * 4 * len(Timeframe)


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

    __slots__ = ("_first", "_passed", "_price_sol", "frames")

    def __init__(self) -> None:
        self._first = UnixS(0)
        self._price_sol = 0.0
        self._passed: list[tuple[Timeframe, Waypoint]] = []
        self.frames = {timeframe: Frame(timeframe, self._passed) for timeframe in TIMEFRAMES}

    @classmethod
    def from_state(cls, state: bytes | None, in_sol: bytes | None = None) -> "MintFold":
        """Go on from *state*, the newest written `state()`; None for a mint without one.

        in_sol   the `in_sol()` written with it; where it is of another state, or None, the newest
                 candles have no prices in SOL
        Raises   ValueError as `read_state` does
        """
        fold = cls()
        if state is None:
            return fold
        if len(state) != PACKED.size:
            read_state(state)
        version, fold._first, fold._price_sol, *values = PACKED.unpack(state)
        if version != STATE_VERSION:
            read_state(state)
        prices = _of_state(in_sol, values[NEWEST_H1], values[-1])
        for n, frame in enumerate(fold.frames.values()):
            first = n * FRAME_VALUES
            frame.unpack(values[first : first + FRAME_VALUES], prices[4 * n : 4 * n + 4])
        return fold

    def apply(self, time: UnixS, swap: PricedSwap) -> None:
        """Add the next *swap*, of a slot with effective *time*; times never go back."""
        price = price_of(swap)
        if price is not None:
            if self.frames[Timeframe.M1].count == 0:
                self._first = bucket(Timeframe.M1, time)
            self._price_sol = swap.price_sol or 0.0
        for frame in self.frames.values():
            frame.apply(time, price, swap)

    def waypoints(self) -> list[tuple[Timeframe, Waypoint]]:
        """Return those that were passed since the last call."""
        passed = [*self._passed]
        self._passed.clear()
        return passed

    def changed(self) -> dict[Timeframe, list[CandleRow]]:
        """Return the rows touched since the last call, oldest first, to insert or replace.

        A bucket with volume but no price is a row with count 0, so that the volumes of
        each timeframe have the same sum.
        """
        return {timeframe: frame.changed() for timeframe, frame in self.frames.items()}

    def opened(self) -> list[Timeframe]:
        """Return the timeframes in which a row began since the last call."""
        return [timeframe for timeframe, frame in self.frames.items() if frame.has_opened()]

    def state(self) -> bytes:
        """Return all that `from_state` needs: at most 700 bytes."""
        values = [STATE_VERSION, self._first, self._price_sol]
        for frame in self.frames.values():
            values += frame.packed()
        return PACKED.pack(*values)

    def in_sol(self) -> bytes:
        """Return the prices in SOL of the newest candles, to be written beside `state()`."""
        m1, m5, m15, h1 = (frame.candle or NO_CANDLE for frame in self.frames.values())
        return IN_SOL.pack(
            h1.bucket, h1.count, *m1.in_sol(), *m5.in_sol(), *m15.in_sol(), *h1.in_sol()
        )


def _of_state(in_sol: bytes | None, bucket: float, trades: float) -> Sequence[float]:
    """Return the prices of *in_sol*; NaN if it was not written with a state of that h1 candle."""
    if in_sol is None or len(in_sol) != IN_SOL.size:
        return UNKNOWN
    its_bucket, its_trades, *prices = IN_SOL.unpack(in_sol)
    return prices if (its_bucket, its_trades) == (bucket, trades) else UNKNOWN


def merged(
    state: bytes | None,
    in_sol: bytes | None,
    timeframe: Timeframe,
    swaps: Iterable[tuple[UnixS, PricedSwap]],
) -> list[CandleRow]:
    """Return the rows of *timeframe* that *swaps*, in order, would change after *state*."""
    frame = MintFold.from_state(state, in_sol).frames[timeframe]
    for time, swap in swaps:
        frame.apply(time, price_of(swap), swap)
    return frame.changed()


def price_of(swap: PricedSwap) -> float | None:
    """Return the price in USD that *swap* gives a candle, None where it gives none."""
    price = swap.price_usd
    return price if price is not None and sets_candle(price) else None
