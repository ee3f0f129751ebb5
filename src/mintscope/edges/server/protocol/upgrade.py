"""Handshakes of WebSockets: a connection of HTTP/1.1 that becomes one.

Only at the paths of `Connections.websocket_paths`; elsewhere an upgrade is answered as a request
without it. A handshake with a credential is a request: the application answers it. One without is
answered at once, and its first message completes the request.
"""

import asyncio
from abc import abstractmethod
from secrets import token_hex
from typing import Final

from typing_extensions import override
from websockets.frames import CloseCode

from mintscope.base.errors import RequestTimeout, ServiceError
from mintscope.edges.server.protocol.dispatch import (
    PLAIN_METHOD,
    PLAIN_VERSION,
    DispatchingProtocol,
)
from mintscope.edges.server.protocol.first_message import request_of
from mintscope.edges.server.protocol.head import Head
from mintscope.edges.server.protocol.pushed_messages import MessagesResponse
from mintscope.edges.server.protocol.websocket import WebSocket, handshake_fault

UPGRADE: Final = b"upgrade"
WEBSOCKET: Final = b"websocket"
CREDENTIALS: Final = (b"authorization", b"payment-signature")


class UpgradingProtocol(DispatchingProtocol):
    """A connection that may become a WebSocket."""

    _websocket: WebSocket | None = None
    _first_due: asyncio.TimerHandle | None = None

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._end_awaiting()
        if self._websocket is not None:
            self._websocket.forget()
            self._websocket = None
        super().connection_lost(exc)

    @override
    def shutdown(self) -> None:
        """Close, after the response under way; a WebSocket that awaits its message at once."""
        if self._websocket is not None and self._is_idle():
            self._websocket.close(CloseCode.GOING_AWAY)
        super().shutdown()

    @abstractmethod
    def _refuse(self, error: ServiceError) -> None:
        """Send the refusal *error* and close."""

    @override
    def _dispatch(self, head: Head, body: bytearray) -> None:
        if UPGRADE in head.by_name and not body and self._is_handshake(head):
            self._shake_hands(head)
        else:
            super()._dispatch(head, body)

    @override
    def _read_behind_upgrade(self, data: bytes) -> None:
        if self._websocket is not None and data:
            self._websocket.receive(data)

    def _is_handshake(self, head: Head) -> bool:
        return (
            head.by_name[UPGRADE].lower() == WEBSOCKET
            and head.url.partition(b"?")[0] in self.open_connections.websocket_paths
            and head.version == PLAIN_VERSION
            and self.parser.get_method() == PLAIN_METHOD
            and self.parser.should_upgrade()
            and self._is_idle()
        )

    def _shake_hands(self, head: Head) -> None:
        fault = handshake_fault(head)
        if fault is not None:
            self._refuse(fault)
            return
        if any(name in head.by_name for name in CREDENTIALS):
            self._websocket = WebSocket(self.transport, head, self._bounds, None)
            self._answer(head, self._websocket)
            return

        def complete(message: bytes) -> None:
            self._complete(head, message)

        self._websocket = WebSocket(self.transport, head, self._bounds, complete)
        self._websocket.open(self.server_state.default_headers)
        self.open_connections.begin_waiting(self)
        self._first_due = self.loop.call_later(
            self._bounds.first_message_s_max, self._first_overdue
        )

    def _complete(self, head: Head, message: bytes) -> None:
        """Answer the request that *message* completes."""
        websocket = self._websocket
        self._end_awaiting()
        if websocket is None:
            return
        try:
            whole = request_of(head, message)
        except ServiceError as error:
            self._refuse_message(websocket, error)
        else:
            self._answer(whole, websocket)

    def _answer(self, head: Head, websocket: WebSocket) -> None:
        scope = self._scope(PLAIN_METHOD.decode("ascii"), head)
        cycle = self._cycle(MessagesResponse, scope, bytearray(), keep_alive=False)
        cycle.websocket = websocket
        self._start(cycle)

    def _refuse_message(self, websocket: WebSocket, error: ServiceError) -> None:
        """Send *error*, which no route has seen, as the application would."""
        connections = self.open_connections
        refusal = connections.write_refusal(
            error, path=self.url, at=connections.clock.now(), request_id=token_hex(8).encode()
        )
        websocket.refuse(refusal.status, refusal.headers, refusal.body)

    def _first_overdue(self) -> None:
        self._end_awaiting()
        if self._websocket is not None:
            bound_s = self._bounds.first_message_s_max
            self._refuse_message(
                self._websocket, RequestTimeout(f"expected the first message within {bound_s:g} s")
            )

    def _end_awaiting(self) -> None:
        if self._first_due is not None:
            self._first_due.cancel()
            self._first_due = None
            self.open_connections.end_waiting(self)
