"""WebSockets to a service that streams, with an independent client library."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from mintscope.kit.primitives import Mint
from support.scenes.service import bearer
from support.scenes.streaming import PATH, PATIENCE_S, Event, Streaming


class Socket:
    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    async def say(self, message: object) -> None:
        await self.connection.send(json.dumps(message))

    async def message(self) -> Any:
        async with asyncio.timeout(PATIENCE_S):
            return json.loads(await self.connection.recv())

    async def next(self) -> Event:
        found = await self.message()
        number = found.get("id")
        return Event(
            found["type"],
            None if number is None else int(number),
            found["data"],
            found.get("retryMs"),
        )

    async def some(self, count: int) -> list[Event]:
        return [await self.next() for _ in range(count)]

    async def rest(self) -> list[Event]:
        """Return all events until the server closes the connection normally."""
        found: list[Event] = []
        try:
            while True:
                found.append(await self.next())
        except ConnectionClosed:
            assert await self.close_code() == 1000
            return found

    async def close_code(self) -> int | None:
        async with asyncio.timeout(PATIENCE_S):
            await self.connection.wait_closed()
        return self.connection.close_code


@asynccontextmanager
async def socket(
    streaming: Streaming, query: str = "", headers: Mapping[str, str] | None = None
) -> AsyncIterator[Socket]:
    """Open a WebSocket; raises InvalidStatus if the server refuses it."""
    async with connect(
        f"ws://127.0.0.1:{streaming.server.port}{PATH}{query}",
        additional_headers=headers or {},
        proxy=None,
        open_timeout=PATIENCE_S,
        ping_interval=None,
    ) as connection:
        yield Socket(connection)


@asynccontextmanager
async def stream(
    streaming: Streaming, token: str, mints: Sequence[Mint], **headers: str
) -> AsyncIterator[Socket]:
    """Open a WebSocket with the credential in a request header."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with socket(streaming, f"?mints={','.join(mints)}", bearer(token) | named) as opened:
        yield opened
