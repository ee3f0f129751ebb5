"""Mends gaps while ingest runs: each tracked token but SOL that traded in a gap is backfilled.

An attempt reads the blocks of the oldest gap that is due.  The progress of each backfill is stored,
so that after a kill the next ingest repeats the attempt, and resumes the backfill.
"""

import asyncio
from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import structlog

from mintscope.history import backfill
from mintscope.history.jobs_store import SqlHistory
from mintscope.history.join_store import SqlGapMends
from mintscope.history.worker import AWAY, WORDS_MAX, Pause, forever
from mintscope.kit.clock import Clock
from mintscope.kit.metrics import GAPS_GIVEN_UP, GAPS_MENDED, GAPS_OPEN
from mintscope.kit.primitives import Mint, Slot, UnixMs, UnixS
from mintscope.kit.time import DAY_MS, HOUR_S, SECOND_MS
from mintscope.market.pricing import RATE_WINDOW_S
from mintscope.market.store.log_reader import SqlLogReader
from mintscope.market.store.log_writer import SqlTracking
from mintscope.solana.blocks import WSOL, Gap, SourceError
from mintscope.solana.pace import WINDOW_S, Pace, PaceMeter

LOOK_S: Final = 5.0  # pause between two checks for a due gap
JOIN_LOOK_S: Final = 1.0
JOIN_LOOKS_MAX: Final = 60
PUT_OFF_S: Final = 60.0
CALLS_AT_ONCE: Final = 100  # requests taken from the daily limit at a time
BY_HAND: Final = "mintscope gaps fill"
TOO_NEW: Final = "waits until the gap no longer affects prices, and that is final"
ANOTHER: Final = "waits: another backfill is read"
NOT_JOINED: Final = "waits: a backfill is read, and ingest has not joined it yet"
SPENT: Final = "waits for tomorrow: the requests of chain.gap_calls_per_day are used up"
GOES_ON: Final = frozenset({ANOTHER, NOT_JOINED, SPENT})  # the attempt resumes after these waits
TOO_MUCH: Final = "its blocks need more than half of the requests of chain.gap_calls_per_day, {}"
BUG: Final = "an error of the service; see the log of ingest"

log = structlog.get_logger()


class GapSource(Protocol):
    """Reads the blocks of gaps, and backfills of the tokens that traded in them.

    Every method may raise SourceError or CallsSpent.
    """

    async def traded(self, gap: Gap) -> Collection[Mint]:
        """Return the mints that traded against SOL, USDC or USDT in *gap*.

        Raises NotMendable if *gap* is too long.
        """

    async def begin(self, mint: Mint, since: UnixS) -> UnixS:
        """Return the time at which a backfill must start to replace the candles of *mint*.

        It is at or before *since*, and before the first candle of *mint*.  Raises ValueError if
        *mint* cannot be backfilled.
        """

    async def survey(self, mint: Mint, from_time: UnixS) -> backfill.Survey:
        """Return the start, the addresses and the cost of a backfill of *mint*.

        The start is later than *from_time* if the node has no blocks that old.  Raises ValueError,
        with the reason, if *mint* cannot be backfilled or there is nothing to read.
        """

    async def read(self, mint: Mint, from_time: UnixS) -> object:
        """Read and fold the backfill of *mint*, which was begun with the start *from_time*.

        Raises IncompleteBackfill if the node does not return all listed transactions, and
        NoBackfill if the backfill was deleted.
        """


class _Waits(Exception):
    """An attempt to mend a gap must wait; the message is the reason."""


class _Moment(NamedTuple):
    """The time of a gap."""

    time: UnixS  # approximate time of its first slot
    settled: Slot  # the first slot whose rate of SOL depends on no swap of the gap

    @property
    def since(self) -> UnixS:
        """The latest time at which a backfill may start: an hour early, to have prices of SOL."""
        return UnixS(self.time - HOUR_S)


async def settled(reader: SqlLogReader, slot: Slot) -> Slot | None:
    """Return the first slot after *slot* whose price of SOL depends on no swap of *slot*.

    It is an estimate from the measured pace of the chain; None if the log has too few blocks to
    measure it.
    """
    pace = await _pace(reader)
    return None if pace is None else _settled(slot, pace)


async def is_read(jobs: SqlHistory, mint: Mint, settled_slot: Slot) -> bool:
    """Return whether a finished backfill of *mint* was read up to *settled_slot* or later."""
    job = await jobs.one(mint)
    if job is None or job.stage is not backfill.Stage.JOINED or job.slot is None:
        return False
    return job.slot >= settled_slot


@dataclass(frozen=True, kw_only=True)
class GapMending:
    """Mends gaps, one attempt at a time."""

    mends: SqlGapMends
    reader: SqlLogReader
    tracking: SqlTracking
    jobs: SqlHistory
    source: GapSource
    lock: Callable[[], AbstractAsyncContextManager[None]]  # raises BackfillIsRead if taken
    plan: backfill.MendPlan
    clock: Clock
    pause: Pause = asyncio.sleep

    async def run(self) -> None:
        """Mend gaps, and export their numbers, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for step in (self.count, self.mend_one):
                tasks.create_task(forever(step, self.pause, LOOK_S, "gaps cannot be read"))

    async def count(self) -> bool:
        """Set the metrics of open and of given-up gaps.

        Always return False, so that the caller pauses before the next call.
        """
        counts = await self.mends.counts()
        GAPS_OPEN.set(counts.open)
        GAPS_GIVEN_UP.set(counts.given_up)
        return False

    async def mend_one(self) -> bool:
        """Make the next attempt to mend a gap; return False if no gap is due or mending is off."""
        if not self.plan.calls_per_day:
            return False
        now = self.clock.now()
        due = await self.mends.due(now, UnixMs(now + self.plan.pause_ms(0)))
        if due is not None:
            await self._attempt(due)
        return due is not None

    async def _attempt(self, due: backfill.GapMend) -> None:
        gap = due.gap
        tell = log.bind(first=due.gap.first, last=due.gap.last)
        try:
            moment = await self._moment(gap)
            if due.words not in GOES_ON:
                tell.info("gap_mending", attempt=due.attempts + 1)
            failures = await self._mend(gap, moment)
        # First, because CallsSpent is a SourceError, BackfillIsRead a ValueError, and waits do not
        # count.
        except (_Waits, backfill.CallsSpent, backfill.BackfillIsRead) as reason:
            await self._put_off(due, reason)
        except (SourceError, ValueError) as failure:
            is_last = isinstance(failure, backfill.NotMendable)
            await self._failed(due, str(failure), is_last=is_last)
        except AWAY:
            raise
        except Exception:
            log.exception("mending of a gap ended", first=gap.first, last=gap.last)
            await self._failed(due, BUG, is_last=False)
        else:
            if failures:
                is_last = all(isinstance(each, backfill.NotMendable) for each in failures)
                await self._failed(due, str(failures[0]), is_last=is_last)
                return
            await self.jobs.filled(gap, self.clock.now())
            GAPS_MENDED.inc()
            tell.info("gap_mended")

    async def _put_off(self, due: backfill.GapMend, reason: Exception) -> None:
        now = self.clock.now()
        words = str(reason)
        next_at = now + round(PUT_OFF_S * SECOND_MS)
        if isinstance(reason, backfill.BackfillIsRead):
            words = ANOTHER
        elif isinstance(reason, backfill.CallsSpent):
            words = SPENT
            next_at = (now // DAY_MS + 1) * DAY_MS
        if words != due.words:
            log.info("gap_mending_waits", first=due.gap.first, last=due.gap.last, reason=words)
        await self.mends.put_off(due.gap, UnixMs(next_at), words)

    async def _failed(self, due: backfill.GapMend, words: str, *, is_last: bool) -> None:
        """Record that an attempt failed; set the time of the next attempt, or give the gap up."""
        gap = due.gap
        now = self.clock.now()
        attempts = due.attempts + 1
        tell = log.bind(first=gap.first, last=gap.last, attempt=attempts, reason=words)
        if is_last or attempts >= self.plan.attempts_max:
            await self.mends.give_up(gap, now, words[:WORDS_MAX])
            tell.error("gap_given_up", try_by_hand=BY_HAND)
            return
        pause_ms = self.plan.pause_ms(attempts)
        await self.mends.failed(gap, UnixMs(now + pause_ms), words[:WORDS_MAX])
        tell.warning("gap_not_mended", again_in_s=pause_ms / SECOND_MS)

    async def _moment(self, gap: Gap) -> _Moment:
        """Return the time of *gap*.  Raises _Waits if *gap* is too new, or the pace is unknown."""
        overview, pace = await self.reader.overview(), await _pace(self.reader)
        folded = overview.folded_slot
        slot = overview.slot
        time = overview.time
        if folded is None or slot is None or time is None or pace is None:
            raise _Waits(TOO_NEW)
        settled_slot = _settled(gap.last, pace)
        if folded < settled_slot:
            raise _Waits(TOO_NEW)
        # The log has no block of the gap, so its time is estimated.
        ago_s = pace.seconds(slot - gap.first)
        return _Moment(UnixS(time - round(ago_s)), settled_slot)

    async def _mend(self, gap: Gap, moment: _Moment) -> list[Exception]:
        """Backfill each tracked token but SOL that traded in *gap*; return the errors of tokens.

        Errors that do not depend on the token, for example those of the node, are raised.
        """
        # Each slot takes a request; the other half is for the backfills.
        if 2 * (gap.last - gap.first + 1) > self.plan.calls_per_day:
            raise backfill.NotMendable(TOO_MUCH.format(self.plan.calls_per_day))
        failures: list[Exception] = []
        for mint in sorted(set(await self.source.traded(gap)) - {WSOL}):
            try:
                async with self.lock():
                    await self._read(mint, moment)
            # A ValueError, but not of this token: the attempt must wait.
            except backfill.BackfillIsRead:
                raise
            except (backfill.IncompleteBackfill, backfill.NotMendable, ValueError) as failure:
                failures.append(failure)
        return failures

    async def _read(self, mint: Mint, moment: _Moment) -> None:
        """Backfill *mint* and wait for the join, unless it is untracked or already backfilled."""
        is_begun = False
        while not await is_read(self.jobs, mint, moment.settled):
            if await self.tracking.one(mint) is None:
                return
            job = await self.jobs.one(mint)
            begin = await self.source.begin(mint, moment.since)
            if job is None or job.stage is backfill.Stage.JOINED:
                if is_begun and job is not None:
                    raise ValueError(f"{mint} was joined without the gap: the node is behind")
                with suppress(backfill.NoBackfill):  # untracked meanwhile: the next turn returns
                    await self._begin(mint, begin, moment)
                is_begun = True
            elif not is_begun and not job.goes_on(begin):
                raise ValueError(
                    f"another backfill of {mint} was begun and not ended: mintscope history {mint}"
                )
            elif job.stage is backfill.Stage.READING:
                with suppress(backfill.NoBackfill):  # untracked meanwhile: the next turn returns
                    await self.source.read(mint, job.from_time)
            await self._wait_while_ready(mint)

    async def _begin(self, mint: Mint, begin: UnixS, moment: _Moment) -> None:
        found = await self.source.survey(mint, begin)
        if found.cost.calls > self.plan.calls_per_day:
            raise backfill.NotMendable(
                f"the backfill of {mint} takes about {found.cost.calls} requests, more than"
                f" chain.gap_calls_per_day, {self.plan.calls_per_day}"
            )
        if found.from_time > moment.time:
            raise ValueError(f"the node lacks blocks before the gap for {mint}")
        await self.jobs.begin(mint, found.from_time, found.addresses)

    async def _wait_while_ready(self, mint: Mint) -> None:
        """Wait while the backfill of *mint* is READY, which means that ingest must still join it.

        Raises _Waits after JOIN_LOOKS_MAX looks, one every JOIN_LOOK_S seconds.
        """
        for _ in range(JOIN_LOOKS_MAX):
            job = await self.jobs.one(mint)
            if job is None or job.stage is not backfill.Stage.READY:
                return
            await self.pause(JOIN_LOOK_S)
        raise _Waits(NOT_JOINED)


class DailyCalls:
    """Limits the requests in a UTC day to *calls_per_day*.

    CALLS_AT_ONCE requests are reserved in the store at a time, so a kill of the process wastes at
    most this number.
    """

    def __init__(self, mends: SqlGapMends, clock: Clock, calls_per_day: int) -> None:
        self._mends = mends
        self._clock = clock
        self._calls_per_day = calls_per_day
        self._day = -1
        self._left = 0
        self._lock = asyncio.Lock()

    async def take(self) -> None:
        """Count one request to the node for this UTC day.

        Raises CallsSpent if the day's limit is reached, or ServiceUnavailable if the store fails.
        """
        # Requests run at the same time, and each would reserve calls of its own.
        async with self._lock:
            day = self._clock.now() // DAY_MS
            if day != self._day or not self._left:
                self._left = await self._mends.take_calls(day, CALLS_AT_ONCE, self._calls_per_day)
                self._day = day
            if not self._left:
                raise backfill.CallsSpent(SPENT)
            self._left -= 1


async def _pace(reader: SqlLogReader) -> Pace | None:
    return PaceMeter(await reader.seconds(WINDOW_S)).pace


def _settled(slot: Slot, pace: Pace) -> Slot:
    return Slot(slot + pace.slots(RATE_WINDOW_S))
