"""Endpoints of alerts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from mintscope.accounts.keys.key_gate import KeyGate
from mintscope.accounts.keys.scope import Scope
from mintscope.alerts import wire
from mintscope.alerts.alert import (
    Alert,
    AlertDenied,
    AlertRule,
    EmailState,
    Firing,
    FiringEmail,
    FiringId,
    FiringTelegram,
    SignalId,
)
from mintscope.alerts.alerts import Alerts
from mintscope.alerts.conditions import Field, SignalKind, UnwatchableCondition, Watched, watched_by
from mintscope.alerts.messages import impossible
from mintscope.api.discovery.operation import account_operation
from mintscope.api.gate import idempotency_key
from mintscope.api.query import read_query
from mintscope.api.v1 import mint_of
from mintscope.api.wire import decode_cursor, encode_cursor, read_body, success
from mintscope.kit import errors
from mintscope.kit.clock import Clock
from mintscope.kit.http.rate_limit import RateLimit
from mintscope.kit.http.request import Request, parse_id
from mintscope.kit.http.response import Response
from mintscope.kit.primitives import UnixMs
from mintscope.market.screening.grammar import ALL_FIELDS, ConditionError, parse_condition

COLUMNS: Final = {"email": "by_email", "telegram": "by_telegram", "candles": "is_closed"}
CLOSED: Final = "closed"


def rule_of(body: wire.NewSignal) -> AlertRule:
    """Return the settings of the new alert in *body*.  Raises InvalidTokenAddress, BadRequest."""
    if isinstance(body, wire.ConditionSignal):
        return AlertRule(**_shared(body), **_watched(body.where)._asdict())
    return AlertRule(
        **_shared(body),
        field=Field(body.field),
        kind=SignalKind(str(body.__struct_config__.tag)),
        level=body.level or 0.0,
        margin=body.margin or 0.0,
        percent=body.percent or 0.0,
        window_s=body.window_s or 0,
        compared=None if body.compared_with is None else Field(body.compared_with),
        direction=body.direction,
    )


def _shared(body: wire.SignalCommon) -> dict[str, Any]:
    """Return the settings in *body* that every kind of alert has, as fields of AlertRule."""
    return {
        "name": body.name.strip(),
        "mint": mint_of(body.mint),
        "webhook_url": body.webhook_url,
        "by_email": body.email,
        "by_telegram": body.telegram,
        "is_closed": body.candles == CLOSED,
        "least_confidence": body.least_confidence,
        "fires": body.fires,
        "message": body.message.strip(),
        "expires_at": _milliseconds(body.expires_at),
    }


def _watched(where: str) -> Watched:
    try:
        return watched_by(parse_condition(where, ALL_FIELDS))
    except (ConditionError, UnwatchableCondition) as flaw:
        raise errors.BadRequest(f"where: {flaw}") from flaw


def changes_of(body: wire.ChangedSignal) -> dict[str, Any]:
    """Return the changed settings in *body*, as fields of AlertRule."""
    named = {name: getattr(body, name) for name in body.__struct_fields__}
    if isinstance(body.name, str):
        named["name"] = body.name.strip()
    if isinstance(body.message, str):
        named["message"] = body.message.strip()
    if isinstance(body.expires_at, int):
        named["expires_at"] = _milliseconds(body.expires_at)
    if body.candles is not msgspec.UNSET:
        named["candles"] = body.candles == CLOSED
    return {
        COLUMNS.get(name, name): value
        for name, value in named.items()
        if value is not msgspec.UNSET
    }


def line_facts(signal: Alert) -> dict[str, Any]:
    """Return the values of *signal* that the API returns, as fields of SignalLine."""
    asked = signal.rule
    is_move = asked.kind is SignalKind.CHANGES_BY
    has_level = not is_move and asked.compared is None
    return {
        "signal_id": signal.signal_id,
        "name": asked.name,
        "mint": asked.mint,
        "field": asked.field,
        "kind": asked.kind,
        "level": asked.level if has_level else None,
        "margin": None if is_move else asked.margin,
        "percent": asked.percent if is_move else None,
        "window_s": asked.window_s if is_move else None,
        "candles": CLOSED if asked.is_closed else "all",
        "least_confidence": asked.least_confidence,
        "webhook_url": asked.webhook_url,
        "email": asked.by_email,
        "telegram": asked.by_telegram,
        "fires": asked.fires,
        "compared_with": asked.compared,
        "direction": asked.direction,
        "message": asked.message,
        "expires_at": _seconds(asked.expires_at),
        "ended_at": _seconds(signal.ended_at),
        "is_active": asked.is_active,
        "created_at": signal.created_at // 1000,
        "fired_at": _seconds(signal.fired_at),
        "webhook_disabled_at": _seconds(signal.webhook_failed_at),
    }


def line_of(signal: Alert) -> wire.SignalLine:
    """Return an alert in the form that the API returns."""
    return wire.SignalLine(**line_facts(signal))


def event_of(firing: Firing) -> wire.EventLine:
    """Return a firing in the form that the API returns."""
    fired = firing.fired
    return wire.EventLine(
        event_id=firing.firing_id,
        kind=fired.kind,
        value=fired.value,
        direction=fired.direction,
        reference=fired.reference,
        slot=fired.slot,
        time=fired.time,
        fired_at=fired.fired_at // 1000,
        webhook=None if firing.due_at is None else _webhook_of(firing, firing.due_at),
        email=None if firing.email is None else _email_of(firing.email),
        telegram=None if firing.telegram is None else _telegram_of(firing.telegram),
    )


def _telegram_of(telegram: FiringTelegram) -> wire.TelegramOutcome:
    return wire.TelegramOutcome(
        state=telegram.state,
        sent_at=_seconds(telegram.sent_at),
        reason=telegram.note,
    )


def _email_of(email: FiringEmail) -> wire.EmailOutcome:
    if email.state is not EmailState.WRITTEN:
        return wire.EmailOutcome(state=str(email.state), sent_at=None, reason=email.note)
    state = "given_up" if email.given_up_at is not None else "waiting"
    return wire.EmailOutcome(
        state="sent" if email.sent_at is not None else state,
        sent_at=_seconds(email.sent_at),
        reason=email.reason,
    )


def _webhook_of(firing: Firing, due_at: UnixMs) -> wire.WebhookState:
    is_over = firing.delivered_at is not None or firing.given_up_at is not None
    state = "delivered" if firing.delivered_at is not None else "given_up"
    return wire.WebhookState(
        state=state if is_over else "waiting",
        attempts=firing.attempts,
        next_attempt_at=None if is_over else due_at // 1000,
        delivered_at=_seconds(firing.delivered_at),
        reason=firing.reason,
    )


def _milliseconds(at_s: int | None) -> UnixMs | None:
    return None if at_s is None else UnixMs(at_s * 1000)


def _seconds(at: UnixMs | None) -> int | None:
    return None if at is None else at // 1000


NO_ALERT: Final = "This account has no alert with this number."
DELETED: Final = "The alert that was made with this Idempotency-Key was deleted."
NO_MORE: Final = "expected at most {most} alerts: delete one first"
NO_MORE_OF_ALL: Final = "This service watches the largest number of alerts it can."
NO_MORE_MINTS: Final = "This service watches the largest number of tokens it can."
UNVERIFIED: Final = "email: expected an account whose e-mail address is verified"
UNLINKED: Final = "telegram: expected an account with a Telegram chat, linked in its settings"
HAS_PASSED: Final = "expiresAt: expected a time that is still to come"
KEY_USED: Final = "The Idempotency-Key was sent with another request before; nothing was made."


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRoutes:
    """The endpoints of alerts under `/v1/signals`, for the account of an API key."""

    gate: KeyGate
    signals: Alerts
    tests: RateLimit
    clock: Clock

    @account_operation("GET", "/v1/signals", wire.SignalList, Scope.SIGNALS_READ)
    async def list_signals(self, request: Request) -> Response:
        """Alerts of the account.

        Returns the alerts of the account of the API key, in the order in which they were made.
        Costs nothing.
        """
        holder = await self.gate.authorize(request)
        return self._list(request, await self.signals.of_user(holder.key.user_id))

    @account_operation(
        "POST",
        "/v1/signals",
        wire.MadeSignal,
        Scope.SIGNALS_WRITE,
        errors.ErrorCode.INVALID_TOKEN_ADDRESS,
        errors.ErrorCode.NOT_FOUND,
        body=wire.NEW_SIGNAL,
        status=201,
        takes_key=True,
    )
    async def make_signal(self, request: Request) -> Response:
        """Make an alert.

        Makes an alert over one number of a token's report, checked after each slot with a
        trade of the token. It fires when the number crosses a level or another number, or moves by
        a percentage within a window: once, hourly or each time, as `fires` says; the first check
        never fires. With candles=closed it is checked as each minute ends. Webhooks are signed with
        webhookSecret (Standard Webhooks), only in this response, and retried for 24 hours. At most
        20 alerts per account. Costs nothing.
        """
        holder = await self.gate.authorize(request)
        key, asked = idempotency_key(request), rule_of(await read_body(request, wire.NEW_SIGNAL))
        self._expect_sound(asked)
        made = await self.signals.make(holder.key.user_id, asked, key)
        if made is AlertDenied.NOT_FOUND:
            raise errors.NotFound(DELETED)
        if isinstance(made, AlertDenied):
            raise self._refusal(made)
        return self._with_secret(request, made, status=201)

    @account_operation("GET", "/v1/signals/{signalId}", wire.SignalLine, Scope.SIGNALS_READ)
    async def get_signal(self, request: Request) -> Response:
        """An alert.

        Returns an alert. An alert of another account is not found. Costs nothing.
        """
        holder = await self.gate.authorize(request)
        found = await self.signals.find(holder.key.user_id, _signal_id(request))
        return self._one(request, found)

    @account_operation(
        "PATCH",
        "/v1/signals/{signalId}",
        wire.SignalLine,
        Scope.SIGNALS_WRITE,
        body=wire.ChangedSignal,
    )
    async def change_signal(self, request: Request) -> Response:
        """Change an alert.

        Changes only the named settings; the mint, the fields, the kind and the direction stay. If
        level, margin, percent, window, candles, leastConfidence, fires or expiresAt changes, or an
        inactive alert becomes active, the alert starts over: its first check never fires. A
        disabled webhook is enabled again if its URL changes, or if an inactive alert becomes
        active. Costs nothing.
        """
        holder = await self.gate.authorize(request)
        signal_id = _signal_id(request)
        changes = changes_of(await read_body(request, wire.ChangedSignal))

        def edit(before: AlertRule) -> AlertRule:
            asked = replace(before, **changes)
            self._expect_sound(asked)
            return asked

        changed = await self.signals.change(holder.key.user_id, signal_id, edit)
        if isinstance(changed, AlertDenied):
            raise self._refusal(changed)
        return self._one(request, changed)

    @account_operation("DELETE", "/v1/signals/{signalId}", wire.SignalList, Scope.SIGNALS_WRITE)
    async def delete_signal(self, request: Request) -> Response:
        """Delete an alert.

        Deletes an alert and its events, and returns the alerts that are left. Costs nothing.
        """
        holder = await self.gate.authorize(request)
        left = await self.signals.delete(holder.key.user_id, _signal_id(request))
        if left is None:
            raise errors.NotFound(NO_ALERT)
        return self._list(request, left)

    @account_operation(
        "GET",
        "/v1/signals/{signalId}/events",
        wire.Events,
        Scope.SIGNALS_READ,
        query=wire.EventsQuery,
    )
    async def list_signal_events(self, request: Request) -> Response:
        """The firings of an alert, newest first.

        Returns a page of the firings of an alert in the last 30 days, newest first, and the
        outcome of webhook, e-mail and Telegram. Costs nothing.
        """
        holder = await self.gate.authorize(request)
        signal_id = _signal_id(request)
        query = read_query(request, wire.EventsQuery)
        before = None
        if query.cursor is not None:
            before = FiringId(decode_cursor(query.cursor, wire.EventPosition).event_id)
        found = await self.signals.firings(holder.key.user_id, signal_id, before, query.limit + 1)
        if found is None:
            raise errors.NotFound(NO_ALERT)
        page = found[: query.limit]
        cursor = None
        if len(found) > query.limit:
            cursor = encode_cursor(wire.EventPosition(page[-1].firing_id))
        events = wire.Events(events=[event_of(each) for each in page], next_cursor=cursor)
        return success(request, events, at=self.clock.now())

    @account_operation(
        "POST",
        "/v1/signals/{signalId}/secret",
        wire.MadeSignal,
        Scope.SIGNALS_WRITE,
        status=201,
        takes_key=True,
    )
    async def renew_webhook_secret(self, request: Request) -> Response:
        """Make another webhook secret.

        Makes another webhook secret, which only this response contains. For 24 hours webhooks are
        signed with the old and the new secret. Costs nothing.
        """
        holder = await self.gate.authorize(request)
        key = idempotency_key(request)
        renewed = await self.signals.renew_secret(holder.key.user_id, _signal_id(request), key)
        if isinstance(renewed, AlertDenied):
            raise self._refusal(renewed)
        return self._with_secret(request, renewed, status=201)

    @account_operation(
        "POST", "/v1/signals/{signalId}/test", wire.EventLine, Scope.SIGNALS_WRITE, status=201
    )
    async def test_signal(self, request: Request) -> Response:
        """Send a test of an alert.

        Notifies the owner of an alert now, as if it fired, with a made-up number; the webhook has
        the type `signal.test`. At most ten times an hour. Costs nothing.
        """
        holder = await self.gate.authorize(request)
        signal_id = _signal_id(request)
        await self.tests.pass_through(request, holder.key.user_id)
        firing = await self.signals.test(holder.key.user_id, signal_id)
        if firing is None:
            raise errors.NotFound(NO_ALERT)
        return success(request, event_of(firing), at=self.clock.now(), status=201)

    def _expect_sound(self, asked: AlertRule) -> None:
        flaw = self.signals.flaw(asked)
        if flaw is None:
            flaw = impossible(asked)
        if flaw is not None:
            raise errors.BadRequest(flaw)

    def _refusal(self, denied: AlertDenied) -> errors.ServiceError:
        refusals: Mapping[AlertDenied, errors.ServiceError] = {
            AlertDenied.NOT_FOUND: errors.NotFound(NO_ALERT),
            AlertDenied.TOO_MANY: errors.BadRequest(
                NO_MORE.format(most=self.signals.bounds.per_user_max)
            ),
            AlertDenied.TOO_MANY_OF_ALL: errors.ServiceUnavailable(NO_MORE_OF_ALL),
            AlertDenied.TOO_MANY_MINTS: errors.ServiceUnavailable(NO_MORE_MINTS),
            AlertDenied.UNVERIFIED: errors.BadRequest(UNVERIFIED),
            AlertDenied.UNLINKED: errors.BadRequest(UNLINKED),
            AlertDenied.EXPIRED: errors.BadRequest(HAS_PASSED),
            AlertDenied.KEY_USED: errors.IdempotencyKeyUsed(KEY_USED),
        }
        return refusals[denied]

    def _list(self, request: Request, signals: Sequence[Alert]) -> Response:
        lines = wire.SignalList(signals=[line_of(each) for each in signals])
        return success(request, lines, at=self.clock.now())

    def _one(self, request: Request, signal: Alert | None) -> Response:
        if signal is None:
            raise errors.NotFound(NO_ALERT)
        return success(request, line_of(signal), at=self.clock.now())

    def _with_secret(self, request: Request, signal: Alert, status: int) -> Response:
        made = wire.MadeSignal(**line_facts(signal), webhook_secret=self.signals.secret(signal))
        return success(request, made, at=self.clock.now(), status=status)


def _signal_id(request: Request) -> SignalId:
    return SignalId(parse_id(request.path_params["signalId"], NO_ALERT))
