"""FiringRows and WebhookRows."""

from collections.abc import Collection, Sequence
from dataclasses import asdict, astuple
from itertools import islice
from typing import Final, cast

from typing_extensions import override

from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.signals.signal import (
    DueWanted,
    Firing,
    FiringId,
    NewFiring,
    Queue,
    SignalId,
)
from mintscope.edges.storage.database import Batch, marks
from mintscope.edges.storage.sql.accounts.table import NO_END, Columns, Table

NUMBERS_MAX: Final = 500  # in one statement
IS_WAITING: Final = "due_at IS NOT NULL AND delivered_at IS NULL AND given_up_at IS NULL"
MANY: Final = Batch(
    "signal_firing",
    {  # as NewFiring has them
        "signal": "bigint",
        "kind": "text",
        "seq": "bigint",
        "slot": "bigint",
        "time": "bigint",
        "value": "double precision",
        "direction": "text",
        "reference": "double precision",
        "fired_at": "bigint",
        "due_at": "bigint",
    },
)
IS_DUE: Final = f"""
SELECT EXISTS (SELECT 1 FROM signal_firing WHERE due_at <= ? AND {IS_WAITING})
"""  # noqa: S608  a constant
FAILING: Final = f"""
SELECT signal FROM signal_firing WHERE {IS_WAITING} AND attempts > 0
"""  # noqa: S608  a constant
GIVE_UP: Final = f"""
UPDATE signal_firing SET given_up_at = ?, reason = ? WHERE signal = ? AND {IS_WAITING}
"""  # noqa: S608  a constant
QUEUE: Final = f"""
SELECT count(*), min(fired_at) FROM signal_firing WHERE {IS_WAITING}
"""  # noqa: S608  a constant
PURGE: Final = f"""
DELETE FROM signal_firing WHERE fired_at < ? AND NOT ({IS_WAITING})
"""  # noqa: S608  a constant

NEXT_SIGNALS: Final = "SELECT id FROM signal WHERE id > ? ORDER BY id LIMIT ?"
TRIM: Final = f"""
DELETE FROM signal_firing WHERE signal = ? AND NOT ({IS_WAITING}) AND id <= (
    SELECT id FROM signal_firing WHERE signal = ? ORDER BY id DESC LIMIT 1 OFFSET ?
)
"""  # noqa: S608  a constant


class SqlFiringRows(Table[FiringId, Firing]):
    """Implements FiringRows and WebhookRows."""

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
        return self._add(
            {"signal": columns.pop("signal_id"), **columns, "due_at": self._due(due_at)}
        )

    def insert_many(self, firings: Sequence[tuple[NewFiring, UnixMs | None]]) -> None:
        """Add firings, each with its *due_at*, in that order."""
        told = [(*astuple(firing), self._due(due_at)) for firing, due_at in firings]
        self._db.executemany(MANY, told)

    @override
    def update(self, row_id: FiringId, /, **changes: object) -> None:
        """Change columns of a firing."""
        if "due_at" in changes:
            changes["due_at"] = self._shared(cast("UnixMs", changes["due_at"]))
        super().update(row_id, **changes)

    def of_signal(
        self, signal_id: SignalId, before: FiringId | None, limit: int
    ) -> Sequence[Firing]:
        """Return up to *limit* firings, newest first, that are older than *before*."""
        condition = f"signal = ? AND id < coalesce(?, {NO_END}) ORDER BY id DESC LIMIT ?"
        return self._all(condition, signal_id, before, limit)

    def is_due(self, now: UnixMs) -> bool:
        """Say whether any may be sent now."""
        return bool(self._db.execute(IS_DUE, (self.time(now),)).get)

    def time(self, now: UnixMs) -> UnixMs:
        """Return what the clock says that all processes share."""
        return self._shared(now)

    def claim(self, now: UnixMs, wanted: DueWanted) -> Sequence[Firing]:
        """Return those of *wanted* that are due, and keep other transactions from them."""
        now = self._shared(now)
        without = [0, *wanted.without]  # no signal has the number 0
        condition = f"due_at <= ? AND {IS_WAITING}"
        ranked = f"""
            SELECT id, row_number() OVER (PARTITION BY signal ORDER BY due_at, id) AS place
              FROM signal_firing
             WHERE {condition} AND signal NOT IN ({marks(without)})
               AND signal {"" if wanted.are_failing else "NOT"} IN ({FAILING})
        """  # noqa: S608  constants and marks
        chosen = f"id IN (SELECT id FROM ({ranked}) AS ranked WHERE place <= ?)"  # noqa: S608
        order = "ORDER BY due_at, id LIMIT ? /* FOR UPDATE OF signal_firing SKIP LOCKED */"
        values = (now, *without, wanted.of_each, now, wanted.count)
        return self._all(f"{chosen} AND {condition} {order}", *values)

    def give_up(self, signal_id: SignalId, at: UnixMs, reason: str) -> None:
        """Let no further attempt be made of any that waits."""
        self._db.execute(GIVE_UP, (at, reason, signal_id))

    def drop_oldest(
        self, numbers: Collection[SignalId], waiting_max: int, at: UnixMs, reason: str
    ) -> int:
        """Give up what waits of each of these signals beyond *waiting_max*; return how many."""
        dropped, left = 0, iter(sorted(numbers))
        while part := list(islice(left, NUMBERS_MAX)):
            ranked = f"""
                SELECT id, row_number() OVER (PARTITION BY signal ORDER BY id) AS place,
                       row_number() OVER (PARTITION BY signal ORDER BY id DESC) AS newness
                  FROM signal_firing WHERE signal IN ({marks(part)}) AND {IS_WAITING}
            """  # noqa: S608  constants and marks
            drop = f"""
                UPDATE signal_firing SET given_up_at = ?, reason = ?
                 WHERE id IN (SELECT id FROM ({ranked}) AS ranked WHERE place > 1 AND newness >= ?)
                RETURNING id
            """  # noqa: S608  constants and marks
            dropped += sum(1 for _ in self._db.execute(drop, (at, reason, *part, waiting_max)))
        return dropped

    def queue(self) -> Queue:
        """Return how many wait."""
        return Queue(*self._db.execute(QUEUE).get)

    def _due(self, due_at: UnixMs | None) -> UnixMs | None:
        return None if due_at is None else self._shared(due_at)

    def purge(self, before: UnixMs) -> None:
        """Delete what fired before then and does not wait."""
        self._db.execute(PURGE, (before,))

    def trim(self, after: SignalId, signals_max: int, kept_max: int) -> SignalId | None:
        """Delete all but the newest *kept_max* firings of each of the next signals."""
        found = [number for (number,) in self._db.execute(NEXT_SIGNALS, (after, signals_max))]
        self._db.executemany(TRIM, [(number, number, kept_max) for number in found])
        return SignalId(found[-1]) if found else None
