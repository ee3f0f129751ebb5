"""The contract of all stores of imported candles: indicators equal those of one series.

To test another engine, add it to `MARKET_ENGINES`.
"""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import talib

from mintscope.app.stores.stores import Market
from mintscope.history.backfill import CannotImport, Imported, ImportedCandle
from mintscope.kit.primitives import Mint, Slot, UnixS
from mintscope.market.engine.engine import Engine
from mintscope.market.engine.fold import read_state
from mintscope.market.log import CandleRow, PricedSwap, SlotHeader
from mintscope.market.ports import FinalSlot, NewSlot
from mintscope.market.report import report_of
from mintscope.market.series.pools import AskedCandles
from mintscope.market.timeframe import WIDTH_S, Timeframe
from support.fakes.made_chain import MINTS
from support.scenes.market_engines import MARKET_ENGINES, execute_in, market_of
from support.scenes.traded import fold_all

A, *_ = MINTS
START = 1_700_000_400  # a full hour
H1 = WIDTH_S[Timeframe.H1]


@pytest.fixture(params=MARKET_ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def market(engine: str, tmp_path: Path) -> AsyncIterator[Market]:
    async with market_of(engine, tmp_path) as market:
        await market.store.start(mints=[A], follows_files=True)
        yield market


def price(n: int) -> float:
    return float(10 + 3 * np.sin(n / 7) + n % 5 / 10)


async def trade(market: Market, numbers: Sequence[int]) -> None:
    """Let A trade once in each hour of *numbers*, and fold the swaps."""
    for n in numbers:
        swap = PricedSwap(A, 0, 0, -1, 0, n % 2 == 0, 10**6, price(n), price(n) / 100, "pool")
        slot = Slot(n + 1)
        header = SlotHeader(slot, Slot(n), f"hash-{n}", UnixS(START + n * H1))
        await market.store.write([NewSlot(header, [swap]), FinalSlot(slot)])
        await fold_all(market)
    while await market.history_join.join() is not None:
        pass


def imported(numbers: Sequence[int]) -> list[ImportedCandle]:
    return [
        ImportedCandle(UnixS(START + n * H1), price(n), price(n) + 1, price(n) - 1, price(n), 5)
        for n in numbers
    ]


async def own_candles(market: Market) -> Sequence[CandleRow]:
    loaded = await market.reader.load(A)
    assert loaded is not None
    return loaded.candles[Timeframe.H1]


async def test_indicators_equal_those_of_one_continuous_series(market: Market) -> None:
    """The oracle is TA-Lib over the closes of imported and own candles together."""
    await trade(market, range(5))
    await market.imports.add(A, Timeframe.H1, "a provider", imported(range(-300, 3)))
    await trade(market, range(5, 40))

    loaded = await market.reader.load(A)
    assert loaded is not None
    engine = Engine(1)
    engine.load(0, loaded)
    now = UnixS(START + 39 * H1)
    report = report_of(A, engine.snapshot(0, now), now)
    closes = np.array([price(n) for n in range(-300, 40)])
    h1 = report.indicators.h1
    assert h1.ema200 == pytest.approx(talib.EMA(closes, 200)[-1], rel=1e-12)
    assert h1.ema9 == pytest.approx(talib.EMA(closes, 9)[-1], rel=1e-12)
    assert h1.rsi == pytest.approx(talib.RSI(closes, 14)[-1], rel=1e-9)
    assert report.data_span.candle_counts.h1 == 340
    assert report.data_span.candle_counts.m1 == 40
    assert report.price.usd == price(39)
    assert report.data_span.from_ == START - 300 * H1
    assert read_state(loaded.state or b"")[0]["first"] == START  # how far a node must reach


async def test_own_candles_are_never_replaced_and_imported_candles_are_marked(
    market: Market, engine: str, tmp_path: Path
) -> None:
    await trade(market, range(5))
    before = await own_candles(market)

    await market.imports.add(A, Timeframe.H1, "a provider", imported(range(-10, 10)))
    assert await market.imports.counts(A) == {Timeframe.H1: Imported("a provider", 0, 20)}
    await trade(market, range(5, 6))

    after = await own_candles(market)
    assert list(after[10:15]) == list(before)
    assert await market.imports.counts(A) == {Timeframe.H1: Imported("a provider", 10, 0)}
    statement = "SELECT count(*), max(bucket) FROM candle WHERE provider IS NOT NULL"
    assert execute_in(engine, tmp_path, statement) == [(10, START - H1)]


async def test_a_second_import_reaches_further_back(market: Market) -> None:
    await trade(market, range(3))
    for numbers in (range(-10, 0), range(-30, -10)):
        await market.imports.add(A, Timeframe.H1, "a provider", imported(numbers))
        while await market.history_join.join() is not None:
            pass

    assert await market.imports.counts(A) == {Timeframe.H1: Imported("a provider", 30, 0)}
    loaded = await market.reader.load(A)
    assert loaded is not None
    assert len(loaded.candles[Timeframe.H1]) == 33
    assert loaded.imported_from == START - 30 * H1


async def test_a_cached_series_is_valid_until_candles_are_imported_again(
    market: Market,
) -> None:
    asked = AskedCandles(Timeframe.H1, UnixS(1 << 33), 100)
    known = None
    await trade(market, range(3))
    for volume in (5, 6):  # the closes, and so the state, stay the same
        candles = [each._replace(volume=volume) for each in imported(range(-10, 0))]
        await market.imports.add(A, Timeframe.H1, "a provider", candles)
        await trade(market, [])

        found = await market.series.candles(A, asked, known)
        assert found is not None
        assert [each.imported_volume for each in found.rows] == [volume] * 10 + [None] * 3
        known = await market.series.candles(A, asked, found)
        assert known is found


async def test_an_import_waits_for_the_first_own_candle(market: Market) -> None:
    await market.imports.add(A, Timeframe.H1, "a provider", imported(range(-10, 0)))

    assert await market.history_join.join() is None
    await trade(market, range(1))

    assert await market.imports.counts(A) == {Timeframe.H1: Imported("a provider", 10, 0)}


async def test_a_mint_that_is_not_tracked_is_refused(market: Market) -> None:
    with pytest.raises(CannotImport, match="is not tracked"):
        await market.imports.add(Mint("other"), Timeframe.H1, "a provider", [])
