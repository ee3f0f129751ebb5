"""The contract of every database engine for coverage: it is stored, and read by hour."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from mintscope.app.stores.market import Market
from mintscope.kit.primitives import Mint, Slot, UnixS
from mintscope.kit.time import HOUR_S
from mintscope.market.coverage import (
    OTHER,
    WEEK_HOURS,
    MintCoverage,
    ProgramHour,
    SlotCoverage,
    Tally,
)
from mintscope.market.log import PricedSwap, SlotHeader
from mintscope.market.ports import FinalSlot, NewSlot, OrphanedSlot
from mintscope.solana.blocks import Gap
from support.fakes.made_chain import MINTS
from support.scenes.market_engines import MARKET_ENGINES, execute_in, market_of
from support.scenes.traded import fold_all

A, B, C, D = MINTS
HOUR = 500_000  # since 1970
START = HOUR * HOUR_S


@pytest.fixture(params=MARKET_ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
async def market(engine: str, tmp_path: Path) -> AsyncIterator[Market]:
    async with market_of(engine, tmp_path) as opened:
        await opened.store.start(mints=[A, B], follows_files=False)
        yield opened


def block(  # noqa: PLR0913 - what a block may hold
    number: int,
    after_s: int,
    calls: Mapping[tuple[str, str], Tally] | None = None,
    missed: Mapping[Mint, Tally] | None = None,
    *,
    parent: int | None = None,
    swaps: int = 0,
) -> list[NewSlot | SlotCoverage]:
    """Return block *number*, *after_s* seconds into the first hour, and its coverage."""
    slot, time = Slot(number), UnixS(START + after_s)
    parent_slot = Slot(number - 1 if parent is None else parent)
    header = SlotHeader(slot, parent_slot, f"hash-{number}", time, sol_usd=100.0)
    traded = [
        PricedSwap(A, at, 0, -1, 0, is_buy=True, volume=500, price_usd=1.0, price_sol=0.1)
        for at in range(swaps)
    ]
    covered = SlotCoverage(
        slot=slot, parent_slot=parent_slot, time=time, calls=calls or {}, missed=missed or {}
    )
    return [NewSlot(header, traded), covered]


async def test_there_is_no_coverage_before_the_first_block(market: Market) -> None:
    assert await market.reader.coverage(2) is None
    assert (await market.reader.missed_mints()).by_mint == {}


async def test_calls_are_summed_by_hour_program_and_outcome(market: Market) -> None:
    some = {("a", "read"): Tally(3, 2, 70), ("b", "no_movement"): Tally(1)}
    await market.store.write([*block(1, 0, some), *block(2, 1, some)])
    await market.store.write(block(3, HOUR_S - 1, {("a", "read"): Tally(1, 1, 5)}))
    await market.store.write(block(4, 2 * HOUR_S, {("a", "unlisted"): Tally(9, 9, 9)}))

    found = await market.reader.coverage(3)
    assert found is not None
    assert (found.since, found.time) == (START, START + 2 * HOUR_S)
    assert found.rows == [
        ProgramHour(HOUR, "a", "read", Tally(7, 5, 145)),
        ProgramHour(HOUR, "b", "no_movement", Tally(2)),
        ProgramHour(HOUR + 2, "a", "unlisted", Tally(9, 9, 9)),
    ]
    assert (found.blocks, found.skipped_slots, found.missing_slots) == (4, 0, 0)
    of_two = await market.reader.coverage(2)
    assert of_two is not None
    assert (of_two.since, len(of_two.rows), of_two.blocks) == (START + HOUR_S, 1, 1)


async def test_slots_between_a_block_on_the_chain_and_its_parent_count_as_skipped(
    market: Market,
) -> None:
    await market.store.write([*block(10, 0), *block(15, 1, parent=10)])
    await market.store.write([*block(18, 2, parent=15), OrphanedSlot(Slot(18))])
    await market.store.write(block(17, 2, {("a", "read"): Tally(1)}, parent=15))

    found = await market.reader.coverage(2)
    assert found is not None
    assert (found.blocks, found.skipped_slots) == (3, 4 + 1)


async def test_slots_of_open_gaps_within_the_requested_hours_count_as_missing(
    market: Market, engine: str, tmp_path: Path
) -> None:
    await market.store.write([*block(10, 0), Gap(Slot(11), Slot(19), "lost")])
    await market.store.write([*block(20, 2 * HOUR_S), Gap(Slot(21), Slot(24), "lost")])
    await market.store.write(block(25, 2 * HOUR_S + 9))

    missing = [await market.reader.coverage(hours) for hours in (3, 2, 1)]
    assert [each and each.missing_slots for each in missing] == [9 + 4, 3 + 4, 4]
    execute_in(engine, tmp_path, "UPDATE gap SET filled_at = 1 WHERE first = 21")
    found = await market.reader.coverage(1)
    assert found is not None
    assert found.missing_slots == 0


async def test_a_gap_that_is_open_when_the_requested_hours_begin_counts_from_then_on(
    market: Market,
) -> None:
    """No block shows the slot in which the hours began, so it is estimated by the pace."""
    await market.store.write([*block(10, 0), Gap(Slot(11), Slot(29), "lost")])
    await market.store.write(block(30, 2 * HOUR_S))

    found = await market.reader.coverage(2)
    assert found is not None
    assert (found.since, found.missing_slots) == (START + HOUR_S, 10)


async def test_a_mint_is_counted_by_its_candles_and_its_missed_calls(market: Market) -> None:
    await market.store.write(block(1, 0, missed={B: Tally(99, 99, 99)}, swaps=4))
    await market.store.write(block(2, 2 * HOUR_S, missed={A: Tally(1, 1, 100)}, swaps=3))
    unknown = Mint("C" * 44)
    await market.store.write(block(3, 2 * HOUR_S + 1, missed={A: Tally(2), unknown: Tally(1)}))
    await market.store.write([FinalSlot(Slot(3))])
    await fold_all(market)

    found = await market.reader.missed_mints()
    assert found.is_whole
    assert found.by_mint == {
        A: MintCoverage(Tally(3, 3, 1_500), Tally(3, 1, 100)),
        unknown: MintCoverage(Tally(), Tally(1)),
    }


async def test_rows_of_programs_are_bounded_and_large_programs_keep_their_names(
    market: Market,
) -> None:
    """Few programs have own rows; a large program gets one even after the bound is reached."""
    made = 0
    for number in range(1, 9):
        calls = {(f"program {made + each:04}", "unlisted"): Tally(1, 1, 5) for each in range(100)}
        made += 100
        await market.store.write(block(number, number, calls))
    await market.store.write(block(9, 9, {("large", "no_movement"): Tally(7, 7, 10**9)}))
    flood = {(f"later {each:04}", "unlisted"): Tally(1, 1, 5) for each in range(1_000)}
    await market.store.write(block(10, 10, flood))

    found = await market.reader.coverage(1)
    assert found is not None
    assert len(found.rows) <= 2 * 200 + 2
    assert sum(row.tally.calls for row in found.rows) == made + 1_000 + 7
    assert ProgramHour(HOUR, "large", "no_movement", Tally(7, 7, 10**9)) in found.rows
    assert any(row.program == OTHER for row in found.rows)

    await market.store.write(block(11, HOUR_S, {("a", "read"): Tally(1)}))
    found = await market.reader.coverage(2)
    assert found is not None
    # 200 programs keep their names; the calls of all others are in OTHER.
    assert len({row.program for row in found.rows if row.hour == HOUR}) == 201
    assert sum(row.tally.calls for row in found.rows if row.hour == HOUR) == made + 1_000 + 7


async def test_missed_mints_beyond_the_bound_make_the_list_incomplete(market: Market) -> None:
    missed = {Mint(f"mint {each:04}"): Tally(1) for each in range(2_100)}
    await market.store.write(block(1, 0, missed={**missed, A: Tally(5, 5, 5)}))

    found = await market.reader.missed_mints()
    assert not found.is_whole
    assert len(found.by_mint) == 1_000
    assert found.by_mint[A].missed == Tally(5, 5, 5)


async def test_coverage_is_kept_for_a_week_and_huge_volumes_are_capped(market: Market) -> None:
    huge = {("a", "read"): Tally(1, 1, 10**30)}
    await market.store.write([*block(1, 0, huge), *block(2, 1, huge)])
    await market.store.write(block(3, WEEK_HOURS * HOUR_S - 1, huge, {A: Tally(1)}))
    kept = await market.reader.coverage(WEEK_HOURS)
    assert kept is not None
    assert [row.tally.volume for row in kept.rows] == [10**18, 10**18]
    await market.store.write(block(4, WEEK_HOURS * HOUR_S, huge))

    found = await market.reader.coverage(2 * WEEK_HOURS)
    assert found is not None
    assert [row.hour for row in found.rows] == [HOUR + WEEK_HOURS - 1, HOUR + WEEK_HOURS]
    assert found.blocks == 2


async def test_another_process_continues_the_sums(
    market: Market, engine: str, tmp_path: Path
) -> None:
    await market.store.write(block(1, 0, {("a", "read"): Tally(1, 1, 1)}))
    async with market_of(engine, tmp_path) as other:
        await other.store.start(mints=[], follows_files=False)
        await other.store.write(block(2, 1, {("a", "read"): Tally(1, 1, 1)}))
        found = await other.reader.coverage(1)
    assert found is not None
    assert found.rows == [ProgramHour(HOUR, "a", "read", Tally(2, 2, 2))]
