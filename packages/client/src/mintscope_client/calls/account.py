"""Calls of accounts: signing an agent up for a key, and the operations of that key."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, TypedDict, TypeVar
from urllib.parse import quote

import msgspec
from typing_extensions import Unpack

from mintscope_client.calls.call import ApiCall
from mintscope_client.calls.known import expect_known
from mintscope_client.calls.paged import PagedCall
from mintscope_client.results import account as results
from mintscope_client.results import signals as rules
from mintscope_client.results.receipts import DidDocument

Data = TypeVar("Data")
Scope: TypeAlias = Literal[
    "trade:read", "trade:write", "wallets:read", "wallets:write",
    "signals:read", "signals:write", "groups:read", "groups:write",
]  # fmt: skip
UserType: TypeAlias = Literal["trader", "provider", "both"]
SignalKind: TypeAlias = Literal["above", "below", "crosses", "crosses_field", "changes_by"]

EVENTS_MAX: Final = 100
PAYMENTS_MAX: Final = 100


class SignalParts(TypedDict, total=False):
    """The settings of a signal other than its name, mint, field and kind.

    level, margin       of above, below and crosses
    percent, window_s   of changes_by
    compared_with, direction   of crosses_field, beside margin: the other field; "up" or "down"
    fires               "once", "hourly" or "each", which is the default of the API
    message             a text of your own, in its e-mails and webhooks
    expires_at          when it ends, Unix seconds; None: never
    candles             "closed": evaluated as each minute ends
    least_confidence    "low", "medium" or "high": reports below it are not evaluated
    webhook_url         the URL that firings are sent to; None: no webhook
    email               whether firings are sent by e-mail
    telegram            whether firings are sent to the Telegram chat of the account
    """

    level: float
    margin: float
    percent: float
    window_s: int
    candles: Literal["all", "closed"]
    least_confidence: Literal["low", "medium", "high"]
    webhook_url: str | None
    email: bool
    telegram: bool
    fires: Literal["once", "hourly", "each"]
    compared_with: str
    direction: Literal["up", "down"] | None
    message: str
    expires_at: int | None


class SignalChanges(SignalParts, total=False):
    """Changes to a signal; fields that are not named stay as they are."""

    name: str
    is_active: bool


def sign_up(  # noqa: PLR0913 - the fields of an application
    email: str,
    motivation: str,
    *,
    user_type: UserType = "trader",
    scopes: Sequence[Scope] = (),
    telegram: str | None = None,
    twitter: str | None = None,
) -> ApiCall[results.SignedUp]:
    """Return the call that applies for an API key with *scopes* besides the read scopes."""
    fields = {"email": email, "motivation": motivation, "userType": user_type}
    optional = {"telegram": telegram, "twitter": twitter, "scopes": list(scopes) or None}
    body = fields | {name: value for name, value in optional.items() if value is not None}
    return _api("public/beta-signup", results.SignedUp, body, takes_key=True)


def confirm_email(email: str, secret: str, code: str) -> ApiCall[results.ConfirmedEmail]:
    """Return the call that confirms the mailbox of an application with the code sent to it."""
    body = {"email": email, "applicationSecret": secret, "code": code}
    return _api("auth/confirm-email", results.ConfirmedEmail, body)


def application_status(email: str, secret: str) -> ApiCall[results.ApplicationStanding]:
    """Return the call for the status of an application."""
    body = {"email": email, "applicationSecret": secret}
    return _api("auth/application-status", results.ApplicationStanding, body)


def exchange_secret(email: str, secret: str) -> ApiCall[results.ExchangedKey]:
    """Return the call that exchanges the secret of an approved application for its API key."""
    body = {"email": email, "applicationSecret": secret}
    return _api("auth/exchange-secret", results.ExchangedKey, body, takes_key=True)


def me() -> ApiCall[results.KeyOwner]:
    """Return the call for the owner and the scopes of the API key."""
    return _call("GET", "/v1/me", results.KeyOwner)


def rotate_key(overlap: Literal["1h", "24h", "7d"] = "1h") -> ApiCall[results.RotatedKey]:
    """Return the call that rotates this key; the old one ends after *overlap*."""
    body = {"overlap": overlap}
    return _call("POST", "/v1/me/key/rotate", results.RotatedKey, body, takes_key=True)


def revoke_key() -> ApiCall[results.RevokedKey]:
    """Return the call that revokes the key of this client at once."""
    return _call("DELETE", "/v1/me/key", results.RevokedKey)


def ask_for_scopes(scopes: Sequence[Scope], motivation: str = "") -> ApiCall[results.ScopesAsked]:
    """Return the call that asks the administrators for *scopes*."""
    body = {"scopes": list(scopes), "motivation": motivation}
    return _call("POST", "/v1/me/key/scopes", results.ScopesAsked, body)


def account() -> ApiCall[results.AccountHoldings]:
    """Return the call for the credits of the account, and the spending of each key."""
    return _call("GET", "/v1/account", results.AccountHoldings)


def cap_key(
    key_id: int,
    month_credits_max: int | None = None,
    networks: Sequence[str] | None = None,
) -> ApiCall[results.CappedKey]:
    """Return the call that tightens the limits of a key; None leaves one as it is.

    networks    addresses, or networks in CIDR notation, that the key is accepted from
    """
    body: dict[str, Any] = {}
    if month_credits_max is not None:
        body["monthCreditsMax"] = month_credits_max
    if networks is not None:
        body["networks"] = list(networks)
    return _call("PATCH", f"/v1/account/keys/{key_id}", results.CappedKey, body)


def deposit(credit_token: str, credit_count: int | None = None) -> ApiCall[results.CreditDeposit]:
    """Return the call that moves credits of *credit_token* into the account; None: all."""
    body = {"creditToken": credit_token} | _counted(credit_count)
    path = "/v1/account/credits/deposit"
    return _call("POST", path, results.CreditDeposit, body, takes_key=True)


def withdraw(credit_count: int | None = None) -> ApiCall[results.CreditWithdrawal]:
    """Return the call that moves credits of the account to a new credit token; None: all."""
    path = "/v1/account/credits/withdraw"
    body = _counted(credit_count)
    return _call("POST", path, results.CreditWithdrawal, body, takes_key=True)


def rotate_credits() -> ApiCall[results.RotatedCredits]:
    """Return the call that moves all credits of the credit token to a new one."""
    return _call("POST", "/v1/credits/rotate", results.RotatedCredits, takes_key=True)


def claim_challenge(purchase: str, wallet: str) -> ApiCall[results.WalletChallenge]:
    """Return the call for the text that *wallet* signs to claim the credits of *purchase*."""
    body = {"purchase": purchase, "wallet": wallet}
    return _call("POST", "/v1/credits/rotate/challenge", results.WalletChallenge, body)


def claim_credits(
    purchase: str, wallet: str, challenge: str, signature: str
) -> ApiCall[results.RotatedCredits]:
    """Return the call that moves the credits of *purchase* to a new token, by *signature*."""
    proof = {"challenge": challenge, "signature": signature}
    body = {"purchase": purchase, "wallet": wallet} | proof
    return _call("POST", "/v1/credits/rotate", results.RotatedCredits, body, takes_key=True)


def wallets() -> ApiCall[results.LinkedWallets]:
    """Return the call for the wallets of the account."""
    return _call("GET", "/v1/account/wallets", results.LinkedWallets)


def wallet_challenge(wallet: str) -> ApiCall[results.WalletChallenge]:
    """Return the call for the text that *wallet* signs to be linked."""
    path = "/v1/account/wallets/challenge"
    return _call("POST", path, results.WalletChallenge, {"wallet": wallet})


def link_wallet(wallet: str, challenge: str, signature: str) -> ApiCall[results.LinkedWallets]:
    """Return the call that links *wallet* by its *signature* of *challenge*, in base58."""
    body = {"wallet": wallet, "challenge": challenge, "signature": signature}
    return _call("POST", "/v1/account/wallets", results.LinkedWallets, body)


def unlink_wallet(wallet: str) -> ApiCall[results.LinkedWallets]:
    """Return the call that unlinks *wallet*."""
    return _call("DELETE", f"/v1/account/wallets/{_segment(wallet)}", results.LinkedWallets)


def payments() -> PagedCall[results.PaymentsPage, results.WalletPayment]:
    """Return the pages of payments of the linked wallets, newest first."""

    def call_at(cursor: str | None) -> ApiCall[results.PaymentsPage]:
        query = _page(PAYMENTS_MAX, cursor)
        return _call("GET", "/v1/account/payments", results.PaymentsPage, query=query)

    return PagedCall(call_at, lambda page: page.payments)


def watchlists() -> ApiCall[results.WatchlistLines]:
    """Return the call for the watchlists of the account, without their mints."""
    return _call("GET", "/v1/groups", results.WatchlistLines)


def make_watchlist(name: str) -> ApiCall[results.FilledWatchlist]:
    """Return the call that creates a watchlist."""
    return _call("POST", "/v1/groups", results.FilledWatchlist, {"name": name}, takes_key=True)


def watchlist(group_id: int) -> ApiCall[results.FilledWatchlist]:
    """Return the call for a watchlist and its mints."""
    return _call("GET", f"/v1/groups/{group_id}", results.FilledWatchlist)


def rename_watchlist(group_id: int, name: str) -> ApiCall[results.FilledWatchlist]:
    """Return the call that renames a watchlist."""
    return _call("PATCH", f"/v1/groups/{group_id}", results.FilledWatchlist, {"name": name})


def delete_watchlist(group_id: int) -> ApiCall[results.WatchlistLines]:
    """Return the call that deletes a watchlist and returns the others."""
    return _call("DELETE", f"/v1/groups/{group_id}", results.WatchlistLines)


def watch(group_id: int, mint: str) -> ApiCall[results.FilledWatchlist]:
    """Return the call that adds *mint* to a watchlist."""
    path = f"/v1/groups/{group_id}/mints/{_segment(mint)}"
    return _call("PUT", path, results.FilledWatchlist)


def unwatch(group_id: int, mint: str) -> ApiCall[results.FilledWatchlist]:
    """Return the call that removes *mint* from a watchlist."""
    path = f"/v1/groups/{group_id}/mints/{_segment(mint)}"
    return _call("DELETE", path, results.FilledWatchlist)


def signals() -> ApiCall[rules.SignalRules]:
    """Return the call for the signals of the account."""
    return _call("GET", "/v1/signals", rules.SignalRules)


def make_signal(
    name: str, mint: str, field: str, kind: SignalKind, **parts: Unpack[SignalParts]
) -> ApiCall[rules.MadeSignal]:
    """Return the call that creates a signal over *field* of the reports of *mint*."""
    expect_known(parts, SignalParts)
    body = {"name": name, "mint": mint, "field": field, "kind": kind} | _camel(parts)
    return _call("POST", "/v1/signals", rules.MadeSignal, body, takes_key=True)


def make_signal_of(
    name: str, mint: str, where: str, **parts: Unpack[SignalParts]
) -> ApiCall[rules.MadeSignal]:
    """Return the call that creates a signal on a condition, in the syntax of screens.

    where    one comparison of a report's numbers, or a crossing: "crosses_below(rsi_h1, 30)"
    """
    expect_known(parts, SignalParts)
    body = {"name": name, "mint": mint, "kind": "condition", "where": where} | _camel(parts)
    return _call("POST", "/v1/signals", rules.MadeSignal, body, takes_key=True)


def signal(signal_id: int) -> ApiCall[rules.SignalRule]:
    """Return the call for a signal."""
    return _call("GET", f"/v1/signals/{signal_id}", rules.SignalRule)


def change_signal(signal_id: int, **changes: Unpack[SignalChanges]) -> ApiCall[rules.SignalRule]:
    """Return the call that changes a signal."""
    expect_known(changes, SignalChanges)
    return _call("PATCH", f"/v1/signals/{signal_id}", rules.SignalRule, _camel(changes))


def delete_signal(signal_id: int) -> ApiCall[rules.SignalRules]:
    """Return the call that deletes a signal and returns the others."""
    return _call("DELETE", f"/v1/signals/{signal_id}", rules.SignalRules)


def signal_events(signal_id: int) -> PagedCall[rules.SignalEventsPage, rules.SignalEvent]:
    """Return the pages of the firings of a signal, newest first."""

    def call_at(cursor: str | None) -> ApiCall[rules.SignalEventsPage]:
        path = f"/v1/signals/{signal_id}/events"
        return _call("GET", path, rules.SignalEventsPage, query=_page(EVENTS_MAX, cursor))

    return PagedCall(call_at, lambda page: page.events)


def renew_signal_secret(signal_id: int) -> ApiCall[rules.MadeSignal]:
    """Return the call that rotates the webhook secret; both secrets sign for 24 hours."""
    return _call("POST", f"/v1/signals/{signal_id}/secret", rules.MadeSignal)


def test_signal(signal_id: int) -> ApiCall[rules.SignalEvent]:
    """Return the call that sends a test notification of a signal."""
    return _call("POST", f"/v1/signals/{signal_id}/test", rules.SignalEvent)


def receipt_keys() -> ApiCall[DidDocument]:
    """Return the call that asks for the keys of receipts, which `check_receipt` takes."""
    return ApiCall(
        name="did.json",
        method="GET",
        path="/.well-known/did.json",
        kind=DidDocument,
        is_enveloped=False,
    )


def _call(  # noqa: PLR0913 - the parts of a call
    method: str,
    path: str,
    kind: type[Data],
    body: Mapping[str, Any] | None = None,
    *,
    query: tuple[tuple[str, str], ...] = (),
    takes_key: bool = False,
) -> ApiCall[Data]:
    return ApiCall(
        name=f"{method} {path}",
        method=method,
        path=path,
        kind=kind,
        query=query,
        body=b"" if body is None else msgspec.json.encode(body),
        takes_key=takes_key,
    )


def _api(
    path: str, kind: type[Data], body: Mapping[str, Any], *, takes_key: bool = False
) -> ApiCall[Data]:
    """Return a call under /api, whose answers have no envelope and need no credential."""
    return ApiCall(
        name=path,
        method="POST",
        path=f"/api/{path}",
        kind=kind,
        body=msgspec.json.encode(body),
        takes_key=takes_key,
        is_enveloped=False,
    )


def _counted(credit_count: int | None) -> dict[str, Any]:
    return {} if credit_count is None else {"credits": credit_count}


def _camel(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return *fields* with the names that the API uses."""
    return {_camel_name(name): value for name, value in fields.items()}


def _camel_name(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def _page(limit: int, cursor: str | None) -> tuple[tuple[str, str], ...]:
    at = () if cursor is None else (("cursor", cursor),)
    return (("limit", str(limit)), *at)


def _segment(text: str) -> str:
    return quote(text, safe="")
