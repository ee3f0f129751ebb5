"""Faults for prove.night: low memory, a long read of the market, failing webhooks and others."""

import mmap
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, Final

import apsw
import httpx

from mintscope.app.stores.folder import MARKET_FILE
from mintscope.kit.machine import MEMORY, memory_free_share, wal_bytes
from mintscope.market.store.sqlite import LOG_PAGES
from mintscope.solana.blocks import WSOL
from mintscope_client.examples.agent_signup import Agent
from prove.night.installation import Installation, NotReady

MARGIN: Final = 0.02
# The number of alert rules, each with one webhook: the service reports after five failures in a row
RULES: Final = 6
SCOPES: Final = "signals:read,signals:write"
KIB: Final = 1024
LOG_BYTES: Final = LOG_PAGES * 4_096
USUAL_S: Final = 180.0  # the longest wait for a write-ahead log of usual length
CLOSED_PORT: Final = 65_535  # a port on which nothing listens


@contextmanager
def memory_short(installation: Installation) -> Iterator[None]:
    """In the `with` block, hold so much memory that the service's check of free memory fails."""
    free = memory_free_share()
    assert free is not None
    share = free - installation.memory_share_min + MARGIN
    if share <= 0:
        raise NotReady(
            f"expected more than {installation.memory_share_min:.0%} of the memory to be free; was"
            f" {free:.0%}: other programs have taken it since the service started"
        )
    taken = mmap.mmap(
        -1,
        int(share * _memory_bytes()),
        flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE,
    )
    try:
        yield
    finally:
        taken.close()


def _memory_bytes() -> int:
    total = next(each for each in MEMORY.read_text().splitlines() if each.startswith("MemTotal"))
    return int(total.split()[1]) * KIB


@contextmanager
def log_is_read(installation: Installation) -> Iterator[None]:
    """In the `with` block, keep a transaction open that reads the market file.

    SQLite can then not reset the write-ahead log of the file, which only grows. The transaction
    begins when the log has LOG_BYTES, its usual length, or after USUAL_S seconds.
    """
    path = installation.folder / "data" / MARKET_FILE
    until_s = time.monotonic() + USUAL_S
    while wal_bytes(path.parent).get(MARKET_FILE, 0) < LOG_BYTES and time.monotonic() < until_s:
        time.sleep(0.5)
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM mint").fetchall()
        yield


@contextmanager
def receivers_down(installation: Installation) -> Iterator[None]:
    """In the `with` block, alert rules send webhooks to an address at which nothing listens."""
    with httpx.Client(base_url=installation.url, timeout=20) as client:
        client.headers["Authorization"] = f"Bearer {_api_key(installation, client)}"
        asked = {
            "mint": WSOL,
            "field": "price.usd",
            "kind": "above",
            "level": 1e9,
            "webhookUrl": f"http://127.0.0.1:{CLOSED_PORT}/",
        }
        made = []
        for number in range(RULES):
            rule = _data(client.post("/v1/signals", json=asked | {"name": f"night {number}"}))
            made.append(rule["signalId"])
            _data(client.post(f"/v1/signals/{rule['signalId']}/test"))
        try:
            yield
        finally:
            for number in made:
                client.delete(f"/v1/signals/{number}")


def _api_key(installation: Installation, client: httpx.Client) -> str:
    agent = Agent(client, f"{secrets.token_hex(4)}@example.org", 5)
    words = ["applications", "approve", str(agent.sign_up()), "--unconfirmed", "--scopes", SCOPES]
    subprocess.run(
        [sys.executable, "-m", "mintscope", *words],
        env=dict(installation.environment),
        cwd=installation.folder,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return str(agent.wait_for_key()["apiKey"])


def _data(answer: httpx.Response) -> dict[str, Any]:
    assert answer.is_success, answer.text
    return dict(answer.json()["data"])


@contextmanager
def stream_silent(installation: Installation) -> Iterator[None]:
    """In the `with` block, ingest receives nothing by gRPC, although its connection stays open."""
    assert installation.stream is not None
    installation.stream.is_silent = True
    try:
        yield
    finally:
        installation.stream.is_silent = False
