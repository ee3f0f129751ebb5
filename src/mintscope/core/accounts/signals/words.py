"""Alerts in plain words, for pages and e-mails: what is watched, at which value, in which unit."""

from collections.abc import Mapping
from decimal import Decimal
from math import floor, log10
from typing import Final

from mintscope.core.accounts.signals.signal import Firing, FiringKind, SignalRule
from mintscope.core.market.listing.names import cleaned
from mintscope.core.market.signals.fields import Field
from mintscope.core.market.signals.rule import Direction, SignalKind

SYMBOL_LENGTH_MAX: Final = 16
DIGITS: Final = 4  # that a number below 1 shows
DIGITS_MAX: Final = 24  # behind its point
SPANS: Final = {
    "m1": "1 minute",
    "m5": "5 minutes",
    "m15": "15 minutes",
    "h1": "1 hour",
    "h4": "4 hours",
    "d1": "1 day",
}
SHORT_SPANS: Final = {"m1": "1m", "m5": "5m", "m15": "15m", "h1": "1h", "h4": "4h", "d1": "24h"}
NAMES: Final = {
    "usd": "Price in USD",
    "sol": "Price in SOL",
    "liquidityUsd": "Liquidity in USD",
    "rejectedShareH1": "Share of volume at rejected prices, 1 hour",
    "rsi": "RSI",
    "line": "MACD line",
    "signal": "MACD signal",
    "histogram": "MACD histogram",
    "buySellPressure": "Buy share",
}
USD: Final = "USD"
SOL: Final = "SOL"
SHARE: Final = "share"
RSI: Final = "RSI"
MACD: Final = "MACD"
UNITS: Final[Mapping[str, str]] = {
    "sol": SOL,
    "rejectedShareH1": SHARE,
    "rsi": RSI,
    "line": MACD,
    "signal": MACD,
    "histogram": MACD,
}
BOUNDS: Final[Mapping[str, tuple[float, float]]] = {
    USD: (0.0, float("inf")),
    SOL: (0.0, float("inf")),
    SHARE: (0.0, 1.0),
    RSI: (0.0, 100.0),
    MACD: (float("-inf"), float("inf")),
}


def unit_of(field: Field) -> str:
    """Return the unit of *field*: values of one unit can be compared."""
    last = field.rpartition(".")[2]
    if "buySellPressure" in field:
        return SHARE
    return "USD liquidity" if last == "liquidityUsd" else UNITS.get(last, USD)


def bounds_of(field: Field) -> tuple[float, float]:
    """Return between which values *field* always is."""
    return BOUNDS.get(unit_of(field), BOUNDS[USD])


def field_words(field: Field, spans: Mapping[str, str] = SPANS) -> str:
    """Return what *field* of a report is: RSI, 1 hour."""
    *parts, last = field.split(".")
    if parts == ["price"]:
        return NAMES[last]
    if "buySellPressure" in parts:
        return f"{NAMES['buySellPressure']}, {spans[last]}"
    name = NAMES.get(last) or (f"EMA {last[3:]}" if last.startswith("ema") else f"Fibonacci {last}")
    return f"{name}, {spans[parts[1]]}"


def number_words(value: float) -> str:
    """Return *value* as people read it: 1,234.50, 0.00001234; never an exponent."""
    size = abs(value)
    if size >= 1.0 or size == 0.0:
        return f"{value:,.2f}"
    digits = min(DIGITS_MAX, DIGITS - 1 - floor(log10(size)))
    return f"{Decimal(value):.{digits}f}".rstrip("0")


def value_words(field: Field, value: float) -> str:
    """Return *value* of *field* with its unit: $161.50, 71.30, 62.0 %."""
    unit = unit_of(field)
    if unit == SHARE:
        return f"{value * 100:,.1f} %"
    if unit == RSI:
        return f"{value:.1f}"
    if unit == SOL:
        return f"{number_words(value)} SOL"
    sign = "-" if value < 0 else ""
    return f"{sign}${number_words(abs(value))}"


def symbol_words(symbol: str | None, mint: str) -> str:
    """Return what a token is called: its symbol, without what is never shown, or its address.

    An issuer writes symbols: dots are left out, so that none reads as the address of a site.
    """
    shown = (cleaned(symbol or "") or "").replace(".", "").replace("/", "").strip()
    return shown[:SYMBOL_LENGTH_MAX] or f"{mint[:4]}...{mint[-4:]}"


def event_words(asked: SignalRule, firing: Firing, symbol: str) -> str:
    """Return what happened: SOL fell below $161.50 (now $160.50)."""
    fired = firing.fired
    if fired.kind is FiringKind.TEST:
        return f"this is a test for {symbol}"
    subject = symbol if asked.field == "price.usd" else f"{symbol} {_short(asked.field)}"
    is_up = fired.direction is Direction.UP
    value = value_words(asked.field, fired.value)
    reference = value_words(asked.field, fired.reference)
    if asked.kind is SignalKind.CHANGES_BY:
        moved = abs(fired.value / fired.reference - 1.0) * 100 if fired.reference else 0.0
        verb = "rose" if is_up else "fell"
        return f"{subject} {verb} {moved:,.1f} % (from {reference} to {value})"
    verb = "rose above" if is_up else "fell below"
    if asked.compared is not None:
        return f"{subject} {verb} its {_short(asked.compared)} of {reference} (now {value})"
    return f"{subject} {verb} {reference} (now {value})"


def _short(field: Field) -> str:
    """Return *field* in few words: RSI 1h."""
    return field_words(field, SHORT_SPANS).replace(",", "")
