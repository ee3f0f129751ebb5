"""Starts processes to measure, waits until they are ready, and ends them."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

START_S_MAX = 30.0


@dataclass(frozen=True)
class Running:
    """A process to measure, and the port on which it listens."""

    port: int
    pid: int

    def cpu_s(self) -> float:
        """Return the processor seconds of the threads that the process has now.

        The time of threads that have ended is not included.
        """
        schedules = Path("/proc", str(self.pid), "task").glob("*/schedstat")
        return sum(int(schedule.read_text().split()[0]) for schedule in schedules) / 1e9


@contextmanager
def server_running(module: str, *arguments: str) -> Iterator[Running]:
    """Run *module* with a free port and *arguments* during the `with` block; yield its process."""
    port = free_port()
    command = [sys.executable, "-m", module, str(port), *arguments]
    with subprocess.Popen(command) as process:
        try:
            wait_for(port, process)
            yield Running(port, process.pid)
        finally:
            process.terminate()


@contextmanager
def python_running(module: str, *arguments: str) -> Iterator[int]:
    """Run *module* with a free port and *arguments* during the `with` block; yield the port."""
    with server_running(module, *arguments) as running:
        yield running.port


def free_port() -> int:
    """Return a TCP port of this machine that no process uses now."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until *process* listens on *port*.  Raises RuntimeError if it does not start."""
    give_up_s = time.monotonic() + START_S_MAX
    while time.monotonic() < give_up_s and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError(f"{process.args!r} did not start")
