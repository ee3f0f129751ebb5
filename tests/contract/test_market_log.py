"""The contract of every database engine of the market. To test one, add it to `MARKET_ENGINES`."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Protocol

import pytest

from mintscope.app.stores.market import Market
from mintscope.ingest.fold import fold_once
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.primitives import Mint, Signature, Slot, UnixS
from mintscope.kit.time import HOUR_S, MINUTE_S
from mintscope.market.coverage import NotRead
from mintscope.market.log import (
    Appended,
    LoadedMint,
    LogReader,
    LogTip,
    LogTrimmed,
    PricedSwap,
    Retracted,
    SlotFinalized,
    SlotHeader,
    Tracked,
    Untracked,
)
from mintscope.market.ports import (
    DEFAULT_RETENTION,
    FinalSlot,
    Floor,
    Folded,
    MarketOverview,
    NewSlot,
    OrphanedSlot,
    Retention,
)
from mintscope.market.sol_rate import Sample
from mintscope.market.standing import Offer, Standing, stand
from mintscope.market.standings import pack
from mintscope.market.timeframe import WIDTH_S, Timeframe
from mintscope.solana.blocks import Gap, Tip
from support.fakes.made_chain import MINTS, START
from support.scenes.market_engines import MARKET_ENGINES, execute_in, market_of

A, B, C, D = MINTS
HOUR = 3_600


class Open(Protocol):
    """Opens the market of the test with the given settings."""

    def __call__(
        self, *, follows_all: bool = False, retention: Retention = DEFAULT_RETENTION
    ) -> Awaitable[Market]: ...


@pytest.fixture(params=MARKET_ENGINES)
async def open_market(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Open]:
    async with AsyncExitStack() as stack:

        async def open_(
            *, follows_all: bool = False, retention: Retention = DEFAULT_RETENTION
        ) -> Market:
            engine: str = request.param
            opened = market_of(engine, tmp_path, follows_all=follows_all, retention=retention)
            return await stack.enter_async_context(opened)

        yield open_


@pytest.fixture
def drop_candles(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], None]:
    """Return a function that drops the table of candles, so that the market fails."""
    engine = request.node.callspec.params["open_market"]

    def drop() -> None:
        execute_in(engine, tmp_path, "DROP TABLE candle")

    return drop


@pytest.fixture
def join_swap(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], None]:
    """Return a function that logs a swap of C as a joined backfill does, with price pools of D."""
    engine = request.node.callspec.params["open_market"]
    joined = f"""
INSERT INTO swap (seq, mint, swaps, deciding, bought, sold)
SELECT seq, mint.id, deciding, deciding, 0, 0 FROM other_deciding, mint
 WHERE other_deciding.address = '{D}' AND mint.address = '{C}'
"""

    def join() -> None:
        execute_in(engine, tmp_path, joined)

    return join


@pytest.fixture
async def market(open_market: Open) -> Market:
    """Return a market that follows A and B from its first slot on."""
    market = await open_market()
    await market.store.start(mints=[A, B], follows_files=False)
    return market


def trade(mint: Mint, price: float | None = 1.0, *, volume: int = 10, index: int = 0) -> PricedSwap:
    return PricedSwap(
        mint=mint,
        transaction_index=index,
        outer=1,
        inner=-1,
        leg=0,
        is_buy=index % 2 == 0,
        volume=volume,
        price_usd=price,
        price_sol=None if price is None else price / 100,
        pool=f"pool {index}",
    )


def slot(number: int, *swaps: PricedSwap, time: int | None = None, fork: str = "") -> NewSlot:
    header = SlotHeader(
        slot=Slot(number),
        parent_slot=Slot(number - 1),
        blockhash=f"hash-{number}{fork}",
        time=UnixS(START + number if time is None else time),
        sol_usd=100.0,
        sol_usd_time=UnixS(START),
        samples=(Sample(100.0, 7, 10**12, "pool", "signer"),),
    )
    return NewSlot(header, swaps)


async def fold(market: Market, floor: Floor | None = None) -> None:
    while await fold_once(market.store, floor):
        pass


async def kinds(reader: LogReader, after: int = 0) -> Sequence[str]:
    return [type(event).__name__ for event in await reader.events(after, 1_000)]


async def test_events_are_gapless_and_read_back_as_written(market: Market) -> None:
    new = slot(1, trade(A, 2.5), trade(B, None, index=1), trade(A, 0.1, index=2))
    await market.store.write([new, slot(2), FinalSlot(Slot(1))])
    await market.store.write([OrphanedSlot(Slot(2)), slot(2, trade(B), fork="'")])
    events = await market.reader.events(0, 100)

    assert events == [
        Tracked(1, A),
        Tracked(2, B),
        Appended(3, new.header, tuple(new.swaps)),
        Appended(4, slot(2).header, ()),
        SlotFinalized(5, Slot(1)),
        Retracted(6, Slot(2), ()),
        Appended(7, slot(2, fork="'").header, (trade(B),)),
    ]
    assert await market.reader.events(3, 2) == events[3:5]
    assert await market.reader.events(7, 100) == []


async def test_the_tip_is_the_newest_slot_that_is_not_orphaned(market: Market) -> None:
    assert await market.reader.tip() == LogTip(seq=2, slot=None, time=None, follows_files=False)
    await market.store.write([slot(1), slot(2)])
    assert (await market.reader.tip()).slot == 2
    await market.store.write([OrphanedSlot(Slot(2))])
    tip = await market.reader.tip()

    assert (tip.seq, tip.slot, tip.time) == (5, 1, START + 1)


async def test_the_newest_seconds_are_read_with_their_first_slots(market: Market) -> None:
    written = [slot(n, time=START + n // 3) for n in range(1, 31)]
    await market.store.write(written)
    await market.store.write([OrphanedSlot(Slot(30))])

    assert await market.reader.seconds(4) == [(n, START + n // 3) for n in (18, 21, 24, 27)]
    assert (await market.reader.seconds(1_000))[0] == (1, START)
    assert len(await market.reader.seconds(1_000)) == 10


async def test_no_seconds_are_read_of_an_empty_log(market: Market) -> None:
    assert await market.reader.seconds(60) == []


async def test_the_tip_shows_that_the_store_follows_files(market: Market) -> None:
    await market.store.start(mints=[], follows_files=True)

    assert (await market.reader.tip()).follows_files


async def test_a_retraction_names_the_tracked_mints_whose_swaps_it_removed(market: Market) -> None:
    await market.store.write([slot(1, trade(B), trade(A, index=1), trade(C, index=2))])
    await market.store.write([OrphanedSlot(Slot(1))])
    (event,) = await market.reader.events(3, 10)

    assert isinstance(event, Retracted)
    assert set(event.mints) == {A, B}


async def test_a_batch_is_written_whole_or_not_at_all(market: Market) -> None:
    await market.store.write([slot(1)])
    with pytest.raises(AssertionError, match="slot 7"):
        await market.store.write([slot(2, trade(A)), OrphanedSlot(Slot(7))])

    assert await kinds(market.reader) == ["Tracked", "Tracked", "Appended"]


async def test_only_tracked_mints_are_logged(market: Market) -> None:
    await market.store.write([slot(1, trade(A), trade(C))])
    await market.tracking.add(C)
    await market.store.write([slot(2, trade(C))])
    await market.tracking.remove(A)
    await market.store.write([slot(3, trade(A), trade(C))])
    logged = [
        [swap.mint for swap in event.swaps]
        for event in await market.reader.events(0, 100)
        if isinstance(event, Appended)
    ]

    assert logged == [[A], [C], [C]]


async def test_tracking_a_mint_adds_an_event_and_changes_the_list(market: Market) -> None:
    assert await market.tracking.add(C)
    assert not await market.tracking.add(C)
    assert await market.tracking.remove(A)
    assert not await market.tracking.remove(A)

    assert await market.reader.tracked() == (4, frozenset({B, C}))
    assert list(await market.reader.events(2, 10)) == [Tracked(3, C), Untracked(4, A)]
    assert [one.mint for one in await market.tracking.page("", 9)] == sorted([B, C])
    assert await market.tracking.one(A) is None


async def test_tracked_mints_are_read_a_page_at_a_time_and_found_by_their_address(
    market: Market,
) -> None:
    tracking = market.tracking
    await tracking.add(C)
    first, *others = sorted([A, B, C])

    assert [one.mint for one in await tracking.page("", 1)] == [first]
    assert [one.mint for one in await tracking.page(first, 9)] == others
    assert await tracking.page(others[-1], 9) == []
    everything = await tracking.found("", 2)
    assert (everything.total, len(everything.mints)) == (3, 2)
    found = await tracking.found(C[:2], 9)
    assert (found.total, [one.mint for one in found.mints]) == (1, [C])
    assert await tracking.found(C[:2].swapcase(), 9) == (0, [])
    assert await tracking.found("%", 9) == (0, [])


async def test_a_listed_mint_that_was_removed_is_not_tracked_after_a_restart(
    market: Market,
) -> None:
    await market.store.write([slot(1)])
    await market.tracking.remove(A)
    await market.store.start(mints=[A, B], follows_files=False)

    assert (await market.reader.tracked())[1] == {B}


async def test_only_final_slots_are_folded_and_each_once(market: Market) -> None:
    await market.store.write([slot(n, trade(A, float(n))) for n in range(1, 61)])
    await fold(market)
    assert (await loaded(market, A)).state is None
    await market.store.write([FinalSlot(Slot(40))])
    await fold(market)
    await fold(market)
    after = await loaded(market, A)

    assert sum(row.count for row in after.candles[Timeframe.M1]) == 40
    assert after.candles[Timeframe.H1][-1].close == 40.0
    assert [one.slot for one in after.tail if not one.folded] == list(range(41, 61))
    assert [one.slot for one in after.tail if one.folded] == list(range(1, 41))


async def test_a_fold_that_is_not_saved_changes_nothing(market: Market) -> None:
    await market.store.write([slot(1, trade(A)), FinalSlot(Slot(1))])
    before = await market.reader.load(A)

    folding = await market.store.fold(25)
    (only,) = folding.slots
    assert A in await folding.swaps(only)
    assert (await folding.kept([A]))[A].state is None

    assert await market.reader.load(A) == before
    await fold(market)
    assert (await loaded(market, A)).state is not None


async def test_a_fold_is_not_saved_if_an_operator_removed_a_mint_meanwhile(market: Market) -> None:
    await market.store.write([slot(1, trade(A)), FinalSlot(Slot(1))])
    folding = await market.store.fold(25)
    folded = Folded(checkpoint=folding.slots[0], untracked=[], tracked={}, activity={}, mints={})
    await market.tracking.remove(A)
    assert not await folding.save(folded)
    assert len((await market.store.fold(25)).slots) == 1

    await market.store.write([slot(2)])
    folding = await market.store.fold(25)
    await market.store.write([slot(3)])  # slots that are appended meanwhile do not matter
    assert await folding.save(folded)
    assert await market.store.tracked_count() == 1
    assert (await market.store.fold(25)).slots == []


async def test_orphaned_slots_are_never_folded(market: Market) -> None:
    await market.store.write([slot(1, trade(A, 1.0)), slot(2, trade(A, 50.0))])
    await market.store.write([OrphanedSlot(Slot(2)), slot(3, trade(A, 3.0)), FinalSlot(Slot(3))])
    assert [one.slot for one in (await loaded(market, A)).tail] == [1, 3]
    await fold(market)
    (candle,) = (await loaded(market, A)).candles[Timeframe.H1]

    assert (candle.high, candle.close, candle.count) == (3.0, 3.0, 2)


async def test_a_mint_that_is_removed_and_added_again_has_no_old_swaps(market: Market) -> None:
    """Old swaps that are logged but not folded yet are omitted, too."""
    await market.store.write([slot(1, trade(A)), FinalSlot(Slot(1))])
    await fold(market)
    await market.store.write([slot(2, trade(A, 7.0))])
    await market.tracking.remove(A)
    assert await market.reader.load(A) is None
    await market.tracking.add(A)
    await market.store.write([slot(3, trade(A, 9.0)), FinalSlot(Slot(3))])
    assert [one.slot for one in (await loaded(market, A)).tail] == [3]
    await fold(market)
    (candle,) = (await loaded(market, A)).candles[Timeframe.M5]

    assert (candle.open, candle.count) == (9.0, 1)


async def test_a_fork_lowers_the_slot_from_which_the_swaps_of_a_mint_count(market: Market) -> None:
    """A swap logged after the start of tracking counts, although its slot is a lower one."""
    await market.store.write([slot(1), slot(2), slot(3)])
    await market.tracking.add(C)
    dead = [OrphanedSlot(Slot(3)), OrphanedSlot(Slot(2))]
    await market.store.write([*dead, slot(2, trade(C, 7.0), fork="b")])
    assert [(one.slot, one.folded) for one in (await loaded(market, C)).tail] == [(2, False)]
    await market.store.write([FinalSlot(Slot(2))])
    await fold(market)
    (candle,) = (await loaded(market, C)).candles[Timeframe.M5]

    assert (candle.open, candle.count) == (7.0, 1)


async def test_loading_reads_101_candles_and_a_day_of_minutes(market: Market) -> None:
    slots = [slot(n, trade(A), time=START + 60 * n) for n in range(1, 1_700)]
    await market.store.write([*slots, FinalSlot(Slot(1_699))])
    await fold(market)
    of_a = await loaded(market, A)
    now = START + 60 * 1_699

    assert {t: len(rows) for t, rows in of_a.candles.items()} == {
        Timeframe.M1: 101, Timeframe.M5: 101, Timeframe.M15: 101, Timeframe.H1: 29,
    }  # fmt: skip
    buckets = [[row.bucket for row in rows] for rows in of_a.candles.values()]
    assert buckets == [sorted(of_one) for of_one in buckets]
    assert of_a.minutes[0][0] <= now - 86_400 < of_a.minutes[-1][0] == now - now % 60
    assert [one.time for one in of_a.tail] == [now - 60 * n for n in range(15, -1, -1)]
    assert all(one.folded for one in of_a.tail)


async def test_loading_reads_the_volume_of_each_second_of_folded_slots(
    market: Market,
) -> None:
    seconds = [10, 10, 10, 11, 13, 13]
    slots = [
        slot(n, trade(A, volume=10**n), trade(B), time=START + second)
        for n, second in enumerate(seconds, 1)
    ]
    await market.store.write([*slots, FinalSlot(Slot(5))])
    await fold(market)
    tail = (await loaded(market, A)).tail

    assert [(one.slot, one.time - START, one.folded, one.swap.volume) for one in tail] == [
        (3, 10, True, 1_110), (4, 11, True, 10_000), (5, 13, True, 100_000),
        (6, 13, False, 1_000_000),
    ]  # fmt: skip


async def test_loading_reads_only_the_volume_of_folded_swaps(market: Market) -> None:
    """A busy mint has hundreds of thousands of swaps in 15 minutes: too many to load."""
    swaps = [trade(A, 1.0 + index, volume=10 + index, index=index) for index in range(100)]
    await market.store.write([slot(1, *swaps), FinalSlot(Slot(1)), slot(2, *swaps)])
    await fold(market)
    tail = (await loaded(market, A)).tail

    assert [one.swap for one in tail if not one.folded] == swaps
    assert [(one.swap.is_buy, one.swap.volume) for one in tail if one.folded] == [
        (is_buy, sum(swap.volume for swap in swaps if swap.is_buy is is_buy))
        for is_buy in (True, False)
    ]


async def test_minutes_without_a_price_have_no_candle(market: Market) -> None:
    await market.store.write([slot(1, trade(A)), slot(99, trade(A, None)), FinalSlot(Slot(99))])
    await fold(market)
    of_a = await loaded(market, A)

    assert [row.count for row in of_a.candles[Timeframe.M1]] == [1]
    assert [(buy, sell) for _, buy, sell in of_a.minutes] == [(10, 0), (10, 0)]


async def test_old_candles_are_dropped_but_never_the_newest_101(open_market: Open) -> None:
    keep_s = {t: 86_400 + 1_440 if t is Timeframe.M1 else WIDTH_S[t] for t in Timeframe}
    market = await open_market(retention=Retention(keep_s))
    await market.store.start(mints=[A], follows_files=False)
    slots = [slot(n, trade(A), time=START + HOUR * n) for n in range(1, 150)]
    await market.store.write([*slots, FinalSlot(Slot(149))])
    await fold(market)
    of_a = await loaded(market, A)

    assert {len(rows) for rows in of_a.candles.values()} == {101}
    with pytest.raises(ValueError, match="at least 87840 seconds of m1 candles; was 60"):
        Retention(dict.fromkeys(Timeframe, 60))


async def test_trimming_keeps_every_event_that_a_reader_may_need(market: Market) -> None:
    """The log keeps all events after the checkpoint, and of the 15 minutes before it."""
    await market.store.write([slot(n, trade(A), time=START + 100 * n) for n in range(1, 31)])
    assert await market.store.trim(1_000) == 0
    await market.store.write([FinalSlot(Slot(20))])
    await fold(market)
    before = await loaded(market, A)
    assert await market.store.trim(3) == 3
    while await market.store.trim(4):
        pass
    first = (await market.reader.events(12, 1))[0]

    assert isinstance(first, Appended)
    assert first.header.slot == 11  # 900 s before slot 20
    assert await loaded(market, A) == before
    with pytest.raises(LogTrimmed):
        await market.reader.events(11, 1)
    with pytest.raises(LogTrimmed):
        await market.reader.events(0, 1)


async def test_a_restart_continues_at_the_tip_of_the_log(market: Market) -> None:
    gap = Gap(Slot(4), Slot(5), "gone")
    await market.store.write(
        [slot(1), slot(2, fork="'"), OrphanedSlot(Slot(2)), slot(2), slot(3), gap]
    )
    await market.store.write([FinalSlot(Slot(1))])
    tail = await market.store.start(mints=[], follows_files=False)

    assert tail.tip == Tip(Slot(3), "hash-3")
    assert (tail.finalized, tail.time, len(tail)) == (1, START + 3, 3)
    assert not tail.lose(gap)


async def test_a_mint_is_tracked_from_the_slot_in_which_it_reaches_the_floor(
    open_market: Open,
) -> None:
    market = await open_market(follows_all=True)
    floor = Floor(swaps_min=3, volume_min=30, dead_after_days=1)
    await market.store.start(mints=[A], follows_files=False)
    swaps = [trade(A, volume=1), trade(B, index=1), trade(C, volume=1, index=2)]
    await market.store.write([slot(n, *swaps) for n in range(1, 6)])
    await market.store.write([FinalSlot(Slot(4))])
    await fold(market, floor)
    of_b = await loaded(market, B)

    assert (await market.reader.tracked())[1] == {A, B}
    assert await market.reader.load(C) is None
    assert of_b.candles[Timeframe.M1][-1].count == 2  # slots 3 and 4
    assert [one.slot for one in of_b.tail] == [3, 4, 5]


async def test_a_mint_that_stops_trading_is_untracked_after_the_days_of_the_floor(
    open_market: Open,
) -> None:
    market = await open_market(follows_all=True)
    floor = Floor(swaps_min=1, volume_min=1, dead_after_days=1)
    await market.store.start(mints=[A], follows_files=False)
    day = 86_400
    await market.store.write([slot(1, trade(B), time=START), slot(2, time=START + day)])
    await market.store.write([FinalSlot(Slot(2))])
    await fold(market, floor)
    assert (await market.reader.tracked())[1] == {A, B}
    await market.store.write([slot(3, trade(C), time=START + 2 * day), FinalSlot(Slot(3))])
    await fold(market, floor)
    assert (await market.reader.tracked())[1] == {A, C}
    await market.store.write([slot(4, trade(B, 5.0), time=START + 2 * day), FinalSlot(Slot(4))])
    await fold(market, floor)

    assert [row.close for row in (await loaded(market, B)).candles[Timeframe.H1]] == [5.0]
    assert (await market.reader.tracked())[1] == {A, B, C}


async def test_a_mint_removed_by_an_operator_is_not_chosen_again(open_market: Open) -> None:
    """The mint stays untracked, however much it trades, until the operator adds it again."""
    market = await open_market(follows_all=True)
    floor = Floor(swaps_min=1, volume_min=1, dead_after_days=1)
    await market.store.start(mints=[A], follows_files=False)
    await market.store.write([slot(1, trade(B)), FinalSlot(Slot(1))])
    await fold(market, floor)
    assert await market.tracking.remove(B)
    assert not await market.tracking.remove(C)
    later = START + 3 * 86_400
    await market.store.write([slot(2, trade(B), trade(C), time=later), FinalSlot(Slot(2))])
    await fold(market, floor)
    assert (await market.reader.tracked())[1] == {A}

    await market.tracking.add(B)
    await market.store.write([slot(3, trade(B), time=later), FinalSlot(Slot(3))])
    await fold(market, floor)

    assert (await market.reader.tracked())[1] == {A, B}


async def test_a_restart_with_a_list_untracks_mints_that_only_the_floor_chose(
    open_market: Open,
) -> None:
    """The setting `track` was "all" and is "list" now; mints that an operator named stay."""
    market = await open_market(follows_all=True)
    floor = Floor(swaps_min=1, volume_min=1, dead_after_days=1)
    await market.store.start(mints=[A], follows_files=False)
    await market.store.write([slot(1, trade(B), trade(C)), FinalSlot(Slot(1))])
    await fold(market, floor)
    await market.tracking.add(C)
    assert (await market.reader.tracked())[1] == {A, B, C}

    again = await open_market(follows_all=False)
    await again.store.start(mints=[A], follows_files=False)

    assert (await again.reader.tracked())[1] == {A, C}
    assert await again.reader.load(B) is None
    assert (await kinds(again.reader))[-1] == "Untracked"


async def test_the_first_chain_that_claims_the_log_keeps_it(open_market: Open) -> None:
    market = await open_market()

    assert await market.store.claim("one") == "one"
    assert await market.store.claim("other") == "one"
    assert await (await open_market()).store.claim("other") == "one"


async def test_a_mint_can_be_untracked_and_tracked_again_within_one_batch(
    open_market: Open,
) -> None:
    market = await open_market(follows_all=True)
    floor = Floor(swaps_min=1, volume_min=1, dead_after_days=1)
    await market.store.start(mints=[A], follows_files=False)
    on_day = [(1, 0, 3.0), (2, 2, 5.0), (3, 2, 7.0)]
    slots = [slot(n, trade(B, price), time=START + 86_400 * day) for n, day, price in on_day]
    await market.store.write([*slots, FinalSlot(Slot(3))])
    await fold(market, floor)

    assert [row.open for row in (await loaded(market, B)).candles[Timeframe.H1]] == [5.0]
    assert await kinds(market.reader, 5) == ["Tracked", "Untracked", "Tracked"]


async def loaded(market: Market, mint: Mint) -> LoadedMint:
    found = await market.reader.load(mint)
    assert found is not None
    assert found.seq == (await market.reader.tip()).seq
    return found


async def test_an_overview_has_the_tip_the_folded_slot_and_the_gaps(market: Market) -> None:
    empty = await market.reader.overview()
    assert (empty.slot, empty.time, empty.folded_slot, empty.tracked_count) == (None, None, None, 2)
    await market.store.write([slot(1, trade(A)), FinalSlot(Slot(1))])
    await market.store.write([slot(2), Gap(Slot(3), Slot(6), "lost")])
    await fold(market)

    assert await market.reader.overview() == MarketOverview(
        slot=Slot(2),
        time=UnixS(START + 2),
        folded_slot=Slot(1),
        follows_files=False,
        tracked_count=2,
        gap_count=1,
        gap_slots=4,
        newest_gap=Slot(6),
    )


async def test_the_candles_of_a_day_are_estimated_once_an_hour_is_folded(market: Market) -> None:
    for number in range(121):
        added = slot(number + 1, trade(A), time=HOUR_S * 24 + MINUTE_S * number)
        await market.store.write([added, FinalSlot(Slot(number + 1))])
        if number in (59, 120):
            await fold(market)
            reported = (await market.reader.overview()).candles_a_day
            assert (reported is None) == (number == 59)

    # Counts of two hours, of which the last minute has just begun.
    assert reported == dict(zip(Timeframe, [121 * 12, 25 * 12, 9 * 12, 3 * 12], strict=True))


async def test_gaps_are_listed_newest_first(market: Market) -> None:
    first, second = Gap(Slot(3), Slot(6), "lost"), Gap(Slot(8), Slot(8), "refused")
    await market.store.write([slot(2), first, slot(7), second, second])

    assert await market.reader.gaps(9) == [second, first]
    assert await market.reader.gaps(1) == [second]


async def test_a_longer_gap_replaces_a_shorter_gap_from_the_same_slot(market: Market) -> None:
    shorter, longer = Gap(Slot(3), Slot(6), "away"), Gap(Slot(3), Slot(9), "away for longer")
    await market.store.write([slot(2), shorter])
    await market.store.write([longer, shorter])

    assert await market.reader.gaps(9) == [longer]
    overview = await market.reader.overview()
    assert (overview.gap_count, overview.gap_slots) == (1, 7)
    tail = await market.store.start(mints=[], follows_files=False)
    assert not tail.lose(longer)


async def test_a_store_that_cannot_be_read_raises_service_unavailable(
    open_market: Open, drop_candles: Callable[[], None]
) -> None:
    market = await open_market()
    await market.store.start(mints=[A], follows_files=False)
    drop_candles()

    with pytest.raises(ServiceUnavailable):
        await market.reader.load(A)


def decided(number: int, pool: str = "pool") -> Standing:
    offers = [
        Offer("elder", "signer", 2.0, 0.02, 7, None, START),
        Offer(pool, "signer", 2.5, 0.025, 10**9, 10**12, UnixS(START + number)),
    ]
    standing = None
    for offer in offers:
        standing, _ = stand(standing, offer)
    assert standing is not None
    return standing


def with_standings(new: NewSlot, *pairs: tuple[Mint, Standing]) -> NewSlot:
    return NewSlot(new.header, new.swaps, dict(pairs))


async def test_price_pools_are_stored_with_the_slot_that_set_them(market: Market) -> None:
    await market.store.write(
        [
            with_standings(slot(1, trade(A), trade(B)), (A, decided(1)), (B, decided(1, "b"))),
            with_standings(slot(2, trade(A)), (A, decided(2))),
            slot(3, trade(A, None)),
            with_standings(slot(4, trade(A)), (A, decided(4))),
            OrphanedSlot(Slot(4)),
            with_standings(slot(5, trade(C)), (C, decided(5))),
        ]
    )

    assert await market.store.price_pools() == [
        (Slot(1), A, decided(1)),
        (Slot(1), B, decided(1, "b")),
        (Slot(2), A, decided(2)),
        (Slot(5), C, decided(5)),
    ]


async def test_price_pools_are_kept_after_their_slots_were_trimmed(market: Market) -> None:
    await market.store.write(
        [
            with_standings(slot(1, trade(A), trade(B)), (A, decided(1)), (B, decided(1, "b"))),
            with_standings(slot(2, trade(A)), (A, decided(2))),
            FinalSlot(Slot(2)),
            with_standings(slot(3, trade(A), time=START + HOUR), (A, decided(3))),
            FinalSlot(Slot(3)),
        ]
    )
    await fold(market)
    while await market.store.trim(100):
        pass

    kept = await market.store.price_pools()
    assert {(mint, state) for _, mint, state in kept[:2]} == {(A, decided(2)), (B, decided(1, "b"))}
    assert kept[2:] == [(Slot(3), A, decided(3))]
    assert all(each < 1 for each, *_ in kept[:2])


@pytest.mark.parametrize("begins", [True, False], ids=["begins", "ends"])
async def test_the_newer_price_pools_count_if_tracking_begins_or_ends(
    market: Market,
    begins: bool,  # noqa: FBT001
) -> None:
    """Tracking begins or ends between two slots that were deleted from the log since then."""
    mint = C if begins else A
    await market.store.write([with_standings(slot(1, trade(mint)), (mint, decided(1)))])
    assert await (market.tracking.add(mint) if begins else market.tracking.remove(mint))
    await market.store.write(
        [
            with_standings(slot(2, trade(mint)), (mint, decided(2))),
            FinalSlot(Slot(2)),
            slot(3, time=START + HOUR),
            FinalSlot(Slot(3)),
        ]
    )
    await fold(market)
    while await market.store.trim(100):
        pass

    assert await market.store.price_pools() == [(-1, mint, decided(2))]


async def test_pools_of_a_joined_backfill_replace_the_pools_from_before_tracking(
    market: Market, join_swap: Callable[[], None]
) -> None:
    both = with_standings(slot(1, trade(C)), (C, decided(1)), (D, decided(1, "b")))
    await market.store.write([both, FinalSlot(Slot(1))])
    await market.tracking.add(C)
    join_swap()

    known = {mint: standing for _, mint, standing in await market.store.price_pools()}
    assert known == {C: decided(1, "b"), D: decided(1, "b")}


async def test_readers_get_the_price_pools_of_each_slot_and_mint(market: Market) -> None:
    await market.store.write(
        [
            with_standings(slot(1, trade(A), trade(B)), (A, decided(1)), (B, decided(1, "b"))),
            with_standings(slot(2, trade(A)), (A, decided(2))),
            slot(3, trade(A, None)),
            FinalSlot(Slot(2)),
        ]
    )
    await fold(market)
    await market.store.write(
        [
            with_standings(slot(4, trade(A)), (A, decided(4))),
            with_standings(slot(5, trade(A)), (A, decided(5))),
            OrphanedSlot(Slot(5)),
        ]
    )

    reported = [e.standings for e in await market.reader.events(0, 100) if isinstance(e, Appended)]
    assert reported == [
        {A: pack(decided(1)), B: pack(decided(1, "b"))},
        {A: pack(decided(2))},
        {},
        {A: pack(decided(4))},
        {A: pack(decided(5))},
    ]
    loaded = [await market.reader.load(mint) for mint in (A, B)]
    assert [each.standings for each in loaded if each is not None] == [
        [(Slot(2), pack(decided(2))), (Slot(4), pack(decided(4)))],
        [(Slot(1), pack(decided(1, "b")))],
    ]


async def test_a_mint_is_loaded_with_price_pools_whose_slots_were_trimmed(market: Market) -> None:
    await market.store.write(
        [
            with_standings(slot(1, trade(A)), (A, decided(1))),
            with_standings(slot(2, trade(B), time=START + HOUR), (B, decided(2))),
            FinalSlot(Slot(2)),
        ]
    )
    await fold(market)
    while await market.store.trim(100):
        pass

    loaded = await market.reader.load(A)
    assert loaded is not None
    assert [packed for _, packed in loaded.standings] == [pack(decided(1))]


def missed(
    program: str, hour: int, *, volume: int = 5, head: str = "01", count: int = 1
) -> NotRead:
    return NotRead(
        time=UnixS(START + hour * HOUR),
        program=program,
        reason="unknown_program",
        head=head,
        count=count,
        volume=volume,
        signature=Signature(f"{program} in {hour}"),
    )


async def test_unread_calls_are_summed_over_the_last_day_of_the_chain(market: Market) -> None:
    await market.store.write([missed("gone", 0, volume=10**9), missed("small", 1, volume=2)])
    await market.store.write([missed("large", 20, volume=7), missed("large", 24, count=3)])
    await market.store.write([slot(1, time=START + 24 * HOUR)])

    assert await market.reader.not_read(10) == [
        NotRead(
            time=UnixS(START + 24 * HOUR),
            program="large",
            reason="unknown_program",
            head="01",
            count=4,
            volume=12,
            signature=Signature("large in 24"),
        ),
        missed("small", 1, volume=2),
    ]
    assert [one.program for one in await market.reader.not_read(1)] == ["large"]
    await market.store.write([missed("later", 7 * 24 + 1), slot(2, time=START + 2 * 24 * HOUR)])
    assert await market.reader.not_read(10) == [missed("later", 7 * 24 + 1)]


async def test_kinds_of_unread_calls_are_bounded_and_huge_volumes_are_capped(
    market: Market,
) -> None:
    await market.store.write([missed(f"program {i}", 1) for i in range(1_000)])
    await market.store.write([missed("program 1", 1, volume=2**70)] * 20)
    found = await market.reader.not_read(10_000)

    assert len(found) == 501  # 500 kinds, and one row for all others
    assert sum(one.count for one in found) == 1_020
    assert (found[0].program, found[0].volume, found[0].count) == ("program 1", 10**18, 21)
    assert (found[1].program, found[1].head, found[1].count) == ("other", "", 500)
