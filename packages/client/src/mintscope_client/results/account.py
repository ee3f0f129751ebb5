"""Accounts: API keys, credits, wallets, watchlists, and applications for a key.

Times are Unix seconds; absent values are None.
"""

import msgspec


class KeyOwner(msgspec.Struct, frozen=True, rename="camel"):
    """The owner and the scopes of an API key.

    scopes_asked_for   scopes that await the decision of an administrator
    """

    user_id: int
    username: str
    key_id: int
    key_name: str
    key_hint: str
    scopes: list[str]
    created_at: int
    expires_at: int | None
    last_used_at: int | None
    scopes_asked_for: list[str] = []


class RotatedKey(msgspec.Struct, frozen=True, rename="camel"):
    """The key that replaces another one, which ends at `before_ends_at`."""

    api_key: str
    key_id: int
    key_hint: str
    scopes: list[str]
    expires_at: int | None
    before_ends_at: int


class RevokedKey(msgspec.Struct, frozen=True, rename="camel"):
    """The key that was revoked."""

    key_id: int


class ScopesAsked(msgspec.Struct, frozen=True, rename="camel"):
    """Scopes that are asked for, and the next step in words."""

    scopes_asked_for: list[str]
    message: str


class KeyUse(msgspec.Struct, frozen=True, rename="camel"):
    """An active key, its spending of this month, and its cap."""

    key_id: int
    name: str
    hint: str
    scopes: list[str]
    month_credits: int
    month_credits_max: int | None


class AccountHoldings(msgspec.Struct, frozen=True, rename="camel"):
    """The credits of an account, and the spending of each of its keys."""

    user_id: int
    username: str
    balance: int
    month_ends_at: int
    keys: list[KeyUse]


class CappedKey(msgspec.Struct, frozen=True, rename="camel"):
    """A key and its limits; no networks: it is accepted from anywhere."""

    key_id: int
    month_credits_max: int | None
    networks: list[str]


class CreditDeposit(msgspec.Struct, frozen=True, rename="camel"):
    """Credits that were moved into the account, and those left."""

    credits: int
    balance: int
    token_balance: int


class CreditWithdrawal(msgspec.Struct, frozen=True):
    """The credit token that was made; *token* is like a password."""

    token: str
    credits: int
    balance: int


class RotatedCredits(msgspec.Struct, frozen=True):
    """The credit token that the credits were moved to; *token* is like a password."""

    token: str
    credits: int


class WalletChallenge(msgspec.Struct, frozen=True, rename="camel"):
    """A text that a wallet signs to prove itself."""

    challenge: str
    expires_at: int


class LinkedWallet(msgspec.Struct, frozen=True, rename="camel"):
    """A wallet of the account."""

    wallet: str
    linked_at: int


class LinkedWallets(msgspec.Struct, frozen=True):
    """The wallets of the account."""

    wallets: list[LinkedWallet]


class WalletPayment(msgspec.Struct, frozen=True, rename="camel"):
    """A payment of a linked wallet; amounts in atoms of *asset*."""

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
    asset: str | None


class PaymentsPage(msgspec.Struct, frozen=True, rename="camel"):
    """Payments, newest first."""

    payments: list[WalletPayment]
    next_cursor: str | None


class WatchlistLine(msgspec.Struct, frozen=True, rename="camel"):
    """A watchlist without its mints."""

    group_id: int
    name: str
    mint_count: int
    created_at: int


class WatchlistLines(msgspec.Struct, frozen=True):
    """The watchlists of the account."""

    groups: list[WatchlistLine]


class FilledWatchlist(WatchlistLine, frozen=True, rename="camel"):
    """A watchlist and its mints."""

    mints: list[str]


class SignedUp(msgspec.Struct, frozen=True, rename="camel"):
    """An application; its secret is shown once."""

    signup_id: int
    application_secret: str
    instructions: str


class ConfirmedEmail(msgspec.Struct, frozen=True):
    """The next step of an application."""

    message: str


class ApplicationStanding(msgspec.Struct, frozen=True):
    """The status of an application."""

    state: str
    message: str


class ExchangedKey(msgspec.Struct, frozen=True, rename="camel"):
    """The API key of an application; it is shown once."""

    api_key: str
    user_id: int
    username: str
    key_hint: str
    scopes: list[str]
    message: str
