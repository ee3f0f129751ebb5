"""What the market file must hold, computed slowly from the definitions alone.

Shares no code with what it checks: exact fractions, sorted lists, no state.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

from mintscope.base.solana import USDC, USDT, WSOL, Block
from mintscope.core.market.swap import Swap
from support.fakes.made_chain import swap_in

Sample: TypeAlias = tuple[Fraction, int]
"""Dollars for a SOL, and the lamports that they were paid for."""

WIDTHS = {"m1": 60, "m5": 300, "m15": 900, "h1": 3600}


class Traded(NamedTuple):
    """An accepted swap of *mint*."""

    mint: str
    time: int
    price: Fraction | None
    is_buy: bool
    volume: int


def effective_times(blocks: Sequence[Block]) -> list[int]:
    """Return when each block is."""
    times: list[int] = []
    for block in blocks:
        previous = times[-1] if times else 0
        times.append(previous if block.time is None else max(previous, block.time))
    return times


def sol_samples(block_swaps: Sequence[Sequence[Swap]]) -> list[list[Sample]]:
    """Return what each block says of the price of SOL."""
    return [
        [
            (Fraction(dollars, 10**6) / Fraction(lamports, 10**9), lamports)
            for lamports, dollars in map(_sol_for_dollars, swaps)
            if lamports >= 50_000_000
        ]
        for swaps in block_swaps
    ]


def sol_price(samples: Sequence[Sequence[Sample]], times: Sequence[int], n: int) -> float | None:
    """Return dollars per SOL at block *n*: looked for again from the beginning."""
    for back in range(n, -1, -1):
        near = [
            sample for k in range(back + 1) if times[back] - times[k] <= 60 for sample in samples[k]
        ]
        if near:
            newest = max(times[k] for k in range(back + 1) if samples[k])
            return float(_median(near)) if times[n] - newest <= 300 else None
    return None


def _sol_for_dollars(swap: Swap) -> tuple[int, int]:
    pair = {swap.in_mint: swap.in_amount, swap.out_mint: swap.out_amount}
    dollars = pair.get(USDC, pair.get(USDT))
    return (pair[WSOL], dollars) if WSOL in pair and dollars is not None else (0, 0)


def _median(samples: list[Sample]) -> Fraction:
    total = sum(weight for _, weight in samples)
    return min(
        price
        for price, _ in samples
        if 2 * sum(weight for other, weight in samples if other <= price) >= total
    )


def trades(blocks: Sequence[Block]) -> Iterator[Traded]:
    """Yield every accepted swap of *blocks* in order."""
    times = effective_times(blocks)
    swaps = [[swap_in(transaction) for transaction in block.transactions] for block in blocks]
    samples = sol_samples(swaps)
    for n, of_block in enumerate(swaps):
        rate = sol_price(samples, times, n)
        if rate is None or times[n] == 0:
            continue
        for swap in of_block:
            yield from _traded(swap, times[n], Fraction(rate))


def _traded(swap: Swap, time: int, rate: Fraction) -> Iterator[Traded]:
    """Made swaps have one signer a transaction, so no trader is on both sides."""
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
    volume = dollars * 10**6 // 1
    if is_dust and volume > 100_000:  # ten cents and more for next to nothing
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
