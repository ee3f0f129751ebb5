"""Limits of the number of connections, and of waiting and incomplete requests on them."""

import asyncio
import gc
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from starlette.types import Receive, Scope, Send

from mintscope.api.failures import write_refusal
from mintscope.app.config.config import ApiConfig
from mintscope.kit.clock import ManualClock
from mintscope.kit.http.connections import Connections
from mintscope.kit.http.request import SLOW_DOWN, ClientAddresses
from mintscope.kit.http.response import Bounds
from mintscope.kit.limits import SITE_SHARES
from mintscope.kit.primitives import UnixMs
from support.processes.served import served
from support.scenes.service import running_service

HOST = b"Host: x\r\n"
UNKNOWN = b"GET /x HTTP/1.1\r\n" + HOST + b"\r\n"
HEALTH = b"GET /v1/health HTTP/1.1\r\n" + HOST + b"\r\n"
LENGTH = (b"content-length", b"4")
HALF = b"GET /healthz HTTP/1.1\r\n"
PAUSE_S = 0.4


async def test_a_burst_gets_17_answers_and_then_the_connection_is_closed(
    tmp_path: Path,
) -> None:
    waiting_max = Bounds().waiting_max
    assert waiting_max == 16
    burst = UNKNOWN * (32_000 // len(UNKNOWN))
    async with (
        running_service(tmp_path) as service,
        served(service.app, Bounds()) as server,
        server.connection() as client,
    ):
        await client.send(burst)
        answers = await client.rest()

    assert answers.count(b"HTTP/1.1 404 ") == waiting_max + 1
    assert answers.count(b"HTTP/1.1 ") == waiting_max + 1
    assert answers.rpartition(b"HTTP/1.1 ")[2].count(b"connection: close\r\n") == 1


async def test_no_answer_is_lost_if_a_burst_is_longer_than_one_read(
    tmp_path: Path,
) -> None:
    burst = UNKNOWN * (200_000 // len(UNKNOWN))
    async with (
        running_service(tmp_path) as service,
        served(service.app, Bounds()) as server,
        server.connection() as client,
    ):
        await client.send(burst)
        answers = await client.rest()

    assert answers.count(b"HTTP/1.1 404 ") == Bounds().waiting_max + 1


async def test_17_requests_at_once_are_answered_each_time(tmp_path: Path) -> None:
    async with (
        running_service(tmp_path) as service,
        served(service.app, Bounds()) as server,
        server.connection() as client,
    ):
        for _ in range(5):
            await client.send(UNKNOWN * 17)
            assert [(await client.answer())[0] for _ in range(17)] == [404] * 17


@pytest.mark.parametrize(
    "bounds", [Bounds(connections_max=3), Bounds(connections_per_client_max=3)]
)
@pytest.mark.parametrize("sent", [b"", HALF, HALF + HOST + b"Content-Length: 5\r\n\r\nab"])
async def test_a_full_server_closes_its_oldest_connection_without_a_whole_request(
    tmp_path: Path, bounds: Bounds, sent: bytes
) -> None:
    async with (
        running_service(tmp_path) as service,
        served(service.app, bounds) as server,
        AsyncExitStack() as stack,
    ):
        clients = []
        for _ in range(3):
            client = await stack.enter_async_context(server.connection())
            await client.send(sent)
            await asyncio.sleep(0.02)  # so that the server has seen them in this order
            clients.append(client)

        async with server.connection() as newcomer:
            await newcomer.send(UNKNOWN)
            assert (await newcomer.answer())[0] == 404
            gone = await clients[0].rest()
            assert gone == b"" if not sent else gone.startswith(b"HTTP/1.1 503 ")

            for client in clients[1:]:
                assert not client.reader.at_eof()


async def test_a_429_delays_the_next_request_of_its_connection_only(
    tmp_path: Path,
) -> None:
    loop, bounds = asyncio.get_running_loop(), Bounds(pause_s=PAUSE_S)
    async with (
        running_service(tmp_path, api=ApiConfig(health_limit_requests=1)) as service,
        served(service.app, bounds) as server,
        server.connection() as client,
        server.connection() as other,
    ):
        await client.send(HEALTH * 3)
        assert [(await client.answer())[0] for _ in range(2)] == [200, 429]
        began_s = loop.time()
        await other.send(UNKNOWN)
        assert (await other.answer())[0] == 404
        assert loop.time() - began_s < PAUSE_S / 2
        assert (await client.answer())[0] == 429
        assert loop.time() - began_s > PAUSE_S / 2


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


async def test_requests_received_before_a_429_wait_for_the_pause_and_keep_their_order() -> None:
    """The first request after the 429 takes longer than the pause."""
    loop, has_begun = asyncio.get_running_loop(), asyncio.Event()
    gates = {path: asyncio.Event() for path in ("/limited", "/slow")}
    began_s: dict[str, float] = {}
    ended_s: dict[str, float] = {}

    async def application(scope: Scope, _receive: Receive, send: Send) -> None:
        path = scope["path"]
        began_s[path] = loop.time()
        if path == "/limited":
            has_begun.set()
            scope["extensions"][SLOW_DOWN]()
        if path in gates:
            await gates[path].wait()
        length = (b"content-length", b"%d" % len(path))
        await send({"type": "http.response.start", "status": 200, "headers": [length]})
        ended_s[path] = loop.time()
        await send({"type": "http.response.body", "body": path.encode()})

    async with (
        served(application, Bounds(pause_s=PAUSE_S)) as server,
        server.connection() as client,
        server.connection() as other,
    ):
        await client.send(get("/limited"))
        async with asyncio.timeout(5):
            await has_begun.wait()
        # Both arrive in one iteration of the event loop, so the second one is read in the next.
        other.writer.write(get("/other"))
        client.writer.write(get("/slow") + get("/fast"))
        loop.call_soon(gates["/limited"].set)
        answers = [(await client.answer())[2]]
        loop.call_later(2 * PAUSE_S, gates["/slow"].set)
        answers += [(await client.answer())[2] for _ in range(2)]

    assert answers == [b"/limited", b"/slow", b"/fast"]
    assert began_s["/slow"] - ended_s["/limited"] > 0.99 * PAUSE_S  # timers have a resolution
    assert began_s["/fast"] >= ended_s["/slow"]


async def test_a_429_does_not_delay_other_requests_of_a_proxy(tmp_path: Path) -> None:
    loop, bounds = asyncio.get_running_loop(), Bounds(pause_s=5.0)
    async with (
        running_service(tmp_path, api=ApiConfig(health_limit_requests=1)) as service,
        served(service.app, bounds, proxies=("127.0.0.1",)) as server,
        server.connection() as client,
    ):
        began_s = loop.time()
        await client.send(HEALTH * 3)
        assert [(await client.answer())[0] for _ in range(3)] == [200, 429, 429]
        assert loop.time() - began_s < 5.0 / 2


async def test_connections_with_requests_in_a_pause_count_against_the_maximum(
    tmp_path: Path,
) -> None:
    bounds = Bounds(connections_per_client_max=3, pause_s=PAUSE_S)
    async with (
        running_service(tmp_path, api=ApiConfig(health_limit_requests=1)) as service,
        served(service.app, bounds) as server,
        AsyncExitStack() as stack,
    ):
        for _ in range(3):
            client = await stack.enter_async_context(server.connection())
            await client.send(HEALTH * 17)
            while (await client.answer())[0] != 429:
                pass
        async with server.connection() as newcomer:
            await newcomer.send(HEALTH)
            assert (await newcomer.answer())[0] == 503


@dataclass(eq=False)
class Opened:
    """A connection that `Connections` may close to make room for another."""

    connections: Connections
    is_gone: bool = False

    def give_way(self) -> None:
        self.is_gone = True
        self.connections.leave(self)


def connections_of(bounds: Bounds, clock: ManualClock) -> Connections:
    return Connections(
        clock=clock, write_refusal=write_refusal, bounds=bounds, addresses=ClientAddresses()
    )


def opened(connections: Connections, peer: str) -> Opened | None:
    """Open a connection that sends no whole request; return None if it was refused."""
    connection = Opened(connections)
    return connection if connections.enter(connection, peer) else None


@pytest.mark.parametrize(
    ("peers", "count_max"),
    [
        (["192.0.2.1"], 2),
        (["2001:db8::1", "2001:db8::2", "2001:db8::ffff:1"], 2),
        ([f"2001:db8:0:{number:x}::1" for number in range(30)], 2 * SITE_SHARES),
    ],
)
def test_connections_are_limited_by_ipv4_address_by_ipv6_64_and_by_ipv6_48(
    peers: list[str], count_max: int
) -> None:
    connections = connections_of(Bounds(connections_per_client_max=2), ManualClock(UnixMs(0)))
    admitted = [opened(connections, peers[number % len(peers)]) for number in range(30)]

    assert all(each is None for each in admitted[count_max:])
    assert all(each is not None for each in admitted[:count_max])
    assert opened(connections, "198.51.100.7") is not None


def test_only_idle_connections_give_way_and_only_after_a_second() -> None:
    clock = ManualClock(UnixMs(0))
    connections = connections_of(Bounds(connections_max=2), clock)
    idle, busy = opened(connections, "192.0.2.1"), opened(connections, "192.0.2.2")
    assert idle is not None
    assert busy is not None
    connections.begin_idling(idle, stays_s=1.0)

    assert opened(connections, "192.0.2.3") is None
    clock.advance(1_000)
    assert opened(connections, "192.0.2.3") is not None
    assert idle.is_gone
    assert opened(connections, "192.0.2.4") is None
    assert not busy.is_gone


def test_a_limited_number_of_refused_connections_may_linger() -> None:
    connections = connections_of(Bounds(lingering_max=3), ManualClock(UnixMs(0)))
    refused = [Opened(connections) for _ in range(5)]

    assert [connections.may_linger(each) for each in refused] == [True] * 3 + [False] * 2
    connections.leave(refused[0])
    assert connections.may_linger(refused[4])


def test_the_connection_with_the_oldest_unread_bytes_gives_way() -> None:
    connections = connections_of(Bounds(unread_bytes_max=100), ManualClock(UnixMs(0)))
    first, second, third = (opened(connections, f"192.0.2.{number}") for number in range(3))
    assert first is not None
    assert second is not None
    assert third is not None
    connections.keep(first, 30)
    connections.keep(second, 40)
    connections.keep(first, 50)
    assert not first.is_gone

    connections.keep(third, 11)
    assert (first.is_gone, second.is_gone, third.is_gone) == (True, False, False)
    connections.keep(second, 0)
    connections.keep(third, 100)
    assert not third.is_gone


def body(size: int, sent: int) -> bytes:
    head = b"POST /x HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n" % size
    return head + b"a" * sent


async def test_incomplete_bodies_share_one_bound(tmp_path: Path) -> None:
    bounds = Bounds(unread_bytes_max=150_000)
    async with (
        running_service(tmp_path) as service,
        served(service.app, bounds) as server,
        AsyncExitStack() as stack,
    ):
        clients = []
        for _ in range(4):
            client = await stack.enter_async_context(server.connection())
            await client.send(body(60_000, 59_999))
            await asyncio.sleep(0.05)  # so that the server has seen them in this order
            clients.append(client)

        for gone in clients[:2]:
            answer = await gone.rest()
            assert answer.startswith(b"HTTP/1.1 503 ")
            assert b"\r\nretry-after: " in answer
        for client in clients[2:]:
            await client.send(b"a")
            assert (await client.answer())[0] == 404


async def test_a_connection_that_gives_way_is_closed_after_its_open_response() -> None:
    goes_on = asyncio.Event()

    async def application(_scope: Scope, _receive: Receive, send: Send) -> None:
        await goes_on.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [LENGTH]})
        await send({"type": "http.response.body", "body": b"paid"})

    async with (
        served(application, Bounds(unread_bytes_max=70_000)) as server,
        server.connection() as client,
        server.connection() as other,
    ):
        await client.send(HEALTH + body(60_000, 40_000))
        await asyncio.sleep(0.05)
        await other.send(body(60_000, 40_000))
        await asyncio.sleep(0.05)
        goes_on.set()

        answers = await client.rest()
        assert answers.endswith(b"paid")
        assert answers.count(b"HTTP/1.1 ") == 1
        await other.send(b"a" * 20_000)
        assert (await other.answer())[0] == 200


def test_ended_connections_leave_no_entries() -> None:
    connections = connections_of(Bounds(), ManualClock(UnixMs(0)))
    for number in range(100):
        connection = opened(connections, f"2001:db8:{number:x}::1")
        assert connection is not None
        connections.begin_waiting(connection)
        connections.end_waiting(connection)
        connections.begin_idling(connection, stays_s=1.0)
        connections.keep(connection, 1)
        connections.leave(connection)
        connections.leave(connection)
        connections.begin_waiting(connection)

    assert connections.is_empty()


@pytest.mark.storm
@pytest.mark.parametrize(
    "data", [UNKNOWN, HEALTH, UNKNOWN * 3, UNKNOWN * 40, b"\x00\x01\r\n\r\n", HALF, b""]
)
async def test_an_ended_connection_leaves_no_objects_to_the_garbage_collector(
    tmp_path: Path, data: bytes
) -> None:
    async with running_service(tmp_path) as service, served(service.app, Bounds()) as server:
        gc.collect()
        gc.disable()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            for _ in range(3):
                async with server.connection() as client:
                    await client.send(data)
                    if data not in {HALF, b""}:
                        await client.answer()
            async with server.connection() as client:  # once answered, the others have ended
                await client.send(UNKNOWN)
                await client.answer()
                gc.collect()
                left = [type(each).__name__ for each in gc.garbage]
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()

    assert [name for name in left if name in {"HttpProtocol", "WholeResponse", "Request"}] == []
