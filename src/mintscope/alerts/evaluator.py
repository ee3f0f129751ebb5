"""The evaluator of alerts, which works in one process of the installation at a time.

The evaluator works in rounds: each round evaluates the events committed to the log since the round
before.  After a restart, or in another process, it continues from the stored position or, if that
is impossible, begins at the tip of the log.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import msgspec
import structlog

from mintscope.alerts.alert import AlertStanding, MintBase, SignalId
from mintscope.alerts.alerts import AlertWriter
from mintscope.alerts.conditions import unpack
from mintscope.alerts.evaluation import Evaluation, packed
from mintscope.kit.clock import Clock
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.metrics import (
    SIGNAL_EVENTS_BEHIND,
    SIGNAL_MINTS,
    SIGNALS_FIRED,
    SIGNALS_HELD_BACK,
)
from mintscope.kit.primitives import Mint
from mintscope.market.follow.tailer import EVENTS_PER_READ, Wait
from mintscope.market.log import LoadedMint, LogReader, LogTrimmed, Tracked

WRITE_S: Final = 10.0  # the longest time in seconds between two writes of changed states
LATE_S: Final = 60.0  # the check of alerts fails after this time without a round
TIDY_S: Final = 2.0  # seconds between two searches for due e-mails and expired alerts
TIDYING_S: Final = 0.5  # the most time for due e-mails at once: events wait meanwhile
RENEW_S: Final = 240.0  # seconds between two renewals of bases; the log covers at least 15 minutes
RENEWING_S: Final = 0.05  # the most time for renewals in a round: events wait meanwhile
LOADING_S: Final = 0.5  # the most time for first loads in a round, enough for 25 tokens

LOG = structlog.get_logger(__name__)


@dataclass(kw_only=True, eq=False)
class AlertEvaluator:
    """Evaluates the alerts while this process holds the lease.

    wait        returns when the log may have new events
    """

    reader: LogReader
    writer: AlertWriter
    evaluation: Evaluation
    clock: Clock
    wait: Wait
    _seq: int | None = field(default=None, init=False)  # the stored position; None: `_begin` is due
    _version: int = field(default=-1, init=False)
    _written_at_s: float = field(default=0.0, init=False)
    _renewed_at_s: float = field(default=0.0, init=False)
    _tidied_at_s: float | None = field(default=None, init=False)
    _wanted: dict[Mint, None] = field(default_factory=dict, init=False)  # mints to load, in order
    _is_loading: bool = field(default=False, init=False)  # a round has left mints to load
    _aged: deque[Mint] = field(default_factory=deque, init=False)  # mints to reload
    _looked_at_s: float = field(init=False)

    def __post_init__(self) -> None:
        self._looked_at_s = self.clock.monotonic_s()

    async def run(self) -> None:
        """Evaluate in rounds until cancelled, then give up the lease; restart after a failure."""
        try:
            while True:
                try:
                    await self.round()
                except Exception as trouble:  # after any error the evaluator tries again
                    is_bug = not isinstance(trouble, ServiceUnavailable)
                    LOG.warning("signals could not be looked at", exc_info=is_bug, why=str(trouble))
                    self._seq = None
                    self._is_loading = False  # wait before a failing store is read again
                else:
                    self._looked_at_s = self.clock.monotonic_s()
                if not self._is_loading:
                    await self.wait()
        finally:
            with suppress(ServiceUnavailable):
                await self.writer.leave()

    async def expect_looking(self) -> None:
        """Raise ServiceUnavailable if alerts were last evaluated more than LATE_S seconds ago."""
        late_s = self.clock.monotonic_s() - self._looked_at_s
        if late_s > LATE_S:
            raise ServiceUnavailable(
                f"alerts were last evaluated {late_s:.0f} s ago: a store does not answer, or"
                " this process has too little processor time"
            )

    async def round(self) -> None:
        """Evaluate all new events of the log, if this process has or gets the lease.

        Every TIDY_S seconds, and after firings, also write due e-mails, and end expired alerts.
        """
        self._is_loading = False
        standing = await self.writer.take()
        if standing is None:
            self._seq = None
            return
        now_s = self.clock.monotonic_s()
        # Before the return below, because alerts that are not evaluated can have due e-mails, too.
        if self._tidied_at_s is None or now_s - self._tidied_at_s >= TIDY_S:
            await self._tidy()
        if not self.evaluation.mints and self._version == standing.version:
            return  # without alerts the log is not read
        if self._seq != standing.seq:
            await self._begin()
        elif self._version != standing.version:
            await self._watch()
        if self.evaluation.mints:
            await self._follow()
        else:
            await self._write(with_idle=False)
            self._seq = None  # the log is not read without alerts, so the next alert needs `_begin`

    async def _tidy(self) -> None:
        """Write due e-mails and end expired alerts for TIDYING_S seconds; then leave the rest."""
        began_s = self.clock.monotonic_s()
        while await self.writer.tidy():
            if self.clock.monotonic_s() - began_s >= TIDYING_S:
                self._tidied_at_s = None
                return
        self._tidied_at_s = began_s

    async def _begin(self) -> None:
        """Continue from the stored position; begin at the tip of the log if that is impossible."""
        self._seq = None  # until the rest has succeeded
        self._version = -1  # until the alerts are read: without mints, `round` reads nothing else
        evaluation, tip = self.evaluation, await self.reader.tip()
        evaluation.clear(0)
        standing = await self._watch()
        evaluation.looked_until = standing.seq
        await self._do(evaluation.take_bases(await self._bases(), tip))
        is_begun = evaluation.can_go_on(tip)
        if is_begun:
            try:
                await self._advance(standing.seq)
            except LogTrimmed as reason:
                LOG.warning("signals missed reports", why=str(reason), since=standing.seq)
                is_begun = False
        if not is_begun:
            evaluation.begin_at(tip)
        self._want(evaluation.mints)
        self._seq = standing.seq
        self._aged.clear()
        self._renewed_at_s = self._written_at_s = self.clock.monotonic_s()

    async def _watch(self) -> AlertStanding:
        """Update the evaluated alerts from the store; return the stored progress."""
        standing = await self.writer.standing()  # first, so that the next round reads later changes
        evaluation = self.evaluation
        gone = {*self.evaluation.numbers}
        last = SignalId(0)
        while part := await self.writer.revisions(last):
            gone.difference_update(part)
            last = max(part)
            await self._watch_some(
                [
                    number
                    for number, revision in part.items()
                    if not evaluation.knows(number, revision)
                ]
            )
        evaluation.unwatch(gone)
        self._version = standing.version
        self._want(evaluation.mints)
        SIGNAL_MINTS.set(len(evaluation.mints))
        return standing

    async def _watch_some(self, changed: Sequence[SignalId]) -> None:
        while changed:
            some, changed = await self.writer.some(changed)
            self.evaluation.watch(some)
            await asyncio.sleep(0)
        await asyncio.sleep(0)  # even if nothing changed: the comparison takes a millisecond

    async def _bases(self) -> list[LoadedMint]:
        """Return the stored states of mints, except those that this version cannot read."""
        return await asyncio.to_thread(_unpacked, await self.writer.bases())

    async def _follow(self) -> None:
        tip = await self.reader.tip()
        SIGNAL_EVENTS_BEHIND.set(max(0, tip.seq - self.evaluation.tracks.seq))
        until_s = self.clock.monotonic_s() + LOADING_S
        try:
            await self._load_wanted(until_s)
            await self._advance(tip.seq)
        except LogTrimmed as reason:
            LOG.warning("signals missed reports", why=str(reason))
            self.evaluation.begin_at(await self.reader.tip())
            self._want(self.evaluation.mints)
        # Again, because the events may have begun to track further mints.
        await self._load_wanted(until_s)
        await self._do(self.evaluation.look_at_new(self.clock.now()))
        now_s = self.clock.monotonic_s()
        is_renewing = now_s - self._renewed_at_s >= RENEW_S
        if is_renewing:
            self._renewed_at_s = now_s
            traded = self.evaluation.tracks.traded()
            self._aged = deque(sorted(traded, key=traded.__getitem__))  # the oldest bases first
        await self._renew()
        if self.evaluation.is_urgent or is_renewing or now_s - self._written_at_s >= WRITE_S:
            await self._write(with_idle=is_renewing)

    async def _advance(self, seq: int) -> None:
        """Apply events at least up to *seq*.

        Raises LogTrimmed if the log lacks an event, and ServiceUnavailable if another process has
        taken the lease.
        """
        tracks = self.evaluation.tracks
        now = self.clock.now()
        while tracks.seq < seq:
            if await self.writer.take() is None:
                raise ServiceUnavailable("another process watches signals now")
            events = await self.reader.events(tracks.seq, EVENTS_PER_READ)
            if not events:
                raise LogTrimmed(f"expected events up to {seq}; there are none after {tracks.seq}")
            for event in events:
                await self._do(self.evaluation.apply(event, now))
                if isinstance(event, Tracked) and event.mint in self.evaluation.mints:
                    self._wanted[event.mint] = None

    async def _do(self, steps: Iterator[None]) -> None:
        """Run *steps*, and let other tasks run after each, because there may be many rules."""
        for _ in steps:
            await asyncio.sleep(0)
        await asyncio.sleep(0)

    def _want(self, mints: Iterable[Mint]) -> None:
        """Queue the mints that must be loaded; first those without timeframes on request."""
        lacking = [mint for mint in mints if self.evaluation.lacks(mint)]
        self._wanted = dict.fromkeys(sorted(lacking, key=self._has_asked_frames))

    def _has_asked_frames(self, mint: Mint) -> bool:
        return bool(self.evaluation.timeframes(mint))

    async def _load_wanted(self, until_s: float) -> None:
        """Load queued mints until the monotonic time *until_s*.

        The rest waits for the next round, so that alerts on loaded mints do not wait long.
        """
        for mint in list(self._wanted):
            if self.clock.monotonic_s() >= until_s:
                self._is_loading = True
                return
            await self._load([mint])

    async def _load(self, mints: Iterable[Mint]) -> None:
        """Load *mints*, except untracked ones, which are loaded when they become tracked."""
        for mint in list(mints):
            self._wanted.pop(mint, None)
            loaded = await self.reader.load(mint, self.evaluation.timeframes(mint))
            if loaded is not None and not self.evaluation.take(loaded):
                self._wanted[mint] = None
            await self._do(self.evaluation.look_at_begun(self.clock.now()))

    async def _renew(self) -> None:
        """Reload mints that have traded, so that a restart has few events to apply.

        Stop after RENEWING_S seconds; later rounds reload the other mints.
        Loading a mint with every `AskedFrame` takes 20 ms, so loading all mints at once would delay
        alerts.
        """
        began_s = self.clock.monotonic_s()
        while self._aged and self.clock.monotonic_s() - began_s < RENEWING_S:
            mint = self._aged.popleft()
            if mint in self.evaluation.mints:
                await self._load([mint])

    async def _write(self, *, with_idle: bool) -> None:
        assert self._seq is not None, "it was begun"
        outcome = self.evaluation.outcome(self._seq, with_idle=with_idle)
        if outcome.seq == self._seq and not (outcome.changed or outcome.bases or outcome.dropped):
            return
        packed_outcome = await asyncio.to_thread(packed, outcome)
        if not await self.writer.write(packed_outcome):
            LOG.info("another process watches signals now")
            self._seq = None
            return
        self.evaluation.written(outcome)
        self._seq, self._written_at_s = outcome.seq, self.clock.monotonic_s()
        SIGNALS_HELD_BACK.inc(self.evaluation.held_back)
        self.evaluation.held_back = 0
        if outcome.fired:
            SIGNALS_FIRED.inc(len(outcome.fired) - len(outcome.held))
            LOG.info("signals have fired", count=len(outcome.fired), slot=outcome.fired[-1].slot)
            await self._tidy()


def _unpacked(bases: Sequence[MintBase]) -> list[LoadedMint]:
    """Return the states in *bases* that this version of the program can read."""
    found = []
    for base in bases:
        try:
            found.append(msgspec.structs.replace(unpack(base.packed), seq=base.seq))
        except ValueError as reason:
            LOG.warning("a mint starts again", mint=base.mint, why=str(reason))
    return found
