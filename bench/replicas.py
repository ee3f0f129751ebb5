"""Measures several api processes on PostgreSQL: requests a second, and delays of new blocks.

They run under `mintscope serve --workers` with shared limits, and are compared with one process on
SQLite.  The load generator, the database server and all processes share this machine.
"""

import http.client
import json
import re
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

from bench.figure import Figure, tell
from bench.freshness import ask_on_and_on, command, confirmed_at, credit_token, late_ms
from bench.mainnet.__main__ import cpu_s
from bench.process import free_port, python_running, wait_for
from bench.turns import spread
from mintscope.app.config.load import child_environment
from mintscope.app.stores.folder import MONEY_FILE
from mintscope.credits.postgres import PostgresCreditBook
from mintscope.credits.sqlite import CreditBook
from mintscope.kit.clock import SystemClock
from mintscope.kit.credentials import make_credit_token
from mintscope.solana.blocks import WSOL
from mintscope_devchain.chain import Devchain, lines

WORKERS: Final = (1, 2, 4)
CLIENTS: Final = 64
TOKENS: Final = 2_000
CREDITS: Final = 1_000_000
ROUNDS: Final = 5
ROUND_S: Final = 2.0
READY_S_MAX: Final = 120.0
PAUSE_S: Final = 0.2
END_S_MAX: Final = 30.0
VISIBLE_MS_MAX: Final = 500
HISTORY_DAYS: Final = 0.05
PEPPER: Final = sha256(b"the pepper of the tests").digest()
ENOUGH: Final = "1000000"


@dataclass
class Rounds:
    """The results of all rounds: requests a second, p99 latency, and processor time per request."""

    a_second: list[float] = field(default_factory=list)
    p99_ms: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)
    server_us: list[float] = field(default_factory=list)


def run() -> Iterator[Figure]:
    """Yield requests a second, for several numbers of processes, and the delay of new blocks."""
    # Import the servers of the tests
    servers: Any = import_module("tests.support.processes.servers")
    server = servers.PostgresServer(durable=True)
    try:
        server.start()
        store = f"postgresql://postgres@127.0.0.1:{server.port}/postgres"
        with TemporaryDirectory() as name:
            folder = Path(name)
            blocks = _blocks(folder)
            yield from _answers("SQLite", _settings(folder / "sqlite", blocks), 1)
            for workers in WORKERS:
                more = {"MINTSCOPE_STORE": store, "MINTSCOPE_REPLICAS_MAX": f"{workers}"}
                settings = _settings(folder / f"postgresql-{workers}", blocks, **more)
                yield from _answers("PostgreSQL", settings, workers, server)
        server.remove()
        server = servers.PostgresServer(durable=True)
        server.start()
        yield from _late(f"postgresql://postgres@127.0.0.1:{server.port}/postgres")
    finally:
        server.remove()


def _blocks(folder: Path) -> Path:
    """Write a file of blocks with a market, long enough for a report; return its path."""
    chain = Devchain(seed=11, now=SystemClock().now(), mints=2, history_days=HISTORY_DAYS)
    file = folder / "blocks.jsonl"
    file.write_bytes(b"".join(lines(chain, len(chain.blockstore.slots))))
    return file


def _settings(folder: Path, blocks: Path, **more: str) -> dict[str, str]:
    return child_environment(
        {
            "MINTSCOPE_DATA_DIR": str(folder),
            "MINTSCOPE_CHAIN__SOURCE": "files",
            "MINTSCOPE_CHAIN__FILES": str(blocks),
            "MINTSCOPE_CREDITS__PEPPER": PEPPER.hex(),
            "MINTSCOPE_API__PORT": "0",
            "MINTSCOPE_API__RATE_LIMIT_REQUESTS": ENOUGH,
            "MINTSCOPE_METRICS__ENABLED": "false",
            "MINTSCOPE_LOG__LEVEL": "error",
            **more,
        }
    )


def _answers(
    engine: str, settings: Mapping[str, str], workers: int, server: Any = None
) -> Iterator[Figure]:
    with _serving(settings, workers) as (process, port):
        tokens = _issue(Path(settings["MINTSCOPE_DATA_DIR"]), server)
        requests = [_request(token) for token in tokens]
        _wait_for_report(port, tokens[0])
        rounds = Rounds()
        for number in range(ROUNDS + 1):
            ours, theirs = _cpu(process.pid), _server_cpu(server)
            loaded = _load(port, requests, seed=number)
            if number > 0:  # the first round is a warm-up
                answers = int(loaded["answers"])
                rounds.a_second.append(answers / loaded["elapsed_s"])
                rounds.p99_ms.append(loaded["p99_ms"])
                rounds.cpu_us.append((_cpu(process.pid) - ours) / answers * 1e6)
                rounds.server_us.append((_server_cpu(server) - theirs) / answers * 1e6)
    what = f"GET /v1/token, {engine}, {workers} api, {CLIENTS} clients"
    yield Figure(
        what=what,
        who="mintscope",
        value=median(rounds.a_second),
        unit="requests/s",
        spread=spread(rounds.a_second),
        cpu_us=median(rounds.cpu_us),
    )
    yield Figure(what=what, who="mintscope", value=median(rounds.p99_ms), unit="ms p99")
    if server is not None:
        server_us = median(rounds.server_us)
        yield Figure(what=what, who="of it in the server", value=server_us, unit="CPU us")


@contextmanager
def _serving(
    settings: Mapping[str, str], workers: int
) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    words = [sys.executable, "-m", "mintscope", "serve", "--workers", f"{workers}"]
    with subprocess.Popen(words, env=settings, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            logged = ""
            while len(ports := re.findall(r'"address": "http://[^"]+:(\d+)"', logged)) < workers:
                line = process.stderr.readline()
                if not line:
                    raise RuntimeError(f"serve did not start: {logged}")
                logged += line
            yield process, int(ports[0])
        finally:
            process.terminate()
            process.communicate(timeout=END_S_MAX)


def _issue(folder: Path, server: Any) -> Sequence[str]:
    """Issue credit tokens with credits, and return them; they depend only on *folder*.

    server   the PostgreSQL server that stores them; None: SQLite in *folder*
    """
    random, at = Random(str(folder)), SystemClock().now()
    tokens = [make_credit_token(random.randbytes(28)) for _ in range(TOKENS)]
    book = (
        CreditBook(folder / MONEY_FILE, pepper=PEPPER)
        if server is None
        else PostgresCreditBook(server.dsn, pepper=PEPPER)
    )
    with closing(book):
        for token in tokens:
            book.issue(token, CREDITS, note="", at=at)
    return tokens


def _request(token: str) -> bytes:
    return (
        f"GET /v1/token/{WSOL} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: bench\r\n"
        f"Accept: */*\r\nAuthorization: Bearer {token}\r\n\r\n"
    ).encode()


def _wait_for_report(port: int, token: str) -> None:
    until_s = time.monotonic() + READY_S_MAX
    while True:
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=READY_S_MAX)) as asking:
            asking.request("GET", f"/v1/token/{WSOL}", headers={"Authorization": f"Bearer {token}"})
            if asking.getresponse().status == http.client.OK:
                return
        if time.monotonic() > until_s:
            raise RuntimeError("expected reports: there are none")
        time.sleep(PAUSE_S)


def _load(port: int, requests: Sequence[bytes], *, seed: int) -> Any:
    shuffled = list(requests)
    Random(seed).shuffle(shuffled)
    result = subprocess.run(
        [sys.executable, "-m", "bench.load", f"{port}", f"{ROUND_S}", f"{CLIENTS}"],
        input=b"\n".join(b64encode(request) for request in shuffled),
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(result.stdout)


def _cpu(pid: int) -> float:
    """Return the processor seconds of a process and of its descendants."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return cpu_s(pid) + sum(_cpu(int(child)) for child in children)


def _server_cpu(server: Any) -> float:
    return 0.0 if server is None else sum(map(cpu_s, server.pids()))


def _late(store: str) -> Iterator[Figure]:
    """Measure the delay from a block's confirmation to a report of the second api process."""
    with ExitStack() as stack:
        chain_port = stack.enter_context(python_running("bench.market"))
        ports = [free_port(), free_port()]
        for number, name in enumerate(("ingest", "api", "api")):
            folder = stack.enter_context(TemporaryDirectory())
            settings = child_environment(
                {
                    "MINTSCOPE_DATA_DIR": folder,
                    "MINTSCOPE_STORE": store,
                    "MINTSCOPE_REPLICAS_MAX": "2",
                    "MINTSCOPE_CREDITS__PEPPER": PEPPER.hex(),
                    "MINTSCOPE_CHAIN__RPC_URL": f"http://127.0.0.1:{chain_port}",
                    "MINTSCOPE_CHAIN__START": "first",
                    "MINTSCOPE_API__ORIGIN": "https://mintscope.example",
                    "MINTSCOPE_API__PORT": str(ports[max(0, number - 1)]),
                    "MINTSCOPE_API__RATE_LIMIT_REQUESTS": ENOUGH,
                    "MINTSCOPE_METRICS__ENABLED": "false",
                    "MINTSCOPE_LOG__LEVEL": "error",
                }
            )
            process = stack.enter_context(command(settings, name))
            if name == "api":
                wait_for(ports[number - 1], process)
        seen = ask_on_and_on(ports[1], credit_token(settings))
        late = late_ms(confirmed_at(chain_port), seen)
    for percent, goal in ((50, ""), (99, f"goal <= {VISIBLE_MS_MAX} ms")):
        yield Figure(
            what=f"block confirmed to visible at a replica, p{percent}",
            who="mintscope",
            value=late[len(late) * percent // 100],
            unit="ms",
            goal=goal,
        )


if __name__ == "__main__":
    for figure in run():
        tell(figure)
