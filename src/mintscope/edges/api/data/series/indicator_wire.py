"""What is asked for and what is answered of indicators, with parameters and units."""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mintscope.edges.api.data.series.wire import (
    CANDLES_MAX,
    TIME_MAX,
    CursorText,
    NextCursor,
    Since,
    Token,
    Until,
)
from mintscope.edges.api.wire import Wire

Name = Literal[
    "ema9", "ema21", "ema50", "ema200", "rsi", "macd",
    "fibonacci", "atr", "bollinger", "vwap", "stochRsi",
]  # fmt: skip
USUAL: Final[tuple[Name, ...]] = ("ema9", "ema21", "ema50", "ema200", "rsi", "macd")


class IndicatorsQuery(Wire, rename={"from_": "from"}):
    """Query of GET /v1/token/{tokenAddress}/indicators."""

    tf: Annotated[Literal["m1", "m5", "m15", "h1"], Meta(description="How wide the candles are.")]
    names: Annotated[
        list[Name],
        Meta(min_length=1, max_length=11, description="Which, separated by commas."),
    ] = msgspec.field(default_factory=lambda: list(USUAL))
    from_: Since = 0
    to: Until = TIME_MAX
    limit: Annotated[
        int, Meta(ge=1, le=CANDLES_MAX, description="How many points; a page costs the same.")
    ] = 100
    cursor: CursorText = ""


class MacdPoint(Wire):
    """MACD(12, 26, 9), in USD."""

    line: Annotated[float, Meta(description="EMA 12 less EMA 26, USD.")]
    signal: Annotated[float, Meta(description="EMA 9 of the line, USD.")]
    histogram: Annotated[float, Meta(description="Line less signal, USD.")]


class BollingerPoint(Wire):
    """Bollinger bands: 20 candles, 2 standard deviations."""

    upper: Annotated[float, Meta(description="USD.")]
    middle: Annotated[float, Meta(description="Mean of 20 closes, USD.")]
    lower: Annotated[float, Meta(description="USD.")]


class StochasticPoint(Wire):
    """Stochastic RSI (14, 14, 3, 3), 0 to 100."""

    k: Annotated[float, Meta(description="0 to 100.")]
    d: Annotated[float | None, Meta(description="Mean of three k, 0 to 100.")]


class FibonacciPoint(Wire):
    """Levels over the newest 100 candles, retracements measured down from the high; USD."""

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


Asked = UnsetType


class IndicatorPoint(Wire):
    """The values after one candle: those that were asked for, null while they warm up."""

    t: Annotated[int, Meta(description="When the candle begins, Unix seconds.")]
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


class IndicatorPage(Wire):
    """`data` of GET /v1/token/{tokenAddress}/indicators."""

    token: Token
    tf: Annotated[str, Meta(description="How wide the candles are.")]
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
