"""Random swaps of one mint, in the forms in which tests read and apply them."""

import random

from mintscope.kit.primitives import Mint, UnixS
from mintscope.market.engine.engine import Engine, as_trades
from mintscope.market.log import PricedSwap
from support.oracles.definitions import Trade

MINT = Mint("So11111111111111111111111111111111111111112")
START = 1_700_000_000


def stream(seed: int, length: int, gap_s: float) -> list[Trade]:
    """Return *length* trades in bursts, *gap_s* apart on average; one in six has no price."""
    rng = random.Random(seed)
    time, price, trades = START + rng.randrange(100_000), 10.0 ** rng.uniform(-9, 6), []
    for _ in range(length):
        if rng.random() < 0.6:
            time += int(rng.expovariate(1 / gap_s)) if gap_s else 0
        elif rng.random() < 0.02:
            time += rng.randrange(200_000)
        price *= rng.choice((1.0, rng.uniform(0.8, 1.25)))
        priced = rng.random() < 5 / 6
        trades.append(
            Trade(
                time,
                price if priced else None,
                price / 150 if priced else None,
                rng.choice((0, 1, rng.randrange(10**13))),
                rng.random() < 0.5,
            )
        )
    return trades


def swap(trade: Trade, index: int = 0, mint: Mint = MINT) -> PricedSwap:
    """Return *trade* as a priced swap of *mint*."""
    return PricedSwap(
        mint, index, 0, -1, 0, trade.is_buy, trade.volume, trade.price, trade.price_sol
    )


def apply(engine: Engine, row: int, trades: list[Trade]) -> None:
    engine.apply(as_trades([(row, UnixS(trade.time), swap(trade)) for trade in trades]))
