"""Open pages that are told of changes: reports from the broadcast, candles and swaps beside them.

A report says nothing of volumes, nor what its candle opened at.  So where a report was told, the
newest candles and swaps of its token are read, at most once a second for all pages together.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
import structlog
from typing_extensions import override

from mintscope.base.errors import ServiceError
from mintscope.base.primitives import Mint
from mintscope.core.market.timeframe import WIDTH_S, Timeframe
from mintscope.core.market.updates.server_sent import encode_event
from mintscope.edges.server.streams.outlet import NO_OUTLET, Outlet
from mintscope.edges.server.streams.stream import EndReason, EventStream
from mintscope.edges.web.figures.chart import ChartPoint
from mintscope.edges.web.market import MarketParts
from mintscope.edges.web.pages.page import NoContent, PageResponse, Pushed
from mintscope.edges.web.routes import PageRequest
from mintscope.edges.web.token.reading import TokenReading, last_trade
from mintscope.edges.web.token.shown import shown_swaps

PAUSE_S: Final = 1.0  # between two looks at the candles of a token
VIEW_OVER: Final = "The view has ended: load the page again to go on."
TIME_DIGITS_MAX: Final = 12

LOG = structlog.get_logger(__name__)

MaySee = Callable[[], Awaitable[bool]]


class Watched(NamedTuple):
    """What a page shows candles of."""

    mint: Mint
    timeframe: Timeframe


class PageStream(EventStream):
    """The stream of one page; it says when a report was told."""

    __slots__ = ("_on_told",)

    def __init__(self, *args: Any, on_told: Callable[[], None], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._on_told = on_told

    @override
    def tell(self, mint: Mint, event: bytes, *, is_whole: bool) -> None:
        """Write *event* of *mint*, or note that it was missed."""
        super().tell(mint, event, is_whole=is_whole)
        self._on_told()


class _Watch:
    """The pages that show the same candles."""

    def __init__(self) -> None:
        self.streams: set[PageStream] = set()
        self.looking: asyncio.Task[None] | None = None
        self.is_due = False


class LivePages:
    """All open pages of this process."""

    def __init__(self, market: MarketParts, reading: TokenReading) -> None:
        self._market = market
        self._reading = reading
        self._watches: dict[Watched, _Watch] = {}
        self._open_count = 0

    async def open(
        self, request: PageRequest, mint: Mint, timeframe: Timeframe, may_see: MaySee
    ) -> PageResponse:
        """Return the stream of a page; no content, so that none is asked for again, without room.

        may_see   asked now and once a minute
        Raises TokenNotFound, InsufficientData, RateLimited and ServiceUnavailable.
        """
        if self._open_count >= self._market.live_pages_max or not await may_see():
            return NoContent()
        streams, watched = self._market.streams, Watched(mint, timeframe)
        with ExitStack() as room:
            room.enter_context(streams.room_for(("page", request.browser.address)))
            room.enter_context(self._counted())
            await streams.broadcast.prepare([mint], None)
            missed = await self._missed(watched, request.query_params.text("since"))
            push = partial(self._push, room.pop_all(), watched, missed, may_see)
        return Pushed(push)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self._open_count += 1
        try:
            yield
        finally:
            self._open_count -= 1

    async def _push(
        self,
        room: ExitStack,
        watched: Watched,
        missed: Sequence[ChartPoint],
        may_see: MaySee,
        outlet: Outlet,
    ) -> None:
        """Tell what changes until the page is left."""
        with room:
            if outlet is NO_OUTLET:
                return
            streams, watch = self._market.streams, self._watches.setdefault(watched, _Watch())
            stream = PageStream(
                outlet,
                [watched.mint],
                on_behind=streams.note_behind,
                on_told=partial(self._note, watched, watch),
            )
            if missed:
                stream.say(encode_event(b"series", msgspec.json.encode(missed)))
            watch.streams.add(stream)
            renew = None if self._market.is_free(watched.mint) else partial(_renew, stream, may_see)
            try:
                await streams.serve(stream, renew=renew)
            finally:
                watch.streams.discard(stream)
                if not watch.streams and self._watches.get(watched) is watch:
                    del self._watches[watched]

    async def _missed(self, watched: Watched, since: str) -> Sequence[ChartPoint]:
        """Return all candles if a page has none since then, or misses one between; else nothing."""
        if not since.isascii() or not since.isdigit() or len(since) > TIME_DIGITS_MAX:
            return ()
        newest = await self._reading.newest(*watched)
        if not newest or newest[0].t <= int(since) + WIDTH_S[watched.timeframe]:
            return ()
        return await self._reading.points(*watched)

    def _note(self, watched: Watched, watch: _Watch) -> None:
        watch.is_due = True
        if watch.looking is None:
            watch.looking = asyncio.create_task(self._look(watched, watch))

    async def _look(self, watched: Watched, watch: _Watch) -> None:
        """Tell candles and swaps as long as there is someone, and something new."""
        try:
            while watch.is_due and watch.streams:
                watch.is_due = False
                event = await self._event(watched)
                for stream in list(watch.streams):
                    if event and not stream.is_behind():
                        stream.say(event)
                await asyncio.sleep(PAUSE_S)
        finally:
            watch.looking = None

    async def _event(self, watched: Watched) -> bytes:
        """Return the event that tells candles and swaps; empty where they cannot be read."""
        try:
            points = await self._reading.newest(*watched)
            swaps = await self._reading.swaps(watched.mint)
        except ServiceError as failure:
            LOG.warning("the candles of an open page cannot be read", reason=str(failure))
            return b""
        told = {
            "candles": points,
            "swaps": [each._asdict() for each in shown_swaps(swaps)],
            "lastTrade": last_trade(points, swaps),
        }
        return encode_event(b"market", msgspec.json.encode(told))


async def _renew(stream: PageStream, may_see: MaySee) -> None:
    """Go on with *stream*, or end it where its view has ended."""
    if await may_see():
        stream.begin_period()
    else:
        stream.close(EndReason.INSUFFICIENT_CREDITS, VIEW_OVER)
