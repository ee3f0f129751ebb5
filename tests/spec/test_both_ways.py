"""The fast path, called from the parser's callback, gives the same answers as the application.

The same thousand requests go to two services that differ only in `api.express`: plain, odd and
hostile requests, at the limit, with old data, with a store that refuses writes.  The answers are
equal byte for byte, except for date and request id; the journals are equal, too.
"""

import asyncio
import os
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import apsw
import pytest

from mintscope.api.fast_path import TokenFastPath
from mintscope.app.config.config import ApiConfig
from mintscope.app.stores.folder import MONEY_FILE
from mintscope.app.web_api import limits_of
from mintscope.kit.clock import ManualClock
from mintscope.kit.credentials import CreditToken
from mintscope.kit.http.connections import FastPathCycle
from mintscope.kit.http.response import Bounds
from support.fakes.reports import TOO_YOUNG, TRACKED, UNTRACKED
from support.processes.served import PATIENCE_S, Client, Served, served
from support.scenes.service import NOW, Service, running_service

FULL = os.environ.get("STORM") == "full"  # noqa: TID251 - only the number of seeds
SEEDS = 4 if FULL else 1
REQUESTS = 1_000
TOKENS = 16
BOUNDS = Bounds(keep_alive_s_max=1e9, pause_s=0.0)  # the clock jumps
VARIES = re.compile(
    rb'(?<=x-request-id: )[0-9a-f]{16}|(?<="requestId":")[0-9a-f]{16}|(?<=\r\ndate: )[^\r]+'
)
PROBE = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
JOURNAL = "SELECT account, kind, delta, balance, at FROM credit_entry ORDER BY id"


class Counted:
    """The fast path, with a count of the requests that it took."""

    def __init__(self, fast_path: TokenFastPath) -> None:
        self._fast_path = fast_path
        self.taken_count = 0

    def take(self, request: FastPathCycle) -> bool:
        is_taken = self._fast_path.take(request)
        self.taken_count += is_taken
        return is_taken


@dataclass
class Way:
    """A service over HTTP connections: new ones, and ones that stay open."""

    service: Service
    server: Served
    staying: list[Client] = field(default_factory=list)

    async def once(self, request: bytes) -> bytes:
        """Return all bytes that answer *request* on a new connection.

        A probe follows, which shows whether the connection stayed open, and closes it.
        """
        async with self.server.connection() as client:
            await client.send(request)
            first = await piece(client)
            await client.send(PROBE)
            with suppress(ConnectionError):
                first += await client.rest()
        return VARIES.sub(b"", first)

    async def stays(self, number: int, requests: bytes, count: int) -> bytes:
        """Send *requests*, *count* of them, on the open connection *number*; return the answers."""
        client = self.staying[number]
        await client.send(requests)
        return VARIES.sub(b"", b"".join([await piece(client) for _ in range(count)]))


async def piece(client: Client) -> bytes:
    """Return one response, marked if it is cut off; b"" if the connection is closed."""
    async with asyncio.timeout(PATIENCE_S):
        try:
            head = await client.reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return b""
        if head.startswith(b"HTTP/1.1 100"):
            return head + await piece(client)
        length = re.search(rb"\r\ncontent-length: (\d+)", head)
        return head if length is None else head + await _body(client, int(length[1]))


async def _body(client: Client, size: int) -> bytes:
    with suppress(asyncio.IncompleteReadError):
        return await client.reader.readexactly(size)
    return b"cut off"


def get(path: str, *headers: str, method: str = "GET", version: str = "1.1") -> bytes:
    lines = "".join(f"{header}\r\n" for header in headers)
    return f"{method} {path} HTTP/{version}\r\nHost: x\r\n{lines}\r\n".encode("latin-1")


def odd_requests(token: str, other: str) -> Iterator[bytes]:
    """Yield an unusual request of each kind for a report, most with the credit token *token*."""
    path, bearer = f"/v1/token/{TRACKED}", f"Authorization: Bearer {token}"
    yield get(path)
    yield get(path, "Authorization: Bearer svc_credit_" + "0" * 64)
    yield get(path, "Authorization: Bearer svc_live_" + "0" * 64)
    yield get(path, "Authorization: Basic x")
    yield get(path, f"Authorization: bearer {token}")
    yield get(path, f"Authorization: Bearer  {token} ")
    yield get(path, f"Authorization: Bearer {token}x")
    yield get(path, f"Authorization: {token}")
    yield get(path, "Authorization: Bearer")
    yield get(path, "Authorization: Bearer é")
    yield get(path, bearer, f"Authorization: Bearer {other}")
    yield get(path, bearer, bearer)
    yield get(path, bearer, "Accept: a", "Accept: b")
    yield get(path, bearer, "Host: y")
    yield get(path, bearer).replace(b"Host: x\r\n", b"")
    for mint in ("", "abc", "0" * 44, TOO_YOUNG, UNTRACKED, TRACKED + "%20", TRACKED + "/", "é"):
        yield get(f"/v1/token/{mint}", bearer)
    yield get(f"/v1/token/{TRACKED[:-1]}%{ord(TRACKED[-1]):02x}", bearer)
    yield get(f"/v1%2ftoken/{TRACKED}", bearer)
    yield get(f"//v1/token/{TRACKED}", bearer)
    yield get(f"http://x/v1/token/{TRACKED}", bearer)
    yield get(path + "?a=1", bearer)
    yield get(path + "#a", bearer)
    yield get("/v1/credits/balance", bearer)
    yield get("/v1/nothing", bearer)
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
        yield get(path, bearer, "Content-Length: 0", method=method)
    for more in (
        *("Origin: https://page.example", "PAYMENT-SIGNATURE: abc", "Idempotency-Key: short"),
        *("Idempotency-Key: 0123456789abcdef", "Connection: close", "Connection: keep-alive"),
        *("Content-Length: 0", "Expect: 100-continue", "X-Forwarded-For: 10.0.0.1", "TE: trailers"),
        *("If-None-Match: *", "Range: bytes=0-9", "Accept-Encoding: gzip", "Cookie: a=b"),
        "SIGN-IN-WITH-X: abc",
        *("X: " + "a" * 17_000, "Connection: Upgrade\r\nUpgrade: websocket", "N a: x", "Na\0: x"),
    ):
        yield get(path, bearer, more)
    yield get(path, bearer, "Content-Length: 2") + b"{}"
    yield get(path, bearer, "Transfer-Encoding: chunked") + b"2\r\n{}\r\n0\r\n\r\n"
    yield get(path, bearer, "Transfer-Encoding: chunked") + b"0\r\nAuthorization: x\r\n\r\n"
    yield get(path, bearer, *(f"X-{number}: y" for number in range(120)))
    yield get(path, bearer, version="1.0")
    yield get(path, bearer, "Connection: keep-alive", version="1.0")
    yield get(path, bearer, version="2.0")


async def ask(way: Way, random: Random, tokens: list[CreditToken]) -> bytes:
    """Send a request that *random* alone chooses; return its answer."""
    token, other = random.choice(tokens), random.choice(tokens)
    plain = get(f"/v1/token/{TRACKED}", f"Authorization: Bearer {token}")
    kind, number = random.random(), random.randrange(len(way.staying))
    odd = list(odd_requests(token, other))
    if kind < 0.5:
        return await way.stays(number, plain, 1)
    if kind < 0.6:
        count = random.randrange(2, 6)
        return await way.stays(number, plain * count, count)
    if kind < 0.65:
        return await way.once(plain + random.choice(odd))
    if kind < 0.7:
        return await way.once(random.choice(odd) + plain)
    if kind < 0.75:
        at = random.randrange(1, len(plain))
        return await in_two_pieces(way, plain, at)
    return await way.once(random.choice(odd))


async def in_two_pieces(way: Way, request: bytes, at: int) -> bytes:
    async with way.server.connection() as client:
        await client.send(request[:at])
        await asyncio.sleep(0)
        await client.send(request[at:])
        return VARIES.sub(b"", await piece(client))


def change(random: Random) -> Callable[[Service], None]:
    """Return a random change of a service's clock, data or faults, chosen by *random* alone."""
    kind = random.random()
    if kind < 0.5:
        step_ms = random.randrange(0, 8_000)
        return lambda each: each.clock.advance(step_ms)
    if kind < 0.8:
        age_ms = random.choice([0, 412, 30_000, 30_001, 300_000, 300_001])
        return lambda each: setattr(each.reports, "age_ms", age_ms)
    if kind < 0.9:
        refuses = random.random() < 0.3
        return lambda each: refuse_writes(each, refuses=refuses)
    bug = ZeroDivisionError("a bug") if random.random() < 0.2 else None
    return lambda each: setattr(each.reports, "bug", bug)


def refuse_writes(service: Service, *, refuses: bool) -> None:
    """Make the money file refuse writes, like a read-only disk, or accept them again."""
    book: Any = vars(service.ledger)["_writing"]
    vars(book)["_db"].pragma("query_only", refuses)


@asynccontextmanager
async def way(folder: Path, *, has_fast_path: bool, limit: int = 30) -> AsyncIterator[Way]:
    async with AsyncExitStack() as stack:
        api = ApiConfig(express=has_fast_path, rate_limit_requests=limit, other_limit_requests=200)
        service = await stack.enter_async_context(
            running_service(folder, clock=ManualClock(NOW), api=api)
        )
        app: Any = service.app
        if has_fast_path:
            app.fast_path = Counted(app.fast_path)
        server = await stack.enter_async_context(served(service.app, BOUNDS, clock=service.clock))
        staying = [await stack.enter_async_context(server.connection()) for _ in range(8)]
        yield Way(service, server, staying)


def new(folder: Path) -> Path:
    folder.mkdir()
    return folder


def journal(folder: Path) -> list[tuple[Any, ...]]:
    return list(apsw.Connection(str(folder / MONEY_FILE)).execute(JOURNAL))


@pytest.mark.storm
@pytest.mark.parametrize("seed", range(SEEDS))
async def test_the_fast_path_and_the_application_give_the_same_answers_and_debits(
    tmp_path: Path, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("CRITICAL")
    random, statuses = Random(seed), Counter[bytes]()
    async with (
        way(new(tmp_path / "fast"), has_fast_path=True, limit=8) as fast,
        way(new(tmp_path / "ordinary"), has_fast_path=False, limit=8) as ordinary,
    ):
        ways = (fast, ordinary)
        for each in ways:
            tokens = [await each.service.issue(1 + 9 * number) for number in range(TOKENS)]
        for number in range(REQUESTS):
            state = random.getstate()
            answers = []
            for each in ways:
                random.setstate(state)
                answers.append(await ask(each, random, tokens))
            assert answers[0] == answers[1], (number, answers)
            statuses.update(re.findall(rb"HTTP/1.1 (\d+)", answers[0]))
            if number % 5 == 4:
                changes = change(random)
                for each in ways:
                    changes(each.service)
        counted: Any = fast.service.app
        taken_count = counted.fast_path.taken_count
    reported = journal(tmp_path / "fast")

    assert reported == journal(tmp_path / "ordinary")
    assert len(reported) > 200
    assert taken_count > 200
    assert {b"200", b"400", b"401", b"402", b"404", b"405", b"429", b"500", b"503"} <= set(statuses)


@pytest.mark.parametrize("has_fast_path", [True, False])
async def test_the_limit_admits_30_requests_over_concurrent_connections(
    tmp_path: Path, *, has_fast_path: bool
) -> None:
    async with way(tmp_path, has_fast_path=has_fast_path) as one:
        token = await one.service.issue(100)
        plain = get(f"/v1/token/{TRACKED}", f"Authorization: Bearer {token}")
        await one.stays(0, plain, 1)
        answers = await asyncio.gather(*(one.stays(n % 8, plain * 5, 5) for n in range(8)))
        left = await one.service.left(token)

    assert Counter(re.findall(rb"HTTP/1.1 (\d+)", b"".join(answers))) == {b"200": 29, b"429": 11}
    assert left == 70


async def test_a_client_that_leaves_before_its_answer_has_its_credit_back(tmp_path: Path) -> None:
    async with way(tmp_path, has_fast_path=True) as one:
        token = await one.service.issue(10)
        plain = get(f"/v1/token/{TRACKED}", f"Authorization: Bearer {token}")
        await one.stays(0, plain, 1)
        for _ in range(5):
            async with one.server.connection() as client:
                client.writer.write(plain)
                client.writer.transport.abort()
        await one.stays(0, plain, 1)  # answered after the commits of the five
        await one.service.ledger.expect_writable()
        left = await one.service.left(token)

    assert left == 8


@pytest.mark.parametrize("has_fast_path", [True, False])
async def test_the_limit_headers_show_a_changed_limit_at_once(
    tmp_path: Path, *, has_fast_path: bool
) -> None:
    async with way(tmp_path, has_fast_path=has_fast_path) as one:
        token = await one.service.issue(10)
        plain = get(f"/v1/token/{TRACKED}", f"Authorization: Bearer {token}")
        await one.stays(0, plain, 1)
        before = await one.stays(0, plain, 1)
        for limit in limits_of(ApiConfig(rate_limit_requests=31)):
            one.service.limits.change(limit)
        after = await one.stays(0, plain, 1)

    names = rb"x-ratelimit-(?:limit|remaining): (\d+)"
    shown = [re.findall(names, each) for each in (before, after)]
    assert shown == [[b"30", b"28"], [b"31", b"28"]]
