"""The store records which gaps ingest has tried to fill, and how often, on both engines."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mintscope.app.stores.market import Market
from mintscope.history.backfill import GapCounts, GapMend
from mintscope.kit.primitives import Slot, UnixMs
from mintscope.solana.blocks import Gap
from support.scenes.market_engines import MARKET_ENGINES, market_of

OLD, NEW = Gap(Slot(5), Slot(9), "lost"), Gap(Slot(12), Slot(12), "asked in vain for 15 s")
NOW = UnixMs(1_800_000_000_000)
FIRST_AT = UnixMs(NOW + 300_000)


@pytest.fixture(params=MARKET_ENGINES)
async def market(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Market]:
    async with market_of(request.param, tmp_path) as opened:
        await opened.store.start(mints=[], follows_files=False)
        await opened.store.write([NEW, OLD])
        yield opened


async def test_the_oldest_due_gap_comes_first(market: Market) -> None:
    mends = market.gap_mends
    assert [each.next_at for each in await mends.newest(10)] == [None, None]
    assert await mends.due(NOW, FIRST_AT) is None
    later = UnixMs(FIRST_AT - 1)
    assert await mends.due(later, UnixMs(later + 300_000)) is None, "it was seen before"
    assert await mends.due(FIRST_AT, FIRST_AT) == GapMend(OLD, 0, FIRST_AT, None, "")

    await mends.put_off(OLD, UnixMs(FIRST_AT + 1), "waits")
    assert await mends.due(FIRST_AT, FIRST_AT) == GapMend(NEW, 0, FIRST_AT, None, "")
    due = await mends.due(UnixMs(FIRST_AT + 1), FIRST_AT)
    assert due == GapMend(OLD, 0, UnixMs(FIRST_AT + 1), None, "waits")


async def test_attempts_to_mend_a_gap_are_counted_until_it_is_given_up(market: Market) -> None:
    mends = market.gap_mends
    again = UnixMs(FIRST_AT + 9)
    assert await market.reader.gaps(10) == [NEW, OLD]
    await mends.due(NOW, FIRST_AT)
    await mends.failed(NEW, again, "no block at slot 12")
    assert (await mends.newest(1))[0] == GapMend(NEW, 1, again, None, "no block at slot 12")
    assert (await market.reader.gaps(1))[0].reason.endswith("; 1 attempt to mend it was in vain")
    await mends.failed(NEW, again, "no block at slot 12")
    assert (await market.reader.gaps(1))[0].reason.endswith("; 2 attempts to mend it were in vain")
    assert await mends.counts() == GapCounts(2, 0)

    await mends.give_up(NEW, again, "no block at slot 12")
    assert (await mends.newest(1))[0] == GapMend(NEW, 3, again, again, "no block at slot 12")
    assert (await market.reader.gaps(1))[0].reason.endswith("; mending it was given up")
    assert await mends.counts() == GapCounts(2, 1)
    assert (await market.reader.overview()).gaps_given_up == 1
    late = UnixMs(again + 1_000_000)
    assert await mends.due(late, late) == GapMend(OLD, 0, FIRST_AT, None, "")

    await market.history.filled(NEW, late)  # as after a backfill by hand
    assert await mends.counts() == GapCounts(1, 0)
    assert [each.gap for each in await mends.newest(10)] == [OLD]


async def test_the_calls_of_a_day_never_exceed_their_limit(market: Market) -> None:
    mends = market.gap_mends
    taken = [await mends.take_calls(7, 100, 250) for _ in range(4)]
    assert taken == [100, 100, 50, 0]
    assert await mends.take_calls(7, 100, 200) == 0, "the limit was lowered"
    assert await mends.take_calls(7, 100, 260) == 10
    assert await mends.take_calls(8, 100, 250) == 100
