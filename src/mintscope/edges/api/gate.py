"""Who calls, and whether they may."""

from typing import Final

import msgspec

from mintscope.base.credentials import CredentialKind
from mintscope.base.errors import BadRequest, InvalidToken, MissingToken
from mintscope.base.limits import Limit
from mintscope.core.credits.ledger import CreditAccount, CreditLedger
from mintscope.edges.server.rate_limit import AddressLimits
from mintscope.edges.server.request import Request

NOT_A_BEARER: Final = "expected Authorization: Bearer svc_credit_<64 hex>; it holds no such value"
NO_BEARER: Final = "expected an Authorization header: Bearer svc_credit_<64 hex>"
NOT_ISSUED: Final = "expected a credit token, svc_credit_<64 hex>, that this service has issued"
NOT_AN_API_KEY: Final = (
    "expected a credit token, svc_credit_<64 hex>; an API key (svc_live_) does not pay for requests"
)


class Caller(msgspec.Struct, frozen=True, gc=False):
    """Who calls, as far as the ledger knows.

    bearer     None without an Authorization header, "" with an unusable one
    account    that of the credit token, if it exists
    """

    bearer: str | None
    account: CreditAccount | None


class Gate:
    """Turns a request into a caller within the limit."""

    def __init__(self, *, ledger: CreditLedger, limit: Limit, limits: AddressLimits) -> None:
        self._ledger = ledger
        self._rate_limit = limits.by_account(limit)
        self._address_limit = limits.of(limit)
        self._addresses = limits.addresses

    async def admit(self, request: Request) -> Caller:
        """Return who calls.

        Raises RateLimited, by credit token if it exists and pays, else by address:
        a client can invent any number of unverified credentials. Credit tokens that were
        rotated into one another count together.
        """
        bearer = request.bearer()
        account = await self._ledger.find(bearer) if bearer else None
        if account is None or request.has_payment():
            await self._address_limit.pass_through(request)
        else:
            await self._rate_limit.pass_through(request, await self._ledger.root(account))
        if request.is_ambiguous():
            raise BadRequest("expected one Authorization header; there were several")
        return Caller(bearer, account)

    def address(self, request: Request) -> str:
        """Return the client's address, as limits and budgets know it."""
        return self._addresses.key(request.scope)

    async def give_back(self, request: Request) -> None:
        """Count the 402 that preceded this paid request no longer against its address."""
        await self._address_limit.give_back(request)

    async def balance(self, caller: Caller) -> int:
        """Return the credits left to *caller*.

        Raises MissingToken or InvalidToken.
        """
        return await self._ledger.balance(self.account(caller))

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
