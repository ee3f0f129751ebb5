"""Floods a server as malicious clients do: `python -m bench.flooding FLOOD PORT SECONDS`.

Each flood has a number of workers, which continue until the time is over.  At the end, the process
prints one JSON line: the number of connections, and the number of answers by status.
"""

import asyncio
import json
import secrets
import socket
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, NamedTuple

import uvloop

from mintscope.kit.credentials import make_credit_token
from mintscope.solana.blocks import WSOL

HOST: Final = "127.0.0.1"
CHUNK: Final = 256 * 1024
PATIENCE_S: Final = 5.0
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Target(NamedTuple):
    """The flooded port, the client IP address of one worker, and the counted results."""

    port: int
    source: str
    seen: Counter[str]

    async def connect(self) -> Streams:
        """Connect to the flooded server from the worker's address, and count the connection."""
        self.seen["connections"] += 1
        return await asyncio.open_connection(HOST, self.port, local_addr=(self.source, 0))


Worker = Callable[[Target], Awaitable[None]]


def get(path: str, *headers: str) -> bytes:
    """Return the bytes of an HTTP GET request for *path*, with *headers*."""
    lines = [f"GET {path} HTTP/1.1", "Host: x", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def post(path: str, body: bytes, *headers: str) -> bytes:
    """Return a request that sends *body* to *path*."""
    lines = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


def asks(make: Callable[[Target], bytes]) -> Worker:
    """Return a worker that sends what *make* returns, again and again, on one connection."""

    async def work(target: Target) -> None:
        reader, writer = await target.connect()
        try:
            while True:
                writer.write(make(target))
                await receive(reader, target.seen)
        finally:
            writer.transport.abort()

    return work


async def receive(reader: asyncio.StreamReader, seen: Counter[str]) -> None:
    """Read one HTTP response, and count its status in *seen*."""
    async with asyncio.timeout(PATIENCE_S):
        head = await reader.readuntil(b"\r\n\r\n")
        seen[head[9:12].decode()] += 1
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r")[0]
        await reader.readexactly(int(length or 0))


def sends(data: bytes, *, hold_s: float = 0.0) -> Worker:
    """Return a worker that sends *data*, then reads until the server closes the connection.

    hold_s    the seconds after the sending for which it reads nothing
    """

    async def work(target: Target) -> None:
        reader, writer = await target.connect()
        try:
            writer.write(data)
            if hold_s:
                await asyncio.sleep(hold_s)
            async with asyncio.timeout(PATIENCE_S):
                while await reader.read(CHUNK):
                    target.seen["reads"] += 1
        finally:
            writer.transport.abort()

    return work


async def read_nothing(target: Target) -> None:
    """Send requests in bursts on one connection, and read no response."""
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        client.settimeout(0)
        client.bind((target.source, 0))
        loop = asyncio.get_running_loop()
        target.seen["connections"] += 1
        await loop.sock_connect(client, (HOST, target.port))
        while True:
            async with asyncio.timeout(PATIENCE_S):
                await loop.sock_sendall(client, get("/openapi.json") * 10)
            await asyncio.sleep(0.05)


def one(_number: int) -> str:
    """Return 127.0.0.2, the client IP address of all workers of a flood from one address."""
    return "127.0.0.2"


def many(number: int) -> str:
    """Return a client IP address that no other worker of a flood has."""
    return f"127.1.{number // 250}.{number % 250 + 1}"


def few(number: int) -> str:
    """Return one of ten client IP addresses, for the worker *number* of a flood."""
    return f"127.2.0.{number % 10 + 1}"


class Flood(NamedTuple):
    """A flood: the number of workers, what each of them does, and its client IP address."""

    workers: int
    work: Worker
    source: Callable[[int], str] = one


def a_stranger(_target: Target) -> bytes:
    token = make_credit_token(secrets.token_bytes(28))
    return get(f"/v1/token/{WSOL}", f"Authorization: Bearer {token}")


def a_guess(target: Target) -> bytes:
    body = f"email=a{secrets.randbelow(10**6)}%40example.org&password=correct+horse".encode()
    origin = f"Origin: http://{HOST}:{target.port}"
    return post("/sign-in", body, origin, "Content-Type: application/x-www-form-urlencoded")


def a_large_body(_target: Target) -> bytes:
    body = b'{"motivation": "' + b"a" * 60_000 + b'"}'
    return post("/api/public/beta-signup", body, "Content-Type: application/json")


PAGE: Final = get("/sign-in", "Accept: text/html", "Accept-Encoding: gzip")
FLOODS: Final = {
    "nothing, to compare with": Flood(0, read_nothing),
    "a page, one address": Flood(200, asks(lambda _: PAGE)),
    "a page, 200 addresses": Flood(200, asks(lambda _: PAGE), many),
    "the description of the API": Flood(200, asks(lambda _: get("/openapi.json")), many),
    "unknown paths": Flood(200, asks(lambda _: get("/x", "Accept: text/html"))),
    "tokens made up": Flood(200, asks(a_stranger), many),
    "forms with passwords": Flood(100, asks(a_guess), many),
    "large bodies": Flood(100, asks(a_large_body), many),
    "256 kB of pipelined requests": Flood(32, sends(get("/x") * (CHUNK // len(get("/x"))))),
    "half-sent requests": Flood(4_000, sends(b"GET / HTTP/1.1\r\n", hold_s=20.0), few),
    "silent connections": Flood(1_000, sends(b"", hold_s=20.0), one),
    "one request a connection": Flood(200, sends(get("/healthz", "Connection: close"))),
    "what is not HTTP": Flood(200, sends(b"\x00\x01\x02\r\n\r\n")),
    "responses that are not read": Flood(200, read_nothing, few),
}


async def run(flood: Flood, *, port: int, seconds: float) -> Counter[str]:
    """Flood the server at *port* for *seconds*; return how often each outcome occurred."""
    seen: Counter[str] = Counter()
    tasks = [
        asyncio.create_task(_go_on(flood.work, Target(port, flood.source(number), seen)))
        for number in range(flood.workers)
    ]
    await asyncio.sleep(seconds)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return seen


async def _go_on(work: Worker, target: Target) -> None:
    while True:
        with suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
            await work(target)
        await asyncio.sleep(0)


def main() -> None:
    name, port, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    print(json.dumps(uvloop.run(run(FLOODS[name], port=port, seconds=seconds))))


if __name__ == "__main__":
    main()
