"""GapMends: what ingest notes in the rows of gaps, one statement for each step."""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from mintscope.base.primitives import Slot, UnixMs
from mintscope.base.solana import Gap
from mintscope.core.market.history.mending import GapCounts, GapMend
from mintscope.edges.storage.database import (
    Database,
    DatabaseAccess,
    Row,
    unavailable_on_database_error,
)
from mintscope.edges.storage.sql.market.tracking import UNAVAILABLE

COLUMNS: Final = "first, last, reason, attempts, next_at, given_up_at, words"
SEEN: Final = "UPDATE gap SET next_at = ? WHERE next_at IS NULL AND filled_at IS NULL"
# Asked for first: a table in which nothing is new is not written.
NEW: Final = "SELECT 1 FROM gap WHERE next_at IS NULL AND filled_at IS NULL LIMIT 1"
DUE: Final = f"""
SELECT {COLUMNS} FROM gap
 WHERE filled_at IS NULL AND given_up_at IS NULL AND next_at <= ?
 ORDER BY first, last LIMIT 1
"""  # noqa: S608 - ours
NEWEST: Final = f"""
SELECT {COLUMNS} FROM gap WHERE filled_at IS NULL ORDER BY last DESC, first DESC LIMIT ?
"""  # noqa: S608 - ours
PUT_OFF: Final = """
UPDATE gap SET next_at = :at, words = :words WHERE first = :first AND last = :last
"""
FAILED: Final = """
UPDATE gap SET attempts = attempts + 1, next_at = :at, words = :words
 WHERE first = :first AND last = :last
"""
GIVE_UP: Final = """
UPDATE gap SET attempts = attempts + 1, given_up_at = :at, words = :words
 WHERE first = :first AND last = :last
"""
COUNTS: Final = "SELECT count(*), count(given_up_at) FROM gap WHERE filled_at IS NULL"
NEW_DAY: Final = "INSERT INTO gap_calls (day, calls) VALUES (?, 0) ON CONFLICT DO NOTHING"
OLD_DAYS: Final = "DELETE FROM gap_calls WHERE day < ?"
CALLS: Final = "SELECT calls FROM gap_calls WHERE day = ? /* FOR UPDATE */"
TAKE: Final = "UPDATE gap_calls SET calls = calls + ? WHERE day = ?"

T = TypeVar("T")


class SqlGapMends:
    """Implements GapMends."""

    def __init__(self, access: DatabaseAccess[Database]) -> None:
        self._access = access

    async def due(self, now: UnixMs, first_at: UnixMs) -> GapMend | None:
        """Return the oldest open gap that is due, None without any; a new one is at *first_at*."""
        if await self._read(lambda db: db.execute(NEW).fetchone()) is not None:
            await self._write(lambda db: db.execute(SEEN, (first_at,)))
        row = await self._read(lambda db: db.execute(DUE, (now,)).fetchone())
        return None if row is None else _mend(row)

    async def put_off(self, gap: Gap, next_at: UnixMs, words: str) -> None:
        """Note that it waits for something; that is no attempt."""
        await self._note(PUT_OFF, gap, next_at, words)

    async def failed(self, gap: Gap, next_at: UnixMs, words: str) -> None:
        """Note an attempt in vain."""
        await self._note(FAILED, gap, next_at, words)

    async def give_up(self, gap: Gap, at: UnixMs, words: str) -> None:
        """Note the last attempt, in vain: there is no other."""
        await self._note(GIVE_UP, gap, at, words)

    async def counts(self) -> GapCounts:
        """Return how many gaps are open."""
        count, given_up = await self._read(lambda db: db.execute(COUNTS).get)
        return GapCounts(count, given_up)

    async def newest(self, limit: int) -> Sequence[GapMend]:
        """Return up to *limit* open gaps, newest first."""
        return await self._read(lambda db: [_mend(row) for row in db.execute(NEWEST, (limit,))])

    async def take_calls(self, day: int, wanted: int, calls_max: int) -> int:
        """Take up to *wanted* of the *calls_max* requests of *day*; return how many were left."""

        def work(db: Database) -> int:
            db.execute(OLD_DAYS, (day,))
            db.execute(NEW_DAY, (day,))
            taken = max(0, min(wanted, calls_max - int(db.execute(CALLS, (day,)).get)))
            db.execute(TAKE, (taken, day))
            return taken

        return await self._write(work)

    async def close(self) -> None:
        """Let go of the database."""
        self._access.close()

    async def _note(self, statement: str, gap: Gap, at: UnixMs, words: str) -> None:
        values = {"first": gap.first, "last": gap.last, "at": at, "words": words}
        await self._write(lambda db: db.execute(statement, values))

    async def _read(self, work: Callable[[Database], T]) -> T:
        with unavailable_on_database_error(UNAVAILABLE):
            return await self._access.run(work)

    async def _write(self, work: Callable[[Database], T]) -> T:
        def in_transaction(db: Database) -> T:
            with db.transaction(beside=True):
                return work(db)

        return await self._read(in_transaction)


def _mend(row: Row) -> GapMend:
    first, last, reason, attempts, next_at, given_up_at, words = row
    return GapMend(
        Gap(Slot(first), Slot(last), reason), attempts, _time(next_at), _time(given_up_at), words
    )


def _time(value: Any) -> UnixMs | None:
    return None if value is None else UnixMs(value)
