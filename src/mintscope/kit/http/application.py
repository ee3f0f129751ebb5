"""The ASGI application and its server, with conditional, compressed and constant-time responses.

Source    RFC 9110, sections 8.8.3, 12.5.3, 13.1.2 and 15.4.5

A constant-time response is sent after a fixed time plus a random part of a millisecond, both chosen
before any look-up.  A thread waits for the end of this time, because timers of the event loop count
whole milliseconds: with them, two kinds of work that differ by 15 us could be distinguished
(Kolmogorov-Smirnov test, 1,500 responses each: p = 1e-36; with a thread, p = 0.69).
"""

import asyncio
import gzip
import re
import secrets
import signal
import socket
import time
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field
from hashlib import sha256
from time import perf_counter
from types import FrameType
from typing import Final, TypeVar

import structlog
import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from typing_extensions import override

from mintscope.kit.clock import Clock
from mintscope.kit.errors import NotFound, ServiceError, ServiceUnavailable
from mintscope.kit.http.connection import protocol_of
from mintscope.kit.http.connections import Connections, FastPath, RefusalWriter
from mintscope.kit.http.rate_limit import AddressLimit
from mintscope.kit.http.request import (
    HAS_PAID,
    SLOW_DOWN,
    ClientAddresses,
    ClientDisconnected,
    Request,
)
from mintscope.kit.http.response import (
    NO_OUTLET,
    OUTLET_MESSAGE,
    AnyResponse,
    Bounds,
    Header,
    Outlet,
    PushedResponse,
    Response,
    StreamingResponse,
)
from mintscope.kit.http.routes import Cors, Route, Router
from mintscope.kit.metrics import DISCONNECTED_STATUS, REQUESTS

BODY_BYTES_MIN: Final = 1_000
LEVEL: Final = 4  # higher levels take twice the time for 1 % fewer bytes
LEVEL_OF_FILES: Final = 9  # for files, which are compressed only once
GZIP: Final[Header] = (b"content-encoding", b"gzip")
VARY: Final[Header] = (b"vary", b"Accept-Encoding")
PACKED: Final[frozenset[Header]] = frozenset(
    ((b"content-type", b"application/zip"), (b"content-type", b"application/gzip"))
)
CONTENT: Final = {b"content-type", b"content-length", b"content-encoding"}


def finish(request: Request, response: AnyResponse) -> AnyResponse:
    """Return *response*, compressed if long and accepted, or 304 if the client has its body.

    Streams and pushed bodies are returned unchanged.
    """
    if isinstance(response, Response):
        is_negotiable = len(response.body) >= BODY_BYTES_MIN and PACKED.isdisjoint(response.headers)
        if is_negotiable:
            response.headers += (VARY,)  # a 304 has it too: RFC 9110, section 15.4.5
        if response.etag:
            response = conditional(request, response)
        if is_negotiable and response.body:
            negotiate(request, response)
    return response


def version_of(body: bytes) -> str:
    """Return 12 characters that identify the content of *body* and can be part of a URL."""
    return urlsafe_b64encode(sha256(body).digest()[:9]).decode()


def etag_of(body: bytes) -> bytes:
    """Return the entity tag of *body*: a weak one, valid for the compressed form too."""
    return b'W/"%b"' % version_of(body).encode()


def conditional(request: Request, response: Response) -> Response:
    """Return *response* with its entity tag, or 304 if If-None-Match of *request* matches."""
    response.headers += ((b"etag", response.etag),)
    if not is_known(request, response.etag):
        return response
    headers = tuple(header for header in response.headers if header[0] not in CONTENT)
    return Response(304, headers=headers)


def is_known(request: Request, etag: bytes) -> bool:
    """Return whether If-None-Match of *request* contains *etag* or `*`."""
    opaque = etag.removeprefix(b"W/").decode()
    return any(
        tag.strip() == "*" or tag.strip().removeprefix("W/") == opaque
        for value in request.values(b"if-none-match")
        for tag in value.split(",")
    )


def compress(body: bytes, level: int = LEVEL) -> bytes | None:
    """Return *body* compressed; None if *body* is too short for a benefit."""
    return gzip.compress(body, level, mtime=0) if len(body) >= BODY_BYTES_MIN else None


def negotiate(request: Request, response: Response) -> None:
    """Compress the body of *response* if *request* accepts a compressed body."""
    # If *request* has a cookie, only a body with a compressed form (`gzipped`) is compressed,
    # because that body has no secrets.  An attacker could derive the secrets of other bodies from
    # the compressed length (BREACH).
    if not _accepts_gzip(request.value(b"accept-encoding")):
        return
    gzipped = response.gzipped
    if gzipped is None and b"cookie" not in request.headers:
        gzipped = compress(response.body)
    if gzipped is not None:
        response.body = gzipped
        response.headers += (GZIP,)


def _accepts_gzip(accepted: str) -> bool:
    """Return whether *accepted*, an Accept-Encoding header, allows gzip."""
    weights = {}
    for part in accepted.lower().split(","):
        name, _, parameter = part.partition(";")
        weight = parameter.strip().removeprefix("q=")
        # A weight of 0 forbids gzip in any form: `q=0`, `q=0.0`, `q=0.000`.
        weights[name.strip()] = weight.rstrip("0").rstrip(".") not in {"0", ""} or not parameter
    return weights.get("gzip", weights.get("*", False))


TOO_MANY_REQUESTS: Final = 429
CLOSE_S_MAX: Final = 5.0  # time limit for closing the chunks of a stream
WITHOUT_BODY: Final = {204, 304}
SLASH: Final = re.compile(b"%2f", re.IGNORECASE)

ErrorWriter = Callable[[Request, Exception], Awaitable[Response]]

log = structlog.get_logger()


@dataclass(eq=False, repr=False)
class HttpApplication:
    """Assigns each request an id, finds its route, and sends the route's response or an error."""

    router: Router[Route]
    _: KW_ONLY
    limit: AddressLimit  # counts requests by address, except those that a route counts itself
    write_error: ErrorWriter  # returns the response for an error; status 500 means a bug
    cors: Cors | None = None  # opens paths to pages of other origins; None: no path is open
    fast_path: FastPath | None = None  # answers plain requests instead of this application

    def __post_init__(self) -> None:
        self.websocket_paths = frozenset(
            route.path.encode() for route in self.router if route.takes_websocket
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request; if its response cannot be sent, undo its charge.

        If the request is cancelled before its response is ready, send a 503 and raise
        CancelledError.
        """
        assert scope["type"] == "http"
        began_s = perf_counter()
        request = Request(scope, receive)
        cancelled: asyncio.CancelledError | None = None
        try:
            try:
                response = await self._respond(request)
            except asyncio.CancelledError as error:
                # uvicorn cancels the requests that are still open after the grace period.
                cancelled = error
                request.take_back()
                response = await self.write_error(request, ServiceUnavailable(STOPPED))
            if request.if_unsent is not None:
                request.expect_client()
            await self._send(send, request, response)
            if cancelled is None:  # a 503 delivers nothing that was charged meanwhile
                request.note_sent()
            status = response.status
        except ClientDisconnected:
            status = DISCONNECTED_STATUS
        finally:
            request.end()
        REQUESTS.count(request.route, status, perf_counter() - began_s)
        if cancelled is not None:
            raise cancelled

    async def _respond(self, request: Request) -> AnyResponse:
        scope = request.scope
        try:
            if self.cors is not None and scope["method"] == "OPTIONS":
                preflight = self.cors.preflight(request)
                if preflight is not None:
                    await self.limit.pass_through(request)
                    return preflight
            route = await self._find(request)
            response = await route.endpoint(request)
            if route.is_charged:
                # A paid response is new and short, so compression is not worth its time.
                request.tell_connection(HAS_PAID)
                return response
            return finish(request, response)
        except ClientDisconnected:
            raise
        except Exception as error:
            request.take_back()
            failure = await self.write_error(request, error)
            if failure.status == TOO_MANY_REQUESTS:
                request.tell_connection(SLOW_DOWN)
            if failure.status == 500:  # noqa: PLR2004 - HTTP's own number
                log.exception("request failed", request_id=request.request_id.decode())
            return failure

    async def _find(self, request: Request) -> Route:
        """Return the route of *request*, and count the request in the rate limit of its client.

        The request is not counted here if the route counts it itself.  Raises ServiceError.  A path
        with %2F has no route, because an encoded slash does not separate segments.
        """
        scope = request.scope
        try:
            if SLASH.search(scope.get("raw_path") or b""):
                raise NotFound
            route, request.path_params = self.router.find(scope["method"], scope["path"])
        except ServiceError:
            await self.limit.pass_through(request)
            raise
        request.route = route.path
        request.found = route
        if not route.limits_itself:
            await self.limit.pass_through(request)
        return route

    async def _send(self, send: Send, request: Request, response: AnyResponse) -> None:
        headers: list[Header] = [
            *response.headers,
            (b"x-request-id", request.request_id),
            *request.response_headers,
        ]
        # A cache may send a public response to pages of other origins later.
        if self.cors is not None and (b"origin" in request.headers or _is_public(headers)):
            headers += self.cors.headers(request.path)
        is_head = request.scope["method"] == "HEAD"
        start = {"type": "http.response.start", "status": response.status, "headers": headers}
        if isinstance(response, PushedResponse):
            await _push(send, start, response, is_head=is_head)
            return
        if not isinstance(response, Response):
            await send(start)
            try:
                await _send_chunks(send, request, response, is_head=is_head)
            except ClientDisconnected:
                raise
            except Exception:
                # The head has been sent, so no error response is possible: the body breaks off.
                log.exception("request failed", request_id=request.request_id.decode())
            return
        if response.status not in WITHOUT_BODY:
            headers.append((b"content-length", b"%d" % len(response.body)))
        await send(start)
        await send({"type": "http.response.body", "body": b"" if is_head else response.body})


def _is_public(headers: Collection[Header]) -> bool:
    """Return whether a cache may store a response with *headers* for all clients."""
    return any(name == b"cache-control" and b"public" in value for name, value in headers)


async def _push(send: Send, start: Message, response: PushedResponse, *, is_head: bool) -> None:
    """Send the head of *response*, and let it write its body, even if the client has left.

    `push` of *response* is always called, because it may have to give back a charge.  For a HEAD,
    the response ends after the head, and `push` gets NO_OUTLET, which discards the body.
    """
    outlets: list[Outlet] = [NO_OUTLET]
    try:
        await send(start)
        if is_head:
            await send({"type": "http.response.body", "body": b""})
        else:
            await send({"type": OUTLET_MESSAGE, "take": outlets.append})
    finally:
        # Also without an outlet: *response* may have to give back a charge or its place.
        await response.push(outlets[-1])


async def _send_chunks(
    send: Send, request: Request, response: StreamingResponse, *, is_head: bool
) -> None:
    """Send the chunks of *response*, unless the request is a HEAD, and always close the generator.

    Raises    ClientDisconnected, the errors of the generator, and TimeoutError if a chunk is late.
              The body is then incomplete, which the client notices.
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
        # The tasks must have ended before `aclose`, which fails while a task runs the generator.
        sending.cancel()
        leaving.cancel()
        await asyncio.gather(sending, leaving, return_exceptions=True)
        async with asyncio.timeout(CLOSE_S_MAX):
            await response.chunks.aclose()


async def _send_all(send: Send, response: StreamingResponse) -> None:
    async with asyncio.timeout(response.chunk_s_max):
        await _send_chunk(send, b"")  # send the head before the first chunk is ready
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
    """Wait until the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


STOPS: Final = "this process is about to stop"
STOPPED: Final = (
    "The service stopped before it could answer, so the outcome of the request is unknown. If the"
    " request has a payment, do not pay again: send the same payment again."
)
LAST_S: Final = 2  # seconds in which open requests can still be answered in full


@dataclass(eq=False, repr=False)
class Draining:
    """The time in which a process that will stop still serves clients, but is not ready."""

    lasts_s: float = 0.0  # seconds in which readiness fails; 0: the process stops at once
    _: KW_ONLY
    at_begin: Callable[[], None] = lambda: None  # called when draining begins, if *lasts_s* > 0
    at_end: Callable[[], None] = lambda: None  # called when listening ends
    at_last: Callable[[], None] = lambda: None  # called LAST_S before open requests are cancelled
    has_begun: bool = field(default=False, init=False)

    async def expect_not_begun(self) -> None:
        """Raise ServiceUnavailable if this process is about to stop, so that it is not ready."""
        if self.has_begun:
            raise ServiceUnavailable(STOPS)


STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
GRACE_S: Final = 10  # seconds that open responses have to end when the server stops
TURN_S: Final = 0.1  # uvicorn expects its periodic work ten times a second
TURNS_OF_A_DAY: Final = 864_000


class Server(uvicorn.Server):
    """A uvicorn server; after a signal has stopped it, it does not raise the signal again."""

    obeys_signals = True
    stopped_by: int | None = None  # the number of the signal that stopped the server, if any

    def __init__(self, config: uvicorn.Config, draining: Draining | None = None) -> None:
        super().__init__(config)
        self.draining = draining or Draining()
        self._is_reported = asyncio.Event()

    @override
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to drain, and stop after `draining.lasts_s`; stop at once on a second signal."""
        self.stopped_by = sig
        if self.draining.lasts_s == 0 or self.draining.has_begun:
            super().handle_exit(sig, frame)
            self._is_reported.set()
            return
        self.draining.has_begun = True
        self.draining.at_begin()
        asyncio.get_running_loop().call_later(self.draining.lasts_s, self.stop)

    def stop(self) -> None:
        """Stop without a signal; do nothing if the server already stops."""
        self.should_exit = True
        self._is_reported.set()

    @override
    async def main_loop(self) -> None:
        """Run uvicorn's periodic work ten times a second until a stop is requested."""
        turn_count = 0
        while not await self.on_tick(turn_count % TURNS_OF_A_DAY):
            turn_count += 1
            # uvicorn sleeps here, and so notices a stop up to 0.1 s late.
            with suppress(TimeoutError):
                await asyncio.wait_for(self._is_reported.wait(), TURN_S)

    @override
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, and wait for open responses, if there are any."""
        self.draining.at_end()
        grace_s = self.config.timeout_graceful_shutdown
        assert grace_s is not None
        asyncio.get_running_loop().call_later(grace_s - LAST_S, self.draining.at_last)
        # uvicorn pauses for 0.1 s even if no connection is open.
        if self.server_state.connections or self.server_state.tasks:
            await super().shutdown(sockets)
            return
        for listening in (*self.servers, *(sockets or ())):
            listening.close()

    @override
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop the server on SIGINT or SIGTERM in the block, unless `obeys_signals` is False.

        A SIGINT after the server has begun to stop also ends open responses.
        """
        if not self.obeys_signals:
            yield
            return
        loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in STOP_SIGNALS:
                loop.remove_signal_handler(number)


def make_server(  # noqa: PLR0913 - one argument for each part
    app: ASGIApp,
    *,
    clock: Clock,
    addresses: ClientAddresses,
    bounds: Bounds,
    write_refusal: RefusalWriter,
    fast_path: FastPath | None = None,
    websocket_paths: Collection[bytes] = (),
    draining: Draining | None = None,
    grace_s: int = GRACE_S,
) -> Server:
    """Return a server for *app*; `await server.serve(sockets=[listen(...)])` runs it.

    The server ends on SIGINT, SIGTERM or `stop()`, after it has sent open responses, for which it
    waits at most *grace_s*.  The arguments up to *websocket_paths* are those of `Connections`.

    draining   the time and the actions between the signal and the stop; None: the server stops at
               once
    """
    connections = Connections(
        clock=clock,
        write_refusal=write_refusal,
        addresses=addresses,
        bounds=bounds,
        fast_path=fast_path,
        websocket_paths=websocket_paths,
    )
    return Server(
        uvicorn.Config(
            app,
            http=protocol_of(connections),
            ws="none",
            lifespan="off",
            proxy_headers=False,  # `ClientAddresses` reads these headers
            server_header=False,
            access_log=False,
            log_config=None,
            log_level="error",
            timeout_graceful_shutdown=grace_s,
        ),
        draining,
    )


@asynccontextmanager
async def serving_beside(server: Server, listener: socket.socket) -> AsyncIterator[None]:
    """Run *server* during the `with` block; *server* ignores signals."""
    server.obeys_signals = False
    task = asyncio.create_task(server.serve(sockets=[listener]), name="serve beside")
    try:
        yield
    finally:
        server.stop()
        await task


T = TypeVar("T")

LEAST_S: Final = 0.003  # ten times the duration of a look-up in the store
SPREAD_US: Final = 1_000
# Enough threads for two thousand responses a second, more than the rate limits allow.
_THREADS: Final = ThreadPoolExecutor(8, thread_name_prefix="constant-time")


async def evenly(work: Awaitable[T], *, least_s: float | None = None) -> T:
    """Return the result of *work*, or raise its error, after a fixed time that hides its duration.

    least_s   the time in seconds, to which up to a millisecond is added; it must exceed the
              duration of *work*; None: LEAST_S
    """
    wait_s = LEAST_S if least_s is None else least_s
    due_s = time.perf_counter() + wait_s + secrets.randbelow(SPREAD_US) / 1e6
    try:
        return await work
    finally:
        if wait_s > LEAST_S:  # only the end of the wait needs a thread
            await asyncio.sleep(due_s - LEAST_S - time.perf_counter())
        await asyncio.get_running_loop().run_in_executor(_THREADS, _sleep_until, due_s)


def _sleep_until(due_s: float) -> None:
    left_s = due_s - time.perf_counter()
    if left_s > 0:
        time.sleep(left_s)
