"""E-mails about alerts: a pause between two of one alert, and allowances.

Firings within the pause go into one e-mail when it ends.  A firing beyond the allowance
is in none: it says so, and one e-mail in a day says that there are no more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from mintscope.base.primitives import Mint, UnixMs
from mintscope.base.time import DAY_MS, MINUTE_MS, utc
from mintscope.core.accounts.email_address import EmailAddress
from mintscope.core.accounts.mail.email import Draft, EmailKind
from mintscope.core.accounts.signals.signal import EmailState, Firing, FiringKind, Signal
from mintscope.core.accounts.signals.words import event_words, symbol_words
from mintscope.core.accounts.store import AccountRows

GATHERED_MAX: Final = 1_000  # firings of one e-mail
LINES_MAX: Final = 10  # of them it lists, the newest
NOT_VERIFIED: Final = "the e-mail address is not verified"
OF_ALERT: Final = "alert"
OF_ACCOUNT: Final = "account"
Symbols = Mapping[Mint, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmailBounds:
    """How many e-mails about alerts are written.

    day_max        to one account in 24 hours
    of_alert_max   of one alert in 24 hours
    pause_ms       between two e-mails of one alert
    """

    day_max: int = 50
    of_alert_max: int = 20
    pause_ms: int = 5 * MINUTE_MS


class Reached(NamedTuple):
    """An allowance that is used up; *until* there is room again."""

    scope: str
    limit: int
    until: UnixMs

    @property
    def note(self) -> str:
        """The state that firings show of it."""
        return f"limit of {self.limit} reached"


def tell_by_email(
    rows: AccountRows, signal: Signal, at: UnixMs, bounds: EmailBounds, symbols: Symbols
) -> None:
    """Write an e-mail about the firings of *signal* that wait, unless it paused too short."""
    last = signal.emailed_at
    if last is not None and last <= at < last + bounds.pause_ms:
        rows.signals.update(signal.signal_id, email_due_at=UnixMs(last + bounds.pause_ms))
        return
    waiting = rows.told.waiting(signal.signal_id, GATHERED_MAX)
    if waiting and write_email(rows, signal, waiting, at, bounds, symbols):
        rows.signals.update(signal.signal_id, emailed_at=at, email_due_at=None)
    elif signal.email_due_at is not None:
        rows.signals.update(signal.signal_id, email_due_at=None)


def write_email(  # noqa: PLR0913, PLR0917 - one argument for each fact
    rows: AccountRows,
    signal: Signal,
    firings: Sequence[Firing],
    at: UnixMs,
    bounds: EmailBounds,
    symbols: Symbols,
) -> bool:
    """Write one e-mail about *firings*; False if none may be, which each of them says."""
    numbers = [each.firing_id for each in firings]
    kept = rows.users.get(signal.user_id)
    if kept is None or kept.user.verified_at is None:
        rows.told.mark(numbers, EmailState.NOT_SENT, note=NOT_VERIFIED)
        return False
    reached = _reached(rows, signal, kept.user.email, at, bounds)
    if reached is not None:
        rows.told.mark(numbers, EmailState.NOT_SENT, note=reached.note)
        _tell_limit(rows, signal, kept.user.email, reached, at)
        return False
    facts = _facts(signal, firings, symbols)
    email_id = rows.emails.insert(EmailKind.SIGNAL_FIRED, kept.user.email, facts, None, at)
    rows.told.mark(numbers, EmailState.WRITTEN, email_id=email_id)
    return True


def _reached(
    rows: AccountRows, signal: Signal, email: EmailAddress, at: UnixMs, bounds: EmailBounds
) -> Reached | None:
    """Return the allowance that leaves no room for an e-mail; None: there is room.

    Of that of the account one is kept for each alert that has written none in 24 hours: an alert
    that floods silences no other.
    """
    written = sorted(
        rows.emails.written_to(email, EmailKind.SIGNAL_FIRED, UnixMs(at - DAY_MS)),
        key=lambda each: each.written_at,
    )
    own = [each for each in written if _is_of(each, signal)]
    if len(own) >= bounds.of_alert_max:
        until = own[len(own) - bounds.of_alert_max].written_at + DAY_MS
        return Reached(OF_ALERT, bounds.of_alert_max, UnixMs(until))
    kept_free = _silent(rows, signal, written) if own else 0
    if len(written) + kept_free < bounds.day_max:
        return None
    until = (written[0].written_at if written else at) + DAY_MS
    return Reached(OF_ACCOUNT, bounds.day_max, UnixMs(until))


def _is_of(draft: Draft, signal: Signal) -> bool:
    is_test = draft.facts.get("kind") == FiringKind.TEST
    return not is_test and draft.facts.get("signal") == str(signal.signal_id)


def _silent(rows: AccountRows, signal: Signal, written: Sequence[Draft]) -> int:
    """Return how many other alerts of the owner send e-mails and have not."""
    heard = {each.facts.get("signal") for each in written}
    return sum(
        each.rule.by_email and each.rule.is_active and str(each.signal_id) not in heard
        for each in rows.signals.of_user(signal.user_id)
        if each.signal_id != signal.signal_id
    )


def _tell_limit(
    rows: AccountRows, signal: Signal, email: EmailAddress, reached: Reached, at: UnixMs
) -> None:
    """Write that an allowance is used up, once in 24 hours."""
    of = str(signal.signal_id) if reached.scope == OF_ALERT else ""
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


def _facts(signal: Signal, firings: Sequence[Firing], symbols: Symbols) -> dict[str, str]:
    """Return the facts of the e-mail: every text is made here, and only put in its place later."""
    asked = signal.rule
    newest = firings[-1]
    fired = newest.fired
    symbol = symbol_words(symbols.get(asked.mint), asked.mint)
    what = event_words(asked, newest, symbol)
    times = f", {len(firings)} times" if len(firings) > 1 else ""
    lines = [
        f"{utc(each.fired.fired_at):%d %b %H:%M:%S} UTC  {event_words(asked, each, symbol)}"
        for each in firings[: -LINES_MAX - 1 : -1]
    ]
    left = len(firings) - len(lines)
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
        "field": asked.field,
        "kind": str(fired.kind),
        "value": repr(fired.value),
        "direction": str(fired.direction),
        "reference": repr(fired.reference),
        "slot": str(fired.slot),
    }
