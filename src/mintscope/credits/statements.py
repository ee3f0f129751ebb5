"""Credit tables in SQL that both engines share: accounts, statements and minutes.

The commit that takes credits for a stream minute also stores the minute as a row.  A later commit
deletes the row after a part of the minute was sent or the minute has ended, or gives the credits
back and deletes the row.  The rows that a dead process left are therefore the credits that it owes,
and only the process that deletes a row gives its credits back.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

import structlog

from mintscope.credits.closing import CLOSED_BALANCE, LAST_CLOSED, NOTHING
from mintscope.credits.kept_answers import IS_BOUGHT, given_up
from mintscope.credits.ledger import (
    KEPT_MS,
    STATEMENT_DAYS,
    STATEMENT_LINES,
    AccountLine,
    DayUse,
    Debit,
    DebitOutcome,
    Empty,
    KindLine,
    LedgerEntry,
    Reversal,
    Spent,
    Statement,
)
from mintscope.kit.credentials import CreditToken, hash_credential, hint
from mintscope.kit.errors import UnusableStore
from mintscope.kit.metrics import DEBITS
from mintscope.kit.primitives import CreditAccount, UnixMs
from mintscope.kit.time import DAY_MS, Month

ADD: Final = """
INSERT INTO credit_entry (account, kind, delta, balance, at)
SELECT id, ?2, ?3, balance + ?3, ?4 FROM credit_account WHERE id = ?1 /* FOR UPDATE */
"""

# A reversal also reduces the use of the API key in the month of the spend.  If the credit token was
# rotated since the spend, the credits go to the account that now has the credits of the token.
# PostgreSQL cannot infer the types of the values that are cast.
REVERSE: Final = """
WITH RECURSIVE successors (id, rotations) AS (
    SELECT CAST(?1 AS bigint), 0 UNION ALL
    SELECT a.successor, rotations + 1
      FROM successors JOIN credit_account AS a ON a.id = successors.id
     WHERE a.successor IS NOT NULL)
INSERT INTO credit_entry (account, kind, delta, balance, at, api_key, month, endpoint)
SELECT id, 'reversal', ?2, balance + ?2, ?3, CAST(?4 AS bigint), CAST(?5 AS bigint),
       CAST(?6 AS bigint)
  FROM credit_account
 WHERE id = (SELECT id FROM successors ORDER BY rotations DESC LIMIT 1) /* FOR UPDATE */
"""

OPEN_ACCOUNT: Final = """
INSERT INTO credit_account (token_hash, hint, note, issued_at) VALUES (?, ?, ?, ?)
RETURNING id
"""

BALANCE: Final = "SELECT balance FROM credit_account WHERE id = ?"
# The cap minus the use of the key and of the keys of its rotations; NULL if the key has no cap.
# `coalesce(first_key, id)` is the expression of the index api_key_chain.
CAP_LEFT: Final = """
SELECT k.month_credits_max - coalesce((
       SELECT CAST(sum(m.credits) AS bigint) FROM api_key AS each_
         JOIN key_month AS m ON m.api_key = each_.id AND m.month = ?2
        WHERE coalesce(each_.first_key, each_.id) = coalesce(k.first_key, k.id)), 0)
  FROM api_key AS k WHERE k.id = ?1
"""
# Also locks the account, so that its balance does not change before the commit.
LOCKED_BALANCE: Final = BALANCE + " /* FOR UPDATE */"
# A rotated credit token has a successor, and is no longer accepted.  An account with an owner has
# no credit token.
FIND: Final = """
SELECT id FROM credit_account WHERE token_hash = ? AND owner IS NULL AND successor IS NULL
"""
ROOT: Final = "SELECT coalesce(root, id) FROM credit_account WHERE id = ?"

# SUMMARY has all entries except spends.  SPENT_SINCE has the times of spends: older entries of
# spends may have been deleted, and spends that are added up by day have a day instead of a time.
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

# The index for this query does not contain spends, because they would slow it down.
ENTRIES: Final = f"""
SELECT CASE WHEN kind = 'rotate' THEN coalesce(
            (SELECT m.kind FROM credit_move AS m WHERE m.off_entry = credit_entry.id),
            (SELECT m.kind FROM credit_move AS m WHERE m.onto_entry = credit_entry.id), kind)
            ELSE kind END, delta, balance, at
  FROM credit_entry WHERE account = ? AND kind <> 'spend'
 ORDER BY id DESC LIMIT {STATEMENT_LINES}
"""  # noqa: S608  a constant

# The credits that an account received, less those that were moved away or frozen: the sum of its
# entries other than spends up to a mark, and the journal's entries after it.
RECEIVED_BY: Final = """
coalesce((SELECT credits FROM credit_received WHERE account = {account}), 0)
     + coalesce((SELECT sum(e.delta) FROM credit_entry AS e
                  WHERE e.account = {account} AND e.kind <> 'spend'
                    AND e.id > (SELECT entry FROM credit_received_mark)), 0)
"""
RECEIVED: Final = f"SELECT CAST({RECEIVED_BY.format(account='?1')} AS bigint)"
SPENT: Final = f"""
SELECT CAST({RECEIVED_BY.format(account="?1")}
     - (SELECT balance FROM credit_account WHERE id = ?1) AS bigint)
"""  # noqa: S608  a constant
# Selects a page of all accounts, or of those whose credit token ends in some characters.  After an
# upgrade it takes minutes until a long journal is added up; until then received credits are NULL,
# because reading the journal for each page would take too long.
READ_MAX: Final = 1_000_000
PAGE: Final = f"""
SELECT a.id, a.hint, a.note, a.issued_at,
       CASE WHEN (SELECT coalesce(max(id), 0) FROM credit_entry)
                 - (SELECT entry FROM credit_received_mark) <= {READ_MAX}
            THEN CAST({RECEIVED_BY.format(account="a.id")} AS bigint) END, a.balance
  FROM credit_account AS a
 WHERE a.id > ?1 AND substr(a.hint, length(a.hint) - length(?3) + 1) = ?3 ORDER BY a.id LIMIT ?2
"""  # noqa: S608  a constant

# The use of an account by day.  The few entries of the journal after the mark are read one by one.
DAYS: Final = f"""
SELECT day, sum(credits) FROM (
    SELECT day, credits FROM credit_day WHERE account = ?1
     UNION ALL
    SELECT at / {DAY_MS}, -delta FROM credit_entry
     WHERE account = ?1 AND kind IN ('spend', 'reversal')
       AND id > (SELECT entry FROM credit_day_mark)) AS used
 GROUP BY day ORDER BY day DESC LIMIT {STATEMENT_DAYS}
"""  # noqa: S608  constants

# The entries of the journal are added up a few minutes late, because an entry can become visible
# after entries with higher numbers.
FOLD_FROM: Final = "SELECT entry FROM credit_day_mark /* FOR UPDATE */"
# The last entry of the next part: no more entries can be inserted before it.
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

# Adds up entries other than spends, by account.
RECEIVED_FROM: Final = "SELECT entry FROM credit_received_mark /* FOR UPDATE */"
FOLD_RECEIVED: Final = """
INSERT INTO credit_received (account, credits)
SELECT account, sum(delta) FROM credit_entry
 WHERE id > ? AND id <= ? AND kind <> 'spend' GROUP BY account
    ON CONFLICT (account) DO UPDATE SET credits = credit_received.credits + excluded.credits
"""
RECEIVED_TO: Final = "UPDATE credit_received_mark SET entry = ?"

# Adds up spends and reversals of users by day, API key and endpoint.  Requests without a key and an
# endpoint, such as page views, cost one credit each, and those of one batch share an entry.  Any
# other request has its own entry.
REQUESTS: Final = """
CASE WHEN e.kind = 'reversal' THEN 0
     WHEN e.api_key IS NULL AND e.endpoint IS NULL THEN -e.delta ELSE 1 END
"""
USAGE_FROM: Final = "SELECT entry FROM usage_day_mark /* FOR UPDATE */"
FOLD_USAGE: Final = f"""
INSERT INTO usage_day (account, day, api_key, endpoint, requests, credits)
SELECT e.account, e.at / {DAY_MS}, coalesce(e.api_key, 0), coalesce(e.endpoint, 0),
       sum({REQUESTS}), -sum(e.delta)
  FROM credit_entry AS e JOIN credit_account AS a ON a.id = e.account AND a.owner IS NOT NULL
 WHERE e.id > ? AND e.id <= ? AND e.kind IN ('spend', 'reversal')
 GROUP BY e.account, e.at / {DAY_MS}, coalesce(e.api_key, 0), coalesce(e.endpoint, 0)
    ON CONFLICT (account, day, api_key, endpoint) DO UPDATE SET
       requests = usage_day.requests + excluded.requests,
       credits = usage_day.credits + excluded.credits
"""  # noqa: S608  constants
USAGE_TO: Final = "UPDATE usage_day_mark SET entry = ?"
USAGE_MARK: Final = "SELECT entry FROM usage_day_mark"
# The mark is passed as a value: for a subquery PostgreSQL would plan to read a third of the
# journal.
USAGE: Final = f"""
SELECT day, api_key, endpoint, CAST(sum(requests) AS bigint), CAST(sum(credits) AS bigint) FROM (
    SELECT day, api_key, endpoint, requests, credits
      FROM usage_day WHERE account = ?1 AND day >= ?2
     UNION ALL
    SELECT e.at / {DAY_MS}, coalesce(e.api_key, 0), coalesce(e.endpoint, 0), {REQUESTS}, -e.delta
      FROM credit_entry AS e
     WHERE e.account = ?1 AND e.kind IN ('spend', 'reversal') AND e.at >= ?2 * {DAY_MS}
       AND e.id > ?4) AS used
 GROUP BY day, api_key, endpoint ORDER BY day DESC, api_key, endpoint LIMIT ?3
"""  # noqa: S608  constants
OLD_USAGE: Final = """
SELECT account, day, api_key, endpoint FROM usage_day WHERE day < ? ORDER BY day LIMIT ?
"""
FORGET_USAGE: Final = """
DELETE FROM usage_day WHERE account = ? AND day = ? AND api_key = ? AND endpoint = ?
"""

# Selects accounts with a contradiction: an entry does not continue the entry before it, or the last
# entry differs from the balance.  Only entries after the entry :after are read.
CHAINED: Final = """
entry AS (
    SELECT account, delta, balance,
           lag(balance) OVER account_entries AS before,
           lead(id) OVER account_entries AS later
      FROM credit_entry WHERE id > :after
    WINDOW account_entries AS (PARTITION BY account ORDER BY id))
"""
BALANCE_IS_SUM: Final = f"""
WITH {CHAINED}
SELECT account FROM entry WHERE balance <> delta + before
 UNION
SELECT account FROM entry
 WHERE later IS NULL
   AND balance <> (SELECT a.balance FROM credit_account AS a WHERE a.id = entry.account)
"""  # noqa: S608 - a constant
# Selects the accounts with a contradiction among all accounts, including those without entries
# after :after.  The balance before the first entry is that of the last close.
ALL_ADD_UP: Final = f"""
WITH {CHAINED}
SELECT account FROM entry
 WHERE balance <> delta + coalesce(before, {CLOSED_BALANCE.format(account="entry.account")}, 0)
 UNION
SELECT a.id FROM credit_account AS a
  LEFT JOIN entry ON entry.account = a.id AND entry.later IS NULL
 WHERE a.balance <> coalesce(entry.balance, {CLOSED_BALANCE.format(account="a.id")}, 0)
"""  # noqa: S608 - a constant

EMPTY: Final = Empty()
CREDIT_STATEMENTS_NOTHING: Final[Iterator[int]] = iter(())  # for accounts that paid nothing


def one_by_one(
    accounts: Sequence[CreditAccount], spent: Sequence[tuple[int, int, int]]
) -> list[Spent | Empty]:
    """Return the outcome of a request for one credit, for each of *accounts*.

    spent   the account, the change of its balance (less than 0), and the balance afterwards, once
            for each account that paid
    """
    left = {
        # The requests of an account are served in order: the first leaves the highest balance.
        account: iter(range(balance - delta - 1, balance - 1, -1))
        for account, delta, balance in spent
    }
    balances = [next(left.get(account, CREDIT_STATEMENTS_NOTHING), None) for account in accounts]
    return [EMPTY if balance is None else Spent(balance) for balance in balances]


# The columns of stream_minute, in the order of the fields of Reversal.
COLUMNS: Final = (
    "minute.account, minute.credits, minute.api_key, minute.month, minute.id, NULL, minute.endpoint"
)
REMOVE: Final = "DELETE FROM stream_minute WHERE id = ? RETURNING id"

PEPPER: Final = "SELECT check_hash FROM pepper"
KEEP_PEPPER: Final = "INSERT INTO pepper (id, check_hash) VALUES (1, ?) ON CONFLICT DO NOTHING"

CLEAR_EVERY_MS: Final = 1_000  # the time after which sent minutes get a commit of their own
LEFT_MAX: Final = 1_000  # maximum number of minutes given back in one transaction

log = structlog.get_logger()


class Executes(Protocol):
    """A connection to an SQLite or PostgreSQL database."""

    def execute(self, statement: str, values: Any = ..., /) -> Any:
        """Run one SQL statement with *values* as its parameters."""

    def executemany(self, statement: str, many: Iterable[Sequence[Any]], /) -> Any:
        """Run *statement* once for each sequence of values in *many*."""

    def close(self) -> None:
        """Close the connection to the database."""


def _still_owed(db: Executes, reversals: Iterable[Reversal]) -> list[Reversal]:
    """Return the reversals that must be entered for *reversals*, in the order of their accounts.

    Delete the rows of their stream minutes and answer names.  A reversal is left out if the row of
    its minute no longer exists, or if another request has got the answer of its name or may get it.
    """
    left = sorted(reversals, key=lambda each: each.account)  # the order in which rows are locked
    # No row must be deleted first, and REVERSE itself locks the accounts.
    if all(each.minute is None and each.once is None for each in left):
        return left
    found = []
    for each in left:
        # Debits lock an account before they write minutes and names.
        db.execute(LOCKED_BALANCE, (each.account,))
        # No row: the minute was sent or has ended, or its credits were already given back.
        if each.minute is not None and db.execute(REMOVE, (each.minute,)).get is None:
            continue
        owed = each if each.once is None else given_up(db, each, each.once)
        if owed is not None:
            found.append(owed)
    return found


def _values(reversal: Reversal, at: UnixMs) -> tuple[int | None, ...]:
    taken = (reversal.account, reversal.credit_count, at)
    return (*taken, reversal.key, reversal.month, reversal.endpoint)


def tell_given_back(credit_count: int) -> None:
    """Count and log the credits that were given back for stream minutes of dead processes."""
    if credit_count:
        DEBITS.labels("reversed").inc(credit_count)
        log.warning("minutes_given_back", credits=credit_count)


def summary_of(db: Executes, account: CreditAccount) -> list[KindLine]:
    """Return the entries of *account*, added up by kind, spends last."""
    lines = [KindLine(*row) for row in db.execute(SUMMARY, (account,))]
    spent = int(db.execute(SPENT, (account,)).get)
    if spent:
        first_at, last_at = db.execute(SPENT_SINCE, (account,)).get
        lines.append(KindLine("spend", -spent, UnixMs(first_at), UnixMs(last_at)))
    return lines


def contradictions(db: Executes) -> list[CreditAccount]:
    """Return the accounts whose balance differs from the sum of its entries.

    The sum is that of the last closed month, with the later entries added.
    """
    closed = db.execute(LAST_CLOSED, ()).get or NOTHING
    bounds = {"after": closed[1], "closed": closed[0]}
    return [CreditAccount(account) for (account,) in db.execute(ALL_ADD_UP, bounds)]


Db = TypeVar("Db", bound=Executes)
Block = Callable[[], AbstractContextManager[object]]


class CreditTables(ABC, Generic[Db]):
    """The credit tables over one connection, for one thread; raises the errors of the engine.

    transaction, snapshot   begin a transaction or a snapshot on *db*
    name                    the name of the store in error messages
    errors                  the exceptions of the engine
    refusals                the *errors* by which the engine refuses the values of a statement
    Raises                  UnusableStore if the hashes were made with another *pepper*
    """

    errors: ClassVar[type[Exception]]
    refusals: ClassVar[type[Exception]]

    def __init__(
        self, db: Db, *, pepper: bytes, transaction: Block, snapshot: Block, name: str
    ) -> None:
        self._db = db
        self._pepper = pepper
        self._transaction = transaction
        self._snapshot = snapshot
        self._sent: list[int] = []  # numbers of sent minutes, whose rows a later commit deletes
        self._cleared_at = UnixMs(0)
        self._owed: list[Reversal] = []  # reversals that are not known to be stored
        self._expect_pepper(name)

    def issue(
        self, token: CreditToken, credit_count: int, *, note: str, at: UnixMs
    ) -> CreditAccount:
        """Create an account with *credit_count* credits that *token* can spend."""
        assert credit_count >= 1
        digest = hash_credential(token, pepper=self._pepper)
        with self._transaction():
            account = self._db.execute(OPEN_ACCOUNT, (digest, hint(token), note, at)).get
            self._db.execute(ADD, (account, "grant", credit_count, at))
        return CreditAccount(account)

    def find(self, bearer: str) -> CreditAccount | None:
        """Return the account of the credit token *bearer*.

        Return None if the token is unknown, or if its credits were moved to a new token.
        """
        digest = hash_credential(bearer, pepper=self._pepper)
        account = self._db.execute(FIND, (digest,)).get
        return None if account is None else CreditAccount(account)

    def root(self, account: CreditAccount) -> CreditAccount:
        """Return the oldest account from which the credits of *account* were moved by rotations.

        Return *account* itself if there was no rotation.
        """
        return CreditAccount(self._db.execute(ROOT, (account,)).get)

    def balance(self, account: CreditAccount) -> int:
        """Return the credits that the account has."""
        return int(self._db.execute(BALANCE, (account,)).get)

    def cap_left(self, key: int, month: Month) -> int | None:
        """Return the credits that the cap of *key* leaves in *month*; None: no cap.

        The result is negative if the cap was lowered below the spent credits.
        """
        left: int | None = self._db.execute(CAP_LEFT, (key, month)).get
        return left

    def is_bought(self, once: str, at: UnixMs) -> bool:
        """Return whether the answer *once* was paid for, so that its debit would take nothing."""
        return bool(self._db.execute(IS_BOUGHT, (once, at - KEPT_MS)).get)

    @abstractmethod
    def spend(self, accounts: Sequence[CreditAccount], at: UnixMs) -> list[Spent | Empty]:
        """Take one credit for each of *accounts*, as far as the balances allow, in one commit.

        Return the outcomes in the order of *accounts*, which may name an account several times.
        """

    @abstractmethod
    def debit(self, debits: Sequence[Debit], at: UnixMs) -> list[DebitOutcome]:
        """Take all credits of each debit or none, in the order of *debits*, in one commit.

        Either all debits name an answer (`once`), or none does.  If the name is already stored, the
        answer was paid for, and nothing is taken.
        """

    @abstractmethod
    def prepay(self, debits: Sequence[Debit], at: UnixMs) -> list[DebitOutcome]:
        """Take all credits of each debit or none, and store the stream minutes that they pay for.

        Both are in one commit.  The outcomes are in the order of *debits*.
        """

    def note_sent(self, minutes: Sequence[int]) -> None:
        """Record that a part of each of the stream *minutes* was sent, or that it has ended.

        A later commit stores this.
        """
        self._sent.extend(minutes)

    @abstractmethod
    def note_answered(self, batch_count: int) -> None:
        """Record that the first *batch_count* batches of debits need no reversal any more.

        Their requests were answered.
        """

    @abstractmethod
    def rest(self, at: UnixMs) -> None:
        """Delete rows that are no longer needed, and similar work, while no request waits."""

    @abstractmethod
    def expect_writable(self) -> None:
        """Test whether the store can write durably; raise an error if it cannot."""

    def give_back(self, reversals: Sequence[Reversal], at: UnixMs) -> None:
        """Give back the credits of *reversals*, in one commit.

        If this raises an error, the credits remain owed, and the next call gives them back, too.
        """
        self._owed.extend(reversals)
        if self._owed:
            with self._transaction():
                credit_count = self._reverse(self._owed, at)
            self._owed.clear()
            DEBITS.labels("reversed").inc(credit_count)

    def page(self, ending: str, after: int, limit: int) -> list[AccountLine]:
        """Return up to *limit* accounts with an id above *after*, oldest first.

        ending   only accounts whose credit token ends in this; "": all accounts
        """
        return [AccountLine(*row) for row in self._db.execute(PAGE, (after, limit, ending))]

    def summary(self, account: CreditAccount) -> list[KindLine]:
        """Return the entries of *account*, added up by kind, spends last."""
        return summary_of(self._db, account)

    def statement(self, account: CreditAccount) -> Statement:
        """Return the balance, the spent credits and the newest entries, read at one moment."""
        with self._snapshot():
            balance = self.balance(account)
            received = int(self._db.execute(RECEIVED, (account,)).get)
            entries = [LedgerEntry(*row) for row in self._db.execute(ENTRIES, (account,))]
            days = [DayUse(*map(int, row)) for row in self._db.execute(DAYS, (account,))]
        return Statement(balance, received - balance, entries, days)

    def contradictions(self) -> list[CreditAccount]:
        """Return the accounts whose balance differs from the sum of its entries.

        The sum is that of the last closed month, with the later entries added.
        """
        return contradictions(self._db)

    def close(self) -> None:
        """Close the connection to the database."""
        self._db.close()

    @abstractmethod
    def _savepoint(self) -> AbstractContextManager[object]:
        """Return a context that undoes the changes of its block, and only these, if it raises."""

    def _reverse(self, reversals: Iterable[Reversal], at: UnixMs) -> int:
        """Give back the credits of *reversals* in the current transaction; return the credit count.

        Credits of a stream minute are given back only if its row exists, and credits of an answer
        with a name only if the name is stored and all its requests are undone.  Rows are
        locked in the same order as by debits: accounts by id, then stream minutes.

        A reversal that the engine refuses is logged and left out, because it would be refused
        again, and all others would wait for it.  Its minute and its name are deleted, too.
        """
        left = _still_owed(self._db, reversals)
        if not left:
            return 0
        try:
            with self._savepoint():
                self._db.executemany(REVERSE, [_values(each, at) for each in left])
        except self.refusals:
            # One of them is refused, so each is entered alone: a refused one must not hold up the
            # others.
            return sum(each.credit_count for each in left if self._is_reversed(each, at))
        return sum(each.credit_count for each in left)

    def _is_reversed(self, reversal: Reversal, at: UnixMs) -> bool:
        """Give back the credits of *reversal*; if the engine refuses, log it and return False."""
        try:
            with self._savepoint():
                self._db.execute(REVERSE, _values(reversal, at))
        except self.refusals:
            log.exception(
                "reversal_refused",
                account=reversal.account,
                credits=reversal.credit_count,
                key=reversal.key,
                month=reversal.month,
            )
            return False
        return True

    @abstractmethod
    def _clear_minutes(self, at: UnixMs) -> None:
        """Delete the rows of stream minutes that were sent, in a commit of their own."""

    def _clear_minutes_if_due(self, at: UnixMs) -> None:
        """Delete the rows of sent stream minutes if none was deleted for CLEAR_EVERY_MS."""
        # abs: the clock may have been set back.
        if self._sent and abs(at - self._cleared_at) >= CLEAR_EVERY_MS:
            self._clear_minutes(at)

    def _note_cleared(self, count: int, at: UnixMs) -> None:
        """Forget the first *count* sent stream minutes, because a commit has deleted their rows."""
        del self._sent[:count]
        self._cleared_at = at

    def _expect_pepper(self, name: str) -> None:
        check_hash = hash_credential("mintscope", pepper=self._pepper)
        # Read without the write lock first: only a new store has no pepper.
        kept = self._db.execute(PEPPER, ()).get
        if kept is None:
            with self._transaction():
                # Another process may have stored its own pepper since, so the pepper is read again.
                self._db.execute(KEEP_PEPPER, (check_hash,))
                kept = self._db.execute(PEPPER, ()).get
        if kept != check_hash:
            self._db.close()
            raise UnusableStore(
                f"expected the pepper that the credentials in {name} were hashed with;"
                " was another one"
            )
