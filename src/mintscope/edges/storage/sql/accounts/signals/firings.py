"""FiringRows."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.signals.signal import (
    Firing,
    FiringId,
    NewFiring,
    Queue,
    SignalId,
)
from mintscope.edges.storage.sql.accounts.table import NO_END, Columns, Table

IS_WAITING: Final = "due_at IS NOT NULL AND delivered_at IS NULL AND given_up_at IS NULL"
CLAIM: Final = f"""due_at <= ? AND {IS_WAITING} ORDER BY due_at, id LIMIT ?
/* FOR UPDATE OF signal_firing SKIP LOCKED */"""
GIVE_UP: Final = f"""
UPDATE signal_firing SET given_up_at = ?, reason = ? WHERE signal = ? AND {IS_WAITING}
"""  # noqa: S608  a constant
QUEUE: Final = f"""
SELECT count(*), coalesce(sum(CASE WHEN due_at <= ? THEN 1 ELSE 0 END), 0), min(fired_at)
  FROM signal_firing WHERE {IS_WAITING}
"""  # noqa: S608  a constant
PURGE: Final = f"""
DELETE FROM signal_firing WHERE fired_at < ? AND NOT ({IS_WAITING})
"""  # noqa: S608  a constant


class SqlFiringRows(Table[FiringId, Firing]):
    """Implements FiringRows."""

    NAME = "signal_firing"
    COLUMNS = Columns(
        Firing,
        "signal_firing",
        firing_id="signal_firing.id",
        fired=Columns(NewFiring, "signal_firing", signal_id="signal_firing.signal"),
    )
    SOURCE = "signal_firing WHERE"

    def insert(self, firing: NewFiring, due_at: UnixMs | None) -> FiringId:
        """Add a firing; *due_at*: None where it is not told by webhook."""
        columns = asdict(firing)
        return self._add({"signal": columns.pop("signal_id"), **columns, "due_at": due_at})

    def of_signal(
        self, signal_id: SignalId, before: FiringId | None, limit: int
    ) -> Sequence[Firing]:
        """Return up to *limit* firings, newest first, that are older than *before*."""
        condition = f"signal = ? AND id < coalesce(?, {NO_END}) ORDER BY id DESC LIMIT ?"
        return self._all(condition, signal_id, before, limit)

    def claim(self, now: UnixMs, limit: int) -> Sequence[Firing]:
        """Return up to *limit* that wait and are due, and keep other transactions from them."""
        return self._all(CLAIM, now, limit)

    def give_up(self, signal_id: SignalId, at: UnixMs, reason: str) -> None:
        """Let no further attempt be made of any that waits."""
        self._db.execute(GIVE_UP, (at, reason, signal_id))

    def queue(self, now: UnixMs) -> Queue:
        """Return how many wait."""
        return Queue(*self._db.execute(QUEUE, (now,)).get)

    def purge(self, before: UnixMs) -> None:
        """Delete what fired before then and does not wait."""
        self._db.execute(PURGE, (before,))
