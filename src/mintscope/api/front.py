"""What happens to every request: an id, an answer in the envelope, a count."""

from time import perf_counter
from typing import Final

import structlog
from prometheus_client import Counter, Histogram
from starlette.types import ASGIApp, Receive, Scope, Send

from mintscope.api.call import NO_STORE, Call, ClientGone, Header, Reply
from mintscope.api.errors import STATUS
from mintscope.api.wire import failure
from mintscope.clock import Clock
from mintscope.errors import (
    InternalError,
    MethodNotAllowed,
    RateLimited,
    ServiceError,
)
from mintscope.observe import REQUEST_S, REQUESTS

PREFLIGHT: Final[tuple[Header, ...]] = (
    (b"access-control-allow-methods", b"GET, POST"),
    (
        b"access-control-allow-headers",
        b"Authorization, Content-Type, Idempotency-Key, PAYMENT-SIGNATURE",
    ),
    (b"access-control-max-age", b"86400"),
)
UNROUTED: Final = "unrouted"
CLIENT_GONE_STATUS: Final = 499  # in the metrics only; nobody received it

log = structlog.get_logger()


class Front:
    """The outermost ASGI application: every answer of the service leaves through here."""

    def __init__(self, app: ASGIApp, clock: Clock) -> None:
        self._app = app
        self._clock = clock
        self._counters: dict[tuple[str, int], tuple[Counter, Histogram]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, whatever happens inside."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started_s = perf_counter()
        call = scope["call"] = Call(scope)
        try:
            if _is_preflight(call):
                call.reply_headers.extend(PREFLIGHT)
                await call.answer(send, Reply(204, b""))
            else:
                await self._app(scope, receive, send)
        except ServiceError as error:
            await self._refuse(call, send, error)
        except ClientGone:
            call.status = CLIENT_GONE_STATUS
        except Exception:
            log.exception("request failed", request_id=call.request_id.decode())
            await self._refuse(call, send, InternalError())
        self._count(call, perf_counter() - started_s)

    async def _refuse(self, call: Call, send: Send, error: ServiceError) -> None:
        if call.status:
            raise error  # too late for another answer: the connection is closed
        call.reply_headers.append(NO_STORE)
        if isinstance(error, MethodNotAllowed):
            call.reply_headers.append((b"allow", error.allowed.encode()))
        if isinstance(error, RateLimited):
            call.reply_headers.append((b"retry-after", b"%d" % error.retry_after_s))
        body = failure(error, at=self._clock.now(), request_id=call.request_id)
        await call.answer(send, Reply(STATUS[error.code], body))

    def _count(self, call: Call, elapsed_s: float) -> None:
        route = call.scope.get("route")
        key = (UNROUTED if route is None else route.path, call.status)
        counters = self._counters.get(key)
        if counters is None:
            path, status = key
            counters = REQUESTS.labels(path, str(status)), REQUEST_S.labels(path)
            self._counters[key] = counters
        requests, seconds = counters
        requests.inc()
        seconds.observe(elapsed_s)


def _is_preflight(call: Call) -> bool:
    return (
        call.scope["method"] == "OPTIONS"
        and b"access-control-request-method" in call.headers
        and call.scope["path"].startswith("/v1/")
    )
