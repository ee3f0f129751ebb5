"""Sums of volume have a limit, so trading a flash loan again and again does no harm."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from mintscope.app.stores.market import Market
from mintscope.ingest.fold import FinalFold
from mintscope.kit.clock import ManualClock
from mintscope.kit.primitives import Mint, Slot, UnixMs, UnixS
from mintscope.market.engine import kernels
from mintscope.market.engine.engine import Engine, as_trades
from mintscope.market.follow.list_cache import ListCache
from mintscope.market.follow.tailer import look_again_soon
from mintscope.market.log import PricedSwap, SlotHeader
from mintscope.market.ports import FinalSlot, Floor, NewSlot
from mintscope.market.pricing import VOLUME_MAX
from mintscope.market.screening.listed import ListQuestion
from mintscope.market.timeframe import VOLUME_S_MAX, WIDTH_S
from support.scenes.market_engines import MARKET_ENGINES, market_of

LISTED: Final = Mint("listed")
OTHER: Final = Mint("other")  # it is counted, because any mint may reach the floor
NEVER: Final = Floor(swaps_min=10**9, volume_min=1, dead_after_days=1)
START: Final = 1_700_000_000
SWAPS: Final = 2_000  # in a slot
SLOTS: Final = 12
assert SLOTS * SWAPS // 2 * VOLUME_MAX > 2**63, "one side of one candle"


@pytest.fixture(params=MARKET_ENGINES)
async def market(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Market]:
    async with market_of(request.param, tmp_path, follows_all=True) as market:
        await market.store.start(mints=[LISTED], follows_files=False)
        yield market


def swaps_of(mint: Mint, count: int = SWAPS) -> list[PricedSwap]:
    """Return *count* swaps with the largest volume: purchases and sales in turn."""
    return [
        PricedSwap(mint, number, 0, -1, 0, number % 2 == 0, VOLUME_MAX, 2.0, 0.02, "pool")
        for number in range(count)
    ]


async def append(market: Market, slot: int, swaps: list[PricedSwap]) -> None:
    at = UnixS(START + slot)
    header = SlotHeader(Slot(slot), Slot(slot - 1), str(slot), at, 100.0, at)
    await market.store.write([NewSlot(header, swaps), FinalSlot(Slot(slot))])


def lister_of(market: Market) -> ListCache:
    return ListCache(market.lists, ManualClock(UnixMs(START * 1000)), wait=look_again_soon)


async def test_volume_beyond_every_limit_is_folded_and_read(market: Market) -> None:
    fold = FinalFold(market.store, NEVER, ManualClock(UnixMs(START * 1000)))
    await append(market, 1, swaps_of(LISTED, 2))
    await fold.finish()
    running = lister_of(market)
    await running.refresh()
    for slot in range(2, 2 + SLOTS):
        await append(market, slot, [*swaps_of(LISTED), *swaps_of(OTHER)])
    await fold.finish()

    assert not (await market.store.fold(1_000)).slots
    loaded = await market.reader.load(LISTED)
    assert loaded is not None
    for timeframe, width_s in WIDTH_S.items():
        newest = loaded.candles[timeframe][-1]
        assert newest.buy_volume == newest.sell_volume == width_s * VOLUME_S_MAX
    engine = Engine(1)
    engine.load(0, loaded)
    assert shares(engine, 1 + SLOTS) == [0.5] * len(kernels.GRAINS)
    for lister in (running, lister_of(market)):
        await lister.refresh()
        (line,) = lister.newest().page(ListQuestion(limit=10)).lines
        assert 2 * VOLUME_MAX < line.volume <= 2 * 60 * VOLUME_S_MAX
        assert line.pressure is not None
        assert 0.0 <= line.pressure <= 1.0


def test_pressure_is_correct_if_volumes_exceed_every_limit() -> None:
    engine = Engine(1)
    for slot in range(SLOTS):
        at = UnixS(START + slot)
        engine.apply(as_trades([(0, at, swap) for swap in swaps_of(LISTED)]))

    assert shares(engine, SLOTS) == [0.5] * len(kernels.GRAINS)


def shares(engine: Engine, after_s: int) -> list[float]:
    """Return the share of purchases in each window's volume, *after_s* seconds after START."""
    found = engine.snapshot(0, UnixS(START + after_s))[kernels.SHARES : kernels.COUNTS]
    return [float(each) for each in found]
