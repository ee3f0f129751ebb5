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

    ONCE = "once"  # then the alert has ended, until its owner resumes it
    HOURLY = "hourly"  # at most once in an hour
    EACH = "each"  # at each crossing


class AlertDenied(Enum):
    """The reason why an alert is not created or changed."""

    NOT_FOUND = auto()
    TOO_MANY = auto()  # too many alerts of the user
    TOO_MANY_OF_ALL = auto()  # too many alerts of all users together
    TOO_MANY_MINTS = auto()  # too many mints in the alerts of all users together
    UNVERIFIED = auto()  # the user's e-mail address is not verified
    UNLINKED = auto()  # the user has linked no Telegram chat
    EXPIRED = auto()  # its expiry has passed
    KEY_USED = auto()  # the Idempotency-Key was used by another request


CROSSING: Final = {
    None: SignalKind.CROSSES,
    Direction.UP: SignalKind.ABOVE,
    Direction.DOWN: SignalKind.BELOW,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRule:
    """The settings of an alert, as its user requests them.

    name         shown only to the user; printable
    field        the value of the report of *mint* that is evaluated
    level, margin, percent, window_s   as in Rule; 0 if the kind does not use them
    webhook_url  where firings are sent; None: nowhere
    by_email     whether firings are sent by e-mail
    by_telegram  whether firings are sent to the Telegram chat of the account
    is_active    whether the alert is evaluated
    is_closed    evaluated at the end of each minute, without the open candles
    least_confidence   reports whose price has a lower confidence are skipped
    fires        how often it fires
    compared     of crosses_field: the other value of the report; None: it has a level
    direction    of crosses_field: the direction of the crossing; None: either
    message      the owner's text in every e-mail and webhook; "": none
    expires_at   when the alert ends; None: never
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
        """The rule to evaluate; the level of a crosses_field rule is set at each evaluation."""
        return Rule(
            kind=CROSSING[self.direction] if self.compared is not None else self.kind,
            level=self.level,
            margin=self.margin,
            percent=self.percent,
            window_s=self.window_s,
        )


def has_passed(asked: AlertRule, before: AlertRule | None, at: UnixMs) -> bool:
    """Return whether the expiry of *asked* has passed, though it is new or active again.

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

    nonce        the source of its webhook secret; old_nonce: the one before, good until
                 old_nonce_until
    revision     rises at each change of its rule; its state belongs to this revision
    state        state of the rule, JSON; None: not evaluated yet
    webhook_failed_at   when its webhook was disabled; None: not disabled
    webhook_at   when the URL of its webhooks last changed; None: never
    hour_since   start of the hour in which it fired hour_count times; None: it never fired
    ended_at     when it ended by itself, fired once or expired; None: not ended
    emailed_at   when its last e-mail was written
    email_due_at when the e-mail about later firings is due; None: no firings wait
    telegram_at  when its last Telegram message was sent
    telegram_due_at   when its waiting firings are due there; None: no firings wait
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
        """Whether firings are sent by webhook."""
        return self.rule.webhook_url is not None and self.webhook_failed_at is None


class AlertChanges(TypedDict, total=False):
    """The columns of an alert that may change, besides those of its rule."""

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
    """The time of an alert's last firing, and its firings in the hour that began at *since*."""

    fired_at: UnixMs
    since: UnixMs
    firings: int


class FiringKind(StrEnum):
    """The reason for a notification."""

    FIRED = "fired"
    TEST = "test"  # its owner requested a test


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFiring:
    """A firing to store.

    seq        the position in the swap log of the report that caused it
    slot, time its slot, and the block time of that, Unix seconds
    value      the value of the field; reference: as in Crossing
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
    """Firings that are listed but not sent, by their indexes in a batch, and the reason."""

    places: frozenset[int]
    note: str


class EmailState(StrEnum):
    """The state of a firing's e-mail."""

    WAITING = "waiting"  # for the end of the pause since the alert's last e-mail
    WRITTEN = "written"
    NOT_SENT = "not_sent"


@dataclass(frozen=True, slots=True, kw_only=True)
class FiringEmail:
    """The delivery of a firing by e-mail.

    note         why the e-mail was not sent
    sent_at      when the e-mail was accepted; given_up_at: when it was given up
    reason       why the last attempt failed
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

    sent_at      when Telegram accepted the message
    note         why the last attempt failed
    """

    state: TelegramState
    sent_at: UnixMs | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Firing:
    """A firing and its deliveries.

    due_at        when its webhook is or was due; None: no webhook
    attempts      number of attempts to send the webhook
    delivered_at  when the webhook was accepted; given_up_at: when it was given up
    reason        why the last attempt failed
    email         its delivery by e-mail; None: not sent by e-mail
    telegram      its delivery to a Telegram chat; None: not sent there
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
        """Return the firing with *attempts* as the number of attempts."""
        return replace(self, attempts=attempts)


class Gathered(NamedTuple):
    """The firings of an alert in one message.

    total    number of the firings, beginning with *first*
    newest   the newest firings, oldest first; at least one
    """

    total: int
    first: FiringId
    newest: Sequence[Firing]


class Crowd(NamedTuple):
    """The numbers of evaluated alerts and of their mints; *has_mint*: they include a given mint."""

    signals: int
    mints: int
    has_mint: bool


@dataclass(frozen=True, slots=True)
class TelegramChat:
    """The Telegram chat of an account.

    name         the chat's name from Telegram, an untrusted text
    blocked_at   when Telegram refused the bot's messages; None: it accepts them
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
    version    rises at each change of the alerts
    holder     the process that has the lease of the evaluation until *held_until*
    """

    seq: int
    version: int
    holder: bytes
    held_until: UnixMs


@dataclass(frozen=True, slots=True)
class MintBase:
    """The state from which a mint restarts, as of *seq*; *packed* is made by `conditions.pack`."""

    mint: Mint
    seq: int
    packed: bytes
