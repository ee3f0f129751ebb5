"""GET /v1/token with a durable debit, beside the bare server and the usual build.

One worker each, 64 keep-alive connections, the limit of 30 a minute and credit
token in force, so the load walks over many tokens.  The load generator is a
process of its own; the three servers take turns, and the median round counts.

    bare    uvicorn sends the same bytes from memory, through the same parser
    usual   the same endpoint with FastAPI, pydantic, SQLAlchemy's ORM and slowapi

The report is encoded beforehand in ours, as the cache of reports does it;
`bench.engine` measures that part.
"""

# ruff: noqa: A005 - only ever imported as bench.http

import base64
import json
import socket
import subprocess
import sys
from contextlib import ExitStack
from importlib.util import find_spec
from operator import truediv
from pathlib import Path
from random import Random
from secrets import token_bytes
from statistics import median
from tempfile import TemporaryDirectory

import msgspec

from bench.figure import Figure, tell
from bench.process import python_running
from mintscope.base.clock import SystemClock
from mintscope.base.credentials import make_credit_token
from mintscope.base.primitives import UnixS
from mintscope.base.solana import WSOL
from mintscope.core.market.report import (
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
from mintscope.edges.storage.folder import MONEY_FILE, PEPPER_FILE, load_pepper
from mintscope.edges.storage.sqlite.money.credit_book import CreditBook

TOKENS, CREDITS = 12_000, 1_000_000
ROUNDS, ROUND_S = 7, 1.0
CONNECTIONS = 64
OURS, BARE, USUAL = "mintscope", "uvicorn alone, same bytes", "FastAPI, pydantic, SQLAlchemy"
GOALS = {BARE: ">= 0.5x", USUAL: ">= 40x"}
WHAT = "GET /v1/token, durable debit, 64 connections"


def run() -> list[Figure]:
    """Return requests per second of ours and of both peers."""
    with TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        tokens = prepare(folder)
        ports = {OURS: stack.enter_context(python_running("bench.peers_http.ours", str(folder)))}
        _record_answer(folder, ports[OURS], tokens[0])
        ports[BARE] = stack.enter_context(python_running("bench.peers_http.bare", str(folder)))
        if find_spec("fastapi") is not None:
            ports[USUAL] = stack.enter_context(
                python_running("bench.peers_http.usual", str(folder))
            )
        requests = [_request(token) for token in tokens]
        measured: dict[str, list[float]] = {who: [] for who in ports}
        for number in range(ROUNDS + 1):
            for who, port in ports.items():
                rate = _load(port, requests, seed=number)
                if number > 0:  # the first round warms up
                    measured[who].append(rate)
    return [
        Figure(
            what=WHAT,
            who=who,
            value=median(rates),
            unit="requests/s",
            ratio=None if who == OURS else median(map(truediv, measured[OURS], rates)),
            goal=GOALS.get(who, ""),
        )
        for who, rates in measured.items()
    ]


def prepare(folder: Path) -> list[str]:
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
        tell(figure)
