"""Ingest and api at the load of mainnet: `python -m bench.mainnet MINUTES DELAY_MS...`.

Prints how many blocks ingest was behind, its processor time and memory, and the disk it takes.
"""

import re
import sys
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bench.freshness import command
from bench.mainnet_node import FIRST, HISTORY, SLOT_S
from bench.process import free_port, python_running, wait_for
from mintscope.base.time import DAY_S
from mintscope.shell.config.load import child_environment

MB: Final = 1_000_000
WARM_UP_S: Final = 15.0
TICKS_A_SECOND: Final = 100
PAGE_BYTES: Final = 4_096
SLOT: Final = re.compile(r"^mintscope_ingest_slot (\S+)", re.MULTILINE)
HEAD: Final = re.compile(r"^mintscope_chain_slot (\S+)", re.MULTILINE)


def measure(minutes: float, delay_ms: int) -> str:
    """Return one line of figures."""
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory())
        chain_port = stack.enter_context(python_running("bench.mainnet_node", str(delay_ms)))
        api_port, metrics_port = free_port(), free_port()
        settings = child_environment(
            {
                "MINTSCOPE_DATA_DIR": folder,
                "MINTSCOPE_CHAIN__RPC_URL": f"http://127.0.0.1:{chain_port}",
                "MINTSCOPE_CHAIN__BACKFILL_S": "0",
                "MINTSCOPE_MARKET__TRACK": "all",
                "MINTSCOPE_API__PORT": str(api_port),
                "MINTSCOPE_METRICS__INGEST_PORT": str(metrics_port),
                "MINTSCOPE_METRICS__API_PORT": str(free_port()),
                "MINTSCOPE_LOG__LEVEL": "error",
            }
        )
        ingest = stack.enter_context(command(settings, "ingest"))
        wait_for(api_port, stack.enter_context(command(settings, "api")))
        time.sleep(WARM_UP_S)
        begin_s, cpu_s, memory = time.monotonic(), _cpu_s(ingest.pid), _memory_mb(ingest.pid)
        disk, start = _disk(folder), _behind(metrics_port)[1]
        behind = []
        while time.monotonic() - begin_s < minutes * 60:
            time.sleep(0.2)
            behind.append(_behind(metrics_port)[0])
        took_s = time.monotonic() - begin_s
        blocks = _behind(metrics_port)[1] - start
        behind.sort()
        return (
            f"{delay_ms} ms: behind p50 {behind[len(behind) // 2]:.0f}"
            f" p99 {behind[int(len(behind) * 0.99)]:.0f} max {behind[-1]:.0f} blocks;"
            f" {blocks / took_s:.2f} blocks/s of {1 / SLOT_S:.2f};"
            f" ingest {(_cpu_s(ingest.pid) - cpu_s) / took_s:.2f} of a core,"
            f" memory {memory:.0f} -> {_memory_mb(ingest.pid):.0f} MB,"
            f" disk {(_disk(folder) - disk) / took_s * DAY_S / MB:,.0f} MB a day"
        )


def _behind(port: int) -> tuple[float, float]:
    """Return how far ingest is behind the head that it knows, and its slot."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    slot, head = SLOT.search(text), HEAD.search(text)
    assert slot is not None
    assert head is not None
    at = float(slot[1])
    assert at > FIRST + HISTORY, "nothing was ingested while it warmed up"
    return max(0.0, float(head[1]) - at), at


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND


def _memory_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES / MB


def _disk(folder: str) -> int:
    return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())


if __name__ == "__main__":
    for delay in sys.argv[2:]:
        print(measure(float(sys.argv[1]), int(delay)))
