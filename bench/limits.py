"""Measures rate limits with an exact moving window, in memory and in PostgreSQL, for 64 clients.

mintscope calls the store once for all requests of an iteration of the event loop.  The peer calls
the store once for each request, over 64 connections.  PostgreSQL comes from a wheel, and runs on
this machine.
"""

import time
from asyncio import Runner, gather
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from importlib import import_module
from random import Random
from statistics import median
from typing import Any, Final

import uvloop

from bench.figure import Figure, tell
from bench.turns import spread
from mintscope.kit.clock import SystemClock
from mintscope.kit.limits import Limit, MemoryLimits
from mintscope.kit.sql.limits import AskedWindow, LimitBatches, SharedLimits
from mintscope.kit.sql.migrating import migrate
from mintscope.kit.sql.postgres import PostgresDatabase
from mintscope.kit.sql.postgres_limits import PostgresWindows

CLIENTS: Final = 64
KEYS: Final = 20_000
ROUNDS: Final = 5
ROUND_S: Final = 1.0
LIMIT: Final = Limit(name="public", count=30, window_s=60)
WINDOW_US: Final = LIMIT.window_s * 1_000_000
OURS: Final = "mintscope"
EACH: Final = "one call a request"

Take = Callable[[int, int], Awaitable[object]]  # of the number of the client, and of the key


@dataclass
class Taken:
    """The rate-limit checks a second and processor time of one implementation, in each round."""

    a_second: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)


def run() -> list[Figure]:
    """Measure rate limits in memory and in PostgreSQL: checks a second, and processor time."""
    # Import the servers of the tests
    servers: Any = import_module("tests.support.processes.servers")
    postgres = servers.PostgresServer()
    try:
        postgres.start()
        database = PostgresDatabase(postgres.dsn)
        migrate(database, "limits")
        database.close()
        with Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_measure(postgres.dsn))
    finally:
        postgres.remove()


async def _measure(dsn: str) -> list[Figure]:
    async with AsyncExitStack() as stack:
        ours: dict[str, Take] = {"memory": _of(MemoryLimits(SystemClock()))}
        each: dict[str, Take] = {}
        each["PostgreSQL"] = await stack.enter_async_context(_one_by_one(dsn))
        ours["PostgreSQL"] = await stack.enter_async_context(_together(dsn))
        taken = {
            (name, who): Taken() for who, them in ((OURS, ours), (EACH, each)) for name in them
        }
        random, order = Random(1), list(taken)
        for number in range(ROUNDS + 1):
            random.shuffle(order)
            for name, who in order:
                takes_a_second, cpu_us = await _round((ours if who == OURS else each)[name])
                if number > 0:
                    taken[name, who].a_second.append(takes_a_second)
                    taken[name, who].cpu_us.append(cpu_us)
    return [_figure(name, who, taken) for name, who in sorted(taken, key=lambda it: it[0])]


def _of(limits: MemoryLimits | SharedLimits) -> Take:
    window = limits.limiter(LIMIT)
    return lambda _, key: window.take(key)


@asynccontextmanager
async def _together(dsn: str) -> AsyncGenerator[Take, None]:
    clock = SystemClock()
    limits = SharedLimits(LimitBatches(PostgresWindows(dsn), clock), clock, replicas=1)
    yield _of(limits)
    await limits.aclose()


@asynccontextmanager
async def _one_by_one(dsn: str) -> AsyncGenerator[Take, None]:
    stores = [PostgresWindows(dsn) for _ in range(CLIENTS)]

    async def take(client: int, key: int) -> object:
        asked = AskedWindow(b"%16d" % key, LIMIT.count, WINDOW_US, 0, 1)
        return await stores[client].settle([asked])

    yield take
    for store in stores:
        await store.aclose()


async def _round(take: Take) -> tuple[float, float]:
    """Return rate-limit checks per second, and the processor time of a check in microseconds."""
    cpu_s, began_s = time.process_time(), time.perf_counter()
    until_s = began_s + ROUND_S

    async def client(number: int) -> int:
        random, count = Random(number), 0
        while time.perf_counter() < until_s:
            await take(number, random.randrange(KEYS))
            count += 1
        return count

    count = sum(await gather(*(client(number) for number in range(CLIENTS))))
    took_s = time.perf_counter() - began_s
    return count / took_s, (time.process_time() - cpu_s) / count * 1e6


def _figure(name: str, who: str, taken: dict[tuple[str, str], Taken]) -> Figure:
    of_it, rate = taken[name, who], median(taken[name, who].a_second)
    return Figure(
        what=f"limits in {name}, {CLIENTS} clients",
        who=who,
        value=rate,
        unit="takes/s",
        ratio=None if who == OURS else median(taken[name, OURS].a_second) / rate,
        goal="" if who == OURS else ">= 2x",
        spread=spread(of_it.a_second),
        cpu_us=median(of_it.cpu_us),
    )


if __name__ == "__main__":
    for figure in run():
        tell(figure)
