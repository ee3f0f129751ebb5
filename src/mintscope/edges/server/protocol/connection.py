"""One connection that speaks HTTP/1.1: uvicorn's protocol, with the bounds of `Bounds`.

    request line and headers   16 KiB in all, else 431
    body                       64 KiB, declared or streamed, else 413
    a whole request            14 s from its first byte, else 408; silence is just closed
    an unread response         cut off after 14 s
    requests that wait         16, then they are answered and the connection is closed
    connections                a maximum in all and per client: the oldest without a whole request
                               gives way, else 503 and closed
    ambiguity                  no Host or two, two lengths, bytes that are not HTTP: 400

The application sees whole requests only: it starts when the last byte of the
body is here, so a slow or oversized body never meets an endpoint.
"""

import asyncio
from functools import partial
from typing import Any, Final, NoReturn

from typing_extensions import override
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from mintscope.base.errors import (
    BadRequest,
    RequestTimeout,
    ServiceError,
    ServiceUnavailable,
)
from mintscope.edges.server.client_address import NOWHERE
from mintscope.edges.server.protocol.connections import Connections
from mintscope.edges.server.protocol.head import body_too_large, fault_of, head_too_large
from mintscope.edges.server.protocol.whole_response import WholeResponse
from mintscope.edges.server.request import GONE, HAS_PAID, SLOW_DOWN

LINGER_S: Final = 1.0  # a refused client may go on sending this long, so that it reads why


class HttpProtocol(HttpToolsProtocol):
    """One connection.

    Refusals that no route sees are written here.  They never overtake a
    response that is under way: that one is sent, then the connection is closed.
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
        self.url = b""  # uvicorn sets it when a request begins
        self._deadline: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._fault: ServiceError | None = None  # what made the parser stop
        self._refused = False
        self._is_slowed = False
        self._has_paid = False  # lately: it goes before those that have not
        self._whole = True  # no request has begun that has not ended
        self._in_head = False
        self._chunk_bytes = 0  # of what is being parsed
        self._later_bytes = 0  # of this request, after the chunk it began in
        self._extensions: dict[str, Any] = {}
        self._received = bytearray()

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
        if self.open_connections.enter(self, self._peer):
            self._arm()
        else:
            self._refuse(ServiceUnavailable("Too many connections are open."))
            self._linger()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        self.open_connections.leave(self)
        if self._unread is not None:
            self._unread.cancel()
        super().connection_lost(exc)

    @override
    def data_received(self, data: bytes) -> None:
        turns = self.open_connections.turns
        if self._has_paid or turns.take():
            self._read(data)
        else:
            self.flow.pause_reading()
            turns.wait(partial(self._read_in_turn, data))

    def _read_in_turn(self, data: bytes) -> bool:
        if self.transport.is_closing():
            return False
        self.flow.resume_reading()
        self._read(data)
        return True

    def _read(self, data: bytes) -> None:
        if self._refused:
            return
        self.open_connections.end_idling(self)
        self._chunk_bytes = len(data)
        if not self._whole:
            self._later_bytes += len(data)
        super().data_received(data)
        self._take_stock()

    def _take_stock(self) -> None:
        """Hold what has arrived of a request against the bounds, and start its time."""
        if self._refused:
            return
        if self._in_head and self._later_bytes > self._bounds.head_bytes_max:
            self._refuse(head_too_large(self._bounds))
        elif not self._whole and self._later_bytes > self._bounds.request_bytes_max:
            self._refuse(body_too_large(self._bounds))
        elif self._deadline is None and (not self._whole or self._is_idle()):
            self._arm()

    @override
    def on_message_begin(self) -> None:
        if len(self.pipeline) >= self._bounds.waiting_max:
            many = self._bounds.waiting_max
            self._stop(BadRequest(f"expected at most {many} requests that wait"))
        super().on_message_begin()
        self.scope["extensions"] = self._extensions
        self._whole = False
        self._in_head = True
        self._later_bytes = 0
        if self._received:
            self._received = bytearray()

    @override
    def on_headers_complete(self) -> None:
        """Judge the head; the application is started by `on_message_complete`."""
        self._in_head = False
        fault = fault_of(
            self.headers,
            url=self.url,
            version=self.parser.get_http_version(),
            read_bytes=self._chunk_bytes + self._later_bytes,
            bounds=self._bounds,
        )
        if fault is not None:
            self._stop(fault)
        self.headers = []  # a trailer is no header: it must not reach the application
        if self.expect_100_continue and self._is_idle():
            self.expect_100_continue = False
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    @override
    def on_body(self, body: bytes) -> None:
        self._received += body
        if len(self._received) > self._bounds.body_bytes_max:
            self._stop(body_too_large(self._bounds))

    @override
    def on_message_complete(self) -> None:
        self._whole = True
        self._disarm()
        super().on_headers_complete()
        # uvicorn names the class of its cycles in the middle of a long method.
        self.cycle.__class__ = WholeResponse
        if self._received:
            self.cycle.body = self._received
        if self.parser.should_upgrade():
            # The parser reads no further, and we speak no other protocol.
            self.cycle.keep_alive = False
        super().on_message_complete()

    @override
    def on_response_complete(self) -> None:
        """Go on with the next request: at once, or after a pause if the client asks too often."""
        if self._is_slowed and not self.transport.is_closing():
            self._is_slowed = False
            self.flow.pause_reading()
            self.open_connections.begin_idling(self, stays_s=0)
            self.loop.call_later(self._bounds.pause_s, self._go_on)
        else:
            self._go_on()

    def _go_on(self) -> None:
        self.open_connections.end_idling(self)
        super().on_response_complete()
        if self.pipeline:
            self.flow.pause_reading()  # those that wait come first
        elif not self._is_idle():
            pass
        elif self._whole:
            self.open_connections.begin_idling(self, stays_s=self._bounds.idle_s_min)
        else:
            self.open_connections.begin_waiting(self)

    def _note_paid(self) -> None:
        self._has_paid = True

    def _slow_down(self) -> None:
        # A proxy's connection carries the requests of others as well.
        self._has_paid = False
        self._is_slowed = not self.open_connections.addresses.is_proxy(self._peer)

    def give_way(self) -> None:
        """Close, so that there is room for another connection."""
        self.open_connections.leave(self)
        if self._whole or self._refused:
            self._refused = True
            self.transport.close()
        else:
            self._refuse(ServiceUnavailable("Others needed the connection before the request."))
            self._linger()

    @override
    def send_400_response(self, msg: str) -> None:
        self._refuse(self._fault or BadRequest("expected an HTTP/1.1 request; this is not one"))

    @override
    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(self._bounds.unread_s_max, self.transport.abort)

    @override
    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _stop(self, fault: ServiceError) -> NoReturn:
        """Leave the parser; it reports back through `send_400_response`."""
        self._fault = fault
        raise _Stop

    def _refuse(self, error: ServiceError) -> None:
        """Send the refusal *error* and close, after the responses that are under way."""
        self._refused = True
        self._disarm()
        if not self._is_idle():
            self.cycle.keep_alive = False
            self.flow.pause_reading()
            return
        self.transport.write(self.open_connections.refusal(error, path=self.url))
        if self.transport.can_write_eof():
            # Closing while the client still sends would reset the connection and lose the response.
            self.transport.write_eof()
            self.open_connections.begin_idling(self, stays_s=0)
            self._deadline = self.loop.call_later(LINGER_S, self.transport.abort)
        else:
            self.transport.close()

    def _linger(self) -> None:
        """Close at once what is not counted any more, if too many of those are still open."""
        if not self.open_connections.may_linger(self):
            self.transport.close()

    def _is_idle(self) -> bool:
        """Say whether no response is under way."""
        cycle: RequestResponseCycle | None = self.cycle  # uvicorn's own type forgets the None
        return cycle is None or cycle.response_complete

    def _arm(self) -> None:
        if self._is_idle():
            self.open_connections.begin_waiting(self)
        self._deadline = self.loop.call_later(self._bounds.request_s_max, self._overdue)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self.open_connections.end_waiting(self)
            self._deadline.cancel()
            self._deadline = None

    def _overdue(self) -> None:
        if self._whole:
            self.transport.close()  # no request has begun: there is nothing to respond to
        else:
            bound_s = self._bounds.request_s_max
            self._refuse(RequestTimeout(f"expected the whole request within {bound_s:g} s"))


class _Stop(Exception):
    """Ends parsing from inside one of its callbacks."""


def protocol_of(connections: Connections) -> "type[HttpProtocol]":
    """Return the protocol class of one server, as uvicorn's `http` option takes it."""
    return type("HttpProtocol", (HttpProtocol,), {"open_connections": connections})
