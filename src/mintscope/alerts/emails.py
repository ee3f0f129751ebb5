"""E-mails of alerts: pauses, limits, wording, and the checks of an alert's settings.

After an e-mail of an alert there is a pause; firings in the pause are sent in one e-mail when it
ends.  Firings beyond a limit of e-mails in 24 hours are not sent by e-mail: the alert's page shows
this, and one e-mail a day reports that the limit was reached.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from math import floor, isfinite, log10
from typing import Final, NamedTuple

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.mail.email import Draft, EmailKind
from mintscope.accounts.rows import AccountRows
from mintscope.alerts.alert import Alert, AlertRule, EmailState, Firing, FiringKind, Gathered
from mintscope.alerts.conditions import FIELDS, Direction, Field, SignalKind
from mintscope.alerts.deliveries import url_flaw
from mintscope.kit.primitives import Mint, UnixMs
from mintscope.kit.time import DAY_MS, MINUTE_MS, utc
from mintscope.market.report import NAMED
from mintscope.market.screening.look_alikes import cleaned

SYMBOL_LENGTH_MAX: Final = 16
DIGITS: Final = 4  # significant digits of a number below 1
DIGITS_MAX: Final = 24  # digits after the decimal point
SPANS: Final = {
    "s15": "15 seconds",
    "m1": "1 minute",
    "m5": "5 minutes",
    "m15": "15 minutes",
    "m30": "30 minutes",
    "h1": "1 hour",
    "h4": "4 hours",
    "d1": "1 day",
}
SHORT_SPANS: Final = {name: f"{name[1:]}{name[0]}" for name in SPANS} | {"d1": "24h"}
NAMES: Final = {
    "usd": "Price in USD",
    "sol": "Price in SOL",
    "liquidityUsd": "Liquidity in USD",
    "rejectedShareH1": "Share of volume at rejected prices, 1 hour",
    "line": "MACD line",
    "signal": "MACD signal",
    "histogram": "MACD histogram",
    "buySellPressure": "Buy share",
    **{field: each.name for field, each in NAMED.items()},
}
USD: Final = "USD"
SOL: Final = "SOL"
SHARE: Final = "share"
MACD: Final = "MACD"
UNITS: Final[Mapping[str, str]] = {
    "sol": SOL,
    "rejectedShareH1": SHARE,
    "line": MACD,
    "signal": MACD,
    "histogram": MACD,
    **{field: each.name for field, each in NAMED.items() if each.bounds is not None},
}
UNPRICED: Final = {each.name: each.bounds for each in NAMED.values() if each.bounds is not None}
BOUNDS: Final[Mapping[str, tuple[float, float]]] = {
    USD: (0.0, float("inf")),
    SOL: (0.0, float("inf")),
    SHARE: (0.0, 1.0),
    MACD: (float("-inf"), float("inf")),
    **UNPRICED,
}


def unit_of(field: Field) -> str:
    """Return the unit of *field*; only fields of the same unit can be compared."""
    last = field.rpartition(".")[2]
    if "buySellPressure" in field:
        return SHARE
    return "USD liquidity" if last == "liquidityUsd" else UNITS.get(last, USD)


def bounds_of(field: Field) -> tuple[float, float]:
    """Return the lowest and the highest number that an alert may state for *field*."""
    return BOUNDS.get(unit_of(field), BOUNDS[USD])


def field_words(field: Field, spans: Mapping[str, str] = SPANS) -> str:
    """Return the name of *field* as people read it, such as RSI, 1 hour.

    spans   the texts for the timeframes, by name
    """
    *parts, last = field.split(".")
    if parts == ["price"]:
        return NAMES[last]
    if "buySellPressure" in parts:
        return f"{NAMES['buySellPressure']}, {spans[last]}"
    name = NAMES.get(last) or _fibonacci(last)
    return f"{name}, {spans[parts[1]]}"


def _fibonacci(last: str) -> str:
    """Return the text for *last*, a Fibonacci level or an end of the swing, such as swingHigh.

    level236 is 23.6 % of the swing, and ext1272 is 127.2 % of it.
    """
    if not last[-1].isdigit():
        return f"Fibonacci {last.removeprefix('swing').lower()}"
    beyond = " extension" if last.startswith("ext") else ""
    return f"Fibonacci {int(last.lstrip('levxt')) / 10:g} %{beyond}"


def number_words(value: float) -> str:
    """Return *value* as text without an exponent, such as 1,234.50 or 0.00001234."""
    size = abs(value)
    if size >= 1.0 or size == 0.0:
        return f"{value:,.2f}"
    # More digits close to 1: a dollar token that fell below $1.00 is not at $1.00.
    digits = max(DIGITS - 1 - floor(log10(size)), -floor(log10(1.0 - size)))
    text = f"{Decimal(value):.{min(digits, DIGITS_MAX)}f}".rstrip("0")
    return f"{text}00" if text.endswith(".") else text


def value_words(field: Field, value: float) -> str:
    """Return *value* of *field* with its unit, such as $161.50, 71.3 or 62.0 %."""
    unit = unit_of(field)
    if unit == SHARE:
        return f"{value * 100:,.1f} %"
    if unit in UNPRICED:
        return f"{value:.1f}"
    if unit == SOL:
        return f"{number_words(value)} SOL"
    sign = "-" if value < 0 else ""
    return f"{sign}${number_words(abs(value))}"


def symbol_words(symbol: str | None, mint: str) -> str:
    """Return the name of a token: its symbol without unsafe characters, or its shortened mint.

    Issuers choose symbols freely: dots and slashes are removed, so that no symbol looks like a web
    address.
    """
    shown = (cleaned(symbol or "") or "").replace(".", "").replace("/", "").strip()
    return shown[:SYMBOL_LENGTH_MAX] or f"{mint[:4]}...{mint[-4:]}"


def event_words(asked: AlertRule, firing: Firing, symbol: str) -> str:
    """Return *firing* as a sentence, such as: SOL fell below $161.50 (now $160.50)."""
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
    """Return a short name of *field*, such as RSI 1h."""
    return field_words(field, SHORT_SPANS).replace(",", "")


LINES_MAX: Final = 10  # a message lists at most this many firings, the newest
NOT_VERIFIED: Final = "the e-mail address is not verified"
PAUSED: Final = "the alert was paused"
TURNED_OFF: Final = "its e-mails were turned off"
Symbols = Mapping[Mint, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmailBounds:
    """The limits of e-mails about firings; tests count only towards *day_max*.

    day_max        the most e-mails about firings to one account in 24 hours
    of_alert_max   the most e-mails about firings of one alert in 24 hours
    pause_ms       the least milliseconds between two e-mails about firings of one alert
    """

    day_max: int = 50
    of_alert_max: int = 20
    pause_ms: int = 5 * MINUTE_MS


USUAL_BOUNDS: Final = EmailBounds()


class Reached(NamedTuple):
    """A limit that was reached: of e-mails in 24 hours, or of firings in an hour."""

    limit: int
    until: UnixMs  # the time from which the limit allows more
    is_of_alert: bool = True  # False: the limit is of the account


def hour_note(most: int) -> str:
    """Return the note that is shown with firings beyond the first *most* in an hour."""
    # REFUSED in `alerts.store` and `messages.delivery_words` know such notes by their beginning.
    return f"limit of {most} an hour reached"


def tell_by_email(
    rows: AccountRows, signal: Alert, at: UnixMs, bounds: EmailBounds, symbols: Symbols
) -> None:
    """Write an e-mail about the waiting firings of *signal*, or schedule it for the pause's end.

    If the owner has paused the alert or turned its e-mails off, the firings are marked as not sent.
    """
    asked = signal.rule
    is_paused = not asked.is_active and signal.ended_at is None
    if is_paused or not asked.by_email:
        waiting = rows.firings.for_email(signal.signal_id, LINES_MAX)
        note = PAUSED if is_paused else TURNED_OFF
        if waiting is not None:
            rows.firings.mark_email(signal.signal_id, waiting, EmailState.NOT_SENT, note=note)
        rows.signals.update(signal.signal_id, email_due_at=None)
        return
    last = signal.emailed_at
    if last is not None and last <= at < last + bounds.pause_ms:
        rows.signals.update(signal.signal_id, email_due_at=UnixMs(last + bounds.pause_ms))
        return
    waiting = rows.firings.for_email(signal.signal_id, LINES_MAX)
    if waiting is not None and write_email(rows, signal, waiting, at, bounds, symbols):
        rows.signals.update(signal.signal_id, emailed_at=at, email_due_at=None)
    elif signal.email_due_at is not None:
        rows.signals.update(signal.signal_id, email_due_at=None)


def write_email(  # noqa: PLR0913, PLR0917 - one argument for each fact
    rows: AccountRows,
    signal: Alert,
    firings: Gathered,
    at: UnixMs,
    bounds: EmailBounds,
    symbols: Symbols,
) -> bool:
    """Write an e-mail about *firings*; if none is allowed, store the reason and return False."""
    mark = partial(rows.firings.mark_email, signal.signal_id, firings)
    kept = rows.users.get(signal.user_id)
    if kept is None or kept.user.verified_at is None:
        mark(EmailState.NOT_SENT, note=NOT_VERIFIED)
        return False
    reached = _reached(rows, signal, kept.user.email, at, bounds)
    if reached is not None:
        # REFUSED in `alerts.store` knows such notes by their beginning.
        mark(EmailState.NOT_SENT, note=f"limit of {reached.limit} reached")
        _tell_limit(rows, signal, kept.user.email, reached, at)
        return False
    facts = message_facts(signal, firings, symbols)
    email_id = rows.emails.insert(EmailKind.SIGNAL_FIRED, kept.user.email, facts, None, at)
    mark(EmailState.WRITTEN, email_id=email_id)
    return True


def _reached(
    rows: AccountRows, signal: Alert, email: EmailAddress, at: UnixMs, bounds: EmailBounds
) -> Reached | None:
    """Return the limit that allows no further e-mail of *signal*; None if another is allowed.

    The account's limit reserves one e-mail for each other alert that sent none in 24 hours, so that
    no alert uses up the e-mails of the others.  The first e-mail of an alert may be a reserved one.
    """
    written = sorted(
        rows.emails.written_to(email, EmailKind.SIGNAL_FIRED, UnixMs(at - DAY_MS)),
        key=lambda each: each.written_at,
    )
    own = [each for each in written if _is_of(each, signal)]
    if len(own) >= bounds.of_alert_max:
        until = own[len(own) - bounds.of_alert_max].written_at + DAY_MS
        return Reached(bounds.of_alert_max, UnixMs(until))
    kept_free = _silent(rows, signal, written) if own else 0
    if len(written) + kept_free < bounds.day_max:
        return None
    until = (written[0].written_at if written else at) + DAY_MS
    return Reached(bounds.day_max, UnixMs(until), is_of_alert=False)


def _is_of(draft: Draft, signal: Alert) -> bool:
    is_test = draft.facts.get("kind") == FiringKind.TEST
    return not is_test and draft.facts.get("signal") == str(signal.signal_id)


def _silent(rows: AccountRows, signal: Alert, written: Sequence[Draft]) -> int:
    """Return the number of the owner's other alerts that can still send a first e-mail.

    Such an alert is active, is sent by e-mail, and has no e-mail in *written*.
    """
    heard = {each.facts.get("signal") for each in written}
    return sum(
        each.rule.by_email and each.rule.is_active and str(each.signal_id) not in heard
        for each in rows.signals.of_user(signal.user_id)
        if each.signal_id != signal.signal_id
    )


def _tell_limit(
    rows: AccountRows, signal: Alert, email: EmailAddress, reached: Reached, at: UnixMs
) -> None:
    """Write an e-mail about *reached*, unless one about the same limit is less than a day old."""
    of = str(signal.signal_id) if reached.is_of_alert else ""
    before = rows.emails.written_to(email, EmailKind.SIGNAL_LIMIT, UnixMs(at - DAY_MS))
    if any(each.facts.get("of") == of for each in before):
        return
    facts = {
        "of": of,
        "signal": str(signal.signal_id),
        "what": f'the alert "{signal.rule.name}"' if of else "all alerts of your account together",
        "limit": str(reached.limit),
        "resumes": f"{utc(reached.until):%d %B %Y, %H:%M} UTC",
    }
    rows.emails.insert(EmailKind.SIGNAL_LIMIT, email, facts, None, at)


def tell_hour_limit(
    rows: AccountRows, signal: Alert, reached: Reached, at: UnixMs, bounds: EmailBounds
) -> None:
    """E-mail the owner of *signal*, at most once in 24 hours, that it reached its hourly limit.

    No e-mail is written if *signal* sends no messages, if the owner's e-mail address is not
    verified, or if `bounds.day_max` such e-mails were written in 24 hours.
    """
    kept = rows.users.get(signal.user_id)
    asked = signal.rule
    is_sent = asked.by_email or asked.by_telegram or signal.sends_webhooks
    if not is_sent or kept is None or kept.user.verified_at is None:
        return
    kind = EmailKind.SIGNAL_HOUR_LIMIT
    before = rows.emails.written_to(kept.user.email, kind, UnixMs(at - DAY_MS))
    number = str(signal.signal_id)
    if len(before) >= bounds.day_max or any(each.facts["signal"] == number for each in before):
        return
    facts = {
        "signal": number,
        "name_of": asked.name,
        "limit": str(reached.limit),
        "resumes": f"{utc(reached.until):%d %B %Y, %H:%M:%S} UTC",
    }
    rows.emails.insert(kind, kept.user.email, facts, None, at)


def message_facts(signal: Alert, firings: Gathered, symbols: Symbols) -> dict[str, str]:
    """Return the values for the template of a message about *firings*."""
    asked = signal.rule
    newest = firings.newest[-1]
    symbol = symbol_words(symbols.get(asked.mint), asked.mint)
    what = event_words(asked, newest, symbol)
    times = f", {firings.total:,} times" if firings.total > 1 else ""
    lines = [
        f"{utc(each.fired.fired_at):%d %b %H:%M:%S} UTC  {event_words(asked, each, symbol)}"
        for each in firings.newest[: -LINES_MAX - 1 : -1]
    ]
    left = firings.total - len(lines)
    if left:
        lines.append(f"and {left:,} more before; the page of the alert lists them.")
    return {
        "signal": str(signal.signal_id),
        "title": f"{asked.name}: {what}{times}",
        "lines": "\n".join(lines),
        "message": f"\n{asked.message}\n" if asked.message else "",
        "name_of": asked.name,
        "symbol": symbol,
        "mint": asked.mint,
        "kind": str(newest.fired.kind),
    }


NAME_LENGTH_MAX: Final = 64
MESSAGE_LENGTH_MAX: Final = 280
PERCENT_MIN: Final = 0.1
PERCENT_MAX: Final = 10_000.0
WINDOW_S_MIN: Final = 60
WINDOW_S_MAX: Final = 86_400


def flaw_of(asked: AlertRule, *, allows_loopback: bool) -> str | None:
    """Return an error message about the settings *asked*; None if they are valid."""
    name = asked.name
    if not name.strip() or not name.isprintable() or len(name) > NAME_LENGTH_MAX:
        return f"expected name to be printable, of 1 to {NAME_LENGTH_MAX} characters"
    if len(asked.message) > MESSAGE_LENGTH_MAX or not asked.message.isprintable():
        return f"expected message to be printable, of at most {MESSAGE_LENGTH_MAX} characters"
    if asked.field not in FIELDS:
        return (
            f"expected field to name a number of a report, such as price.usd; was {asked.field!r}"
        )
    if asked.compared is not None:
        flaw = _of_comparison(asked, asked.compared)
        if flaw is not None:
            return flaw
    flaw = _of_move(asked) if asked.kind is SignalKind.CHANGES_BY else _of_level(asked)
    if flaw is None and asked.webhook_url is not None:
        flaw = url_flaw(asked.webhook_url, allows_loopback=allows_loopback)
        return None if flaw is None else f"webhookUrl: {flaw}"
    return flaw


def _of_comparison(asked: AlertRule, compared: Field) -> str | None:
    if asked.level:
        return f"expected no level for {asked.kind}; it has comparedWith; was {asked.level}"
    if compared not in FIELDS:
        return f"expected comparedWith to name a number of a report; was {compared!r}"
    if compared == asked.field:
        return "expected comparedWith to name another number than field"
    if unit_of(compared) != unit_of(asked.field):
        return (
            f"expected comparedWith to name a number in the unit of {asked.field},"
            f" {unit_of(asked.field)}; {compared} is in {unit_of(compared)}"
        )
    return None


def _of_level(asked: AlertRule) -> str | None:
    if asked.percent or asked.window_s:
        return f"expected no percent and no windowS for {asked.kind}; only changes_by has them"
    if not isfinite(asked.level):
        return "expected level to be a number"
    return None if isfinite(asked.margin) and asked.margin >= 0 else "expected margin >= 0"


def _of_move(asked: AlertRule) -> str | None:
    if asked.level or asked.margin:
        return "expected no level and no margin for changes_by; it has percent and windowS"
    if not PERCENT_MIN <= asked.percent <= PERCENT_MAX:
        return f"expected percent from {PERCENT_MIN} to {PERCENT_MAX:.0f}; was {asked.percent}"
    if not WINDOW_S_MIN <= asked.window_s <= WINDOW_S_MAX or asked.window_s % WINDOW_S_MIN:
        return f"expected windowS to be whole minutes, 60 to {WINDOW_S_MAX}; was {asked.window_s}"
    return None
