"""Measures the elapsed time, processor time and peak memory of a process."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

from bench.mainnet.__main__ import cpu_s
from mintscope.app.config.load import child_environment

SETTINGS: Final = {
    "MINTSCOPE_LOG__LEVEL": "error",
    "MINTSCOPE_METRICS__ENABLED": "false",
    "MINTSCOPE_API__RATE_LIMIT_REQUESTS": "1000000",
}
END_S_MAX: Final = 30.0


class TooSlow(Exception):
    """A step has not ended within its time limit; the message names it."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The time and memory of a step.

    cpu_s     the processor time of its processes and of the database server
    peak_mb   the peak memory of its process
    note      other observations
    idle_s    the lower and upper bound of wall_s on an idle machine; None: not computed

    Other processes make wall_s longer, because a thread that is ready to run has to wait for a
    processor.  The upper bound is wall_s less these waits of the main thread.  The lower bound is
    wall_s less the waits of all threads, including the server, because several threads can have
    waited at the same time.
    """

    wall_s: float
    cpu_s: float
    peak_mb: float
    note: str = ""
    idle_s: tuple[float, float] | None = None


def ran(settings: Mapping[str, str], *words: str, timeout_s: float) -> tuple[Cost, str]:
    """Run Python with the arguments *words* to its end; return the cost, and its output.

    Raises TooSlow after *timeout_s*; RuntimeError if Python exits with an error.
    """
    begun_s = time.monotonic()
    with subprocess.Popen(
        [sys.executable, *words],
        env=child_environment(SETTINGS | dict(settings)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        is_late = threading.Event()

        def end() -> None:
            is_late.set()
            process.kill()

        timer = threading.Timer(timeout_s, end)
        timer.start()
        assert process.stdout is not None
        assert process.stderr is not None
        errors: list[str] = []
        reading = threading.Thread(target=lambda: errors.append(process.stderr.read()))  # type: ignore[union-attr]
        reading.start()
        printed = process.stdout.read()
        reading.join()
        _, status, usage = os.wait4(process.pid, 0)
        timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
    if is_late.is_set():
        raise TooSlow(f"{' '.join(words[-3:])}: not within {timeout_s:.0f} s")
    if process.returncode:
        said = "".join((printed, *errors))[-2_000:]
        raise RuntimeError(f"{words} ended with {process.returncode}: {said}")
    took_s = time.monotonic() - begun_s
    cost = Cost(took_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1_000)
    return cost, printed


@contextmanager
def running(settings: Mapping[str, str], name: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Run `mintscope` *name* with *settings* during the `with` block; yield the process."""
    command = [sys.executable, "-m", "mintscope", name]
    environment = child_environment(SETTINGS | dict(settings))
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(END_S_MAX)
            except subprocess.TimeoutExpired:
                process.kill()


@dataclass(frozen=True, slots=True)
class Start:
    """The time at which a process was started, and the waits of its database server by then.

    waited   the seconds that each thread of the server had waited for a core
    """

    at_s: float
    waited: Mapping[str, float]

    @classmethod
    def now(cls, server_pids: Sequence[int]) -> Self:
        """Return the current time, and how long the database server has waited until now."""
        return cls(time.monotonic(), waits(server_pids))


def cost_so_far(
    process: "subprocess.Popen[bytes]", start: Start, server_pids: Sequence[int], note: str = ""
) -> Cost:
    """Return the time, memory and processor time of a running process since its start."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    peak_kb = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
    waited = waits([process.pid, *server_pids])
    cost = Cost(time.monotonic() - start.at_s, cpu_s(process.pid), int(peak_kb) / 1_000, note)
    all_s = sum(waited_s - start.waited.get(thread, 0.0) for thread, waited_s in waited.items())
    most_s = cost.wall_s - waited[f"{process.pid}/{process.pid}"]
    least_s = min(most_s, max(cost.cpu_s, cost.wall_s - all_s))
    return replace(cost, idle_s=(least_s, most_s))


def waits(pids: Sequence[int]) -> dict[str, float]:
    """Return the seconds in which each thread of the processes *pids* waited for a processor."""
    found: dict[str, float] = {}
    for pid in pids:
        for thread in Path(f"/proc/{pid}/task").glob("*"):
            with suppress(OSError):  # the process has ended
                waited_ns = int((thread / "schedstat").read_text().split()[1])
                found[f"{pid}/{thread.name}"] = waited_ns / 1e9
    return found
