"""Measures GET /v1/token with a durable debit, beside bare servers and a usual implementation.

Each server has one worker and 64 keep-alive connections.  The limit is 30 requests a minute for
each credit token, so the load uses many credit tokens, each of which was used once before the
first round.  The load generator is a separate process; the servers take turns, and the median round
counts.

    protocol  a bare asyncio.Protocol writes the same bytes when the head of a request has ended
    bare      uvicorn sends the same bytes from memory, through the same parser
    usual     the same endpoint with FastAPI, pydantic, SQLAlchemy's ORM and slowapi

mintscope encodes the report beforehand, like its cache of reports; `bench.engine` measures this
part.
"""

# ruff: noqa: A005 - only ever imported as bench.http

import base64
import json
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.util import find_spec
from operator import truediv
from pathlib import Path
from random import Random
from secrets import token_bytes
from statistics import median
from tempfile import TemporaryDirectory

import msgspec

from bench.figure import Figure, tell
from bench.process import Running, server_running
from bench.turns import spread
from mintscope.app.stores.folder import MONEY_FILE, PEPPER_FILE, load_pepper
from mintscope.credits.sqlite import CreditBook
from mintscope.kit.clock import SystemClock
from mintscope.kit.credentials import make_credit_token
from mintscope.kit.primitives import UnixS
from mintscope.market.engine.kernels import READ
from mintscope.market.report import (
    CandleCounts,
    DataSpan,
    Indicators,
    Pressure,
    Price,
    TimeframeIndicators,
    TokenReport,
    timeframe_of,
)
from mintscope.market.standings import Confidence
from mintscope.solana.blocks import WSOL

TOKENS, CREDITS = 30_000, 1_000_000
ROUNDS, ROUND_S = 7, 3.0
CONNECTIONS = 64
OURS, BARE, USUAL = "mintscope", "uvicorn alone, same bytes", "FastAPI, pydantic, SQLAlchemy"
PROTOCOL = "asyncio.Protocol alone, same bytes"
PEERS = {BARE: "bare", PROTOCOL: "protocol", USUAL: "usual"}
GOALS = {BARE: ">= 0.85x", USUAL: ">= 80x"}
CPU_GOALS = {BARE: ">= 0.87x"}
WHAT = "GET /v1/token, durable debit, 64 connections"
WHAT_CPU = "its processor time, all threads"


@dataclass(slots=True)
class Rounds:
    """The requests a second and the processor time per request of one server, in each round."""

    rates: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)


def run() -> list[Figure]:
    """Measure mintscope and its peers: requests a second, and processor time of a request."""
    with TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        tokens = prepare(folder)
        servers = {OURS: stack.enter_context(server_running("bench.peers_http.ours", str(folder)))}
        record_answer(folder, servers[OURS].port, _request(tokens[0]))
        for who, module in PEERS.items():
            if who != USUAL or find_spec("fastapi") is not None:
                command = server_running(f"bench.peers_http.{module}", str(folder))
                servers[who] = stack.enter_context(command)
        requests = [_request(token) for token in tokens]
        _ask_for_each(servers[OURS].port, requests)
        measured = _take_turns(servers, requests)
    ours = measured[OURS]
    rates = [_rate(who, rounds, ours) for who, rounds in measured.items()]
    return rates + [_cpu(who, rounds, ours) for who, rounds in measured.items()]


def _take_turns(servers: Mapping[str, Running], requests: Sequence[bytes]) -> dict[str, Rounds]:
    measured = {who: Rounds() for who in servers}
    for number in range(ROUNDS + 1):
        for who, server in servers.items():
            cpu_s = server.cpu_s()
            answers, elapsed_s = _load(server.port, requests, seed=number)
            cpu_s = server.cpu_s() - cpu_s
            if number > 0:  # the first round is a warm-up
                measured[who].rates.append(answers / elapsed_s)
                measured[who].cpu_us.append(cpu_s / answers * 1e6)
    return measured


def _rate(who: str, rounds: Rounds, ours: Rounds) -> Figure:
    return Figure(
        what=WHAT,
        who=who,
        value=median(rounds.rates),
        unit="requests/s",
        ratio=None if who == OURS else median(map(truediv, ours.rates, rounds.rates)),
        goal=GOALS.get(who, ""),
        spread=spread(rounds.rates),
        cpu_us=median(rounds.cpu_us),
        wall_us=1e6 / median(rounds.rates),
    )


def _cpu(who: str, rounds: Rounds, ours: Rounds) -> Figure:
    return Figure(
        what=WHAT_CPU,
        who=who,
        value=median(rounds.cpu_us),
        unit="us",
        ratio=None if who == OURS else median(map(truediv, rounds.cpu_us, ours.cpu_us)),
        goal=CPU_GOALS.get(who, ""),
        spread=spread(rounds.cpu_us),
    )


def prepare(folder: Path) -> list[str]:
    """Store a report, and new credit tokens with credits, in *folder*; return the tokens."""
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
        values = [number() for _ in range(READ)]
        values[4] *= 100  # the RSI
        return timeframe_of(values)

    return TokenReport(
        WSOL,
        Price(number(), number(), "A" * 44, 2_000, number(), 3, Confidence.HIGH, number()),
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


def record_answer(folder: Path, port: int, request: bytes) -> bytes:
    """Send *request* to mintscope, and store its response in *folder* for a bare server to repeat.

    Return the body.
    """
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *headers = head.split(b"\r\n")
    assert status == b"HTTP/1.1 200 OK", answer
    kept = [header for header in headers if not header.startswith((b"date:", b"connection:"))]
    (folder / "headers").write_bytes(b"\r\n".join(kept))
    (folder / "body").write_bytes(body)
    return body


def _ask_for_each(port: int, requests: Sequence[bytes]) -> None:
    """Send each of *requests* once, so that the server then has their credit tokens in memory."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        for request in requests:
            connection.sendall(request)
            answer = b""
            while b"}}" not in answer[-4:]:
                answer += connection.recv(65_536)
            assert answer.startswith(b"HTTP/1.1 200"), answer


def _load(port: int, requests: Sequence[bytes], *, seed: int) -> tuple[int, float]:
    """Send *requests* in random order during a round; return the number of answers, and seconds.

    All answers must have the status 200.
    """
    shuffled = list(requests)
    Random(seed).shuffle(shuffled)
    result = subprocess.run(
        [sys.executable, "-m", "bench.load", str(port), str(ROUND_S), str(CONNECTIONS)],
        input=b"\n".join(base64.b64encode(request) for request in shuffled),
        stdout=subprocess.PIPE,
        check=True,
    )
    answer = json.loads(result.stdout)
    assert set(answer["statuses"]) == {"200"}, answer
    return int(answer["answers"]), float(answer["elapsed_s"])


if __name__ == "__main__":
    for figure in run():
        tell(figure)
