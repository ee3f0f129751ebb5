"""SignalRows and ActiveRows."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from typing import Final

from mintscope.base.primitives import Mint, UnixMs
from mintscope.core.accounts.signals.signal import (
    Crowd,
    FiredHour,
    Signal,
    SignalId,
    SignalRule,
)
from mintscope.core.accounts.user import UserId
from mintscope.edges.storage.database import marks
from mintscope.edges.storage.sql.accounts.table import Columns, Table

NUMBERS_MAX: Final = 500  # in one statement
CROWD: Final = """
SELECT count(*), count(DISTINCT mint), coalesce(max(CASE WHEN mint = ? THEN 1 ELSE 0 END), 0)
  FROM signal WHERE is_active = 1
"""
REVISIONS: Final = """
SELECT id, revision FROM signal WHERE id > ? AND is_active = 1 ORDER BY id LIMIT ?
"""
NOTE_FIRED: Final = """
UPDATE signal SET fired_at = ?, hour_since = ?, hour_count = ? WHERE id = ?
"""
KEEP_STATE: Final = "UPDATE signal SET state = ? WHERE id = ? AND revision = ?"
CLEAR: Final = "DELETE FROM signal_firing WHERE signal = ?"
DELETE: Final = "DELETE FROM signal WHERE id = ?"
HAND_OVER: Final = 'UPDATE signal SET "user" = ? WHERE "user" = ?'


class SqlSignalRows(Table[SignalId, Signal]):
    """Implements SignalRows and ActiveRows."""

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

    def crowd(self, mint: Mint) -> Crowd:
        """Return how many are evaluated."""
        signals, mints, has_mint = self._db.execute(CROWD, (mint,)).get
        return Crowd(signals, mints, bool(has_mint))

    def revisions(self, after: SignalId, limit: int) -> Mapping[SignalId, int]:
        """Return the revisions of up to *limit*, in the order of their numbers, behind *after*."""
        found = self._db.execute(REVISIONS, (after, limit))
        return {SignalId(number): revision for number, revision in found}

    def since(self, signal_id: SignalId, limit: int) -> Sequence[Signal]:
        """Return up to *limit* that are evaluated, in the order of their numbers."""
        return self._all("id >= ? AND is_active = 1 ORDER BY id LIMIT ?", signal_id, limit)

    def email_due(self, now: UnixMs, limit: int) -> Sequence[Signal]:
        """Return up to *limit* with firings whose pause has ended, longest due first."""
        return self._all("email_due_at <= ? ORDER BY email_due_at, id LIMIT ?", now, limit)

    def expired(self, now: UnixMs, limit: int) -> Sequence[Signal]:
        """Return up to *limit* that are evaluated and have expired."""
        condition = "expires_at <= ? AND is_active = 1 ORDER BY expires_at, id LIMIT ?"
        return self._all(condition, now, limit)

    def keep_states(self, states: Sequence[tuple[SignalId, int, str]]) -> None:
        """Write down the states of those that have that revision."""
        told = [(state, number, revision) for number, revision, state in states]
        self._db.executemany(KEEP_STATE, told)

    def some(self, numbers: Collection[SignalId]) -> Sequence[Signal]:
        """Return those of *numbers* that are evaluated."""
        found: list[Signal] = []
        left = iter(sorted(numbers))
        while part := list(islice(left, NUMBERS_MAX)):
            found += self._all(f"is_active = 1 AND id IN ({marks(part)})", *part)
        return found

    def note_fired(self, fired: Mapping[SignalId, FiredHour]) -> None:
        """Note when each of these has fired last, and how often in its hour."""
        self._db.executemany(NOTE_FIRED, [(*hour, number) for number, hour in fired.items()])

    def hand_over(self, giver: UserId, taker: UserId) -> None:
        """Let the signals of *giver* be those of *taker*, however many that are."""
        self._db.execute(HAND_OVER, (taker, giver))
