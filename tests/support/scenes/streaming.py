"""Streams over connections, with a market that trades and a clock that moves on command."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from mintscope.kit.http.application import Draining
from mintscope.kit.http.response import Bounds
from mintscope.kit.primitives import Mint
from support.processes.served import Served, served
from support.scenes.live_market import TRADED, trade
from support.scenes.service import Service, bearer, running_service

PATIENCE_S = 30.0
PATH = "/v1/stream"


@dataclass(frozen=True)
class Event:
    """One server-sent event; a comment has no name."""

    name: str
    event_id: int | None
    data: Any
    retry_ms: int | None = None


class Reader:
    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._lines = response.aiter_lines()

    async def next(self) -> Event:
        """Return the next event; raise StopAsyncIteration at the end of the body."""
        fields: dict[str, str] = {}
        async with asyncio.timeout(PATIENCE_S):
            async for line in self._lines:
                if not line:
                    break
                name, _, value = line.partition(":")
                fields[name] = value.strip()
            else:
                raise StopAsyncIteration
        number, retry = fields.get("id"), fields.get("retry")
        return Event(
            fields.get("event", ""),
            None if number is None else int(number),
            json.loads(fields["data"]) if "data" in fields else None,
            None if retry is None else int(retry),
        )

    async def some(self, count: int) -> list[Event]:
        return [await self.next() for _ in range(count)]

    async def rest(self) -> list[Event]:
        """Return all events until the body ends."""
        found: list[Event] = []
        try:
            while True:
                found.append(await self.next())
        except StopAsyncIteration:
            return found


@dataclass
class Streaming:
    service: Service
    server: Served
    client: httpx.AsyncClient

    @asynccontextmanager
    async def open(
        self, token: str, mints: Sequence[Mint] = TRADED[:1], query: str = "", **headers: str
    ) -> AsyncIterator[Reader]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.client.stream(
            "GET", f"{PATH}?mints={','.join(mints)}{query}", headers=bearer(token) | named
        ) as response:
            if response.status_code != 200:
                await response.aread()
            yield Reader(response)

    async def trade(self, *mints: Mint, after_ms: int = 250, is_seen: bool = True) -> None:
        """Advance the clock, and trade *mints* in a new slot; *is_seen*: the service reads it."""
        self.service.clock.advance(after_ms)
        trade(self.service.log, *(mints or TRADED[:1]))
        if is_seen:
            await self.service.follower.catch_up()

    async def pass_time(self, seconds: float) -> None:
        """Advance the clock, but not the slot, check the streams, and wait for due payments."""
        self.service.clock.advance(int(seconds * 1000))
        self.service.streams.look()
        await self.settled()

    async def settled(self) -> None:
        """Wait until due minutes are charged, and then until all other pending work is done."""
        renewing: dict[object, asyncio.Task[None]] = vars(self.service.streams)["_renewing"]
        while renewing:
            await asyncio.wait(renewing.values(), timeout=PATIENCE_S)
            await asyncio.sleep(0)
        for _ in range(3):
            await self.service.ledger.expect_writable()
            await asyncio.sleep(0)

    async def until_open(self, count: int) -> None:
        """Wait until at least *count* streams are open and receive changes."""
        async with asyncio.timeout(PATIENCE_S):
            while len(vars(self.service.streams)["_beats"]) < count:  # noqa: ASYNC110 - no event is set
                await asyncio.sleep(0.001)

    async def until_closed(self, count: int = 0) -> None:
        """Wait until at most *count* streams are open."""
        async with asyncio.timeout(PATIENCE_S):
            while self.service.streams.open_count > count:  # noqa: ASYNC110 - no event is set
                await asyncio.sleep(0.001)


@asynccontextmanager
async def streaming_service(
    folder: Path, *, send_buffer_bytes: int | None = None, **parts: Any
) -> AsyncIterator[Streaming]:
    """Serve streams; *parts* are sections of the configuration.

    send_buffer_bytes   the limit of the send buffer of a connection; None: that of the system
    """
    async with running_service(folder, **parts) as service:
        bounds = Bounds(keep_alive_s_max=1e9, pause_s=0.0)
        async with (
            served(
                service.app,
                bounds,
                clock=service.clock,
                send_buffer_bytes=send_buffer_bytes,
                draining=Draining(at_end=service.streams.stop),
            ) as server,
            httpx.AsyncClient(
                base_url=f"http://127.0.0.1:{server.port}", timeout=PATIENCE_S
            ) as client,
        ):
            yield Streaming(service, server, client)


@pytest.fixture
async def streaming(tmp_path: Path) -> AsyncIterator[Streaming]:
    async with streaming_service(tmp_path) as streaming:
        yield streaming
