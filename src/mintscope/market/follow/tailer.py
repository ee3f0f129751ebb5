"""Tasks in each api process that follow the swap log, and the coverage of the chain.

While the log cannot be read, the data become old, and the API refuses to serve old data.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar

import structlog

from mintscope.kit.clock import Clock
from mintscope.kit.errors import InsufficientData, ServiceUnavailable, TokenNotFound, UnusableStore
from mintscope.kit.metrics import LIVE_MINTS, READ_SHARE
from mintscope.kit.primitives import Mint, Slot, UnixS
from mintscope.kit.time import SECOND_MS
from mintscope.market.coverage import (
    WINDOW_HOURS,
    Coverage,
    CoverageReader,
    ReportCoverages,
    missed_programs,
    percent,
    report_coverages,
    totals,
)
from mintscope.market.engine.engine import LiveMarket
from mintscope.market.log import Appended, Event, LogReader, LogTip, LogTrimmed, SlotHeader
from mintscope.market.quotes import RateAge
from mintscope.market.report import PLAIN, ReadReport, ReportKind
from mintscope.solana.finality_meter import Behind, FinalityMeter
from mintscope.solana.pace import WINDOW_S, Pace, PaceMeter

LOG = structlog.get_logger(__name__)

EVENTS_PER_READ: Final = 256
LIVE_MS_MAX: Final = 5_000  # older slots do not measure finality: they may be final when read
LOADS_AT_ONCE: Final = 8
# Finality takes 13 s before Alpenglow, and the fold of final slots begins up to 10 s later.  The
# checks fail only after much longer delays, and only if blocks have been recent for as long: until
# then, ingest reads old blocks, or finalizes and folds those that it has just read.
FINAL_LATE_S: Final = 40.0
FOLD_LATE_S: Final = 60.0
# Blocks become recent below the first age of the newest one, and old above the second: a short
# stall must not reset a check that fails.
RECENT_S: Final = 40
OLD_S: Final = 300
LOAD_ATTEMPTS: Final = 5
UNREADABLE: Final = "The market data of this token cannot be read now; try again."

T = TypeVar("T")
Wait: TypeAlias = Callable[[], Awaitable[None]]


class Waiting(NamedTuple):
    """The means by which a process waits between two reads of the log.

    wait      waits until the log grows, or for an interval
    refused   gets an error as its result if this process may no longer run beside the other
              processes
    """

    wait: Wait
    refused: asyncio.Future[UnusableStore]


async def look_again_soon() -> None:
    """Wait 50 ms, the interval at which the log is read if the store does not announce events."""
    await asyncio.sleep(0.05)


class Observer(Protocol):
    """Receives the log events that a `LogTailer` applies; its methods must not raise."""

    def note(self, event: Event) -> None:
        """Receive *event*, which was just applied to the market."""

    def note_restart(self) -> None:
        """Record that the market was loaded again, and continues from the newest log event."""

    def flush(self) -> None:
        """Handle the events received by `note` since the last call: no more are stored yet."""


class LogTailer:
    """Follows the swap log in an api process, and returns reports as of the newest applied event.

    `run` applies new events.  Implements `market.report.Reports`.
    """

    def __init__(
        self,
        reader: LogReader,
        market: LiveMarket,
        clock: Clock,
        *,
        read_timeout_s: float = 5.0,
        wait: Wait = look_again_soon,
    ) -> None:
        """Apply the events that *reader* returns to *market*.

        read_timeout_s   the longest time in seconds for a read of the log
        wait             called to wait for new events after each read
        """
        self._reader = reader
        self._market = market
        self._clock = clock
        self._read_timeout_s = read_timeout_s
        self._wait = wait
        self._started = False
        self._follows_files = False
        self._lock = asyncio.Lock()
        self._slots = asyncio.Semaphore(LOADS_AT_ONCE)  # for loads, not slots of the chain
        self._loads: dict[Mint, asyncio.Task[None]] = {}
        self._observer: Observer | None = None
        self._meter = PaceMeter()
        self._finality = FinalityMeter()
        self._folded: Slot | None = None
        self._rate = RateAge()
        self._tip: LogTip | None = None
        self._recent_from_s: float | None = None  # when blocks became recent; None: they are old

    def observe(self, observer: Observer) -> None:
        """Send each event that is applied from now on to *observer*; there is only one observer."""
        self._observer = observer

    async def run(self) -> None:
        """Follow the log until cancelled; a failure to read the log does not end this method."""
        readable = True
        while True:
            try:
                await self.catch_up()
            except Exception as error:  # noqa: BLE001  any failure of any store is tried again
                if readable:
                    LOG.warning("swap log cannot be read", error=repr(error))
                readable = False
            else:
                if not readable:
                    LOG.info("swap log can be read again", seq=self._market.seq)
                readable = True
            await self._wait()

    async def catch_up(self) -> None:
        """Apply every event that was committed before this call to the market.

        If some of them are no longer stored, the market restarts from the newest event.  Raises
        ServiceUnavailable if the store does not answer, UnusableStore if it cannot be used, and
        TimeoutError if a read takes too long.
        """
        async with self._lock:  # `run`, loads and streams call this, but one may read at a time
            tip = await self._answer(self._reader.tip())
            self._follows_files = tip.follows_files
            self._tip = tip
            self._note_recent(tip.time)
            if not await self._advance(tip.seq):
                await self._restart()
            self._folded = tip.folded
            if tip.final is not None and self._is_live(tip.time):
                self._finality.note_final(tip.final, self._clock.monotonic_s())
            if self._observer is not None:
                self._observer.flush()
        LIVE_MINTS.set(len(self._market))

    async def read(self, mint: Mint, kind: ReportKind = PLAIN) -> ReadReport:
        """Return the report of *mint* with the options *kind*, as of the newest applied slot.

        Raises TokenNotFound if *mint* is not tracked, InsufficientData if it has too few candles,
        and ServiceUnavailable if its data cannot be read now.
        """
        if not self._started:
            raise ServiceUnavailable("The market data are still being loaded; try again shortly.")
        if not self.is_tracked(mint):
            raise TokenNotFound(f"This service does not track {mint}.")
        # More than once: the load of another request may lack the frames of *kind*, and the mint
        # may be evicted before this task goes on.
        for _ in range(LOAD_ATTEMPTS):
            if self._market.has(mint, kind):
                return self._report(mint, kind)
            load = self._loads.get(mint)
            if load is None:
                load = self._loads[mint] = asyncio.create_task(self._load(mint, kind))
                load.add_done_callback(lambda done: self._forget(mint, done))
            # A client that disconnects must not cancel a load for which others wait.
            await asyncio.shield(load)
        raise ServiceUnavailable(UNREADABLE)

    def ready(self, mint: str) -> ReadReport | None:
        """Return the report of *mint* without options, if it is ready.

        None if the mint is not in memory, or has too few candles.
        """
        if not self._started or mint not in self._market.tracked or mint not in self._market:
            return None
        try:
            return self._report(Mint(mint))
        except InsufficientData:
            return None

    def is_tracked(self, mint: Mint) -> bool:
        """Return whether *mint* is tracked, as of the newest applied event."""
        return mint in self._market.tracked

    def age_ms(self) -> int | None:
        """Return the age in ms of the newest slot that was applied; None before the first slot.

        The result is 0 while files are replayed, because the market's clock follows them.
        """
        if self._market.time is None:
            return None
        return 0 if self._follows_files else max(0, self._clock.now() - self._market.time * 1000)

    def follows_files(self) -> bool:
        """Return whether the clock of the market follows replayed files."""
        return self._follows_files

    def pace(self) -> Pace | None:
        """Return the pace of the chain, measured by applied slots; None if they are too few."""
        return self._meter.pace

    def finality(self) -> Behind | None:
        """Return the measured delay from applying a slot to reading from the log that it is final.

        None before the delay was measured, and while files are replayed.
        """
        return None if self._follows_files else self._finality.behind

    async def expect_rate(self) -> None:
        """Raise ServiceUnavailable if the SOL rate is so old that prices stop, now or soon."""
        if self._rate.is_late:
            ago_s = self._rate.seconds
            raise ServiceUnavailable(
                f"SOL was last traded against a dollar {ago_s} s ago, so prices do not change"
            )

    async def expect_final(self) -> None:
        """Raise ServiceUnavailable if final blocks are over FINAL_LATE_S behind the newest one."""
        late_s = self._late_s(FINAL_LATE_S, lambda tip: (tip.final, tip.slot))
        if late_s is not None:
            raise ServiceUnavailable(
                f"the newest final block is {late_s:.0f} s behind the newest: candles and lists do"
                " not change, because the node names no newer final block"
            )

    async def expect_folded(self) -> None:
        """Raise ServiceUnavailable if folded slots are more than FOLD_LATE_S behind final ones."""
        late_s = self._late_s(FOLD_LATE_S, lambda tip: (tip.folded, tip.final))
        if late_s is not None:
            raise ServiceUnavailable(
                f"candles and lists are {late_s:.0f} s behind the final blocks: ingest, or its"
                " store, is too slow; its log has the reason"
            )

    def _late_s(
        self, most_s: float, ends: Callable[[LogTip], tuple[Slot | None, Slot | None]]
    ) -> float | None:
        """Return the seconds between two slots of the tip, *ends*, if they are more than *most_s*.

        They are estimated by the pace of the chain.  Return None if they are fewer or unknown, or
        if blocks have not been recent for *most_s* seconds.
        """
        tip = self._tip
        pace = self._meter.pace
        from_s = self._recent_from_s
        if tip is None or pace is None or from_s is None or self._follows_files:
            return None
        first, last = ends(tip)
        if first is None or last is None or self._clock.monotonic_s() - from_s <= most_s:
            return None
        seconds = pace.seconds(max(last - first, 0))
        return seconds if seconds > most_s else None

    def _note_recent(self, time: UnixS | None) -> None:
        """Record since when blocks are recent; *time* is that of the newest one."""
        if not self._is_within(OLD_S * SECOND_MS, time):
            self._recent_from_s = None
        elif self._recent_from_s is None and self._is_within(RECENT_S * SECOND_MS, time):
            self._recent_from_s = self._clock.monotonic_s()

    def folded(self) -> Slot | None:
        """Return the newest folded slot, as last read from the log; None: unknown."""
        return self._folded

    def _report(self, mint: Mint, kind: ReportKind = PLAIN) -> ReadReport:
        body = self._market.report(mint, kind)
        slot = self._market.slot
        age_ms = self.age_ms()
        assert slot is not None
        assert age_ms is not None
        market = self._market
        return ReadReport(body, slot, age_ms, market.tag(), market.price_age_ms())

    async def _advance(self, seq: int) -> bool:
        """Apply the events of the log up to position *seq*; return False if some were deleted."""
        if not self._started or seq < self._market.seq:
            return False
        try:
            while self._market.seq < seq:
                events = await self._answer(self._reader.events(self._market.seq, EVENTS_PER_READ))
                if not events:
                    return False
                for event in events:
                    self._market.apply(event)
                    if isinstance(event, Appended):
                        self._note_slot(event.header)
                    if self._observer is not None:
                        self._observer.note(event)
        except LogTrimmed as reason:
            LOG.info("starting again from the tip of the swap log", reason=str(reason))
            return False
        return True

    def _note_slot(self, header: SlotHeader) -> None:
        self._meter.note(header.slot, header.time)
        self._rate.note(header.time, header.sol_usd_time)
        if self._is_live(header.time):
            self._finality.note_confirmed(header.slot, self._clock.monotonic_s())

    def _is_live(self, time: UnixS | None) -> bool:
        return self._is_within(LIVE_MS_MAX, time)

    def _is_within(self, age_ms: int, time: UnixS | None) -> bool:
        return time is not None and self._clock.now() - time * SECOND_MS <= age_ms

    async def _restart(self) -> None:
        # Events between these reads are applied again, which is harmless.
        tip = await self._answer(self._reader.tip())
        _, tracked = await self._answer(self._reader.tracked())
        self._meter = PaceMeter(await self._answer(self._reader.seconds(WINDOW_S)))
        self._market.restart(tip, tracked)
        self._rate = RateAge()
        self._started = True
        if self._observer is not None:
            self._observer.note_restart()

    async def _load(self, mint: Mint, kind: ReportKind) -> None:
        """Load *mint* into memory, with the data that reports of *kind* need."""
        try:
            # The timeout is entered first, so it includes the wait for one of the slots.
            async with asyncio.timeout(self._read_timeout_s), self._slots:
                for _ in range(LOAD_ATTEMPTS):
                    if await self._insert(mint, kind):
                        return
        except TimeoutError:
            pass
        raise ServiceUnavailable(UNREADABLE)

    async def _insert(self, mint: Mint, kind: ReportKind) -> bool:
        """Read *mint* from the log once and add it to the market.

        Returns False if the log changed meanwhile, so that *mint* must be read again.  Raises
        TokenNotFound if *mint* is not tracked.
        """
        self._market.expect(mint)
        try:
            loaded = await self._reader.load(mint, self._market.frames_to_load(mint, kind))
            if loaded is None:
                raise TokenNotFound(f"This service does not track {mint}.")
            if loaded.seq > self._market.seq:
                await self.catch_up()
            return loaded.seq <= self._market.seq and self._market.insert(loaded)
        finally:
            self._market.abandon(mint)

    def _forget(self, mint: Mint, done: asyncio.Task[None]) -> None:
        del self._loads[mint]
        if not done.cancelled():
            done.exception()  # retrieved, even if every client has disconnected

    async def _answer(self, read: Coroutine[Any, Any, T]) -> T:
        # Not `wait_for`: on Python 3.11 it loses a cancellation that arrives with the answer.
        async with asyncio.timeout(self._read_timeout_s):
            return await read


EVERY_S: Final = 60.0
SOON_S: Final = 1.0  # pause while there is no coverage yet

CoverageWait: TypeAlias = Callable[[float], Awaitable[None]]


class CoverageTailer:
    """Holds the newest coverage; `run` reads it from the store every minute.

    cover      a function that gets the coverage for reports each time it is read
    share_min  the least share of program calls and of volume that must have been read, 0 to 1; if
               less was read, `expect_read` raises
    """

    def __init__(
        self,
        reader: CoverageReader,
        cover: Callable[[ReportCoverages], None],
        *,
        share_min: float,
        wait: CoverageWait = asyncio.sleep,
    ) -> None:
        self._reader = reader
        self._cover = cover
        self._share_min = share_min
        self._wait = wait
        self.newest: Coverage | None = None

    async def try_to_look(self) -> None:
        """Read the coverage once; if this fails, the previously read coverage stays in use."""
        try:
            await self.look()
        except (ServiceUnavailable, UnusableStore) as reason:  # the store may not exist yet
            LOG.warning("coverage cannot be read", reason=str(reason))

    async def run(self) -> None:
        """Read the coverage every minute until cancelled; every second until some has been read."""
        while True:
            await self._wait(SOON_S if self.newest is None else EVERY_S)
            await self.try_to_look()

    async def look(self) -> None:
        """Read from the store how many exchanges were read and missed, and hand it to `cover`.

        Raises ServiceUnavailable if the store does not answer, and UnusableStore if it cannot be
        used.
        """
        coverage = await self._reader.coverage(WINDOW_HOURS)
        if coverage is None:
            return
        self._cover(report_coverages(coverage, await self._reader.missed_mints()))
        self.newest = coverage
        for by, share in totals(coverage.rows).shares._asdict().items():
            if share is not None:
                READ_SHARE.labels(by.removeprefix("by_")).set(share)

    async def expect_read(self) -> None:
        """Raise ServiceUnavailable if too few recent calls, or too little volume, were read."""
        if self.newest is None:
            return
        by_calls, by_volume = totals(self.newest.rows).shares
        least = min((share for share in (by_calls, by_volume) if share is not None), default=1.0)
        if least >= self._share_min:
            return
        said = [
            f"{percent(share)} of the {of}"
            for share, of in ((by_volume, "volume"), (by_calls, "calls"))
            if share is not None
        ]
        most = ", ".join(one.program for one in missed_programs(self.newest.rows)[:3])
        raise ServiceUnavailable(
            f"expected {percent(self._share_min)} of what was exchanged to be read; was"
            f" {' and '.join(said)} of this hour and the last; missed most: {most}"
        )
