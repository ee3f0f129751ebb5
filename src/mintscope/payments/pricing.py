"""Price of the payment token, and the products that are sold.

The token's market may be thin, and a trader that moves it moves our prices.  So a price
needs liquidity on both sides, recent trades, two averages that agree, balanced pools, and
no jump.  Trades in pools that traders open to trade with themselves set no price (see
`market.standing`).  Of the two averages the lower one counts, so that lifting the
market for a moment never makes credits cheap.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Final

import msgspec

from mintscope.kit.errors import InvalidBundle
from mintscope.kit.primitives import UnixMs, UnixS
from mintscope.kit.time import DAY_S, MINUTE_MS, MINUTE_S
from mintscope.solana.blocks import LAMPORTS_PER_SOL

VWAP_MINUTES: Final = 5
TWAP_MINUTES: Final = 30
DISAGREEMENT_MAX: Final = 0.05
CHANGE_PER_MINUTE_MAX: Final = 0.30
MINUTES_MAX: Final = 1e6  # after two years any change is allowed; Decimal limits the exponent
SIDE_USD_MIN: Final = 1_000.0
SIDES_RATIO_MAX: Final = 2.0
TRADE_AGE_S_MAX: Final = DAY_S
LAG_S_MAX: Final = 60.0
FEED_AGE_MS_MAX: Final = MINUTE_MS
# USD per whole token: a price outside these limits is refused, and no exact computation uses it.
USD_MIN: Final = Decimal("1e-30")
USD_MAX: Final = Decimal("1e30")
MICRO: Final = 10**6  # micro-USD in a dollar
WORTH_MAX: Final = 10**15  # micro-USD: the sum of thousands of payments fits in 64 bits
FEED_AHEAD_MS_MAX: Final = 5_000

SKEW_S_MAX: Final = 5.0
# The newest block always seems late: its time is a median of the validators, rounded down to a
# second; the block is confirmed a second later; and the answer takes time.
BLOCK_LATE_S_MAX: Final = 5.0


SNAPSHOT_S: Final = 60.0


class Quote(msgspec.Struct, frozen=True, kw_only=True):
    """The price of one whole token in USD, finite and > 0, and the time of the price.

    lasts_s   how long sales may use the price, in seconds
    """

    usd: Decimal
    observed_at: UnixMs
    lasts_s: float = SNAPSHOT_S

    def __post_init__(self) -> None:
        if not (self.usd.is_finite() and self.usd > 0):
            raise ValueError(f"expected a price that is finite and above 0; was {self.usd}")


class Doubt(StrEnum):
    """The reason why there is no price, for the operator and for a metric."""

    NO_ANSWER = "the source does not answer"
    BROKEN = "a bug, or an unforeseen answer"
    LAGGING = "market data is more than 60 s behind"
    NO_TRADE = "no trade within 24 h"
    SHALLOW = "less than 1,000 USD on one side of its pools"
    LOPSIDED = "its pools hold more than twice as much of one side as of the other at its price"
    DISAGREEMENT = "the averages of 5 and 30 minutes differ by more than 5 %"
    JUMP = "it moved by more than 30 % in a minute"
    STALE_FEED = "the feed's price is more than 60 s old, or dated ahead"
    NOT_A_PRICE = "the source's figure is not a price"
    TOO_LOW = "a bundle would cost more atoms than a payment can carry"
    CLOCK = "this machine's clock and the chain's are too far apart"
    OTHER_CHAIN = "payments settle on another chain than the one that is followed"
    UNUSABLE = "the payment token or the treasury cannot be used, or could not be checked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Minute:
    """A minute with trades of the token: the parts of its candle that a price needs.

    close       the last price, in USD per whole token, finite and > 0
    volume      the value of its trades, in micro-USD
    """

    start: UnixS
    close: float
    volume: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenMarket:
    """The payment token's own market at one moment.

    minutes        minutes with trades, oldest first: those since TWAP_MINUTES ago, and at least one
                   before them if there was any
    base_usd       the value of the token in all its pools, in USD
    quote_usd      the value of the other side of its pools, in USD
    lag_s          how far the market data lags behind the chain, in seconds
    """

    minutes: Sequence[Minute]
    base_usd: float
    quote_usd: float
    lag_s: float


def price_of_market(market: TokenMarket, now: UnixMs) -> Quote | Doubt:
    """Return the lower one of two average prices, or the reason to doubt the price."""
    now_s = UnixS(now // 1000)
    # Written so that a NaN becomes a doubt, too.
    if not market.lag_s <= LAG_S_MAX:
        return Doubt.LAGGING
    if not market.minutes or now_s - market.minutes[-1].start > TRADE_AGE_S_MAX:
        return Doubt.NO_TRADE
    if not all(side >= SIDE_USD_MIN for side in (market.base_usd, market.quote_usd)):
        return Doubt.SHALLOW
    recent = vwap(market.minutes, now_s)
    long = twap(market.minutes, now_s)
    if not abs(recent - long) <= DISAGREEMENT_MAX * long:
        return Doubt.DISAGREEMENT
    if not _is_even(market, min(recent, long)):
        return Doubt.LOPSIDED
    # `repr` is the shortest text of the float; Decimal of the float has some fifty digits.
    return _quote(Decimal(repr(min(recent, long))), now)


def price_of_feed(usd: Decimal, observed_at: UnixMs, *, now: UnixMs) -> Quote | Doubt:
    """Return the feed's price, or the reason to doubt this price.

    A price is in doubt if it is more than FEED_AGE_MS_MAX old or FEED_AHEAD_MS_MAX ahead of *now*,
    below USD_MIN, above USD_MAX, or not finite.

    usd    the price of a whole token
    """
    if not -FEED_AHEAD_MS_MAX <= now - observed_at <= FEED_AGE_MS_MAX:
        return Doubt.STALE_FEED
    return _quote(usd, observed_at)


def is_jump(quote: Quote, previous: Quote) -> bool:
    """Return whether the price changed by a factor of over 1 + CHANGE_PER_MINUTE_MAX a minute.

    The factor is compounded over the minutes, and a fall counts like a rise.  Less than a minute
    between *previous* and *quote* counts as one minute.
    """
    minutes = max(1.0, (quote.observed_at - previous.observed_at) / (1000 * MINUTE_S))
    minutes = min(minutes, MINUTES_MAX)
    factor = Decimal(1 + CHANGE_PER_MINUTE_MAX) ** Decimal(minutes)
    return not previous.usd / factor <= quote.usd <= previous.usd * factor


def vwap(minutes: Sequence[Minute], now: UnixS) -> float:
    """Return the volume-weighted price of the last VWAP_MINUTES; without volume, the last price."""
    recent = [each for each in minutes if each.start > now - VWAP_MINUTES * MINUTE_S]
    tokens = sum(each.volume / each.close for each in recent)
    return sum(each.volume for each in recent) / tokens if tokens else minutes[-1].close


def twap(minutes: Sequence[Minute], now: UnixS) -> float:
    """Return the time-weighted mean price of the last TWAP_MINUTES, from the closes of minutes.

    Each close counts from the start of its minute to the start of the next minute with trades.  If
    the first of *minutes* is younger than TWAP_MINUTES, the mean begins there.
    """
    total = 0.0
    weight = 0
    until = int(now)
    horizon = now - TWAP_MINUTES * MINUTE_S
    for minute in reversed(minutes):
        since = max(int(minute.start), horizon)
        held_s = max(0, until - since)
        total = total + minute.close * held_s
        weight = weight + held_s
        until = since
        if since == horizon:
            break
    return total / weight if weight else minutes[-1].close


def _is_even(market: TokenMarket, price: float) -> bool:
    """Return whether the two sides of the pools, at *price*, have about the same value.

    The greater one is at most SIDES_RATIO_MAX times the other.
    """
    # The value is at the last close, which one trade can move: compare at *price* instead.
    base_usd = market.base_usd / market.minutes[-1].close * price
    low, high = sorted((base_usd, market.quote_usd))
    return high <= SIDES_RATIO_MAX * low


def _quote(usd: Decimal, observed_at: UnixMs) -> Quote | Doubt:
    if not (usd.is_finite() and USD_MIN <= usd <= USD_MAX):
        return Doubt.NOT_A_PRICE
    return Quote(usd=usd, observed_at=observed_at)


def is_clock_right(skew_s: float) -> bool:
    """Return whether a clock that is *skew_s* ahead of the newest block's time may be right."""
    return -SKEW_S_MAX <= skew_s <= SKEW_S_MAX + BLOCK_LATE_S_MAX


REQUEST_USD: Final = Decimal("0.0025")
FEE_SHARE_MAX: Final = Decimal(1)  # above 1 a request costs us more than it earns
BUNDLE_SHOWN_MAX: Final = 20


class Bundle(msgspec.Struct, frozen=True, kw_only=True):
    """A number of credits that are sold together, at a discount of *discount_percent* (0: none)."""

    credits: int
    discount_percent: int

    @property
    def usd_per_credit(self) -> Decimal:
        """The discounted price of one credit, exact."""
        return REQUEST_USD * (100 - self.discount_percent) / 100

    @property
    def usd(self) -> Decimal:
        """The total price of the bundle, exact."""
        return self.usd_per_credit * self.credits


BUNDLES: Final = (
    Bundle(credits=10, discount_percent=0),
    Bundle(credits=50, discount_percent=10),
    Bundle(credits=100, discount_percent=20),
    Bundle(credits=500, discount_percent=40),
)


def parse_bundle(text: str | None) -> Bundle:
    """Return the bundle whose number of credits is *text*, in decimal digits.

    Raises    InvalidBundle if there is no such bundle, or if *text* is None
    """
    for bundle in BUNDLES:
        if text == str(bundle.credits):
            return bundle
    *sizes, largest = [str(bundle.credits) for bundle in BUNDLES]
    was = "it is missing" if text is None else f"was {text[:BUNDLE_SHOWN_MAX]!r}"
    raise InvalidBundle(f"expected a bundle of {', '.join(sizes)} or {largest} credits; {was}")


class BundlePrice(msgspec.Struct, frozen=True, kw_only=True):
    """The price of a bundle of credits in atoms, at one market price of the token.

    price    *per_credit* times the number of credits
    """

    per_credit: int
    price: int


def atoms_for_usd(usd: Decimal, quote: Quote, *, decimals: int) -> int:
    """Return the fewest atoms that are worth at least *usd* (>= 0) at *quote*.

    decimals    the number of decimal places of the token
    """
    atoms_per_token: int = 10**decimals
    exact = Fraction(usd) * atoms_per_token / Fraction(quote.usd)
    return -(-exact.numerator // exact.denominator)


def worth_of_atoms(atoms: int, quote: Quote, *, decimals: int) -> int:
    """Return the value of *atoms* (>= 0) at *quote*, in micro-USD.

    The exact product is rounded half up once; if the result is above WORTH_MAX, return WORTH_MAX.

    decimals    the number of decimal places of the token
    """
    worth = Fraction(atoms) * Fraction(quote.usd) * MICRO / 10**decimals
    return min(int(worth + Fraction(1, 2)), WORTH_MAX)


class PriceList(msgspec.Struct, frozen=True, kw_only=True):
    """All prices at one quote, so that the price list and each payment requirement agree.

    sol_usd          the price of SOL, to value network fees; None if it is unknown
    fee_share_max    the greatest share of a request's price that its network fee may cost
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
        """The highest network fee for the payment of one request, in lamports; None: any fee."""
        if self.sol_usd is None:
            return None
        return int(REQUEST_USD * self.fee_share_max * LAMPORTS_PER_SOL / self.sol_usd)

    def price(self, bundle: Bundle) -> BundlePrice:
        """Return the price of *bundle*: the price per credit, rounded up, times the credits."""
        per_credit = atoms_for_usd(bundle.usd_per_credit, self.quote, decimals=self.decimals)
        return BundlePrice(per_credit=per_credit, price=per_credit * bundle.credits)
