"""A WebSocket in the place of an HTTP connection: its handshake, its messages, its end.

Source    RFC 6455; its frames are read and written by the package websockets
"""

import asyncio
import binascii
from base64 import b64decode
from collections.abc import Callable, Iterable
from typing import Final

from websockets.frames import CloseCode, Frame, Opcode
from websockets.protocol import SEND_EOF, Protocol, Side, State
from websockets.utils import accept_key

from mintscope.base.errors import BadRequest, ServiceError
from mintscope.edges.server.protocol.bounds import Bounds
from mintscope.edges.server.protocol.head import Head
from mintscope.edges.server.response import Header

VERSION: Final = b"13"
KEY: Final = b"sec-websocket-key"
KEY_BYTES: Final = 16
OWN_CODES: Final = 4_000  # close codes from here on mean what an application says
CLOSE_S_MAX: Final = 2.0  # how long a client may take to answer a close frame
RETRY_AFTER: Final = b"retry-after"
MESSAGE_OPCODES: Final = {Opcode.TEXT, Opcode.BINARY, Opcode.CONT}


def handshake_fault(head: Head) -> ServiceError | None:
    """Return what is wrong with a handshake, None if nothing is."""
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
    """The server's side of one WebSocket.

    is_open   the handshake was answered: what is written from now on are frames
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        head: Head,
        bounds: Bounds,
        on_first: Callable[[bytes], None] | None,
    ) -> None:
        """Take over *transport*, whose client has asked for it by *head*, which has no fault.

        on_first   called with the first message, of at most `message_bytes_max`; None: it is
                   ignored, as all later messages are
        """
        self.is_open = False
        self._transport = transport
        self._accepted = accept_key(head.by_name[KEY].decode("latin-1")).encode()
        self._frames = Protocol(Side.SERVER, max_size=bounds.message_bytes_max)
        self._frames_max = bounds.frames_max
        self._frame_count = 0  # since our last ping
        self._on_first = on_first
        self._pieces = bytearray()  # of the first message

    def open(self, headers: Iterable[Header]) -> None:
        """Answer the handshake, with *headers* beside those that it asks for."""
        lines = b"".join([b"%b: %b\r\n" % header for header in headers])
        self._write(
            b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
            b"sec-websocket-accept: %b\r\n%b\r\n" % (self._accepted, lines)
        )
        self.is_open = True
        self._flush()

    def receive(self, data: bytes) -> None:
        """Read the frames that *data* completes, and answer pings and a close frame."""
        if self._frames.eof_sent:
            return  # it has ended
        self._frames.receive_data(data)
        for event in self._frames.events_received():
            if isinstance(event, Frame):
                self._take(event)
        self._flush()

    def send(self, text: bytes) -> None:
        """Send *text*, in UTF-8, as a message; after the end nothing."""
        if self.is_open and not self.has_ended:
            self._frames.send_text(text)
            self._flush()

    def ping(self) -> None:
        """Send a ping, and let the client send as many frames as it may between two of them."""
        self._frame_count = 0
        if self.is_open and not self.has_ended:
            self._frames.send_ping(b"")
            self._flush()

    def refuse(self, status: int, headers: Iterable[Header], body: bytes) -> None:
        """Send as a message what would have been an HTTP response, and close.

        body   the JSON object of an error; anything else is left out
        """
        members = [b'{"type":"error","status":%d' % status]
        waits = dict(headers).get(RETRY_AFTER)
        if waits is not None:
            members.append(b'"retryAfterS":%b' % waits)
        if body.startswith(b"{"):
            members.append(body[1:])
        else:
            members[-1] += b"}"
        self.send(b",".join(members))
        self.close(OWN_CODES + status)

    def close(self, code: int, reason: str = "") -> None:
        """Send the last frame; the connection is closed once the client has answered it."""
        self._on_first = None
        if self.is_open and not self.has_ended:
            self._frames.send_close(code, reason)
            self._flush()
        asyncio.get_running_loop().call_later(CLOSE_S_MAX, self._transport.close)

    @property
    def has_ended(self) -> bool:
        """Whether nothing can be sent any more, since one side has closed."""
        return self._frames.state is not State.OPEN

    def forget(self) -> None:
        """Let go of who waits for the first message."""
        self._on_first = None

    def _take(self, frame: Frame) -> None:
        """Note a frame, which the package has answered if it asks for an answer."""
        if self._frames.eof_sent:
            return
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
        """Write what there is to write, and close after the end; nothing before the handshake."""
        if not self.is_open:
            return
        for piece in self._frames.data_to_send():
            if piece == SEND_EOF:
                self._end()
            else:
                self._write(piece)

    def _end(self) -> None:
        """Close: at once if the client has closed in order, else once it has read why."""
        if self._frames.close_rcvd is not None or not self._transport.can_write_eof():
            self._transport.close()
        elif not self._transport.is_closing():
            self._transport.write_eof()  # to close while it still sends would lose the close frame
            asyncio.get_running_loop().call_later(CLOSE_S_MAX, self._transport.close)

    def _write(self, piece: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(piece)
