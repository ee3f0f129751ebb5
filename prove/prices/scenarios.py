"""Simulated markets, ordinary ones and attacks, as lists of trades."""

import gzip
import json
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from random import Random
from statistics import median
from typing import Any, Final, NamedTuple

from prove.prices.market import (
    SOL_USD,
    START,
    UNNAMED,
    Pool,
    Trade,
    crowd,
    in_order,
    swap_in,
    trade,
)

LAUNCHES: Final = Path(__file__).resolve().parents[3] / "shared/data/market_2026"
MOVED_TO_POOL_SOL: Final = 85.0  # SOL; pump.fun moves about this amount from a curve to the pool
CURVE_SOL: Final = 115.0  # SOL in a full curve, of which 30 are virtual


# The share of purchases in the trades while a fee falls, for example at a launch
BOUGHT_OF_FALLING: Final = 0.75
CURVES_S: Final = (20, 45, 60, 90, 120, 200, 300, 450, 550, 900)


class Scenario(NamedTuple):
    """The trades of a simulated market.

    since_s   the second from which the price of a rule is compared with the true price
    """

    trades: Sequence[Trade]
    since_s: int = 0


# Honest markets


def leaves_curve(seed: int, *, moves: float, in_s: float = 20.0, curve_s: int = 1_200) -> Scenario:
    """Return trades of a token that leaves its bonding curve after *curve_s* seconds.

    In the next *in_s* seconds, its price changes by the factor *moves*.
    """
    random = Random(seed)
    curve = Pool("curve", CURVE_SOL * SOL_USD, CURVE_SOL * SOL_USD, fee=0.0125)
    on_curve = list(crowd(random, [curve], end=curve_s, every_s=1.0, size=0.005))
    quote = MOVED_TO_POOL_SOL * SOL_USD
    pool = Pool("pool", quote, quote / curve.spot)
    rush = _rush(random, pool, curve_s + 3.0, moves, in_s)
    after = list(
        crowd(random, [pool], begin=curve_s + 3 + in_s, end=curve_s + 900, every_s=2.0, size=0.01)
    )
    return Scenario(in_order(on_curve, rush, after), curve_s)


def changes_pool(
    seed: int, *, part: float, moves: float, every_s: float = 2.0, is_known: bool = True
) -> Scenario:
    """Return a market in which one pool loses its liquidity after ten minutes.

    No swap shows the loss.  Another pool remains, whose depth is *part* (a fraction) of the lost
    depth, and whose price is multiplied by *moves*.

    every_s    the average seconds between trades
    is_known   whether the other pool traded before
    """
    random = Random(seed)
    left, other = Pool("left", 100_000, 100_000), Pool("other", 100_000 * part, 100_000 * part)
    before = list(crowd(random, [left, other] if is_known else [left], end=600, every_s=every_s))
    other.base = other.quote / left.spot
    rush = _rush(random, other, 603.0, moves, 20.0)
    after = list(crowd(random, [other], begin=623, end=1_500, every_s=every_s))
    return Scenario(in_order(before, rush, after), 600)


def many_pools(seed: int) -> Scenario:
    """Return honest trades in three pools of different depth and fee, kept equal by arbitrage."""
    random = Random(seed)
    pools = [
        Pool("deep", 100_000, 100_000, 0.0025),
        Pool("less deep", 60_000, 60_000, 0.01),
        Pool("thin", 10_000, 10_000, 0.003),
    ]
    return Scenario(list(crowd(random, pools, end=1_800, every_s=1.5, volatility=0.002)), 60)


def is_deep(one: Trade) -> bool:
    """Return whether *one* is a trade in the pool named "deep"."""
    return one.offer.pool == "deep"


def launches() -> Iterator[tuple[str, Scenario]]:
    """Yield (mint, trades) for each recorded launch of a token, after some generated trades.

    Each launch is yielded once for each of CURVES_S, the durations of generated trades.
    """
    for launch in read_launches():
        for curve_s in CURVES_S:
            yield launch["mint"], real_launch(launch, curve_s)


def read_launches(path: Path = LAUNCHES / "launch_trades.jsonl.gz") -> list[dict[str, Any]]:
    """Return the recorded trades of new tokens; an empty list if the file *path* is missing."""
    if not path.exists():
        return []
    with gzip.open(path, "rt") as lines:
        return [json.loads(line) for line in lines]


def real_launch(launch: dict[str, Any], curve_s: int) -> Scenario:
    """Return *curve_s* seconds of generated trades, and then the real trades of *launch*."""
    swaps = [one for one in launch["swaps"] if one["sol"] >= 0.001 and one["tokens"] > 0]
    middle = median(one["sol"] / one["tokens"] for one in swaps)
    swaps = [one for one in swaps if 1 / 30 < one["sol"] / one["tokens"] / middle < 30]
    first = swaps[0]["sol"] / swaps[0]["tokens"] * SOL_USD
    quote = CURVE_SOL * SOL_USD
    curve = Pool("curve", quote, quote / first, fee=0.0125)
    random = Random(launch["mint"])
    trades = list(crowd(random, [curve], end=curve_s, every_s=0.7, size=0.02))
    depth = MOVED_TO_POOL_SOL * SOL_USD
    for one in swaps:
        usd = one["sol"] * SOL_USD
        depth += usd if one["side"] == "buy" else -usd
        trades.append(
            trade(
                curve_s + 2 + one["ts"] - swaps[0]["ts"],
                "pool",
                one["sol"] / one["tokens"] * SOL_USD,
                usd,
                max(depth, 1.0),
                signer=one["trader"],
                is_buy=one["side"] == "buy",
            )
        )
    return Scenario(in_order(trades), curve_s)


# Attacks


def stranger_in_first_minutes(seed: int) -> Scenario:
    """Return trades in two new pools, with one false price after almost ten minutes.

    The false trade is worth 2.5 SOL, at 5 times the price, in another pool.
    """
    random = Random(seed)
    pools = [Pool("one", 30_000, 30_000), Pool("two", 30_000, 30_000)]
    honest = list(crowd(random, pools, end=7_200, every_s=4.0))
    return Scenario(in_order(honest, [_own(596.0, 5.0, 2.5 * SOL_USD, 2.5 * SOL_USD)]), 600)


def second_market(seed: int) -> Scenario:
    """Return a market whose pools have no addresses, and an attack in another such pool."""
    pool = Pool(f"{UNNAMED}-0", 100_000, 100_000)
    honest = list(crowd(Random(seed), [pool], end=1_200, every_s=3.0))
    own = [_own(700 + 3 * n, 3.0, 1_000.0, 1_000.0, pool=f"{UNNAMED}-1") for n in range(100)]
    return Scenario(in_order(honest, own), 700)


def cents_near(seed: int) -> Scenario:
    """Return repeated trades of ten cents at a price 4.9 % too high, in a pool of ten dollars."""
    honest, price = _honest(seed, 1_800)
    own = [_own(700.0 + 5 * n, 1.049 * price(700 + 5 * n), 0.1, 10.0) for n in range(200)]
    return Scenario(in_order(honest, own), 700)


def cents_after_quiet(seed: int) -> Scenario:
    """Return a trade of 30 cents at twenty times the honest price, after 35 s without a trade."""
    honest, _ = _honest(seed, 1_000)
    return Scenario(in_order(honest, [_own(1_035.0, 20.0, 0.3, 30.0)], _later(seed, 1_050)), 1_000)


def washed(seed: int) -> Scenario:
    """Return five false trades at 500 times the honest price, each worth 10,000 SOL.

    They are in another pool, whose depth is also worth 10,000 SOL.
    """
    honest, _ = _honest(seed, 1_800)
    usd = 10_000 * SOL_USD
    own = [_own(900.0 + n, 500.0, usd, usd, signer=f"own-{n}") for n in range(5)]
    return Scenario(in_order(honest, own), 900)


def turned_over(seed: int) -> Scenario:
    """Return trades in a worthless quote: swaps of 6e8 USD in a pool of 10 USD."""
    honest, _ = _honest(seed, 1_800)
    own = [_own(900.0 + n, 3.0, 6e8, 10.0, signer=f"own-{n % 3}") for n in range(600)]
    moved = [_own(1_500.0 + n, 3.2, 6e8, 10.0) for n in range(3)]
    return Scenario(in_order(honest, own, moved), 900)


def junk(seed: int) -> Scenario:
    """Return trades at three times the honest price in 500 pools of ten dollars, one in each."""
    honest, _ = _honest(seed, 1_800)
    own = [_own(700 + 2 * n, 3.0, 1.0, 10.0, pool=f"junk-{n}") for n in range(500)]
    return Scenario(in_order(honest, own), 700)


def for_a_second(seed: int) -> Scenario:
    """Return trades at 1.5 times the honest price in a pool that has a million dollars.

    There are four trades, all in the same second; before and after it, the pool is not traded.
    """
    honest, _ = _honest(seed, 1_800)
    own = [_own(900.0 + n / 4, 1.5, 1_000.0, 1e6, signer=f"own-{n}") for n in range(4)]
    return Scenario(in_order(honest, own), 900)


def for_a_second_in_many(seed: int) -> Scenario:
    """Return trades at 1.5 times the honest price, in ten pools that share a million dollars.

    The money moves through all pools twice in one second, and makes a trade in each.
    """
    honest, _ = _honest(seed, 1_800)
    own = [
        _own(900.0 + n / 20, 1.5, 1_000.0, 1e6, pool=f"own-{n % 10}", signer=f"own-{n}")
        for n in range(20)
    ]
    return Scenario(in_order(honest, own), 900)


def over_a_window(seed: int) -> Scenario:
    """Return trades in a pool with ten dollars for 11 minutes, then with a million for one second.

    Mintscope measures the depth of pools at the end of each half minute; one ends in that second.
    """
    honest, price = _honest(seed, 1_800)
    end = 1_240 - (START + 1_240) % 30 + 30
    early = [_own(end - 700.0 + 20 * n, price(end - 700 + 20 * n), 5.0, 10.0) for n in range(33)]
    late = [
        _own(end - 1.0, price(end - 1), 100.0, 1e6, signer="own-1"),
        _own(end, 1.5, 100.0, 1e6, signer="own-2"),
    ]
    return Scenario(in_order(honest, early, late), 900)


def out_of_range(seed: int) -> Scenario:
    """Return trades at false prices in a pool with much liquidity, none of it near the price.

    The pool has 1.5 times the depth of the honest pool. Three of four of its trades, of fifty
    dollars each, raise the price by a half, up to five times the honest price; after each fourth
    trade, the price begins at 1.5 times the honest price again.
    """
    honest, _ = _honest(seed, 1_800)
    own = [
        _own(600.0 + 4 * n, 1.5 ** (n % 4 + 1), 50.0, 150_000.0, signer=f"own-{n % 5}")
        for n in range(250)
    ]
    return Scenario(in_order(honest, own), 600)


def rich(  # noqa: PLR0913 - the parts of an attack
    usd: float,
    *,
    moves: float = 1.05,
    quiet_s: int = 0,
    every_s: float = 2.0,
    for_s: int = 120,
    early_s: int = 100,
) -> tuple[list[Trade], int]:
    """Return an attack on a token that has 100,000 USD of depth, and the second at which it begins.

    usd       the dollars that the attacker deposits in an own pool
    moves     the factor by which the attacker moves the price
    quiet_s   the seconds without an honest trade before the attack and during it; 0: honest trades
              continue
    every_s   the average seconds between honest trades
    for_s     the seconds that the attack lasts
    early_s   the seconds for which the pool of the attacker has had the honest price before the
              attack
    """
    begin = 1_200
    honest, price = _honest(7, begin if quiet_s else begin + for_s, every_s=every_s)
    start = begin + quiet_s if quiet_s else begin
    early = [
        _own(
            start - early_s + 1.0 * n, price(start - early_s + n), 50.0, usd, signer=f"own-{n % 7}"
        )
        for n in range(early_s)
    ]
    late = [
        _own(start + 1.0 * n, moves * price(start + n), 50.0, usd, signer=f"own-{n % 7}")
        for n in range(for_s)
    ]
    return in_order(honest, early, late), start


def after_a_fee_that_falls(usd: float, *, quiet_s: int = 0) -> tuple[list[Trade], int]:
    """Return an attack on a token whose honest pool first took a fee of 50 %.

    The second value is the second at which the attack begins. The fee falls to 1 % in ten minutes
    with few trades, of 20 dollars each: the price including the fee falls by a quarter or more,
    although the price of the pool does not move.

    quiet_s   the seconds without an honest trade before the attack and during it; 0: honest trades
              continue
    """
    random = Random(7)
    pool = Pool("honest", 100_000, 100_000)
    honest = []
    for number in range(60):
        pool.fee = 0.5 * 0.02 ** (number / 59)
        worth = 20.0 if random.random() < BOUGHT_OF_FALLING else -20.0
        honest.append(swap_in(10.0 * number, pool, worth, f"person-{number}"))
    start = 600 + quiet_s
    for_s = 120
    honest += crowd(random, [pool], begin=600, end=600 if quiet_s else 600 + for_s, every_s=2.0)
    times = [one.offer.time - START for one in honest]

    def price(second: float) -> float:
        return honest[bisect_right(times, second) - 1].offer.usd

    own = [
        _own(n, (1.0 if n < start else 1.05) * price(n), 50.0, usd, signer=f"own-{n % 7}")
        for n in range(10, start + for_s)
    ]
    return in_order(honest, own), start


def puts_out(usd: float, *, quiet_s: int = 0, pools: int = 4) -> tuple[list[Trade], int]:
    """Return an attack on a token with *pools* honest pools, and the second at which it begins.

    The attacker's *usd* dollars are in one pool from 700 s before the attack on, and are shown in
    seven other pools from 2 s before the attack on.

    quiet_s   the seconds without an honest trade before the attack and during it; 0: honest trades
              continue
    """
    start = 1_200 + quiet_s
    for_s = 120
    theirs = tuple(f"honest-{n}" for n in range(pools))
    honest, price = _honest(7, 1_200 if quiet_s else 1_200 + for_s, pools=theirs)
    own = [
        _own(n, (1.0 if n < start else 1.05) * price(n), 50.0, usd, signer=f"own-{n % 7}")
        for n in range(start - 700, start + for_s)
    ]
    seen = [
        _own(n, price(n), 50.0, usd, pool=f"own-{number}", signer=f"own-{number}")
        for n in range(start - 2, start + for_s)
        for number in range(7)
    ]
    return in_order(honest, own, seen), start


def seen_in_many(  # noqa: PLR0913 - the parts of an attack
    usd: float,
    *,
    quiet_s: int = 35,
    pools: int = 2,
    own: int = 15,
    traded: int = 1,
    every_s: float = 2.0,
) -> tuple[list[Trade], int]:
    """Return an attack whose false price *own* pools show, each with *usd* dollars.

    The second value is the second at which the attack begins. The *pools* honest pools have
    100,000 USD together. The attacker's pools are 700 s old.

    traded    the number of the attacker's pools with a trade every second; the others have one
              every 20 s
    quiet_s   the seconds without an honest trade before the attack and during it; 0: honest trades
              continue
    every_s   the average seconds between honest trades
    """
    start = 1_200 + quiet_s
    for_s = 120
    theirs = tuple(f"honest-{n}" for n in range(pools))
    end = 1_200 if quiet_s else 1_200 + for_s
    honest, price = _honest(7, end, every_s=every_s, pools=theirs)
    mine = []
    for second in range(start - 700, start + for_s):
        shown = price(second) * (1.05 if second >= start else 1)
        for number in range(own if (second - start) % 20 == 0 else traded):
            signer = f"own-{second % 7}"
            mine.append(_own(second, shown, 50.0, usd, pool=f"own-{number}", signer=signer))
    return in_order(honest, mine), start


def by_turns(
    usd: float, *, quiet_s: int = 35, pools: int = 7, every_s: float = 1.0
) -> tuple[list[Trade], int]:
    """Return an attack by *usd* dollars, and the second at which it begins.

    The dollars are moved in turn through *pools* pools of the attacker, each of which shows the
    false price with them.

    quiet_s   the seconds without an honest trade before the attack and during it
    every_s   the seconds after which the money is moved to the next pool
    """
    begin = 1_200
    honest, price = _honest(7, begin)
    start = begin + quiet_s
    own = []
    for turn in range(int(220 / every_s)):
        time = start - 100 + turn * every_s
        usd_each = price(time) * (1.05 if time >= start else 1.0)
        pool = f"own-{turn % pools}"
        signer = f"own-{turn // pools % 7}"
        own.append(_own(time, usd_each, 50.0, usd, pool=pool, signer=signer))
    return in_order(honest, own), start


def _own(  # noqa: PLR0913 - what a swap says
    time: float,
    price: float,
    usd: float,
    depth: float,
    *,
    pool: str = "private",
    signer: str = "own",
) -> Trade:
    return trade(time, pool, price, usd, depth, signer=signer, is_attack=True)


@lru_cache(maxsize=8)  # a search for the least capital of an attack uses the same ones each time
def _honest(
    seed: int, end: int, *, every_s: float = 2.0, pools: tuple[str, ...] = ("honest",)
) -> tuple[Sequence[Trade], Callable[[float], float]]:
    """Return honest trades until the second *end*, and a function from a second to their price.

    The *pools* have 100,000 USD together; *every_s* is the average seconds between trades.
    """
    each_usd = 100_000 / len(pools)
    theirs = [Pool(name, each_usd, each_usd) for name in pools]
    trades = tuple(crowd(Random(seed), theirs, end=end, every_s=every_s))
    times = [one.offer.time - START for one in trades]

    def price(second: float) -> float:
        return trades[bisect_right(times, second) - 1].offer.usd

    return trades, price


def _later(seed: int, begin: int) -> list[Trade]:
    pool = Pool("honest", 100_000, 100_000)
    return list(crowd(Random(seed), [pool], begin=begin, end=begin + 300, every_s=2.0))


def _rush(random: Random, pool: Pool, begin: float, moves: float, in_s: float) -> list[Trade]:
    """Return trades, two a second, that change the price of *pool* by the factor *moves*.

    begin, in_s   the second of the first trade, and the seconds from it until the last
    """
    count = int(2 * in_s)
    return [
        swap_in(
            begin + n / 2,
            pool,
            pool.move_to(pool.spot * moves ** (1 / count)),
            f"person-{random.randrange(10**6)}",
        )
        for n in range(count)
    ]
