"""The window of requested slots, and warnings about skipped block files."""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Final, TypeAlias

import structlog

from mintscope.kit.primitives import Slot
from mintscope.solana.blocks import Block, Tip
from mintscope.solana.rpc import Missing

Answer: TypeAlias = Block | Missing

BYTES_MAX: Final = 128 * 1024 * 1024


@dataclass(eq=False, repr=False)
class Window:
    """Block requests under way, and received blocks that wait for a block at a lower slot.

    size        the most slots in the window, requested and received ones together
    bytes_max   limit of the bytes of all blocks in the window; an open request counts like the
                largest recent block, and one request is always allowed
    """

    fetch: Callable[[Slot], Coroutine[None, None, Answer]]  # requests the block at a slot
    size: int
    _: KW_ONLY
    bytes_max: int = BYTES_MAX

    def __post_init__(self) -> None:
        assert self.size >= 1
        self._largest = 0
        self._tasks: dict[Slot, asyncio.Task[Answer]] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def fill(self, plan: deque[Slot]) -> None:
        """Remove the next slots from *plan* and request their blocks, while there is room."""
        room = self._room() if plan else 0
        while plan and len(self._tasks) < room:
            self._ask(plan.popleft())

    def _room(self) -> int:
        sizes = [size for task in self._tasks.values() if (size := _size(task))]
        self._largest = max(self._largest, *sizes, 1)
        held = sum(sizes)
        waiting = len(self._tasks) - len(sizes)
        more = (self.bytes_max - held) // self._largest - waiting
        return min(self.size, max(len(self._tasks) + more, 1))

    def insert(self, slot: Slot, plan: deque[Slot]) -> None:
        """Request *slot* at once.

        If *size* slots are requested already, move the highest of them back to *plan*.
        """
        if len(self._tasks) >= self.size:
            # The highest slot is needed last.
            highest = max(self._tasks)
            self._tasks.pop(highest).cancel()
            plan.appendleft(highest)
        self._ask(slot)

    @property
    def lowest_slot(self) -> Slot:
        """The lowest requested slot."""
        return min(self._tasks)

    @property
    def highest_slot(self) -> Slot:
        """The highest requested slot."""
        return max(self._tasks)

    @property
    def slots(self) -> Collection[Slot]:
        """Every requested slot."""
        return self._tasks.keys()

    @property
    def pending(self) -> Sequence[asyncio.Task[Answer]]:
        """The requests without an answer yet."""
        return [task for task in self._tasks.values() if not task.done()]

    def child_of(self, slot: Slot) -> Block | None:
        """Return the lowest received block whose parent is at *slot*; None: no such block."""
        blocks = (_block(task) for _, task in sorted(self._tasks.items()))
        return next((each for each in blocks if each and each.parent_slot == slot), None)

    def task(self, slot: Slot) -> asyncio.Task[Answer]:
        """Return the request for *slot*, so that the caller can wait for it."""
        return self._tasks[slot]

    async def answer(self, slot: Slot) -> Answer:
        """Wait for the answer for *slot*, which must be requested, and return it.

        The window keeps the answer.  Raises RpcFailure if the request failed.
        """
        return await self._tasks[slot]

    def retry(self, plan: deque[Slot]) -> None:
        """Move the slots of failed requests back to the start of *plan*; keep other requests."""
        failed = [slot for slot, task in self._tasks.items() if _has_failed(task)]
        # Highest first, because `appendleft` reverses the order.
        for slot in sorted(failed, reverse=True):
            del self._tasks[slot]
            plan.appendleft(slot)

    def drop(self, slot: Slot) -> None:
        """Forget the request for *slot*, and its answer."""
        task = self._tasks.pop(slot)
        # `_largest` shrinks with each dropped slot, so that one huge block is forgotten in time.
        self._largest = max(self._largest * 15 // 16, _size(task))
        task.cancel()

    async def clear(self) -> None:
        """Cancel all open requests, and discard all answers."""
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ask(self, slot: Slot) -> None:
        task = asyncio.create_task(self.fetch(slot))
        task.add_done_callback(_look_at)
        self._tasks[slot] = task


def _size(task: asyncio.Task[Answer]) -> int:
    block = _block(task)
    return 0 if block is None else block.size


def _block(task: asyncio.Task[Answer]) -> Block | None:
    if not task.done() or _has_failed(task):
        return None
    answer = task.result()
    return answer if isinstance(answer, Block) else None


def _has_failed(task: asyncio.Task[Answer]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


def _look_at(task: asyncio.Task[Answer]) -> None:
    """Retrieve the error of an abandoned request, so that asyncio does not log it."""
    if not task.cancelled():
        task.exception()


log = structlog.get_logger()


class SkippedFiles:
    """Warns about each block file that has no block after the last block of an earlier run."""

    def __init__(self, after: Tip | None) -> None:
        self._after = after
        self._file = ""
        self._last: Slot | None = None  # None if the file has had a new block

    def note(self, where: str, slot: Slot, *, is_new: bool) -> None:
        """Record the block at *slot*, read at *where* ("file:line").

        is_new   whether the block comes after the last block of an earlier run
        """
        file = where.rpartition(":")[0]
        if file != self._file:
            self.finish()
            self._file = file
            self._last = slot
        if self._last is not None:
            self._last = None if is_new else slot

    def finish(self) -> None:
        """Warn if the last file had no block after the one at which the source resumed."""
        if self._after is not None and self._last is not None:
            since = self._after.slot + 1
            file = self._file
            log.warning(
                "block_file_not_newer", file=file, last_slot=self._last, expected_from=since
            )
