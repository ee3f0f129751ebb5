"""The median of prices by the weight of their pools, in which the same money counts once.

Money that moves from pool to pool is seen in each of them.  So the weights of the pools on one side
of a price are not simply added up:

A silent pool    weighs an eighth for each trading pool on the other side: so only a single pool
                 that is heavier by itself outweighs it, and silent pools do not help against one
The pools        on one side weigh at most TIMES_HEAVIEST as much as the heaviest of them
"""

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

SILENT: Final = 8  # a silent pool weighs one eighth
TIMES_HEAVIEST: Final = 8  # the greatest weight of one side, in weights of its heaviest pool


class Side(NamedTuple):
    """The pools on one side of a price.

    trading    the weight of all pools that trade
    heaviest   the weight of the heaviest pool that trades
    silent     the weight of all silent pools, each with an eighth of its weight
    deepest    the weight of the heaviest pool if all of them traded
    """

    trading: float
    heaviest: float
    silent: float
    deepest: float

    def and_one(self, weight: float, *, is_silent: bool) -> "Side":
        """Return this side with one more pool, of *weight*."""
        trading, heaviest, silent, deepest = self
        if is_silent:
            return Side(trading, heaviest, silent + weight, max(deepest, SILENT * weight))
        return Side(trading + weight, max(heaviest, weight), silent, max(deepest, weight))

    @property
    def times_seen(self) -> float:
        """The number of pools that may show the same money: trading / heaviest, at most SILENT."""
        return min(self.trading / self.heaviest, SILENT) if self.heaviest else 0.0

    def against(self, times_seen: float) -> float:
        """Return the weight of this side if *times_seen* pools of the other show the same money."""
        return min(self.trading + self.silent * times_seen, TIMES_HEAVIEST * self.deepest)


NONE: Final = Side(0.0, 0.0, 0.0, 0.0)


def middle(
    prices: Sequence[float], weights: Sequence[float], silent: Collection[int], tie: float
) -> tuple[float, float]:
    """Return the median, as the prices at half of the weight minus and plus the part *tie* of all.

    prices, weights   by pool; pools of weight 0 do not count
    silent            the indices of silent pools, whose weights are an eighth

    Raises ValueError if no pool counts.
    """
    places = sorted([at for at, one in enumerate(weights) if one], key=prices.__getitem__)
    above = [NONE]  # the sides of the 0, 1, 2 ... highest-priced pools
    for at in reversed(places):
        above.append(above[-1].and_one(weights[at], is_silent=at in silent))
    below = NONE
    low = None
    for number, at in enumerate(places, start=1):
        usd = prices[at]
        below = below.and_one(weights[at], is_silent=at in silent)
        if number < len(places) and prices[places[number]] == usd:
            continue
        weight, rest = _compared(below, above[len(places) - number])
        if low is None and weight * (0.5 + tie) >= rest * (0.5 - tie):
            low = usd
        if low is not None and weight * (0.5 - tie) >= rest * (0.5 + tie):
            return low, usd
    raise ValueError("expected a pool that counts")


def _compared(one: Side, other: Side) -> tuple[float, float]:
    """Return the weights of both sides of a price; if no pool trades, silent pools count once."""
    if not one.heaviest and not other.heaviest:
        return one.against(1.0), other.against(1.0)
    return one.against(other.times_seen), other.against(one.times_seen)


def is_near(usd: float, other: float, agreement: float) -> bool:
    """Return whether both prices are within the part *agreement* of each other."""
    return (usd / other if usd > other else other / usd) <= 1 + agreement
