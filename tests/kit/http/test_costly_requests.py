"""Requests that cost a server more than its client: headers, URLs, pieces, unread answers."""

import asyncio
import socket
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
from starlette.types import Receive, Scope, Send

from mintscope.kit.http.response import Bounds
from support.processes.served import served
from support.scenes.service import running_service

HOST: Final = b"Host: x\r\n"
BOUNDS: Final = Bounds()
TINY: Final = 4_096


def request(*, address: bytes = b"/x", headers: int = 1) -> bytes:
    lines = b"".join(b"a%d:\r\n" % number for number in range(headers - 1))
    return b"GET " + address + b" HTTP/1.1\r\n" + HOST + lines + b"\r\n"


def in_pieces(count: int) -> bytes:
    head = b"POST /x HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
    return head + b"1\r\nx\r\n" * count + b"0\r\n\r\n"


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (request(headers=100), 404),
        (request(headers=101), 431),
        (request(address=b"/" + b"x" * 3_071), 404),
        (request(address=b"/" + b"x" * 3_072), 431),
        (request(address=b"/x?" + b"%41" * 1_100), 431),
        (in_pieces(1_024), 404),
        (in_pieces(1_025), 400),
    ],
)
async def test_headers_chunks_and_the_length_of_the_address_are_bounded(
    tmp_path: Path, data: bytes, status: int
) -> None:
    async with (
        running_service(tmp_path) as service,
        served(service.app, BOUNDS) as server,
        server.connection() as client,
    ):
        await client.send(data)
        assert (await client.answer())[0] == status


async def test_an_endless_head_is_refused_once_it_has_too_many_headers(
    tmp_path: Path,
) -> None:
    async with (
        running_service(tmp_path) as service,
        served(service.app, BOUNDS) as server,
        server.connection() as client,
    ):
        await client.send(request(headers=3_000)[:-2])
        assert (await client.answer())[0] == 431


async def test_a_waiting_request_with_too_many_headers_closes_the_connection(
    tmp_path: Path,
) -> None:
    async with (
        running_service(tmp_path) as service,
        served(service.app, BOUNDS) as server,
        server.connection() as client,
    ):
        await client.send(request() + request(headers=3_000) * 15)
        assert (await client.answer())[0] == 404
        with suppress(ConnectionError):  # the server leaves the others unread
            assert await client.rest() == b""


class Answers:
    """An application that answers every request with a body of *size* bytes."""

    def __init__(self, size: int) -> None:
        self.size = size

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        length = (b"content-length", b"%d" % self.size)
        await send({"type": "http.response.start", "status": 200, "headers": [length]})
        await send({"type": "http.response.body", "body": b"x" * self.size})


@pytest.mark.parametrize("size", [30_000, 60_000, 300_000])
@pytest.mark.parametrize("count", [1, 3])
async def test_an_unread_answer_of_any_length_is_cut_off_without_an_error_in_the_log(
    caplog: pytest.LogCaptureFixture, size: int, count: int
) -> None:
    loop = asyncio.get_running_loop()
    bounds = Bounds(unread_s_max=0.1)
    async with served(Answers(size), bounds, send_buffer_bytes=TINY) as server:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, TINY)
            client.settimeout(0)
            await loop.sock_connect(client, ("127.0.0.1", server.port))
            for _ in range(count):
                await loop.sock_sendall(client, request())
                await asyncio.sleep(0.02)
            await asyncio.sleep(0.4)  # longer than an answer may be left unread

            assert await received(client) < size

    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


async def test_a_client_that_reads_steadily_gets_a_long_answer_whole() -> None:
    loop, size = asyncio.get_running_loop(), 500_000
    bounds = Bounds(unread_s_max=0.4)
    async with served(Answers(size), bounds, send_buffer_bytes=TINY) as server:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, TINY)
            client.settimeout(0)
            await loop.sock_connect(client, ("127.0.0.1", server.port))
            await loop.sock_sendall(client, request())
            began_s = loop.time()
            body = b""
            while len(body) < size and (part := await loop.sock_recv(client, 8_192)):
                body += part
                await asyncio.sleep(0.02)
            assert loop.time() - began_s > 3 * bounds.unread_s_max

    assert body.endswith(b"x" * size)


async def test_a_client_that_reads_too_slowly_is_cut_off() -> None:
    loop, size = asyncio.get_running_loop(), 300_000
    bounds = Bounds(unread_s_max=0.4)
    async with served(Answers(size), bounds, send_buffer_bytes=TINY) as server:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, TINY)
            client.settimeout(0)
            await loop.sock_connect(client, ("127.0.0.1", server.port))
            await loop.sock_sendall(client, request())
            for _ in range(80):
                assert await loop.sock_recv(client, 8)
                await asyncio.sleep(0.02)

            assert await received(client) < size - 80 * 8


async def received(client: socket.socket) -> int:
    """Return the number of bytes that *client* receives until the server closes, or for 2 s."""
    count = 0
    with suppress(ConnectionError, TimeoutError):
        async with asyncio.timeout(2.0):
            while part := await asyncio.get_running_loop().sock_recv(client, 65_536):
                count += len(part)
    return count
