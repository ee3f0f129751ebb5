"""Identifies callers, answers repeated requests, and lets wallets sign in.

A request that is repeated with its Idempotency-Key costs no second credit, because the key is
stored.  The answers are cached in memory only, so another or a restarted process reads the report
again, and sends it for free.
"""

from asyncio import CancelledError
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Any, Final, NamedTuple

import msgspec

from mintscope.accounts.keys.key import Holder
from mintscope.accounts.keys.key_gate import NOT_IN_FORCE
from mintscope.accounts.keys.keys import ApiKeys
from mintscope.accounts.keys.scope import Scope
from mintscope.accounts.wallets.credits import AccountCredits
from mintscope.api.failures import NO_SALES
from mintscope.credits.ledger import KEPT_MS, CreditLedger, InstantLedger
from mintscope.credits.sign_in import (
    DRAWN_BYTES,
    SIGN_IN,
    SignInFlaw,
    Target,
    decode_sign_in,
    find_flaw,
    wallet_of,
    write_challenge,
)
from mintscope.kit import errors
from mintscope.kit.clock import Clock
from mintscope.kit.credentials import CredentialKind
from mintscope.kit.http.rate_limit import AddressLimits
from mintscope.kit.http.request import Request
from mintscope.kit.limits import Limit, LimitKey
from mintscope.kit.primitives import CreditAccount, UnixMs
from mintscope.market.report import ReadReport
from mintscope.payments.checkout import (
    Checkout,
    CheckoutRefused,
    CreditCharge,
    Delivered,
    Payer,
    Receipt,
    SignInRefused,
    Work,
)
from mintscope.payments.merchant import Merchant, Order
from mintscope.payments.protocol.headers import IDENTIFIER_PATTERN

NOT_A_BEARER: Final = (
    "expected Authorization: Bearer svc_credit_<64 hex>, or an API key, svc_live_<80 hex>; it holds"
    " no such value"
)
NO_BEARER: Final = (
    "expected an Authorization header: Bearer svc_credit_<64 hex>, or an API key, svc_live_<80 hex>"
)
NOT_ISSUED: Final = (
    "expected a credit token, svc_credit_<64 hex>, that this service has issued and that was not"
    " rotated"
)
ONLY_CREDIT_TOKENS: Final = (
    "expected a credit token, svc_credit_<64 hex>; credits of an API key (svc_live_) are in the"
    " account of its user; POST /v1/account/credits/withdraw moves them to a credit token"
)


@dataclass(frozen=True, slots=True)
class KeyRing:
    """Finds an API key, and the credit account of its user."""

    keys: ApiKeys
    credits: AccountCredits


class Caller(msgspec.Struct, frozen=True, gc=False):
    """The caller of a request: the credential that was sent, and its account and API key.

    bearer        the credential; "" if it is unusable; None if Authorization is missing or a
                  payment
    account       the account of the credit token, or of the user of the API key; None if there is
                  no valid credential, or if the user never had credits
    holder        the holder of the API key; None if there is no key, or if it is not valid now
    is_recalled   whether the account comes from a cache, where it may be outdated
    """

    bearer: str | None
    account: CreditAccount | None
    holder: Holder | None = None
    is_recalled: bool = False


class Gate:
    """Identifies the caller of a request, and counts the request for the rate limit."""

    def __init__(
        self,
        *,
        ledger: CreditLedger,
        limit: Limit,
        limits: AddressLimits,
        key_ring: KeyRing | None = None,
    ) -> None:
        self._ledger = ledger
        self._memory = ledger if isinstance(ledger, InstantLedger) else None
        self._rate_limit = limits.by_account(limit)
        self._address_limit = limits.of(limit)
        self._addresses = limits.addresses
        self._key_ring = key_ring

    async def admit(self, request: Request) -> Caller:
        """Return the caller of *request*, and count the request for the rate limit.

        A request without a payment counts for its credit token or API key, if that is valid; any
        other request for its client address, because a client can invent any number of credentials.
        Credit tokens that were rotated into one another count together.

        Raises RateLimited, and BadRequest for several Authorization headers.
        """
        return await self._admitted(
            request, await self._recognise(request.bearer(), self.address(request))
        )

    async def admit_buyer(self, request: Request) -> Caller:
        """Identify the caller of a request that may buy an answer with a credit.

        The account of a credit token may come from memory, which saves a query.  If another process
        has rotated the token since, that account is empty: the sale is refused, and then
        `look_again` sees the rotation.  Requests with a payment or an Idempotency-Key may need no
        credits, so their accounts are read from the store.  Raises like `admit`.
        """
        if request.has_payment() or IDEMPOTENCY_KEY in request.headers:
            return await self.admit(request)
        caller = self._recall(request.bearer())
        return await (self.admit(request) if caller is None else self._admitted(request, caller))

    def _recall(self, bearer: str | None) -> Caller | None:
        remembered = self._memory.recall(bearer.encode()) if bearer and self._memory else None
        return None if remembered is None else Caller(bearer, remembered.account, is_recalled=True)

    async def _admitted(self, request: Request, caller: Caller) -> Caller:
        # A settled payment reduces the count of its address (`give_back`), so it counts there.
        window = None if request.has_payment() else await self._window(caller)
        if window is None:
            await self._address_limit.pass_through(request)
        else:
            await self._rate_limit.pass_through(request, window)
        if request.is_ambiguous():  # checked last, so that these requests are counted, too
            raise errors.BadRequest("expected one Authorization header; there were several")
        return caller

    async def look_again(self, request: Request, caller: Caller) -> Caller:
        """Identify *caller* again, because its credential may be void by now; count no request."""
        return await self._recognise(caller.bearer, self.address(request))

    async def _recognise(self, bearer: str | None, client: str) -> Caller:
        if not bearer:
            return Caller(bearer, None)
        if self._key_ring is None or not bearer.startswith(CredentialKind.API_KEY.prefix):
            return Caller(bearer, await self._ledger.find(bearer))
        holder = await self._key_ring.keys.find(bearer, client)
        if holder is None:
            return Caller(bearer, None)
        account = await self._key_ring.credits.find(holder.key.user_id)
        return Caller(bearer, account, holder)

    async def _window(self, caller: Caller) -> LimitKey | None:
        """Return the key of the rate limit of *caller*; None if its client address is counted."""
        if caller.holder is not None:
            return f"key {caller.holder.key.key_id}"
        return None if caller.account is None else await self._ledger.root(caller.account)

    def address(self, request: Request) -> str:
        """Return the client's IP address in the form in which limits and budgets count it."""
        return self._addresses.key(request.scope)

    async def give_back(self, request: Request) -> None:
        """Remove a paid request's first, unpaid attempt from the rate limit of its client.

        A cancellation only ends this, because the answer to the paid request must still be sent.
        """
        with suppress(CancelledError):  # a server that stops cancels its requests
            await self._address_limit.give_back(request)

    async def balance(self, caller: Caller) -> int:
        """Return the number of credits that *caller* can spend; 0 for a user without credits.

        Raises MissingToken, InvalidToken or InsufficientScope.
        """
        account = self.payer(caller).account
        return 0 if account is None else await self._ledger.balance(account)

    def payer(self, caller: Caller) -> Payer:
        """Return the payer whose credits *caller* may spend.

        Raises MissingToken, InvalidToken or InsufficientScope.
        """
        if caller.holder is None:
            return Payer(self.credit_token(caller))
        _expect(caller.holder, Scope.TRADE_READ)
        return Payer(caller.account, caller.holder.key.key_id)

    async def filled(self, caller: Caller, *, is_paid: bool) -> CreditAccount | None:
        """Return the account to which *caller* can add credits.

        Returns None if the user of an API key has no account, and *is_paid* is False.

        is_paid   whether to create an account for such a user
        Raises    MissingToken, InvalidToken or InsufficientScope
        """
        if caller.holder is None:
            return self.credit_token(caller)
        _expect(caller.holder, Scope.TRADE_WRITE)
        if caller.account is None and is_paid and self._key_ring is not None:
            return await self._key_ring.credits.open(caller.holder.key.user_id)
        return caller.account

    def credit_token(self, caller: Caller) -> CreditAccount:
        """Return the account of the credit token of *caller*.

        Raises MissingToken or InvalidToken.
        """
        if caller.holder is not None:
            raise errors.InvalidToken(ONLY_CREDIT_TOKENS)
        if caller.account is not None:
            return caller.account
        if caller.bearer is None:
            raise errors.MissingToken(NO_BEARER)
        if not caller.bearer:
            raise errors.MissingToken(NOT_A_BEARER)
        if caller.bearer.startswith(CredentialKind.API_KEY.prefix):
            raise errors.InvalidToken(NOT_IN_FORCE)
        raise errors.InvalidToken(NOT_ISSUED)


def _expect(holder: Holder, scope: Scope) -> None:
    if not holder.has(scope):
        raise errors.InsufficientScope(scope=scope)


KEPT_BYTES_MAX: Final = 32 * 1024 * 1024
ENTRY_BYTES: Final = 512  # rough size of an answer without its body


class _Kept(NamedTuple):
    at: UnixMs
    report: ReadReport
    credit_count: int
    is_bought: bool


class KeptAnswers:
    """Caches the newest answers, up to KEPT_BYTES_MAX in total; the oldest are dropped first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._answers: OrderedDict[str, _Kept] = OrderedDict()
        self._bytes = 0

    def find(self, name: str, *, is_bought: bool = False) -> Delivered | None:
        """Return the answer cached as *name*, with its current age and its cost.

        Returns None if no answer is cached, or if it has expired.

        is_bought    if True, return only an answer that was cached when it was bought: this answer
                     expires no later than its name in the store
        """
        kept = self._answers.get(name)
        if kept is None or (is_bought and not kept.is_bought):
            return None
        age_ms = max(0, self._clock.now() - kept.at)  # the clock may have been set back
        if age_ms > KEPT_MS:
            return None
        report = msgspec.structs.replace(kept.report, age_ms=kept.report.age_ms + age_ms)
        return Delivered(report, kept.credit_count)

    async def found_or(self, name: str | None, work: Work) -> Delivered:
        """Return the answer that was cached as *name* at its purchase, or the result of *work*.

        An answer that was cached after the purchase is not returned, because the cache may keep it
        longer than the store keeps *name*.
        """
        kept = None if name is None else self.find(name, is_bought=True)
        return kept or await work()

    def now(self) -> UnixMs:
        """Return the current time, to pass to `keep` after the debit.

        Call this before the debit, so that the answer expires no later than its name in the store.
        """
        return self._clock.now()

    def keep(
        self, name: str, report: ReadReport, credit_count: int, *, at: UnixMs, is_bought: bool
    ) -> None:
        """Cache *report*, which cost *credit_count* credits, under *name*, as of the time *at*.

        is_bought   True: it was bought at *at*; False: it was read again for an earlier purchase
        """
        self.forget(name)
        self._answers[name] = _Kept(at, report, credit_count, is_bought)
        self._bytes += _size(report)
        while self._bytes > KEPT_BYTES_MAX:
            self.forget(next(iter(self._answers)))

    def forget(self, name: str) -> None:
        """Remove the answer *name* from the cache."""
        kept = self._answers.pop(name, None)
        if kept is not None:
            self._bytes -= _size(kept.report)


def _size(report: ReadReport) -> int:
    return ENTRY_BYTES + len(report.body)


IDEMPOTENCY_KEY: Final = b"idempotency-key"


def idempotency_key(request: Request) -> str | None:
    """Return the Idempotency-Key without its quotation marks; None if there is no such header.

    Raises BadRequest for several keys, and for a key that is not 16 to 128 of A-Z, a-z, 0-9, "-"
    and "_".
    """
    values = request.values(IDEMPOTENCY_KEY)
    if not values:
        return None
    # By the IETF draft of this header, the key is in quotation marks; most clients send it without.
    key = values[0].removeprefix('"').removesuffix('"')
    if len(values) > 1 or IDENTIFIER_PATTERN.fullmatch(key) is None:
        raise errors.BadRequest(
            "Idempotency-Key: expected one key of 16 to 128 letters, digits, '-' and '_',"
            " hard to guess"
        )
    return key


async def name_of(request: Request, account: CreditAccount, key: str) -> str:
    """Return a digest that names the answer to *request* for *account* and an idempotency *key*.

    It depends on *account*, *key*, and the method, path and query of *request*; for a POST, also on
    its body.  Raises PayloadTooLarge and ClientDisconnected, for a POST only.
    """
    digest = sha256(b"%d %b %b\n" % (account, key.encode(), request.method.encode()))
    digest.update(b"%b\n%b\n" % (request.path.encode(errors="replace"), request.query))
    digest.update(await request.body() if request.method == "POST" else b"")
    return digest.hexdigest()


HEADER: Final = SIGN_IN.encode()


class SignIns:
    """Creates challenges for 402s, and charges wallets that have signed a challenge."""

    def __init__(self, merchant: Merchant | None, checkout: Checkout, kept: KeptAnswers) -> None:
        self._merchant = merchant
        self._checkout = checkout
        self._kept = kept

    def challenge(self, order: Order) -> dict[str, Any]:
        """Return the challenge of a 402; a wallet that signs it pays *order* with its credits."""
        merchant = self._expect_merchant()
        facilitator = merchant.facilitator
        now = facilitator.clock.now()
        return write_challenge(
            facilitator.secrets.at(now).rotation,
            _target(merchant, order),
            now=now,
            drawn=facilitator.entropy(DRAWN_BYTES),
        )

    async def authorize(self, request: Request, order: Order) -> CreditCharge:
        """Return a charge of the credits of the wallet that signed the challenge in *request*.

        Raises CheckoutRefused, BadRequest, PaymentUnavailable and ServiceUnavailable.
        """
        merchant = self._expect_merchant()
        values = request.values(HEADER)
        try:  # "" cannot be decoded, so several headers are refused like a malformed one
            sign_in = decode_sign_in(values[0] if len(values) == 1 else "")
        except errors.Undecodable as cause:
            raise errors.BadRequest(
                f"SIGN-IN-WITH-X: expected one header, base64 of the signed challenge; {cause}"
            ) from cause
        facilitator = merchant.facilitator
        now = facilitator.clock.now()
        await self._checkout.next_iteration()  # the signature check is costly
        flaw = find_flaw(
            [each.rotation for each in facilitator.secrets.in_force(now)],
            sign_in,
            _target(merchant, order),
            now=now,
        )
        if flaw is not None:
            raise await self._refuse(order, flaw)
        account = await merchant.rotations.find_credits(wallet_of(sign_in))
        return self._checkout.authorize_credit(order, Payer(account), once=sign_in.name)

    async def name_of(self, request: Request, charge: CreditCharge) -> str | None:
        """Return the name under which the answer to *request* is cached.

        Returns None if *charge* has no account or no Idempotency-Key.  Raises PayloadTooLarge and
        ClientDisconnected.
        """
        account = charge.payer.account
        key = charge.order.key
        if account is None or key is None:
            return None
        return await name_of(request, account, f"{charge.once}\n{key}")

    async def settle(
        self, request: Request, charge: CreditCharge, work: Work, *, name: str | None
    ) -> Receipt:
        """Do *work*, take the credits that it costs, and return the receipt.

        The nonce of a sign-in takes credits once.  After that, the answer is sent again only to
        the same request with the same Idempotency-Key, while the answer is cached as *name*; any
        other request with this nonce is refused.
        Raises CheckoutRefused, and the errors of *work*.
        """
        began_at = self._kept.now()
        receipt = await charge.settle(partial(self._kept.found_or, name, work))
        if receipt.balance is None:  # a free answer, which does not use up the signature
            return receipt
        if receipt.is_bought:
            if name is not None:
                self._kept.keep(
                    name, receipt.report, receipt.credit_count, at=began_at, is_bought=True
                )
            return receipt
        # The nonce was used before, perhaps by another client: anyone who saw the header has the
        # signature.  So only a request with the Idempotency-Key of the first one gets the answer.
        kept = None if name is None else self._kept.find(name, is_bought=True)
        if kept is None:
            assert receipt.taken is not None
            self._checkout.expect_debits().owe(receipt.taken)  # this repeat gets no answer
            raise await self._refuse(charge.order, SignInFlaw.NONCE)
        request.response_headers.append((b"idempotent-replayed", b"true"))
        return msgspec.structs.replace(receipt, report=kept.report)

    async def _refuse(self, order: Order, flaw: SignInFlaw) -> CheckoutRefused:
        option = await self._checkout.option(order)
        return CheckoutRefused(SignInRefused(flaw), option=option)

    def _expect_merchant(self) -> Merchant:
        if self._merchant is None:
            raise errors.PaymentUnavailable(NO_SALES)
        return self._merchant


def _target(merchant: Merchant, order: Order) -> Target:
    path, _, _ = order.resource.partition("?")
    return Target(merchant.origin, path, merchant.facilitator.terms.network)
