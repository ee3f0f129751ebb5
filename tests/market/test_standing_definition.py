"""The rule of prices agrees with its definition, computed from all swaps of a mint.

`defined` keeps no state: the weight of a pool comes from the list of its swaps.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from math import sqrt
from typing import Final

import hypothesis.strategies as st
from hypothesis import given, settings
from msgspec.structs import replace

from mintscope.kit.primitives import UnixS
from mintscope.market.standing import Offer, Standing, Trip, stand

# Floating point may decide a tie either way; a difference of this part of all weight is no tie.
TIE = Fraction(1, 10**9)


def taken(swaps: Sequence[Offer]) -> list[Offer]:
    """Return those of *swaps*, all in one pool, that set the pool's own price."""
    kept: list[Offer] = []
    for at, swap in enumerate(swaps):
        if kept:
            if swap.trip == Trip.BACK:
                continue
            here = least(swaps[:at], windows=1)
            is_small = swap.volume < 100_000 and swap.volume * 10_000 < here
            low, high = sorted((kept[-1].usd, swap.usd))
            if is_small and high / low - 1 >= 0.05:
                continue
        kept.append(swap)
    return kept


def least(swaps: Sequence[Offer], windows: int) -> int:
    """Return the lowest reserve of a pool in the newest *windows* windows of half a minute.

    The reserve after the last swap before these windows counts, too.
    """
    since = swaps[-1].time // 30 - windows + 1
    before = [swap for swap in swaps if swap.time // 30 < since][-1:]
    inside = [swap for swap in swaps if swap.time // 30 >= since]
    return min(swap.depth or 0 for swap in [*before, *inside])


def shown(swaps: Sequence[Offer]) -> int | None:
    """Return the depth of a pool as its price moves show it; None before the first move.

    A move is at least 5 %, and two swaps in a row show it.  These two, and the swap before them,
    are all purchases or all sales.  If purchases became cheaper, or sales better paid, prices of
    the other side must have moved in the same direction.
    """
    at_its_price = taken(swaps)
    origin, last, flow, depth = swaps[0], swaps[0], 0, None
    began = 0
    for at, swap in enumerate(swaps[1:], start=1):
        flow += swap.volume
        if swap not in at_its_price:
            continue
        moves = []
        for start, before, now in (
            (origin.usd, last.usd, swap.usd),
            (origin.sol, last.sol, swap.sol),
        ):
            up, down = min(before, now) / start, start / max(before, now)
            moves.append(max(up, down) - 1)
        is_of_one_side = origin.is_buy == last.is_buy == swap.is_buy
        last = swap
        is_dust = swap.volume * 10_000 < least(swaps[:at], windows=1)
        if is_dust or not is_of_one_side or min(moves) < 0.05:
            continue
        then, since = (
            [one.usd for one in part if one.is_buy != swap.is_buy and one in at_its_price]
            for part in (swaps[:began], swaps[began:at])
        )
        is_dearer = swap.usd > origin.usd
        is_own = is_dearer == swap.is_buy
        if not is_own and then and since:
            moves.append(since[-1] / then[-1] - 1 if is_dearer else then[-1] / since[-1] - 1)
        if min(moves) >= 0.05 and (is_own or (then and since)):
            seen = int(8 * flow / (sqrt(1 + min(moves)) - 1))
            depth = seen if depth is None else max(seen, depth // 2)
        origin, flow, began = swap, 0, at
    return depth


def pause_s(swaps: Sequence[Offer]) -> Fraction:
    """Return the moving average of the pauses: each pause has 3/4 of the weight of the next."""
    gaps = [Fraction(after.time - before.time) for before, after in pairwise(swaps)]
    return sum(
        (gap / 4 * Fraction(3, 4) ** age for age, gap in enumerate(reversed(gaps))), Fraction()
    )


def lull_s(swaps: Sequence[Offer]) -> Fraction:
    """Return a pool's mean pause between swaps, in which newer and longer pauses weigh more."""
    lull, kept = Fraction(), Fraction(1)
    for at in range(len(swaps) - 1, 0, -1):
        gap_s = swaps[at].time - swaps[at - 1].time
        if gap_s:
            share = min(Fraction(1), Fraction(gap_s, stood_s(swaps[: at + 1])))
            lull += gap_s * share * kept
            kept *= 1 - share
    return lull


def depth_of(swaps: Sequence[Offer]) -> Fraction:
    """Return the depth of a pool, without the reduction for pools that are silent."""
    stands, moved = least(swaps, windows=2), shown(swaps)
    return Fraction(stands if moved is None else min(stands, moved))


def if_silent(swaps: Sequence[Offer], now: int) -> Fraction:
    """Return the depth that counts for a silent pool: an eighth, and less once it is abandoned."""
    return depth_of(swaps) / 8 * min(Fraction(1), left_s(swaps) / (now - swaps[-1].time))


def is_quiet(swaps: Sequence[Offer], now: int) -> bool:
    """Return whether a pool has not traded for two mean pauses, at least 3 s and at most 9 s."""
    silent_s = now - swaps[-1].time
    return silent_s > 9 or (silent_s > 3 and is_more(Fraction(silent_s), 2 * lull_s(swaps)))


def silent_of(pools: Mapping[str, Sequence[Offer]], now: int) -> set[str]:
    """Return the quiet pools, without those whose only deeper rivals are too young."""
    quiet = {name for name, its in pools.items() if is_quiet(its, now)}
    silent = set()
    for name in quiet:
        kept = if_silent(pools[name], now)
        ages = [
            Fraction(stood_s(its)) * min(3, len({swap.signer for swap in its})) / 3
            for rival, its in pools.items()
            if rival not in quiet and depth_of(its) >= kept
        ]
        needed = 3 * lull_s(pools[name]) - 5
        if not ages or max(ages) > 9 or is_more(max(ages), needed):
            silent.add(name)
    return silent


class Tied(Exception):
    """Raised if two numbers are nearly equal, so that floating point may decide either way."""


def is_more(one: Fraction, other: Fraction) -> bool:
    """Return whether *one* is more than *other*; raise `Tied` if they are nearly equal."""
    if abs(one - other) < TIE:
        raise Tied
    return one > other


def left_s(swaps: Sequence[Offer]) -> Fraction:
    """Return the seconds until a silent pool is abandoned: 100 mean pauses, from 1 h to 24 h."""
    return max(Fraction(3_600), min(Fraction(86_400), 100 * pause_s(swaps)))


def stood_s(swaps: Sequence[Offer]) -> int:
    """Return the seconds from a pool's first swap to its newest one, at most 600."""
    return min(600, swaps[-1].time - swaps[0].time)


def defined(swaps: Sequence[Offer]) -> bool:
    """Return whether the last of *swaps* sets the price; raise `Tied` if weights are too close."""
    pools: dict[str, list[Offer]] = {}
    for swap in swaps:
        if pools or not swap.trip:  # a round trip begins no pool
            pools.setdefault(swap.pool, []).append(swap)
    newest = swaps[-1]
    if newest.trip or taken(pools[newest.pool])[-1] is not newest:
        return False
    if len(pools) == 1:
        return True
    trading, silent = weights_of(pools, newest.time)
    if newest.pool not in trading:
        return False
    prices = {name: taken(its)[-1].usd for name, its in pools.items()}
    bounds = []
    for part in (Fraction("0.49"), Fraction("0.51")):
        for usd in sorted({prices[name] for name in trading | silent}):
            trading_low, trading_high = split(trading, prices, usd)
            silent_low, silent_high = split(silent, prices, usd)
            below = against(trading_low, silent_low, trading_high)
            whole = below + against(trading_high, silent_high, trading_low)
            if abs(below - whole * part) < TIE * whole:
                raise Tied
            if below > whole * part:
                bounds.append(usd)
                break
    return bounds[0] / 1.02 <= newest.usd <= bounds[1] * 1.02


Weights = Mapping[str, Fraction]


def split(of: Weights, prices: Mapping[str, float], usd: float) -> tuple[Weights, Weights]:
    """Divide *of*, weights by pool, into pools with a price of at most *usd* and the others."""
    low = {name: weight for name, weight in of.items() if prices[name] <= usd}
    return low, {name: weight for name, weight in of.items() if name not in low}


def against(trading: Weights, silent: Weights, others: Weights) -> Fraction:
    """Return the weight of the *trading* and *silent* pools on one side of a price.

    others   the trading pools on the other side.  A silent pool counts an eighth of its weight, for
             each of *others*; only once if no pool trades on either side

    The result is at most eight times the weight of the heaviest pool.
    """
    seen = Fraction(0)
    if others:
        seen = min(sum(others.values(), Fraction(0)) / max(others.values()), Fraction(8))
    elif not trading:
        seen = Fraction(1)
    whole, quiet = (sum(of.values(), Fraction(0)) for of in (trading, silent))
    weight = whole + quiet / 8 * seen
    return min(weight, 8 * max([*trading.values(), *silent.values()], default=Fraction(0)))


def weights_of(
    pools: Mapping[str, Sequence[Offer]], now: int
) -> tuple[dict[str, Fraction], dict[str, Fraction]]:
    """Return the weights of the trading pools, and those of silent pools as if they traded.

    Only pools that count are in the first result.  If all weights are 0, that is the first pool
    that is not abandoned.
    """
    silent = silent_of(pools, now)
    ages = [stood_s(its) for name, its in pools.items() if name not in silent]
    weights = {}
    for name, its in pools.items():
        signers = len({swap.signer for swap in its})
        part = Fraction(min(stood_s(its), max(5, *ages)), max(5, *ages)) * min(signers, 3) / 3
        full = if_silent(its, now) * 8 if name in silent else depth_of(its)
        weights[name] = part * full
    heaviest = max(one / 8 if name in silent else one for name, one in weights.items())
    if not heaviest:
        alive = [name for name, its in pools.items() if now - its[-1].time <= left_s(its)]
        return {(alive or list(pools))[0]: Fraction(1)}, {}
    if any(abs(one * 8 - heaviest) < TIE * heaviest for one in weights.values()):
        raise Tied
    heavy = {name: one for name, one in weights.items() if one * 8 >= heaviest}
    return (
        {name: one for name, one in heavy.items() if name not in silent},
        {name: one for name, one in heavy.items() if name in silent},
    )


PEOPLE: Final = ("ann", "ben", "cat", "dan")


@st.composite
def markets(draw: st.DrawFn) -> list[Offer]:
    """Draw swaps of up to six pools, with amounts, pauses and prices near the rule's limits."""
    depths = draw(
        st.lists(st.sampled_from([0, 1_000, 7_500, 8_500, 60_000]), min_size=1, max_size=6)
    )
    pauses = st.sampled_from(
        draw(st.sampled_from([[0, 1, 2], [0, 0, 4, 7], [2, 9, 31], [70, 4_000]]))
    )
    prices = st.sampled_from(draw(st.sampled_from([[1.0, 1.018, 1.022], [1.0, 1.04, 1.055, 0.7]])))
    rates = st.sampled_from(draw(st.sampled_from([[150.0], [150.0, 140.0]])))
    time, swaps = 1_800_000_000, []
    usual_s = draw(st.sampled_from([3, 29]))
    for number in range(draw(st.sampled_from([0, 0, 4, 21]))):  # the first pool may be old
        time += usual_s
        swaps.append(_offer(time, 0, 1.0, 150.0, 2_000_000, depths[0], PEOPLE[number % 4]))
    for _ in range(draw(st.integers(1, 24))):
        time += draw(pauses)
        at = draw(st.integers(0, len(depths) - 1))
        depth = depths[at] // draw(st.sampled_from([1, 1, 1, 1, 2, 50]))
        volume = draw(st.sampled_from([5_000, 90_000, 150_000, 2_000_000, 70_000_000]))
        signer = draw(st.sampled_from(PEOPLE))
        trip = draw(st.sampled_from([*[Trip.NONE] * 12, Trip.LOOP, Trip.BACK]))
        one = _offer(time, at, draw(prices), draw(rates), volume, depth, signer)
        swaps.append(replace(one, trip=trip, is_buy=draw(st.booleans())))
    return swaps


def _offer(  # noqa: PLR0913, PLR0917 - what a swap says
    time: int, pool: int, usd: float, rate: float, volume: int, depth: int, signer: str
) -> Offer:
    sol, micro_usd = usd / rate, depth * 1_000_000
    return Offer(f"pool{pool}", signer, usd, sol, volume, micro_usd, UnixS(time))


@settings(max_examples=200)
@given(markets())
def test_a_swap_sets_the_price_exactly_as_the_definition_says(swaps: list[Offer]) -> None:
    standing: Standing | None = None
    for at, swap in enumerate(swaps, start=1):
        standing, sets = stand(standing, swap)
        try:
            expected = defined(swaps[:at])
        except Tied:
            continue
        assert sets == expected, swap
