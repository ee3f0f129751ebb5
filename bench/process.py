"""Processes that a figure is taken from: started, waited for, ended."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

START_S_MAX = 30.0


@contextmanager
def python_running(module: str, *arguments: str) -> Iterator[int]:
    """Run *module* with a free port and *arguments* until the block ends; yield the port."""
    port = free_port()
    command = [sys.executable, "-m", module, str(port), *arguments]
    with subprocess.Popen(command) as process:
        try:
            wait_for(port, process)
            yield port
        finally:
            process.terminate()


def free_port() -> int:
    """Return a free port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until *process* listens on *port*."""
    give_up_s = time.monotonic() + START_S_MAX
    while time.monotonic() < give_up_s and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError(f"{process.args!r} did not start")
