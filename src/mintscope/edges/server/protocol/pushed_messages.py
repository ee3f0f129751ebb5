"""The response to a handshake: a body that others write becomes messages of a WebSocket."""

from typing import Any, Final, cast

from typing_extensions import override
from uvicorn._types import ASGISendEvent
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
from websockets.frames import CloseCode

from mintscope.core.market.updates.server_sent import message_of
from mintscope.edges.server.protocol.pushed_body import PushedBody
from mintscope.edges.server.protocol.websocket import WebSocket
from mintscope.edges.server.protocol.whole_response import WholeResponse
from mintscope.edges.server.streams.outlet import OUTLET_MESSAGE

OF_BODIES: Final = {b"content-type", b"content-length", b"x-accel-buffering"}


class PushedMessages(PushedBody):
    """Implements `server.streams.outlet.Outlet`: each event is a message, a comment is a ping."""

    __slots__ = ("_websocket",)

    def __init__(self, cycle: RequestResponseCycle, websocket: WebSocket) -> None:
        self._websocket = websocket
        super().__init__(cycle)

    @override
    def write(self, chunk: bytes) -> None:
        """Send *chunk*, one server-sent event."""
        if self.is_gone():
            return
        message = message_of(chunk)
        if message:
            self._websocket.send(message)
        else:
            self._websocket.ping()

    @override
    def end(self, chunk: bytes) -> None:
        """Send *chunk*, the last event, and close."""
        if self.is_gone():
            return
        self._websocket.send(message_of(chunk))
        self._websocket.close(CloseCode.NORMAL_CLOSURE)
        cycle = self._cycle
        cycle.response_complete = True
        cycle.message_event.set()
        cycle.on_response()

    @override
    def is_gone(self) -> bool:
        """Say whether the client has left or closed, or the body was ended."""
        cycle = self._cycle
        if self._websocket.has_ended and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
        return super().is_gone()


class MessagesResponse(WholeResponse):
    """Writes a pushed body as messages, after the handshake was answered.

    A response in one piece is a refusal: an HTTP response to a handshake that was not answered, a
    message and a close frame afterwards.
    """

    websocket: WebSocket

    @override
    async def send(self, message: ASGISendEvent) -> None:
        """Send *message* as `WholeResponse` would, or through the WebSocket."""
        kind: str = message["type"]
        if kind == OUTLET_MESSAGE:
            self._push(cast("Any", message))
        elif kind == "http.response.body" and self.websocket.is_open:
            self._refuse(cast("Any", message)["body"])
        else:
            await super().send(message)

    def _push(self, message: Any) -> None:
        head = self._head
        self._head = None
        assert head is not None, "expected the head before the outlet is asked for"
        self.response_started = True
        if not self.websocket.is_open:
            own = [header for header in head["headers"] if header[0] not in OF_BODIES]
            self.websocket.open([*self.default_headers, *own])
        message["take"](PushedMessages(self, self.websocket))

    def _refuse(self, body: bytes) -> None:
        head = self._head
        self._head = None
        assert head is not None, "expected the head before the body"
        self.response_started = self.response_complete = True
        self.websocket.refuse(head["status"], head["headers"], body)
        self.message_event.set()
        self.on_response()
