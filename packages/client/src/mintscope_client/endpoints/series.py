"""Series of a token in pages, the newest page first: candles, indicators and swaps."""

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
LINES_MAX: Final = 1_000  # the most lines of a page; a page costs the same with fewer
SWAPS_MAX: Final = 500


class PricesInSol(msgspec.Struct, frozen=True):
    """The prices of a candle in SOL: of a whole token, or of the supply if in_ is "marketcap"."""

    o: float
    h: float
    l: float  # noqa: E741 - as charts do
    c: float


class CandleLine(msgspec.Struct, frozen=True, rename="camel"):
    """One candle: prices in the unit of the page (by default USD per whole token), volumes in USD.

    t              the time at which it begins, Unix seconds
    sol            the prices in SOL; None if they were not stored
    buy_volume, sell_volume    the volumes of purchases and sales; None if imported
    swaps          the number of swaps that set a price, or of all swaps if the candle is of one
                   pool; None if imported
    imported       whether all or a part of it comes from a provider of history
    is_open        whether it has not ended yet; its values can still change
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
    """The supply from which market caps are computed, in whole tokens, and when it was read."""

    tokens: str
    read_at: int


PAGE_NAMES: Final = {
    "in_": "in",
    "next_cursor": "nextCursor",
    "exact_from": "exactFrom",
    "volume_profile": "volumeProfile",
}


class ProfileBin(msgspec.Struct, frozen=True, rename="camel"):
    """The volume in USD that was traded between two prices."""

    low: float
    high: float
    volume_usd: float


class VolumeProfile(msgspec.Struct, frozen=True, rename="camel"):
    """The volume of a page of candles by price; volumes are in USD, prices in the unit of the page.

    bins               price spans of equal width, the lowest first
    point_of_control   the middle of the bin with the most volume
    value_area_low, value_area_high    the prices that enclose at least 70 % of the volume
    """

    bins: list[ProfileBin]
    point_of_control: float
    value_area_low: float
    value_area_high: float


class CandlesPage(msgspec.Struct, frozen=True, rename=PAGE_NAMES):
    """One page of a token's candles, oldest first; the next page has the candles before them.

    in_      the unit of the prices: "usd", "sol" or "marketcap"
    supply   the supply by which prices were multiplied; None unless in_ is "marketcap"
    pool     the pool of the candles, if `pool` was requested
    volume_profile    the profile of the page, if it was requested; None if nothing was traded
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
    """Bollinger bands: the mean of 20 closes, and 2 standard deviations above and below it."""

    upper: float
    middle: float
    lower: float


class StochasticValues(msgspec.Struct, frozen=True):
    """Stochastic RSI (14, 14, 3, 3), 0 to 100; `d` is None until there are three values of `k`."""

    k: float
    d: float | None


class PointCandle(msgspec.Struct, frozen=True):
    """The candle of one row of a page of indicators; the volume is in USD.

    Prices are in the unit of the page: USD, SOL or market cap.
    """

    o: float
    h: float
    l: float  # noqa: E741 - as charts do
    c: float
    volume: float


class IndicatorLine(TimeframeReport, frozen=True, rename="camel", kw_only=True):
    """The indicators at the end of the candle that begins at *t*, Unix seconds.

    An indicator is None if it was not requested, or if the history is too short. Prices are in the
    unit of the page: USD, SOL or market cap.

    is_open    whether the candle has not ended yet; its values can still change
    values     indicators that have parameters, such as `sma(20)`, by their names in the request
    candle     the candle itself, if `candle` was requested
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
    """One page of indicators by candle, oldest first; the next page has the candles before it.

    exact_from    the time of the first point if values of earlier candles cannot be exact, because
                  the candles before them are no longer stored. None: there are older pages, or the
                  series begins with the token
    in_           the unit of the prices: "usd", "sol" or "marketcap"
    supply        the supply by which prices were multiplied; None unless in_ is "marketcap"
    """

    token: str
    tf: str
    points: list[IndicatorLine]
    exact_from: int | None
    next_cursor: str | None
    in_: str = "usd"
    supply: SupplyUsed | None = None


class AmountOfToken(msgspec.Struct, frozen=True):
    """An exact amount: *raw* is in the smallest unit, *decimal* in whole tokens."""

    raw: str
    decimal: str | None


class PriceOfSwap(msgspec.Struct, frozen=True):
    """The price of a whole token in one swap, in USD and in SOL."""

    usd: float
    sol: float


class SwapRecord(msgspec.Struct, frozen=True, rename="camel"):
    """One swap: one trade against one pool.

    t             the block time, Unix seconds
    side          "buy" or "sell", of the token
    quote         the mint for which the token was traded
    price         the price of this swap alone; None if the amount is too small, or decimals are not
                  known
    sets_price    whether it sets the price, and so is in a candle
    is_final      True: its block is final; False: its block is confirmed
    recognised_by "table": by its program, which is listed; "transfers": by its transfers
    reason        why it sets no price: "otherPool", "roundTrip" or "noPrice"; None if it does, or
                  if the service is older
    excluded_volume   the USD of the swap that no volume includes; None: volumes include the swap
    excluded_reason   "otherPool" or "noPrice" as in *reason*; "roundTrip" also if the signer bought
                      and sold the token in one transaction; or "quote" if the token was paid for
                      with a token whose trades count in no volume
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
    """One page of a token's swaps, newest first; the next page has the swaps before them."""

    token: str
    swaps: list[SwapRecord]
    next_cursor: str | None


class CandleRange(TypedDict, total=False):
    """The range, unit and form of the requested candles.

    from_, to   limits of the start times: Unix seconds, or a datetime with a time zone
    limit       the number of candles on a page, up to 1,000, the default; a page costs the same
                with fewer
    candles     "closed": without the candle that is still open
    fill        "previous": spans without a trade get a candle at the previous close
    in_         the unit of prices: "usd"; "sol", as exchanged; or "marketcap", USD times the newest
                supply
    pool        the address of a pool, as in `pools`: candles of this pool alone, m5 or wider, of
                the last two days
    profile     the number of bins of the volume profile of each page, up to 200; 0, the default: no
                profile
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
    """The requested indicators, and the range, unit and form of their candles.

    names       the names of indicators, with parameters or without: "sma(50)", "adx"; by default
                the EMAs, RSI and MACD
    from_, to   limits of the start times: Unix seconds, or a datetime with a time zone
    limit       the number of points on a page, up to 1,000, the default; a page costs the same with
                fewer
    candles     "closed": without the candle that is still open
    fill        "previous": spans without a trade count as a candle at the previous close
    in_         the unit of prices: "usd"; "sol", as exchanged; or "marketcap", USD times the newest
                supply
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
    """Return the pages of candles of *mint*, newest first.

    A page costs one credit, an empty page nothing.

    tf    the timeframe of the candles
    """
    expect_known(within, CandleRange)
    fields = {"tf": tf, "limit": LINES_MAX, **within}
    return _series("candles", mint, CandlesPage, fields, lambda page: page.candles)


def indicators(
    mint: str, tf: Timeframe = "m1", **within: Unpack[IndicatorRange]
) -> PagedCall[IndicatorsPage, IndicatorLine]:
    """Return the pages of indicators of *mint*, newest first.

    A page costs one credit, an empty page nothing.

    tf    the timeframe of the candles
    """
    expect_known(within, IndicatorRange)
    fields = {"tf": tf, "limit": LINES_MAX, **within}
    if "names" in within:
        fields["names"] = ",".join(within["names"])
    return _series("indicators", mint, IndicatorsPage, fields, lambda page: page.points)


def swaps(mint: str, *, limit: int | None = None) -> PagedCall[SwapsPage, SwapRecord]:
    """Return the pages of swaps of *mint*, newest first.

    A page costs one credit, an empty page nothing.

    limit    the number of swaps on a page, up to 500, the default; a page costs the same with fewer
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
    """Return the pages of the series *name* of *mint*; an empty page costs nothing.

    lines   a function that returns the rows of a page
    """

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
