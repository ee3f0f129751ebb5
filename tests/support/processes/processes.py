"""Processes for tests that kill them, forked from a process that has imported all modules."""

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from typing import Any, Final

import pytest

START_S: Final = 60
PRELOADED: Final = [
    "__main__",
    "live_service",
    "paying_chain",
    "selling_service",
    "paying_service",
    "test_account_storm",
    "test_debit_ledger",
    "test_delivery",
    "test_geyser",
    "test_ingest_storm",
    "test_killed_flood",
    "test_killed_history",
    "test_restore",
]

processes = multiprocessing.get_context("forkserver")


def forking() -> ForkServerContext:
    """Return a context that forks processes from a server that has imported all modules."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        processes.set_forkserver_preload(PRELOADED)
        forkserver.ensure_running()
    return processes


def start_process(serve: Callable[..., None], *given: object) -> BaseProcess:
    process = forking().Process(target=serve, args=given)
    process.start()
    return process


@contextmanager
def running(serve: Callable[..., None], *given: object) -> Iterator[tuple[Any, BaseProcess]]:
    """Run `serve(pipe, *given)` in a process; yield its first message, and the process.

    The process is killed at the end of the block.
    """
    hears, tells = processes.Pipe(duplex=False)
    process = start_process(serve, tells, *given)
    tells.close()
    try:
        assert hears.poll(START_S)
        yield hears.recv(), process
    finally:
        process.kill()
        process.join()
        hears.close()
