"""GET /v1/token with a durable debit, beside the bare server and the usual build.

One worker each, 64 keep-alive connections, the limit of 30 a minute and credit
token in force, so the load walks over many tokens.  The load generator is a
process of its own; rounds of the three servers take turns, and the median counts.

    bare    uvicorn sends the same bytes from memory, through the same parser
    usual   the same endpoint with FastAPI, pydantic, SQLAlchemy's ORM and slowapi

The report is encoded beforehand in ours, as it is by whoever keeps the reports;
`bench.engine` measures that part.
"""

# ruff: noqa: A005 - only ever imported as bench.http

import base64
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from random import Random
from secrets import token_bytes
from statistics import median
from tempfile import TemporaryDirectory

import msgspec

from bench.figure import Figure, line
from mintscope.clock import SystemClock
from mintscope.credentials import make_credit_token
from mintscope.market.report import (
    CandleCounts,
    DataSpan,
    Fibonacci,
    Indicators,
    Macd,
    Pressure,
    Price,
    TimeframeIndicators,
    TokenReport,
)
from mintscope.primitives import UnixS
from mintscope.solana import WSOL
from mintscope.storage.pepper import load_pepper
from mintscope.storage.sqlite.credits import MONEY_FILE, PEPPER_FILE, CreditBook

TOKENS, CREDITS = 6_000, 1_000_000
ROUNDS, ROUND_S, WARM_UP_S = 3, 2.0, 0.3
CONNECTIONS = 64
START_S_MAX = 30.0
WHAT = "GET /v1/token, durable debit, 64 connections"


def run() -> list[Figure]:
    """Return requests per second of ours and of both peers."""
    with TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        tokens = _prepare(folder)
        ports = {"mintscope": stack.enter_context(_server("ours", folder))}
        _record_answer(folder, ports["mintscope"], tokens[0])
        ports["uvicorn alone, same bytes"] = stack.enter_context(_server("bare", folder))
        if find_spec("fastapi") is not None:
            ports["FastAPI, pydantic, SQLAlchemy"] = stack.enter_context(_server("usual", folder))
        requests = [_request(token) for token in tokens]
        measured: dict[str, list[float]] = {who: [] for who in ports}
        for number in range(ROUNDS):
            for who, port in ports.items():
                measured[who].append(_load(port, requests, seed=number))
    rates = {who: median(rounds) for who, rounds in measured.items()}
    goals = {"uvicorn alone, same bytes": "ours >= 0.5x", "FastAPI, pydantic, SQLAlchemy": ">= 40x"}
    return [
        Figure(
            what=WHAT,
            who=who,
            value=rate,
            unit="requests/s",
            ratio=None if who == "mintscope" else rates["mintscope"] / rate,
            goal=goals.get(who, ""),
        )
        for who, rate in rates.items()
    ]


def _prepare(folder: Path) -> list[str]:
    """Issue credit tokens and write the report."""
    (folder / "report.json").write_bytes(msgspec.json.encode(_report(Random(1))))
    book = CreditBook(folder / MONEY_FILE, pepper=load_pepper(folder / PEPPER_FILE))
    tokens = [make_credit_token(token_bytes(28)) for _ in range(TOKENS)]
    at = SystemClock().now()
    for token in tokens:
        book.issue(token, CREDITS, note="", at=at)
    book.close()
    (folder / "tokens").write_text("\n".join(tokens))
    return list(tokens)


def _report(random: Random) -> TokenReport:
    number = random.random

    def timeframe() -> TimeframeIndicators:
        return TimeframeIndicators(
            number(),
            number(),
            number(),
            number(),
            number() * 100,
            Macd(number(), number(), number()),
            Fibonacci(*(number() for _ in range(11))),
        )

    return TokenReport(
        WSOL,
        Price(number(), number()),
        Indicators(
            timeframe(),
            timeframe(),
            timeframe(),
            timeframe(),
            Pressure(*(number() for _ in range(6))),
        ),
        DataSpan(UnixS(1_700_000_000), UnixS(1_750_000_000), CandleCounts(9_000, 1_800, 600, 150)),
    )


def _request(token: str) -> bytes:
    return (
        f"GET /v1/token/{WSOL} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: bench\r\n"
        f"Accept: */*\r\nAuthorization: Bearer {token}\r\n\r\n"
    ).encode()


def _record_answer(folder: Path, port: int, token: str) -> None:
    """Keep one answer of ours for the bare server to send; it adds the date itself."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(_request(token).replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *headers = head.split(b"\r\n")
    assert status == b"HTTP/1.1 200 OK", answer
    kept = [header for header in headers if not header.startswith((b"date:", b"connection:"))]
    (folder / "headers").write_bytes(b"\r\n".join(kept))
    (folder / "body").write_bytes(body)


@contextmanager
def _server(name: str, folder: Path) -> Iterator[int]:
    """Run a server of `bench.peers_http` until the block ends; yield its port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    command = [sys.executable, "-m", f"bench.peers_http.{name}", str(port), str(folder)]
    with subprocess.Popen(command) as process:
        try:
            _wait_for(port, process)
            yield port
        finally:
            process.terminate()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    give_up_s = time.monotonic() + START_S_MAX
    while time.monotonic() < give_up_s and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError(f"{process.args!r} did not start")


def _load(port: int, requests: list[bytes], *, seed: int) -> float:
    """Return answers per second; every one of them must be a 200."""
    shuffled = requests[:]
    Random(seed).shuffle(shuffled)
    result = subprocess.run(
        [sys.executable, "-m", "bench.load", str(port), str(ROUND_S), str(CONNECTIONS)],
        input=b"\n".join(base64.b64encode(request) for request in shuffled),
        stdout=subprocess.PIPE,
        check=True,
    )
    answer = json.loads(result.stdout)
    assert set(answer["statuses"]) == {"200"}, answer
    return float(answer["answers"]) / float(answer["elapsed_s"])


if __name__ == "__main__":
    for figure in run():
        print(line(figure))
