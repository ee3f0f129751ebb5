"""PaymentBooks on SQLite: set differences over one snapshot, in a thread of their own."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import apsw

from mintscope.errors import ServiceUnavailable
from mintscope.payments.invariants import Checked, Invariant, Violation
from mintscope.primitives import Signature, UnixMs
from mintscope.storage.sqlite.connection import open_store, snapshot, transaction

T = TypeVar("T")

AUDIT_S: Final = 60.0  # nobody waits for an audit, but it must end
NEWEST_ENTRY: Final = "SELECT coalesce(max(id), 0) FROM credit_entry"

# Each selects what contradicts it.  Of the journal only what came after the
# entry :after is read; whole tables only where that is 0.
CHECKS: Final = {
    Invariant.ISSUED_IS_FINAL: """
SELECT signature FROM payment WHERE final = 0 AND state = 'issued' AND resolved_at < :before
""",
    Invariant.ISSUED_IS_ENTERED: """
SELECT p.signature FROM payment AS p LEFT JOIN credit_entry AS e ON e.id = p.entry
 WHERE (p.entry > :after OR :after = 0) AND p.credits > 0 AND p.state = 'issued'
   AND (e.id IS NULL OR e.delta <> p.credits OR e.account <> p.account
        OR e.kind <> CASE WHEN p.token_hash IS NULL THEN 'top_up' ELSE 'payment' END)
""",
    Invariant.ENTRY_IS_PAID: """
SELECT e.id FROM credit_entry AS e LEFT JOIN payment AS p ON p.entry = e.id
 WHERE e.id > :after AND e.kind IN ('payment', 'top_up')
   AND (p.id IS NULL OR p.state NOT IN ('issued', 'frozen'))
""",
    Invariant.PAID_IS_ENOUGH: """
SELECT signature FROM payment
 WHERE (entry > :after OR :after = 0) AND state = 'issued' AND paid < amount
""",
    # An entry continues the one before it, and the last one is the balance.
    Invariant.BALANCE_IS_SUM: """
WITH entry AS (
    SELECT account, delta, balance,
           lag(balance) OVER account_entries AS before,
           lead(id) OVER account_entries AS later
      FROM credit_entry WHERE id > :after
    WINDOW account_entries AS (PARTITION BY account ORDER BY id))
SELECT account FROM entry
 WHERE balance <> delta + coalesce(before, iif(:after = 0, 0, balance - delta))
 UNION
SELECT a.id FROM credit_account AS a
  LEFT JOIN entry ON entry.account = a.id AND entry.later IS NULL
 WHERE a.balance <> coalesce(entry.balance, iif(:after = 0, 0, a.balance))
""",
    Invariant.ROTATIONS_CANCEL: """
SELECT sum(delta) FROM credit_entry WHERE id > :after AND kind = 'rotate' HAVING sum(delta) <> 0
""",
    Invariant.FREEZES_CANCEL: """
SELECT total FROM (
    SELECT (SELECT coalesce(sum(frozen), 0) FROM payment)
         + (SELECT coalesce(sum(delta), 0) FROM credit_entry WHERE kind IN ('freeze', 'thaw'))
           AS total)
 WHERE :after = 0 AND total <> 0
""",
}

MARK: Final = "SELECT signature FROM treasury_mark"
MOVE_MARK: Final = """
INSERT INTO treasury_mark VALUES (1, ?)
    ON CONFLICT (id) DO UPDATE SET signature = excluded.signature
"""

# The first reason stays: what follows from it says less.
STOP_SALES: Final = "INSERT INTO sales_stop VALUES (1, ?, ?) ON CONFLICT DO NOTHING"
RESUME_SALES: Final = "DELETE FROM sales_stop"
WHY_STOPPED: Final = "SELECT why FROM sales_stop"
PENDING: Final = "SELECT count(*), min(begun_at) FROM payment WHERE state = 'pending'"


class SqlitePaymentBooks:
    """Implements payments.invariants.PaymentBooks; one audit at a time."""

    def __init__(self, path: Path) -> None:
        self._db = open_store(path, "money")
        self._lock = asyncio.Lock()

    async def check(self, *, after_entry: int, settled_before: UnixMs) -> Checked:
        """Compare payments, entries and balances as of one moment."""
        return await self._run(lambda: self._check(after_entry, settled_before))

    async def treasury_mark(self) -> Signature | None:
        """Return the newest arrival that has been compared."""
        mark: str | None = await self._run(lambda: self._db.execute(MARK).get)
        return None if mark is None else Signature(mark)

    async def move_treasury_mark(self, signature: Signature) -> None:
        """Remember the newest arrival that has been compared."""
        await self._run(lambda: self._write(MOVE_MARK, (signature,)))

    async def stop_sales(self, *, now: UnixMs, why: str) -> None:
        """Sell nothing from now on, until an operator says otherwise."""
        await self._run(lambda: self._write(STOP_SALES, (now, why)))

    async def resume_sales(self) -> None:
        """Sell again: the operator's word."""
        await self._run(lambda: self._write(RESUME_SALES, ()))

    async def why_stopped(self) -> str | None:
        """Return why nothing is sold, None while sales are open."""
        why: str | None = await self._run(lambda: self._db.execute(WHY_STOPPED).get)
        return why

    async def pending(self) -> tuple[int, UnixMs | None]:
        """Return how many payments have no outcome yet, and when the oldest was begun."""
        count, oldest = await self._run(lambda: self._db.execute(PENDING).get)
        return count, None if oldest is None else UnixMs(oldest)

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def _check(self, after_entry: int, settled_before: UnixMs) -> Checked:
        bounds = {"after": after_entry, "before": settled_before}
        with snapshot(self._db):
            violations = [
                Violation(invariant, str(subject))
                for invariant, contradictions in CHECKS.items()
                for (subject,) in self._db.execute(contradictions, bounds)
            ]
            return Checked(violations, int(self._db.execute(NEWEST_ENTRY).get))

    def _write(self, statement: str, values: tuple[str | int, ...]) -> None:
        with transaction(self._db):
            self._db.execute(statement, values)

    async def _run(self, job: Callable[[], T]) -> T:
        try:
            async with self._lock, asyncio.timeout(AUDIT_S):
                return await asyncio.to_thread(job)
        except (apsw.Error, TimeoutError) as cause:
            raise ServiceUnavailable("The books cannot be read.") from cause
