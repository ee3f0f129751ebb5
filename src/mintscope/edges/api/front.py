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
from mintscope.edges.server.request import NO_STORE, Call, ClientGone, Header, Reply

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
        call = Call(scope, receive)
        try:
            reply = await self._reply(call)
        except ServiceError as error:
            reply = self._refusal(call, error)
        except ClientGone:
            REQUESTS.count(call.route, CLIENT_GONE_STATUS, perf_counter() - began_s)
            return
        except Exception:
            log.exception("request failed", request_id=call.request_id.decode())
            reply = self._refusal(call, InternalError())
        await call.answer(send, reply)
        REQUESTS.count(call.route, reply.status, perf_counter() - began_s)

    async def _reply(self, call: Call) -> Reply:
        scope = call.scope
        if scope["method"] == "OPTIONS" and call.is_preflight():
            call.reply_headers.extend(PREFLIGHT)
            return Reply(204, b"")
        route, call.parameter = self._table.find(scope["method"], scope["path"])
        call.route = route.path
        return await route.handler(call)

    def _refusal(self, call: Call, error: ServiceError) -> Reply:
        call.reply_headers.append(NO_STORE)
        if isinstance(error, MethodNotAllowed):
            call.reply_headers.append((b"allow", error.allowed.encode()))
        if isinstance(error, RateLimited):
            call.reply_headers.append((b"retry-after", b"%d" % error.retry_after_s))
        if isinstance(error, PriceUnavailable):
            call.reply_headers.append((b"retry-after", b"%d" % PRICE_RETRY_S))
        failing = self._table.failing(call.scope["path"])
        if failing.hides_code:
            call.reply_headers.append((b"x-error-code", error.code.encode()))
        body = failing.write(error, at=self._clock.now(), request_id=call.request_id)
        return Reply(STATUS[error.code], body)
