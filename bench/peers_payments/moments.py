"""Serves an application for `bench.payments`, and measures stalls of its event loop."""

import asyncio
import time
from pathlib import Path
from typing import Final

import msgspec
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from mintscope.kit.http.listening import listen

SEED: Final = 7
BEAT_S: Final = 0.001
SCHEDSTAT: Final = Path("/proc/thread-self/schedstat")


async def server(app: ASGIApp, port: int) -> None:
    """Serve *app* with uvicorn's defaults on *port* until the process ends."""
    config = uvicorn.Config(app, log_level="error", lifespan="off")
    await uvicorn.Server(config).serve(sockets=[listen("127.0.0.1", port)])


class Heart:
    """ASGI middleware that adds /stall: the longest stall of the event loop since the last /stall.

    On Linux, a stall does not include waits for a processor core, because other programs of a
    shared machine cause them.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._longest_s = 0.0
        self._beating: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._beating is None:
            self._beating = asyncio.create_task(self._beat())
        if scope["path"] != "/stall":
            await self._app(scope, receive, send)
            return
        body = msgspec.json.encode(self._longest_s)
        self._longest_s = 0.0
        headers = [(b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _beat(self) -> None:
        while True:
            began_s = time.monotonic() - _waited_for_core_s()
            await asyncio.sleep(BEAT_S)
            stood_s = time.monotonic() - _waited_for_core_s() - began_s - BEAT_S
            self._longest_s = max(self._longest_s, stood_s)


def _waited_for_core_s() -> float:
    """Return the seconds for which this thread has been ready, but waited for a processor core."""
    try:
        return int(SCHEDSTAT.read_bytes().split()[1]) / 1e9
    except OSError:
        return 0.0
