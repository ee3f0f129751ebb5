"""Measures slots of the whole market on SQLite and PostgreSQL: appending, folding, loading.

A slot has 2,000 swaps, for 5,000 a second at 400 ms a slot.  Elapsed time counts, because on
PostgreSQL the server does most of the work; it comes from a wheel and runs on this machine.
"""

import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Protocol

import numpy as np

from bench.figure import Figure
from bench.pace import time_of
from mintscope.app.stores.postgres import PostgresEngine
from mintscope.app.stores.sqlite import SqliteEngine
from mintscope.ingest.fold import FinalFold
from mintscope.kit.clock import SystemClock
from mintscope.kit.primitives import Mint, Slot, UnixS
from mintscope.market.engine.fold import MintFold
from mintscope.market.log import CandleRow, PricedSwap, SlotHeader
from mintscope.market.ports import CANDLES_MIN, Change, FinalSlot, Folded, FoldedMint, NewSlot
from mintscope.market.store.log_reader import SqlLogReader
from mintscope.market.store.log_writer import SqlMarketStore
from mintscope.market.timeframe import WIDTH_S, Timeframe, bucket
from mintscope.solana.blocks import WSOL

SWAPS: Final = 2_000
SLOTS: Final = 75
FINAL_LAG: Final = 32
TRIM_EVERY: Final = 16
START: Final = 1_700_000_000
CANDLES: Final = 1_000
COLD_MINTS: Final = 20
LOADS: Final = 1_000
SWAPS_A_SECOND: Final = 5_000
COLD_MS_MAX: Final = 10


class Market(Protocol):
    """The market tables in SQLite or PostgreSQL, to write and to read."""

    @property
    def store(self) -> SqlMarketStore: ...
    @property
    def reader(self) -> SqlLogReader: ...


class Made(Protocol):
    """A generator of slots with priced swaps."""

    @property
    def mints(self) -> Sequence[Mint]: ...
    def priced(self, count: int = ...) -> Sequence[PricedSwap]: ...


@dataclass
class Timed:
    """The elapsed seconds of each stage, one value for each repetition."""

    took_s: dict[str, list[float]] = field(default_factory=dict)

    @contextmanager
    def of(self, stage: str) -> Iterator[None]:
        began_s = time.perf_counter()
        yield
        self.took_s.setdefault(stage, []).append(time.perf_counter() - began_s)


@asynccontextmanager
async def on_sqlite() -> AsyncGenerator[Market, None]:
    with TemporaryDirectory() as folder:
        async with SqliteEngine(Path(folder)).open_market() as market:
            yield market


@asynccontextmanager
async def on_postgres() -> AsyncGenerator[Market, None]:
    # Import the servers of the tests
    servers: Any = import_module("tests.support.processes.servers")
    server = servers.PostgresServer(durable=True)
    try:
        server.start()
        async with PostgresEngine(server.dsn).open_market() as market:
            yield market
    finally:
        server.remove()


ENGINES: Final[dict[str, Callable[[], AbstractAsyncContextManager[Market]]]] = {
    "SQLite": on_sqlite,
    "PostgreSQL": on_postgres,
}


async def engines(make: Callable[[], Made]) -> list[Figure]:
    """Return, for SQLite and PostgreSQL, the times to store a slot and to load a mint.

    make   returns the same slots in each call
    """
    figures = []
    for name, opened in ENGINES.items():
        made = make()
        async with opened() as market:
            await market.store.start(mints=[WSOL, *made.mints], follows_files=True)
            written = await _write(market, made)
            await _add_cold(market, made.mints[:COLD_MINTS])
            loaded = await _load(market, made.mints[:COLD_MINTS])
        figures += [*_of_slots(name, written), *_of_loads(name, loaded)]
    return figures


async def _write(market: Market, made: Made) -> Timed:
    timed, fold = Timed(), FinalFold(market.store, None, SystemClock())
    for slot in range(1, SLOTS + 1):
        changes = _slot(slot, time_of(slot, START), made.priced(SWAPS))
        if slot > FINAL_LAG:
            changes.append(FinalSlot(Slot(slot - FINAL_LAG)))
        with timed.of("append"):
            await market.store.write(changes)
        with timed.of("fold"):
            await fold.go_on()
        if slot % TRIM_EVERY == 0:
            with timed.of("trim"):
                await market.store.trim(2_500)
    await market.store.write([FinalSlot(Slot(SLOTS))])
    with timed.of("fold the rest"):
        await fold.finish()
    return timed


async def _add_cold(market: Market, mints: Sequence[Mint]) -> None:
    """Store a thousand candles of each timeframe for each of *mints*, and swaps not folded yet."""
    time_s, slot = UnixS(START + SLOTS), SLOTS + 1
    await market.store.write([*_slot(slot, time_s, []), FinalSlot(Slot(slot))])
    folding = await market.store.fold(1)
    await folding.kept(mints)
    folded = FoldedMint(
        MintFold().state(),
        MintFold().in_sol(),
        {each: _candles(each, time_s) for each in Timeframe},
        [],
        [],
        time_s,
    )
    await folding.save(
        Folded(
            checkpoint=folding.slots[-1],
            untracked=[],
            tracked={},
            activity={},
            mints=dict.fromkeys(mints, folded),
        )
    )
    for after in range(1, FINAL_LAG + 1):
        swaps = [
            PricedSwap(mint, n, 0, -1, 0, n % 2 == 0, 10**6, 1.5, 0.01)
            for n, mint in enumerate(mints)
        ]
        await market.store.write(_slot(slot + after, time_s + after // 2, swaps))


def _candles(timeframe: Timeframe, until: UnixS) -> list[CandleRow]:
    width, last = WIDTH_S[timeframe], bucket(timeframe, until)
    return [
        CandleRow(UnixS(last - n * width), 1.5, 1.75, 1.25, 1.5 + n / 1_000, 10**6, 10**7, 9)
        for n in reversed(range(CANDLES))
    ]


def _slot(number: int, time_s: int, swaps: Sequence[PricedSwap]) -> list[Change]:
    at = UnixS(time_s)
    return [NewSlot(SlotHeader(Slot(number), Slot(number - 1), f"{number}", at, 150.0, at), swaps)]


async def _load(market: Market, mints: Sequence[Mint]) -> list[float]:
    """Load *mints* from the tables in turn, LOADS times; return the seconds of each load."""
    took_s = []
    for n in range(LOADS):
        began_s = time.perf_counter()
        loaded = await market.reader.load(mints[n % len(mints)])
        took_s.append(time.perf_counter() - began_s)
        assert loaded is not None
        assert all(len(rows) == CANDLES_MIN for rows in loaded.candles.values())
    return took_s


def _of_slots(name: str, timed: Timed) -> Iterator[Figure]:
    for stage, took_s in timed.took_s.items():
        what, mean_ms = f"{stage} in {name}, a slot of {SWAPS:,}", sum(took_s) / SLOTS * 1e3
        yield Figure(what=what, who="mintscope", value=mean_ms, unit="ms")
        yield Figure(what=what, who="mintscope", value=max(took_s) * 1e3, unit="ms at most")
    rate = SLOTS * SWAPS / sum(map(sum, timed.took_s.values()))
    what = f"all of it in {name}"
    goal = f">= {SWAPS_A_SECOND:,}"
    yield Figure(what=what, who="mintscope", value=rate, unit="swaps/s", goal=goal)


def _of_loads(name: str, took_s: Sequence[float]) -> Iterator[Figure]:
    what = f"a cold mint in {name}"
    for share, goal in ((50, ""), (99, f"<= {COLD_MS_MAX} ms")):
        value = float(np.percentile(took_s, share)) * 1e3
        yield Figure(what=what, who="mintscope", value=value, unit=f"ms p{share}", goal=goal)
