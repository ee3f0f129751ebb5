"""Requests and answers of indicators, with parameters and units."""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mintscope.api.series.wire import (
    CANDLES_MAX,
    NAMED,
    TIME_MAX,
    CursorText,
    In,
    NextCursor,
    Since,
    SupplyUsed,
    Token,
    Until,
)
from mintscope.api.wire import Wire
from mintscope.kit.primitives import on_request
from mintscope.market.indicators import INDICATORS
from mintscope.market.series.series import AVERAGES, NAMES

NAMES_MAX: Final = 20
CANDLE: Final = "candle"  # the candle itself, so that one page draws a chart
# Which parameters an indicator takes, and in what range, a pattern cannot say.
PARAMETERS: Final = r"\([0-9]{1,12}(\.[0-9]{1,6})?(,[0-9]{1,12}(\.[0-9]{1,6})?){0,2}\)"
Name = Annotated[
    str,
    Meta(
        description="A field of a point, or an indicator with parameters; usual ones: "
        + ", ".join(each.usual for each in INDICATORS.values())
        + ".",
        examples=["sma(50)"],
        # Not `pattern`, which clients would read instead of the problem.
        extra_json_schema={
            "pattern": f"^({CANDLE}|{'|'.join(NAMES)}|({'|'.join(INDICATORS)})({PARAMETERS})?)$"
        },
    ),
]


class IndicatorsQuery(Wire, rename=NAMED):
    """Query of GET /v1/token/{tokenAddress}/indicators."""

    tf: Annotated[
        Literal["m1", "m5", "m15", "m30", "h1", "h4", "d1"],
        Meta(description="How wide the candles are.", examples=["m5"]),
    ]
    names: Annotated[
        list[Name],
        Meta(min_length=1, max_length=NAMES_MAX, description="Which, separated by commas."),
    ] = msgspec.field(default_factory=lambda: list(AVERAGES))
    from_: Since = 0
    to: Until = TIME_MAX
    limit: Annotated[
        int, Meta(ge=1, le=CANDLES_MAX, description="How many points; a page costs the same.")
    ] = 100
    cursor: CursorText = ""
    candles: Annotated[
        Literal["all", "closed"],
        Meta(description="Whether the candle that is still open is there.", examples=["closed"]),
    ] = "all"
    fill: Annotated[
        Literal["none", "previous"],
        Meta(
            description="previous: a span without a trade counts as a candle of the close before;"
            " none: it is skipped, as in the report."
        ),
    ] = "none"
    in_: In = "usd"


class MacdPoint(Wire, gc=False):
    """MACD(12, 26, 9), in USD."""

    line: Annotated[float, Meta(description="EMA 12 less EMA 26, USD.")]
    signal: Annotated[float, Meta(description="EMA 9 of the line, USD.")]
    histogram: Annotated[float, Meta(description="Line less signal, USD.")]


class BollingerPoint(Wire, gc=False):
    """Bollinger bands: 20 candles, 2 standard deviations."""

    upper: Annotated[float, Meta(description="USD.")]
    middle: Annotated[float, Meta(description="Mean of 20 closes, USD.")]
    lower: Annotated[float, Meta(description="USD.")]


class StochasticPoint(Wire, gc=False):
    """Stochastic RSI (14, 14, 3, 3), 0 to 100."""

    k: Annotated[float, Meta(description="0 to 100.")]
    d: Annotated[float | None, Meta(description="Mean of three k, 0 to 100.")]


class FibonacciPoint(Wire, gc=False):
    """Levels over the newest 100 candles."""

    swing_high: Annotated[float, Meta(description="Highest price of the candles, USD.")]
    swing_low: Annotated[float, Meta(description="Lowest price of the candles, USD.")]
    level236: Annotated[float, Meta(description="23.6 % down from the high, USD.")]
    level382: Annotated[float, Meta(description="38.2 % down from the high, USD.")]
    level500: Annotated[float, Meta(description="50 % down from the high, USD.")]
    level618: Annotated[float, Meta(description="61.8 % down from the high, USD.")]
    level764: Annotated[float, Meta(description="76.4 % down from the high, USD.")]
    ext1272: Annotated[float, Meta(description="127.2 % up from the low, USD.")]
    ext1618: Annotated[float, Meta(description="161.8 % up from the low, USD.")]
    ext2000: Annotated[float, Meta(description="200 % up from the low, USD.")]
    ext2618: Annotated[float, Meta(description="261.8 % up from the low, USD.")]


class CandlePoint(Wire, gc=False):
    """The candle of a point."""

    o: Annotated[float, Meta(description="Open, USD.")]
    h: Annotated[float, Meta(description="High, USD.")]
    l: Annotated[float, Meta(description="Low, USD.")]  # noqa: E741 - as charts do
    c: Annotated[float, Meta(description="Close, USD.")]
    volume: Annotated[float, Meta(description="Traded, USD.")]


Asked = UnsetType


class IndicatorPoint(Wire, gc=False):
    """The values after one candle: those that were asked for, null while they warm up."""

    t: Annotated[int, Meta(description="When the candle begins, Unix seconds.")]
    is_open: Annotated[
        bool, Meta(description="The candle has not ended: its values may change.", examples=[True])
    ]
    ema9: Annotated[float | Asked | None, Meta(description="EMA of 9 closes, USD.")] = UNSET
    ema21: Annotated[float | Asked | None, Meta(description="EMA of 21 closes, USD.")] = UNSET
    ema50: Annotated[float | Asked | None, Meta(description="EMA of 50 closes, USD.")] = UNSET
    ema200: Annotated[float | Asked | None, Meta(description="EMA of 200 closes, USD.")] = UNSET
    rsi: Annotated[float | Asked | None, Meta(description="RSI of 14, Wilder's, 0 to 100.")] = UNSET
    macd: Annotated[MacdPoint | Asked | None, Meta(description="MACD(12, 26, 9).")] = UNSET
    fibonacci: Annotated[
        FibonacciPoint | Asked | None, Meta(description="Levels of the newest 100 candles.")
    ] = UNSET
    atr: Annotated[
        float | Asked | None, Meta(description="Average true range of 14, Wilder's, USD.")
    ] = UNSET
    bollinger: Annotated[
        BollingerPoint | Asked | None, Meta(description="20 candles, 2 standard deviations.")
    ] = UNSET
    vwap: Annotated[
        float | Asked | None,
        Meta(description="Volume-weighted price since the day began (UTC), USD."),
    ] = UNSET
    stoch_rsi: Annotated[
        StochasticPoint | Asked | None, Meta(description="Stochastic RSI (14, 14, 3, 3).")
    ] = UNSET
    values: Annotated[
        dict[str, float | dict[str, float | None] | None] | Asked,
        Meta(
            description="Indicators with parameters, by the names they were asked for: a number,"
            " or an object of the numbers that the indicator has. Null while they warm up.",
            examples=[{"sma(50)": 0.0231, "adx": {"adx": 31.2, "plusDi": 24.1, "minusDi": 11.9}}],
        ),
    ] = UNSET
    candle: Annotated[
        CandlePoint | Asked, Meta(description="The candle of the point, if it was asked for.")
    ] = UNSET


class IndicatorPage(Wire, rename={**NAMED, "exact_from": "exactFrom"}):
    """A page of indicators."""

    token: Token
    tf: Annotated[str, Meta(description="How wide the candles are.", examples=["m5"])]
    points: Annotated[
        list[IndicatorPoint], Meta(description="Oldest first; the next page has those before.")
    ]
    exact_from: Annotated[
        int | None,
        Meta(
            description="Before this time older candles were dropped, so that values could not be"
            " exact: there are none. Null: the series goes on, or began with the token."
        ),
    ]
    next_cursor: NextCursor
    in_: Annotated[str | UnsetType, on_request("The unit of prices, if not USD.")] = UNSET
    supply: Annotated[SupplyUsed | UnsetType, on_request("Of market capitalisations.")] = UNSET
