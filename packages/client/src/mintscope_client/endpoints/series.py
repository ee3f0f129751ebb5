"""Series of a token: candles, indicators and swaps, the newest page first."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, TypeAlias, TypedDict

import msgspec
from typing_extensions import Unpack

from mintscope_client.calls.call import ApiCall
from mintscope_client.calls.known import expect_known
from mintscope_client.calls.paged import Line, PageData, PagedCall
from mintscope_client.calls.requests import Moment, query_of, segment
from mintscope_client.endpoints.reports import TimeframeReport

Timeframe: TypeAlias = Literal["s15", "m1", "m5", "m15", "m30", "h1", "h4", "d1"]
PriceUnit: TypeAlias = Literal["usd", "sol", "marketcap"]
LINES_MAX: Final = 1_000  # of a page; a page has one price for any length
SWAPS_MAX: Final = 500


class PricesInSol(msgspec.Struct, frozen=True):
    """The prices of a candle in SOL per whole token."""

    o: float
    h: float
    l: float  # noqa: E741 - as charts do
    c: float


class CandleLine(msgspec.Struct, frozen=True, rename="camel"):
    """One candle: prices in USD per whole token, volumes in USD.

    t              when it begins, Unix seconds
    sol            None if prices in SOL were not kept
    buy_volume, sell_volume, swaps    None in imported candles
    imported       it comes from a provider, wholly or in part
    is_open        it has not ended, and may change
    """

    t: int
    o: float
    h: float
    l: float  # noqa: E741 - as charts do
    c: float
    sol: PricesInSol | None
    volume: float
    buy_volume: float | None
    sell_volume: float | None
    swaps: int | None
    imported: bool
    is_open: bool


class SupplyUsed(msgspec.Struct, frozen=True, rename="camel"):
    """The supply of market capitalisations in whole tokens, and when it was read, Unix seconds."""

    tokens: str
    read_at: int


PAGE_NAMES: Final = {
    "in_": "in",
    "next_cursor": "nextCursor",
    "exact_from": "exactFrom",
    "volume_profile": "volumeProfile",
}


class ProfileBin(msgspec.Struct, frozen=True, rename="camel"):
    """Volume between two prices, USD."""

    low: float
    high: float
    volume_usd: float


class VolumeProfile(msgspec.Struct, frozen=True, rename="camel"):
    """Volume by price, USD: equal bins, the middle of the largest, and the area of 70 %."""

    bins: list[ProfileBin]
    point_of_control: float
    value_area_low: float
    value_area_high: float


class CandlesPage(msgspec.Struct, frozen=True, rename=PAGE_NAMES):
    """Candles of a token, oldest first; the next page has those before them.

    in_      the unit of prices
    supply   of market capitalisations
    pool     the pool, if `pool` requested one
    volume_profile    of the page, if `profile` requested it; None if nothing was traded
    """

    token: str
    tf: str
    candles: list[CandleLine]
    next_cursor: str | None
    in_: str = "usd"
    supply: SupplyUsed | None = None
    pool: str | None = None
    volume_profile: VolumeProfile | None = None


class BollingerBands(msgspec.Struct, frozen=True):
    """20 candles, 2 standard deviations, USD."""

    upper: float
    middle: float
    lower: float


class StochasticValues(msgspec.Struct, frozen=True):
    """Stochastic RSI (14, 14, 3, 3), 0 to 100; `d` is None until there are three `k`."""

    k: float
    d: float | None


class PointCandle(msgspec.Struct, frozen=True):
    """The candle of a point: open, high, low, close and volume, in dollars."""

    o: float
    h: float
    l: float  # noqa: E741 - as charts do
    c: float
    volume: float


class IndicatorLine(TimeframeReport, frozen=True, rename="camel", kw_only=True):
    """The values after the candle that begins at *t*, Unix seconds.

    Values are None if they were not requested, or if the history is too short.
    is_open    the candle has not ended, and its values may change
    values     indicators with parameters, by the names under which they were requested
    candle     the candle itself, if `candle` was among the names
    """

    t: int
    is_open: bool = False
    atr: float | None = None
    bollinger: BollingerBands | None = None
    vwap: float | None = None
    stoch_rsi: StochasticValues | None = None
    values: dict[str, float | dict[str, float | None] | None] = msgspec.field(default_factory=dict)
    candle: PointCandle | None = None


class IndicatorsPage(msgspec.Struct, frozen=True, rename=PAGE_NAMES):
    """Indicators candle by candle, oldest first; the next page has those before them.

    exact_from    the time of the first exact values; older candles were dropped
    in_           the unit of prices
    supply        of market capitalisations
    """

    token: str
    tf: str
    points: list[IndicatorLine]
    exact_from: int | None
    next_cursor: str | None
    in_: str = "usd"
    supply: SupplyUsed | None = None


class AmountOfToken(msgspec.Struct, frozen=True):
    """An amount: *raw* in the smallest unit, *decimal* in whole tokens, exact."""

    raw: str
    decimal: str | None


class PriceOfSwap(msgspec.Struct, frozen=True):
    """The price of a whole token in one swap, in dollars and in SOL."""

    usd: float
    sol: float


class SwapRecord(msgspec.Struct, frozen=True, rename="camel"):
    """One swap: one trade against one pool.

    t             Unix seconds
    side          "buy" or "sell", of the token
    quote         the mint that it was traded for
    price         of this swap alone; None if the amount is too small, or decimals are not known
    sets_price    it is in a candle
    is_final      its block is final; else it is confirmed
    recognised_by "table", or "transfers" if its transfers made it a swap
    reason        why it sets no price: "otherPool", "roundTrip" or "noPrice"; None if it does, or
                  if the service is older
    excluded_volume   traded USD that count in no volume; None: the swap counts
    excluded_reason   "otherPool", "roundTrip" or "noPrice" as in *reason*, or "quote" if it was
                  paid for with a token whose trades count no volume
    """

    slot: int
    t: int
    signature: str
    program: str
    pool: str | None
    side: str
    token_amount: AmountOfToken
    quote: str
    quote_amount: AmountOfToken
    price: PriceOfSwap | None
    sets_price: bool
    is_final: bool
    recognised_by: str = "table"
    reason: str | None = None
    excluded_volume: float | None = None
    excluded_reason: str | None = None


class SwapsPage(msgspec.Struct, frozen=True, rename="camel"):
    """Swaps of a token, newest first; the next page has those before them."""

    token: str
    swaps: list[SwapRecord]
    next_cursor: str | None


class CandleRange(TypedDict, total=False):
    """The range, unit and form of the requested candles.

    from_, to   their start times: Unix seconds, or a datetime with a time zone
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
    from_, to   the start times of their candles: Unix seconds, or a datetime with a time zone
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
    mint: str, tf: Timeframe = "m1", **within: Unpack[CandleRange]
) -> PagedCall[CandlesPage, CandleLine]:
    """Return the pages of candles of *mint*, newest first.  A page costs a credit unless empty.

    tf    the width of the candles
    """
    expect_known(within, CandleRange)
    fields = {"tf": tf, "limit": LINES_MAX, **within}
    return _series("candles", mint, CandlesPage, fields, lambda page: page.candles)


def indicators(
    mint: str, tf: Timeframe = "m1", **within: Unpack[IndicatorRange]
) -> PagedCall[IndicatorsPage, IndicatorLine]:
    """Return the pages of indicators of *mint*, newest first.  A page costs a credit unless empty.

    tf    the width of their candles
    """
    expect_known(within, IndicatorRange)
    fields = {"tf": tf, "limit": LINES_MAX, **within}
    if "names" in within:
        fields["names"] = ",".join(within["names"])
    return _series("indicators", mint, IndicatorsPage, fields, lambda page: page.points)


def swaps(mint: str, *, limit: int | None = None) -> PagedCall[SwapsPage, SwapRecord]:
    """Return the pages of swaps of *mint*, newest first.  A page costs a credit unless empty.

    limit    the number of swaps on a page, 500 by default and at most: each page costs the same
    """
    return _series(
        "swaps",
        mint,
        SwapsPage,
        {"limit": SWAPS_MAX if limit is None else limit},
        lambda page: page.swaps,
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
            path=f"/v1/token/{segment(mint)}/{name}",
            kind=kind,
            query=query_of({**fields, "cursor": cursor}),
            credits_max=1,
            credits_of=lambda page: 1 if lines(page) else 0,
        )

    return PagedCall(call_at, lines)
