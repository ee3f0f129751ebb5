"""Signals and their events as lines of answers, and requests as rules."""

from typing import Any, Final

import msgspec

from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.signals.signal import (
    EmailState,
    Firing,
    FiringEmail,
    Signal,
    SignalRule,
)
from mintscope.core.market.signals.fields import Field
from mintscope.core.market.signals.rule import SignalKind
from mintscope.edges.api.signals.wire import (
    ChangedSignal,
    EmailOutcome,
    EventLine,
    NewSignal,
    SignalLine,
    WebhookState,
)
from mintscope.edges.api.v1 import mint_of

COLUMNS: Final = {"email": "by_email", "candles": "is_closed"}
CLOSED: Final = "closed"


def rule_of(body: NewSignal) -> SignalRule:
    """Return what *body* asks for.  Raises InvalidTokenAddress."""
    return SignalRule(
        name=body.name.strip(),
        mint=mint_of(body.mint),
        field=Field(body.field),
        kind=SignalKind(str(body.__struct_config__.tag)),
        level=body.level or 0.0,
        margin=body.margin or 0.0,
        percent=body.percent or 0.0,
        window_s=body.window_s or 0,
        webhook_url=body.webhook_url,
        by_email=body.email,
        is_closed=body.candles == CLOSED,
        least_confidence=body.least_confidence,
        fires=body.fires,
        compared=None if body.compared_with is None else Field(body.compared_with),
        direction=body.direction,
        message=body.message.strip(),
        expires_at=_milliseconds(body.expires_at),
    )


def changes_of(body: ChangedSignal) -> dict[str, Any]:
    """Return what *body* names, by the names of SignalRule."""
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


def line_facts(signal: Signal) -> dict[str, Any]:
    """Return the line of a signal, by the names of SignalLine."""
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


def line_of(signal: Signal) -> SignalLine:
    """Return the line of a signal."""
    return SignalLine(**line_facts(signal))


def event_of(firing: Firing) -> EventLine:
    """Return the line of a firing."""
    fired = firing.fired
    return EventLine(
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
    )


def _email_of(email: FiringEmail) -> EmailOutcome:
    if email.state is not EmailState.WRITTEN:
        return EmailOutcome(state=str(email.state), sent_at=None, reason=email.note)
    state = "given_up" if email.given_up_at is not None else "waiting"
    return EmailOutcome(
        state="sent" if email.sent_at is not None else state,
        sent_at=_seconds(email.sent_at),
        reason=email.reason,
    )


def _webhook_of(firing: Firing, due_at: UnixMs) -> WebhookState:
    is_over = firing.delivered_at is not None or firing.given_up_at is not None
    state = "delivered" if firing.delivered_at is not None else "given_up"
    return WebhookState(
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
