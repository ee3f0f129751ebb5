"""Event streams that update open pages without a reload."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final, Generic, NamedTuple, TypeVar

import structlog
from typing_extensions import override

from mintscope.api.events import EventStream
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.http.response import NO_OUTLET, Outlet
from mintscope.kit.http.server_sent import encode_event
from mintscope.kit.primitives import Mint
from mintscope.market.report import PARTIAL, ReportKind
from mintscope.site.page import Macros, NoContent, PageResponse, Pushed
from mintscope.site.routes import PageRequest
from mintscope.site.sol import MarketParts

AGAIN_S: Final = 5.0  # delay after a failed read, in seconds
BEAT: Final = encode_event(b"beat", b"{}")
REST: Final = 4.0  # least pause, in durations of the last read: reads take at most 1/5 of the time

View = TypeVar("View", bound=Hashable)

log = structlog.get_logger()


class News(NamedTuple):
    """The newest state of a view, as events for its readers.

    mark      identifies the newest state
    whole     event with the whole state, for readers in any state
    change    smaller event, for readers in the state *since*; empty if there is none
    """

    mark: Hashable
    whole: bytes
    since: Hashable = None
    change: bytes = b""


class PageStream(EventStream):
    """The event stream of one page.

    known   mark of the state that the page already shows; None: the first event has the whole state
    """

    __slots__ = ("_on_report", "known")

    def __init__(
        self,
        *args: Any,
        on_report: Callable[[], None] = lambda: None,
        known: Hashable = None,
        **kwargs: Any,
    ) -> None:
        """Create the stream; *on_report* is called for each report of a mint."""
        super().__init__(*args, **kwargs)
        self.known = known
        self._on_report = on_report

    @override
    def beat(self) -> None:
        """Write a heartbeat as an event, because scripts cannot read comments."""
        if self.is_open and not self.is_behind():
            self.say(BEAT)

    @override
    def tell(self, mint: Mint, event: bytes, *, is_whole: bool) -> None:
        """Send *event* about *mint* to the page, or record that it was missed; call `on_report`."""
        super().tell(mint, event, is_whole=is_whole)
        self._on_report()


@dataclass(eq=False, repr=False)
class Channel(Generic[View]):
    """Reads what open pages show, and sends the changes to them, at most once per *pause_s*.

    Pages that show the same are readers of one view, which is read once for all of them.

    look        returns the news of each view; views without news are left out.  If it raises an
                error, such as ServiceUnavailable, it is called again after *again_s*
    pause_s     the shortest pause after a read, in seconds
    is_watched  whether to read again and again, even if `note` is not called
    again_s     delay after a failed read, in seconds
    """

    look: Callable[[Collection[View]], Awaitable[Mapping[View, News]]]
    pause_s: float
    _: KW_ONLY
    is_watched: bool = False
    again_s: float = AGAIN_S
    _readers: dict[PageStream, View] = field(default_factory=dict, init=False)
    # The mark of the state that each reader has.
    _marks: dict[PageStream, Hashable] = field(default_factory=dict, init=False)
    _newest: dict[View, News] = field(default_factory=dict, init=False)
    _looking: asyncio.Task[None] | None = field(default=None, init=False)
    _is_due: bool = field(default=False, init=False)

    def __len__(self) -> int:
        """Return the number of pages that get changes."""
        return len(self._readers)

    @property
    def is_busy(self) -> bool:
        """Whether news is being read or sent, or the pause after a read is not over."""
        return self._looking is not None

    @contextmanager
    def reading(self, stream: PageStream, view: View) -> Iterator[None]:
        """Send changes of *view* to *stream* during the block."""
        self._readers[stream] = view
        self._marks[stream] = stream.known
        self.note()
        try:
            yield
        finally:
            del self._readers[stream], self._marks[stream]

    def note(self) -> None:
        """Soon read every view that an open page shows, and send the changes."""
        self._is_due = True
        if self._looking is None:
            self._looking = asyncio.create_task(self._go_on())

    async def _go_on(self) -> None:
        """Read and send news until there are no readers, or nothing is left to read or send."""
        time_s = asyncio.get_running_loop().time
        try:
            while self._readers and (self._is_due or self.is_watched or self._owes()):
                began_s = time_s()
                if await self._renew():
                    self._tell()
                    took_s = time_s() - began_s
                    await asyncio.sleep(max(self.pause_s, REST * took_s))
                else:
                    await asyncio.sleep(self.again_s)
        finally:
            # Also after a bug or a cancellation, so that the next `note` starts a new task.
            self._looking = None

    async def _renew(self) -> bool:
        """Read the news if a read is due; return False if the read failed."""
        if not (self._is_due or self.is_watched):
            return True
        # Before the read, so that a `note` during the read leads to another read.
        self._is_due = False
        views = dict.fromkeys(self._readers.values())
        try:
            found = await self.look(views)
        except ServiceUnavailable as failure:
            log.warning("open pages are not updated", reason=str(failure))
            self._is_due = True
            return False
        except Exception:  # a bug: pages stay open, and get news later
            log.exception("data of open pages cannot be read")
            self._is_due = True
            return False
        self._newest = {view: reported for view, reported in self._newest.items() if view in views}
        self._newest.update(found)
        return True

    def _tell(self) -> None:
        for stream, view in list(self._readers.items()):
            reported = self._newest.get(view)
            # A reader that is behind gets the newest state later: see `_owes`.
            if reported is None or self._marks[stream] == reported.mark or stream.is_behind():
                continue
            is_next = reported.change and self._marks[stream] == reported.since
            stream.say(reported.change if is_next else reported.whole)
            self._marks[stream] = reported.mark

    def _owes(self) -> bool:
        """Return whether a reader has not received the newest state yet."""
        return any(
            view in self._newest and self._marks[stream] != self._newest[view].mark
            for stream, view in self._readers.items()
        )


NEWS: Final = b"news"  # name of the event with the news of a page

Serve = Callable[[Outlet, Macros], Awaitable[None]]


class OpenPages:
    """The open pages of this process, limited so that paid streams keep their capacity."""

    def __init__(self, market: MarketParts) -> None:
        self._market = market
        self._count = 0

    @property
    def are_full(self) -> bool:
        """Whether the limit of open pages is reached."""
        return self._count >= self._market.live_pages_max

    async def open(
        self,
        request: PageRequest,
        mints: Sequence[Mint],
        serve: Serve,
        kind: ReportKind = PARTIAL,
    ) -> PageResponse:
        """Open the event stream of a page about *mints*; *serve* sends updates until it is closed.

        kind   kind of the reports that the page shows

        If the limit is reached, return no content, so that the browser does not reconnect.
        Raises TokenNotFound, InsufficientData, RateLimited and ServiceUnavailable.
        """
        if self.are_full:
            return NoContent()
        with ExitStack() as room:
            # Taken before `prepare` waits, so that simultaneous requests keep to the limit.
            room.enter_context(self._taken(request.browser.address))
            await self._market.streams.broadcast.prepare(mints, None, kind)
            taken = room.pop_all()

        async def push(outlet: Outlet, macros: Macros) -> None:
            # Entered even without an outlet (HEAD, or no client): leaving it gives the place back.
            with taken:
                if outlet is not NO_OUTLET:
                    await serve(outlet, macros)

        return Pushed(push)

    @contextmanager
    def _taken(self, address: str) -> Iterator[None]:
        with self._market.streams.room_for(("page", address)):
            self._count += 1
            try:
                yield
            finally:
                self._count -= 1
