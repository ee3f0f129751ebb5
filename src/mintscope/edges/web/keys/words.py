"""Keys in plain words: what one can do, how it stands, when it ends."""

from dataclasses import dataclass
from typing import Final

from mintscope.base.primitives import UnixMs
from mintscope.base.time import DAY_MS
from mintscope.core.accounts.keys.api_key import KeyLine, KeyStatus
from mintscope.core.accounts.keys.scope import AREAS, OPEN_SCOPES, READ_SCOPES, Scope, in_order

EXPIRES_SOON_MS: Final = 7 * DAY_MS
IDLE_MS: Final = 30 * DAY_MS
LIFETIME_NAMES: Final = {"30d": "30 days", "90d": "90 days", "1y": "1 year", "never": "Never"}
OVERLAP_NAMES: Final = {
    "0": "At once",
    "1h": "After 1 hour",
    "24h": "After 24 hours",
    "7d": "After 7 days",
}
OVERLAP_WORDS: Final = {"1h": "for an hour", "24h": "for 24 hours", "7d": "for 7 days"}


@dataclass(frozen=True, slots=True)
class Badge:
    """How a key stands, in a word or two; *tone* is good, wait or plain."""

    text: str
    tone: str


def summary(scopes: frozenset[Scope]) -> str:
    """Return those of *scopes* that open something in two words."""
    opening = scopes & OPEN_SCOPES
    if opening == OPEN_SCOPES:
        return "Full access"
    if opening == READ_SCOPES & OPEN_SCOPES:
        return "Read only"
    if not opening:
        return "No scopes"
    return "1 scope" if len(opening) == 1 else f"{len(opening)} scopes"


def abilities(scopes: frozenset[Scope]) -> tuple[list[str], list[str]]:
    """Return what a key with *scopes* can do, and what it cannot."""
    words = {
        Scope(f"{area.name}:{verb}"): text
        for area in AREAS
        for verb, text in (("read", area.read), ("write", area.write))
    }
    can = [words[scope] for scope in in_order(scopes & OPEN_SCOPES)]
    return can, [words[scope] for scope in in_order(OPEN_SCOPES - scopes)]


def badge(key: KeyLine, now: UnixMs) -> Badge:
    """Return how *key* stands at *now*."""
    match key.status(now):
        case KeyStatus.REVOKED:
            return Badge("Revoked", "plain")
        case KeyStatus.EXPIRED:
            return Badge("Expired", "plain")
        case KeyStatus.ACTIVE:
            return _active(key, now)


def _active(key: KeyLine, now: UnixMs) -> Badge:
    if key.replaced_by is not None:
        return Badge("Replaced", "wait")
    if key.expires_at is not None and key.expires_at - now <= EXPIRES_SOON_MS:
        return Badge("Expires soon", "wait")
    if key.last_used_at is None:
        return Badge("Never used", "plain")
    if now - key.last_used_at > IDLE_MS:
        return Badge("Unused for 30 days", "wait")
    return Badge("Active", "good")
