"""A task that an exception ends is logged and restarted."""

import asyncio

from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from mintscope.app.maintenance import running


class Task:
    """A task that fails *times* times, and then runs until it is cancelled."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.waits: list[float] = []
        self.goes_on = asyncio.Event()
        self.is_over = False

    async def run(self) -> None:
        if len(self.waits) < self.times:
            raise ZeroDivisionError("a bug")
        self.goes_on.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.is_over = True

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await asyncio.sleep(0)


def failures(name: str) -> float:
    return REGISTRY.get_sample_value("mintscope_task_failures_total", {"task": name}) or 0.0


async def test_a_failed_task_is_logged_by_name_and_restarted_after_growing_waits() -> None:
    task, before = Task(4), failures("a task")
    with capture_logs() as logs:
        async with running(task.run, "a task", sleep=task.sleep):
            await task.goes_on.wait()

    assert task.waits == [0.05, 0.1, 0.2, 0.4]
    assert failures("a task") == before + 4
    assert [(line["log_level"], line["event"], line["task"]) for line in logs] == [
        ("error", "task ended", "a task")
    ] * 4
    assert all(isinstance(line["exc_info"], ZeroDivisionError) for line in logs)


async def test_a_task_ends_with_its_async_with_block_and_is_not_restarted() -> None:
    task = Task(0)
    with capture_logs() as logs:
        async with running(task.run, "a task", sleep=task.sleep):
            await task.goes_on.wait()

    assert task.is_over
    assert (task.waits, logs) == ([], [])
