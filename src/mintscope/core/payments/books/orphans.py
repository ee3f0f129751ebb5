"""Orphans: payments of ours that are on chain and have no row, because a backup was restored.

Each carries the quote that it paid, so its purchase is known; that stops no sales.  Its
buyer may come back for it at any time; or an operator settles it, for good.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from enum import Enum, auto
from typing import NamedTuple, Protocol

import msgspec

from mintscope.base.primitives import Mint, Signature, UnixMs, Wallet
from mintscope.core.accounts.audit import Actor
from mintscope.core.payments.protocol.envelope import FEE_PAYER_AT, Envelope, open_envelope
from mintscope.core.payments.protocol.memo import find_flaw
from mintscope.core.payments.protocol.refusal import Refused
from mintscope.core.payments.protocol.requirement import Resource, ResourceKind, Terms
from mintscope.core.payments.protocol.verify import Asked, Verified, find_memo, transferred, verify


class SoldItem(NamedTuple):
    """Something that was sold, and the credits that are worth as much.

    resource    a kind: whatever of it is sold
    """

    resource: Resource | ResourceKind
    credit_count: int

    @property
    def name(self) -> Resource:
        """Return what was bought, or the path of its kind where no more is known."""
        return (
            Resource(self.resource.path)
            if isinstance(self.resource, ResourceKind)
            else self.resource
        )


class Recognised(NamedTuple):
    """A payment of ours, read from its transaction alone."""

    verified: Verified
    offer: SoldItem


Recognise = Callable[[bytes], Awaitable[Recognised | None]]  # None: it carries no quote of ours


class Orphan(msgspec.Struct, frozen=True, kw_only=True):
    """A payment of ours without a row.

    payer, amount, asset, bought    by its quote; None where it carries none of ours.  What it has
                                    bought is the path of a kind where no more is known
    found_at                        by the first audit that met it
    """

    signature: Signature
    payer: Wallet | None
    amount: int | None
    asset: Mint | None
    bought: Resource | None
    found_at: UnixMs


class Acknowledgement(Enum):
    """The outcome of settling an orphan."""

    DONE = auto()
    DONE_BEFORE = auto()
    HAS_ROW = auto()  # it is no orphan any more
    UNKNOWN = auto()  # no audit has met it


class OrphanBooks(Protocol):
    """Raises ServiceUnavailable from every verb when the store does not answer."""

    async def note_orphans(self, orphans: Sequence[Orphan]) -> Sequence[Signature]:
        """Keep *orphans* as they were met first; return those that an operator has settled."""

    async def orphans(self) -> Sequence[Orphan]:
        """Return those that are neither settled nor issued, in the order they were met."""

    async def acknowledge(
        self, signature: Signature, *, note: str, by: Actor, now: UnixMs
    ) -> Acknowledgement:
        """Settle an orphan for good: it buys nothing any more, and no audit speaks of it."""


def recognise(
    wire: bytes, offers: Iterable[SoldItem], *, terms: Terms, quote_key: bytes
) -> Recognised | None:
    """Return what the transaction *wire* has paid for, if it is a payment of one of *offers*.

    terms    of one token; payments in another are not recognised

    Whenever it was quoted: it is on chain, so it was taken in time.
    """
    envelope = open_envelope(wire)
    if isinstance(envelope, Refused) or str(envelope.accounts[FEE_PAYER_AT]) != terms.fee_payer:
        return None  # before any offer is tried: they may be many
    if terms.treasury not in envelope.accounts:
        return None
    memo = find_memo(envelope)
    amount = transferred(envelope)
    if memo is None or amount is None:
        return None
    for offer in offers:
        flaw = find_flaw(
            quote_key, memo, terms=terms, resource=offer.resource, amount=amount, now=None
        )
        if flaw is None:
            return _checked(
                envelope,
                offer,
                Asked(
                    terms=terms,
                    resource=offer.resource,
                    amount=amount,
                    quote_key=quote_key,
                    now=None,
                ),
            )
    return None


def _checked(envelope: Envelope, offer: SoldItem, asked: Asked) -> Recognised | None:
    verified = verify(envelope, asked)
    return None if isinstance(verified, Refused) else Recognised(verified, offer)
