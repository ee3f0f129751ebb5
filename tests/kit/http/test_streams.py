"""Streams over real connections: slow readers, lost clients, and a server that stops."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from support.processes.served import Client
from support.scenes.live_market import TRADED
from support.scenes.service import bearer
from support.scenes.streaming import PATH, Streaming, streaming_service

# The buffers of both ends are fixed and small: a kernel that makes them larger as it likes takes
# more updates than fit into the 300 s after which data is stale.
BUFFER_BYTES = 8 * 1024
TRADE_MS = 300  # above the pause between two updates, so that each trade is an update
TRADES_MAX = 500


@pytest.fixture
async def streaming(tmp_path: Path) -> AsyncIterator[Streaming]:
    async with streaming_service(tmp_path, send_buffer_bytes=BUFFER_BYTES) as streaming:
        yield streaming


def request(token: str, mints: str = TRADED[0]) -> bytes:
    authorization = bearer(token)["authorization"]
    head = f"GET {PATH}?mints={mints} HTTP/1.1\r\nHost: x\r\nAuthorization: {authorization}\r\n\r\n"
    return head.encode()


@pytest.fixture
def client() -> Iterator[socket.socket]:
    """Yield a socket that is not connected and has a small buffer."""
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        client.settimeout(0)
        yield client


async def fall_behind(client: socket.socket, streaming: Streaming, token: str) -> None:
    """Open a stream with *client*, which reads nothing, and trade until the server notices this."""
    loop = asyncio.get_running_loop()
    await loop.sock_connect(client, ("127.0.0.1", streaming.server.port))
    await loop.sock_sendall(client, request(token))
    await streaming.until_open(1)
    for _ in range(TRADES_MAX):
        await streaming.trade(after_ms=TRADE_MS)
        await asyncio.sleep(0)
        if streaming.service.streams.behind_count:
            return
    raise AssertionError("expected a client that reads nothing to be behind")


async def everything(client: socket.socket, until: bytes) -> bytes:
    loop, found = asyncio.get_running_loop(), b""
    async with asyncio.timeout(10):
        while until not in found:
            found += await loop.sock_recv(client, 65_536)
    return found


async def test_a_client_that_does_not_read_is_cut_off_with_a_reason(
    streaming: Streaming, client: socket.socket
) -> None:
    token = await streaming.service.issue(5)
    await fall_behind(client, streaming, token)

    for _ in range(100):  # nothing more is written to it
        await streaming.trade()
    await streaming.pass_time(8)
    await streaming.until_closed()
    events = await everything(client, b"event: end")

    end = json.loads(events.rpartition(b"data: ")[2].partition(b"\n")[0])
    assert end["reason"] == "too_slow"
    assert streaming.service.streams.behind_count == 0
    assert await streaming.service.left(token) == 4


async def test_a_client_that_was_behind_and_reads_again_gets_a_snapshot(
    streaming: Streaming, client: socket.socket
) -> None:
    token = await streaming.service.issue(5)
    await fall_behind(client, streaming, token)
    for _ in range(50):
        await streaming.trade(after_ms=100)
    newest = b"id: %d\n" % streaming.service.log.seq

    reading = asyncio.create_task(everything(client, newest))
    async with asyncio.timeout(10):
        while not reading.done():
            streaming.service.streams.look()
            await asyncio.sleep(0.001)
    events = await reading

    assert events.count(b"event: snapshot") == 2
    assert events.rindex(b"event: snapshot") < events.rindex(newest)
    assert streaming.service.streams.behind_count == 0


async def answer_begins(client: Client) -> None:
    async with asyncio.timeout(5):
        await client.reader.readuntil(b"event: snapshot")


async def test_a_stream_ends_if_its_client_leaves_with_a_second_request_waiting(
    streaming: Streaming,
) -> None:
    token = await streaming.service.issue(5)

    async with streaming.server.connection() as client:
        await client.send(request(token) + request(token))
        await answer_begins(client)
    for _ in range(3):  # the first one is answered by a reset
        await streaming.pass_time(15)
    await streaming.until_closed()

    assert await streaming.service.left(token) == 4


async def test_a_stop_ends_streams_and_the_connection_answers_the_next_request(
    streaming: Streaming,
) -> None:
    token = await streaming.service.issue(5)

    async with streaming.server.connection() as client:
        await client.send(request(token) + request(token))
        await answer_begins(client)
        streaming.service.streams.stop()
        async with asyncio.timeout(5):
            rest = await client.reader.readuntil(b'"SERVICE_UNAVAILABLE"')

    assert b'"reason":"shutting_down"' in rest
    assert b"0\r\n\r\nHTTP/1.1 503" in rest


async def test_a_stream_over_http_1_0_has_no_chunks(streaming: Streaming) -> None:
    token = await streaming.service.issue(5)

    async with streaming.server.connection() as client:
        await client.send(request(token).replace(b"HTTP/1.1", b"HTTP/1.0"))
        await streaming.until_open(1)
        await streaming.trade()
        streaming.service.streams.stop()
        head, _, body = (await client.rest()).partition(b"\r\n\r\n")

    assert b"\r\nconnection: close" in head
    assert b"transfer-encoding" not in head.lower()
    assert b"event: snapshot\n" in body
    assert b"\r\n" not in body
    assert body.endswith(b"\n\n")


async def test_a_server_that_stops_ends_its_streams(tmp_path: Path) -> None:
    async with streaming_service(tmp_path) as streaming:
        token = await streaming.service.issue(5)
        client = Client(*await asyncio.open_connection("127.0.0.1", streaming.server.port))
        await client.send(request(token))
        await answer_begins(client)

    assert b'"reason":"shutting_down"' in await client.rest()
    await client.close()
