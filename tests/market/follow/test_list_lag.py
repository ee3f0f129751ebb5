"""The delay of a block in the list of tokens, if finality is fast, and if it is slow.

The fold of ingest, a log tailer and a list cache work on one market; time passes only while the
list cache waits.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

from mintscope.app.stores.stores import Market
from mintscope.ingest.fold import SLOTS_MIN, FinalFold
from mintscope.kit.clock import ManualClock
from mintscope.kit.primitives import Mint, Slot, UnixMs, UnixS
from mintscope.market.engine.engine import LiveMarket
from mintscope.market.follow.list_cache import ListCache, NextFold
from mintscope.market.follow.tailer import LogTailer
from mintscope.market.log import PricedSwap, SlotHeader
from mintscope.market.ports import Change, FinalSlot, NewSlot
from mintscope.solana.finality_meter import FinalityMeter
from support.scenes.stores import market_in

START: Final = 1_700_000_000
MINTS: Final = [Mint(f"mint{number}") for number in range(5)]
STEP_MS: Final = 10
REFRESH_S: Final = 2.0


@dataclass
class World:
    """A chain whose slots are final *lag* slots later, with a fold, a tailer and a list cache."""

    market: Market
    slot_ms: int
    lag: int
    clock: ManualClock = field(default_factory=lambda: ManualClock(UnixMs(START * 1_000)))
    made_ms: dict[int, int] = field(default_factory=dict)
    folds: Counter[int] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        meter = self.meter = FinalityMeter()
        store = self.market.store
        self.fold = FinalFold(store, None, self.clock, finality=lambda: meter.behind)
        self.follower = LogTailer(self.market.reader, LiveMarket(10), self.clock)
        self.wait = NextFold(
            self.follower.folded,
            self.follower.finality,
            self.clock,
            refresh_s=REFRESH_S,
            sleep=self.sleep,
        )
        self.lister = ListCache(self.market.lists, self.clock, wait=self.wait)

    async def sleep(self, seconds: float) -> None:
        for _ in range(max(round(seconds * 1_000 / STEP_MS), 1)):
            self.clock.advance(STEP_MS)
            passed_ms = self.clock.now() - START * 1_000
            if passed_ms % self.slot_ms == 0:
                await self._append(passed_ms // self.slot_ms)
            if passed_ms % 50 == 0:
                await self.follower.catch_up()

    async def _append(self, slot: int) -> None:
        at = UnixS(self.clock.now() // 1_000)
        header = SlotHeader(Slot(slot), Slot(slot - 1), str(slot), at, 150.0, at)
        mint = MINTS[slot % len(MINTS)]
        swap = PricedSwap(mint, 0, 0, -1, 0, True, 10, 1.0, 0.01, "pool")  # noqa: FBT003
        changes: list[Change] = [NewSlot(header, [swap])]
        self.made_ms[slot] = self.clock.now()
        self.meter.note_confirmed(Slot(slot), self.clock.monotonic_s())
        if slot > self.lag:
            changes.append(FinalSlot(Slot(slot - self.lag)))
            self.meter.note_final(Slot(slot - self.lag), self.clock.monotonic_s())
        await self.market.store.write(changes)
        await self.fold.go_on()
        while self.fold.hurries:
            await self.fold.go_on()
        self.folds[len((await self.market.store.fold(100)).slots)] += 1

    async def late_ms(self, until_s: float) -> tuple[Sequence[int], Sequence[int]]:
        """Return the delay of each slot in the list, and the times of all refreshes, in ms."""
        late: list[int] = []
        newest = 0
        looks: list[int] = []
        while self.clock.now() < START * 1_000 + until_s * 1_000:
            await self.wait()
            await self.lister.refresh()
            looks.append(self.clock.now())
            folded = self.lister.newest().folded.slot or 0
            late += [
                self.clock.now() - self.made_ms[slot] for slot in range(newest + 1, folded + 1)
            ]
            newest = folded
        return late, looks


@pytest.mark.parametrize("slot_ms", [100, 200, 400])
async def test_a_block_is_listed_within_1500_ms_if_finality_is_fast(
    tmp_path: Path, slot_ms: int
) -> None:
    async with market_in(tmp_path) as market:
        await market.store.start(mints=MINTS, follows_files=False)
        world = World(market, slot_ms, lag=2)
        late, _ = await world.late_ms(60)

    late = sorted(late[10_000 // slot_ms :])  # after 10 s, finality is known to be fast
    assert late[-1] <= 1_500
    assert late[len(late) // 2] <= 2 * slot_ms + 500


async def test_the_list_is_refreshed_at_most_every_2_s_if_finality_is_slow(
    tmp_path: Path,
) -> None:
    async with market_in(tmp_path) as market:
        await market.store.start(mints=MINTS, follows_files=False)
        world = World(market, 400, lag=32)
        late, looks = await world.late_ms(90)

    pauses_ms = [after - before for before, after in pairwise(looks)]
    assert min(pauses_ms) >= REFRESH_S * 1_000
    assert max(world.folds) == SLOTS_MIN  # the fold waits for a full batch
    assert max(late) <= 12_800 + 10_000 + 2_000 + 400
