"""The credits of a user: what is there, what each key may spend, and moves to and fro."""

from dataclasses import dataclass
from typing import Final, NoReturn

import msgspec

from mintscope.base.clock import Clock
from mintscope.base.errors import (
    ErrorCode,
    IdempotencyKeyUsed,
    InsufficientCredits,
    InvalidToken,
    NotFound,
    OwnerOnly,
)
from mintscope.base.time import month_end
from mintscope.core.accounts.holdings.account_credits import (
    AccountCredits,
    CapDenied,
    Holdings,
    MoveDenied,
)
from mintscope.core.accounts.keys.api_key import Holder, KeyId, KeyLine
from mintscope.core.accounts.keys.scope import Scope, in_order
from mintscope.core.credits.ledger import CreditLedger
from mintscope.edges.api.accounts.key_gate import KeyGate
from mintscope.edges.api.description.operation import EVERY_ROUTE, KEY, WITH_BODY, Operation
from mintscope.edges.api.holdings.body import read_body
from mintscope.edges.api.holdings.wire import (
    AccountHoldings,
    CappedKey,
    DepositOrder,
    DepositReceipt,
    KeyUse,
    NewCap,
    WithdrawalOrder,
    WithdrawalReceipt,
)
from mintscope.edges.api.wire import success
from mintscope.edges.api.x402 import idempotency_key
from mintscope.edges.server.rate_limit import RateLimit
from mintscope.edges.server.request import Request, parse_id
from mintscope.edges.server.response import Response

MOVE: Final = (*WITH_BODY, ErrorCode.INSUFFICIENT_CREDITS, ErrorCode.IDEMPOTENCY_KEY_USED)
NOT_ISSUED: Final = "creditToken: expected a credit token that this service has issued"
LOOSER: Final = (
    "A key can lower a cap, or set one where there is none. To raise or remove a cap, its owner"
    " signs in and changes it under Settings > API keys."
)
TOO_FEW: Final = (
    "expected at least one credit to move, and as many as were asked for; fewer are there"
)
CAPPED: Final = (
    "A key that has a cap moves no credits out of the account: it could spend them without its cap."
    " Use a key without one, or have its owner remove the cap under Settings > API keys."
)
KEY_USED: Final = "The Idempotency-Key was sent with another request before; nothing was moved."


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountCreditRoutes:
    """Holdings of the user of an API key, and their moves."""

    gate: KeyGate
    ledger: CreditLedger
    credits: AccountCredits
    withdrawals: RateLimit
    deposits: RateLimit
    clock: Clock

    @Operation(
        "GET",
        "/v1/account",
        AccountHoldings,
        refusals=EVERY_ROUTE,
        proofs=KEY,
        scope=Scope.TRADE_READ,
    )
    async def get_account(self, request: Request) -> Response:
        """Credits of the user of an API key, and what each key spent this month.

        Returns the credits of the account of the API key, and of each of its active keys what it
        has spent this month and may spend. Costs nothing.
        """
        holder = await self.gate.authorize(request, Scope.TRADE_READ)
        holdings = await self.credits.holdings(holder.key.user_id)
        return success(request, _holdings(holder, holdings), at=self.clock.now())

    @Operation(
        "PATCH",
        "/v1/account/keys/{keyId}",
        CappedKey,
        refusals=(*WITH_BODY, ErrorCode.OWNER_ONLY, ErrorCode.NOT_FOUND),
        proofs=KEY,
        body=NewCap,
        scope=Scope.TRADE_WRITE,
    )
    async def cap_api_key(self, request: Request) -> Response:
        """Lower what an API key may spend in a calendar month, or set a cap where there is none.

        Lowers what an API key of the account may spend in a calendar month (UTC), or sets a cap
        where there is none; only its owner can raise it, on the pages. Costs nothing.
        """
        holder = await self.gate.authorize(request, Scope.TRADE_WRITE)
        key_id, asked = _key_id(request), await read_body(request, NewCap)
        capped = await self.credits.tighten(holder, key_id, asked.month_credits_max)
        if capped is CapDenied.NO_KEY:
            raise NotFound
        if not isinstance(capped, KeyLine):
            raise OwnerOnly(LOOSER)
        answer = CappedKey(key_id=key_id, month_credits_max=capped.month_credits_max)
        return success(request, answer, at=self.clock.now())

    @Operation(
        "POST",
        "/v1/account/credits/deposit",
        DepositReceipt,
        takes_key=True,
        refusals=MOVE,
        proofs=KEY,
        body=DepositOrder,
        scope=Scope.TRADE_WRITE,
    )
    async def deposit_credits(self, request: Request) -> Response:
        """Move credits of a credit token into the account.

        Moves credits of a credit token into the account of the API key, all of them unless the body
        says how many. With an Idempotency-Key a repeated request moves nothing twice. Costs
        nothing.
        """
        holder = await self.gate.authorize(request, Scope.TRADE_WRITE, moves_credits=True)
        asked, key = await read_body(request, DepositOrder), idempotency_key(request)
        await self.deposits.pass_through(request, f"user {holder.key.user_id}")
        token = await self.ledger.find(asked.credit_token)
        if token is None:
            raise InvalidToken(NOT_ISSUED)
        moved = await self.credits.deposit(holder.key.user_id, token, _count(asked.credits), key)
        if isinstance(moved, MoveDenied):
            _refuse(moved)
        receipt = DepositReceipt(
            credits=moved.credit_count, balance=moved.balance, token_balance=moved.token_balance
        )
        return success(request, receipt, at=self.clock.now())

    @Operation(
        "POST",
        "/v1/account/credits/withdraw",
        WithdrawalReceipt,
        takes_key=True,
        refusals=(*MOVE, ErrorCode.OWNER_ONLY),
        status=201,
        proofs=KEY,
        body=WithdrawalOrder,
        scope=Scope.TRADE_WRITE,
    )
    async def withdraw_credits(self, request: Request) -> Response:
        """Move credits of the account to a new credit token.

        Moves credits of the account of the API key to a new credit token, which the answer shows. A
        key that has a cap cannot. With an Idempotency-Key a repeated request returns the same token
        again. Costs nothing.
        """
        holder = await self.gate.authorize(request, Scope.TRADE_WRITE, moves_credits=True)
        asked, key = await read_body(request, WithdrawalOrder), idempotency_key(request)
        await self.withdrawals.pass_through(request, f"user {holder.key.user_id}")
        moved = await self.credits.withdraw(
            holder.key.user_id, _count(asked.credits), key, asked_by=holder.key.key_id
        )
        if isinstance(moved, MoveDenied):
            _refuse(moved)
        receipt = WithdrawalReceipt(
            token=moved.token, credits=moved.credit_count, balance=moved.balance
        )
        return success(request, receipt, at=self.clock.now(), status=201)


def _holdings(holder: Holder, holdings: Holdings) -> AccountHoldings:
    return AccountHoldings(
        user_id=holder.key.user_id,
        username=holder.username,
        balance=holdings.balance,
        month_ends_at=month_end(holdings.month) // 1000,
        keys=[
            KeyUse(
                key_id=line.key_id,
                name=line.name,
                hint=line.hint,
                scopes=in_order(line.scopes),
                month_credits=holdings.spent.get(line.key_id, 0),
                month_credits_max=line.month_credits_max,
            )
            for line in holdings.keys
        ],
    )


def _key_id(request: Request) -> KeyId:
    return KeyId(parse_id(request.path_params["keyId"]))


def _count(credit_count: int | msgspec.UnsetType) -> int | None:
    return None if isinstance(credit_count, msgspec.UnsetType) else credit_count


def _refuse(denied: MoveDenied) -> NoReturn:
    if denied is MoveDenied.KEY_USED:
        raise IdempotencyKeyUsed(KEY_USED)
    if denied is MoveDenied.CAPPED:
        raise OwnerOnly(CAPPED)
    raise InsufficientCredits(TOO_FEW)
