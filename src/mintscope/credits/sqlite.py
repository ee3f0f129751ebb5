"""Credit ledger in SQLite.

All decisions are made in SQL, so any number of processes can spend, issue and read at the same
time.

Each process that has stored stream minutes shares a file lock until it ends.  If a process gets
the exclusive lock, all other processes whose minutes are stored have ended.
"""

import fcntl
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from secrets import randbits
from typing import IO, Final

import apsw
import msgspec
from typing_extensions import override

from mintscope.credits import kept_answers, ledger, statements
from mintscope.credits.store import GroupCreditLedger
from mintscope.kit.clock import Clock
from mintscope.kit.primitives import CreditAccount, UnixMs
from mintscope.kit.sql.database import AccessAtOnce
from mintscope.kit.sql.group_commit import PATIENCE_S
from mintscope.kit.sql.sqlite import open_store, snapshot, transaction
from mintscope.kit.time import Month, month_of

BEGIN_MINUTE: Final = """
INSERT INTO stream_minute (id, writer, at, account, credits, api_key, month, endpoint)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
CLEAR: Final = "DELETE FROM stream_minute WHERE id = ?"
OTHERS: Final = "SELECT EXISTS (SELECT 1 FROM stream_minute WHERE writer <> ?)"
LEFT: Final = f"""
SELECT {statements.COLUMNS} FROM stream_minute AS minute WHERE writer <> ? AND at < ? ORDER BY id
 LIMIT {statements.LEFT_MAX}
"""  # noqa: S608 - constants
EVER: Final = 2**62  # later than every time
# The age at which a minute counts as left even if its process may still run: more than a minute
# plus the longest pauses of the client that reads the stream, and of the store.
LEFT_AFTER_MS: Final = 180_000
LOOK_EVERY_MS: Final = 10_000  # the least time between two searches for minutes of dead processes


class MinutesUnderWay:
    """Stores stream minutes, which were paid for in advance, until they are sent.

    Also finds the minutes that dead processes have not sent.  The caller begins the transactions.
    """

    def __init__(self, db: apsw.Connection, path: Path) -> None:
        self._db = db
        # A file of its own: if a process closes any descriptor of the database file, it loses the
        # locks of SQLite on that file.
        self._path = path.with_name(f"{path.stem}.minutes.lock")
        self._writer = randbits(62)
        self._lock: IO[str] | None = None
        self._has_begun = False
        self._looked_at: UnixMs | None = None

    def begin(
        self, outcomes: Sequence[ledger.DebitOutcome], at: UnixMs
    ) -> list[ledger.DebitOutcome]:
        """Store a stream minute for each debit that was taken.

        Return *outcomes*, in which each taken debit has the number of its minute.
        """
        self._hold()
        begun = [
            msgspec.structs.replace(each, minute=randbits(62))
            if isinstance(each, ledger.Debited)
            else each
            for each in outcomes
        ]
        for each in begun:
            if isinstance(each, ledger.Debited):
                taken = each.reversal()
                values = (taken.account, taken.credit_count, taken.key, taken.month)
                row = (each.minute, self._writer, at, *values, taken.endpoint)
                self._db.execute(BEGIN_MINUTE, row)
        return begun

    def may_be_left(self, at: UnixMs) -> bool:
        """Return whether a search for stream minutes of dead processes is due and may find any."""
        # abs: the clock may have been set back.
        if self._looked_at is not None and abs(at - self._looked_at) < LOOK_EVERY_MS:
            return False
        self._looked_at = at
        return bool(self._db.execute(OTHERS, (self._writer,)).get)

    def left(self, at: UnixMs) -> list[ledger.Reversal]:
        """Return up to LEFT_MAX stream minutes that dead processes left, as reversals.

        If other processes run, minutes that are not this process's own count as left once they are
        older than LEFT_AFTER_MS.  The caller must hold the write lock.
        """
        before = EVER if self._is_alone() else at - LEFT_AFTER_MS
        return [ledger.Reversal(*row) for row in self._db.execute(LEFT, (self._writer, before))]

    def close(self) -> None:
        """Close the lock file, which releases the lock."""
        if self._lock is not None:
            self._lock.close()

    def _hold(self) -> None:
        """Share the lock of the file, before the first stream minute is stored.

        No other process has the exclusive lock now: a process takes it only while it holds the
        write lock of the database, and this process holds the write lock.
        """
        if not self._has_begun:
            with suppress(OSError):  # without file locks, only the age of minutes counts
                fcntl.flock(self._opened(), fcntl.LOCK_SH | fcntl.LOCK_NB)
                self._has_begun = True

    def _is_alone(self) -> bool:
        """Return whether no other process shares the lock; False if files cannot be locked.

        No process can begin to share it before the caller commits: this needs the write lock.
        """
        with suppress(OSError):
            lock = self._opened()
            kept = fcntl.LOCK_SH if self._has_begun else fcntl.LOCK_UN
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            finally:
                # Also after a refusal: flock releases the shared lock before it tries to get the
                # exclusive one.
                fcntl.flock(lock, kept | fcntl.LOCK_NB)
        return False

    def _opened(self) -> IO[str]:
        if self._lock is None:
            self._lock = self._path.open("w")
        return self._lock


# One statement tests and takes, so two requests can never take the same credit.  It takes from each
# account as many credits as were requested, or as many as there are.  A trigger changes the
# balances.  CROSS JOIN makes SQLite begin with the requested accounts.
SPEND: Final = """
INSERT INTO credit_entry (account, kind, delta, balance, at)
SELECT a.id, 'spend', -min(a.balance, asked.n), a.balance - min(a.balance, asked.n), ?2
  FROM (SELECT value AS account, count(*) AS n FROM carray(?1) GROUP BY value) AS asked
 CROSS JOIN credit_account AS a ON a.id = asked.account
 WHERE a.balance >= 1
"""

# Takes each debit as a whole or not at all.  A cap limits the spending of a key together with the
# other keys of its rotations.  Each account is in at most one debit.  All keys that spend from an
# account belong to its user, so each cap applies to at most one debit, too.
# `coalesce(first_key, id)` is the expression of the index api_key_chain.
DEBIT: Final = """
INSERT INTO credit_entry (account, kind, delta, balance, at, api_key, month, endpoint)
SELECT a.id, 'spend', -asked.n, a.balance - asked.n, ?2, asked.api_key,
       CASE WHEN asked.api_key IS NULL THEN NULL ELSE ?3 END, asked.endpoint
  FROM (SELECT value ->> 0 AS account, value ->> 1 AS n, value ->> 2 AS api_key,
               value ->> 3 AS endpoint
          FROM json_each(?1)) AS asked
 CROSS JOIN credit_account AS a ON a.id = asked.account
 WHERE a.balance >= asked.n
   AND NOT EXISTS (
       SELECT 1 FROM api_key AS k
        WHERE k.id = asked.api_key AND k.month_credits_max < asked.n + coalesce((
           SELECT sum(m.credits) FROM api_key AS each_
             JOIN key_month AS m ON m.api_key = each_.id AND m.month = ?3
            WHERE coalesce(each_.first_key, each_.id) = coalesce(k.first_key, k.id)), 0))
"""

# Stores the name of an answer, and returns a row.  If the name is already stored and has not
# expired, changes nothing and returns no row.
KEEP: Final = """
INSERT INTO kept_answer AS kept (name, account, at) VALUES (?1, ?2, ?3)
    ON CONFLICT (name) DO UPDATE SET at = excluded.at, repeats = 0 WHERE kept.at < ?4
RETURNING name
"""

# A query for a single row, not RETURNING: each fetched row would wait for the interpreter's lock.
SPENT: Final = """
SELECT json_group_array(json_array(account, delta, balance)) FROM credit_entry
 WHERE id > ? AND id <= ?
"""

# A debit writes a page of the write-ahead log for its account, and part of a page for the journal.
CHECKPOINT_DEBITS: Final = 1_000  # debits after which a checkpoint runs when idle
# The approximate size of the write-ahead log at which a checkpoint runs even if requests must wait.
CHECKPOINT_BYTES_MAX: Final = 64 * 1024 * 1024
decode_spent: Final = msgspec.json.Decoder(list[tuple[int, int, int]]).decode


class CreditBook(statements.CreditTables[apsw.Connection]):
    """The tables of credits in one SQLite database, for use in one thread."""

    errors = apsw.Error
    refusals = apsw.ConstraintError

    def __init__(self, path: Path, *, pepper: bytes) -> None:
        db = open_store(path, "money")
        super().__init__(
            db,
            pepper=pepper,
            transaction=partial(transaction, db),
            snapshot=partial(snapshot, db),
            name=str(path),
        )
        self._minutes = MinutesUnderWay(db, path)
        self._forgot_at = UnixMs(0)
        self._debit_count = 0  # debits since the last checkpoint
        self._debits_max = CHECKPOINT_BYTES_MAX // int(db.pragma("page_size"))
        db.wal_autocheckpoint(0)  # no checkpoint in the middle of a batch

    @override
    def spend(
        self, accounts: Sequence[CreditAccount], at: UnixMs
    ) -> list[ledger.Spent | ledger.Empty]:
        self._clear_minutes_if_due(at)
        # A single statement begins, changes and commits while the interpreter's lock is free.
        self._db.execute(SPEND, (apsw.carray(array("q", accounts)), at))
        count = self._db.changes()  # without the changes of triggers
        spent = self._spent(count)
        self._debit_count += count
        self._checkpoint(self._debits_max)
        if len(spent) == len(accounts):  # one credit of each account
            left = {account: ledger.Spent(balance) for account, _, balance in spent}
            return [left[account] for account in accounts]
        return statements.one_by_one(accounts, spent)

    @override
    def debit(self, debits: Sequence[ledger.Debit], at: UnixMs) -> list[ledger.DebitOutcome]:
        self._clear_minutes_if_due(at)
        with transaction(self._db):
            if debits and debits[0].once is not None:
                month = month_of(at)
                outcomes = [self._debit_once(each, at, month) for each in debits]
                # Not only in `rest`: a busy process may never rest.  More names than are stored.
                kept_answers.forget_kept(self._db, at, 2 * len(debits))
            else:
                outcomes = self._debit_each(debits, at)
        self._debit_count += len(debits)
        self._checkpoint(self._debits_max)
        return outcomes

    def _debit_once(self, debit: ledger.Debit, at: UnixMs, month: Month) -> ledger.DebitOutcome:
        """Take the credits of *debit*, which names an answer; take nothing if that was paid for."""
        if self._db.execute(KEEP, (debit.once, debit.account, at, at - ledger.KEPT_MS)).get is None:
            bought_at = self._db.execute(kept_answers.REPEAT, (debit.once,)).get
            balance = self.balance(debit.account)
            return ledger.Debited(debit, balance, month, bought_at, is_repeat=True)
        (outcome,) = self._debit([debit], at, month)
        if not isinstance(outcome, ledger.Debited):
            # So that a later request with this name can buy the answer.
            self._db.execute(kept_answers.UNKEEP, (debit.once,))
        return outcome

    @override
    def prepay(self, debits: Sequence[ledger.Debit], at: UnixMs) -> list[ledger.DebitOutcome]:
        # Not only in `rest`: a busy process may never rest.
        self._give_back_left(at)
        with transaction(self._db):
            cleared_count = self._delete_sent()
            outcomes = self._minutes.begin(self._debit_each(debits, at), at)
        # After the commit: if the commit fails, the rows must be deleted later.
        self._note_cleared(cleared_count, at)
        self._debit_count += len(debits)
        self._checkpoint(self._debits_max)
        return outcomes

    def _debit_each(self, debits: Sequence[ledger.Debit], at: UnixMs) -> list[ledger.DebitOutcome]:
        """Take all credits of each debit or none, in the current transaction.

        The debits of each account are taken in order.  The outcomes are in the order of *debits*.
        """
        month = month_of(at)
        outcomes = dict[int, ledger.DebitOutcome]()
        for places in _rounds(debits):
            asked = [debits[place] for place in places]
            outcomes |= zip(places, self._debit(asked, at, month), strict=True)
        return [outcomes[place] for place in range(len(debits))]

    def _debit(
        self, debits: Sequence[ledger.Debit], at: UnixMs, month: Month
    ) -> list[ledger.DebitOutcome]:
        """Take each of *debits* that balance and cap allow; each must be for another account."""
        asked = [(each.account, each.credit_count, each.key, each.endpoint) for each in debits]
        self._db.execute(DEBIT, (msgspec.json.encode(asked).decode(), at, month))
        spent = self._spent(self._db.changes())
        left = {account: balance for account, _, balance in spent}
        return [self._outcome(each, left.get(each.account), at, month) for each in debits]

    def _spent(self, count: int) -> list[tuple[int, int, int]]:
        """Return the account, the change and the balance of each of the last *count* entries."""
        # Their ids have no gaps, because the statement held the write lock.
        last = self._db.last_insert_rowid()
        return decode_spent(self._db.execute(SPENT, (last - count, last)).get) if count else []

    def _outcome(
        self, debit: ledger.Debit, left: int | None, at: UnixMs, month: Month
    ) -> ledger.DebitOutcome:
        if left is not None:
            return ledger.Debited(debit, left, month, at)
        balance = self.balance(debit.account)
        return ledger.CapReached(month) if balance >= debit.credit_count else ledger.TooFew(balance)

    @override
    def expect_writable(self) -> None:
        with transaction(self._db):
            kept = self._db.execute("SELECT check_hash FROM pepper").get
            # SQLite would write nothing for a row that does not change.
            self._db.execute("UPDATE pepper SET check_hash = zeroblob(length(check_hash))")
            self._db.execute("UPDATE pepper SET check_hash = ?", (kept,))

    @override
    def note_answered(self, batch_count: int) -> None:
        pass  # batches are not stored, so no other process gives them back

    @override
    def rest(self, at: UnixMs) -> None:
        """Do deferred work while no request waits.

        Delete sent stream minutes and expired names of answers, give back the credits of stream
        minutes that dead processes left, and checkpoint the write-ahead log after many debits.
        """
        if self._sent:
            self._clear_minutes(at)
        self._give_back_left(at)
        if abs(at - self._forgot_at) >= ledger.KEPT_MS:
            with transaction(self._db):
                # While expired names remain, each rest deletes some.
                if not kept_answers.forget_kept(self._db, at):
                    self._forgot_at = at
        self._checkpoint(CHECKPOINT_DEBITS)

    @override
    def _savepoint(self) -> AbstractContextManager[object]:
        return self._db

    @override
    def _clear_minutes(self, at: UnixMs) -> None:
        with transaction(self._db):
            cleared_count = self._delete_sent()
        self._note_cleared(cleared_count, at)

    def _delete_sent(self) -> int:
        """Delete the rows of stream minutes that were sent; return the number of rows."""
        numbers = list(self._sent)
        self._db.executemany(CLEAR, [(number,) for number in numbers])
        return len(numbers)

    def _give_back_left(self, at: UnixMs) -> None:
        """Give back the credits of stream minutes that dead processes left."""
        if self._minutes.may_be_left(at):
            with transaction(self._db):
                credit_count = self._reverse(self._minutes.left(at), at)
            statements.tell_given_back(credit_count)

    def wait_at_most(self, milliseconds: int) -> None:
        """Set the time for which a statement waits for locks of other connections."""
        self._db.set_busy_timeout(milliseconds)

    @override
    def close(self) -> None:
        self._minutes.close()
        super().close()

    def _checkpoint(self, debit_count: int) -> None:
        if self._debit_count >= debit_count:
            self._debit_count = 0
            # PASSIVE: copy what is possible without waiting for readers.
            self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)


def _rounds(debits: Sequence[ledger.Debit]) -> Iterable[list[int]]:
    """Divide *debits* into rounds, so that no round has two debits of the same account.

    Return the indexes of each round.
    """
    seen: Counter[int] = Counter()
    rounds: defaultdict[int, list[int]] = defaultdict(list)
    for place, debit in enumerate(debits):
        rounds[seen[debit.account]].append(place)
        seen[debit.account] += 1
    return rounds.values()


READ_PATIENCE_MS: Final = 100  # the longest wait of a read, while SQLite recovers the log


class SqliteCreditLedger(GroupCreditLedger):
    """The credit ledger over SQLite, for one event loop.

    Reads run on the event loop: they use indexes, and never wait for a writer.
    """

    def __init__(
        self, path: Path, *, pepper: bytes, clock: Clock, patience_s: float = PATIENCE_S
    ) -> None:
        reading = CreditBook(path, pepper=pepper)
        reading.wait_at_most(READ_PATIENCE_MS)
        writing = CreditBook(path, pepper=pepper)
        with suppress(apsw.Error):  # `rest` runs again later
            writing.rest(clock.now())  # gives back the credits that earlier processes owe
        super().__init__(
            writing,
            AccessAtOnce(reading),
            clock=clock,
            patience_s=patience_s,
        )
