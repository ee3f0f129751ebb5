"""Payments as customers and administrators see them: lists, a search, and daily income."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Final, NamedTuple

from mintscope.kit.primitives import Mint, Signature, UnixMs, Wallet
from mintscope.payments.pricing import BUNDLES, MICRO, REQUEST_USD

BUNDLE_USD: Final[Mapping[int, Decimal]] = {each.credits: each.usd for each in BUNDLES}
Place = tuple[UnixMs, Signature]


class Coin(NamedTuple):
    """The name of an asset, and the decimals of one whole token."""

    symbol: str
    decimals: int


class Assets(NamedTuple):
    """The accepted tokens.

    own      of payments that were begun before two tokens were accepted at once
    others   by their mints, *own* among them
    """

    own: Coin
    others: Mapping[Mint, Coin]

    def coin(self, asset: Mint | None) -> Coin | None:
        """Return the token *asset*, or None if it is no longer accepted."""
        return self.own if asset is None else self.others.get(asset)

    def amount(self, atoms: int, asset: Mint | None) -> str:
        """Return *atoms* in whole tokens: 1.25 USDC."""
        coin = self.coin(asset)
        if coin is None:
            return f"{atoms:,} atoms of {asset}"
        whole, rest = divmod(atoms, 10**coin.decimals)
        digits = f"{rest:0{coin.decimals}d}".rstrip("0") if coin.decimals else ""
        return f"{whole:,}.{digits} {coin.symbol}" if digits else f"{whole:,} {coin.symbol}"

    def symbol(self, asset: Mint | None) -> str:
        """Return the symbol of *asset*."""
        coin = self.coin(asset)
        return coin.symbol if coin is not None else str(asset)


NO_ASSETS: Final = Assets(Coin("", 0), {})


class Takings(NamedTuple):
    """The sum paid on one day in one asset for one bundle.

    day       since 1970-01-01, UTC
    credits   of the bundle; 0: answers that were paid one by one
    paid      atoms of *asset* that arrived
    valued    payments of which the worth is known
    worth     their sum in micro-USD, at the price of the asset when each began
    """

    day: int
    asset: Mint | None
    credits: int
    payments: int
    paid: int
    valued: int = 0
    worth: int = 0

    @property
    def usd(self) -> Decimal:
        """The total worth in USD when it was paid."""
        return sum_usd(self.credits, self.payments - self.valued, self.worth)


class WalletSum(NamedTuple):
    """The sum that one wallet has paid in one asset for one bundle; fields are as in Takings.

    last_at    the beginning of the newest payment
    """

    wallet: Wallet
    asset: Mint | None
    credits: int
    payments: int
    paid: int
    valued: int
    worth: int
    last_at: UnixMs

    @property
    def usd(self) -> Decimal:
        """The total worth in USD when it was paid."""
        return sum_usd(self.credits, self.payments - self.valued, self.worth)


def sum_usd(credit_count: int, unvalued: int, worth: int) -> Decimal:
    """Return micro-USD *worth* as USD, plus the list price of payments without a known worth.

    credit_count    that each payment bought
    unvalued        payments without a known worth
    """
    return price_usd(credit_count) * unvalued + Decimal(worth) / MICRO


def worth_usd(credit_count: int, worth: int | None) -> Decimal:
    """Return the worth of one payment in USD; the list price if *worth*, in micro-USD, is None."""
    return sum_usd(credit_count, 1, 0) if worth is None else sum_usd(credit_count, 0, worth)


def price_usd(credit_count: int) -> Decimal:
    """Return the price of *credit_count* credits in US dollars; 0 means one answer."""
    if credit_count == 0:
        return REQUEST_USD
    return BUNDLE_USD.get(credit_count, REQUEST_USD * credit_count)


def usd_words(usd: Decimal) -> str:
    """Return *usd* as text: $1,234.50; below one dollar, with fractions of a cent."""
    if usd == 0 or usd >= 1:
        return f"${usd:,.2f}"
    digits = f"{usd:f}".rstrip("0").partition(".")[2]
    return f"$0.{digits.ljust(2, '0')}"
