"""WebSockets at the paths of `Connections.websocket_paths`: handshake and pushed messages.

The application answers a handshake that has a credential.  A handshake without a credential is
answered at once; then the first message completes the request with a credential.  Browsers need
this, because a page cannot set headers of a handshake, and a URL with a credential would be logged:

    {"type": "auth", "token": "svc_credit_...", "lastEventId": "17", "mints": ["..."]}

At other paths an upgrade is ignored.

Source    RFC 6455; the package websockets reads and writes the frames
"""

import asyncio
import binascii
from abc import abstractmethod
from base64 import b64decode
from collections.abc import Callable, Iterable
from contextlib import suppress
from secrets import token_hex
from typing import Final
from urllib.parse import urlencode

import msgspec
from starlette.types import Message
from typing_extensions import override
from websockets.frames import CloseCode, Frame, Opcode
from websockets.protocol import SEND_EOF, Protocol, Side, State
from websockets.utils import accept_key

from mintscope.kit.errors import BadRequest, RequestTimeout, ServiceError
from mintscope.kit.http.dispatch import PLAIN_METHOD, PLAIN_VERSION, DispatchingProtocol
from mintscope.kit.http.response import OUTLET_MESSAGE, Bounds, Head, Header
from mintscope.kit.http.server_sent import message_of
from mintscope.kit.http.whole_response import PushedBody, WholeResponse

VERSION: Final = b"13"
KEY: Final = b"sec-websocket-key"
KEY_BYTES: Final = 16
OWN_CODES: Final = 4_000  # the first close code for applications
CLOSE_S_MAX: Final = 2.0  # time limit for the answer to a close frame
RETRY_AFTER: Final = b"retry-after"
MESSAGE_OPCODES: Final = {Opcode.TEXT, Opcode.BINARY, Opcode.CONT}


def handshake_fault(head: Head) -> ServiceError | None:
    """Return the error for a faulty header of a WebSocket handshake; None if *head* is correct."""
    version = head.by_name.get(b"sec-websocket-version", b"")
    if version != VERSION:
        shown = version.decode("latin-1")[:20]
        return BadRequest(f"expected Sec-WebSocket-Version: {VERSION.decode()}; was {shown!r}")
    try:
        key = b64decode(head.by_name.get(KEY, b""), validate=True)
    except binascii.Error:
        key = b""
    if len(key) != KEY_BYTES:
        return BadRequest(f"expected a Sec-WebSocket-Key of {KEY_BYTES} bytes in base64")
    return None


class WebSocket:
    """The server's side of a WebSocket; *is_open* is True once the handshake has been answered."""

    def __init__(
        self,
        transport: asyncio.Transport,
        head: Head,
        bounds: Bounds,
        on_first: Callable[[bytes], None] | None,
    ) -> None:
        """Speak WebSocket on *transport*, whose client has sent the valid handshake *head*.

        on_first   called with the first message; None: it is ignored, as later messages are
        """
        self.is_open = False
        self._transport = transport
        self._accepted = accept_key(head.by_name[KEY].decode("latin-1")).encode()
        self._frames = Protocol(Side.SERVER, max_size=bounds.message_bytes_max)
        self._frames_max = bounds.frames_max
        self._frame_count = 0  # frames since the last ping of the server
        self._on_first = on_first
        self._pieces = bytearray()  # the part of the first message received so far

    def open(self, headers: Iterable[Header]) -> None:
        """Answer the handshake, with *headers* in addition to the required ones."""
        lines = b"".join([b"%b: %b\r\n" % header for header in headers])
        self._write(
            b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
            b"sec-websocket-accept: %b\r\n%b\r\n" % (self._accepted, lines)
        )
        self.is_open = True
        self._flush()  # frames that arrived before may have answers already

    def receive(self, data: bytes) -> None:
        """Read the frames in *data*, and answer pings and close frames."""
        if self._frames.eof_sent:
            return  # the WebSocket has ended
        self._frames.receive_data(data)
        for event in self._frames.events_received():
            if isinstance(event, Frame):
                self._take(event)
        self._flush()

    def send(self, text: bytes) -> None:
        """Send *text*, which is UTF-8, as a message; do nothing if the WebSocket is not open."""
        if self.is_open and not self.has_ended:
            self._frames.send_text(text)
            self._flush()

    def ping(self) -> None:
        """Send a ping, and begin to count the client's frames again from 0."""
        self._frame_count = 0
        if self.is_open and not self.has_ended:
            self._frames.send_ping(b"")
            self._flush()

    def refuse(self, status: int, headers: Iterable[Header], body: bytes) -> None:
        """Send an HTTP error as a message, and close.

        body   the JSON object of the error; any other body is omitted
        """
        members = [b'{"type":"error","status":%d' % status]
        waits = dict(headers).get(RETRY_AFTER)
        if waits is not None:
            members.append(b'"retryAfterS":%b' % waits)
        if body.startswith(b"{"):
            # Without its first brace, *body* continues the object with its own members.
            members.append(body[1:])
        else:
            members[-1] += b"}"
        self.send(b",".join(members))
        self.close(OWN_CODES + status)

    def close(self, code: int, reason: str = "") -> None:
        """Send the close frame; close the connection within CLOSE_S_MAX."""
        self._on_first = None
        if self.is_open and not self.has_ended:
            self._frames.send_close(code, reason)
            self._flush()
        # The client may never answer the close frame.
        asyncio.get_running_loop().call_later(CLOSE_S_MAX, self._transport.close)

    @property
    def has_ended(self) -> bool:
        """Whether nothing more can be sent, because one side has sent a close frame."""
        return self._frames.state is not State.OPEN

    def forget(self) -> None:
        """Forget the callback for the first message, so that this message is ignored."""
        self._on_first = None

    def _take(self, frame: Frame) -> None:
        """Count *frame*, and pass its text on if it is a part of the first message.

        With too many frames between two pings, the WebSocket ends.  The package websockets has
        already answered pings and close frames.
        """
        if self._frames.eof_sent:
            return
        # All frames count, because the package answers each ping.
        self._frame_count += 1
        if self._frame_count > self._frames_max:
            expected = f"expected at most {self._frames_max} frames between two pings"
            self._frames.fail(CloseCode.POLICY_VIOLATION, expected)
        elif self._on_first is not None and frame.opcode in MESSAGE_OPCODES:
            self._take_piece(frame, self._on_first)

    def _take_piece(self, frame: Frame, on_first: Callable[[bytes], None]) -> None:
        if frame.opcode is Opcode.BINARY:
            self._frames.fail(CloseCode.UNSUPPORTED_DATA, "expected a text message")
            return
        self._pieces += frame.data
        if frame.fin:
            self._on_first = None
            message = bytes(self._pieces)
            self._pieces = bytearray()
            on_first(message)

    def _flush(self) -> None:
        """Send the pending frames, and close the connection if the WebSocket has ended."""
        if not self.is_open:
            return
        for piece in self._frames.data_to_send():
            if piece == SEND_EOF:
                self._end()
            else:
                self._write(piece)

    def _end(self) -> None:
        """Close at once if the client has sent a close frame, else within CLOSE_S_MAX seconds."""
        if self._frames.close_rcvd is not None or not self._transport.can_write_eof():
            self._transport.close()
        elif not self._transport.is_closing():
            with suppress(OSError):  # the client may have closed the connection already
                self._transport.write_eof()  # closing now could lose the close frame
            asyncio.get_running_loop().call_later(CLOSE_S_MAX, self._transport.close)

    def _write(self, piece: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(piece)


OF_BODIES: Final = {b"content-type", b"content-length", b"x-accel-buffering"}


class PushedMessages(PushedBody):
    """Writes a response over a WebSocket: each event as a message, and each comment as a ping."""

    __slots__ = ("_websocket",)

    def __init__(self, cycle: WholeResponse, websocket: WebSocket) -> None:
        self._websocket = websocket
        super().__init__(cycle)

    @override
    def write(self, chunk: bytes) -> None:
        if self.is_gone():
            return
        message = message_of(chunk)
        if message:
            self._websocket.send(message)
        else:
            self._websocket.ping()

    @override
    def end(self, chunk: bytes) -> None:
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
        """Return whether the client has left or closed the WebSocket, or the body has ended."""
        cycle = self._cycle
        # The connection may still be open: only a close frame shows that the client has left.
        if self._websocket.has_ended and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
        return super().is_gone()


class MessagesResponse(WholeResponse):
    """Answers over a WebSocket: writes the events of a stream as messages.

    Any other response is a refusal.  It is sent over HTTP if the handshake is not yet answered,
    otherwise as a message, with a close frame.
    """

    websocket: WebSocket

    @override
    async def send(self, message: Message) -> None:
        """Send *message* over the WebSocket, or over HTTP if the handshake is not yet answered."""
        kind = message["type"]
        if kind == OUTLET_MESSAGE:
            self._push(message)
        elif kind == "http.response.body" and self.websocket.is_open:
            self._refuse(message["body"])
        else:
            await super().send(message)

    def _push(self, message: Message) -> None:
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


EXPECTED: Final = (
    'expected {"type": "auth", "token": "...", "lastEventId": "...", and the query fields}'
)
AUTH: Final = "auth"
LAST_EVENT_ID: Final = b"last-event-id"
Value = str | int | bool | list[str]


def request_of(head: Head, message: bytes) -> Head:
    """Return *head*, that of a handshake, completed by the credential and the query of *message*.

    Raises BadRequest for an invalid message.
    """
    try:
        fields = msgspec.json.decode(message, type=dict[str, Value])
    except (msgspec.DecodeError, UnicodeDecodeError) as cause:
        raise BadRequest(f"{EXPECTED}; was no such JSON object") from cause
    if (kind := fields.pop("type", None)) != AUTH:
        raise BadRequest(f"{EXPECTED}; its type was {str(kind)[:50]!r}")
    token = fields.pop("token", None)
    since = fields.pop("lastEventId", None)
    headers = [each for each in head.headers if since is None or each[0] != LAST_EVENT_ID]
    if isinstance(token, str):
        headers.append((b"authorization", b"Bearer " + token.encode()))
    elif token is not None:
        raise BadRequest(f"{EXPECTED}; its token was no text")
    if since is not None:
        headers.append((LAST_EVENT_ID, _text(since).encode()))
    query = urlencode([(name, _text(value)) for name, value in fields.items()]).encode()
    path, _, before = head.url.partition(b"?")
    url = path + b"?" + b"&".join([each for each in (before, query) if each])
    return Head(url, head.version, headers, dict(headers))


def _text(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, list) else str(value)


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
        """Close the connection when all started responses have been sent."""
        if self._websocket is not None and self._is_idle():
            self._websocket.close(CloseCode.GOING_AWAY)
        super().shutdown()

    @abstractmethod
    def _refuse(self, error: ServiceError) -> None:
        """Send the refusal *error*, and close the connection.

        If responses are open, the connection is closed after them, and *error* is not sent.
        """

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
        # Until the first message, the connection may be closed to make room for others.
        self.open_connections.begin_waiting(self)
        self._first_due = self.loop.call_later(
            self._bounds.first_message_s_max, self._first_overdue
        )

    def _complete(self, head: Head, message: bytes) -> None:
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
        """Send *error*, which occurred before a route was found, as a message; then close."""
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
