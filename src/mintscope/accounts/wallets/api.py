"""Endpoints for the wallets and credits of an account."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
from solders.pubkey import Pubkey
from solders.signature import Signature as Ed25519

from mintscope.accounts.keys.key import ANYWHERE, Holder, KeyLine, UnusableNetwork, parse_networks
from mintscope.accounts.keys.key_gate import KeyGate
from mintscope.accounts.keys.scope import Scope, in_order
from mintscope.accounts.wallets import wire
from mintscope.accounts.wallets.credits import (
    AccountCredits,
    CapDenied,
    CreditSummary,
    Deposited,
    MoveDenied,
    TooFew,
    Wallets,
    Withdrawn,
)
from mintscope.accounts.wallets.wallets import (
    WALLETS_MAX,
    LinkedWallet,
    WalletPayment,
    link_text,
)
from mintscope.api.discovery.operation import account_operation
from mintscope.api.gate import idempotency_key
from mintscope.api.query import read_query
from mintscope.api.wire import Challenge, decode_cursor, encode_cursor, read_body, success
from mintscope.credits.ledger import CreditLedger
from mintscope.credits.sign_in import (
    NONCE_BYTES,
    VALID_S,
    ChallengeFlaw,
    find_text_flaw,
    write_text,
)
from mintscope.kit import errors
from mintscope.kit.audit import KeyId
from mintscope.kit.clock import Clock
from mintscope.kit.http.rate_limit import RateLimit
from mintscope.kit.http.request import Request, parse_id
from mintscope.kit.http.response import Response
from mintscope.kit.primitives import Signature, UnixMs, Wallet
from mintscope.kit.time import month_end

NOT_PROVEN: Final = (
    "expected our challenge of the last 5 minutes for this account, signed by the wallet; the"
    " signature or the challenge does not match"
)
EXPIRED: Final = "The challenge has expired: request another one."
NOT_LINKED: Final = "This wallet is not linked to the account."
TOO_MANY: Final = f"expected at most {WALLETS_MAX} linked wallets: unlink one before"


class PaymentPosition(msgspec.Struct, tag="payments", frozen=True):
    """The position of the last payment of a page, as a cursor to the next page."""

    begun_at: UnixMs
    signature: Signature


@dataclass(frozen=True, slots=True, kw_only=True)
class WalletRoutes:
    """Handlers for the wallets of an API key's user."""

    gate: KeyGate
    wallets: Wallets
    clock: Clock

    @account_operation("GET", "/v1/account/wallets", wire.LinkedWallets, Scope.WALLETS_READ)
    async def list_wallets(self, request: Request) -> Response:
        """Wallets that are linked to the account.

        Returns the wallets that the user of the API key has proven to own. Costs nothing.
        """
        holder = await self.gate.authorize(request)
        return self._linked(request, await self.wallets.of_user(holder.key.user_id))

    @account_operation(
        "POST",
        "/v1/account/wallets/challenge",
        Challenge,
        Scope.WALLETS_WRITE,
        body=wire.LinkRequest,
    )
    async def make_wallet_challenge(self, request: Request) -> Response:
        """A text whose signature links a wallet.

        Returns a text for a wallet to sign, valid for 5 minutes. The signed text links the wallet
        to the account. Costs nothing.
        """
        holder = await self.gate.authorize(request)
        wallet = _wallet((await read_body(request, wire.LinkRequest)).wallet)
        now = self.clock.now()
        text = write_text(
            self.wallets.secrets.wallet,
            self._body(holder, wallet),
            now=now,
            nonce=self.wallets.entropy(NONCE_BYTES),
        )
        challenge = Challenge(challenge=text, expires_at=now // 1000 + VALID_S)
        return success(request, challenge, at=now)

    @account_operation(
        "POST",
        "/v1/account/wallets",
        wire.LinkedWallets,
        Scope.WALLETS_WRITE,
        errors.ErrorCode.INVALID_PROOF,
        body=wire.LinkProof,
        status=201,
    )
    async def link_wallet(self, request: Request) -> Response:
        """Link the wallet that has signed a challenge.

        Links the wallet that has signed the challenge to the account, so that its payments are
        listed there. Costs nothing.
        """
        holder = await self.gate.authorize(request)
        proof = await read_body(request, wire.LinkProof)
        wallet = _wallet(proof.wallet)
        flaw = find_text_flaw(
            self.wallets.secrets.wallet,
            self._body(holder, wallet),
            wallet=wallet,
            text=proof.challenge,
            signature=_signature(proof.signature),
            now=self.clock.now(),
        )
        if flaw is not None:
            raise errors.InvalidProof(EXPIRED if flaw is ChallengeFlaw.EXPIRED else NOT_PROVEN)
        linked = await self.wallets.link(holder, wallet)
        if linked is None:
            raise errors.BadRequest(TOO_MANY)
        return self._linked(request, linked, status=201)

    @account_operation(
        "DELETE", "/v1/account/wallets/{wallet}", wire.LinkedWallets, Scope.WALLETS_WRITE
    )
    async def unlink_wallet(self, request: Request) -> Response:
        """Unlink a wallet.

        Unlinks a wallet from the account; its payments are no longer listed there. Costs
        nothing.
        """
        holder = await self.gate.authorize(request)
        left = await self.wallets.unlink(holder, _wallet(request.path_params["wallet"]))
        if left is None:
            raise errors.NotFound(NOT_LINKED)
        return self._linked(request, left)

    @account_operation(
        "GET", "/v1/account/payments", wire.Payments, Scope.WALLETS_READ, query=wire.PaymentsQuery
    )
    async def list_payments(self, request: Request) -> Response:
        """Payments of the linked wallets, newest first.

        Returns the payments of the wallets that are linked to the account, newest first: the
        requested and the received amount, and the outcome. Costs nothing.
        """
        holder = await self.gate.authorize(request)
        query = read_query(request, wire.PaymentsQuery)
        before = None
        if query.cursor is not None:
            position = decode_cursor(query.cursor, PaymentPosition)
            before = position.begun_at, position.signature
        user_id = holder.key.user_id
        found = await self.wallets.store.read(
            lambda rows: rows.wallets.payments(user_id, before, query.limit + 1)
        )
        page = found[: query.limit]
        cursor = None
        if len(found) > query.limit:
            cursor = encode_cursor(PaymentPosition(page[-1].begun_at, page[-1].signature))
        payments = wire.Payments(payments=[_line(each) for each in page], next_cursor=cursor)
        return success(request, payments, at=self.clock.now())

    def _body(self, holder: Holder, wallet: Wallet) -> str:
        return link_text(self.wallets.origin, holder.key.user_id, holder.username, wallet)

    def _linked(
        self, request: Request, linked: Sequence[LinkedWallet], status: int = 200
    ) -> Response:
        lines = [
            wire.WalletLine(wallet=each.wallet, linked_at=each.linked_at // 1000) for each in linked
        ]
        return success(
            request, wire.LinkedWallets(wallets=lines), at=self.clock.now(), status=status
        )


def _wallet(text: str) -> Wallet:
    try:
        with errors.parsed_by_others():
            return Wallet(str(Pubkey.from_string(text)))
    except ValueError as cause:
        raise errors.BadRequest("expected wallet to be the base58 of 32 bytes") from cause


def _signature(text: str) -> bytes:
    try:
        with errors.parsed_by_others():
            return bytes(Ed25519.from_string(text))
    except ValueError as cause:
        raise errors.BadRequest("expected a signature to be the base58 of 64 bytes") from cause


def _line(payment: WalletPayment) -> wire.PaymentLine:
    return wire.PaymentLine(
        signature=payment.signature,
        wallet=payment.wallet,
        resource=payment.resource,
        amount=payment.amount,
        paid=payment.paid,
        credits=payment.credit_count,
        state=payment.state,
        reason=payment.reason,
        begun_at=payment.begun_at // 1000,
        settled_at=None if payment.settled_at is None else payment.settled_at // 1000,
        asset=payment.asset,
    )


NOT_ISSUED: Final = "creditToken: expected a credit token that this service has issued"
NO_KEY: Final = "This account has no active API key with this number."
NO_LIMIT: Final = "expected monthCreditsMax, networks or both; there was neither"
LOOSER: Final = (
    "A key can lower a cap, narrow the networks, or set them if there are none. To raise a cap or"
    " widen the networks, its owner signs in and changes them under Settings > API keys."
)
TOO_FEW: Final = (
    "expected at least one credit to move, and at least as many credits as the request names; the"
    " {} has a balance of {}"
)
CAPPED: Final = (
    "A key that has a cap cannot move credits out of the account, because the cap would not apply"
    " to them. Use a key without a cap, or have its owner remove the cap under Settings > API keys."
)
KEY_USED: Final = "The Idempotency-Key was sent with another request before; nothing was moved."


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountCreditRoutes:
    """Handlers for the credits of an API key's user."""

    gate: KeyGate
    ledger: CreditLedger
    credits: AccountCredits
    withdrawals: RateLimit
    deposits: RateLimit
    clock: Clock

    @account_operation("GET", "/v1/account", wire.AccountHoldings, Scope.TRADE_READ)
    async def get_account(self, request: Request) -> Response:
        """Credits of the user of an API key, and the spending of each key this month.

        Returns the credits of the API key's account, and for each of its active keys the credits
        spent this month and the monthly cap. Costs nothing.
        """
        holder = await self.gate.authorize(request)
        summary = await self.credits.summary(holder.key.user_id)
        return success(request, _summary(holder, summary), at=self.clock.now())

    @account_operation(
        "PATCH",
        "/v1/account/keys/{keyId}",
        wire.CappedKey,
        Scope.TRADE_WRITE,
        errors.ErrorCode.OWNER_ONLY,
        body=wire.KeyLimits,
    )
    async def cap_api_key(self, request: Request) -> Response:
        """Tighten the monthly cap or the networks of an API key.

        Lowers the cap of an API key of the account on credits in a calendar month (UTC), or narrows
        the networks that it is accepted from; sets them if there are none. Only its owner can raise
        the cap or widen the networks, on the pages. Costs nothing.
        """
        holder = await self.gate.authorize(request)
        key_id = KeyId(parse_id(request.path_params["keyId"], NO_KEY))
        asked = await read_body(request, wire.KeyLimits)
        if asked == wire.KeyLimits():
            raise errors.BadRequest(NO_LIMIT)
        cap = asked.month_credits_max
        capped = await self.credits.tighten(
            holder, key_id, None if cap is msgspec.UNSET else cap, _networks(asked)
        )
        if capped is CapDenied.NO_KEY:
            raise errors.NotFound(NO_KEY)
        if not isinstance(capped, KeyLine):
            raise errors.OwnerOnly(LOOSER)
        answer = wire.CappedKey(
            key_id=key_id,
            month_credits_max=capped.month_credits_max,
            networks=capped.networks.split(),
        )
        return success(request, answer, at=self.clock.now())

    @account_operation(
        "POST",
        "/v1/account/credits/deposit",
        wire.DepositReceipt,
        Scope.TRADE_WRITE,
        errors.ErrorCode.INSUFFICIENT_CREDITS,
        body=wire.DepositOrder,
        takes_key=True,
    )
    async def deposit_credits(self, request: Request) -> Response:
        """Move credits of a credit token into the account.

        Moves credits of a credit token into the account of the API key, all of them unless the body
        says how many. With an Idempotency-Key a repeated request moves nothing twice. Costs
        nothing.
        """
        holder = await self.gate.authorize(request, moves_credits=True)
        asked, key = await read_body(request, wire.DepositOrder), idempotency_key(request)
        await self.deposits.pass_through(request, f"user {holder.key.user_id}")
        token = await self.ledger.find(asked.credit_token)
        if token is None:
            raise errors.InvalidToken(NOT_ISSUED)
        moved = await self.credits.deposit(holder.key.user_id, token, _count(asked.credits), key)
        if not isinstance(moved, Deposited):
            raise _refusal(moved, "credit token")
        receipt = wire.DepositReceipt(
            credits=moved.credit_count, balance=moved.balance, token_balance=moved.token_balance
        )
        return success(request, receipt, at=self.clock.now())

    @account_operation(
        "POST",
        "/v1/account/credits/withdraw",
        wire.WithdrawalReceipt,
        Scope.TRADE_WRITE,
        errors.ErrorCode.INSUFFICIENT_CREDITS,
        errors.ErrorCode.OWNER_ONLY,
        body=wire.WithdrawalOrder,
        status=201,
        takes_key=True,
    )
    async def withdraw_credits(self, request: Request) -> Response:
        """Move credits of the account to a new credit token.

        Moves credits of the account of the API key to a new credit token, which the answer shows. A
        key that has a cap cannot do this. With an Idempotency-Key a repeated request returns the
        same token again. Costs nothing.
        """
        holder = await self.gate.authorize(request, moves_credits=True)
        asked, key = await read_body(request, wire.WithdrawalOrder), idempotency_key(request)
        await self.withdrawals.pass_through(request, f"user {holder.key.user_id}")
        moved = await self.credits.withdraw(
            holder.key.user_id, _count(asked.credits), key, asked_by=holder.key.key_id
        )
        if not isinstance(moved, Withdrawn):
            raise _refusal(moved, "account")
        receipt = wire.WithdrawalReceipt(
            token=moved.token, credits=moved.credit_count, balance=moved.balance
        )
        return success(request, receipt, at=self.clock.now(), status=201)


def _networks(asked: wire.KeyLimits) -> str | None:
    """Return the requested networks in their stored form; None if absent.  Raises BadRequest."""
    if asked.networks is msgspec.UNSET:
        return None
    try:
        networks = parse_networks(" ".join(asked.networks))
    except UnusableNetwork as flaw:
        raise errors.BadRequest(f"networks: {flaw}") from flaw
    if networks == ANYWHERE:
        raise errors.BadRequest("networks: expected at least one; there was none")
    return networks


def _summary(holder: Holder, summary: CreditSummary) -> wire.AccountHoldings:
    return wire.AccountHoldings(
        user_id=holder.key.user_id,
        username=holder.username,
        balance=summary.balance,
        month_ends_at=month_end(summary.month) // 1000,
        keys=[
            wire.KeyUse(
                key_id=line.key_id,
                name=line.name,
                hint=line.hint,
                scopes=in_order(line.scopes),
                month_credits=summary.spent.get(line.key_id, 0),
                month_credits_max=line.month_credits_max,
            )
            for line in summary.keys
        ],
    )


def _count(credit_count: int | msgspec.UnsetType) -> int | None:
    return None if isinstance(credit_count, msgspec.UnsetType) else credit_count


def _refusal(denied: MoveDenied | TooFew, giver: str) -> errors.ServiceError:
    if isinstance(denied, TooFew):
        return errors.InsufficientCredits(TOO_FEW.format(giver, denied.balance))
    if denied is MoveDenied.KEY_USED:
        return errors.IdempotencyKeyUsed(KEY_USED)
    return errors.OwnerOnly(CAPPED)
