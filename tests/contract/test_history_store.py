"""The contract of every store of backfills.  To test an engine, add it to `MARKET_ENGINES`."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from mintscope.app.stores.stores import Market
from mintscope.dex.outcome import Swap
from mintscope.history.backfill import (
    BackfillSlot,
    Cursor,
    Kind,
    Line,
    ListPage,
    NoBackfill,
    ReadTransaction,
    Stage,
)
from mintscope.kit.primitives import Mint, Signature, Slot, UnixMs, UnixS
from mintscope.solana.blocks import WSOL, Gap
from support.fakes.made_chain import MINTS
from support.scenes.market_engines import MARKET_ENGINES, market_of

A, B, *_ = MINTS
POOL, RATE = "pool", "rate"


@pytest.fixture(params=MARKET_ENGINES)
async def market(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Market]:
    async with market_of(request.param, tmp_path) as market:
        await market.tracking.add(A)
        await market.history.begin(A, UnixS(100), {POOL: Kind.POOL, RATE: Kind.RATE})
        yield market


def line(slot: int, name: str) -> Line:
    return Line(Signature(name), Slot(slot), block_time=Slot(1_000 + slot))


def page(address: str, *lines: Line, is_last: bool = False) -> ListPage:
    first, last = lines[0].signature, lines[-1].signature
    return ListPage(address, lines, before=last, top=first, is_last=is_last)


def swap(name: str) -> Swap:
    amounts = (WSOL, 10**9, 9, A, 10**6, 6)
    return Swap(Signature(name), 0, 0, -1, 0, "a program", POOL, *amounts, "a signer")


def read(slot: int, name: str, position: int = 0, *, is_there: bool = True) -> ReadTransaction:
    return ReadTransaction(
        Slot(slot), Signature(name), position, [swap(name)] if is_there else None
    )


def order(slots: Sequence[BackfillSlot]) -> list[tuple[int, list[str]]]:
    return [(each.slot, [one.signature for one in each.swaps]) for each in slots]


async def test_a_list_continues_at_its_cursor_and_its_round_keeps_its_end(market: Market) -> None:
    reading = market.history
    assert await reading.round(A, Slot(50)) == (
        50,
        [Cursor(POOL, None, None), Cursor(RATE, None, None)],
    )

    await reading.listed(A, page(POOL, line(40, "c"), line(30, "b")))

    assert await reading.round(A, Slot(70)) == (
        50,
        [Cursor(POOL, Signature("b"), None), Cursor(RATE, None, None)],
    )
    await reading.listed(A, page(POOL, line(20, "a"), is_last=True))
    assert await reading.round(A, Slot(70)) == (50, [Cursor(RATE, None, None)])


async def test_the_next_round_ends_at_the_beginning_of_the_round_before(market: Market) -> None:
    reading = market.history
    await reading.round(A, Slot(50))
    await reading.listed(A, page(POOL, line(40, "c"), line(30, "b"), is_last=True))
    await reading.listed(A, page(RATE, line(35, "r"), is_last=True))
    await market.history.finish(A, None)

    reaches, cursors = await reading.round(A, Slot(90))

    assert reaches == 90
    assert cursors == [
        Cursor(POOL, None, Signature("c")),
        Cursor(RATE, None, Signature("r")),
    ]


async def test_a_repeated_line_changes_nothing_and_a_read_transaction_stays_read(
    market: Market,
) -> None:
    reading = market.history
    await reading.round(A, Slot(50))
    await reading.listed(A, page(POOL, line(30, "b"), line(20, "a")))
    await reading.save(A, [read(30, "b")])
    await reading.listed(A, page(POOL, line(30, "b"), line(20, "a")))

    assert [one.signature for one in await reading.unread(A, 10)] == ["a"]


async def test_swaps_of_one_list_are_in_the_reverse_order_of_the_list(market: Market) -> None:
    reading = market.history
    await reading.round(A, Slot(50))
    await reading.listed(A, page(POOL, line(30, "newest"), line(30, "oldest"), line(20, "a")))
    await reading.save(A, [read(30, "oldest"), read(20, "a"), read(30, "newest")])

    slots = await market.history.slots(A, Slot(-1), 10)
    assert order(slots) == [(20, ["a"]), (30, ["oldest", "newest"])]
    assert [one.transaction_index for one in slots[1].swaps] == [0, 1]
    assert order(await market.history.slots(A, Slot(20), 10)) == order(slots[1:])


async def test_swaps_of_two_pools_in_one_slot_are_in_the_order_of_its_block(market: Market) -> None:
    reading = market.history
    await reading.begin(A, UnixS(100), {POOL: Kind.POOL, "other": Kind.POOL, RATE: Kind.RATE})
    await reading.round(A, Slot(50))
    await reading.listed(A, page(POOL, line(30, "x"), line(20, "a")))
    await reading.listed(A, page("other", line(30, "y")))

    assert [(one.signature, one.is_mixed) for one in await reading.unread(A, 10)] == [
        ("a", False),
        ("x", True),
        ("y", True),
    ]
    await reading.save(A, [read(30, "x", 5), read(30, "y", 2)])
    assert order(await market.history.slots(A, Slot(20), 10)) == [(30, ["y", "x"])]


async def test_a_missing_transaction_is_requested_three_times(market: Market) -> None:
    reading = market.history
    await reading.round(A, Slot(50))
    await reading.listed(A, page(POOL, line(30, "b"), line(20, "a")))
    await reading.save(A, [read(20, "a")])

    for _ in range(3):
        assert [one.signature for one in await reading.unread(A, 10)] == ["b"]
        await reading.save(A, [read(30, "b", is_there=False)])

    assert await reading.unread(A, 10) == []
    job = await market.history.one(A)
    assert job is not None
    assert (job.listed, job.read, job.missing, job.stage) == (2, 1, 1, Stage.READING)


async def test_the_next_round_requests_missing_transactions_again(market: Market) -> None:
    reading = market.history
    await reading.round(A, Slot(50))
    await reading.listed(A, page(POOL, line(30, "b")))
    for _ in range(3):
        await reading.save(A, [read(30, "b", is_there=False)])

    await reading.round(A, Slot(50))

    assert [one.signature for one in await reading.unread(A, 10)] == ["b"]


async def test_a_filled_gap_is_no_longer_open(market: Market) -> None:
    await market.store.start(mints=[], follows_files=False)
    gaps = [Gap(Slot(5), Slot(9), "lost"), Gap(Slot(12), Slot(12), "lost")]
    await market.store.write(gaps)

    await market.history.filled(gaps[0], UnixMs(7))

    assert await market.reader.gaps(10) == gaps[1:]
    overview = await market.reader.overview()
    assert (overview.gap_count, overview.gap_slots, overview.newest_gap) == (1, 1, 12)


async def test_a_backfill_is_deleted_with_its_mint(market: Market) -> None:
    await market.tracking.remove(A)

    assert await market.history.one(A) is None
    assert await market.history.one(Mint(B)) is None


async def test_nothing_can_be_stored_for_a_mint_without_a_backfill(market: Market) -> None:
    reading = market.history
    await reading.round(A, Slot(50))
    await market.tracking.remove(A)

    for each in (
        reading.begin(A, UnixS(100), {POOL: Kind.POOL}),
        reading.round(A, Slot(50)),
        reading.listed(A, page(POOL, line(30, "b"))),
        reading.save(A, [read(30, "b")]),
        reading.restart(A),
        reading.candles(A, {}),
        reading.finish(A, None),
    ):
        with pytest.raises(NoBackfill, match=A):
            await each


async def test_a_backfill_is_not_merged_before_the_fold_reaches_its_end(market: Market) -> None:
    await market.history.round(A, Slot(50))
    await market.history.finish(A, None)

    assert await market.history_join.join() is None
    job = await market.history.one(A)
    assert job is not None
    assert job.stage is Stage.READY
