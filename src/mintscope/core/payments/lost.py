"""Payments that are on chain and not in the store: it was restored from a copy older than they.

Only we can have landed them: each needs our signature, and carries our quote, or a memo of the
client's own.  With a quote they are worth what it says, however old it is.  The chain is public, so
whose they are is proven by a key that the sender of a copy cannot know, or by the payer's wallet.
Only what no fork can take back is issued, once, through a row like any other.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from mintscope.base.primitives import Signature, UnixMs
from mintscope.core.accounts.audit import Actor
from mintscope.core.payments.outcome import AlreadyUsed, Obstacle, Outcome, Unavailable, Used
from mintscope.core.payments.payment import Landed, Payment, Reverted, Unseen
from mintscope.core.payments.protocol.refusal import RefusalReason, Refused
from mintscope.core.payments.protocol.verify import Verified
from mintscope.core.payments.redelivery import Secrets
from mintscope.core.payments.settlement import (
    ChainUnavailable,
    Rejected,
    Settlement,
    UnknownBlockhash,
)
from mintscope.core.payments.store import KeyTaken

ALREADY_PROCESSED: Final = "AlreadyProcessed"  # the chain's own word
LANDED_HEIGHT: Final = 1  # `last_valid_height` of what has landed already: nothing is waited for


class Acknowledged:
    """An operator has settled the payment in another way: it buys nothing any more."""


Adoption = Payment | KeyTaken | Acknowledged


class AdoptionStore(Protocol):
    """Raises ServiceUnavailable when the store does not answer."""

    async def adopt(self, payment: Payment, landed: Landed, *, by: Actor, now: UnixMs) -> Adoption:
        """Begin and issue *payment*, which has *landed* for good, in one transaction; return it.

        No budget is asked: it is paid.  Of a payment that has a row, that row is returned.

        by    who does it, for the audit log
        """


async def look(
    signature: Signature,
    verified: Verified,
    key: str | None,
    *,
    secrets: Sequence[Secrets],
    chain: Settlement,
) -> Landed | Outcome | None:
    """Return None if the chain does not know the payment *verified*, else what became of it.

    Landed    it is there for good, and *key* is its sender's
    """
    try:
        (sighting,) = await chain.look([signature])
    except ChainUnavailable:
        return Unavailable(Obstacle.CHAIN)
    match sighting:
        case Landed(final=True):
            return sighting if _owns(key, verified, secrets) else AlreadyUsed(Used.LOST)
        case Reverted(final=True):
            return Refused(RefusalReason.REVERTED, signature)
        case Unseen(height=height) if height > 0:
            return None
        case _:
            return Unavailable(Obstacle.UNSETTLED)


def may_be_lost(trial: Rejected | UnknownBlockhash) -> bool:
    """Say whether a payment may have landed that is refused now.

    A chain that has it says so before it looks at anything else, while it knows the blockhash.
    """
    return isinstance(trial, UnknownBlockhash) or trial.error == ALREADY_PROCESSED


def _owns(key: str | None, verified: Verified, secrets: Sequence[Secrets]) -> bool:
    """Say whether *key* is that of who has sent the payment.

    A quote that is not in the transaction proves nothing: anyone can ask for one.
    """
    return key is not None and any(
        each.made_key(key, verified.envelope.message_hash)
        or (verified.is_bound and each.nonce(key) == verified.nonce)
        for each in secrets
    )
