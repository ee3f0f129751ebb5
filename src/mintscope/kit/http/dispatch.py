"""Dispatch of whole requests, pace of connections, pushed bodies.

When a connection is read: in its turn, not while requests wait, and after a pause.

The body of a response that others write: each chunk goes to the connection at once.

Responses in one piece are one write, and the bodies of others are written as they come.

The handler of a whole request: the express if it is plain, else the application.
"""

import asyncio
import socket
from abc import abstractmethod
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeGuard, TypeVar, cast
from urllib.parse import unquote

import httptools
from httptools import HttpParserError, HttpParserUpgrade
from typing_extensions import override
from uvicorn._types import (
    ASGI3Application,
    ASGIReceiveCallable,
    ASGISendCallable,
    ASGISendEvent,
    HTTPResponseBodyEvent,
    HTTPResponseStartEvent,
    HTTPScope,
    Scope,
)
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)
from uvicorn.server import ServerState

from mintscope.kit.http.connections import Connections, FastPathCycle
from mintscope.kit.http.request import GONE, HAS_PAID, NOWHERE, SLOW_DOWN, ClientDisconnected
from mintscope.kit.http.response import OUTLET_MESSAGE, Head


class PacedProtocol(HttpToolsProtocol):
    """A connection that is read no faster than its client may ask.

    One connection is read in each turn of the event loop, and at once those whose last request was
    paid for: so many others never stand before a client that pays.
    """

    open_connections: Connections

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._bounds = self.open_connections.bounds
        self._is_slowed = False
        self._has_paid = False
        self._refused = False
        self._keeps = 0
        self._whole = True  # no request has begun that has not ended
        self._extensions: dict[str, Any] = {}

    @property
    def _peer(self) -> str:
        return self.client[0] if self.client else NOWHERE

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._extensions = {
            GONE: transport.is_closing,
            HAS_PAID: self._note_paid,
            SLOW_DOWN: self._slow_down,
        }

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        # Cycles through this connection are not left to the garbage collector: after a
        # flood of connections it stopped the loop for 100 ms.
        self.pipeline.clear()
        self._extensions.clear()
        self._extensions[GONE] = _is_gone
        self.cycle = self.scope = None  # type: ignore[assignment]  # uvicorn forgets the None

    @override
    def data_received(self, data: bytes) -> None:
        if self._has_paid or self.open_connections.turns.take():
            self._read(data)
        else:
            self.flow.pause_reading()
            self.open_connections.turns.wait(partial(self._read_in_turn, data))
            self._keep(self._keeps + len(data))

    def _read(self, data: bytes) -> None:
        """Parse *data*."""
        try:
            self.parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            self._read_behind_upgrade(data[upgrade.args[0] :])
        except HttpParserError as error:
            self.send_400_response(str(error))

    def _read_behind_upgrade(self, data: bytes) -> None:
        """Read what follows an upgrade: another protocol's, so nothing if we speak none."""

    def _read_in_turn(self, data: bytes) -> bool:
        if self.transport.is_closing():
            return False
        self.flow.resume_reading()
        self._read(data)
        return True

    @override
    def on_response_complete(self) -> None:
        """Go on with the next request: at once, or after a pause if the client asks too often."""
        if self._is_slowed and not self.transport.is_closing():
            self._is_slowed = False
            self.flow.pause_reading()
            self.open_connections.begin_idling(self, stays_s=0)
            self.loop.call_later(self._bounds.pause_s, self._go_on_after_pause)
        else:
            self._go_on()

    @abstractmethod
    def give_way(self) -> None:
        """Close, so that there is room for another connection."""

    def _go_on_after_pause(self) -> None:
        self.open_connections.end_idling(self)
        self._go_on()

    def _go_on(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._start_asgi_task(cycle, app)
        if not self.pipeline:  # those that wait come first
            self.flow.resume_reading()
        if not self._is_idle():
            return
        if self._whole:
            self.open_connections.begin_resting(self)
        else:
            self.open_connections.begin_waiting(self)

    def _keep(self, size: int) -> None:
        """Note that *size* bytes are kept of what no route has seen yet."""
        if size != self._keeps:
            self._keeps = size
            self.open_connections.keep(self, size)

    def _note_paid(self) -> None:
        self._has_paid = True

    def _slow_down(self) -> None:
        self._has_paid = False
        # A proxy's connection carries the requests of others as well.
        self._is_slowed = not self.open_connections.addresses.is_proxy(self._peer)

    def _is_idle(self) -> bool:
        """Say whether no response is under way."""
        cycle: RequestResponseCycle | None = self.cycle  # uvicorn's own type forgets the None
        return cycle is None or cycle.response_complete


def _is_gone() -> bool:
    return True


UNREAD_BYTES_MAX: Final = 64 * 1024  # in the kernel, which takes megabytes if it is let


class PushedBody:
    """Implements `server.streams.outlet.Outlet`."""

    __slots__ = ("_cycle",)

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle
        kept = cycle.transport.get_extra_info("socket")
        if kept is not None and not self.is_gone():
            kept.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, UNREAD_BYTES_MAX)

    def write(self, chunk: bytes) -> None:
        """Send *chunk*."""
        if not self.is_gone():
            self._cycle.transport.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))

    def end(self, chunk: bytes) -> None:
        """Send *chunk*, and go on with the next request; or close, if that is asked for."""
        if self.is_gone():
            return
        cycle = self._cycle
        cycle.transport.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(chunk), chunk))
        cycle.response_complete = True
        cycle.message_event.set()
        if not cycle.keep_alive and not getattr(cycle, "is_followed_by_end", False):
            cycle.transport.close()
        cycle.on_response()

    def is_behind(self) -> bool:
        """Say whether the client has yet to read some of what was written."""
        return self._cycle.flow.write_paused

    def is_gone(self) -> bool:
        """Say whether the client has left, or the body was ended."""
        cycle = self._cycle
        if cycle.response_complete or cycle.disconnected:
            return True
        if cycle.transport.is_closing():
            cycle.disconnected = True  # uvicorn reports it to the newest request alone
            cycle.message_event.set()
        return cycle.disconnected

    async def wait_gone(self) -> None:
        """Return once `is_gone`; of a client that leaves without a word it may not be known."""
        while not self.is_gone():
            await self._cycle.message_event.wait()
            self._cycle.message_event.clear()


class WholeResponse(RequestResponseCycle):
    """Writes a response with one body message in one piece.

    The headers are our own, so instead of examining each it suffices to see
    that none of them holds a line end.
    """

    is_followed_by_end = False  # the connection is not closed here, but after what is sent yet
    _head: HTTPResponseStartEvent | None = None

    @override
    async def run_asgi(self, app: ASGI3Application) -> None:
        """Let *app* answer; to a client that has left it owes nothing.

        uvicorn knows of those who leave while their newest request is under way, and takes no
        answer to another one for a mistake of the application.
        """

        async def answer(
            scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable
        ) -> None:
            with suppress(ClientDisconnected):
                await app(scope, receive, send)
            if self.transport.is_closing():
                self.disconnected = True

        await super().run_asgi(answer)

    @override
    async def send(self, message: ASGISendEvent) -> None:
        """Send *message* as uvicorn would; keep a head back until the body is here.

        Raises ClientDisconnected for a response of which nothing was sent: its client has left.
        """
        if self.flow.write_paused:
            await self.flow.drain()
        if self.transport.is_closing():
            self.disconnected = True  # uvicorn reports it to the newest request alone
        if message["type"] == "http.response.start" and self._head is None:
            self._head = message
            return
        head = self._head
        self._head = None
        kind: str = message["type"]
        if kind == OUTLET_MESSAGE:
            assert head is not None, "expected the head before the outlet is asked for"
            await super().send(head)
            cast("Any", message)["take"](PushedBody(self))
        elif head is None:
            await super().send(message)
        elif self.disconnected:
            raise ClientDisconnected
        elif self._fits_in_one_piece(message):
            self._write_whole(head, message["body"])
        else:
            await super().send(head)
            await super().send(message)

    def _fits_in_one_piece(self, message: ASGISendEvent) -> TypeGuard[HTTPResponseBodyEvent]:
        return (
            message["type"] == "http.response.body"
            and not message.get("more_body", False)
            and not self.flow.write_paused
            and not self.disconnected
            and self.scope["method"] != "HEAD"
        )

    def _write_whole(self, head: HTTPResponseStartEvent, body: bytes) -> None:
        headers = [*self.default_headers, *head["headers"]]
        if not self.keep_alive:
            headers.append((b"connection", b"close"))
        lines = b"\r\n".join([b"%b: %b" % header for header in headers])
        if lines.count(b"\n") >= len(headers) or lines.count(b"\r") >= len(headers):
            raise RuntimeError("expected headers without line ends")
        self.response_started = True
        self.transport.write(b"%b%b\r\n\r\n%b" % (STATUS_LINE[head["status"]], lines, body))
        self.response_complete = True
        if self.body:
            self.body = bytearray()  # not read; the connection may stay
        self.message_event.set()
        if not self.keep_alive and not self.is_followed_by_end:
            self.transport.close()
        self.on_response()


PLAIN_METHOD: Final = b"GET"
PLAIN_VERSION: Final = "1.1"
Cycle = TypeVar("Cycle", bound=WholeResponse)


class DispatchingProtocol(PacedProtocol):
    """A connection whose requests are answered in the order in which they came."""

    _express_cycle: FastPathCycle | None = None  # under way

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if self._express_cycle is not None:
            self._express_cycle.leave()
            self._express_cycle = None
        super().connection_lost(exc)

    def _dispatch(self, head: Head, body: bytearray) -> None:
        """Begin to answer the request that the parser has just read to its end."""
        parser = self.parser
        express = self.open_connections.express
        method = parser.get_method()
        # The parser reads nothing behind an upgrade, and we speak no other protocol.
        stays = head.version != "1.0" and parser.should_keep_alive() and not parser.should_upgrade()
        if (
            express is not None
            and method == PLAIN_METHOD
            and head.version == PLAIN_VERSION
            and stays
            and not body
            and not self.flow.write_paused
            and self._is_idle()
        ):
            cycle = FastPathCycle(self, head)
            before = self.cycle
            self._express_cycle = cycle
            self.cycle = cycle  # type: ignore[assignment]  # it stands for one of uvicorn's
            if express.take(cycle):
                return
            self._express_cycle = None
            self.cycle = before
        scope = self._scope(method.decode("ascii"), head)
        self._start(self._cycle(WholeResponse, scope, body, keep_alive=stays))

    def start_instead(self, cycle: FastPathCycle) -> None:
        """Let the application answer the request of *cycle*, which was first in line."""
        scope = self._scope(PLAIN_METHOD.decode("ascii"), cycle.head)
        ordinary = self._cycle(WholeResponse, scope, bytearray(), keep_alive=cycle.keep_alive)
        ordinary.more_body = False
        ordinary.is_followed_by_end = cycle.is_followed_by_end
        ordinary.disconnected = cycle.disconnected
        newest: object = self.cycle
        if newest is cycle:
            self.cycle = ordinary
        self._express_cycle = None
        cycle.response_complete = True
        self._start_asgi_task(ordinary, self.app)

    def write_express(self, cycle: FastPathCycle, response: bytes) -> None:
        """Write *response*, and go on with the next request."""
        self._express_cycle = None
        cycle.response_complete = True
        self._note_paid()
        self.transport.write(response)
        if not cycle.keep_alive and not cycle.is_followed_by_end:
            self.transport.close()
        self.on_response_complete()

    def is_gone(self) -> bool:
        """Say whether the client has left."""
        return self.transport.is_closing()

    def date_lines(self) -> bytes:
        """Return the header lines that every response of the server begins with."""
        return self.open_connections.lines_of(self.server_state.default_headers)

    def _start(self, cycle: WholeResponse) -> None:
        """Let the application answer *cycle*, once those before it are answered."""
        is_first = self._is_idle()
        self.cycle = cycle
        if is_first:
            self._start_asgi_task(cycle, self.app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, self.app))

    def _cycle(
        self, kind: type[Cycle], scope: HTTPScope, body: bytearray, *, keep_alive: bool
    ) -> Cycle:
        cycle = kind(
            scope=scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=self.access_log,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=keep_alive,
            on_response=self.on_response_complete,
        )
        cycle.body = body
        cycle.more_body = False
        cycle.message_event.set()
        return cycle

    def _scope(self, method: str, head: Head) -> HTTPScope:
        """Return the ASGI scope of a request, as uvicorn makes it."""
        parsed = httptools.parse_url(head.url)
        path = parsed.path.decode("ascii")
        return {
            "type": "http",
            "asgi": {"version": self.asgi_version, "spec_version": "2.3"},
            "http_version": head.version,
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme or "http",
            "method": method,
            "root_path": self.root_path,
            "path": self.root_path + (unquote(path) if "%" in path else path),
            "raw_path": self.root_path.encode("ascii") + parsed.path,
            "query_string": parsed.query or b"",
            "headers": head.headers,
            "state": self.app_state.copy(),
            "extensions": self._extensions,
        }
