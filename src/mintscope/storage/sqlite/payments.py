"""PaymentStore on SQLite: beside the credits, so that issuing is one transaction.

SQL is the authority: any number of processes may begin, resolve and lease at
once.  Each verb holds the write lock from its first statement, which is the
per-payer lock that reservations need, and more.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import apsw
import msgspec
import structlog

from mintscope.credentials import CredentialHash
from mintscope.credits.ledger import CreditAccount
from mintscope.errors import ServiceUnavailable
from mintscope.payments.envelope import MessageHash
from mintscope.payments.payment import (
    Evidence,
    NewToken,
    Payment,
    Report,
    State,
    TopUp,
    apply,
)
from mintscope.payments.refusal import Reason
from mintscope.payments.rotation import Purchased
from mintscope.payments.store import (
    FINAL_AFTER_MS,
    HOUR_MS,
    Begun,
    Found,
    KeyTaken,
    Known,
    Overdrawn,
    Promise,
    SalesClosed,
)
from mintscope.primitives import Signature, UnixMs, Wallet
from mintscope.storage.group_commit import PATIENCE_S, GroupCommit
from mintscope.storage.sqlite.connection import open_store, snapshot, transaction
from mintscope.storage.sqlite.payment_rows import COLUMNS, columns_of, payment_of

T = TypeVar("T")
Job = Callable[[], Any]

FIND: Final = f"SELECT {COLUMNS} FROM payment WHERE message_hash = ?"  # noqa: S608  a constant
FIND_SIGNATURES: Final = (
    f"SELECT {COLUMNS} FROM payment WHERE signature IN (SELECT value FROM json_each(?))"  # noqa: S608
)
MARK: Final = "SELECT coalesce(max(resolved), 0) FROM payment"

SALES_ARE_CLOSED: Final = "SELECT EXISTS (SELECT 1 FROM sales_stop)"

KEY_IS_TAKEN: Final = """
SELECT EXISTS (SELECT 1 FROM payment WHERE key_hash = ? AND state <> 'failed')
"""

# What the simulation of a payment cannot have seen leave the payer's account.
RESERVED: Final = """
SELECT (SELECT coalesce(sum(amount), 0) FROM payment WHERE state = 'pending' AND payer = ?1)
     + (SELECT coalesce(sum(amount), 0) FROM payment WHERE resolved > ?2 AND payer = ?1)
"""

FAILURES: Final = """
SELECT count(*) FILTER (WHERE payer = ?2), count(*) FILTER (WHERE address = ?3)
  FROM payment WHERE reason = 'transaction_failed' AND resolved_at > ?1
"""

FEES_AT_RISK: Final = """
SELECT (SELECT coalesce(sum(fee_lamports), 0) FROM payment WHERE state = 'pending')
     + (SELECT coalesce(sum(fee_lamports), 0) FROM payment
         WHERE reason = 'transaction_failed' AND resolved_at > ?)
"""

BEGIN: Final = """
INSERT INTO payment (
    message_hash, signature, payer, address, resource, amount, credits, body, token_hash, hint,
    account, key_hash, fee_lamports, last_valid_height, begun_at, lease_until, state, paid, final)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'pending', 0, 0)
"""

# `resolved` moves with every change of state, and only then.
RESOLVE: Final = """
UPDATE payment
   SET state = ?2, paid = ?3, reason = ?4, final = ?5, lease_until = ?7,
       resolved = CASE WHEN state = ?2 THEN resolved
                       ELSE (SELECT max(resolved) + 1 FROM payment) END,
       resolved_at = CASE WHEN state = ?2 THEN resolved_at ELSE ?6 END
 WHERE message_hash = ?1
"""

GOODS: Final = "SELECT id, holder, entry, frozen FROM payment WHERE message_hash = ?"
HAND_OUT: Final = "UPDATE payment SET account = ?2, holder = ?2, entry = ?3 WHERE id = ?1"
FREEZE: Final = "UPDATE payment SET frozen = ?2 WHERE id = ?1"

OPEN_ACCOUNT: Final = """
INSERT INTO credit_account (token_hash, hint, note, issued_at) VALUES (?, ?, '', ?)
RETURNING id
"""

ENTER: Final = """
INSERT INTO credit_entry (account, kind, delta, balance, at)
SELECT id, ?2, ?3, balance + ?3, ?4 FROM credit_account WHERE id = ?1
RETURNING id
"""

BALANCE: Final = "SELECT balance FROM credit_account WHERE id = ?"

PURCHASE: Final = """
SELECT payer, holder, begun_at, rotated_at,
       (SELECT balance FROM credit_account WHERE id = holder) <> credits
  FROM payment WHERE signature = ? AND state = 'issued' AND holder IS NOT NULL
"""
MOVE_HOLDER: Final = "UPDATE payment SET holder = ?2, rotated_at = ?3 WHERE holder = ?1"

LEASE: Final = f"""
UPDATE payment SET lease_until = ?2
 WHERE id IN (SELECT id FROM payment WHERE final = 0 AND lease_until <= ?1
               ORDER BY lease_until LIMIT ?3)
RETURNING {COLUMNS}
"""  # noqa: S608  a constant

# A report is given again for a day; after that its text is only weight.
FORGET: Final = """
UPDATE payment SET body = NULL WHERE begun_at <= ? AND body IS NOT NULL AND final = 1
"""

READ_PATIENCE_MS: Final = 100

log = structlog.get_logger()


class PaymentBook:
    """The payment tables over one connection, for one thread.

    Every method that writes must be called inside `transaction(db)`.
    """

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    def find(self, message_hash: MessageHash) -> Found:
        """Return the payment of that name, and the mark at this moment."""
        row = self._db.execute(FIND, (message_hash,)).fetchone()
        return Found(None if row is None else payment_of(row), int(self._db.execute(MARK).get))

    def find_signatures(self, signatures: Sequence[Signature]) -> list[Payment]:
        """Return those payments among *signatures* that are ours."""
        wanted = msgspec.json.encode(signatures).decode()
        return [payment_of(row) for row in self._db.execute(FIND_SIGNATURES, (wanted,))]

    def begin(self, promise: Promise) -> Begun | Known | KeyTaken | Overdrawn | SalesClosed:
        """Make the payment pending unless something speaks against it."""
        known = self.find(promise.payment.message_hash).payment
        if known is not None:
            return Known(known)
        objection = self._find_objection(promise)
        if objection is not None:
            return objection
        self._db.execute(BEGIN, (*columns_of(promise.payment), promise.lease_until))
        return Begun()

    def resolve(self, message_hash: MessageHash, evidence: Evidence, now: UnixMs) -> Payment:
        """Apply *evidence* and move the credits that it moves."""
        before = self.find(message_hash).payment
        assert before is not None, "expected a payment that was begun"
        after = apply(before, evidence)
        if after == before:
            return before
        if after.state is not before.state:
            self._move_goods(after, now)  # first: what is issued must have been handed out
        look_again_at = now + FINAL_AFTER_MS
        change = (after.state, after.paid, after.reason, after.final, now, look_again_at)
        self._db.execute(RESOLVE, (message_hash, *change))
        return after

    def lease(self, *, now: UnixMs, until: UnixMs, count_max: int) -> list[Payment]:
        """Take over payments that nobody looks after."""
        return [payment_of(row) for row in self._db.execute(LEASE, (now, until, count_max))]

    def find_purchase(self, signature: Signature) -> Purchased | None:
        """Return where the credits are that the transaction paid for."""
        row = self._db.execute(PURCHASE, (signature,)).fetchone()
        if row is None:
            return None
        payer, holder, bought_at, rotated_at, is_used = row
        return Purchased(
            payer=Wallet(payer),
            holder=CreditAccount(holder),
            bought_at=UnixMs(bought_at),
            rotated_at=None if rotated_at is None else UnixMs(rotated_at),
            is_used=bool(is_used),
        )

    def rotate(
        self, holder: CreditAccount, token_hash: CredentialHash, hint: str, now: UnixMs
    ) -> int:
        """Move all credits of *holder* to a new account, and their purchases with them."""
        balance = int(self._db.execute(BALANCE, (holder,)).get)
        opened = self._db.execute(OPEN_ACCOUNT, (token_hash, hint, now)).get
        if balance:
            self._enter(holder, "rotate", -balance, now)
            self._enter(opened, "rotate", balance, now)
        self._db.execute(MOVE_HOLDER, (holder, opened, now))
        return balance

    def forget_reports(self, before: UnixMs) -> None:
        """Drop the bodies of final reports that were begun before *before*."""
        self._db.execute(FORGET, (before,))

    def _find_objection(self, promise: Promise) -> KeyTaken | Overdrawn | SalesClosed | None:
        payment, budget = promise.payment, promise.budget
        hour_ago = payment.begun_at - HOUR_MS
        if self._db.execute(SALES_ARE_CLOSED).get:
            return SalesClosed()
        if self._db.execute(KEY_IS_TAKEN, (payment.key_hash,)).get:
            return KeyTaken()
        if self._db.execute(RESERVED, (payment.payer, promise.mark)).get > promise.balance_after:
            return Overdrawn(Reason.FUNDS)
        failures = self._db.execute(FAILURES, (hour_ago, payment.payer, payment.address)).get
        if max(failures) >= budget.failures:
            return Overdrawn(Reason.TOO_MANY_FAILURES)
        at_risk = self._db.execute(FEES_AT_RISK, (hour_ago,)).get
        if at_risk + payment.fee_lamports > budget.fee_lamports:
            return SalesClosed()
        return None

    def _move_goods(self, payment: Payment, now: UnixMs) -> None:
        """Hand the credits of *payment* out, or take them back, as its new state demands."""
        if isinstance(payment.goods, Report):
            return
        row_id, holder, entry, frozen = self._db.execute(GOODS, (payment.message_hash,)).get
        if payment.state is State.ISSUED and entry is None:
            self._hand_out(row_id, payment.goods, now)
        elif payment.state is State.ISSUED and frozen:
            self._enter(holder, "thaw", frozen, now)
            self._db.execute(FREEZE, (row_id, 0))
        elif payment.state is State.FROZEN and entry is not None:
            left = min(payment.goods.credits, int(self._db.execute(BALANCE, (holder,)).get))
            if left:
                self._enter(holder, "freeze", -left, now)
                self._db.execute(FREEZE, (row_id, left))

    def _hand_out(self, row_id: int, goods: NewToken | TopUp, now: UnixMs) -> None:
        if isinstance(goods, NewToken):
            opened = self._db.execute(OPEN_ACCOUNT, (goods.token_hash, goods.hint, now)).get
            entry = self._enter(opened, "payment", goods.credits, now)
            self._db.execute(HAND_OUT, (row_id, opened, entry))
        else:
            entry = self._enter(goods.account, "top_up", goods.credits, now)
            self._db.execute(HAND_OUT, (row_id, goods.account, entry))

    def _enter(self, account: int, kind: str, delta: int, now: UnixMs) -> int:
        return int(self._db.execute(ENTER, (account, kind, delta, now)).get)


class SqlitePaymentStore:
    """Implements PaymentStore and RotationStore of `payments`; lives in one event loop.

    Lookups are made on the loop itself: indexed, of pages in memory, never
    blocked by a writer.  Writes of one moment share one durable commit.
    """

    def __init__(self, path: Path, *, patience_s: float = PATIENCE_S) -> None:
        self._writing = open_store(path, "money")
        self._reading = open_store(path, "money")
        self._reading.set_busy_timeout(READ_PATIENCE_MS)
        self._book = PaymentBook(self._writing)
        self._looking = PaymentBook(self._reading)
        self._group: GroupCommit[Job, Any] = GroupCommit(
            self._commit, unheard=_shrug, rest=_rest, patience_s=patience_s
        )

    async def find(self, message_hash: MessageHash) -> Found:
        """Return the payment of that name, if there is one."""
        with _unavailable_on_error(), snapshot(self._reading):
            return self._looking.find(message_hash)

    async def begin(self, promise: Promise) -> Begun | Known | KeyTaken | Overdrawn | SalesClosed:
        """Make the payment pending, durably, unless something speaks against it."""
        return await self._write(lambda: self._book.begin(promise))

    async def resolve(
        self, message_hash: MessageHash, evidence: Evidence, *, now: UnixMs
    ) -> Payment:
        """Apply *evidence* and move the credits that it moves, in one transaction."""
        return await self._write(lambda: self._book.resolve(message_hash, evidence, now))

    async def lease(self, *, now: UnixMs, until: UnixMs, count_max: int) -> Sequence[Payment]:
        """Take over payments that nobody looks after."""
        return await self._write(
            lambda: self._book.lease(now=now, until=until, count_max=count_max)
        )

    async def find_signatures(self, signatures: Sequence[Signature]) -> Sequence[Payment]:
        """Return those payments among *signatures* that are ours."""
        with _unavailable_on_error():
            return self._looking.find_signatures(signatures)

    async def find_purchase(self, signature: Signature) -> Purchased | None:
        """Return where the credits are that the transaction paid for."""
        with _unavailable_on_error():
            return self._looking.find_purchase(signature)

    async def rotate(
        self, holder: CreditAccount, token_hash: CredentialHash, hint: str, *, now: UnixMs
    ) -> int:
        """Move all credits of *holder* to a new token; return how many."""
        return await self._write(lambda: self._book.rotate(holder, token_hash, hint, now))

    async def forget_reports(self, before: UnixMs) -> None:
        """Drop the bodies of final reports that were begun before *before*."""
        await self._write(lambda: self._book.forget_reports(before))

    async def close(self) -> None:
        """Finish what is queued, then let go of the file."""
        await self._group.close()
        self._writing.close()
        self._reading.close()

    async def _write(self, job: Callable[[], T]) -> T:
        outcome: T = await self._group.submit(job)
        return outcome

    def _commit(self, jobs: Sequence[Job]) -> Sequence[Any]:
        with _unavailable_on_error(), transaction(self._writing):
            return [job() for job in jobs]


def _shrug(_unheard: Sequence[tuple[Job, Any]]) -> None:
    """Let be what nobody waits for: the reconciler goes on from the row."""


def _rest() -> None:
    """Leave checkpoints to SQLite itself."""


@contextmanager
def _unavailable_on_error() -> Iterator[None]:
    try:
        yield
    except apsw.Error as cause:
        log.exception("the money file does not answer")
        raise ServiceUnavailable("The payment store does not answer; nothing was sent.") from cause
