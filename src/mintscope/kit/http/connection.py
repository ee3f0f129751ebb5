"""An HTTP/1.1 connection, with bounds on requests and responses.

    request line and headers   16 KiB in all, 3 KiB of URL, 100 headers, else 431
    body                       64 KiB, declared or streamed, else 413; at most 1,024 pieces, else
                               400
    a whole request            14 s from its first byte (the first request: from the opening of the
                               connection), else 408; a silent connection is closed without a
                               response
    an unread response         the connection is closed if the client reads less than 4 KiB a second
                               of written data for 14 s, even if the data are short
    waiting requests           16; if one more arrives, the connection is closed after their
                               responses
    connections                a maximum in all, per client and per site: at the maximum, the oldest
                               without a whole request is closed, or else the one that has been idle
                               for longest, if that is 1 s or more; without such a connection, the
                               new one gets 503 and is closed
    ambiguity                  no Host in HTTP/1.1, several Hosts, two body lengths, bytes that are
                               not HTTP: 400

A refused request gets no response if responses to earlier requests are open: the connection is then
closed after these responses.

The application starts when the last byte of the body has arrived, so no endpoint sees a slow or
oversized body.
"""

import asyncio
from contextlib import suppress
from typing import Any, Final, NoReturn

from typing_extensions import override
from uvicorn import Config
from uvicorn.server import ServerState
from websockets.frames import CloseCode

from mintscope.kit.errors import (
    BadRequest,
    HeadersTooLarge,
    RequestTimeout,
    ServiceError,
    ServiceUnavailable,
)
from mintscope.kit.http.connections import Connections
from mintscope.kit.http.response import NO_HEAD, Head, body_too_large, fault_of, head_too_large
from mintscope.kit.http.websocket import UpgradingProtocol

READ_BYTES_MIN: Final = 4 * 1024  # bytes of a response that a client must read in a second
LINGER_S: Final = 1.0  # time for the client of a refused connection to read the response


class HttpProtocol(UpgradingProtocol):
    """A connection that refuses a request that exceeds the limits, and then closes."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._deadline: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._unread_bytes = 0  # length of the unread data when `_unread` was armed
        self._fault: ServiceError | None = None  # the fault for which the parser stopped
        self._in_head = False
        self._head = NO_HEAD
        self._chunk_bytes = 0  # length of the data that is being parsed
        self._later_bytes = 0  # bytes received after the first data of this request
        self._received = bytearray()
        self._pieces = 0  # pieces of the body received so far

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # By default, less than 64 KiB of unread data would not cause a call of `pause_writing`,
        # which starts their time limit.
        transport.set_write_buffer_limits(0)
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
    def _read(self, data: bytes) -> None:
        if self._websocket is not None:
            self._keep(0)
            self._websocket.receive(data)
            return
        if self._refused:
            self._keep(0)
            return
        self.open_connections.end_idling(self)
        self._chunk_bytes = len(data)
        if not self._whole:
            self._later_bytes += len(data)
        super()._read(data)
        if self._websocket is None:
            self._take_stock()

    def _take_stock(self) -> None:
        """Refuse the request being received if it is too large; else start its time limit."""
        if self._whole and not (self._keeps or self._refused or self._is_idle()):
            return  # most requests arrive in one piece
        self._keep(len(self._received))
        if self._refused:
            return
        if self._in_head and self._later_bytes > self._bounds.head_bytes_max:
            self._refuse(head_too_large(self._bounds))
        elif not self._whole and self._later_bytes > self._bounds.request_bytes_max:
            self._refuse(body_too_large(self._bounds))
        # Armed once for each request, so that single bytes do not extend its time.
        elif self._deadline is None and (not self._whole or self._is_idle()):
            self._arm()

    def on_message_begin(self) -> None:
        """Begin to receive another request; stop the parser if too many requests wait."""
        # One burst can have any number of requests: those of 32 connections took 750 MB.
        if len(self.pipeline) >= self._bounds.waiting_max:
            many = self._bounds.waiting_max
            self._stop(BadRequest(f"expected at most {many} requests that wait"))
        self.url = b""
        self.headers = []
        self._whole = False
        self._in_head = True
        self._later_bytes = 0
        self._pieces = 0

    def on_url(self, url: bytes) -> None:
        """Add a piece of the URL; stop the parser if the URL is too long."""
        self.url += url
        most = self._bounds.url_bytes_max
        if len(self.url) > most:
            self._stop(HeadersTooLarge(f"expected an address of at most {most} bytes"))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header to the request; stop the parser if the request has too many headers."""
        headers = self.headers
        if len(headers) >= self._bounds.headers_max:
            self._stop(HeadersTooLarge(f"expected at most {self._bounds.headers_max} headers"))
        headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Check the request line and the headers; `on_message_complete` then starts the answer."""
        self._in_head = False
        headers = self.headers
        head = Head(self.url, self.parser.get_http_version(), headers, dict(headers))
        self._head = head
        read_bytes = self._chunk_bytes + self._later_bytes
        fault = fault_of(head, read_bytes=read_bytes, bounds=self._bounds)
        if fault is not None:
            self._stop(fault)
        self.headers = []  # a trailer is not a header: it must not reach the application
        # After an open response, the client would read the line as a part of that response.
        if head.by_name.get(b"expect", b"").lower() == b"100-continue" and self._is_idle():
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        """Add a piece of the body; stop the parser if the body is too large."""
        self._received += body
        self._pieces += 1
        if self._pieces > self._bounds.body_pieces_max:
            pieces = self._bounds.body_pieces_max
            self._stop(BadRequest(f"expected a body in at most {pieces} pieces"))
        if len(self._received) > self._bounds.body_bytes_max:
            self._stop(body_too_large(self._bounds))

    def on_message_complete(self) -> None:
        """Dispatch the request, which is complete."""
        self._whole = True
        self._disarm()
        body = self._received
        if body:
            self._received = bytearray()
        self._dispatch(self._head, body)

    @override
    def give_way(self) -> None:
        """Close the connection to make room for another one, after its started responses."""
        is_silent = self._whole and not self._keeps
        refusal = ServiceUnavailable(
            "The connection was closed to make room for another: connect again."
        )
        if not self._is_idle():
            self._refuse(refusal)
            return
        # Before the connection is closed, because the caller gives its place to another one.
        self.open_connections.leave(self)
        if self._websocket is not None:
            self._websocket.close(CloseCode.TRY_AGAIN_LATER)
            self.transport.close()
        elif self._refused or is_silent:
            self._refused = True
            self.transport.close()
        else:
            self._refuse(refusal)
            self._linger()

    @override
    def _refuse_unreadable(self) -> None:
        self._refuse(self._fault or BadRequest("expected an HTTP/1.1 request; this is not one"))

    @override
    def pause_writing(self) -> None:
        super().pause_writing()
        self._expect_reading()

    @override
    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _expect_reading(self) -> None:
        self._unread_bytes = self.transport.get_write_buffer_size()
        self._unread = self.loop.call_later(self._bounds.unread_s_max, self._judge_reading)

    def _judge_reading(self) -> None:
        """Close the connection if its client has read too little since the last call."""
        read_bytes = self._unread_bytes - self.transport.get_write_buffer_size()
        if read_bytes >= READ_BYTES_MIN * self._bounds.unread_s_max:
            self._expect_reading()
        else:
            self.transport.abort()  # `close` would wait until the client reads the data

    def _stop(self, fault: ServiceError) -> NoReturn:
        """Stop the parser; `_refuse_unreadable` then refuses the request with *fault*."""
        self._fault = fault
        raise _Stop

    @override
    def _refuse(self, error: ServiceError) -> None:
        """Send the refusal *error*, and close the connection.

        If responses are open, the connection is closed after them, and *error* is not sent.
        """
        self._refused = True
        self._received = bytearray()
        self._keep(0)
        self._disarm()
        if self.cycle is not None and not self._is_idle():
            self.cycle.keep_alive = False
            self.cycle.is_followed_by_end = True
            self.flow.pause_reading()
            return
        self.transport.write(self.open_connections.refusal(error, path=self.url))
        self._end()

    @override
    def _go_on(self) -> None:
        super()._go_on()
        if self._refused and self._is_idle() and not self.transport.is_closing():
            self._end()

    def _end(self) -> None:
        """Send no more; close when the client closes its side, at the latest after LINGER_S."""
        if self.transport.can_write_eof():
            # Closing while the client still sends would reset the connection and lose the response.
            with suppress(OSError):  # the client may have closed the connection already
                self.transport.write_eof()
            self.open_connections.begin_idling(self, stays_s=0)
            self._deadline = self.loop.call_later(LINGER_S, self.transport.abort)
        else:
            self.transport.close()

    def _linger(self) -> None:
        """Close this refused connection at once if too many refused connections are still open."""
        if not self.open_connections.may_linger(self):
            self.transport.close()

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
            self.transport.close()  # no request has begun, so none needs a response
        else:
            bound_s = self._bounds.request_s_max
            self._refuse(RequestTimeout(f"expected the whole request within {bound_s:g} s"))


class _Stop(Exception):
    """Raised by a callback of the HTTP parser, to stop the parser."""


def protocol_of(connections: Connections) -> "type[HttpProtocol]":
    """Return a subclass of HttpProtocol for one server, whose connections join *connections*."""
    return type("HttpProtocol", (HttpProtocol,), {"open_connections": connections})
