"""Measures the answers to a paying client during each flood, and the server's memory after it.

`python -m bench.floods [SECONDS] [FLOOD ...]`; 60 s each by default.  The server and the flooding
clients are separate processes; the clients have a lower priority, so the figures show the server.
The client pays with credits, 25 requests a second on one connection.
"""

import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from typing_extensions import override

from bench.figure import Figure, tell
from bench.flooding import FLOODS
from bench.http import prepare
from bench.process import free_port, wait_for
from mintscope.solana.blocks import WSOL

SECONDS: Final = 60.0
NICE: Final = 10
SETTLE_S: Final = 1.0
SETTLE_S_MAX: Final = 30.0
PAUSE_S: Final = 0.04
P99_MS_MAX: Final = 50.0
GROWTH_MB_MAX: Final = 20.0
KB_PER_MB: Final = 1_024


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The latencies of a paying client during a flood, and the server's memory before and after it.

    most_mb   the most memory that the server used during the flood, in MB
    """

    flood: str
    latencies_ms: list[float]
    errors: list[str]
    before_mb: float
    most_mb: float
    after_mb: float
    reported: str

    @property
    def p50_ms(self) -> float:
        """Return the median latency, in milliseconds."""
        return self.latencies_ms[len(self.latencies_ms) // 2]

    @property
    def p99_ms(self) -> float:
        """Return the latency that 99 % of the requests do not exceed, in milliseconds."""
        return self.latencies_ms[len(self.latencies_ms) * 99 // 100]

    @property
    def is_good(self) -> bool:
        """Return whether the client was served in time, and the server has freed its memory."""
        return (
            not self.errors
            and self.p99_ms <= P99_MS_MAX
            and self.after_mb - self.before_mb <= GROWTH_MB_MAX
        )

    def figures(self) -> dict[str, object]:
        """Return the results of this flood by name, for JSON."""
        return {
            "flood": self.flood,
            "p50_ms": self.p50_ms,
            "p99_ms": self.p99_ms,
            "errors": self.errors,
            "grown_mb": self.after_mb - self.before_mb,
        }

    @override
    def __str__(self) -> str:
        bad = "" if self.is_good else "BAD "
        return (
            f"{self.flood:30} {len(self.latencies_ms):6} {self.p50_ms:8.1f} {self.p99_ms:8.1f}"
            f" {self.latencies_ms[-1]:8.1f} {len(self.errors):6} {self.before_mb:7.0f}"
            f" {self.most_mb:7.0f} {self.after_mb:7.0f}  {bad}{self.reported}"
        )


HEAD: Final = (
    f"{'flood':30} {'paid':>6} {'p50 ms':>8} {'p99 ms':>8} {'max ms':>8} {'errors':>6}"
    f" {'MB was':>7} {'most':>7} {'is':>7}  the flood received"
)


@dataclass(frozen=True)
class Server:
    """The flooded server process, and credit tokens for the paying client."""

    port: int
    pid: int
    tokens: Iterator[str]

    def memory_mb(self, line: str = "VmRSS") -> float:
        """Return the value of *line* in /proc/PID/status of the server in MB; by default, RSS."""
        for text in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if text.startswith(f"{line}:"):
                return int(text.split()[1]) / KB_PER_MB
        raise RuntimeError(f"expected {line} of process {self.pid}")


@contextmanager
def flooded() -> Iterator[Server]:
    """Run the server to flood during the `with` block; yield it."""
    with TemporaryDirectory() as name:
        tokens = prepare(Path(name))
        port = free_port()
        command = [sys.executable, "-m", "bench.flooded", str(port), name]
        with subprocess.Popen(command) as process:
            try:
                wait_for(port, process)
                yield Server(port, process.pid, cycle(tokens))
            finally:
                process.kill()


def beside(flood: str, server: Server, seconds: float) -> Outcome:
    """Flood *server* for *seconds* while a client pays for reports; return what both measured."""
    pay(server, 1.0)  # warm up
    before_mb = server.memory_mb()
    # Reset the peak of the memory of the process
    Path(f"/proc/{server.pid}/clear_refs").write_text("5")
    command = [sys.executable, "-m", "bench.flooding", flood, str(server.port), str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        os.setpriority(os.PRIO_PROCESS, process.pid, NICE)
        latencies_ms, errors = pay(server, seconds)
        reported = process.communicate(timeout=seconds + 60)[0]
    settle(server, before_mb)
    return Outcome(
        flood=flood,
        latencies_ms=sorted(latencies_ms),
        errors=errors,
        before_mb=before_mb,
        most_mb=server.memory_mb("VmHWM"),
        after_mb=server.memory_mb(),
        reported=reported.strip(),
    )


def settle(server: Server, before_mb: float) -> None:
    """Wait until the server has freed the memory of a flood, for at most SETTLE_S_MAX seconds."""
    give_up_s = time.monotonic() + SETTLE_S_MAX
    time.sleep(SETTLE_S)
    while time.monotonic() < give_up_s and server.memory_mb() > before_mb + GROWTH_MB_MAX:
        time.sleep(SETTLE_S)


def pay(server: Server, seconds: float) -> tuple[list[float], list[str]]:
    """Send requests that cost credits for *seconds*; return latencies in ms, and failures."""
    latencies_ms: list[float] = []
    errors: list[str] = []
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        began_s = time.perf_counter()
        try:
            headers = {"Authorization": f"Bearer {next(server.tokens)}"}
            connection.request("GET", f"/v1/token/{WSOL}", headers=headers)
            answer = connection.getresponse()
            answer.read()
            if answer.status != http.client.OK:
                errors.append(str(answer.status))
        except (OSError, http.client.HTTPException) as error:
            errors.append(repr(error))
            connection.close()
        latencies_ms.append((time.perf_counter() - began_s) * 1_000)
        time.sleep(PAUSE_S)
    connection.close()
    return latencies_ms, errors


def figures(outcomes: Sequence[Outcome]) -> Iterator[Figure]:
    """Yield the paying client's latencies and errors during each flood, and the server's memory."""
    for each in outcomes:
        beside_it, left = f"beside {each.flood}", f"after {each.flood}"
        yield _figure(f"{beside_it}: p50", each.p50_ms, "ms")
        yield _figure(f"{beside_it}: p99", each.p99_ms, "ms", f"<= {P99_MS_MAX:g}")
        yield _figure(f"{beside_it}: errors", len(each.errors), "answers", "0")
        yield _figure(f"before {each.flood}: memory", each.before_mb, "MB")
        yield _figure(f"{left}: memory", each.after_mb, "MB", f"<= {GROWTH_MB_MAX:g} more")
    first, last = outcomes[0], outcomes[-1]
    goal = f"<= {GROWTH_MB_MAX:g}"
    yield _figure("all floods: memory grown", last.after_mb - first.before_mb, "MB", goal)


def _figure(what: str, value: float, unit: str, goal: str = "") -> Figure:
    return Figure(what=what, who="mintscope", value=value, unit=unit, goal=goal)


def main() -> int:
    assert set(sys.argv[2:]) <= set(FLOODS), f"expected floods of {', '.join(FLOODS)}"
    seconds = float(sys.argv[1]) if sys.argv[1:] else SECONDS
    print(HEAD)
    outcomes = []
    with flooded() as server:
        for flood in sys.argv[2:] or FLOODS:
            outcomes.append(beside(flood, server, seconds))
            print(outcomes[-1], *set(outcomes[-1].errors), flush=True)
    for figure in figures(outcomes):
        tell(figure)
    print(json.dumps([each.figures() for each in outcomes]))
    return 0 if all(each.is_good for each in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
