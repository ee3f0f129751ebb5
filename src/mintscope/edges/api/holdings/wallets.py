"""The wallets of a user: linked by signing a challenge, listed, unlinked; and what they paid."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
from solders.pubkey import Pubkey
from solders.signature import Signature as Ed25519

from mintscope.base.clock import Clock
from mintscope.base.errors import BadRequest, ErrorCode, InvalidProof, NotFound
from mintscope.base.foreign import parsed_by_others
from mintscope.base.primitives import Signature, UnixMs, Wallet
from mintscope.core.accounts.holdings.linking import Wallets
from mintscope.core.accounts.holdings.wallets import (
    WALLETS_MAX,
    LinkDenied,
    LinkedWallet,
    WalletPayment,
    link_text,
)
from mintscope.core.accounts.keys.api_key import Holder
from mintscope.core.accounts.keys.scope import Scope
from mintscope.core.credits.challenge import (
    NONCE_BYTES,
    VALID_S,
    ChallengeFlaw,
    find_text_flaw,
    write_text,
)
from mintscope.edges.api.accounts.key_gate import KeyGate
from mintscope.edges.api.data.cursor import decode_cursor, encode_cursor
from mintscope.edges.api.data.query import read_query
from mintscope.edges.api.description.operation import EVERY_ROUTE, KEY, WITH_BODY, Operation
from mintscope.edges.api.holdings.body import read_body
from mintscope.edges.api.holdings.wire import (
    LinkedWallets,
    LinkProof,
    LinkRequest,
    PaymentLine,
    Payments,
    PaymentsQuery,
    WalletLine,
)
from mintscope.edges.api.wire import Challenge, success
from mintscope.edges.server.request import Request
from mintscope.edges.server.response import Response

NOT_PROVEN: Final = (
    "expected our challenge of the last 5 minutes for this account, signed by the wallet; this is"
    " not one"
)
EXPIRED: Final = "The challenge has expired: ask for another one."
TOO_MANY: Final = f"expected at most {WALLETS_MAX} linked wallets: unlink one before"


class PaymentPosition(msgspec.Struct, tag="payments", frozen=True):
    """The last payment of a page."""

    begun_at: UnixMs
    signature: Signature


@dataclass(frozen=True, slots=True, kw_only=True)
class WalletRoutes:
    """Links wallets to the user of an API key."""

    gate: KeyGate
    wallets: Wallets
    clock: Clock

    @Operation(
        "GET",
        "/v1/account/wallets",
        LinkedWallets,
        refusals=EVERY_ROUTE,
        proofs=KEY,
        scope=Scope.WALLETS_READ,
    )
    async def list_wallets(self, request: Request) -> Response:
        """Wallets that are linked to the account.

        Returns the wallets whose owner has proven to be the user of the API key. Costs nothing.
        """
        holder = await self.gate.authorize(request, Scope.WALLETS_READ)
        return self._linked(request, await self.wallets.of_user(holder.key.user_id))

    @Operation(
        "POST",
        "/v1/account/wallets/challenge",
        Challenge,
        refusals=WITH_BODY,
        proofs=KEY,
        body=LinkRequest,
        scope=Scope.WALLETS_WRITE,
    )
    async def make_wallet_challenge(self, request: Request) -> Response:
        """A text whose signature links a wallet.

        Returns a text for a wallet to sign, good for 5 minutes; signed, it links the wallet to the
        account. Costs nothing.
        """
        holder = await self.gate.authorize(request, Scope.WALLETS_WRITE)
        wallet = _wallet((await read_body(request, LinkRequest)).wallet)
        now = self.clock.now()
        text = write_text(
            self.wallets.secrets.wallet,
            self._body(holder, wallet),
            now=now,
            nonce=self.wallets.entropy(NONCE_BYTES),
        )
        challenge = Challenge(challenge=text, expires_at=now // 1000 + VALID_S)
        return success(request, challenge, at=now)

    @Operation(
        "POST",
        "/v1/account/wallets",
        LinkedWallets,
        refusals=(*WITH_BODY, ErrorCode.INVALID_PROOF),
        status=201,
        proofs=KEY,
        body=LinkProof,
        scope=Scope.WALLETS_WRITE,
    )
    async def link_wallet(self, request: Request) -> Response:
        """Link the wallet that has signed a challenge.

        Links the wallet that has signed the challenge to the account, so that its payments are
        listed there. Costs nothing.
        """
        holder = await self.gate.authorize(request, Scope.WALLETS_WRITE)
        proof = await read_body(request, LinkProof)
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
            raise InvalidProof(EXPIRED if flaw is ChallengeFlaw.EXPIRED else NOT_PROVEN)
        linked = await self.wallets.link(holder, wallet)
        if isinstance(linked, LinkDenied):
            raise BadRequest(TOO_MANY)
        return self._linked(request, linked, status=201)

    @Operation(
        "DELETE",
        "/v1/account/wallets/{wallet}",
        LinkedWallets,
        refusals=(*EVERY_ROUTE, ErrorCode.NOT_FOUND),
        proofs=KEY,
        scope=Scope.WALLETS_WRITE,
    )
    async def unlink_wallet(self, request: Request) -> Response:
        """Unlink a wallet.

        Unlinks a wallet from the account; its payments are not listed there any more. Costs
        nothing.
        """
        holder = await self.gate.authorize(request, Scope.WALLETS_WRITE)
        left = await self.wallets.unlink(holder, _wallet(request.path_params["wallet"]))
        if left is None:
            raise NotFound
        return self._linked(request, left)

    @Operation(
        "GET",
        "/v1/account/payments",
        Payments,
        refusals=EVERY_ROUTE,
        proofs=KEY,
        query=PaymentsQuery,
        scope=Scope.WALLETS_READ,
    )
    async def list_payments(self, request: Request) -> Response:
        """Payments of the linked wallets, newest first.

        Returns the payments of the wallets that are linked to the account, newest first: what was
        asked for, what arrived, and what became of it. Costs nothing.
        """
        holder = await self.gate.authorize(request, Scope.WALLETS_READ)
        query = read_query(request, PaymentsQuery)
        before = None
        if query.cursor is not None:
            position = decode_cursor(query.cursor, PaymentPosition)
            before = position.begun_at, position.signature
        found = await self.wallets.payments(holder.key.user_id, before, query.limit + 1)
        page = found[: query.limit]
        cursor = None
        if len(found) > query.limit:
            cursor = encode_cursor(PaymentPosition(page[-1].begun_at, page[-1].signature))
        payments = Payments(payments=[_line(each) for each in page], next_cursor=cursor)
        return success(request, payments, at=self.clock.now())

    def _body(self, holder: Holder, wallet: Wallet) -> str:
        return link_text(self.wallets.origin, holder.key.user_id, holder.username, wallet)

    def _linked(
        self, request: Request, linked: Sequence[LinkedWallet], status: int = 200
    ) -> Response:
        lines = [
            WalletLine(wallet=each.wallet, linked_at=each.linked_at // 1000) for each in linked
        ]
        return success(request, LinkedWallets(wallets=lines), at=self.clock.now(), status=status)


def _wallet(text: str) -> Wallet:
    try:
        with parsed_by_others():
            return Wallet(str(Pubkey.from_string(text)))
    except ValueError as cause:
        raise BadRequest("expected wallet to be the base58 of 32 bytes") from cause


def _signature(text: str) -> bytes:
    try:
        with parsed_by_others():
            return bytes(Ed25519.from_string(text))
    except ValueError as cause:
        raise BadRequest("expected a signature to be the base58 of 64 bytes") from cause


def _line(payment: WalletPayment) -> PaymentLine:
    return PaymentLine(
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
