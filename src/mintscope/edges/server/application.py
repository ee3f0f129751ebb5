"""The ASGI application: what happens to every request, whatever routes it has."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Final

import structlog
from starlette.types import Message, Receive, Scope, Send

from mintscope.base.errors import NotFound, ServiceError
from mintscope.base.metrics import DISCONNECTED_STATUS, REQUESTS
from mintscope.edges.server.content import finish
from mintscope.edges.server.cors import Cors
from mintscope.edges.server.protocol.express import Express
from mintscope.edges.server.rate_limit import AddressLimit
from mintscope.edges.server.request import HAS_PAID, SLOW_DOWN, ClientDisconnected, Request
from mintscope.edges.server.response import (
    AnyResponse,
    Header,
    PushedResponse,
    Response,
    StreamingResponse,
)
from mintscope.edges.server.routes import Route, Router
from mintscope.edges.server.streams.outlet import NO_OUTLET, OUTLET_MESSAGE, Outlet

TOO_MANY_REQUESTS: Final = 429
CLOSE_S_MAX: Final = 5.0  # for what the chunks of a stream must give back
WITHOUT_BODY: Final = {204, 304}
SLASH: Final = re.compile(b"%2f", re.IGNORECASE)

ErrorWriter = Callable[[Request, Exception], Awaitable[Response]]

log = structlog.get_logger()


class HttpApplication:
    """Gives a request an id, finds its route, and sends a response in every case.

    limit         counts by address what no route counts itself, unknown paths included
    write_error   returns the response of an error; its status is 500 for a bug
    cors          which paths pages of other origins may read; None for none
    express       what a server may ask before it asks this application; None for nothing
    websocket_paths  of the routes that a client may also open as a WebSocket
    """

    def __init__(
        self,
        router: Router[Route],
        *,
        limit: AddressLimit,
        write_error: ErrorWriter,
        cors: Cors | None = None,
        express: Express | None = None,
    ) -> None:
        self.express = express
        self.router = router
        self.websocket_paths = frozenset(
            route.path.encode() for route in router if route.takes_websocket
        )
        self._limit = limit
        self._write_error = write_error
        self._cors = cors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        assert scope["type"] == "http"
        began_s = perf_counter()
        request = Request(scope, receive)
        try:
            response = await self._respond(request)
            if request.if_unsent is not None:
                request.expect_client()
            await self._send(send, request, response)
            request.if_unsent = None
            status = response.status
        except ClientDisconnected:
            status = DISCONNECTED_STATUS
        finally:
            request.take_back()
        REQUESTS.count(request.route, status, perf_counter() - began_s)

    async def _respond(self, request: Request) -> AnyResponse:
        scope = request.scope
        try:
            if self._cors is not None and scope["method"] == "OPTIONS":
                preflight = self._cors.preflight(request)
                if preflight is not None:
                    await self._limit.pass_through(request)
                    return preflight
            route = await self._find(request)
            response = await route.endpoint(request)
            if route.is_charged:
                # A paid answer is of this moment, and a packet or two: its time matters more.
                request.tell_connection(HAS_PAID)
                return response
            return finish(request, response)
        except ClientDisconnected:
            raise
        except Exception as error:
            request.take_back()
            failure = await self._write_error(request, error)
            if failure.status == TOO_MANY_REQUESTS:
                request.tell_connection(SLOW_DOWN)
            if failure.status == 500:  # noqa: PLR2004 - HTTP's own number
                log.exception("request failed", request_id=request.request_id.decode())
            return failure

    async def _find(self, request: Request) -> Route:
        """Return the route of *request*, counted unless it does so itself.  Raises RateLimited.

        A slash that came as %2F divides nothing, so no route fits.
        """
        scope = request.scope
        try:
            _expect_plain_slashes(scope)
            route, request.path_params = self.router.find(scope["method"], scope["path"])
        except ServiceError:
            await self._limit.pass_through(request)
            raise
        request.route = route.path
        if not route.limits_itself:
            await self._limit.pass_through(request)
        return route

    async def _send(self, send: Send, request: Request, response: AnyResponse) -> None:
        headers: list[Header] = [
            *response.headers,
            (b"x-request-id", request.request_id),
            *request.response_headers,
        ]
        if b"origin" in request.headers and self._cors is not None:
            headers += self._cors.headers(request.path)
        is_head = request.scope["method"] == "HEAD"
        start = {"type": "http.response.start", "status": response.status, "headers": headers}
        if isinstance(response, PushedResponse):
            await _push(send, start, response)
            return
        if not isinstance(response, Response):
            await send(start)
            try:
                await _send_chunks(send, request, response, is_head=is_head)
            except ClientDisconnected:
                raise
            except Exception:
                log.exception("request failed", request_id=request.request_id.decode())
            return
        if response.status not in WITHOUT_BODY:
            headers.append((b"content-length", b"%d" % len(response.body)))
        await send(start)
        await send({"type": "http.response.body", "body": b"" if is_head else response.body})


def _expect_plain_slashes(scope: Scope) -> None:
    if SLASH.search(scope.get("raw_path") or b""):
        raise NotFound


async def _push(send: Send, start: Message, response: PushedResponse) -> None:
    """Send the head, and let others write the body; they hear of the end in every case."""
    outlets: list[Outlet] = [NO_OUTLET]
    try:
        await send(start)
        await send({"type": OUTLET_MESSAGE, "take": outlets.append})
    finally:
        await response.push(outlets[-1])


async def _send_chunks(
    send: Send, request: Request, response: StreamingResponse, *, is_head: bool
) -> None:
    """Send the body, nothing of it to HEAD, and close the chunks in every case.

    Raises    ClientDisconnected, and whatever the chunks raise: TimeoutError if one takes too long.
              The body is then cut off, so that the client sees that there is something missing.
    """
    if is_head:
        await response.chunks.aclose()
        await send({"type": "http.response.body", "body": b""})
        return
    sending = asyncio.create_task(_send_all(send, response))
    leaving = asyncio.create_task(_disconnect(request.receive))
    try:
        await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not sending.done():
            raise ClientDisconnected
        await sending
    finally:
        sending.cancel()
        leaving.cancel()
        await asyncio.gather(sending, leaving, return_exceptions=True)
        async with asyncio.timeout(CLOSE_S_MAX):
            await response.chunks.aclose()


async def _send_all(send: Send, response: StreamingResponse) -> None:
    async with asyncio.timeout(response.chunk_s_max):
        await _send_chunk(send, b"")  # the head leaves before the first chunk is there
    while True:
        async with asyncio.timeout(response.chunk_s_max):
            try:
                chunk = await anext(response.chunks)
            except StopAsyncIteration:
                break
            await _send_chunk(send, chunk)
    await send({"type": "http.response.body", "body": b""})


async def _send_chunk(send: Send, chunk: bytes) -> None:
    await send({"type": "http.response.body", "body": chunk, "more_body": True})


async def _disconnect(receive: Receive) -> None:
    """Return when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
