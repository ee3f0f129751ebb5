"""HistoryAsks and HistoryQueue: one statement for each step."""

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from mintscope.base.primitives import Mint, UnixMs, UnixS
from mintscope.core.market.history.asking import (
    ENDED_MAX,
    OPEN_MAX,
    AskState,
    Cost,
    HistoryAsk,
)
from mintscope.edges.storage.database import (
    Database,
    DatabaseAccess,
    Row,
    marks,
    unavailable_on_database_error,
)
from mintscope.edges.storage.sql.market.tracking import UNAVAILABLE

ASK: Final = """
INSERT INTO history_ask (mint, from_time, asked_at, state)
SELECT :mint, :from_time, :now, 'asked'
 WHERE (SELECT count(*) FROM history_ask WHERE ended_at IS NULL) < :most
ON CONFLICT DO NOTHING
RETURNING id
"""
COLUMNS: Final = (
    "id, mint, from_time, asked_at, state, transactions, calls, seconds, listed, read_count, words,"
    " ended_at"
)
NEWEST: Final = f"SELECT {COLUMNS} FROM history_ask ORDER BY id DESC LIMIT ?"  # noqa: S608 - ours
CONFIRM: Final = """
UPDATE history_ask SET state = 'confirmed' WHERE id = ? AND state = 'estimated' RETURNING mint
"""
# A past that is read is dropped by its reader.
CANCEL: Final = """
UPDATE history_ask
   SET state = CASE WHEN state = 'reading' THEN 'cancelling' ELSE 'cancelled' END,
       ended_at = CASE WHEN state = 'reading' THEN NULL ELSE CAST(:now AS bigint) END, words = ''
 WHERE id = :id AND state IN ('asked', 'estimated', 'confirmed', 'reading')
RETURNING mint
"""
ESTIMATED: Final = """
UPDATE history_ask
   SET state = 'estimated', from_time = :from_time, transactions = :transactions, calls = :calls,
       seconds = :seconds, words = ''
 WHERE id = :id AND state = 'asked'
"""
BEGAN: Final = """
UPDATE history_ask SET state = 'reading', from_time = :from_time
 WHERE id = :id AND state IN ('confirmed', 'reading')
RETURNING id
"""
PROGRESS: Final = """
UPDATE history_ask SET listed = :listed, read_count = :read, words = :words
 WHERE id = :id AND state IN ('asked', 'confirmed', 'reading')
RETURNING id
"""
END: Final = """
UPDATE history_ask SET state = :state, words = :words, ended_at = :now
 WHERE id = :id AND ended_at IS NULL
"""
FORGET: Final = """
DELETE FROM history_ask
 WHERE ended_at IS NOT NULL
   AND id NOT IN (SELECT id FROM history_ask WHERE ended_at IS NOT NULL ORDER BY id DESC LIMIT ?)
"""

T = TypeVar("T")


class SqlHistoryAsks:
    """Implements HistoryAsks and HistoryQueue."""

    def __init__(self, access: DatabaseAccess[Database]) -> None:
        self._access = access

    async def ask(self, mint: Mint, from_time: UnixS, now: UnixMs) -> bool:
        """Ask for the past of *mint*; False where one is open, or OPEN_MAX of others are."""
        values = {"mint": mint, "from_time": from_time, "now": now, "most": OPEN_MAX}
        return await self._write(lambda db: db.execute(ASK, values).get is not None)

    async def newest(self, limit: int) -> Sequence[HistoryAsk]:
        """Return up to *limit*, the newest first."""
        return await self._read(lambda db: [_ask(row) for row in db.execute(NEWEST, (limit,))])

    async def confirm(self, ask_id: int) -> Mint | None:
        """Let it be read, and return its mint; None if it is not estimated, or no longer."""
        return await self._write(lambda db: _mint(db.execute(CONFIRM, (ask_id,)).get))

    async def cancel(self, ask_id: int, now: UnixMs) -> Mint | None:
        """End it, and return its mint; None if it has ended, or ends already."""
        values = {"id": ask_id, "now": now}
        return await self._write(lambda db: _mint(db.execute(CANCEL, values).get))

    async def first(self, *states: AskState) -> HistoryAsk | None:
        """Return the one in one of *states* that was asked for first, None without any."""
        wanted = (
            f"SELECT {COLUMNS} FROM history_ask"  # noqa: S608 - ours
            f" WHERE state IN ({marks(states)}) ORDER BY id LIMIT 1"
        )
        row = await self._read(lambda db: db.execute(wanted, states).fetchone())
        return None if row is None else _ask(row)

    async def estimated(self, ask_id: int, from_time: UnixS, cost: Cost) -> None:
        """Note what it costs, if it is still asked for."""
        values = {"id": ask_id, "from_time": from_time, **cost._asdict()}
        await self._write(lambda db: db.execute(ESTIMATED, values | {"seconds": int(cost.seconds)}))

    async def began(self, ask_id: int, from_time: UnixS) -> bool:
        """Note that it is read now, since *from_time*; False if it is no longer wanted."""
        values = {"id": ask_id, "from_time": from_time}
        return await self._write(lambda db: db.execute(BEGAN, values).get is not None)

    async def progress(self, ask_id: int, listed: int, read: int, words: str) -> bool:
        """Note how far it is; False where it is to be cancelled, or has ended."""
        values = {"id": ask_id, "listed": listed, "read": read, "words": words}
        return await self._write(lambda db: db.execute(PROGRESS, values).get is not None)

    async def end(self, ask_id: int, state: AskState, words: str, now: UnixMs) -> None:
        """End it in *state*, unless it has ended; ENDED_MAX are kept."""

        def work(db: Database) -> None:
            db.execute(END, {"id": ask_id, "state": state, "words": words, "now": now})
            db.execute(FORGET, (ENDED_MAX,))

        await self._write(work)

    async def close(self) -> None:
        """Let go of the database."""
        self._access.close()

    async def _read(self, work: Callable[[Database], T]) -> T:
        with unavailable_on_database_error(UNAVAILABLE):
            return await self._access.run(work)

    async def _write(self, work: Callable[[Database], T]) -> T:
        def in_transaction(db: Database) -> T:
            with db.transaction(beside=True):
                return work(db)

        with unavailable_on_database_error(UNAVAILABLE):
            return await self._access.run(in_transaction)


def _mint(found: str | None) -> Mint | None:
    return None if found is None else Mint(found)


def _ask(row: Row) -> HistoryAsk:
    ask_id, mint, from_time, asked_at, state, transactions, calls, seconds, *rest = row
    cost = None if calls is None else Cost(transactions, calls, seconds)
    return HistoryAsk(ask_id, mint, from_time, asked_at, AskState(state), cost, *rest)
