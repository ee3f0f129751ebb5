"""What speaks against one more payment: decided in the transaction that would begin it."""

from typing import Final

import apsw

from mintscope.base.credentials import CredentialHash
from mintscope.base.time import DAY_MS, HOUR_MS
from mintscope.core.payments.payment import Payment
from mintscope.core.payments.protocol.refusal import RefusalReason
from mintscope.core.payments.store import (
    Conduct,
    FeesAtRisk,
    KeyTaken,
    Objection,
    Overdrawn,
    PendingPayment,
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

# A payer that has bought within the day is not new.
_NEW_PAYER: Final = """
NOT EXISTS (SELECT 1 FROM payment AS sale
             WHERE sale.state = 'issued' AND sale.payer = {payer} AND sale.resolved_at > ?2)
"""
FEES_AT_RISK: Final = f"""
SELECT (SELECT coalesce(sum(fee_lamports), 0) FROM payment
         WHERE reason = 'transaction_failed' AND resolved_at > ?1),
       coalesce(sum(fees), 0),
       coalesce(sum(iif(is_new, fees, 0)), 0),
       (SELECT lamports FROM fee_fund),
       {_NEW_PAYER.format(payer="?3")}
  FROM (SELECT sum(fee_lamports) AS fees, {_NEW_PAYER.format(payer="waiting.payer")} AS is_new
          FROM payment AS waiting WHERE state = 'pending' GROUP BY payer)
"""  # noqa: S608  constants

# Nothing is taken where there is too little, or before the first look.
TAKE_FEE: Final = "UPDATE fee_fund SET lamports = lamports - ?1 WHERE lamports >= ?2"
GIVE_FEE_BACK: Final = "UPDATE fee_fund SET lamports = lamports + ?"
FUND_IS_KNOWN: Final = "SELECT EXISTS (SELECT 1 FROM fee_fund)"


class Budgets:
    """Reads what payments were made, over one connection, for one thread."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    def find_objection(self, pending: PendingPayment) -> Objection | None:
        """Say why the payment may not begin now."""
        payment = pending.payment
        hour_ago = payment.begun_at - HOUR_MS
        if self._db.execute(SALES_ARE_CLOSED).get:
            return SalesClosed()
        if self.is_key_taken(payment.key_hash):
            return KeyTaken()
        if self._db.execute(RESERVED, (payment.payer, pending.mark)).get > pending.balance_after:
            return Overdrawn(RefusalReason.FUNDS)
        excess = self._find_excess(pending, hour_ago)
        if excess is not None:
            return Overdrawn(excess)
        return None if self._are_fees_allowed(pending, hour_ago) else SalesClosed()

    def is_key_taken(self, key_hash: CredentialHash) -> bool:
        """Say whether the redelivery key is that of a payment that may still be good."""
        return bool(self._db.execute(KEY_IS_TAKEN, (key_hash,)).get)

    def take_fee(self, pending: PendingPayment) -> bool:
        """Reserve the fee in what the fee payer has; say whether it is there."""
        needs = (pending.payment.fee_lamports, pending.budget.fund_lamports_min)
        self._db.execute(TAKE_FEE, needs)
        return self._db.changes() == 1 or not self._db.execute(FUND_IS_KNOWN).get

    def give_fee_back(self, payment: Payment) -> None:
        """Release the fee of what never landed."""
        self._db.execute(GIVE_FEE_BACK, (payment.fee_lamports,))

    def _find_excess(self, pending: PendingPayment, hour_ago: int) -> RefusalReason | None:
        payment = pending.payment
        for conduct, who, is_address in (
            (CONDUCT_OF_PAYER, payment.payer, False),
            (CONDUCT_OF_ADDRESS, payment.address, True),
        ):
            found = Conduct(*self._db.execute(conduct, (hour_ago, who, SOLD_MAX)).get)
            excess = found.find_excess(
                pending.budget, fee_lamports=payment.fee_lamports, is_address=is_address
            )
            if excess is not None:
                return excess
        return None

    def _are_fees_allowed(self, pending: PendingPayment, hour_ago: int) -> bool:
        payment = pending.payment
        asked = (hour_ago, payment.begun_at - DAY_MS, payment.payer)
        *at_risk, is_new_payer = self._db.execute(FEES_AT_RISK, asked).get
        return FeesAtRisk(*at_risk).allow(
            pending.budget, fee_lamports=payment.fee_lamports, is_new_payer=bool(is_new_payer)
        )
