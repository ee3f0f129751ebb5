"""Endpoints that sell and rotate credits, and that show the balance and history of credits.

The holder of a credit token can move all of its credits; a wallet can move the credits
that it bought.

A client that lost the answer to a rotation can repeat the request: with the old token and the same
Idempotency-Key, or, while the challenge is valid, with the same signed challenge.
"""

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar
from urllib.parse import parse_qsl

import msgspec
from solders.pubkey import Pubkey
from solders.signature import Signature as Ed25519

from mintscope.accounts.keys.scope import Scope
from mintscope.api import wire
from mintscope.api.discovery.operation import (
    ANY_BUNDLE,
    CREDENTIAL,
    PAYMENT,
    PUBLIC_ROUTE,
    SPENDER,
    SPENDERS,
    Operation,
)
from mintscope.api.failures import NO_SALES
from mintscope.api.gate import IDEMPOTENCY_KEY, NOT_ISSUED, Caller, Gate, idempotency_key
from mintscope.api.x402 import ResourceServer, bundle_resource
from mintscope.credits.ledger import CreditLedger, Statement
from mintscope.credits.rotation import Claim, RotationDenied, find_flaw, write_challenge
from mintscope.credits.sign_in import NONCE_BYTES, VALID_S
from mintscope.kit import errors
from mintscope.kit.audit import SERVICE
from mintscope.kit.clock import Clock
from mintscope.kit.credentials import CreditToken, hash_credential, hint
from mintscope.kit.http.rate_limit import RateLimit
from mintscope.kit.http.request import Request, UnreadableBody, parse_object
from mintscope.kit.http.response import Response
from mintscope.kit.primitives import CreditAccount, Signature, Wallet
from mintscope.kit.time import DAY_S
from mintscope.payments.facilitator import Contradiction, Credits, Wanted
from mintscope.payments.merchant import AcceptedToken, Merchant, NotAdopted, bundle_order
from mintscope.payments.payment import PaidReport, TopUp
from mintscope.payments.ports import ChainUnavailable, Inconsistent, Settled
from mintscope.payments.pricing import BUNDLES, Bundle, PriceList, parse_bundle
from mintscope.payments.protocol.envelope import MessageHash
from mintscope.payments.reconciler import GENERATED_KEY_BYTES

T = TypeVar("T", bound=wire.Wire)

NOTHING_PRESENTED: Final = (
    "expected the credit token as Authorization: Bearer svc_credit_<64 hex>, or a body with the"
    " signed challenge of POST /v1/credits/rotate/challenge"
)
TWO_PROOFS: Final = "expected a credit token or a signed challenge; there were both"
NOT_PROVEN: Final = (
    "expected our challenge of the last 5 minutes, signed by the wallet that paid for a purchase of"
    " credits; the signature or the challenge does not match"
)
EXPIRED: Final = "The challenge has expired: request another one."
TOO_SOON: Final = (
    "These credits were moved within the last day, or were bought within the last 10 minutes and"
    " have been used. The holder of their credit token can move them at any time."
)
NOT_LOOKED: Final = (
    "This purchase is not known here, and its outcome on the chain is not known yet: send the"
    " request again in a moment."
)
MAY_BE_MOVED: Final = (
    "The credits may have been moved: send the same request again, with the Idempotency-Key of this"
    " response, to get the new credit token."
)
NO_CREDITS: Final = "expected a credit token that has credits; this one has none"
NOT_THEIRS: Final = (
    "expected credits that this wallet bought; none are left, or the holder of their credit token"
    " has rotated them"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RotateRoutes:
    """Routes that move credits to a new credit token.

    The client proves that the credits are its own: with the old credit token, or with the wallet
    that bought them.
    """

    gate: Gate
    ledger: CreditLedger
    merchant: Merchant | None
    clock: Clock
    rate_limit: RateLimit
    # A repeated request waits for the first one, and then gets its token.
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @Operation(
        "POST",
        "/v1/credits/rotate",
        wire.Rotated,
        takes_key=True,
        refusals=(
            *CREDENTIAL,
            errors.ErrorCode.INVALID_PROOF,
            errors.ErrorCode.ROTATED_RECENTLY,
            errors.ErrorCode.NOTHING_TO_ROTATE,
            errors.ErrorCode.PAYLOAD_TOO_LARGE,
            errors.ErrorCode.PAYMENT_UNAVAILABLE,
            *PUBLIC_ROUTE,
        ),
        status=201,
        proofs=(("creditToken",), ()),
        body=wire.Proof,
    )
    async def rotate_credits(self, request: Request) -> Response:
        """Move all credits to a new token, with the old token or a signed challenge.

        Moves credits to a new credit token: all credits of the token in Authorization, which is
        then void, or the credits that a wallet bought, if the wallet has signed a challenge.
        Costs nothing.
        """
        caller = await self.gate.admit(request)
        merchant = self._expect_merchant()
        key, body = idempotency_key(request), await request.body()
        if caller.bearer is not None:
            if body:
                raise errors.BadRequest(TWO_PROOFS)
            # Without a key, the new token is random, so a lost answer cannot be repeated.  Only the
            # response to a rotation of unknown outcome has this key.
            key = key or merchant.facilitator.entropy(GENERATED_KEY_BYTES).hex()
            tokens = self._new_tokens(merchant, f"token\n{caller.bearer}", key)
            async with self._lock:
                # Look for the earlier answer first: a rotated token is no credential any more.
                rotated = await self._find(tokens) or await self._rotate(
                    request, merchant, self.gate.credit_token(caller), tokens[0], key=key
                )
        elif body:
            proof = _read(request, body, wire.Proof)
            rotated = await self._rotate_by_wallet(request, merchant, proof)
        else:
            raise errors.MissingToken(NOTHING_PRESENTED)
        return wire.success(request, rotated, at=self.clock.now(), status=201)

    @Operation(
        "POST",
        "/v1/credits/rotate/challenge",
        wire.Challenge,
        refusals=(
            errors.ErrorCode.PAYLOAD_TOO_LARGE,
            errors.ErrorCode.PAYMENT_UNAVAILABLE,
            *PUBLIC_ROUTE,
        ),
        body=wire.Claimed,
    )
    async def make_rotation_challenge(self, request: Request) -> Response:
        """A text to sign that proves ownership of the wallet that paid.

        Returns a text for a wallet to sign, valid for 5 minutes. The signed text moves the credits
        that this wallet bought to a new credit token. Costs nothing.
        """
        await self.gate.admit(request)
        merchant = self._expect_merchant()
        asked = _read(request, await request.body(), wire.Claimed)
        now = self.clock.now()
        text = write_challenge(
            merchant.facilitator.secrets.at(now).rotation,
            _claim(merchant, asked),
            now=now,
            nonce=merchant.facilitator.entropy(NONCE_BYTES),
        )
        challenge = wire.Challenge(challenge=text, expires_at=now // 1000 + VALID_S)
        return wire.success(request, challenge, at=now)

    async def _rotate_by_wallet(
        self, request: Request, merchant: Merchant, proof: wire.Proof
    ) -> wire.Rotated:
        """Move the credits of the wallet that signed the challenge in *proof* to a new token.

        Raises BadRequest, PaymentUnavailable, InvalidProof, RotatedRecently and NothingToRotate.
        """
        claim = _claim(merchant, proof)
        secrets = merchant.facilitator.secrets
        now = self.clock.now()
        # The secrets may have changed since the challenge was written, or the clock of the process
        # that wrote it was ahead.  If none of them fits, the flaw is that of the current ones.
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
            raise errors.InvalidProof(EXPIRED if flaw is RotationDenied.EXPIRED else NOT_PROVEN)
        tokens = self._new_tokens(merchant, "wallet", proof.challenge)
        token = tokens[0]
        # Search before taking the lock, so that other requests do not wait for the chain.
        await _adopt_lost(merchant, claim, address=self.gate.address(request))
        async with self._lock:
            again = await self._find(tokens)
            if again is not None:
                return again
            purchased = await merchant.rotations.find_purchase(claim.purchase)
            if purchased is None or purchased.payer != claim.wallet:
                raise errors.InvalidProof(NOT_PROVEN)
            digest = hash_credential(token, pepper=secrets.pepper)
            moved = await merchant.rotations.claim(claim.purchase, digest, hint(token), now=now)
            if moved is RotationDenied.TOO_SOON:
                raise errors.RotatedRecently(TOO_SOON)
            if isinstance(moved, RotationDenied):
                raise errors.NothingToRotate(NOT_THEIRS)
            return wire.Rotated(token=token, credits=moved)

    async def _find(self, tokens: Sequence[CreditToken]) -> wire.Rotated | None:
        """Return the first of *tokens* that has a credit account, with its balance; else None."""
        for token in tokens:
            account = await self.ledger.find(token)
            if account is not None:
                return wire.Rotated(token=token, credits=await self.ledger.balance(account))
        return None

    async def _rotate(
        self,
        request: Request,
        merchant: Merchant,
        holder: CreditAccount,
        token: CreditToken,
        *,
        key: str,
    ) -> wire.Rotated:
        """Move all credits of *holder* to the new credit token *token*, derived from *key*.

        Raises RateLimited; NothingToRotate if *holder* has no credits; InvalidToken if another
        request has already moved them; and ServiceUnavailable if the outcome is unknown, with *key*
        in the headers of the response.
        """
        await self.rate_limit.pass_through(request, await self.ledger.root(holder))
        digest = hash_credential(token, pepper=merchant.facilitator.secrets.pepper)
        now = self.clock.now()
        try:
            moved = await merchant.rotations.rotate(holder, digest, hint(token), now=now)
        except Inconsistent:
            raise
        # A server that stops cancels its requests, but the client needs the key of the rotation.
        except (errors.ServiceUnavailable, asyncio.CancelledError) as failure:
            request.response_headers.append((IDEMPOTENCY_KEY, key.encode()))
            raise errors.ServiceUnavailable(MAY_BE_MOVED) from failure
        if moved is RotationDenied.ROTATED:
            raise errors.InvalidToken(NOT_ISSUED)
        if isinstance(moved, RotationDenied):
            raise errors.NothingToRotate(NO_CREDITS)
        return wire.Rotated(token=token, credits=moved)

    def _new_tokens(self, merchant: Merchant, proven: str, key: str) -> Sequence[CreditToken]:
        """Return credit tokens derived from *proven* and *key*: a repeated call returns the same.

        The first one is derived with the current secrets, the others with older and future ones,
        because the secrets may have changed since an earlier request with the same proof and key.

        proven   the kind of proof, followed by the old credit token if this token is the proof
        key      the caller's Idempotency-Key, or the challenge that the wallet signed
        """
        # A prefix of its own, because credit tokens are also derived from the digests of payments.
        digest = hashlib.sha256(f"mintscope rotation of {proven}".encode()).digest()
        secrets = merchant.facilitator.secrets
        now = self.clock.now()
        signing = secrets.at(now)
        every = [signing, *(each for each in secrets.all() if each is not signing)]
        return [each.credit_token(MessageHash(digest), key) for each in every]

    def _expect_merchant(self) -> Merchant:
        if self.merchant is None:
            raise errors.PaymentUnavailable(NO_SALES)
        return self.merchant


async def _adopt_lost(merchant: Merchant, claim: Claim, *, address: str) -> None:
    """Search the chain for the payment that *claim* names, if it is not stored, and store it.

    A store that was restored from a backup may have lost the purchase.  Any wallet can claim any
    signature, so each search counts as a failed payment of the wallet and *address*.  Raises
    PaymentUnavailable if no search is possible now, or the payment is not final yet.
    """
    if await merchant.rotations.find_purchase(claim.purchase) is not None:
        return
    if not await merchant.facilitator.may_try(address, claim.wallet):
        raise errors.PaymentUnavailable(NOT_LOOKED)
    try:
        found = await merchant.adopter.adopt(claim.purchase, by=SERVICE, payer=claim.wallet)
    except ChainUnavailable as trouble:
        raise errors.PaymentUnavailable(NOT_LOOKED) from trouble
    if found is NotAdopted.NOT_FINAL:
        raise errors.PaymentUnavailable(NOT_LOOKED)


def _claim(merchant: Merchant, asked: wire.Claimed) -> Claim:
    try:
        with errors.parsed_by_others():
            wallet = Pubkey.from_string(asked.wallet)
    except ValueError as cause:
        raise errors.BadRequest("expected wallet to be the base58 of 32 bytes") from cause
    purchase = _signature(asked.purchase)
    return Claim(
        origin=merchant.origin, purchase=Signature(str(purchase)), wallet=Wallet(str(wallet))
    )


def _signature(text: str) -> Ed25519:
    try:
        with errors.parsed_by_others():
            return Ed25519.from_string(text)
    except ValueError as cause:
        raise errors.BadRequest("expected a signature to be the base58 of 64 bytes") from cause


def _read(request: Request, body: bytes, shape: type[T]) -> T:
    """Return *body*, in JSON, as *shape*, whose fields are all strings.  Raises BadRequest."""
    try:
        value = parse_object(request, body)
    except UnreadableBody as flaw:
        raise errors.BadRequest(str(flaw)) from flaw
    names = [each.encode_name for each in msgspec.structs.fields(shape)]
    if set(value) != set(names) or not all(isinstance(each, str) for each in value.values()):
        raise errors.BadRequest(
            f"expected the fields {', '.join(names)}, each a string, and no other field"
        )
    return msgspec.convert(value, shape)


BUYERS: Final = (("x402",), ("x402", "creditToken"), ("x402", "apiKey"))
ON_ANOTHER: Final = (
    "The payment has arrived. Its credits were added to the credential that was sent with the"
    " purchase: send that credential in the Authorization header."
)
QUERY_FIELDS_MAX: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditRoutes:
    """Routes that list and sell bundles, and that return the balance and history of credits.

    merchant    sells the bundles; None if nothing is for sale
    """

    gate: Gate
    ledger: CreditLedger
    merchant: Merchant | None
    resource_server: ResourceServer
    clock: Clock

    @Operation(
        "GET",
        "/v1/credits/bundles",
        wire.Bundles,
        refusals=(errors.ErrorCode.PRICE_UNAVAILABLE, *PUBLIC_ROUTE),
    )
    async def list_bundles(self, request: Request) -> Response:
        """Credits for sale, and their prices now.

        Returns the bundles of credits for sale, with their prices of this minute in USD and in
        atoms of each payment token. Costs nothing.
        """
        await self.gate.admit(request)
        if self.merchant is None:
            raise errors.PriceUnavailable(NO_SALES)
        first, *others = [
            (_currency(token), [_line(price_list, bundle) for bundle in BUNDLES])
            for token, price_list in await self.merchant.priced()
        ]
        currency, lines = first
        bundles = wire.Bundles(bundles=lines, currency=currency)
        if others:
            bundles.also = [
                wire.PricedIn(currency=currency, bundles=lines) for currency, lines in others
            ]
        return wire.success(request, bundles, at=self.clock.now())

    @Operation(
        "POST",
        "/v1/credits/purchase",
        wire.Purchase,
        refusals=(errors.ErrorCode.INVALID_BUNDLE, *SPENDER, *PAYMENT, *PUBLIC_ROUTE),
        status=201,
        proofs=BUYERS,
        is_charged=True,
        price=ANY_BUNDLE,
        query=wire.PurchaseQuery,
        scope=Scope.TRADE_WRITE,
    )
    async def buy_credits(self, request: Request) -> Response:
        """Buy credits for a new credit token, or for the credential that is sent along.

        Sells a bundle of credits for a payment on Solana (x402), without an account: the answer is
        a new credit token, or the credits are added to the credit token or the account of the API
        key in Authorization. Ask once without payment for the terms, then send the same request
        with PAYMENT-SIGNATURE. Send an Idempotency-Key with both: if the answer is lost, the same
        payment with the same key returns it again for a day. A new credit token is returned again
        only until it is first used.
        """
        caller = await self.gate.admit(request)
        bundle = _bundle(request)

        async def wanted() -> Wanted:
            account = None
            if caller.bearer is not None:
                # An unpaid request only checks the credential, and must not open an account.
                account = await self.gate.filled(caller, is_paid=request.has_payment())
            request.expect_client()  # the payment is sent next, and cannot be taken back
            if account is None:
                return Credits(bundle.credits)
            return TopUp(credits=bundle.credits, account=account)

        order = bundle_order(bundle_resource(bundle), bundle)
        settled = await self.resource_server.sell_credits(request, order, wanted)
        purchase = await self._handed_out(settled, caller)
        return wire.success(request, purchase, at=self.clock.now(), status=201)

    async def _handed_out(self, settled: Settled, caller: Caller) -> wire.Purchase:
        """Return the response to a purchase of credits, with their credit token or the user's id.

        Raises MissingToken if the credits went to an account whose credential *caller* has not
        sent; Contradiction if the payment did not buy credits; and the errors of `Gate.filled`.
        """
        purchase = settled.payment.purchase
        paid = settled.payment.paid
        if isinstance(purchase, TopUp):
            shown = None
            if caller.bearer is not None:
                shown = await self.gate.filled(caller, is_paid=True)
            # The key of a purchase alone must not reveal the credential that has its credits.
            if shown != purchase.account or caller.bearer is None:
                raise errors.MissingToken(ON_ANOTHER)
            if caller.holder is None:
                return wire.Purchase(token=caller.bearer, credits=purchase.credits, price_paid=paid)
            user_id = caller.holder.key.user_id
            return wire.Purchase(user_id=user_id, credits=purchase.credits, price_paid=paid)
        if isinstance(purchase, PaidReport) or settled.token is None:
            raise Contradiction(
                f"expected credits; {settled.payment.signature} bought something else"
            )
        return wire.Purchase(token=settled.token, credits=purchase.credits, price_paid=paid)

    @Operation(
        "GET",
        "/v1/credits/balance",
        wire.Balance,
        refusals=(*SPENDER, *PUBLIC_ROUTE),
        proofs=SPENDERS,
        scope=Scope.TRADE_READ,
    )
    async def get_credit_balance(self, request: Request) -> Response:
        """Credits left on a credit token, or to the user of an API key.

        Returns the credits left on the credit token in Authorization, or to the user of the API
        key. Costs nothing.
        """
        balance = await self.gate.balance(await self.gate.admit(request))
        return wire.success(request, wire.Balance(balance=balance), at=self.clock.now())

    @Operation(
        "GET",
        "/v1/credits/history",
        wire.History,
        refusals=(*SPENDER, *PUBLIC_ROUTE),
        proofs=SPENDERS,
        scope=Scope.TRADE_READ,
    )
    async def get_credit_history(self, request: Request) -> Response:
        """The history of the credits of a credit token, or of the user of an API key.

        Returns the balance of the credit token, or of the API key's user, its newest 100 entries
        other than spends, newest first, the credits that requests spent in total, and those spent
        on each of the newest 30 days with spends. Costs nothing.
        """
        account = self.gate.payer(await self.gate.admit(request)).account
        nothing = Statement(balance=0, spent=0, entries=[])
        statement = nothing if account is None else await self.ledger.statement(account)
        entries = [
            wire.HistoryLine(
                kind=entry.kind, credits=entry.delta, balance=entry.balance, at=entry.at // 1000
            )
            for entry in statement.entries
        ]
        days = [wire.DayLine(day=each.day * DAY_S, credits=each.credits) for each in statement.days]
        history = wire.History(
            balance=statement.balance, spent=statement.spent, entries=entries, days=days
        )
        return wire.success(request, history, at=self.clock.now())


def _bundle(request: Request) -> Bundle:
    """Return the bundle that the query of *request* names.

    Raises InvalidBundle; and BadRequest if the query has other fields.
    """
    query = request.scope.get("query_string", b"").decode("latin-1")
    try:
        fields = parse_qsl(query, keep_blank_values=True, max_num_fields=QUERY_FIELDS_MAX)
    except ValueError as cause:
        raise errors.InvalidBundle("expected ?bundle=<size>; the query cannot be read") from cause
    sizes = [value for name, value in fields if name == "bundle"]
    if len(sizes) > 1:
        raise errors.InvalidBundle(f"expected one bundle; there were {len(sizes)}")
    bundle = parse_bundle(sizes[0] if sizes else None)
    unknown = next((name for name, _ in fields if name != "bundle"), None)
    if unknown is not None:
        raise errors.BadRequest(f"expected only the query field bundle; was {unknown[:50]!r}")
    return bundle


def _currency(token: AcceptedToken) -> wire.Currency:
    return wire.Currency(
        asset=token.terms.asset,
        name=token.name,
        network=token.terms.network,
        decimals=token.terms.decimals,
        symbol=token.symbol,
    )


def _line(price_list: PriceList, bundle: Bundle) -> wire.BundleLine:
    priced = price_list.price(bundle)
    return wire.BundleLine(
        credits=bundle.credits,
        price=priced.price,
        price_per_credit=priced.per_credit,
        discount=f"{bundle.discount_percent}%",
        price_usd=f"{bundle.usd.normalize():f}",
    )
