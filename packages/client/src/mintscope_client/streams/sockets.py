"""Receives streams of reports over WebSocket, with the package websockets."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from typing import Any, Final

import httpx
import websockets.asyncio.client
import websockets.sync.client
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from mintscope_client.streams.events import EVENT_BYTES_MAX
from mintscope_client.streams.live import LiveReport
from mintscope_client.streams.streaming import LiveCall

LOOK_S: Final = 5.0  # seconds between two checks of the budget while no message arrives
OPEN_S_MAX: Final = 30.0
# The package websockets sends a ping every 20 s, and closes a connection that does not answer.
OPTIONS: Final[dict[str, Any]] = {
    "open_timeout": OPEN_S_MAX,
    "max_size": EVENT_BYTES_MAX,
    "compression": None,
}
LOST: Final = (ConnectionClosed, InvalidHandshake, asyncio.TimeoutError, OSError, EOFError)


def reports(live: LiveCall) -> Iterator[LiveReport]:
    """Yield the reports that arrive on one WebSocket of *live*, until the connection is lost.

    Raises the error that ends the stream.
    """
    address, first = live.opening()
    try:
        with websockets.sync.client.connect(address, **OPTIONS) as socket:
            socket.send(first)
            while True:
                try:
                    message = socket.recv(timeout=LOOK_S)
                except TimeoutError:
                    live.expect_time()
                    continue
                yield from live.feed_message(message)
    except LOST as trouble:
        _lose(live, trouble)


async def reports_later(live: LiveCall) -> AsyncGenerator[LiveReport, None]:
    """Yield the reports that arrive on one WebSocket of *live*, until the connection is lost.

    Raises the error that ends the stream.
    """
    address, first = live.opening()
    try:
        async with websockets.asyncio.client.connect(address, **OPTIONS) as socket:
            await socket.send(first)
            while True:
                try:
                    # The package websockets loses no message if `recv` is cancelled.
                    message = await asyncio.wait_for(socket.recv(), LOOK_S)
                except asyncio.TimeoutError:  # not the same as TimeoutError in Python 3.10
                    live.expect_time()
                    continue
                for report in live.feed_message(message):
                    yield report
    except LOST as trouble:
        _lose(live, trouble)


def _lose(live: LiveCall, trouble: Exception) -> None:
    # The answer is an HTTP response in place of a WebSocket: a refusal, or a proxy's page
    if isinstance(trouble, InvalidStatus):
        reported = trouble.response
        headers = [
            (name.encode(), value.encode(errors="surrogateescape"))
            for name, value in reported.headers.raw_items()
            if name.lower() != "content-encoding"  # the body stays as it is
        ]
        body = bytes(reported.body or b"")
        live.refuse(httpx.Response(reported.status_code, headers=headers, content=body))
    else:
        is_open = isinstance(trouble, ConnectionClosed)
        kind = httpx.ReadError if is_open else httpx.ConnectError
        live.lose(kind(f"{type(trouble).__name__}: {trouble}"))
