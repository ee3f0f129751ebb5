"""Reports of one token, now or in the past, or of several tokens; and past prices."""

from collections.abc import Sequence
from typing import Literal, TypeAlias, TypedDict

import msgspec
from typing_extensions import Unpack

from mintscope_client.calls.call import ApiCall
from mintscope_client.calls.known import expect_known
from mintscope_client.calls.requests import Moment, query_of, segment, text_of


class TokenPrice(msgspec.Struct, frozen=True, rename="camel"):
    """The price of one whole token at its newest swap that set a price; None means unknown.

    pool            the pool whose swap set the price
    age_ms          milliseconds from that swap to the newest block in the report
    liquidity_usd   the value in USD of the quote tokens in the pools that agree on the price
    pools           the number of pools that agree on the price; 0 if unknown
    confidence      "high", "medium" or "low"
    rejected_share_h1   the share of the volume of the last hour whose price was rejected, 0 to 1
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
    """The values of the indicator MACD(12, 26, 9), in the same unit as the prices beside it."""

    line: float
    signal: float
    histogram: float


class FibonacciLevels(msgspec.Struct, frozen=True, rename="camel"):
    """Fibonacci levels between the highest and lowest price of the newest 100 candles, in USD.

    level...    retracements, measured down from the high
    ext...      extensions, measured up from the low

    In a page of a series, the levels are in the unit of the page.
    """

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
    """The indicators of one timeframe; an indicator is None if the history is too short for it."""

    ema9: float | None = None
    ema21: float | None = None
    ema50: float | None = None
    ema200: float | None = None
    rsi: float | None = None
    macd: MacdValues | None = None
    fibonacci: FibonacciLevels | None = None


class BuySellPressure(msgspec.Struct, frozen=True):
    """The share of buys in the trading volume of each window, 0 to 1; 0 if nothing was traded."""

    m1: float
    m5: float
    m15: float
    h1: float
    h4: float
    d1: float


class IndicatorReport(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The indicators of a report by timeframe, and the buy pressure.

    s15, m30, h4, d1   None unless they were requested
    """

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
    """The numbers of a token's candles since tracking began, including the open ones."""

    m1: int
    m5: int
    m15: int
    h1: int


class SpanOfData(
    msgspec.Struct, frozen=True, rename={"from_": "from", "candle_counts": "candleCounts"}
):
    """The time span of the data of a report, in Unix seconds.

    from_    the start of the first m1 candle or, if candles were imported, of the first of them
    to       the block time of the newest slot in the data
    """

    from_: int
    to: int
    candle_counts: CandleTotals


class PartRead(msgspec.Struct, frozen=True, rename="camel"):
    """The share of token exchanges (calls of programs) that the service could read.

    Shares are from 0 to 1 and rounded down; they are None if there was no exchange.

    by_calls    the share of all calls
    by_volume   the share by volume, of the calls whose volume is known
    """

    by_calls: float | None
    by_volume: float | None


class CoverageOfData(
    msgspec.Struct,
    frozen=True,
    rename={"from_": "from", "missing_slots": "missingSlots", "skipped_slots": "skippedSlots"},
):
    """The part of the token exchanges between *from_* and *to* that the service has read.

    *from_* is the beginning of the hour before the hour of *to*; both are Unix seconds.

    token           the share read of this token: its swaps that set a price, divided by the sum of
                    these swaps and of the missed calls that name an account of the token
    overall         the share read of all program calls that exchange tokens
    missing_slots   the number of slots that no node could deliver
    skipped_slots   the number of slots that are proven to have no block
    """

    from_: int
    to: int
    token: PartRead
    overall: PartRead
    missing_slots: int
    skipped_slots: int


class Report(msgspec.Struct, frozen=True, rename="camel"):
    """The report of a token: its price, its indicators, and the data from which they follow."""

    token: str
    price: TokenPrice
    indicators: IndicatorReport
    data_span: SpanOfData
    coverage: CoverageOfData | None = None


class WhyNot(msgspec.Struct, frozen=True):
    """The reason for which a result is missing: an error code of docs/api.md, and a message."""

    code: str
    message: str


class ReportOrNot(msgspec.Struct, frozen=True):
    """One mint of a batch: its report, or the reason why the report is missing."""

    token: str
    report: Report | None = None
    error: WhyNot | None = None


class BatchReports(msgspec.Struct, frozen=True):
    """The answer to a request for several tokens, in the order of the request.

    delivered   the number of reports in it
    """

    delivered: int
    results: list[ReportOrNot]


class PastPrice(msgspec.Struct, frozen=True, rename="camel"):
    """The price at a past time: the close of the newest candle that had ended by then.

    closed_at   the time at which the candle ended, Unix seconds
    tf          the timeframe of the candle
    """

    usd: float
    sol: float | None
    closed_at: int
    tf: str


class PriceOrNot(msgspec.Struct, frozen=True):
    """The price of one token at one time (Unix seconds), or the reason why it is missing."""

    token: str
    t: int
    price: PastPrice | None = None
    error: WhyNot | None = None


class PastPrices(msgspec.Struct, frozen=True):
    """The answer to a request for past prices, in the order of the request.

    found   the number of prices that are known
    """

    found: int
    prices: list[PriceOrNot]


AskedTimeframe: TypeAlias = Literal["s15", "m30", "h4", "d1"]


class ReportOptions(TypedDict, total=False):
    """The options of a report.

    candles      "closed": indicators leave out candles that are still open
    partial      True: a report is available from the first priced swap on; numbers that need more
                 candles are None
    timeframes   timeframes whose indicators the report has in addition to m1, m5, m15 and h1
    """

    candles: Literal["all", "closed"]
    partial: bool
    timeframes: Sequence[AskedTimeframe]


class TokenOptions(ReportOptions, total=False):
    """The options of a report, and the time of a past report.

    at    the time: Unix seconds, a datetime with a time zone, or "slot:312345678" for the state
          after a slot
    """

    at: Moment | str


def token(mint: str, **options: Unpack[TokenOptions]) -> ApiCall[Report]:
    """Return the call for the report of *mint*.  Costs one credit."""
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
    """Return the call for a free report of *mint*; each client IP address has a daily limit."""
    return ApiCall(
        name="trial",
        method="GET",
        path=f"/v1/trial/{segment(mint)}",
        query=report_query(options),
        kind=Report,
    )


def report_query(options: ReportOptions) -> tuple[tuple[str, str], ...]:
    """Return the query parameters for *options* of a report.

    Raises TypeError for an unknown option.
    """
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

    asked    pairs of a mint and a time: Unix seconds, or a datetime with a time zone
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
