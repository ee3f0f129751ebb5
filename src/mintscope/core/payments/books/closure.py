"""Payers to whom nothing is sold just now, and why."""

from typing import Final

import msgspec

from mintscope.core.payments.protocol.verify import FEE_LAMPORTS_USUAL
from mintscope.core.payments.store import Budget, Conduct, FeesAtRisk

PAUSED: Final = "paused by an administrator"  # how the reason of a pause by hand begins
_STRANGER: Final = Conduct(
    reverted=0, pending=0, sold=0, fee_lamports=0, sold_today=0, reverted_today=0
)
_BUYER: Final = Conduct(
    reverted=0, pending=0, sold=1, fee_lamports=0, sold_today=1, reverted_today=0
)


class Closure(msgspec.Struct, frozen=True, kw_only=True):
    """Sales are closed.

    why           in words that clients may read
    is_for_all    to everybody, or only to payers that bought nothing within 24 hours
    """

    why: str
    is_for_all: bool


def violation_of(why_stopped: str | None) -> str | None:
    """Return what an audit found, of why sales are stopped; None if it was not an audit."""
    is_by_hand = why_stopped is None or why_stopped.startswith(PAUSED)
    return None if is_by_hand else why_stopped


def find_closure(at_risk: FeesAtRisk, budget: Budget, *, is_stopped: bool) -> Closure | None:
    """Return why the usual payment would be turned away, None while none is."""
    if is_stopped:
        return Closure(
            why="stopped by an audit or an administrator: credits go on working", is_for_all=True
        )
    if at_risk.fund is not None and at_risk.fund < budget.fund_lamports_min:
        why = f"the fee payer has {at_risk.fund} lamports left for fees, and needs more"
        return Closure(why=why, is_for_all=True)
    if not at_risk.allow(budget, _BUYER, fee_lamports=FEE_LAMPORTS_USUAL):
        why = "the network fees of this hour, or those of payments under way, are used up"
        return Closure(why=why, is_for_all=True)
    if not at_risk.allow(budget, _STRANGER, fee_lamports=FEE_LAMPORTS_USUAL):
        why = "to payers that bought nothing within 24 hours: their share of the fees is used up"
        return Closure(why=why, is_for_all=False)
    return None
