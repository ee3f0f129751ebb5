"""Credit ledger over the credit tables of either engine, SQLite or PostgreSQL."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from hashlib import sha256
from typing import Any, Final, TypeVar

import structlog

from mintscope.credits import ledger
from mintscope.credits.statements import CreditTables
from mintscope.kit.clock import Clock
from mintscope.kit.credentials import CreditToken
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.metrics import DEBITS
from mintscope.kit.primitives import CreditAccount
from mintscope.kit.sql.database import DatabaseAccess
from mintscope.kit.sql.group_commit import PATIENCE_S, GroupCommit
from mintscope.kit.time import month_of

KNOWN_MAX: Final = 100_000  # the most items of each cache, which is emptied when it is full
UNAVAILABLE: Final = "The credit ledger does not answer; nothing was charged."

log = structlog.get_logger()
T = TypeVar("T")
Outcome = TypeVar("Outcome")


class GroupCreditLedger:
    """Credit ledger for one event loop, which commits many spends together, in a thread.

    Implements CreditLedger, InstantLedger and DebitLedger.  Accounts that were found are cached.

    writing      the tables that the commits write to
    reading      runs reads, on other connections than *writing*
    patience_s   the seconds after which all waiting requests are refused if no batch of spends has
                 ended; as this is checked periodically, it may take up to twice this time
    """

    def __init__(
        self,
        writing: CreditTables[Any],
        reading: DatabaseAccess[CreditTables[Any]],
        *,
        clock: Clock,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._clock = clock
        self._known: dict[bytes, CreditAccount] = {}
        self._roots: dict[CreditAccount, CreditAccount] = {}
        self._remembered: dict[bytes, ledger.Remembered] = {}
        self._drained: set[CreditAccount] = set()  # accounts that were empty after a single spend
        self._owed: deque[ledger.Reversal] = deque()
        self._sent: deque[int] = deque()  # numbers of minutes that were sent or have ended
        # The reversals of each answered batch, as one item: the writer's thread must not see that a
        # batch was answered without its reversals.
        self._answered: deque[Sequence[ledger.Reversal]] = deque()
        self._answered_count = 0  # number of answered batches that were taken from the deque
        self._writing = writing
        self._reading = reading
        self._errors = writing.errors
        # Each way to commit must be one object: debits that are submitted with the same object are
        # committed in one batch.
        self._debiting = self._commit_debits
        # `partial` makes a separate object, so that no batch has both debits with a name and
        # debits without: `CreditTables.debit` requires this.
        self._debiting_once = partial(self._commit_debits)
        self._prepaying = self._commit_minutes
        self._group: GroupCommit[CreditAccount, ledger.Spent | ledger.Empty] = GroupCommit(
            self._commit,
            rest=self._rest,
            delivered=self._note_delivered,
            patience_s=patience_s,
        )

    async def issue(self, token: CreditToken, credit_count: int, note: str) -> CreditAccount:
        """Create an account with *credit_count* credits that *token* can spend."""

        def issue() -> CreditAccount:
            with self._unavailable():
                return self._writing.issue(token, credit_count, note=note, at=self._clock.now())

        return await self._group.run(issue)

    async def find(self, bearer: str) -> CreditAccount | None:
        """Return the account of the credit token *bearer*.

        Return None if the token is unknown, or if its credits were moved to a new token.  The store
        is always read, because another process may have moved them.
        """
        account = await self._read(lambda book: book.find(bearer))
        digest = sha256(bearer.encode()).digest()
        if account is None:
            self._known.pop(digest, None)
            self._remembered.pop(digest, None)
            return None
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        self._known[digest] = account
        return account

    async def root(self, account: CreditAccount) -> CreditAccount:
        """Return the oldest account from which the credits of *account* were moved by rotations.

        The result is cached, because it never changes.
        """
        root = self._roots.get(account)
        if root is None:
            root = await self._read(lambda book: book.root(account))
            if len(self._roots) >= KNOWN_MAX:
                self._roots.clear()
            self._roots[account] = root
        return root

    async def spend(self, account: CreditAccount) -> ledger.Spent | ledger.Empty:
        """Take one credit if there is one; return when the debit is durable."""
        return await self._heard(account, self._group.submit(account))

    async def debit(self, debit: ledger.Debit) -> ledger.DebitOutcome:
        """Take all credits of *debit* or none; return when the debit is durable."""
        commit = self._debiting if debit.once is None else self._debiting_once
        return await self._heard(debit, self._group.submit_by(commit, debit))

    async def prepay(self, debit: ledger.Debit) -> ledger.DebitOutcome:
        """Take all credits of *debit* or none, for a new minute of a stream."""
        return await self._heard(debit, self._group.submit_by(self._prepaying, debit))

    def note_sent(self, debited: ledger.Debited) -> None:
        """Record that a part of the stream minute of *debited* was sent, or that it has ended."""
        assert debited.minute is not None
        self._sent.append(debited.minute)

    async def give_back(self, debited: ledger.Debited, credit_count: int) -> None:
        """Give back *credit_count* of the credits of *debited*.

        If the store fails, the credits are given back later.
        """
        self._owed.append(debited.reversal(credit_count))
        await self._group.run(self._give_back_now)

    def owe(self, reversal: ledger.Reversal) -> None:
        """Give back the credits of *reversal* with the next commit, or soon if there is none."""
        # In the next iteration, the batch of the debit counts as answered.
        asyncio.get_running_loop().call_soon(self._owe, reversal)

    def recall(self, bearer: bytes) -> ledger.Remembered | None:
        """Return the account of the credit token *bearer* from the cache; None if it is not cached.

        Also return None if the last spend of a single credit left the account empty, or found it
        empty.
        """
        digest = sha256(bearer).digest()
        remembered = self._remembered.get(digest) or self._remember(digest)
        # If another process has rotated the token meanwhile, the cached account has no credits, so
        # a spend from it takes nothing.
        return None if remembered is None or remembered.account in self._drained else remembered

    def spend_for(self, account: CreditAccount, waiter: ledger.DebitWaiter) -> None:
        """Take one credit if there is one; *waiter* gets the outcome when the debit is durable."""
        self._group.submit_for(account, waiter)

    async def balance(self, account: CreditAccount) -> int:
        """Return the credits that the account has."""
        return await self._read(lambda book: book.balance(account))

    async def expect_cap(self, key: int, credit_count: int) -> ledger.CapReached | None:
        """Return CapReached if *credit_count* more credits exceed the cap of *key*; else None."""
        month = month_of(self._clock.now())
        # Only a forecast: other requests may spend meanwhile, so the debit checks the cap again.
        left = await self._read(lambda book: book.cap_left(key, month))
        return None if left is None or left >= credit_count else ledger.CapReached(month)

    async def is_bought(self, once: str) -> bool:
        """Return whether the answer *once* was paid for, so that its debit would take nothing."""
        now = self._clock.now()
        return await self._read(lambda book: book.is_bought(once, now))

    async def statement(self, account: CreditAccount) -> ledger.Statement:
        """Return the balance, the spent credits and the newest entries of *account*."""
        return await self._read(lambda book: book.statement(account))

    async def expect_writable(self) -> None:
        """Test whether the store can write durably; raise ServiceUnavailable if it cannot."""
        await self._group.run(self._expect_writable)

    async def close(self) -> None:
        """Finish the queued work, then close the connections."""
        await self._group.close()
        # Again: the last batches count as answered only after the writer's thread has ended.
        self._rest()
        self._writing.close()
        self._reading.close()

    async def _heard(
        self, item: CreditAccount | ledger.Debit, waiter: asyncio.Future[Outcome]
    ) -> Outcome:
        """Return the outcome of *waiter*, which takes the credits of *item*.

        If the caller is cancelled after the outcome was set, and before the caller continues, the
        credits are given back here: `_note_delivered` counts the outcome as reported.
        """
        try:
            return await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled() and waiter.exception() is None:
                reversal = _reversal(item, waiter.result())
                if reversal is not None:
                    self.owe(reversal)
            raise

    async def _read(self, work: Callable[[CreditTables[Any]], T]) -> T:
        with self._unavailable():
            return await self._reading.run(work)

    def _commit(self, accounts: Sequence[CreditAccount]) -> Sequence[ledger.Spent | ledger.Empty]:
        outcomes = self._take(
            len(accounts), lambda: self._writing.spend(accounts, self._clock.now())
        )
        self._note_drained(accounts, outcomes)
        empty_count = sum(isinstance(each, ledger.Empty) for each in outcomes)
        DEBITS.labels("empty").inc(empty_count)
        DEBITS.labels("spent").inc(len(outcomes) - empty_count)
        return outcomes

    def _commit_debits(self, debits: Sequence[ledger.Debit]) -> Sequence[ledger.DebitOutcome]:
        return self._committed(debits, lambda: self._writing.debit(debits, self._clock.now()))

    def _commit_minutes(self, debits: Sequence[ledger.Debit]) -> Sequence[ledger.DebitOutcome]:
        return self._committed(debits, lambda: self._writing.prepay(debits, self._clock.now()))

    def _committed(
        self, debits: Sequence[ledger.Debit], take: Callable[[], list[ledger.DebitOutcome]]
    ) -> Sequence[ledger.DebitOutcome]:
        outcomes = self._take(len(debits), take)
        for outcome in outcomes:
            if isinstance(outcome, ledger.Debited):
                label = "repeated" if outcome.is_repeat else "spent"
                DEBITS.labels(label).inc(outcome.debit.credit_count)
            else:
                DEBITS.labels("empty" if isinstance(outcome, ledger.TooFew) else "capped").inc()
        return outcomes

    def _take(self, count: int, take: Callable[[], T]) -> T:
        """Give back owed credits, then return the result of *take*.

        count   the number of debits in *take*, for the metric of failed ones
        """
        try:
            with self._unavailable():
                # In this order: on PostgreSQL, *take* deletes the rows of answered batches, so the
                # reversals of these batches must be stored before.
                self._give_back()
                return take()
        except ServiceUnavailable:
            DEBITS.labels("failed").inc(count)
            raise

    def _remember(self, digest: bytes) -> ledger.Remembered | None:
        account = self._known.get(digest)
        root = None if account is None else self._roots.get(account)
        if account is None or root is None:
            return None
        if len(self._remembered) >= KNOWN_MAX:
            self._remembered.clear()
        remembered = self._remembered[digest] = ledger.Remembered(account, root)
        return remembered

    def _note_drained(
        self, accounts: Sequence[CreditAccount], outcomes: Sequence[ledger.Spent | ledger.Empty]
    ) -> None:
        for account, outcome in zip(accounts, outcomes, strict=True):
            if isinstance(outcome, ledger.Empty) or not outcome.balance:
                if len(self._drained) >= KNOWN_MAX:
                    self._drained.clear()
                self._drained.add(account)
            elif account in self._drained:
                self._drained.discard(account)

    def _expect_writable(self) -> None:
        with self._unavailable():
            self._writing.expect_writable()

    def _owe(self, reversal: ledger.Reversal) -> None:
        self._owed.append(reversal)
        self._group.rest_soon()

    def _note_delivered(
        self, unheard: Sequence[tuple[CreditAccount | ledger.Debit, object]]
    ) -> None:
        """Record that the debits of a batch were answered.

        Those in *unheard*, whose requests were cancelled, are queued to be given back.
        """
        undone = [_reversal(item, outcome) for item, outcome in unheard]
        reversals = [each for each in undone if each is not None]
        # Also if there are no reversals: each item stands for one answered batch.
        self._answered.append(reversals)
        if reversals:
            self._group.rest_soon()

    def _give_back_now(self) -> None:
        with self._unavailable():
            self._give_back()

    def _give_back(self) -> None:
        """Commit the reversals of all owed credits; if this fails, they remain owed.

        Also record the sent stream minutes, and the answered batches of debits.
        """
        # The event loop may append to each deque meanwhile, so only its present items are taken.
        if self._sent:
            self._writing.note_sent([self._sent.popleft() for _ in range(len(self._sent))])
        # Read first, so that the batches of these reversals count as answered below.
        owed = [self._owed.popleft() for _ in range(len(self._owed))]
        for _ in range(len(self._answered)):
            owed += self._answered.popleft()
            self._answered_count += 1
        self._writing.note_answered(self._answered_count)
        self._writing.give_back(owed, self._clock.now())

    def _unavailable(self) -> AbstractContextManager[None]:
        return unavailable_on(self._errors)

    def _rest(self) -> None:
        try:
            self._give_back()
            # Not reached if a reversal failed: on PostgreSQL, `rest` deletes the rows by which
            # another process can give the credits back.
            self._writing.rest(self._clock.now())
        except self._errors:
            log.warning("could not tidy up the ledger", exc_info=True)


def _reversal(item: CreditAccount | ledger.Debit, outcome: object) -> ledger.Reversal | None:
    """Return the reversal of the credits that were taken for *item*; None if none were taken."""
    if isinstance(outcome, ledger.Debited):
        return outcome.reversal()
    if isinstance(outcome, ledger.Spent):
        assert isinstance(item, int)
        return ledger.Reversal(item, 1)
    return None


@contextmanager
def unavailable_on(errors: type[Exception]) -> Iterator[None]:
    """Log *errors* of the database in the block, and raise ServiceUnavailable instead."""
    try:
        yield
    except errors as cause:
        log.exception("the ledger does not answer")
        raise ServiceUnavailable(UNAVAILABLE) from cause


class CreditAccounts:
    """Lists credit accounts for operators; reads run in threads.

    Reads raise ServiceUnavailable if the store does not answer.

    listing   the tables, over a connection of their own
    """

    def __init__(self, listing: CreditTables[Any]) -> None:
        self._listing = listing

    async def page(
        self,
        ending: str = "",
        *,
        after: CreditAccount = ledger.FIRST,
        limit: int = ledger.ACCOUNTS_A_PAGE,
    ) -> Sequence[ledger.AccountLine]:
        """Return up to *limit* accounts with an id above *after*, oldest first.

        ending    only accounts whose credit token ends in this; "": all accounts
        """
        return await self._read(lambda: self._listing.page(ending, after, limit))

    async def summary(self, account: CreditAccount) -> Sequence[ledger.KindLine]:
        """Return the entries of *account*, added up by kind, spends last."""
        return await self._read(lambda: self._listing.summary(account))

    async def contradictions(self) -> Sequence[CreditAccount]:
        """Return the accounts whose balance differs from the sum of its entries.

        The sum is that of the last closed month, with the later entries added.
        """
        return await self._read(self._listing.contradictions)

    async def close(self) -> None:
        """Close the connection to the database."""
        self._listing.close()

    async def _read(self, work: Callable[[], T]) -> T:
        with unavailable_on(self._listing.errors):
            return await asyncio.to_thread(work)
