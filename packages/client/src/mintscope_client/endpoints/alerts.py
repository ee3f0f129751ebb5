"""Alerts on one number of a token's report, which the API calls signals, and their firings."""

from typing import Final, Literal, TypeAlias, TypedDict

import msgspec
from typing_extensions import Unpack

from mintscope_client.calls.call import ApiCall
from mintscope_client.calls.known import expect_known
from mintscope_client.calls.paged import PagedCall
from mintscope_client.calls.requests import call_of, camel, page_of

SignalKind: TypeAlias = Literal["above", "below", "crosses", "crosses_field", "changes_by"]
EVENTS_MAX: Final = 100


class SignalRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An alert rule on a number of a token's report; times are Unix seconds."""

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
    """A new alert, and the secret that signs its webhooks, which is shown only once."""

    webhook_secret: str


class SignalRules(msgspec.Struct, frozen=True):
    """The alert rules of the account."""

    signals: list[SignalRule]


class WebhookOutcome(msgspec.Struct, frozen=True, rename="camel"):
    """The state of the webhook about an alert's firing; times are Unix seconds."""

    state: str
    attempts: int
    next_attempt_at: int | None
    delivered_at: int | None
    reason: str | None


class EmailOutcome(msgspec.Struct, frozen=True, rename="camel"):
    """The state of the e-mail about an alert's firing; times are Unix seconds."""

    state: str
    sent_at: int | None
    reason: str | None


class TelegramOutcome(msgspec.Struct, frozen=True, rename="camel"):
    """The state of the Telegram message about an alert's firing; times are Unix seconds."""

    state: str
    sent_at: int | None
    reason: str | None


class SignalEvent(msgspec.Struct, frozen=True, rename="camel"):
    """A firing of an alert, with the outcomes of its messages; times are Unix seconds.

    value       the value of the alert's field
    reference   the level or the earlier value with which it was compared
    """

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
    """A page of the firings of an alert, newest first."""

    events: list[SignalEvent]
    next_cursor: str | None


class SignalOptions(TypedDict, total=False):
    """The settings that alerts of every kind have.

    fires               how often it can fire: "once", "hourly" or "each" (the default)
    message             a text that the e-mails and webhooks of the alert contain
    expires_at          the time at which the alert ends, Unix seconds; None: never
    candles             "all" (the default): evaluated after every slot with a trade of the token;
                        "closed": when a minute ends, without open candles
    least_confidence    "low", "medium" (the default) or "high": reports whose price has less
                        confidence are not evaluated, except for the fields `price.liquidityUsd` and
                        `price.rejectedShareH1`
    webhook_url         the URL that firings are sent to; None: no webhook
    email               whether firings are sent by e-mail
    telegram            whether firings are sent to the Telegram chat of the account
    """

    candles: Literal["all", "closed"]
    least_confidence: Literal["low", "medium", "high"]
    webhook_url: str | None
    email: bool
    telegram: bool
    fires: Literal["once", "hourly", "each"]
    message: str
    expires_at: int | None


class SignalSettings(SignalOptions, total=False):
    """The settings of an alert that can be changed after its creation.

    level, margin       for `above`, `below` and `crosses`: the level, and the distance that the
                        value must move back before the signal can fire again
    percent, window_s   for `changes_by`: the change, and the span over which it is measured, in
                        seconds
    """

    level: float
    margin: float
    percent: float
    window_s: int


class SignalParts(SignalSettings, total=False):
    """The settings of a new alert other than its name, mint, field and kind.

    compared_with, direction   for `crosses_field`, which has `margin` too: the other field, and the
                               direction of the crossing, "up" or "down"; None: both
    """

    compared_with: str
    direction: Literal["up", "down"] | None


class SignalChanges(SignalSettings, total=False):
    """Changes to an alert: only the given settings change."""

    name: str
    is_active: bool


def signals() -> ApiCall[SignalRules]:
    """Return the call for the alerts of the account, which the API calls signals."""
    return call_of("GET", "/v1/signals", SignalRules)


def make_signal(
    name: str, mint: str, field: str, kind: SignalKind, **parts: Unpack[SignalParts]
) -> ApiCall[MadeSignal]:
    """Return the call that creates an alert on *field*, a number of the reports of *mint*."""
    expect_known(parts, SignalParts)
    body = {"name": name, "mint": mint, "field": field, "kind": kind} | camel(parts)
    return call_of("POST", "/v1/signals", MadeSignal, body, takes_key=True)


def make_signal_of(
    name: str, mint: str, where: str, **options: Unpack[SignalOptions]
) -> ApiCall[MadeSignal]:
    """Return the call that creates an alert on a condition, in the syntax of screens.

    where    one comparison of two numbers of a report or of a number and a level, or one crossing,
             for example "crosses_below(rsi_h1, 30)"
    """
    expect_known(options, SignalOptions)
    body = {"name": name, "mint": mint, "kind": "condition", "where": where} | camel(options)
    return call_of("POST", "/v1/signals", MadeSignal, body, takes_key=True)


def signal(signal_id: int) -> ApiCall[SignalRule]:
    """Return the call for one alert."""
    return call_of("GET", f"/v1/signals/{signal_id}", SignalRule)


def change_signal(signal_id: int, **changes: Unpack[SignalChanges]) -> ApiCall[SignalRule]:
    """Return the call that changes an alert."""
    expect_known(changes, SignalChanges)
    return call_of("PATCH", f"/v1/signals/{signal_id}", SignalRule, camel(changes))


def delete_signal(signal_id: int) -> ApiCall[SignalRules]:
    """Return the call that deletes an alert and returns the other alerts."""
    return call_of("DELETE", f"/v1/signals/{signal_id}", SignalRules)


def signal_events(signal_id: int) -> PagedCall[SignalEventsPage, SignalEvent]:
    """Return the pages of the firings of an alert, newest first."""

    def call_at(cursor: str | None) -> ApiCall[SignalEventsPage]:
        path = f"/v1/signals/{signal_id}/events"
        return call_of("GET", path, SignalEventsPage, query=page_of(EVENTS_MAX, cursor))

    return PagedCall(call_at, lambda page: page.events)


def renew_signal_secret(signal_id: int) -> ApiCall[MadeSignal]:
    """Return the call that renews an alert's webhook secret; the old one also signs for a day."""
    return call_of("POST", f"/v1/signals/{signal_id}/secret", MadeSignal, takes_key=True)


def test_signal(signal_id: int) -> ApiCall[SignalEvent]:
    """Return the call that tests an alert: it sends the messages of a firing now."""
    return call_of("POST", f"/v1/signals/{signal_id}/test", SignalEvent)
