"""The database of accounts as one process uses it: one writer and one reader."""

from collections.abc import Callable
from threading import Event
from typing import Final, NoReturn, TypeVar

from mintscope.base.errors import ServiceUnavailable
from mintscope.edges.storage.database import (
    Database,
    DatabaseAccess,
    unavailable_on_database_error,
)
from mintscope.edges.storage.group_commit import PATIENCE_S, GroupCommit

T = TypeVar("T")
Work = Callable[[Database], T]

UNAVAILABLE: Final = "The accounts cannot be reached just now."


class AccountConnections:
    """Runs work on the database of accounts; lives in one event loop.

    Writes are made in a thread, each in a transaction that holds the write lock from its start.
    Reads are indexed, and never blocked by a writer; a rule that writes must fail there.
    """

    def __init__(
        self,
        writing: Database,
        reading: DatabaseAccess[Database],
        *,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._writing = writing
        self._reading = reading
        self._group: GroupCommit[NoReturn, None] = GroupCommit(
            lambda _: (), unheard=lambda _: None, rest=lambda: None, patience_s=patience_s
        )

    async def write(self, work: Work[T], *, beside: bool = False) -> T:
        """Return what *work* returns, once that is durable; what it raises undoes it.

        beside    other transactions may write meanwhile
        Raises    ServiceUnavailable when the database does not answer in time; nothing is done then
        """
        refused = Event()
        with unavailable_on_database_error(UNAVAILABLE):
            try:
                return await self._group.run(lambda: self._write(work, refused, beside=beside))
            except ServiceUnavailable as cause:  # the queue's, which speaks of charges
                refused.set()
                raise ServiceUnavailable(UNAVAILABLE) from cause

    async def read(self, work: Work[T]) -> T:
        """Return what *work* returns; it sees one commit throughout.  Raises ServiceUnavailable."""

        def looked(database: Database) -> T:
            with database.snapshot():
                return work(database)

        with unavailable_on_database_error(UNAVAILABLE):
            return await self._reading.run(looked)

    async def close(self) -> None:
        """Finish what is queued, then let go of the database."""
        await self._group.close()
        self._writing.close()
        self._reading.close()

    def _write(self, work: Work[T], refused: Event, *, beside: bool) -> T:
        """Do *work*, unless its caller was refused while it waited for the lock."""
        with self._writing.transaction(beside=beside):
            answer = work(self._writing)
            if refused.is_set():
                raise ServiceUnavailable(UNAVAILABLE)
            return answer
