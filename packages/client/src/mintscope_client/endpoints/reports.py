"""Reports of one token now or in the past, of several at once; and prices of the past."""

from collections.abc import Sequence
from typing import Literal, TypeAlias, TypedDict

import msgspec
from typing_extensions import Unpack

from mintscope_client.calls.call import ApiCall
from mintscope_client.calls.known import expect_known
from mintscope_client.calls.requests import Moment, query_of, segment, text_of


class TokenPrice(msgspec.Struct, frozen=True, rename="camel"):
    """The price of one whole token at its newest accepted swap; None if the service omits it.

    pool            the pool whose swap set the price
    age_ms          from that swap to the newest block that the service has read
    liquidity_usd   USD in the pools that agree, available to buy the token
    pools           the number of pools that agree on the price
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

    ema9: float | None = None
    ema21: float | None = None
    ema50: float | None = None
    ema200: float | None = None
    rsi: float | None = None
    macd: MacdValues | None = None
    fibonacci: FibonacciLevels | None = None


class BuySellPressure(msgspec.Struct, frozen=True):
    """Buy volume over total volume, 0 to 1; 0 if nothing was traded."""

    m1: float
    m5: float
    m15: float
    h1: float
    h4: float
    d1: float


class IndicatorReport(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """All timeframes and the pressure windows; s15, m30, h4 and d1 if they were requested."""

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

    by_volume   the share by volume, of calls whose volume is known
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


class WhyNot(msgspec.Struct, frozen=True):
    """The reason for a missing report: a code of docs/api.md, and a message."""

    code: str
    message: str


class ReportOrNot(msgspec.Struct, frozen=True):
    """One mint of a batch: its report, or the reason why there is none."""

    token: str
    report: Report | None = None
    error: WhyNot | None = None


class BatchReports(msgspec.Struct, frozen=True):
    """A line for each mint, in the order of the request; *delivered* of them have a report."""

    delivered: int
    results: list[ReportOrNot]


class PastPrice(msgspec.Struct, frozen=True, rename="camel"):
    """A price: the close of the newest *tf* candle closed by then, which ended at *closed_at*."""

    usd: float
    sol: float | None
    closed_at: int
    tf: str


class PriceOrNot(msgspec.Struct, frozen=True):
    """The price of one token at one time (Unix seconds), or the reason why there is none."""

    token: str
    t: int
    price: PastPrice | None = None
    error: WhyNot | None = None


class PastPrices(msgspec.Struct, frozen=True):
    """A line for each token and time, in the order of the request; *found* have a price."""

    found: int
    prices: list[PriceOrNot]


AskedTimeframe: TypeAlias = Literal["s15", "m30", "h4", "d1"]


class ReportOptions(TypedDict, total=False):
    """The options of a report.

    candles      "closed": indicators without the candle that is still open
    partial      a report from the first priced swap on, None for numbers that need more candles
    timeframes   indicators of these, beside those of m1, m5, m15 and h1
    """

    candles: Literal["all", "closed"]
    partial: bool
    timeframes: Sequence[AskedTimeframe]


class TokenOptions(ReportOptions, total=False):
    """The options of a report, and the time that it is for.

    at    the report as it was: Unix seconds, a datetime with a time zone, or "slot:312345678"
    """

    at: Moment | str


def token(mint: str, **options: Unpack[TokenOptions]) -> ApiCall[Report]:
    """Return the call for the report of *mint*: one credit."""
    expect_known(options, TokenOptions)
    at = options.pop("at", None)
    query = (*report_query(options), *query_of({"at": at}))
    return ApiCall(
        name="token",
        method="GET",
        path=f"/v1/token/{segment(mint)}",
        query=query,
        kind=Report,
        credits_max=1,
    )


def trial(mint: str, **options: Unpack[ReportOptions]) -> ApiCall[Report]:
    """Return the call for a free report of *mint*, limited per day and client address."""
    return ApiCall(
        name="trial",
        method="GET",
        path=f"/v1/trial/{segment(mint)}",
        query=report_query(options),
        kind=Report,
    )


def report_query(options: ReportOptions) -> tuple[tuple[str, str], ...]:
    """Return *options* as the fields of a query.  Raises TypeError for an unknown option."""
    expect_known(options, ReportOptions)
    asked: dict[str, object] = {**options}
    if "timeframes" in options:
        asked["timeframes"] = ",".join(options["timeframes"])
    return tuple((name, str(value).lower()) for name, value in asked.items())


def batch(mints: Sequence[str], **options: Unpack[ReportOptions]) -> ApiCall[BatchReports]:
    """Return the call for reports of up to 50 *mints*; each delivered report costs a credit."""
    expect_known(options, ReportOptions)
    return ApiCall(
        name="batch",
        method="POST",
        path="/v1/tokens/batch",
        kind=BatchReports,
        body=msgspec.json.encode({"mints": list(mints), **options}),
        credits_max=len(mints),
        credits_of=lambda batch: batch.delivered,
    )


def past_prices(asked: Sequence[tuple[str, Moment]]) -> ApiCall[PastPrices]:
    """Return the call for up to 100 past prices.  Costs one credit, or none if no price is found.

    asked    mints, each with a time: Unix seconds, or a datetime with a time zone
    """
    pairs = [{"mint": mint, "t": int(text_of(at))} for mint, at in asked]
    return ApiCall(
        name="past_prices",
        method="POST",
        path="/v1/prices",
        kind=PastPrices,
        body=msgspec.json.encode({"prices": pairs}),
        credits_max=1,
        credits_of=lambda page: 1 if page.found else 0,
    )
