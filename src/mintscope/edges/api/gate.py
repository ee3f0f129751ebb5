"""Callers, and their permissions."""

from dataclasses import dataclass
from typing import Final

import msgspec

from mintscope.base.credentials import CredentialKind
from mintscope.base.errors import BadRequest, InsufficientScope, InvalidToken, MissingToken
from mintscope.base.limits import Limit, LimitKey
from mintscope.base.primitives import CreditAccount
from mintscope.core.accounts.holdings.account_credits import AccountCredits
from mintscope.core.accounts.keys.api_key import Holder
from mintscope.core.accounts.keys.api_keys import ApiKeys
from mintscope.core.accounts.keys.scope import Scope
from mintscope.core.checkout.checkout import Payer
from mintscope.core.credits.ledger import CreditLedger
from mintscope.edges.api.accounts.key_gate import NOT_IN_FORCE
from mintscope.edges.server.rate_limit import AddressLimits
from mintscope.edges.server.request import Request

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
    """Knows the API keys, and the accounts of credits of their users."""

    keys: ApiKeys
    credits: AccountCredits


class Caller(msgspec.Struct, frozen=True, gc=False):
    """The caller, as far as is known.

    bearer     None without an Authorization header, "" with an unusable one
    account    that of the credit token, if it exists; that of the user of the API key, if it was
               ever needed
    holder     of the API key, if it is good now
    """

    bearer: str | None
    account: CreditAccount | None
    holder: Holder | None = None


class Gate:
    """Turns a request into a caller within the limit."""

    def __init__(
        self,
        *,
        ledger: CreditLedger,
        limit: Limit,
        limits: AddressLimits,
        key_ring: KeyRing | None = None,
    ) -> None:
        self._ledger = ledger
        self._rate_limit = limits.by_account(limit)
        self._address_limit = limits.of(limit)
        self._addresses = limits.addresses
        self._key_ring = key_ring

    async def admit(self, request: Request) -> Caller:
        """Return who calls.

        Raises RateLimited, by credit token if it exists and pays, by API key if it is good and
        pays, else by address: a client can invent any number of unverified credentials. Credit
        tokens that were rotated into one another count together.
        """
        caller = await self._recognise(request.bearer(), self.address(request))
        window = None if request.has_payment() else await self._window(caller)
        if window is None:
            await self._address_limit.pass_through(request)
        else:
            await self._rate_limit.pass_through(request, window)
        if request.is_ambiguous():
            raise BadRequest("expected one Authorization header; there were several")
        return caller

    async def look_again(self, caller: Caller) -> Caller:
        """Return who *caller* is now: an API key may have been revoked; nothing is counted."""
        return await self._recognise(caller.bearer)

    async def _recognise(self, bearer: str | None, client: str = "") -> Caller:
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
        """Return what the requests of *caller* count against, None for its address."""
        if caller.holder is not None:
            return f"key {caller.holder.key.key_id}"
        return None if caller.account is None else await self._ledger.root(caller.account)

    def address(self, request: Request) -> str:
        """Return the client's address, as limits and budgets know it."""
        return self._addresses.key(request.scope)

    async def give_back(self, request: Request) -> None:
        """Count the 402 that preceded this paid request no longer against its address."""
        await self._address_limit.give_back(request)

    async def balance(self, caller: Caller) -> int:
        """Return the credits left to *caller*.

        Raises MissingToken, InvalidToken or InsufficientScope.
        """
        account = self.payer(caller).account
        return 0 if account is None else await self._ledger.balance(account)

    def payer(self, caller: Caller) -> Payer:
        """Return whose credits *caller* may spend.

        Raises MissingToken, InvalidToken or InsufficientScope.
        """
        if caller.holder is None:
            return Payer(self.credit_token(caller))
        _expect(caller.holder, Scope.TRADE_READ)
        return Payer(caller.account, caller.holder.key.key_id)

    async def filled(self, caller: Caller, *, is_paid: bool) -> CreditAccount | None:
        """Return the account that *caller* may fill; that of a user is made if it *is_paid* for.

        Raises MissingToken, InvalidToken or InsufficientScope.
        """
        if caller.holder is None:
            return self.credit_token(caller)
        _expect(caller.holder, Scope.TRADE_WRITE)
        if caller.account is None and is_paid and self._key_ring is not None:
            return await self._key_ring.credits.open(caller.holder.key.user_id)
        return caller.account

    def credit_token(self, caller: Caller) -> CreditAccount:
        """Return the account *caller* has shown the credit token of.

        Raises MissingToken or InvalidToken.
        """
        if caller.holder is not None:
            raise InvalidToken(ONLY_CREDIT_TOKENS)
        if caller.account is not None:
            return caller.account
        if caller.bearer is None:
            raise MissingToken(NO_BEARER)
        if not caller.bearer:
            raise MissingToken(NOT_A_BEARER)
        if caller.bearer.startswith(CredentialKind.API_KEY.prefix):
            raise InvalidToken(NOT_IN_FORCE)
        raise InvalidToken(NOT_ISSUED)


def _expect(holder: Holder, scope: Scope) -> None:
    if not holder.has(scope):
        raise InsufficientScope(scope=scope)
