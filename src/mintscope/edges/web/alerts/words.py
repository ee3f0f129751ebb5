"""Alerts in plain words: what is looked at, what is waited for, how it was told."""

from collections.abc import Mapping
from typing import Final

from mintscope.core.accounts.signals.signal import Firing, Signal, SignalRule
from mintscope.core.market.basis.price_basis import Confidence
from mintscope.core.market.signals.fields import FIELDS, Field
from mintscope.core.market.signals.rule import SignalKind

SPANS: Final = {
    "m1": "1 minute",
    "m5": "5 minutes",
    "m15": "15 minutes",
    "h1": "1 hour",
    "h4": "4 hours",
    "d1": "1 day",
}
NAMES: Final = {
    "usd": "Price in USD",
    "sol": "Price in SOL",
    "liquidityUsd": "Liquidity in USD",
    "rejectedShareH1": "Share of volume at rejected prices, 1 hour",
    "rsi": "RSI",
    "line": "MACD line",
    "signal": "MACD signal",
    "histogram": "MACD histogram",
    "buySellPressure": "Share of buys",
}
KINDS: Final[Mapping[SignalKind, str]] = {
    SignalKind.ABOVE: "comes above",
    SignalKind.BELOW: "comes below",
    SignalKind.CROSSES: "crosses",
    SignalKind.CHANGES_BY: "changes by",
}
LEAST: Final[Mapping[Confidence, str]] = {
    Confidence.LOW: "",
    Confidence.MEDIUM: ", at medium confidence or high",
    Confidence.HIGH: ", at high confidence",
}
WINDOWS: Final = {
    300: "5 minutes",
    900: "15 minutes",
    3_600: "1 hour",
    14_400: "4 hours",
    86_400: "1 day",
}


def field_words(field: Field) -> str:
    """Return what *field* of a report is: RSI of 1 hour."""
    *parts, last = field.split(".")
    if parts == ["price"]:
        return NAMES[last]
    if "buySellPressure" in parts:
        return f"{NAMES['buySellPressure']}, {SPANS[last]}"
    name = NAMES.get(last) or (last.upper() if last.startswith("ema") else f"Fibonacci {last}")
    return f"{name}, {SPANS[parts[1]]}"


FIELD_WORDS: Final[Mapping[Field, str]] = {field: field_words(field) for field in FIELDS}


def rule_words(asked: SignalRule) -> str:
    """Return what *asked* waits for: RSI, 1 hour comes above 70."""
    what, kind = field_words(asked.field), KINDS[asked.kind]
    if asked.kind is SignalKind.CHANGES_BY:
        span = WINDOWS.get(asked.window_s, f"{asked.window_s // 60} minutes")
        return f"{what} {kind} {asked.percent:g} % within {span}{_candles_words(asked)}"
    margin = f", with a margin of {asked.margin:g}" if asked.margin else ""
    return f"{what} {kind} {asked.level:g}{margin}{_candles_words(asked)}"


def _candles_words(asked: SignalRule) -> str:
    closed = ", of closed candles" if asked.is_closed else ""
    return closed + LEAST[asked.least_confidence]


def ways_words(asked: SignalRule) -> str:
    """Return how it is told."""
    ways = ["by e-mail"] * asked.by_email + ["by webhook"] * (asked.webhook_url is not None)
    return " and ".join(ways) or "nowhere but here"


def standing(signal: Signal) -> tuple[str, str]:
    """Return how an alert stands, in a word or two, and its tone."""
    if not signal.rule.is_active:
        return "Paused", "plain"
    if signal.webhook_failed_at is not None:
        return "Webhook disabled", "bad"
    return "Active", "good"


def delivery_words(firing: Firing) -> str:
    """Return what became of the webhook of *firing*."""
    if firing.delivered_at is not None:
        return "accepted"
    if firing.given_up_at is not None:
        return f"given up: {firing.reason or 'no answer'}"
    if firing.due_at is None:
        return "not sent by webhook"
    return f"waits, after {firing.attempts} attempts" if firing.attempts else "on its way"
