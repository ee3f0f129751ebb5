"""The port of updates: their source, and their listeners."""

from collections.abc import Hashable, Sequence
from typing import Protocol

from mintscope.base.errors import ServiceError
from mintscope.base.primitives import Mint
from mintscope.core.market.report import PLAIN, ReportKind


class Listener(Hashable, Protocol):
    """Gets updates in the event loop; its reaction is short: others wait for it.

    kind    of the reports that it gets
    """

    kind: ReportKind

    def tell(self, mint: Mint, event: bytes, *, is_whole: bool) -> None:
        """Hear *event* of *mint*: a snapshot if *is_whole*, else an update of its last state."""

    def lose(self, mint: Mint, failure: ServiceError) -> None:
        """Hear that *mint* has no more updates, and why."""


class Broadcast(Protocol):
    """Sends reports as they change: once per mint and kind, the same bytes to everyone.

    An event is one of server-sent events, `snapshot` or `update`; its id is the position in the
    swap log that it is as of, which is the same in every process.  A listener gets a snapshot
    first, and from then on every update that follows it, in order.  After a retraction there is a
    snapshot again.
    """

    async def prepare(
        self, mints: Sequence[Mint], since: int | None, kind: ReportKind = PLAIN
    ) -> None:
        """Have *mints* at hand, as of *since* or later, if this log has come as far.

        Raises TokenNotFound, InsufficientData and ServiceUnavailable.
        """

    def join(self, listener: Listener, mints: Sequence[Mint]) -> None:
        """Send *listener* the snapshots of *mints*, and changes from now on."""

    def leave(self, listener: Listener, mints: Sequence[Mint]) -> None:
        """Send *listener* nothing more."""

    def snapshot(self, mint: Mint, kind: ReportKind) -> bytes | None:
        """Return the snapshot that a listener goes on from, to whom updates were not sent.

        None while it cannot be made, or while an update of *mint* is being sent: ask again soon.
        """

    def age_ms(self) -> int | None:
        """Return how old the last applied slot is; None before there is one."""
