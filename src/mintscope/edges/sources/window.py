"""The blocks asked for and not yet delivered: bounded, and handed out lowest first."""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Coroutine
from typing import TypeAlias

from mintscope.base.primitives import Slot
from mintscope.base.solana import Block
from mintscope.edges.sources.rpc import Missing

Answer: TypeAlias = Block | Missing


class Window:
    """Requests in flight and answers that wait for a lower slot, at most *size* together."""

    def __init__(self, fetch: Callable[[Slot], Coroutine[None, None, Answer]], size: int) -> None:
        assert size >= 1
        self._fetch = fetch
        self._size = size
        self._tasks: dict[Slot, asyncio.Task[Answer]] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def fill(self, plan: deque[Slot]) -> None:
        """Ask for the next slots of *plan*, as many as there is room for."""
        while plan and len(self._tasks) < self._size:
            self._ask(plan.popleft())

    def insert(self, slot: Slot, plan: deque[Slot]) -> None:
        """Ask for *slot* before all others; the highest goes back to *plan* if there is no room."""
        if len(self._tasks) >= self._size:
            highest = max(self._tasks)
            self._tasks.pop(highest).cancel()
            plan.appendleft(highest)
        self._ask(slot)

    @property
    def lowest_slot(self) -> Slot:
        """The lowest slot asked for."""
        return min(self._tasks)

    @property
    def highest_slot(self) -> Slot:
        """The highest slot asked for."""
        return max(self._tasks)

    @property
    def slots(self) -> Collection[Slot]:
        """Every slot asked for."""
        return self._tasks.keys()

    def task(self, slot: Slot) -> asyncio.Task[Answer]:
        """Return the request for *slot*, to wait for it beside other things."""
        return self._tasks[slot]

    async def answer(self, slot: Slot) -> Answer:
        """Return the answer for *slot*, which was asked for; it stays until dropped.

        Raises RpcFailure as its request did.
        """
        return await self._tasks[slot]

    def retry(self, plan: deque[Slot]) -> None:
        """Put the slots whose requests failed back to the start of *plan*; keep all others."""
        failed = [slot for slot, task in self._tasks.items() if _has_failed(task)]
        for slot in sorted(failed, reverse=True):
            del self._tasks[slot]
            plan.appendleft(slot)

    def drop(self, slot: Slot) -> None:
        """Forget the answer for *slot*."""
        self._tasks.pop(slot).cancel()

    async def clear(self) -> None:
        """Forget everything, and end what is in flight."""
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ask(self, slot: Slot) -> None:
        task = asyncio.create_task(self._fetch(slot))
        task.add_done_callback(_look_at)
        self._tasks[slot] = task


def _has_failed(task: asyncio.Task[Answer]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


def _look_at(task: asyncio.Task[Answer]) -> None:
    """Retrieve the failure of a request that is no longer awaited, so that it is not logged."""
    if not task.cancelled():
        task.exception()
