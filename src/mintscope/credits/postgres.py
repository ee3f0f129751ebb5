"""Credit ledger in PostgreSQL.

Each batch of debits is stored as a row until its requests are answered.  If a replica (a process of
the installation) dies, the rows of its unanswered batches remain, and another replica gives their
credits back.

All decisions are made in SQL, so any number of replicas can spend, issue and read at the same time.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from secrets import randbits
from typing import Any, Final, NamedTuple

import msgspec
import structlog
from msgspec import structs
from typing_extensions import override

from mintscope.credits import kept_answers, ledger, statements
from mintscope.credits.store import GroupCreditLedger
from mintscope.kit.clock import Clock
from mintscope.kit.metrics import DEBITS
from mintscope.kit.primitives import CreditAccount, UnixMs
from mintscope.kit.sql.database import (
    READ_TIMEOUT_S,
    AccessInThreads,
    DatabaseAway,
    DatabaseError,
)
from mintscope.kit.sql.group_commit import PATIENCE_S
from mintscope.kit.sql.postgres import HERE, InDoubt, PostgresDatabase, Refused
from mintscope.kit.time import DAY_MS, Month, month_of

# Now, by the clock of the database, in Unix milliseconds.
NOW: Final = "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"

# Like DEBIT, for minutes of streams: also stores each new minute, and deletes sent minutes.
# `taken` is MATERIALIZED because it is read twice, and `debit_for` must take the credits once.
PREPAY: Final = """
WITH answered AS (DELETE FROM credit_batch WHERE id = ANY(?5::bigint[])),
sent AS (DELETE FROM stream_minute WHERE id = ANY(?10::bigint[])),
taken AS MATERIALIZED (
    SELECT debit_for(?1::bigint[], ?6::bigint[], ?7::bigint[], ?8::bigint[], ?2::bigint,
                     ?9::bigint, NULL, NULL) AS debited),
begun AS (
    INSERT INTO stream_minute (id, writer, at, account, credits, api_key, month, endpoint)
    SELECT minute.id, ?4::bigint, ?2::bigint, (each ->> 0)::bigint, -(each ->> 1)::bigint,
           (each ->> 3)::bigint,
           CASE WHEN each ->> 3 IS NULL THEN NULL ELSE (each ->> 4)::bigint END,
           (each ->> 7)::bigint
      FROM taken
     CROSS JOIN json_array_elements(taken.debited::json) WITH ORDINALITY AS debit (each, place)
      JOIN unnest(?11::bigint[]) WITH ORDINALITY AS minute (id, place) USING (place)
     WHERE (each ->> 1)::bigint < 0)
INSERT INTO credit_batch (id, at, writer, spent, begun)
SELECT ?3::bigint, ?2::bigint, ?4::bigint, '[]', debited FROM taken
RETURNING begun
"""

CLEAR: Final = "DELETE FROM stream_minute WHERE id = ANY(?1::bigint[])"
TAKEN_FOR: Final = f"""
SELECT {statements.COLUMNS} FROM stream_minute AS minute WHERE id = ANY(?1::bigint[])
"""  # noqa: S608 - a constant
# A writer is a replica.  A writer without a row has been dead for a day or longer.
LEFT: Final = f"""
SELECT {statements.COLUMNS} FROM stream_minute AS minute
  LEFT JOIN credit_writer AS known ON known.id = minute.writer
 WHERE coalesce(known.seen_at, 0) < {NOW} - ?1 ORDER BY minute.id LIMIT {statements.LEFT_MAX}
"""  # noqa: S608 - constants


# One statement tests and takes credits: from each account as many as were requested, or as many as
# there are.  Rows are locked in the order of id, so that no two batches wait for each other, and in
# a mode that lets other transactions insert rows that reference the accounts.  A trigger changes
# the balances.  A batch that took nothing is stored, too: its row shows that the statement ran.
SPEND: Final = """
WITH asked AS (
    SELECT account, count(*) AS n FROM unnest(?1::bigint[]) AS account GROUP BY account),
held AS (
    SELECT a.id, a.balance, least(a.balance, asked.n) AS taken
      FROM asked JOIN credit_account AS a ON a.id = asked.account
     WHERE a.balance >= 1 ORDER BY a.id FOR NO KEY UPDATE OF a),
spent AS (
    INSERT INTO credit_entry (account, kind, delta, balance, at)
    SELECT id, 'spend', -taken, balance - taken, ?2::bigint FROM held
    RETURNING account, delta, balance),
answered AS (DELETE FROM credit_batch WHERE id = ANY(?5::bigint[]))
INSERT INTO credit_batch (id, at, writer, spent)
SELECT ?3::bigint, ?2::bigint, ?4::bigint,
       coalesce(json_agg(json_build_array(account, delta, balance))::text, '[]') FROM spent
RETURNING spent
"""

# Like SPEND, for debits that are taken as a whole or not at all: a function of the migrations takes
# them.
DEBIT: Final = """
WITH answered AS (DELETE FROM credit_batch WHERE id = ANY(?5::bigint[]))
INSERT INTO credit_batch (id, at, writer, spent, debited)
VALUES (?3::bigint, ?2::bigint, ?4::bigint, '[]',
        debit_for(?1::bigint[], ?6::bigint[], ?7::bigint[], ?8::bigint[], ?2::bigint, ?9::bigint,
                  ?10::text[], ?11::bigint))
RETURNING debited
"""

BOUGHT: Final = "SELECT name, at FROM kept_answer WHERE name = ANY(?1::text[])"

# Locks the accounts of reversals and of the answers that they name, and their successors, in the
# order in which debits lock accounts.
LOCK: Final = """
WITH RECURSIVE credited (id) AS (
    SELECT account FROM (
        SELECT unnest(?1::bigint[]) AS account UNION
        SELECT account FROM kept_answer WHERE name = ANY(?2::text[])) AS reversed
    UNION
    SELECT a.successor FROM credited JOIN credit_account AS a ON a.id = credited.id
     WHERE a.successor IS NOT NULL)
SELECT a.id FROM credit_account AS a JOIN credited ON credited.id = a.id
 ORDER BY a.id FOR NO KEY UPDATE OF a
"""

# Waits if the batch is being committed.  If the batch is not stored then, this row with its id
# prevents a later commit of the batch.
FORBID: Final = "INSERT INTO credit_batch (id, at) VALUES (?, ?) ON CONFLICT DO NOTHING"
LOOK_UP: Final = "SELECT coalesce(begun, debited, spent) FROM credit_batch WHERE id = ?"
ANSWERED: Final = "DELETE FROM credit_batch WHERE id = ANY(?1::bigint[])"
# Part of the transaction of reversals.  The row of a batch that took nothing shows later whether
# the transaction was committed.  Without a writer, other replicas keep it for a day.
REVERSED: Final = """
WITH answered AS (DELETE FROM credit_batch WHERE id = ANY(?3::bigint[]))
INSERT INTO credit_batch (id, at, spent) VALUES (?1, ?2, '[]')
"""
# The row stays without its debits, so that its replica sees that they were given back, if it is not
# dead after all.
TAKE_BACK: Final = """
WITH stored AS (
    SELECT id, at, coalesce(debited, spent) AS taken FROM credit_batch
     WHERE id = ? AND spent IS NOT NULL FOR UPDATE)
UPDATE credit_batch AS batch SET spent = NULL, debited = NULL, begun = NULL, writer = NULL
  FROM stored WHERE batch.id = stored.id
RETURNING stored.taken, stored.at
"""
TAKEN_BACK: Final = "SELECT id, at FROM credit_batch WHERE id = ANY(?1::bigint[]) AND spent IS NULL"

# Times are by the clock of the database.  `since` is reset if the replica was not seen for GAP_MS.
BE_SEEN: Final = f"""
INSERT INTO credit_writer AS known (id, since, seen_at)
SELECT ?1::bigint, now, now FROM (SELECT {NOW} AS now) AS clock
    ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at, since =
       CASE WHEN known.seen_at < excluded.seen_at - ?2 THEN excluded.since ELSE known.since END
RETURNING seen_at - since
"""  # noqa: S608 - a constant
LEFT_BEHIND: Final = f"""
SELECT batch.id FROM credit_batch AS batch JOIN credit_writer AS known ON known.id = batch.writer
 WHERE batch.spent IS NOT NULL AND known.seen_at < {NOW} - ?1 ORDER BY batch.id LIMIT 1000
"""  # noqa: S608 - a constant
FORGET: Final = "DELETE FROM credit_batch WHERE at < ? AND (spent IS NULL OR writer IS NULL)"
FORGET_WRITERS: Final = f"""
DELETE FROM credit_writer AS known WHERE seen_at < {NOW} - ?1
   AND NOT EXISTS (SELECT 1 FROM credit_batch AS batch WHERE batch.writer = known.id)
"""  # noqa: S608 - a constant

# The time for which the outcome of a batch is looked up if its response was lost: longer than
# clients wait.  Afterwards the credits are given back.
LOOK_UP_S: Final = 30.0
PAUSE_S: Final = 0.1
SEEN_EVERY_S: Final = 10.0
FORGETS_MAX: Final = 10  # maximum number of parts deleted per round, because debits wait
GAP_MS: Final = 30_000  # the pause after which `since` is reset: several times SEEN_EVERY_S
DEAD_MS: Final = 60_000  # a replica not seen for this time counts as dead; above LOOK_UP_S
decode_spent: Final = msgspec.json.Decoder(list[tuple[int, int, int]]).decode
# The columns: account, delta, balance, key, month, name, is_repeat, endpoint.
Taken = tuple[int, int, int, int | None, Month, str | None, bool, int | None]
decode_debited: Final = msgspec.json.Decoder(list[Taken]).decode
decode_taken: Final = msgspec.json.Decoder(list[list[Any]]).decode

log = structlog.get_logger()


class _Reversed(NamedTuple):
    """A transaction that gives back the first *reversal_count* owed reversals.

    batch      the id of the row that it stores
    answered   the answered batches whose rows it deletes
    """

    batch: int
    reversal_count: int
    credit_count: int
    answered: list[int]


# The account, key, month and endpoint of a reversal.
_Purpose = tuple[CreditAccount, int | None, Month | None, int | None]


class PostgresCreditBook(statements.CreditTables[PostgresDatabase]):
    """The credit tables over one PostgreSQL connection, for one thread.

    Each batch of debits is stored until its requests are answered: if the response of the
    database is lost, the batch shows the outcome, and if this process dies, another process gives
    the credits back.
    """

    errors = DatabaseError
    refusals = Refused

    def __init__(
        self,
        dsn: str,
        *,
        pepper: bytes,
        now_ms: Callable[[], int] = HERE.now,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        db = PostgresDatabase(dsn, now_ms=now_ms)
        super().__init__(
            db,
            pepper=pepper,
            transaction=db.transaction,
            snapshot=db.snapshot,
            name="the database",
        )
        self._now_s = now_s
        self._writer = randbits(63)
        self._committed: deque[int] = deque()  # ids of stored batches, oldest first
        self._gone_count = 0  # the number of deleted batches
        self._answered_count = 0
        # Batches of unknown outcome: their ids, and the numbers of their stream minutes.
        self._doubted: list[tuple[int, Sequence[int]]] = []
        self._doubted_reversals: _Reversed | None = None  # of unknown outcome
        self._seen_at_s: float | None = None
        self._taken: dict[int, str] = {}  # the debits of stored batches without minutes, as JSON
        # Credits that other replicas have given back, because they counted this one as dead.
        self._given_back: Counter[_Purpose] = Counter()

    @override
    def spend(
        self, accounts: Sequence[CreditAccount], at: UnixMs
    ) -> list[ledger.Spent | ledger.Empty]:
        return statements.one_by_one(accounts, decode_spent(self._take(SPEND, list(accounts), at)))

    @override
    def debit(self, debits: Sequence[ledger.Debit], at: UnixMs) -> list[ledger.DebitOutcome]:
        names = [each.once for each in debits] if debits and debits[0].once is not None else None
        taken = self._take(DEBIT, *_asked(debits, at), names, at - ledger.KEPT_MS)
        outcomes = [
            _outcome(debit, each, at)
            for debit, each in zip(debits, decode_debited(taken), strict=True)
        ]
        return outcomes if names is None else self._dated(outcomes, at)

    def _dated(self, outcomes: list[ledger.DebitOutcome], at: UnixMs) -> list[ledger.DebitOutcome]:
        """Return *outcomes*, each repeat with the time of the purchase of its answer."""
        names = [
            each.debit.once
            for each in outcomes
            if isinstance(each, ledger.Debited) and each.is_repeat
        ]
        if not names:
            return outcomes
        bought: dict[str | None, UnixMs] = {}
        with suppress(DatabaseError):  # the debits are stored, so they must not fail now
            bought |= {name: at for name, at in self._db.execute(BOUGHT, (names,))}  # noqa: C416
        latest = kept_answers.latest_purchase(at)
        return [
            structs.replace(each, at=bought.get(each.debit.once, latest))
            if isinstance(each, ledger.Debited) and each.is_repeat
            else each
            for each in outcomes
        ]

    @override
    def prepay(self, debits: Sequence[ledger.Debit], at: UnixMs) -> list[ledger.DebitOutcome]:
        minutes = [randbits(63) for _ in debits]
        sent = list(self._sent)
        taken = self._take(PREPAY, *_asked(debits, at), sent, minutes, minutes=minutes)
        self._note_cleared(len(sent), at)
        debited = zip(debits, decode_debited(taken), minutes, strict=True)
        return [_outcome(debit, each, at, minute) for debit, each, minute in debited]

    def _take(
        self,
        statement: str,
        accounts: list[CreditAccount],
        at: UnixMs,
        *more: object,
        minutes: Sequence[int] = (),
    ) -> str:
        """Run *statement*, and return its debits as JSON, even if its response was lost.

        more       the values of the statement from ?6 on
        minutes    the numbers of stream minutes that the statement stores
        Raises     DatabaseAway if the statement had no effect, or if the database is away for
                   LOOK_UP_S; DatabaseError
        """
        self._tend(at)
        batch = randbits(63)
        answered = self._answered()
        values = (accounts, at, batch, self._writer, answered, *more)
        try:
            taken: str = self._db.execute(statement, values).get
        except DatabaseAway:
            # The answered batches stay in the list: deleting their rows again does no harm.
            taken = self._find_out(batch, at, minutes)
        else:
            self._forget(answered)
        self._committed.append(batch)
        if not minutes:  # minutes are given back by their own rows
            self._taken[batch] = taken
        return taken

    @override
    def note_answered(self, batch_count: int) -> None:
        self._answered_count = batch_count

    @override
    def give_back(self, reversals: Sequence[ledger.Reversal], at: UnixMs) -> None:
        """Give back the credits of *reversals*, and delete the rows of answered batches of debits.

        One transaction does both: another process would give back the debits of a batch whose row
        is still stored.
        """
        self._owed.extend(reversals)
        self._look_up_reversals(at)
        if self._owed:
            self._be_seen(at)
            self._leave_out_given_back()
        if not self._owed:
            return
        batch = randbits(63)
        answered = self._answered()
        try:
            with self._transaction():
                credit_count = self._reverse(self._owed, at)
                self._db.execute(REVERSED, (batch, at, answered))
                done = _Reversed(batch, len(self._owed), credit_count, answered)
        except InDoubt:  # only the commit, after all statements, raises it
            self._doubted_reversals = done
            raise
        self._note_reversed(done)

    def _look_up_reversals(self, at: UnixMs) -> None:
        """Find out whether reversals of unknown outcome were stored; if not, they stay owed."""
        doubted = self._doubted_reversals
        if doubted is None:
            return
        was_committed = self.look_up(doubted.batch, at) is not None
        self._doubted_reversals = None
        if was_committed:
            log.warning("reversals_found", batch=doubted.batch, credits=doubted.credit_count)
            self._note_reversed(doubted)

    def _note_reversed(self, done: _Reversed) -> None:
        del self._owed[: done.reversal_count]
        self._forget(done.answered)
        # The row of the reversals now counts as the oldest answered batch, and is deleted like one.
        self._committed.appendleft(done.batch)
        self._gone_count -= 1
        DEBITS.labels("reversed").inc(done.credit_count)

    @override
    def rest(self, at: UnixMs) -> None:
        """Do deferred work while no request waits.

        Give back debits of unknown outcome, delete the rows of answered batches and sent stream
        minutes, and record that this process is alive.
        """
        # First, because it looks for batches of this replica that were given back.
        self._tend(at)
        if answered := self._answered():
            self._db.execute(ANSWERED, (answered,))
            self._forget(answered)
        if self._sent:
            self._clear_minutes(at)

    @override
    def expect_writable(self) -> None:
        """Raise an error unless the store can write durably and its clock is about right."""
        with self._db.transaction():
            # Unlike SQLite, PostgreSQL writes the row although its value stays the same.
            self._db.execute("UPDATE pepper SET check_hash = check_hash")
        self._db.expect_clock()

    @override
    def _reverse(self, reversals: Iterable[ledger.Reversal], at: UnixMs) -> int:
        left = list(reversals)
        if not left:
            return 0
        # Otherwise the accounts of rotated tokens would be locked in the order of the old tokens,
        # and a batch of debits and this transaction could wait for each other.
        names = [each.once for each in left if each.once is not None]
        self._db.execute(LOCK, ([each.account for each in left], names))
        return super()._reverse(left, at)

    @override
    def _savepoint(self) -> AbstractContextManager[object]:
        return self._db.savepoint()

    @override
    def _clear_minutes(self, at: UnixMs) -> None:
        sent = list(self._sent)
        self._db.execute(CLEAR, (sent,))
        self._note_cleared(len(sent), at)

    def _answered(self) -> list[int]:
        return [self._committed[n] for n in range(self._answered_count - self._gone_count)]

    def _forget(self, answered: list[int]) -> None:
        for _ in answered:
            self._taken.pop(self._committed.popleft(), None)
        self._gone_count += len(answered)

    def _tend(self, at: UnixMs) -> None:
        """Give back debits of unknown outcome.

        Then, each only if it is due: delete the rows of stream minutes that stay paid, and record
        that this process is alive.
        """
        while self._doubted:
            batch, minutes = self._doubted[-1]
            # The result is not needed: from now on the batch is either stored or can never be
            # stored.
            self.look_up(batch, at)
            self._give_batch_back(batch, at, minutes)
            # Last, because a failed transaction is repeated; a batch has no effect the second time.
            self._doubted.pop()
        self._clear_minutes_if_due(at)
        self._be_seen(at)

    def _be_seen(self, at: UnixMs) -> None:
        """Record that this process is alive, at most every SEEN_EVERY_S seconds.

        If it was always seen during the last DEAD_MS, also give back the credits that dead
        processes owe.  Otherwise, look for its own debits that others gave back while it was not
        seen.
        """
        now_s = self._now_s()
        if self._seen_at_s is not None and now_s - self._seen_at_s < SEEN_EVERY_S:
            return
        here_ms = int(self._db.execute(BE_SEEN, (self._writer, GAP_MS)).get)
        # After an outage of the database all replicas look dead, until each had time to be seen
        # again.
        is_steady = here_ms >= DEAD_MS
        if not is_steady:
            self._note_given_back()
        # Not before: if this failed, it is repeated before the next debits, because other replicas
        # give back the minutes of a writer that is not recorded.
        self._seen_at_s = now_s
        if is_steady:
            # No client still waits for an answer from before the gap.
            self._given_back.clear()
            self._clear_up(at)

    def _note_given_back(self) -> None:
        """Note the debits of this process that other processes have given back."""
        if not self._taken:
            return
        for batch, at in self._db.execute(TAKEN_BACK, ([*self._taken],)):
            for reversal in _reversals(decode_taken(self._taken.pop(batch)), at):
                if reversal.once is None:
                    self._given_back[_purpose(reversal)] += reversal.credit_count

    def _leave_out_given_back(self) -> None:
        """Reduce the owed reversals by the credits that other processes have given back.

        Reversals of stream minutes, and of answers with a name, are not reduced: `_reverse` finds
        out whether they are still owed.
        """
        if not self._given_back:
            return
        left = []
        for each in self._owed:
            if each.minute is not None or each.once is not None:
                left.append(each)
                continue
            purpose = _purpose(each)
            covered = min(each.credit_count, self._given_back[purpose])
            self._given_back[purpose] -= covered
            if covered < each.credit_count:
                left.append(structs.replace(each, credit_count=each.credit_count - covered))
        self._owed[:] = left

    def _clear_up(self, at: UnixMs) -> None:
        for (batch,) in self._db.execute(LEFT_BEHIND, (DEAD_MS,)):
            self._give_batch_back(batch, at)
        with self._db.transaction():
            left = [ledger.Reversal(*row) for row in self._db.execute(LEFT, (DEAD_MS,))]
            credit_count = self._reverse(left, at)
        statements.tell_given_back(credit_count)
        self._db.execute(FORGET, (at - DAY_MS,))
        # After the reversals above: a reversal has no effect once the name of its answer is
        # deleted.
        for _ in range(FORGETS_MAX):
            if not kept_answers.forget_kept(self._db, at):
                break
        self._db.execute(FORGET_WRITERS, (DAY_MS,))

    def _find_out(self, batch: int, at: UnixMs, minutes: Sequence[int]) -> str:
        """Return the debits of *batch*, after its response was lost.

        Raises DatabaseAway if the batch has no effect, or if the database does not respond for
        LOOK_UP_S; in the latter case, the debits and *minutes* are given back later.
        """
        until_s = time.monotonic() + LOOK_UP_S
        while True:
            try:
                spent = self.look_up(batch, at)
            except DatabaseAway:
                if time.monotonic() > until_s:
                    self._doubted.append((batch, minutes))
                    raise
                time.sleep(PAUSE_S)
                continue
            if spent is None:
                raise DatabaseAway("the debits did not reach the database")
            log.warning("debits_found", batch=batch)
            return spent

    def look_up(self, batch: int, at: UnixMs) -> str | None:
        """Return the debits of *batch* as JSON; None if it was not committed and never will be."""
        self._db.execute(FORBID, (batch, at))
        spent: str | None = self._db.execute(LOOK_UP, (batch,)).get
        return spent

    def _give_batch_back(self, batch: int, at: UnixMs, minutes: Sequence[int] = ()) -> None:
        """Give back the debits of *batch* and of the stream *minutes*, each at most once."""
        with self._db.transaction():
            reversals = [
                reversal
                for taken, begun_at in self._db.execute(TAKE_BACK, (batch,))
                for reversal in _reversals(decode_taken(taken), begun_at)
            ]
            rows = self._db.execute(TAKEN_FOR, (list(minutes),)) if minutes else ()
            reversals += [ledger.Reversal(*row) for row in rows]
            credit_count = self._reverse(reversals, at)
        if credit_count:
            DEBITS.labels("reversed").inc(credit_count)
            log.warning("debits_given_back", batch=batch, credits=credit_count)


def _asked(
    debits: Sequence[ledger.Debit], at: UnixMs
) -> tuple[list[CreditAccount], UnixMs, list[int], list[int | None], list[int | None], Month]:
    counts = [each.credit_count for each in debits]
    keys = [each.key for each in debits]
    endpoints = [each.endpoint for each in debits]
    return [each.account for each in debits], at, counts, keys, endpoints, month_of(at)


def _outcome(
    debit: ledger.Debit, debited: Taken, at: UnixMs, minute: int | None = None
) -> ledger.DebitOutcome:
    _, delta, balance, _, month, _, is_repeat, _ = debited
    if is_repeat:
        return ledger.Debited(debit, balance, month, at, is_repeat=True)
    if delta:
        return ledger.Debited(debit, balance, month, at, minute)
    return ledger.CapReached(month) if balance >= debit.credit_count else ledger.TooFew(balance)


def _purpose(reversal: ledger.Reversal) -> _Purpose:
    return reversal.account, reversal.key, reversal.month, reversal.endpoint


def _reversals(debited: Iterable[Sequence[Any]], at: UnixMs) -> Iterator[ledger.Reversal]:
    """Yield the reversals that undo the debits of a batch that was stored at *at*."""
    for each in debited:
        # Debits of single credits, and debits stored by older versions, have fewer columns.
        account, delta, _, key, month, once, is_repeat, endpoint = (*each, *[None] * 5)[:8]
        if is_repeat:
            yield ledger.Reversal(account, 0, once=once, at=kept_answers.latest_purchase(at))
        elif delta:  # 0: the debit was refused
            counted_in = None if key is None else month
            yield ledger.Reversal(account, -delta, key, counted_in, None, once, endpoint, at)


class PostgresCreditLedger(GroupCreditLedger):
    """The credit ledger over PostgreSQL, for one event loop; reads run in threads."""

    def __init__(
        self, dsn: str, *, pepper: bytes, clock: Clock, patience_s: float = PATIENCE_S
    ) -> None:
        writing = PostgresCreditBook(dsn, pepper=pepper)
        connect = partial(PostgresCreditBook, dsn, pepper=pepper)
        super().__init__(
            writing,
            AccessInThreads(connect, timeout_s=READ_TIMEOUT_S),
            clock=clock,
            patience_s=patience_s,
        )
