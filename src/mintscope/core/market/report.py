"""What endpoint 1 says about a mint, and the port of the reports.

Field names are the specification's; `rename` gives their camelCase.
"""

from math import inf
from typing import Final, Protocol

import msgspec

from mintscope.base.errors import InsufficientData
from mintscope.base.primitives import Mint, Slot, UnixS
from mintscope.core.market.engine.kernels import COUNTS, FIRST, READ, SHARES, SOL, USD, Floats


class Price(msgspec.Struct, frozen=True, gc=False):
    """Of one whole token, at its newest accepted swap."""

    usd: float
    sol: float


class Macd(msgspec.Struct, frozen=True, gc=False):
    """MACD(12, 26, 9)."""

    line: float
    signal: float
    histogram: float


class Fibonacci(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Levels over the newest 100 candles, retracements measured down from the high."""

    swing_high: float
    swing_low: float
    level236: float
    level382: float
    level500: float
    level618: float
    level764: float
    ext1272: float
    ext1618: float
    ext2000: float
    ext2618: float


class TimeframeIndicators(msgspec.Struct, frozen=True, gc=False):
    """The indicators of one timeframe; None where history is too short."""

    ema9: float | None
    ema21: float | None
    ema50: float | None
    ema200: float | None
    rsi: float | None
    macd: Macd | None
    fibonacci: Fibonacci | None


class Pressure(msgspec.Struct, frozen=True, gc=False):
    """Buy volume over total volume, 0 to 1; 0 where nothing traded."""

    m1: float
    m5: float
    m15: float
    h1: float
    h4: float
    d1: float


class Indicators(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """All timeframes and the pressure windows."""

    m1: TimeframeIndicators
    m5: TimeframeIndicators
    m15: TimeframeIndicators
    h1: TimeframeIndicators
    buy_sell_pressure: Pressure


class CandleCounts(msgspec.Struct, frozen=True, gc=False):
    """Candles since tracking began, the open one included."""

    m1: int
    m5: int
    m15: int
    h1: int


class DataSpan(
    msgspec.Struct, frozen=True, gc=False, rename={"from_": "from", "candle_counts": "candleCounts"}
):
    """Unix seconds: start of the first m1 candle, block time of the last applied slot."""

    from_: UnixS
    to: UnixS
    candle_counts: CandleCounts


class TokenReport(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """`data` of GET /v1/token/{tokenAddress}."""

    token: Mint
    price: Price
    indicators: Indicators
    data_span: DataSpan


CANDLES_MIN: Final = 9


def token_report(mint: Mint, values: Floats, now: UnixS) -> TokenReport:
    """Return the report of *mint* from its snapshot as of *now*.

    Raises InsufficientData without a priced swap or below 9 m1 candles: no timeframe has
    more candles than m1, so none could have an average.
    """
    if values[COUNTS] < CANDLES_MIN:
        raise InsufficientData(
            f"expected trades of this token in at least {CANDLES_MIN} different minutes"
            f" since tracking began; was {values[COUNTS]:.0f}"
        )
    return report_of(mint, values, now)


def report_of(mint: Mint, values: Floats, now: UnixS) -> TokenReport:
    """Return the report however little there is: one priced swap at least."""
    v = values.tolist()
    m1, m5, m15, h1 = map(int, v[COUNTS:FIRST])
    return TokenReport(
        mint,
        Price(v[USD], v[SOL]),
        Indicators(
            _timeframe(v, 0),
            _timeframe(v, READ),
            _timeframe(v, 2 * READ),
            _timeframe(v, 3 * READ),
            Pressure(*v[SHARES:COUNTS]),
        ),
        DataSpan(UnixS(int(v[FIRST])), now, CandleCounts(m1, m5, m15, h1)),
    )


def _timeframe(v: list[float], at: int) -> TimeframeIndicators:
    """Return the timeframe whose values begin at *at*, with None for NaN, which is not >= 0."""
    ema9, ema21, ema50, ema200, rsi, line, signal, histogram = v[at : at + 8]
    return TimeframeIndicators(
        ema9 if ema9 >= 0.0 else None,
        ema21 if ema21 >= 0.0 else None,
        ema50 if ema50 >= 0.0 else None,
        ema200 if ema200 >= 0.0 else None,
        rsi if rsi >= 0.0 else None,
        Macd(line, signal, histogram) if histogram > -inf else None,
        Fibonacci(*v[at + 8 : at + READ]),
    )


class ReadReport(msgspec.Struct, frozen=True, gc=False):
    """A report and how fresh it is.

    body     the report as JSON, ready to send
    slot     the last applied slot
    age_ms   of the data, by the market's clock; 0 while files are replayed
    """

    body: bytes
    slot: Slot
    age_ms: int


class Reports(Protocol):
    """Who knows the reports."""

    async def read(self, mint: Mint) -> ReadReport:
        """Return the report of *mint* as of the last applied slot.

        Raises TokenNotFound for a mint that is not tracked and InsufficientData
        for one without a priced swap or with fewer than 9 m1 candles.
        """

    def ready(self, mint: str) -> ReadReport | None:
        """Return the report of *mint* if it is at hand; None says nothing of why it is not."""
