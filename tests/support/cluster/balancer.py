"""A small load balancer that forwards TCP connections only to ready services."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Final

import httpx

CHUNK: Final = 65_536
LOOK_EVERY_S: Final = 0.25
READY_S_MAX: Final = 1.0


class Balancer:
    """Forwards each connection to one of the *ports* whose service reports that it is ready."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._ports = ports
        self._ready = list(ports)
        self._turn = count()
        self._passing: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Yield the address of the balancer."""
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        looking = asyncio.create_task(self._look())
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()
            for task in (looking, *self._passing):
                task.cancel()
            await asyncio.gather(looking, *self._passing, return_exceptions=True)

    async def _look(self) -> None:
        async with httpx.AsyncClient(timeout=READY_S_MAX) as client:
            while True:
                said = await asyncio.gather(*(_is_ready(client, port) for port in self._ports))
                ready = [port for port, is_so in zip(self._ports, said, strict=True) if is_so]
                self._ready = ready or list(self._ports)  # if no service is ready, use all services
                await asyncio.sleep(LOOK_EVERY_S)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._pass(reader, writer))
        self._passing.add(task)
        task.add_done_callback(self._passing.discard)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            to_reader, to_writer = await self._connect()
        except OSError:
            writer.close()
            return
        try:
            await asyncio.gather(_pipe(reader, to_writer), _pipe(to_reader, writer))
        except OSError:
            pass
        finally:
            writer.close()
            to_writer.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        ready = list(self._ready)
        first = next(self._turn)
        for n in range(len(ready)):
            with suppress(OSError):
                return await asyncio.open_connection("127.0.0.1", ready[(first + n) % len(ready)])
        raise ConnectionRefusedError("no api process listens")


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Forward bytes from *reader* to *writer* until the reader ends, then end the writer."""
    try:
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()


async def _is_ready(client: httpx.AsyncClient, port: int) -> bool:
    try:
        return (await client.get(f"http://127.0.0.1:{port}/readyz")).is_success
    except httpx.HTTPError:
        return False
