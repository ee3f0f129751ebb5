"""Responses on a connection; a complete response is sent in one write."""

import asyncio
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Final

import structlog
from starlette.types import ASGIApp, Message, Scope

from mintscope.kit.http.request import ClientDisconnected
from mintscope.kit.http.response import OUTLET_MESSAGE, Header

# Bytes of the kernel's send buffer for a pushed body; by default, it grows to megabytes.
UNREAD_BYTES_MAX: Final = 64 * 1024
FAILURE: Final = b"Internal Server Error"
FAILURE_HEAD: Final[Message] = {
    "status": 500,
    "headers": [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", b"%d" % len(FAILURE)),
    ],
}
WITHOUT_BODY: Final = {204, 304}
WITHOUT_CHUNKS: Final = "1.0"  # its clients read a body until the connection ends
PHRASES: Final = {status.value: status.phrase for status in HTTPStatus}
STATUS_LINE: Final = {
    status: f"HTTP/1.1 {status} {PHRASES.get(status, '')}\r\n".encode()
    for status in range(100, 600)
}

log = structlog.get_logger()


class Flow:
    """The flow of data on one connection: whether it is read from, and whether writes must wait."""

    __slots__ = ("_is_writable", "_transport", "read_paused", "write_paused")

    def __init__(self, transport: asyncio.Transport) -> None:
        self.read_paused = False
        self.write_paused = False
        self._transport = transport
        self._is_writable = asyncio.Event()

    async def drain(self) -> None:
        """Wait until the client has read the written data, or has left."""
        while self.write_paused:
            await self._is_writable.wait()

    def pause_reading(self) -> None:
        """Stop reading from the connection; do nothing if reading is paused already."""
        if not self.read_paused:
            self.read_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Resume reading from the connection; do nothing if reading is not paused."""
        if self.read_paused:
            self.read_paused = False
            self._transport.resume_reading()

    def pause_writing(self) -> None:
        """Record that written data waits for the client to read it."""
        self.write_paused = True
        self._is_writable.clear()

    def resume_writing(self) -> None:
        """Record that the client has read the written data."""
        self.write_paused = False
        self._is_writable.set()


class WholeResponse:
    """A complete request for an ASGI application, with the methods that send its response.

    A response with one body message is written at once.  All headers come from this service, so
    they are checked only for line ends.
    """

    def __init__(  # noqa: PLR0913 - one argument for each part of the connection
        self,
        *,
        scope: Scope,
        transport: asyncio.Transport,
        flow: Flow,
        default_headers: Sequence[Header],
        body: bytearray,
        keep_alive: bool,
        on_response: Callable[[], None],
    ) -> None:
        self.scope = scope
        self.transport = transport
        self.flow = flow
        self.default_headers = default_headers
        self.body = body  # the body of the request
        self.keep_alive = keep_alive  # whether the connection stays open after the response
        self.on_response = on_response
        self.message_event = asyncio.Event()  # set when the response or the connection ends
        self.disconnected = False  # whether the client has left before the end of the response
        self.response_started = False
        self.response_complete = False
        self.is_followed_by_end = False  # whether `HttpProtocol` closes after the response
        self._head: Message | None = None
        self._is_received = False
        self._is_chunked = False
        self._left_bytes: int | None = None  # of the body, yet to be sent; None: it has no length

    async def run(self, app: ASGIApp) -> None:
        """Let *app* answer the request; if its response is not complete, send a 500 or close."""
        try:
            # uvicorn cancels tasks that are open after GRACE_S.
            with suppress(ClientDisconnected, asyncio.CancelledError):
                await app(self.scope, self.receive, self.send)
        except Exception:
            log.exception("application failed")
            self._fail()
        else:
            # A client that leaves is reported only to the newest request.
            if self.transport.is_closing():
                self.disconnected = True
            if not self.response_complete and not self.disconnected:
                log.error("application sent no whole response")
                self._fail()
        finally:
            self.on_response = _nothing

    async def receive(self) -> Message:
        """Return the request with its body; in later calls, wait until the response is over."""
        if not (self.disconnected or self.response_complete):
            self.flow.resume_reading()  # otherwise the loss of the connection is not noticed
            if not self._is_received:
                self._is_received = True
                body = bytes(self.body)
                self.body = bytearray()
                return {"type": "http.request", "body": body, "more_body": False}
            await self.message_event.wait()
            self.message_event.clear()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Write *message*; delay the head of a response until the first part of its body.

        Raises ClientDisconnected if the client has left before the response has begun.
        """
        if self.flow.write_paused:
            await self.flow.drain()
        if self.transport.is_closing():
            self.disconnected = True  # connection_lost marks only the newest request
        kind = message["type"]
        head = self._head
        if kind == "http.response.start":
            if head is not None or self.response_started:
                raise RuntimeError("expected one head of a response; there were two")
            self._head = message
            return
        self._head = None
        if kind == OUTLET_MESSAGE:
            assert head is not None, "expected the head before the outlet is asked for"
            self._write_head(head)
            message["take"](PushedBody(self))
            return
        if kind != "http.response.body":
            raise RuntimeError(f"expected the body of a response; there was {kind}")
        body = message.get("body", b"")
        is_last = not message.get("more_body", False)
        if head is None:
            self._write_body(body, is_last=is_last)
        elif self.disconnected:
            raise ClientDisconnected
        elif is_last and not self.flow.write_paused and self.scope["method"] != "HEAD":
            self._write_whole(head, body)
        else:
            self._write_head(head)
            self._write_body(body, is_last=is_last)

    def framed(self, body: bytes, *, is_last: bool) -> bytes:
        """Return a part of a response body as it is sent: as an HTTP chunk if it is chunked."""
        if not self._is_chunked:
            return body
        chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
        return chunk + b"0\r\n\r\n" if is_last else chunk

    def complete(self) -> None:
        """Record that the response is complete; start the next request, or close the connection."""
        self.response_complete = True
        self.message_event.set()
        if not self.keep_alive and not self.is_followed_by_end:
            self.transport.close()
        self.on_response()

    def _write_whole(self, head: Message, body: bytes) -> None:
        headers = [*self.default_headers, *head.get("headers", ())]
        # Without a length, the client would wait until the idle connection is closed
        has_length = any(name.lower() == b"content-length" for name, _ in headers)
        if not has_length and head["status"] not in WITHOUT_BODY:
            headers.append((b"content-length", b"%d" % len(body)))
        if not self.keep_alive:
            headers.append((b"connection", b"close"))
        lines = _lines_of(headers)
        self.response_started = True
        self.transport.write(b"%b%b\r\n\r\n%b" % (STATUS_LINE[head["status"]], lines, body))
        self.complete()

    def _write_head(self, head: Message) -> None:
        if self.disconnected:
            return
        status = head["status"]
        headers = [*self.default_headers, *head.get("headers", ())]
        by_name = {name.lower(): value for name, value in headers}
        length = by_name.get(b"content-length")
        has_body = self.scope["method"] != "HEAD" and status not in WITHOUT_BODY
        if not has_body:
            self._left_bytes = 0
        elif length is not None:
            self._left_bytes = int(length)
        else:
            self._is_chunked = self.scope["http_version"] != WITHOUT_CHUNKS
        if self._is_chunked:
            headers.append((b"transfer-encoding", b"chunked"))
        if not self.keep_alive:
            headers.append((b"connection", b"close"))
        lines = _lines_of(headers)
        self.response_started = True
        self.transport.write(b"%b%b\r\n\r\n" % (STATUS_LINE[status], lines))

    def _write_body(self, body: bytes, *, is_last: bool) -> None:
        if self.disconnected:
            return
        if not self.response_started or self.response_complete:
            raise RuntimeError("expected the head of a response before its body, and one end")
        if self._left_bytes is None:
            self.transport.write(self.framed(body, is_last=is_last))
        elif self.scope["method"] != "HEAD":
            self._left_bytes -= len(body)
            if self._left_bytes < 0 or (is_last and self._left_bytes):
                raise RuntimeError("expected a body of the length that the head says")
            self.transport.write(body)
        if is_last:
            self.complete()

    def _fail(self) -> None:
        """Send status 500; if the response has begun, close the connection instead."""
        if self.disconnected or self.transport.is_closing():
            return
        if self.response_started:
            self.transport.close()
            return
        self._head = None
        self.keep_alive = False
        self._write_whole(FAILURE_HEAD, FAILURE)


class PushedBody:
    """Writes the body of a response to the connection, each part at once."""

    __slots__ = ("_cycle",)

    def __init__(self, cycle: WholeResponse) -> None:
        self._cycle = cycle
        kept = cycle.transport.get_extra_info("socket")
        if kept is not None and not self.is_gone():
            kept.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, UNREAD_BYTES_MAX)

    def write(self, chunk: bytes) -> None:
        """Send *chunk*; do nothing if the client has left or the body has ended."""
        if not self.is_gone():
            self._cycle.transport.write(self._cycle.framed(chunk, is_last=False))

    def end(self, chunk: bytes) -> None:
        """Send *chunk*, and complete the response; do nothing if the client has left."""
        if self.is_gone():
            return
        self._cycle.transport.write(self._cycle.framed(chunk, is_last=True))
        self._cycle.complete()

    def is_behind(self) -> bool:
        """Return whether written data still waits for the client to read it."""
        return self._cycle.flow.write_paused

    def is_gone(self) -> bool:
        """Return whether the client has left, or the body has ended."""
        cycle = self._cycle
        if cycle.response_complete or cycle.disconnected:
            return True
        if cycle.transport.is_closing():
            cycle.disconnected = True  # connection_lost marks only the newest request
            cycle.message_event.set()
        return cycle.disconnected

    async def wait_gone(self) -> None:
        """Wait until the client has left or the body has ended.

        The loss of a connection may be noticed late, or never.
        """
        while not self.is_gone():
            await self._cycle.message_event.wait()
            self._cycle.message_event.clear()


def _lines_of(headers: Sequence[Header]) -> bytes:
    """Return *headers* as lines of HTTP.  Raises RuntimeError if one contains a line end."""
    lines = b"\r\n".join([b"%b: %b" % header for header in headers])
    # There is one line end between two headers: any other is inside a header.
    if lines.count(b"\n") >= len(headers) or lines.count(b"\r") >= len(headers):
        raise RuntimeError("expected headers without line ends")
    return lines


def _nothing() -> None:
    pass
