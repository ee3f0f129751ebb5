"""Who calls, whether they may, and who pays for it with what."""

from functools import lru_cache, partial
from typing import Final, NamedTuple, Protocol

import msgspec

from mintscope.base.credentials import CredentialKind
from mintscope.base.errors import (
    BadRequest,
    InsufficientCredits,
    InvalidToken,
    MissingToken,
    PaymentRequired,
    RateLimited,
)
from mintscope.core.credits.ledger import CreditAccount, CreditLedger, Empty, Spent
from mintscope.edges.server.client_address import ClientAddresses
from mintscope.edges.server.limiter import Admitted, Denied, Limit, Limiter, LimitKey
from mintscope.edges.server.request import Call, Header

NOT_A_BEARER: Final = "expected Authorization: Bearer svc_credit_<64 hex>; it holds no such value"
NO_BEARER: Final = "expected an Authorization header: Bearer svc_credit_<64 hex>"
NOT_ISSUED: Final = "expected a credit token, svc_credit_<64 hex>, that this service has issued"
NOT_AN_API_KEY: Final = (
    "expected a credit token, svc_credit_<64 hex>; an API key (svc_live_) does not pay for requests"
)
NOTHING_PRESENTED: Final = (
    "This request costs one credit, sent as Authorization: Bearer svc_credit_<64 hex>; or a"
    " payment of its own (x402), on the terms of the header PAYMENT-REQUIRED where there is one."
)
NO_CREDIT_LEFT: Final = "The credit token is valid and holds no credits; nothing was charged."
LIMIT_HEADERS: Final = {
    b"ratelimit-policy",
    b"ratelimit",
    b"x-ratelimit-limit",
    b"x-ratelimit-remaining",
    b"x-ratelimit-reset",
}


class Receipt(NamedTuple):
    """Proof that a charge has settled."""

    headers: tuple[Header, ...]


class Charge(Protocol):
    """Somebody's promise to pay for one request; settled at most once."""

    async def expect_funds(self) -> None:
        """Raise the refusal that `settle` would raise, without taking anything."""
        ...

    async def settle(self) -> Receipt:
        """Take the payment, or raise a refusal and take nothing."""
        ...


class CreditCharge(msgspec.Struct, frozen=True, gc=False):
    """One credit of an account."""

    ledger: CreditLedger
    account: CreditAccount

    async def expect_funds(self) -> None:
        """Raise InsufficientCredits if there is none."""
        if await self.ledger.balance(self.account) == 0:
            raise InsufficientCredits(NO_CREDIT_LEFT)

    async def settle(self) -> Receipt:
        """Take one credit, or raise InsufficientCredits."""
        match await self.ledger.spend(self.account):
            case Spent(balance):
                return Receipt(((b"x-credits-remaining", b"%d" % balance),))
            case Empty():
                raise InsufficientCredits(NO_CREDIT_LEFT)


class Caller(msgspec.Struct, frozen=True, gc=False):
    """Who calls, as far as the ledger knows.

    bearer     None without an Authorization header, "" with an unusable one
    account    that of the credit token, if it exists
    """

    bearer: str | None
    account: CreditAccount | None


class Gate:
    """Turns a call into a caller within the limit, and a caller into a charge."""

    def __init__(
        self, *, ledger: CreditLedger, limiter: Limiter, addresses: ClientAddresses
    ) -> None:
        self._ledger = ledger
        self._rate_limit = RateLimit(limiter)
        self._addresses = addresses

    async def admit(self, call: Call) -> Caller:
        """Return who calls.

        Raises RateLimited, by credit token if it exists and pays, else by address:
        an unverified credential would give everybody as many limits as they like.
        """
        bearer = call.bearer()
        account = await self._ledger.find(bearer) if bearer else None
        key = self.address(call) if account is None or call.has_payment() else account
        await self._rate_limit.pass_through(call, key)
        if call.is_ambiguous():
            raise BadRequest("expected one Authorization header; there were several")
        return Caller(bearer, account)

    def address(self, call: Call) -> str:
        """Return the client's address, as limits and budgets know it."""
        return self._addresses.key(call.scope)

    async def give_back(self, call: Call) -> None:
        """Count the 402 that preceded this paid request no longer against its address."""
        await self._rate_limit.give_back(self.address(call))

    async def balance(self, caller: Caller) -> int:
        """Return the credits left to *caller*.

        Raises MissingToken or InvalidToken.
        """
        return await self._ledger.balance(self.account(caller))

    def authorize(self, caller: Caller) -> Charge:
        """Return how *caller* will pay for this request.

        Raises PaymentRequired when nothing was presented, MissingToken or
        InvalidToken for a credential that cannot pay.
        """
        if caller.bearer is None:
            raise PaymentRequired(NOTHING_PRESENTED)
        return CreditCharge(self._ledger, self.account(caller))

    def account(self, caller: Caller) -> CreditAccount:
        """Return the account *caller* has shown the credit token of.

        Raises MissingToken or InvalidToken.
        """
        if caller.account is not None:
            return caller.account
        if caller.bearer is None:
            raise MissingToken(NO_BEARER)
        if not caller.bearer:
            raise MissingToken(NOT_A_BEARER)
        if caller.bearer.startswith(CredentialKind.API_KEY.prefix):
            raise InvalidToken(NOT_AN_API_KEY)
        raise InvalidToken(NOT_ISSUED)


class RateLimit:
    """Counts calls against one limit, and tells every reply where that stands.

    Source  draft-ietf-httpapi-ratelimit-headers-10; the X- headers are the older
            ones that clients still read, X-RateLimit-Reset in seconds from now
    """

    def __init__(self, limiter: Limiter) -> None:
        self._limiter = limiter
        self._headers = lru_cache(maxsize=4_096)(partial(limit_headers, limiter.limit))

    async def pass_through(self, call: Call, key: LimitKey) -> None:
        """Count *call* against the limit of *key*, or raise RateLimited."""
        verdict = await self._limiter.take(key)
        if call.reply_headers:  # of two limits the reply tells the later, narrower one
            call.reply_headers = [
                header for header in call.reply_headers if header[0] not in LIMIT_HEADERS
            ]
        call.reply_headers += self._headers(verdict)
        if isinstance(verdict, Denied):
            raise RateLimited(verdict.retry_after_s)

    async def give_back(self, key: LimitKey) -> None:
        """Count one call of *key* less."""
        await self._limiter.give_back(key)


def limit_headers(limit: Limit, verdict: Admitted | Denied) -> tuple[Header, ...]:
    """Return the headers that tell *verdict*."""
    match verdict:
        case Admitted(remaining, reset_s):
            pass
        case Denied(reset_s):
            remaining = 0
    return (
        (b"ratelimit-policy", f'"{limit.name}";q={limit.count};w={limit.window_s}'.encode()),
        (b"ratelimit", f'"{limit.name}";r={remaining};t={reset_s}'.encode()),
        (b"x-ratelimit-limit", b"%d" % limit.count),
        (b"x-ratelimit-remaining", b"%d" % remaining),
        (b"x-ratelimit-reset", b"%d" % reset_s),
    )
