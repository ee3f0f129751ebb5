"""Attacks on the SOL/USD rate: trades that are added to the trades of `traded_pools.sol_market`.

The seed of an attack determines its amounts, prices, times, pools and signers.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from prove.prices.market import SOL_USD, Trade, trade

SECONDS: Final = 900
# Seconds from START to the last trade of a token that is paid for in SOL
LAST_S: Final = SECONDS - 3
POOLS: Final = ("rate-0", "rate-1", "rate-2", "rate-3")
DEPTH: Final = 1_000_000  # US dollars in each pool
Attack = Callable[[int], Sequence[Trade]]


def one_trade(seed: int) -> Sequence[Trade]:
    """Return one trade of 10 to 50 SOL at 1.5 to 2.5 times the honest price, in a new pool."""
    random = Random(seed)
    price = SOL_USD * random.uniform(1.5, 2.5)
    sol = random.uniform(10, 50)
    depth = price * sol * random.uniform(1, 50)
    own = trade(_late(random), "own", price, sol * price, depth, signer="own", is_attack=True)
    return [own]


def with_oneself(seed: int) -> Sequence[Trade]:
    """Return trades of nine signers, one a second, in a pool at least as deep as the others."""
    random = Random(seed)
    price = SOL_USD * random.choice([random.uniform(0.96, 1.04), random.uniform(0.5, 3.0)])
    depth = DEPTH * random.choice([1, 5, 50, 500])
    begin = random.randrange(60, 300)
    return [
        trade(
            second,
            "own",
            price,
            random.uniform(100, 10**6),
            depth,
            signer=f"own-{random.randrange(9)}",
            is_attack=True,
        )
        for second in range(begin, LAST_S)
    ]


def one_signer(seed: int) -> Sequence[Trade]:
    """Return trades of one signer in each second, in the honest pools and up to three own pools."""
    random = Random(seed)
    price = SOL_USD * random.uniform(0.96, 1.04)
    entered = (*POOLS, *(f"own-{number}" for number in range(random.randrange(4))))
    return [
        trade(second, pool, price, 1_000, DEPTH, signer="own", is_attack=True)
        for second in range(_late(random), LAST_S)
        for pool in entered
    ]


def cents_in_many(seed: int) -> Sequence[Trade]:
    """Return trades of ten dollars near the honest price, in 300 pools with almost no liquidity."""
    random = Random(seed)
    price = SOL_USD * random.uniform(1.03, 1.049)
    return [
        trade(
            second,
            f"own-{random.randrange(300)}",
            price,
            10.0,
            random.uniform(10, 100),
            signer=f"own-{random.randrange(10**6)}",
            is_attack=True,
        )
        for second in range(_late(random), LAST_S)
    ]


ATTACKS: Final[dict[str, Attack]] = {
    "one trade of 25 SOL at x2, four pools": one_trade,
    "trading with oneself in a deeper pool": with_oneself,
    "one signer in all pools": one_signer,
    "hundreds of pools with next to nothing": cents_in_many,
}


def _late(random: Random) -> int:
    return random.randrange(300, 600)
