"""Statements over the credit tables that every engine understands, and what a batch means."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from mintscope.base.primitives import CreditAccount, UnixMs
from mintscope.base.time import DAY_MS
from mintscope.core.credits.debit import Reversal
from mintscope.core.credits.ledger import STATEMENT_DAYS, STATEMENT_LINES, Empty, Spent
from mintscope.edges.storage.sql.money.closing import CLOSED_BALANCE

ADD: Final = """
INSERT INTO credit_entry (account, kind, delta, balance, at)
SELECT id, ?2, ?3, balance + ?3, ?4 FROM credit_account WHERE id = ?1 /* FOR UPDATE */
"""

# The spend of an API key counts less in its month.
# A spend of a credit token that was rotated since goes to the token that has its credits.
REVERSE: Final = """
WITH RECURSIVE successors (id, rotations) AS (
    SELECT CAST(?1 AS bigint), 0 UNION ALL
    SELECT a.successor, rotations + 1
      FROM successors JOIN credit_account AS a ON a.id = successors.id
     WHERE a.successor IS NOT NULL)
INSERT INTO credit_entry (account, kind, delta, balance, at, api_key, month)
SELECT id, 'reversal', ?2, balance + ?2, ?3, CAST(?4 AS bigint), CAST(?5 AS bigint)
  FROM credit_account
 WHERE id = (SELECT id FROM successors ORDER BY rotations DESC LIMIT 1) /* FOR UPDATE */
"""

OPEN_ACCOUNT: Final = """
INSERT INTO credit_account (token_hash, hint, note, issued_at) VALUES (?, ?, ?, ?)
RETURNING id
"""

BALANCE: Final = "SELECT balance FROM credit_account WHERE id = ?"
# The next debit must still be covered.
LOCKED_BALANCE: Final = BALANCE + " /* FOR UPDATE */"
# A credit token that was rotated has a successor: it is good for nothing any more.
FIND: Final = """
SELECT id FROM credit_account WHERE token_hash = ? AND owner IS NULL AND successor IS NULL
"""
ROOT: Final = "SELECT coalesce(root, id) FROM credit_account WHERE id = ?"

# All entries but spends; then the spends, of which the journal may have deleted the older ones.
# Those that are added up by day have the day alone.
SUMMARY: Final = """
SELECT kind, CAST(sum(delta) AS bigint), min(at), max(at) FROM credit_entry
 WHERE account = ? AND kind <> 'spend' GROUP BY kind ORDER BY min(id)
"""
SPENT_SINCE: Final = f"""
SELECT min(first_at), max(last_at) FROM (
    SELECT min(day) * {DAY_MS} AS first_at, max(day) * {DAY_MS} AS last_at
      FROM credit_day WHERE account = ?1
     UNION ALL
    SELECT min(at), max(at) FROM credit_entry
     WHERE account = ?1 AND kind = 'spend' AND id > (SELECT entry FROM credit_day_mark)) AS spent
"""  # noqa: S608  constants

# Spends are not in the index that makes this fast: it would make them slow.
ENTRIES: Final = f"""
SELECT CASE WHEN kind = 'rotate' THEN coalesce(
            (SELECT m.kind FROM credit_move AS m WHERE m.off_entry = credit_entry.id),
            (SELECT m.kind FROM credit_move AS m WHERE m.onto_entry = credit_entry.id), kind)
            ELSE kind END, delta, balance, at
  FROM credit_entry WHERE account = ? AND kind <> 'spend'
 ORDER BY id DESC LIMIT {STATEMENT_LINES}
"""  # noqa: S608  a constant

# The sums by day, and the entries of the journal since.
RECEIVED: Final = """
SELECT CAST(coalesce((SELECT credits FROM credit_received WHERE account = ?1), 0)
          + coalesce((SELECT sum(delta) FROM credit_entry
                       WHERE account = ?1 AND kind <> 'spend'
                         AND id > (SELECT entry FROM credit_received_mark)), 0) AS bigint)
"""
SPENT: Final = """
SELECT CAST(coalesce((SELECT credits FROM credit_received WHERE account = ?1), 0)
          + coalesce((SELECT sum(delta) FROM credit_entry
                       WHERE account = ?1 AND kind <> 'spend'
                         AND id > (SELECT entry FROM credit_received_mark)), 0)
          - (SELECT balance FROM credit_account WHERE id = ?1) AS bigint)
"""
# A page of all accounts, or of those whose credit token ends in some characters.
ACCOUNTS: Final = """
SELECT a.id, a.hint, a.note, a.issued_at,
       CAST(coalesce((SELECT credits FROM credit_received WHERE account = a.id), 0)
          + coalesce((SELECT sum(e.delta) FROM credit_entry AS e
                       WHERE e.account = a.id AND e.kind <> 'spend'
                         AND e.id > (SELECT entry FROM credit_received_mark)), 0) AS bigint),
       a.balance
  FROM credit_account AS a
 WHERE a.id > ?1 {which} ORDER BY a.id LIMIT ?2
"""
PAGE: Final = ACCOUNTS.format(which="")
ENDING: Final = ACCOUNTS.format(which="AND substr(a.hint, length(a.hint) - length(?3) + 1) = ?3")

# The journal beyond the mark is short, and read as it is.
DAYS: Final = f"""
SELECT day, sum(credits) FROM (
    SELECT day, credits FROM credit_day WHERE account = ?1
     UNION ALL
    SELECT at / {DAY_MS}, -delta FROM credit_entry
     WHERE account = ?1 AND kind IN ('spend', 'reversal')
       AND id > (SELECT entry FROM credit_day_mark)) AS used
 GROUP BY day ORDER BY day DESC LIMIT {STATEMENT_DAYS}
"""  # noqa: S608  constants

# The journal is folded some minutes late: an entry that is written beside others may be seen after
# them, though its number is lower.
FOLD_FROM: Final = "SELECT entry FROM credit_day_mark /* FOR UPDATE */"
FOLD_TO: Final = """
SELECT max(id) FROM (
    SELECT id, at FROM credit_entry WHERE id > ? ORDER BY id LIMIT ?) AS next
 WHERE at < ?
"""
FOLD: Final = f"""
INSERT INTO credit_day (account, day, credits)
SELECT account, at / {DAY_MS}, -sum(delta) FROM credit_entry
 WHERE id > ? AND id <= ? AND kind IN ('spend', 'reversal')
 GROUP BY account, at / {DAY_MS}
    ON CONFLICT (account, day) DO UPDATE SET credits = credit_day.credits + excluded.credits
"""  # noqa: S608  a constant
FOLDED: Final = "UPDATE credit_day_mark SET entry = ?"

# Entries other than spends, in the same way.
RECEIVED_FROM: Final = "SELECT entry FROM credit_received_mark /* FOR UPDATE */"
FOLD_RECEIVED: Final = """
INSERT INTO credit_received (account, credits)
SELECT account, sum(delta) FROM credit_entry
 WHERE id > ? AND id <= ? AND kind <> 'spend' GROUP BY account
    ON CONFLICT (account) DO UPDATE SET credits = credit_received.credits + excluded.credits
"""
RECEIVED_TO: Final = "UPDATE credit_received_mark SET entry = ?"

# Contradictions: an entry continues the one before it, and the last one is the balance.
# The journal is read after the entry :after.
BALANCE_IS_SUM: Final = """
WITH entry AS (
    SELECT account, delta, balance,
           lag(balance) OVER account_entries AS before,
           lead(id) OVER account_entries AS later
      FROM credit_entry WHERE id > :after
    WINDOW account_entries AS (PARTITION BY account ORDER BY id))
SELECT account FROM entry WHERE balance <> delta + before
 UNION
SELECT account FROM entry
 WHERE later IS NULL
   AND balance <> (SELECT a.balance FROM credit_account AS a WHERE a.id = entry.account)
"""
# The same for all accounts, whose balances begin at the last close.
ALL_ADD_UP: Final = f"""
WITH entry AS (
    SELECT account, delta, balance,
           lag(balance) OVER account_entries AS before,
           lead(id) OVER account_entries AS later
      FROM credit_entry WHERE id > :after
    WINDOW account_entries AS (PARTITION BY account ORDER BY id))
SELECT account FROM entry
 WHERE balance <> delta + coalesce(before, {CLOSED_BALANCE.format(account="entry.account")}, 0)
 UNION
SELECT a.id FROM credit_account AS a
  LEFT JOIN entry ON entry.account = a.id AND entry.later IS NULL
 WHERE a.balance <> coalesce(entry.balance, {CLOSED_BALANCE.format(account="a.id")}, 0)
"""  # noqa: S608 - a constant

EMPTY: Final = Empty()
NOTHING: Final[Iterator[int]] = iter(())


def one_by_one(
    accounts: Sequence[CreditAccount], spent: Sequence[tuple[int, int, int]]
) -> list[Spent | Empty]:
    """Separate the debits of an account: each was taken from what the one before had left.

    spent   the account, what was taken from it (less than 0), and its balance then
    """
    left = {
        account: iter(range(balance - delta - 1, balance - 1, -1))
        for account, delta, balance in spent
    }
    balances = [next(left.get(account, NOTHING), None) for account in accounts]
    return [EMPTY if balance is None else Spent(balance) for balance in balances]


def reversal_values(reversals: Iterable[Reversal], at: UnixMs) -> list[tuple[int | None, ...]]:
    """Return what REVERSE takes, in the order in which rows are locked."""
    found = sorted(reversals, key=lambda each: each.account)
    return [(each.account, each.credit_count, at, each.key, each.month) for each in found]
