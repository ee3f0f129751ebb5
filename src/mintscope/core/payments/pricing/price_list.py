"""The products and their prices: in USD here, in atoms at one quote."""

from decimal import Decimal
from fractions import Fraction
from typing import Final

import msgspec

from mintscope.base.errors import InvalidBundle
from mintscope.base.solana import LAMPORTS_PER_SOL
from mintscope.core.payments.pricing.price import Quote

REQUEST_USD: Final = Decimal("0.0025")
FEE_SHARE_MAX: Final = Decimal(1)  # beyond it a request costs us more than it brings
BUNDLE_SHOWN_MAX: Final = 20


class Bundle(msgspec.Struct, frozen=True, kw_only=True):
    """So many credits, so much cheaper than one by one."""

    credits: int
    discount_percent: int

    @property
    def usd_per_credit(self) -> Decimal:
        """The discounted price, exact."""
        return REQUEST_USD * (100 - self.discount_percent) / 100

    @property
    def usd(self) -> Decimal:
        """The price of them all, exact."""
        return self.usd_per_credit * self.credits


BUNDLES: Final = (
    Bundle(credits=10, discount_percent=0),
    Bundle(credits=50, discount_percent=10),
    Bundle(credits=100, discount_percent=20),
    Bundle(credits=500, discount_percent=40),
)


def parse_bundle(text: str | None) -> Bundle:
    """Return the bundle that *text*, a number in plain decimal digits, names.

    Raises    InvalidBundle
    """
    for bundle in BUNDLES:
        if text == str(bundle.credits):
            return bundle
    sizes = ", ".join(str(bundle.credits) for bundle in BUNDLES)
    shown = "missing" if text is None else repr(text[:BUNDLE_SHOWN_MAX])
    raise InvalidBundle(f"expected a bundle of {sizes} credits; was {shown}")


class BundlePrice(msgspec.Struct, frozen=True, kw_only=True):
    """A bundle at one quote; both figures in atoms, their quotient is the bundle's size."""

    per_credit: int
    price: int


def atoms_for_usd(usd: Decimal, quote: Quote, *, decimals: int) -> int:
    """Return the fewest atoms of a token with *decimals* that are worth at least *usd* (>= 0).

    Exact: the quotient is a fraction of integers, rounded up once.
    """
    atoms_per_token: int = 10**decimals
    exact = Fraction(usd) * atoms_per_token / Fraction(quote.usd)
    return -(-exact.numerator // exact.denominator)


class PriceList(msgspec.Struct, frozen=True, kw_only=True):
    """Every price at one quote, so that the list and the demand for payment agree.

    sol_usd          what network fees are counted at; None where it is unknown
    fee_share_max    of a request's price that the network fee of its payment may eat
    """

    quote: Quote
    decimals: int
    sol_usd: Decimal | None = None
    fee_share_max: Decimal = FEE_SHARE_MAX

    @property
    def request(self) -> int:
        """The price of one request, in atoms."""
        return atoms_for_usd(REQUEST_USD, self.quote, decimals=self.decimals)

    @property
    def request_fee_lamports_max(self) -> int | None:
        """The most that landing the payment of one request may cost us; None for any fee."""
        if self.sol_usd is None:
            return None
        return int(REQUEST_USD * self.fee_share_max * LAMPORTS_PER_SOL / self.sol_usd)

    def price(self, bundle: Bundle) -> BundlePrice:
        """Price *bundle*: rounded up once, per credit, so that the total is a multiple."""
        per_credit = atoms_for_usd(bundle.usd_per_credit, self.quote, decimals=self.decimals)
        return BundlePrice(per_credit=per_credit, price=per_credit * bundle.credits)
