"""Compares mintscope's engine with TA-Lib and talipp: swaps, snapshots, JSON and memory.

TA-Lib computes indicators on each read, here from the last 500 closes.  talipp keeps state like
mintscope, but has no pressure windows and no Fibonacci levels.  The floor of a report is its JSON
alone.  Rounds alternate and the best round of each counts, so that a busy machine disturbs all of
them equally.  Times are processor times, so they apply to one core.
"""

import time
import tracemalloc
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import msgspec
import numpy as np
import talib
from numpy.typing import NDArray
from talipp.indicators import EMA, MACD, RSI

from bench.figure import Figure, tell
from mintscope.kit.primitives import Mint, UnixS
from mintscope.market.engine.engine import Engine
from mintscope.market.engine.given import Trades
from mintscope.market.engine.kernels import GRAINS, ROW, SERVICE, SWING, WIDTHS
from mintscope.market.report import token_report

MINTS: Final = 100_000
SWAPS: Final = 1_000_000
HISTORY: Final = 250 * max(WIDTHS)
READS: Final = 20_000
PEER_READS: Final = 300
READ_FROM: Final = 500
ROUNDS: Final = 5
START: Final = 1_700_000_000
MINT: Final = Mint("So11111111111111111111111111111111111111112")


def run() -> list[Figure]:
    """Measure the engine and two peers: the times of swaps and reports, and memory."""
    rng = np.random.default_rng(1)
    engine = Engine(MINTS)
    engine.apply(_random_trades(rng, np.arange(MINTS), np.full(MINTS, START)))
    reads = rng.choice(MINTS, READS, replace=False).tolist()
    _give_history(rng, engine, reads[0])
    talipp, closes = _talipp(), np.exp(rng.normal(size=READ_FROM)).astype(np.float64)

    best: dict[str, float] = {}
    for number in range(1, ROUNDS + 1):
        at = START + HISTORY + 3600 * number
        trades, now = _zipf_trades(rng, at), UnixS(at + 3600)
        _keep(best, "swap", SWAPS, partial(engine.apply, trades))
        _keep(best, "cold", READS, partial(_snapshots, engine, reads, now))
        _keep(best, "json", READS, partial(_jsons, engine, reads[0], now))
        _keep(best, "ready", READS, partial(_ready_jsons, engine, reads[0], now))
        _keep(best, "talib", PEER_READS, partial(_talib_reads, closes))
        _keep(best, "talipp", PEER_READS, partial(_talipp_swaps, talipp))
    return _figures(best, _talipp_bytes())


def _figures(best: dict[str, float], talipp_bytes: float) -> list[Figure]:
    swap, cold, json, ready, talib_s, talipp_s = (
        best[name] for name in ("swap", "cold", "json", "ready", "talib", "talipp")
    )
    swaps = f"swaps applied, Zipf over {MINTS:,} mints"
    snapshot = "snapshot of a mint, 4 timeframes, cold"
    memory = "memory of a live mint"
    return [
        Figure(what=swaps, who="mintscope", value=1 / swap, unit="swaps/s", goal=">= 4 M"),
        Figure(what=swaps, who="talipp, hot", value=1 / talipp_s, unit="swaps/s",
               ratio=talipp_s / swap),
        Figure(what=snapshot, who="mintscope", value=cold * 1e6, unit="us", goal="<= 2"),
        Figure(what=snapshot, who=f"TA-Lib on read, {READ_FROM} closes, hot", value=talib_s * 1e6,
               unit="us", ratio=talib_s / cold),
        Figure(what=snapshot, who="talipp, open candle updated, hot", value=talipp_s * 1e6,
               unit="us", ratio=talipp_s / cold),
        Figure(what="report as JSON, snapshot included", who="mintscope", value=json * 1e6,
               unit="us", goal="<= 5"),
        Figure(what="report as JSON, snapshot included", who="floor: encode a ready report",
               value=ready * 1e6, unit="us", ratio=ready / json, goal=">= 0.3x"),
        Figure(what=memory, who="mintscope", value=ROW.itemsize, unit="bytes", goal="<= 14,500"),
        Figure(what=memory, who=f"talipp, {READ_FROM} candles each", value=talipp_bytes,
               unit="bytes", ratio=talipp_bytes / ROW.itemsize),
    ]  # fmt: skip


def _keep(best: dict[str, float], name: str, units: int, work: Callable[[], None]) -> None:
    begun = time.thread_time()
    work()
    best[name] = min(best.get(name, float("inf")), (time.thread_time() - begun) / units)


def _random_trades(
    rng: np.random.Generator, rows: NDArray[np.int64], times: NDArray[np.int64]
) -> Trades:
    size = len(rows)
    prices = np.exp(rng.normal(size=size) * 0.01)
    volumes = rng.integers(1, 10**9, size)
    return Trades(rows, times, prices, prices / 150, volumes, rng.random(size) < 0.5)


def _zipf_trades(rng: np.random.Generator, at: int) -> Trades:
    """Return random swaps of an hour, in which the n-th most traded mint has 1/n of the first's."""
    shares = 1 / np.arange(1, MINTS + 1)
    ranks = np.searchsorted(np.cumsum(shares / shares.sum()), rng.random(SWAPS))
    mints = rng.permutation(MINTS)[np.minimum(ranks, MINTS - 1)]
    return _random_trades(rng, mints, at + np.arange(SWAPS) * 3600 // SWAPS)


def _give_history(rng: np.random.Generator, engine: Engine, row: int) -> None:
    """Apply a swap of one mint every minute, until its `h1` has the candles for an EMA of 200."""
    times = START + np.arange(0, HISTORY, min(WIDTHS))
    engine.apply(_random_trades(rng, np.full(len(times), row), times))


def _snapshots(engine: Engine, rows: Sequence[int], now: UnixS) -> None:
    for row in rows:
        engine.snapshot(row, now)


def _jsons(engine: Engine, row: int, now: UnixS) -> None:
    encode = msgspec.json.Encoder().encode
    for _ in range(READS):
        encode(token_report(MINT, engine.snapshot(row, now), now))


def _ready_jsons(engine: Engine, row: int, now: UnixS) -> None:
    encode = msgspec.json.Encoder().encode
    report = token_report(MINT, engine.snapshot(row, now), now)
    for _ in range(READS):
        encode(report)


def _talib_reads(closes: NDArray[np.float64]) -> None:
    window = closes[-SWING:]
    for _ in range(PEER_READS * len(WIDTHS)):
        for period in SERVICE.ema:
            talib.EMA(closes, period)
        talib.RSI(closes, SERVICE.rsi)
        talib.MACD(closes, SERVICE.fast, SERVICE.slow, SERVICE.signal)
        talib.MAX(window, SWING)
        talib.MIN(window, SWING)


def _talipp(size: int = READ_FROM) -> list[Any]:
    closes = np.exp(np.random.default_rng(2).normal(size=size)).tolist()
    return [
        indicator
        for _ in WIDTHS
        for indicator in (
            *(EMA(period, closes) for period in SERVICE.ema),
            RSI(SERVICE.rsi, closes),
            MACD(SERVICE.fast, SERVICE.slow, SERVICE.signal, closes),
        )
    ]


def _talipp_swaps(indicators: Sequence[Any]) -> None:
    """Apply PEER_READS swaps: each updates all *indicators* with a new close of the open candle."""
    for n in range(PEER_READS):
        for indicator in indicators:
            indicator.update(1.0 + n)


def _talipp_bytes() -> float:
    tracemalloc.start()
    kept = _talipp()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(kept) > len(GRAINS)
    return float(size)


if __name__ == "__main__":
    for figure in run():
        tell(figure)
