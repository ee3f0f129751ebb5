"""Minutes of streams that are under way: what was taken for them, while nothing was sent.

A row is written by the commit that takes the credits, and removed by one that gives them back, or
by a later one once something was sent.  So what a process leaves behind that dies is known, and it
is given back once: by the process that removes the row.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol

import structlog

from mintscope.base.metrics import DEBITS
from mintscope.base.primitives import UnixMs
from mintscope.core.credits.debit import Reversal
from mintscope.edges.storage.sql.money.credit_statements import (
    LOCKED_BALANCE,
    REVERSE,
    reversal_values,
)

# The columns of a Reversal.
COLUMNS: Final = "minute.account, minute.credits, minute.api_key, minute.month, minute.id"
REMOVE: Final = "DELETE FROM stream_minute WHERE id = ? RETURNING id"

# Answers that were paid for, by their names: see KEPT_MS.
UNKEEP: Final = "DELETE FROM kept_answer WHERE name = ? AND repeats = 0 RETURNING name"
REPEAT: Final = "UPDATE kept_answer SET repeats = repeats + 1 WHERE name = ?"
FORGET_KEPT: Final = "DELETE FROM kept_answer WHERE at < ?"

CLEAR_EVERY_MS: Final = 1_000  # where no commit of streams takes it along
LEFT_MAX: Final = 1_000  # given back in one transaction

log = structlog.get_logger()


class Executes(Protocol):
    """A connection of either engine."""

    def execute(self, statement: str, values: Any, /) -> Any:
        """Run one statement."""

    def executemany(self, statement: str, many: Iterable[Sequence[Any]], /) -> Any:
        """Run a statement once for each of *many*."""


class SentMinutes:
    """Numbers of minutes whose rows a later commit removes."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self._cleared_at = UnixMs(0)

    def is_due(self, at: UnixMs) -> bool:
        """Say whether a commit of their own is worth it."""
        return bool(self.numbers) and abs(at - self._cleared_at) >= CLEAR_EVERY_MS

    def cleared(self, count: int, at: UnixMs) -> None:
        """Forget the first *count*, which a commit has removed."""
        del self.numbers[:count]
        self._cleared_at = at


def reverse(db: Executes, reversals: Iterable[Reversal], at: UnixMs) -> int:
    """Give back what each says, in the transaction under way; return how many credits.

    Credits of a minute, or of an answer with a name, are given back by the remover of its row.
    Rows are locked in the order
    in which debits lock them: accounts by their numbers, then minutes.
    """
    left = sorted(reversals, key=lambda each: each.account)
    if any(each.minute is not None or each.once is not None for each in left):
        found = []
        for each in left:
            db.execute(LOCKED_BALANCE, (each.account,))
            if each.minute is not None and db.execute(REMOVE, (each.minute,)).get is None:
                continue
            if each.once is not None and db.execute(UNKEEP, (each.once,)).get is None:
                continue  # the answer was given to another request of its name
            found.append(each)
        left = found
    db.executemany(REVERSE, reversal_values(left, at))
    return sum(each.credit_count for each in left)


def tell_given_back(credit_count: int) -> None:
    """Count and log what was given back of minutes that were left behind."""
    if credit_count:
        DEBITS.labels("reversed").inc(credit_count)
        log.warning("minutes_given_back", credits=credit_count)
