"""What speaks against one more payment: decided in the transaction that would begin it."""

from typing import Final

import apsw

from mintscope.payments.refusal import Reason
from mintscope.payments.store import (
    HOUR_MS,
    Conduct,
    KeyTaken,
    Overdrawn,
    Promise,
    SalesClosed,
)

SALES_ARE_CLOSED: Final = "SELECT EXISTS (SELECT 1 FROM sales_stop)"

KEY_IS_TAKEN: Final = """
SELECT EXISTS (SELECT 1 FROM payment WHERE key_hash = ? AND state <> 'failed')
"""

# What the simulation of a payment cannot have seen leave the payer's account.
RESERVED: Final = """
SELECT (SELECT coalesce(sum(amount), 0) FROM payment WHERE state = 'pending' AND payer = ?1)
     + (SELECT coalesce(sum(amount), 0) FROM payment WHERE resolved > ?2 AND payer = ?1)
"""

_CONDUCT: Final = """
SELECT reverted.n, pending.n,
       (SELECT count(*) FROM (SELECT 1 FROM payment
         WHERE state = 'issued' AND resolved_at > ?1 AND {who} = ?2 LIMIT ?3)),
       reverted.fees + pending.fees
  FROM (SELECT count(*) AS n, coalesce(sum(fee_lamports), 0) AS fees FROM payment
         WHERE reason = 'transaction_failed' AND resolved_at > ?1 AND {who} = ?2) AS reverted,
       (SELECT count(*) AS n, coalesce(sum(fee_lamports), 0) AS fees FROM payment
         WHERE state = 'pending' AND {who} = ?2) AS pending
"""
CONDUCT_OF_PAYER: Final = _CONDUCT.format(who="payer")
CONDUCT_OF_ADDRESS: Final = _CONDUCT.format(who="address")
SOLD_MAX: Final = 10_000  # more are not counted

FEES_AT_RISK: Final = """
SELECT (SELECT coalesce(sum(fee_lamports), 0) FROM payment WHERE state = 'pending')
     + (SELECT coalesce(sum(fee_lamports), 0) FROM payment
         WHERE reason = 'transaction_failed' AND resolved_at > ?)
"""

# Nothing is taken where there is too little, or where nobody has looked yet.
TAKE_FEE: Final = """
UPDATE fee_fund SET lamports = lamports - ?1 WHERE lamports >= ?2
"""
FUND_IS_KNOWN: Final = "SELECT EXISTS (SELECT 1 FROM fee_fund)"


class PaymentLimits:
    """Reads what payments were made, over one connection, for one thread."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    def find_objection(self, promise: Promise) -> KeyTaken | Overdrawn | SalesClosed | None:
        """Say why the payment may not begin now."""
        payment, budget = promise.payment, promise.budget
        hour_ago = payment.begun_at - HOUR_MS
        if self._db.execute(SALES_ARE_CLOSED).get:
            return SalesClosed()
        if self._db.execute(KEY_IS_TAKEN, (payment.key_hash,)).get:
            return KeyTaken()
        if self._db.execute(RESERVED, (payment.payer, promise.mark)).get > promise.balance_after:
            return Overdrawn(Reason.FUNDS)
        excess = self._find_excess(promise, hour_ago)
        if excess is not None:
            return Overdrawn(excess)
        at_risk = self._db.execute(FEES_AT_RISK, (hour_ago,)).get
        if at_risk + payment.fee_lamports > budget.fee_lamports:
            return SalesClosed()
        return None

    def take_fee(self, promise: Promise) -> bool:
        """Reserve the fee in what the fee payer has; say whether it is there."""
        needs = (promise.payment.fee_lamports, promise.budget.fund_lamports_min)
        self._db.execute(TAKE_FEE, needs)
        return self._db.changes() == 1 or not self._db.execute(FUND_IS_KNOWN).get

    def _find_excess(self, promise: Promise, hour_ago: int) -> Reason | None:
        payment, budget = promise.payment, promise.budget
        for conduct, who, in_flight in (
            (CONDUCT_OF_PAYER, payment.payer, budget.in_flight_payer),
            (CONDUCT_OF_ADDRESS, payment.address, budget.in_flight_address),
        ):
            reverted, pending, sold, fees = self._db.execute(conduct, (hour_ago, who, SOLD_MAX)).get
            found = Conduct(reverted=reverted, pending=pending, sold=sold, fee_lamports=fees)
            excess = found.find_excess(
                budget, in_flight=in_flight, fee_lamports=payment.fee_lamports
            )
            if excess is not None:
                return excess
        return None
