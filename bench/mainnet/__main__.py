"""Measures ingest and api at the load of mainnet: `python -m bench.mainnet MINUTES`.

It runs once by JSON-RPC and once by gRPC, with all mints tracked.  It prints the number of blocks
that ingest was behind, the time from the arrival of a block to an answer and to the list of tokens
with the block, processor time, memory, disk space, and which goals were met.  `--slot-ms 400
--finality-ms 13000` is mainnet before Alpenglow, with blocks twice as large: its goals are only
blocks behind, processor time and memory.
"""

import argparse
import http.client
import json
import re
import time
import urllib.request
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from bench.freshness import Seen, asked_of_node, command, confirmed_at, credit_token, late_ms
from bench.pace import FINALITY_S, SLOT_S
from bench.process import free_port, python_running, wait_for
from mintscope.app.config.load import child_environment
from mintscope.kit.primitives import Mint
from mintscope.kit.time import DAY_S, MINUTE_S, SECOND_MS
from mintscope.solana.blocks import WSOL

BEHIND_MAX: Final = 4  # the goal: the most blocks that ingest is behind
ANSWER_MS_MAX: Final = 250  # the goal for p99 of the time to an answer
LIST_MS_MAX: Final = 1_500  # the goal for p99 of the time to the list
CORE_MAX: Final = 0.4
GROWTH_MAX: Final = 1.1  # the goal: growth of memory, from the first part of the run to the last
FAST_S: Final = 1.0  # answers and the list have goals if blocks are final within this time
SOURCES: Final = ("rpc", "geyser")
MB: Final = 1_000_000
WARM_UP_S: Final = 45.0  # the time in which the buffers of a stream reach their size
PAUSE_S: Final = 0.005
PARTS: Final = 4  # the parts of a run: memory in the last part is compared with the first
LOOK_EVERY_S: Final = 0.2
LIST_EVERY_S: Final = 0.05
TICKS_A_SECOND: Final = 100
PAGE_BYTES: Final = 4_096
SLOT: Final = re.compile(r"^mintscope_ingest_slot (\S+)", re.MULTILINE)


@dataclass
class Watched:
    """The measurements of mintscope under the load of mainnet."""

    behind: list[float] = field(default_factory=list)
    memory_mb: list[float] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    listed: list[Seen] = field(default_factory=list)


@dataclass(frozen=True)
class Pace:
    """The durations of a slot, and of the time until a block is final, in milliseconds."""

    slot_ms: float
    finality_ms: float

    @property
    def has_fast_finality(self) -> bool:
        """Return whether finality is fast: then reports and the list of tokens have goals."""
        return self.finality_ms / SECOND_MS < FAST_S


@dataclass(frozen=True)
class Place:
    """The processes, ports and folder of a measurement under the load of mainnet."""

    folder: str
    api_port: int
    metrics_port: int
    chain_port: int
    ingest_pid: int


def measure(minutes: float, delay_ms: int, source: str, pace: Pace) -> tuple[str, list[str]]:
    """Load mintscope as mainnet does for *minutes*; return its results, and each goal it missed.

    delay_ms   the delay of the simulated node, in milliseconds
    source     how mintscope reads the node, as in `MINTSCOPE_CHAIN__SOURCE`
    pace       the duration of a slot and the time to finality of the simulated chain
    """
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory())
        stream_port, api_port, metrics_port = free_port(), free_port(), free_port()
        times = (str(delay_ms), str(pace.slot_ms), str(pace.finality_ms))
        chain_port = stack.enter_context(
            python_running("bench.mainnet.node", str(stream_port), *times)
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
                "MINTSCOPE_LISTS__LIMIT_REQUESTS": "1000000",
                "MINTSCOPE_METRICS__INGEST_PORT": str(metrics_port),
                "MINTSCOPE_METRICS__API_PORT": str(free_port()),
                "MINTSCOPE_LOG__LEVEL": "error",
            }
        )
        ingest = stack.enter_context(command(settings, "ingest"))
        wait_for(api_port, stack.enter_context(command(settings, "api")))
        place = Place(folder, api_port, metrics_port, chain_port, ingest.pid)
        answers = stack.enter_context(closing(reports(api_port, credit_token(settings))))
        lists = stack.enter_context(closing(listings(api_port)))
        _watch(place, answers, lists, WARM_UP_S)
        figures, missed = _figures(place, answers, lists, minutes, pace)
        return f"{source} {delay_ms} ms: {figures}", missed


def _figures(
    place: Place,
    answers: Iterator[Seen | None],
    lists: Iterator[Seen | None],
    minutes: float,
    pace: Pace,
) -> tuple[str, list[str]]:
    """Measure mintscope for *minutes*; return the results as text, and the goals that it missed."""
    begin_s, before_s = time.monotonic(), cpu_s(place.ingest_pid)
    disk = disk_bytes(place.folder)
    start = _ingested(place.metrics_port)
    watched = _watch(place, answers, lists, minutes * MINUTE_S)
    took_s = time.monotonic() - begin_s
    blocks = _ingested(place.metrics_port) - start
    confirmed = confirmed_at(place.chain_port)
    late, listed = late_ms(confirmed, watched.seen), late_ms(confirmed, watched.listed)
    core = (cpu_s(place.ingest_pid) - before_s) / took_s
    # Memory rises and falls with bursts, so the difference between two single moments is random.
    part = len(watched.memory_mb) // PARTS
    memory, memory_after = median(watched.memory_mb[:part]), median(watched.memory_mb[-part:])
    figures = (
        f"behind {_percentiles(watched.behind)} blocks;"
        f" block -> answer {_percentiles(late)} ms; block -> list {_percentiles(listed)} ms;"
        f" {blocks / took_s:.2f} blocks/s of {SECOND_MS / pace.slot_ms:.2f};"
        f" ingest {core:.2f} of a core, memory {memory:.0f} -> {memory_after:.0f} MB,"
        f" disk {(disk_bytes(place.folder) - disk) / took_s * DAY_S / MB:,.0f} MB a day"
    )
    goals = {
        f"at most {BEHIND_MAX} blocks behind": max(watched.behind) <= BEHIND_MAX,
        f"{CORE_MAX} of a core": core <= CORE_MAX,
        "memory flat": memory_after <= GROWTH_MAX * memory,
    }
    if pace.has_fast_finality:
        goals[f"block -> answer p99 {ANSWER_MS_MAX} ms"] = _p99(late) <= ANSWER_MS_MAX
        goals[f"block -> list p99 {LIST_MS_MAX} ms"] = _p99(listed) <= LIST_MS_MAX
    return figures, [goal for goal, is_met in goals.items() if not is_met]


def _watch(
    place: Place,
    answers: Iterator[Seen | None],
    lists: Iterator[Seen | None],
    how_long_s: float,
) -> Watched:
    """For *how_long_s* seconds, request reports and the list of tokens, and measure ingest."""
    watched, end_s = Watched(), time.monotonic() + how_long_s
    look_s = list_s = 0.0
    while (now_s := time.monotonic()) < end_s:
        if now_s >= look_s:
            look_s = now_s + LOOK_EVERY_S
            head = asked_of_node(place.chain_port, "bench_head")
            watched.behind.append(head - _ingested(place.metrics_port))
            watched.memory_mb.append(memory_mb(place.ingest_pid))
        if now_s >= list_s:
            list_s = now_s + LIST_EVERY_S
            _note(next(lists), watched.listed)
        _note(next(answers), watched.seen)
        time.sleep(PAUSE_S)
    return watched


def _note(answer: Seen | None, seen: list[Seen]) -> None:
    """Add *answer* to *seen* if its slot is newer than the newest slot there."""
    if answer is not None and (not seen or answer.slot > seen[-1].slot):
        seen.append(answer)


def reports(port: int, bearer: str, mint: Mint = WSOL) -> Generator[Seen | None, None, None]:
    """Request reports of *mint* repeatedly; yield the slot and the time of each response.

    Yields None for a response whose data is not live.
    """
    headers = {"Authorization": f"Bearer {bearer}"}
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        while True:
            connection.request("GET", f"/v1/token/{mint}", headers=headers)
            answer = connection.getresponse()
            answer.read()
            is_live = answer.headers.get("x-data-status") in {"live", "idle"}
            yield Seen(time.monotonic(), int(answer.headers["x-data-slot"])) if is_live else None


def listings(port: int) -> Generator[Seen | None, None, None]:
    """Request the list of tokens repeatedly; yield the slot and the time of each response.

    Yields None for a response without a list.
    """
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        while True:
            connection.request("GET", "/v1/tokens?limit=1")
            answer = connection.getresponse()
            body = json.loads(answer.read())
            slot = body["data"]["slot"] if answer.status == HTTPStatus.OK else None
            yield None if slot is None else Seen(time.monotonic(), slot)


def _percentiles(values: list[float]) -> str:
    values = sorted(values)
    return f"p50 {values[len(values) // 2]:.0f} p99 {_p99(values):.0f} max {values[-1]:.0f}"


def _p99(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.99)]


def _ingested(port: int) -> float:
    """Return the newest slot that the ingest process with metrics at *port* has read, or else 0."""
    # Only this metric is requested: all metrics take tens of milliseconds of the measured process.
    url = f"http://127.0.0.1:{port}/metrics?name[]=mintscope_ingest_slot"
    with urllib.request.urlopen(url, timeout=30) as answer:
        slot = SLOT.search(answer.read().decode())
    return float(slot[1]) if slot else 0.0


def cpu_s(pid: int) -> float:
    """Return the processor seconds of a process, and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS_A_SECOND


def memory_mb(pid: int) -> float:
    """Return the resident memory of a process in MB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES / MB


def disk_bytes(folder: str) -> int:
    """Return the total size in bytes of all files in *folder* and its subfolders."""
    return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())


def main() -> None:
    """Run the requested measurements, and print the results and missed goals.

    Missed goals do not change the exit status.
    """
    parser = argparse.ArgumentParser(prog="python -m bench.mainnet", description=__doc__)
    parser.add_argument("minutes", type=float)
    parser.add_argument("--slot-ms", type=float, default=SLOT_S * SECOND_MS)
    parser.add_argument("--finality-ms", type=float, default=FINALITY_S * SECOND_MS)
    parser.add_argument("--delay-ms", type=int, nargs="+", default=[100, 250])
    parser.add_argument("--source", choices=SOURCES, action="append")
    asked = parser.parse_args()
    pace = Pace(asked.slot_ms, asked.finality_ms)
    for delay_ms in asked.delay_ms:
        for source in asked.source or SOURCES:
            figures, missed = measure(asked.minutes, delay_ms, source, pace)
            print(figures)
            print(
                f"  goals missed: {', '.join(missed)}" if missed else "  all goals met", flush=True
            )


if __name__ == "__main__":
    main()
