"""The payment token's own market, put together from what is kept of it and from its pools."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Final, Protocol

import msgspec

from mintscope.base.primitives import Mint, UnixS
from mintscope.base.solana import DOLLARS, LAMPORTS_PER_SOL, WSOL
from mintscope.core.market.log import LoadedMint
from mintscope.core.market.timeframe import Timeframe, bucket
from mintscope.core.payments.pricing.price import TWAP_MINUTES, Minute, TokenMarket

DOLLAR_ATOMS: Final = 10**6


class TokenReserves(msgspec.Struct, frozen=True, kw_only=True):
    """The reserves of the pools of a token, in atoms.

    base     of the token
    quotes   of what it is traded for, by mint
    """

    base: int
    quotes: Mapping[Mint, int]


class PoolReserves(Protocol):
    """Reads what the pools of the payment token hold."""

    async def read(self) -> TokenReserves:
        """Return what all the pools hold together.

        Raises ChainUnavailable, and UnusablePaymentToken for a pool of another token.
        """


def minutes_of(loaded: LoadedMint) -> Sequence[Minute]:
    """Return the minutes with a price, oldest first: those kept, and those not folded yet."""
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
    """Return the market of *token*; its sides are worth nothing where there is no price.

    dollars   the mints of which one is worth a dollar, each of 6 decimals
    """
    minutes = minutes_of(token)
    price = minutes[-1].close if minutes else 0.0
    # The last trade of a minute may be made by anyone, at any price; those of most minutes are not.
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
