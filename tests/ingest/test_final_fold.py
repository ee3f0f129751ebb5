"""Tests when final slots are folded, and how many at a time."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import REGISTRY
from typing_extensions import override

from mintscope.app.stores.folder import MARKET_FILE
from mintscope.app.stores.stores import Market
from mintscope.ingest.fold import COUNT_S, SLOTS_MAX, SLOTS_MIN, WAIT_S, FinalFold
from mintscope.ingest.pipeline import Ingest
from mintscope.kit.clock import ManualClock
from mintscope.kit.metrics import TRACKED_MINTS
from mintscope.kit.primitives import Mint, Slot, UnixMs, UnixS
from mintscope.market.log import PricedSwap, SlotHeader
from mintscope.market.ports import FinalizedSlot, FinalSlot, Folded, NewSlot
from mintscope.market.store.fold import SqlFolding
from mintscope.solana.blocks import Block, Finalized, Tip, Update
from mintscope.solana.finality_meter import Behind
from mintscope.solana.pace import Pace
from support.fakes.made_chain import decode_made, random_chain
from support.oracles.definitions import Trade
from support.scenes.made_swaps import swap
from support.scenes.stores import market_in

START = 1_700_000_000
MINTS = [Mint(f"mint{number}") for number in range(60)]
FEW = 5  # mints, so that each is in many batches
STORED = ("SELECT * FROM candle ORDER BY 1, 2, 3", "SELECT * FROM state ORDER BY 1")


@pytest.fixture
async def market(tmp_path: Path) -> AsyncIterator[Market]:
    async with market_in(tmp_path) as market:
        await market.store.start(mints=MINTS, follows_files=False)
        yield market


async def add(market: Market, slots: range, mints: int = len(MINTS)) -> None:
    """Append final slots, each with swaps of two of the first *mints* mints.

    By default, no mint is in two of 30 successive slots.
    """
    for slot in slots:
        at = UnixS(START + slot)
        header = SlotHeader(Slot(slot), Slot(slot - 1), str(slot), at, 150.0, at)
        swaps = [trade(at, number, mints) for number in (2 * slot, 2 * slot + 1)]
        await market.store.write([NewSlot(header, swaps), FinalSlot(Slot(slot))])


def trade(at: UnixS, number: int, mints: int) -> PricedSwap:
    """Return a swap at the time *at* of the mint with the index *number* modulo *mints*."""
    made = Trade(time=at, price=150.0, price_sol=1.0 + number, volume=7, is_buy=True)
    return swap(made, mint=MINTS[number % mints])


async def waiting(market: Market) -> int:
    """Return the number of final slots that are not folded."""
    return len((await market.store.fold(1_000)).slots)


async def go_on(fold: FinalFold) -> None:
    """Call `go_on` of *fold* twice: the first call encodes entries, the second writes them."""
    for _ in range(2):
        await fold.go_on()


async def test_slots_are_folded_once_enough_wait(market: Market) -> None:
    fold = FinalFold(market.store, None, ManualClock(UnixMs(START * 1000)))
    await add(market, range(1, SLOTS_MIN))
    await go_on(fold)
    assert await waiting(market) == SLOTS_MIN - 1

    await add(market, range(SLOTS_MIN, SLOTS_MIN + 1))
    await go_on(fold)
    assert await waiting(market) == 0


async def test_few_slots_are_folded_after_a_while(market: Market) -> None:
    clock = ManualClock(UnixMs(START * 1000))
    fold = FinalFold(market.store, None, clock)
    await add(market, range(1, 4))
    clock.advance(int(WAIT_S * 1000) - 1)
    await go_on(fold)
    assert await waiting(market) == 3

    clock.advance(1)
    await go_on(fold)
    assert await waiting(market) == 0


async def test_tracked_mints_are_counted_at_intervals(market: Market) -> None:
    clock = ManualClock(UnixMs(START * 1000))
    fold = FinalFold(market.store, None, clock)
    shown: list[float | None] = []
    for number in range(3):
        TRACKED_MINTS.set(-1)
        await add(market, range(1 + number * SLOTS_MIN, 1 + (number + 1) * SLOTS_MIN))
        await go_on(fold)
        assert await waiting(market) == 0
        shown.append(REGISTRY.get_sample_value("mintscope_tracked_mints"))
        clock.advance(int(COUNT_S * 1000) // 2)
    count = await market.store.tracked_count()
    assert count > 0
    assert shown == [count, -1, count]


async def test_a_batch_ends_at_its_maximum_of_mints(market: Market, tmp_path: Path) -> None:
    fold = FinalFold(market.store, None, ManualClock(UnixMs(START * 1000)), mints_max=8)
    await add(market, range(1, SLOTS_MIN + 1))
    await go_on(fold)
    assert await waiting(market) == SLOTS_MIN - 4  # four slots of two mints each

    await fold.finish()
    assert await waiting(market) == 0
    in_parts = stored(tmp_path)

    assert in_parts == await folded_at_once(tmp_path / "other")


@pytest.mark.parametrize(
    ("behind", "wait_s"),
    [
        (None, WAIT_S),
        (Behind(32, 12.8), WAIT_S),
        (Behind(1, 0.4), 0.2),
        (Behind(10, 4.0), 2.0),
    ],
)
async def test_few_slots_wait_half_the_time_that_finality_takes_if_it_is_fast(
    market: Market, behind: Behind | None, wait_s: float
) -> None:
    clock = ManualClock(UnixMs(START * 1000))
    fold = FinalFold(market.store, None, clock, finality=lambda: behind)
    await add(market, range(1, 3))
    clock.advance(int(wait_s * 1000) - 1)
    await go_on(fold)
    assert await waiting(market) == 2

    clock.advance(1)
    await go_on(fold)
    assert await waiting(market) == 0


async def test_small_batches_take_at_most_a_fifth_of_the_time(
    market: Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading a slot takes 1 ms, writing a batch 59 ms; the fold may use 1/5 of the time."""
    clock = ManualClock(UnixMs(START * 1000))
    took_ms = [0]  # by batch

    async def swaps(folding: SqlFolding, slot: FinalizedSlot) -> dict[Mint, list[PricedSwap]]:
        clock.advance(1)
        took_ms[-1] += 1
        return await read(folding, slot)

    async def save(folding: SqlFolding, folded: Folded) -> bool:
        clock.advance(59)
        took_ms[-1] += 59
        took_ms.append(0)
        return await saved(folding, folded)

    read = SqlFolding.swaps
    saved = SqlFolding.save
    monkeypatch.setattr(SqlFolding, "swaps", swaps)
    monkeypatch.setattr(SqlFolding, "save", save)
    fold = FinalFold(market.store, None, clock, finality=lambda: Behind(1, 0.2))
    for slot in range(1, 301):
        await add(market, range(slot, slot + 1))
        clock.advance(20)
        await fold.go_on()
        while fold.hurries:
            await fold.go_on()

    *before, last_ms, begun_ms = took_ms
    assert begun_ms == 0
    # The pause of the last batch has not ended yet.
    assert sum(before) <= (clock.now() - START * 1000 - last_ms) / 5
    assert len(before) > 10
    assert await waiting(market) < SLOTS_MIN


@settings(max_examples=25)
@given(
    mints_max=st.integers(1, 40),
    steps=st.lists(
        st.tuples(
            st.integers(0, 7),  # slots
            st.sampled_from([0, 20, 100, 400, 11_000]),  # ms that pass
            st.integers(0, 4),  # calls of go_on
            st.sampled_from([None, Behind(1, 0.3), Behind(32, 12.8)]),
        ),
        max_size=12,
    ),
)
async def test_candles_are_the_same_for_any_batches_of_slots(
    mints_max: int, steps: list[tuple[int, int, int, Behind | None]]
) -> None:
    measured: list[Behind | None] = [None]
    with TemporaryDirectory() as folder:
        async with market_in(Path(folder)) as market:
            await market.store.start(mints=MINTS, follows_files=False)
            clock = ManualClock(UnixMs(START * 1000))
            fold = FinalFold(
                market.store, None, clock, mints_max=mints_max, finality=lambda: measured[0]
            )
            next_slot = 1
            for slots, passed_ms, times, behind in steps:
                more = min(slots, SLOTS_MIN + 1 - next_slot)
                await add(market, range(next_slot, next_slot + more), FEW)
                next_slot += more
                clock.advance(passed_ms)
                measured[0] = behind
                for _ in range(times):
                    await fold.go_on()
            await add(market, range(next_slot, SLOTS_MIN + 1), FEW)
            await fold.finish()
        in_parts = stored(Path(folder))
        assert in_parts == await folded_at_once(Path(folder) / "other", FEW)


class BusyClock(ManualClock):
    """A clock that advances each time it is read, as if work was done since the last time."""

    step_ms = 15

    @override
    def monotonic_s(self) -> float:
        self.advance(self.step_ms)
        return super().monotonic_s()


async def test_the_waiting_slots_and_the_duration_of_a_step_are_bounded(
    market: Market,
) -> None:
    clock = BusyClock(UnixMs(START * 1000))
    fold = FinalFold(market.store, None, clock, mints_max=4, pace=lambda: Pace(0.4, 170.0))
    longest_s, most = 0.0, 0
    for slot in range(1, 4 * SLOTS_MAX):
        await add(market, range(slot, slot + 1))
        begun_s = clock.monotonic_s()
        await fold.go_on()
        longest_s = max(longest_s, clock.monotonic_s() - begun_s)
        most = max(most, await waiting(market))

    assert SLOTS_MIN < most < SLOTS_MAX
    assert longest_s < 0.4


@dataclass
class LateBlock:
    """A source that yields its newest block only once ingest has begun to fold the older blocks.

    unfolded   the number of final slots that were not folded before the newest block
    """

    market: Market
    blocks: Sequence[Block]
    unfolded: int = -1

    async def genesis_hash(self) -> str | None:
        return None

    async def updates(self, _after: Tip | None) -> AsyncIterator[Update]:
        for each in self.blocks[:-1]:
            yield each
        yield Finalized(self.blocks[-2].slot)
        await asyncio.sleep(0)
        self.unfolded = await waiting(self.market)
        yield self.blocks[-1]


async def test_blocks_are_read_while_a_batch_is_under_way(market: Market) -> None:
    """This holds for SQLite too, whose statements never let other tasks run."""
    source = LateBlock(market, random_chain(1, SLOTS_MIN + 2, spread_s=1))
    ingest = Ingest(
        source=source,
        store=market.store,
        decode=decode_made,
        clock=BusyClock(UnixMs(START * 1000)),
        finality=lambda: Behind(1, 0.4),
    )
    await ingest.run()

    assert source.unfolded == SLOTS_MIN + 1
    assert await waiting(market) == 0


@pytest.mark.parametrize("slot_s", [0.1, 0.2, 0.4, 0.8, None])
async def test_folding_takes_less_than_a_slot_while_many_slots_wait(
    market: Market, slot_s: float | None
) -> None:
    clock = BusyClock(UnixMs(START * 1000))
    pace = None if slot_s is None else Pace(slot_s, 170.0)
    fold = FinalFold(market.store, None, clock, pace=lambda: pace)
    await add(market, range(1, SLOTS_MAX))
    clock.step_ms = min(10, round((slot_s or 0.2) * 1_000 / 40))
    took_s = []
    for _ in range(4):
        begun_s = clock.monotonic_s()
        await fold.go_on()
        took_s.append(clock.monotonic_s() - begun_s)

    assert max(took_s) > 0.5 * (slot_s or 0.15)
    assert max(took_s) < (slot_s or 0.15)


async def test_a_batch_is_bounded_while_too_many_slots_wait(market: Market) -> None:
    clock = BusyClock(UnixMs(START * 1000))
    fold = FinalFold(market.store, None, clock, mints_max=3)
    await add(market, range(1, 2 * SLOTS_MAX + 1))
    await fold.go_on()  # this counts the waiting slots
    clock.step_ms = 700  # so that a step is done each time
    left = [2 * SLOTS_MAX]
    while left[-1] > SLOTS_MAX:
        await fold.go_on()
        left.append(await waiting(market))
    folded = {before - after for before, after in pairwise(left)}
    # If too many slots wait, a batch has 4 * mints_max mints, and each slot has two of them.
    assert folded == {0, 6}


async def test_finish_saves_few_mints_at_a_time(
    market: Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []

    async def save(folding: SqlFolding, folded: Folded) -> bool:
        counts.append(len(folded.mints))
        return await saved(folding, folded)

    saved = SqlFolding.save
    monkeypatch.setattr(SqlFolding, "save", save)
    await add(market, range(1, SLOTS_MIN + 1))
    fold = FinalFold(market.store, None, ManualClock(UnixMs(START * 1000)), mints_max=1)
    await fold.finish()
    assert counts == [4] * (SLOTS_MIN // 2) + [2]  # two mints in a slot


async def folded_at_once(folder: Path, mints: int = len(MINTS)) -> list[tuple[object, ...]]:
    folder.mkdir()  # noqa: ASYNC240 - a folder of the test
    async with market_in(folder) as other:
        await other.store.start(mints=MINTS, follows_files=False)
        await add(other, range(1, SLOTS_MIN + 1), mints)
        await FinalFold(other.store, None, ManualClock(UnixMs(START * 1000))).finish()
    return stored(folder)


def stored(folder: Path) -> list[tuple[object, ...]]:
    """Return all candles and states in the market file of *folder*."""
    db = apsw.Connection(str(folder / MARKET_FILE))
    rows = [row for statement in STORED for row in db.execute(statement)]
    db.close()
    return rows
