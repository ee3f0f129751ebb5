"""The payment tables: what a payment is at any moment, changed by evidence alone."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from mintscope.base.primitives import Signature, UnixMs
from mintscope.core.accounts.audit import Actor
from mintscope.core.payments.lost import Acknowledged
from mintscope.core.payments.payment import Evidence, Landed, Payment, State, apply
from mintscope.core.payments.protocol.envelope import MessageHash
from mintscope.core.payments.protocol.refusal import RefusalReason
from mintscope.core.payments.store import (
    LEASE_MS_MAX,
    Beginning,
    Begun,
    Found,
    Inconsistent,
    KeyTaken,
    KnownPayment,
    PendingPayment,
    SalesClosed,
)
from mintscope.edges.storage.database import Database, marks
from mintscope.edges.storage.sql.money.budgets import Budgets
from mintscope.edges.storage.sql.money.purchases import PurchasedCredits
from mintscope.edges.storage.sql.money.rows import COLUMNS, columns_of, payment_of

FIND: Final = f"SELECT {COLUMNS} FROM payment WHERE message_hash = ?"  # noqa: S608  a constant
FIND_SIGNATURES: Final = f"SELECT {COLUMNS} FROM payment WHERE signature IN "  # noqa: S608
MARK: Final = "SELECT coalesce(max(resolved), 0) FROM payment"

BEGIN: Final = """
INSERT INTO payment (
    message_hash, signature, payer, address, resource, amount, credits, body, token_hash, hint,
    account, key_hash, fee_lamports, last_valid_height, begun_at, asset, lease_until, quote, state,
    paid, final)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'pending', 0, 0)
"""

IS_ACKNOWLEDGED: Final = """
SELECT EXISTS (SELECT 1 FROM orphan WHERE signature = ? AND acknowledged_at IS NOT NULL)
"""
NOTE_ADOPTION: Final = """
INSERT INTO account_event (at, actor, action, subject) VALUES (?, ?, 'adopted', ?)
"""

# `resolved` moves with every change of state, and only then.
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
                AND (lease_until <= ?1 OR lease_until > ?1 + {LEASE_MS_MAX})
               ORDER BY lease_until LIMIT ?3)
RETURNING {COLUMNS}
"""  # noqa: S608  constants

POSTPONE: Final = "UPDATE payment SET lease_until = ?2 WHERE message_hash = ?1"

# A report is given again for a day; after that its text is only weight.
FORGET: Final = """
UPDATE payment SET body = NULL WHERE begun_at <= ? AND body IS NOT NULL AND final = 1
"""


class Resolved(NamedTuple):
    """A payment before and after evidence was applied."""

    before: Payment
    after: Payment


class PaymentTable:
    """The payment tables over one connection, for one thread.

    Every method that writes must be called inside `transaction(db)`.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self.budgets = Budgets(db)
        self.purchase = PurchasedCredits(db)

    def find(self, message_hash: MessageHash) -> Found:
        """Return the payment of that name, and the mark at this moment."""
        row = self._db.execute(FIND, (message_hash,)).fetchone()
        return Found(None if row is None else payment_of(row), int(self._db.execute(MARK).get))

    def find_signatures(self, signatures: Sequence[Signature]) -> list[Payment]:
        """Return those payments among *signatures* that are ours."""
        statement = f"{FIND_SIGNATURES} ({marks(signatures)})"
        return [payment_of(row) for row in self._db.execute(statement, signatures)]

    def begin(self, pending: PendingPayment) -> Beginning:
        """Make the payment pending unless something speaks against it."""
        known = self.find(pending.payment.message_hash).payment
        if known is not None:
            return KnownPayment(known)
        objection = self.budgets.find_objection(pending)
        if objection is not None:
            return objection
        if not self.budgets.take_fee(pending):
            return SalesClosed()
        self._db.execute(BEGIN, (*columns_of(pending.payment), pending.lease_until, pending.quote))
        return Begun()

    def adopt(
        self, payment: Payment, landed: Landed, by: Actor, now: UnixMs
    ) -> Resolved | Acknowledged | KeyTaken:
        """Begin and issue a payment that landed for good, unless an operator has settled it."""
        if self._db.execute(IS_ACKNOWLEDGED, (payment.signature,)).get:
            return Acknowledged()
        if self.find(payment.message_hash).payment is None:
            if self.budgets.is_key_taken(payment.key_hash):
                return KeyTaken()
            self._db.execute(BEGIN, (*columns_of(payment), now, None))
            self._db.execute(NOTE_ADOPTION, (now, by, f"payment:{payment.signature}"))
        return self.resolve(payment.message_hash, landed, now, again_ms=0)  # it is final

    def resolve(
        self,
        message_hash: MessageHash,
        evidence: Evidence,
        now: UnixMs,
        again_ms: int,
    ) -> Resolved:
        """Apply *evidence* and move the credits that it moves."""
        before = self.find(message_hash).payment
        if before is None:
            raise Inconsistent(f"expected a payment that was begun; was {message_hash.hex()}")
        after = apply(before, evidence)
        if after == before:
            return Resolved(before, before)
        if after.state is not before.state:
            self.purchase.move(after, now)  # first: what is issued must have been handed out
        if before.state is State.PENDING and after.reason is RefusalReason.EXPIRED:
            self.budgets.give_fee_back(after)
        look_again_at = now + again_ms
        change = (after.state, after.paid, after.reason, after.final, now, look_again_at)
        self._db.execute(RESOLVE, (message_hash, *change, after.missed_height))
        return Resolved(before, after)

    def lease(self, *, now: UnixMs, until: UnixMs, count_max: int) -> list[Payment]:
        """Take over payments whose lease has ended."""
        return [payment_of(row) for row in self._db.execute(LEASE, (now, until, count_max))]

    def postpone(self, message_hash: MessageHash, until: UnixMs) -> None:
        """Let no lease of the payment begin before *until*."""
        self._db.execute(POSTPONE, (message_hash, until))

    def forget_reports(self, before: UnixMs) -> None:
        """Drop the bodies of final reports that were begun before *before*."""
        self._db.execute(FORGET, (before,))
