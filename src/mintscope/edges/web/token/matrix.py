"""The numbers of a report, as a table of indicators by timeframe and as bars of windows."""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from markupsafe import Markup

from mintscope.base.primitives import UnixS
from mintscope.base.time import DAY_S, HOUR_S, MINUTE_S
from mintscope.core.market.report import TimeframeIndicators, TokenReport
from mintscope.core.market.timeframe import TIMEFRAMES, Timeframe
from mintscope.edges.web.figures.chart import OVERBOUGHT, OVERSOLD
from mintscope.edges.web.figures.numbers import no_value, short_price, whole_number

NAMES: Final = {
    Timeframe.M1: "1m",
    Timeframe.M5: "5m",
    Timeframe.M15: "15m",
    Timeframe.H1: "1h",
}
WINDOWS: Final = (
    ("m1", "1 m", MINUTE_S),
    ("m5", "5 m", 5 * MINUTE_S),
    ("m15", "15 m", 15 * MINUTE_S),
    ("h1", "1 h", HOUR_S),
    ("h4", "4 h", 4 * HOUR_S),
    ("d1", "24 h", DAY_S),
)
LEVELS: Final = (
    ("swing_high", "swingHigh", "Fib 0 %"),
    ("level236", "level236", "Fib 23.6 %"),
    ("level382", "level382", "Fib 38.2 %"),
    ("level500", "level500", "Fib 50 %"),
    ("level618", "level618", "Fib 61.8 %"),
    ("level764", "level764", "Fib 76.4 %"),
    ("swing_low", "swingLow", "Fib 100 %"),
)

DIGITS: Final = 4  # of a number of the table

Read = Callable[[TimeframeIndicators], float | None]


class IndicatorCell(NamedTuple):
    """A number of the table.

    field   names it, as the API does
    tone    up, down or level beside the price; extreme for an overbought or oversold RSI
    """

    field: str
    value: float | None
    shown: Markup
    tone: str


class IndicatorRow(NamedTuple):
    """One indicator in every timeframe."""

    name: str
    cells: list[IndicatorCell]


class Share(NamedTuple):
    """The buyers' share of a window; None: nothing was traded in it."""

    field: str
    name: str
    value: float | None


class FibonacciLine(NamedTuple):
    """A Fibonacci level.

    field   names it, as the API does
    name    what is written beside its line, in the drawn chart and in the one that moves
    usd     None where history is too short
    """

    field: str
    name: str
    usd: float | None


def rows_of(report: TokenReport) -> Iterator[IndicatorRow]:
    """Yield the indicators of *report*, each in every timeframe."""
    usd = report.price.usd
    for name, field, read in (
        ("EMA 9", "ema9", lambda frame: frame.ema9),
        ("EMA 21", "ema21", lambda frame: frame.ema21),
        ("EMA 50", "ema50", lambda frame: frame.ema50),
        ("EMA 200", "ema200", lambda frame: frame.ema200),
    ):
        yield _row(report, name, field, read, lambda value: _side(usd, value))
    yield _row(report, "RSI 14", "rsi", lambda frame: frame.rsi, _strength)
    for name, field, read in (
        ("MACD", "macd.line", lambda frame: frame.macd and frame.macd.line),
        ("Signal", "macd.signal", lambda frame: frame.macd and frame.macd.signal),
        ("Histogram", "macd.histogram", lambda frame: frame.macd and frame.macd.histogram),
    ):
        yield _row(report, name, field, read, lambda value: _side(value, 0.0))


def shares_of(report: TokenReport, last_trade: UnixS | None) -> Iterator[Share]:
    """Yield the buyers' share of each window; *last_trade* separates no trades from only sales."""
    pressure = report.indicators.buy_sell_pressure
    now = report.data_span.to
    for field, name, span_s in WINDOWS:
        value = getattr(pressure, field)
        is_quiet = value == 0 and (last_trade is None or last_trade <= now - span_s)
        yield Share(field, name, None if is_quiet else value)


def levels_of(report: TokenReport, timeframe: Timeframe) -> list[FibonacciLine]:
    """Return the Fibonacci levels of *timeframe*, from the high down."""
    frame: TimeframeIndicators = getattr(report.indicators, timeframe.value)
    found = frame.fibonacci
    return [
        FibonacciLine(field, name, None if found is None else getattr(found, attribute))
        for attribute, field, name in LEVELS
    ]


def _row(
    report: TokenReport, name: str, field: str, read: Read, tone: Callable[[float], str]
) -> IndicatorRow:
    cells = []
    for timeframe in TIMEFRAMES:
        value = read(getattr(report.indicators, timeframe.value))
        cells.append(
            IndicatorCell(
                f"{timeframe.value}.{field}",
                value,
                _shown(field, value),
                "level" if value is None else tone(value),
            )
        )
    return IndicatorRow(name, cells)


def _shown(field: str, value: float | None) -> Markup:
    if value is None:
        return no_value()
    text = f"{value:.1f}" if field == "rsi" else short_price(value, DIGITS)
    return Markup('<span title="{}">{}</span>').format(whole_number(value), text)


def _side(first: float, second: float) -> str:
    return "up" if first > second else "down" if first < second else "level"


def _strength(rsi: float) -> str:
    """Return the same tone on both sides: an overbought token is no better than an oversold one."""
    return "extreme" if rsi > OVERBOUGHT or rsi < OVERSOLD else "level"
