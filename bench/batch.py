"""Compares one request for 50 reports with 50 requests for one report each.

Each report has a durable debit.  The server has one worker; both kinds of request alternate, over a
few keep-alive connections. The report is the same for every mint and is encoded beforehand, so this
compares the rest: HTTP, admission, the rate limit, and a debit of 50 credits with 50 debits that
share a commit if they arrive at the same time.
"""

import base64
import json
import subprocess
import sys
from operator import truediv
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

import based58

from bench.figure import Figure, tell
from bench.http import Rounds, prepare
from bench.process import Running, server_running
from bench.turns import spread
from mintscope.solana.blocks import WSOL

ROUNDS: Final = 5
ROUND_S: Final = 2.0
CONNECTIONS: Final = 16
AT_ONCE: Final = 50
BATCH: Final = "one request for 50"
SINGLE: Final = "50 requests for one"
REPORTS: Final = {BATCH: AT_ONCE, SINGLE: 1}
WHAT: Final = "reports, durable debits, 16 connections"
WHAT_CPU: Final = "processor time of a report, all threads"


def run() -> list[Figure]:
    """Return reports a second, and processor time per report: in one request, and in fifty."""
    with TemporaryDirectory() as name:
        tokens = prepare(Path(name))
        asked = {BATCH: [_batch(token) for token in tokens], SINGLE: [*map(_single, tokens)]}
        measured = {who: Rounds() for who in asked}
        with server_running("bench.peers_http.ours", name) as server:
            for number in range(ROUNDS + 1):
                for who, requests in asked.items():
                    _turn(server, requests, measured[who], REPORTS[who], is_counted=number > 0)
    batch = measured[BATCH]
    rates = [
        _figure(WHAT, who, each.rates, batch.rates, "reports/s") for who, each in measured.items()
    ]
    return rates + [
        _figure(WHAT_CPU, who, each.cpu_us, batch.cpu_us, "us") for who, each in measured.items()
    ]


def _turn(
    server: Running, requests: list[bytes], rounds: Rounds, reports: int, *, is_counted: bool
) -> None:
    cpu_s = server.cpu_s()
    result = subprocess.run(
        [sys.executable, "-m", "bench.load", str(server.port), str(ROUND_S), str(CONNECTIONS)],
        input=b"\n".join(base64.b64encode(request) for request in requests),
        stdout=subprocess.PIPE,
        check=True,
    )
    answer = json.loads(result.stdout)
    assert set(answer["statuses"]) == {"200"}, answer
    if is_counted:  # the first round is a warm-up
        count = answer["answers"] * reports
        rounds.rates.append(count / answer["elapsed_s"])
        rounds.cpu_us.append((server.cpu_s() - cpu_s) / count * 1e6)


def _figure(what: str, who: str, values: list[float], batch: list[float], unit: str) -> Figure:
    pair = (batch, values) if unit == "reports/s" else (values, batch)
    ratio = None if who == BATCH else median(map(truediv, *pair))
    return Figure(
        what=what, who=who, value=median(values), unit=unit, ratio=ratio, spread=spread(values)
    )


def _batch(token: str) -> bytes:
    mints = [based58.b58encode(bytes([n]) * 32).decode() for n in range(1, AT_ONCE + 1)]
    body = json.dumps({"mints": mints}).encode()
    return (
        f"POST /v1/tokens/batch HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode() + body


def _single(token: str) -> bytes:
    return (
        f"GET /v1/token/{WSOL} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
    ).encode()


if __name__ == "__main__":
    for figure in run():
        tell(figure)
