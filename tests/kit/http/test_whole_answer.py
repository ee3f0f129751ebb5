"""An answer with one body message is one write; other answers are written piece by piece."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from typing_extensions import override

from mintscope.api.failures import write_refusal
from mintscope.kit.clock import SystemClock
from mintscope.kit.http.application import make_server
from mintscope.kit.http.connection import protocol_of
from mintscope.kit.http.connections import Connections
from mintscope.kit.http.request import GONE, ClientAddresses
from mintscope.kit.http.response import Bounds
from support.processes.served import served


def start(*headers: tuple[bytes, bytes]) -> Message:
    return {"type": "http.response.start", "status": 200, "headers": list(headers)}


def body(text: bytes, *, more: bool = False) -> Message:
    return {"type": "http.response.body", "body": text, "more_body": more}


class Says:
    """An ASGI application that answers each request with *messages*."""

    def __init__(self, *messages: Message) -> None:
        self._messages = messages

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        for message in self._messages:
            await send(message)


class Wire(asyncio.Transport):
    """A transport that records each write."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.writes: list[bytes] = []
        self.closed = False

    @override
    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))

    @override
    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    @override
    def is_closing(self) -> bool:
        return self.closed

    @override
    def close(self) -> None:
        self.closed = True

    @override
    def resume_reading(self) -> None:
        pass


async def writes(app: ASGIApp, request: bytes) -> list[bytes]:
    """Let a server of *app* answer *request*; return the server's writes to the connection."""
    connections = Connections(
        clock=SystemClock(),
        write_refusal=write_refusal,
        bounds=Bounds(),
        addresses=ClientAddresses(),
    )
    server = make_server(
        app,
        clock=connections.clock,
        addresses=connections.addresses,
        bounds=connections.bounds,
        write_refusal=write_refusal,
    )
    server.config.load()
    protocol = protocol_of(connections)(server.config, server.server_state, {})
    wire = Wire()
    protocol.connection_made(wire)
    protocol.data_received(request)
    await asyncio.gather(*server.server_state.tasks)
    protocol.connection_lost(None)
    return wire.writes


GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LENGTH_5 = (b"content-length", b"5")


async def test_head_and_body_are_one_write() -> None:
    assert await writes(Says(start(LENGTH_5), body(b"hello")), GET) == [
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"
    ]


async def test_a_whole_body_without_a_length_gets_one() -> None:
    assert await writes(Says(start(), body(b"hello")), GET) == [
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"
    ]


async def test_a_response_that_cannot_have_a_body_gets_no_length() -> None:
    head: Message = {
        "type": "http.response.start",
        "status": 204,
        "headers": [(b"allow", b"GET")],
    }

    assert await writes(Says(head, body(b"")), GET) == [
        b"HTTP/1.1 204 No Content\r\nallow: GET\r\n\r\n"
    ]


async def test_the_last_answer_of_a_connection_has_connection_close() -> None:
    request = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

    assert await writes(Says(start(LENGTH_5), body(b"hello")), request) == [
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello"
    ]


async def test_an_answer_in_pieces_is_written_in_pieces() -> None:
    app = Says(start(LENGTH_5), body(b"hel", more=True), body(b"lo"))

    assert await writes(app, GET) == [
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n",
        b"hel",
        b"lo",
    ]


async def test_an_answer_in_pieces_without_a_length_is_in_chunks() -> None:
    app = Says(start(), body(b"hel", more=True), body(b"lo"))

    assert await writes(app, GET) == [
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
        b"3\r\nhel\r\n",
        b"2\r\nlo\r\n0\r\n\r\n",
    ]


async def test_http_1_0_gets_no_chunks() -> None:
    app = Says(start(), body(b"hel", more=True), body(b"lo"))

    assert await writes(app, b"GET / HTTP/1.0\r\nHost: x\r\n\r\n") == [
        b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n",
        b"hel",
        b"lo",
    ]


async def test_an_answer_to_head_has_no_body() -> None:
    request = b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n"

    assert b"".join(await writes(Says(start(LENGTH_5), body(b"")), request)) == (
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n"
    )


@pytest.fixture
async def quiet(caplog: pytest.LogCaptureFixture) -> AsyncIterator[None]:
    """Suppress log lines about a broken application during the test."""
    with caplog.at_level("CRITICAL"):
        yield


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("value", [b"a\r\nSet-Cookie: b", b"a\nb", b"a\rb"])
async def test_a_header_with_a_line_end_is_never_sent(value: bytes) -> None:
    async with (
        served(Says(start((b"x", value), LENGTH_5), body(b"hello")), Bounds()) as server,
        server.connection() as client,
    ):
        await client.send(GET)
        status, headers, _ = await client.answer()

    assert status == 500
    assert "x" not in headers
    assert "set-cookie" not in headers


class LeavesIt:
    """An application that closes the client's connection before it sends anything."""

    async def __call__(self, scope: Scope, _receive: Receive, _send: Send) -> None:
        hung_up = scope["extensions"][GONE].__self__  # the transport
        hung_up.close()


async def test_a_client_that_leaves_before_the_answer_causes_no_log_record(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The application sees the closed connection before the server's protocol does."""
    assert await writes(LeavesIt(), GET) == []
    assert [record.message for record in caplog.records] == []
