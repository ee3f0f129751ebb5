"""Untrusted input over a WebSocket: any bytes, any first message, in any pieces."""

import asyncio
import json

from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from mintscope.kit.errors import BadRequest
from mintscope.kit.http.response import Bounds, Head
from mintscope.kit.http.websocket import KEY, WebSocket, request_of

HEADERS = [(b"host", b"x"), (KEY, b"AAAAAAAAAAAAAAAAAAAAAA==")]
HEAD = Head(b"/v1/stream?partial=true", "1.1", HEADERS, dict(HEADERS))
BOUNDS = Bounds()
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
MESSAGES = st.binary(max_size=200) | st.dictionaries(
    st.sampled_from(["type", "token", "lastEventId", "mints"]) | st.text(),
    st.just("auth") | VALUES,
).map(lambda fields: json.dumps(fields).encode())


class FakeTransport(asyncio.Transport):
    """A transport that records the written bytes, and fails if it is written to after `close`."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_closed = False

    @override
    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.is_closed
        self.written += bytes(data)

    @override
    def close(self) -> None:
        self.is_closed = True

    @override
    def is_closing(self) -> bool:
        return self.is_closed

    @override
    def can_write_eof(self) -> bool:
        return False


def frame(opcode: int, payload: bytes, *, is_last: bool = True) -> bytes:
    """Return a WebSocket frame of a client, with a mask of zeros.  Source: RFC 6455 section 5.2."""
    size = len(payload)
    length = bytes([0x80 | size]) if size < 126 else b"\xfe" + size.to_bytes(2, "big")
    return bytes([opcode | (0x80 if is_last else 0)]) + length + bytes(4) + payload


FRAMES = st.builds(
    frame, st.integers(min_value=0, max_value=15), st.binary(max_size=300), is_last=st.booleans()
)


@given(st.lists(st.binary(max_size=50) | FRAMES, max_size=20))
def test_any_bytes_are_read_or_close_the_socket(pieces: list[bytes]) -> None:
    transport, messages = FakeTransport(), list[bytes]()
    socket = WebSocket(transport, HEAD, BOUNDS, messages.append)
    socket.open([])

    for piece in pieces:
        if not transport.is_closed:
            socket.receive(piece)
            socket.send(b"{}")
            socket.ping()

    assert len(messages) <= 1
    assert transport.is_closed == socket.has_ended
    assert transport.written.startswith(b"HTTP/1.1 101 ")


@given(st.lists(st.integers(min_value=1, max_value=10), min_size=1, max_size=30))
def test_a_message_that_is_sent_in_any_pieces_arrives_whole(sizes: list[int]) -> None:
    sent = frame(1, b"one", is_last=False) + frame(9, b"") + frame(0, b"two") + frame(1, b"three")
    transport, messages = FakeTransport(), list[bytes]()
    socket = WebSocket(transport, HEAD, BOUNDS, messages.append)
    socket.open([])

    at = 0
    for size in sizes * len(sent):
        socket.receive(sent[at : at + size])
        at += size

    assert messages == [b"onetwo"]
    assert transport.written.endswith(b"\r\n\r\n\x8a\x00")


@given(MESSAGES)
def test_a_first_message_becomes_a_request_or_raises_bad_request(message: bytes) -> None:
    try:
        head = request_of(HEAD, message)
    except BadRequest:
        return
    fields = json.loads(message)
    assert fields["type"] == "auth"
    assert (b"authorization" in head.by_name) == ("token" in fields)
    assert head.url.startswith(b"/v1/stream?partial=true")
    assert head.url.isascii()
    assert all(byte > 32 for byte in head.url)


def test_a_lone_surrogate_is_refused() -> None:
    try:
        head = request_of(HEAD, b'{"type": "auth", "token": "\\ud800", "mints": "\\udfff"}')
    except BadRequest:
        return
    raise AssertionError(head)
