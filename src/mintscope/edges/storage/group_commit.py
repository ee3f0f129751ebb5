"""Many requests, one commit: a queue in front of a thread that writes.

A durable commit costs a disk flush, whether it holds one item or a thousand.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Final, Generic, TypeVar

import msgspec

from mintscope.base.errors import ServiceUnavailable

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")
Answer = TypeVar("Answer")

WAITING_MAX: Final = 10_000
PATIENCE_S: Final = 5.0
REST_AFTER_S: Final = 0.05


class _Job(msgspec.Struct, frozen=True):
    """Anything else to be done in the writer's thread, between two batches."""

    work: Callable[[], Any]


# An item or a job, and the future of its waiter.
Waiter = tuple[Any, asyncio.Future[Any]]
Commit = Callable[[Sequence[Any]], Sequence[Any]]


class GroupCommit(Generic[Item, Outcome]):
    """Turns `commit(items) -> outcomes` into an awaitable per item.

    commit      runs in the writer's thread, first come first served; an outcome that is an
                exception is raised to its waiter, and what it raises to every waiter
    unheard     is told, in the event loop, of every outcome whose waiter has left,
                so that what was done can be undone
    rest        runs in the writer's thread after a moment without work, and at the end
    patience_s  after as long without progress, and twice that at most, every
                waiter is refused
    """

    def __init__(
        self,
        commit: Callable[[Sequence[Item]], Sequence[Outcome | Exception]],
        *,
        unheard: Callable[[Sequence[tuple[Item, Outcome]]], None],
        rest: Callable[[], None],
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._commit = commit
        self._unheard = unheard
        self._rest = rest
        self._patience_s = patience_s
        self._queue: SimpleQueue[Waiter | None] = SimpleQueue()  # None ends it
        self._waiting: deque[asyncio.Future[Any]] = deque()  # in the order of the queue
        self._delivered_count = 0
        self._watch: asyncio.TimerHandle | None = None
        self._thread: Thread | None = None
        self._stuck = False
        self._closed = False

    def submit(self, item: Item) -> asyncio.Future[Outcome]:
        """Queue *item*; the future is done once its batch is.

        Cancelling it before the writer takes it leaves it out.
        Raises ServiceUnavailable when the queue is full, stuck or closed.
        """
        future: asyncio.Future[Outcome] = self._line_up()
        self._queue.put((item, future))
        return future

    async def run(self, work: Callable[[], Answer]) -> Answer:
        """Return what *work* returns from the writer's thread, between two batches."""
        future: asyncio.Future[Answer] = self._line_up()
        self._queue.put((_Job(work), future))
        return await future

    async def close(self) -> None:
        """Refuse new items, wait for those that are queued, and end the thread."""
        self._closed = True
        if self._thread is not None:
            self._queue.put(None)
            await asyncio.to_thread(self._thread.join)  # and hear what it told the loop before
        if self._watch is not None:
            self._watch.cancel()

    def _line_up(self) -> asyncio.Future[Any]:
        if self._stuck or self._closed or len(self._waiting) >= WAITING_MAX:
            raise ServiceUnavailable("The ledger does not keep up; this request charged nothing.")
        loop = asyncio.get_running_loop()
        if self._thread is None:
            self._thread = Thread(
                target=self._write, args=(loop,), name="group-commit", daemon=True
            )
            self._thread.start()
        if self._watch is None:
            self._watch = loop.call_later(
                self._patience_s, self._expect_progress, self._delivered_count
            )
        future = loop.create_future()
        self._waiting.append(future)
        return future

    def _expect_progress(self, delivered_count: int) -> None:
        """Refuse every waiter if nothing was delivered since *delivered_count*."""
        self._watch = None
        if not self._waiting:
            return
        if self._delivered_count == delivered_count:
            self._stuck = True
            overdue = ServiceUnavailable(
                "The ledger does not answer in time; this request charged nothing."
            )
            for future in self._waiting:
                if not future.done():
                    future.set_exception(overdue)
        self._watch = asyncio.get_running_loop().call_later(
            self._patience_s, self._expect_progress, self._delivered_count
        )

    def _deliver(
        self, taken_count: int, told: Sequence[Waiter], outcomes: Sequence[Any] | Exception
    ) -> None:
        """Wake those whose turn it was; in the event loop."""
        self._stuck = False
        self._delivered_count += 1
        for _ in range(taken_count):
            self._waiting.popleft()
        if isinstance(outcomes, Exception):
            for _, future in told:
                if not future.done():
                    future.set_exception(outcomes)
            return
        unheard = []
        for (item, future), outcome in zip(told, outcomes, strict=True):
            if future.done():
                if not isinstance(outcome, Exception):
                    unheard.append((item, outcome))
            elif isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
        if unheard:
            self._unheard(unheard)

    def _write(self, loop: asyncio.AbstractEventLoop) -> None:
        """Do one turn after the other; the body of the writer's thread."""
        for taken, commit in self._turns():
            # Waiters that left meanwhile, or were refused, are left out.
            staying = [waiter for waiter in taken if not waiter[1].done()]
            outcomes = _attempt(commit, [item for item, _ in staying])
            loop.call_soon_threadsafe(self._deliver, len(taken), staying, outcomes)
        self._rest()

    def _turns(self) -> Iterator[tuple[list[Waiter], Commit]]:
        """Yield what has gathered and what to do with it, until the queue ends."""
        waiter = self._take()
        while waiter is not None:
            if isinstance(waiter[0], _Job):
                yield [waiter], _do
                waiter = self._take()
                continue
            batch = []
            try:
                while waiter is not None and not isinstance(waiter[0], _Job):
                    batch.append(waiter)
                    waiter = self._queue.get_nowait()
            except Empty:
                yield batch, self._commit
                waiter = self._take()
            else:
                yield batch, self._commit

    def _take(self) -> Waiter | None:
        """Wait for the next in the queue; rest once if it takes long to come."""
        try:
            return self._queue.get(timeout=REST_AFTER_S)
        except Empty:
            self._rest()
            return self._queue.get()


def _do(jobs: Sequence[_Job]) -> Sequence[Any]:
    return [job.work() for job in jobs]


def _attempt(commit: Commit, items: Sequence[Any]) -> Sequence[Any] | Exception:
    try:
        return commit(items) if items else []
    except Exception as failure:  # noqa: BLE001 - whatever it is, the waiters must get it
        return failure
