"""Alerts in plain words, on pages: what is watched, what is waited for, how it was sent."""

from collections.abc import Mapping, Sequence
from typing import Final

from mintscope.core.accounts.signals.signal import (
    EmailState,
    Fires,
    Firing,
    Signal,
    SignalRule,
)
from mintscope.core.accounts.signals.words import field_words, value_words
from mintscope.core.market.basis.price_basis import Confidence
from mintscope.core.market.signals.fields import FIELDS, Field
from mintscope.core.market.signals.rule import Direction, SignalKind

KINDS: Final[Mapping[SignalKind, str]] = {
    SignalKind.ABOVE: "rises above",
    SignalKind.BELOW: "falls below",
    SignalKind.CROSSES: "crosses",
    SignalKind.CROSSES_FIELD: "crosses another number",
    SignalKind.CHANGES_BY: "changes by",
}
DIRECTIONS: Final[Mapping[str, str]] = {
    "": "crosses, either way",
    Direction.UP.value: "rises above it",
    Direction.DOWN.value: "falls below it",
}
FIRES: Final[Mapping[Fires, str]] = {
    Fires.ONCE: "Once",
    Fires.HOURLY: "At most once an hour",
    Fires.EACH: "Each time",
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
FIELD_WORDS: Final[Mapping[Field, str]] = {field: field_words(field) for field in FIELDS}


def _group(field: Field) -> str:
    """Return the group that *field* is listed in."""
    if field.startswith("price."):
        return "Price"
    if "buySellPressure" in field:
        return "Buy share"
    name = FIELD_WORDS[field]
    return next(each for each in ("RSI", "EMA", "MACD", "Fibonacci") if name.startswith(each))


def _groups() -> Mapping[str, Sequence[tuple[Field, str]]]:
    names = ("Price", "RSI", "EMA", "MACD", "Buy share", "Fibonacci")
    return {
        name: [(field, text) for field, text in FIELD_WORDS.items() if _group(field) == name]
        for name in names
    }


GROUPS: Final = _groups()


def rule_words(asked: SignalRule) -> str:
    """Return what *asked* waits for: RSI, 1 hour rises above 70.0."""
    what = field_words(asked.field)
    kind = KINDS[asked.kind]
    if asked.kind is SignalKind.CHANGES_BY:
        span = WINDOWS.get(asked.window_s, f"{asked.window_s // 60} minutes")
        return f"{what} {kind} {asked.percent:g} % within {span}{_candles_words(asked)}"
    margin = f", re-arm distance {asked.margin:g}" if asked.margin else ""
    if asked.compared is not None:
        verb = {Direction.UP: "rises above", Direction.DOWN: "falls below"}
        kind = "crosses" if asked.direction is None else verb[asked.direction]
        return f"{what} {kind} {field_words(asked.compared)}{margin}{_candles_words(asked)}"
    return f"{what} {kind} {value_words(asked.field, asked.level)}{margin}{_candles_words(asked)}"


def _candles_words(asked: SignalRule) -> str:
    closed = ", of closed candles" if asked.is_closed else ""
    return closed + LEAST[asked.least_confidence]


def ways_words(asked: SignalRule) -> str:
    """Return how it notifies."""
    ways = ["by e-mail"] * asked.by_email + ["by webhook"] * (asked.webhook_url is not None)
    return " and ".join(ways) or "only on this page"


def standing(signal: Signal) -> tuple[str, str]:
    """Return how an alert stands, in a word or two, and its tone."""
    if not signal.rule.is_active and signal.ended_at is not None:
        expires_at = signal.rule.expires_at
        has_expired = expires_at is not None and signal.ended_at >= expires_at
        return "Expired" if has_expired else "Fired once, ended", "plain"
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
        return f"failed: {firing.reason or 'no answer'}"
    if firing.due_at is None:
        return "-"
    times = "attempt" if firing.attempts == 1 else "attempts"
    return f"retrying ({firing.attempts} {times})" if firing.attempts else "sending"


def email_words(firing: Firing) -> str:
    """Return what became of the e-mail about *firing*."""
    email = firing.email
    if email is None:
        return "-"
    if email.state is EmailState.NOT_SENT:
        return f"not sent: {email.note or 'no room'}"
    if email.state is EmailState.WAITING:
        return "in the next e-mail"
    if email.sent_at is not None:
        return "sent"
    if email.given_up_at is not None:
        return f"failed: {email.reason or 'no answer'}"
    return f"retrying: {email.reason}" if email.reason else "sending"


def fired_words(asked: SignalRule, firing: Firing) -> str:
    """Return the value of *firing*, and which way it went."""
    arrow = "\N{UPWARDS ARROW}" if firing.fired.direction is Direction.UP else "\N{DOWNWARDS ARROW}"
    return f"{value_words(asked.field, firing.fired.value)} {arrow}"
