"""How many open pages are told of changes: of all kinds together, and of one address."""

from collections.abc import Iterator
from contextlib import contextmanager

from mintscope.edges.web.market import MarketParts
from mintscope.edges.web.routes import PageRequest


class PageRoom:
    """The room of this process; pages leave the rest to the streams that are paid for."""

    def __init__(self, market: MarketParts) -> None:
        self._market = market
        self._count = 0

    @property
    def is_full(self) -> bool:
        """Whether there is no room for one more."""
        return self._count >= self._market.live_pages_max

    @contextmanager
    def taken(self, request: PageRequest) -> Iterator[None]:
        """Count the page that sends *request* during the block.

        Raises RateLimited and ServiceUnavailable where its address, or the process, has too many.
        """
        with self._market.streams.room_for(("page", request.browser.address)):
            self._count += 1
            try:
                yield
            finally:
                self._count -= 1
