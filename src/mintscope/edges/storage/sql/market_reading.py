"""How readers of the market ask their database: never without end, and with one kind of failure."""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from mintscope.base.errors import ServiceUnavailable
from mintscope.edges.storage.database import Database, DatabaseAccess, DatabaseError

READ_TIMEOUT_S: Final = 10.0

Result = TypeVar("Result")


class MarketReading:
    """Asks the database of the market, beside its writer.

    access       of a connection that reads
    timeout_s    of one question, with its wait for the questions before it
    Raises ServiceUnavailable from every verb when the database does not answer in time, or refuses.
    """

    def __init__(
        self, access: DatabaseAccess[Database], *, timeout_s: float = READ_TIMEOUT_S
    ) -> None:
        self._access = access
        self._timeout_s = timeout_s

    async def in_snapshot(self, read: Callable[[Database], Result]) -> Result:
        """Return what *read* returns; all that it reads is of one commit."""

        def in_one(db: Database) -> Result:
            with db.snapshot():
                return read(db)

        return await self.run(in_one)

    async def run(self, read: Callable[[Database], Result]) -> Result:
        """Return what *read* returns; for one statement, which needs no snapshot."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._access.run(read)
        except (DatabaseError, TimeoutError) as cause:
            raise ServiceUnavailable("The market data cannot be read now; try again.") from cause

    def close(self) -> None:
        """Let go of the connection."""
        self._access.close()
