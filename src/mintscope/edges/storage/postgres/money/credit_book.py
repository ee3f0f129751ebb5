"""The credit tables on PostgreSQL: their statements over one connection.

SQL is the authority: any number of replicas may spend, issue and read at once.
"""

from collections.abc import Callable, Sequence

from mintscope.base.credentials import CreditToken, hash_credential, hint
from mintscope.base.errors import UnusableStore
from mintscope.base.primitives import CreditAccount, UnixMs
from mintscope.core.credits.debit import Debit, DebitOutcome, Reversal
from mintscope.core.credits.ledger import (
    AccountLine,
    DayUse,
    Empty,
    KindLine,
    LedgerEntry,
    Spent,
    Statement,
)
from mintscope.edges.storage.postgres.connection import HERE, PostgresDatabase
from mintscope.edges.storage.postgres.money.credit_batches import CreditBatches
from mintscope.edges.storage.sql.money.credit_statements import (
    ADD,
    BALANCE,
    DAYS,
    ENTRIES,
    FIND,
    OPEN_ACCOUNT,
    RECEIVED,
    ROOT,
    one_by_one,
)
from mintscope.edges.storage.sql.money.looking import (
    contradictions,
    ending_in,
    page_of,
    summary_of,
)
from mintscope.edges.storage.sql.money.minutes import reverse


class PostgresCreditBook:
    """The credit tables over one connection, for one thread."""

    def __init__(self, dsn: str, *, pepper: bytes, now_ms: Callable[[], int] = HERE.now) -> None:
        self._db = PostgresDatabase(dsn, now_ms=now_ms)
        self._batches = CreditBatches(self._db)
        self._pepper = pepper
        _expect_pepper(self._db, pepper)

    def issue(
        self, token: CreditToken, credit_count: int, *, note: str, at: UnixMs
    ) -> CreditAccount:
        """Open the account of *token* with a grant of *credit_count*."""
        assert credit_count >= 1
        digest = hash_credential(token, pepper=self._pepper)
        with self._db.transaction():
            account = self._db.execute(OPEN_ACCOUNT, (digest, hint(token), note, at)).get
            self._db.execute(ADD, (account, "grant", credit_count, at))
        return CreditAccount(account)

    def find(self, bearer: str) -> CreditAccount | None:
        """Return the account of the credit token *bearer*."""
        account = self._db.execute(FIND, (hash_credential(bearer, pepper=self._pepper),)).get
        return None if account is None else CreditAccount(account)

    def root(self, account: CreditAccount) -> CreditAccount:
        """Return the first account of the chain of rotations that *account* came from."""
        return CreditAccount(self._db.execute(ROOT, (account,)).get)

    def balance(self, account: CreditAccount) -> int:
        """Return the credits left."""
        return int(self._db.execute(BALANCE, (account,)).get)

    def spend(self, accounts: Sequence[CreditAccount], at: UnixMs) -> list[Spent | Empty]:
        """Take one credit for each of *accounts*, first come first served, in one commit."""
        return one_by_one(accounts, self._batches.spend(accounts, at))

    def note_answered(self, batch_count: int) -> None:
        """Note that the requests of the first *batch_count* batches were answered."""
        self._batches.note_answered(batch_count)

    def debit(self, debits: Sequence[Debit], at: UnixMs) -> list[DebitOutcome]:
        """Take all credits of each or none, first come first served, in one commit."""
        if debits and debits[0].once is not None:
            return self._batches.debit_once(debits, at)
        return self._batches.debit(debits, at)

    def prepay(self, debits: Sequence[Debit], at: UnixMs) -> list[DebitOutcome]:
        """Do what `debit` does, and note the minutes that begin, in the same commit."""
        return self._batches.prepay(debits, at)

    def note_sent(self, minutes: Sequence[int]) -> None:
        """Note that *minutes* are under way no more, with a later commit."""
        self._batches.sent.numbers.extend(minutes)

    def give_back(self, reversals: Sequence[Reversal], at: UnixMs) -> None:
        """Give back what each says; what was taken for a minute only while it is under way."""
        with self._db.transaction():
            reverse(self._db, reversals, at)

    def page(self, after: int, limit: int) -> list[AccountLine]:
        """Return up to *limit* accounts that follow the account *after*, oldest first."""
        return page_of(self._db, after, limit)

    def ending_in(self, ending: str, after: int, limit: int) -> list[AccountLine]:
        """Return up to *limit* accounts after *after* whose credit token ends in *ending*."""
        return ending_in(self._db, ending, after, limit)

    def summary(self, account: CreditAccount) -> list[KindLine]:
        """Return the sums of the entries of *account* by kind, spends last."""
        return summary_of(self._db, account)

    def statement(self, account: CreditAccount) -> Statement:
        """Return where the credits of *account* came from and went, as of one moment."""
        with self._db.snapshot():
            balance = self.balance(account)
            received = int(self._db.execute(RECEIVED, (account,)).get)
            entries = [LedgerEntry(*row) for row in self._db.execute(ENTRIES, (account,))]
            days = [DayUse(*map(int, row)) for row in self._db.execute(DAYS, (account,))]
        return Statement(balance, received - balance, entries, days)

    def contradictions(self) -> list[CreditAccount]:
        """Return the accounts whose balance contradicts their entries since the last close."""
        return contradictions(self._db)

    def expect_writable(self) -> None:
        """Write something durably, or raise; also where the machine's clock is not the server's."""
        with self._db.transaction():
            self._db.execute("UPDATE pepper SET check_hash = check_hash")
        self._db.expect_clock()

    def rest(self, at: UnixMs) -> None:
        """Give back what was in doubt, or left behind by replicas that died."""
        self._batches.rest(at)

    def close(self) -> None:
        """Close the connection."""
        self._db.close()


def _expect_pepper(db: PostgresDatabase, pepper: bytes) -> None:
    """Refuse a pepper other than the one this database's hashes were made with."""
    check_hash = hash_credential("mintscope", pepper=pepper)
    kept = db.execute("SELECT check_hash FROM pepper").get
    if kept is None:
        with db.transaction():
            db.execute(
                "INSERT INTO pepper (id, check_hash) VALUES (1, ?) ON CONFLICT DO NOTHING",
                (check_hash,),
            )
            kept = db.execute("SELECT check_hash FROM pepper").get
    if kept != check_hash:
        db.close()
        raise UnusableStore(
            "expected the pepper that the credentials in the database were hashed with;"
            " was another one"
        )
