"""Live updates of open token pages: reports, candles, swaps, and the token's row of the list.

A report has no volumes, and no open price of its candles.  After each report, the newest candles
and swaps of its token are therefore read, once for all of the token's pages.  The token's row in
the list is sent after each update of the list, because its numbers also change with time.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from mintscope.api.events import EndReason, EventStream
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.http.response import Outlet
from mintscope.kit.http.server_sent import encode_event
from mintscope.kit.primitives import Mint
from mintscope.market.screening.listed import ListedTokens, ListLine, ListQuestion
from mintscope.market.series.pools import LoggedSwap
from mintscope.market.series.series import Width
from mintscope.site.chart import ChartPoint, on_one_axis
from mintscope.site.live import Channel, News, OpenPages, PageStream
from mintscope.site.page import Macros, NoContent, PageResponse
from mintscope.site.routes import PageRequest
from mintscope.site.sol import MarketParts
from mintscope.site.token.reading import TokenReading, kind_of
from mintscope.site.token.shown import figures_of, last_trade, shown_swaps

PAUSE_S: Final = 0.25  # pause between two reads of a token, the same as `broadcaster.PAUSE_S`
LIST_PAUSE_S: Final = 1.0  # pause between two reads of the list, in seconds
VIEW_OVER: Final = "The view has ended. Load the page again."
TIME_DIGITS_MAX: Final = 12

MaySee = Callable[[], Awaitable[bool]]


class LivePages:
    """Sends new reports, candles and swaps to the token pages that are open in this process."""

    def __init__(self, market: MarketParts, reading: TokenReading, pages: OpenPages) -> None:
        self._market = market
        self._reading = reading
        self._pages = pages
        self._channels: dict[Mint, Channel[Width]] = {}
        self._figures = Channel(self._look_at_list, LIST_PAUSE_S, is_watched=True)
        self._listed: ListedTokens | None = None
        self._drawn: set[Mint] = set()  # mints whose entries of `_listed` were sent

    async def open(
        self, request: PageRequest, mint: Mint, width: Width, may_see: MaySee
    ) -> PageResponse:
        """Open the event stream of a token page.

        Return no content if too many pages are open, or if the visitor may not see the page.

        may_see   returns whether the visitor may see the page; called now and, unless the token is
                  free for all visitors, once a minute

        Raises TokenNotFound, InsufficientData, RateLimited and ServiceUnavailable.
        """
        if self._pages.are_full or not await may_see():
            return NoContent()
        since = request.query_params.text("since")
        serve = partial(self._serve, mint, width, since, may_see)
        return await self._pages.open(request, [mint], serve, kind_of(width))

    async def _serve(
        self,
        mint: Mint,
        width: Width,
        since: str,
        may_see: MaySee,
        outlet: Outlet,
        _macros: Macros,
    ) -> None:
        streams = self._market.streams
        missed = await self._missed(mint, width, since)
        channel = self._channel(mint)
        stream = PageStream(
            outlet,
            [mint],
            kind=kind_of(width),
            on_behind=streams.note_behind,
            on_report=channel.note,
        )
        if missed:
            stream.say(encode_event(b"series", msgspec.json.encode(missed)))
        renew = None if self._market.is_free(mint) else partial(_renew, stream, may_see)
        try:
            with channel.reading(stream, width), self._figures.reading(stream, mint):
                await streams.serve(stream, renew=renew)
        finally:
            # No page reads the channel, and no new channel has taken its place meanwhile.
            if not channel and self._channels.get(mint) is channel:
                del self._channels[mint]

    def _channel(self, mint: Mint) -> Channel[Width]:
        channel = self._channels.get(mint)
        if channel is None:
            channel = self._channels[mint] = Channel(partial(self._look, mint), PAUSE_S)
        return channel

    async def _missed(self, mint: Mint, width: Width, since: str) -> Sequence[ChartPoint]:
        """Return the newest candles if the page may have missed one since *since*, else ()."""
        if not since.isascii() or not since.isdigit() or len(since) > TIME_DIGITS_MAX:
            return ()
        newest = await self._reading.newest(mint, width)
        # Events have the newest two candles, so a page lacks candles only if the older of the two
        # is later than the next candle of the page.
        if not newest or newest[0].t <= int(since) + width.seconds:
            return ()
        return on_one_axis((await self._reading.points(mint, width)).points, width.seconds)

    async def _look(self, mint: Mint, frames: Collection[Width]) -> Mapping[Width, News]:
        """Return, by width, the event with candles and swaps.  Raises ServiceUnavailable."""
        swaps = await self._reading.swaps(mint)
        newest = {each: await self._reading.newest(mint, each) for each in frames}
        events = {frame: _event(points, swaps) for frame, points in newest.items()}
        return {frame: News(event, event) for frame, event in events.items()}

    async def _look_at_list(self, mints: Collection[Mint]) -> Mapping[Mint, News]:
        """Return the rows of *mints* in the token list, as events.

        If the list is the same as at the last call, return only the rows that were not sent yet.
        """
        try:
            listed = self._market.lists.newest()
        except ServiceUnavailable:  # the list is still loading
            return {}
        new = [mint for mint in mints if listed is not self._listed or mint not in self._drawn]
        asked = ListQuestion(among=new, limit=len(new))
        lines = (await asyncio.to_thread(listed.page, asked)).lines if new else ()
        # With the mints that are not listed: they are looked for again only in a new list.
        self._listed, self._drawn = listed, set(mints)
        events = {line.listed.mint: _figures_event(line) for line in lines}
        return {mint: News(event, event) for mint, event in events.items()}


def _event(points: Sequence[ChartPoint], swaps: Sequence[LoggedSwap]) -> bytes:
    """Return the event with candles and swaps."""
    fields = {
        "candles": points,
        "swaps": [each._asdict() for each in shown_swaps(swaps)],
        "lastTrade": last_trade(points, swaps),
    }
    return encode_event(b"market", msgspec.json.encode(fields))


def _figures_event(line: ListLine) -> bytes:
    """Return the event with the numbers of a list entry, as HTML."""
    fields = {name: str(html) for name, html in figures_of(line).items()}
    return encode_event(b"figures", msgspec.json.encode(fields))


async def _renew(stream: EventStream, may_see: MaySee) -> None:
    """Continue *stream* for another period, or close it if the view of the token has ended."""
    if await may_see():
        stream.begin_period()
    else:
        stream.close(EndReason.INSUFFICIENT_CREDITS, VIEW_OVER)
