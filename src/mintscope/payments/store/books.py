"""Stores the payment books, orphans and hourly values in SQL."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from mintscope.credits import invariants
from mintscope.credits.statements import BALANCE_IS_SUM
from mintscope.kit.audit import Actor, HourSeries, Series, UserId
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.primitives import Mint, Signature, UnixMs, Wallet
from mintscope.kit.sql.database import Database, DatabaseError, marks
from mintscope.kit.time import HOUR_MS, MINUTE_MS
from mintscope.payments.audit import Acknowledgement, DoubtKind, Orphan, Scan, ScanScope
from mintscope.payments.payment import Place, State, Takings, WalletSum
from mintscope.payments.ports import FeesAtRisk
from mintscope.payments.search import Kept, KeptPayment, Wanted
from mintscope.payments.store import purchases
from mintscope.payments.store.audit import (
    ENTRY_IS_PAID,
    ISSUED_IS_ENTERED,
    MOVES_CANCEL,
    PAID_IS_ENOUGH,
    Walk,
)

# The payments of one customer in SQL.
#
# Every statement names the user and finds the account and the wallets itself: a caller cannot ask
# for payments of an account that is not the user's.

ACCOUNT: Final = "(SELECT id FROM credit_account WHERE owner = ?1)"
WALLETS: Final = '(SELECT wallet FROM linked_wallet WHERE "user" = ?1)'
OLDER: Final = "(begun_at < ?2 OR (begun_at = ?2 AND signature < ?3))"
ORDER: Final = "ORDER BY begun_at DESC, signature DESC LIMIT ?4"

# The newest payments of a customer are among the newest of each of three kinds; each kind has an
# index.
OF_CUSTOMER: Final = f"""
WITH found (id) AS (
    SELECT id FROM (SELECT id FROM payment WHERE account IN {ACCOUNT} AND {OLDER} {ORDER}) AS bought
     UNION
    SELECT id FROM (SELECT id FROM payment WHERE holder IN {ACCOUNT} AND {OLDER} {ORDER}) AS held
     UNION
    SELECT id FROM (SELECT id FROM payment WHERE payer IN {WALLETS} AND {OLDER} {ORDER}) AS paid)
SELECT {purchases.COLUMNS} FROM found JOIN payment AS p ON p.id = found.id {purchases.JOINS}
 ORDER BY p.begun_at DESC, p.signature DESC LIMIT ?4
"""  # noqa: S608  constants
OF_WALLET: Final = f"""
SELECT {purchases.COLUMNS} FROM payment AS p {purchases.JOINS}
 WHERE p.payer = ?5 AND p.payer IN {WALLETS}
   AND (p.begun_at < ?2 OR (p.begun_at = ?2 AND p.signature < ?3))
 ORDER BY p.begun_at DESC, p.signature DESC LIMIT ?4
"""  # noqa: S608  constants
ONE_OF_CUSTOMER: Final = f"""
SELECT {purchases.COLUMNS} FROM payment AS p {purchases.JOINS}
 WHERE p.signature = ?2
   AND (p.account IN {ACCOUNT} OR p.holder IN {ACCOUNT} OR p.payer IN {WALLETS})
"""  # noqa: S608  constants
SUMS_OF_WALLETS: Final = f"""
SELECT payer, asset, credits, count(*), CAST(sum(paid) AS bigint), count(worth),
       CAST(coalesce(sum(worth), 0) AS bigint), max(begun_at)
  FROM payment
 WHERE state = 'issued' AND payer IN {WALLETS}
 GROUP BY payer, asset, credits ORDER BY payer, asset, credits
"""  # noqa: S608  constants


NOTE: Final = """
INSERT INTO orphan (signature, payer, amount, asset, bought, found_at) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT DO NOTHING
"""
SETTLED: Final = """
SELECT signature FROM orphan WHERE acknowledged_at IS NOT NULL AND signature IN ({marks})
"""
OPEN: Final = """
SELECT signature, payer, amount, asset, bought, found_at FROM orphan
 WHERE acknowledged_at IS NULL
   AND NOT EXISTS (SELECT 1 FROM payment WHERE payment.signature = orphan.signature)
 ORDER BY found_at, signature
"""
FIND: Final = """
SELECT acknowledged_at IS NOT NULL,
       EXISTS (SELECT 1 FROM payment WHERE payment.signature = orphan.signature)
  FROM orphan WHERE signature = ?
"""
ACKNOWLEDGE: Final = "UPDATE orphan SET acknowledged_at = ?2, note = ?3 WHERE signature = ?1"
TELL: Final = """
INSERT INTO account_event (at, actor, action, subject, detail)
VALUES (?, ?, 'acknowledged', ?, ?)
"""


T = TypeVar("T")

AUDIT_S: Final = 60.0  # time limit of a job, in seconds
DOUBT_MS_MIN: Final = MINUTE_MS  # the shortest time between two checks of a doubt
DOUBT_MS_MAX: Final = HOUR_MS
NEWEST_ENTRY: Final = "SELECT coalesce(max(id), 0) FROM credit_entry"
# The last entry that an audit has checked as new; the walk creates the row.
CHECKED: Final = "SELECT checked FROM audit_walk"
KEEP_CHECKED: Final = "UPDATE audit_walk SET checked = ?"
NEW_MAX: Final = 100_000  # entries; if more are new, only the walk checks them

# Each statement selects rows that contradict the books, whether they are new or old.
CHECKS: Final = {
    invariants.Invariant.LANDED_IS_ISSUED: """
SELECT signature FROM doubt JOIN payment USING (signature)
 WHERE kind = 'arrived' AND looks >= :looks AND last_at - first_at >= :span AND state <> 'issued'
""",
    invariants.Invariant.ISSUED_IS_FINAL: """
SELECT signature FROM doubt JOIN payment USING (signature)
 WHERE kind = 'issued' AND looks >= :looks AND last_at - first_at >= :span
   AND state = 'issued' AND final = 0
""",
}
# Each statement selects such rows of entries after :after; the walk in audit.py checks earlier
# entries.
CHECKS_OF_NEW: Final = {
    invariants.Invariant.ISSUED_IS_ENTERED: ISSUED_IS_ENTERED.format(which="p.entry > :after"),
    invariants.Invariant.ENTRY_IS_PAID: ENTRY_IS_PAID,
    invariants.Invariant.PAID_IS_ENOUGH: PAID_IS_ENOUGH.format(which="p.entry > :after"),
    invariants.Invariant.BALANCE_IS_SUM: BALANCE_IS_SUM,
    invariants.Invariant.MOVES_CANCEL: MOVES_CANCEL.format(which="m.onto_entry > :after"),
    invariants.Invariant.ROTATIONS_CANCEL: """
SELECT sum(delta) FROM credit_entry WHERE id > :after AND kind = 'rotate' HAVING sum(delta) <> 0
""",
}

SCAN: Final = "SELECT mark, head, cursor, finished_at FROM treasury_scan WHERE scope = ?"
KEEP_SCAN: Final = """
INSERT INTO treasury_scan (scope, mark, head, cursor, finished_at) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (scope) DO UPDATE
   SET mark = excluded.mark, head = excluded.head, cursor = excluded.cursor,
       finished_at = excluded.finished_at
"""

UNSETTLED: Final = """
SELECT signature FROM payment
 WHERE final = 0 AND state = 'issued' AND resolved_at < ? AND last_valid_height < ?
 ORDER BY resolved_at LIMIT ?
"""

# The time until the next check of a doubt is the age of the doubt, within the limits.
DOUBT: Final = f"""
INSERT INTO doubt (signature, kind, first_at, last_at, looks, look_at)
VALUES (?1, ?2, ?3, ?3, 1, ?3 + {DOUBT_MS_MIN})
    ON CONFLICT (signature) DO UPDATE
   SET kind = excluded.kind, last_at = excluded.last_at,
       looks = CASE WHEN doubt.kind = excluded.kind THEN doubt.looks + 1 ELSE 1 END,
       first_at = CASE WHEN doubt.kind = excluded.kind THEN doubt.first_at
                       ELSE excluded.last_at END,
       look_at = excluded.last_at
               + CASE WHEN excluded.last_at - doubt.first_at < {DOUBT_MS_MIN} THEN {DOUBT_MS_MIN}
                      WHEN excluded.last_at - doubt.first_at > {DOUBT_MS_MAX} THEN {DOUBT_MS_MAX}
                      ELSE excluded.last_at - doubt.first_at END
"""  # noqa: S608  constants

SETTLE: Final = """
DELETE FROM doubt WHERE EXISTS (
    SELECT 1 FROM payment AS p WHERE p.signature = doubt.signature
       AND CASE doubt.kind WHEN 'arrived' THEN p.state = 'issued'
                           ELSE p.state <> 'issued' OR p.final = 1 END)
"""
DUE: Final = "SELECT signature FROM doubt WHERE kind = 'arrived' AND look_at <= ? LIMIT ?"
DISMISS: Final = "DELETE FROM doubt WHERE signature = ?"

# The first reason is kept, because later ones may only be consequences.
STOP_SALES: Final = "INSERT INTO sales_stop (id, at, why) VALUES (1, ?, ?) ON CONFLICT DO NOTHING"
RESUME_SALES: Final = "DELETE FROM sales_stop"
WHY_STOPPED: Final = "SELECT why FROM sales_stop"
PENDING: Final = "SELECT count(*), min(begun_at) FROM payment WHERE state = 'pending'"

FUND_MARK: Final = "SELECT coalesce(max(resolved), 0) FROM payment"
# A payment that was resolved after the mark may have paid its fee after the balance was read.
# SQLite needs the WHERE: after a SELECT without it, ON CONFLICT is parsed as a condition of a join.
FILL_FUND: Final = """
INSERT INTO fee_fund (id, lamports)
SELECT 1, ?1 - (SELECT coalesce(sum(fee_lamports), 0) FROM payment WHERE state = 'pending')
             - (SELECT coalesce(sum(fee_lamports), 0) FROM payment WHERE resolved > ?2)
 WHERE 1 = 1
    ON CONFLICT (id) DO UPDATE SET lamports = excluded.lamports
"""
FUND: Final = "SELECT lamports FROM fee_fund"


class SqlPaymentBooks:
    """Stores the payment books in SQL; runs one job at a time, in a thread."""

    def __init__(
        self, database: Database, *, is_auditor: Callable[[], bool] = lambda: True
    ) -> None:
        self._is_auditor = is_auditor
        self._db = database
        self._walk = Walk(self._db)
        self._lock = asyncio.Lock()
        self._running: asyncio.Task[Any] | None = None

    async def check(self, *, after_entry: int | None) -> invariants.Checked:
        """Return the violations among doubts and new journal entries, as of one moment.

        after_entry   entries after this number are new; None: after the number that was stored last
        """
        return await self._run(lambda: self._check(after_entry))

    async def prove(self, *, now: UnixMs, begins: bool) -> invariants.Proven:
        """Continue the check of all books by one part."""
        return await self._run(lambda: self._walk.step(now, begins=begins))

    async def walked(self) -> invariants.Walked:
        """Return the size of the books, the time of their last full check, and the closed month."""
        return await self._run(self._walk.read)

    async def forget_spends(self, *, now: UnixMs, kept_months: int) -> bool:
        """Delete some spends of old closed months; return whether more may remain."""
        return await self._run(lambda: self._walk.months.forget(now, kept_months))

    async def scan(self, scope: ScanScope, asset: Mint | None = None) -> Scan | None:
        """Return the progress of a scan of the treasury's history; None if it has not begun.

        scope    the scan of the new transactions, or of the whole history
        asset    the token of the scanned treasury account; None: the payment token
        """
        row = await self._run(
            lambda: self._db.execute(SCAN, (_scan_name(scope, asset),)).fetchone()
        )
        return None if row is None else Scan(*row)

    async def keep_scan(self, scope: ScanScope, scan: Scan, asset: Mint | None = None) -> None:
        """Store *scan* as the progress of a scan of the treasury's history.

        scope    the scan of the new transactions, or of the whole history
        asset    the token of the scanned treasury account; None: the payment token
        """
        values = (_scan_name(scope, asset), scan.mark, scan.head, scan.cursor, scan.finished_at)
        await self._write(KEEP_SCAN, values)

    async def unsettled(
        self, *, before: UnixMs, height: int, count_max: int
    ) -> Sequence[Signature]:
        """Return up to *count_max* issued payments that should be final, but are not."""
        return await self._run(lambda: self._signatures(UNSETTLED, (before, height, count_max)))

    async def doubt(self, kind: DoubtKind, signatures: Sequence[Signature], *, now: UnixMs) -> None:
        """Record that *signatures* are still in doubt, then delete all doubts that are resolved.

        If *signatures* is empty, do nothing.
        """
        if signatures:
            rows = [(signature, kind, now) for signature in signatures]
            await self._change(lambda: self._settle(DOUBT, rows))

    async def doubts(self, *, now: UnixMs, count_max: int) -> Sequence[Signature]:
        """Return up to *count_max* transactions of the treasury whose check is due.

        They touched the treasury, but no payment is issued for them (DoubtKind.ARRIVED).
        """
        return await self._run(lambda: self._signatures(DUE, (now, count_max)))

    async def dismiss(self, signatures: Sequence[Signature]) -> None:
        """Delete all doubts about *signatures*, and all other doubts that are resolved."""
        rows = [(signature,) for signature in signatures]
        await self._change(lambda: self._settle(DISMISS, rows))

    async def stop_sales(self, *, now: UnixMs, why: str) -> None:
        """Stop sales until an operator resumes them; keep the reason of an earlier stop."""
        await self._write(STOP_SALES, (now, why))

    async def resume_sales(self) -> None:
        """Reopen sales; only call this once the cause of the stop is understood."""
        await self._write(RESUME_SALES, ())

    async def why_stopped(self) -> str | None:
        """Return the reason why sales are stopped; None if sales are open."""
        why: str | None = await self._run(lambda: self._db.execute(WHY_STOPPED).get)
        return why

    async def is_auditor(self) -> bool:
        """Return whether this process is the one that audits the books."""
        return await self._run(self._is_auditor)

    async def fund_mark(self) -> int:
        """Return the number of the latest change to any payment's state.

        Read this number before the fee payer's balance, and pass both to `fill_fund`, which then
        knows the fees that the balance does not show yet.
        """
        return int(await self._run(lambda: self._db.execute(FUND_MARK).get))

    async def fill_fund(self, lamports: int, *, mark: int) -> None:
        """Store the fee payer's balance, less the fees reserved for pending payments.

        lamports    the whole balance, read after `fund_mark` was called
        mark        the result of `fund_mark`: fees of payments resolved later are subtracted, too
        """
        await self._write(FILL_FUND, (lamports, mark))

    async def fund(self) -> int | None:
        """Return the fee payer's lamports, less the fees reserved for pending payments.

        Return None before the first check of the balance.
        """
        lamports: int | None = await self._run(lambda: self._db.execute(FUND).get)
        return lamports

    async def fees_at_risk(self, *, now: UnixMs) -> FeesAtRisk:
        """Return the network fees of payments that reverted in the last hour, or are pending."""
        return await self._run(lambda: purchases.Budgets(self._db).fees_at_risk(now))

    async def pending(self) -> tuple[int, UnixMs | None]:
        """Return the number of pending payments, and the time when the oldest began, if any."""
        count, oldest = await self._run(lambda: self._db.execute(PENDING).get)
        return count, None if oldest is None else UnixMs(oldest)

    async def note_orphans(self, orphans: Sequence[Orphan]) -> Sequence[Signature]:
        """Store those of *orphans* that are not stored yet, and leave the others unchanged.

        Return the signatures of those of *orphans* that an operator has settled.
        """
        return await self._change(lambda: self._note_orphans(orphans))

    async def orphans(self) -> Sequence[Orphan]:
        """Return the orphans that are not settled and still have no payment row."""
        return await self._run(lambda: [Orphan(*row) for row in self._db.execute(OPEN)])

    async def acknowledge(
        self, signature: Signature, *, note: str, by: Actor, now: UnixMs
    ) -> Acknowledgement:
        """Settle an orphan permanently, so that it is no violation any more.

        This is refused if it is already settled, or if the payment has a row.

        note    the operator's reason, which is stored
        """
        return await self._change(lambda: self._acknowledge(signature, note, by, now))

    async def search(self, wanted: Wanted) -> Kept:
        """Return the payments and orphans that match a support search, newest first."""
        return await self._run(lambda: self._searched(wanted))

    async def newest(
        self, state: State | None, before: Place | None, limit: int
    ) -> Sequence[KeptPayment]:
        """Return up to *limit* payments in *state* (None: any), newest first.

        before   the last payment of the previous page: only older ones are returned; None: all
        """
        values = (*(before or purchases.LATEST), limit)
        return await self._kept(purchases.newest(state), values)

    async def takings(self, since: UnixMs) -> Sequence[Takings]:
        """Return the income by day, asset and bundle since *since*, newest day first.

        Only issued payments that began at *since* or later count.
        """
        return await self._run(
            lambda: [Takings(*row) for row in self._db.execute(purchases.TAKINGS, (since,))]
        )

    async def of_customer(
        self, user_id: UserId, before: Place | None, limit: int
    ) -> Sequence[KeptPayment]:
        """Return up to *limit* payments of a user, newest first, older than *before* (None: all).

        These are payments for credits of the user's account, payments whose credits were moved
        there, and payments of linked wallets.
        """
        return await self._kept(OF_CUSTOMER, (user_id, *(before or purchases.LATEST), limit))

    async def of_wallet(
        self, user_id: UserId, wallet: Wallet, before: Place | None, limit: int
    ) -> Sequence[KeptPayment]:
        """Return up to *limit* payments of *wallet*, newest first, older than *before* (None: all).

        The result is empty if *wallet* is not linked to the user.
        """
        return await self._kept(OF_WALLET, (user_id, *(before or purchases.LATEST), limit, wallet))

    async def one_of_customer(self, user_id: UserId, signature: Signature) -> KeptPayment | None:
        """Return a payment of the user; None if no payment of this user has *signature*."""
        return next(iter(await self._kept(ONE_OF_CUSTOMER, (user_id, signature))), None)

    async def sums_of_wallets(self, user_id: UserId) -> Sequence[WalletSum]:
        """Return the sum that each linked wallet of a user paid, by asset and bundle.

        The sums are ordered by wallet, asset and bundle.  Only issued payments count; answers count
        as a bundle of 0 credits.
        """
        return await self._run(
            lambda: [WalletSum(*row) for row in self._db.execute(SUMS_OF_WALLETS, (user_id,))]
        )

    async def close(self) -> None:
        """Close the database after every job has ended; a cancelled job continues in its thread.

        If a job runs longer than AUDIT_S, return, and close the database when the job ends.
        """
        await self._end_running()
        if self._running is None or self._running.done():
            self._db.close()
        else:
            self._running.add_done_callback(self._close_after)

    def _close_after(self, ended: asyncio.Future[Any]) -> None:
        # The end of the event loop cancels the task, while its thread uses the database.
        if not ended.cancelled():
            self._db.close()

    def _check(self, after_entry: int | None) -> invariants.Checked:
        # Entries that cancel out are written together, under the write lock.  So under that lock
        # the journal has both of them or neither.
        with self._db.transaction():
            newest = int(self._db.execute(NEWEST_ENTRY).get)
            if after_entry is None:  # the first check of this process continues after the last one
                after_entry = self._db.execute(CHECKED).get or None
            else:
                # The end of the previous check: this check may still fail, and is then repeated.
                self._db.execute(KEEP_CHECKED, (after_entry,))
        bounds = {
            "after": after_entry,
            "looks": invariants.DOUBTED_LOOKS,
            "span": invariants.SETTLED_AFTER_MS,
        }
        with self._db.snapshot():
            is_read = after_entry is not None and newest - after_entry <= NEW_MAX
            checks = CHECKS | CHECKS_OF_NEW if is_read else CHECKS
            violations = [
                invariants.Violation(invariant, str(subject))
                for invariant, contradictions in checks.items()
                for (subject,) in self._db.execute(contradictions, bounds)
            ]
            return invariants.Checked(violations, newest)

    def _note_orphans(self, orphans: Sequence[Orphan]) -> list[Signature]:
        for each in orphans:
            row = (each.signature, each.payer, each.amount, each.asset, each.bought, each.found_at)
            self._db.execute(NOTE, row)
        names = [each.signature for each in orphans]
        return self._signatures(SETTLED.format(marks=marks(names)), names)

    def _acknowledge(
        self, signature: Signature, note: str, by: Actor, now: UnixMs
    ) -> Acknowledgement:
        found = self._db.execute(FIND, (signature,)).fetchone()
        if found is None:
            return Acknowledgement.UNKNOWN
        is_settled, has_row = found
        if is_settled:
            return Acknowledgement.DONE_BEFORE
        if has_row:
            return Acknowledgement.HAS_ROW
        self._db.execute(ACKNOWLEDGE, (signature, now, note))
        detail = msgspec.json.encode({"note": note}).decode()
        self._db.execute(TELL, (now, by, f"payment:{signature}", detail))
        return Acknowledgement.DONE

    def _searched(self, wanted: Wanted) -> Kept:
        with self._db.snapshot():
            return purchases.search(self._db, wanted)

    def _signatures(self, statement: str, values: Sequence[object]) -> list[Signature]:
        return [Signature(str(found)) for (found,) in self._db.execute(statement, values)]

    def _settle(self, statement: str, rows: Sequence[tuple[str | int, ...]]) -> None:
        self._db.executemany(statement, rows)
        self._db.execute(SETTLE)

    async def _kept(self, statement: str, values: tuple[str | int, ...]) -> Sequence[KeptPayment]:
        return await self._run(
            lambda: [purchases.kept_payment(row) for row in self._db.execute(statement, values)]
        )

    async def _end_running(self) -> None:
        if self._running is not None:
            await asyncio.wait([self._running], timeout=AUDIT_S)

    async def _write(self, statement: str, values: tuple[str | int | None, ...]) -> None:
        await self._change(lambda: self._db.execute(statement, values))

    async def _change(self, job: Callable[[], T]) -> T:
        def changed() -> T:
            with self._db.transaction():
                return job()

        return await self._run(changed)

    async def _run(self, job: Callable[[], T]) -> T:
        try:
            async with self._lock, asyncio.timeout(AUDIT_S):
                await self._end_running()
                running = self._running = asyncio.create_task(asyncio.to_thread(job))
                running.add_done_callback(_look_at)
                # A thread cannot be cancelled: the next job waits until it has ended.
                return await asyncio.shield(running)
        except (DatabaseError, TimeoutError) as cause:
            raise ServiceUnavailable("The books cannot be read.") from cause


def _look_at(ended: asyncio.Task[Any]) -> None:
    """Retrieve the error of an abandoned job, so that it is not logged."""
    if not ended.cancelled():
        ended.exception()


def _scan_name(scope: ScanScope, asset: Mint | None) -> str:
    return scope if asset is None else f"{scope}:{asset}"


REPLACE: Final = """
INSERT INTO operation_hour (hour, series, value) VALUES (?1, ?2, ?3)
    ON CONFLICT (hour, series) DO UPDATE SET value = excluded.value
"""
ADD: Final = f"{REPLACE} + operation_hour.value"
RAISE: Final = f"{REPLACE} WHERE operation_hour.value < excluded.value"
KEPT_BY: Final[dict[Series, str]] = {HourSeries.LAG_MS: RAISE, HourSeries.FUND: REPLACE}
SINCE: Final = "SELECT series, hour, value FROM operation_hour WHERE hour >= ?"


class SqlHourRows:
    """Stores hourly values of the service, each under the name of a series, in one transaction."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def add(self, hour: int, values: Mapping[Series, int]) -> None:
        """Add *values* to those of *hour*; but keep the highest LAG_MS, and the newest FUND."""
        for series, value in sorted(values.items()):
            self._db.execute(KEPT_BY.get(series, ADD), (hour, str(series), value))

    def since(self, hour: int) -> Mapping[Series, Mapping[int, int]]:
        """Return the values of *hour* and all later hours, by series, then by hour."""
        found: dict[Series, dict[int, int]] = defaultdict(dict)
        for series, at, value in self._db.execute(SINCE, (hour,)):
            found[str(series)][int(at)] = int(value)
        return found

    def purge(self, before: int) -> None:
        """Delete the values of all hours before *before*."""
        self._db.execute("DELETE FROM operation_hour WHERE hour < ?", (before,))
