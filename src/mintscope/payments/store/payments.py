"""Payments in SQL.

Payments and credits are in one database, so that issuing is one transaction.

Each method that writes holds the write lock from its first statement, so any number of processes
may call it.
"""

from asyncio import CancelledError
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import structlog

from mintscope.credits.rotation import Purchased, RotationDenied
from mintscope.kit.audit import Actor
from mintscope.kit.credentials import CredentialHash
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.metrics import CREDITS_SOLD, FREEZES, PAYMENTS_ISSUED
from mintscope.kit.primitives import CreditAccount, Mint, Signature, UnixMs, Wallet
from mintscope.kit.sql.database import (
    Database,
    DatabaseAccess,
    DatabaseAway,
    DatabaseError,
    marks,
    unavailable_on_database_error,
)
from mintscope.kit.sql.group_commit import PATIENCE_S, GroupCommit
from mintscope.payments import ports
from mintscope.payments.payment import (
    Evidence,
    Landed,
    NewToken,
    PaidItem,
    PaidReport,
    Payment,
    State,
    TopUp,
    apply,
)
from mintscope.payments.protocol.envelope import MessageHash, RefusalReason, Resource
from mintscope.payments.store.purchases import Budgets, PurchasedCredits

SqlValue = str | bytes | int | None

# The last column but one is `touched` of Payment.
COLUMNS: Final = """
message_hash, signature, payer, address, resource, amount, credits, body, token_hash, hint,
account, key_hash, fee_lamports, last_valid_height, begun_at, asset, state, paid, reason, final,
token_hash IS NOT NULL AND state = 'issued' AND (holder <> account OR credits <> (
    SELECT balance FROM credit_account WHERE id = payment.account)), missed_height
"""


def payment_of(row: Sequence[Any]) -> Payment:
    """Return the payment in *row*, which has the columns COLUMNS."""
    return Payment(
        message_hash=MessageHash(row[0]),
        signature=Signature(row[1]),
        payer=Wallet(row[2]),
        address=row[3],
        resource=Resource(row[4]),
        amount=row[5],
        purchase=_purchase(*row[6:11]),
        key_hash=CredentialHash(row[11]),
        fee_lamports=row[12],
        last_valid_height=row[13],
        begun_at=UnixMs(row[14]),
        asset=None if row[15] is None else Mint(row[15]),
        state=State(row[16]),
        paid=row[17],
        reason=None if row[18] is None else RefusalReason(row[18]),
        final=bool(row[19]),
        touched=bool(row[20]),
        missed_height=row[21],
    )


def _purchase(
    credit_count: int, body: bytes | None, token_hash: bytes | None, hint: str, account: int
) -> PaidItem:
    if credit_count == 0:
        return PaidReport(body=body or b"")
    if token_hash is None:
        return TopUp(credits=credit_count, account=CreditAccount(account))
    return NewToken(credits=credit_count, token_hash=CredentialHash(token_hash), hint=hint)


def columns_of(payment: Payment) -> tuple[SqlValue, ...]:
    """Return the values of COLUMNS, in order, for the row of *payment* when it is first stored."""
    return (
        payment.message_hash,
        payment.signature,
        payment.payer,
        payment.address,
        payment.resource,
        payment.amount,
        *_purchase_columns(payment.purchase),
        payment.key_hash,
        payment.fee_lamports,
        payment.last_valid_height,
        payment.begun_at,
        payment.asset,
    )


def _purchase_columns(purchase: PaidItem) -> tuple[SqlValue, ...]:
    match purchase:
        case PaidReport(body=body):
            return 0, body, None, None, None
        case NewToken(credits=credit_count, token_hash=token_hash, hint=hint):
            return credit_count, None, token_hash, hint, None
        case TopUp(credits=credit_count, account=account):
            return credit_count, None, None, None, account


FIND: Final = f"SELECT {COLUMNS} FROM payment WHERE message_hash = ?"  # noqa: S608  a constant
FIND_SIGNATURES: Final = f"SELECT {COLUMNS} FROM payment WHERE signature IN "  # noqa: S608
MARK: Final = "SELECT coalesce(max(resolved), 0) FROM payment"

BEGIN: Final = """
INSERT INTO payment (
    message_hash, signature, payer, address, resource, amount, credits, body, token_hash, hint,
    account, key_hash, fee_lamports, last_valid_height, begun_at, asset, lease_until, quote, worth,
    state, paid, final)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'pending', 0, 0)
"""

IS_ACKNOWLEDGED: Final = """
SELECT EXISTS (SELECT 1 FROM orphan WHERE signature = ? AND acknowledged_at IS NOT NULL)
"""
NOTE_ADOPTION: Final = """
INSERT INTO account_event (at, actor, action, subject) VALUES (?, ?, 'adopted', ?)
"""

# `resolved` changes with every change of state, and only then.
RESOLVE: Final = """
UPDATE payment
   SET state = ?2, paid = ?3, reason = ?4, final = ?5, lease_until = ?7, missed_height = ?8,
       resolved = CASE WHEN state = ?2 THEN resolved
                       ELSE (SELECT max(resolved) + 1 FROM payment) END,
       resolved_at = CASE WHEN state = ?2 THEN resolved_at ELSE ?6 END
 WHERE message_hash = ?1
"""

LEASE: Final = f"""
UPDATE payment SET lease_until = ?2
 WHERE id IN (SELECT id FROM payment WHERE final = 0
                AND (lease_until <= ?1 OR lease_until > ?1 + {ports.LEASE_MS_MAX})
               ORDER BY lease_until LIMIT ?3)
RETURNING {COLUMNS}
"""  # noqa: S608  constants

POSTPONE: Final = "UPDATE payment SET lease_until = ?2 WHERE message_hash = ?1"

# A report is sent again for a day; then its body is deleted.  Bodies are deleted in parts, because
# payments and debits wait meanwhile.
REPORTS_A_PART: Final = 500
FORGET: Final = """
UPDATE payment SET body = NULL
 WHERE id IN (SELECT id FROM payment WHERE begun_at <= ? AND body IS NOT NULL AND final = 1
               ORDER BY begun_at LIMIT ?)
"""


class Resolved(NamedTuple):
    """A payment before and after its state was updated from the chain."""

    before: Payment
    after: Payment


class PaymentTable:
    """The payment tables over one connection, for one thread.

    Every method that writes must be called in a transaction of *db*.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self.budgets = Budgets(db)
        self.purchase = PurchasedCredits(db)

    def find(self, message_hash: MessageHash) -> ports.Found:
        """Return the payment of *message_hash*, if any.

        `Found.mark` is the number of the latest change to any payment's state.
        """
        row = self._db.execute(FIND, (message_hash,)).fetchone()
        return ports.Found(
            None if row is None else payment_of(row), int(self._db.execute(MARK).get)
        )

    def find_signatures(self, signatures: Sequence[Signature]) -> list[Payment]:
        """Return the stored payments among *signatures*."""
        statement = f"{FIND_SIGNATURES} ({marks(signatures)})"
        return [payment_of(row) for row in self._db.execute(statement, signatures)]

    def begin(self, pending: ports.PendingPayment) -> ports.Beginning:
        """Store a payment as pending, before it is sent.

        Nothing is stored if the payment is known, a limit is reached, sales are closed, or the
        account to top up was rotated or removed; the result says which.
        """
        known = self.find(pending.payment.message_hash).payment
        if known is not None:
            return ports.KnownPayment(known)
        purchase = pending.payment.purchase
        if isinstance(purchase, TopUp) and self.purchase.is_rotated(purchase.account):
            return ports.Rotated()
        if isinstance(purchase, TopUp) and self.purchase.is_removed(purchase.account):
            return ports.Removed()
        objection = self.budgets.find_objection(pending)
        if objection is not None:
            return objection
        if not self.budgets.take_fee(pending):
            return ports.SALES_CLOSED
        held = (pending.lease_until, pending.quote, pending.worth)
        self._db.execute(BEGIN, (*columns_of(pending.payment), *held))
        return ports.Begun()

    def adopt(
        self, payment: Payment, landed: Landed, by: Actor, now: UnixMs
    ) -> Resolved | ports.AlreadyUsed:
        """Store and issue a payment that has landed and is final.

        Return AlreadyUsed if its redelivery key belongs to another payment that has not failed, or
        if an operator has settled the payment.
        """
        if self._db.execute(IS_ACKNOWLEDGED, (payment.signature,)).get:
            return ports.AlreadyUsed(ports.Used.ACKNOWLEDGED)
        if self.find(payment.message_hash).payment is None:
            if self.budgets.is_key_taken(payment.key_hash):
                return ports.KEY_TAKEN
            self._db.execute(BEGIN, (*columns_of(payment), now, None, None))
            self._db.execute(NOTE_ADOPTION, (now, by, f"payment:{payment.signature}"))
        return self.resolve(payment.message_hash, landed, now, again_ms=0)  # the payment is final

    def resolve(
        self,
        message_hash: MessageHash,
        evidence: Evidence,
        now: UnixMs,
        again_ms: int,
    ) -> Resolved:
        """Change the state of a payment by *evidence* from the chain, and move its credits.

        Return the payment before and after.  Raises Inconsistent if it has no row.

        again_ms    milliseconds until the payment is checked again
        """
        before = self.find(message_hash).payment
        if before is None:
            raise ports.Inconsistent(f"expected a payment that was begun; was {message_hash.hex()}")
        after = apply(before, evidence)
        if after == before:
            return Resolved(before, before)
        if after.state is not before.state:
            self.purchase.move(after, now)  # first, so that every issued payment is delivered
        # A payment that landed, or reverted, has cost its fee.
        if before.state is State.PENDING and after.reason is RefusalReason.EXPIRED:
            self.budgets.give_fee_back(after)
        look_again_at = now + again_ms
        change = (after.state, after.paid, after.reason, after.final, now, look_again_at)
        self._db.execute(RESOLVE, (message_hash, *change, after.missed_height))
        return Resolved(before, after)


T = TypeVar("T")
Job = Callable[[], Any]

UNAVAILABLE: Final = (
    "The payment store does not answer; this request sent nothing: send the same payment again."
)
NOT_ISSUED: Final = {State.PENDING, State.FAILED}

log = structlog.get_logger()


class SqlPaymentStore:
    """Stores payments in SQL; used in one event loop.

    Implements PaymentStore, AdoptionStore, RotationStore and Buyers.  Lookups are indexed, and
    never blocked by a writer.  Writes that wait at the same time share one durable commit.
    """

    def __init__(
        self,
        writing: Database,
        reading: DatabaseAccess[Database],
        *,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._writing = writing
        self._reading = reading
        self._table = PaymentTable(writing)
        self._group: GroupCommit[Job, Any] = GroupCommit(
            self._commit,
            rest=lambda: None,  # the engine makes its own checkpoints
            patience_s=patience_s,
        )

    async def find(self, message_hash: MessageHash) -> ports.Found:
        """Return the payment of *message_hash*, if any.

        `Found.mark` is the number of the latest change to any payment's state.
        """
        return await self._look(lambda table: table.find(message_hash))

    async def begin(self, pending: ports.PendingPayment) -> ports.Beginning:
        """Store a payment as pending, before it is sent.

        Nothing is stored if the payment is known, a limit is reached, sales are closed, or the
        account to top up was rotated or removed; the result says which.

        Raises    ServiceUnavailable, also if it is cancelled; the payment may then be stored
        """
        try:
            return await self._write(lambda: self._table.begin(pending))
        except CancelledError as cause:
            # A server that stops cancels its requests, but the client needs the key of the payment.
            raise ServiceUnavailable(UNAVAILABLE) from cause

    async def resolve(
        self,
        message_hash: MessageHash,
        evidence: Evidence,
        *,
        now: UnixMs,
        again_ms: int,
        is_for_client: bool = False,
    ) -> Payment:
        """Change the state of a payment by *evidence* from the chain, and return the payment.

        Its credits move in the same transaction.

        again_ms        milliseconds until the payment is checked again
        is_for_client   whether a client waits; if its request is cancelled, Interrupted is raised,
                        and the change may be stored
        """
        try:
            found = await self._write(
                lambda: self._table.resolve(message_hash, evidence, now, again_ms)
            )
        except CancelledError as cause:
            if is_for_client:  # a stopping server cancels it, but the client needs its key
                raise ports.Interrupted(UNAVAILABLE) from cause
            raise
        return found.after

    async def adopt(
        self, payment: Payment, landed: Landed, *, by: Actor, now: UnixMs
    ) -> Payment | ports.AlreadyUsed:
        """Store and issue *payment*, which has landed and is final, in one transaction.

        Return AlreadyUsed if its redelivery key belongs to another payment that has not failed, or
        if an operator has settled the payment.
        """
        adopted = await self._write(lambda: self._table.adopt(payment, landed, by, now))
        return adopted.after if isinstance(adopted, Resolved) else adopted

    async def lease(self, *, now: UnixMs, until: UnixMs, count_max: int) -> Sequence[Payment]:
        """Lease up to *count_max* payments that are not final, and whose lease has ended.

        Return them.  Until its new lease ends, no other call returns the payment.

        until    the end of the new leases
        """
        values = (now, until, count_max)
        # In the transaction, so that a row that cannot be read undoes the lease of all.
        return await self._write(
            lambda: [payment_of(row) for row in self._writing.execute(LEASE, values)]
        )

    async def postpone(self, message_hash: MessageHash, *, until: UnixMs) -> None:
        """Prevent `lease` from returning the payment before *until*."""
        await self._write(lambda: self._writing.execute(POSTPONE, (message_hash, until)))

    async def find_signatures(self, signatures: Sequence[Signature]) -> Sequence[Payment]:
        """Return the stored payments among *signatures*."""
        return await self._look(lambda table: table.find_signatures(signatures))

    async def has_bought(self, payer: Wallet) -> bool:
        """Return whether *payer* ever made a payment whose purchase was delivered."""
        return await self._look(lambda table: table.budgets.has_bought(payer))

    async def has_bought_from(self, address: str) -> bool:
        """Return whether a client at *address* ever made a payment whose purchase was delivered."""
        return await self._look(lambda table: table.budgets.has_bought_from(address))

    async def find_purchase(self, signature: Signature) -> Purchased | None:
        """Return the issued credit purchase of transaction *signature*, or None if not found."""
        return await self._look(lambda table: table.purchase.find_purchase(signature))

    async def find_credits(self, wallet: Wallet) -> CreditAccount | None:
        """Return the account with the most credits among those that hold only credits of *wallet*.

        Return None if there is none.
        """
        return await self._look(lambda table: table.purchase.find_credits(wallet))

    async def rotate(
        self, holder: CreditAccount, token_hash: CredentialHash, hint: str, *, now: UnixMs
    ) -> int | RotationDenied:
        """Move all credits of *holder* to a new credit token.

        Return the number of credits, or the reason why none can be moved.

        token_hash   the hash of the new token
        hint         the last eight characters of the new token
        """
        return await self._write(lambda: self._table.purchase.rotate(holder, token_hash, hint, now))

    async def claim(
        self, purchase: Signature, token_hash: CredentialHash, hint: str, *, now: UnixMs
    ) -> int | RotationDenied:
        """Move the credits that the payer of *purchase* bought to a new credit token.

        Return the number of moved credits, or the reason to refuse.

        token_hash   the hash of the new token
        hint         the last eight characters of the new token
        """
        return await self._write(
            lambda: self._table.purchase.claim(purchase, token_hash, hint, now)
        )

    async def forget_reports(self, before: UnixMs) -> None:
        """Delete the bodies of reports whose payment is final and began at *before* or earlier."""
        while await self._write(lambda: self._forget_part(before)):
            pass

    async def close(self) -> None:
        """Finish the queued jobs, then close the database."""
        await self._group.close()
        self._writing.close()
        self._reading.close()

    def _forget_part(self, before: UnixMs) -> bool:
        """Delete some bodies of reports; return whether more may remain."""
        self._writing.execute(FORGET, (before, REPORTS_A_PART))
        return self._writing.changes() == REPORTS_A_PART

    async def _look(self, work: Callable[[PaymentTable], T]) -> T:
        def looked(database: Database) -> T:
            # In one snapshot, so that a payment and the mark are of the same moment.
            with database.snapshot():
                return work(PaymentTable(database))

        with unavailable_on_database_error(UNAVAILABLE):
            return await self._reading.run(looked)

    async def _write(self, job: Callable[[], T]) -> T:
        """Commit *job* and return its outcome; skip *job* if this call is refused before it begins.

        The commit waits for the write lock, so a job may begin long after its batch.
        """

        def do() -> T:
            # `waiting` is set by now: batches are handed over in a later iteration of the loop.
            if waiting.done():
                raise ServiceUnavailable(UNAVAILABLE)
            return job()

        waiting = self._group.submit(do)
        outcome: T = await waiting
        return outcome

    def _commit(self, jobs: Sequence[Job]) -> Sequence[Any]:
        with unavailable_on_database_error(UNAVAILABLE), self._writing.transaction():
            outcomes = [self._attempt(job) for job in jobs]
        # After the commit, which may fail.
        for outcome in outcomes:
            if isinstance(outcome, Resolved):
                _count(outcome)
                _tell(outcome)
        return outcomes

    def _attempt(self, job: Job) -> Any:
        """Run *job*; if it fails, undo its changes and return its error.

        Raises an error that affects all jobs, such as a lost database.
        """
        try:
            with self._writing.savepoint():
                return job()
        except DatabaseAway:
            raise
        except Exception as failure:
            if not isinstance(failure, DatabaseError):
                return failure
            log.exception("the books refuse a change")
            refused = ports.Inconsistent(f"The payment store refuses the change: {failure}")
            refused.__cause__ = failure
            return refused


def _count(resolved: Resolved) -> None:
    """Count the payment in the metrics if it has just been issued for the first time."""
    if resolved.before.state in NOT_ISSUED and resolved.after.state is State.ISSUED:
        PAYMENTS_ISSUED.inc()
        if not isinstance(resolved.after.purchase, PaidReport):
            CREDITS_SOLD.inc(resolved.after.purchase.credits)


def _tell(resolved: Resolved) -> None:
    """Count and log a change to or from frozen: a freeze as an error, a thaw as a warning."""
    before = resolved.before.state
    after = resolved.after.state
    if before is after or State.FROZEN not in {before, after}:
        return
    is_frozen = after is State.FROZEN
    reason = resolved.after.reason or resolved.before.reason
    FREEZES.labels("frozen" if is_frozen else "thawed", reason).inc()
    reported = {"signature": resolved.after.signature, "reason": reason}
    if is_frozen:
        log.error("a payment is frozen", **reported)
    else:
        log.warning("a frozen payment has come back", **reported)
