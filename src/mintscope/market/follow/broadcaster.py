"""Sends changed reports to the clients of streams: each event is made once, for all listeners.

dirty        reports that must be sent: of mints that have traded since their last event, had swaps
             in a retracted slot, are no longer tracked, or must be loaded; when a minute ends, also
             reports of closed candles, and reports whose price has become too old for its
             confidence; after a restart of the market, all reports
flush        sends the dirty reports of which no event was sent within the last 250 ms, up to fifty
             in one call
deliveries   events that are being sent, to at most two hundred listeners in one iteration of the
             event loop
"""

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, TypeAlias

import msgspec
import structlog

from mintscope.kit.clock import Clock
from mintscope.kit.errors import (
    InsufficientData,
    ServiceError,
    ServiceUnavailable,
    TokenNotFound,
    UnusableStore,
)
from mintscope.kit.http.server_sent import encode_event
from mintscope.kit.primitives import Mint, UnixS
from mintscope.kit.time import MINUTE_S
from mintscope.market.engine.engine import LiveMarket
from mintscope.market.follow.tailer import UNREADABLE, LogTailer
from mintscope.market.log import Appended, Event, Retracted, Untracked
from mintscope.market.report import PLAIN, ReportKind, TokenReport
from mintscope.market.updates import NOTHING, Changes, Listener, changes, update_of

PAUSE_S: Final = 0.25  # the shortest pause between two events of a topic
TOLD_IN_A_TURN: Final = 200
RENEWED_IN_A_TURN: Final = 50  # topics; a minute's end changes all reports of closed candles
NOWHERE: Final = -1

LOG = structlog.get_logger(__name__)


Topic: TypeAlias = tuple[Mint, ReportKind]
"""The subject of listeners: the reports of a mint, of one kind."""


@dataclass(slots=True, eq=False)
class _Audience:
    """The listeners of one mint and kind of report, and their last report.

    sent          the report with which the next update is compared; None before the first snapshot
    apart         the parts of the report that changed from *sent* to the snapshots of later
                  listeners
    is_whole_due  whether the next event is a snapshot
    sent_at_s     the time of the last event, by the monotonic clock
    whole         the report in *snapshot*, made at the position *as_of*
    is_busy       whether an event is being sent, or the mint is being loaded
    """

    listeners: dict[Listener, None] = field(default_factory=dict)
    sent: TokenReport | None = None
    apart: Changes = NOTHING
    is_whole_due: bool = False
    sent_at_s: float = -PAUSE_S
    whole: TokenReport | None = None
    snapshot: bytes = b""
    as_of: int = NOWHERE
    is_busy: bool = False

    def admit(self) -> bytes:
        """Return the snapshot for a new listener.

        Its differences from the last sent report are added to the next update.
        """
        assert self.whole is not None
        if self.sent is None:
            self.sent = self.whole
        else:
            self.apart |= changes(self.sent, self.whole)
        return self.snapshot

    def begin_again(self) -> None:
        """Make the next event a new snapshot instead of an update."""
        self.is_whole_due = True
        self.as_of = NOWHERE


def _has_aged(sent: TokenReport | None, now: UnixS) -> bool:
    """Return whether the price in the report *sent* is too old at *now* for the confidence sent."""
    return sent is not None and sent.price.is_too_old(now - sent.data_span.to)


class _Delivery(msgspec.Struct, gc=False):
    """An event of a stream, and the listeners to which it must still be sent."""

    topic: Topic
    audience: _Audience
    event: bytes
    is_whole: bool
    left: Iterator[Listener]


class Broadcaster:
    """Sends reports to clients as they change: the same bytes to all listeners of a mint and kind.

    Each report is sent as a server-sent event, `snapshot` or `update`.  The id of an event is its
    position in the swap log, which is the same in every process.  A listener first gets a snapshot,
    and then all updates in order.  If a report does not continue the last one, for example after a
    retraction, a snapshot is sent again.
    """

    def __init__(self, follower: LogTailer, market: LiveMarket, clock: Clock) -> None:
        self._follower = follower
        self._market = market
        self._clock = clock
        self._audiences: dict[Topic, _Audience] = {}
        self._topics: dict[Mint, list[Topic]] = {}
        self._dirty: dict[Topic, None] = {}
        self._minute = 0
        self._deliveries: deque[_Delivery] = deque()
        self._is_telling = False
        self._loads: set[asyncio.Task[None]] = set()
        self._later: asyncio.TimerHandle | None = None
        self._encoder = msgspec.json.Encoder()
        follower.observe(self)

    async def prepare(
        self, mints: Sequence[Mint], since: int | None, kind: ReportKind = PLAIN
    ) -> None:
        """Load *mints* into memory, with all that reports of *kind* need.

        since   a position of the log up to which events are applied first, if the log has reached
                it and can be read; None: any position is good enough

        Raises TokenNotFound, InsufficientData or ServiceUnavailable if there is no report of one of
        *mints*.
        """
        if since is not None and since > self._market.seq:
            # A snapshot without the newest events is correct, too.
            with suppress(TimeoutError, ServiceUnavailable, UnusableStore):
                await self._follower.catch_up()
        await asyncio.gather(*(self._follower.read(mint, kind) for mint in mints))

    def join(self, listener: Listener, mints: Sequence[Mint]) -> None:
        """Send *listener* the reports of *mints* now, and their changes from now on."""
        for mint in mints:
            topic = (mint, listener.kind)
            audience = self._audiences.get(topic)
            if audience is None:
                audience = self._audiences[topic] = _Audience()
                self._topics.setdefault(mint, []).append(topic)
            audience.listeners[listener] = None
            if self._has_snapshot(topic, audience):
                listener.tell(mint, audience.admit(), is_whole=True)
            else:
                self._begin_again(topic)
        if self._dirty:
            self.flush()

    def leave(self, listener: Listener, mints: Sequence[Mint]) -> None:
        """Stop sending events about *mints* to *listener*."""
        for mint in mints:
            topic = (mint, listener.kind)
            audience = self._audiences.get(topic)
            if audience is not None:
                audience.listeners.pop(listener, None)
                if not audience.listeners:
                    self._forget(topic)

    def _forget(self, topic: Topic) -> None:
        mint, _ = topic
        del self._audiences[topic]
        self._topics[mint].remove(topic)
        if not self._topics[mint]:
            del self._topics[mint]

    def snapshot(self, mint: Mint, kind: ReportKind) -> bytes | None:
        """Return a snapshot for a listener that missed updates; None if there is none now.

        That is so while *mint* is being loaded, or while an event of it is being sent: then call
        this method again soon.
        """
        topic = (mint, kind)
        audience = self._audiences.get(topic)
        if audience is None or audience.is_busy or audience.is_whole_due:
            return None
        return audience.admit() if self._has_snapshot(topic, audience) else None

    def age_ms(self) -> int | None:
        """Return the age in ms of the newest slot that was applied; None before the first slot."""
        return self._follower.age_ms()

    def note(self, event: Event) -> None:
        """Plan to send the reports that *event* changes; it was just applied."""
        topics = self._topics
        if not topics:
            return
        match event:
            case Appended(header=header, swaps=swaps):
                for swap in swaps:
                    for topic in topics.get(swap.mint, ()):
                        self._dirty[topic] = None
                if header.time // MINUTE_S != self._minute:
                    self._minute = header.time // MINUTE_S
                    self._note_minute(header.time)
            case Retracted(mints=mints):
                for mint in mints:
                    self._begin_all_again(mint)
            case Untracked(mint=mint):
                self._begin_all_again(mint)
            case _:
                pass

    def _note_minute(self, now: UnixS) -> None:
        """Plan to send reports that the end of a minute changes.

        They are those of closed candles, and those whose price has become too old for its
        confidence.
        """
        for topic, audience in self._audiences.items():
            _, kind = topic
            if kind.is_closed or _has_aged(audience.sent, now):
                self._dirty[topic] = None

    def _begin_all_again(self, mint: Mint) -> None:
        for topic in self._topics.get(mint, ()):
            self._begin_again(topic)

    def note_restart(self) -> None:
        """Plan to send all listeners whole reports, because the market was loaded again.

        It continues from the newest event of the log.
        """
        for topic in self._audiences:
            self._begin_again(topic)

    def flush(self) -> None:
        """Send the changes of reports that were last sent PAUSE_S ago or earlier.

        At most RENEWED_IN_A_TURN reports are sent at once; a timer sends the others later.
        """
        if self._later is not None:
            self._later.cancel()
            self._later = None
        now_s = self._clock.monotonic_s()
        wait_s = None
        renewed_count = 0
        for topic in list(self._dirty):
            if renewed_count == RENEWED_IN_A_TURN:
                wait_s = 0.0
                break
            audience = self._audiences.get(topic)
            if audience is None:
                del self._dirty[topic]
                continue
            early_s = audience.sent_at_s + PAUSE_S - now_s
            if audience.is_busy:
                continue  # the end of the delivery or load flushes this topic again
            if early_s > 0:
                wait_s = early_s if wait_s is None else min(wait_s, early_s)
                continue
            del self._dirty[topic]
            renewed_count += 1
            self._renew(topic, audience)
        if wait_s is not None:
            self._later = asyncio.get_running_loop().call_later(wait_s, self.flush)

    def _begin_again(self, topic: Topic) -> None:
        self._audiences[topic].begin_again()
        self._dirty[topic] = None

    def _renew(self, topic: Topic, audience: _Audience) -> None:
        """Send the next event of *topic*, or begin to load its mint if it is not in memory."""
        mint, kind = topic
        if not self._follower.is_tracked(mint):
            self._lose(topic, audience, TokenNotFound(f"This service does not track {mint} now."))
        elif not self._market.has(mint, kind):
            audience.is_busy = True
            load = asyncio.create_task(self._load(topic, audience))
            self._loads.add(load)
            load.add_done_callback(self._loads.discard)
        elif audience.is_whole_due or audience.sent is None:
            if self._has_snapshot(topic, audience):
                audience.sent = audience.whole
                audience.apart = NOTHING
                audience.is_whole_due = False
                self._send(topic, audience, audience.snapshot, is_whole=True)
        else:
            self._update(topic, audience, audience.sent)

    def _update(self, topic: Topic, audience: _Audience, sent: TokenReport) -> None:
        mint, kind = topic
        try:
            report = self._market.read(mint, kind)
        except InsufficientData as failure:
            self._lose(topic, audience, failure)
            return
        slot = self._market.slot
        assert slot is not None, "expected a slot: there is a report"
        update = update_of(report, slot, changes(sent, report) | audience.apart)
        audience.sent = report
        audience.apart = NOTHING
        event = encode_event(b"update", self._encoder.encode(update), event_id=self._market.seq)
        self._send(topic, audience, event, is_whole=False)

    def _has_snapshot(self, topic: Topic, audience: _Audience) -> bool:
        """Store the newest snapshot of *topic* in *audience*; return False without a report."""
        mint, kind = topic
        if not self._market.has(mint, kind):
            return False
        seq = self._market.seq
        if audience.as_of == seq:
            return True
        try:
            body = self._market.report(mint, kind)
            audience.whole = self._market.read(mint, kind)
        except InsufficientData as failure:
            self._lose(topic, audience, failure)
            return False
        slot = self._market.slot
        assert slot is not None, "expected a slot: there is a report"
        # The body is the one that requests get: encoding the report again would take time.
        data = b'{"slot":%d,%b' % (slot, body.removeprefix(b"{"))
        audience.snapshot = encode_event(b"snapshot", data, event_id=seq)
        audience.as_of = seq
        return True

    async def _load(self, topic: Topic, audience: _Audience) -> None:
        """Load the mint of *topic* into memory, and send a snapshot to its listeners.

        If a bug makes this fail, they get no more events, because the next attempt may fail, too.
        """
        mint, kind = topic
        audience.begin_again()
        try:
            await self._follower.read(mint, kind)
        except ServiceUnavailable:
            audience.sent_at_s = self._clock.monotonic_s()  # the load is tried again after PAUSE_S
        except ServiceError as failure:
            self._lose(topic, audience, failure)
            return
        except Exception:
            LOG.exception("a report could not be loaded", mint=mint)
            self._lose(topic, audience, ServiceUnavailable(UNREADABLE))
            return
        finally:
            audience.is_busy = False
        self._dirty[topic] = None
        self.flush()

    def _lose(self, topic: Topic, audience: _Audience, failure: ServiceError) -> None:
        mint, _ = topic
        for listener in list(audience.listeners):  # a copy, because a listener may leave
            listener.lose(mint, failure)

    def _send(self, topic: Topic, audience: _Audience, event: bytes, *, is_whole: bool) -> None:
        audience.is_busy, audience.sent_at_s = True, self._clock.monotonic_s()
        left = iter(list(audience.listeners))  # a copy, because listeners join and leave meanwhile
        self._deliveries.append(_Delivery(topic, audience, event, is_whole, left))
        if not self._is_telling:  # `_go_on` calls `flush`, which can call this method
            self._is_telling = True
            self._go_on()

    def _go_on(self) -> None:
        """Send events to the next TOLD_IN_A_TURN listeners, and the rest in later turns.

        Between two turns, the event loop does other work.
        """
        left_count = TOLD_IN_A_TURN
        while self._deliveries and left_count:
            delivery = self._deliveries[0]
            some = list(islice(delivery.left, left_count))
            left_count -= len(some)
            for listener in some:
                _tell(listener, delivery)
            if left_count:
                self._deliveries.popleft()
                delivery.audience.is_busy = False
                if delivery.topic in self._dirty:
                    self.flush()
        self._is_telling = bool(self._deliveries)
        if self._is_telling:
            asyncio.get_running_loop().call_soon(self._go_on)


def _tell(listener: Listener, delivery: _Delivery) -> None:
    mint, _ = delivery.topic
    try:
        listener.tell(mint, delivery.event, is_whole=delivery.is_whole)
    except Exception:
        LOG.exception("a listener of updates failed")
