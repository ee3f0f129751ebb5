"""Giving a row to a payment that lost it, for the wallet that paid.

Its credits are on a credit token that no one has; the wallet that paid moves them to one of its
own (`credits.rotation`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from mintscope.base.clock import Clock
from mintscope.base.primitives import Signature, Wallet
from mintscope.core.accounts.audit import Actor
from mintscope.core.payments.books.orphans import Recognise, Recognised
from mintscope.core.payments.demand import Credits, Demand, make_payment, paid_item
from mintscope.core.payments.lost import LANDED_HEIGHT, Acknowledged, AdoptionStore
from mintscope.core.payments.payment import Landed, Payment
from mintscope.core.payments.protocol.envelope import Envelope, open_envelope
from mintscope.core.payments.redelivery import GENERATED_KEY_BYTES, Secrets
from mintscope.core.payments.settlement import Settlement
from mintscope.core.payments.store import KeyTaken, PaymentStore


class NotAdopted(Enum):
    """Why a payment is given no row."""

    NOT_FOUND = auto()  # the chain has no such transaction
    NOT_FINAL = auto()  # a fork may take it back, or it failed
    NO_QUOTE = auto()  # it carries no quote of ours
    OTHER_PAYER = auto()
    ACKNOWLEDGED = auto()


class Records(Protocol):
    """Raises ChainUnavailable."""

    async def recorded(self, signature: Signature) -> bytes | None:
        """Return the transaction as it was sent, None where there is none to be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopter:
    """Adopts payments by their signatures.

    entropy    returns so many bytes from a cryptographic generator
    """

    records: Records
    chain: Settlement
    store: PaymentStore
    adoptions: AdoptionStore
    recognise: Recognise
    secrets: Secrets
    clock: Clock
    entropy: Callable[[int], bytes]

    async def adopt(
        self, signature: Signature, *, by: Actor, payer: Wallet | None = None
    ) -> Payment | NotAdopted:
        """Return the payment *signature*, which has a row from now on.

        payer     if given, only a payment of this wallet
        Raises    ChainUnavailable, ServiceUnavailable
        """
        known = await self.store.find_signatures([signature])
        if known:
            return known[0]
        wire = await self.records.recorded(signature)
        if wire is None:
            return NotAdopted.NOT_FOUND
        envelope = open_envelope(wire)
        if isinstance(envelope, Envelope) and payer not in {None, envelope.payer}:
            return NotAdopted.OTHER_PAYER
        recognised = await self.recognise(wire)
        if recognised is None:
            return NotAdopted.NO_QUOTE
        (sighting,) = await self.chain.look([signature])
        if not isinstance(sighting, Landed) or not sighting.final:
            return NotAdopted.NOT_FINAL
        payment = self._payment(signature, recognised)
        adopted = await self.adoptions.adopt(payment, sighting, by=by, now=payment.begun_at)
        assert not isinstance(adopted, KeyTaken)  # the key was drawn just now
        return NotAdopted.ACKNOWLEDGED if isinstance(adopted, Acknowledged) else adopted

    def _payment(self, signature: Signature, recognised: Recognised) -> Payment:
        """Return the payment for the holder of a key that is forgotten at once."""
        verified, sold = recognised
        message_hash = verified.envelope.message_hash
        payer = verified.envelope.payer
        secrets = self.secrets.at(self.clock.now())
        key = self.entropy(GENERATED_KEY_BYTES).hex()
        return make_payment(
            verified,
            Demand(resource=sold.name, key=None, address=""),
            paid_item(Credits(sold.credit_count), secrets, message_hash, key),
            signature=signature,
            key_hash=secrets.key_hash(key, payer),
            last_valid_height=LANDED_HEIGHT,
            now=self.clock.now(),
        )
