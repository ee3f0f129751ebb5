"""Measures whether response times of /forgot and /sign-in reveal who has an account.

A client sends requests over one connection, in random order, to an api process like that of
`bench.accounts`. Each e-mail address is used only once at /forgot, because the service pauses
between e-mails to one address. Requests come from many client IP addresses, because each may send
few forms. The response times with and without an account are compared by the test of Kolmogorov
and Smirnov, and by the difference of their medians, next to that of two halves of one class.
"""

import asyncio
import random
import re
import socket
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final
from urllib.parse import urlencode

from bench.accounts import P_MIN, TIMEOUT_S, api_in, same_probability
from bench.figure import Figure, tell
from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.factor_rows import NewUser, UserKind
from mintscope.accounts.passwords import ARGON2
from mintscope.accounts.rows import AccountRows
from mintscope.app.config.groups import Config
from mintscope.app.stores.stores import expect_own_stores, open_money
from mintscope.kit.clock import SystemClock

FORGOT_SAMPLES: Final = 600
SIGN_IN_SAMPLES: Final = 200
WARM_UP: Final = 50  # the number of requests of each class before the measurement
PERSON, STRANGER = "person", "stranger"  # e-mail addresses with an account, and without
Make = Callable[[str, int], bytes]  # makes a request for PERSON or STRANGER and a number


def run() -> list[Figure]:
    """Return the median response times with and without an account, and compare them, by page."""
    with TemporaryDirectory() as name:
        config = Config(data_dir=Path(name))
        asyncio.run(_prepare(config, FORGOT_SAMPLES + WARM_UP))
        with api_in(config.data_dir) as (host, port):
            forgot = _sample(host, port, _forgot, FORGOT_SAMPLES)
            sign_in = _sample(host, port, _sign_in, SIGN_IN_SAMPLES)
    return [*_figures("/forgot", *forgot), *_figures("/sign-in, wrong password", *sign_in)]


async def _prepare(config: Config, count: int) -> None:
    """Create *count* accounts with the same password, for requests to sign in or to reset it."""
    clock, password_hash = SystemClock(), ARGON2.hash("a password of the benchmark")
    expect_own_stores(config)  # without this, the api process refuses stores that have no name
    async with open_money(config, clock) as money:
        for start in range(0, count, 100):
            new = [
                NewUser(
                    kind=UserKind.PERSON,
                    username=f"person-{number}",
                    email=_address(PERSON, number),
                    password_hash=password_hash,
                    created_at=clock.now(),
                )
                for number in range(start, start + 100)
            ]
            await money.accounts.transact(partial(_insert, new))
        assert money.pepper


def _insert(new: Sequence[NewUser], rows: AccountRows) -> None:
    for each in new:
        rows.users.insert(each)


def _address(kind: str, number: int) -> EmailAddress:
    return EmailAddress(f"{kind}-{number:06}@example.org")


def _forgot(kind: str, number: int) -> bytes:
    return _post("/forgot", email=_address(kind, number))


def _sign_in(kind: str, number: int) -> bytes:
    return _post("/sign-in", email=_address(kind, number), password="a wrong password")


def _post(path: str, **fields: str) -> bytes:
    body = urlencode(fields).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: HOST\r\nOrigin: http://HOST\r\n"
        "Content-Type: application/x-www-form-urlencoded\r\nX-Forwarded-For: ADDRESS\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _sample(host: str, port: int, make: Make, count: int) -> tuple[list[float], list[float]]:
    """Send *count* requests for users and as many for strangers, in random order.

    Return the seconds that their answers took: with an account, and without.
    """
    order = [(kind, n) for kind in (PERSON, STRANGER) for n in range(count + WARM_UP)]
    random.Random(1).shuffle(order)
    samples: dict[str, list[float]] = {PERSON: [], STRANGER: []}
    with socket.create_connection((host, port), TIMEOUT_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for kind, number in order:
            request = make(kind, number).replace(b"HOST", f"{host}:{port}".encode())
            request = request.replace(b"ADDRESS", b"10.0.%d.%d" % divmod(number, 256))
            samples[kind].append(_time(connection, request))
    return samples[PERSON][WARM_UP:], samples[STRANGER][WARM_UP:]


def _time(connection: socket.socket, request: bytes) -> float:
    """Send *request*, and read the whole answer; return the seconds until its first bytes."""
    began_s = perf_counter()
    connection.sendall(request)
    answer = connection.recv(65_536)
    took_s = perf_counter() - began_s
    head, _, body = answer.partition(b"\r\n\r\n")
    assert answer.startswith((b"HTTP/1.1 303 ", b"HTTP/1.1 200 ", b"HTTP/1.1 422 ")), answer[:200]
    length = re.search(rb"content-length: (\d+)", head)
    left = int(length[1]) - len(body) if length else 0
    while left > 0:
        left -= len(connection.recv(65_536))
    return took_s


def _figures(page: str, known: list[float], unknown: list[float]) -> list[Figure]:
    halves = [median(unknown[::2]), median(unknown[1::2])]
    return [
        Figure(what=f"{page}, an account", who="mintscope", value=median(known) * 1e6, unit="us"),
        Figure(
            what=f"{page}, none",
            who="mintscope",
            value=median(unknown) * 1e6,
            unit="us",
            ratio=median(known) / median(unknown),  # the ratio should be 1
        ),
        Figure(
            what=f"{page}, two halves of one class differ by",
            who="mintscope",
            value=abs(halves[0] - halves[1]) * 1e6,
            unit="us",
        ),
        Figure(
            what=f"{page}, both are one",
            who="Kolmogorov-Smirnov",
            value=same_probability(known, unknown),
            unit="p",
            goal=f"goal > {P_MIN}",
        ),
    ]


def main() -> int:
    for figure in run():
        tell(figure)
    return 0


if __name__ == "__main__":
    sys.exit(main())
