"""Untrusted input over real connections.  Time limits are shortened by configuration."""

import asyncio
import json
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio
from starlette.types import Receive, Scope, Send

from mintscope.app.config.config import ApiConfig
from mintscope.kit.http.application import LAST_S, Draining
from mintscope.kit.http.response import Bounds
from support.fakes.reports import TRACKED
from support.processes.served import PATIENCE_S, Client, Served, served
from support.scenes.accounts_service import EXCHANGE_PATH
from support.scenes.service import Service, running_service

BOUNDS = Bounds(request_s_max=0.6, keep_alive_s_max=2.0, connections_per_client_max=60)
ENOUGH = ApiConfig(rate_limit_requests=1_000_000)
START = f"GET /v1/token/{TRACKED} HTTP/1.1\r\n".encode()
HOST = b"Host: x\r\n"
HEALTHZ = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


# One server for the whole file: to start and stop it takes longer than most tests.
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    async with running_service(tmp_path_factory.mktemp("api"), api=ENOUGH) as service:
        yield service


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(service: Service) -> AsyncIterator[Served]:
    async with served(service.app, BOUNDS) as server:
        yield server


async def refusal(server: Served, data: bytes) -> tuple[int, str]:
    """Send *data*; return status and error code of the answer, then the server must close."""
    async with server.connection() as client:
        await client.send(data)
        status, headers, body = await client.answer()
        assert await client.rest() == b""
    answer = json.loads(body)
    assert headers["content-type"] == "application/json"
    assert headers["cache-control"] == "no-store"
    assert headers["connection"] == "close"
    assert answer["success"] is False
    assert answer["meta"]["requestId"] == headers["x-request-id"]
    return status, answer["error"]["code"]


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x01\x02\r\n\r\n",
        b"hello\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n" + HOST + b"\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
        START + b"Host: a\r\nHost: b\r\n\r\n",
        START + b"Host: a\r\nHost: a\r\n\r\n",
        START + b"\r\n",
        START + HOST + b"Na me: x\r\n\r\n",
        START + HOST + b"Name: a\x00b\r\n\r\n",
        START + HOST + b"no colon\r\n\r\n",
        START + HOST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        START + HOST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        START + HOST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
        START + HOST + b"Content-Length: -1\r\n\r\n",
        START + HOST + b"Content-Length: 5x\r\n\r\n",
        START + HOST + b"Content-Length: 99999999999999999999999\r\n\r\n",
        START + HOST + b"Transfer-Encoding: gzip\r\n\r\n",
        START + HOST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        START + HOST + b"Transfer-Encoding: chunked\r\n\r\n5\r\nabcdefg\r\n",
        b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
async def test_malformed_or_ambiguous_http_is_400(server: Served, data: bytes) -> None:
    assert await refusal(server, data) == (400, "BAD_REQUEST")


def head_of(size: int) -> bytes:
    """Return a request whose URL and headers have *size* bytes, as the limit counts them."""
    path = b"/" + b"a" * 100
    fixed = len(path) + len(b"Host: x\r\n") + len(b"X: \r\n")
    return b"GET " + path + b" HTTP/1.1\r\nHost: x\r\nX: " + b"a" * (size - fixed) + b"\r\n\r\n"


async def test_a_head_of_16_kib_passes_and_one_byte_more_is_431(server: Served) -> None:
    async with server.connection() as client:
        await client.send(head_of(16 * 1024))
        status, _, _ = await client.answer()
    assert status == 404

    assert await refusal(server, head_of(16 * 1024 + 1)) == (431, "HEADERS_TOO_LARGE")


@pytest.mark.parametrize(
    "data",
    [
        START + HOST + b"X: " + b"a" * 1_000_000,  # no end in sight
        START + HOST + b"X: " + b"a" * 1_000_000 + b"\r\n\r\n",
        START + HOST + b"".join(b"X%d: y\r\n" % number for number in range(5_000)) + b"\r\n",
        b"GET /" + b"a" * 1_000_000,
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
async def test_a_head_over_16_kib_is_431(server: Served, data: bytes) -> None:
    assert await refusal(server, data) == (431, "HEADERS_TOO_LARGE")


@pytest.mark.parametrize(
    "data",
    [
        START + HOST + b"Content-Length: 65537\r\n\r\n",  # declared: no byte of it is needed
        START + HOST + b"Content-Length: 1000000000\r\n\r\n",
        START + HOST + b"Transfer-Encoding: chunked\r\n\r\n10001\r\n" + b"a" * 65_537,
        START
        + HOST
        + b"Transfer-Encoding: chunked\r\n\r\n"
        + b"1000\r\n%b\r\n" % (b"a" * 4096) * 17,
        # endless trailers and chunk extensions are body, too
        START + HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX: " + b"a" * 400_000,
        START + HOST + b"Transfer-Encoding: chunked\r\n\r\n1;" + b"a" * 400_000,
    ],
)
async def test_a_body_over_64_kib_is_413(server: Served, data: bytes) -> None:
    assert await refusal(server, data) == (413, "PAYLOAD_TOO_LARGE")


async def test_a_request_refused_before_a_handler_gets_the_error_shape_of_its_path(
    server: Served,
) -> None:
    start = f"POST {EXCHANGE_PATH} HTTP/1.1\r\n".encode() + HOST
    for data, code in (
        (b"Content-Length: 65537\r\n\r\n", "PAYLOAD_TOO_LARGE"),
        (b"X: " + b"a" * 20_000 + b"\r\n\r\n", "HEADERS_TOO_LARGE"),
        (b"Content-Length: 10\r\n\r\nabc", "REQUEST_TIMEOUT"),
    ):
        async with server.connection() as client:
            await client.send(start + data)
            _, _, body = await client.answer()
        reported = json.loads(body)
        assert (reported["success"], reported["status"], reported["error"]["code"]) == (
            False,
            "error",
            code,
        )
        assert reported["messages"] == [
            {"field": "general", "message": reported["error"]["message"]}
        ]


@pytest.mark.parametrize(
    ("data", "status", "origins"),
    [
        (START + b"\r\n", 400, "*"),
        (START, 408, "*"),
        (START + HOST + b"Content-Length: 65537\r\n\r\n", 413, "*"),
        (START + b"X: " + b"a" * 20_000 + b"\r\n" + HOST + b"\r\n", 431, "*"),
        (b"POST /mcp HTTP/1.1\r\n" + HOST + b"Content-Length: 65537\r\n\r\n", 413, "*"),
        (b"\x00\x01\x02\r\n\r\n", 400, "*"),  # without a path, the answer shows no page
        (b"GET /account HTTP/1.1\r\n\r\n", 400, None),
    ],
)
async def test_a_page_of_another_origin_can_read_the_reason_of_a_refusal(
    server: Served, data: bytes, status: int, origins: str | None
) -> None:
    async with server.connection() as client:
        await client.send(data)
        answered, headers, _ = await client.answer()
    assert answered == status
    assert headers.get("access-control-allow-origin") == origins
    assert ("X-Request-Id" in headers.get("access-control-expose-headers", "")) is (origins == "*")


@pytest.mark.parametrize(
    "data",
    [
        b"Content-Length: 65536\r\n\r\n" + b"a" * 65_536,
        b"Transfer-Encoding: chunked\r\n\r\n10000\r\n" + b"a" * 65_536 + b"\r\n0\r\n\r\n",
    ],
)
async def test_a_body_of_64_kib_passes(server: Served, data: bytes) -> None:
    async with server.connection() as client:
        await client.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + data)
        assert (await client.answer())[0] == 200
        await client.send(HEALTHZ)
        assert (await client.answer())[0] == 200


async def dribble(client: Client, data: bytes) -> float:
    """Send *data*, then a byte every 50 ms; return the seconds until the server closed."""
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    await client.send(data)
    closed = asyncio.ensure_future(client.rest())
    while not closed.done():
        await asyncio.sleep(0.05)
        await client.send(b"a")
    received = closed.result()
    assert received == b"" or received.startswith(b"HTTP/1.1 408 ")
    return loop.time() - began_s


@pytest.mark.parametrize(
    "data",
    [
        START,
        START + HOST + b"X: ",
        START + HOST + b"Content-Length: 1000\r\n\r\n",
        START + HOST + b"Transfer-Encoding: chunked\r\n\r\n100\r\n",
        HEALTHZ[:5],
    ],
)
async def test_slow_heads_and_bodies_are_closed_in_time(server: Served, data: bytes) -> None:
    async with server.connection() as client:
        assert await dribble(client, data) < BOUNDS.request_s_max + 1.5


@pytest.mark.parametrize("data", [b"", b"\r\n"])
async def test_a_silent_connection_is_closed_without_an_answer(server: Served, data: bytes) -> None:
    async with server.connection() as client:
        await client.send(data)
        assert await client.rest() == b""


async def test_a_connection_that_is_silent_after_an_answer_is_closed(server: Served) -> None:
    async with server.connection() as client:
        await client.send(HEALTHZ)
        assert (await client.answer())[0] == 200
        await client.send(b"\r\n")  # no request begins with it, but it ends the keep-alive timer
        assert await client.rest() == b""


async def test_a_late_request_is_408_in_the_envelope(server: Served) -> None:
    assert await refusal(server, START + HOST) == (408, "REQUEST_TIMEOUT")


async def test_a_slow_body_never_reaches_a_handler(service: Service, server: Served) -> None:
    token = await service.issue(1)
    reads = service.reports.reads
    credential = f"Authorization: Bearer {token}\r\n".encode()

    data = START + HOST + credential + b"Content-Length: 10\r\n\r\nabc"
    assert await refusal(server, data) == (408, "REQUEST_TIMEOUT")
    assert service.reports.reads == reads
    assert await service.left(token) == 1


async def test_a_trailer_is_not_read_as_a_header(service: Service, server: Served) -> None:
    token = await service.issue(1)
    async with server.connection() as client:
        await client.send(
            START
            + HOST
            + b"Transfer-Encoding: chunked\r\n\r\n0\r\nAuthorization: Bearer "
            + token.encode()
            + b"\r\n\r\n"
        )
        status, _, _ = await client.answer()

    assert status == 402
    assert await service.left(token) == 1


async def test_pipelined_requests_are_answered_in_order_then_garbage_closes(
    service: Service, server: Served
) -> None:
    token = await service.issue(10)
    paid = START + HOST + f"Authorization: Bearer {token}\r\n\r\n".encode()
    async with server.connection() as client:
        await client.send(paid + paid + HEALTHZ + paid + b"garbage\r\n\r\n")
        answers = [await client.answer() for _ in range(4)]
        assert await client.rest() == b""

    assert [status for status, _, _ in answers] == [200] * 4
    assert [headers.get("x-credits-remaining") for _, headers, _ in answers] == [
        "9", "8", None, "7",
    ]  # fmt: skip


async def test_a_request_in_pieces_is_one_request(service: Service, server: Served) -> None:
    token = await service.issue(1)
    async with server.connection() as client:
        for byte in START + HOST + f"Authorization: Bearer {token}\r\n\r\n".encode():
            await client.send(bytes([byte]))
            await asyncio.sleep(0)
        assert (await client.answer())[0] == 200


async def test_connection_close_is_obeyed(server: Served) -> None:
    async with server.connection() as client:
        await client.send(HEALTHZ[:-2] + b"Connection: close\r\n\r\n")
        status, headers, _ = await client.answer()
        assert (status, headers["connection"]) == (200, "close")
        assert await client.rest() == b""


async def test_http_1_0_is_answered_and_closed(server: Served) -> None:
    async with server.connection() as client:
        await client.send(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert (await client.answer())[0] == 200
        assert await client.rest() == b""


async def test_an_upgrade_is_answered_as_an_ordinary_request_and_closed(server: Served) -> None:
    async with server.connection() as client:
        await client.send(HEALTHZ[:-2] + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
        status, headers, _ = await client.answer()
        assert (status, headers["connection"]) == (200, "close")
        assert await client.rest() == b""


async def test_100_continue_is_sent_before_the_body_but_not_for_a_large_body(
    server: Served,
) -> None:
    async with server.connection() as client:
        await client.send(HEALTHZ[:-2] + b"Content-Length: 3\r\nExpect: 100-continue\r\n\r\n")
        assert await client.answer() == (100, {}, b"")
        await client.send(b"abc")
        assert (await client.answer())[0] == 200
    large = HEALTHZ[:-2] + b"Content-Length: 70000\r\nExpect: 100-continue\r\n\r\n"
    assert await refusal(server, large) == (413, "PAYLOAD_TOO_LARGE")


async def test_a_signal_ends_the_server_and_nothing_else(service: Service) -> None:
    async with served(service.app, BOUNDS) as server, server.connection() as client:
        await client.send(HEALTHZ)
        assert (await client.answer())[0] == 200
        os.kill(os.getpid(), signal.SIGTERM)

        assert await client.rest() == b""
        async with asyncio.timeout(PATIENCE_S):
            await server.ended.wait()


async def test_a_second_signal_ends_the_draining_but_open_responses_complete() -> None:
    loop = asyncio.get_running_loop()
    has_begun, may_end, stopped = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def application(_scope: Scope, _receive: Receive, send: Send) -> None:
        has_begun.set()
        await may_end.wait()
        length = (b"content-length", b"4")
        await send({"type": "http.response.start", "status": 200, "headers": [length]})
        await send({"type": "http.response.body", "body": b"paid"})

    draining = Draining(1.0, at_end=stopped.set)
    async with (
        served(application, BOUNDS, draining=draining) as server,
        server.connection() as client,
    ):
        await client.send(HEALTHZ)
        async with asyncio.timeout(PATIENCE_S):
            await has_begun.wait()
        began_s = loop.time()
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(PATIENCE_S):
            await stopped.wait()
        loop.call_at(began_s + draining.lasts_s + 0.3, may_end.set)

        assert (await client.answer())[2] == b"paid"
        assert not server.ended.is_set()


async def test_open_requests_are_notified_before_they_are_cancelled() -> None:
    has_begun, is_last = asyncio.Event(), asyncio.Event()

    async def application(_scope: Scope, _receive: Receive, send: Send) -> None:
        has_begun.set()
        await is_last.wait()
        length = (b"content-length", b"4")
        await send({"type": "http.response.start", "status": 200, "headers": [length]})
        await send({"type": "http.response.body", "body": b"late"})

    async with AsyncExitStack() as stack:
        draining = Draining(at_last=is_last.set)
        async with served(application, BOUNDS, draining=draining, grace_s=LAST_S) as server:
            client = await stack.enter_async_context(server.connection())
            await client.send(HEALTHZ)
            async with asyncio.timeout(PATIENCE_S):
                await has_begun.wait()
        assert (await client.answer())[2] == b"late"


async def test_clients_that_send_garbage_and_leave_do_not_stop_the_server(
    server: Served, caplog: pytest.LogCaptureFixture
) -> None:
    async with server.connection() as client:
        for _ in range(3):
            leaving = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(5)]
            await asyncio.sleep(0.05)  # the server accepts them
            for each in leaving:
                each.send(b"GARBAGE\r\n\r\n")
                each.close()
            await asyncio.sleep(0.05)
        await client.send(HEALTHZ)
        assert (await client.answer())[0] == 200

    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


async def test_head_has_no_body(server: Served) -> None:
    async with server.connection() as client:
        await client.send(b"HEAD /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answer = await client.rest()

    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.endswith(b"\r\n\r\n")


async def test_dots_in_a_path_are_just_characters(server: Served) -> None:
    async with server.connection() as client:
        await client.send(b"GET /v1/token/../../healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await client.answer())[0] == 404


async def test_answers_have_no_server_header(server: Served) -> None:
    async with server.connection() as client:
        await client.send(HEALTHZ)
        _, headers, _ = await client.answer()

    assert "server" not in headers


async def test_50_slow_clients_do_not_delay_another_client(server: Served) -> None:
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        strangers = [await stack.enter_async_context(server.connection()) for _ in range(50)]
        closings = [asyncio.ensure_future(dribble(stranger, START)) for stranger in strangers]
        began_s = loop.time()
        async with server.connection() as client:
            await client.send(HEALTHZ)
            assert (await client.answer())[0] == 200
        answered_s = loop.time() - began_s
        assert max(await asyncio.gather(*closings)) < BOUNDS.request_s_max + 2.5

    assert answered_s < 0.5


@pytest.mark.parametrize(
    "bounds", [Bounds(connections_max=3), Bounds(connections_per_client_max=3)]
)
async def test_one_connection_too_many_is_503(service: Service, bounds: Bounds) -> None:
    async with served(service.app, bounds) as server, AsyncExitStack() as stack:
        for _ in range(3):
            client = await stack.enter_async_context(server.connection())
            await client.send(HEALTHZ)
            assert (await client.answer())[0] == 200

        assert await refusal(server, b"") == (503, "SERVICE_UNAVAILABLE")
        await client.close()
        async with server.connection() as client:  # there is room again
            await client.send(HEALTHZ)
            assert (await client.answer())[0] == 200


async def test_a_proxy_may_open_any_number_of_connections(service: Service) -> None:
    bounds = Bounds(connections_per_client_max=1)
    async with (
        served(service.app, bounds, proxies=("127.0.0.1",)) as server,
        AsyncExitStack() as stack,
    ):
        for _ in range(5):
            client = await stack.enter_async_context(server.connection())
            await client.send(HEALTHZ)
            assert (await client.answer())[0] == 200


async def ask_without_reading(client: socket.socket) -> None:
    """Send requests without reading the answers, until the connection breaks."""
    while True:
        await asyncio.get_running_loop().sock_sendall(client, HEALTHZ * 50)
        await asyncio.sleep(0.02)


async def test_an_answer_that_is_not_read_is_cut_off(service: Service) -> None:
    bounds = Bounds(unread_s_max=0.3)
    async with served(service.app, bounds, send_buffer_bytes=4_096) as server:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            client.settimeout(0)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(client, ("127.0.0.1", server.port))
            async with asyncio.timeout(PATIENCE_S):
                with pytest.raises(ConnectionError):
                    await ask_without_reading(client)
