"""SignalRows."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.signals.signal import Signal, SignalId, SignalRule
from mintscope.core.accounts.user import UserId
from mintscope.edges.storage.sql.accounts.table import Columns, Table

CLEAR: Final = "DELETE FROM signal_firing WHERE signal = ?"
DELETE: Final = "DELETE FROM signal WHERE id = ?"
HAND_OVER: Final = 'UPDATE signal SET "user" = ? WHERE "user" = ?'


class SqlSignalRows(Table[SignalId, Signal]):
    """Implements SignalRows."""

    NAME = "signal"
    COLUMNS = Columns(
        Signal,
        "signal",
        signal_id="signal.id",
        user_id='signal."user"',
        rule=Columns(SignalRule, "signal"),
    )
    SOURCE = "signal WHERE"

    def of_user(self, user_id: UserId) -> Sequence[Signal]:
        """Return the signals of a user, in the order in which they were made."""
        return self._all('"user" = ? ORDER BY id', user_id)

    def insert(self, user_id: UserId, rule: SignalRule, nonce: bytes, at: UnixMs) -> SignalId:
        """Add a signal of revision 1 that has seen nothing."""
        return self._add({"user": user_id, **asdict(rule), "nonce": nonce, "created_at": at})

    def delete(self, signal_id: SignalId) -> None:
        """Delete a signal and what it fired."""
        self._db.execute(CLEAR, (signal_id,))
        self._db.execute(DELETE, (signal_id,))

    def active(self) -> Sequence[Signal]:
        """Return every signal that is evaluated, of all users."""
        return self._all("is_active = 1 ORDER BY id")

    def hand_over(self, giver: UserId, taker: UserId) -> None:
        """Let the signals of *giver* be those of *taker*, however many that are."""
        self._db.execute(HAND_OVER, (taker, giver))
