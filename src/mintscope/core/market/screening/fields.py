"""The fields of a condition: numbers that are known of every listed token, by name."""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Final, NamedTuple

from mintscope.core.market.timeframe import TIMEFRAMES, Timeframe


class ScreenField(NamedTuple):
    """A field.

    is_level    one of confidence: low, medium or high
    timeframe   that of the candles that it is an average of; None: it is none
    """

    name: str
    description: str
    is_integer: bool = False
    is_level: bool = False
    timeframe: Timeframe | None = None


OF_TOKENS: Final = (
    ScreenField("price", "US dollars for one whole token"),
    ScreenField("price_sol", "SOL for one whole token"),
    ScreenField("change_m5", "change of the price over 5 minutes, as a fraction: 0.05 is 5 % up"),
    ScreenField("change_h1", "change over an hour, as a fraction"),
    ScreenField("change_d1", "change over a day, as a fraction; since the first price if younger"),
    ScreenField("volume_h1", "bought and sold within an hour, US dollars"),
    ScreenField("volume_d1", "bought and sold within a day, US dollars"),
    ScreenField("swaps_d1", "swaps of a day that set the price", is_integer=True),
    ScreenField("pressure_h1", "bought share of the volume of an hour, 0 to 1"),
    ScreenField("market_cap", "price times supply, US dollars"),
    ScreenField("liquidity", "US dollars that stand ready to buy in the pools that agree"),
    ScreenField("age_s", "seconds since the token is tracked", is_integer=True),
    ScreenField("price_age_s", "seconds since a swap set the price", is_integer=True),
    ScreenField("confidence", "how good the price is: low, medium or high", is_level=True),
)
OF_TIMEFRAMES: Final = (
    ("ema9", "EMA of 9 closes, US dollars"),
    ("ema21", "EMA of 21 closes, US dollars"),
    ("ema50", "EMA of 50 closes, US dollars"),
    ("ema200", "EMA of 200 closes, US dollars"),
    ("rsi", "RSI of 14 candles, 0 to 100"),
    ("macd", "EMA of 12 closes minus EMA of 26, US dollars"),
    ("macd_signal", "EMA of 9 of that, US dollars"),
    ("macd_histogram", "MACD minus its signal, US dollars"),
    ("candles", "candles since tracking began, the open one included"),
)


def _fields() -> Iterator[ScreenField]:
    yield from OF_TOKENS
    for timeframe in TIMEFRAMES:
        for name, description in OF_TIMEFRAMES:
            is_count = name == "candles"
            yield ScreenField(
                f"{name}_{timeframe}",
                f"{description}, of {timeframe}",
                is_integer=is_count,
                timeframe=None if is_count else timeframe,
            )


FIELDS: Final = {field.name: field for field in _fields()}
LEVELS: Final = {"low": 0.0, "medium": 1.0, "high": 2.0}
LEVEL_NAMES: Final = tuple(LEVELS)
SIMILAR: Final = 0.5  # of two names, at least


def before(name: str, timeframe: Timeframe) -> str:
    """Return what the value of *name* before the newest candle of *timeframe* is called."""
    return f"{name} before {timeframe}"


def similar_field(name: str) -> str | None:
    """Return the name of a field that *name* may be meant for; None: none is similar."""
    return next(iter(get_close_matches(name.lower(), FIELDS, n=1, cutoff=SIMILAR)), None)
