"""A page of 1,000 candles for a durable debit, beside a bare server that sends the same bytes.

One worker each, a few keep-alive connections. The servers take turns, and the median round counts.

    the same   a page that was made a moment ago is given again while no slot comes
    another    of the newest candles, which are at hand: what is not folded yet is merged with them
    older      each candle is read from SQLite and encoded
"""

import base64
import json
import subprocess
import sys
from contextlib import ExitStack
from operator import truediv
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from bench.figure import Figure, tell
from bench.http import BARE, OURS, Rounds, prepare, record_answer
from bench.peers_http.series import BEGIN_S
from bench.process import Running, server_running
from bench.turns import spread
from mintscope.base.solana import WSOL

ROUNDS: Final = 5
ROUND_S: Final = 3.0
CONNECTIONS: Final = 4
TOKENS: Final = 8_000  # each is asked for less than its limit allows
CANDLES: Final = 1_000
FAR_S: Final = 2_000_000_000
OLDER_S: Final = BEGIN_S + 60 * 1_100  # before what is kept of the newest
ANOTHER: Final = "mintscope, each page another"
OLDER: Final = "mintscope, each an older page"
WHAT: Final = "GET .../candles?limit=1000, 4 connections"
WHAT_CPU: Final = "its processor time, all threads"


def run() -> list[Figure]:
    """Return requests per second, and the processor time of one, of ours and of the bare server."""
    with TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        tokens = prepare(folder)[:TOKENS]
        asked = {
            OURS: [_request(token) for token in tokens],
            ANOTHER: [_request(token, f"&to={FAR_S + n}") for n, token in enumerate(tokens)],
            OLDER: [_request(token, f"&to={OLDER_S + n}") for n, token in enumerate(tokens)],
        }
        servers = {OURS: stack.enter_context(server_running("bench.peers_http.series", name))}
        for who in (OLDER, ANOTHER, OURS):
            body = record_answer(folder, servers[OURS].port, asked[who][0])
            assert len(json.loads(body)["data"]["candles"]) == CANDLES
        servers[BARE] = stack.enter_context(server_running("bench.peers_http.bare", name))
        servers[ANOTHER] = servers[OLDER] = servers[OURS]
        measured = {who: Rounds() for who in servers}
        for number in range(ROUNDS + 1):
            for who, server in servers.items():
                requests = asked.get(who, asked[OURS])
                _turn(server, requests, measured[who], is_counted=number > 0)
    ours = measured[OURS]
    rates = [
        _figure(WHAT, who, each.rates, ours.rates, "requests/s") for who, each in measured.items()
    ]
    return rates + [
        _figure(WHAT_CPU, who, each.cpu_us, ours.cpu_us, "us") for who, each in measured.items()
    ]


def _turn(server: Running, requests: list[bytes], rounds: Rounds, *, is_counted: bool) -> None:
    cpu_s = server.cpu_s()
    result = subprocess.run(
        [sys.executable, "-m", "bench.load", str(server.port), str(ROUND_S), str(CONNECTIONS)],
        input=b"\n".join(base64.b64encode(request) for request in requests),
        stdout=subprocess.PIPE,
        check=True,
    )
    answer = json.loads(result.stdout)
    assert set(answer["statuses"]) == {"200"}, answer
    if is_counted:  # the first round warms up
        rounds.rates.append(answer["answers"] / answer["elapsed_s"])
        rounds.cpu_us.append((server.cpu_s() - cpu_s) / answer["answers"] * 1e6)


def _figure(what: str, who: str, values: list[float], ours: list[float], unit: str) -> Figure:
    pair = (ours, values) if unit == "requests/s" else (values, ours)
    ratio = None if who == OURS else median(map(truediv, *pair))
    return Figure(
        what=what, who=who, value=median(values), unit=unit, ratio=ratio, spread=spread(values)
    )


def _request(token: str, more: str = "") -> bytes:
    return (
        f"GET /v1/token/{WSOL}/candles?tf=m1&limit={CANDLES}{more} HTTP/1.1\r\nHost: localhost\r\n"
        f"User-Agent: bench\r\nAccept: */*\r\nAuthorization: Bearer {token}\r\n\r\n"
    ).encode()


if __name__ == "__main__":
    for figure in run():
        tell(figure)
