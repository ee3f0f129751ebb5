"""Rate limits of routes, and the headers that tell where they stand."""

from functools import lru_cache, partial
from typing import Final

from mintscope.base.errors import RateLimited
from mintscope.base.limits import Admitted, Denied, Limit, Limiter, LimitKey
from mintscope.edges.server.request import Request
from mintscope.edges.server.response import Header

LIMIT_HEADERS: Final = (b"ratelimit", b"x-ratelimit-")  # what their names begin with


class RateLimit:
    """Counts calls against one limit, and tells every reply where that stands.

    Source  draft-ietf-httpapi-ratelimit-headers-10; the X- headers are the older
            ones that clients still read, X-RateLimit-Reset in seconds from now
    """

    def __init__(self, limiter: Limiter) -> None:
        self._limiter = limiter
        self._headers = lru_cache(maxsize=4_096)(partial(limit_headers, limiter.limit))

    async def pass_through(self, request: Request, key: LimitKey) -> None:
        """Count *request* against the limit of *key*, or raise RateLimited."""
        verdict = await self._limiter.take(key)
        if request.response_headers:  # of two limits the reply tells the later, narrower one
            request.response_headers = [
                each for each in request.response_headers if not each[0].startswith(LIMIT_HEADERS)
            ]
        request.response_headers += self._headers(verdict)
        if isinstance(verdict, Denied):
            raise RateLimited(verdict.retry_after_s)

    async def give_back(self, key: LimitKey) -> None:
        """Count one request of *key* less."""
        await self._limiter.give_back(key)


def limit_headers(limit: Limit, verdict: Admitted | Denied) -> tuple[Header, ...]:
    """Return the headers that tell *verdict*."""
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
