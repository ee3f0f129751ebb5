"""Orders, signed receipts, and the storing of payments that have landed without a row.

The credits of a payment that `Adopter` stores are on a credit token whose text is unknown.  The
wallet that paid can move the credits to a new token (`credits.rotation`).

A signed receipt is a JWS, signed with EdDSA.  Its `kid` names the key in the seller's DID document.
The signed receipt of a payment is always the same, byte for byte.

Source    x402 v2, specs/extensions/extension-offer-and-receipt.md; did:web; RFC 7515, RFC 8037
"""

from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, auto
from hashlib import sha256
from typing import Any, Final, Protocol
from urllib.parse import quote, urlsplit

import msgspec
from solders.keypair import Keypair

from mintscope.credits.rotation import RotationStore
from mintscope.kit.audit import Actor
from mintscope.kit.clock import Clock
from mintscope.kit.errors import PriceUnavailable
from mintscope.kit.primitives import Mint, Signature, Wallet
from mintscope.payments.audit import Closure, Recognise, Recognised
from mintscope.payments.facilitator import Credits, Demand, Facilitator, make_payment
from mintscope.payments.payment import Landed, Payment
from mintscope.payments.ports import KEY_TAKEN, AdoptionStore, AlreadyUsed, PaymentStore, Settlement
from mintscope.payments.price_cache import NO_PRICE, PriceCache
from mintscope.payments.pricing import REQUEST_USD, Bundle, PriceList
from mintscope.payments.protocol.envelope import (
    Envelope,
    Requirement,
    Resource,
    Terms,
    open_envelope,
)
from mintscope.payments.protocol.verify import FEE_LAMPORTS_USUAL
from mintscope.payments.reconciler import GENERATED_KEY_BYTES, LANDED_HEIGHT, Secrets


@dataclass(frozen=True, slots=True)
class Order:
    """A resource that a client buys, and its price.

    price               returns the price in atoms of the token to pay in, from the token's price
                        list
    usd                 the price in USD, exact
    fee_lamports_max    returns the highest network fee, in lamports, that a payment may cost the
                        service; None: any fee
    key                 the redelivery key of the client; None if it has sent none
    is_for_credits      whether only credits are accepted, because the cost is known only after the
                        work
    is_tried_first      whether a payment is also simulated before the work, because the work is
                        costly
    """

    resource: Resource
    price: Callable[[PriceList], int]
    fee_lamports_max: Callable[[PriceList], int | None] = lambda _: None
    key: str | None = None
    is_for_credits: bool = False
    is_tried_first: bool = False
    usd: Decimal = REQUEST_USD

    def is_worth(self, fee_lamports: int, price_list: PriceList) -> bool:
        """Return whether a payment of this order may cost a network fee of *fee_lamports*."""
        most = self.fee_lamports_max(price_list)
        return most is None or fee_lamports <= most


def report_order(resource: Resource) -> Order:
    """Return an order for one answer from *resource*, at the price of one request."""
    return Order(
        resource,
        price=lambda price_list: price_list.request,
        fee_lamports_max=lambda price_list: price_list.request_fee_lamports_max,
    )


def bundle_order(resource: Resource, bundle: Bundle) -> Order:
    """Return the order of *bundle*, at its discounted price.

    resource    the purchase as the interface names it, for example by its path
    """
    return Order(resource, lambda price_list: price_list.price(bundle).price, usd=bundle.usd)


class NotAdopted(Enum):
    """The reason why a payment is not adopted."""

    NOT_FOUND = auto()  # the node does not have the transaction, or it cannot be read
    NOT_FINAL = auto()  # the transaction is not known to have landed, or a fork can still undo it
    NO_QUOTE = auto()  # the transaction is not a payment with a quote of this service
    OTHER_PAYER = auto()  # the payer is not the wallet that was asked for
    ACKNOWLEDGED = auto()  # an operator has settled the payment


class Records(Protocol):
    """Reads transactions as the chain has recorded them.  Raises ChainUnavailable."""

    async def recorded(self, signature: Signature) -> bytes | None:
        """Return the bytes of the transaction, as its sender signed it.

        Return None if it is not found or cannot be read.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopter:
    """Stores the missing rows of payments that are on chain.

    entropy    returns the given number of cryptographically random bytes
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
        """Store the row of the payment *signature*, unless it exists; return the payment.

        If the payment is not adopted, return the reason.

        payer     adopt only a payment of this wallet; None: of any wallet.  A payment that has a
                  row is returned in any case
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
        assert adopted != KEY_TAKEN  # the key is new and random
        return NotAdopted.ACKNOWLEDGED if isinstance(adopted, AlreadyUsed) else adopted

    def _payment(self, signature: Signature, recognised: Recognised) -> Payment:
        """Return the payment to store for *recognised*.

        Its redelivery key is random and stored nowhere, so that no client has it.
        """
        verified, sold = recognised
        return make_payment(
            verified,
            Demand(resource=sold.name, key=None, address=""),
            Credits(sold.credit_count),
            secrets=self.secrets.at(self.clock.now()),
            key=self.entropy(GENERATED_KEY_BYTES).hex(),
            signature=signature,
            last_valid_height=LANDED_HEIGHT,
            now=self.clock.now(),
        )


OFFER_RECEIPT: Final = "offer-receipt"
RECEIPT_VERSION: Final = 1
_KEY_NAME_LENGTH: Final = 16
_SCHEMA: Final = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {
        "receipt": {
            "type": "object",
            "properties": {"format": {"const": "jws"}, "signature": {"type": "string"}},
            "required": ["format", "signature"],
        }
    },
    "required": ["receipt"],
}


def did_of(origin: str) -> str:
    """Return the DID of the service at *origin*, such as `https://api.example`."""
    # did:web encodes the colon before a port, which would otherwise begin a path.
    return f"did:web:{quote(urlsplit(origin).netloc, safe='')}"


def public_key(seed: bytes) -> bytes:
    """Return the public key of *seed*, both 32 bytes."""
    return bytes(Keypair.from_seed(seed).pubkey())


def sign_receipt(seed: bytes, payment: Payment, *, origin: str, network: str) -> str:
    """Return the signed receipt of *payment*, which must have settled, as a compact JWS.

    seed       32 bytes, the private key
    origin     the origin of the service, such as `https://api.example`
    network    the CAIP-2 name of the chain
    """
    key = Keypair.from_seed(seed)
    head = {"alg": "EdDSA", "kid": _key_id(did_of(origin), bytes(key.pubkey()))}
    claims = {
        "issuedAt": payment.begun_at // 1000,
        "network": network,
        "payer": payment.payer,
        "resourceUrl": origin + payment.resource,
        "transaction": payment.signature,
        "version": RECEIPT_VERSION,
    }
    # Sorted keys and no spaces: for these values, this is the canonical form of RFC 8785.
    body = msgspec.json.encode(claims, order="deterministic")
    signed = f"{_base64(msgspec.json.encode(head))}.{_base64(body)}"
    return f"{signed}.{_base64(bytes(key.sign_message(signed.encode())))}"


def receipt_extension(receipt: str) -> dict[str, Any]:
    """Return *receipt*, a signed receipt, as an extension of an x402 settlement response."""
    info = {"receipt": {"format": "jws", "signature": receipt}}
    return {OFFER_RECEIPT: {"info": info, "schema": _SCHEMA}}


def did_document(origin: str, public_keys: Iterable[bytes]) -> dict[str, Any]:
    """Return the DID document of *origin* with *public_keys*, 32 bytes each.

    Source    DID Core 1.0, JsonWebKey
    """
    did = did_of(origin)
    methods = [
        {
            "id": _key_id(did, each),
            "type": "JsonWebKey",
            "controller": did,
            "publicKeyJwk": {"kty": "OKP", "crv": "Ed25519", "x": _base64(each)},
        }
        for each in public_keys
    ]
    return {
        "@context": ["https://www.w3.org/ns/did/v1", "https://w3id.org/security/jwk/v1"],
        "id": did,
        "verificationMethod": methods,
        "assertionMethod": [each["id"] for each in methods],
    }


def _key_id(did: str, public: bytes) -> str:
    return f"{did}#{sha256(public).hexdigest()[:_KEY_NAME_LENGTH]}"


def _base64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedToken:
    """A token in which clients can pay, and its price; clients see its *name* and *symbol*."""

    terms: Terms
    price_cache: PriceCache
    name: str
    symbol: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Merchant:
    """Sells requests and credits.

    payment_tokens    all accepted tokens, the payment token first
    origin            the origin at which clients reach the service, such as `https://api.example`
    closure           returns the closure of sales as of the last check; None: sales are open
    """

    facilitator: Facilitator
    payment_tokens: Sequence[AcceptedToken]
    rotations: RotationStore
    adopter: Adopter
    origin: str
    closure: Callable[[], Closure | None] = lambda: None

    def is_closed(self) -> bool:
        """Return whether sales are closed to everyone, so that no payment is requested."""
        closure = self.closure()
        return closure is not None and closure.is_for_all

    def payment_token(self, asset: str) -> AcceptedToken:
        """Return the accepted token with mint *asset*, or the payment token if none has it."""
        found = (each for each in self.payment_tokens if each.terms.asset == asset)
        return next(found, self.payment_tokens[0])

    async def priced(self) -> Sequence[tuple[AcceptedToken, PriceList]]:
        """Return the tokens that have a price now, with their prices of this minute.

        Raises PriceUnavailable if no token has a price.
        """
        priced = []
        doubts = []
        for each in self.payment_tokens:
            try:
                priced.append((each, await each.price_cache.price_list()))
            except PriceUnavailable as doubt:
                doubts.append(doubt)
        if not priced:
            raise doubts[0]  # that of the payment token
        return priced

    async def quote(self, order: Order) -> Sequence[Requirement]:
        """Return the payment requirements for *order*, one for each token that has a price now.

        A token is left out if the usual network fee is too high for *order*.  The result is empty
        if only credits are accepted, or sales are closed to everyone.
        Raises PriceUnavailable if no token has a price.
        """
        if order.is_for_credits or self.is_closed():
            return []
        return [
            self.facilitator.require(
                order.resource, order.price(price_list), order.key, terms=each.terms
            )
            for each, price_list in await self.priced()
            if order.is_worth(FEE_LAMPORTS_USUAL, price_list)
        ]

    async def quote_in(self, order: Order, asset: Mint) -> Requirement:
        """Return the payment requirement for *order* in the token *asset*.

        Raises PriceUnavailable if this token has no price now, or cannot be used for *order*.
        """
        for each in await self.quote(order):
            if each.terms.asset == asset:
                return each
        raise PriceUnavailable(NO_PRICE)

    def sign_receipt(self, payment: Payment) -> str:
        """Return the signed receipt of *payment*, which must have settled."""
        # The keys of that time, so that new keys do not change the receipt.
        secrets = self.facilitator.secrets.at(payment.begun_at)
        network = self.facilitator.terms.network
        return sign_receipt(secrets.receipt, payment, origin=self.origin, network=network)

    def receipt_keys(self) -> Sequence[bytes]:
        """Return the public keys that verify signed receipts, newest first, 32 bytes each."""
        return [public_key(each.receipt) for each in self.facilitator.secrets.all()]

    def distrust_prices(self) -> None:
        """Discard the prices of every token; they are read again before the next sale."""
        for each in self.payment_tokens:
            each.price_cache.distrust()
