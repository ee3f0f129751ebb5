"""The report of a token: price, indicators, pressure and the span of its data."""

import msgspec


class TokenPrice(msgspec.Struct, frozen=True, rename="camel"):
    """The price of one whole token at its newest accepted swap; None if the service omits it.

    pool            whose swap set the price
    age_ms          from that swap to the newest block that the service has read
    liquidity_usd   that stand ready to buy the token in the pools that agree
    pools           that agree on the price
    confidence      "high", "medium" or "low"
    rejected_share_h1   part of the volume of an hour that was traded at rejected prices
    """

    usd: float
    sol: float
    pool: str | None = None
    age_ms: int | None = None
    liquidity_usd: float | None = None
    pools: int | None = None
    confidence: str | None = None
    rejected_share_h1: float | None = None


class MacdValues(msgspec.Struct, frozen=True):
    """MACD(12, 26, 9)."""

    line: float
    signal: float
    histogram: float


class FibonacciLevels(msgspec.Struct, frozen=True, rename="camel"):
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


class TimeframeReport(msgspec.Struct, frozen=True):
    """The indicators of one timeframe; None if history is too short."""

    ema9: float | None
    ema21: float | None
    ema50: float | None
    ema200: float | None
    rsi: float | None
    macd: MacdValues | None
    fibonacci: FibonacciLevels | None


class BuySellPressure(msgspec.Struct, frozen=True):
    """Buy volume over total volume, 0 to 1; 0 if nothing was traded."""

    m1: float
    m5: float
    m15: float
    h1: float
    h4: float
    d1: float


class IndicatorReport(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """All timeframes and the pressure windows; s15, m30, h4 and d1 if they were asked for."""

    m1: TimeframeReport
    m5: TimeframeReport
    m15: TimeframeReport
    h1: TimeframeReport
    buy_sell_pressure: BuySellPressure
    s15: TimeframeReport | None = None
    m30: TimeframeReport | None = None
    h4: TimeframeReport | None = None
    d1: TimeframeReport | None = None


class CandleTotals(msgspec.Struct, frozen=True):
    """Candles since tracking began, the open one included."""

    m1: int
    m5: int
    m15: int
    h1: int


class SpanOfData(
    msgspec.Struct, frozen=True, rename={"from_": "from", "candle_counts": "candleCounts"}
):
    """The span of the data in Unix seconds: first m1 candle to last applied slot."""

    from_: int
    to: int
    candle_counts: CandleTotals


class PartRead(msgspec.Struct, frozen=True, rename="camel"):
    """The share of exchange calls that was read, 0 to 1, rounded down; None without calls.

    by_volume   of the calls whose volume is known
    """

    by_calls: float | None
    by_volume: float | None


class CoverageOfData(
    msgspec.Struct,
    frozen=True,
    rename={"from_": "from", "missing_slots": "missingSlots", "skipped_slots": "skippedSlots"},
):
    """The share that was read from *from_*, the hour before the hour of *to*, until *to*.

    token           of calls that name an account of this token
    overall         of all calls
    missing_slots   that no node could deliver
    skipped_slots   proven to hold no block
    """

    from_: int
    to: int
    token: PartRead
    overall: PartRead
    missing_slots: int
    skipped_slots: int


class Report(msgspec.Struct, frozen=True, rename="camel"):
    """The answer of `GET /v1/token/{mint}`."""

    token: str
    price: TokenPrice
    indicators: IndicatorReport
    data_span: SpanOfData
    coverage: CoverageOfData | None = None
