"""Live parts of the first page, SOL and the movers: read once for all pages that are open."""

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

from mintscope.base.errors import ServiceUnavailable
from mintscope.base.time import SECOND_MS
from mintscope.core.market.updates.server_sent import encode_event
from mintscope.edges.server.streams.outlet import Outlet
from mintscope.edges.web.front.sol import LiveSol, SolNow
from mintscope.edges.web.live.channel import Channel, News, PageStream
from mintscope.edges.web.live.open_pages import NEWS, OpenPages
from mintscope.edges.web.market import MarketParts
from mintscope.edges.web.pages.page import Macros, PageResponse
from mintscope.edges.web.routes import PageRequest
from mintscope.edges.web.tokens.lines import LinePage, TokenLines

PAUSE_S: Final = 0.5  # between two looks
VIEW: Final = "front"  # the only one: all see the same


class _Drawn(NamedTuple):
    """The parts of the page by their names, as HTML; *mark* says of when they are."""

    mark: tuple[int, int | None]
    parts: Mapping[str, str]


class LiveFront:
    """Reads SOL and *lines* of *market*, and sends them to open pages."""

    def __init__(self, market: MarketParts, lines: TokenLines, pages: OpenPages) -> None:
        self._market = market
        self._lines = lines
        self._pages = pages
        self._sol = LiveSol(market)
        self._channel: Channel[str] | None = None
        self._newest: _Drawn | None = None

    async def facts(self) -> dict[str, Any]:
        """Return the values of templates; None for those unknown now."""
        return {
            "sol": await self._sol.read(),
            "movers": await self._movers(),
            "has_market": True,
            "degraded_ms": int(self._market.degraded_after_s * SECOND_MS),
        }

    async def open(self, request: PageRequest) -> PageResponse:
        """Return the stream of a page.  Raises RateLimited and ServiceUnavailable."""
        return await self._pages.open(request, [], self._serve)

    async def _serve(self, outlet: Outlet, macros: Macros) -> None:
        if self._channel is None:
            look = partial(self._look, macros)
            self._channel = Channel(look, PAUSE_S, is_watched=True)
        stream = PageStream(outlet, [], on_behind=self._market.streams.note_behind)
        with self._channel.reading(stream, VIEW):
            await self._market.streams.serve(stream)

    async def _look(self, macros: Macros, _views: Collection[str]) -> Mapping[str, News]:
        """Return what is new since the last look."""
        sol, movers, before = await self._sol.read(), await self._movers(), self._newest
        if sol is None:
            return {}
        mark = (sol.slot, movers and movers.slot)
        if before is not None and before.mark == mark:
            return {}
        self._newest = now = _Drawn(mark, _parts(macros, sol, movers))
        whole = _event(sol, now.parts)
        if before is None:
            return {VIEW: News(mark, whole)}
        changed = {name: html for name, html in now.parts.items() if before.parts.get(name) != html}
        return {VIEW: News(mark, whole, before.mark, _event(sol, changed))}

    async def _movers(self) -> LinePage | None:
        try:
            return await self._lines.movers()
        except ServiceUnavailable:  # the list is being loaded
            return None


def _parts(macros: Macros, sol: SolNow, movers: LinePage | None) -> Mapping[str, str]:
    """Return what `front/live.html` has in its parts."""
    drawn = macros("front/parts.html")
    parts = {name: getattr(drawn, name)(sol) for name in ("slot", "price", "answer")}
    parts["chart"] = sol.chart
    for place, line in enumerate(() if movers is None else movers.lines, 1):
        parts[f"mover-{place}"] = drawn.mover(line)
    return {name: str(html).strip() for name, html in parts.items()}


def _event(sol: SolNow, parts: Mapping[str, str]) -> bytes:
    told = {"slot": sol.slot, "asOf": sol.report.data_span.to * SECOND_MS, "parts": parts}
    return encode_event(NEWS, msgspec.json.encode(told))
