"""Measures the processor time of backtests over 30 days of five-minute candles.

The floor is a loop over the same closes that computes their returns and evaluates no condition.
"""

import time
from collections.abc import Callable
from functools import partial
from random import Random
from statistics import median
from typing import Final

import numpy as np

from bench.figure import Figure, tell
from mintscope.kit.primitives import UnixS
from mintscope.market.engine.kernels import ACC
from mintscope.market.screening.backtest import (
    HORIZONS,
    BacktestQuestion,
    PastCandles,
    backtest,
)
from mintscope.market.screening.grammar import parse_condition
from mintscope.market.series.pools import SeriesCandle
from mintscope.market.series.series import Series, Start
from mintscope.market.timeframe import WIDTH_S, AnyFrame, Timeframe

ROUNDS: Final = 15
SPAN_S: Final = 30 * 86_400
FEE: Final = 0.003
RULES: Final = {
    "a crossing of RSI": "crosses_below(rsi_m5, 30)",
    "with EMA 200 of an hour": "crosses_below(rsi_m5, 30) and price > ema200_h1",
    "of spans": "change_h1 > 0.02 and volume_h1 > 10 and not pressure_h1 < 0.5",
}
WHO: Final = "mintscope"
WHAT: Final = "a backtest of 30 days of m5"


def past_of(timeframe: Timeframe) -> PastCandles:
    """Return 30 days of random candles of *timeframe*, each with a move of at most 2.05 %."""
    random, price = Random(1), 1.0
    candles = []
    for bucket in range(0, SPAN_S, WIDTH_S[timeframe]):
        first, price = price, price * random.uniform(0.98, 1.0205)
        low, high = sorted((first, price))
        bought, sold = random.randint(1, 9) * 10**6, random.randint(1, 9) * 10**6
        prices = (first, high * 1.001, low * 0.999, price)
        candles.append(SeriesCandle(UnixS(bucket), *prices, bought, sold, 3, *prices))
    series = Series(candles, has_older=False, closed=0, unpriced=[])
    return PastCandles(series, Start(0, 0, np.zeros(ACC)))


def by_row(past: PastCandles) -> Callable[[], None]:
    """Return a function that computes only the returns after each close, row by row: the floor."""
    closes = [each.close for each in past.series.candles]

    def run() -> None:
        for row, price in enumerate(closes):
            for span_s in HORIZONS.values():
                later = row + span_s // WIDTH_S[Timeframe.M5]
                if later < len(closes):
                    _ = closes[later] / price * (1 - FEE) ** 2 - 1

    return run


def cpu_ms(run: Callable[[], object]) -> float:
    """Return the median of the processor times of ROUNDS calls of *run*, in ms."""
    taken = []
    for _ in range(ROUNDS):
        begun = time.thread_time()
        run()
        taken.append((time.thread_time() - begun) * 1e3)
    return median(taken)


def main() -> None:
    """Print how long a backtest of each condition takes over 30 days of five-minute candles.

    Each condition is also tested with a trade size, and with open candles.
    """
    past: dict[AnyFrame, PastCandles] = {
        each: past_of(each) for each in (Timeframe.M5, Timeframe.H1)
    }
    floor_ms = cpu_ms(by_row(past[Timeframe.M5]))
    for name, where in RULES.items():
        for size, has_open, sized in (
            (0.0, False, ""), (100.0, False, ", trades of a size"), (0.0, True, ", open candles"),
        ):  # fmt: skip
            asked = BacktestQuestion(
                parse_condition(where), Timeframe.M5, UnixS(0), UnixS(SPAN_S), UnixS(SPAN_S), FEE,
                size, has_open,
            )  # fmt: skip
            ours_ms = cpu_ms(partial(backtest, asked, past))
            what = f"{WHAT}: {name}{sized}"
            tell(Figure(what=what, who=WHO, value=ours_ms, unit="ms", goal="at most 50"))
    what = "returns of its closes alone, row by row"
    tell(Figure(what=what, who="Python", value=floor_ms, unit="ms"))


if __name__ == "__main__":
    main()
