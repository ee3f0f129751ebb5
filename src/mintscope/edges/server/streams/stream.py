"""One client's stream: events are written at once, or made up for by a snapshot later."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Annotated, Final

import msgspec

from mintscope.base.errors import ErrorCode, ServiceError
from mintscope.base.primitives import Mint, about
from mintscope.core.market.report import PLAIN, ReportKind
from mintscope.core.market.updates.broadcast import Broadcast
from mintscope.core.market.updates.server_sent import HEARTBEAT, encode_event
from mintscope.edges.server.streams.outlet import Outlet


class EndReason(StrEnum):
    """Why a stream ended; in its last event."""

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
    """Data of the last event, `end`: why, and how many credits were given back."""

    reason: Annotated[EndReason, about("Why, in a word.", EndReason.SHUTTING_DOWN)]
    message: Annotated[str, about("Why, in a sentence.", "This process stops: connect again.")]
    credits_returned: Annotated[int, about("Credits of this minute that were given back.", 0)] = 0


class EventStream:
    """Implements `market.updates.broadcast.Listener`.

    mints           its subjects
    kind            of its reports
    has_told        a snapshot or an update was written since `begin_period`
    has_written     anything was
    is_open         no end was written, and the client was there when it was last looked for
    returned_count  asked at the end: how many credits are given back
    """

    __slots__ = (
        "_missed", "_on_behind", "_on_told", "_outlet", "_waits", "end", "has_told", "has_written",
        "is_open", "kind", "mints", "returned_count",
    )  # fmt: skip

    def __init__(  # noqa: PLR0913 - three of them have a default
        self,
        outlet: Outlet,
        mints: Sequence[Mint],
        *,
        kind: ReportKind = PLAIN,
        on_behind: Callable[["EventStream"], None],
        on_told: Callable[[], None] = lambda: None,
        returned_count: Callable[["EventStream"], int] = lambda _: 0,
    ) -> None:
        """Write into *outlet*; *on_behind* is called where there will be something to make up.

        on_told   called at the first snapshot or update of a period, once it was written
        """
        self.mints = mints
        self.kind = kind
        self.returned_count = returned_count
        self.has_told = False
        self.has_written = False
        self.is_open = True
        self.end: End | None = None
        self._outlet = outlet
        self._on_behind = on_behind
        self._on_told = on_told
        self._missed: dict[Mint, None] = {}
        self._waits = False

    def tell(self, mint: Mint, event: bytes, *, is_whole: bool) -> None:
        """Write *event* of *mint*, or note that it was missed."""
        if not self.is_open:
            return
        if self._waits or self._outlet.is_behind() or (mint in self._missed and not is_whole):
            self._missed[mint] = None
            self._on_behind(self)
            return
        if self._missed:
            self._missed.pop(mint, None)
        self._tell(event)

    def lose(self, mint: Mint, failure: ServiceError) -> None:  # noqa: ARG002 - it is in the text
        """End: one of its mints has no more reports."""
        self.close(LOST.get(failure.code, EndReason.UNAVAILABLE), str(failure))

    def say(self, event: bytes) -> None:
        """Write *event*, which is not about a mint."""
        if self.is_open:
            self._write(event)

    def beat(self) -> None:
        """Write a heartbeat, unless there is more to read already."""
        if self.is_open and not self._outlet.is_behind():
            self._write(HEARTBEAT)

    def wait(self) -> None:
        """Write no events until `go_on`; what is missed meanwhile is made up for."""
        self._waits = True

    def begin_period(self) -> None:
        """Go on after `wait`, and note again what was written."""
        self._waits = self.has_told = self.has_written = False
        if self._missed:
            self._on_behind(self)

    def catch_up(self, broadcast: Broadcast) -> bool:
        """Write a snapshot of each mint that was missed; say whether nothing is left to make up."""
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
        """Write the last event, with the reason, and end the body."""
        if not self.is_open:
            return
        self.is_open = False
        self.end = End(reason, message, self.returned_count(self))
        self._outlet.end(encode_event(b"end", msgspec.json.encode(self.end), retry_ms=retry_ms))

    def is_gone(self) -> bool:
        """Say whether the client has left, or the stream has ended."""
        return not self.is_open or self._outlet.is_gone()

    def is_behind(self) -> bool:
        """Say whether the client has yet to read some of what was written."""
        return self._outlet.is_behind()

    async def wait_gone(self) -> None:
        """Return once `is_gone`."""
        await self._outlet.wait_gone()
        self.is_open = False

    def _tell(self, event: bytes) -> None:
        self._write(event)
        if self.is_open and not self.has_told:
            self.has_told = True
            self._on_told()

    def _write(self, event: bytes) -> None:
        if self._outlet.is_gone():
            self.is_open = False
            return
        self.has_written = True
        self._outlet.write(event)
        if self._outlet.is_behind():
            self._on_behind(self)
