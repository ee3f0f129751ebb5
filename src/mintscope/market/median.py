"""The median of the prices of pools, weighted by pool, in which the same money counts once.

Money that moves from pool to pool is seen in each of them.  So the weights of the pools on one side
of a price are not simply added up:

A silent pool    counts with an eighth of its weight, times the number of pools on the other side
                 that may show the same money (`Side.times_seen`), which is at most eight.  If no
                 pool trades on either side, it counts with an eighth
The pools        on one side together weigh at most TIMES_HEAVIEST times the heaviest of them
"""

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

SILENT: Final = 8  # a silent pool has one eighth of its weight
# The greatest weight of one side, in weights of its heaviest pool.  Decision 114 has a table of how
# much an attack costs with this number, and with others.
TIMES_HEAVIEST: Final = 8


class Side(NamedTuple):
    """The pools of a mint whose prices are on one side of a given price, as sums of weights.

    A pool that has not traded lately is silent: it has an eighth of its weight.

    trading    the sum of the weights of the pools that trade
    heaviest   the weight of the heaviest pool that trades
    silent     the sum of the weights of the silent pools, an eighth of each
    deepest    the weight of the heaviest of all pools, as if silent pools traded
    """

    trading: float
    heaviest: float
    silent: float
    deepest: float

    def and_one(self, weight: float, *, is_silent: bool) -> "Side":
        """Return these sums with one more pool.

        weight   the weight of the pool; if it is silent, an eighth of it
        """
        trading, heaviest, silent, deepest = self
        if is_silent:
            return Side(trading, heaviest, silent + weight, max(deepest, SILENT * weight))
        return Side(trading + weight, max(heaviest, weight), silent, max(deepest, weight))

    @property
    def times_seen(self) -> float:
        """The number of pools that may show the same money: trading / heaviest, at most SILENT.

        It is 0 if no pool trades.
        """
        return min(self.trading / self.heaviest, SILENT) if self.heaviest else 0.0

    def against(self, times_seen: float) -> float:
        """Return the weight of this side against the other one.

        times_seen   the number of pools of the other side that may show the same money as this side
        """
        return min(self.trading + self.silent * times_seen, TIMES_HEAVIEST * self.deepest)


NONE: Final = Side(0.0, 0.0, 0.0, 0.0)


def middle(
    prices: Sequence[float], weights: Sequence[float], silent: Collection[int], tie: float
) -> tuple[float, float]:
    """Return the weighted quantiles 0.5 - *tie* and 0.5 + *tie* of *prices*, around the median.

    prices, weights   by pool; pools of weight 0 do not count
    silent            the indices of silent pools; their *weights* are already divided by eight

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
            continue  # pools at the same price are on the same side
        # For a = 0.5 - tie or 0.5 + tie, weight / (weight + rest) >= a, written without a division.
        weight, rest = _compared(below, above[len(places) - number])
        if low is None and weight * (0.5 + tie) >= rest * (0.5 - tie):
            low = usd
        if low is not None and weight * (0.5 - tie) >= rest * (0.5 + tie):
            return low, usd
    raise ValueError("expected a pool that counts")


def _compared(one: Side, other: Side) -> tuple[float, float]:
    """Return the weight of *one* against *other*, and that of *other* against *one*.

    If no pool trades, silent pools count with an eighth.
    """
    if not one.heaviest and not other.heaviest:
        return one.against(1.0), other.against(1.0)
    return one.against(other.times_seen), other.against(one.times_seen)


def is_near(usd: float, other: float, agreement: float) -> bool:
    """Return whether two prices differ by at most *agreement*, as a fraction of the lower one."""
    return (usd / other if usd > other else other / usd) <= 1 + agreement
