"""The ASGI application: what happens to every request, whatever routes it has."""

from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Final

import structlog
from starlette.types import Receive, Scope, Send

from mintscope.base.metrics import REQUESTS
from mintscope.edges.server.compression import BODY_BYTES_MIN, negotiate
from mintscope.edges.server.cors import Cors
from mintscope.edges.server.etag import conditional
from mintscope.edges.server.request import ClientDisconnected, Request
from mintscope.edges.server.response import AnyResponse, Header, Response
from mintscope.edges.server.routes import Route, Router
from mintscope.edges.server.stream import send_chunks

DISCONNECTED_STATUS: Final = 499  # in the metrics only: there is no client to receive it
WITHOUT_BODY: Final = {204, 304}

ErrorWriter = Callable[[Request, Exception], Awaitable[Response]]

log = structlog.get_logger()


class HttpApplication:
    """Gives a request an id, finds its route, and sends a response in every case.

    write_error   returns the response that tells an error; its status is 500 for a bug
    cors          which paths pages of other origins may read; None for none
    """

    def __init__(
        self, router: Router[Route], *, write_error: ErrorWriter, cors: Cors | None = None
    ) -> None:
        self._router = router
        self._write_error = write_error
        self._cors = cors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        assert scope["type"] == "http"
        began_s = perf_counter()
        request = Request(scope, receive)
        try:
            response = await self._respond(request)
            await self._send(send, request, response)
            status = response.status
        except ClientDisconnected:
            status = DISCONNECTED_STATUS
        REQUESTS.count(request.route, status, perf_counter() - began_s)

    async def _respond(self, request: Request) -> AnyResponse:
        scope = request.scope
        try:
            if self._cors is not None and scope["method"] == "OPTIONS":
                preflight = self._cors.preflight(request)
                if preflight is not None:
                    return preflight
            route, request.path_params = self._router.find(scope["method"], scope["path"])
            request.route = route.path
            response = await route.endpoint(request)
            # What is paid for is of this moment, and a packet or two: its time matters more.
            return response if route.is_charged else _finish(request, response)
        except ClientDisconnected:
            raise
        except Exception as error:
            failure = await self._write_error(request, error)
            if failure.status == 500:  # noqa: PLR2004 - HTTP's own number
                log.exception("request failed", request_id=request.request_id.decode())
            return failure

    async def _send(self, send: Send, request: Request, response: AnyResponse) -> None:
        headers: list[Header] = [
            *response.headers,
            (b"x-request-id", request.request_id),
            *request.response_headers,
        ]
        if b"origin" in request.headers and self._cors is not None:
            headers += self._cors.headers(request)
        is_head = request.scope["method"] == "HEAD"
        start = {"type": "http.response.start", "status": response.status, "headers": headers}
        if not isinstance(response, Response):
            await send(start)
            try:
                await send_chunks(send, request, response, is_head=is_head)
            except ClientDisconnected:
                raise
            except Exception:
                log.exception("request failed", request_id=request.request_id.decode())
            return
        if response.status not in WITHOUT_BODY:
            headers.append((b"content-length", b"%d" % len(response.body)))
        await send(start)
        await send({"type": "http.response.body", "body": b"" if is_head else response.body})


def _finish(request: Request, response: AnyResponse) -> AnyResponse:
    """Return what is sent of *response*: nothing that the client has, and less where it can be."""
    if isinstance(response, Response):
        if response.etag:
            response = conditional(request, response)
        if len(response.body) >= BODY_BYTES_MIN:
            negotiate(request, response)
    return response
