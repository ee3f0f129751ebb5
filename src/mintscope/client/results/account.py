"""Accounts: API keys, credits, wallets, watchlists, and how an agent comes to a key.

Times are Unix seconds; what is not there is None.
"""

import msgspec


class KeyOwner(msgspec.Struct, frozen=True, rename="camel"):
    """Whose an API key is, and what it allows.

    scopes_asked_for   those that an administrator is yet to decide about
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
    """The key that another was rotated into; `before_ends_at`: when that ends."""

    api_key: str
    key_id: int
    key_hint: str
    scopes: list[str]
    expires_at: int | None
    before_ends_at: int


class RevokedKey(msgspec.Struct, frozen=True, rename="camel"):
    """The key that has ended."""

    key_id: int


class ScopesAsked(msgspec.Struct, frozen=True, rename="camel"):
    """Scopes that are asked for, and what comes next in words."""

    scopes_asked_for: list[str]
    message: str


class KeyUse(msgspec.Struct, frozen=True, rename="camel"):
    """An active key, what it has spent this month, and its cap."""

    key_id: int
    name: str
    hint: str
    scopes: list[str]
    month_credits: int
    month_credits_max: int | None


class AccountHoldings(msgspec.Struct, frozen=True, rename="camel"):
    """The credits of an account, and what each of its keys spends."""

    user_id: int
    username: str
    balance: int
    month_ends_at: int
    keys: list[KeyUse]


class CappedKey(msgspec.Struct, frozen=True, rename="camel"):
    """A key and its cap."""

    key_id: int
    month_credits_max: int | None


class CreditDeposit(msgspec.Struct, frozen=True, rename="camel"):
    """What was moved into the account, and what is left."""

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
    """A text whose signature proves to be a wallet."""

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
    """What comes next."""

    message: str


class ApplicationStanding(msgspec.Struct, frozen=True):
    """How far an application is."""

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
