"""Measures conditions over 100,000 tokens: the time of a page, stalls of the loop, and memory.

A page costs as much as a request without its charge: parsing the condition, finding the rows, and
encoding 100 of them as JSON, in a thread as in the api process.  `bench.lists.Watch` measures
stalls.  The conditions are generated from a fixed seed: one to five comparisons of fields with
quantiles of their values, or with other fields.

The peer is polars, with the same columns and order, and the conditions in its own syntax.
"""

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from operator import truediv
from pathlib import Path
from random import Random
from statistics import median, quantiles
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import polars as pl
from typing_extensions import override

from bench.figure import Figure, tell
from bench.lists import MINTS, NOW, ManyMints, Watch
from mintscope.api.screen import ScreenQuery, made_page, read_screen
from mintscope.kit.clock import SystemClock
from mintscope.kit.machine import freeze_startup_objects
from mintscope.kit.primitives import Mint, UnixS
from mintscope.market.engine.fold import MintFold
from mintscope.market.engine.kernels import ACC, AGES
from mintscope.market.engine.recent import CROSSED
from mintscope.market.follow.list_cache import ListCache
from mintscope.market.log import PricedSwap
from mintscope.market.screening.averages import NAMES as AVERAGES
from mintscope.market.screening.columns import load_list_kernels
from mintscope.market.screening.grammar import FIELDS
from mintscope.market.screening.listed import ListedTokens
from mintscope.market.screening.snapshot import MintAsFolded, RecentCandles
from mintscope.market.timeframe import TIMEFRAMES

PAGE_BYTES: Final = 4096
STATES: Final = 64
CANDLES: Final = 250
CONDITIONS: Final = 500
PEER_CONDITIONS: Final = 50
LIMIT: Final = 100
PARTS: Final = (0.01, 0.2, 0.8, 0.99)
WHO: Final = "mintscope"
PEER: Final = "polars"
NUMBERS: Final = [name for name, field in FIELDS.items() if not field.is_level]


class Asked(NamedTuple):
    """A condition in the syntax of mintscope and in that of the peer, and the sort key."""

    query: ScreenQuery
    expression: pl.Expr


class ManyHistories(ManyMints):
    """Mints in memory, as in bench.lists, but with different histories of many candles."""

    def __init__(self) -> None:
        super().__init__()
        self._made = Random(3)
        self._histories = [self._history() for _ in range(STATES)]

    def _history(self) -> tuple[bytes, RecentCandles]:
        fold, usd = MintFold(), self._made.uniform(0.001, 100.0)
        closes = []
        for n in range(CANDLES):
            usd *= self._made.uniform(0.97, 1.03)
            closes.append(usd)
            time_s = UnixS(NOW - 3_600 * (CANDLES - n))
            swap = PricedSwap(
                Mint(""), 0, 0, -1, 0, is_buy=True, volume=10**6, price_usd=usd, price_sol=0.01
            )
            fold.apply(time_s, swap)
        return fold.state(), RecentCandles(0, bytes(8 * ACC), np.array(closes[:-1]).tobytes())

    @override
    def _line(self, mint: Mint) -> MintAsFolded:
        line = super()._line(mint)
        state, recent = self._made.choice(self._histories)
        newest = np.repeat(np.frombuffer(recent.closes), 3).tobytes()
        return msgspec.structs.replace(
            line,
            state=state,
            recent=dict.fromkeys(TIMEFRAMES, recent),
            newest=dict.fromkeys(TIMEFRAMES, newest),
        )


def conditions(listed: ListedTokens) -> list[Asked]:
    """Return CONDITIONS random conditions on the numbers of tokens, each true for some tokens."""
    random = Random(11)
    marks = {name: _quantiles(listed, name) for name in NUMBERS}
    found = []
    for _ in range(CONDITIONS):
        texts = []
        expressions = []
        for _ in range(random.randint(1, 5)):
            name, mark = random.choice(NUMBERS), random.choice("<>")
            other: Any = random.choice(NUMBERS)
            left = pl.col(name)
            if random.random() < 0.7:
                value = random.choice(marks[name])
                texts.append(f"{name} {mark} {value!r}")
                right = pl.lit(value)
            else:
                texts.append(f"{name} {mark} 2.5 * {other}")
                right = 2.5 * pl.col(other)
            expressions.append(left < right if mark == "<" else left > right)
        word = random.choice(("and", "or"))
        joined = expressions[0]
        for each in expressions[1:]:
            joined = joined & each if word == "and" else joined | each
        query = ScreenQuery(where=f" {word} ".join(texts), sort=random.choice(NUMBERS))
        found.append(Asked(query, joined))
    return found


def crossings() -> list[ScreenQuery]:
    """Return a condition for each average and timeframe: it crosses the price from above."""
    return [
        ScreenQuery(where=f"crosses_below({name}_{timeframe}, price, {AGES})")
        for timeframe in TIMEFRAMES
        for name in (*AVERAGES, *CROSSED)
    ]


def _quantiles(listed: ListedTokens, name: str) -> Sequence[float]:
    values = listed.columns.column(name)
    known = values[~np.isnan(values)]
    return np.quantile(known, PARTS).tolist() if len(known) else [0.0]


def peer_page(frame: pl.DataFrame, asked: Asked) -> str:
    names = ["price", asked.query.sort]
    page = (
        frame.lazy()
        .filter(asked.expression)
        .sort(asked.query.sort, descending=True, nulls_last=True)
        .head(LIMIT)
        .select(list(dict.fromkeys(names)))
        .collect()
    )
    return page.write_json()


async def measure() -> list[Figure]:
    """Measure conditions on the list of tokens: the times of pages, stalls, and memory."""
    market, watch = ManyHistories(), Watch()
    load_list_kernels()
    freeze_startup_objects()

    async def never() -> None:
        raise AssertionError("the bench refreshes it")

    lister = ListCache(market, SystemClock(), wait=never)
    before_bytes = rss_bytes()
    await lister.refresh()
    for _ in range(3):
        market.slot += 1
        await lister.refresh()
    listed = lister.newest()
    asked = conditions(listed)
    for name in NUMBERS:
        listed.columns.column(name)
    kept_bytes = rss_bytes() - before_bytes
    watching = asyncio.ensure_future(watch.run())
    await asyncio.sleep(0.1)
    watch.longest_ms()
    ours_ms = []
    found = 0
    for each in asked:
        work = partial(_timed, partial(_page, listed, each))
        taken_ms, count = await asyncio.to_thread(work)
        ours_ms.append(taken_ms)
        found += count
    first_ms = []
    for query in crossings():
        work = partial(_timed, partial(_page, listed, Asked(query, pl.lit(1))))
        taken_ms, _ = await asyncio.to_thread(work)
        first_ms.append(taken_ms)
    stall_ms = watch.longest_ms()
    watching.cancel()
    assert found > CONDITIONS * 10
    frame = pl.DataFrame(
        {name: pl.Series(listed.columns.column(name)).fill_nan(None) for name in NUMBERS}
    )
    peer_ms = [_timed(partial(peer_page, frame, each))[0] for each in asked[:PEER_CONDITIONS]]
    ratio = median(map(truediv, peer_ms, ours_ms[:PEER_CONDITIONS]))
    return [
        _figure("a page of a condition over 100,000 tokens", median(ours_ms), "ms", "20"),
        Figure(
            what="a page of a condition over 100,000 tokens",
            who=PEER, value=median(peer_ms), unit="ms", ratio=ratio,
        ),
        _figure("the same, p99 of 500 conditions", quantiles(ours_ms, n=100)[-1], "ms", "20"),
        _figure("a crossing within 5 candles, first asked", median(first_ms), "ms", "20"),
        _figure("longest stall of the loop meanwhile", stall_ms, "ms", "5"),
        _figure("the list with all columns, a token", kept_bytes / MINTS, "bytes", ""),
    ]  # fmt: skip


def rss_bytes() -> int:
    """Return the resident memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


def _page(listed: ListedTokens, asked: Asked) -> int:
    page = made_page(listed, read_screen(asked.query))
    msgspec.json.encode(page)
    return len(page.tokens)


def _timed(work: Any) -> tuple[float, Any]:
    """Call *work*; return its processor time in ms, of all threads, and its result."""
    began_s = time.process_time()
    found = work()
    return (time.process_time() - began_s) * 1_000, found


def _figure(what: str, value: float, unit: str, most: str) -> Figure:
    return Figure(what=what, who=WHO, value=value, unit=unit, goal=most and f"at most {most}")


if __name__ == "__main__":
    for figure in asyncio.run(measure()):
        tell(figure)
