"""The checks of ingest that fail, written by ingest and read by every api."""

from collections.abc import Callable, Mapping
from typing import Final

from mintscope.base.errors import ServiceUnavailable
from mintscope.base.primitives import UnixMs
from mintscope.edges.storage.database import Database, DatabaseAccess, DatabaseError
from mintscope.edges.storage.sql.market.tracking import UNAVAILABLE

ALL: Final = "SELECT name, said FROM ingest_check ORDER BY since, name"
FORGET: Final = "DELETE FROM ingest_check WHERE name = ?"
KEEP: Final = """
INSERT INTO ingest_check (name, said, since) VALUES (?, ?, ?)
    ON CONFLICT (name) DO UPDATE SET said = excluded.said
"""


class SqlIngestChecks:
    """The failing checks of ingest, by name.  Every verb raises ServiceUnavailable."""

    def __init__(self, access: DatabaseAccess[Database]) -> None:
        self._access = access

    async def keep(self, failing: Mapping[str, str], now: UnixMs) -> None:
        """Store *failing* in the place of the rows that are there."""

        def write(db: Database) -> None:
            with db.transaction():
                for name, _ in list(db.execute(ALL)):
                    if name not in failing:
                        db.execute(FORGET, (name,))
                for name, said in failing.items():
                    db.execute(KEEP, (name, said, now))

        await self._run(write)

    async def failing(self) -> Mapping[str, str]:
        """Return the failing checks, oldest first."""
        found: dict[str, str] = {}

        def read(db: Database) -> None:
            found.update({str(name): str(said) for name, said in db.execute(ALL)})

        await self._run(read)
        return found

    async def expect_none(self) -> None:
        """Raise ServiceUnavailable with the failing checks, if there are any."""
        failing = await self.failing()
        if failing:
            raise ServiceUnavailable("; ".join(failing.values()))

    async def close(self) -> None:
        """Close the database."""
        self._access.close()

    async def _run(self, work: Callable[[Database], None]) -> None:
        try:
            await self._access.run(work)
        except DatabaseError as cause:  # other checks report it: it is not logged here
            raise ServiceUnavailable(UNAVAILABLE) from cause
