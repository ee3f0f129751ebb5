"""Rate limits by client address or account, budgets of account changes, and limits of free views.

A request that a limit refuses changes nothing.  Budgets of account changes do not count spends of
credits, of which the ledger accepts any number.  Moves of credits have separate limits.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from mintscope.kit.errors import RateLimited
from mintscope.kit.fair_queue import FairQueue
from mintscope.kit.http.request import ClientAddresses, Request
from mintscope.kit.http.response import Header
from mintscope.kit.limits import (
    Admitted,
    Denied,
    Limit,
    Limiter,
    LimitKey,
    Limits,
    of_a_site,
    site_key,
    take_all,
)
from mintscope.kit.metrics import ACCOUNT_WRITES
from mintscope.kit.time import DAY_S, MINUTE_S

LIMIT_HEADERS: Final = (b"ratelimit", b"x-ratelimit-")  # prefixes of header names


class RateLimit:
    """Counts requests against one limit, and adds the state of the limit to each response.

    Source  draft-ietf-httpapi-ratelimit-headers-10; older clients read the X- headers, in which
            X-RateLimit-Reset counts seconds from now
    """

    def __init__(self, limiter: Limiter) -> None:
        self._limiter = limiter

    async def pass_through(self, request: Request, key: LimitKey) -> None:
        """Count *request* against the limit of *key*.  Raises RateLimited."""
        verdict = await self._limiter.take(key)
        if request.response_headers:  # if there are two limits, show the later, narrower one
            request.response_headers = [
                each for each in request.response_headers if not each[0].startswith(LIMIT_HEADERS)
            ]
        request.response_headers += limit_headers(self._limiter.limit, verdict)
        if isinstance(verdict, Denied):
            raise RateLimited(verdict.retry_after_s)

    async def give_back(self, key: LimitKey) -> None:
        """Undo the count of one request of *key*."""
        await self._limiter.give_back(key)


class AddressLimit:
    """Limits the requests of each client address; an IPv6 /48 may send four times as many.

    Requests that arrive together continue one by one, in iterations of the event loop, so that
    clients that pay need not wait for all of them.
    """

    def __init__(
        self, limit: Limit, limits: Limits, *, addresses: ClientAddresses, queue: FairQueue
    ) -> None:
        # Addresses have windows apart from those of accounts, so that addresses cannot displace
        # accounts from memory.
        self._client = RateLimit(limits.limiter(limit, window=f"{limit.name}, by address"))
        self._site = RateLimit(limits.limiter(of_a_site(limit), window=f"{limit.name}, by site"))
        self._addresses = addresses
        self._queue = queue

    async def pass_through(self, request: Request) -> None:
        """Count *request* for its client; raise RateLimited instead if a limit is reached."""
        await self._queue.next()
        client, site = self._keys(request)
        if site != client:
            await self._site.pass_through(request, site)
        try:
            await self._client.pass_through(request, client)
        except RateLimited:
            if site != client:
                await self._site.give_back(site)
            raise

    async def give_back(self, request: Request) -> None:
        """Reduce the counts of the client of *request* by one."""
        client, site = self._keys(request)
        await self._client.give_back(client)
        if site != client:
            await self._site.give_back(site)

    def _keys(self, request: Request) -> tuple[str, str]:
        client = self._addresses.key(request.scope)
        return client, site_key(client)


@dataclass(frozen=True, slots=True)
class AddressLimits:
    """Creates rate limits by client address and by account.

    The limits by address share the queue in which requests wait for their turn.
    """

    limits: Limits
    addresses: ClientAddresses
    queue: FairQueue = field(default_factory=FairQueue)

    def of(self, limit: Limit) -> AddressLimit:
        """Return an object that allows *limit* requests to each client address."""
        return AddressLimit(limit, self.limits, addresses=self.addresses, queue=self.queue)

    def by_account(self, limit: Limit) -> RateLimit:
        """Return an object that allows *limit* requests to each account, from any address."""
        return RateLimit(self.limits.limiter(limit))


def limit_headers(limit: Limit, verdict: Admitted | Denied) -> tuple[Header, ...]:
    """Return the rate-limit headers that describe *limit* and *verdict*."""
    match verdict:
        case Admitted(remaining, reset_s):
            pass
        case Denied(reset_s):
            remaining = 0
    return (
        (b"ratelimit-policy", f'"{limit.name}";q={limit.count};w={limit.window_s}'.encode()),
        (b"ratelimit", f'"{limit.name}";r={remaining};t={reset_s}'.encode()),
        (b"x-ratelimit-limit", b"%d" % limit.count),
        (b"x-ratelimit-remaining", b"%d" % remaining),
        (b"x-ratelimit-reset", b"%d" % reset_s),
    )


WRITES: Final = Limit(name="account writes", count=500, window_s=DAY_S)
WRITES_OF_ALL: Final = Limit(name="account writes of all", count=600, window_s=MINUTE_S)
ALL: Final = "all"


class WriteBudget:
    """Limits how often accounts are changed: by one user, and by all users together.

    Budgets with the same limits share their counts.
    """

    def __init__(
        self, limits: Limits, *, of_account: Limit = WRITES, of_all: Limit = WRITES_OF_ALL
    ) -> None:
        self._account = limits.limiter(of_account)
        self._all = limits.limiter(of_all)

    async def spend(self, user_id: int, by: str) -> None:
        """Count a change by the account *user_id*.  Raises RateLimited if a limit is reached.

        by   the origin of the change, for the metric: "key" or "page"
        """
        verdict = await take_all([(self._account, user_id), (self._all, ALL)])
        if isinstance(verdict, Denied):
            ACCOUNT_WRITES.labels(by, "refused").inc()
            raise RateLimited(verdict.retry_after_s)
        ACCOUNT_WRITES.labels(by, "made").inc()


Windows = list[tuple[Limiter, LimitKey]]


@dataclass(frozen=True, slots=True)
class FreeViews:
    """The limits of free views in a day, for a client address and for an IPv6 /48."""

    of_client: Limiter
    of_site: Limiter

    @classmethod
    def of(
        cls, per_day: int, make: Callable[[Limit], Limiter], *, name: str = "free views"
    ) -> "FreeViews":
        """Return limits of *per_day* views for an address, and four times as many for an IPv6 /48.

        make   returns the limiter of a limit
        name   the name of the limits; limits with the same name share their counts
        """
        day = Limit(name=name, count=per_day, window_s=DAY_S)
        return cls(make(day), make(of_a_site(day)))

    def windows(self, address: str) -> Windows:
        """Return the limits that a view from *address* must pass, each with its key."""
        return [(self.of_site, site_key(address)), (self.of_client, address)]
