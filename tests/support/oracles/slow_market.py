"""The expected content of `market.sqlite`, computed slowly from the definitions alone.

This module shares no code with the tested market: exact fractions, sorted lists, no state.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from mintscope.dex.outcome import Swap
from mintscope.solana.blocks import USDC, USDT, WSOL, Block
from support.fakes.made_chain import swap_in
from support.oracles.definitions import WIDTHS


class Traded(NamedTuple):
    mint: str
    time: int
    price: Fraction | None
    is_buy: bool
    volume: int


class Sample(NamedTuple):
    """A trade of SOL for dollars, with the dollars left in the pool."""

    pool: str
    signer: str
    price: Fraction
    lamports: int
    left: int | None


def effective_times(blocks: Sequence[Block]) -> list[int]:
    times: list[int] = []
    for block in blocks:
        previous = times[-1] if times else 0
        times.append(previous if block.time is None else max(previous, block.time))
    return times


def sol_samples(block_swaps: Sequence[Sequence[Swap]]) -> list[list[Sample]]:
    return [list(_sol_for_dollars(swaps)) for swaps in block_swaps]


def sol_price(
    samples: Sequence[Sequence[Sample]],
    times: Sequence[int],
    n: int,
    slack: Fraction = Fraction(0),
) -> float | None:
    """Compute dollars per SOL at block *n* from all blocks up to it; None if there is no price.

    slack   the fraction by which half of the weight is increased, to decide ties in both ways
    """
    for newest in range(n, -1, -1):
        if not samples[newest]:
            continue
        said = [
            _Said(k, times[newest] - times[k], *one)
            for k in range(newest + 1)
            if times[newest] - times[k] <= 60
            for one in samples[k]
        ]
        is_fresh = times[n] - times[newest] <= 300
        return float(_agreed(said[::-1], slack)) if is_fresh else None
    return None


class _Said(NamedTuple):
    """A sample of the SOL price, with its block, and its age relative to the newest sample."""

    block: int
    age: int
    pool: str
    signer: str
    price: Fraction
    lamports: int
    left: int | None


def _sol_for_dollars(swaps: Sequence[Swap]) -> Iterator[Sample]:
    """Yield samples of the SOL price: for each transaction and pool, the last swap.

    A transaction that both buys and sells in a pool gives no sample of that pool.
    """
    by_place: dict[tuple[str, int], list[tuple[Any, ...]]] = defaultdict(list)
    first: dict[int, str] = {}
    for swap in swaps:
        pair = {swap.in_mint: swap.in_amount, swap.out_mint: swap.out_amount}
        dollars = pair.get(USDC, pair.get(USDT))
        if WSOL not in pair or dollars is None or pair[WSOL] < 50_000_000:
            continue
        is_sale = swap.in_mint == WSOL
        left = swap.out_left if is_sale else swap.in_left
        price = Fraction(dollars, 10**6) / Fraction(pair[WSOL], 10**9)
        signer = first.setdefault(swap.transaction_index, swap.signer)
        reported = swap.pool, signer, price, pair[WSOL], left, is_sale
        by_place[swap.pool, swap.transaction_index].append(reported)
    for of_place in by_place.values():
        if len({is_sale for *_, is_sale in of_place}) == 1:
            yield Sample(*of_place[-1][:-1])


class _Vote(NamedTuple):
    pool: str
    signer: str
    price: Fraction
    lamports: int


def _agreed(said: Sequence[_Said], slack: Fraction) -> Fraction:
    """Return the price that pools agree on, by definition; *said* starts with the newest sample."""
    pools: dict[str, list[_Said]] = defaultdict(list)
    for one in said:
        pools[one.pool].append(one)
    if len(pools) == 1:
        return said[0].price
    votes = {pool: _votes(of) for pool, of in pools.items()}
    money = {
        pool: min((one.left for one in of if one.left is not None), default=0)
        for pool, of in pools.items()
    }
    if not any(money.values()):
        money = {pool: sum(one.lamports for one in votes[pool]) for pool in pools}
    weights = {
        pool: Fraction(money[pool])
        * Fraction(len(votes[pool]), 3)
        * Fraction(of[-1].age + 1, 61)
        * (Fraction(1, 8) if of[0].age > 8 else 1)
        for pool, of in pools.items()
    }
    counting = [pool for pool in pools if money[pool] * 1_000 >= max(money.values())]
    shares = {one: weights[pool] / len(votes[pool]) for pool in counting for one in votes[pool]}
    for _ in range(4):
        shares = _at_most_a_third(shares, [one.signer for one in shares])
        shares = _at_most_a_third(shares, [one.pool for one in shares])
    return _median([(one.price, share) for one, share in shares.items()], slack)


def _votes(of: Sequence[_Said]) -> list[_Vote]:
    """Return at most three votes of a pool: one a block, newest first, each by another signer."""
    votes: dict[str, _Vote] = {}
    for block in sorted({one.block for one in of}, reverse=True):
        new = [one for one in of if one.block == block and one.signer not in votes]
        if new and len(votes) < 3:
            signer = new[0].signer
            votes[signer] = _Vote(new[0].pool, signer, new[0].price, new[0].lamports)
    return list(votes.values())


def _at_most_a_third(shares: dict[_Vote, Fraction], whose: Sequence[str]) -> dict[_Vote, Fraction]:
    """Return *shares*, lowered until no owner has over a third of their sum.

    Shares of fewer than three owners are not lowered.

    whose   the owner of each share
    """
    sums: dict[str, Fraction] = defaultdict(Fraction)
    for owner, share in zip(whose, shares.values(), strict=True):
        sums[owner] += share
    least = dict(sums)
    while len(least) >= 3 and 3 * max(least.values()) > sum(least.values()):
        most = max(least.values())
        heaviest = [owner for owner, one in least.items() if one == most]
        others = sum((one for one in least.values() if one < most), Fraction())
        next_one = max(one for one in least.values() if one < most)
        least |= dict.fromkeys(heaviest, max(next_one, others / (3 - len(heaviest))))
    return {
        vote: share * least[owner] / sums[owner]
        for owner, (vote, share) in zip(whose, shares.items(), strict=True)
    }


def _median(samples: Sequence[tuple[Fraction, Fraction]], slack: Fraction) -> Fraction:
    total = sum(weight for _, weight in samples)
    half = total * (1 + slack) / 2
    return min(
        price
        for price, _ in samples
        if sum(weight for other, weight in samples if other <= price) >= half
    )


def trades(blocks: Sequence[Block]) -> Iterator[Traded]:
    """Yield every accepted swap of *blocks* in order."""
    times = effective_times(blocks)
    swaps = [[swap_in(transaction) for transaction in block.transactions] for block in blocks]
    samples = sol_samples(swaps)
    pools_of_sol: set[str] = set()
    for n, of_block in enumerate(swaps):
        rate = sol_price(samples, times, n)
        if rate is None or times[n] == 0:
            continue
        for swap in of_block:
            for one in _traded(swap, times[n], Fraction(rate), is_alone=True):
                if one.mint == WSOL and one.price is not None:
                    pools_of_sol.add(swap.pool)
        for swap in of_block:
            yield from _traded(swap, times[n], Fraction(rate), is_alone=len(pools_of_sol) == 1)


def _traded(swap: Swap, time: int, rate: Fraction, *, is_alone: bool) -> Iterator[Traded]:
    """Yield *swap* with its USD price and volume, unless the market would ignore it.

    Made transactions have one signer, so no trader is on both sides.
    """
    is_buy = swap.in_mint in {USDC, USDT} or (swap.in_mint == WSOL and swap.out_mint != USDC)
    if is_buy:
        base, raw, decimals = swap.out_mint, swap.out_amount, swap.out_decimals
        quote, paid = swap.in_mint, swap.in_amount
    else:
        base, raw, decimals = swap.in_mint, swap.in_amount, swap.in_decimals
        quote, paid = swap.out_mint, swap.out_amount
    dollars = Fraction(paid, 10**9) * rate if quote == WSOL else Fraction(paid, 10**6)
    is_dust = raw < 1_000 or paid < (100_000 if quote == WSOL else 20_000)
    price = None if is_dust or decimals is None else dollars * 10**decimals / raw
    if base == WSOL and price is not None and not is_alone:
        price = rate
    volume = dollars * 10**6 // 1
    if is_dust and volume > 100_000:  # more than ten cents for a dust amount
        volume = 0
    if volume or price is not None:
        yield Traded(base, time, price, is_buy, volume)


def candles(blocks: Sequence[Block], mints: Sequence[str]) -> dict[tuple[str, str, int], Any]:
    """Return (open, high, low, close, buy, sell, count) by (mint, timeframe, bucket)."""
    rows: dict[tuple[str, str, int], list[Traded]] = defaultdict(list)
    for traded in trades(blocks):
        if traded.mint in mints:
            for name, width in WIDTHS.items():
                rows[traded.mint, name, traded.time // width * width].append(traded)
    found: dict[tuple[str, str, int], Any] = {}
    for key, of_bucket in rows.items():
        prices = [float(one.price) for one in of_bucket if one.price is not None]
        buys = sum(one.volume for one in of_bucket if one.is_buy)
        sells = sum(one.volume for one in of_bucket if not one.is_buy)
        if prices:
            ends = (prices[0], max(prices), min(prices), prices[-1])
            found[key] = (*ends, buys, sells, len(prices))
        elif buys + sells:
            found[key] = (None, None, None, None, buys, sells, 0)
    return found
