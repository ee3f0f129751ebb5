"""The calls for token data and credits."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, Literal, TypeAlias, TypedDict
from urllib.parse import quote

import msgspec
from typing_extensions import Unpack

from mintscope_client.calls.call import ApiCall
from mintscope_client.calls.known import expect_known
from mintscope_client.calls.paged import Line, PageData, PagedCall
from mintscope_client.results.backtest import TokenBacktest, TokensBacktest
from mintscope_client.results.batch import BatchReports, PastPrices
from mintscope_client.results.credits import (
    BundleList,
    CreditBalance,
    CreditHistory,
    CreditPurchase,
)
from mintscope_client.results.holders import TokenHolders
from mintscope_client.results.lists import TokenLine, TokenMetadata, TokensPage
from mintscope_client.results.pools import TokenPools
from mintscope_client.results.report import Report
from mintscope_client.results.screen import ScreenedToken, ScreenPage
from mintscope_client.results.series import (
    CandleLine,
    CandlesPage,
    IndicatorLine,
    IndicatorsPage,
    SwapRecord,
    SwapsPage,
)
from mintscope_client.results.traders import TokenTraders

Sort: TypeAlias = Literal[
    "volume", "change", "age", "price",
    "change_m5", "change_h1", "market_cap", "rsi_h1", "pressure_h1",
]  # fmt: skip
Timeframe: TypeAlias = Literal["s15", "m1", "m5", "m15", "m30", "h1", "h4", "d1"]
TestedTimeframe: TypeAlias = Literal["m1", "m5", "m15", "m30", "h1", "h4", "d1"]
AskedTimeframe: TypeAlias = Literal["s15", "m30", "h4", "d1"]
PriceUnit: TypeAlias = Literal["usd", "sol", "marketcap"]
Moment: TypeAlias = int | datetime

LINES_MAX: Final = 1_000  # of a page, which costs the same however long it is
SWAPS_MAX: Final = 500
CANDLES_A_CREDIT: Final = 10_000  # of a backtest
CREDITS_A_TOKEN: Final = 4  # of a backtest, at most: for each timeframe that is kept one

BUNDLES: Final = ApiCall(name="bundles", method="GET", path="/v1/credits/bundles", kind=BundleList)
BALANCE: Final = ApiCall(
    name="balance", method="GET", path="/v1/credits/balance", kind=CreditBalance
)
HISTORY: Final = ApiCall(
    name="history", method="GET", path="/v1/credits/history", kind=CreditHistory
)


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
    query = (*report_query(options), *_query({"at": at}))
    return ApiCall(
        name="token",
        method="GET",
        path=f"/v1/token/{_segment(mint)}",
        query=query,
        kind=Report,
        credits_max=1,
    )


def trial(mint: str, **options: Unpack[ReportOptions]) -> ApiCall[Report]:
    """Return the call for a free report of *mint*, limited per day and client address."""
    return ApiCall(
        name="trial",
        method="GET",
        path=f"/v1/trial/{_segment(mint)}",
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
    pairs = [{"mint": mint, "t": int(_text(at))} for mint, at in asked]
    return ApiCall(
        name="past_prices",
        method="POST",
        path="/v1/prices",
        kind=PastPrices,
        body=msgspec.json.encode({"prices": pairs}),
        credits_max=1,
        credits_of=lambda page: 1 if page.found else 0,
    )


class TokenQuery(TypedDict, total=False):
    """The options of a list of tokens.

    sort     by what, as GET /v1/tokens says; of a day if no other span is named
    order    "asc": the least first
    limit    how many a page holds, up to 100
    """

    sort: Sort
    order: Literal["asc", "desc"]
    limit: int


def tokens(text: str = "", **asked: Unpack[TokenQuery]) -> PagedCall[TokensPage, TokenLine]:
    """Return pages of tokens whose name or symbol has *text* or whose mint starts with it.

    Free.
    """
    expect_known(asked, TokenQuery)
    fields = {"query": text or None, **asked}

    def call_at(cursor: str | None) -> ApiCall[TokensPage]:
        return ApiCall(
            name="tokens",
            method="GET",
            path="/v1/tokens",
            kind=TokensPage,
            query=_query({**fields, "cursor": cursor}),
        )

    return PagedCall(call_at, lambda page: page.tokens)


class ScreenQuery(TypedDict, total=False):
    """The options of a screen.

    sort     the field that is sorted by, "volume_d1" by default
    order    "asc": the least first
    fields   that are shown: by default price, those of the condition, and that of *sort*
    limit    how many a page holds, up to 100, the default: each page costs the same
    """

    sort: str
    order: Literal["asc", "desc"]
    fields: Sequence[str]
    limit: int


def screen(where: str = "", **asked: Unpack[ScreenQuery]) -> PagedCall[ScreenPage, ScreenedToken]:
    """Return the pages of tokens for which *where* is true.  A page costs a credit unless empty.

    where    a condition, as GET /v1/screen describes it: "liquidity > 100000 and rsi_h1 < 30"
    """
    expect_known(asked, ScreenQuery)
    fields = {"where": where or None, **asked}
    if "fields" in asked:
        fields["fields"] = ",".join(asked["fields"]) or None

    def call_at(cursor: str | None) -> ApiCall[ScreenPage]:
        return ApiCall(
            name="screen",
            method="GET",
            path="/v1/screen",
            kind=ScreenPage,
            query=_query({**fields, "cursor": cursor}),
            credits_max=1,
            credits_of=lambda page: 1 if page.tokens else 0,
        )

    return PagedCall(call_at, lambda page: page.tokens)


def metadata(mint: str) -> ApiCall[TokenMetadata]:
    """Return the call for the on-chain metadata of *mint*.  Free."""
    return ApiCall(
        name="metadata",
        method="GET",
        path=f"/v1/token/{_segment(mint)}/metadata",
        kind=TokenMetadata,
    )


class CandleRange(TypedDict, total=False):
    """The selection of candles.

    from_, to   their beginnings: Unix seconds, or a datetime with a time zone
    limit       candles of a page, at most 1,000, the default: each page costs the same
    candles     "closed": without the candle that is still open
    fill        "previous": spans without a trade get a candle at the previous close
    in_         the unit of prices: SOL as exchanged, or USD times the newest supply
    pool        candles of this pool alone, as `pools` names it: m5 or wider, of two days
    profile     bins of the volume profile of each page, at most 200; 0, the default: none
    """

    from_: Moment
    to: Moment
    limit: int
    candles: Literal["all", "closed"]
    fill: Literal["none", "previous"]
    in_: PriceUnit
    pool: str
    profile: int


class IndicatorRange(TypedDict, total=False):
    """The selection of indicators.

    names       by default the averages, RSI and MACD; with parameters: "sma(50)", "adx"
    from_, to   the beginnings of their candles: Unix seconds, or a datetime with a time zone
    limit       values of a page, at most 1,000, the default: each page costs the same
    candles     "closed": without the candle that is still open
    fill        "previous": spans without a trade count as a candle at the previous close
    in_         the unit of prices: SOL as exchanged, or USD times the newest supply
    """

    names: Sequence[str]
    from_: Moment
    to: Moment
    limit: int
    candles: Literal["all", "closed"]
    fill: Literal["none", "previous"]
    in_: PriceUnit


def candles(
    mint: str, tf: Timeframe, **within: Unpack[CandleRange]
) -> PagedCall[CandlesPage, CandleLine]:
    """Return the pages of candles of *mint*, newest first.  A page costs a credit unless empty.

    tf    how wide candles are
    """
    expect_known(within, CandleRange)
    fields = {"tf": tf, "limit": LINES_MAX, **within}
    return _series("candles", mint, CandlesPage, fields, lambda page: page.candles)


def indicators(
    mint: str, tf: Timeframe, **within: Unpack[IndicatorRange]
) -> PagedCall[IndicatorsPage, IndicatorLine]:
    """Return the pages of indicators of *mint*, newest first.  A page costs a credit unless empty.

    tf    how wide their candles are
    """
    expect_known(within, IndicatorRange)
    fields = {"tf": tf, "limit": LINES_MAX, **within}
    if "names" in within:
        fields["names"] = ",".join(within["names"])
    return _series("indicators", mint, IndicatorsPage, fields, lambda page: page.points)


def swaps(mint: str, *, limit: int | None = None) -> PagedCall[SwapsPage, SwapRecord]:
    """Return the pages of swaps of *mint*, newest first.  A page costs a credit unless empty.

    limit    how many a page holds, up to 500 and by default so many: it costs the same
    """
    return _series(
        "swaps",
        mint,
        SwapsPage,
        {"limit": SWAPS_MAX if limit is None else limit},
        lambda page: page.swaps,
    )


def pools(mint: str) -> ApiCall[TokenPools]:
    """Return the call for the pools of *mint*.  Costs one credit."""
    return ApiCall(
        name="pools",
        method="GET",
        path=f"/v1/token/{_segment(mint)}/pools",
        kind=TokenPools,
        credits_max=1,
    )


class BacktestQuery(TypedDict, total=False):
    """The period and settings of a backtest.

    tf          the candles at whose ends it is looked at, "m5" by default
    from_, to   the first and last look, Unix seconds or a datetime with a time zone: by default as
                far back as 10,000 candles reach, until now
    fee_bps     what a purchase loses, and a sale, basis points, 30 by default
    trade_usd   size of a trade, dollars: by what it moves the price is taken off, too; 0 by default
    candles     "all": fields of wider candles are of those that were open; "closed" by default
    """

    tf: TestedTimeframe
    from_: Moment
    to: Moment
    fee_bps: int
    trade_usd: float
    candles: Literal["closed", "all"]


def backtest(mint: str, where: str, **asked: Unpack[BacktestQuery]) -> ApiCall[TokenBacktest]:
    """Return the call for the past firings of *where* for *mint*.  Costs one credit.

    where    a condition, as GET /v1/screen describes it: "crosses_below(rsi_m5, 30)"
    """
    expect_known(asked, BacktestQuery)
    names = {"fee_bps": "feeBps", "trade_usd": "tradeUsd"}
    return ApiCall(
        name="backtest",
        method="GET",
        path=f"/v1/token/{_segment(mint)}/backtest",
        kind=TokenBacktest,
        query=_query(
            {"where": where, **{names.get(key, key): value for key, value in asked.items()}}
        ),
        credits_max=1,
        credits_of=lambda found: 1 if found.looks else 0,
    )


def backtest_tokens(
    mints: Sequence[str], where: str, **asked: Unpack[BacktestQuery]
) -> ApiCall[TokensBacktest]:
    """Return the call for the past firings of *where* for up to 50 mints.

    It costs a credit for each 10,000 candles that are read.

    where    a condition, as GET /v1/screen describes it: "crosses_below(rsi_m5, 30)"
    """
    expect_known(asked, BacktestQuery)
    names = {"fee_bps": "feeBps", "from_": "from", "trade_usd": "tradeUsd"}
    body: dict[str, object] = {"mints": list(mints), "where": where}
    for name, value in asked.items():
        body[names.get(name, name)] = int(_text(value)) if isinstance(value, datetime) else value
    return ApiCall(
        name="backtest_tokens",
        method="POST",
        path="/v1/backtest",
        kind=TokensBacktest,
        body=msgspec.json.encode(body),
        credits_max=CREDITS_A_TOKEN * len(mints),
        credits_of=lambda found: -(-found.candles // CANDLES_A_CREDIT) if found.looks else 0,
    )


def holders(mint: str) -> ApiCall[TokenHolders]:
    """Return the call for the 20 largest holders of *mint*.  Costs one credit."""
    return ApiCall(
        name="holders",
        method="GET",
        path=f"/v1/token/{_segment(mint)}/holders",
        kind=TokenHolders,
        credits_max=1,
    )


def traders(mint: str, *, limit: int | None = None) -> ApiCall[TokenTraders]:
    """Return the call for the traders of *mint*.  Costs one credit, or none without stored swaps.

    limit    how many traders, up to 100
    """
    return ApiCall(
        name="traders",
        method="GET",
        path=f"/v1/token/{_segment(mint)}/traders",
        kind=TokenTraders,
        query=_query({"limit": limit}),
        credits_max=1,
        credits_of=lambda page: 1 if page.traders else 0,
    )


def _series(
    name: str,
    mint: str,
    kind: type[PageData],
    fields: Mapping[str, object],
    lines: Callable[[PageData], Sequence[Line]],
) -> PagedCall[PageData, Line]:
    """Return the pages of a series; an empty page costs nothing."""

    def call_at(cursor: str | None) -> ApiCall[PageData]:
        return ApiCall(
            name=name,
            method="GET",
            path=f"/v1/token/{_segment(mint)}/{name}",
            kind=kind,
            query=_query({**fields, "cursor": cursor}),
            credits_max=1,
            credits_of=lambda page: 1 if lines(page) else 0,
        )

    return PagedCall(call_at, lines)


def purchase(credit_count: int) -> ApiCall[CreditPurchase]:
    """Return the call that buys the bundle of *credit_count* credits."""
    return ApiCall(
        name="purchase",
        method="POST",
        path="/v1/credits/purchase",
        kind=CreditPurchase,
        query=_query({"bundle": credit_count}),
        is_purchase=True,
    )


def _segment(text: str) -> str:
    return quote(text, safe="")


def _query(fields: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """Return the fields that have a value, as text; `from_` is sent as `from`."""
    return tuple(
        (name.rstrip("_"), _text(value)) for name, value in fields.items() if value is not None
    )


def _text(value: object) -> str:
    """Return *value* as query text; a time becomes Unix seconds.

    Raises ValueError for a datetime without a time zone, which names no certain time.
    """
    if not isinstance(value, datetime):
        return str(value)
    if value.tzinfo is None:
        raise ValueError("expected a datetime with a time zone, as datetime.now(UTC); it has none")
    return str(int(value.timestamp()))
