"""Benchmark of the whole market: `python -m bench.whole_market MINUTES [ENGINE...]`.

`--slot-ms` is the duration of a slot, by default that of mainnet in November 2026.

One process writes and folds 5,000 swaps a second of 100,000 mints, all of them tracked, as ingest
does; `mintscope api` reads them in another process.  It prints the delay of a slot, from the time
at which it was due until it is committed, and until an answer includes it; the processor time and
memory of each process; and the size on disk.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import psycopg

from bench.figure import Figure, line
from bench.freshness import Seen, command, credit_token
from bench.mainnet.__main__ import cpu_s, disk_bytes, memory_mb, reports
from bench.pace import SLOT_S
from bench.process import free_port, wait_for
from bench.slots import Slots
from bench.whole_market.writer import READY, swaps_of_a_slot
from mintscope.app.config.load import child_environment
from mintscope.kit.time import MINUTE_S, SECOND_MS

WARM_UP_S: Final = 60.0  # the time in which the log reaches its full length
LOOK_EVERY_S: Final = 10.0
PAUSE_S: Final = 0.01
LATE_MS_MAX: Final = 2_000
VISIBLE_MS_MAX: Final = 500
MB: Final = 1_000_000


@dataclass
class Place:
    """A store of the market, in the forms in which the writer and the api open it.

    disk_mb, servers    functions that return its size, and the ids of database processes
    """

    writer: str
    settings: dict[str, str]
    disk_mb: Callable[[], float]
    servers: Callable[[], list[int]] = list


@dataclass
class Process:
    """A measured process, or several that count as one, with the values of each measurement."""

    name: str
    pids: Callable[[], list[int]]
    cpu_s: list[float] = field(default_factory=list)
    memory_mb: list[float] = field(default_factory=list)


def look(looked: list[Process]) -> None:
    """Record the present processor time and memory of each process in *looked*."""
    for each in looked:
        pids = each.pids()
        each.cpu_s.append(sum(map(cpu_s, pids)))
        each.memory_mb.append(max(map(memory_mb, pids)))


@contextmanager
def on_sqlite() -> Iterator[Place]:
    with TemporaryDirectory() as folder:
        settings = {"MINTSCOPE_DATA_DIR": folder}
        yield Place(f"sqlite:{folder}", settings, lambda: disk_bytes(folder) / MB)


@contextmanager
def on_postgres() -> Iterator[Place]:
    # Import the servers of the tests
    servers: Any = import_module("tests.support.processes.servers")
    server = servers.PostgresServer(durable=True)
    try:
        server.start()
        store = f"postgresql://postgres@127.0.0.1:{server.port}/postgres"
        with TemporaryDirectory() as folder, psycopg.connect(server.dsn, autocommit=True) as asking:
            settings = {"MINTSCOPE_DATA_DIR": folder, "MINTSCOPE_STORE": store}
            size = "SELECT pg_database_size(current_database())"
            yield Place(
                server.dsn,
                settings,
                lambda: asking.execute(size).fetchall()[0][0] / MB,
                server.pids,
            )
    finally:
        server.remove()


ENGINES: Final = {"SQLite": on_sqlite, "PostgreSQL": on_postgres}


def measure(engine: str, minutes: float, slot_s: float) -> Iterator[Figure]:
    """Measure the market on *engine* for *minutes*, a slot every *slot_s* s; yield the figures."""
    warm_up_s = min(WARM_UP_S, minutes * MINUTE_S)
    seconds = warm_up_s + minutes * MINUTE_S
    with ExitStack() as stack:
        place = stack.enter_context(ENGINES[engine]())
        times = Path(stack.enter_context(TemporaryDirectory()), "times")
        api_port = free_port()
        settings = child_environment(
            place.settings
            | {
                "MINTSCOPE_API__PORT": str(api_port),
                "MINTSCOPE_API__RATE_LIMIT_REQUESTS": "1000000",
                "MINTSCOPE_METRICS__ENABLED": "false",
                "MINTSCOPE_LOG__LEVEL": "error",
            }
        )
        writer = stack.enter_context(_writing(place.writer, seconds, slot_s, times))
        api = stack.enter_context(command(settings, "api"))
        wait_for(api_port, api)
        answers = stack.enter_context(
            closing(reports(api_port, credit_token(settings), Slots(1).mints[0]))
        )
        looked = [
            Process("ingest, with making up swaps", lambda: [writer.pid]),
            Process("api", lambda: [api.pid]),
        ]
        if place.servers():
            looked.append(Process("server", place.servers))
        _watch(answers, [], [], warm_up_s)
        disk_mb, begin_s = place.disk_mb(), time.monotonic()
        seen: list[Seen] = []
        _watch(answers, seen, looked, minutes * MINUTE_S)
        took_s = time.monotonic() - begin_s
        grown_mb = place.disk_mb() - disk_mb
        written = [tuple(map(float, row.split())) for row in times.read_text().splitlines()]
    yield from _late(engine, [row for row in written if row[1] >= begin_s], seen, slot_s)
    for each in looked:
        what = f"{each.name}, {engine}"
        cores = (each.cpu_s[-1] - each.cpu_s[0]) / took_s
        yield Figure(what=what, who="mintscope", value=cores, unit="cores")
        middle = len(each.memory_mb) // 2
        for part, unit in (
            (each.memory_mb[:middle], "MB, 1st half"),
            (each.memory_mb[middle:], "MB, 2nd half"),
        ):
            yield Figure(what=what, who="mintscope", value=max(part), unit=unit)
    what = f"on disk, {engine}"
    yield Figure(what=what, who="mintscope", value=disk_mb + grown_mb, unit="MB")
    yield Figure(what=what, who="mintscope", value=grown_mb / took_s * MINUTE_S, unit="MB a minute")


@contextmanager
def _writing(
    where: str, seconds: float, slot_s: float, times: Path
) -> Iterator["subprocess.Popen[str]"]:
    arguments = [where, str(seconds), str(slot_s), str(times)]
    run = [sys.executable, "-m", "bench.whole_market.writer", *arguments]
    with subprocess.Popen(run, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            if process.stdout.readline().strip() != READY:
                raise RuntimeError("the writer did not start")
            yield process
        finally:
            process.terminate()


def _watch(
    answers: Iterator[Seen | None], seen: list[Seen], looked: list[Process], how_long_s: float
) -> None:
    """For *how_long_s* seconds, add each report of a new slot to *seen*, and measure *looked*."""
    end_s, look_s = time.monotonic() + how_long_s, 0.0
    while (now_s := time.monotonic()) < end_s:
        if now_s >= look_s:
            look_s = now_s + LOOK_EVERY_S
            look(looked)
        answer = next(answers)
        if answer is not None and (not seen or answer.slot > seen[-1].slot):
            seen.append(answer)
        time.sleep(PAUSE_S)
    look(looked)


def _late(
    engine: str, written: list[tuple[float, ...]], seen: list[Seen], slot_s: float
) -> Iterator[Figure]:
    committed = sorted(1_000 * (done_s - due_s) for _, due_s, done_s in written)
    yield from _percentiles(f"due to committed, {engine}", committed, LATE_MS_MAX)
    due = {int(slot): (due_s, done_s) for slot, due_s, done_s in written}
    visible, from_commit = [], []
    for before, answer in pairwise(seen):
        for slot in range(before.slot + 1, answer.slot + 1):
            if slot in due:
                visible.append(1_000 * (answer.at_s - due[slot][0]))
                from_commit.append(1_000 * (answer.at_s - due[slot][1]))
    yield from _percentiles(f"due to visible, {engine}", sorted(visible), LATE_MS_MAX)
    yield from _percentiles(f"committed to visible, {engine}", sorted(from_commit), VISIBLE_MS_MAX)
    span_s = written[-1][2] - written[0][1] + slot_s
    rate = len(written) * swaps_of_a_slot(slot_s) / span_s
    yield Figure(what=f"written, {engine}", who="mintscope", value=rate, unit="swaps/s")


def _percentiles(what: str, values: list[float], most_ms: int) -> Iterator[Figure]:
    for share, goal in ((50, ""), (99, f"<= {most_ms} ms")):
        value = values[min(len(values) * share // 100, len(values) - 1)]
        yield Figure(what=what, who="mintscope", value=value, unit=f"ms p{share}", goal=goal)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.whole_market")
    parser.add_argument("minutes", type=float)
    parser.add_argument("engines", nargs="*", metavar="ENGINE", help=" or ".join(ENGINES))
    parser.add_argument("--slot-ms", type=float, default=SLOT_S * SECOND_MS)
    asked = parser.parse_args()
    for name in asked.engines or ENGINES:
        for figure in measure(name, asked.minutes, asked.slot_ms / SECOND_MS):
            print(line(figure), flush=True)


if __name__ == "__main__":
    main()
