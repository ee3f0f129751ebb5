"""Many requests, one commit: a queue in front of a thread that writes.

A durable commit costs a disk flush whether it holds one item or a thousand, so
whatever arrives while a batch is being written becomes the next batch.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, Generic, TypeVar

from mintscope.errors import ServiceUnavailable

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")
Answer = TypeVar("Answer")

WAITING_MAX: Final = 10_000
PATIENCE_S: Final = 5.0  # after this a batch is given up on
REST_AFTER_S: Final = 0.05


class GroupCommit(Generic[Item, Outcome]):
    """Turns `commit(items) -> outcomes` into an awaitable per item.

    commit    runs in the writer's thread; all or nothing, first come first served
    unheard   is told, in the event loop, of every outcome nobody waits for any
              more, so that what was done can be undone
    rest      runs in the writer's thread after a moment without work, and at the end
    """

    def __init__(
        self,
        commit: Callable[[Sequence[Item]], Sequence[Outcome]],
        *,
        unheard: Callable[[Sequence[tuple[Item, Outcome]]], None],
        rest: Callable[[], None],
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._commit = commit
        self._unheard = unheard
        self._rest = rest
        self._patience_s = patience_s
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="group-commit")
        self._waiting: list[tuple[Item, asyncio.Future[Outcome]]] = []
        self._busy = False
        self._stuck = False
        self._closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._idle: asyncio.Future[None] | None = None

    def submit(self, item: Item) -> asyncio.Future[Outcome]:
        """Queue *item*; the future is done once its batch is.

        Cancelling it before its batch is handed over takes it out of the queue.
        Raises ServiceUnavailable when the queue is full, stuck or closed.
        """
        if self._stuck or self._closed or len(self._waiting) >= WAITING_MAX:
            raise ServiceUnavailable("The ledger does not keep up; nothing was charged.")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Outcome] = loop.create_future()
        self._waiting.append((item, future))
        if not self._busy:
            self._busy = True
            loop.call_soon(self._hand_over)  # after all requests of this turn of the loop
        return future

    async def run(self, job: Callable[[], Answer]) -> Answer:
        """Return what *job* returns from the writer's thread, between two batches."""
        running = asyncio.get_running_loop().run_in_executor(self._thread, job)
        try:
            async with asyncio.timeout(self._patience_s):
                return await running
        except TimeoutError:
            raise ServiceUnavailable("The ledger does not answer in time.") from None

    async def close(self) -> None:
        """Refuse new items, wait for those that are queued, and end the thread."""
        self._closed = True
        if self._busy:
            self._idle = asyncio.get_running_loop().create_future()
            await self._idle
        self._cancel_timer()
        self._thread.submit(self._rest)
        self._thread.shutdown()

    def _hand_over(self) -> None:
        batch = [waiter for waiter in self._waiting if not waiter[1].cancelled()]
        self._waiting = []
        self._cancel_timer()
        if not batch:
            self._become_idle()
            return
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._patience_s, self._give_up, batch)
        committing = self._thread.submit(self._commit, [item for item, _ in batch])
        committing.add_done_callback(
            lambda done: loop.call_soon_threadsafe(self._deliver, batch, done)
        )

    def _deliver(
        self,
        batch: list[tuple[Item, asyncio.Future[Outcome]]],
        done: Future[Sequence[Outcome]],
    ) -> None:
        self._cancel_timer()
        self._stuck = False
        failure = done.exception()
        if failure is None:
            self._tell(batch, done.result())
        else:
            _fail(batch, failure)
        if self._waiting:
            self._hand_over()
        else:
            self._become_idle()

    def _tell(
        self,
        batch: list[tuple[Item, asyncio.Future[Outcome]]],
        outcomes: Sequence[Outcome],
    ) -> None:
        unheard = []
        for (item, future), outcome in zip(batch, outcomes, strict=True):
            if future.done():
                unheard.append((item, outcome))
            else:
                future.set_result(outcome)
        if unheard:
            self._unheard(unheard)

    def _give_up(self, batch: list[tuple[Item, asyncio.Future[Outcome]]]) -> None:
        """Answer everyone; the batch itself may still come to its end, unheard."""
        self._stuck = True
        overdue = ServiceUnavailable("The ledger does not answer in time; nothing was charged.")
        _fail(batch, overdue)
        _fail(self._waiting, overdue)
        self._waiting = []

    def _become_idle(self) -> None:
        self._busy = False
        if self._idle is not None:
            self._idle.set_result(None)
        elif not self._closed:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(REST_AFTER_S, self._thread.submit, self._rest)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _fail(waiters: list[tuple[Item, asyncio.Future[Outcome]]], failure: BaseException) -> None:
    for _, future in waiters:
        if not future.done():
            future.set_exception(failure)
