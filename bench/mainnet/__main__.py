"""Ingest and api at the load of mainnet: `python -m bench.mainnet MINUTES DELAY_MS...`.

Each by JSON-RPC and by gRPC, with every mint followed.  Prints how many blocks ingest was behind,
how long a block took from its arrival to an answer, processor time, memory and the disk it takes.
"""

import http.client
import re
import sys
import time
import urllib.request
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bench.freshness import Seen, command, confirmed_at, credit_token, late_ms
from bench.pace import SLOT_S
from bench.process import free_port, python_running, wait_for
from mintscope.base.primitives import Mint
from mintscope.base.solana import WSOL
from mintscope.base.time import DAY_S, MINUTE_S
from mintscope.shell.config.load import child_environment

GOALS: Final = (
    "goals: 4 blocks behind at most (100 ms), block -> answer p99 250 ms, half a core (geyser)"
)
MB: Final = 1_000_000
WARM_UP_S: Final = 45.0  # until what is kept of a stream has its size
PAUSE_S: Final = 0.005
LOOK_EVERY_S: Final = 0.2
TICKS_A_SECOND: Final = 100
PAGE_BYTES: Final = 4_096
SLOT: Final = re.compile(r"^mintscope_ingest_slot (\S+)", re.MULTILINE)
HEAD: Final = re.compile(r"^mintscope_chain_slot (\S+)", re.MULTILINE)


@dataclass
class Watched:
    """What was seen of a run."""

    behind: list[float] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)


def measure(minutes: float, delay_ms: int, source: str) -> str:
    """Return one line of figures."""
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory())
        stream_port, api_port, metrics_port = free_port(), free_port(), free_port()
        chain_port = stack.enter_context(
            python_running("bench.mainnet.node", str(stream_port), str(delay_ms))
        )
        settings = child_environment(
            {
                "MINTSCOPE_DATA_DIR": folder,
                "MINTSCOPE_CHAIN__SOURCE": source,
                "MINTSCOPE_CHAIN__RPC_URL": f"http://127.0.0.1:{chain_port}",
                "MINTSCOPE_GEYSER__URLS": f"http://127.0.0.1:{stream_port}",
                "MINTSCOPE_CHAIN__START": "first",
                "MINTSCOPE_MARKET__TRACK": "all",
                "MINTSCOPE_API__PORT": str(api_port),
                "MINTSCOPE_API__RATE_LIMIT_REQUESTS": "1000000",
                "MINTSCOPE_METRICS__INGEST_PORT": str(metrics_port),
                "MINTSCOPE_METRICS__API_PORT": str(free_port()),
                "MINTSCOPE_LOG__LEVEL": "error",
            }
        )
        ingest = stack.enter_context(command(settings, "ingest"))
        wait_for(api_port, stack.enter_context(command(settings, "api")))
        answers = stack.enter_context(closing(reports(api_port, credit_token(settings))))
        _watch(answers, metrics_port, WARM_UP_S)
        begin_s, before_s, memory = time.monotonic(), cpu_s(ingest.pid), memory_mb(ingest.pid)
        disk, start = disk_bytes(folder), _behind(metrics_port)[1]
        watched = _watch(answers, metrics_port, minutes * MINUTE_S)
        took_s = time.monotonic() - begin_s
        blocks = _behind(metrics_port)[1] - start
        late = late_ms(confirmed_at(chain_port), watched.seen)
        return (
            f"{source} {delay_ms} ms: behind {_percentiles(watched.behind)} blocks;"
            f" block -> answer {_percentiles(late)} ms;"
            f" {blocks / took_s:.2f} blocks/s of {1 / SLOT_S:.2f};"
            f" ingest {(cpu_s(ingest.pid) - before_s) / took_s:.2f} of a core,"
            f" memory {memory:.0f} -> {memory_mb(ingest.pid):.0f} MB,"
            f" disk {(disk_bytes(folder) - disk) / took_s * DAY_S / MB:,.0f} MB a day"
        )


def _watch(answers: Iterator[Seen | None], metrics_port: int, how_long_s: float) -> Watched:
    """Ask for a report on and on, and five times a second how far behind ingest is."""
    watched, end_s, look_s = Watched(), time.monotonic() + how_long_s, 0.0
    while (now_s := time.monotonic()) < end_s:
        if now_s >= look_s:
            look_s = now_s + LOOK_EVERY_S
            watched.behind.append(_behind(metrics_port)[0])
        answer = next(answers)
        if answer is not None and (not watched.seen or answer.slot > watched.seen[-1].slot):
            watched.seen.append(answer)
        time.sleep(PAUSE_S)
    return watched


def reports(port: int, bearer: str, mint: Mint = WSOL) -> Generator[Seen | None, None, None]:
    """Yield one report of *mint* after the other, None while there is none."""
    headers = {"Authorization": f"Bearer {bearer}"}
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        while True:
            connection.request("GET", f"/v1/token/{mint}", headers=headers)
            answer = connection.getresponse()
            answer.read()
            is_live = answer.headers.get("x-data-status") == "live"
            yield Seen(time.monotonic(), int(answer.headers["x-data-slot"])) if is_live else None


def _percentiles(values: list[float]) -> str:
    values = sorted(values)
    middle, late = values[len(values) // 2], values[int(len(values) * 0.99)]
    return f"p50 {middle:.0f} p99 {late:.0f} max {values[-1]:.0f}"


def _behind(port: int) -> tuple[float, float]:
    """Return how far ingest is behind the head that it knows, and its slot."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    slot, head = SLOT.search(text), HEAD.search(text)
    if slot is None or head is None:
        return 0.0, 0.0
    return max(0.0, float(head[1]) - float(slot[1])), float(slot[1])


def cpu_s(pid: int) -> float:
    """Return what a process has had of processors, and those of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS_A_SECOND


def memory_mb(pid: int) -> float:
    """Return what a process has in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES / MB


def disk_bytes(folder: str) -> int:
    """Return the sizes of all files in *folder*."""
    return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())


if __name__ == "__main__":
    print(GOALS)
    for delay in sys.argv[2:]:
        for source in ("rpc", "geyser"):
            print(measure(float(sys.argv[1]), int(delay), source), flush=True)
