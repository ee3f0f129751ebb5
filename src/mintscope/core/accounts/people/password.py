"""Passwords of people: what may be one, and the port that hashes it."""

from typing import Final, Protocol

LENGTH_MIN: Final = 10
LENGTH_MAX: Final = 200


class WrongPassword(Exception):
    """The address or the password is wrong; the answer does not tell which."""


class WeakPassword(ValueError):
    """A text that may not be a password; the message may be shown to the user."""


class Hasher(Protocol):
    """Turns passwords into hashes, slowly on purpose; `edges.maintenance.passwords` has one."""

    async def hash(self, password: str) -> str:
        """Return what may be stored of *password*."""

    async def matches(self, password: str, stored: str | None) -> bool:
        """Say whether *stored* was made of *password*; None takes as long and is never right."""


def expect_password(text: str, *, email: str) -> str:
    """Return *text* if it may be a password.  Raises WeakPassword."""
    if not LENGTH_MIN <= len(text) <= LENGTH_MAX:
        raise WeakPassword(f"expected {LENGTH_MIN} to {LENGTH_MAX} characters; were {len(text)}")
    if text.lower() in {email, email.partition("@")[0]} or len(set(text)) <= 3:  # noqa: PLR2004
        raise WeakPassword("expected a password that is harder to guess")
    return text
