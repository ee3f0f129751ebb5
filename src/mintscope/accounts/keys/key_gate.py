"""Identification of callers by API key, and checks of the key's scopes."""

from typing import Final

from mintscope.accounts.keys.key import Holder
from mintscope.accounts.keys.keys import ApiKeys
from mintscope.api.discovery.operation import scope_of
from mintscope.kit.credentials import CredentialKind
from mintscope.kit.errors import (
    BadRequest,
    InsufficientScope,
    InvalidToken,
    MissingToken,
    ServiceError,
)
from mintscope.kit.http.rate_limit import AddressLimits, WriteBudget
from mintscope.kit.http.request import Request
from mintscope.kit.limits import Limit

NO_BEARER: Final = "expected an Authorization header: Bearer svc_live_<80 hex>"
NOT_A_BEARER: Final = "expected Authorization: Bearer svc_live_<80 hex>; its value has another form"
NOT_IN_FORCE: Final = (
    "expected an API key, svc_live_<80 hex>, that this service has issued, that has neither"
    " expired nor been revoked, and that may be used from this address"
)
CREDITS_ONLY: Final = (
    "expected an API key, svc_live_<80 hex>; a credit token (svc_credit_) pays for requests and"
    " names no account"
)


class KeyGate:
    """Finds the holder of a request's API key, and applies the limits of requests and of writes."""

    def __init__(
        self,
        *,
        keys: ApiKeys,
        limit: Limit,
        limits: AddressLimits,
        writes: WriteBudget | None = None,
    ) -> None:
        self._keys = keys
        self._writes = writes or WriteBudget(limits.limits)
        self._rate_limit = limits.by_account(limit)
        self._address_limit = limits.of(limit)
        self._addresses = limits.addresses

    async def admit(self, request: Request) -> Holder:
        """Return the holder of the request's API key, if the rate limit allows the request.

        Requests with a valid key are counted by key, all others by client address.  Invalid keys
        are not counted separately, because callers can invent any number of them.
        Raises    RateLimited, BadRequest, MissingToken, InvalidToken, ServiceUnavailable
        """
        bearer = request.bearer()
        client = self._addresses.key(request.scope)
        holder = await self._keys.find(bearer, client) if bearer else None
        # The limits come first, so that requests that are then refused count, too.
        if holder is None:
            await self._address_limit.pass_through(request)
        else:
            await self._rate_limit.pass_through(request, holder.key.key_id)
        if request.is_ambiguous():
            raise BadRequest("expected one Authorization header; there were several")
        if holder is None:
            raise _refusal(bearer)
        return holder

    async def authorize(self, request: Request, *, moves_credits: bool = False) -> Holder:
        """Return the holder of the request's API key, if the key has the scope of the operation.

        If it is a write scope, a write of the account is counted, unless *moves_credits* is True.

        moves_credits    whether the operation moves credits, which has limits of its own
        Raises           InsufficientScope, RateLimited, BadRequest, MissingToken, InvalidToken,
                         ServiceUnavailable
        """
        scope = scope_of(request)
        holder = await self.admit(request)
        if not holder.has(scope):
            raise InsufficientScope(scope=scope)
        if scope.is_write and not moves_credits:
            await self._count_write(holder)
        return holder

    async def change(self, request: Request) -> Holder:
        """Return the holder of the request's API key, and count a write of the account.

        The scopes of the key are not checked.
        Raises    RateLimited, BadRequest, MissingToken, InvalidToken, ServiceUnavailable
        """
        holder = await self.admit(request)
        await self._count_write(holder)
        return holder

    async def _count_write(self, holder: Holder) -> None:
        await self._writes.spend(holder.key.user_id, "key")


def _refusal(bearer: str | None) -> ServiceError:
    if bearer is None:
        return MissingToken(NO_BEARER)
    if not bearer:
        return MissingToken(NOT_A_BEARER)
    if bearer.startswith(CredentialKind.CREDIT_TOKEN.prefix):
        return InvalidToken(CREDITS_ONLY)
    return InvalidToken(NOT_IN_FORCE)
