"""Creates the `Checkout`, which takes credits and payments, and counts its outcomes as metrics."""

from asyncio import CancelledError
from contextlib import suppress

import structlog

from mintscope.credits.ledger import CreditLedger, DebitLedger
from mintscope.kit.fair_queue import FairQueue
from mintscope.kit.metrics import PAYMENTS
from mintscope.payments.checkout import Checkout
from mintscope.payments.merchant import Merchant
from mintscope.payments.ports import AlreadyUsed, Outcome, Settled, Unavailable, Unresolved
from mintscope.payments.protocol.envelope import Refused

log = structlog.get_logger()


def open_checkout(ledger: CreditLedger, merchant: Merchant | None) -> Checkout:
    """Return a checkout that sells for *merchant*; without a merchant it takes only credits."""
    queue = FairQueue()

    async def next_outcome() -> None:
        # A server that stops cancels its requests, but the client must get the paid answer.
        with suppress(CancelledError):
            await queue.next()

    return Checkout(
        ledger=ledger,
        debits=ledger if isinstance(ledger, DebitLedger) else None,
        merchant=merchant,
        next_iteration=queue.next,
        next_outcome=next_outcome,
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
