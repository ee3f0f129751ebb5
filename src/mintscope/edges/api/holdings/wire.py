"""The bodies under /v1/account; times are Unix seconds."""

from typing import Annotated

import msgspec

from mintscope.core.accounts.keys.scope import Scope
from mintscope.edges.api.wire import Wire

CREDITS_MAX = 2**53 - 1  # what every JSON parser can hold
LIMIT_MAX = 100

Amount = Annotated[
    int, msgspec.Meta(ge=1, le=CREDITS_MAX, description="How many credits; absent: all.")
]
Cap = Annotated[
    int,
    msgspec.Meta(
        ge=0, le=CREDITS_MAX, description="Credits the key may spend in a calendar month (UTC)."
    ),
]


class KeyUse(Wire):
    """An active API key: what it has spent this month, and its cap, null for none."""

    key_id: int
    name: str
    hint: str
    scopes: list[Scope]
    month_credits: int
    month_credits_max: int | None


class AccountHoldings(Wire):
    """`data` of GET /v1/account: the credits, and when the caps begin anew."""

    user_id: int
    username: str
    balance: int
    month_ends_at: int
    keys: list[KeyUse]


class NewCap(Wire, forbid_unknown_fields=True):
    """Body of PATCH /v1/account/keys/{keyId}."""

    month_credits_max: Cap


class CappedKey(Wire):
    """`data` of PATCH /v1/account/keys/{keyId}."""

    key_id: int
    month_credits_max: int | None


class DepositOrder(Wire, forbid_unknown_fields=True, kw_only=True):
    """Body of POST /v1/account/credits/deposit: what is moved into the account, and whence."""

    credit_token: str
    credits: Amount | msgspec.UnsetType = msgspec.UNSET


class DepositReceipt(Wire):
    """`data` of it: what was moved, and what account and credit token hold since."""

    credits: int
    balance: int
    token_balance: int


class WithdrawalOrder(Wire, forbid_unknown_fields=True):
    """Body of POST /v1/account/credits/withdraw: what is moved to a new credit token."""

    credits: Amount | msgspec.UnsetType = msgspec.UNSET


class WithdrawalReceipt(Wire):
    """`data` of it: the credit token, what is on it, and what the account holds since."""

    token: str
    credits: int
    balance: int


class WalletLine(Wire):
    """A linked wallet."""

    wallet: str
    linked_at: int


class LinkedWallets(Wire):
    """`data` of the routes that list, link and unlink wallets."""

    wallets: list[WalletLine]


class LinkRequest(Wire, forbid_unknown_fields=True):
    """Body of POST /v1/account/wallets/challenge."""

    wallet: str


class LinkProof(LinkRequest):
    """Body of POST /v1/account/wallets: the challenge, and the wallet's signature in base58."""

    challenge: str
    signature: str


class PaymentsQuery(Wire):
    """Query of GET /v1/account/payments."""

    limit: Annotated[
        int, msgspec.Meta(ge=1, le=LIMIT_MAX, description="How many payments at most.")
    ] = 50
    cursor: Annotated[str | None, msgspec.Meta(description="`nextCursor` of the page before.")] = (
        None
    )


class PaymentLine(Wire):
    """A payment: `amount` asked for and `paid` in atoms; `credits` 0 for a request of its own.

    state        pending, issued, failed or frozen
    reason       why it failed or is frozen
    settled_at   null while it is pending
    """

    signature: str
    wallet: str
    resource: str
    amount: int
    paid: int
    credits: int
    state: str
    reason: str | None
    begun_at: int
    settled_at: int | None


class Payments(Wire):
    """`data` of GET /v1/account/payments, newest first; `next_cursor` null on the last page."""

    payments: list[PaymentLine]
    next_cursor: str | None
