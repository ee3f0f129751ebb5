"""The cost of a process: elapsed time, processor time, memory."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.mainnet.__main__ import cpu_s
from mintscope.app.config.load import child_environment

SETTINGS: Final = {
    "MINTSCOPE_LOG__LEVEL": "error",
    "MINTSCOPE_METRICS__ENABLED": "false",
    "MINTSCOPE_API__RATE_LIMIT_REQUESTS": "1000000",
}
END_S_MAX: Final = 30.0


class TooSlow(Exception):
    """A step has not ended within its timeout; the message names it."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a step.

    cpu_s     of its own processes, and of the server of the database
    peak_mb   the peak memory of its process
    note      other observations
    """

    wall_s: float
    cpu_s: float
    peak_mb: float
    note: str = ""


def ran(settings: Mapping[str, str], *words: str, timeout_s: float) -> tuple[Cost, str]:
    """Run Python with *words* to its end; return its cost, and its output.

    Raises TooSlow; RuntimeError if it fails
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
        raise RuntimeError(f"{words} ended with {process.returncode}: {''.join(errors)[-2_000:]}")
    took_s = time.monotonic() - begun_s
    cost = Cost(took_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1_000)
    return cost, printed


@contextmanager
def running(settings: Mapping[str, str], name: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a command of mintscope until the block ends."""
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


def cost_so_far(process: "subprocess.Popen[bytes]", begun_s: float, note: str = "") -> Cost:
    """Return the cost of a running process so far."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    peak_kb = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
    return Cost(time.monotonic() - begun_s, cpu_s(process.pid), int(peak_kb) / 1_000, note)
