"""Group commit: one thread writes queued items, with one commit for each batch.

A durable commit needs a disk flush, but only one for any number of items.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from enum import Enum, auto
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Final, Generic, Protocol, TypeVar

import structlog

from mintscope.kit.errors import ServiceUnavailable

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")
Answer = TypeVar("Answer")

WAITING_MAX: Final = 10_000
PATIENCE_S: Final = 5.0
REST_AFTER_S: Final = 0.05
REST_AGAIN_S: Final = 10.0

Commit = Callable[[Sequence[Any]], Sequence[Any]]
Outcome_contra = TypeVar("Outcome_contra", contravariant=True)

log = structlog.get_logger()


class Waiter(Protocol[Outcome_contra]):
    """Receives the outcome of one item, in the event loop; an asyncio future is a Waiter.

    The methods must be fast, because other waiters are served after this one.
    """

    def done(self) -> bool:
        """Return whether the waiter has its outcome, or no longer needs one."""

    def set_result(self, outcome: Outcome_contra, /) -> None:
        """Receive *outcome*."""

    def set_exception(self, failure: Exception, /) -> None:
        """Receive *failure*, the error that occurred instead of an outcome."""


class _Soon(Enum):
    """Entries of the writer's queue that are no batches: REST makes the writer call `rest` soon."""

    REST = auto()


class _Batch:
    """The items that are written in one commit, or one job that runs between two commits."""

    __slots__ = ("commit", "items", "waiters")

    def __init__(self, commit: Commit) -> None:
        self.commit = commit
        self.items: list[Any] = []
        self.waiters: list[Waiter[Any]] = []


@dataclass(eq=False, repr=False)
class GroupCommit(Generic[Item, Outcome]):
    """Collects items, and writes them in batches: `commit(items)` returns an outcome for each.

    A batch contains the items of one iteration of the event loop, or those that arrived while the
    last batch was written.  The event loop and the writer's thread wake each other once for each
    batch.

    commit      called in the writer's thread, with items in order of arrival.  An outcome that is
                an exception is raised in its waiter; an exception of commit, in every waiter of the
                batch
    delivered   called in the event loop for each committed batch, after its waiters have continued,
                with the items and outcomes whose waiters had left, so that their effects can be
                undone
    """

    commit: Callable[[Sequence[Item]], Sequence[Outcome | Exception]]
    _: KW_ONLY
    rest: Callable[[], None]  # after 0.05 s without work, then every 10 s, and at the end
    delivered: Callable[[Sequence[tuple[Item, Outcome]]], None] = lambda _: None
    patience_s: float = PATIENCE_S  # waiters are refused if no batch ends for up to twice this

    def __post_init__(self) -> None:
        self._queue: SimpleQueue[_Batch | _Soon | None] = SimpleQueue()  # None ends the writer
        self._under_way: deque[_Batch] = deque()  # given to the writer, in order
        self._batches: deque[_Batch | None] = deque()  # not yet given to the writer
        self._is_planned = False  # `_hand_over` will be called soon
        self._waiting_count = 0
        self._delivered_count = 0
        self._watch: asyncio.TimerHandle | None = None
        self._thread: Thread | None = None
        self._stuck = False
        self._closed = False

    def submit(self, item: Item) -> asyncio.Future[Outcome]:
        """Queue *item*; return a future that receives the outcome when the batch is done.

        The item is not written if the future is cancelled before the writer begins its batch.
        Raises ServiceUnavailable if the queue is full, stuck or closed.
        """
        return self.submit_by(self.commit, item)

    def submit_for(self, item: Item, waiter: Waiter[Outcome]) -> None:
        """Queue *item*; *waiter* receives the outcome when the batch is done.

        The item is not written if *waiter* is done before the writer begins its batch.
        Raises ServiceUnavailable if the queue is full, stuck or closed.
        """
        self._line_up(self.commit, item, waiter)

    def submit_by(
        self, commit: Callable[[Sequence[Any]], Sequence[Any]], item: object
    ) -> asyncio.Future[Any]:
        """Queue *item* for a batch that *commit* writes; return a future for the outcome.

        commit   items join the same batch only if their *commit* is the same object; each access to
                 a bound method returns another object
        """
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._line_up(commit, item, future)
        return future

    async def run(self, work: Callable[[], Answer]) -> Answer:
        """Call *work* in the writer's thread, between two batches, and return its result."""
        answer: Answer = await self.submit_by(_do, work)
        return answer

    def rest_soon(self) -> None:
        """Make the writer call `rest` if it gets no batch within REST_AFTER_S seconds."""
        self._queue.put(_Soon.REST)

    async def close(self) -> None:
        """Refuse new items, wait for the queued ones, and end the thread."""
        self._closed = True
        if self._thread is not None:
            self._batches.append(None)
            self._hand_over()
            await asyncio.to_thread(self._thread.join)
            await asyncio.sleep(0)  # lets the last callbacks of the writer run
        if self._watch is not None:
            self._watch.cancel()

    def _line_up(self, commit: Commit, item: object, waiter: Waiter[Any]) -> None:
        if self._stuck or self._closed or self._waiting_count >= WAITING_MAX:
            raise ServiceUnavailable("The ledger does not keep up; this request charged nothing.")
        if self._thread is None or self._watch is None:
            self._begin(asyncio.get_running_loop())
        batches = self._batches
        last = batches[-1] if batches else None
        if last is None or commit is _do or last.commit is not commit:
            last = _Batch(commit)
            batches.append(last)
        last.items.append(item)
        last.waiters.append(waiter)
        self._waiting_count += 1
        if commit is _do:
            self._hand_over()  # no other item can join the batch
        # While a batch is being written, `_deliver` plans the next one at its end.
        elif not (self._under_way or self._is_planned):
            self._is_planned = True
            asyncio.get_running_loop().call_soon(self._hand_over)

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._thread is None:
            self._thread = Thread(
                target=self._write, args=(loop,), name="group-commit", daemon=True
            )
            self._thread.start()
        if self._watch is None:
            self._watch = loop.call_later(
                self.patience_s, self._expect_progress, self._delivered_count
            )

    def _expect_progress(self, delivered_count: int) -> None:
        """Refuse every waiter if no batch was written since the last call; call again later.

        delivered_count   the number of batches that were written before the last call
        """
        self._watch = None
        if not self._waiting_count:
            return
        if self._delivered_count == delivered_count:
            self._stuck = True
            overdue = ServiceUnavailable(
                "The ledger does not answer in time; this request charged nothing."
            )
            for batch in (*self._under_way, *self._batches):
                for waiter in () if batch is None else batch.waiters:
                    if not waiter.done():
                        _tell(waiter, overdue)
        self._watch = asyncio.get_running_loop().call_later(
            self.patience_s, self._expect_progress, self._delivered_count
        )

    def _hand_over(self) -> None:
        self._is_planned = False
        while self._batches:
            batch = self._batches.popleft()
            if batch is not None:
                self._under_way.append(batch)
            self._queue.put(batch)

    def _deliver(self, staying: Sequence[int], outcomes: Sequence[Any] | Exception) -> None:
        """Give the outcomes of the oldest batch to its waiters.

        staying    the positions in the batch of the items that were passed to `commit`
        outcomes   an outcome for each of them, or the error of `commit`
        """
        batch = self._under_way.popleft()
        if self._batches and not (self._under_way or self._is_planned):
            # The waiters may submit further items at once: these join the next batch.
            self._is_planned = True
            loop = asyncio.get_running_loop()
            loop.call_soon(loop.call_soon, self._hand_over)
        self._stuck = False
        self._delivered_count += 1
        self._waiting_count -= len(batch.waiters)
        is_committed = batch.commit is not _do and bool(outcomes)
        if isinstance(outcomes, Exception):
            is_committed = False
            outcomes = [outcomes] * len(staying)
        unheard = []
        for place, outcome in zip(staying, outcomes, strict=True):
            waiter = batch.waiters[place]
            is_reported = not waiter.done() and _tell(waiter, outcome)
            if not is_reported and not isinstance(outcome, Exception):
                unheard.append((batch.items[place], outcome))
        if is_committed:
            # `delivered` is called later, so that the waiters first send their responses.
            asyncio.get_running_loop().call_soon(self.delivered, unheard)

    def _write(self, loop: asyncio.AbstractEventLoop) -> None:
        while (batch := self._take()) is not None:
            # Items of waiters that have left, or were refused, are not written.
            staying = [place for place, waiter in enumerate(batch.waiters) if not waiter.done()]
            outcomes = _attempt(batch.commit, [batch.items[place] for place in staying])
            loop.call_soon_threadsafe(self._deliver, staying, outcomes)
        self._rest()

    def _take(self) -> _Batch | None:
        """Wait for the next batch, and return it; None if the writer must end.

        While no batch comes, `rest` is called from time to time.
        """
        wait_s = REST_AFTER_S
        while True:
            try:
                batch = self._queue.get(timeout=wait_s)
            except Empty:
                self._rest()
                wait_s = REST_AGAIN_S
                continue
            if batch is not _Soon.REST:
                return batch
            wait_s = REST_AFTER_S

    def _rest(self) -> None:
        try:
            self.rest()
        except Exception:  # the writer must go on: without it, every request would be refused
            log.exception("the deferred work of the writer failed")


def _tell(waiter: Waiter[Any], outcome: object) -> bool:
    try:
        if isinstance(outcome, Exception):
            waiter.set_exception(outcome)
        else:
            waiter.set_result(outcome)
    except Exception:
        log.exception("a waiter failed on its outcome")
        return False
    return True


def _do(jobs: Sequence[Callable[[], Any]]) -> Sequence[Any]:
    return [job() for job in jobs]


def _attempt(commit: Commit, items: Sequence[Any]) -> Sequence[Any] | Exception:
    try:
        return commit(items) if items else []
    except Exception as failure:  # noqa: BLE001 - it is raised to the waiters
        return failure
