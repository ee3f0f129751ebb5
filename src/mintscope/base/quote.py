"""USD in, atoms out: the only crossing between a price and an amount."""

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from mintscope.base.primitives import UnixMs


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """What one whole token costs, and when that was so.

    usd       USD per whole token, finite and > 0
    """

    usd: Decimal
    observed_at: UnixMs

    def __post_init__(self) -> None:
        if not (self.usd.is_finite() and self.usd > 0):
            raise ValueError(f"expected a price that is finite and above 0; was {self.usd}")


def atoms_for_usd(usd: Decimal, quote: Quote, *, decimals: int) -> int:
    """Return the fewest atoms of a token with *decimals* that are worth at least *usd* (>= 0).

    Exact: the quotient is a fraction of integers, rounded up once.
    """
    atoms_per_token: int = 10**decimals
    exact = Fraction(usd) * atoms_per_token / Fraction(quote.usd)
    return -(-exact.numerator // exact.denominator)
