"""How often somebody may apply: each makes us write to a mailbox, which may be anybody's."""

from dataclasses import replace

from mintscope.base.clock import Clock
from mintscope.base.errors import RateLimited
from mintscope.base.limits import SITE_SHARES, site_key
from mintscope.edges.api.gate import RateLimit
from mintscope.edges.server.limiter import Limit, MovingWindow
from mintscope.edges.server.request import Call


class SignupLimit:
    """Counts applications by client, and four times as many by the IPv6 /48 of the client."""

    def __init__(self, limit: Limit, clock: Clock) -> None:
        wide = replace(limit, name=f"{limit.name} of a site", count=SITE_SHARES * limit.count)
        self._client = RateLimit(MovingWindow(limit, clock))
        self._site = RateLimit(MovingWindow(wide, clock))

    async def pass_through(self, call: Call, address: str) -> None:
        """Count *call*, or raise RateLimited and count nothing."""
        await self._site.pass_through(call, site_key(address))
        try:
            await self._client.pass_through(call, address)
        except RateLimited:
            await self._site.give_back(site_key(address))
            raise

    async def give_back(self, address: str) -> None:
        """Count one call of *address* less."""
        await self._client.give_back(address)
        await self._site.give_back(site_key(address))
