"""Responses whose time says nothing of what was found out on the way.

A response leaves at a moment set before anything was looked up, which is drawn from a millisecond.
A thread sleeps until then: timers of the event loop count whole milliseconds, and two kinds of work
that differ by 15 us could be distinguished (Kolmogorov and Smirnov, 1,500 responses each: p =
1e-36; 0.69 with a thread).
"""

import asyncio
import secrets
import time
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

T = TypeVar("T")

LEAST_S: Final = 0.003  # a look-up in the store takes a tenth of it
SPREAD_US: Final = 1_000
# Two thousand responses a second: more than the limits of the routes let through.
_THREADS: Final = ThreadPoolExecutor(8, thread_name_prefix="constant-time")


async def evenly(work: Awaitable[T], *, least_s: float | None = None) -> T:
    """Return what *work* returns, or raise what it raises, *least_s* from now and no sooner.

    least_s   longer than the work ever takes, LEAST_S if None; up to a millisecond is added
    """
    wait_s = LEAST_S if least_s is None else least_s
    due_s = time.perf_counter() + wait_s + secrets.randbelow(SPREAD_US) / 1e6
    try:
        return await work
    finally:
        if wait_s > LEAST_S:  # a thread is kept for the end alone
            await asyncio.sleep(due_s - LEAST_S - time.perf_counter())
        await asyncio.get_running_loop().run_in_executor(_THREADS, _sleep_until, due_s)


def _sleep_until(due_s: float) -> None:
    left_s = due_s - time.perf_counter()
    if left_s > 0:
        time.sleep(left_s)
