"""The JSON-RPC client: it retries failures, limits answers, and never shows keys."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import httpx
import msgspec
import pytest

from mintscope.kit.clock import ManualClock
from mintscope.kit.primitives import Slot, UnixMs, UnixS
from mintscope.solana.blocks import Block, Endpoint
from mintscope.solana.rpc import Commitment, Missing, Rpc, RpcFailure, RpcRefused, Unreachable
from mintscope.solana.wire import ABSENCES, CODES, Absence, Header, JsonTransactions, Treatment
from support.fakes.node import FakeBlock, FakeNode, Fault, body, code, failing, reply, status

NOW = UnixMs(1_700_000_000_000)
KEY = "key-0123456789"


def node_with(*faults: Fault | None) -> FakeNode:
    node = FakeNode(ManualClock(NOW), faults=list(faults))
    node.grow(10)
    node.finalize(3)
    return node


def client(node: FakeNode, **endpoint: float) -> Rpc:
    return Rpc(
        Endpoint(url=f"https://rpc.example.org/{KEY}", headers={"X-Token": KEY}, **endpoint),  # type: ignore[arg-type]  # numbers only
        clock=node.clock,
        transport=node.transport(),
        jitter=lambda: 1.0,
        sleep=node.sleep,
    )


async def test_every_method_returns_the_answer_of_the_node() -> None:
    async with client(node_with()) as rpc:
        assert await rpc.slot(Commitment.CONFIRMED) == 9
        assert await rpc.slot(Commitment.FINALIZED) == 6
        assert await rpc.first_available() == 0
        assert await rpc.health() == "ok"
        assert await rpc.block_time(Slot(3)) == UnixS(1_700_000_003)
        assert (await rpc.genesis_hash()).startswith("5eykt4")
        listed = await rpc.blocks(first=Slot(4), last=Slot(8), commitment=Commitment.CONFIRMED)
        assert listed == [4, 5, 6, 7, 8]
        header = await rpc.header(Slot(5), Commitment.FINALIZED)
        assert header == Header(parent_slot=Slot(4), blockhash="5-6", parent_blockhash="4-5")


@pytest.mark.parametrize(("seconds_ahead", "believed"), [(0, True), (60, True), (61, False)])
async def test_the_time_of_a_block_is_none_if_over_60_s_in_the_future(
    seconds_ahead: int, *, believed: bool
) -> None:
    node = node_with()
    node.clock.step(-(seconds_ahead - 5) * 1_000)

    async with client(node) as rpc:
        block = await rpc.block(Slot(5), Commitment.CONFIRMED)

    assert isinstance(block, Block)
    assert block.time == (UnixS(1_700_000_005) if believed else None)


async def test_transactions_are_left_unparsed() -> None:
    async with client(node_with()) as rpc:
        block = await rpc.block(Slot(5), Commitment.CONFIRMED)

    assert isinstance(block, Block)
    assert (block.slot, block.parent_slot, block.time) == (5, 4, 1_700_000_005)
    assert block.transactions == JsonTransactions([msgspec.Raw(b'{"of":"5-6"}')])


@pytest.mark.parametrize(
    ("fault", "absence"),
    [
        (code(-32001), Absence.PURGED),
        (code(-32004), Absence.NOT_READY),
        (code(-32014), Absence.NOT_READY),
        (code(-32007), Absence.SKIPPED),
        (code(-32009), Absence.SKIPPED),
        (body(b'{"jsonrpc": "2.0", "result": null, "id": 1}'), Absence.NOT_READY),
    ],
)
async def test_a_missing_block_is_returned_as_missing_without_a_retry(
    fault: Fault, absence: Absence
) -> None:
    node = node_with(fault)
    async with client(node) as rpc:
        missing = await rpc.block(Slot(5), Commitment.CONFIRMED)

    assert missing == Missing(slot=Slot(5), absence=absence)
    assert len(node.requests) == 1


@pytest.mark.parametrize(
    "fault",
    [
        status(408),
        status(429),
        status(500),
        status(502),
        status(503),
        failing(httpx.ConnectError),
        failing(httpx.ReadTimeout),
        failing(httpx.ReadError),
        failing(httpx.RemoteProtocolError),
        body(b""),
        body(b"<html>busy</html>"),
        body(b'{"jsonrpc": "2.0", "result": 12'),
        body(b"\xff"),
        body(b'{"result": 9, "error": {"code": 1, "message": "\xff"}}'),
        body(b'{"result": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
        body(b'{"result": 1e400}'),
        body(b'{"result": ' + b"9" * 5_000 + b"}"),
        body(b'{"jsonrpc": "2.0", "result": "twelve"}'),
        body(b'{"jsonrpc": "2.0", "result": -1}'),
        code(-32005),
        code(-32016),
        code(-32603),
        code(-32019),
    ],
)
async def test_a_failed_request_is_retried_after_doubled_waits(fault: Fault) -> None:
    node = node_with(fault, fault, fault, fault)
    async with client(node) as rpc:
        assert await rpc.slot(Commitment.CONFIRMED) == 9

    assert node.sleeps == [0.25, 0.5, 1.0, 2.0]


@pytest.mark.parametrize(("attempts", "repeated"), [(5, ", 5 times in a row"), (1, "")])
async def test_the_last_failure_is_reported_after_all_attempts(
    attempts: int, repeated: str
) -> None:
    node = node_with(*[status(500)] * (attempts - 1), failing(httpx.ReadTimeout))
    async with client(node, attempts_max=attempts) as rpc:
        with pytest.raises(Unreachable) as caught:
            await rpc.slot(Commitment.CONFIRMED)

    assert str(caught.value) == f"rpc.example.org getSlot: ReadTimeout: gone{repeated}"


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (status(401), "expected HTTP 200; was 401: check chain.rpc_url and its key"),
        (status(403), "was 403"),
        (status(404), "was 404"),
        (status(302, Location="https://elsewhere"), "was 302"),
        (code(-32011), "it keeps no transaction history"),
        (code(-32601), "it does not offer this method"),
        (code(-32602), "it does not accept these parameters"),
        (failing(httpx.UnsupportedProtocol), "the request cannot be sent"),
    ],
)
async def test_a_refused_request_is_not_retried(fault: Fault, expected: str) -> None:
    node = node_with(fault)
    async with client(node) as rpc:
        with pytest.raises(RpcRefused) as caught:
            await rpc.block(Slot(5), Commitment.CONFIRMED)

    assert expected in str(caught.value)
    assert KEY not in str(caught.value)
    assert [method for method, _ in node.requests].count("getBlock") == 1


@pytest.mark.parametrize(
    ("retry_after", "waited"),
    [
        ("7", 7.0),
        ("0", 0.25),
        ("3600", 60.0),
        (format_datetime(datetime.fromtimestamp(NOW / 1000, UTC) + timedelta(seconds=9)), 9.0),
        (format_datetime(datetime.fromtimestamp(NOW / 1000, UTC) - timedelta(seconds=9)), 0.25),
        ("soon", 0.25),
        ("", 0.25),
        ("-5", 0.25),
    ],
)
async def test_the_wait_follows_a_valid_retry_after_up_to_60_s(
    retry_after: str, waited: float
) -> None:
    node = node_with(status(429, **{"Retry-After": retry_after}))
    async with client(node) as rpc:
        await rpc.slot(Commitment.CONFIRMED)

    assert node.sleeps == [waited]


async def test_retry_after_delays_all_requests_of_the_client() -> None:
    # As many faults as a request has attempts
    node = node_with(*[status(429, **{"Retry-After": "8"})] * 5)
    async with client(node) as rpc:
        with pytest.raises(Unreachable):
            await rpc.slot(Commitment.CONFIRMED)
        node.sleeps.clear()
        await rpc.first_available()

    assert node.sleeps == [8.0]


async def test_the_configured_url_and_headers_are_sent() -> None:
    seen: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return reply(result=1)

    rpc = Rpc(
        Endpoint(url=f"https://rpc.example.org/{KEY}?x=1", headers={"X-Token": KEY}),
        clock=ManualClock(NOW),
        transport=httpx.MockTransport(handle),
    )
    async with rpc:
        await rpc.slot(Commitment.CONFIRMED)

    assert str(seen[0].url) == f"https://rpc.example.org/{KEY}?x=1"
    assert seen[0].headers["X-Token"] == KEY
    assert seen[0].headers["Content-Type"] == "application/json"
    assert json.loads(seen[0].content)["jsonrpc"] == "2.0"


async def test_a_block_that_is_its_own_parent_is_an_error() -> None:
    header = {"blockhash": "b", "previousBlockhash": "a", "parentSlot": 5, "transactions": []}
    node = node_with(lambda _node, _method, _params: reply(result=header))
    async with client(node) as rpc:
        with pytest.raises(Unreachable, match="expected a parent below slot 5; was 5"):
            await rpc.block(Slot(5), Commitment.CONFIRMED)


def test_the_repr_of_an_endpoint_contains_no_secret() -> None:
    assert KEY not in repr(Endpoint(url=f"https://x/{KEY}", headers={"X-Token": KEY}))


def test_a_malformed_address_is_refused() -> None:
    with pytest.raises(RpcRefused, match="to be an http or https address"):
        Rpc(Endpoint(url="https://a:b/"), clock=ManualClock(NOW))


# The next tests run over real sockets: only sockets can be cut, stalled or flooded.

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def over_socket(serve: Serve, **endpoint: float) -> Rpc | str:
    """Return the error of getSlot from a server that runs *serve*; without an error, fail."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            await serve(reader, writer)
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    clock = ManualClock(NOW)

    async def sleep(seconds: float) -> None:
        clock.advance(int(seconds * 1000))

    rpc = Rpc(
        Endpoint(url=f"http://127.0.0.1:{port}", attempts_max=2, **endpoint),  # type: ignore[arg-type]  # numbers only
        clock=clock,
        sleep=sleep,
    )
    async with server, rpc:
        try:
            await rpc.slot(Commitment.CONFIRMED)
        except RpcFailure as error:
            return str(error)
    pytest.fail("expected a failure; was none")


async def test_a_connection_cut_during_an_answer_is_an_error() -> None:
    async def cut(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"result": 12')
        await writer.drain()

    assert "RemoteProtocolError" in str(await over_socket(cut))


async def test_a_connection_reset_is_an_error() -> None:
    async def reset(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    assert "2 times in a row" in str(await over_socket(reset))


async def test_a_slow_answer_ends_at_the_timeout() -> None:
    async def drip(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"1\r\n \r\n")
            await writer.drain()
            await asyncio.sleep(0.01)

    assert "no answer within 0.2 s" in str(await over_socket(drip, timeout_s=0.2))


async def test_an_endless_answer_ends_at_the_size_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mintscope.solana.rpc.RESPONSE_BYTES_MAX", 1_000_000)
    sent = 0

    async def flood(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"10000\r\n" + b" " * 65_536 + b"\r\n")
            await writer.drain()
            sent += 65_536

    assert "expected at most 1000000 bytes; was more" in str(await over_socket(flood))
    assert sent < 50_000_000


async def test_a_block_over_the_size_limit_is_requested_only_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mintscope.solana.rpc.RESPONSE_BYTES_MAX", 10_000)
    asked: list[int] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(json.loads(request.content)["params"][0])
        size = 11_000 if asked[-1] == 6 else 9_000
        block = FakeBlock(5, 4, "parent", "hash").answer("full")
        answer = {"jsonrpc": "2.0", "id": 1, "result": {**block, "more": " " * size}}
        return httpx.Response(200, json=answer)

    clock = ManualClock(UnixMs(0))
    node = FakeNode(clock)
    transport = httpx.MockTransport(answer)
    endpoint = Endpoint(url="http://node")
    async with Rpc(endpoint, clock=clock, transport=transport, sleep=node.sleep) as rpc:
        assert isinstance(await rpc.block(Slot(5), Commitment.CONFIRMED), Block)
        for _ in range(2):
            with pytest.raises(RpcFailure, match="expected at most 10000 bytes; was more"):
                await rpc.block(Slot(6), Commitment.CONFIRMED)
        assert isinstance(await rpc.block(Slot(7), Commitment.CONFIRMED), Block)
    assert asked == [5, 6, 7]


@pytest.mark.parametrize(
    ("message", "asked"),
    [
        ("Transaction version (3) is not supported by the requesting client.", [1, 3]),
        ("not supported", [1, 2, 3]),
        ("Transaction version (0) is not supported", [1, 2, 3]),
        ("Transaction version (999) is not supported", [1, 2, 3]),
    ],
)
async def test_a_block_refused_for_its_version_is_requested_at_newer_versions(
    message: str, asked: list[int]
) -> None:
    node = node_with()
    node.grow(9)

    def withhold(_node: FakeNode, _method: str, params: list[Any]) -> httpx.Response | None:
        if params[1]["maxSupportedTransactionVersion"] < 3:
            return reply(error={"code": -32015, "message": message})
        return None

    node.faults = [withhold] * 9
    async with client(node) as rpc:
        assert isinstance(await rpc.block(Slot(5), Commitment.CONFIRMED), Block)
        assert isinstance(await rpc.block(Slot(6), Commitment.CONFIRMED), Block)

    versions = [params[1]["maxSupportedTransactionVersion"] for _, params in node.requests]
    assert versions == [*asked, 3], "what was learned holds for the next block too"
    assert node.sleeps == []


async def test_a_block_refused_at_every_version_raises_rpc_refused() -> None:
    node = node_with(*[code(-32015)] * 200)
    async with client(node) as rpc:
        with pytest.raises(RpcRefused, match="withholds a block for a transaction in it"):
            await rpc.block(Slot(5), Commitment.CONFIRMED)

    assert len(node.requests) == 127  # versions 1 to 127: the version has seven bits


@pytest.mark.parametrize("number", sorted(CODES))
async def test_each_error_code_is_treated_as_the_table_states(number: int) -> None:
    node = node_with(code(number))
    node.grow(9)
    treatment = CODES[number].treatment
    async with client(node) as rpc:
        if treatment is Treatment.STOP:
            with pytest.raises(RpcRefused, match=CODES[number].advice):
                await rpc.block(Slot(5), Commitment.CONFIRMED)
            return
        answer = await rpc.block(Slot(5), Commitment.CONFIRMED)

    again = {Treatment.RETRY: [0.25], Treatment.NEWER_VERSION: []}
    if treatment in again:
        assert isinstance(answer, Block)
        assert node.sleeps == again[treatment]
    else:
        assert answer == Missing(slot=Slot(5), absence=ABSENCES[treatment])


def test_every_code_that_solana_names_is_in_the_table() -> None:
    assert set(CODES) >= {-32000 - number for number in range(1, 22)}
