"""Measures a page of a series, paid with a credit, against a bare server that sends its bytes.

Each server has one worker and a few keep-alive connections.  The servers take turns, and the median
round counts.

the same   a page that was computed a moment ago is sent again, because no new slot has arrived
another    a page of the newest candles, which are in memory; swaps that are not folded yet are
           merged with them
older      a page of older candles: each row is read from SQLite and encoded
"""

import base64
import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from operator import truediv
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from bench.figure import Figure, tell
from bench.http import BARE, OURS, Rounds, prepare, record_answer
from bench.peers_http.series import BEGIN_S, MINUTES
from bench.process import Running, server_running
from bench.turns import spread
from mintscope.api.series.wire import BeforeSwap
from mintscope.api.wire import encode_cursor
from mintscope.solana.blocks import WSOL

ROUNDS: Final = 5
ROUND_S: Final = 2.0
CONNECTIONS: Final = 4
TOKENS: Final = 8_000  # the number of credit tokens: each is used less often than its limit allows
FAR_S: Final = 2_000_000_000
OLDER_S: Final = BEGIN_S + 60 * 1_100  # a time before the newest candles, which are in memory
OLDER_SLOTS: Final = range(600, MINUTES)
ANOTHER: Final = "mintscope, each page another"
OLDER: Final = "mintscope, each an older page"
WHAT_CPU: Final = "its processor time, all threads"


class Kind(NamedTuple):
    """One kind of request for a series, such as candles or swaps.

    rows_in   the name of the list in the response
    rows      the number of rows that the response must have
    others    further requests to measure: for each name, a function from the number of a token to
              the text to add to the query
    """

    name: str
    query: str
    rows_in: str
    rows: int
    others: Mapping[str, Callable[[int], str]]


KINDS: Final = (
    Kind(
        "candles",
        "tf=m1&limit=1000",
        "candles",
        1_000,
        {ANOTHER: lambda n: f"&to={FAR_S + n}", OLDER: lambda n: f"&to={OLDER_S + n}"},
    ),
    Kind(
        "indicators", "tf=m1&limit=1000", "points", 1_000, {ANOTHER: lambda n: f"&to={FAR_S + n}"}
    ),
    Kind("swaps", "limit=500", "swaps", 500, {OLDER: lambda n: f"&cursor={_before(n)}"}),
)


def run() -> list[Figure]:
    """Measure series on mintscope and bare uvicorn: requests a second, and processor time."""
    with TemporaryDirectory() as name:
        tokens = prepare(Path(name))[:TOKENS]
        with server_running("bench.peers_http.series", name) as ours:
            return [figure for kind in KINDS for figure in _measure(kind, ours, tokens)]


def _measure(kind: Kind, server: Running, tokens: Sequence[str]) -> list[Figure]:
    asked = {OURS: [_request(token, kind) for token in tokens]}
    for who, more in kind.others.items():
        asked[who] = [_request(token, kind, more(n)) for n, token in enumerate(tokens)]
    with TemporaryDirectory() as name:
        for requests in reversed(asked.values()):  # the bare server sends the last response
            body = record_answer(Path(name), server.port, requests[0])
            assert len(json.loads(body)["data"][kind.rows_in]) == kind.rows
        with server_running("bench.peers_http.bare", name) as bare:
            servers = {OURS: server, BARE: bare} | dict.fromkeys(kind.others, server)
            measured = {who: Rounds() for who in servers}
            for number in range(ROUNDS + 1):
                for who, each in servers.items():
                    requests = asked.get(who, asked[OURS])
                    _turn(each, requests, measured[who], is_counted=number > 0)
    what, ours = f"GET .../{kind.name}?{kind.query}, 4 connections", measured[OURS]
    rates = [
        _figure(what, who, each.rates, ours.rates, "requests/s") for who, each in measured.items()
    ]
    what = f"{kind.name}: {WHAT_CPU}"
    return rates + [
        _figure(what, who, each.cpu_us, ours.cpu_us, "us") for who, each in measured.items()
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
    if is_counted:  # the first round is a warm-up
        rounds.rates.append(answer["answers"] / answer["elapsed_s"])
        rounds.cpu_us.append((server.cpu_s() - cpu_s) / answer["answers"] * 1e6)


def _figure(what: str, who: str, values: list[float], ours: list[float], unit: str) -> Figure:
    pair = (ours, values) if unit == "requests/s" else (values, ours)
    ratio = None if who == OURS else median(map(truediv, *pair))
    return Figure(
        what=what, who=who, value=median(values), unit=unit, ratio=ratio, spread=spread(values)
    )


def _request(token: str, kind: Kind, more: str = "") -> bytes:
    return (
        f"GET /v1/token/{WSOL}/{kind.name}?{kind.query}{more} HTTP/1.1\r\nHost: localhost\r\n"
        f"User-Agent: bench\r\nAccept: */*\r\nAuthorization: Bearer {token}\r\n\r\n"
    ).encode()


def _before(number: int) -> str:
    """Return a cursor of /swaps, another one for each *number*; a slot of its page has one swap."""
    leg, place = divmod(number, len(OLDER_SLOTS))
    return encode_cursor(BeforeSwap(OLDER_SLOTS[place], 0, 0, -1, leg))


if __name__ == "__main__":
    for figure in run():
        tell(figure)
