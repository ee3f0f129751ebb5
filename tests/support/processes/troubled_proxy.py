"""A proxy in front of a server: it forwards bytes until a test makes it misbehave."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final, Literal

Trouble = Literal["none", "bad_gateway", "cuts", "sleeps"]
CHUNK: Final = 65_536
BAD_GATEWAY: Final = b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class TroubledProxy:
    """A proxy of the server at *port*.

    origin     its URL
    attempts   a semaphore, released at each connection that the proxy does not forward
    """

    def __init__(self, port: int) -> None:
        self.origin = ""
        self.attempts = asyncio.Semaphore(0)
        self._port = port
        self._trouble: Trouble = "none"
        self._is_awake = asyncio.Event()
        self._open: set[asyncio.StreamWriter] = set()

    def begin(self, trouble: Trouble) -> None:
        """Begin *trouble*: close the open connections, or pause them if *trouble* is "sleeps"."""
        self._trouble = trouble
        if trouble == "sleeps":
            self._is_awake.clear()
        else:
            self.cut()

    def end(self) -> None:
        """End the trouble, and close all connections."""
        self._trouble = "none"
        self.cut()
        self._is_awake.set()

    def cut(self) -> None:
        """Close all connections."""
        for writer in self._open:
            writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        self._open.add(writer)
        try:
            if self._trouble == "none":
                await self._pass_on(reader, writer)
            else:
                await self._refuse(reader, writer)
        except ConnectionError:
            pass  # the browser has disconnected, or `cut` closed the connection
        finally:
            self._open.discard(writer)
            writer.close()

    async def _refuse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.attempts.release()
        if self._trouble == "sleeps":
            await self._is_awake.wait()
        elif self._trouble == "bad_gateway":
            with suppress(asyncio.IncompleteReadError):
                await reader.readuntil(b"\r\n\r\n")
            writer.write(BAD_GATEWAY)
            await writer.drain()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection("127.0.0.1", self._port)
        ways = [
            asyncio.create_task(self._pipe(reader, to_server)),
            asyncio.create_task(self._pipe(from_server, writer)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            to_server.close()

    async def _pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(CHUNK):
            await self._is_awake.wait()
            writer.write(data)
            await writer.drain()


@asynccontextmanager
async def troubled_proxy(port: int) -> AsyncIterator[TroubledProxy]:
    """Run a TroubledProxy on a free port."""
    proxy = TroubledProxy(port)
    proxy.end()
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.origin = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        proxy.end()
        server.close()
