"""A process that runs some tests of one mutant, and is ended if one takes far too long."""

import os
import resource
import select
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

MEMORY_BYTES: Final = 1 << 30  # more than that, beyond what it began with, is no answer either
KILLED: Final = 1


class Ended(NamedTuple):
    """The end of a process: its last report, and whether it ended well."""

    last: str
    good: bool


def limit_test(seconds: float) -> None:
    """End this process if the test that begins now takes ten times as long as it should."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(5 + int(10 * seconds))


def silence(path: str) -> None:
    """Redirect the output of this process to the file *path*."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT)
    os.dup2(file, 1)
    os.dup2(file, 2)


def limit_memory() -> None:
    """Let a mutant that never ends run into an error, and not the machine."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[0]
    used = int(pages) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_BYTES, used + MEMORY_BYTES))


def run(work: Callable[[Callable[[str], None]], bool], *, limit_s: float) -> Ended:
    """Return the end of *work* in a process of its own; its argument sends reports."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        good = False
        try:
            good = work(lambda text: _write(writing, text))
        finally:
            os._exit(0 if good else KILLED)
    os.close(writing)
    with os.fdopen(os.pidfd_open(child), "rb", buffering=0) as ending:
        if not select.select([ending], [], [], limit_s)[0]:
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    with os.fdopen(reading, encoding="utf-8") as reports:
        return Ended((reports.read().splitlines() or [""])[-1], status == 0)


def _write(pipe: int, text: str) -> None:
    os.write(pipe, f"{text}\n".encode())
