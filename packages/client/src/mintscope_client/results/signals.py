"""Signals, which are alerts over one number of a report, and their firings."""

import msgspec


class SignalRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A signal; times are Unix seconds."""

    signal_id: int
    name: str
    mint: str
    field: str
    kind: str
    level: float | None
    margin: float | None
    percent: float | None
    window_s: int | None
    candles: str
    least_confidence: str
    webhook_url: str | None
    email: bool
    is_active: bool
    created_at: int
    fired_at: int | None
    webhook_disabled_at: int | None
    fires: str = "each"
    compared_with: str | None = None
    direction: str | None = None
    message: str = ""
    expires_at: int | None = None
    ended_at: int | None = None
    telegram: bool = False


class MadeSignal(SignalRule, frozen=True, kw_only=True, rename="camel"):
    """A signal, and the secret that signs its webhooks; keep it."""

    webhook_secret: str


class SignalRules(msgspec.Struct, frozen=True):
    """The signals of the account."""

    signals: list[SignalRule]


class WebhookOutcome(msgspec.Struct, frozen=True, rename="camel"):
    """The delivery of a webhook."""

    state: str
    attempts: int
    next_attempt_at: int | None
    delivered_at: int | None
    reason: str | None


class EmailOutcome(msgspec.Struct, frozen=True, rename="camel"):
    """The outcome of the e-mail about a firing."""

    state: str
    sent_at: int | None
    reason: str | None


class TelegramOutcome(msgspec.Struct, frozen=True, rename="camel"):
    """The outcome of the Telegram message about a firing."""

    state: str
    sent_at: int | None
    reason: str | None


class SignalEvent(msgspec.Struct, frozen=True, rename="camel"):
    """A firing of a signal."""

    event_id: int
    kind: str
    value: float
    direction: str
    reference: float
    slot: int
    time: int
    fired_at: int
    webhook: WebhookOutcome | None
    email: EmailOutcome | None = None
    telegram: TelegramOutcome | None = None


class SignalEventsPage(msgspec.Struct, frozen=True, rename="camel"):
    """Events, newest first."""

    events: list[SignalEvent]
    next_cursor: str | None
