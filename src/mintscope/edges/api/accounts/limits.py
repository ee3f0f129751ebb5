"""How often an agent may apply, and how often it may try a secret."""

from dataclasses import replace

from mintscope.base.errors import RateLimited
from mintscope.base.limits import SITE_SHARES, Limit, Limits, site_key
from mintscope.core.accounts.email_address import EmailAddress
from mintscope.edges.server.rate_limit import RateLimit
from mintscope.edges.server.request import Request


class SignupLimit:
    """Counts applications, which cause e-mails, by client; four times as many by its IPv6 /48."""

    def __init__(self, limit: Limit, limits: Limits) -> None:
        wide = replace(limit, name=f"{limit.name} of a site", count=SITE_SHARES * limit.count)
        self._client = RateLimit(limits.limiter(limit))
        self._site = RateLimit(limits.limiter(wide))

    async def pass_through(self, request: Request, address: str) -> None:
        """Count *request*, or raise RateLimited and count nothing."""
        await self._site.pass_through(request, site_key(address))
        try:
            await self._client.pass_through(request, address)
        except RateLimited:
            await self._site.give_back(site_key(address))
            raise

    async def give_back(self, address: str) -> None:
        """Count one request of *address* less."""
        await self._client.give_back(address)
        await self._site.give_back(site_key(address))


class ExchangeLimit:
    """Counts the right secret by e-mail address, anything else by that and the client together.

    A client without the secret cannot use up the attempts of its owner.  The two windows are
    separate, so that strangers cannot crowd owners out of memory either.
    """

    def __init__(self, limit: Limit, limits: Limits) -> None:
        self._limit = limit
        self._right = RateLimit(limits.limiter(limit))
        self._other = RateLimit(limits.limiter(limit, window=f"{limit.name}, wrong secret"))

    async def pass_through(
        self, request: Request, email: EmailAddress, *, address: str, is_right: bool
    ) -> None:
        """Count *request*, or raise RateLimited: a whole window, as the specification says it."""
        try:
            if is_right:
                await self._right.pass_through(request, email)
            else:
                await self._other.pass_through(request, f"{email} {address}")
        except RateLimited as early:
            raise RateLimited(self._limit.window_s) from early
