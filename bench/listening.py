"""Runs many clients of an event stream, which measure the age of each update on arrival.

It runs as a separate process, so that it takes no time from the core of the server: `python -m
bench.listening PORT CLIENTS SECONDS < requests`, one base64 request a line. It prints one JSON line
when all are connected, and one at the end.
"""

import asyncio
import base64
import json
import sys
import time
from collections.abc import Sequence
from functools import partial
from itertools import cycle, islice
from typing import Final, cast

import uvloop
from typing_extensions import override

PRICE: Final = b'"usd":'
UPDATE: Final = b"event: update"
SNAPSHOT: Final = b"event: snapshot"
AT_ONCE: Final = 100  # the number of connections that are opened at the same time


class Listening(asyncio.Protocol):
    """The client of one event stream: adds the age of each update, on arrival, to *ages_s*."""

    def __init__(self, request: bytes, ages_s: list[float]) -> None:
        self._request = request
        self._ages_s = ages_s
        self.begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_lost = False

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.Transport", transport).write(self._request)

    @override
    def data_received(self, data: bytes) -> None:
        if not self.begun.done() and SNAPSHOT in data:
            self.begun.set_result(None)
        at = data.find(UPDATE)
        if at >= 0:
            at = data.find(PRICE, at) + len(PRICE)
            self._ages_s.append(time.monotonic() - float(data[at : data.index(b",", at)]))

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        if not self.begun.done():
            self.begun.set_exception(exc or ConnectionError("closed before the first event"))


async def listen_for(
    requests: Sequence[bytes], *, port: int, clients: int, seconds: float
) -> dict[str, float]:
    loop, ages_s = asyncio.get_running_loop(), list[float]()
    listening = [Listening(request, ages_s) for request in islice(cycle(requests), clients)]
    for at in range(0, clients, AT_ONCE):
        some = listening[at : at + AT_ONCE]
        made = (loop.create_connection(partial(_same, one), "127.0.0.1", port) for one in some)
        await asyncio.gather(*made)
        await asyncio.gather(*(one.begun for one in some))
    print(json.dumps({"connected": clients}), flush=True)
    await asyncio.sleep(3)  # first, the server does the work that new connections delayed
    ages_s.clear()
    await asyncio.sleep(seconds)
    ages = sorted(ages_s)
    return {
        "updates": len(ages) / clients,
        "lost": sum(one.is_lost for one in listening),
        "p50_ms": ages[len(ages) // 2] * 1000,
        "p99_ms": ages[len(ages) * 99 // 100] * 1000,
    }


def _same(one: Listening) -> Listening:
    return one


def main() -> None:
    port, clients, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    requests = [base64.b64decode(line) for line in sys.stdin]
    reported = uvloop.run(listen_for(requests, port=port, clients=clients, seconds=seconds))
    print(json.dumps(reported), flush=True)


if __name__ == "__main__":
    main()
