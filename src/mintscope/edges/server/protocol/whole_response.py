"""Responses in one piece are one write, and the bodies of others are written as they come."""

from contextlib import suppress
from typing import Any, TypeGuard, cast

from typing_extensions import override
from uvicorn._types import (
    ASGI3Application,
    ASGIReceiveCallable,
    ASGISendCallable,
    ASGISendEvent,
    HTTPResponseBodyEvent,
    HTTPResponseStartEvent,
    Scope,
)
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from mintscope.edges.server.protocol.pushed_body import PushedBody
from mintscope.edges.server.request import ClientDisconnected
from mintscope.edges.server.streams.outlet import OUTLET_MESSAGE


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
