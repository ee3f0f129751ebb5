"""How often a secret may be tried: nobody without it can use up the turns of its owner."""

from mintscope.base.clock import Clock
from mintscope.base.errors import RateLimited
from mintscope.base.limits import Limit, MovingWindow
from mintscope.core.accounts.email_address import EmailAddress
from mintscope.edges.server.rate_limit import RateLimit
from mintscope.edges.server.request import Request


class ExchangeLimit:
    """Counts the right secret by e-mail address, anything else by that and the client together.

    Two windows of their own, so that strangers cannot crowd owners out of memory either.
    """

    def __init__(self, limit: Limit, clock: Clock) -> None:
        self._limit = limit
        self._right = RateLimit(MovingWindow(limit, clock))
        self._other = RateLimit(MovingWindow(limit, clock))

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
