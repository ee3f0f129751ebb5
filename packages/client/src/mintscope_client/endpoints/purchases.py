"""Credits: bundles for sale, purchases, balances, and moves of credits to a new credit token."""

import msgspec

from mintscope_client.calls.call import ApiCall
from mintscope_client.calls.requests import call_of, query_of


class WalletChallenge(msgspec.Struct, frozen=True, rename="camel"):
    """A text to sign with a wallet, as proof that the signer owns the wallet."""

    challenge: str
    expires_at: int


class PaymentToken(msgspec.Struct, frozen=True):
    """The token with which credits are bought; *asset* is its mint."""

    asset: str
    name: str
    network: str
    decimals: int
    symbol: str


class BundleOffer(msgspec.Struct, frozen=True, rename="camel"):
    """A bundle for sale: prices are in atoms of the payment token, and `price_usd` in dollars."""

    credits: int
    price: int
    price_per_credit: int
    discount: str
    price_usd: str


class BundlesIn(msgspec.Struct, frozen=True):
    """The prices of all bundles in one of the other tokens that the service accepts."""

    currency: PaymentToken
    bundles: list[BundleOffer]


class BundleList(msgspec.Struct, frozen=True):
    """The bundles that are for sale now; *also* has their prices in other accepted tokens."""

    bundles: list[BundleOffer]
    currency: PaymentToken
    also: list[BundlesIn] = []


class CreditPurchase(msgspec.Struct, frozen=True, rename="camel"):
    """The answer to the purchase of a bundle of credits.

    price_paid    the price that was paid, in atoms of the payment token
    token         the credit token with the credits, to be stored like a password; None if an
                  account has them
    user_id       the user of the API key in the request, whose account has the credits; None if a
                  token has them
    """

    credits: int
    price_paid: int
    token: str | None = None
    user_id: int | None = None


class CreditBalance(msgspec.Struct, frozen=True):
    """The number of credits left on the credential."""

    balance: int


class CreditEntry(msgspec.Struct, frozen=True):
    """A change of a credit balance other than a spend; *at* is its time in Unix seconds."""

    kind: str
    credits: int
    balance: int
    at: int


class DayOfUse(msgspec.Struct, frozen=True):
    """The credits that requests spent on one day (UTC); *day* is its start in Unix seconds."""

    day: int
    credits: int


class CreditHistory(msgspec.Struct, frozen=True):
    """The balance of a credential and its history.

    spent      the number of credits spent in all
    entries    the newest changes of the balance other than spends, newest first
    days       the number of credits spent on each of the newest 30 days with spends
    """

    balance: int
    spent: int
    entries: list[CreditEntry]
    days: list[DayOfUse] = []


class RotatedCredits(msgspec.Struct, frozen=True):
    """The new credit token to which credits were moved; store *token* like a password."""

    token: str
    credits: int


def bundles() -> ApiCall[BundleList]:
    """Return the call for the bundles for sale and their current prices.  Free."""
    return ApiCall(name="bundles", method="GET", path="/v1/credits/bundles", kind=BundleList)


def balance() -> ApiCall[CreditBalance]:
    """Return the call for the credits left on the credential.  Free."""
    return ApiCall(name="balance", method="GET", path="/v1/credits/balance", kind=CreditBalance)


def history() -> ApiCall[CreditHistory]:
    """Return the call for a credential's balance, and the history of its changes.  Free."""
    return ApiCall(name="history", method="GET", path="/v1/credits/history", kind=CreditHistory)


def purchase(credit_count: int) -> ApiCall[CreditPurchase]:
    """Return the call that buys the bundle of *credit_count* credits."""
    return ApiCall(
        name="purchase",
        method="POST",
        path="/v1/credits/purchase",
        kind=CreditPurchase,
        query=query_of({"bundle": credit_count}),
        is_purchase=True,
    )


def rotate_credits() -> ApiCall[RotatedCredits]:
    """Return the call that moves all credits of the credit token to a new one."""
    return call_of("POST", "/v1/credits/rotate", RotatedCredits, takes_key=True)


def claim_challenge(purchase: str, wallet: str) -> ApiCall[WalletChallenge]:
    """Return the call for the text that *wallet* signs to claim the credits of *purchase*."""
    body = {"purchase": purchase, "wallet": wallet}
    return call_of("POST", "/v1/credits/rotate/challenge", WalletChallenge, body)


def claim_credits(
    purchase: str, wallet: str, challenge: str, signature: str
) -> ApiCall[RotatedCredits]:
    """Return the call that moves the credits of *purchase* to a new credit token.

    signature    the signature of *challenge* by *wallet*, in base58
    """
    proof = {"challenge": challenge, "signature": signature}
    body = {"purchase": purchase, "wallet": wallet} | proof
    return call_of("POST", "/v1/credits/rotate", RotatedCredits, body, takes_key=True)
