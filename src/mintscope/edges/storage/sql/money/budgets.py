"""Reasons against one more payment: decided in the transaction that would begin it."""

from typing import Final

from mintscope.base.credentials import CredentialHash
from mintscope.base.primitives import UnixMs, Wallet
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
    QuoteUsed,
    SalesClosed,
)
from mintscope.edges.storage.database import Database

SALES_ARE_CLOSED: Final = "SELECT EXISTS (SELECT 1 FROM sales_stop)"

KEY_IS_TAKEN: Final = """
SELECT EXISTS (SELECT 1 FROM payment WHERE key_hash = ? AND state <> 'failed')
"""

QUOTE_IS_USED: Final = "SELECT EXISTS (SELECT 1 FROM payment WHERE quote = ?)"

# Amounts that the simulation of a payment cannot have seen leave the payer's account of its token;
# of a payment whose token was not kept, any.
RESERVED: Final = """
SELECT (SELECT coalesce(sum(amount), 0) FROM payment
         WHERE state = 'pending' AND payer = ?1 AND coalesce(asset, ?3) = ?3)
     + (SELECT coalesce(sum(amount), 0) FROM payment
         WHERE resolved > ?2 AND payer = ?1 AND coalesce(asset, ?3) = ?3)
"""

_CONDUCT: Final = """
SELECT reverted.n, pending.n,
       (SELECT count(*) FROM (SELECT 1 FROM payment
         WHERE state = 'issued' AND resolved_at > ?1 AND {who} = ?2 LIMIT {limit}) AS sold),
       reverted.fees + pending.fees,
       (SELECT count(*) FROM (SELECT 1 FROM payment
         WHERE state = 'issued' AND resolved_at > ?3 AND {who} = ?2 LIMIT {today}) AS sold_today),
       {reverted_today}
  FROM (SELECT count(*) AS n, coalesce(sum(fee_lamports), 0) AS fees FROM payment
         WHERE reason = 'transaction_failed' AND resolved_at > ?1 AND {who} = ?2) AS reverted,
       (SELECT count(*) AS n, coalesce(sum(fee_lamports), 0) AS fees FROM payment
         WHERE state = 'pending' AND {who} = ?2) AS pending
"""
SOLD_MAX: Final = 10_000  # more are not counted
SOLD_TODAY_MAX: Final = 1_000  # likewise
_LIMITS: Final = {"limit": SOLD_MAX, "today": SOLD_TODAY_MAX}
_REVERTED_TODAY: Final = f"""
(SELECT count(*) FROM (SELECT 1 FROM payment AS lost
  WHERE lost.reason = 'transaction_failed' AND lost.payer = {{payer}}
    AND lost.resolved_at > {{since}} LIMIT {SOLD_TODAY_MAX + 1}) AS lost_today)
"""  # noqa: S608  constants
CONDUCT_OF_PAYER: Final = _CONDUCT.format(
    who="payer", reverted_today=_REVERTED_TODAY.format(payer="?2", since="?3"), **_LIMITS
)
CONDUCT_OF_ADDRESS: Final = _CONDUCT.format(who="address", reverted_today="0", **_LIMITS)

# The risk of all payers, and the part of those that have paid for too little of it.
_SALES_OF: Final = """
FROM payment AS sale
 WHERE sale.state = 'issued' AND sale.payer = at_risk.payer AND sale.resolved_at > ?2
"""
FEES_AT_RISK: Final = f"""
SELECT coalesce(sum(burned), 0), coalesce(sum(CASE WHEN is_covered THEN 0 ELSE burned END), 0),
       coalesce(sum(waiting), 0), coalesce(sum(CASE WHEN is_covered THEN 0 ELSE waiting END), 0),
       (SELECT lamports FROM fee_fund)
  FROM (SELECT fees AS burned, 0 AS waiting,
               {_REVERTED_TODAY.format(payer="at_risk.payer", since="?2")}
               <= (SELECT count(*)
                      FROM (SELECT 1 {_SALES_OF} LIMIT {SOLD_TODAY_MAX}) AS sold_today)
                    AS is_covered
          FROM (SELECT payer, sum(fee_lamports) AS fees FROM payment
                 WHERE reason = 'transaction_failed' AND resolved_at > ?1
                 GROUP BY payer) AS at_risk
         UNION ALL
        SELECT 0, fees, EXISTS (SELECT 1 {_SALES_OF})
          FROM (SELECT payer, sum(fee_lamports) AS fees FROM payment
                 WHERE state = 'pending' GROUP BY payer) AS at_risk) AS risks
"""  # noqa: S608  constants

# Nothing is taken where there is too little, or before the first look.
TAKE_FEE: Final = "UPDATE fee_fund SET lamports = lamports - ?1 WHERE lamports >= ?2"
GIVE_FEE_BACK: Final = "UPDATE fee_fund SET lamports = lamports + ?"
FUND_IS_KNOWN: Final = "SELECT EXISTS (SELECT 1 FROM fee_fund)"


HAS_BOUGHT: Final = "SELECT EXISTS (SELECT 1 FROM payment WHERE state = 'issued' AND payer = ?)"
HAS_BOUGHT_FROM: Final = (
    "SELECT EXISTS (SELECT 1 FROM payment WHERE state = 'issued' AND address = ?)"
)


class Budgets:
    """Reads what payments were made, over one connection, for one thread."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def find_objection(self, pending: PendingPayment) -> Objection | None:
        """Say why the payment may not begin now."""
        payment = pending.payment
        if self._db.execute(SALES_ARE_CLOSED).get:
            return SalesClosed()
        if self.is_key_taken(payment.key_hash):
            return KeyTaken()
        if self._db.execute(QUOTE_IS_USED, (pending.quote,)).get:
            return QuoteUsed()
        account = (payment.payer, pending.mark, payment.asset)
        if self._db.execute(RESERVED, account).get > pending.balance_after:
            return Overdrawn(RefusalReason.FUNDS)
        payer = self._conduct(CONDUCT_OF_PAYER, payment.payer, payment.begun_at)
        excess = self._find_excess(pending, payer)
        if excess is not None:
            return Overdrawn(excess)
        at_risk = self.fees_at_risk(payment.begun_at)
        is_allowed = at_risk.allow(pending.budget, payer, fee_lamports=payment.fee_lamports)
        return None if is_allowed else SalesClosed()

    def fees_at_risk(self, now: UnixMs) -> FeesAtRisk:
        """Return what all payers together have burned or may burn yet."""
        return FeesAtRisk(*self._db.execute(FEES_AT_RISK, (now - HOUR_MS, now - DAY_MS)).get)

    def is_key_taken(self, key_hash: CredentialHash) -> bool:
        """Say whether the redelivery key is that of a payment that may still be good."""
        return bool(self._db.execute(KEY_IS_TAKEN, (key_hash,)).get)

    def has_bought(self, payer: Wallet) -> bool:
        """Say whether a payment of the wallet has ever been good."""
        return bool(self._db.execute(HAS_BOUGHT, (payer,)).get)

    def has_bought_from(self, address: str) -> bool:
        """Say whether a payment from this client address has ever been good."""
        return bool(self._db.execute(HAS_BOUGHT_FROM, (address,)).get)

    def take_fee(self, pending: PendingPayment) -> bool:
        """Reserve the fee in what the fee payer has; say whether it is there."""
        needs = (pending.payment.fee_lamports, pending.budget.fund_lamports_min)
        self._db.execute(TAKE_FEE, needs)
        return self._db.changes() == 1 or not self._db.execute(FUND_IS_KNOWN).get

    def give_fee_back(self, payment: Payment) -> None:
        """Release the fee of what never landed."""
        self._db.execute(GIVE_FEE_BACK, (payment.fee_lamports,))

    def _find_excess(self, pending: PendingPayment, payer: Conduct) -> RefusalReason | None:
        payment = pending.payment
        budget = pending.budget
        fee_lamports = payment.fee_lamports
        excess = payer.find_excess(budget, fee_lamports=fee_lamports, is_address=False)
        if excess is not None:
            return excess
        address = self._conduct(CONDUCT_OF_ADDRESS, payment.address, payment.begun_at)
        return address.find_excess(budget, fee_lamports=fee_lamports, is_address=True)

    def _conduct(self, of: str, who: str, now: UnixMs) -> Conduct:
        return Conduct(*self._db.execute(of, (now - HOUR_MS, who, now - DAY_MS)).get)
