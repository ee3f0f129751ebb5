"""Server-sent events: all streams of a process, and one client's stream.

One task sends the due heartbeats and missed events of all streams every 250 ms, so that no stream
needs a timer.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice, takewhile
from random import randint
from typing import Annotated, Final

import msgspec

from mintscope.kit.clock import Clock
from mintscope.kit.errors import ErrorCode, RateLimited, ServiceError, ServiceUnavailable
from mintscope.kit.http.response import Outlet
from mintscope.kit.http.server_sent import HEARTBEAT, encode_event
from mintscope.kit.metrics import OPEN_STREAMS, STREAMS_ENDED
from mintscope.kit.primitives import Mint, about
from mintscope.market.follow.broadcaster import Broadcaster
from mintscope.market.report import PLAIN, ReportKind


class EndReason(StrEnum):
    """The reason why a stream ended, sent in its last event."""

    INSUFFICIENT_CREDITS = "insufficient_credits"
    KEY_CAP_REACHED = "key_cap_reached"
    CREDENTIAL_REFUSED = "credential_refused"
    SHUTTING_DOWN = "shutting_down"
    STALE = "stale"
    TOO_SLOW = "too_slow"
    NOT_TRACKED = "not_tracked"
    INSUFFICIENT_DATA = "insufficient_data"
    UNAVAILABLE = "unavailable"


LOST: Final = {
    ErrorCode.TOKEN_NOT_FOUND: EndReason.NOT_TRACKED,
    ErrorCode.INSUFFICIENT_DATA: EndReason.INSUFFICIENT_DATA,
}


class End(msgspec.Struct, frozen=True, rename="camel"):
    """Data of `end`, the last event of a stream: the reason, and the credits given back."""

    reason: Annotated[EndReason, about("Why, in a word.", EndReason.SHUTTING_DOWN)]
    message: Annotated[
        str, about("Why, in a sentence.", "This process is stopping: connect again.")
    ]
    credits_returned: Annotated[int, about("Credits of this minute that were given back.", 0)] = 0


class EventStream:
    """A stream of events to one client; implements `market.updates.Listener`.

    mints           the tokens of the stream
    kind            the kind of its reports
    has_reported    a snapshot or an update was written after the last `begin_period`
    has_written     an event or a heartbeat was written after the last `begin_period`
    is_open         `end` is not written yet, and the client was connected at the last check
    end             the data of the event `end`; None before it is written
    returned_count  called when the stream is closed; returns the number of credits given back
    """

    __slots__ = (
        "_missed", "_on_behind", "_on_reported", "_outlet", "_waits", "end", "has_reported",
        "has_written", "is_open", "kind", "mints", "returned_count",
    )  # fmt: skip

    def __init__(  # noqa: PLR0913 - three of them have a default
        self,
        outlet: Outlet,
        mints: Sequence[Mint],
        *,
        kind: ReportKind = PLAIN,
        on_behind: Callable[["EventStream"], None],
        on_reported: Callable[[], None] = lambda: None,
        returned_count: Callable[["EventStream"], int] = lambda _: 0,
    ) -> None:
        """Create an open stream that writes into *outlet*.

        on_behind        called if an event was skipped because the client reads too slowly
        on_reported      called after the first snapshot or update of a paid minute was written
        returned_count   called when the stream is closed; returns the number of credits given back
        """
        self.mints = mints
        self.kind = kind
        self.returned_count = returned_count
        self.has_reported = False
        self.has_written = False
        self.is_open = True
        self.end: End | None = None
        self._outlet = outlet
        self._on_behind = on_behind
        self._on_reported = on_reported
        self._missed: dict[Mint, None] = {}
        self._waits = False

    def tell(self, mint: Mint, event: bytes, *, is_whole: bool) -> None:
        """Write *event*, a report of *mint*; skip it if the client reads too slowly.

        is_whole   whether *event* is a snapshot: after a skipped event, updates are skipped, too
        """
        if not self.is_open:
            return
        # After a missed event, an update has no base: the next event must be a snapshot.
        if self._waits or self._outlet.is_behind() or (mint in self._missed and not is_whole):
            self._missed[mint] = None
            self._on_behind(self)
            return
        if self._missed:
            self._missed.pop(mint, None)
        self._tell(event)

    def lose(self, mint: Mint, failure: ServiceError) -> None:  # noqa: ARG002 - it is in the text
        """End the stream because *mint* has no reports any more; *failure* says why."""
        self.close(LOST.get(failure.code, EndReason.UNAVAILABLE), str(failure))

    def say(self, event: bytes) -> None:
        """Write *event*, which is no report, such as `minute`, unless the stream is closed."""
        if self.is_open:
            self._write(event)

    def beat(self) -> None:
        """Write a heartbeat, unless the client still has data to read."""
        if self.is_open and not self._outlet.is_behind():
            self._write(HEARTBEAT)

    def wait(self) -> None:
        """Stop writing reports until the next `begin_period`; until then, record them as missed."""
        self._waits = True

    def begin_period(self) -> None:
        """Begin a paid minute: send events again after `wait`; reset the `has_` attributes."""
        self._waits = self.has_reported = self.has_written = False
        if self._missed:
            self._on_behind(self)

    def catch_up(self, broadcast: Broadcaster) -> bool:
        """Write snapshots of mints with missed events; return True if none is left to write."""
        while self.is_open and not (self._waits or self._outlet.is_behind()):
            mint = next(iter(self._missed), None)
            if mint is None:
                return True
            snapshot = broadcast.snapshot(mint, self.kind)
            if snapshot is None:
                return False
            del self._missed[mint]
            self._tell(snapshot)
        return not self.is_open

    def close(self, reason: EndReason, message: str, *, retry_ms: int | None = None) -> None:
        """Write the last event, with *reason*, and end the response; do nothing if it has ended."""
        if not self.is_open:
            return
        self.is_open = False
        self.end = End(reason, message, self.returned_count(self))
        self._outlet.end(encode_event(b"end", msgspec.json.encode(self.end), retry_ms=retry_ms))

    def is_gone(self) -> bool:
        """Return whether the client has left, or the stream has ended."""
        return not self.is_open or self._outlet.is_gone()

    def is_behind(self) -> bool:
        """Return whether written data still waits for the client to read it."""
        return self._outlet.is_behind()

    async def wait_gone(self) -> None:
        """Wait until the client has left or the body has ended; then set `is_open` to False."""
        await self._outlet.wait_gone()
        self.is_open = False

    def _tell(self, event: bytes) -> None:
        self._write(event)
        if self.is_open and not self.has_reported:
            self.has_reported = True
            self._on_reported()

    def _write(self, event: bytes) -> None:
        if self._outlet.is_gone():
            self.is_open = False
            return
        self.has_written = True
        self._outlet.write(event)
        if self._outlet.is_behind():
            self._on_behind(self)


LOOK_S: Final = 0.25
HEARTBEAT_S: Final = 15.0
PERIOD_S: Final = 60.0
FULL_SHARE: Final = 0.9  # the share of streams_max at which the process counts as full
AT_ONCE: Final = 500  # the most heartbeats, and the most new periods, of one round
RETRY_MS: Final = (500, 3_000)  # so that clients of a stopping process return at different times
TOO_MANY_RETRY_S: Final = 10
LEFT: Final = "left"  # in metrics: the client closed the stream

Renew = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamBounds:
    """The limits of event streams.

    streams_max               the most streams that this process serves at the same time
    streams_per_account_max   the most streams of one credit account or, on pages, of one client
                              address
    mints_max                 the most tokens of one stream
    behind_s_max              a stream ends if its client does not read sent data for more seconds
    stale_after_s             all streams end if the data of the service is older, in seconds
    """

    streams_max: int = 1_000
    streams_per_account_max: int = 20
    mints_max: int = 50
    behind_s_max: float = 7.0
    stale_after_s: float = 300.0


class Streams:
    """The open event streams of this process.

    Heartbeats, and reports that were skipped for slow clients, are sent only while `run` runs.
    """

    def __init__(self, broadcast: Broadcaster, clock: Clock, bounds: StreamBounds) -> None:
        self.broadcast = broadcast
        self.bounds = bounds
        self._clock = clock
        self._counts: Counter[Hashable] = Counter()
        self._beats: dict[EventStream, float] = {}  # the time of the next heartbeat, soonest first
        self._periods: dict[EventStream, float] = {}
        self._renewals: dict[EventStream, Renew] = {}
        self._renewing: dict[EventStream, asyncio.Task[None]] = {}
        self._behind: dict[EventStream, float] = {}  # the time since which a stream is behind
        self._is_closed = False
        self._stops = False
        OPEN_STREAMS.set(0)

    @property
    def open_count(self) -> int:
        """The number of open streams."""
        return self._counts.total()

    @property
    def behind_count(self) -> int:
        """The number of streams with skipped events, or whose clients read too slowly."""
        return len(self._behind)

    async def expect_room(self) -> None:
        """Raise ServiceUnavailable if FULL_SHARE or more of the `streams_max` streams are open."""
        if self.open_count >= FULL_SHARE * self.bounds.streams_max:
            raise ServiceUnavailable(
                f"{self.open_count:,} of {self.bounds.streams_max:,} streams are open: raise"
                " streams.open_max, or start another api process"
            )

    @contextmanager
    def room_for(self, account: Hashable) -> Iterator[None]:
        """Count a stream of *account* during the `with` block.

        Raises RateLimited if *account* has too many streams, and ServiceUnavailable if this process
        has too many or is about to stop.
        """
        if self._is_closed:
            raise ServiceUnavailable("This process is about to stop: connect again.")
        if self._counts[account] >= self.bounds.streams_per_account_max:
            raise RateLimited(TOO_MANY_RETRY_S)
        if self.open_count >= self.bounds.streams_max:
            raise ServiceUnavailable("Too many streams are open here: connect again later.")
        self._counts[account] += 1
        try:
            yield
        finally:
            self._counts[account] -= 1
            if not self._counts[account]:
                del self._counts[account]

    def note_behind(self, stream: EventStream) -> None:
        """Store the time from which *stream* has missed reports, or its client reads too slowly."""
        self._behind.setdefault(stream, self._clock.monotonic_s())

    async def serve(self, stream: EventStream, *, renew: Renew | None = None) -> None:
        """Send *stream* the reports of its mints when they change, until it has ended.

        renew   called after each minute; no report is sent until it calls `stream.begin_period`;
                None for a stream that is not paid by the minute
        """
        now_s = self._clock.monotonic_s()
        self._beats[stream] = now_s + HEARTBEAT_S
        if renew is not None:
            self._periods[stream] = now_s + PERIOD_S
            self._renewals[stream] = renew
        OPEN_STREAMS.set(len(self._beats))
        try:
            self.broadcast.join(stream, stream.mints)
            if self._stops:  # `stop` has ended all other streams, and would miss this one
                self._stop(stream)
            await stream.wait_gone()
        finally:
            self.broadcast.leave(stream, stream.mints)
            for kept in (self._beats, self._periods, self._renewals, self._behind):
                kept.pop(stream, None)
            OPEN_STREAMS.set(len(self._beats))
            STREAMS_ENDED.labels(LEFT if stream.end is None else stream.end.reason).inc()
            renewing = self._renewing.get(stream)
            if renewing is not None:
                # A renewal may still take credits, which the caller gives back after this wait.
                await asyncio.wait([renewing])

    async def run(self) -> None:
        """Call `look` every LOOK_S seconds until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            self.look()

    def look(self) -> None:
        """End streams of stale data, send due heartbeats and skipped reports, pay due minutes."""
        if not self._beats:
            return
        now_s = self._clock.monotonic_s()
        self._end_stale()
        for stream in self._due(self._beats, now_s):
            # Moved to the end, because `_due` expects the streams in the order of their times.
            del self._beats[stream]
            self._beats[stream] = now_s + HEARTBEAT_S
            stream.beat()
        for stream in list(self._behind):
            self._make_up(stream, now_s)
        for stream in self._due(self._periods, now_s):
            stream.wait()
            # A store that hangs can delay a renewal until the next one is due.
            if not stream.is_behind() and stream not in self._renewing:
                self._renew(stream, now_s)

    def close_doors(self) -> None:
        """Refuse new streams, because this process is about to stop."""
        self._is_closed = True

    def stop(self) -> None:
        """End all streams, so that their clients connect to another process."""
        self._is_closed = self._stops = True
        for stream in list(self._beats):
            self._stop(stream)

    def _due(self, due_s: dict[EventStream, float], now_s: float) -> list[EventStream]:
        return list(islice(takewhile(lambda each: due_s[each] <= now_s, due_s), AT_ONCE))

    def _end_stale(self) -> None:
        age_ms = self.broadcast.age_ms()
        if age_ms is not None and age_ms > self.bounds.stale_after_s * 1000:
            for stream in list(self._beats):
                stream.close(
                    EndReason.STALE,
                    f"The newest data is {age_ms // 1000} s old;"
                    f" older than {self.bounds.stale_after_s:g} s is not sold.",
                    retry_ms=randint(*RETRY_MS),  # noqa: S311 - no secret
                )

    def _make_up(self, stream: EventStream, now_s: float) -> None:
        if not stream.is_behind():
            self._behind[stream] = now_s  # the client has read everything: its time begins again
            if stream.catch_up(self.broadcast):
                del self._behind[stream]
        elif now_s - self._behind[stream] > self.bounds.behind_s_max:
            del self._behind[stream]
            stream.close(
                EndReason.TOO_SLOW,
                f"The client has been too slow for {self.bounds.behind_s_max:g} s.",
            )

    def _renew(self, stream: EventStream, now_s: float) -> None:
        """Pay for the next minute of *stream*; skip minutes in which this process was suspended."""
        renewal = asyncio.ensure_future(self._renewed(stream, self._renewals[stream]))
        self._renewing[stream] = renewal
        # A late renewal shortens the next minute, so that the delays do not add up.
        due_s = self._periods.pop(stream)
        self._periods[stream] = PERIOD_S + (due_s if now_s - due_s < PERIOD_S else now_s)
        renewal.add_done_callback(lambda _: self._renewing.pop(stream, None))

    async def _renewed(self, stream: EventStream, renew: Renew) -> None:
        try:
            await renew()
        except Exception:  # a bug, which must not leave a stream that waits forever
            stream.close(EndReason.UNAVAILABLE, "The service failed.")
            raise

    def _stop(self, stream: EventStream) -> None:
        stream.close(
            EndReason.SHUTTING_DOWN,
            "This process is stopping: connect again.",
            retry_ms=randint(*RETRY_MS),  # noqa: S311 - no secret
        )
