"""What every process of the service has beside its work: metrics, signals, tasks without an end."""

import asyncio
import signal
from collections.abc import AsyncIterator, Coroutine
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from typing import Any

from mintscope.base.metrics import serve_metrics
from mintscope.shell.config.sections import MetricsConfig


def serving_metrics(metrics: MetricsConfig, port: int) -> AbstractContextManager[object]:
    """Serve the metrics of this process on *port*, if they are enabled.  Raises OSError."""
    return serve_metrics(metrics.host, port) if metrics.enabled else nullcontext()


@asynccontextmanager
async def running(work: Coroutine[Any, Any, None], name: str) -> AsyncIterator[None]:
    """Run *work*, which has no end, beside the block."""
    task = asyncio.create_task(work, name=name)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def run_until_signalled(work: Coroutine[Any, Any, None]) -> None:
    """Run *work* to its end, or cancel it at SIGINT or SIGTERM."""
    task = asyncio.create_task(work)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        if not task.cancelled():
            raise
