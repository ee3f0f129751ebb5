"""How often somebody may apply: each makes us write to a mailbox, which may be anybody's."""

from dataclasses import replace

from mintscope.base.clock import Clock
from mintscope.base.errors import RateLimited
from mintscope.base.limits import SITE_SHARES, Limit, MovingWindow, site_key
from mintscope.edges.server.rate_limit import RateLimit
from mintscope.edges.server.request import Request


class SignupLimit:
    """Counts applications by client, and four times as many by the IPv6 /48 of the client."""

    def __init__(self, limit: Limit, clock: Clock) -> None:
        wide = replace(limit, name=f"{limit.name} of a site", count=SITE_SHARES * limit.count)
        self._client = RateLimit(MovingWindow(limit, clock))
        self._site = RateLimit(MovingWindow(wide, clock))

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
