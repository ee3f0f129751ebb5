"""The operations under /v1/account."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from mintscope.base.clock import Clock
from mintscope.base.errors import ErrorCode
from mintscope.base.limits import Limit
from mintscope.core.credits.ledger import CreditLedger
from mintscope.edges.api.accounts.routes import AccountParts
from mintscope.edges.api.description.operation import Operation
from mintscope.edges.api.holdings import texts, wire
from mintscope.edges.api.holdings.credits import AccountCreditRoutes
from mintscope.edges.api.holdings.wallets import WalletRoutes
from mintscope.edges.api.wire import Challenge
from mintscope.edges.server.rate_limit import AddressLimits

DEPOSITS_PER_ROTATION: Final = 6
EVERY_ROUTE: Final = (
    ErrorCode.MISSING_TOKEN,
    ErrorCode.INVALID_TOKEN,
    ErrorCode.INSUFFICIENT_SCOPE,
    ErrorCode.RATE_LIMITED,
    ErrorCode.SERVICE_UNAVAILABLE,
)
WITH_BODY: Final = (*EVERY_ROUTE, ErrorCode.PAYLOAD_TOO_LARGE)
MOVE: Final = (*WITH_BODY, ErrorCode.INSUFFICIENT_CREDITS, ErrorCode.IDEMPOTENCY_KEY_USED)
KEY: Final = (("apiKey",),)


def holding_operations(
    parts: AccountParts,
    ledger: CreditLedger,
    *,
    limits: AddressLimits,
    clock: Clock,
    rotation_limit: Limit,
) -> Sequence[Operation]:
    """Return the operations under /v1/account.

    A withdrawal creates a credit token and counts like a rotation; DEPOSITS_PER_ROTATION times as
    many deposits are admitted, each of which leaves three rows.
    """
    gate = parts.gate(limits)
    withdrawals = limits.by_account(replace(rotation_limit, name="withdrawals"))
    deposits = replace(
        rotation_limit, name="deposits", count=DEPOSITS_PER_ROTATION * rotation_limit.count
    )
    held = AccountCreditRoutes(
        gate=gate,
        ledger=ledger,
        credits=parts.credits,
        withdrawals=withdrawals,
        deposits=limits.by_account(deposits),
        clock=clock,
    )
    wallets = WalletRoutes(gate=gate, wallets=parts.wallets, clock=clock)
    return [*_of_credits(held), *_of_wallets(wallets)]


def _of_credits(held: AccountCreditRoutes) -> list[Operation]:
    # fmt: off
    return [
        Operation(
            "GET", "/v1/account", held.get_account, wire.AccountHoldings,
            "Credits of the user of an API key, and what each key spent this month",
            description=texts.HOLDINGS,
            refusals=EVERY_ROUTE, proofs=KEY,
        ),
        Operation(
            "PATCH", "/v1/account/keys/{keyId}", held.cap_api_key, wire.CappedKey,
            "Lower what an API key may spend in a calendar month, or set a cap where there is none",
            description=texts.CAP,
            refusals=(*WITH_BODY, ErrorCode.OWNER_ONLY, ErrorCode.NOT_FOUND), proofs=KEY,
            body=wire.NewCap,
        ),
        Operation(
            "POST", "/v1/account/credits/deposit", held.deposit_credits, wire.DepositReceipt,
            "Move credits of a credit token into the account",
            description=texts.DEPOSIT, takes_key=True, refusals=MOVE, proofs=KEY,
            body=wire.DepositOrder,
        ),
        Operation(
            "POST", "/v1/account/credits/withdraw", held.withdraw_credits, wire.WithdrawalReceipt,
            "Move credits of the account to a new credit token",
            description=texts.WITHDRAW, takes_key=True,
            refusals=(*MOVE, ErrorCode.OWNER_ONLY), status=201,
            proofs=KEY, body=wire.WithdrawalOrder,
        ),
    ]
    # fmt: on


def _of_wallets(wallets: WalletRoutes) -> list[Operation]:
    # fmt: off
    return [
        Operation(
            "GET", "/v1/account/wallets", wallets.list_wallets, wire.LinkedWallets,
            "Wallets that are linked to the account",
            description=texts.WALLETS, refusals=EVERY_ROUTE, proofs=KEY,
        ),
        Operation(
            "POST", "/v1/account/wallets/challenge", wallets.make_wallet_challenge, Challenge,
            "A text whose signature links a wallet",
            description=texts.CHALLENGE, refusals=WITH_BODY, proofs=KEY,
            body=wire.LinkRequest,
        ),
        Operation(
            "POST", "/v1/account/wallets", wallets.link_wallet, wire.LinkedWallets,
            "Link the wallet that has signed a challenge",
            description=texts.LINK,
            refusals=(*WITH_BODY, ErrorCode.INVALID_PROOF), status=201, proofs=KEY,
            body=wire.LinkProof,
        ),
        Operation(
            "DELETE", "/v1/account/wallets/{wallet}", wallets.unlink_wallet, wire.LinkedWallets,
            "Unlink a wallet",
            description=texts.UNLINK, refusals=(*EVERY_ROUTE, ErrorCode.NOT_FOUND), proofs=KEY,
        ),
        Operation(
            "GET", "/v1/account/payments", wallets.list_payments, wire.Payments,
            "Payments of the linked wallets, newest first",
            description=texts.PAYMENTS, refusals=EVERY_ROUTE, proofs=KEY,
            query=wire.PaymentsQuery,
        ),
    ]
    # fmt: on
