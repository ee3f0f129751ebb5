"""Candles in JSON: those that have ended are encoded once."""

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from mintscope.base.primitives import UnixS
from mintscope.core.market.series.candles import BUCKET
from mintscope.core.market.series.store import SeriesCandle
from mintscope.edges.api.data.series.wire import CANDLES_MAX, Candle, SolPrices

RUNS_MAX: Final = 40  # of up to CANDLES_MAX candles, 250 bytes each
MICRO: Final = 1e6
_encode: Final = msgspec.json.Encoder().encode


class _Run(NamedTuple):
    """Consecutive candles, oldest first, and each in JSON."""

    candles: list[SeriesCandle]
    encoded: list[bytes]


NO_RUN: Final = _Run([], [])


class EncodedCandles:
    """Encodes pages of candles, and keeps the newest of each series.

    Up to RUNS_MAX series are kept, those that were asked for last.
    """

    def __init__(self) -> None:
        self._runs: OrderedDict[str, _Run] = OrderedDict()

    def page(self, series: str, candles: Sequence[SeriesCandle], ended: UnixS) -> bytes:
        """Return *candles*, oldest first, as a list in JSON.

        series   names what they are consecutive candles of
        ended    one that begins later is open
        """
        ended_count = bisect_right(candles, ended, key=BUCKET)
        encoded = self._ended(series, list(candles[:ended_count]))
        return b"[%b]" % b",".join(encoded + _encoded(candles[ended_count:], is_open=True))

    def _ended(self, series: str, candles: list[SeriesCandle]) -> list[bytes]:
        run = self._runs.pop(series, NO_RUN)
        begin = bisect_left(run.candles, candles[0].bucket, key=BUCKET) if candles else 0
        known = run.candles[begin : begin + len(candles)]
        if not known or known != candles[: len(known)]:
            begin = 0
            known = []
        new = candles[len(known) :]
        encoded = run.encoded[begin : begin + len(known)] + _encoded(new, is_open=False)
        if new and (not run.candles or new[-1].bucket >= run.candles[-1].bucket):
            run = _Run(
                (run.candles[:begin] + candles)[-CANDLES_MAX:],
                (run.encoded[:begin] + encoded)[-CANDLES_MAX:],
            )
        self._runs[series] = run
        if len(self._runs) > RUNS_MAX:
            self._runs.popitem(last=False)
        return encoded


def _encoded(candles: Sequence[SeriesCandle], *, is_open: bool) -> list[bytes]:
    return [_encode(wire_candle(candle, is_open=is_open)) for candle in candles]


def wire_candle(candle: SeriesCandle, *, is_open: bool) -> Candle:
    """Return *candle* as it is sent."""
    c = candle
    sol = None
    if (
        c.open_sol is not None
        and c.high_sol is not None
        and c.low_sol is not None
        and c.close_sol is not None
    ):
        sol = SolPrices(c.open_sol, c.high_sol, c.low_sol, c.close_sol)
    total = c.buy_volume + c.sell_volume
    if c.imported_volume is not None:
        total += c.imported_volume
        prices = (c.open, c.high, c.low, c.close, sol)
        return Candle(c.bucket, *prices, total / MICRO, None, None, None, True, is_open)  # noqa: FBT003
    # There are a thousand in a page: one by one is the fastest.
    return Candle(
        c.bucket,
        c.open,
        c.high,
        c.low,
        c.close,
        sol,
        total / MICRO,
        c.buy_volume / MICRO,
        c.sell_volume / MICRO,
        c.count,
        False,  # noqa: FBT003
        is_open,
    )
