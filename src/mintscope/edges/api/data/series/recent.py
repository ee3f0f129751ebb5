"""Pages as they were made a moment ago: many clients ask for the same ones."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from mintscope.base.clock import Clock
from mintscope.core.market.log import LogTip
from mintscope.core.market.series.store import SeriesReader
from mintscope.core.payments.protocol.requirement import Resource

KEPT_S: Final = 1.0
BYTES_MAX: Final = 16 * 1024 * 1024


class Made(NamedTuple):
    """A page in JSON, as of *tip*; one without anything in it is free."""

    tip: LogTip
    body: bytes
    is_empty: bool


class _Kept(NamedTuple):
    made: Made
    until_s: float


class RecentPages:
    """Gives a page again while the log stands where it stood, for KEPT_S at most.

    The log says of every slot, and when it becomes final, but not of candles that are imported:
    these are seen by then.  Up to BYTES_MAX are kept, those that were given last.
    """

    def __init__(self, reader: SeriesReader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock
        self._pages: OrderedDict[Resource, _Kept] = OrderedDict()
        self._bytes = 0

    async def page(self, resource: Resource, make: Callable[[], Awaitable[Made]]) -> Made:
        """Return the page that is sold as *resource*: the one at hand, or what *make* makes."""
        kept = self._pages.get(resource)
        is_recent = kept is not None and self._clock.monotonic_s() < kept.until_s
        if kept is not None and is_recent and await self._reader.tip() == kept.made.tip:
            return kept.made
        made = await make()
        self._keep(resource, made)
        return made

    def _keep(self, resource: Resource, made: Made) -> None:
        self._forget(resource)
        self._pages[resource] = _Kept(made, self._clock.monotonic_s() + KEPT_S)
        self._bytes += len(made.body)
        while self._bytes > BYTES_MAX:
            self._forget(next(iter(self._pages)))

    def _forget(self, resource: Resource) -> None:
        before = self._pages.pop(resource, None)
        if before is not None:
            self._bytes -= len(before.made.body)
