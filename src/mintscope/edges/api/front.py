"""What happens to every request: an id, a reply in the envelope, a count."""

from time import perf_counter
from typing import Final

import structlog
from starlette.types import Receive, Scope, Send

from mintscope.base.clock import Clock
from mintscope.base.errors import (
    InternalError,
    MethodNotAllowed,
    PriceUnavailable,
    RateLimited,
    ServiceError,
)
from mintscope.base.metrics import REQUESTS
from mintscope.edges.api.errors import STATUS
from mintscope.edges.api.routes import Table
from mintscope.edges.server.request import NO_STORE, ClientGone, Header, Request, Response

PREFLIGHT: Final[tuple[Header, ...]] = (
    (b"access-control-allow-methods", b"GET, POST"),
    (
        b"access-control-allow-headers",
        b"Authorization, Content-Type, Idempotency-Key, PAYMENT-SIGNATURE",
    ),
    (b"access-control-max-age", b"86400"),
)
PRICE_RETRY_S: Final = 5  # as often as the source of a price is asked again
CLIENT_GONE_STATUS: Final = 499  # in the metrics only; nobody received it

log = structlog.get_logger()


class Front:
    """The ASGI application: every answer of the API leaves through here."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, whatever happens inside."""
        assert scope["type"] == "http"
        began_s = perf_counter()
        request = Request(scope, receive)
        try:
            reply = await self._response(request)
        except ServiceError as error:
            reply = self._refusal(request, error)
        except ClientGone:
            REQUESTS.count(request.route, CLIENT_GONE_STATUS, perf_counter() - began_s)
            return
        except Exception:
            log.exception("request failed", request_id=request.request_id.decode())
            reply = self._refusal(request, InternalError())
        await request.answer(send, reply)
        REQUESTS.count(request.route, reply.status, perf_counter() - began_s)

    async def _response(self, request: Request) -> Response:
        scope = request.scope
        if scope["method"] == "OPTIONS" and request.is_preflight():
            request.response_headers.extend(PREFLIGHT)
            return Response(204, b"")
        route, request.parameter = self._table.find(scope["method"], scope["path"])
        request.route = route.path
        return await route.handler(request)

    def _refusal(self, request: Request, error: ServiceError) -> Response:
        request.response_headers.append(NO_STORE)
        if isinstance(error, MethodNotAllowed):
            request.response_headers.append((b"allow", error.allowed.encode()))
        if isinstance(error, RateLimited):
            request.response_headers.append((b"retry-after", b"%d" % error.retry_after_s))
        if isinstance(error, PriceUnavailable):
            request.response_headers.append((b"retry-after", b"%d" % PRICE_RETRY_S))
        failing = self._table.failing(request.scope["path"])
        if failing.hides_code:
            request.response_headers.append((b"x-error-code", error.code.encode()))
        body = failing.write(error, at=self._clock.now(), request_id=request.request_id)
        return Response(STATUS[error.code], body)
