"""Processes to be killed, forked from one in which everything is imported already."""

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from typing import Any

START_S = 30

processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(
    [
        "__main__",
        "mintscope.edges.api.app",
        "mintscope.edges.server.server",
        "mintscope.shell.wiring.payments",
        "mintscope.edges.storage.sqlite.money.credit_book",
        "mintscope.devchain.svm.vm",
        "mintscope.devchain.server",
        "mintscope.devchain.methods.table",
    ]
)


@contextmanager
def running(serve: Callable[..., None], *given: object) -> Iterator[tuple[Any, BaseProcess]]:
    """Run `serve(pipe, *given)`; yield what it sends first, and kill it at the end."""
    hears, tells = processes.Pipe(duplex=False)
    process = processes.Process(target=serve, args=(tells, *given))
    process.start()
    tells.close()
    try:
        assert hears.poll(START_S)
        yield hears.recv(), process
    finally:
        process.kill()
        process.join()
        hears.close()
