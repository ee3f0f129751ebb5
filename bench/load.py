"""Generates load: keep-alive connections that repeat prepared requests without pauses.

It runs as a separate process, so that it takes no time from the core of the server: `python -m
bench.load PORT SECONDS CONNECTIONS < requests`, one base64 request a line. It prints one JSON line:
{"answers": ..., "elapsed_s": ..., "statuses": {...}, "p50_ms", "p99_ms"}.
"""

import asyncio
import base64
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import cycle
from typing import cast

import uvloop
from typing_extensions import override

HEAD_END = b"\r\n\r\n"
LENGTH = b"content-length: "


class Connection(asyncio.Protocol):
    """A connection of a load generator: sends a request as soon as the last answer is complete."""

    def __init__(self, load: "Load") -> None:
        self._load = load
        self._received = b""
        self._sent_at = 0.0

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # The class of uvloop does not inherit from asyncio.Transport
        self._transport = cast("asyncio.Transport", transport)
        self._send()

    @override
    def data_received(self, data: bytes) -> None:
        received = self._received + data if self._received else data
        head_end = received.find(HEAD_END)
        at = received.find(LENGTH) + len(LENGTH)
        if head_end < 0 or len(received) < head_end + 4 + int(
            received[at : received.index(b"\r", at)]
        ):
            self._received = received
            return
        self._received = b""
        self._load.answered(received[9:12], time.perf_counter() - self._sent_at)
        self._send()

    def _send(self) -> None:
        self._sent_at = time.perf_counter()
        self._transport.write(next(self._load.requests))


class Load:
    """The requests, and the counted answers, of all connections of a load generator."""

    def __init__(self, requests: Iterator[bytes]) -> None:
        self.requests = requests
        self.statuses: Counter[bytes] = Counter()
        self.latencies_s: list[float] = []

    def answered(self, status: bytes, latency_s: float) -> None:
        self.statuses[status] += 1
        self.latencies_s.append(latency_s)


async def drive(
    requests: Sequence[bytes], *, port: int, seconds: float, connections: int
) -> dict[str, object]:
    load = Load(cycle(requests))
    loop = asyncio.get_running_loop()
    opened = [
        await loop.create_connection(lambda: Connection(load), "127.0.0.1", port)
        for _ in range(connections)
    ]
    load.statuses.clear()
    load.latencies_s.clear()
    began_s = time.perf_counter()
    await asyncio.sleep(seconds)
    elapsed_s = time.perf_counter() - began_s
    statuses, latencies_s = dict(load.statuses), sorted(load.latencies_s)
    for transport, _ in opened:
        transport.abort()
    answers = len(latencies_s)
    return {
        "answers": answers,
        "elapsed_s": elapsed_s,
        "statuses": {status.decode(): count for status, count in statuses.items()},
        "p50_ms": latencies_s[answers // 2] * 1000,
        "p99_ms": latencies_s[answers * 99 // 100] * 1000,
    }


def main() -> None:
    port, seconds, connections = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    requests = [base64.b64decode(line) for line in sys.stdin]
    print(
        json.dumps(uvloop.run(drive(requests, port=port, seconds=seconds, connections=connections)))
    )


if __name__ == "__main__":
    main()
