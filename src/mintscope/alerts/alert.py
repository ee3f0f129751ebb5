"""Alerts of users, their firings, and the progress of the evaluation."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, StrEnum, auto
from typing import Final, NamedTuple, NewType, TypedDict

from mintscope.alerts.conditions import Direction, Field, Rule, SignalKind
from mintscope.kit.audit import UserId
from mintscope.kit.primitives import Mint, Slot, UnixMs, UnixS
from mintscope.market.standings import Confidence

SignalId = NewType("SignalId", int)
FiringId = NewType("FiringId", int)


class Fires(StrEnum):
    """How often an alert fires: once, at most once an hour, or each time."""

    ONCE = "once"  # after the firing the alert ends; its owner can resume it
    HOURLY = "hourly"  # at most once in an hour, which begins with the firing
    EACH = "each"  # at each crossing


class AlertDenied(Enum):
    """A reason why an alert is not created or changed."""

    NOT_FOUND = auto()
    TOO_MANY = auto()  # the user has too many alerts
    TOO_MANY_OF_ALL = auto()  # all users together have too many evaluated alerts
    TOO_MANY_MINTS = auto()  # the evaluated alerts of all users have too many different mints
    UNVERIFIED = auto()  # the user's e-mail address is not verified
    UNLINKED = auto()  # the user has no Telegram chat that accepts messages, or there is no bot
    EXPIRED = auto()  # the expiry of the alert has passed
    KEY_USED = auto()  # the Idempotency-Key was used by another request


CROSSING: Final = {
    None: SignalKind.CROSSES,
    Direction.UP: SignalKind.ABOVE,
    Direction.DOWN: SignalKind.BELOW,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRule:
    """The settings that a user requests for an alert.

    name         the name that the user gave the alert; printable
    field        the name of the evaluated value in the report of *mint*
    kind         the kind of condition
    level, margin, percent, window_s   the level, the re-arm distance, the least move in percent,
                                       and the window in seconds; 0 if *kind* does not use them
    webhook_url  the URL that webhooks are sent to; None: firings are not sent by webhook
    is_closed    True: the alert is evaluated at the end of each minute, without the open candles;
                 False: after each slot in which the token is traded
    least_confidence   reports whose price has a lower confidence are skipped, unless *field* is
                       itself about the quality of the price
    compared     for crosses_field, the name of the value that *field* is compared with; None for
                 other kinds
    direction    for crosses_field, the direction of the crossing; None: both directions
    message      the user's text in every message about a firing; "": no text
    """

    name: str
    mint: Mint
    field: Field
    kind: SignalKind
    level: float = 0.0
    margin: float = 0.0
    percent: float = 0.0
    window_s: int = 0
    webhook_url: str | None = None
    by_email: bool = False
    by_telegram: bool = False
    is_active: bool = True
    is_closed: bool = False
    least_confidence: Confidence = Confidence.LOW
    fires: Fires = Fires.EACH
    compared: Field | None = None
    direction: Direction | None = None
    message: str = ""
    expires_at: UnixMs | None = None

    @property
    def rule(self) -> Rule:
        """The rule to evaluate.

        If the alert compares two fields, each evaluation sets its level.
        """
        return Rule(
            kind=CROSSING[self.direction] if self.compared is not None else self.kind,
            level=self.level,
            margin=self.margin,
            percent=self.percent,
            window_s=self.window_s,
        )


def has_passed(asked: AlertRule, before: AlertRule | None, at: UnixMs) -> bool:
    """Return whether *asked* is refused because its expiry is not after *at*.

    It is not refused if the expiry did not change and *asked* does not activate the alert.

    before    the settings that *asked* replaces; None: a new alert
    """
    if asked.expires_at is None or asked.expires_at > at:
        return False
    if before is None or before.expires_at != asked.expires_at:
        return True
    return asked.is_active and not before.is_active


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """A stored alert and the state of its rule.

    nonce        random bytes from which the secret of the webhooks is derived
    old_nonce    the nonce before the last renewal of the secret; the old secret also signs until
                 *old_nonce_until*; None: the secret was never renewed
    revision     a number that rises each time the evaluation starts over; *state* belongs to it
    state        the state of the rule, as JSON; None: this revision was not evaluated yet
    fired_at     the time of the last firing; None: the alert never fired
    webhook_failed_at   the time when the webhook was disabled; None: it is not disabled
    webhook_at   the time when the URL of the webhook last changed, or when the alert last came to
                 its user with a claimed agent, if that is later; None: never
    hour_since, hour_count   the start of the last hour with counted firings, and the number of
                             these firings; None and 0: no firing yet
    ended_at     the time when the alert ended by firing once or by expiring; None: it has not ended
                 since its owner created or last resumed it
    emailed_at   the time when the last e-mail about firings, other than tests, was written; None:
                 none was written
    email_due_at      the time when the e-mail about waiting firings is due; None: no e-mail is
                      scheduled
    telegram_at  the time when the last Telegram message was sent; None: none was sent
    telegram_due_at   the time when the Telegram message about waiting firings is due; None: no
                      message is scheduled
    """

    signal_id: SignalId
    user_id: UserId
    rule: AlertRule
    nonce: bytes
    old_nonce: bytes | None
    old_nonce_until: UnixMs | None
    revision: int
    state: str | None
    created_at: UnixMs
    fired_at: UnixMs | None
    webhook_failed_at: UnixMs | None
    hour_since: UnixMs | None = None
    hour_count: int = 0
    webhook_at: UnixMs | None = None
    ended_at: UnixMs | None = None
    emailed_at: UnixMs | None = None
    email_due_at: UnixMs | None = None
    telegram_at: UnixMs | None = None
    telegram_due_at: UnixMs | None = None

    @property
    def sends_webhooks(self) -> bool:
        """Whether firings are sent by webhook: there is a URL, and the webhook is not disabled."""
        return self.rule.webhook_url is not None and self.webhook_failed_at is None


class AlertChanges(TypedDict, total=False):
    """The columns of an alert that `SqlAlertRows.update` can change."""

    webhook_url: str | None
    webhook_at: UnixMs
    is_active: bool
    nonce: bytes
    old_nonce: bytes
    old_nonce_until: UnixMs
    revision: int
    state: str | None
    fired_at: UnixMs
    webhook_failed_at: UnixMs | None
    ended_at: UnixMs | None
    emailed_at: UnixMs
    email_due_at: UnixMs | None
    telegram_at: UnixMs
    telegram_due_at: UnixMs | None


class FiredHour(NamedTuple):
    """The last firing of an alert, and the number of its firings in an hour.

    since      the start of the last hour with counted firings; *fired_at* if no firing was counted
    firings    the number of firings in this hour, up to *fired_at*; firings of an alert that fires
               only once are not counted
    """

    fired_at: UnixMs
    since: UnixMs
    firings: int


class FiringKind(StrEnum):
    """The reason for a firing: a crossing, or a requested test."""

    FIRED = "fired"
    TEST = "test"  # the alert's owner requested a test


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFiring:
    """A firing to store.

    seq        the position in the swap log of the report that caused the firing; 0 for a test
    slot       the slot of that report; 0 for a test
    time       the effective time of *slot*; for a test, the time of the request; in Unix seconds
    value, direction, reference   the fields of the Crossing; for a test, *value* and *reference*
                                  are the level
    """

    signal_id: SignalId
    kind: FiringKind
    seq: int
    slot: Slot
    time: UnixS
    value: float
    direction: Direction
    reference: float
    fired_at: UnixMs


class HeldFirings(NamedTuple):
    """Firings of a batch that are listed but not sent.

    places   the indexes of these firings in the batch
    note     the reason why they are not sent
    """

    places: frozenset[int]
    note: str


class EmailState(StrEnum):
    """The state of a firing's e-mail."""

    WAITING = "waiting"  # until the pause after the alert's last e-mail ends
    WRITTEN = "written"
    NOT_SENT = "not_sent"


@dataclass(frozen=True, slots=True, kw_only=True)
class FiringEmail:
    """The delivery of a firing by e-mail.

    note         the reason why no e-mail was written; None: one was written, or the firing waits
    sent_at      the time when the mail server accepted the e-mail; None: it did not
    reason       the reason why the last attempt failed or the e-mail was given up; None: neither
    """

    state: EmailState
    note: str | None = None
    sent_at: UnixMs | None = None
    given_up_at: UnixMs | None = None
    reason: str | None = None


class TelegramState(StrEnum):
    """The state of a firing's Telegram message."""

    WAITING = "waiting"
    SENT = "sent"
    NOT_SENT = "not_sent"


@dataclass(frozen=True, slots=True, kw_only=True)
class FiringTelegram:
    """The delivery of a firing to a Telegram chat.

    sent_at      the time when Telegram accepted the message; None: not yet
    note         the reason why the last attempt failed or the message is not sent; None: neither
    """

    state: TelegramState
    sent_at: UnixMs | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Firing:
    """A firing and its deliveries.

    The outcome of a webhook is stored in the webhook queue; `Alerts.firings` adds it to the firing.

    due_at        the time when the webhook is or was due; None: no webhook is sent
    attempts      the number of attempts to send the webhook
    delivered_at  the time when the webhook was accepted; None: it was not
    given_up_at   the time when the webhook was given up; None: it was not
    reason        the reason why the last attempt failed or the webhook was given up; None: neither
    email         the delivery by e-mail; None: the firing is not sent by e-mail
    telegram      the delivery to a Telegram chat; None: the firing is not sent to Telegram
    """

    firing_id: FiringId
    fired: NewFiring
    due_at: UnixMs | None
    attempts: int
    delivered_at: UnixMs | None
    given_up_at: UnixMs | None
    reason: str | None
    email: FiringEmail | None = None
    telegram: FiringTelegram | None = None

    def after(self, attempts: int) -> "Firing":
        """Return the firing with the number of attempts set to *attempts*."""
        return replace(self, attempts=attempts)


class Gathered(NamedTuple):
    """The firings of an alert in one message.

    total    the number of firings in the message
    first    the ID of the oldest of these firings
    newest   the newest of these firings, at least one, in order of time
    """

    total: int
    first: FiringId
    newest: Sequence[Firing]


class QueueLength(NamedTuple):
    """The number of waiting webhooks.

    oldest   the time of the oldest waiting firing; None: no webhook waits
    """

    waiting: int
    oldest: UnixMs | None


class Crowd(NamedTuple):
    """The number of alerts and mints under evaluation.

    signals    the number of evaluated alerts
    mints      the number of their different mints
    has_mint   whether one of these mints is the mint that the caller named
    """

    signals: int
    mints: int
    has_mint: bool


@dataclass(frozen=True, slots=True)
class TelegramChat:
    """The Telegram chat of an account.

    name         the chat's name, as Telegram sent it; an untrusted text
    blocked_at   the time when Telegram refused the bot's messages; None: it accepts them
    """

    user_id: UserId
    chat_id: int
    name: str
    linked_at: UnixMs
    blocked_at: UnixMs | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertStanding:
    """The progress of the evaluation of all alerts.

    seq        the position in the swap log up to which all alerts are evaluated
    version    a number that rises each time the evaluator must read the alerts again
    holder     the name of the process that has the lease of the evaluation, or had it last; b"":
               none has had it
    held_until the time when the lease ends, by this process's clock
    """

    seq: int
    version: int
    holder: bytes
    held_until: UnixMs


@dataclass(frozen=True, slots=True)
class MintBase:
    """The stored state of a mint, from which its evaluation restarts.

    seq      the position in the swap log that the state belongs to
    packed   the state, encoded by `conditions.pack`
    """

    mint: Mint
    seq: int
    packed: bytes
