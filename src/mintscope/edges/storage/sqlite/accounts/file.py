"""The database of accounts as one process uses it: one writer and one reader."""

from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Final, NoReturn, TypeVar

import apsw

from mintscope.base.errors import ServiceUnavailable
from mintscope.edges.storage.group_commit import PATIENCE_S, GroupCommit
from mintscope.edges.storage.sqlite.connection import (
    open_store,
    snapshot,
    transaction,
    unavailable_on_error,
)

T = TypeVar("T")
Work = Callable[[apsw.Connection], T]

READ_PATIENCE_MS: Final = 100  # readers wait for a recovery alone
UNAVAILABLE: Final = "The accounts cannot be reached just now."


class AccountFile:
    """Runs work on the database of accounts; lives in one event loop.

    Writes are made in a thread, each in a transaction that holds the write lock from its start.
    Reads are made on the loop itself: indexed, and never blocked by a writer.
    """

    def __init__(self, path: Path, *, patience_s: float = PATIENCE_S) -> None:
        self._writing = open_store(path, "money")
        self._reading = open_store(path, "money")
        self._reading.set_busy_timeout(READ_PATIENCE_MS)
        self._reading.execute("PRAGMA query_only = ON")  # a rule that writes must fail there
        self._group: GroupCommit[NoReturn, None] = GroupCommit(
            lambda _: (), unheard=lambda _: None, rest=lambda: None, patience_s=patience_s
        )

    async def write(self, work: Work[T]) -> T:
        """Return what *work* returns, once that is durable; what it raises undoes it.

        Raises    ServiceUnavailable when the file does not answer in time; nothing is done then
        """
        refused = Event()
        with unavailable_on_error(UNAVAILABLE):
            try:
                return await self._group.run(lambda: self._write(work, refused))
            except ServiceUnavailable as cause:  # the queue's, which speaks of charges
                refused.set()
                raise ServiceUnavailable(UNAVAILABLE) from cause

    def read(self, work: Work[T]) -> T:
        """Return what *work* returns; it sees one commit throughout.  Raises ServiceUnavailable."""
        with unavailable_on_error(UNAVAILABLE), snapshot(self._reading):
            return work(self._reading)

    async def close(self) -> None:
        """Finish what is queued, then let go of the file."""
        await self._group.close()
        self._writing.close()
        self._reading.close()

    def _write(self, work: Work[T], refused: Event) -> T:
        """Do *work*, unless its caller was refused while it waited for the lock."""
        with transaction(self._writing):
            answer = work(self._writing)
            if refused.is_set():
                raise ServiceUnavailable(UNAVAILABLE)
            return answer
