"""The walk through all books, some rows at a time, from a mark that is kept.

    journal    each entry continues the balance before it; balances, what keys spent and what was
               rotated and frozen are added up
    payments   each that was issued has the entry that it should have
    accounts   each balance is what was added up, and what the journal has got since
    keys       so is what each API key spent in each month

No statement reads more than a part, however old the books are: what was added up is kept in tables
of the walk.  The newest minutes of the journal are read as they are: an entry that is written
beside others may be seen after them, though its number is lower.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from mintscope.base.metrics import AUDIT_ENTRIES_LEFT, AUDITED_AT
from mintscope.base.primitives import UnixMs
from mintscope.base.time import MINUTE_MS
from mintscope.core.payments.books.invariants import Invariant, Proven, Violation, Walked
from mintscope.edges.storage.database import Database
from mintscope.edges.storage.sql.money.audits import (
    ENTRY_IS_PAID,
    ISSUED_IS_ENTERED,
    MOVES_CANCEL,
    PAID_IS_ENOUGH,
)

# What one part takes: some 25 ms in a file, whose other writers wait for the journal's.
ROWS_A_PART: Final = 5_000
KEYS_A_PART: Final = 500
SETTLED_MS: Final = 2 * MINUTE_MS

BEGIN: Final = """
INSERT INTO audit_walk (id, number, stage, began_at) VALUES (1, 1, 'journal', ?1)
    ON CONFLICT (id) DO UPDATE
   SET number = audit_walk.number + 1, stage = 'journal', entry = 0, place = 0, rotated = 0,
       frozen = 0, began_at = excluded.began_at
"""
STATE: Final = """
SELECT number, stage, entry, place, rotated, frozen, finished_at FROM audit_walk
"""
ENTRY: Final = "SELECT entry FROM audit_walk WHERE number = ? /* FOR UPDATE */"
NEWEST: Final = "SELECT coalesce(max(id), 0) FROM credit_entry"
GO_TO: Final = "UPDATE audit_walk SET stage = ?, place = ?"
FINISH: Final = "UPDATE audit_walk SET stage = 'finished', place = 0, finished_at = ?"

# The journal, up to an entry behind which no other comes.
UNTIL: Final = """
SELECT max(id) FROM (
    SELECT id, at FROM credit_entry WHERE id > ? ORDER BY id LIMIT ?) AS next
 WHERE at < ?
"""
CONTINUES: Final = """
SELECT part.account FROM (
    SELECT id, account, delta, balance, lag(balance) OVER account_entries AS before
      FROM credit_entry WHERE id > :after AND id <= :until
    WINDOW account_entries AS (PARTITION BY account ORDER BY id)) AS part
  LEFT JOIN audit_balance AS kept ON kept.account = part.account AND kept.walk = :walk
 WHERE part.balance <> part.delta + coalesce(part.before, kept.balance, 0)
"""
KEEP_BALANCES: Final = """
INSERT INTO audit_balance (account, walk, balance)
SELECT entry.account, :walk, entry.balance FROM credit_entry AS entry JOIN (
    SELECT max(id) AS id FROM credit_entry WHERE id > :after AND id <= :until
     GROUP BY account) AS last ON last.id = entry.id
 WHERE 1 = 1
    ON CONFLICT (account) DO UPDATE SET walk = excluded.walk, balance = excluded.balance
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
       rotated = rotated + (SELECT coalesce(sum(delta), 0) FROM credit_entry
                             WHERE id > :after AND id <= :until AND kind = 'rotate'),
       frozen = frozen + (SELECT coalesce(sum(delta), 0) FROM credit_entry
                           WHERE id > :after AND id <= :until AND kind IN ('freeze', 'thaw'))
"""
OF_JOURNAL: Final = {
    Invariant.BALANCE_IS_SUM: CONTINUES,
    Invariant.ENTRY_IS_PAID: ENTRY_IS_PAID + " AND e.id <= :until",
    Invariant.MOVES_CANCEL: MOVES_CANCEL + " AND m.onto_entry <= :until",
}

PART: Final = "p.id > :after AND p.id <= :until"
OF_PAYMENTS: Final = {
    Invariant.ISSUED_IS_ENTERED: ISSUED_IS_ENTERED.format(which=PART),
    Invariant.PAID_IS_ENOUGH: PAID_IS_ENOUGH.format(which=PART),
}

# The sums of what was walked through, and of what the journal has got since, as of one moment.
OF_ACCOUNTS: Final = {
    Invariant.BALANCE_IS_SUM: """
WITH since AS MATERIALIZED (
    SELECT account, sum(delta) AS delta FROM credit_entry WHERE id > :entry GROUP BY account)
SELECT a.id FROM credit_account AS a
  LEFT JOIN audit_balance AS kept ON kept.account = a.id AND kept.walk = :walk
  LEFT JOIN since ON since.account = a.id
 WHERE a.id > :after AND a.id <= :until
   AND a.balance <> coalesce(kept.balance, 0) + coalesce(since.delta, 0)
"""
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


class Stage(StrEnum):
    """Which table a walk is in."""

    JOURNAL = "journal"
    PAYMENTS = "payments"
    ACCOUNTS = "accounts"
    KEYS = "keys"
    FINISHED = "finished"


NEXT: Final = {
    Stage.PAYMENTS: "SELECT max(id) FROM (SELECT id FROM payment WHERE id > ? ORDER BY id LIMIT ?)"
    " AS next",
    Stage.ACCOUNTS: "SELECT max(id) FROM (SELECT id FROM credit_account WHERE id > ? ORDER BY id"
    " LIMIT ?) AS next",
    Stage.KEYS: "SELECT max(id) FROM (SELECT id FROM api_key WHERE id > ? ORDER BY id LIMIT ?)"
    " AS next",
}
CHECKED: Final[Mapping[Stage, Mapping[Invariant, str]]] = {
    Stage.PAYMENTS: OF_PAYMENTS,
    Stage.ACCOUNTS: OF_ACCOUNTS,
    Stage.KEYS: OF_KEYS,
}
AFTER: Final = {
    Stage.JOURNAL: Stage.PAYMENTS,
    Stage.PAYMENTS: Stage.ACCOUNTS,
    Stage.ACCOUNTS: Stage.KEYS,
}


class Walk:
    """Goes through the books over one connection; one process at a time."""

    def __init__(self, db: Database, *, rows_a_part: int = ROWS_A_PART) -> None:
        self._db = db
        self._rows_a_part = rows_a_part

    def read(self) -> Walked:
        """Return how far the walk has come."""
        state = self._db.execute(STATE).fetchone()
        return Walked(int(self._db.execute(NEWEST).get), None if state is None else state[-1])

    def step(self, now: UnixMs, *, begins: bool) -> Proven:
        """Walk on by one part; *begins*: begin once more if the walk has come to its end."""
        state = self._db.execute(STATE).fetchone()
        if state is None or (begins and state[1] == Stage.FINISHED):
            with self._db.transaction(beside=True):
                self._db.execute(BEGIN, (now,))
            state = self._db.execute(STATE).fetchone()
        assert state is not None
        number, name, entry, place, rotated, frozen, finished_at = state
        sums = {"walk": number, "entry": entry, "rotated": rotated, "frozen": frozen}
        if finished_at is not None:
            AUDITED_AT.set(finished_at / 1000)
        stage = Stage(name)
        if stage is Stage.FINISHED:
            return Proven((), is_finished=True)
        AUDIT_ENTRIES_LEFT.set(int(self._db.execute(NEWEST).get) - entry)
        settled = self._db.execute(UNTIL, (entry, self._rows_a_part, now - SETTLED_MS)).get
        is_behind = settled is not None and settled - entry >= self._rows_a_part
        if settled is not None and (stage is Stage.JOURNAL or is_behind):
            violations = self._add_up({**sums, "after": entry, "until": int(settled)})
        elif stage is Stage.JOURNAL:
            violations = self._look_at_the_newest({**sums, "after": entry})
        else:
            violations = self._compare(stage, sums, place, now)
        return Proven(violations, is_finished=False)

    def _add_up(self, bounds: dict[str, int]) -> list[Violation]:
        """Add up the next entries, behind which none comes any more."""
        with self._db.transaction(beside=True):
            if self._db.execute(ENTRY, (bounds["walk"],)).get != bounds["after"]:
                return []  # another process has added them
            found = self._find(OF_JOURNAL, bounds)
            for statement in (KEEP_BALANCES, KEEP_KEYS, KEEP_SUMS):
                self._db.execute(statement, bounds)
        return found

    def _look_at_the_newest(self, bounds: dict[str, int]) -> list[Violation]:
        """Look at the newest entries as they are, and at the sums of all."""
        with self._db.snapshot():
            bounds["until"] = int(self._db.execute(NEWEST).get)
            found = self._find(OF_JOURNAL, bounds) + self._find(OF_ALL, bounds)
        self._go_to(Stage.PAYMENTS)
        return found

    def _compare(
        self, stage: Stage, sums: dict[str, int], place: int, now: UnixMs
    ) -> list[Violation]:
        """Compare the next rows of *stage*; go to the next one behind the last."""
        rows = KEYS_A_PART if stage is Stage.KEYS else self._rows_a_part
        with self._db.snapshot():
            until = self._db.execute(NEXT[stage], (place, rows)).get
            bounds = {**sums, "after": place, "until": until}
            found = [] if until is None else self._find(CHECKED[stage], bounds)
        if until is not None:
            self._go_to(stage, int(until))
        elif stage in AFTER:
            self._go_to(AFTER[stage])
        else:
            with self._db.transaction(beside=True):
                self._db.execute(FINISH, (now,))
        return found

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
