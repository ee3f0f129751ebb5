"""The checkout of this process, which counts what becomes of payments."""

import structlog

from mintscope.base.fair_queue import FairQueue
from mintscope.base.metrics import PAYMENTS
from mintscope.core.checkout.checkout import Checkout
from mintscope.core.checkout.merchant import Merchant
from mintscope.core.credits.debit import DebitLedger
from mintscope.core.credits.ledger import CreditLedger
from mintscope.core.payments.outcome import (
    AlreadyUsed,
    Outcome,
    Settled,
    Unavailable,
    Unresolved,
)
from mintscope.core.payments.protocol.refusal import Refused

log = structlog.get_logger()


def open_checkout(ledger: CreditLedger, merchant: Merchant | None) -> Checkout:
    """Return a checkout that sells for *merchant*, or takes credits only."""
    return Checkout(
        ledger=ledger,
        debits=ledger if isinstance(ledger, DebitLedger) else None,
        merchant=merchant,
        turn=FairQueue().next,
        on_outcome=_count,
    )


def _count(outcome: Outcome) -> None:
    match outcome:
        case Settled(payment=payment, redelivered=redelivered):
            PAYMENTS.labels("redelivered" if redelivered else "settled", "").inc()
            if not redelivered:
                log.info("payment settled", signature=payment.signature, atoms=payment.paid)
        case Refused(reason=reason, signature=signature):
            PAYMENTS.labels("failed" if signature else "refused", reason).inc()
        case AlreadyUsed(what):
            PAYMENTS.labels("already_used", what.name.lower()).inc()
        case Unresolved(payment=payment):
            PAYMENTS.labels("unresolved", payment.state).inc()
            log.warning("payment unresolved", signature=payment.signature, state=payment.state)
        case Unavailable(obstacle):
            PAYMENTS.labels("unavailable", obstacle.name.lower()).inc()
