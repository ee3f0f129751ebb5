"""Reconciler: finishes payments whose outcome is unknown, and repeats lost answers.

Redelivery keys.  Everyone can read a payment on chain, so its sender proves ownership by a secret
key, chosen by the client or by us.  The token that the payment buys is derived from the key, so
that neither the database, nor our secret, nor the chain alone reveals the token.  A key can be
checked without a row, after a restore: our keys carry a MAC of their payment, and if the client
sent its key when it requested the quote, the quote's nonce is a keyed hash of that key.

The reconciler never broadcasts, because the buyer may have given up and paid in another way: a
payment is broadcast again only if its buyer sends it again.  It can run in any number of processes,
at the same time as the handler of the same payment.

Lost payments.  A payment is lost if it is on chain and has no row.  Only we can have sent it,
because it needs our signature.  A quote counts at any age.  The key or the payer's wallet proves
whose payment it is.  A purchase is issued only once, and only if no fork can undo the payment; the
payment gets a row like any other.

Recent blockhashes.  A buyer that signs with the blockhash of a 402 needs no Solana node.  A
blockhash is valid for BLOCKHASH_BLOCKS blocks, so only a young one leaves a buyer enough time.
"""

import hmac
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Final, NamedTuple

from msgspec.structs import replace as structs_replace

from mintscope.kit import credentials
from mintscope.kit.clock import Clock
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.primitives import Signature, UnixMs, Wallet
from mintscope.kit.time import DAY_MS, HOUR_MS
from mintscope.payments import ports
from mintscope.payments.payment import (
    Landed,
    Payment,
    Reverted,
    Sighting,
    State,
    UnreadablePayment,
    Unseen,
    weigh,
)
from mintscope.payments.protocol.envelope import (
    MessageHash,
    RecentBlockhash,
    RefusalReason,
    Refused,
)
from mintscope.payments.protocol.memo import NONCE_BYTES
from mintscope.payments.protocol.verify import Verified
from mintscope.solana.pace import BLOCKHASH_BLOCKS

GENERATED_KEY_BYTES: Final = 24
_KEY_MAC_BYTES: Final = 16
REDELIVERY_MS: Final = DAY_MS
EVER: Final = UnixMs(0)
# Longer than a quote (2 minutes), or a text that a wallet signs (5 minutes), is valid.
OVERLAP_MS: Final = 10 * 60 * 1000
_TOKEN_ENTROPY_BYTES: Final = 28


@dataclass(frozen=True, slots=True, kw_only=True)
class Secrets:
    """The keys of this installation, each derived from one root.

    quote      signs quotes
    redeem     hashes redelivery keys
    token      derives credit tokens
    rotation   proves that a text that a wallet signs was written by this service
    receipt    signs receipts: the seed of a key pair, whose public key is published
    pepper     hashes credit tokens, shared with the ledger
    since      the time from which these keys sign
    newer      the sets of keys that replace this set one after another, newest first
    """

    quote: bytes
    redeem: bytes
    token: bytes
    rotation: bytes
    receipt: bytes
    pepper: bytes
    since: UnixMs = EVER
    newer: "tuple[Secrets, ...]" = ()

    @classmethod
    def derive(cls, pepper: bytes, roots: Iterable[credentials.Root] = ()) -> "Secrets":
        """Return the keys derived from *pepper*, with the sets derived from *roots* as `newer`."""
        newer = (cls._of_root(each, pepper) for each in sorted(roots, reverse=True))
        return replace(cls._of_pepper(pepper), newer=tuple(newer))

    # The texts in the next two methods must never change: each key depends on its text.
    @classmethod
    def _of_root(cls, root: credentials.Root, pepper: bytes) -> "Secrets":
        return cls(
            quote=credentials.derived(root.secret, "quotes"),
            redeem=credentials.derived(root.secret, "receipts"),
            token=credentials.derived(root.secret, "credentials"),
            rotation=credentials.derived(root.secret, "sessions"),
            receipt=credentials.derived(root.secret, "signed receipts"),
            pepper=pepper,
            since=root.since,
        )

    @classmethod
    def _of_pepper(cls, root: bytes) -> "Secrets":
        return cls(
            quote=hmac.digest(root, b"mintscope quote 1", "sha256"),
            redeem=hmac.digest(root, b"mintscope redeem 1", "sha256"),
            token=hmac.digest(root, b"mintscope token 1", "sha256"),
            rotation=hmac.digest(root, b"mintscope rotation 1", "sha256"),
            receipt=hmac.digest(root, b"mintscope receipt 1", "sha256"),
            pepper=root,
        )

    def all(self) -> "tuple[Secrets, ...]":
        """Return all sets of keys, newest first; a stored payment may belong to any of them."""
        return (*self.newer, self)

    def at(self, now: UnixMs) -> "Secrets":
        """Return the set of keys with which this service signs at the time *now*."""
        return next((each for each in self.newer if each.since <= now), self)

    def in_force(self, now: UnixMs) -> "Sequence[Secrets]":
        """Return the sets of keys whose signatures are accepted at *now*, the signing set first.

        Newer sets are accepted, because the clock of another process may be ahead.  Sets that were
        replaced less than OVERLAP_MS ago are accepted, because their signatures are still in use.
        """
        signing = self.at(now)
        every = self.all()
        at = every.index(signing)
        replaced = [
            older
            for newer, older in zip(every[at:], every[at + 1 :], strict=False)
            if now - newer.since < OVERLAP_MS
        ]
        return (signing, *every[:at], *replaced)

    def key_hash(self, key: str, payer: Wallet) -> credentials.CredentialHash:
        """Return the hash of a redelivery key of *payer*; only this hash is stored."""
        # With the payer, so that a stranger who pays with the same key does not block it.
        return credentials.CredentialHash(
            hmac.digest(self.redeem, f"{payer}\n{key}".encode(), "sha256")
        )

    def holds(self, key: str, payer: Wallet, key_hash: credentials.CredentialHash) -> bool:
        """Return whether *key* is the redelivery key of *payer* whose stored hash is *key_hash*.

        Any set of keys, also an old one, may have made the hash.
        """
        return any(hmac.compare_digest(each.key_hash(key, payer), key_hash) for each in self.all())

    def one_time_key(self, message_hash: MessageHash, drawn: bytes) -> str:
        """Return a redelivery key for the payment of a client that sent none.

        It has a MAC of *message_hash*, so that it can be checked without a row.

        drawn    GENERATED_KEY_BYTES random bytes
        """
        return (drawn + self._key_mac(message_hash, drawn)).hex()

    def made_key(self, key: str, message_hash: MessageHash) -> bool:
        """Return whether this service, not the client, made the redelivery key of a payment."""
        try:
            made = bytes.fromhex(key)
        except ValueError:
            return False
        drawn = made[:GENERATED_KEY_BYTES]
        mac = made[GENERATED_KEY_BYTES:]
        return hmac.compare_digest(mac, self._key_mac(message_hash, drawn))

    def nonce(self, key: str) -> bytes:
        """Return the nonce for a quote to the client that has the redelivery key *key*.

        It is a keyed hash, which does not reveal the key.
        """
        # No wallet is named `nonce`, so this is never a part of a hash from `key_hash`.
        return hmac.digest(self.redeem, b"nonce\n" + key.encode(), "sha256")[:NONCE_BYTES]

    def _key_mac(self, message_hash: MessageHash, drawn: bytes) -> bytes:
        made = hmac.digest(self.redeem, b"one-time key\n" + message_hash + drawn, "sha256")
        return made[:_KEY_MAC_BYTES]

    def credit_token(self, message_hash: MessageHash, key: str) -> credentials.CreditToken:
        """Return the credit token that a payment buys, derived from its redelivery key *key*."""
        drawn = hmac.digest(self.token, message_hash + key.encode(), "sha256")
        return credentials.make_credit_token(drawn[:_TOKEN_ENTROPY_BYTES])

    def token_of(
        self, message_hash: MessageHash, key: str, token_hash: credentials.CredentialHash
    ) -> credentials.CreditToken | None:
        """Return the credit token of a payment, derived from its redelivery key *key*.

        Return None if no set of keys derives a token with the hash *token_hash*.
        """
        for each in self.all():
            token = each.credit_token(message_hash, key)
            if credentials.hash_credential(token, pepper=self.pepper) == token_hash:
                return token
        return None


LEASE_SLOTS: Final = 25  # slots between two checks of one payment
APART_MS_MAX: Final = HOUR_MS  # longest time between two checks of an unreadable payment
BATCH: Final = 256  # the most signatures in one status request
PAUSE_SLOTS: Final = 2.5

Pause = Callable[[float], Awaitable[None]]
Alarm = Callable[[Payment, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciler:
    """Compares each payment that is not final with the chain, and updates its state.

    slot_s           returns the measured duration of a slot, in seconds
    on_unreadable    called at each check of a payment that has landed but cannot be read, or whose
                     change of state the store refuses
    """

    store: ports.PaymentStore
    chain: ports.Settlement
    clock: Clock
    slot_s: Callable[[], float]
    on_unreadable: Alarm

    async def run(self, pause: Pause, on_trouble: Callable[[Exception], None]) -> None:
        """Check payments that are not final until cancelled; continue after errors.

        pause         waits for a number of seconds
        on_trouble    called with each error of the store and of the chain
        """
        while True:
            try:
                while await self.once() == BATCH:
                    pass
            except (ports.ChainUnavailable, ServiceUnavailable) as trouble:
                on_trouble(trouble)
            await pause(PAUSE_SLOTS * self.slot_s())

    async def once(self) -> int:
        """Check the payments whose lease has ended, up to BATCH; return their number."""
        now = self.clock.now()
        until = UnixMs(now + self._lease_ms())
        payments = await self.store.lease(now=now, until=until, count_max=BATCH)
        await self._examine(payments)
        return len(payments)

    async def issue_arrived(self, arrived: Sequence[Signature]) -> Sequence[Payment]:
        """Issue each stored payment among *arrived* that has landed but is not issued.

        Return all stored payments among *arrived*, at most BATCH, in their new state.  This finds
        payments that a node did not find earlier, although they had landed.
        """
        ours = await self.store.find_signatures(arrived)
        late = [each for each in ours if each.state is not State.ISSUED]
        if not late:
            return ours
        await self._examine(late)
        return await self.store.find_signatures(arrived)

    async def look_at(self, signatures: Sequence[Signature]) -> None:
        """Compare up to BATCH payments with the chain now, even if another process leases them."""
        await self._examine(await self.store.find_signatures(signatures))

    async def _examine(self, payments: Sequence[Payment]) -> None:
        if not payments:
            return
        sightings = await self.chain.look([payment.signature for payment in payments])
        for payment, sighting in zip(payments, sightings, strict=True):
            await self._apply(payment, sighting)

    async def _apply(self, payment: Payment, sighting: Sighting) -> None:
        """Update *payment* from *sighting*, its outcome on chain.

        If that is impossible, postpone its next check.
        """
        if isinstance(sighting, UnreadablePayment):
            await self._set_aside(payment, sighting.why)
            return
        evidence = weigh(payment, sighting)
        if evidence is None:
            return  # the payment is checked again when its lease has ended
        now = self.clock.now()
        again_ms = ports.final_after_ms(self.slot_s())
        try:
            await self.store.resolve(payment.message_hash, evidence, now=now, again_ms=again_ms)
        except ports.Inconsistent as refusal:
            await self._set_aside(payment, str(refusal))

    async def _set_aside(self, payment: Payment, why: str) -> None:
        """Raise an alarm for a payment that cannot be updated, and postpone its next check.

        The older the payment, the longer the pause, up to APART_MS_MAX.
        """
        self.on_unreadable(payment, why)
        now = self.clock.now()
        apart_ms = min(max(now - payment.begun_at, self._lease_ms()), APART_MS_MAX)
        await self.store.postpone(payment.message_hash, until=UnixMs(now + apart_ms))

    def _lease_ms(self) -> int:
        return int(LEASE_SLOTS * self.slot_s() * 1000)


ALREADY_PROCESSED: Final = "AlreadyProcessed"  # the chain's name for the error
# `last_valid_height` of a payment that has already landed; the store requires a height above 0.
LANDED_HEIGHT: Final = 1


async def look(
    signature: Signature,
    verified: Verified,
    key: str | None,
    *,
    secrets: Sequence[Secrets],
    chain: ports.Settlement,
) -> Landed | ports.Outcome | None:
    """Return the outcome of a payment without a row; None if the chain does not know it.

    signature   the signature of its transaction, by which the chain is searched
    verified    the payment
    key         the client's redelivery key; None if it has sent none

    Landed is returned only if the payment is final and *key* belongs to its sender.
    """
    try:
        (sighting,) = await chain.look([signature])
    except ports.ChainUnavailable:
        return ports.Unavailable(ports.Obstacle.CHAIN)
    match sighting:
        case Landed(final=True):
            return sighting if _owns(key, verified, secrets) else ports.AlreadyUsed(ports.Used.LOST)
        case Reverted(final=True):
            return Refused(RefusalReason.REVERTED, signature)
        case Unseen(height=height) if height > 0:
            return None
        case _:
            return ports.Unavailable(ports.Obstacle.UNSETTLED)


def may_be_lost(trial: ports.Rejected | ports.UnknownBlockhash) -> bool:
    """Return whether a payment with this refusal may nevertheless be on chain.

    A node that knows the blockhash reports that a payment is already on chain before it reports
    other errors.
    """
    return isinstance(trial, ports.UnknownBlockhash) or trial.error == ALREADY_PROCESSED


def _owns(key: str | None, verified: Verified, secrets: Sequence[Secrets]) -> bool:
    """Return whether *key* belongs to the sender of the payment.

    A quote outside the transaction proves nothing, because anyone can ask for a quote.
    """
    return key is not None and any(
        each.made_key(key, verified.envelope.message_hash)
        or (verified.is_bound and each.nonce(key) == verified.nonce)
        for each in secrets
    )


YOUNG_BLOCKS: Final = BLOCKHASH_BLOCKS // 5  # age limit of offered blockhashes, in blocks
REFRESH_SLOTS: Final = 20  # slots between two requests: few enough that one request can fail
KEPT: Final = 64  # blockhashes that are remembered; fewer are requested while one is valid


class _Named(NamedTuple):
    """The last valid height of a blockhash, and the time when a node first returned it."""

    last_valid_height: int
    since_s: float


class RecentBlockhashes:
    """Remembers the recent blockhashes of nodes; makes no request and reads no clock."""

    def __init__(self) -> None:
        self._named: dict[str, _Named] = {}
        self._newest: RecentBlockhash | None = None
        self._newest_since_s = 0.0

    def note(self, recent: RecentBlockhash, *, now_s: float, slot_s: float) -> None:
        """Remember *recent*, a blockhash that a node has just returned.

        It becomes the newest one, unless it is older than the newest one and that is still young
        enough for a buyer: the node may lag.

        now_s     seconds of a monotonic clock
        slot_s    the measured duration of a slot, in seconds
        """
        # Stored again as the last one, so that the blockhash named longest ago is dropped first.
        before = self._named.pop(recent.blockhash, None)
        since_s = now_s if before is None else before.since_s
        self._named[recent.blockhash] = _Named(recent.last_valid_height, since_s)
        if len(self._named) > KEPT:
            del self._named[next(iter(self._named))]
        newest = self._newest
        if (
            newest is None
            or recent.last_valid_height > newest.last_valid_height
            or (recent.blockhash != newest.blockhash and not self._is_young(now_s, slot_s))
        ):
            self._newest = recent
            self._newest_since_s = since_s

    def last_valid_height(self, blockhash: str) -> int | None:
        """Return the last height at which *blockhash* is valid; None if it is not remembered."""
        named = self._named.get(blockhash)
        return None if named is None else named.last_valid_height

    def young(self, *, now_s: float, slot_s: float, height: int = 0) -> RecentBlockhash | None:
        """Return the newest blockhash, with `blocks_left`; None if none is known or it is too old.

        It is too old if its age is over YOUNG_BLOCKS blocks.  The age is estimated from *height*,
        and from the time since a node first returned the blockhash; the greater age counts.

        now_s     seconds of a monotonic clock
        slot_s    the measured duration of a slot
        height    height of the newest known confirmed block; 0: unknown
        """
        newest = self._newest
        if newest is None or not self._is_young(now_s, slot_s):
            return None
        age = max(
            height - (newest.last_valid_height - BLOCKHASH_BLOCKS),
            # Rounding must not make a blockhash too old that `_is_young` calls young.
            min(ceil((now_s - self._newest_since_s) / slot_s), YOUNG_BLOCKS),
        )
        return (
            None
            if age > YOUNG_BLOCKS
            else structs_replace(newest, blocks_left=BLOCKHASH_BLOCKS - age)
        )

    def _is_young(self, now_s: float, slot_s: float) -> bool:
        """Return whether the newest blockhash was first seen less than YOUNG_BLOCKS slots ago."""
        return now_s - self._newest_since_s <= YOUNG_BLOCKS * slot_s
