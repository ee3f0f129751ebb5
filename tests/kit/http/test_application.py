"""The application's work for every route: streams, HEAD, CORS, compression, entity tags."""

import asyncio
import gzip
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack

import httpx
import pytest
from starlette.types import ASGIApp, Message
from structlog.testing import capture_logs

from mintscope.kit.clock import SystemClock
from mintscope.kit.http.application import HttpApplication, etag_of
from mintscope.kit.http.rate_limit import AddressLimits
from mintscope.kit.http.request import ClientAddresses, Request
from mintscope.kit.http.response import AnyResponse, Bounds, Response, StreamingResponse
from mintscope.kit.http.routes import Cors, Route, Router
from mintscope.kit.limits import Limit, MemoryLimits
from support.processes.served import Served, served

TEXT = (b"content-type", b"text/plain")
LARGE = b"the same again " * 100
CORS = Cors(paths=["/open/"], methods=["GET"], request_headers=["X-Asked"], exposed=["X-Told"])

Chunks = Callable[[], AsyncGenerator[bytes, None]]


async def write_error(_request: Request, error: Exception) -> Response:
    return Response(500, repr(error).encode(), (TEXT,))


def app_of(response: Callable[[], AnyResponse], *, is_charged: bool = False) -> ASGIApp:
    """Return an application whose routes all answer with *response*."""

    async def endpoint(_request: Request) -> AnyResponse:
        return response()

    routes = [
        Route(method="GET", path=path, endpoint=endpoint, is_charged=is_charged)
        for path in ["/closed", "/open/{name}"]
    ]
    limits = AddressLimits(MemoryLimits(SystemClock()), ClientAddresses())
    limit = limits.of(Limit(name="test", count=1_000, window_s=60))
    return HttpApplication(Router(routes), limit=limit, write_error=write_error, cors=CORS)


def client_of(app: ASGIApp) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test")


def streaming(chunks: Chunks, *, chunk_s_max: float = 5.0) -> ASGIApp:
    return app_of(lambda: StreamingResponse(200, chunks(), (TEXT,), chunk_s_max))


async def read_until_end(place: Served) -> bytes:
    async with place.connection() as client:
        await client.send(b"GET /closed HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        return await client.rest()


async def test_chunks_are_sent_as_they_come() -> None:
    go_on = asyncio.Event()

    async def chunks() -> AsyncGenerator[bytes, None]:
        yield b"first"
        await go_on.wait()
        yield b"second"

    async with served(streaming(chunks), Bounds()) as place, place.connection() as client:
        await client.send(b"GET /closed HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        async with asyncio.timeout(10):
            head = await client.reader.readuntil(b"5\r\nfirst\r\n")
        go_on.set()
        rest = await client.rest()

    assert b"transfer-encoding: chunked" in head
    assert b"content-length" not in head
    assert rest == b"6\r\nsecond\r\n0\r\n\r\n"


async def test_the_chunks_end_if_the_client_leaves() -> None:
    closed = asyncio.Event()

    async def chunks() -> AsyncGenerator[bytes, None]:
        try:
            yield b"first"
            await asyncio.Event().wait()
        finally:
            closed.set()

    async with served(streaming(chunks, chunk_s_max=60), Bounds()) as place:
        async with place.connection() as client:
            await client.send(b"GET /closed HTTP/1.1\r\nHost: x\r\n\r\n")
            async with asyncio.timeout(10):
                await client.reader.readuntil(b"first\r\n")
        async with asyncio.timeout(10):
            await closed.wait()


async def test_a_late_chunk_cuts_the_body_off_and_ends_the_chunks() -> None:
    closed = asyncio.Event()

    async def chunks() -> AsyncGenerator[bytes, None]:
        try:
            yield b"first"
            await asyncio.Event().wait()
        finally:
            closed.set()

    async with served(streaming(chunks, chunk_s_max=0.05), Bounds()) as place:
        body = await read_until_end(place)

    assert closed.is_set()
    assert body.endswith(b"5\r\nfirst\r\n")


async def test_chunks_that_fail_cut_the_body_off() -> None:
    async def chunks() -> AsyncGenerator[bytes, None]:
        yield b"first"
        raise RuntimeError

    async with served(streaming(chunks), Bounds()) as place:
        body = await read_until_end(place)

    assert body.endswith(b"5\r\nfirst\r\n")


async def test_head_of_a_stream_reads_no_chunk() -> None:
    began = asyncio.Event()

    async def chunks() -> AsyncGenerator[bytes, None]:
        began.set()
        yield b"first"

    async with client_of(streaming(chunks)) as client:
        response = await client.head("/closed")

    assert (response.status_code, response.content) == (200, b"")
    assert not began.is_set()


async def test_head_is_get_without_the_body() -> None:
    app = app_of(lambda: Response(200, b"hello", (TEXT,)))
    async with client_of(app) as client:
        get, head = await client.get("/closed"), await client.head("/closed")

    assert (get.content, head.content) == (b"hello", b"")
    assert head.headers["content-length"] == get.headers["content-length"] == "5"
    async with client_of(app_of(lambda: Response(200), is_charged=True)) as client:
        refused = await client.head("/closed")
    assert refused.status_code == 500  # write_error has this status for any error


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT"])
async def test_pages_of_other_origins_can_read_only_open_paths(method: str) -> None:
    origin = {"origin": "https://other.example"}
    async with client_of(app_of(lambda: Response(200))) as client:
        opened = await client.request(method, "/open/x", headers=origin)
        closed = await client.request(method, "/closed", headers=origin)
        asked = await client.options(
            "/open/x", headers=origin | {"access-control-request-method": method}
        )
        refused = await client.options(
            "/closed", headers=origin | {"access-control-request-method": method}
        )

    assert opened.headers["access-control-allow-origin"] == "*"
    assert opened.headers["access-control-expose-headers"] == "X-Told"
    assert "access-control-allow-origin" not in closed.headers
    assert (asked.status_code, asked.headers["access-control-allow-headers"]) == (204, "X-Asked")
    assert asked.headers["access-control-allow-origin"] == "*"
    assert refused.status_code == 500


@pytest.mark.parametrize(
    ("accepted", "is_compressed"),
    [
        ("gzip", True),
        ("br, GZIP;q=0.5", True),
        ("*", True),
        ("gzip;q=0", False),
        ("gzip;q=0.000, *", False),
        ("br", False),
        ("", False),
        ("identity", False),
    ],
)
async def test_large_bodies_are_compressed_for_clients_that_accept_it(
    accepted: str, *, is_compressed: bool
) -> None:
    async with client_of(app_of(lambda: Response(200, LARGE, (TEXT,)))) as client:
        response = await client.get("/closed", headers={"accept-encoding": accepted})

    assert response.content == LARGE
    assert response.headers["vary"] == "Accept-Encoding"
    assert ("content-encoding" in response.headers) is is_compressed
    assert (int(response.headers["content-length"]) < len(LARGE)) is is_compressed


@pytest.mark.parametrize(
    ("body", "is_charged", "cookie"),
    [(LARGE[:999], False, None), (LARGE, True, None), (LARGE, False, "a=b")],
)
async def test_small_paid_and_personal_bodies_are_not_compressed(
    body: bytes, cookie: str | None, *, is_charged: bool
) -> None:
    headers = {"accept-encoding": "gzip"} | ({} if cookie is None else {"cookie": cookie})
    app = app_of(lambda: Response(200, body, (TEXT,)), is_charged=is_charged)
    async with client_of(app) as client:
        response = await client.get("/closed", headers=headers)

    assert "content-encoding" not in response.headers
    assert response.content == body


async def test_a_body_that_is_already_compressed_is_sent_unchanged() -> None:
    packed = gzip.compress(LARGE)
    app = app_of(lambda: Response(200, LARGE, (TEXT,), gzipped=packed))
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    headers = [(b"accept-encoding", b"gzip"), (b"cookie", b"a=b")]
    await app(
        {"type": "http", "method": "GET", "path": "/closed", "headers": headers}, receive, send
    )

    assert sent[-1]["body"] is packed


@pytest.mark.parametrize(
    ("known", "status"),
    [("{etag}", 304), ('"x", {etag}', 304), ("*", 304), ('"x"', 200), (None, 200)],
)
async def test_content_that_the_client_has_is_not_sent_again(
    known: str | None, status: int
) -> None:
    etag = etag_of(LARGE)
    app = app_of(lambda: Response(200, LARGE, (TEXT, (b"cache-control", b"no-cache")), etag))
    asked = {} if known is None else {"if-none-match": known.format(etag=etag.decode())}
    async with client_of(app) as client:
        response = await client.get("/closed", headers=asked)

    assert response.status_code == status
    assert response.headers["etag"] == etag.decode()
    assert response.headers["cache-control"] == "no-cache"
    assert response.content == (LARGE if status == 200 else b"")
    assert ("content-type" in response.headers) is (status == 200)


def waiting() -> tuple[ASGIApp, asyncio.Event]:
    """Return an application that never answers, and an event set once it has a request."""
    has_begun = asyncio.Event()

    async def endpoint(_request: Request) -> AnyResponse:
        has_begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    limits = AddressLimits(MemoryLimits(SystemClock()), ClientAddresses())
    limit = limits.of(Limit(name="test", count=1_000, window_s=60))
    router = Router([Route(method="GET", path="/closed", endpoint=endpoint)])
    return HttpApplication(router, limit=limit, write_error=write_error), has_begun


async def test_a_task_that_calls_the_application_ends_if_it_is_cancelled() -> None:
    app, has_begun = waiting()
    async with client_of(app) as client:
        asking = asyncio.create_task(client.get("/closed"))
        await has_begun.wait()
        asking.cancel()
        await asyncio.wait([asking])

    assert asking.cancelled()


async def test_a_request_that_a_stopped_server_has_answered_is_no_failure() -> None:
    app, has_begun = waiting()
    async with AsyncExitStack() as stack:
        logs = stack.enter_context(capture_logs())
        async with served(app, Bounds(), grace_s=0) as place:
            client = await stack.enter_async_context(place.connection())
            await client.send(b"GET /closed HTTP/1.1\r\nHost: x\r\n\r\n")
            await has_begun.wait()
        status, _, body = await client.answer()

    assert (status, b"ServiceUnavailable" in body) == (500, True)  # as `write_error` writes it
    assert logs == []


@pytest.mark.parametrize("is_late", [False, True])
async def test_a_charge_that_a_cancelled_request_takes_over_is_undone(*, is_late: bool) -> None:
    """The charge comes from another request while the 503 is written, or after it was sent."""
    asked: list[Request] = []
    undone: list[str] = []
    has_begun = asyncio.Event()

    async def endpoint(request: Request) -> AnyResponse:
        asked.append(request)
        has_begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def write_and_charge(request: Request, error: Exception) -> Response:
        if not is_late:
            request.take_over(lambda: undone.append("a credit"))
        return await write_error(request, error)

    limits = AddressLimits(MemoryLimits(SystemClock()), ClientAddresses())
    limit = limits.of(Limit(name="test", count=1_000, window_s=60))
    router = Router([Route(method="GET", path="/closed", endpoint=endpoint)])
    app = HttpApplication(router, limit=limit, write_error=write_and_charge)
    async with client_of(app) as client:
        asking = asyncio.create_task(client.get("/closed"))
        await has_begun.wait()
        asking.cancel()
        await asyncio.wait([asking])
    if is_late:
        asked[0].take_over(lambda: undone.append("a credit"))

    assert undone == ["a credit"]
