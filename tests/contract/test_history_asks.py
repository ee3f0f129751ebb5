"""The contract of every store of backfill jobs.  To test an engine, add it to `MARKET_ENGINES`."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mintscope.app.stores.stores import Market
from mintscope.history.backfill import (
    ENDED_MAX,
    OPEN_MAX,
    BackfillJob,
    BackfillState,
    Cost,
    Kind,
    Stage,
)
from mintscope.kit.primitives import Mint, Slot, UnixMs, UnixS
from mintscope.market.log import SlotHeader
from mintscope.market.ports import FinalSlot, NewSlot
from support.fakes.made_chain import MINTS
from support.scenes.market_engines import MARKET_ENGINES, market_of
from support.scenes.traded import fold_all

A, B, *_ = MINTS
NOW = UnixMs(1_000_000)
COST = Cost(transactions=120, calls=130, seconds=13.9)


@pytest.fixture(params=MARKET_ENGINES)
async def market(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Market]:
    async with market_of(request.param, tmp_path) as market:
        yield market


async def asked(market: Market, mint: Mint = A) -> int:
    assert await market.backfill_jobs.ask(mint, UnixS(100), NOW)
    return (await newest(market)).ask_id


async def newest(market: Market) -> BackfillJob:
    return (await market.backfill_jobs.newest(1))[0]


async def state(market: Market) -> BackfillState:
    return (await newest(market)).state


async def test_a_job_is_requested_estimated_confirmed_read_and_done(market: Market) -> None:
    jobs = market.backfill_jobs
    ask_id = await asked(market)
    assert await newest(market) == BackfillJob(
        ask_id, A, UnixS(100), NOW, BackfillState.ASKED, None, 0, 0, "", None
    )
    assert await jobs.confirm(ask_id) is None, "it is not known yet what it costs"
    await jobs.estimated(ask_id, UnixS(200), COST)
    assert (await newest(market)).cost == Cost(120, 130, 13)
    assert await jobs.first(BackfillState.ASKED, BackfillState.CONFIRMED) is None
    assert await jobs.confirm(ask_id) == A
    assert await jobs.confirm(ask_id) is None, "once"
    assert await jobs.first(BackfillState.CONFIRMED) == await newest(market)
    assert await jobs.began(ask_id, UnixS(250))
    assert await jobs.progress(ask_id, 90, 40, "Waits.")
    await jobs.estimated(ask_id, UnixS(1), COST)
    reading = await newest(market)
    assert reading[2:] == (
        250,
        NOW,
        BackfillState.READING,
        Cost(120, 130, 13),
        90,
        40,
        "Waits.",
        None,
    )
    await jobs.end(ask_id, BackfillState.DONE, "", UnixMs(NOW + 5))
    await jobs.end(ask_id, BackfillState.FAILED, "later", UnixMs(NOW + 9))
    done = await newest(market)
    assert (done.state, done.words, done.ended_at) == (BackfillState.DONE, "", NOW + 5)
    assert not await jobs.progress(ask_id, 1, 1, "")
    assert not await jobs.began(ask_id, UnixS(1))
    assert await jobs.cancel(ask_id, NOW) is None


async def test_a_job_is_cancelled_at_once_or_by_its_reader_while_it_is_read(market: Market) -> None:
    jobs = market.backfill_jobs
    for steps in range(3):
        ask_id = await asked(market)
        if steps > 0:
            await jobs.estimated(ask_id, UnixS(200), COST)
        if steps > 1:
            await jobs.confirm(ask_id)
        assert await jobs.cancel(ask_id, NOW) == A
        assert await state(market) is BackfillState.CANCELLED
        assert not await jobs.progress(ask_id, 0, 0, "")
    ask_id = await asked(market)
    await jobs.estimated(ask_id, UnixS(200), COST)
    await jobs.confirm(ask_id)
    await jobs.began(ask_id, UnixS(200))
    assert await jobs.cancel(ask_id, NOW) == A
    assert await jobs.cancel(ask_id, NOW) is None
    assert (await newest(market)).ended_at is None
    assert not await jobs.progress(ask_id, 5, 5, "")
    assert await jobs.first(BackfillState.CANCELLING) == await newest(market)
    await jobs.end(ask_id, BackfillState.CANCELLED, "", NOW)
    assert await state(market) is BackfillState.CANCELLED


async def test_a_token_has_one_open_job_and_the_number_of_jobs_is_bounded(
    market: Market,
) -> None:
    jobs = market.backfill_jobs
    first = await asked(market)
    assert not await jobs.ask(A, UnixS(1), NOW)
    for place in range(OPEN_MAX - 1):
        await asked(market, Mint(f"{B}{place}"))
    assert not await jobs.ask(B, UnixS(1), NOW)
    await jobs.end(first, BackfillState.FAILED, "words", NOW)
    second = await asked(market)
    assert second > first
    found = await jobs.first(BackfillState.ASKED)
    assert found is not None
    assert found.mint == f"{B}0", "the one that was asked for first"
    for _ in range(ENDED_MAX + 5):
        await jobs.end((await newest(market)).ask_id, BackfillState.DONE, "", NOW)
        await asked(market)
    kept = await jobs.newest(1_000)
    assert len(kept) == OPEN_MAX + ENDED_MAX
    assert first not in {each.ask_id for each in kept}


async def test_a_backfill_that_is_not_merged_can_be_dropped(market: Market) -> None:
    reading = market.history
    assert await reading.drop(A)
    await market.tracking.add(A)
    await reading.begin(A, UnixS(100), {"pool": Kind.POOL})
    assert await reading.drop(A)
    assert await market.history.one(A) is None


async def test_a_merged_backfill_is_not_dropped(market: Market) -> None:
    slots = [
        NewSlot(SlotHeader(Slot(number), Slot(number - 1), f"{number}", UnixS(number * 100)), ())
        for number in range(1, 10)
    ]
    await market.store.start(mints=[A], follows_files=False)
    await market.store.write([*slots, FinalSlot(Slot(9))])
    await fold_all(market)
    await market.history.begin(A, UnixS(100), {"pool": Kind.POOL})
    await market.history.round(A, Slot(9))
    await market.history.finish(A, None)
    assert await market.history_join.join() == A
    merged = await market.history.one(A)

    assert not await market.history.drop(A)
    assert merged is not None
    assert merged.stage is Stage.JOINED
    assert await market.history.one(A) == merged
