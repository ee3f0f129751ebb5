"""Accounts: API keys, credits, wallets and watchlists.

Times are Unix seconds; absent values are None.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec

from mintscope_client.calls.call import ApiCall
from mintscope_client.calls.paged import PagedCall
from mintscope_client.calls.requests import call_of, page_of, segment
from mintscope_client.endpoints.purchases import WalletChallenge

Scope: TypeAlias = Literal[
    "trade:read", "trade:write", "wallets:read", "wallets:write",
    "signals:read", "signals:write", "groups:read", "groups:write",
]  # fmt: skip
PAYMENTS_MAX: Final = 100


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
    """A new API key, which replaces another; the old key stays valid until *before_ends_at*."""

    api_key: str
    key_id: int
    key_hint: str
    scopes: list[str]
    expires_at: int | None
    before_ends_at: int


class RevokedKey(msgspec.Struct, frozen=True, rename="camel"):
    """The answer to the revocation of an API key: the number of the revoked key."""

    key_id: int


class ScopesAsked(msgspec.Struct, frozen=True, rename="camel"):
    """The scopes that were requested for an API key, and a text that describes the next step."""

    scopes_asked_for: list[str]
    message: str


class KeyUse(msgspec.Struct, frozen=True, rename="camel"):
    """An active API key, the credits that it has spent this month, and its cap; None: no cap."""

    key_id: int
    name: str
    hint: str
    scopes: list[str]
    month_credits: int
    month_credits_max: int | None


class AccountHoldings(msgspec.Struct, frozen=True, rename="camel"):
    """An account's credit balance, and the credits that each active API key spent this month."""

    user_id: int
    username: str
    balance: int
    month_ends_at: int
    keys: list[KeyUse]


class CappedKey(msgspec.Struct, frozen=True, rename="camel"):
    """An API key and its limits; if *networks* is empty, any IP address may use it."""

    key_id: int
    month_credits_max: int | None
    networks: list[str]


class CreditDeposit(msgspec.Struct, frozen=True, rename="camel"):
    """The credits moved into the account, and the new balances of the account and the token."""

    credits: int
    balance: int
    token_balance: int


class CreditWithdrawal(msgspec.Struct, frozen=True):
    """The new credit token that got credits of an account; store *token* like a password."""

    token: str
    credits: int
    balance: int


class LinkedWallet(msgspec.Struct, frozen=True, rename="camel"):
    """A wallet that is linked to the account; *linked_at* is in Unix seconds."""

    wallet: str
    linked_at: int


class LinkedWallets(msgspec.Struct, frozen=True):
    """The wallets that are linked to the account."""

    wallets: list[LinkedWallet]


class WalletPayment(msgspec.Struct, frozen=True, rename="camel"):
    """A payment that a linked wallet made to the service; amounts are in atoms of *asset*."""

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
    """A page of the payments of linked wallets, newest first."""

    payments: list[WalletPayment]
    next_cursor: str | None


def me() -> ApiCall[KeyOwner]:
    """Return the call for the owner and the scopes of the client's API key."""
    return call_of("GET", "/v1/me", KeyOwner)


def rotate_key(overlap: Literal["1h", "24h", "7d"] = "1h") -> ApiCall[RotatedKey]:
    """Return the call that replaces the client's API key; the old key stays valid for *overlap*."""
    body = {"overlap": overlap}
    return call_of("POST", "/v1/me/key/rotate", RotatedKey, body, takes_key=True)


def revoke_key() -> ApiCall[RevokedKey]:
    """Return the call that revokes the API key of the client at once."""
    return call_of("DELETE", "/v1/me/key", RevokedKey)


def ask_for_scopes(scopes: Sequence[Scope], motivation: str = "") -> ApiCall[ScopesAsked]:
    """Return the call that asks the administrators for *scopes* of the client's API key."""
    body = {"scopes": list(scopes), "motivation": motivation}
    return call_of("POST", "/v1/me/key/scopes", ScopesAsked, body)


def account() -> ApiCall[AccountHoldings]:
    """Return the call for an account's credits and the credits that each key spent this month."""
    return call_of("GET", "/v1/account", AccountHoldings)


def cap_key(
    key_id: int,
    month_credits_max: int | None = None,
    networks: Sequence[str] | None = None,
) -> ApiCall[CappedKey]:
    """Return the call that restricts an API key further; None leaves a restriction unchanged.

    month_credits_max   the most credits that it may spend in a calendar month
    networks            the IP addresses, or networks in CIDR notation, from which it is accepted
    """
    body: dict[str, Any] = {}
    if month_credits_max is not None:
        body["monthCreditsMax"] = month_credits_max
    if networks is not None:
        body["networks"] = list(networks)
    return call_of("PATCH", f"/v1/account/keys/{key_id}", CappedKey, body)


def deposit(credit_token: str, credit_count: int | None = None) -> ApiCall[CreditDeposit]:
    """Return the call that moves credits from *credit_token* into the account.

    credit_count    the number of credits; None: all credits of the token
    """
    body = {"creditToken": credit_token} | _counted(credit_count)
    path = "/v1/account/credits/deposit"
    return call_of("POST", path, CreditDeposit, body, takes_key=True)


def withdraw(credit_count: int | None = None) -> ApiCall[CreditWithdrawal]:
    """Return the call that moves credits from the account to a new credit token.

    credit_count    the number of credits; None: all credits of the account
    """
    path = "/v1/account/credits/withdraw"
    body = _counted(credit_count)
    return call_of("POST", path, CreditWithdrawal, body, takes_key=True)


def wallets() -> ApiCall[LinkedWallets]:
    """Return the call for the wallets that are linked to the account."""
    return call_of("GET", "/v1/account/wallets", LinkedWallets)


def wallet_challenge(wallet: str) -> ApiCall[WalletChallenge]:
    """Return the call for the text that *wallet* signs to be linked to the account."""
    path = "/v1/account/wallets/challenge"
    return call_of("POST", path, WalletChallenge, {"wallet": wallet})


def link_wallet(wallet: str, challenge: str, signature: str) -> ApiCall[LinkedWallets]:
    """Return the call that links *wallet*; *signature* is its base58 signature of *challenge*."""
    body = {"wallet": wallet, "challenge": challenge, "signature": signature}
    return call_of("POST", "/v1/account/wallets", LinkedWallets, body)


def unlink_wallet(wallet: str) -> ApiCall[LinkedWallets]:
    """Return the call that unlinks *wallet* from the account."""
    return call_of("DELETE", f"/v1/account/wallets/{segment(wallet)}", LinkedWallets)


def payments() -> PagedCall[PaymentsPage, WalletPayment]:
    """Return the pages of the payments that the account's linked wallets made, newest first."""

    def call_at(cursor: str | None) -> ApiCall[PaymentsPage]:
        query = page_of(PAYMENTS_MAX, cursor)
        return call_of("GET", "/v1/account/payments", PaymentsPage, query=query)

    return PagedCall(call_at, lambda page: page.payments)


def _counted(credit_count: int | None) -> dict[str, Any]:
    return {} if credit_count is None else {"credits": credit_count}


class WatchlistLine(msgspec.Struct, frozen=True, rename="camel"):
    """A watchlist of the account, without its mints."""

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


def watchlists() -> ApiCall[WatchlistLines]:
    """Return the call for the watchlists of the account, without their mints."""
    return call_of("GET", "/v1/groups", WatchlistLines)


def make_watchlist(name: str) -> ApiCall[FilledWatchlist]:
    """Return the call that creates a watchlist with the name *name*."""
    return call_of("POST", "/v1/groups", FilledWatchlist, {"name": name}, takes_key=True)


def watchlist(group_id: int) -> ApiCall[FilledWatchlist]:
    """Return the call for a watchlist and its mints."""
    return call_of("GET", f"/v1/groups/{group_id}", FilledWatchlist)


def rename_watchlist(group_id: int, name: str) -> ApiCall[FilledWatchlist]:
    """Return the call that renames a watchlist."""
    return call_of("PATCH", f"/v1/groups/{group_id}", FilledWatchlist, {"name": name})


def delete_watchlist(group_id: int) -> ApiCall[WatchlistLines]:
    """Return the call that deletes a watchlist and returns the other watchlists."""
    return call_of("DELETE", f"/v1/groups/{group_id}", WatchlistLines)


def watch(group_id: int, mint: str) -> ApiCall[FilledWatchlist]:
    """Return the call that adds *mint* to a watchlist."""
    path = f"/v1/groups/{group_id}/mints/{segment(mint)}"
    return call_of("PUT", path, FilledWatchlist)


def unwatch(group_id: int, mint: str) -> ApiCall[FilledWatchlist]:
    """Return the call that removes *mint* from a watchlist."""
    path = f"/v1/groups/{group_id}/mints/{segment(mint)}"
    return call_of("DELETE", path, FilledWatchlist)
