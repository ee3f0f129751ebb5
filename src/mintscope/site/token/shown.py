"""Texts and numbers of the token page, derived from a report, candles and swaps."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from markupsafe import Markup

from mintscope.kit.primitives import MICRO_USD, Mint, UnixMs, UnixS
from mintscope.kit.time import DAY_S, HOUR_S, MINUTE_S, SECOND_MS
from mintscope.market.log import SwapDetail
from mintscope.market.report import CANDLES_MIN, Price, TimeframeIndicators, TokenReport
from mintscope.market.screening.listed import ListLine
from mintscope.market.series.pools import LoggedSwap
from mintscope.market.series.series import Width
from mintscope.market.standings import Confidence
from mintscope.market.timeframe import FRAMES, TIMEFRAMES
from mintscope.site.chart import (
    OVERBOUGHT,
    OVERSOLD,
    ChartPoint,
    draw_chart,
    on_one_axis,
    volume_top,
)
from mintscope.site.figures import (
    dollars,
    no_value,
    percent,
    percent_text,
    short_amount,
    short_price,
    whole_number,
)
from mintscope.site.token.reading import AgedReport, DrawnPoints
from mintscope.solana import blocks


def last_trade(points: Sequence[ChartPoint], swaps: Sequence[LoggedSwap]) -> UnixS | None:
    """Return the time of the last trade in *points* and *swaps*; None if they have no trade.

    The trade of a candle has the time of its start; a candle without trades in the log is skipped.
    """
    times = [swap.time for swap in swaps if swap.swap.volume]
    times += [UnixS(point.t) for point in points if point.bought or point.sold]
    return max(times, default=None)


THIN: Final = 5  # the span is shown if it is more than this many times the nominal span
EMA: Final = 9


def thin_span(points: Sequence[ChartPoint], width_s: int) -> str | None:
    """Return the time that the last nine candles cover as text, such as `9 days`, if it is long.

    Times without trades have no candle, so nine 1-hour candles can cover nine days.  Return None if
    candles follow each other more closely, or if there are fewer than nine.
    """
    if len(points) < EMA:
        return None
    span_s = points[-1].t + width_s - points[-EMA].t
    if span_s <= THIN * EMA * width_s:
        return None
    if span_s >= 2 * DAY_S:
        return f"{round(span_s / DAY_S)} days"
    if span_s >= 2 * HOUR_S:
        return f"{round(span_s / HOUR_S)} hours"
    return f"{round(span_s / MINUTE_S)} minutes"


NAMES: Final = {str(name): f"{name[1:]}{name[0]}" for name in FRAMES}  # m15: 15m
WINDOWS: Final = (
    ("m1", "1m", MINUTE_S),
    ("m5", "5m", 5 * MINUTE_S),
    ("m15", "15m", 15 * MINUTE_S),
    ("h1", "1h", HOUR_S),
    ("h4", "4h", 4 * HOUR_S),
    ("d1", "24h", DAY_S),
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

DIGITS: Final = 4  # significant digits of a number in the table

Read = Callable[[TimeframeIndicators], float | None]


class IndicatorCell(NamedTuple):
    """A table cell: the value of an indicator in one timeframe.

    field   timeframe and name in the API, such as m5.rsi
    tone    up, down or level: the price compared with an EMA, or a MACD value with 0; extreme: an
            overbought or oversold RSI
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
    """The share of buys in a window of time; *value* is None if there were no trades."""

    field: str
    name: str
    value: float | None


class FibonacciLine(NamedTuple):
    """A Fibonacci level.

    field   name in the API
    name    label of the level, in the drawn chart and in the live chart
    usd     price of the level; None if there are too few candles
    """

    field: str
    name: str
    usd: float | None


def rows_of(report: TokenReport) -> Iterator[IndicatorRow]:
    """Yield the table rows of the EMAs, RSI and MACD of *report*, each with all timeframes."""
    usd = report.price.usd
    for name, field, read in (
        ("EMA 9", "ema9", lambda frame: frame.ema9),
        ("EMA 21", "ema21", lambda frame: frame.ema21),
        ("EMA 50", "ema50", lambda frame: frame.ema50),
        ("EMA 200", "ema200", lambda frame: frame.ema200),
    ):
        yield _row(report, name, field, read, lambda value: _side(usd, value))
    yield _row(
        report,
        "RSI 14",
        "rsi",
        lambda frame: frame.rsi,
        lambda rsi: "extreme" if rsi > OVERBOUGHT or rsi < OVERSOLD else "level",
    )
    for name, field, read in (
        ("MACD", "macd.line", lambda frame: frame.macd and frame.macd.line),
        ("Signal", "macd.signal", lambda frame: frame.macd and frame.macd.signal),
        ("Histogram", "macd.histogram", lambda frame: frame.macd and frame.macd.histogram),
    ):
        yield _row(report, name, field, read, lambda value: _side(value, 0.0))


def shares_of(report: TokenReport, last_trade: UnixS | None) -> Iterator[Share]:
    """Yield the share of buys in each window of time.

    The share is None if it is 0 and *last_trade* is not in the window.
    """
    pressure = report.indicators.buy_sell_pressure
    now = report.data_span.to
    for field, name, span_s in WINDOWS:
        value = getattr(pressure, field)
        is_quiet = value == 0 and (last_trade is None or last_trade <= now - span_s)
        yield Share(field, name, None if is_quiet else value)


def levels_of(report: TokenReport, width: Width) -> list[FibonacciLine]:
    """Return the Fibonacci levels of *width* in *report*, from the high down."""
    frame: TimeframeIndicators = getattr(report.indicators, width.name)
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


LISTED: Final = 24  # number of candles in the table; they are the newest
QUOTES: Final = {
    blocks.WSOL: "SOL",
    blocks.USDC: "USDC",
    blocks.USDT: "USDT",
    blocks.PYUSD: "PYUSD",
    blocks.USDS: "USDS",
    blocks.USD1: "USD1",
    blocks.USDG: "USDG",
    blocks.JUPUSD: "JupUSD",
    blocks.CASH: "CASH",
    blocks.JITOSOL: "JitoSOL",
    blocks.MSOL: "mSOL",
    blocks.JUPSOL: "jupSOL",
}


def quote_name(mint: Mint) -> str:
    """Return the name of the quote token *mint*, or its shortened mint."""
    return QUOTES.get(mint, f"{mint[:4]}...{mint[-4:]}")


class ShownSwap(NamedTuple):
    """A swap as a table row; *amount* is in whole tokens, or None if decimals are unknown."""

    at: UnixMs
    side: str
    usd: float | None
    amount: str | None
    paid: str
    program: str
    signature: str


def shown_report(
    aged: AgedReport,
    drawn: DrawnPoints,
    swaps: Sequence[LoggedSwap],
    width: Width,
) -> dict[str, Any]:
    """Return the template values that show the numbers of a token on its page."""
    report = aged.report
    points = drawn.points
    levels = levels_of(aged.report, width)
    lines = {each.name: each.usd for each in levels if each.usd is not None}
    traded_at = last_trade(points, swaps)
    charted = on_one_axis(points, width.seconds)
    return {
        "price": report.price,
        "slot": aged.slot,
        "age_ms": aged.age_ms,
        "as_of": UnixMs(report.data_span.to * SECOND_MS),
        "since": UnixMs(report.data_span.from_ * SECOND_MS),
        "counts": report.data_span.candle_counts,
        "minutes_min": CANDLES_MIN,
        "timeframes": [(each.value, NAMES[each]) for each in TIMEFRAMES],
        "charts": list(NAMES.items()),
        "has_older": drawn.has_older or len(charted) < len(points),
        "width_s": width.seconds,
        "rows": list(rows_of(report)),
        "shares": list(shares_of(report, traded_at)),
        "windows": {field: span_s for field, _, span_s in WINDOWS},
        "last_trade": traded_at,
        "levels": levels,
        "chart": draw_chart(charted, lines, width.seconds, _described(charted, width)),
        "thin_span": thin_span(points, width.seconds),
        "is_volume_cut": volume_top(charted)[1],
        "points": msgspec.json.encode(charted).decode(),
        "candles": list(reversed(points[-LISTED:])),
        "swaps": list(shown_swaps(swaps)),
    }


def figures_of(line: ListLine) -> Mapping[str, Markup]:
    """Return the numbers of a list entry as HTML, by their names on the token's page."""
    m5, h1, d1 = map(percent, line.changes)
    return {
        "m5": m5,
        "h1": h1,
        "d1": d1,
        "volume": dollars(line.volume / MICRO_USD),
        "swaps": Markup(f"{line.swaps:,}"),  # noqa: S704 - a number
        "cap": dollars(line.market_cap),
        "confidence": confidence_of(line.price),
        "liquidity": dollars(None if line.price is None else line.price.liquidity_usd),
    }


def confidence_of(price: Price | None) -> Markup:
    """Return the confidence of *price* as HTML, with the reasons in a tooltip."""
    if price is None:
        return no_value()
    facts = []
    if price.pools:
        agree = "1 pool agrees" if price.pools == 1 else f"{price.pools} pools agree"
        facts = [agree, f"set in {price.pool}"]
    if price.age_ms is not None:
        facts.append(f"{price.age_ms // SECOND_MS:,} s before the newest final block")
    if price.rejected_share_h1:
        facts.append(f"{price.rejected_share_h1:.0%} of the hour's volume was at rejected prices")
    tone = "unsure" if price.confidence is Confidence.LOW else "number"
    return Markup('<span class="{}" title="{}">{}</span>').format(
        tone, "; ".join(facts), price.confidence.value
    )


def _described(points: Sequence[ChartPoint], width: Width) -> str:
    """Return a description of the chart for screen readers."""
    if not points:
        return "There is no candle yet."
    low = min(p.low for p in points)
    high = max(p.high for p in points)
    first = points[0].open
    last = points[-1].close
    moved = percent_text(last / first - 1.0)
    return (
        f"{len(points)} candles of {NAMES[width.name]}: from ${short_price(first)} to"
        f" ${short_price(last)}, {moved}; lowest ${short_price(low)}, highest ${short_price(high)}."
        " The newest are in the table below."
    )


def shown_swaps(swaps: Sequence[LoggedSwap]) -> Iterator[ShownSwap]:
    """Yield *swaps* as table rows; swaps whose amounts and signature are unknown are skipped."""
    for one in swaps:
        swap = one.swap
        detail = one.swap.detail
        if detail is None:
            continue
        price = swap.price_usd if swap.offered is None else swap.offered[0]
        amount = None
        if detail.decimals is not None:
            amount = short_amount(detail.amount / 10**detail.decimals)
        yield ShownSwap(
            at=UnixMs(one.time * SECOND_MS),
            side="buy" if swap.is_buy else "sell",
            usd=price,
            amount=amount,
            paid=_paid(detail),
            program=detail.program,
            signature=detail.signature,
        )


def _paid(detail: SwapDetail) -> str:
    """Return the paid or received amount of the quote token, if known, with the token's name."""
    mint = detail.quote
    name = quote_name(mint)
    if detail.quote_decimals is None:
        return name
    return f"{short_amount(detail.quote_amount / 10**detail.quote_decimals)} {name}"
