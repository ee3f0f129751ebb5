"""Facilitator: verifies and settles payments.

    row       if the payment is known: await its outcome, repeat its answer, or refuse it
    check     check the transaction strictly, without a node
    work      run the caller's work; if it fails, the payment is not sent and costs nothing
    simulate  find out whether the transaction would succeed, and the payer's balance after it
    sign      sign in memory, because the row needs the signature; nothing is sent yet
    begin     store the payment as pending, with its signature and its share of the budgets
    send      broadcast the transaction, and wait until it is confirmed; if it is not, search the
              whole history, so that absence is evidence; repeat this until the outcome is known,
              for a limited time
    resolve   write the outcome that the chain shows to the row; the row's state decides the answer

If a process dies between two steps, the reconciler continues from the row.  After `begin`, no
payment is refused because its outcome is unknown.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import ceil
from typing import Final

import msgspec
from solders.keypair import Keypair

from mintscope.kit.audit import SERVICE
from mintscope.kit.clock import Clock
from mintscope.kit.credentials import hash_credential, hint
from mintscope.kit.errors import InvalidToken, ServiceUnavailable
from mintscope.kit.primitives import Mint, Signature, UnixMs, Wallet
from mintscope.payments import ports
from mintscope.payments import reconciler as lost
from mintscope.payments.payment import (
    Landed,
    NewToken,
    PaidItem,
    PaidReport,
    Payment,
    Sighting,
    State,
    TopUp,
    UnreadablePayment,
    Unseen,
    weigh,
)
from mintscope.payments.protocol.envelope import (
    HELD_OPEN_S,
    Envelope,
    RefusalReason,
    Refused,
    Requirement,
    Resource,
    Signed,
    Terms,
    open_envelope,
)
from mintscope.payments.protocol.headers import Presented
from mintscope.payments.protocol.memo import NONCE_BYTES, write_memo
from mintscope.payments.protocol.verify import Asked, Verified, verify
from mintscope.payments.reconciler import GENERATED_KEY_BYTES, REDELIVERY_MS, Secrets
from mintscope.payments.trials import Trials
from mintscope.solana.pace import BLOCKHASH_BLOCKS


class Credits(msgspec.Struct, frozen=True):
    """A purchase of credits on a new credit token."""

    count: int


Wanted = PaidReport | Credits | TopUp


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """A requested purchase and its sender.

    key        the redelivery key that the client chose; None if it has sent none
    address    the client's IP address, by which failed payments are limited
    """

    resource: Resource
    key: str | None
    address: str


def make_payment(  # noqa: PLR0913  one argument per source of its columns
    verified: Verified,
    demand: Demand,
    wanted: Wanted,
    *,
    secrets: Secrets,
    key: str,
    signature: Signature,
    last_valid_height: int,
    now: UnixMs,
) -> Payment:
    """Return the pending payment to store for *verified* and the purchase *wanted*.

    key    the redelivery key of the payment; only its hash is in the result
    """
    envelope = verified.envelope
    purchase: PaidItem
    if isinstance(wanted, Credits):
        token = secrets.credit_token(envelope.message_hash, key)
        token_hash = hash_credential(token, pepper=secrets.pepper)
        purchase = NewToken(credits=wanted.count, token_hash=token_hash, hint=hint(token))
    else:
        purchase = wanted
    return Payment(
        message_hash=envelope.message_hash,
        signature=signature,
        payer=envelope.payer,
        address=demand.address,
        resource=demand.resource,
        amount=verified.amount,
        purchase=purchase,
        key_hash=secrets.key_hash(key, envelope.payer),
        fee_lamports=verified.fee_lamports,
        last_valid_height=last_valid_height,
        begun_at=now,
        asset=verified.asset,
    )


async def no_worth(asset: Mint, atoms: int) -> int | None:  # noqa: ARG001 - a port
    """Return None, because no price is known."""
    return None


class Contradiction(Exception):
    """A stored row contradicts itself, the request or the keys, so nothing is delivered for it."""


def answer(
    payment: Payment, key: str, secrets: Secrets, *, is_key_ours: bool = False
) -> ports.Outcome:
    """Return the stored outcome of *payment*, for a client with its redelivery key *key*.

    is_key_ours    whether the service created *key*; then an unresolved outcome includes it
    Raises         Contradiction if the payment failed and its row has no reason, or if the credit
                   token that it bought is not the one derived from *key*
    """
    match payment.state:
        case State.ISSUED:
            return settled(payment, key, secrets)
        case State.FAILED:
            if payment.reason is None:
                raise Contradiction(f"expected the reason why {payment.signature} failed")
            return Refused(payment.reason, payment.signature)
        case State.PENDING | State.FROZEN:
            return ports.Unresolved(payment=payment, key=key if is_key_ours else None)


def settled(
    payment: Payment, key: str, secrets: Secrets, *, redelivered: bool = False
) -> ports.Settled:
    """Return the outcome of a *payment* that was issued, for a client with the right *key*.

    key         the redelivery key of the payment, from which its credit token is derived
    Raises      Contradiction if the credit token that the payment bought is another one
    """
    token = None
    if isinstance(payment.purchase, NewToken):
        token = secrets.token_of(payment.message_hash, key, payment.purchase.token_hash)
        if token is None:
            raise Contradiction(f"the credit token of {payment.signature} is another: new pepper?")
    return ports.Settled(payment=payment, token=token, redelivered=redelivered)


# The pauses after the first broadcasts, as parts of the lifetime of a blockhash.
PATIENCE_PARTS: Final = (1 / 15, 2 / 15, 4 / 15, 8 / 15)
LOOK_SLOTS: Final = 5  # slots between two checks of a payment with an expired blockhash
TIMEOUT_S_MIN: Final = 3  # the least `max_timeout_s` of a demand, even on very fast chains
LEASE_MARGIN_S: Final = 15.0  # from the end of the longest wait until the reconciler takes over


ROTATED: Final = (
    "This credit token was rotated before the payment was sent, so nothing was sent or charged:"
    " send the same payment with the new credit token."
)
REMOVED: Final = (
    "The account of this credential was removed before the payment was sent, so nothing was sent or"
    " charged."
)


class VerifiedPayment(msgspec.Struct, frozen=True, kw_only=True):
    """A valid payment that this process has not sent.

    mark      the number of the latest change to any payment's state, when this payment was looked
              up
    landed    the outcome on chain of a payment whose row was lost; None for a new payment
    """

    facilitator: "Facilitator"
    verified: Verified
    demand: Demand
    mark: int
    landed: Landed | None = None

    async def tried(self) -> "VerifiedPayment | ports.Outcome":
        """Simulate the payment; return it if it would succeed now, or has landed already.

        Otherwise return its outcome.  Raises ServiceUnavailable if the store does not answer.
        """
        trial = await self.facilitator.attempt(self)
        return self if isinstance(trial, ports.Simulated) else trial

    async def settle(self, wanted: Wanted) -> ports.Outcome:
        """Take the payment for *wanted*, at most once across all processes.

        Raises Contradiction; ServiceUnavailable if the store does not answer; InvalidToken if
        *wanted* tops up a credit token that was rotated, or fills the account of a removed user.
        """
        if self.landed is not None:
            return await self.facilitator.adopt(self, self.landed, wanted)
        return await self.facilitator.settle(self, wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facilitator:
    """Verifies payments, sends them to the chain and issues purchases; all state is in the stores.

    trials      limits payments that fail before they are sent; None: no limit
    terms       the terms of the payment token
    also        the terms of the other accepted tokens
    entropy     returns the given number of cryptographically random bytes
    slot_s      returns the measured duration of a slot, in seconds
    patience_s  the longest time that a response waits for the chain, in seconds
    worth       returns the current value of an amount, in micro-USD; None if no price is known
    """

    terms: Terms
    secrets: Secrets
    fee_payer: Keypair
    store: ports.PaymentStore
    adoptions: ports.AdoptionStore
    chain: ports.Settlement
    clock: Clock
    entropy: Callable[[int], bytes]
    budget: ports.Budget
    slot_s: Callable[[], float]
    patience_s: float = HELD_OPEN_S
    also: Sequence[Terms] = ()
    trials: Trials | None = None
    worth: Callable[[Mint, int], Awaitable[int | None]] = no_worth

    def require(
        self, resource: Resource, amount: int, key: str | None = None, terms: Terms | None = None
    ) -> Requirement:
        """Return the payment requirement for *resource*: *amount* atoms, and a signed quote.

        key      the redelivery key of the client; None if it has sent none
        terms    the terms of the token; None: those of the payment token
        """
        now = self.clock.now()
        secrets = self.secrets.at(now)
        terms = terms or self.terms
        memo = write_memo(
            secrets.quote,
            terms=terms,
            resource=resource,
            amount=amount,
            now=now,
            nonce=self.entropy(NONCE_BYTES) if key is None else secrets.nonce(key),
        )
        recent = self.chain.offer()
        blocks = BLOCKHASH_BLOCKS if recent is None else recent.blocks_left
        left_s = int(blocks * self.slot_s())  # rounded down, so that no payment comes too late
        timeout_s = min(max(left_s, TIMEOUT_S_MIN), HELD_OPEN_S)
        return Requirement(
            terms=terms,
            resource=resource,
            amount=amount,
            memo=memo,
            max_timeout_s=timeout_s,
            recent=recent,
        )

    async def present(
        self, presented: Presented, demand: Demand
    ) -> VerifiedPayment | ports.Outcome:
        """Check a payment that a client sent, and return it if it is valid and has no row.

        For any other payment, return its outcome.  Rows are looked up first: a known payment is
        never refused because of later changes.
        """
        envelope = open_envelope(presented.transaction)
        if isinstance(envelope, Refused):
            return envelope
        found = await self.store.find(envelope.message_hash)
        if found.payment is not None:
            return await self._recall(found.payment, envelope, demand)
        terms = next((each for each in (self.terms, *self.also) if presented.matches(each)), None)
        if terms is None:
            return Refused(RefusalReason.NO_MATCHING_REQUIREMENT)
        asked, refusal = self._verify(envelope, terms, demand, presented)
        verified = refusal
        # The payment may have landed before its quote expired, and its row may be lost: `refuse`
        # looks for it on chain, which needs a payment that passes every other check.
        if isinstance(refusal, Refused) and refusal.reason is RefusalReason.QUOTE_EXPIRED:
            verified = verify(envelope, replace(asked, now=None))
        if isinstance(verified, Refused):
            return verified
        candidate = VerifiedPayment(
            facilitator=self, verified=verified, demand=demand, mark=found.mark
        )
        return await self.refuse(candidate, refusal) if isinstance(refusal, Refused) else candidate

    def _verify(
        self, envelope: Envelope, terms: Terms, demand: Demand, presented: Presented
    ) -> tuple[Asked, Verified | Refused]:
        """Check a payment with each key that may have signed its quote, newest first.

        Stop at the first key with which the quote is not forged.  Return the last check and its
        result.
        """
        now = self.clock.now()
        keys = [each.quote for each in self.secrets.in_force(now)]
        asked = Asked(
            terms=terms,
            resource=demand.resource,
            # The client names the amount; the quote proves that we demanded it.
            amount=presented.amount,
            quote_key=keys[0],
            now=now,
            offered=presented.quote,
        )
        found = verify(envelope, asked)
        for key in keys[1:]:
            if not isinstance(found, Refused) or found.reason is not RefusalReason.QUOTE_FORGED:
                break
            asked = replace(asked, quote_key=key)
            found = verify(envelope, asked)
        return asked, found

    async def refuse(
        self, candidate: VerifiedPayment, why: ports.Outcome
    ) -> VerifiedPayment | ports.Outcome:
        """Look for a refused payment on chain, and return its outcome there.

        If it is not on chain, return *why*.  If it has landed but its row was lost, return
        *candidate* with `landed` set, so that `settle` stores it.  *why* is also returned if it is
        an Unavailable and the outcome on chain is not final.  If too many payments have failed, the
        chain is not asked, and the outcome is Unavailable.
        """
        payer = candidate.verified.envelope.payer
        if not await self.may_try(candidate.demand.address, payer):
            return ports.Unavailable(ports.Obstacle.CHAIN)
        # Signed only for the signature, by which the chain is searched; nothing is sent.
        found = await lost.look(
            candidate.verified.envelope.sign(self.fee_payer).signature,
            candidate.verified,
            candidate.demand.key,
            secrets=self.secrets.in_force(self.clock.now()),
            chain=self.chain,
        )
        if isinstance(found, Landed):
            return msgspec.structs.replace(candidate, landed=found)
        is_behind = found == ports.Unavailable(ports.Obstacle.UNSETTLED) and isinstance(
            why, ports.Unavailable
        )
        return why if found is None or is_behind else found

    async def may_try(self, address: str, payer: Wallet | None = None) -> bool:
        """Return whether one more simulation may fail, and count it as failed if so.

        If `trials` is None, every simulation is allowed.

        address   the client's IP address
        payer     the wallet, if its signature was checked; None otherwise
        Raises    ServiceUnavailable if the store does not answer
        """
        return self.trials is None or await self.trials.take(address, payer) is not None

    async def _try(self, candidate: VerifiedPayment) -> ports.Trial:
        """Simulate the payment, and return the result.

        A payment that would fail counts against the limit of failed simulations.

        Raises    ChainUnavailable, also if too many payments have failed
        """
        envelope = candidate.verified.envelope
        counted = None
        if self.trials is not None:
            counted = await self.trials.take(candidate.demand.address, envelope.payer)
            if counted is None:
                raise ports.ChainUnavailable("as many payments have failed as may in a minute")
        trial = await self.chain.simulate(envelope, candidate.verified.source)
        if counted is not None and isinstance(trial, ports.Simulated):
            await counted.give_back()
        return trial

    async def settle(self, candidate: VerifiedPayment, wanted: Wanted) -> ports.Outcome:
        """Take the payment of *candidate* for *wanted*, at most once.

        Raises Contradiction; ServiceUnavailable if the store does not answer; InvalidToken if
        *wanted* tops up a credit token that was rotated, or fills the account of a removed user.
        """
        envelope = candidate.verified.envelope
        trial = await self.attempt(candidate)
        if isinstance(trial, VerifiedPayment):
            return await trial.settle(wanted)
        if not isinstance(trial, ports.Simulated):
            return trial
        signed = envelope.sign(self.fee_payer)
        drawn = self.entropy(GENERATED_KEY_BYTES)
        secrets = self.secrets.at(self.clock.now())
        key = candidate.demand.key or secrets.one_time_key(envelope.message_hash, drawn)
        pending = ports.PendingPayment(
            payment=make_payment(
                candidate.verified,
                candidate.demand,
                wanted,
                secrets=secrets,
                key=key,
                signature=signed.signature,
                last_valid_height=trial.last_valid_height,
                now=self.clock.now(),
            ),
            quote=candidate.verified.quote,
            mark=candidate.mark,
            balance_after=trial.balance_after,
            budget=self.budget,
            lease_until=UnixMs(self.clock.now() + int((self.patience_s + LEASE_MARGIN_S) * 1000)),
            worth=await self.worth(candidate.verified.asset, candidate.verified.amount),
        )
        try:
            begun = await self.store.begin(pending)
        except ServiceUnavailable as failure:
            # A client without a key gets ours now, because only this key redeems the payment if it
            # is stored after all.  A client with a key simply sends the payment again.
            if candidate.demand.key is not None or isinstance(failure, ports.Inconsistent):
                raise
            return ports.Unresolved(payment=pending.payment, key=key)
        if isinstance(begun, ports.Begun):
            payment = await self._send(pending.payment, signed)
            return answer(payment, key, self.secrets, is_key_ours=candidate.demand.key is None)
        if isinstance(begun, ports.KnownPayment):
            return await self._recall(begun.payment, envelope, candidate.demand)
        if isinstance(begun, ports.Rotated):
            raise InvalidToken(ROTATED)
        if isinstance(begun, ports.Removed):
            raise InvalidToken(REMOVED)
        return begun

    async def attempt(
        self, candidate: VerifiedPayment
    ) -> ports.Simulated | VerifiedPayment | ports.Outcome:
        """Simulate the payment of *candidate*; return the result if the payment would succeed.

        If it would not, return its outcome; but if it is already on chain and its row was lost,
        return *candidate* with `landed` set.
        """
        try:
            trial = await self._try(candidate)
        except ports.ChainUnavailable:
            return ports.Unavailable(ports.Obstacle.CHAIN)
        if isinstance(trial, ports.Simulated):
            return trial
        # The chain also refuses a payment that landed after the lookup, so look it up again.
        envelope = candidate.verified.envelope
        known = (await self.store.find(envelope.message_hash)).payment
        if known is not None:
            return await self._recall(known, envelope, candidate.demand)
        why = ports.not_simulated(trial)
        is_lost = not isinstance(trial, ports.TreasuryUnusable) and lost.may_be_lost(trial)
        return await self.refuse(candidate, why) if is_lost else why

    async def adopt(
        self, candidate: VerifiedPayment, landed: Landed, wanted: Wanted
    ) -> ports.Outcome:
        """Store a payment that has landed but has no row, because a backup was restored.

        Return its outcome, or AlreadyUsed if its redelivery key belongs to another payment that has
        not failed, or if an operator has settled it.
        """
        key = candidate.demand.key
        assert key is not None  # `lost.look` found that this key belongs to the sender
        envelope = candidate.verified.envelope
        payment = make_payment(
            candidate.verified,
            candidate.demand,
            wanted,
            secrets=self.secrets.at(self.clock.now()),
            key=key,
            signature=envelope.sign(self.fee_payer).signature,
            last_valid_height=lost.LANDED_HEIGHT,
            now=self.clock.now(),
        )
        adopted = await self.adoptions.adopt(payment, landed, by=SERVICE, now=payment.begun_at)
        if isinstance(adopted, ports.AlreadyUsed):
            return adopted
        return await self._recall(adopted, envelope, candidate.demand)

    async def _recall(self, payment: Payment, envelope: Envelope, demand: Demand) -> ports.Outcome:
        """Return the outcome of a payment that has a row; send it again if it is still pending.

        If the sender does not prove ownership, the outcome is AlreadyUsed, or the failure of the
        payment if it failed.
        """
        key = demand.key
        if (
            key is None
            or payment.resource != demand.resource
            or not self.secrets.holds(key, payment.payer, payment.key_hash)
        ):
            # A failure is public; any other outcome belongs to the holder of the key.
            if payment.state is State.FAILED and payment.reason is not None:
                return Refused(payment.reason, payment.signature)
            return ports.AlreadyUsed(ports.Used.PAYMENT)
        if payment.state is State.ISSUED:
            return self._redeliver(payment, key)
        if not payment.final:
            payment = await self._look(payment)  # if it can no longer land, it is not sent again
        # The row identifies only the message: the payer's signature in this copy may be invalid.
        if payment.state is State.PENDING and envelope.lacks_only(self.fee_payer.pubkey()):
            payment = await self._send(payment, envelope.sign(self.fee_payer))
        return answer(payment, key, self.secrets)

    def _redeliver(self, payment: Payment, key: str) -> ports.Outcome:
        is_old = self.clock.now() - payment.begun_at > REDELIVERY_MS
        if payment.touched or is_old or payment.purchase == PaidReport(body=b""):  # body deleted
            return ports.AlreadyUsed(ports.Used.PAYMENT)
        return settled(payment, key, self.secrets, redelivered=True)

    async def _send(self, payment: Payment, signed: Signed) -> Payment:
        """Broadcast a pending payment, wait up to `patience_s` for its outcome; return the payment.

        The returned payment is still pending unless an outcome was found, read and stored.

        Repeat the broadcast after each pause, because a node may lose the payment.  After each
        wait without an outcome, search the whole history, so that an expired payment is reported
        soon.
        """
        end_s = self.clock.monotonic_s() + self.patience_s
        for pause_s in self._pauses_s(end_s):
            # The node may have sent the payment even if its answer is lost, so wait in any case.
            with suppress(ports.ChainUnavailable):
                await self.chain.broadcast(signed)
            left_s = max(end_s - self.clock.monotonic_s(), 0.0)
            try:
                sighting = await self.chain.wait(payment.signature, patience_s=min(pause_s, left_s))
                if isinstance(sighting, Unseen):
                    (sighting,) = await self.chain.look([payment.signature])
                payment = await self._resolve(payment, sighting)
            except (ports.ChainUnavailable, ports.Interrupted):
                return payment  # still pending: the reconciler finds the outcome
            if payment.state is not State.PENDING or isinstance(sighting, UnreadablePayment):
                break
        return payment

    def _pauses_s(self, end_s: float) -> Iterator[float]:
        """Yield the pause after each broadcast, in seconds, until *end_s* at the latest.

        Each pause is twice the one before it; after the lifetime of a blockhash, LOOK_SLOTS slots.
        """
        alive_s = min(BLOCKHASH_BLOCKS * self.slot_s(), self.patience_s)
        look_s = LOOK_SLOTS * self.slot_s()
        yield from (part * alive_s for part in PATIENCE_PARTS)
        for _ in range(ceil((self.patience_s - alive_s) / look_s)):
            if self.clock.monotonic_s() >= end_s:
                return
            yield look_s

    async def _look(self, payment: Payment) -> Payment:
        try:
            (sighting,) = await self.chain.look([payment.signature])
        except ports.ChainUnavailable:
            return payment
        return await self._resolve(payment, sighting)

    async def _resolve(self, payment: Payment, sighting: Sighting) -> Payment:
        evidence = weigh(payment, sighting)
        if evidence is None:
            return payment
        name = payment.message_hash
        now = self.clock.now()
        again_ms = ports.final_after_ms(self.slot_s())
        try:
            return await self.store.resolve(
                name, evidence, now=now, again_ms=again_ms, is_for_client=True
            )
        except ports.Interrupted:
            raise
        except ServiceUnavailable:
            return payment  # the store has not confirmed the outcome
