"""How many passwords may be guessed: few for one address by a client, more by a client in all.

Strangers never lock the owner out: guesses of other clients do not count for the owner's.
"""

from dataclasses import dataclass
from typing import Final

from mintscope.base.limits import SITE_SHARES, Denied, Limit, Limiter, LimitKey, Limits, site_key
from mintscope.base.time import HOUR_S
from mintscope.core.accounts.email_address import EmailAddress

QUARTER_S: Final = 900


class TooManyAttempts(Exception):
    """Too many wrong passwords, or too many accounts made, lately; wait *retry_after_s*."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(f"Too many attempts: wait {retry_after_s} seconds.")
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

    async def begin(self, email: EmailAddress, address: str) -> None:
        """Count a guess at the password of *email* from *address*.  Raises TooManyAttempts."""
        await _expect_room(self._all, address)
        try:
            await _expect_room(self._one, _pair(email, address))
        except TooManyAttempts:
            await self._all.give_back(address)
            raise

    async def forgive(self, email: EmailAddress, address: str) -> None:
        """Count a guess less: it was right, or was not checked."""
        await self._all.give_back(address)
        await self._one.give_back(_pair(email, address))

    async def sign_up(self, address: str) -> None:
        """Count an account made from *address*.  Raises TooManyAttempts."""
        await _expect_room(self._site, site_key(address))
        try:
            await _expect_room(self._signups, address)
        except TooManyAttempts:
            await self._site.give_back(site_key(address))
            raise


def _pair(email: EmailAddress, address: str) -> LimitKey:
    return f"{address} {email}"


async def _expect_room(window: Limiter, key: LimitKey) -> None:
    verdict = await window.take(key)
    if isinstance(verdict, Denied):
        raise TooManyAttempts(verdict.retry_after_s)
