"""Passwords of people: what may be one, the port that hashes it, and how many may be guessed.

Strangers never lock the owner out: guesses of other clients do not count for the owner's.
"""

from dataclasses import dataclass
from typing import Final, Protocol

from mintscope.base.limits import SITE_SHARES, Limit, Limiter, LimitKey, Limits, site_key, take_all
from mintscope.base.time import HOUR_S
from mintscope.core.accounts.email_address import EmailAddress

LENGTH_MIN: Final = 10
LENGTH_MAX: Final = 200
QUARTER_S: Final = 900


class WrongPassword(Exception):
    """The address or the password is wrong; the answer does not say which."""


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
        raise WeakPassword(
            f"expected {LENGTH_MIN} to {LENGTH_MAX} characters; there were {len(text)}"
        )
    if text.lower() in {email, email.partition("@")[0]} or len(set(text)) <= 3:  # noqa: PLR2004
        raise WeakPassword("expected a password that is harder to guess")
    return text


class TooManyAttempts(Exception):
    """Too many wrong passwords, or too many accounts made, lately; wait *retry_after_s*."""

    def __init__(self, retry_after_s: int) -> None:
        seconds = "second" if retry_after_s == 1 else "seconds"
        super().__init__(f"Too many attempts: wait {retry_after_s} {seconds}.")
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginLimits:
    """How much is admitted.

    one      wrong passwords for an e-mail address from one client address, in 15 minutes
    all      wrong passwords from one client address, in 15 minutes
    signups  accounts made from one client address, in an hour; four times as many from an IPv6 /48
    """

    one: int = 10
    all: int = 50
    signups: int = 20


class LoginLimit:
    """Counts guesses before they are checked, so that many at once do not exceed the limit."""

    def __init__(self, admitted: LoginLimits, limits: Limits) -> None:
        def window(name: str, count: int, window_s: int) -> Limiter:
            return limits.limiter(Limit(name=name, count=count, window_s=window_s))

        self._one = window("guesses", admitted.one, QUARTER_S)
        self._all = window("guesses of a client", admitted.all, QUARTER_S)
        self._signups = window("accounts of a client", admitted.signups, HOUR_S)
        self._site = window("accounts of a site", SITE_SHARES * admitted.signups, HOUR_S)

    async def begin(self, email: EmailAddress, client_address: str) -> None:
        """Count a guess at the password of *email* from a client.  Raises TooManyAttempts."""
        await _expect_room((self._all, client_address), (self._one, _pair(email, client_address)))

    async def forgive(self, email: EmailAddress, client_address: str) -> None:
        """Count a guess less: it was right, or was not checked."""
        await self._all.give_back(client_address)
        await self._one.give_back(_pair(email, client_address))

    async def sign_up(self, client_address: str) -> None:
        """Count an account made from *client_address*.  Raises TooManyAttempts."""
        await _expect_room((self._site, site_key(client_address)), (self._signups, client_address))


def _pair(email: EmailAddress, client_address: str) -> LimitKey:
    return f"{client_address} {email}"


async def _expect_room(*windows: tuple[Limiter, LimitKey]) -> None:
    denied = await take_all(windows)
    if denied is not None:
        raise TooManyAttempts(denied.retry_after_s)
