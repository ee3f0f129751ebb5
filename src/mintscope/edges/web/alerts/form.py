"""The form of an alert: what is typed, as a rule."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from mintscope.base.errors import InvalidTokenAddress
from mintscope.base.primitives import UnixMs, parse_mint
from mintscope.base.time import utc
from mintscope.core.accounts.signals.signal import Fires, SignalRule
from mintscope.core.market.basis.price_basis import Confidence
from mintscope.core.market.signals.fields import FIELDS, Field
from mintscope.core.market.signals.rule import Direction, SignalKind
from mintscope.edges.web.form import FormData, InvalidForm, sentence

WINDOW_DIGITS_MAX: Final = 6  # ten days in seconds
NAMES: Final = (
    "name", "mint", "field", "kind", "level", "margin", "percent", "window", "webhook", "email",
    "candles", "confidence", "once", "fires", "compared", "direction", "message", "expires",
)  # fmt: skip
FIRST: Final[Mapping[str, str]] = {
    "field": "indicators.h1.rsi",
    "kind": SignalKind.ABOVE.value,
    "window": "3600",
    "candles": "all",
    "confidence": Confidence.MEDIUM.value,
    "fires": Fires.ONCE.value,
    "email": "yes",
}
EXPIRES: Final = "%Y-%m-%dT%H:%M"  # as browsers send a datetime-local; in UTC


def filled(form: FormData) -> dict[str, str]:
    """Return what was typed, by field."""
    return {name: form.line(name) for name in NAMES}


def values_of(asked: SignalRule) -> dict[str, str]:
    """Return the form that asks for *asked*."""
    return {
        "name": asked.name,
        "mint": asked.mint,
        "field": asked.field,
        "kind": asked.kind.value,
        "level": f"{asked.level!r}",
        "margin": f"{asked.margin!r}" if asked.margin else "",
        "percent": f"{asked.percent!r}" if asked.percent else "",
        "window": str(asked.window_s or FIRST["window"]),
        "webhook": asked.webhook_url or "",
        "email": "yes" if asked.by_email else "",
        "candles": "closed" if asked.is_closed else "all",
        "confidence": asked.least_confidence.value,
        "fires": asked.fires.value,
        "compared": asked.compared or "",
        "direction": "" if asked.direction is None else asked.direction.value,
        "message": asked.message,
        "expires": "" if asked.expires_at is None else f"{utc(asked.expires_at):{EXPIRES}}",
    }


def parse_alert(values: Mapping[str, str]) -> SignalRule:
    """Return what *values* ask for.  Raises InvalidForm."""
    errors: dict[str, str] = {}
    try:
        mint = parse_mint(values["mint"])
    except InvalidTokenAddress as error:
        raise InvalidForm({"mint": sentence(error)}) from None
    confidence = values["confidence"] or FIRST["confidence"]
    is_listed = values["field"] in FIELDS and values["kind"] in set(SignalKind)
    is_listed = is_listed and values["fires"] in {"", *Fires}
    is_listed = is_listed and values["direction"] in {"", *Direction}
    if not is_listed or confidence not in set(Confidence):
        raise InvalidForm({"": "Choose what is looked at from the lists."})
    kind = SignalKind(values["kind"])
    asked = SignalRule(
        name=values["name"],
        mint=mint,
        field=Field(values["field"]),
        kind=kind,
        webhook_url=values["webhook"] or None,
        by_email=values["email"] == "yes",
        is_closed=values["candles"] == "closed",
        least_confidence=Confidence(confidence),
        fires=Fires(values["fires"] or Fires.ONCE),
        message=values["message"],
        expires_at=_expiry(values["expires"], errors),
    )
    asked = replace(asked, **_numbers(values, kind, errors))
    if errors:
        raise InvalidForm(errors)
    return asked


def _numbers(values: Mapping[str, str], kind: SignalKind, errors: dict[str, str]) -> dict[str, Any]:
    """Return what *kind* takes; what is no number goes into *errors*."""
    if kind is SignalKind.CHANGES_BY:
        window = values["window"]
        if not (window.isascii() and window.isdigit() and len(window) <= WINDOW_DIGITS_MAX):
            errors[""] = "Choose how far back it looks."
            return {}
        return {"percent": _number(values, "percent", errors), "window_s": int(window)}
    margin = _number(values, "margin", errors) if values["margin"] else 0.0
    if kind is SignalKind.CROSSES_FIELD:
        if values["compared"] not in FIELDS:
            errors["compared"] = "Choose what it is compared with."
        direction = Direction(values["direction"]) if values["direction"] else None
        compared = Field(values["compared"])
        return {"compared": compared, "direction": direction, "margin": margin}
    return {"level": _number(values, "level", errors), "margin": margin}


def _expiry(text: str, errors: dict[str, str]) -> UnixMs | None:
    if not text:
        return None
    try:
        at = datetime.strptime(text, EXPIRES).replace(tzinfo=UTC)
    except ValueError:
        errors["expires"] = "Expected a date and a time, as 2026-12-31T18:00."
        return None
    return UnixMs(int(at.timestamp()) * 1_000)


def _number(values: Mapping[str, str], name: str, errors: dict[str, str]) -> float:
    try:
        return float(values[name])
    except ValueError:
        errors[name] = "Expected a number, as 70 or 0.0012."
        return 0.0
