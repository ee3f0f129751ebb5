"""Measures whether response times reveal which e-mail addresses have applied for an API key.

A client requests keys over one connection, in random order, from a whole api process on the
loopback address, because a network would hide small differences.  Two kinds of requests can be
distinguished if, by the test of Kolmogorov and Smirnov, their times do not come from one
distribution.
"""

import asyncio
import random
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import combinations
from math import exp, sqrt
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final
from urllib.parse import urlsplit

import msgspec
import numpy as np

from bench.figure import Figure, tell
from mintscope.accounts.email_address import parse_email
from mintscope.accounts.signups.application import SignupId, parse_form
from mintscope.app.accounts import Accounts, open_accounts
from mintscope.app.config.groups import Config
from mintscope.app.config.load import child_environment
from mintscope.app.stores.stores import expect_own_stores, open_money
from mintscope.kit.audit import COMMAND_LINE
from mintscope.kit.clock import SystemClock
from mintscope.kit.credentials import make_application_secret
from mintscope.kit.limits import MemoryLimits

SAMPLES: Final = 2_000
WARM_UP: Final = 300
P_MIN: Final = 0.01
TIMEOUT_S: Final = 30
ENOUGH: Final = "1000000000"
PATH: Final = "/api/auth/exchange-secret"
WRONG: Final = make_application_secret(bytes(28))
UNKNOWN, WAITING, ISSUED = (f"applicant-{number}@example.org" for number in range(3))


def run() -> list[Figure]:
    """Return the median time of each kind of request, and compare the times of the kinds."""
    with TemporaryDirectory() as name:
        config = Config(data_dir=Path(name))
        requests = asyncio.run(_prepare(config))
        with api_in(config.data_dir) as (host, port):
            samples = _sample(host, port, requests)
    first = median(samples["unknown"])
    figures = [
        Figure(
            what=f"exchange, {kind}",
            who="mintscope",
            value=median(took) * 1e6,
            unit="us",
            ratio=first / median(took),  # the ratio to the first class, which should be 1
        )
        for kind, took in samples.items()
    ]
    return figures + [
        Figure(
            what=f"{one} and {other} are one",
            who="Kolmogorov-Smirnov",
            value=same_probability(samples[one], samples[other]),
            unit="p",
            goal=f"goal > {P_MIN}",
        )
        for one, other in combinations(samples, 2)
    ]


async def _prepare(config: Config) -> dict[str, bytes]:
    """Create applications for API keys; return the request to send for each kind of applicant."""
    clock = SystemClock()
    expect_own_stores(config)  # without this, the api process refuses stores that have no name
    async with (
        open_money(config, clock) as money,
        open_accounts(
            config,
            store=money.accounts,
            pepper=money.pepper,
            origin="http://x",
            limits=MemoryLimits(clock),
            clock=clock,
        ) as accounts,
    ):
        _, waiting = await _apply(accounts, WAITING)
        signup_id, secret = await _apply(accounts, ISSUED)
        await accounts.review.approve(
            signup_id, scopes=frozenset(), note="", actor=COMMAND_LINE, unconfirmed=True
        )
        applicant = await accounts.exchange.recognise(parse_email(ISSUED), secret)
        assert applicant is not None
        await accounts.exchange.exchange(applicant, secret, redelivery_key=None)
    return {
        "unknown": _request(UNKNOWN, WRONG),
        "wrong": _request(WAITING, WRONG),
        "unapproved": _request(WAITING, waiting),
        "consumed": _request(ISSUED, WRONG),
    }


async def _apply(accounts: Accounts, email: str) -> tuple[SignupId, str]:
    form = {"email": email, "userType": "both", "motivation": "To trade by myself. " * 5}
    made = await accounts.signup.apply(parse_form(form), redelivery_key=None)
    return made.signup_id, made.secret


def _request(email: str, secret: str) -> bytes:
    body = msgspec.json.encode({"email": email, "applicationSecret": secret})
    head = (
        f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


@contextmanager
def api_in(folder: Path) -> Iterator[tuple[str, int]]:
    """Yield the host and port of an api process without rate limits."""
    settings = {
        "MINTSCOPE_DATA_DIR": str(folder),
        "MINTSCOPE_CHAIN__SOURCE": "files",
        "MINTSCOPE_CHAIN__FILES": str(folder / "none"),
        "MINTSCOPE_API__PORT": "0",
        "MINTSCOPE_METRICS__ENABLED": "false",
        "MINTSCOPE_LOG__LEVEL": "error",
        "MINTSCOPE_ACCOUNTS__EXCHANGE_LIMIT_REQUESTS": ENOUGH,
        "MINTSCOPE_ACCOUNTS__LIMIT_REQUESTS": ENOUGH,
        "MINTSCOPE_API__TRUSTED_PROXIES": "127.0.0.1",
        "MINTSCOPE_API__OTHER_LIMIT_REQUESTS": ENOUGH,
        "MINTSCOPE_WEB__GUESSES_MAX": ENOUGH,
        "MINTSCOPE_WEB__CLIENT_GUESSES_MAX": ENOUGH,
    }
    with subprocess.Popen(
        [sys.executable, "-m", "mintscope", "api"],
        env=child_environment(settings),
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            logged = map(msgspec.json.decode, process.stderr)
            line = next(each for each in logged if each["event"] == "serving")
            address = urlsplit(line["address"])
            assert address.hostname is not None
            assert address.port is not None
            yield address.hostname, address.port
        finally:
            process.kill()


def _sample(host: str, port: int, requests: dict[str, bytes]) -> dict[str, list[float]]:
    """Send each of *requests* often, in random order; return the seconds of answers by kind."""
    samples: dict[str, list[float]] = {kind: [] for kind in requests}
    order = [kind for kind in requests for _ in range(SAMPLES + WARM_UP)]
    random.Random(1).shuffle(order)
    with socket.create_connection((host, port), TIMEOUT_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for kind in order:
            samples[kind].append(_time(connection, requests[kind]))
    return {kind: took[WARM_UP:] for kind, took in samples.items()}


def _time(connection: socket.socket, request: bytes) -> float:
    """Send *request*, and return the seconds until its answer has arrived, a status 401."""
    began_s = perf_counter()
    connection.sendall(request)
    answer = connection.recv(65_536)  # the answer arrives in one piece
    took_s = perf_counter() - began_s
    head, _, body = answer.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head)
    assert answer.startswith(b"HTTP/1.1 401 "), answer
    assert length is not None
    assert int(length[1]) == len(body)
    return took_s


def same_probability(ones: Sequence[float], others: Sequence[float]) -> float:
    """Return the probability that two samples of one distribution differ as much as the given ones.

    This is the test of Kolmogorov and Smirnov.

    Source  Press et al., Numerical Recipes, 3rd ed., 14.3.3
    """
    one, other = np.sort(ones), np.sort(others)
    every = np.concatenate([one, other])
    share = np.searchsorted(one, every, side="right") / len(one)
    other_share = np.searchsorted(other, every, side="right") / len(other)
    distance = float(np.max(np.abs(share - other_share)))
    size = sqrt(len(one) * len(other) / (len(one) + len(other)))
    reach = (size + 0.12 + 0.11 / size) * distance
    # The series does not converge for so small a difference, which is not significant
    if reach < 0.2:
        return 1.0
    series = (-1.0 if k % 2 == 0 else 1.0 for k in range(1, 101))
    terms = [sign * exp(-2 * (k * reach) ** 2) for k, sign in enumerate(series, 1)]
    return min(1.0, 2 * sum(terms))


def main() -> int:
    for figure in run():
        tell(figure)
    return 0


if __name__ == "__main__":
    sys.exit(main())
