"""Closes months of the journal, in order; every later check of all books checks these months.

    closing    store the sums of each account and API key as rows of the month, if the opening
               balance of each account plus its entries equals its closing balance
    months     check that the rows of each closed month still add up, and agree with the journal

The hash of each row includes the hash of the row before it, across months.  So the next check
detects a change of the rows of a closed month, unless its hash and those of all later months are
replaced, too.  Once a month is closed, its spends may be deleted.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from hashlib import sha256
from typing import Final, NamedTuple

import structlog

from mintscope.credits.invariants import Invariant, Violation
from mintscope.kit.primitives import UnixMs
from mintscope.kit.sql.database import Batch, Database, Row
from mintscope.kit.time import DAY_MS, MONTHS, Month, month_of

# Spends remain at least this long after a close: within this time operators can return to the
# previous version, which needs every spend.
KEPT_AT_LEAST_MS: Final = 7 * DAY_MS

# The balance of an account at the last close; NULL if the account had no entry before it.
CLOSED_BALANCE: Final = """
(SELECT closed.balance FROM closed_balance AS closed
  WHERE closed.account = {account} AND closed.month <= :closed
  ORDER BY closed.month DESC LIMIT 1)
"""
LAST_CLOSED: Final = """
SELECT month, last_entry, rotated, frozen, hash FROM closed_month ORDER BY month DESC LIMIT 1
"""

# Locks the row of the walk; selects no row if another process has continued the walk meanwhile.
HELD: Final = """
SELECT hash FROM audit_walk WHERE number = ? AND stage = ? AND place = ? /* FOR UPDATE */
"""
GO_ON: Final = "UPDATE audit_walk SET stage = ?, place = ?, hash = ?, month = ?"

UNTIL: Final = """
SELECT max({id}) FROM (SELECT {id} FROM {table} WHERE {id} > ? ORDER BY {id} LIMIT ?) AS next
"""
UNTIL_BALANCE: Final = UNTIL.format(id="account", table="audit_balance")
UNTIL_KEY: Final = UNTIL.format(id="api_key", table="audit_key_month")
# Deletes rows that a close of the same month stored before it was interrupted.
CLEAR_BALANCES: Final = """
DELETE FROM closed_balance WHERE month = :month AND account > :after AND account <= :until
"""
CLEAR_KEYS: Final = """
DELETE FROM closed_key WHERE closed_in = :month AND api_key > :after AND api_key <= :until
"""
TO_CLOSE: Final = f"""
SELECT account, received, spent, spend_count, first_entry, last_entry, balance,
       coalesce({CLOSED_BALANCE.format(account="kept.account")}, 0)
  FROM audit_balance AS kept
 WHERE walk = :walk AND account > :after AND account <= :until ORDER BY account
"""  # noqa: S608 - a constant
KEYS_TO_CLOSE: Final = """
SELECT api_key, month, credits FROM audit_key_month
 WHERE walk = :walk AND api_key > :after AND api_key <= :until ORDER BY api_key, month
"""
BALANCES: Final = Batch(
    "closed_balance",
    dict.fromkeys(
        (
            *("month", "account", "received", "spent", "spend_count"),
            *("first_entry", "last_entry", "balance"),
        ),
        "bigint",
    ),
)
KEYS: Final = Batch(
    "closed_key", dict.fromkeys(("closed_in", "api_key", "month", "credits"), "bigint")
)
CLOSE: Final = """
INSERT INTO closed_month (month, last_entry, rotated, frozen, hash, closed_at)
VALUES (?, ?, ?, ?, ?, ?)
"""

NEXT_MONTH: Final = "SELECT min(month) FROM closed_month WHERE month > ?"
CLOSED_AS: Final = """
SELECT last_entry, rotated, frozen, hash,
       (SELECT coalesce(max(b.last_entry), 0) FROM closed_month AS b WHERE b.month < m.month)
  FROM closed_month AS m WHERE month = ?
"""
CLOSED_ROWS: Final = """
SELECT c.account, c.received, c.spent, c.spend_count, c.first_entry, c.last_entry, c.balance,
       coalesce((SELECT earlier.balance FROM closed_balance AS earlier
                  WHERE earlier.account = c.account AND earlier.month < :month
                  ORDER BY earlier.month DESC LIMIT 1), 0),
       (SELECT CAST(coalesce(sum(e.delta), 0) AS bigint) FROM credit_entry AS e
         WHERE e.account = c.account AND e.kind <> 'spend' AND e.id > :first AND e.id <= :last)
  FROM closed_balance AS c WHERE c.month = :month AND c.account > :after
 ORDER BY c.account LIMIT :rows
"""
# `kind <> 'spend'` is implied, but without it SQLite would not use the index of the entries other
# than spends.
CLOSED_UNPAID: Final = """
SELECT e.id FROM closed_balance AS c
  JOIN credit_entry AS e ON e.account = c.account AND e.kind <> 'spend'
   AND e.id > :first AND e.id <= :last AND e.kind IN ('payment', 'top_up')
  LEFT JOIN payment AS p ON p.entry = e.id
 WHERE c.month = :month AND c.account > :after AND c.account <= :until
   AND (p.id IS NULL OR p.state NOT IN ('issued', 'frozen'))
"""
CLOSED_KEYS: Final = """
SELECT api_key, month, credits FROM closed_key
 WHERE closed_in = :month AND api_key > :after AND api_key <= :until ORDER BY api_key, month
"""
UNTIL_CLOSED_KEY: Final = """
SELECT max(api_key) FROM (
    SELECT api_key FROM closed_key WHERE closed_in = ? AND api_key > ?
     ORDER BY api_key LIMIT ?) AS next
"""

# Selects the last entry up to which spends can be deleted; spends that are not yet added up by day
# are not deleted.  The newest entry is never deleted, because SQLite would reuse its number.
FORGETTABLE: Final = """
SELECT min(entry) FROM (
    SELECT coalesce(max(last_entry), 0) AS entry FROM closed_month
     WHERE month < :month AND closed_at < :closed_before
     UNION ALL SELECT entry FROM credit_day_mark
     UNION ALL SELECT entry FROM usage_day_mark
     UNION ALL SELECT coalesce(max(id), 0) - 1 FROM credit_entry) AS bounds
"""
FORGOTTEN: Final = "SELECT forgotten FROM audit_walk /* FOR UPDATE */"
NEXT_ENTRIES: Final = """
SELECT max(id) FROM (
    SELECT id FROM credit_entry WHERE id > ? AND id <= ? ORDER BY id LIMIT ?) AS next
"""
FORGET: Final = "DELETE FROM credit_entry WHERE id > ? AND id <= ? AND kind = 'spend'"
FORGET_UNTIL: Final = "UPDATE audit_walk SET forgotten = ?"

log = structlog.get_logger()


class Close(NamedTuple):
    """The state of the books at the end of a closed month.

    last_entry   the last journal entry of the month
    rotated      the sum of the entries of rotations up to *last_entry*
    frozen       the sum of the entries of freezes and thaws up to *last_entry*
    hash         the hash of the other fields, and of all rows of this and of earlier months
    """

    month: int
    last_entry: int
    rotated: int
    frozen: int
    hash: bytes


NOTHING: Final = Close(0, 0, 0, 0, bytes(32))


class Stage(StrEnum):
    """A stage of the check of all books; the module `payments.store.audit` describes the stages."""

    JOURNAL = "journal"
    CLOSING = "closing"
    CLOSING_KEYS = "closing_keys"
    MOVES = "moves"
    PAYMENTS = "payments"
    ACCOUNTS = "accounts"
    KEYS = "keys"
    MONTHS = "months"
    MONTH_KEYS = "month_keys"
    FINISHED = "finished"


class At(NamedTuple):
    """The row of the table audit_walk: the position of the check of all books."""

    number: int
    stage: str
    place: int
    entry: int
    rotated: int
    frozen: int
    finished_at: UnixMs | None
    summed: int
    month: int
    hash: bytes


def last_close(db: Database) -> Close:
    """Return the newest closed month; NOTHING if no month is closed."""
    row = db.execute(LAST_CLOSED).fetchone()
    return NOTHING if row is None else Close(*row)


def chained(before: bytes, kind: str, rows: Iterable[Sequence[object]]) -> bytes:
    """Return the hash of the last of *rows*; each hash includes the one before it.

    before   the hash before the first of *rows*; the result if there are no rows
    kind     the kind of the rows: balance, key or month
    """
    for row in rows:
        before = sha256(before + f"{kind}:{','.join(map(str, row))}".encode()).digest()
    return before


def hash_of(before: bytes, close: Close) -> bytes:
    """Return the hash of a closed month, at the end of the hash chain of its rows.

    before   the hash of the last row of the month
    close    the month's totals
    """
    return chained(before, "month", [close[:4]])


class ClosedMonths:
    """Closes months over one connection, checks closed months, and deletes old spends."""

    def __init__(self, db: Database, *, rows_a_part: int) -> None:
        self._db = db
        self._rows = rows_a_part

    def add_balances(self, at: At, last: Close) -> tuple[list[Violation], bool]:
        """Add up the next accounts of the month that is being closed, and store their sums.

        If no account is left, the next stage is CLOSING_KEYS.  Return the violations, and whether
        the month can still be closed: it cannot if the entries of an account contradict its
        balance.

        last     the newest closed month
        """
        with self._db.transaction(beside=True):
            # Without the write lock: HELD locks the row of the walk.
            held = self._db.execute(HELD, at[:3]).fetchone()
            if held is None:
                return [], True  # another process has stored these accounts
            until = self._db.execute(UNTIL_BALANCE, (at.place, self._rows)).get
            if until is None:
                self._db.execute(GO_ON, (Stage.CLOSING_KEYS, 0, held[0], at.month))
                return [], True
            bounds = {"month": at.month, "after": at.place, "until": until}
            rows = list(
                self._db.execute(TO_CLOSE, {**bounds, "walk": at.number, "closed": last.month})
            )
            if wrong := [row[0] for row in rows if not adds_up(row)]:
                return [Violation(Invariant.BALANCE_IS_SUM, f"{each}") for each in wrong], False
            self._db.execute(CLEAR_BALANCES, bounds)
            self._db.executemany(BALANCES, [(at.month, *row[:7]) for row in rows])
            now = chained(held[0], "balance", (row[:7] for row in rows))
            self._db.execute(GO_ON, (at.stage, until, now, at.month))
        return [], True

    def add_keys(self, at: At) -> bytes | None:
        """Store the spends of the next API keys for the month that is being closed.

        If no key was left, return the hash of the month's last row; otherwise None.
        """
        with self._db.transaction(beside=True):
            held = self._db.execute(HELD, at[:3]).fetchone()
            if held is None:
                return None
            until = self._db.execute(UNTIL_KEY, (at.place, self._rows)).get
            if until is None:
                return bytes(held[0])
            bounds = {"month": at.month, "after": at.place, "until": until}
            rows = list(self._db.execute(KEYS_TO_CLOSE, {**bounds, "walk": at.number}))
            self._db.execute(CLEAR_KEYS, bounds)
            self._db.executemany(KEYS, [(at.month, *row) for row in rows])
            now = chained(held[0], "key", rows)
            self._db.execute(GO_ON, (at.stage, until, now, at.month))
        return None

    def close(self, close: Close, at: UnixMs) -> None:
        """Store *close*, the totals of a closed month, in the current transaction."""
        self._db.execute(CLOSE, (*close, at))
        log.info("month_closed", month=name_of(close.month), last_entry=close.last_entry)

    def compare_balances(self, at: At) -> list[Violation]:
        """Compare the stored sums of the next accounts of a closed month with the journal.

        Also check that a payment made each purchase in the journal.  If no account is left, the
        next stage is MONTH_KEYS.  Return the violations.
        """
        last_entry, _, _, _, first = self._db.execute(CLOSED_AS, (at.month,)).get
        bounds = {"month": at.month, "after": at.place, "first": first, "last": last_entry}
        with self._db.snapshot():
            rows = list(self._db.execute(CLOSED_ROWS, {**bounds, "rows": self._rows}))
            until = rows[-1][0] if rows else at.place
            unpaid = list(self._db.execute(CLOSED_UNPAID, {**bounds, "until": until}))
        if not rows:
            self._go_on(Stage.MONTH_KEYS, 0, at.hash, at.month)
            return []
        now = chained(at.hash, "balance", (row[:7] for row in rows))
        self._go_on(at.stage, until, now, at.month)
        # row[1] has the credits received in the month as stored, row[8] as the journal has them.
        wrong = [row[0] for row in rows if not adds_up(row) or row[8] != row[1]]
        return [
            *(Violation(Invariant.BALANCE_IS_SUM, f"{account}") for account in wrong),
            *(Violation(Invariant.ENTRY_IS_PAID, f"{entry}") for (entry,) in unpaid),
        ]

    def compare_keys(self, at: At) -> list[Violation]:
        """Hash the rows of the next API keys of a month; after the last, check the month's hash.

        After the hash was checked, continue with the next closed month.  Return the violations.
        """
        until = self._db.execute(UNTIL_CLOSED_KEY, (at.month, at.place, self._rows)).get
        if until is not None:
            bounds = {"month": at.month, "after": at.place, "until": until}
            rows = list(self._db.execute(CLOSED_KEYS, bounds))
            self._go_on(at.stage, int(until), chained(at.hash, "key", rows), at.month)
            return []
        last_entry, rotated, frozen, kept, _ = self._db.execute(CLOSED_AS, (at.month,)).get
        self.begin_after(at.month, kept)
        # `hash_of` does not read the last field, the hash itself.
        if hash_of(at.hash, Close(at.month, last_entry, rotated, frozen, b"")) == kept:
            return []
        return [Violation(Invariant.MONTHS_ARE_CHAINED, name_of(at.month))]

    def begin_after(self, month: int, before: bytes) -> None:
        """Continue the check with the next closed month after *month*.

        If there is none, the next stage is MONTH_KEYS of month 0, which ends the check.

        before   the hash of *month*, at the end of its chain of hashes
        """
        following = self._db.execute(NEXT_MONTH, (month,)).get
        if following is None:
            self._go_on(Stage.MONTH_KEYS, 0, b"", 0)
        else:
            self._go_on(Stage.MONTHS, 0, before, int(following))

    def forget(self, now: UnixMs, kept_months: int) -> bool:
        """Delete some spends of closed months; return whether more may remain.

        Only months that are more than *kept_months* months before *now*, and that were closed more
        than 7 days before *now*, lose spends.
        """
        bounds = {"month": month_of(now) - kept_months, "closed_before": now - KEPT_AT_LEAST_MS}
        with self._db.transaction(beside=True):
            forgotten = self._db.execute(FORGOTTEN).get
            if forgotten is None:
                return False
            last = int(self._db.execute(FORGETTABLE, bounds).get)
            until = self._db.execute(NEXT_ENTRIES, (forgotten, last, self._rows)).get
            if until is None:
                return False
            self._db.execute(FORGET, (forgotten, until))
            self._db.execute(FORGET_UNTIL, (until,))
        return True

    def _go_on(self, stage: str, place: int, before: bytes, month: int) -> None:
        with self._db.transaction(beside=True):
            self._db.execute(GO_ON, (stage, place, before, month))


def adds_up(row: Row) -> bool:
    """Return whether opening balance + credits received - credits spent = balance in *row*."""
    received = row[1]
    spent = row[2]
    balance = row[6]
    opening = row[7]
    return bool(opening + received - spent == balance)


def name_of(month: int) -> str:
    """Return the name of *month*, such as 2026-11."""
    year, number = divmod(Month(month), MONTHS)
    return f"{year}-{number + 1:02d}"
