"""A new day untracks mints without trades at once, and deletes their candles in steps."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
from prometheus_client import REGISTRY

from mintscope.app.stores.market import Market
from mintscope.ingest.fold import fold_once
from mintscope.kit.primitives import Mint, Slot, UnixS
from mintscope.kit.time import DAY_S
from mintscope.market.log import PricedSwap, SlotHeader
from mintscope.market.ports import FinalSlot, Floor, NewSlot
from mintscope.market.store import retention as clearing
from mintscope.market.timeframe import Timeframe
from support.scenes.market_engines import MARKET_ENGINES, execute_in, market_of

NOON: Final = 19_700 * DAY_S + DAY_S // 2
FLOOR: Final = Floor(swaps_min=1, volume_min=1, dead_after_days=1)
DEAD: Final = [Mint(f"dead{n:02}") for n in range(60)]
BUSY: Final = Mint("busy")
CANDLES: Final = "SELECT count(*) FROM candle JOIN mint ON mint.id = mint WHERE address <> 'busy'"
STATES: Final = "SELECT count(*) FROM state"
UNTRACKED: Final = "SELECT count(*) FROM event WHERE kind = 'untrack'"


@pytest.fixture(params=MARKET_ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def market(engine: str, tmp_path: Path) -> AsyncIterator[Market]:
    """Yield a market of sixty mints that no longer trade, and one that does."""
    async with market_of(engine, tmp_path, follows_all=True) as opened:
        await opened.store.start(mints=[], follows_files=False)
        await traded(opened, 1, NOON, BUSY, *DEAD)
        await traded(opened, 2, NOON + 60, BUSY, *DEAD)
        await traded(opened, 3, NOON + DAY_S, BUSY)
        await traded(opened, 4, NOON + 2 * DAY_S, BUSY)
        yield opened


async def traded(market: Market, number: int, time: int, *mints: Mint) -> None:
    header = SlotHeader(Slot(number), Slot(number - 1), f"{number}", UnixS(time), 100.0)
    swaps = [
        PricedSwap(mint, 0, 0, -1, 0, is_buy=True, volume=9, price_usd=1.0, price_sol=0.01)
        for mint in mints
    ]
    await market.store.write([NewSlot(header, swaps), FinalSlot(Slot(number))])
    while await fold_once(market.store, FLOOR):
        pass


def count(engine: str, folder: Path, statement: str) -> int:
    ((found,),) = execute_in(engine, folder, statement)
    return int(found)


async def test_dead_mints_are_untracked_at_once(
    engine: str, market: Market, tmp_path: Path
) -> None:
    assert {each.mint for each in await market.tracking.page("", 9)} == {BUSY}
    assert await market.reader.load(DEAD[0]) is None
    assert count(engine, tmp_path, UNTRACKED) == len(DEAD)
    assert count(engine, tmp_path, STATES) == 1


async def test_candles_of_dead_mints_are_deleted_in_steps(
    engine: str, market: Market, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clearing, "ROWS_A_STEP", 20)
    left = count(engine, tmp_path, CANDLES)
    assert left > 100
    steps = 0
    while left:
        await market.store.trim(1)
        now = count(engine, tmp_path, CANDLES)
        assert left - 25 <= now < left  # 20, and the rest of the last mint
        left = now
        steps += 1
    assert steps >= 5
    assert REGISTRY.get_sample_value("mintscope_uncleared_mints") == 0


async def test_a_mint_that_is_tracked_again_begins_without_its_old_candles(
    engine: str, market: Market, tmp_path: Path
) -> None:
    assert await market.tracking.add(DEAD[0])
    await traded(market, 5, NOON + 2 * DAY_S + 60, DEAD[0], DEAD[1], BUSY)
    for mint in DEAD[:2]:
        loaded = await market.reader.load(mint)
        assert loaded is not None
        assert [row.bucket for row in loaded.candles[Timeframe.M1]] == [NOON + 2 * DAY_S + 60]
    while count(engine, tmp_path, "SELECT count(*) FROM mint WHERE is_uncleared = 1"):
        await market.store.trim(1)
    loaded = await market.reader.load(DEAD[1])
    assert loaded is not None
    assert len(loaded.candles[Timeframe.M1]) == 1


async def test_a_dead_mint_is_forgotten_with_all_its_candles(
    engine: str, market: Market, tmp_path: Path
) -> None:
    """No candle is left, although PostgreSQL has no foreign key that would delete it."""
    known = "SELECT count(*) FROM mint"
    for number in range(5, 12):
        day = NOON + (number - 2) * DAY_S
        await traded(market, number, day, BUSY)
        await market.store.trim(1_000)
    assert count(engine, tmp_path, known) == 1
    orphans = "SELECT count(*) FROM candle WHERE mint NOT IN (SELECT id FROM mint)"
    assert count(engine, tmp_path, orphans) == 0
    assert count(engine, tmp_path, CANDLES) == 0
    if engine == "postgresql":
        references = """
        SELECT count(*) FROM pg_constraint
         WHERE contype = 'f' AND conrelid IN ('candle'::regclass, 'waypoint'::regclass)
        """
        assert count(engine, tmp_path, references) == 0
