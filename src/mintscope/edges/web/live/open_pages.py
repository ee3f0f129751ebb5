"""How many open pages follow changes: of all kinds together, and of one address."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Final

from mintscope.base.primitives import Mint
from mintscope.core.market.report import PARTIAL
from mintscope.edges.server.streams.outlet import NO_OUTLET, Outlet
from mintscope.edges.web.market import MarketParts
from mintscope.edges.web.pages.page import Macros, NoContent, PageResponse, Pushed
from mintscope.edges.web.routes import PageRequest

NEWS: Final = b"news"  # the event with the news of a page

Serve = Callable[[Outlet, Macros], Awaitable[None]]


class OpenPages:
    """The open pages of this process; they leave the rest to the streams that are paid for."""

    def __init__(self, market: MarketParts) -> None:
        self._market = market
        self._count = 0

    @property
    def are_full(self) -> bool:
        """Whether there is no room for one more."""
        return self._count >= self._market.live_pages_max

    async def open(self, request: PageRequest, mints: Sequence[Mint], serve: Serve) -> PageResponse:
        """Return the stream by which *serve* updates a page of *mints*, until the page is left.

        Without room it is no content, so that a browser does not ask again.
        Raises TokenNotFound, InsufficientData, RateLimited and ServiceUnavailable.
        """
        if self.are_full:
            return NoContent()
        with ExitStack() as room:
            room.enter_context(self._taken(request.browser.address))
            await self._market.streams.broadcast.prepare(mints, None, PARTIAL)
            return Pushed(partial(_push, room.pop_all(), serve))

    @contextmanager
    def _taken(self, address: str) -> Iterator[None]:
        with self._market.streams.room_for(("page", address)):
            self._count += 1
            try:
                yield
            finally:
                self._count -= 1


async def _push(room: ExitStack, serve: Serve, outlet: Outlet, macros: Macros) -> None:
    with room:
        if outlet is not NO_OUTLET:
            await serve(outlet, macros)
