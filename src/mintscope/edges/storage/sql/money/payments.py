"""PaymentStore, beside the credits, so that issuing is one transaction.

Each verb holds the write lock from its first statement, so any number of processes may call it.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import structlog

from mintscope.base.credentials import CredentialHash
from mintscope.base.metrics import CREDITS_SOLD, FREEZES, PAYMENTS_ISSUED
from mintscope.base.primitives import CreditAccount, Signature, UnixMs, Wallet
from mintscope.core.accounts.audit import Actor
from mintscope.core.credits.rotation import Purchased, RotationDenied
from mintscope.core.payments.lost import Adoption
from mintscope.core.payments.payment import Evidence, Landed, PaidReport, Payment, State
from mintscope.core.payments.protocol.envelope import MessageHash
from mintscope.core.payments.store import (
    Beginning,
    Found,
    Inconsistent,
    PendingPayment,
)
from mintscope.edges.storage.database import (
    Database,
    DatabaseAccess,
    DatabaseAway,
    DatabaseError,
    unavailable_on_database_error,
)
from mintscope.edges.storage.group_commit import PATIENCE_S, GroupCommit
from mintscope.edges.storage.sql.money.payment_table import PaymentTable, Resolved

T = TypeVar("T")
Job = Callable[[], Any]

UNAVAILABLE: Final = (
    "The payment store does not answer; this request sent nothing: send the same payment again."
)
NOT_ISSUED: Final = {State.PENDING, State.FAILED}

log = structlog.get_logger()


class SqlPaymentStore:
    """Implements PaymentStore, AdoptionStore, RotationStore and Buyers; lives in one event loop.

    Lookups are indexed, and never blocked by a writer.  Writes of one moment share one durable
    commit.
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
            self._commit, unheard=_ignore, rest=_rest, patience_s=patience_s
        )

    async def find(self, message_hash: MessageHash) -> Found:
        """Return the payment of that name, if there is one."""
        return await self._look(lambda table: table.find(message_hash))

    async def begin(self, pending: PendingPayment) -> Beginning:
        """Make the payment pending, durably, unless something speaks against it."""
        return await self._write(lambda: self._table.begin(pending))

    async def resolve(
        self,
        message_hash: MessageHash,
        evidence: Evidence,
        *,
        now: UnixMs,
        again_ms: int,
    ) -> Payment:
        """Apply *evidence* and move the credits that it moves, in one transaction."""
        found = await self._write(
            lambda: self._table.resolve(message_hash, evidence, now, again_ms)
        )
        return found.after

    async def adopt(self, payment: Payment, landed: Landed, *, by: Actor, now: UnixMs) -> Adoption:
        """Begin and issue *payment*, which has *landed* for good, in one transaction."""
        adopted = await self._write(lambda: self._table.adopt(payment, landed, by, now))
        return adopted.after if isinstance(adopted, Resolved) else adopted

    async def lease(self, *, now: UnixMs, until: UnixMs, count_max: int) -> Sequence[Payment]:
        """Take over payments whose lease has ended."""
        return await self._write(
            lambda: self._table.lease(now=now, until=until, count_max=count_max)
        )

    async def postpone(self, message_hash: MessageHash, *, until: UnixMs) -> None:
        """Let no lease of the payment begin before *until*."""
        await self._write(lambda: self._table.postpone(message_hash, until))

    async def find_signatures(self, signatures: Sequence[Signature]) -> Sequence[Payment]:
        """Return those payments among *signatures* that are ours."""
        return await self._look(lambda table: table.find_signatures(signatures))

    async def has_bought(self, payer: Wallet) -> bool:
        """Say whether a payment of the wallet has ever been good."""
        return await self._look(lambda table: table.budgets.has_bought(payer))

    async def has_bought_from(self, address: str) -> bool:
        """Say whether a payment from this client address has ever been good."""
        return await self._look(lambda table: table.budgets.has_bought_from(address))

    async def find_purchase(self, signature: Signature) -> Purchased | None:
        """Return where the credits are that the transaction paid for."""
        return await self._look(lambda table: table.purchase.find_purchase(signature))

    async def find_credits(self, wallet: Wallet) -> CreditAccount | None:
        """Return the account with most credits of which all that are left are of *wallet*."""
        return await self._look(lambda table: table.purchase.find_credits(wallet))

    async def rotate(
        self, holder: CreditAccount, token_hash: CredentialHash, hint: str, *, now: UnixMs
    ) -> int | RotationDenied:
        """Move all credits of *holder* to a new token; return how many."""
        return await self._write(lambda: self._table.purchase.rotate(holder, token_hash, hint, now))

    async def claim(
        self, purchase: Signature, token_hash: CredentialHash, hint: str, *, now: UnixMs
    ) -> int | RotationDenied:
        """Move what the payer of *purchase* proves to a new token; return how many credits."""
        return await self._write(
            lambda: self._table.purchase.claim(purchase, token_hash, hint, now)
        )

    async def forget_reports(self, before: UnixMs) -> None:
        """Drop the bodies of final reports that were begun before *before*."""
        await self._write(lambda: self._table.forget_reports(before))

    async def close(self) -> None:
        """Finish what is queued, then let go of the database."""
        await self._group.close()
        self._writing.close()
        self._reading.close()

    async def _look(self, work: Callable[[PaymentTable], T]) -> T:
        def looked(database: Database) -> T:
            with database.snapshot():
                return work(PaymentTable(database))

        with unavailable_on_database_error(UNAVAILABLE):
            return await self._reading.run(looked)

    async def _write(self, job: Callable[[], T]) -> T:
        outcome: T = await self._group.submit(job)
        return outcome

    def _commit(self, jobs: Sequence[Job]) -> Sequence[Any]:
        with unavailable_on_database_error(UNAVAILABLE), self._writing.transaction():
            outcomes = [self._attempt(job) for job in jobs]
        for outcome in outcomes:
            if isinstance(outcome, Resolved):
                _count(outcome)
                _tell(outcome)
        return outcomes

    def _attempt(self, job: Job) -> Any:
        """Do *job*, or undo it alone and return why; raise what concerns the whole store."""
        try:
            with self._writing.savepoint():
                return job()
        except DatabaseAway:
            raise
        except Exception as failure:
            if not isinstance(failure, DatabaseError):
                return failure
            log.exception("the books refuse a change")
            refused = Inconsistent(f"The payment store refuses the change: {failure}")
            refused.__cause__ = failure
            return refused


def _ignore(_unheard: Sequence[tuple[Job, Any]]) -> None:
    """Do nothing about an outcome without a waiter: the reconciler goes on from the row."""


def _count(resolved: Resolved) -> None:
    """Count what was issued, the first time, by any process and however late."""
    if resolved.before.state in NOT_ISSUED and resolved.after.state is State.ISSUED:
        PAYMENTS_ISSUED.inc()
        if not isinstance(resolved.after.purchase, PaidReport):
            CREDITS_SOLD.inc(resolved.after.purchase.credits)


def _tell(resolved: Resolved) -> None:
    """Raise an alarm for what was taken back, and take it back when it is given again."""
    before = resolved.before.state
    after = resolved.after.state
    if before is after or State.FROZEN not in {before, after}:
        return
    is_frozen = after is State.FROZEN
    reason = resolved.after.reason or resolved.before.reason
    FREEZES.labels("frozen" if is_frozen else "thawed", reason).inc()
    told = {"signature": resolved.after.signature, "reason": reason}
    if is_frozen:
        log.error("a payment is frozen", **told)
    else:
        log.warning("a frozen payment has come back", **told)


def _rest() -> None:
    """Leave checkpoints to the engine itself."""
