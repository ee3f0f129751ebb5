"""Long use: a service under requests, purchases and spending does not grow.

The test measures from outside, after the first fifth of the time: the slope of resident memory, the
number of open files and threads, the size of the write-ahead log, and the answer times.
"""

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import linear_regression, median, quantiles
from typing import Final

import httpx
import pytest
from selling_service import market_town, visiting
from shopping import Shopper

from mintscope.app.stores.folder import MONEY_FILE
from support.fakes.reports import TRACKED

FULL = os.environ.get("STORM") == "full"  # noqa: TID251 - only how long to soak
SOAK_S: Final = 1_800 if FULL else 15
REQUESTS_S: Final = 200
ASKED_AT_ONCE_MAX: Final = 16  # a slow machine answers less; it does not open more connections
BUY_EVERY_S: Final = 2.0
LOOK_EVERY_S: Final = SOAK_S / 100
MEMORY_SLOPE_MAX: Final = 0.1 if FULL else 60.0  # MB a minute; a process that has just begun grows
WAL_BYTES_MAX: Final = 64 * 1024 * 1024
PAGES: Final = ("/v1/credits/bundles", "/healthz", "/v1/credits/balance", "/nowhere", "/v1/token/x")


@dataclass
class Looks:
    """Measures of the service's process: one value in each list for each time in *at_s*."""

    at_s: list[float] = field(default_factory=list)
    memory_mb: list[float] = field(default_factory=list)
    files: list[int] = field(default_factory=list)
    threads: list[int] = field(default_factory=list)
    wal_bytes: list[int] = field(default_factory=list)
    answers_ms: list[tuple[float, float]] = field(default_factory=list)  # time, duration

    def look(self, pid: int, folder: Path) -> None:
        process, log = Path(f"/proc/{pid}"), folder / f"{MONEY_FILE}-wal"
        pages = int((process / "statm").read_text().split()[1])
        self.at_s.append(time.monotonic())
        self.memory_mb.append(pages * os.sysconf("SC_PAGE_SIZE") / 1e6)
        self.files.append(len(list((process / "fd").iterdir())))
        self.threads.append(len(list((process / "task").iterdir())))
        self.wal_bytes.append(log.stat().st_size if log.exists() else 0)

    def slope_mb_min(self) -> float:
        first = len(self.at_s) // 5
        minutes = [at / 60 for at in self.at_s[first:]]
        return linear_regression(minutes, self.memory_mb[first:]).slope

    def p99_ms(self, part: Callable[[float], bool]) -> float:
        times = [ms for at, ms in self.answers_ms if part((at - self.at_s[0]) / SOAK_S)]
        return quantiles(times, n=100)[98]


async def ask(shop: httpx.AsyncClient, shopper: Shopper, looks: Looks, random: Random) -> None:
    """Send one request with a credit token, if there is one: for a paid report, or for a page."""
    tokens = [each.token for each in shopper.paid[-8:] if each.token]
    path = f"/v1/token/{TRACKED}" if random.randrange(2) else random.choice(PAGES)
    headers = {"Authorization": f"Bearer {random.choice(tokens)}"} if tokens else {}
    began_s = time.monotonic()
    answer = await shop.get(path, headers=headers)
    looks.answers_ms.append((began_s, (time.monotonic() - began_s) * 1000))
    assert answer.status_code in {200, 400, 401, 402, 404, 429, 503}, answer.text


@pytest.mark.storm
@pytest.mark.timeout(SOAK_S + 120)
async def test_a_service_under_long_load_does_not_grow(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    looks, random = Looks(), Random(3)
    with market_town(tmp_path) as (chain, [seller]):
        pid = seller.process.pid
        assert pid is not None
        async with visiting(chain, [seller]) as (shopper, [shop]):
            end_s = time.monotonic() + SOAK_S
            look_s = buy_s = 0.0
            running = set[asyncio.Task[object]]()
            while (now_s := time.monotonic()) < end_s:
                if now_s >= look_s:
                    looks.look(pid, tmp_path)
                    look_s = now_s + LOOK_EVERY_S
                if now_s >= buy_s:
                    running.add(asyncio.create_task(shopper.buy(shop, None)))
                    buy_s = now_s + BUY_EVERY_S
                if len(running) < ASKED_AT_ONCE_MAX:
                    running.add(asyncio.create_task(ask(shop, shopper, looks, random)))
                done, running = await asyncio.wait(running, timeout=1 / REQUESTS_S)
                for task in done:
                    task.result()
            await asyncio.gather(*running)

    early, late = looks.p99_ms(lambda at: 0.2 < at < 0.4), looks.p99_ms(lambda at: at > 0.8)
    slope = looks.slope_mb_min()
    record_property(
        "figure",
        f"{len(looks.answers_ms):,} answers, {len(shopper.paid)} bundles in {SOAK_S} s:"
        f" {slope:+.3f} MB a minute, p99 {early:.0f} ms then {late:.0f} ms",
    )
    assert slope <= MEMORY_SLOPE_MAX
    # Each open request may hold a connection; one leaked file per request would be thousands.
    assert median(looks.files[-20:]) <= median(looks.files[20:40]) + ASKED_AT_ONCE_MAX + 8
    assert median(looks.threads[-20:]) <= median(looks.threads[20:40]) + 4
    assert max(looks.wal_bytes) <= WAL_BYTES_MAX
    assert not FULL or late <= 1.5 * early + 5
