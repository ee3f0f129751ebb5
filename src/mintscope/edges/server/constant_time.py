"""Answers whose time says nothing of what was found out on the way.

An answer leaves at a moment that was set before anything was looked at.  A timer of the event loop
would not do: it counts whole milliseconds from when it is set, so the time of the work
would still be seen behind them.  A thread sleeps until the moment itself.  How it wakes
still differs by some 2 us, so the moment is drawn from a millisecond: that buries them.
"""

import asyncio
import secrets
import time
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

T = TypeVar("T")

LEAST_S: Final = 0.003  # a look at the store takes a tenth of it
SPREAD_US: Final = 1_000
_THREADS: Final = ThreadPoolExecutor(32, thread_name_prefix="even-time")


async def evenly(work: Awaitable[T]) -> T:
    """Return what *work* returns, or raise what it raises, 3 to 4 ms from now and no sooner."""
    due_s = time.perf_counter() + LEAST_S + secrets.randbelow(SPREAD_US) / 1e6
    try:
        return await work
    finally:
        await asyncio.get_running_loop().run_in_executor(_THREADS, _sleep_until, due_s)


def _sleep_until(due_s: float) -> None:
    left_s = due_s - time.perf_counter()
    if left_s > 0:
        time.sleep(left_s)
