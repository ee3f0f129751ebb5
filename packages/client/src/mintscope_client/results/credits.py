"""Credits: bundles for sale, purchases and balances."""

import msgspec


class PaymentToken(msgspec.Struct, frozen=True):
    """The token that bundles are paid in; *asset* is its mint."""

    asset: str
    name: str
    network: str
    decimals: int
    symbol: str


class BundleOffer(msgspec.Struct, frozen=True, rename="camel"):
    """One bundle: prices in atoms of the payment token, `price_usd` as exact text."""

    credits: int
    price: int
    price_per_credit: int
    discount: str
    price_usd: str


class BundlesIn(msgspec.Struct, frozen=True):
    """The same bundles, priced in another accepted token."""

    currency: PaymentToken
    bundles: list[BundleOffer]


class BundleList(msgspec.Struct, frozen=True):
    """The bundles for sale now; *also* has their prices in other accepted tokens."""

    bundles: list[BundleOffer]
    currency: PaymentToken
    also: list[BundlesIn] = []


class CreditPurchase(msgspec.Struct, frozen=True, rename="camel"):
    """The purchase of a bundle.

    price_paid    in atoms of the token that was paid with
    token         the credit token that holds it, like a password; None if an account does
    user_id       whose account that is: the one of the API key that was sent along
    """

    credits: int
    price_paid: int
    token: str | None = None
    user_id: int | None = None


class CreditBalance(msgspec.Struct, frozen=True):
    """Credits left."""

    balance: int


class CreditEntry(msgspec.Struct, frozen=True):
    """An entry of a balance, other than a spend; *at* in Unix seconds."""

    kind: str
    credits: int
    balance: int
    at: int


class DayOfUse(msgspec.Struct, frozen=True):
    """Credits that requests spent on one day (UTC); *day* is its start in Unix seconds."""

    day: int
    credits: int


class CreditHistory(msgspec.Struct, frozen=True):
    """The sources and uses of credits: the newest entries first, spends as one sum and by day."""

    balance: int
    spent: int
    entries: list[CreditEntry]
    days: list[DayOfUse] = []
