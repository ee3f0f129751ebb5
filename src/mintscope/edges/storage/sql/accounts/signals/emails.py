"""AlertEmailRows."""

from collections.abc import Collection, Sequence
from typing import Final

from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.signals.signal import (
    EmailState,
    Firing,
    FiringId,
    Signal,
    SignalId,
)
from mintscope.core.accounts.user import UserId
from mintscope.edges.storage.database import Database
from mintscope.edges.storage.sql.accounts.signals.firings import SqlFiringRows
from mintscope.edges.storage.sql.accounts.signals.signals import SqlSignalRows

MARK: Final = "UPDATE signal_firing SET email = ?, email_id = ?, email_note = ? WHERE id = ?"
REFUSED: Final = """
SELECT count(*) FROM signal_firing JOIN signal ON signal.id = signal_firing.signal
 WHERE signal."user" = ? AND signal_firing.fired_at > ? AND signal_firing.email = 'not_sent'
"""


class SqlAlertEmailRows:
    """Implements AlertEmailRows."""

    def __init__(self, db: Database, firings: SqlFiringRows, signals: SqlSignalRows) -> None:
        self._db = db
        self._firings = firings
        self._signals = signals

    def waiting(self, signal_id: SignalId, limit: int) -> Sequence[Firing]:
        """Return up to *limit* firings of a signal that wait for an e-mail, oldest first."""
        return self._firings.waiting(signal_id, limit)

    def mark(
        self,
        firings: Collection[FiringId],
        state: EmailState,
        *,
        email_id: int | None = None,
        note: str | None = None,
    ) -> None:
        """Note the e-mail of *firings*, or why there is none."""
        told = [(str(state), email_id, note, number) for number in firings]
        self._db.executemany(MARK, told)

    def due(self, now: UnixMs, limit: int) -> Sequence[Signal]:
        """Return up to *limit* signals with firings whose pause has ended, longest due first."""
        return self._signals.email_due(now, limit)

    def expired(self, now: UnixMs, limit: int) -> Sequence[Signal]:
        """Return up to *limit* signals that are evaluated and have expired."""
        return self._signals.expired(now, limit)

    def refused(self, user_id: UserId, since: UnixMs) -> int:
        """Return how many firings of a user since then are in no e-mail for a limit."""
        return int(self._db.execute(REFUSED, (user_id, since)).get)
