"""Prices towards which trades move the market; they change at random, but return to the start."""

from math import exp, sqrt
from random import Random
from typing import Final

from mintscope.kit.time import DAY_S
from mintscope_devchain.market.listing import DOLLAR, SOL, SOL_USD
from mintscope_devchain.market.pool import Token
from mintscope_devchain.market.world import World

SOL_VOLATILITY: Final = 0.04
REVERSION_S: Final = DAY_S / 2  # seconds in which most of a deviation from the start is reversed
DRIFT_MAX: Final = 0.5  # the largest deviation of the logarithm of a price from its start


class Prices:
    """Target prices of all tokens in US dollars, which change at random."""

    def __init__(self, world: World, random: Random) -> None:
        self._random = random
        listings = [(each.token, each.listing) for each in world.listed]
        self._home = {token.mint: listing.price for token, listing in listings}
        self._volatility = {token.mint: listing.volatility for token, listing in listings}
        self._home |= {SOL.mint: SOL_USD, DOLLAR.mint: 1.0}
        self._volatility[SOL.mint] = SOL_VOLATILITY
        self._drift = dict.fromkeys(self._volatility, 0.0)

    def advance(self, seconds: float) -> None:
        """Move the target prices at random, as far as they would move in *seconds*."""
        kept = exp(-seconds / REVERSION_S)
        days = sqrt(seconds / DAY_S)
        for mint, drift in self._drift.items():
            moved = drift * kept + self._volatility[mint] * days * self._random.gauss(0, 1)
            self._drift[mint] = max(-DRIFT_MAX, min(DRIFT_MAX, moved))

    def usd(self, token: Token) -> float:
        """Return the present target price of one whole *token* in US dollars."""
        return self._home[token.mint] * exp(self._drift.get(token.mint, 0.0))

    def raw(self, base: Token, quote: Token) -> float:
        """Return the price of one raw unit of *base*, in raw units of *quote*."""
        unit: float = 10.0 ** (quote.decimals - base.decimals)
        return self.usd(base) / self.usd(quote) * unit
