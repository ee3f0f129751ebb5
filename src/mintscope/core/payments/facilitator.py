"""Taking a payment, from the header to the answer.

    row       is it known?  then join it, give its answer again, or say so
    check     strict, pure, local
    work      the caller's: 404 and 503 cost nothing here
    simulate  unsigned: would it succeed, and what is left in the payer's account?
    sign      in memory, because the row needs the signature; nothing signed leaves yet
    begin     durably pending, its signature known, reserved against the payer's others
    broadcast
    wait      for the chain alone: confirmed, and what arrived
    resolve   in the store; its answer, not our memory, decides what the client hears

A process may die between any two of these: the reconciler goes on from the
row.  After `begin` nothing is ever refused because of a lack of knowledge.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import msgspec
from solders.keypair import Keypair

from mintscope.base.clock import Clock
from mintscope.base.credentials import hash_credential
from mintscope.base.errors import ServiceUnavailable
from mintscope.base.primitives import UnixMs
from mintscope.core.payments.demand import Demand, Wanted, paid_item
from mintscope.core.payments.outcome import (
    AlreadyUsed,
    Obstacle,
    Outcome,
    Settled,
    Unavailable,
    Unresolved,
    Used,
    not_begun,
)
from mintscope.core.payments.payment import (
    VALID_BLOCKS,
    NewToken,
    PaidItem,
    Payment,
    Sighting,
    State,
    weigh,
)
from mintscope.core.payments.protocol.envelope import Envelope, Signed, open_envelope
from mintscope.core.payments.protocol.headers import Presented
from mintscope.core.payments.protocol.memo import NONCE_BYTES, write_memo
from mintscope.core.payments.protocol.refusal import RefusalReason, Refused
from mintscope.core.payments.protocol.requirement import HELD_OPEN_S, Requirement, Resource, Terms
from mintscope.core.payments.protocol.verify import Asked, Verified, verify
from mintscope.core.payments.redelivery import GENERATED_KEY_BYTES, REDELIVERY_MS, Secrets
from mintscope.core.payments.settlement import (
    ChainUnavailable,
    Rejected,
    Settlement,
    Simulated,
    UnknownBlockhash,
)
from mintscope.core.payments.store import Begun, Budget, KnownPayment, PaymentStore, PendingPayment

LEASE_MARGIN_S: Final = 15.0  # beyond the longest wait, before the reconciler steps in
# A blockhash lives a minute and may be 13 s old when it is handed out: for a quote younger than
# this it cannot have expired, so a node that does not know it is behind.
BLOCKHASH_KNOWN_MS: Final = 45_000


class Contradiction(Exception):
    """What is stored is not what it must be: nothing is handed out on the strength of it."""


class VerifiedPayment(msgspec.Struct, frozen=True, kw_only=True):
    """A payment that checks out, and has not been sent.

    mark    of the lookup that did not find it
    """

    facilitator: "Facilitator"
    verified: Verified
    demand: Demand
    mark: int

    async def settle(self, wanted: Wanted) -> Outcome:
        """Take the payment for *wanted*; at most once, however many processes try."""
        return await self.facilitator.settle(self, wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facilitator:
    """Takes payments; holds no state of its own.

    entropy    returns so many bytes from a cryptographic generator
    """

    terms: Terms
    secrets: Secrets
    fee_payer: Keypair
    store: PaymentStore
    chain: Settlement
    clock: Clock
    entropy: Callable[[int], bytes]
    budget: Budget
    patience_s: float = HELD_OPEN_S

    def require(self, resource: Resource, amount: int) -> Requirement:
        """Quote *amount* atoms for *resource*."""
        memo = write_memo(
            self.secrets.quote,
            terms=self.terms,
            resource=resource,
            amount=amount,
            now=self.clock.now(),
            nonce=self.entropy(NONCE_BYTES),
        )
        return Requirement(terms=self.terms, resource=resource, amount=amount, memo=memo)

    async def present(self, presented: Presented, demand: Demand) -> VerifiedPayment | Outcome:
        """Return a charge for a new payment that checks out, the outcome of any other.

        The row decides first: a payment that is known is never refused for what
        happened after it.
        """
        envelope = open_envelope(presented.transaction)
        if isinstance(envelope, Refused):
            return envelope
        found = await self.store.find(envelope.message_hash)
        if found.payment is not None:
            return await self._recall(found.payment, envelope, demand)
        if not presented.matches(self.terms):
            return Refused(RefusalReason.NO_MATCHING_REQUIREMENT)
        verified = verify(
            envelope,
            Asked(
                terms=self.terms,
                resource=demand.resource,
                amount=presented.amount,
                quote_key=self.secrets.quote,
                now=self.clock.now(),
            ),
        )
        if isinstance(verified, Refused):
            return verified
        return VerifiedPayment(facilitator=self, verified=verified, demand=demand, mark=found.mark)

    async def settle(self, candidate: VerifiedPayment, wanted: Wanted) -> Outcome:
        """Take the payment of *candidate* for *wanted*, at most once."""
        envelope = candidate.verified.envelope
        try:
            trial = await self.chain.simulate(envelope, candidate.verified.source)
        except ChainUnavailable:
            return Unavailable(Obstacle.CHAIN)
        if not isinstance(trial, Simulated):
            # Also what lands between the lookup and the simulation is refused by the chain.
            known = (await self.store.find(envelope.message_hash)).payment
            if known is not None:
                return await self._recall(known, envelope, candidate.demand)
            return self._untried(candidate, trial)
        signed = envelope.sign(self.fee_payer)
        key = candidate.demand.key or self.entropy(GENERATED_KEY_BYTES).hex()
        pending = self._make_pending(
            candidate,
            trial,
            signed,
            paid_item(wanted, self.secrets, envelope.message_hash, key),
            key,
        )
        begun = await self.store.begin(pending)
        if isinstance(begun, Begun):
            payment = await self._send(pending.payment, signed)
            return self._answer(payment, key, is_key_ours=candidate.demand.key is None)
        if isinstance(begun, KnownPayment):
            return await self._recall(begun.payment, envelope, candidate.demand)
        return not_begun(begun)

    def _untried(self, candidate: VerifiedPayment, trial: Rejected | UnknownBlockhash) -> Outcome:
        """Say whose fault it is that the payment would not succeed now."""
        if isinstance(trial, Rejected):
            return Refused(RefusalReason.SIMULATION)
        if self.clock.now() - candidate.verified.quoted_at < BLOCKHASH_KNOWN_MS:
            return Unavailable(Obstacle.NODE_BEHIND)
        return Refused(RefusalReason.BLOCKHASH)

    async def _recall(self, payment: Payment, envelope: Envelope, demand: Demand) -> Outcome:
        """Answer for a payment that exists."""
        key = demand.key
        if (
            key is None
            or payment.resource != demand.resource
            or not self.secrets.holds(key, payment.payer, payment.key_hash)
        ):
            # What failed is public; everything else belongs to the holder of the key.
            if payment.state is State.FAILED and payment.reason is not None:
                return Refused(payment.reason, payment.signature)
            return AlreadyUsed(Used.PAYMENT)
        if payment.state is State.ISSUED:
            return self._redeliver(payment, key)
        if payment.state is State.PENDING and self._may_send(envelope):
            payment = await self._send(payment, envelope.sign(self.fee_payer))
        if not payment.final and payment.state is not State.ISSUED:
            payment = await self._look(payment)
        return self._answer(payment, key, is_key_ours=False)

    def _may_send(self, envelope: Envelope) -> bool:
        """Say whether it is complete, but for our signature: the fee payer's key may be new."""
        return envelope.is_signed_by_payer() and envelope.is_sponsored_by(self.fee_payer.pubkey())

    def _redeliver(self, payment: Payment, key: str) -> Outcome:
        if payment.touched or self.clock.now() - payment.begun_at > REDELIVERY_MS:
            return AlreadyUsed(Used.PAYMENT)
        return self._settled(payment, key, redelivered=True)

    async def _send(self, payment: Payment, signed: Signed) -> Payment:
        """Broadcast a pending payment and wait for it; return what is known then."""
        # When a broadcast fails it may have been heard all the same: only a sighting tells.
        with suppress(ChainUnavailable):
            await self.chain.broadcast(signed)
        try:
            sighting = await self.chain.wait(payment.signature, patience_s=self.patience_s)
        except ChainUnavailable:
            return payment
        return await self._resolve(payment, sighting)

    async def _look(self, payment: Payment) -> Payment:
        try:
            (sighting,) = await self.chain.look([payment.signature])
        except ChainUnavailable:
            return payment
        return await self._resolve(payment, sighting)

    async def _resolve(self, payment: Payment, sighting: Sighting) -> Payment:
        evidence = weigh(payment, sighting)
        if evidence is None:
            return payment
        try:
            return await self.store.resolve(payment.message_hash, evidence, now=self.clock.now())
        except ServiceUnavailable:
            return payment  # still pending, as far as can be proven

    def _answer(self, payment: Payment, key: str, *, is_key_ours: bool) -> Outcome:
        """Say what *payment* is, as the store knows it."""
        match payment.state:
            case State.ISSUED:
                return self._settled(payment, key, redelivered=False)
            case State.FAILED:
                if payment.reason is None:
                    raise Contradiction(f"expected why {payment.signature} failed; there is none")
                return Refused(payment.reason, payment.signature)
            case State.PENDING | State.FROZEN:
                return Unresolved(payment=payment, key=key if is_key_ours else None)

    def _settled(self, payment: Payment, key: str, *, redelivered: bool) -> Settled:
        token = None
        if isinstance(payment.purchase, NewToken):
            token = self.secrets.credit_token(payment.message_hash, key)
            hashed = hash_credential(token, pepper=self.secrets.pepper)
            if hashed != payment.purchase.token_hash:
                raise Contradiction(
                    f"the credit token of {payment.signature} is another: new pepper?"
                )
        return Settled(payment=payment, token=token, redelivered=redelivered)

    def _make_pending(
        self,
        candidate: VerifiedPayment,
        trial: Simulated,
        signed: Signed,
        purchase: PaidItem,
        key: str,
    ) -> PendingPayment:
        verified, now = candidate.verified, self.clock.now()
        payer = verified.envelope.payer
        return PendingPayment(
            payment=Payment(
                message_hash=verified.envelope.message_hash,
                signature=signed.signature,
                payer=payer,
                address=candidate.demand.address,
                resource=candidate.demand.resource,
                amount=verified.amount,
                purchase=purchase,
                key_hash=self.secrets.key_hash(key, payer),
                fee_lamports=verified.fee_lamports,
                last_valid_height=trial.block_height + VALID_BLOCKS,
                begun_at=now,
            ),
            mark=candidate.mark,
            balance_after=trial.balance_after,
            budget=self.budget,
            lease_until=UnixMs(now + int((self.patience_s + LEASE_MARGIN_S) * 1000)),
        )
