"""Texts about alerts for pages, and remarks on settings of alerts."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from mintscope.alerts.alert import Alert, AlertRule, EmailState, Fires, Firing, TelegramState
from mintscope.alerts.conditions import FIELDS, Direction, Field, SignalKind, frames_in
from mintscope.alerts.emails import SPANS, bounds_of, field_words, value_words
from mintscope.alerts.evaluation import LISTED_FACTOR
from mintscope.kit.errors import ServiceError, TokenNotFound
from mintscope.kit.primitives import Mint, UnixMs
from mintscope.kit.time import DAY_MS, HOUR_MS, MINUTE_S
from mintscope.market.report import ReportKind, Reports
from mintscope.market.standings import Confidence

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
    """Return the heading under which forms list *field*."""
    if field.startswith("price."):
        return "Price"
    if "buySellPressure" in field:
        return "Buy share"
    return re.split("[ ,]", FIELD_WORDS[field], maxsplit=1)[0]


def _groups() -> Mapping[str, Sequence[tuple[Field, str]]]:
    names = ("Price", "RSI", "EMA", "MACD", "Buy share", "Fibonacci")
    groups: dict[str, list[tuple[Field, str]]] = {name: [] for name in names}
    for field, text in sorted(FIELD_WORDS.items(), key=lambda item: _span_place(item[0])):
        groups.setdefault(_group(field), []).append((field, text))
    return groups


def _span_place(field: Field) -> int:
    """Return the index of the timeframe of *field*, 0 for the shortest; -1 if it has none."""
    places = [place for place, span in enumerate(SPANS) if span in field.split(".")]
    return places[0] if places else -1


GROUPS: Final = _groups()


def rule_words(asked: AlertRule) -> str:
    """Return the condition of *asked* as text, such as: RSI, 1 hour rises above 70.0."""
    what = field_words(asked.field)
    kind = KINDS[asked.kind]
    if asked.kind is SignalKind.CHANGES_BY:
        span = _window_words(asked.window_s)
        return f"{what} {kind} {asked.percent:g} % within {span}{_candles_words(asked)}"
    margin = f", re-arm distance {asked.margin:g}" if asked.margin else ""
    if asked.compared is not None:
        verb = {Direction.UP: "rises above", Direction.DOWN: "falls below"}
        kind = "crosses" if asked.direction is None else verb[asked.direction]
        return f"{what} {kind} {field_words(asked.compared)}{margin}{_candles_words(asked)}"
    return f"{what} {kind} {value_words(asked.field, asked.level)}{margin}{_candles_words(asked)}"


def windows_for(signal: Alert | None) -> Mapping[int, str]:
    """Return the time windows that the form of an alert offers, shortest first: texts by seconds.

    signal   the alert to change, whose window is offered, too; None: a new alert
    """
    kept = {signal.rule.window_s} - {0} if signal is not None else set()
    return {window_s: _window_words(window_s) for window_s in sorted(kept | WINDOWS.keys())}


def _window_words(window_s: int) -> str:
    minutes = window_s // MINUTE_S
    return WINDOWS.get(window_s, "1 minute" if minutes == 1 else f"{minutes} minutes")


def _candles_words(asked: AlertRule) -> str:
    closed = ", of closed candles" if asked.is_closed else ""
    return closed + LEAST[asked.least_confidence]


def ways_words(asked: AlertRule) -> str:
    """Return the channels of *asked*, such as e-mail, as text."""
    ways = ["by e-mail"] * asked.by_email + ["on Telegram"] * asked.by_telegram
    ways += ["by webhook"] * (asked.webhook_url is not None)
    return " and ".join(ways) or "only on this page"


def standing(signal: Alert) -> tuple[str, str]:
    """Return a label for the state of an alert, and the label's tone: good, bad or plain."""
    if not signal.rule.is_active and signal.ended_at is not None:
        expires_at = signal.rule.expires_at
        has_expired = expires_at is not None and signal.ended_at >= expires_at
        return "Expired" if has_expired else "Fired once, ended", "plain"
    if not signal.rule.is_active:
        return "Paused", "plain"
    if signal.webhook_failed_at is not None:
        return "Webhook disabled", "bad"
    return "Active", "good"


class HourLimit(NamedTuple):
    """The limit of firings in an hour that an alert has exceeded.

    most     the number of firings in the hour that were sent
    more     the number of firings in the hour that were not sent
    listed   the number of unsent firings in the hour that are listed
    until    the time when the hour ends and firings are sent again
    """

    most: int
    more: int
    listed: int
    until: UnixMs


def hour_limit(signal: Alert, most: int, now: UnixMs) -> HourLimit | None:
    """Return the limit of *most* firings in an hour if *signal* exceeds it at *now*, else None."""
    more = signal.hour_count - most
    if signal.hour_since is None or signal.rule.fires is not Fires.EACH or more <= 0:
        return None
    until = UnixMs(signal.hour_since + HOUR_MS)
    if now >= until:
        return None
    return HourLimit(most, more, min(more, (LISTED_FACTOR - 1) * most), until)


def delivery_words(firing: Firing) -> str:
    """Return the outcome of the webhook of *firing* as text."""
    if firing.delivered_at is not None:
        return "accepted"
    if firing.given_up_at is not None:
        is_limited = (firing.reason or "").startswith("limit of ")
        return f"{'not sent' if is_limited else 'failed'}: {firing.reason or 'no answer'}"
    if firing.due_at is None:
        return "-"
    times = "attempt" if firing.attempts == 1 else "attempts"
    return f"retrying ({firing.attempts} {times})" if firing.attempts else "sending"


def email_words(firing: Firing) -> str:
    """Return the outcome of the e-mail about *firing* as text."""
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


def telegram_words(firing: Firing) -> str:
    """Return the outcome of the Telegram message about *firing* as text."""
    reported = firing.telegram
    if reported is None:
        return "-"
    if reported.state is TelegramState.SENT:
        return "sent"
    if reported.state is TelegramState.NOT_SENT:
        return f"not sent: {reported.note}"
    return f"retrying: {reported.note}" if reported.note else "in the next message"


def fired_words(asked: AlertRule, firing: Firing) -> str:
    """Return the value of *firing*, and an arrow for its direction."""
    arrow = "\N{UPWARDS ARROW}" if firing.fired.direction is Direction.UP else "\N{DOWNWARDS ARROW}"
    return f"{value_words(asked.field, firing.fired.value)} {arrow}"


DEAD_MS: Final = DAY_MS
VERBS: Final = {
    SignalKind.ABOVE: "rise above",
    SignalKind.BELOW: "fall below",
    SignalKind.CROSSES: "cross",
}


class Present(NamedTuple):
    """The current numbers of a token.

    values         the values of the report, without the values that need a longer history
    price_age_ms   the age of the swap that set the price, in milliseconds; None: it is unknown
    is_tracked     whether the token is tracked; if not, it has no values
    """

    values: Mapping[Field, float]
    price_age_ms: int | None
    is_tracked: bool = True


class Remark(NamedTuple):
    """A remark on settings of an alert; the form sends *name* when the person confirms it."""

    name: str
    text: str


async def read_present(
    reports: Reports | None, mint: Mint | None, looked_at: Iterable[str], *, is_closed: bool = False
) -> Present | None:
    """Return the current numbers of *mint*; None if they cannot be read.

    looked_at   the fields whose timeframes are requested; names that are not in FIELDS are ignored
    is_closed   whether the open candles are left out
    """
    if reports is None or mint is None:
        return None
    frames = {frame for each in looked_at if each in FIELDS for frame in frames_in(Field(each))}
    kind = ReportKind(is_partial=True, is_closed=is_closed, timeframes=tuple(sorted(frames)))
    try:
        read = await reports.read(mint, kind)
    except TokenNotFound:
        return Present({}, None, is_tracked=False)
    except ServiceError:
        return None
    report = msgspec.json.decode(read.body)
    found = {field: _number(report, field) for field in FIELDS}
    values = {field: value for field, value in found.items() if value is not None}
    return Present(values, read.price_age_ms)


def impossible(asked: AlertRule) -> str | None:
    """Return the reason why *asked* can never fire, or never again; None if it can.

    Only alerts with a level are checked.
    """
    if asked.kind not in VERBS:
        return None
    low, high = bounds_of(asked.field)
    level = asked.level
    if is_level_possible(asked):
        below = level - asked.margin < low
        above = level + asked.margin > high
        never = {
            SignalKind.ABOVE: below,
            SignalKind.BELOW: above,
            SignalKind.CROSSES: below or above,
        }
        if not never[asked.kind]:
            return None
        back = value_words(asked.field, level)
        return f"{field_words(asked.field)} cannot move that far back from {back}."
    span = f"between {low:g} and {high:g}" if high < float("inf") else f"greater than {low:g}"
    words = field_words(asked.field)
    return f"{words} is always {span}: it cannot {VERBS[asked.kind]} {level:g}."


def is_level_possible(asked: AlertRule) -> bool:
    """Return whether the value of *asked* can cross the level; True if *asked* has no level."""
    low, high = bounds_of(asked.field)
    level = asked.level
    can = {
        SignalKind.ABOVE: low <= level < high,
        SignalKind.BELOW: low < level <= high,
        SignalKind.CROSSES: low < level < high,
    }
    return asked.kind not in can or can[asked.kind]


def remarks_on(asked: AlertRule, present: Present | None) -> Sequence[Remark]:
    """Return the remarks that a person must confirm before *asked* is stored.

    present   the current numbers of the token; None: they are unknown
    """
    found = []
    if asked.webhook_url is None and not asked.by_email and not asked.by_telegram:
        text = "Nothing notifies you: no e-mail, Telegram or webhook. It is only listed here."
        found.append(Remark("silent", text))
    if present is None:
        return found
    if not present.is_tracked:
        text = "This token is not tracked. The alert begins once the token is tracked."
        return [*found, Remark("untracked", text)]
    age_ms = present.price_age_ms
    if age_ms is not None and age_ms >= DEAD_MS:
        days = age_ms // DAY_MS
        hours = age_ms % DAY_MS // HOUR_MS
        rest = "1 hour" if hours == 1 else f"{hours} hours"
        ago = f"{days} days" if days > 1 else f"1 day and {rest}"
        text = f"This token last traded {ago} ago. The alert fires only once it trades again."
        found.append(Remark("dead", text))
    watched = [each for each in (asked.field, asked.compared) if each is not None]
    missing = next((each for each in watched if each not in present.values), None)
    if missing is not None:
        text = f"{field_words(missing)} of this token needs more trades than it has had."
        found.append(Remark("early", f"{text} The alert begins when it is there."))
    elif _is_true(asked, present):
        now = value_words(asked.field, present.values[asked.field])
        text = f"The condition is already true: {field_words(asked.field)} is {now}."
        found.append(Remark("true", f"{text} It fires the next time that it crosses."))
    return found


def _is_true(asked: AlertRule, present: Present) -> bool:
    value = present.values[asked.field]
    level = asked.level
    kind = asked.kind
    if asked.compared is not None:
        if asked.direction is None:
            return False
        level = present.values[asked.compared]
        kind = SignalKind.ABOVE if asked.direction is Direction.UP else SignalKind.BELOW
    if kind is SignalKind.ABOVE:
        return value > level
    return kind is SignalKind.BELOW and value < level


def _number(report: object, field: Field) -> float | None:
    """Return the number of *field* in *report*, decoded JSON; None if it has none."""
    found = report
    for name in field.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return float(found) if isinstance(found, int | float) else None
