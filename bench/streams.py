"""Measures event streams: memory for each client, and the age of an update when all have it.

    usual   the same bytes by uvicorn and Starlette, with a task and a queue for each client

mintscope debits a credit of each client every minute, durably; the other server charges nothing.
"""

import base64
import json
import resource
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from secrets import token_bytes
from tempfile import TemporaryDirectory
from typing import Final

from bench.figure import Figure, tell
from bench.process import Running, server_running
from mintscope.app.stores.folder import MONEY_FILE, PEPPER_FILE, load_pepper
from mintscope.credits.sqlite import CreditBook
from mintscope.kit.clock import SystemClock
from mintscope.kit.credentials import make_credit_token
from mintscope.solana.blocks import WSOL

CLIENTS: Final = 10_000
TOKENS: Final = 500
CREDITS: Final = 1_000_000
SECONDS: Final = 30.0
SPARE_FILES: Final = 500
OURS: Final = "mintscope, paid by the minute"
USUAL: Final = "uvicorn, Starlette, a queue each"
MEMORY: Final = "memory of a stream client"
AGE: Final = "update to all stream clients, p99"


def run() -> list[Figure]:
    """Measure event streams: the cost of all clients, and the age of updates, for each server."""
    clients = min(CLIENTS, _files() - SPARE_FILES)
    with TemporaryDirectory() as name:
        requests = prepare(Path(name))
        with server_running("bench.peers_http.streaming", name) as server:
            ours = measure(OURS, server, clients, requests)
    with server_running("bench.peers_http.usual_streams") as server:
        usual = measure(USUAL, server, clients, [request("")])
    return [
        figure
        for mine, other in zip(ours, usual, strict=True)
        for figure in (mine, replace(other, ratio=other.value / mine.value))
    ]


def _files() -> int:
    """Raise this process's limit of open files to its maximum; return the limit."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most


def prepare(folder: Path) -> list[bytes]:
    """Issue credit tokens in *folder*; return a request for an event stream with each of them."""
    book = CreditBook(folder / MONEY_FILE, pepper=load_pepper(folder / PEPPER_FILE))
    tokens = [make_credit_token(token_bytes(28)) for _ in range(TOKENS)]
    for token in tokens:
        book.issue(token, CREDITS, note="", at=SystemClock().now())
    book.close()
    return [request(f"Authorization: Bearer {token}\r\n") for token in tokens]


def request(headers: str) -> bytes:
    return (
        f"GET /v1/stream?mints={WSOL} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: bench\r\n"
        f"Accept: text/event-stream\r\n{headers}\r\n"
    ).encode()


def measure(who: str, server: Running, clients: int, requests: Sequence[bytes]) -> list[Figure]:
    before, arguments = memory_bytes(server), map(str, (server.port, clients, SECONDS))
    command = [sys.executable, "-m", "bench.listening", *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as listening:
        assert listening.stdin is not None
        assert listening.stdout is not None
        listening.stdin.write(b"\n".join(map(base64.b64encode, requests)))
        listening.stdin.close()
        assert json.loads(listening.stdout.readline())["connected"] == clients
        cpu_s = server.cpu_s()
        reported = json.loads(listening.stdout.readline())
        cpu_s, after = server.cpu_s() - cpu_s, memory_bytes(server)
    assert not reported["lost"], reported
    updates = reported["updates"] * clients
    return [
        Figure(
            what=MEMORY,
            who=who,
            value=(after - before) / clients / 1000,
            unit="kB",
            goal="<= 30 kB" if who == OURS else "",
        ),
        Figure(
            what=f"{AGE} ({clients:,})",
            who=who,
            value=reported["p99_ms"],
            unit="ms",
            goal="<= 1,000 ms" if who == OURS else "",
            cpu_us=cpu_s / updates * 1e6,
        ),
    ]


def memory_bytes(server: Running) -> int:
    """Return the resident memory of *server* in bytes."""
    pages = int(Path("/proc", str(server.pid), "statm").read_text().split()[1])
    return pages * resource.getpagesize()


if __name__ == "__main__":
    for figure in run():
        tell(figure)
