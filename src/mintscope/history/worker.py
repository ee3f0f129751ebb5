"""Reads requested backfills while ingest runs.

Progress is stored after each step; after a kill, the next ingest continues with the next step.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, TypeVar

import structlog

from mintscope.history.backfill import (
    Backfill,
    BackfillIsRead,
    BackfillJob,
    BackfillState,
    IncompleteBackfill,
    NoBackfill,
    Stage,
    Survey,
)
from mintscope.history.jobs_store import SqlBackfillJobs, SqlHistory
from mintscope.kit.clock import Clock
from mintscope.kit.errors import ServiceUnavailable, UnusableStore
from mintscope.kit.primitives import Mint, Slot, UnixS
from mintscope.kit.time import DAY_S, SECOND_MS
from mintscope.solana.blocks import SourceError

LOOK_S: Final = 1.0  # pause between two checks for requested or cancelled backfills
AGAIN_S: Final = 30.0  # pause after the node failed to answer
FAILURES_MAX: Final = 20  # failures without progress, after which a backfill fails
WORDS_MAX: Final = 500
AWAY: Final = (ServiceUnavailable, UnusableStore)  # errors of a store, after which work is retried
GONE: Final = "This token is no longer tracked."
BUG: Final = "An error of the service ended the backfill; see the log of ingest."
READ: Final = "All swaps are read. They are joined to the log between two blocks, within a minute."
TOO_LATE: Final = "The backfill was joined before it could be cancelled."
NOTHING: Final = (
    "swaps with a price in the pools that were read, because they would replace recorded candles;"
    " there are none"
)
LOSES: Final = (
    "expected {1}: name the pools of {0} with --pool, and a pool of SOL and dollars with"
    " --rate-pool (mintscope history {0})"
)
IS_KEPT: Final = (
    ". All that was read is kept, because transactions are missing: to read other pools, change"
    " --days by more than a day"
)
KEPT: Final = (
    "{}. All that was read is kept: request it again later, or join it without them by"
    " mintscope history {} --days {} --incomplete"
)

Pause = Callable[[float], Awaitable[None]]

T = TypeVar("T")

log = structlog.get_logger()


class BackfillSource(Protocol):
    """Estimates and reads backfills.  Every method may raise SourceError."""

    async def survey(self, mint: Mint, from_time: UnixS) -> Survey:
        """Return the start, the addresses and the cost of a backfill of *mint*.

        The start is later than *from_time* if the node has no blocks that old.  Raises ValueError,
        with the reason, if *mint* cannot be backfilled or there is nothing to read.
        """

    async def read(
        self, mint: Mint, from_time: UnixS, progress: Callable[[str, int], None]
    ) -> object:
        """Read and fold the backfill of *mint*, which was begun with the start *from_time*.

        progress   called with "listed" or "read", and the number of transactions added

        Raises IncompleteBackfill if the node does not return all listed transactions, and
        NoBackfill if the backfill was deleted.
        """


async def forever(
    step: Callable[[], Awaitable[bool]], pause: Pause, pause_s: float, warning: str
) -> None:
    """Call *step* until cancelled, and pause for *pause_s* each time it returns False.

    If the store does not answer, or is unusable, log *warning* and pause too.  Any other error is
    raised.
    """
    while True:
        try:
            is_idle = not await step()
        except AWAY as trouble:
            log.warning(warning, reason=str(trouble))
            is_idle = True
        if is_idle:
            await pause(pause_s)


@dataclass(eq=False)
class _Doing:
    """The progress of a backfill in this process.

    words   the reason why the backfill waits; "" if it does not wait
    """

    ask: BackfillJob
    listed: int = 0
    read: int = 0
    words: str = ""

    def count(self, what: str, more: int) -> None:
        if what == "listed":
            self.listed += more
        else:
            self.read += more


@dataclass(frozen=True, kw_only=True)
class BackfillQueue:
    """Estimates the cost of the backfills that administrators requested, and reads them."""

    queue: SqlBackfillJobs
    jobs: SqlHistory
    source: BackfillSource
    lock: Callable[[], AbstractAsyncContextManager[None]]  # raises BackfillIsRead if taken
    clock: Clock
    pause: Pause = asyncio.sleep

    async def run(self) -> None:
        """Estimate and read backfills until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for step in (self.estimate_one, self.read_one):
                tasks.create_task(
                    forever(step, self.pause, LOOK_S, "requested backfills cannot be read")
                )

    async def estimate_one(self) -> bool:
        """Estimate the cost of the next backfill; return False if no backfill needs an estimate."""
        ask = await self.queue.first(BackfillState.ASKED)
        if ask is not None:
            doing = _Doing(ask)
            await self._do(doing, self._estimate(doing))
        return ask is not None

    async def read_one(self) -> bool:
        """Read the next backfill, or delete a cancelled one.

        Return False if no backfill waits, or if a cancelled one must wait for another process.
        """
        # A backfill that an earlier process began comes before confirmed ones.
        ask = await self.queue.first(BackfillState.CANCELLING, BackfillState.READING)
        ask = ask or await self.queue.first(BackfillState.CONFIRMED)
        if ask is None:
            return False
        if ask.state is BackfillState.CANCELLING:
            return await self._drop(ask)
        doing = _Doing(ask, ask.listed, ask.read)
        await self._do(doing, self._read(doing))
        return True

    async def _drop(self, ask: BackfillJob) -> bool:
        """Delete the data of a cancelled backfill, and end it; it is done if it was joined before.

        Return False if another process is reading a backfill.
        """
        try:
            async with self.lock():
                is_dropped = await self.jobs.drop(ask.mint)
        except BackfillIsRead:
            return False
        await self._end(
            ask,
            BackfillState.CANCELLED if is_dropped else BackfillState.DONE,
            "" if is_dropped else TOO_LATE,
        )
        return True

    async def _do(self, doing: _Doing, work: Coroutine[Any, Any, None]) -> None:
        """Run *work* until it ends or its backfill is cancelled; store its progress or failure."""
        task = asyncio.create_task(work)
        ask = doing.ask
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=LOOK_S)
                counts = (doing.listed, doing.read, doing.words)
                # False: the backfill was cancelled, and `read_one` drops it next.
                if not task.done() and not await self.queue.progress(ask.ask_id, *counts):
                    return
            task.result()
        except (ValueError, SourceError) as failure:
            await self._end(ask, BackfillState.FAILED, str(failure))
        # The state in the store stays, so the next call resumes the work.
        except AWAY:
            raise
        except Exception:
            log.exception("a requested backfill failed", mint=ask.mint)
            await self._end(ask, BackfillState.FAILED, BUG)
        finally:
            # However the loop ended, *work* must end before another backfill is read.
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _end(self, ask: BackfillJob, state: BackfillState, words: str) -> None:
        await self.queue.end(ask.ask_id, state, words[:WORDS_MAX], self.clock.now())

    async def _estimate(self, doing: _Doing) -> None:
        found = await self._survey(doing)
        await self.queue.estimated(doing.ask.ask_id, found.from_time, found.cost)

    async def _survey(self, doing: _Doing) -> Survey:
        ask = doing.ask
        return await self._patiently(doing, lambda: self.source.survey(ask.mint, ask.from_time))

    async def _read(self, doing: _Doing) -> None:
        while True:
            try:
                async with self.lock():
                    await self._read_locked(doing)
                    return
            except BackfillIsRead as other:
                doing.words = f"Waits: {other}"
                await self.pause(LOOK_S)

    async def _read_locked(self, doing: _Doing) -> None:
        ask = doing.ask
        from_time = await self._begun(doing)
        # Ingest may return a READY backfill to READING.
        while from_time is not None:
            job = await self.jobs.one(ask.mint)
            if job is None:
                raise ValueError(GONE)
            if job.stage is Stage.JOINED:
                await self._end(ask, BackfillState.DONE, "")
                return
            doing.listed = job.listed
            doing.read = job.read
            if job.stage is Stage.READY:
                doing.words = READ
                await self.pause(LOOK_S)
            else:
                await self._patiently(doing, partial(self._read_on, doing, from_time))
                doing.words = READ

    async def _begun(self, doing: _Doing) -> UnixS | None:
        """Begin or resume the backfill; return its start, or None if it was cancelled."""
        ask = doing.ask
        job = await self.jobs.one(ask.mint)
        # This request has begun the job, which may be joined by now.
        if (
            job is not None
            and ask.state is BackfillState.READING
            and job.from_time == ask.from_time
        ):
            return ask.from_time
        if job is not None and job.goes_on(ask.from_time):
            is_wanted = await self.queue.began(ask.ask_id, job.from_time)
            return job.from_time if is_wanted else None
        found = await self._survey(doing)
        # Recorded before data are stored, so that a cancelled backfill leaves none.
        if not await self.queue.began(ask.ask_id, found.from_time):
            return None
        try:
            await self.jobs.begin(ask.mint, found.from_time, found.addresses)
        except NoBackfill:
            raise ValueError(GONE) from None
        return found.from_time

    async def _read_on(self, doing: _Doing, from_time: UnixS) -> None:
        mint = doing.ask.mint
        try:
            await self.source.read(mint, from_time, doing.count)
        except IncompleteBackfill as missing:
            days = math.ceil((self.clock.now() / SECOND_MS - from_time) / DAY_S)
            raise ValueError(KEPT.format(missing, mint, days)) from missing
        except NoBackfill:
            raise ValueError(GONE) from None

    async def _patiently(self, doing: _Doing, ask: Callable[[], Awaitable[T]]) -> T:
        """Return the result of *ask*; if the node fails, wait and call *ask* again."""
        # A refusal is raised at once, and other errors after FAILURES_MAX failures without
        # progress.
        failures = 0
        before = doing.read
        while True:
            try:
                found = await ask()
            except SourceError as trouble:
                failures = failures + 1 if doing.read == before else 1
                if failures == FAILURES_MAX or trouble.is_refusal:
                    raise
                before = doing.read
                doing.words = f"Waits for the node: {trouble}"
                await self.pause(AGAIN_S)
            else:
                doing.words = ""
                return found


SLOTS_MAX: Final = 2_000
AT_ONCE: Final = 100


async def fold_backfill(store: SqlHistory, mint: Mint) -> None:
    """Fold the slots of *mint* that were read, oldest first, so that ingest can join the result.

    If the join would lose recorded candles, raise ValueError with the reason; also delete the
    backfill, unless the node did not return some of its transactions.
    """
    # An earlier fold of these slots may have been interrupted.
    await store.restart(mint)
    past = Backfill(mint)
    after = Slot(-1)
    while slots := await store.slots(mint, after, SLOTS_MAX):
        for place, slot in enumerate(slots):
            past.apply(slot)
            if place % AT_ONCE == 0:
                await asyncio.sleep(0)  # gives ingest, in the same loop, time for its own work
        await store.candles(mint, past.changed())
        after = slots[-1].slot
    folded = past.folded()
    loss = None if folded is None else await store.losses(mint, folded.time)
    if folded is not None and loss is not None:
        job = await store.one(mint)
        is_kept = job is not None and job.missing > 0  # they may still be returned
        if not is_kept:
            await store.drop(mint)  # so that the next backfill can read other pools
        expected = NOTHING if folded.last_swap is None else loss
        raise ValueError(LOSES.format(mint, expected) + (IS_KEPT if is_kept else ""))
    await store.finish(mint, folded)
