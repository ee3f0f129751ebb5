"""The body of a streamed response: chunks are sent until they end or the client leaves."""

import asyncio
from typing import Final

from starlette.types import Receive, Send

from mintscope.edges.server.request import ClientDisconnected, Request
from mintscope.edges.server.response import StreamingResponse

CLOSE_S_MAX: Final = 5.0  # for what the chunks must give back


async def send_chunks(
    send: Send, request: Request, response: StreamingResponse, *, is_head: bool
) -> None:
    """Send the body, nothing of it to HEAD, and close the chunks in every case.

    Raises    ClientDisconnected, and whatever the chunks raise: TimeoutError if one takes too long.
              The body is then cut off, so that the client sees that there is something missing.
    """
    if is_head:
        await response.chunks.aclose()
        await send({"type": "http.response.body", "body": b""})
        return
    sending = asyncio.create_task(_send_all(send, response))
    leaving = asyncio.create_task(_disconnect(request.receive))
    try:
        await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not sending.done():
            raise ClientDisconnected
        await sending
    finally:
        sending.cancel()
        leaving.cancel()
        await asyncio.gather(sending, leaving, return_exceptions=True)
        async with asyncio.timeout(CLOSE_S_MAX):
            await response.chunks.aclose()


async def _send_all(send: Send, response: StreamingResponse) -> None:
    async with asyncio.timeout(response.chunk_s_max):
        await _send_chunk(send, b"")  # the head leaves before the first chunk is there
    while True:
        async with asyncio.timeout(response.chunk_s_max):
            try:
                chunk = await anext(response.chunks)
            except StopAsyncIteration:
                break
            await _send_chunk(send, chunk)
    await send({"type": "http.response.body", "body": b""})


async def _send_chunk(send: Send, chunk: bytes) -> None:
    await send({"type": "http.response.body", "body": chunk, "more_body": True})


async def _disconnect(receive: Receive) -> None:
    """Return when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
