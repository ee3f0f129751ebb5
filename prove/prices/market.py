"""Simulated pools and traders, to try rules that decide which swaps set a price."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import sqrt
from random import Random
from typing import Final, NamedTuple

from mintscope.kit.primitives import MICRO_USD, UnixS
from mintscope.market.standing import Offer

START: Final = 1_700_000_000
SOL_USD: Final = 150.0
UNNAMED: Final = "unnamed"  # the prefix of the names of pools without an address


class Trade(NamedTuple):
    """A swap in the simulated market, with the data from which a rule judges it.

    is_attack   whether an attacker made the swap; rules do not see this
    """

    offer: Offer
    is_attack: bool = False


@dataclass
class Pool:
    """A pool of *quote* dollars and *base* tokens, whose product is constant, with a fee.

    fee    the fraction of the amount paid in
    """

    name: str
    quote: float
    base: float
    fee: float = 0.0025
    stands: bool = field(default=True)

    @property
    def spot(self) -> float:
        """Return the price in the pool, in dollars per token."""
        return self.quote / self.base

    def buy(self, usd: float) -> float:
        """Buy tokens for *usd* dollars, fee included; return the price per token that was paid."""
        taken = self.base - self.base * self.quote / (self.quote + usd * (1 - self.fee))
        self.quote += usd
        self.base -= taken
        return usd / taken

    def sell(self, usd: float) -> float:
        """Sell tokens worth *usd* dollars at the present price; return the price per token.

        The price is lower, because the sale moves it and the pool takes a fee.
        """
        tokens = usd / self.spot
        paid = self.quote - self.quote * self.base / (self.base + tokens * (1 - self.fee))
        self.quote -= paid
        self.base += tokens
        return paid / tokens

    def move_to(self, spot: float) -> float:
        """Return the dollars of a purchase, without fee, that moves the price to *spot*.

        A negative result is a sale.
        """
        root = sqrt(spot * self.quote * self.base)
        return root - self.quote


def trade(  # noqa: PLR0913 - what a swap says
    time: float,
    pool: str,
    price: float,
    usd: float,
    depth: float | None,
    *,
    signer: str,
    is_attack: bool = False,
    is_buy: bool = True,
) -> Trade:
    """Return a swap of *usd* dollars at *price*, after which *pool* has *depth* dollars."""
    offer = Offer(
        pool,
        signer,
        price,
        price / SOL_USD,
        int(usd * MICRO_USD),
        None if depth is None else int(depth * MICRO_USD),
        UnixS(START + int(time)),
        is_buy=is_buy,
    )
    return Trade(offer, is_attack)


def swap_in(time: float, pool: Pool, usd: float, signer: str) -> Trade:
    """Buy for *usd* dollars in *pool*, or sell if *usd* is negative; return the trade."""
    is_buy = usd > 0
    price = pool.buy(usd) if is_buy else pool.sell(-usd)
    return trade(time, pool.name, price, abs(usd), pool.quote, signer=signer, is_buy=is_buy)


def crowd(  # noqa: PLR0913 - what a market is made of
    random: Random,
    pools: list[Pool],
    *,
    begin: float = 0.0,
    end: float,
    every_s: float = 1.0,
    size: float = 0.002,
    volatility: float = 0.0005,
    drift: float = 0.0,
) -> Iterator[Trade]:
    """Yield honest trades: deeper pools are traded more often; arbitrage closes price gaps.

    every_s      the average seconds between two trades
    size         the average size of a trade, as a part of the depth of its pool
    volatility   the volatility of the value of the token, per second (log-normal)
    drift        the drift of that value, per second
    """
    time = begin
    worth = pools[0].spot
    while True:
        pause_s = random.expovariate(1 / every_s)
        time += pause_s
        if time >= end:
            return
        worth *= 1 + random.gauss(drift * pause_s, volatility * pause_s**0.5)
        pool = random.choices(pools, [one.quote for one in pools])[0]
        usd = pool.quote * size * random.expovariate(1) * random.choice([1, -1])
        yield swap_in(time, pool, usd, f"person-{random.randrange(10**6)}")
        for one in pools:
            apart = worth / one.spot
            if max(apart, 1 / apart) > 1 + one.fee + 0.002:
                usd = one.move_to(worth * (1 - one.fee if apart > 1 else 1 + one.fee))
                if abs(usd) > 1:
                    yield swap_in(time, one, usd, f"bot-{random.randrange(5)}")


def in_order(*parts: Iterable[Trade]) -> list[Trade]:
    """Return all trades in order of time; within a second, in the order of *parts*."""
    together = [one for part in parts for one in part]
    return sorted(together, key=lambda one: one.offer.time)
