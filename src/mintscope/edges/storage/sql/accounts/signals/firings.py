"""FiringRows and FiredRows."""

from collections.abc import Collection, Sequence
from dataclasses import asdict, astuple
from itertools import islice
from typing import Final

from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.signals.signal import (
    EmailState,
    Firing,
    FiringEmail,
    FiringId,
    NewFiring,
    SignalId,
)
from mintscope.edges.storage.database import Batch, marks
from mintscope.edges.storage.sql.accounts.emails import SqlEmailRows
from mintscope.edges.storage.sql.accounts.table import NO_END, Columns, Table

EMAILS: Final = SqlEmailRows.NAME
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
        "email": "text",
    },
)
FIRST_WAITING: Final = f"""
SELECT coalesce(
    (SELECT min(id) FROM signal_firing WHERE {IS_WAITING}),
    (SELECT coalesce(max(id), 0) + 1 FROM signal_firing))
"""  # noqa: S608  a constant
GIVE_UP: Final = f"""
UPDATE signal_firing SET given_up_at = ?, reason = ? WHERE signal = ? AND {IS_WAITING}
"""  # noqa: S608  a constant
PURGE: Final = "DELETE FROM signal_firing WHERE fired_at < ?"

NEXT_SIGNALS: Final = "SELECT id FROM signal WHERE id > ? ORDER BY id LIMIT ?"
TRIM: Final = """
DELETE FROM signal_firing WHERE signal = ? AND id <= (
    SELECT id FROM signal_firing WHERE signal = ? ORDER BY id DESC LIMIT 1 OFFSET ?
)
"""


class SqlFiringRows(Table[FiringId, Firing]):
    """Implements FiringRows and FiredRows."""

    NAME = "signal_firing"
    COLUMNS = Columns(
        Firing,
        "signal_firing",
        firing_id="signal_firing.id",
        fired=Columns(NewFiring, "signal_firing", signal_id="signal_firing.signal"),
        email=Columns(
            FiringEmail,
            EMAILS,
            state="signal_firing.email",
            note="signal_firing.email_note",
        ),
    )
    SOURCE = f"signal_firing LEFT JOIN {EMAILS} ON {EMAILS}.id = signal_firing.email_id WHERE"

    def insert(
        self, firing: NewFiring, due_at: UnixMs | None, email: EmailState | None = None
    ) -> FiringId:
        """Add a firing; *due_at*, *email*: None where it is not sent by webhook, by e-mail."""
        columns = asdict(firing)
        how = {"due_at": self._due(due_at), "email": email}
        return self._add({"signal": columns.pop("signal_id"), **columns, **how})

    def insert_many(
        self,
        firings: Sequence[tuple[NewFiring, UnixMs | None]],
        by_email: Collection[SignalId] = (),
    ) -> None:
        """Add firings, each with its *due_at*, in that order; of *by_email*, waiting for it."""
        told = [
            (
                *astuple(firing),
                self._due(due_at),
                EmailState.WAITING.value if firing.signal_id in by_email else None,
            )
            for firing, due_at in firings
        ]
        self._db.executemany(MANY, told)

    def waiting(self, signal_id: SignalId, limit: int) -> Sequence[Firing]:
        """Return up to *limit* firings of a signal that wait for an e-mail, oldest first."""
        condition = "signal = ? AND email = 'waiting' ORDER BY signal_firing.id LIMIT ?"
        return self._all(condition, signal_id, limit)

    def of_signal(
        self, signal_id: SignalId, before: FiringId | None, limit: int
    ) -> Sequence[Firing]:
        """Return up to *limit* firings, newest first, that are older than *before*."""
        condition = (
            f"signal = ? AND signal_firing.id < coalesce(?, {NO_END})"
            " ORDER BY signal_firing.id DESC LIMIT ?"
        )
        return self._all(condition, signal_id, before, limit)

    def since(self, firing_id: FiringId, limit: int) -> Sequence[Firing]:
        """Return up to *limit* firings of all signals, oldest first, behind *firing_id*."""
        return self._all("signal_firing.id > ? ORDER BY signal_firing.id LIMIT ?", firing_id, limit)

    def first_waiting(self) -> FiringId:
        """Return the first whose webhook no version noted as over; the next if there is none."""
        return FiringId(self._db.execute(FIRST_WAITING).get)

    def deleted(self, numbers: Collection[SignalId]) -> Collection[SignalId]:
        """Return those of *numbers* that no signal has."""
        found = set(numbers)
        left = iter(sorted(numbers))
        while part := list(islice(left, NUMBERS_MAX)):
            kept = f"SELECT id FROM signal WHERE id IN ({marks(part)})"  # noqa: S608  marks
            found.difference_update(SignalId(number) for (number,) in self._db.execute(kept, part))
        return found

    def give_up(self, signal_id: SignalId, at: UnixMs, reason: str) -> None:
        """Let no webhook be sent of what a signal has fired."""
        self._db.execute(GIVE_UP, (at, reason, signal_id))

    def _due(self, due_at: UnixMs | None) -> UnixMs | None:
        return None if due_at is None else self._shared(due_at)

    def purge(self, before: UnixMs) -> None:
        """Delete what fired before then."""
        self._db.execute(PURGE, (before,))

    def trim(self, after: SignalId, signals_max: int, kept_max: int) -> SignalId | None:
        """Delete all but the newest *kept_max* firings of each of the next signals."""
        found = [number for (number,) in self._db.execute(NEXT_SIGNALS, (after, signals_max))]
        self._db.executemany(TRIM, [(number, number, kept_max) for number in found])
        return SignalId(found[-1]) if found else None
