"""Common parts of every process of the service: metrics, signals, tasks without an end."""

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from typing import Any, TypeAlias

import structlog

from mintscope import __version__
from mintscope.base.metrics import BUILD_INFO, TASK_FAILURES, serve_metrics
from mintscope.edges.maintenance.memory import freeze_startup_objects, give_memory_back
from mintscope.shell.config.sections import MetricsConfig
from mintscope.shell.wiring.processes.backoff import Backoff
from mintscope.shell.wiring.processes.build import commit

Work: TypeAlias = Callable[[], Coroutine[Any, Any, None]]
Sleep: TypeAlias = Callable[[float], Awaitable[None]]

log = structlog.get_logger()


def serving_metrics(metrics: MetricsConfig, port: int) -> AbstractContextManager[object]:
    """Serve the metrics of this process on *port*, if they are enabled.  Raises OSError."""
    BUILD_INFO.labels(__version__, commit() or "unknown").set(1)
    return serve_metrics(metrics.host, port) if metrics.enabled else nullcontext()


@asynccontextmanager
async def running(work: Work, name: str, *, sleep: Sleep = asyncio.sleep) -> AsyncIterator[None]:
    """Run *work*, which has no end, beside the block; when it ends all the same, run it again.

    Only a bug ends it.  The process goes on: what it sells does not depend on this task alone.
    """
    task = asyncio.create_task(_run_forever(work, name, sleep), name=name)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _run_forever(work: Work, name: str, sleep: Sleep) -> None:
    loop = asyncio.get_running_loop()
    backoff = Backoff()
    TASK_FAILURES.labels(name)  # shown as 0 from the start
    while True:
        began_s = loop.time()
        trouble: Exception | None = None
        try:
            await work()
        except Exception as error:  # noqa: BLE001 - whatever it is, it must be told
            trouble = error
        wait_s = backoff.after(loop.time() - began_s)
        TASK_FAILURES.labels(name).inc()
        log.error("task ended", task=name, restart_in_s=round(wait_s, 2), exc_info=trouble)
        await sleep(wait_s)


async def run_until_signalled(work: Coroutine[Any, Any, None]) -> int | None:
    """Run *work* to its end, or cancel it at SIGINT or SIGTERM; return the signal, if any."""
    task = asyncio.create_task(work)
    came = list[int]()

    def stop(number: int) -> None:
        came.append(number)
        task.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    try:
        await task
    except asyncio.CancelledError:
        if not task.cancelled():
            raise
    return came[0] if came else None


@asynccontextmanager
async def keeping_memory_small() -> AsyncIterator[None]:
    """Keep memory small during the block; everything that stays is made before it."""
    async with running(give_memory_back, "memory"):
        freeze_startup_objects()
        yield
