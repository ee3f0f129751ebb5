"""Measures two shards, with twice the swaps of the whole market.

`python -m bench.whole_market.shards [MINUTES] [RATE]`

There are 10,000 swaps a second of 100,000 mints.  Each of two writers prices all swaps, and logs
the swaps of half of the mints into its schema of one PostgreSQL; a replica follows both.  It prints
the delay of a slot until both writers have committed it, and until the reports of the replica have
this slot in both shards.
"""

import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import psycopg
from psycopg.conninfo import make_conninfo

from bench.figure import Figure, line
from bench.mainnet.__main__ import cpu_s, memory_mb
from bench.pace import SLOT_S
from bench.whole_market.writer import READY
from mintscope.kit.time import HOUR_S, MINUTE_S

RATE: Final = 10_000
SHARDS: Final = 2
WARM_UP_S: Final = 20.0
LATE_MS_MAX: Final = 2_000


@contextmanager
def _process(module: str, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """Run *module* of `bench.whole_market` during the `with` block; yield the process."""
    run = [sys.executable, "-m", f"bench.whole_market.{module}", *arguments]
    with subprocess.Popen(run, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()


def _expect_ready(process: "subprocess.Popen[str]") -> None:
    assert process.stdout is not None
    if process.stdout.readline().strip() != READY:
        raise RuntimeError("a process did not start")


def measure(minutes: float, rate: int) -> Iterator[Figure]:
    """Measure the market in two shards for *minutes*, with *rate* swaps a second; yield figures."""
    # Import the servers of the tests
    servers: Any = import_module("tests.support.processes.servers")
    server = servers.PostgresServer(durable=True)
    try:
        server.start()
        with TemporaryDirectory() as folder:
            yield from _measure(server, Path(folder), minutes, rate)
    finally:
        server.remove()


def _measure(server: Any, folder: Path, minutes: float, rate: int) -> Iterator[Figure]:
    places = []
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        for number in range(1, SHARDS + 1):
            connection.execute(f"CREATE SCHEMA shard_{number}".encode())
            options = f"-c search_path=shard_{number}"
            places.append(make_conninfo(server.dsn, options=options))
    seconds = HOUR_S  # longer than the run, because the processes are stopped at its end
    with ExitStack() as stack:
        writers = [
            stack.enter_context(
                _process(
                    "writer",
                    *(place, str(seconds), str(SLOT_S), str(folder / f"{number}")),
                    *(f"{number}/{SHARDS}", str(rate)),
                )
            )
            for number, place in enumerate(places, 1)
        ]
        for writer in writers:
            _expect_ready(writer)
        replica = stack.enter_context(_process("replica", str(folder / "replica"), *places))
        _expect_ready(replica)
        time.sleep(WARM_UP_S)
        looked: dict[str, Callable[[], list[int]]] = {
            "replica of both": lambda: [replica.pid],
            "server": server.pids,
            "ingest 1": lambda: [writers[0].pid],
            "ingest 2": lambda: [writers[1].pid],
        }
        begin_s = time.monotonic()
        before = {name: _cpu_s(pids()) for name, pids in looked.items()}
        time.sleep(minutes * MINUTE_S)
        took_s = time.monotonic() - begin_s
        for name, pids in looked.items():
            cores = (_cpu_s(pids()) - before[name]) / took_s
            yield _figure(name, cores, "cores")
            done = _slots_done(folder, begin_s, begin_s + took_s)
            yield _figure(name, 1_000 * cores * took_s / max(done, 1), "ms CPU a slot")
            yield _figure(name, max(map(memory_mb, pids())), "MB")
    yield from _late(folder, begin_s, begin_s + took_s)


def _cpu_s(pids: Sequence[int]) -> float:
    """Return the processor seconds of those of the processes *pids* that still run."""
    took_s = 0.0
    for pid in pids:
        with suppress(FileNotFoundError):  # the process of a connection of the server has ended
            took_s += cpu_s(pid)
    return took_s


def _slots_done(folder: Path, begin_s: float, end_s: float) -> int:
    """Return the number of slots that shard 1 has committed from *begin_s* to *end_s*."""
    rows = (folder / "1").read_text().splitlines()
    return sum(begin_s <= float(row.split()[2]) < end_s for row in rows)


def _late(folder: Path, begin_s: float, end_s: float) -> Iterator[Figure]:
    """Yield the delays from the due time of slots until both shards have stored or shown them."""
    due: dict[tuple[int, int], float] = {}
    committed: dict[int, list[float]] = defaultdict(list)
    for number in range(1, SHARDS + 1):
        for row in (folder / f"{number}").read_text().splitlines():
            slot, due_s, done_s = row.split()
            due[number, int(slot)] = float(due_s)
            committed[int(slot)].append(float(done_s) - float(due_s))
    visible: dict[int, list[float]] = defaultdict(list)
    for row in (folder / "replica").read_text().splitlines():
        number_, slot, at_s = row.split()
        at = int(number_), int(slot)
        if at in due:
            visible[int(slot)].append(float(at_s) - due[at])
    for what, done in (("committed by both", committed), ("visible in both", visible)):
        late = sorted(
            1_000 * max(times)
            for slot, times in done.items()
            if len(times) == SHARDS and begin_s <= due[1, slot] < end_s
        )
        yield _figure(f"slots {what}", len(late), "slots")
        if not late:  # no slot was written in this time: the machine is overloaded
            continue
        for share, goal in ((50, ""), (99, f"<= {LATE_MS_MAX} ms")):
            value = late[min(len(late) * share // 100, len(late) - 1)]
            yield _figure(f"due to {what}", value, f"ms p{share}", goal)


def _figure(what: str, value: float, unit: str, goal: str = "") -> Figure:
    return Figure(what=f"{what}, two shards", who="mintscope", value=value, unit=unit, goal=goal)


if __name__ == "__main__":
    minutes_ = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    rate_ = int(sys.argv[2]) if len(sys.argv) > 2 else RATE
    for figure in measure(minutes_, rate_):
        print(line(figure), flush=True)
