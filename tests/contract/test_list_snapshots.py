"""A list restored from its snapshot equals the list that kept running, to the last bit."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Final

import pytest
from msgspec.structs import replace
from typing_extensions import override

from mintscope.kit.clock import ManualClock
from mintscope.kit.primitives import Mint, Slot, UnixMs, UnixS
from mintscope.kit.time import DAY_MS, MINUTE_MS
from mintscope.market.follow.list_cache import (
    DUE_EVERY_S,
    EVERY_S,
    ListCache,
    ListKeeper,
    NotStored,
    keep_snapshot,
    store_list,
)
from mintscope.market.follow.list_files import ListFiles
from mintscope.market.follow.tailer import look_again_soon
from mintscope.market.log import PricedSwap, SlotHeader
from mintscope.market.ports import MINUTES_S, NewSlot, OrphanedSlot, Retention
from mintscope.market.screening.columns import IN_MEMORY, ListMemory
from mintscope.market.screening.listed import ListLine, ListQuestion, Sort
from mintscope.market.screening.snapshot import FactPlace, ListSnapshots, SnapshotMark
from mintscope.market.screening.token_list import FORM, TokenList, pieces
from mintscope.market.timeframe import WIDTH_S, Timeframe
from support.fakes.facts import FACTS
from support.fakes.made_chain import MINTS, START
from support.scenes.market_engines import MARKET_ENGINES, execute_in, market_of
from support.scenes.traded import TradedStore

A, B, C, D = MINTS
EVERY_MS: Final = round(EVERY_S * 1_000)
NOWHERE: Final = FactPlace(UnixMs(0), Mint(""))
# The shortest retention, so that candles are dropped.
RETENTION: Final = Retention(
    {each: MINUTES_S if each is Timeframe.M1 else WIDTH_S[each] for each in Timeframe}
)
STEPS_S: Final = (7, 60, 61, 130, 300, 700, 4_000)
NAMES: Final = ("Wrapped SOL", "Wrapped S0L", "ẞig", "\u202eevil", None)


@pytest.fixture(params=MARKET_ENGINES)
async def market(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[TradedStore]:
    async with market_of(request.param, tmp_path, retention=RETENTION) as opened:
        await opened.store.start(mints=[], follows_files=False)
        yield TradedStore(opened)


class Seen(ListKeeper):
    """Records the bytes of the list each time that it may be stored as a snapshot."""

    bits: list[bytes]

    @override
    async def keep(self, tokens: TokenList, tracked_seq: int, facts: FactPlace) -> None:
        self.bits = list(pieces(tokens, 0, NOWHERE))
        await super().keep(tokens, tracked_seq, facts)


class Process:
    """An api process, reduced to the parts that keep the list of all tokens."""

    def __init__(
        self, market: TradedStore, clock: ManualClock, keep: ListMemory = IN_MEMORY
    ) -> None:
        snapshots = market.market.list_snapshots
        self.keeper = Seen(snapshots, clock, mints_min=1)
        reader = market.market.lists
        self.lister = ListCache(reader, clock, wait=look_again_soon, keeper=self.keeper, keep=keep)

    async def look(self) -> None:
        await self.lister.refresh()
        await self.lister.keep()

    def lines(self, text: str = "", sort: Sort = Sort.VOLUME) -> list[ListLine]:
        return [*self.lister.newest().page(ListQuestion(text=text, sort=sort, limit=99)).lines]


def trade(mint: Mint, usd: float | None, volume: int, index: int) -> PricedSwap:
    sol = None if usd is None else usd / 100
    return PricedSwap(mint, index, 0, -1, 0, index % 2 == 0, volume, usd, sol, "pool")


async def test_a_restored_list_equals_the_list_that_kept_running(
    market: TradedStore, tmp_path: Path
) -> None:
    """There are forks, restarts, pauses of days, and mints that appear, disappear and get names.

    The list that kept running has its closed candles in memory, the restored lists have files.
    """
    keep = ListFiles(tmp_path, rows_min=1, maps=True)
    random = Random(28)
    clock = ManualClock(UnixMs(START * 1000))
    went_on = Process(market, clock)
    read_again: list[Process] = []
    followed: set[Mint] = set()
    time: int = START
    await market.append(1, time)
    for slot in range(2, 202):
        time += {70: 90_000, 140: 400_000}.get(slot, random.choice(STEPS_S))
        if random.random() < 0.1 or slot == 2:
            mint = A if slot == 2 else random.choice([B, C, D])
            await (market.untrack if mint in followed else market.track)(mint)
            followed ^= {mint}
        if random.random() < 0.1:
            name = random.choice(NAMES)
            facts = replace(FACTS, read_at_ms=clock.now(), name=name, supply=slot)
            await market.learn(random.choice(sorted(followed)), facts)
        traded = [
            trade(mint, random.choice([None, *[random.uniform(1, 9)] * 9]), random.randrange(99), n)
            for n, mint in enumerate([A, *random.choices(MINTS, k=random.randrange(4))])
        ]
        if random.random() < 0.1:
            await die(market, slot, time, traded)
        else:
            await market.append(slot, time, *traded)
        clock.advance(EVERY_MS)
        if random.random() < 0.3 or slot == 201:
            await went_on.look()
            for process in read_again:
                await process.look()
                assert process.keeper.bits == went_on.keeper.bits
                assert process.lines() == went_on.lines()
                assert process.lines("sol") == went_on.lines("sol")
                assert process.lines(A[:5]) == went_on.lines(A[:5])
                days = process.lister.newest().days([0])
                assert days == went_on.lister.newest().days([0])
            read_again = [*read_again[-2:], Process(market, clock, keep)]
    built = ListCache(market.market.lists, clock, wait=look_again_soon)
    await built.refresh()
    for sort in Sort:
        question = ListQuestion(sort=sort, limit=99)
        from_mints = [line._replace(age_s=0) for line in built.newest().page(question).lines]
        assert [line._replace(age_s=0) for line in went_on.lines(sort=sort)] == from_mints
    assert await market.market.list_snapshots.newest(FORM) is not None


async def die(market: TradedStore, slot: int, time: int, swaps: list[PricedSwap]) -> None:
    """Log *slot* with *swaps* on a fork, orphan it, and log the same slot without swaps."""
    header = SlotHeader(Slot(slot), Slot(slot - 1), f"fork {slot}", UnixS(time))
    await market.market.store.write([NewSlot(header, swaps)])
    await market.market.store.write([OrphanedSlot(Slot(slot))])
    await market.append(slot, time)


async def followed_market(market: TradedStore, clock: ManualClock) -> Process:
    """Return a process that has stored a snapshot of a list of one mint."""
    await market.append(1, START)
    await market.track(A)
    await market.append(2, START + 1, trade(A, 2.0, 5, 0))
    process = Process(market, clock)
    await process.look()
    return process


async def read_pieces(snapshots: ListSnapshots, mark: SnapshotMark) -> list[bytes | None]:
    return [await snapshots.piece(mark.number, place) for place in range(mark.piece_count)]


async def test_a_new_snapshot_is_stored_once_the_last_snapshot_is_old(market: TradedStore) -> None:
    clock = ManualClock(UnixMs(START * 1000))
    snapshots = market.market.list_snapshots
    assert await snapshots.newest(FORM) is None
    process = await followed_market(market, clock)
    first = await snapshots.newest(FORM)
    assert first is not None
    assert first.form == FORM
    assert None not in await read_pieces(snapshots, first)

    await market.append(3, START + 2, trade(A, 3.0, 5, 0))
    await process.look()
    assert await snapshots.newest(FORM) == first
    clock.advance(EVERY_MS)
    await process.look()
    second = await snapshots.newest(FORM)
    assert second is not None
    assert second.number > first.number
    assert second.folded_seq > first.folded_seq
    assert await snapshots.piece(first.number, 0) is None


async def test_only_one_of_several_processes_stores_a_snapshot(market: TradedStore) -> None:
    clock = ManualClock(UnixMs(START * 1000))
    first = await followed_market(market, clock)
    second = Process(market, clock)
    await second.look()
    clock.advance(EVERY_MS)
    await market.append(3, START + 2)
    await first.look()
    kept = await market.market.list_snapshots.newest(FORM)
    await second.look()
    assert await market.market.list_snapshots.newest(FORM) == kept


async def test_one_snapshot_is_stored_at_a_time_and_replaces_an_abandoned_one(
    market: TradedStore,
) -> None:
    snapshots = market.market.list_snapshots
    now = UnixMs(START * 1000)
    first = await snapshots.begin(now)
    assert first is not None
    await snapshots.add(first, 0, b"half")
    assert await snapshots.begin(UnixMs(now + MINUTE_MS)) is None
    assert await snapshots.newest(FORM) is None
    second = await snapshots.begin(UnixMs(now + 5 * MINUTE_MS))
    assert second is not None
    assert second > first
    await snapshots.add(second, 0, b"whole")
    mark = SnapshotMark(second, FORM, 7, 1)
    await snapshots.end(mark)
    assert await snapshots.newest(FORM) == mark
    assert await snapshots.piece(first, 0) is None
    assert await snapshots.piece(second, 0) == b"whole"


@pytest.mark.parametrize(
    "spoiled", ["form = 'another'", "piece_count = piece_count + 1", "content"]
)
async def test_a_list_is_loaded_without_a_snapshot_that_cannot_be_read(
    market: TradedStore, spoiled: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    clock = ManualClock(UnixMs(START * 1000))
    went_on = await followed_market(market, clock)
    engine = request.node.callspec.params["market"]
    if spoiled == "content":
        literal = "x'00'" if engine == "sqlite" else "'\\x00'"
        execute_in(engine, tmp_path, f"UPDATE list_snapshot_piece SET content = {literal}")
    else:
        execute_in(engine, tmp_path, f"UPDATE list_snapshot SET {spoiled}")
    process = Process(market, clock)
    await process.look()
    assert process.lines() == went_on.lines()


async def test_a_list_is_loaded_without_a_snapshot_that_is_older_than_the_log(
    market: TradedStore,
) -> None:
    clock = ManualClock(UnixMs(START * 1000))
    await followed_market(market, clock)
    for slot in range(3, 9):
        await market.append(slot, START + slot * 1_000, trade(A, 1.0, 5, 0))
    await market.trim()
    process = Process(market, clock)
    await process.look()  # finds that the log does not reach back to the snapshot
    await process.look()
    assert [line.swaps for line in process.lines()] == [7]


async def test_a_new_snapshot_is_due_before_the_log_is_trimmed_beyond_the_last(
    market: TradedStore,
) -> None:
    clock = ManualClock(UnixMs(START * 1000))
    snapshots = market.market.list_snapshots
    stored: list[int | NotStored] = []

    async def store() -> bool:
        lists = market.market.lists
        stored.append(await store_list(lists, snapshots, clock, mints_min=1, again=True))
        return isinstance(stored[-1], int)

    async def look(mints_min: int = 1) -> int:
        """Let `keep_snapshot` wait twice; return the number of its calls of `store` meanwhile."""
        before = len(stored)
        waits = iter((DUE_EVERY_S, DUE_EVERY_S))

        async def sleep(seconds: float) -> None:
            if next(waits, None) != seconds:
                raise asyncio.CancelledError

        with pytest.raises(asyncio.CancelledError):
            await keep_snapshot(snapshots, store, mints_min=mints_min, sleep=sleep)
        return len(stored) - before

    assert await look() == 0  # nothing is folded
    await market.append(1, START)
    await market.track(A)
    await market.append(2, START + 1, trade(A, 2.0, 5, 0))
    assert await look(mints_min=2) == 0
    assert await look() == 1  # there is no snapshot
    first = await snapshots.newest(FORM)
    for slot in range(3, 40):
        await market.append(slot, START + slot * 60, trade(A, 1.0, 5, 0))
        await market.trim()
        await look()
        process = Process(market, clock)
        await process.lister.refresh()
        assert process.lister.is_loaded, "the snapshot is older than the log"
    assert await snapshots.newest(FORM) != first
    assert len(stored) < 12
    assert stored == [1] * len(stored)
    assert await look() == 0
    count = len(stored)
    await snapshots.begin(UnixMs(clock.now()))  # another process stores one
    for slot in range(40, 80):
        await market.append(slot, START + slot * 60, trade(A, 1.0, 5, 0))
    await market.trim()
    assert await look() == 1
    assert stored[count:] == [NotStored.BUSY]


async def test_a_snapshot_of_another_version_is_kept_for_a_day(market: TradedStore) -> None:
    snapshots = market.market.list_snapshots
    now = START * 1000
    marks = [
        await stored(snapshots, UnixMs(now + after_ms), form)
        for after_ms, form in ((0, "older"), (EVERY_MS, FORM), (2 * EVERY_MS, "older"))
    ]
    assert await snapshots.newest(FORM) == marks[1]
    assert await snapshots.newest("older") == marks[2]
    assert await snapshots.piece(marks[0].number, 0) is None
    assert await snapshots.piece(marks[1].number, 0) == b"whole"
    newest = await stored(snapshots, UnixMs(now + DAY_MS + 3 * EVERY_MS), FORM)
    assert await snapshots.newest(FORM) == newest
    assert await snapshots.newest("older") is None
    assert await snapshots.piece(marks[2].number, 0) is None


async def stored(snapshots: ListSnapshots, now: UnixMs, form: str) -> SnapshotMark:
    """Store a one-piece snapshot of the format *form* at *now*, and return its mark."""
    number = await snapshots.begin(now)
    assert number is not None
    await snapshots.add(number, 0, b"whole")
    mark = SnapshotMark(number, form, 7, 1)
    await snapshots.end(mark)
    return mark


async def test_an_upgrade_stores_the_list(market: TradedStore) -> None:
    clock = ManualClock(UnixMs(START * 1000))
    lists = market.market.lists
    snapshots = market.market.list_snapshots
    assert await store_list(lists, snapshots, clock, mints_min=1) == NotStored.NOTHING_FINAL
    went_on = await followed_market(market, clock)
    before = await snapshots.newest(FORM)
    await market.append(3, START + 2, trade(A, 3.0, 5, 0))
    assert await store_list(lists, snapshots, clock, mints_min=1) == NotStored.PRESENT
    assert await snapshots.newest(FORM) == before
    for slot in range(4, 9):
        await market.append(slot, START + slot * 1_000, trade(A, 1.0, 5, 0))
    await market.trim()  # the snapshot is older than the log
    assert await store_list(lists, snapshots, clock, mints_min=2) == NotStored.FEW
    assert await store_list(lists, snapshots, clock, mints_min=1) == 1
    assert await snapshots.newest(FORM) != before
    process = Process(market, clock)
    await process.look()
    await went_on.look()
    await went_on.look()
    assert process.lines() == went_on.lines()
