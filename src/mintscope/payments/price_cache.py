"""Caches the price of each accepted token for a minute, and reads the market of a token."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from decimal import Decimal
from statistics import median
from typing import Final, Protocol

import msgspec

from mintscope.kit.clock import Clock
from mintscope.kit.errors import PriceUnavailable
from mintscope.kit.primitives import Mint, UnixMs, UnixS
from mintscope.market.log import LoadedMint
from mintscope.market.timeframe import Timeframe, bucket
from mintscope.payments.pricing import (
    BUNDLES,
    FEE_SHARE_MAX,
    SNAPSHOT_S,
    TWAP_MINUTES,
    Doubt,
    Minute,
    PriceList,
    Quote,
    TokenMarket,
    is_jump,
)
from mintscope.payments.protocol.envelope import AMOUNT_MAX
from mintscope.solana.blocks import DOLLARS, LAMPORTS_PER_SOL, WSOL

RETRY_S: Final = 5.0  # seconds until a source that had no price is read again
# Nothing is sold at an older price.  Reading the next price takes less than 15 s, unless several
# requests of one reading time out.
QUOTE_S_MAX: Final = SNAPSHOT_S + 15.0
STEP_S_MAX: Final = 5.0  # if the wall clock steps further, the price is read again at once

NO_PRICE: Final = (
    "The payment token has no reliable price right now; nothing was charged. Credit tokens keep"
    " working."
)
NO_CLOCK: Final = (
    "This service's clock and the chain's are too far apart, so no payment is asked for until they"
    " agree again; nothing was charged. Credit tokens keep working."
)
TOO_LOW: Final = (
    "The payment token is worth too little right now: a bundle would cost more atoms than a payment"
    " can carry. Nothing was charged. Credit tokens keep working."
)
REASONS: Final[Mapping[Doubt | None, str]] = {Doubt.CLOCK: NO_CLOCK, Doubt.TOO_LOW: TOO_LOW}


class PriceSource(Protocol):
    """A source of the current price of an accepted token."""

    async def read(self, now: UnixMs) -> Quote | Doubt:
        """Return the price, or the reason why it is unknown.

        Implementations limit their own time, so the caller needs no timeout.
        """


class SolSource(Protocol):
    """A source of the current price of SOL, in USD."""

    async def read(self, now: UnixMs) -> Decimal | None:
        """Return the price, or None if it is not known.

        Implementations limit their own time, so the caller needs no timeout.
        """


@dataclass(frozen=True)
class PinnedPrice:
    """A price fixed by the operator, for a stablecoin or a devchain's token."""

    usd: Decimal

    async def read(self, now: UnixMs) -> Quote | Doubt:
        """Return the configured price, which does not depend on *now*."""
        return Quote(usd=self.usd, observed_at=now)


@dataclass(eq=False, repr=False)
class PriceCache:
    """Caches the price for a minute, so that the price list and all requirements agree.

    While the source is being read, other requests use the last price, unless it is too old.  If the
    reading takes longer than RETRY_S, the next request reads the source, too.  If a reading ends
    after a reading that began later, its result is ignored.
    """

    source: PriceSource
    _: KW_ONLY
    decimals: int
    clock: Clock
    sol: SolSource | None = None  # None: network fees are not compared with prices
    fee_share_max: Decimal = FEE_SHARE_MAX
    doubt: Doubt | None = field(default=Doubt.NO_ANSWER, init=False)

    def __post_init__(self) -> None:
        self._price_list: PriceList | None = None  # the current prices
        self._previous: Quote | None = None  # the quote of the last price list
        self._read_at_s = 0.0
        self._read_again_s = 0.0
        self._ahead_s = self._wall_ahead_s()
        self._begun = 0  # the number of readings that have begun
        self._newest = 0  # the number of the newest reading that has ended

    async def price_list(self) -> PriceList:
        """Return the prices of this minute.  Raises PriceUnavailable if no price is known."""
        now_s = self.clock.monotonic_s()
        if now_s >= self._read_again_s or self._has_stepped():
            self._read_again_s = now_s + RETRY_S  # until then no other request reads the source
            self._ahead_s = self._wall_ahead_s()
            await self._read()
        price_list = self.latest()
        if price_list is None:
            raise PriceUnavailable(REASONS.get(self.doubt, NO_PRICE))
        return price_list

    def latest(self) -> PriceList | None:
        """Return the last prices that were read; None if no price is known, or they are too old."""
        age_s = self.clock.monotonic_s() - self._read_at_s
        return self._price_list if age_s < QUOTE_S_MAX else None

    def distrust(self) -> None:
        """Discard the prices, so that the next request reads the source again."""
        self._price_list = None
        self._read_again_s = 0.0

    async def _read(self) -> None:
        now = self.clock.now()
        self._begun += 1
        number = self._begun
        try:
            found = await self.source.read(now)
            sol_usd = await self.sol.read(now) if self.sol is not None else None
        except Exception:  # noqa: BLE001  whatever breaks a source, it is no reason to sell
            found = Doubt.BROKEN
            sol_usd = None
        if number < self._newest:
            return
        self._newest = number
        if isinstance(found, Quote) and self._previous and is_jump(found, self._previous):
            found = Doubt.JUMP
        if isinstance(found, Doubt):
            # `_previous` stays: the next quote is compared with the last one that was used.
            self._price_list = None
            self.doubt = found
            return
        price_list = PriceList(
            quote=found, decimals=self.decimals, sol_usd=sol_usd, fee_share_max=self.fee_share_max
        )
        if any(price_list.price(bundle).price > AMOUNT_MAX for bundle in BUNDLES):
            self._price_list = None
            self.doubt = Doubt.TOO_LOW
            return
        self._previous = found
        self._price_list = price_list
        self.doubt = None
        self._read_at_s = self.clock.monotonic_s()
        self._read_again_s = self._read_at_s + found.lasts_s

    def _wall_ahead_s(self) -> float:
        return self.clock.now() / 1000 - self.clock.monotonic_s()

    def _has_stepped(self) -> bool:
        """Return whether the wall clock has stepped by over STEP_S_MAX since the last reading."""
        return abs(self._wall_ahead_s() - self._ahead_s) > STEP_S_MAX


DOLLAR_ATOMS: Final = 10**6


class TokenReserves(msgspec.Struct, frozen=True, kw_only=True):
    """The reserves of the pools of a token, in atoms.

    base     the reserves of the token itself
    quotes   the reserves of the tokens that it is traded for, by mint
    """

    base: int
    quotes: Mapping[Mint, int]


class PoolReserves(Protocol):
    """Reads the reserves of the payment token's pools."""

    async def read(self) -> TokenReserves:
        """Return the reserves of the payment token's pools, added up.

        Raises ChainUnavailable if the node does not answer, and UnusablePaymentToken if an account
        is not the expected vault.
        """


def minutes_of(loaded: LoadedMint) -> Sequence[Minute]:
    """Return close and volume of the minutes in which the token had a price, oldest first.

    Swaps that are not yet folded into candles are included.
    """
    closes: dict[UnixS, float] = {}
    volumes: dict[UnixS, int] = {}
    for row in loaded.candles[Timeframe.M1]:
        if row.close is not None:
            closes[row.bucket] = row.close
            volumes[row.bucket] = row.buy_volume + row.sell_volume
    for each in loaded.tail:
        if not each.folded and each.swap.price_usd is not None:
            minute = bucket(Timeframe.M1, each.time)
            closes[minute] = each.swap.price_usd
            volumes[minute] = volumes.get(minute, 0) + each.swap.volume
    return [
        Minute(start=start, close=closes[start], volume=volumes[start]) for start in sorted(closes)
    ]


def market_of(  # noqa: PLR0913 - one argument for each part
    token: LoadedMint,
    sol: LoadedMint,
    reserves: TokenReserves,
    *,
    decimals: int,
    lag_s: float,
    dollars: frozenset[Mint] = DOLLARS,
) -> TokenMarket:
    """Return trades, price and liquidity of *token*; reserves whose price is unknown count as 0.

    sol        the trades of SOL, for its price
    reserves   the reserves of the pools of *token*
    decimals   the decimal places of *token*
    lag_s      how far the market data lags behind the chain, in seconds
    dollars    mints of tokens worth one dollar each, with 6 decimals
    """
    minutes = minutes_of(token)
    price = minutes[-1].close if minutes else 0.0
    # Anyone can make the last trade of one minute, at any price, but not the last trades of most
    # minutes.
    sol_closes = [each.close for each in minutes_of(sol)[-TWAP_MINUTES:]]
    sol_usd = median(sol_closes) if sol_closes else 0.0
    return TokenMarket(
        minutes=minutes,
        base_usd=reserves.base / 10**decimals * price,
        quote_usd=sum(
            atoms / LAMPORTS_PER_SOL * sol_usd
            if mint == WSOL
            else atoms / DOLLAR_ATOMS * (mint in dollars)
            for mint, atoms in reserves.quotes.items()
        ),
        lag_s=lag_s,
    )
