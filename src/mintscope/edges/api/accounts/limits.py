"""How often an agent may try a secret."""

from mintscope.base.errors import RateLimited
from mintscope.base.limits import Limit, Limits
from mintscope.core.accounts.email_address import EmailAddress
from mintscope.edges.server.rate_limit import RateLimit
from mintscope.edges.server.request import Request


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
