"""Alerts of users, their firings, and the progress of their evaluation."""

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
    """The frequency of an alert: it fires once, hourly, or each time."""

    ONCE = "once"  # then it has ended, until its owner resumes it
    HOURLY = "hourly"  # at the first crossing in any hour
    EACH = "each"  # at each crossing


class AlertDenied(Enum):
    """The reason why a signal is not made or changed."""

    NOT_FOUND = auto()
    TOO_MANY = auto()  # of the user
    TOO_MANY_OF_ALL = auto()  # of all users together
    TOO_MANY_MINTS = auto()  # of all users together
    UNVERIFIED = auto()  # the e-mail address of the user
    UNLINKED = auto()  # the user has linked no Telegram chat
    EXPIRED = auto()  # its end has passed
    KEY_USED = auto()  # the Idempotency-Key was sent with another request before


CROSSING: Final = {
    None: SignalKind.CROSSES,
    Direction.UP: SignalKind.ABOVE,
    Direction.DOWN: SignalKind.BELOW,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRule:
    """The settings of a signal that a user asks for.

    name         for the user alone; printable
    field        the value of the report of *mint* that is evaluated
    level, margin, percent, window_s   as in Rule; 0 if the kind does not use them
    webhook_url  where firings are sent; None: nowhere
    by_email     whether firings are sent by e-mail
    by_telegram  whether firings are sent to the Telegram chat of the account
    is_active    whether it is evaluated
    is_closed    evaluated as each minute ends, without the candles that are open then
    least_confidence   reports whose price has a lower confidence are skipped
    fires        how often it fires
    compared     of crosses_field: the other value of the report; None: it has a level
    direction    of crosses_field: which way it must cross; None: either
    message      the owner's text in every e-mail and webhook; "": none
    expires_at   it ends then; None: never
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
    """Return whether the expiry of *asked* has passed though it is new or active again.

    before    the rule that *asked* replaces; None: a new one
    """
    if asked.expires_at is None or asked.expires_at > at:
        return False
    if before is None or before.expires_at != asked.expires_at:
        return True
    return asked.is_active and not before.is_active


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """A stored rule and its state.

    nonce        the source of its webhook secret; old_nonce: the one before, good until
                 old_nonce_until
    revision     one more at each change of its rule; its state is that of this revision
    state        memory of the rule, JSON; None: it has not seen a report yet
    webhook_failed_at   when its webhook was disabled; None: it is not
    webhook_at   when the address of its webhooks was last changed; None: not since it was made
    hour_since   when the hour began in which it has fired hour_count times; None: it never fired
    ended_at     when it ended by itself, having fired once or expired; None: it has not
    emailed_at   when its last e-mail was written
    email_due_at when the e-mail about its firings since then is written; None: none wait
    telegram_at  when its last message was sent to Telegram
    telegram_due_at   when its waiting firings are sent there; None: none wait
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
    """The columns of a signal that may change beside those of its rule."""

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
    """The time of a signal's last firing, and its firings in the hour that began with *since*."""

    fired_at: UnixMs
    since: UnixMs
    firings: int


class FiringKind(StrEnum):
    """The reason of a notification."""

    FIRED = "fired"
    TEST = "test"  # its owner wanted to see one


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFiring:
    """The facts of a firing.

    seq        the position in the swap log of the report that fired it
    slot, time its slot, and the block time of that, Unix seconds
    value      of the field; reference, as in Crossing
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
    """Firings that are listed and not sent, by their places among others, and the reason."""

    places: frozenset[int]
    note: str


class EmailState(StrEnum):
    """The state of a firing's e-mail."""

    WAITING = "waiting"  # for the pause since the last e-mail of the alert to end
    WRITTEN = "written"
    NOT_SENT = "not_sent"


@dataclass(frozen=True, slots=True, kw_only=True)
class FiringEmail:
    """The delivery of a firing by e-mail.

    note         why it was not sent
    sent_at      when its e-mail was accepted; given_up_at: when no further attempt was left
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

    sent_at      when Telegram accepted it
    note         why the last attempt failed
    """

    state: TelegramState
    sent_at: UnixMs | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Firing:
    """A firing and its deliveries.

    due_at        when its webhook is due, or was; None: it has no webhook
    attempts      how often the webhook was sent
    delivered_at  when it was accepted; given_up_at: when no further attempt was left
    reason        why the last attempt failed
    email         its delivery by e-mail; None: it is not sent by e-mail
    telegram      its delivery to a Telegram chat; None: it is not sent there
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
        """Return the firing with *attempts* as its number of attempts."""
        return replace(self, attempts=attempts)


class Gathered(NamedTuple):
    """Firings of an alert that one message is about.

    total    their number, from *first* on
    newest   the last of them, oldest first; at least one
    """

    total: int
    first: FiringId
    newest: Sequence[Firing]


class Crowd(NamedTuple):
    """The numbers of evaluated signals and of their mints; *has_mint* if one mint is among them."""

    signals: int
    mints: int
    has_mint: bool


@dataclass(frozen=True, slots=True)
class TelegramChat:
    """The Telegram chat of an account.

    name         of the chat, as Telegram gave it: a stranger's text
    blocked_at   when Telegram said that the bot may not write there; None: it may
    """

    user_id: UserId
    chat_id: int
    name: str
    linked_at: UnixMs
    blocked_at: UnixMs | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertStanding:
    """The progress of the evaluation of signals.

    seq        the position in the swap log up to which every signal is evaluated
    version    one more at each change of the signals
    holder     the process that evaluates them; only it may until *held_until*
    """

    seq: int
    version: int
    holder: bytes
    held_until: UnixMs


@dataclass(frozen=True, slots=True)
class MintBase:
    """The state from which a mint is restarted, as of *seq*; *packed* is opaque here."""

    mint: Mint
    seq: int
    packed: bytes
