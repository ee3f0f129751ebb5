"""The form of a new API key: what is asked for, and whether it may be made."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from mintscope.core.accounts.keys.api_key import LIFETIMES_MS, NAME_LENGTH_MAX
from mintscope.core.accounts.keys.scope import AREAS, OPEN_SCOPES, READ_SCOPES, Scope, with_reads
from mintscope.edges.web.form import FormData, InvalidForm

ACCESS: Final = ("none", "read", "write")  # to an area; the first is that of an empty form
LIFETIME: Final = "90d"
CAP_DIGITS_MAX: Final = 12
PRESETS: Final[Mapping[str, frozenset[Scope]]] = MappingProxyType(
    {
        "read": READ_SCOPES,
        "trading-bot": frozenset({Scope.TRADE_READ, Scope.TRADE_WRITE, Scope.WALLETS_READ}),
        "everything": OPEN_SCOPES,
    }
)


@dataclass(frozen=True, slots=True)
class KeyRequest:
    """A key that may be made; *lifetime_ms* is None for one that lasts until it is revoked."""

    name: str
    scopes: frozenset[Scope]
    lifetime_ms: int | None


def blank(preset: str = "") -> dict[str, str]:
    """Return the values of an empty form: no access, or that of *preset*."""
    return {"name": "", "lifetime": LIFETIME} | accesses(PRESETS.get(preset, frozenset()))


def accesses(scopes: frozenset[Scope]) -> dict[str, str]:
    """Return the access to each area that *scopes* amount to."""
    return {
        area.name: ACCESS[sum(scope.area == area.name for scope in with_reads(scopes))]
        for area in AREAS
    }


def filled(form: FormData) -> dict[str, str]:
    """Return the values that *form* brings, to show them again."""
    values = blank()
    return {name: form.line(name) or value for name, value in values.items()}


def parse_new_key(values: Mapping[str, str]) -> KeyRequest:
    """Return what *values* ask for.

    Raises    InvalidForm
    """
    errors: dict[str, str] = {}
    name = values["name"]
    try:
        parse_name(name)
    except InvalidForm as invalid:
        errors |= invalid.errors
    for area in AREAS:
        if values[area.name] not in ACCESS:
            errors[area.name] = "Choose one of the three."
    if values["lifetime"] not in LIFETIMES_MS:
        errors["lifetime"] = "Choose one of these."
    if errors:
        raise InvalidForm(errors)
    return KeyRequest(name, _scopes(values), LIFETIMES_MS[values["lifetime"]])


def parse_name(name: str) -> str:
    """Return *name* if a key may be called so.

    Raises    InvalidForm
    """
    if not name:
        raise InvalidForm({"name": "Give the key a name, so that you know later what it was for."})
    if not name.isprintable():
        raise InvalidForm({"name": "Expected a name without control characters."})
    if len(name) > NAME_LENGTH_MAX:
        flaw = f"Expected at most {NAME_LENGTH_MAX} characters; there were {len(name)}."
        raise InvalidForm({"name": flaw})
    return name


def parse_cap(text: str) -> int | None:
    """Return how many credits *text* allows a month, None for an empty one.

    Raises    InvalidForm
    """
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= CAP_DIGITS_MAX):
        raise InvalidForm({"cap": "Expected a whole number of credits, or nothing for no cap."})
    return int(text)


def _scopes(values: Mapping[str, str]) -> frozenset[Scope]:
    return frozenset(
        Scope(f"{area.name}:{verb}")
        for area in AREAS
        for verb in ACCESS[1 : ACCESS.index(values[area.name]) + 1]
    )
