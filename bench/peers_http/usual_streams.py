"""Server-sent events as usually implemented: uvicorn and Starlette, a task and queue per client.

`python -m bench.peers_http.usual_streams PORT`; it charges nothing, and sends the same number of
bytes as mintscope, once a second.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from bench.listening import PRICE
from bench.peers_http.streaming import EVERY_S

BYTES: Final = 900  # the size of an update of mintscope
queues: set[asyncio.Queue[bytes]] = set()


async def stream(_request: Request) -> StreamingResponse:
    return StreamingResponse(events(), media_type="text/event-stream")


async def events() -> AsyncIterator[bytes]:
    queue: asyncio.Queue[bytes] = asyncio.Queue(16)
    queues.add(queue)
    try:
        yield b"event: snapshot\ndata: {}\n\n"
        while True:
            yield await queue.get()
    finally:
        queues.discard(queue)


async def tell() -> None:
    while True:
        await asyncio.sleep(EVERY_S)
        event = b"event: update\nid: 1\ndata: {%b%r,%b" % (PRICE, time.monotonic(), b" " * BYTES)
        for queue in list(queues):
            queue.put_nowait(event + b"}\n\n")


async def serve(port: int) -> None:
    app = Starlette(routes=[Route("/v1/stream", stream)])
    config = uvicorn.Config(app, port=port, log_level="error", access_log=False, backlog=4_096)
    telling = asyncio.create_task(tell())
    await uvicorn.Server(config).serve()
    telling.cancel()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
