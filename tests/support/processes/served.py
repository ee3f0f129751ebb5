"""A real server on the loopback address, with clients that send raw bytes."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from starlette.types import ASGIApp

from mintscope.app.site import write_open_refusal
from mintscope.kit.clock import Clock, SystemClock
from mintscope.kit.http.application import GRACE_S, Draining, make_server
from mintscope.kit.http.listening import listen
from mintscope.kit.http.request import ClientAddresses
from mintscope.kit.http.response import Bounds

PATIENCE_S = 60.0  # a busy machine takes tens of seconds for a thousand requests


@dataclass
class Client:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        """Send *data*; a server that has already closed the connection is not an error here."""
        with suppress(ConnectionError):
            self.writer.write(data)
            await self.writer.drain()

    async def rest(self) -> bytes:
        """Return all bytes until the server closes the connection."""
        async with asyncio.timeout(PATIENCE_S):
            return await self.reader.read()

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        async with asyncio.timeout(PATIENCE_S):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            status, *lines = head.strip().split("\r\n")
            headers = {
                name.lower(): value for name, _, value in (line.partition(": ") for line in lines)
            }
            body = await self.reader.readexactly(int(headers.get("content-length", 0)))
        return int(status.split()[1]), headers, body

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()


@dataclass
class Served:
    port: int
    ended: asyncio.Event

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Client]:
        client = Client(*await asyncio.open_connection("127.0.0.1", self.port))
        try:
            yield client
        finally:
            await client.close()


@asynccontextmanager
async def served(  # noqa: PLR0913 - one argument for each thing that can differ
    app: ASGIApp,
    bounds: Bounds,
    *,
    clock: Clock | None = None,
    proxies: tuple[str, ...] = (),
    send_buffer_bytes: int | None = None,
    draining: Draining | None = None,
    grace_s: int = GRACE_S,
) -> AsyncIterator[Served]:
    """Serve *app* in this event loop.

    grace_s   seconds that open responses have to end when the server stops
    """
    listener = listen("127.0.0.1", 0)
    if send_buffer_bytes is not None:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
    server = make_server(
        app,
        clock=clock or SystemClock(),
        addresses=ClientAddresses(proxies),
        bounds=bounds,
        write_refusal=write_open_refusal,
        fast_path=getattr(app, "fast_path", None),
        websocket_paths=getattr(app, "websocket_paths", ()),
        draining=draining,
        grace_s=grace_s,
    )
    ended = asyncio.Event()
    running = asyncio.ensure_future(server.serve(sockets=[listener]))
    running.add_done_callback(lambda _: ended.set())
    try:
        yield Served(listener.getsockname()[1], ended)
    finally:
        server.stop()
        await running
