"""Moving credits to a new credit token: on the old one, or on proof by the wallet that paid.

A credit token moves all of its credits, a wallet those that its own purchases brought.

A lost answer is asked for again by sending the same request: with the old
token and the same Idempotency-Key, or with the same signed challenge.
"""

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

import msgspec
from solders.pubkey import Pubkey
from solders.signature import Signature as Ed25519

from mintscope.base.clock import Clock
from mintscope.base.credentials import CreditToken, hash_credential, hint
from mintscope.base.errors import (
    BadRequest,
    ErrorCode,
    InvalidProof,
    InvalidToken,
    MissingToken,
    NothingToRotate,
    PaymentUnavailable,
    RotatedRecently,
)
from mintscope.base.foreign import parsed_by_others
from mintscope.base.primitives import CreditAccount, Signature, Wallet
from mintscope.core.accounts.audit import SERVICE
from mintscope.core.checkout.merchant import Merchant
from mintscope.core.credits.challenge import NONCE_BYTES, VALID_S
from mintscope.core.credits.ledger import CreditLedger
from mintscope.core.credits.rotation import (
    Claim,
    RotationDenied,
    find_flaw,
    write_challenge,
)
from mintscope.core.payments.adopter import NotAdopted
from mintscope.core.payments.protocol.envelope import MessageHash
from mintscope.core.payments.redelivery import GENERATED_KEY_BYTES
from mintscope.core.payments.settlement import ChainUnavailable
from mintscope.edges.api.description.operation import CREDENTIAL, PUBLIC_ROUTE, Operation
from mintscope.edges.api.gate import NOT_ISSUED, Gate
from mintscope.edges.api.refusals import NO_SALES
from mintscope.edges.api.wire import (
    Challenge,
    Claimed,
    Proof,
    Rotated,
    Wire,
    success,
)
from mintscope.edges.api.x402 import idempotency_key
from mintscope.edges.server.json_body import UnreadableBody, parse_object
from mintscope.edges.server.rate_limit import RateLimit
from mintscope.edges.server.request import Request
from mintscope.edges.server.response import Response

T = TypeVar("T", bound=Wire)

NOTHING_PRESENTED: Final = (
    "expected the credit token as Authorization: Bearer svc_credit_<64 hex>, or a body with the"
    " signed challenge of POST /v1/credits/rotate/challenge"
)
TWO_PROOFS: Final = "expected a credit token or a signed challenge; there were both"
NOT_PROVEN: Final = (
    "expected our challenge of the last 5 minutes, signed by the wallet that paid for a purchase"
    " of credits; this is not one"
)
EXPIRED: Final = "The challenge has expired: ask for another one."
TOO_SOON: Final = (
    "These credits were moved within a day, or bought within 10 minutes and used since;"
    " the holder of their credit token can move them at any time."
)
NOT_LOOKED: Final = (
    "This purchase is not known here, and the chain does not say yet what became of it: ask again"
    " in a moment."
)
NO_CREDITS: Final = "expected a credit token that has credits; this one has none"
NOT_THEIRS: Final = (
    "expected credits that purchases of this wallet brought; there are none left that the holder"
    " of their credit token has not rotated"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RotateRoutes:
    """Moves credits on either of two proofs of ownership."""

    gate: Gate
    ledger: CreditLedger
    merchant: Merchant | None
    clock: Clock
    rate_limit: RateLimit
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)  # one new token for one request

    @Operation(
        "POST",
        "/v1/credits/rotate",
        Rotated,
        takes_key=True,
        refusals=(
            *CREDENTIAL,
            ErrorCode.INVALID_PROOF,
            ErrorCode.ROTATED_RECENTLY,
            ErrorCode.NOTHING_TO_ROTATE,
            ErrorCode.PAYLOAD_TOO_LARGE,
            ErrorCode.PAYMENT_UNAVAILABLE,
            *PUBLIC_ROUTE,
        ),
        status=201,
        proofs=(("creditToken",), ()),
        body=Proof,
    )
    async def rotate_credits(self, request: Request) -> Response:
        """Move all credits to a new token, on the old one or a signed challenge.

        Moves credits to a new credit token: all of those on the token in Authorization, or those
        that the purchases of a wallet brought, on its signed challenge. The old token is void at
        once. Costs nothing.
        """
        caller = await self.gate.admit(request)
        merchant = self._expect_merchant()
        key, body = idempotency_key(request), await request.body()
        if caller.bearer is not None:
            if body:
                raise BadRequest(TWO_PROOFS)
            key = key or merchant.facilitator.entropy(GENERATED_KEY_BYTES).hex()
            tokens = self._new_tokens(merchant, f"token\n{caller.bearer}", key)
            async with self._turn:
                # First what was answered before: a token that was rotated is no credential.
                rotated = await self._find(tokens) or await self._rotate(
                    request, merchant, self.gate.credit_token(caller), tokens[0]
                )
        elif body:
            proof = _read(request, body, Proof)
            rotated = await self._rotate_by_wallet(request, merchant, proof)
        else:
            raise MissingToken(NOTHING_PRESENTED)
        return success(request, rotated, at=self.clock.now(), status=201)

    @Operation(
        "POST",
        "/v1/credits/rotate/challenge",
        Challenge,
        refusals=(ErrorCode.PAYLOAD_TOO_LARGE, ErrorCode.PAYMENT_UNAVAILABLE, *PUBLIC_ROUTE),
        body=Claimed,
    )
    async def make_rotation_challenge(self, request: Request) -> Response:
        """A text whose signature proves to be the wallet that paid.

        Returns a text for a wallet to sign, good for 5 minutes; signed, it moves the credits that
        this wallet bought to a new credit token. Costs nothing.
        """
        # Nothing is looked up, and nothing is stored.
        await self.gate.admit(request)
        merchant = self._expect_merchant()
        asked = _read(request, await request.body(), Claimed)
        now = self.clock.now()
        text = write_challenge(
            merchant.facilitator.secrets.at(now).rotation,
            _claim(merchant, asked),
            now=now,
            nonce=merchant.facilitator.entropy(NONCE_BYTES),
        )
        challenge = Challenge(challenge=text, expires_at=now // 1000 + VALID_S)
        return success(request, challenge, at=now)

    async def _rotate_by_wallet(
        self, request: Request, merchant: Merchant, proof: Proof
    ) -> Rotated:
        """Move what a signed challenge proves.

        Raises InvalidProof, RotatedRecently and NothingToRotate.
        """
        claim = _claim(merchant, proof)
        secrets = merchant.facilitator.secrets
        now = self.clock.now()
        flaws = [
            find_flaw(
                each.rotation,
                claim,
                text=proof.challenge,
                signature=bytes(_signature(proof.signature)),
                now=now,
            )
            for each in secrets.in_force(now)
        ]
        flaw = None if None in flaws else flaws[0]
        if flaw is not None:
            raise InvalidProof(EXPIRED if flaw is RotationDenied.EXPIRED else NOT_PROVEN)
        tokens = self._new_tokens(merchant, "wallet", proof.challenge)
        token = tokens[0]
        # Before the turn: others do not wait for the chain.
        await _adopt_lost(merchant, claim, address=self.gate.address(request))
        async with self._turn:
            again = await self._find(tokens)
            if again is not None:
                return again
            purchased = await merchant.rotations.find_purchase(claim.purchase)
            if purchased is None or purchased.payer != claim.wallet:
                raise InvalidProof(NOT_PROVEN)
            digest = hash_credential(token, pepper=secrets.pepper)
            moved = await merchant.rotations.claim(claim.purchase, digest, hint(token), now=now)
            if moved is RotationDenied.TOO_SOON:
                raise RotatedRecently(TOO_SOON)
            if isinstance(moved, RotationDenied):
                raise NothingToRotate(NOT_THEIRS)
            return Rotated(token=token, credits=moved)

    async def _find(self, tokens: Sequence[CreditToken]) -> Rotated | None:
        """Return the answer that was given before."""
        for token in tokens:
            account = await self.ledger.find(token)
            if account is not None:
                return Rotated(token=token, credits=await self.ledger.balance(account))
        return None

    async def _rotate(
        self, request: Request, merchant: Merchant, holder: CreditAccount, token: CreditToken
    ) -> Rotated:
        """Move all credits of *holder*.

        Raises RateLimited, NothingToRotate, and InvalidToken if it was rotated meanwhile.
        """
        await self.rate_limit.pass_through(request, await self.ledger.root(holder))
        digest = hash_credential(token, pepper=merchant.facilitator.secrets.pepper)
        moved = await merchant.rotations.rotate(holder, digest, hint(token), now=self.clock.now())
        if moved is RotationDenied.ROTATED:
            raise InvalidToken(NOT_ISSUED)
        if isinstance(moved, RotationDenied):
            raise NothingToRotate(NO_CREDITS)
        return Rotated(token=token, credits=moved)

    def _new_tokens(self, merchant: Merchant, proven: str, key: str) -> Sequence[CreditToken]:
        """Derive the token from what only the caller knows, so that it can be given again.

        The first is that of now; it may have been given while others signed.
        """
        digest = hashlib.sha256(f"mintscope rotation of {proven}".encode()).digest()
        secrets = merchant.facilitator.secrets
        now = self.clock.now()
        signing = secrets.at(now)
        every = [signing, *(each for each in secrets.all() if each is not signing)]
        return [each.credit_token(MessageHash(digest), key) for each in every]

    def _expect_merchant(self) -> Merchant:
        if self.merchant is None:
            raise PaymentUnavailable(NO_SALES)
        return self.merchant


async def _adopt_lost(merchant: Merchant, claim: Claim, *, address: str) -> None:
    """Look on chain for a purchase that is not known: a restored store may have lost it.

    Any wallet can claim any signature, so such looks count as payments that fail do.
    Raises PaymentUnavailable.
    """
    if await merchant.rotations.find_purchase(claim.purchase) is not None:
        return
    if not await merchant.facilitator.may_try(address, claim.wallet):
        raise PaymentUnavailable(NOT_LOOKED)
    try:
        found = await merchant.adopter.adopt(claim.purchase, by=SERVICE, payer=claim.wallet)
    except ChainUnavailable as trouble:
        raise PaymentUnavailable(NOT_LOOKED) from trouble
    if found is NotAdopted.NOT_FINAL:
        raise PaymentUnavailable(NOT_LOOKED)


def _claim(merchant: Merchant, asked: Claimed) -> Claim:
    try:
        with parsed_by_others():
            wallet = Pubkey.from_string(asked.wallet)
    except ValueError as cause:
        raise BadRequest("expected wallet to be the base58 of 32 bytes") from cause
    purchase = _signature(asked.purchase)
    return Claim(
        origin=merchant.origin, purchase=Signature(str(purchase)), wallet=Wallet(str(wallet))
    )


def _signature(text: str) -> Ed25519:
    try:
        with parsed_by_others():
            return Ed25519.from_string(text)
    except ValueError as cause:
        raise BadRequest("expected a signature to be the base58 of 64 bytes") from cause


def _read(request: Request, body: bytes, shape: type[T]) -> T:
    """Return *body* as *shape*, all of whose fields are texts.  Raises BadRequest."""
    try:
        value = parse_object(request, body)
    except UnreadableBody as flaw:
        raise BadRequest(str(flaw)) from flaw
    names = [each.encode_name for each in msgspec.structs.fields(shape)]
    if set(value) != set(names) or not all(isinstance(each, str) for each in value.values()):
        raise BadRequest(f"expected the fields {', '.join(names)}, each of them text, and no other")
    return msgspec.convert(value, shape)
