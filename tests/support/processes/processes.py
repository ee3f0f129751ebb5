"""Processes to be killed, forked from one in which everything is imported already."""

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final

import pytest

TESTS: Final = Path(__file__).resolve().parents[2]
START_S: Final = 30
PRELOADED: Final = [
    "__main__",
    "support.processes.paying_chain",
    "support.processes.paying_service",
    "support.processes.posting_process",
    "support.processes.selling_service",
    "e2e.test_account_storm",
    "e2e.test_ingest_storm",
]

processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(PRELOADED)


def start_process(serve: Callable[..., None], *given: object) -> BaseProcess:
    """Start a process that runs `serve(*given)`."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYTHONPATH", str(TESTS))  # where the first one's server finds these
        process = processes.Process(target=serve, args=given)
        process.start()
    return process


@contextmanager
def running(serve: Callable[..., None], *given: object) -> Iterator[tuple[Any, BaseProcess]]:
    """Run `serve(pipe, *given)`; yield what it sends first, and kill it at the end."""
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
