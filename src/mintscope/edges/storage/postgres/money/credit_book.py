"""The credit tables on PostgreSQL: their statements over one connection.

SQL is the authority: any number of replicas may spend, issue and read at once.
"""

import time
from collections.abc import Callable, Sequence
from secrets import randbits
from typing import Final

import msgspec
import structlog

from mintscope.base.clock import SystemClock
from mintscope.base.credentials import CreditToken, hash_credential, hint
from mintscope.base.errors import UnusableStore
from mintscope.base.primitives import UnixMs
from mintscope.base.time import DAY_MS, HOUR_MS
from mintscope.core.credits.ledger import (
    AccountLine,
    CreditAccount,
    Empty,
    KindLine,
    LedgerEntry,
    Spent,
    Statement,
)
from mintscope.edges.storage.database import DatabaseAway
from mintscope.edges.storage.postgres.connection import PostgresDatabase
from mintscope.edges.storage.sql.money.credit_statements import (
    ADD,
    BALANCE,
    BALANCE_IS_SUM,
    ENTRIES,
    FIND,
    OPEN_ACCOUNT,
    RECEIVED,
    ROOT,
    SUMMARY,
    one_by_one,
)

# The test and the change are one statement: for each account as many credits as were asked for, or
# as many as there are.  Rows are locked in the order of their numbers, so that no two batches wait
# for each other.  A trigger moves the balances.
SPEND: Final = """
WITH asked AS (
    SELECT account, count(*) AS n FROM unnest(?1::bigint[]) AS account GROUP BY account),
held AS (
    SELECT a.id, a.balance, least(a.balance, asked.n) AS taken
      FROM asked JOIN credit_account AS a ON a.id = asked.account
     WHERE a.balance >= 1 ORDER BY a.id FOR UPDATE OF a),
spent AS (
    INSERT INTO credit_entry (account, kind, delta, balance, at)
    SELECT id, 'spend', -taken, balance - taken, ?2::bigint FROM held
    RETURNING account, delta, balance)
INSERT INTO credit_batch (id, at, spent)
SELECT ?3::bigint, ?2::bigint,
       coalesce(json_agg(json_build_array(account, delta, balance))::text, '[]') FROM spent
RETURNING spent
"""

# A batch that is still on its way is waited for; one that never came cannot come any more.
FORBID: Final = "INSERT INTO credit_batch (id, at) VALUES (?, ?) ON CONFLICT DO NOTHING"
LOOK_UP: Final = "SELECT spent FROM credit_batch WHERE id = ?"
FORGET: Final = "DELETE FROM credit_batch WHERE at < ?"

ACCOUNTS: Final = """
SELECT a.id, a.hint, a.note, a.issued_at, sum(e.delta) FILTER (WHERE e.kind <> 'spend'), a.balance
  FROM credit_account AS a JOIN credit_entry AS e ON e.account = a.id
 WHERE right(a.hint, length(?1)) = ?1 GROUP BY a.id ORDER BY a.id
"""

CLOCK: Final = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
APART_MS_MAX: Final = 2_000  # between replicas, what is leased or dated would overlap
HERE: Final = SystemClock()
LOOK_UP_S: Final = 30.0  # clients are refused before; what was taken is given back
PAUSE_S: Final = 0.1
decode_spent: Final = msgspec.json.Decoder(list[tuple[int, int, int]]).decode

log = structlog.get_logger()


class PostgresCreditBook:
    """The credit tables over one connection, for one thread."""

    def __init__(self, dsn: str, *, pepper: bytes, now_ms: Callable[[], int] = HERE.now) -> None:
        self._now_ms = now_ms
        self._db = PostgresDatabase(dsn)
        self._pepper = pepper
        self._doubted: list[int] = []  # batches whose clients were refused
        self._newest_at = self._forgot_at = UnixMs(0)
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
        self._give_doubted_back(at)
        self._newest_at = at
        batch = randbits(63)
        try:
            spent: str = self._db.execute(SPEND, (list(accounts), at, batch)).get
        except DatabaseAway:
            spent = self._find_out(batch, at)
        return one_by_one(accounts, decode_spent(spent))

    def give_back(self, accounts: Sequence[CreditAccount], at: UnixMs) -> None:
        """Reverse one credit for each of *accounts*."""
        with self._db.transaction():
            self._db.executemany(ADD, [(each, "reversal", 1, at) for each in sorted(accounts)])

    def accounts(self, ending: str = "") -> list[AccountLine]:
        """Return the accounts whose credit token ends in *ending*, oldest first."""
        return [AccountLine(*row) for row in self._db.execute(ACCOUNTS, (ending,))]

    def summary(self, account: CreditAccount) -> list[KindLine]:
        """Return what moved the balance of *account*, by kind."""
        return [KindLine(*row) for row in self._db.execute(SUMMARY, (account,))]

    def statement(self, account: CreditAccount) -> Statement:
        """Return where the credits of *account* came from and went, as of one moment."""
        with self._db.snapshot():
            balance = self.balance(account)
            received = int(self._db.execute(RECEIVED, (account,)).get)
            entries = [LedgerEntry(*row) for row in self._db.execute(ENTRIES, (account,))]
        return Statement(balance, received - balance, entries)

    def contradictions(self) -> list[CreditAccount]:
        """Return the accounts whose balance is not what their entries say; always none."""
        found = self._db.execute(BALANCE_IS_SUM, {"after": 0})
        return [CreditAccount(account) for (account,) in found]

    def expect_writable(self) -> None:
        """Write something durably, or raise; also where the machine's clock is not the server's."""
        with self._db.transaction():
            self._db.execute("UPDATE pepper SET check_hash = check_hash")
        before_ms = self._now_ms()
        server_ms, after_ms = self._db.execute(CLOCK).get, self._now_ms()
        apart_ms = (before_ms + after_ms) // 2 - server_ms
        if abs(apart_ms) > APART_MS_MAX + (after_ms - before_ms) // 2:
            raise DatabaseAway(
                f"expected a clock within {APART_MS_MAX} ms of the database's; ours is"
                f" {apart_ms} ms ahead"
            )

    def rest(self) -> None:
        """Give back what was in doubt, and forget batches that are a day old."""
        self._give_doubted_back(self._newest_at)
        if self._newest_at - self._forgot_at >= HOUR_MS:
            self._forgot_at = self._newest_at
            self._db.execute(FORGET, (self._newest_at - DAY_MS,))

    def close(self) -> None:
        """Close the connection."""
        self._db.close()

    def _find_out(self, batch: int, at: UnixMs) -> str:
        """Return what *batch* took, its answer having been lost; raise DatabaseAway for nothing."""
        until_s = time.monotonic() + LOOK_UP_S
        while True:
            try:
                spent = self._spent_in(batch, at)
            except DatabaseAway:
                if time.monotonic() > until_s:
                    self._doubted.append(batch)
                    raise
                time.sleep(PAUSE_S)
                continue
            if spent is None:
                raise DatabaseAway("the debits did not reach the database")
            log.warning("debits_found", batch=batch)
            return spent

    def _spent_in(self, batch: int, at: UnixMs) -> str | None:
        """Return what *batch* took; None if it took nothing, and never will."""
        self._db.execute(FORBID, (batch, at))
        spent: str | None = self._db.execute(LOOK_UP, (batch,)).get
        return spent

    def _give_doubted_back(self, at: UnixMs) -> None:
        """Reverse what was taken from those who were told that nothing was."""
        while self._doubted:
            spent = decode_spent(self._spent_in(self._doubted[-1], at) or "[]")
            self.give_back([CreditAccount(each) for each, n, _ in spent for _ in range(-n)], at)
            self._doubted.pop()


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
