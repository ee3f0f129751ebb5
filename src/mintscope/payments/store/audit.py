"""Audit of the books in SQL.

A walk is one check of all books.  It is made in parts, and has these stages:

    journal    each entry continues the previous balance of its account; balances, spends of keys,
               and rotated and frozen credits are added up
    closing    a month that has ended is closed with these sums; later walks begin after it
    moves      credits that a user moved have left one account and reached the other
    payments   each issued payment has its entry
    accounts   each balance equals the sums plus the later entries of the journal
    keys       the stored spends of each API key in each month equal the sums, too
    months     the rows of each closed month are unchanged since it was closed

Each statement reads a part of limited size, however old the books are: the sums are kept in tables
of the walk.  The newest minutes of the journal are read directly, because an entry may become
visible after others with higher numbers.

The first statements below select rows that contradict the books: entries of the journal after the
entry `:after`, or payments or moves that meet the condition `which`.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Final

from mintscope.credits import closing
from mintscope.credits.closing import At, Stage
from mintscope.credits.invariants import Invariant, Proven, Violation, Walked
from mintscope.credits.statements import FOLD_TO
from mintscope.kit.metrics import AUDIT_ENTRIES_LEFT, AUDITED_AT
from mintscope.kit.primitives import UnixMs
from mintscope.kit.sql.database import Database
from mintscope.kit.time import MINUTE_MS, Month, month_end, month_of

ISSUED_IS_ENTERED: Final = """
SELECT p.signature FROM payment AS p LEFT JOIN credit_entry AS e ON e.id = p.entry
 WHERE {which} AND p.credits > 0 AND p.state = 'issued'
   AND (e.id IS NULL OR e.delta <> p.credits
        OR e.kind <> CASE WHEN p.token_hash IS NULL THEN 'top_up' ELSE 'payment' END
        OR (e.account <> p.account AND e.account NOT IN (
            WITH RECURSIVE successors (id) AS (
                SELECT successor FROM credit_account WHERE id = p.account AND p.token_hash IS NULL
                 UNION
                SELECT a.successor FROM successors JOIN credit_account AS a ON a.id = successors.id)
            SELECT id FROM successors WHERE id IS NOT NULL)))
"""
PAID_IS_ENOUGH: Final = """
SELECT p.signature FROM payment AS p WHERE {which} AND p.state = 'issued' AND p.paid < p.amount
"""
ENTRY_IS_PAID: Final = """
SELECT e.id FROM credit_entry AS e LEFT JOIN payment AS p ON p.entry = e.id
 WHERE e.id > :after AND e.kind IN ('payment', 'top_up')
   AND (p.id IS NULL OR p.state NOT IN ('issued', 'frozen'))
"""
MOVES_CANCEL: Final = """
SELECT m.id FROM credit_move AS m
  JOIN credit_entry AS off_ ON off_.id = m.off_entry
  JOIN credit_entry AS onto_ ON onto_.id = m.onto_entry
 WHERE {which}
   AND (off_.kind <> 'rotate' OR onto_.kind <> 'rotate' OR off_.delta >= 0
        OR off_.delta + onto_.delta <> 0)
"""


# The most rows, and the most API keys, that a part of the walk reads.  A part takes about 25 ms on
# SQLite, and other writers wait meanwhile.
ROWS_A_PART: Final = 5_000
KEYS_A_PART: Final = 500
SETTLED_MS: Final = 2 * MINUTE_MS

BEGIN: Final = """
INSERT INTO audit_walk (id, number, stage, entry, summed, rotated, frozen, began_at)
VALUES (1, 1, 'journal', :entry, :entry, :rotated, :frozen, :now)
    ON CONFLICT (id) DO UPDATE
   SET number = audit_walk.number + 1, stage = 'journal', entry = excluded.entry,
       summed = excluded.summed, place = 0, rotated = excluded.rotated, frozen = excluded.frozen,
       began_at = excluded.began_at
"""
STATE: Final = """
SELECT number, stage, place, entry, rotated, frozen, finished_at, summed, month, hash
  FROM audit_walk
"""
ENTRY: Final = "SELECT entry FROM audit_walk WHERE number = ? /* FOR UPDATE */"
NEWEST: Final = "SELECT coalesce(max(id), 0) FROM credit_entry"
NEWEST_ACCOUNT: Final = "SELECT coalesce(max(id), 0) FROM credit_account"
FIRST_AT: Final = "SELECT at FROM credit_entry WHERE id > ? ORDER BY id LIMIT 1"
GO_TO: Final = "UPDATE audit_walk SET stage = ?, place = ?"
FINISH: Final = "UPDATE audit_walk SET stage = 'finished', place = 0, finished_at = ?"

# The balance before a part is looked up for each account: for a join, PostgreSQL may read all.
CONTINUES: Final = f"""
SELECT part.account FROM (
    SELECT id, account, delta, balance, lag(balance) OVER account_entries AS before
      FROM credit_entry WHERE id > :after AND id <= :until
    WINDOW account_entries AS (PARTITION BY account ORDER BY id)) AS part
 WHERE part.balance <> part.delta + coalesce(
       part.before,
       (SELECT kept.balance FROM audit_balance AS kept
         WHERE kept.account = part.account AND kept.walk = :walk),
       {closing.CLOSED_BALANCE.format(account="part.account")}, 0)
"""  # noqa: S608 - a constant
# The join repeats the bounds of the part, without which PostgreSQL may read the whole journal.
KEEP_BALANCES: Final = """
INSERT INTO audit_balance (account, walk, balance, received, spent, spend_count, first_entry,
                           last_entry)
SELECT part.account, :walk, entry.balance, part.received, part.spent, part.spend_count,
       part.first_entry, part.last_entry
  FROM (SELECT account, min(id) AS first_entry, max(id) AS last_entry,
               coalesce(sum(delta) FILTER (WHERE kind <> 'spend'), 0) AS received,
               -coalesce(sum(delta) FILTER (WHERE kind = 'spend'), 0) AS spent,
               count(*) FILTER (WHERE kind = 'spend') AS spend_count
          FROM credit_entry WHERE id > :after AND id <= :until GROUP BY account) AS part
  JOIN credit_entry AS entry ON entry.id = part.last_entry
 WHERE entry.id > :after AND entry.id <= :until
    ON CONFLICT (account) DO UPDATE
   SET balance = excluded.balance, last_entry = excluded.last_entry,
       received = excluded.received
                + CASE WHEN audit_balance.walk = excluded.walk THEN audit_balance.received
                       ELSE 0 END,
       spent = excluded.spent
             + CASE WHEN audit_balance.walk = excluded.walk THEN audit_balance.spent ELSE 0 END,
       spend_count = excluded.spend_count
                   + CASE WHEN audit_balance.walk = excluded.walk THEN audit_balance.spend_count
                          ELSE 0 END,
       first_entry = CASE WHEN audit_balance.walk = excluded.walk THEN audit_balance.first_entry
                          ELSE excluded.first_entry END,
       walk = excluded.walk
"""
KEEP_KEYS: Final = """
INSERT INTO audit_key_month (api_key, month, walk, credits)
SELECT api_key, month, :walk, -sum(delta) FROM credit_entry
 WHERE id > :after AND id <= :until AND api_key IS NOT NULL GROUP BY api_key, month
    ON CONFLICT (api_key, month) DO UPDATE
   SET credits = excluded.credits
               + CASE WHEN audit_key_month.walk = excluded.walk THEN audit_key_month.credits
                      ELSE 0 END,
       walk = excluded.walk
"""
KEEP_SUMS: Final = """
UPDATE audit_walk SET entry = :until,
       summed = CASE WHEN summed = entry THEN :until ELSE summed END,
       rotated = rotated + (SELECT coalesce(sum(delta), 0) FROM credit_entry
                             WHERE id > :after AND id <= :until AND kind = 'rotate'),
       frozen = frozen + (SELECT coalesce(sum(delta), 0) FROM credit_entry
                           WHERE id > :after AND id <= :until AND kind IN ('freeze', 'thaw'))
"""
OF_JOURNAL: Final = {
    Invariant.BALANCE_IS_SUM: CONTINUES,
    Invariant.ENTRY_IS_PAID: ENTRY_IS_PAID + " AND e.id <= :until",
}

OF_MOVES: Final = {
    Invariant.MOVES_CANCEL: MOVES_CANCEL.format(which="m.id > :after AND m.id <= :until")
}
PART: Final = "p.id > :after AND p.id <= :until"
OF_PAYMENTS: Final = {
    Invariant.ISSUED_IS_ENTERED: ISSUED_IS_ENTERED.format(which=PART),
    Invariant.PAID_IS_ENOUGH: PAID_IS_ENOUGH.format(which=PART),
}

# Compares balances with the sums of the walk plus all later entries, as of one moment.  The join
# repeats the bounds of the part, without which PostgreSQL reads the sums of all accounts.
OF_ACCOUNTS: Final = {
    Invariant.BALANCE_IS_SUM: f"""
WITH since AS MATERIALIZED (
    SELECT account, sum(delta) AS delta FROM credit_entry WHERE id > :entry GROUP BY account)
SELECT a.id FROM credit_account AS a
  LEFT JOIN audit_balance AS kept ON kept.account = a.id AND kept.walk = :walk
   AND kept.account > :after AND kept.account <= :until
  LEFT JOIN since ON since.account = a.id
 WHERE a.id > :after AND a.id <= :until
   AND a.balance <> coalesce(kept.balance, {closing.CLOSED_BALANCE.format(account="a.id")}, 0)
                 + coalesce(since.delta, 0)
"""  # noqa: S608 - a constant
}
OF_KEYS: Final = {
    Invariant.KEYS_ADD_UP: """
WITH since AS MATERIALIZED (
    SELECT api_key, month, delta FROM credit_entry WHERE id > :entry AND api_key IS NOT NULL)
SELECT coalesce(summed.api_key, counted.api_key) FROM (
    SELECT api_key, month, sum(credits) AS credits FROM (
        SELECT api_key, month, credits FROM audit_key_month
         WHERE walk = :walk AND api_key > :after AND api_key <= :until
         UNION ALL
        SELECT api_key, month, credits FROM closed_key
         WHERE closed_in <= :closed AND api_key > :after AND api_key <= :until
         UNION ALL
        SELECT api_key, month, -delta FROM since
         WHERE api_key > :after AND api_key <= :until) AS parts
     GROUP BY api_key, month) AS summed
  FULL JOIN (SELECT api_key, month, credits FROM key_month
              WHERE api_key > :after AND api_key <= :until) AS counted
    ON counted.api_key = summed.api_key AND counted.month = summed.month
 WHERE coalesce(summed.credits, 0) <> coalesce(counted.credits, 0)
"""
}
OF_ALL: Final = {
    Invariant.ROTATIONS_CANCEL: """
SELECT total FROM (
    SELECT :rotated + (SELECT coalesce(sum(delta), 0) FROM credit_entry
                        WHERE id > :entry AND kind = 'rotate') AS total) AS sums
 WHERE total <> 0
""",
    Invariant.FREEZES_CANCEL: """
SELECT total FROM (
    SELECT :frozen + (SELECT coalesce(sum(delta), 0) FROM credit_entry
                       WHERE id > :entry AND kind IN ('freeze', 'thaw'))
         + (SELECT coalesce(sum(frozen), 0) FROM payment WHERE frozen > 0) AS total) AS sums
 WHERE total <> 0
""",
}


# The table whose rows each stage reads, in the order of the stages, and the checks of its rows.
TABLES: Final = {
    Stage.MOVES: "credit_move",
    Stage.PAYMENTS: "payment",
    Stage.ACCOUNTS: "credit_account",
    Stage.KEYS: "api_key",
}
CHECKED: Final[Mapping[Stage, Mapping[Invariant, str]]] = {
    Stage.MOVES: OF_MOVES,
    Stage.PAYMENTS: OF_PAYMENTS,
    Stage.ACCOUNTS: OF_ACCOUNTS,
    Stage.KEYS: OF_KEYS,
}
AFTER: Final = dict(pairwise(TABLES))


class Walk:
    """Checks all books in parts, over one connection; only one process should use it at a time."""

    def __init__(self, db: Database, *, rows_a_part: int = ROWS_A_PART) -> None:
        self._db = db
        self._rows_a_part = rows_a_part
        self.months = closing.ClosedMonths(db, rows_a_part=rows_a_part)

    def read(self) -> Walked:
        """Return the size of the books, the time of their last full check, and the closed month."""
        at = self._at()
        last = closing.last_close(self._db)
        return Walked(
            entry_count=int(self._db.execute(NEWEST).get) - last.last_entry,
            account_count=int(self._db.execute(NEWEST_ACCOUNT).get),
            finished_at=None if at is None else at.finished_at,
            closed=Month(last.month) if last.month else None,
        )

    def step(self, now: UnixMs, *, begins: bool) -> Proven:
        """Continue the check of all books by one part.

        First start a check if none was started yet, or if *begins* and the last check has finished.
        """
        last = closing.last_close(self._db)
        at = self._at()
        if at is None or (begins and at.stage == Stage.FINISHED):
            with self._db.transaction(beside=True):
                self._begin(last, now)
            at = self._at()
        assert at is not None
        if at.finished_at is not None:
            AUDITED_AT.set(at.finished_at / 1000)
        stage = Stage(at.stage)
        if stage is Stage.FINISHED:
            return Proven((), is_finished=True)
        AUDIT_ENTRIES_LEFT.set(int(self._db.execute(NEWEST).get) - at.entry)
        if stage in (Stage.CLOSING, Stage.CLOSING_KEYS):
            return Proven(self._close(at, stage, last, now), is_finished=False)
        month = self._open_month(last)
        settled = UnixMs(now - SETTLED_MS)
        # A part ends with its month, because the month is closed with the sums up to its end.
        before = settled if month is None else min(settled, month_end(month))
        until = self._db.execute(FOLD_TO, (at.entry, self._rows_a_part, before)).get
        is_behind = until is not None and until - at.entry >= self._rows_a_part
        sums = {
            "walk": at.number,
            "entry": at.entry,
            "rotated": at.rotated,
            "frozen": at.frozen,
            "closed": last.month,
        }
        # Later stages also add up entries if a whole part is new, because each of their parts reads
        # all entries after the mark.
        if until is not None and (stage is Stage.JOURNAL or is_behind):
            violations = self._add_up({**sums, "after": at.entry, "until": int(until)})
        elif stage is Stage.JOURNAL and month is not None and month_end(month) <= settled:
            violations = self._end_month(at, month, last, now)
        elif stage is Stage.JOURNAL:
            violations = self._look_at_the_newest({**sums, "after": at.entry})
        elif stage is Stage.MONTHS:
            violations = self.months.compare_balances(at)
        elif stage is Stage.MONTH_KEYS:
            violations = self._compare_month(at, now)
        else:
            violations = self._compare(stage, sums, at.place)
        return Proven(violations, is_finished=False)

    def _at(self) -> At | None:
        row = self._db.execute(STATE).fetchone()
        return None if row is None else At(*row)

    def _begin(self, last: closing.Close, now: UnixMs) -> None:
        """Start a check of the books after the closed month *last*, in the current transaction."""
        values = {"entry": last.last_entry, "rotated": last.rotated, "frozen": last.frozen}
        self._db.execute(BEGIN, {**values, "now": now})

    def _open_month(self, last: closing.Close) -> Month | None:
        """Return the first month with entries after the last closed month; None: no entries."""
        first = self._db.execute(FIRST_AT, (last.last_entry,)).get
        if first is None:
            return None
        return Month(max(month_of(UnixMs(first)), last.month + 1))

    def _end_month(self, at: At, month: Month, last: closing.Close, now: UnixMs) -> list[Violation]:
        """Start to close *month*, which is added up; if sums are missing, restart the check."""
        with self._db.transaction(beside=True):
            if at.summed != at.entry:  # an older version read some parts, and stored fewer sums
                self._begin(last, now)
            else:
                self._db.execute(closing.GO_ON, (Stage.CLOSING, 0, last.hash, month))
        return []

    def _close(self, at: At, stage: Stage, last: closing.Close, now: UnixMs) -> list[Violation]:
        """Store the sums of the next accounts or keys of a month, and close it after the last one.

        If the entries of an account contradict its balance, do not close the month; the next stage
        is MOVES instead.
        """
        if stage is Stage.CLOSING:
            found, may_close = self.months.add_balances(at, last)
            if not may_close:
                self._go_to(Stage.MOVES)
            return found
        digest = self.months.add_keys(at)
        if digest is not None:
            closed = closing.Close(at.month, at.entry, at.rotated, at.frozen, b"")
            closed = closed._replace(hash=closing.hash_of(digest, closed))
            with self._db.transaction(beside=True):
                self.months.close(closed, now)
                self._begin(closed, now)
        return []

    def _add_up(self, bounds: dict[str, int]) -> list[Violation]:
        """Check the next entries of the journal, add them to the totals, and return the violations.

        No entry may be inserted before them later.  Return [] if another process has added them.
        """
        with self._db.transaction(beside=True):
            if self._db.execute(ENTRY, (bounds["walk"],)).get != bounds["after"]:
                return []  # another process has added them
            found = self._find(OF_JOURNAL, bounds)
            for statement in (KEEP_BALANCES, KEEP_KEYS, KEEP_SUMS):
                self._db.execute(statement, bounds)
        return found

    def _look_at_the_newest(self, bounds: dict[str, int]) -> list[Violation]:
        """Check the newest journal entries, and that rotations and freezes cancel out.

        The next part of the check is then Stage.MOVES.
        """
        with self._db.snapshot():
            bounds["until"] = int(self._db.execute(NEWEST).get)
            found = self._find(OF_JOURNAL, bounds) + self._find(OF_ALL, bounds)
        self._go_to(Stage.MOVES)
        return found

    def _compare(self, stage: Stage, sums: dict[str, int], place: int) -> list[Violation]:
        """Check the next rows of *stage*; after its last row, go to the next stage."""
        rows = KEYS_A_PART if stage is Stage.KEYS else self._rows_a_part
        with self._db.snapshot():
            until = self._db.execute(
                closing.UNTIL.format(id="id", table=TABLES[stage]), (place, rows)
            ).get
            bounds = {**sums, "after": place, "until": until}
            found = [] if until is None else self._find(CHECKED[stage], bounds)
        if until is not None:
            self._go_to(stage, int(until))
        elif stage in AFTER:
            self._go_to(AFTER[stage])
        else:
            self.months.begin_after(0, closing.NOTHING.hash)
        return found

    def _compare_month(self, at: At, now: UnixMs) -> list[Violation]:
        """Check the next API keys of a closed month; after the last month, end the check."""
        if at.month:
            return self.months.compare_keys(at)
        with self._db.transaction(beside=True):
            self._db.execute(FINISH, (now,))
        return []

    def _find(
        self, checks: Mapping[Invariant, str], bounds: Mapping[str, object]
    ) -> list[Violation]:
        return [
            Violation(invariant, str(subject))
            for invariant, contradictions in checks.items()
            for (subject,) in self._db.execute(contradictions, bounds)
        ]

    def _go_to(self, stage: Stage, place: int = 0) -> None:
        with self._db.transaction(beside=True):
            self._db.execute(GO_TO, (stage, place))
