"""Minutes of streams in a file: those that this process has begun, and those left behind.

A process that has begun minutes holds a lock until it ends, shared with others that have.  A
process that gets it alone knows that no process lives whose minutes are in the file, save its own.
"""

import fcntl
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from secrets import randbits
from typing import IO, Final

import apsw
import msgspec

from mintscope.base.primitives import UnixMs
from mintscope.core.credits.debit import Debited, DebitOutcome, Reversal
from mintscope.edges.storage.sql.money.minutes import COLUMNS, LEFT_MAX, SentMinutes

BEGIN_MINUTE: Final = """
INSERT INTO stream_minute (id, writer, at, account, credits, api_key, month)
VALUES (?, ?, ?, ?, ?, ?, ?)
"""
CLEAR: Final = "DELETE FROM stream_minute WHERE id = ?"
OTHERS: Final = "SELECT EXISTS (SELECT 1 FROM stream_minute WHERE writer <> ?)"
LEFT: Final = f"""
SELECT {COLUMNS} FROM stream_minute AS minute WHERE writer <> ? AND at < ? ORDER BY id
 LIMIT {LEFT_MAX}
"""  # noqa: S608 - constants
EVER: Final = 2**62
LEFT_AFTER_MS: Final = 180_000  # a minute, what a slow reader may take, and a store that is away
LOOK_EVERY_MS: Final = 10_000


class MinutesUnderWay:
    """Minutes in the file at *path*, over a connection to it; all in its transactions."""

    def __init__(self, db: apsw.Connection, path: Path) -> None:
        self.sent = SentMinutes()
        self._db = db
        self._path = path.with_name(f"{path.stem}.minutes.lock")
        self._writer = randbits(62)
        self._lock: IO[str] | None = None
        self._has_begun = False
        self._looked_at: UnixMs | None = None

    def begin(self, outcomes: Sequence[DebitOutcome], at: UnixMs) -> list[DebitOutcome]:
        """Note a minute for each that was taken; return them with its number."""
        self._hold()
        begun = [
            msgspec.structs.replace(each, minute=randbits(62))
            if isinstance(each, Debited)
            else each
            for each in outcomes
        ]
        for each in begun:
            if isinstance(each, Debited):
                taken = each.reversal()
                values = (taken.account, taken.credit_count, taken.key, taken.month)
                self._db.execute(BEGIN_MINUTE, (each.minute, self._writer, at, *values))
        return begun

    def clear(self) -> int:
        """Remove what was sent; return how many minutes, for `sent.cleared` after the commit."""
        numbers = list(self.sent.numbers)
        self._db.executemany(CLEAR, [(number,) for number in numbers])
        return len(numbers)

    def may_be_left(self, at: UnixMs) -> bool:
        """Say whether it is time to look for what was left behind, and there may be some."""
        if self._looked_at is not None and abs(at - self._looked_at) < LOOK_EVERY_MS:
            return False
        self._looked_at = at
        return bool(self._db.execute(OTHERS, (self._writer,)).get)

    def left(self, at: UnixMs) -> list[Reversal]:
        """Return what was left behind by processes that died; the write lock is held."""
        before = EVER if self._is_alone() else at - LEFT_AFTER_MS
        return [Reversal(*row) for row in self._db.execute(LEFT, (self._writer, before))]

    def close(self) -> None:
        """Let go of the lock."""
        if self._lock is not None:
            self._lock.close()

    def _hold(self) -> None:
        """Share the lock, before the first minute; who has it alone holds the write lock."""
        if not self._has_begun:
            with suppress(OSError):  # where there are no locks, age alone counts
                fcntl.flock(self._opened(), fcntl.LOCK_SH | fcntl.LOCK_NB)
                self._has_begun = True

    def _is_alone(self) -> bool:
        """Say whether no other process shares the lock; none can before the commit."""
        with suppress(OSError):
            lock = self._opened()
            kept = fcntl.LOCK_SH if self._has_begun else fcntl.LOCK_UN
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            finally:
                fcntl.flock(lock, kept | fcntl.LOCK_NB)
        return False

    def _opened(self) -> IO[str]:
        if self._lock is None:
            self._lock = self._path.open("w")
        return self._lock
