"""Sending one webhook: only to the checked IP address, within the timeout, without redirects."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from mintscope.alerts.webhooks import NotAccepted, NotNow, Receivers, WebhookPost
from mintscope.kit.clock import ManualClock
from mintscope.kit.limits import MemoryLimits
from mintscope.kit.primitives import UnixMs

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


@dataclass
class Receiver:
    """A server on this machine that keeps each request and answers with *answer*."""

    answer: bytes = OK
    is_last_word: bool = True
    port: int = 0
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1])
            for line in head.lower().split(b"\r\n")
            if line.startswith(b"content-length")
        )
        self.requests.append(head + await reader.readexactly(length))
        try:
            writer.write(self.answer)
            await writer.drain()
            if self.is_last_word:
                writer.write_eof()
            await reader.read()  # until the client leaves
        except ConnectionError:
            pass
        finally:
            writer.close()


@asynccontextmanager
async def receiving(answer: bytes = OK, *, is_last_word: bool = True) -> AsyncIterator[Receiver]:
    receiver = Receiver(answer, is_last_word)
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        await asyncio.sleep(0.01)  # its open connections notice that the client has left


def resolving(*answers: Sequence[str]) -> Callable[[str, int], Awaitable[Sequence[str]]]:
    """Return a fake DNS resolver that answers each look-up with the next of *answers*."""
    left = list(answers)

    async def resolve(_host: str, _port: int) -> Sequence[str]:
        return left.pop(0)

    return resolve


def post(**changes: object) -> WebhookPost:
    reported: dict[str, object] = {"timeout_s": 5.0, "allows_loopback": True} | changes
    return WebhookPost(**reported)  # type: ignore[arg-type]


async def test_a_webhook_is_sent_with_its_path_headers_and_body() -> None:
    async with receiving() as receiver:
        url = f"http://127.0.0.1:{receiver.port}/a/b?c=d"
        await post().send(url, {"webhook-id": "msg_7"}, b'{"a": 1}')
    (request,) = receiver.requests
    head, _, body = request.partition(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    assert lines[0] == b"post /a/b?c=d http/1.1"
    assert body == b'{"a": 1}'
    for line in (
        b"webhook-id: msg_7",
        b"content-type: application/json",
        b"host: 127.0.0.1:%d" % receiver.port,
    ):
        assert line in lines
    assert not any(line.startswith((b"cookie", b"authorization", b"referer")) for line in lines)


@pytest.mark.parametrize("status", [100, 199, 301, 302, 304, 307, 308, 400, 404, 410, 500, 503])
async def test_a_status_outside_2xx_is_not_accepted_and_no_redirect_is_followed(
    status: int,
) -> None:
    async with receiving() as other:
        answer = (
            f"HTTP/1.1 {status} x\r\nlocation: http://127.0.0.1:{other.port}/\r\n"
            "content-length: 0\r\n\r\n"
        )
        async with receiving(answer.encode()) as receiver:
            with pytest.raises(NotAccepted) as refused:
                await post(timeout_s=1.0).send(f"http://127.0.0.1:{receiver.port}/", {}, b"{}")
    assert refused.value.is_gone == (status == 410)
    assert other.connections == 0
    assert len(receiver.requests) == 1


async def test_a_host_name_is_resolved_once_for_the_check_and_the_connection() -> None:
    """DNS rebinding: a second resolution, for the connection, could return another address."""
    async with receiving() as receiver:
        asked = post(resolve=resolving(["127.0.0.1"], ["10.0.0.1"]))
        await asked.send(f"http://rebound.example:{receiver.port}/", {}, b"{}")
        with pytest.raises(NotAccepted, match="public"):
            await asked.send(f"http://rebound.example:{receiver.port}/", {}, b"{}")
    assert b"host: rebound.example" in receiver.requests[0].lower()
    assert len(receiver.requests) == 1


@pytest.mark.parametrize("host", ["xn--fa-hia.example", "xn--n3h.example"])
async def test_an_encoded_host_name_is_resolved_and_verified_as_it_was_written(host: str) -> None:
    """Decoded, and encoded again by the resolver, xn--fa-hia is another name: fass."""

    async def resolve(name: str, _port: int) -> Sequence[str]:
        names.append(name)
        return ["127.0.0.1"]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hello.append(await reader.read(65_536))
        writer.close()

    names: list[str] = []
    hello: list[bytes] = []
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(NotAccepted):
        await post(resolve=resolve).send(f"https://{host}:{port}/", {}, b"{}")
    server.close()
    assert names == [host]
    assert host.encode() in hello[0]


async def test_the_next_address_is_tried_if_nothing_listens_at_the_first() -> None:
    async with receiving() as receiver:
        asked = post(resolve=resolving(["::1", "127.0.0.1"], ["::1", "127.0.0.2"]))
        await asked.send(f"http://two.example:{receiver.port}/", {}, b"{}")
        with pytest.raises(NotAccepted, match="no answer: ConnectError"):
            await asked.send(f"http://two.example:{receiver.port}/", {}, b"{}")
    assert len(receiver.requests) == 1


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"],
        ["::1"],
        ["10.0.0.1"],
        ["169.254.169.254"],
        ["fe80::1"],
        ["::ffff:127.0.0.1"],
        ["1.1.1.1", "127.0.0.1"],
        [],
    ],
)
async def test_nothing_is_sent_unless_all_addresses_are_public(addresses: list[str]) -> None:
    async with receiving() as receiver:
        asked = post(allows_loopback=False, resolve=resolving(addresses))
        with pytest.raises(NotAccepted, match="address"):
            await asked.send(f"https://inside.example:{receiver.port}/", {}, b"{}")
    assert receiver.connections == 0


async def test_plain_http_does_not_leave_this_machine() -> None:
    with pytest.raises(NotAccepted, match="https"):
        await post(resolve=resolving(["1.1.1.1"])).send("http://example.org/", {}, b"{}")


async def test_a_receiver_that_does_not_answer_fails_after_the_timeout() -> None:
    async with receiving(b"", is_last_word=False) as receiver:
        with pytest.raises(NotAccepted, match=r"within 0\.2 s"):
            await post(timeout_s=0.2).send(f"http://127.0.0.1:{receiver.port}/", {}, b"{}")


async def test_a_host_name_that_does_not_resolve_fails_after_the_timeout() -> None:
    async def resolve(_host: str, _port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    with pytest.raises(NotAccepted, match=r"within 0\.1 s"):
        await post(timeout_s=0.1, resolve=resolve).send("https://slow.example/", {}, b"{}")


@pytest.mark.parametrize(
    "answer",
    [
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"a: " + b"x" * 200_000 + b"\r\n\r\n",
        b"HTTP/1.1 99999 OK\r\n\r\n",
    ],
)
async def test_an_invalid_http_answer_is_not_accepted(answer: bytes) -> None:
    async with receiving(answer) as receiver:
        with pytest.raises(NotAccepted):
            await post().send(f"http://127.0.0.1:{receiver.port}/", {}, b"{}")


async def test_an_endless_answer_is_accepted_without_reading_its_body() -> None:
    answer = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + b"ffff\r\n" + b"x" * 65_535
    async with receiving(answer, is_last_word=False) as receiver:
        async with asyncio.timeout(3):
            await post().send(f"http://127.0.0.1:{receiver.port}/", {}, b"{}")


async def test_an_unreachable_receiver_is_reported_as_a_connect_error() -> None:
    async with receiving() as receiver:
        port = receiver.port
    with pytest.raises(NotAccepted, match="no answer: ConnectError"):
        await post().send(f"http://127.0.0.1:{port}/", {}, b"{}")


async def test_a_receiver_without_tls_gets_neither_path_nor_body() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hello.append(await reader.read(65_536))
        writer.write(OK)
        writer.close()

    hello: list[bytes] = []
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(NotAccepted, match="no answer"):
        await post(resolve=resolving(["127.0.0.1"])).send(
            f"https://hook.example:{port}/secret-path", {}, b"secret-body"
        )
    server.close()
    assert b"hook.example" in hello[0]  # the name that the certificate must have
    assert b"secret" not in b"".join(hello)


async def test_host_names_of_one_address_share_its_limit() -> None:
    clock = ManualClock(UnixMs(0))
    receivers = Receivers(MemoryLimits(clock), clock, per_minute=3)
    sent, rested = 0, []
    async with receiving() as receiver:
        for number in range(5):
            name = f"http://n{number}.localhost:{receiver.port}/"
            one = post(resolve=resolving(["127.0.0.1"]), admit=receivers.admit_address)
            try:
                await one.send(name, {}, b"{}")
            except NotNow as rest:
                rested.append(rest.retry_after_s)
            else:
                sent += 1
    assert (sent, receiver.connections) == (3, 3)
    assert rested == [60, 60]
