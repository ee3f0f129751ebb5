"""Measures the list of 100,000 tokens: the time to load it, the time of a page, and stalls.

The data is read from memory, so this measures only the work of the api process: loading all mints,
sorting them, following slots with 500 trades, and making pages, all in threads as in an api. A task
sleeps for a millisecond at a time, and records how late it wakes up, less the time for which
threads of this process waited for a core. The longest delay is the stall for other requests, or
more, because while the task reads the waits, a thread can keep the interpreter for 5 ms.

The peer is a table of the same numbers in SQLite in memory, with an index for each order.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from operator import truediv
from pathlib import Path
from random import Random
from statistics import median
from typing import Any, Final

import apsw
import based58

from bench.figure import Figure, tell
from mintscope.kit.clock import SystemClock
from mintscope.kit.errors import TokenNotFound
from mintscope.kit.machine import freeze_startup_objects
from mintscope.kit.primitives import Mint, Slot, UnixMs, UnixS
from mintscope.market.engine.fold import MintFold
from mintscope.market.follow.list_cache import ListCache, ListKeeper
from mintscope.market.log import PricedSwap
from mintscope.market.mint_facts import MintFacts
from mintscope.market.screening.columns import load_list_kernels
from mintscope.market.screening.listed import ListedTokens, ListLine, ListQuestion, Sort
from mintscope.market.screening.snapshot import (
    FactPlace,
    FoldedTo,
    MintAsFolded,
    MintPage,
    MintTrades,
    MinuteVolume,
    PartVolume,
    SlotTrades,
    SnapshotMark,
)

MINTS: Final = 100_000
TRADES: Final = 500
SLOTS: Final = 20
NOW: Final = UnixS(1_760_000_040)
PART_S: Final = 1_440
TURN_S: Final = 0.001
PAGE: Final = 100
TIMES: Final = 20
WHO: Final = "mintscope"
PEER: Final = "SQLite in memory, an index each"


class ManyMints:
    """The stored list of tokens, in memory: MINTS mints, all with the same state.

    It computes results in threads, like a database.
    """

    def __init__(self) -> None:
        self.slot = 1
        self._random = Random(1)
        self.mints_of = [
            Mint(based58.b58encode(number.to_bytes(32)).decode()) for number in range(1, MINTS + 1)
        ]
        fold = MintFold()
        for minute in range(30):
            swap = PricedSwap(Mint(""), 0, 0, -1, 0, True, 10**6, 1.0 + minute, 0.01, "pool")  # noqa: FBT003
            fold.apply(UnixS(NOW - 60 * (30 - minute)), swap)
        self._state = fold.state()

    async def folded(self) -> tuple[FoldedTo, int]:
        return self._folded(), self.slot

    async def mints(self, after: int, limit: int) -> MintPage:
        found = self.mints_of[after : after + limit]
        lines = await asyncio.to_thread(self._lines, found)
        return MintPage(folded=self._folded(), mints=lines, last=after + len(found))

    async def some(self, mints: Sequence[Mint]) -> MintPage:
        lines = await asyncio.to_thread(self._lines, mints)
        return MintPage(folded=self._folded(), mints=lines, last=0)

    async def trades(self, after_seq: int, until_seq: int, _limit: int) -> Sequence[SlotTrades]:
        return await asyncio.to_thread(self._slots, range(after_seq + 1, until_seq + 1))

    async def tracked(self, _after_seq: int, _until_seq: int) -> Sequence[Mint]:
        return []

    async def facts_after(
        self, _place: FactPlace, _limit: int
    ) -> Sequence[tuple[FactPlace, MintFacts]]:
        return []

    async def facts_of(self, _mint: Mint) -> MintFacts | None:
        raise TokenNotFound("there are no facts here")

    def _folded(self) -> FoldedTo:
        return FoldedTo(self.slot, Slot(self.slot), NOW)

    def _lines(self, mints: Sequence[Mint]) -> list[MintAsFolded]:
        return [*map(self._line, mints)]

    def _slots(self, seqs: range) -> list[SlotTrades]:
        return [SlotTrades(FoldedTo(seq, Slot(seq), NOW), self._trades()) for seq in seqs]

    def _line(self, mint: Mint) -> MintAsFolded:
        usd, part = self._random.random(), NOW // PART_S
        return MintAsFolded(
            mint=mint,
            since=UnixS(NOW - 86_400),
            state=self._state,
            facts=None,
            before=(usd, usd, usd),
            minutes=[MinuteVolume(UnixS(NOW - 60 * n), 10**6, 10**5, usd + n) for n in (3, 2, 1)],
            parts=[PartVolume(part - n, self._random.randrange(10**9), 5, usd) for n in (2, 1)],
        )

    def _trades(self) -> list[MintTrades]:
        return [
            MintTrades(mint, 10**6, 10**5, 1, self._random.random(), 0.01, 0.5)
            for mint in self._random.sample(self.mints_of, TRADES)
        ]


class KeptInMemory:
    """Stores the newest snapshot of the list of tokens in memory, instead of a database."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self._mark: SnapshotMark | None = None

    async def newest(self, _form: str) -> SnapshotMark | None:
        return self._mark

    async def is_due(self, _form: str, _mints_min: int) -> bool:
        return self._mark is None

    async def piece(self, _number: int, place: int) -> bytes | None:
        return self.pieces[place]

    async def begin(self, _now: UnixMs) -> int | None:
        self.pieces.clear()
        return 1

    async def add(self, _number: int, _place: int, piece: bytes) -> None:
        self.pieces.append(piece)

    async def end(self, mark: SnapshotMark) -> None:
        self._mark = mark

    async def close(self) -> None:
        self.pieces.clear()


class Watch:
    """Records the delays with which the event loop resumes a task, without waits for a core."""

    def __init__(self) -> None:
        self.late_s: list[float] = []

    async def run(self) -> None:
        while True:
            began_s = time.perf_counter() - _waited_for_core_s()
            await asyncio.sleep(TURN_S)
            self.late_s.append(time.perf_counter() - _waited_for_core_s() - began_s - TURN_S)

    def longest_ms(self) -> float:
        longest, self.late_s = max(self.late_s), []
        return longest * 1_000


def _waited_for_core_s() -> float:
    """Return the seconds for which threads of this process have waited for a core."""
    schedules = Path("/proc/self/task").glob("*/schedstat")
    return sum(int(schedule.read_text().split()[1]) for schedule in schedules) / 1e9


class PeerList:
    """The peer of the list of tokens: its numbers in SQLite in memory, with an index per order."""

    def __init__(self, listed: ListedTokens) -> None:
        self._db = apsw.Connection(":memory:")
        values = ", ".join(f"{sort} REAL" for sort in Sort)
        self._db.execute(f"CREATE TABLE token (mint TEXT, sol REAL, {values})")
        lines = listed.page(ListQuestion(limit=MINTS)).lines
        rows = ((line.listed.mint, line.sol, *_values(line)) for line in lines)
        marks = ", ".join("?" * (2 + len(Sort)))
        with self._db:
            self._db.executemany(f"INSERT INTO token VALUES ({marks})", rows)
            for sort in Sort:
                self._db.execute(f"CREATE INDEX by_{sort} ON token ({sort}, mint)")

    def page(self, sort: Sort) -> list[Any]:
        statement = f"SELECT * FROM token ORDER BY {sort} DESC, mint DESC LIMIT {PAGE}"
        return self._db.execute(statement).fetchall()


def _values(line: ListLine) -> tuple[float | None, ...]:
    change_m5, change_h1, change = line.changes
    moved = (change_m5, change_h1, line.market_cap, line.rsi, line.pressure)
    return (line.volume, change, line.age_s, line.usd, *moved)


async def measure() -> list[Figure]:
    """Measure the list of tokens: load it, follow slots and read pages; return times and stalls."""
    market, watch = ManyMints(), Watch()
    load_list_kernels()
    freeze_startup_objects()

    async def never() -> None:
        raise AssertionError("the bench refreshes it")

    kept = KeptInMemory()
    lister = ListCache(market, SystemClock(), wait=never, keeper=ListKeeper(kept, SystemClock()))
    watching = asyncio.ensure_future(watch.run())
    await asyncio.sleep(0.1)
    began_s = time.perf_counter()
    await lister.refresh()
    load_s, load_ms = time.perf_counter() - began_s, watch.longest_ms()
    began_s = time.perf_counter()
    await lister.keep()
    keep_s = time.perf_counter() - began_s
    keep_ms = watch.longest_ms()
    kept_mb = sum(map(len, kept.pieces)) / 1_000_000
    again = ListCache(market, SystemClock(), wait=never, keeper=ListKeeper(kept, SystemClock()))
    began_s = time.perf_counter()
    await again.refresh()
    again_s = time.perf_counter() - began_s
    again_ms = watch.longest_ms()
    assert len(again.newest()) == MINTS
    del again
    await asyncio.sleep(0.1)
    watch.longest_ms()  # discard the delay that deleting a list caused
    follow_s = []
    for _ in range(SLOTS):
        market.slot += 1
        began_s = time.perf_counter()
        await lister.refresh()
        follow_s.append(time.perf_counter() - began_s)
    follow_ms, page_s, peer_s = watch.longest_ms(), [], []
    peer = await asyncio.to_thread(PeerList, lister.newest())
    await asyncio.sleep(0.1)
    watch.longest_ms()  # discard the delays of the peer
    for sort in Sort:
        question = ListQuestion(text="", sort=sort, is_rising=False, limit=PAGE)
        ours = partial(lister.newest().page, question)
        assert len((await asyncio.to_thread(ours)).lines) == PAGE
        page_s.append(await asyncio.to_thread(_cpu_s, ours))
        peer_s.append(await asyncio.to_thread(_cpu_s, partial(peer.page, sort)))
        await asyncio.sleep(2 * TURN_S)
    pages_ms = watch.longest_ms()
    watching.cancel()
    return [
        _figure("load the list of 100,000 tokens", load_s, "s"),
        _figure("longest stall of the loop meanwhile", load_ms, "ms"),
        _figure("keep it for a process that starts", keep_s, "s"),
        _figure("what is kept", kept_mb, "MB"),
        _figure("longest stall by keeping it", keep_ms, "ms"),
        _figure("load the list that was kept", again_s, "s"),
        _figure("longest stall by loading it", again_ms, "ms"),
        _figure("follow a slot with 500 trades", median(follow_s) * 1_000, "ms"),
        _figure("longest stall meanwhile, 20 slots", follow_ms, "ms"),
        _figure("a page of 100 of the list", median(page_s) * 1_000, "ms"),
        Figure(
            what="a page of 100 of the list",
            who=PEER,
            value=median(peer_s) * 1_000,
            unit="ms",
            ratio=median(map(truediv, peer_s, page_s)),
        ),
        _figure("longest stall by pages, each order", pages_ms, "ms"),
    ]


def _cpu_s(work: Callable[[], object]) -> float:
    """Run *work* several times; return the least processor seconds of a run."""
    taken_s = []
    for _ in range(TIMES):
        began_s = time.thread_time()
        work()
        taken_s.append(time.thread_time() - began_s)
    return min(taken_s)


def _figure(what: str, value: float, unit: str) -> Figure:
    return Figure(what=what, who=WHO, value=value, unit=unit)


if __name__ == "__main__":
    for figure in asyncio.run(measure()):
        tell(figure)
