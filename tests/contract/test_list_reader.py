"""The contract of every ListReader: the list that it fills agrees with the logged swaps."""

from collections.abc import AsyncIterator, Sequence
from math import isnan
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from msgspec.structs import replace
from typing_extensions import override

from mintscope.kit.clock import ManualClock
from mintscope.kit.errors import TokenNotFound
from mintscope.kit.primitives import Mint, UnixMs, UnixS
from mintscope.market.engine.kernels import AGES
from mintscope.market.follow.list_cache import ListCache
from mintscope.market.follow.tailer import look_again_soon
from mintscope.market.log import LogTrimmed, PricedSwap
from mintscope.market.ports import MINUTES_S, Retention
from mintscope.market.screening.averages import NAMES as AVERAGES
from mintscope.market.screening.grammar import before
from mintscope.market.screening.listed import ListedTokens, ListQuestion, Sort, key_of
from mintscope.market.screening.screen import ScreenQuestion
from mintscope.market.screening.snapshot import (
    FactPlace,
    FoldedTo,
    ListReader,
    MintPage,
    MintTrades,
)
from mintscope.market.timeframe import WIDTH_S, Timeframe
from support.fakes.facts import FACTS
from support.fakes.list_reader import FakeListReader
from support.fakes.made_chain import MINTS, START
from support.oracles.slow_list import Expected, Reported, expected, in_order
from support.oracles.slow_screen import values_of
from support.scenes.market_engines import market_of
from support.scenes.traded import MEMORY, READERS, TradedStore

A, B, C, D = MINTS
Ports = tuple[TradedStore | FakeListReader, ListReader]
# The shortest retention, so that candles are dropped.
RETENTION: Final = Retention(
    {each: MINUTES_S if each is Timeframe.M1 else WIDTH_S[each] for each in Timeframe}
)
STEPS_S: Final = (7, 60, 61, 130, 300, 700, 4_000)
PAUSES_S: Final = {60: 90_000, 80: 3_600, 120: 200_000, 150: 600_000}


@pytest.fixture(params=READERS)
async def ports(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Ports]:
    if request.param == MEMORY:
        fake = FakeListReader()
        yield fake, fake
        return
    async with market_of(request.param, tmp_path, retention=RETENTION) as market:
        await market.store.start(mints=[], follows_files=False)
        yield TradedStore(market), market.lists


def trade(mint: Mint, usd: float | None = 1.0, volume: int = 10, index: int = 0) -> PricedSwap:
    sol = None if usd is None else usd / 100
    return PricedSwap(mint, index, 0, -1, 0, index % 2 == 0, volume, usd, sol, "pool")


def lister_of(reader: ListReader) -> ListCache:
    return ListCache(reader, ManualClock(UnixMs(START * 1000)), wait=look_again_soon)


def reported(listed: ListedTokens, sort: Sort = Sort.VOLUME) -> dict[str, Expected]:
    """Return the lines of *listed* by mint, in the order *sort*, read page by page."""
    found: dict[str, Expected] = {}
    asked = ListQuestion(sort=sort, limit=3)
    while True:
        page = listed.page(asked)
        for line, day in zip(page.lines, listed.days(page.rows), strict=True):
            assert line.listed.mint not in found
            found[line.listed.mint] = Expected(
                line.usd, line.sol, line.changes, line.volume, line.swaps, [*line.ready], day,
                line.rsi, line.pressure, line.change_since,
            )  # fmt: skip
        if page.next_after is None:
            return found
        asked = replace(asked, after=page.next_after)


def screened(listed: ListedTokens) -> dict[str, dict[str, Any]]:
    """Return the numbers of each mint that a condition can name, as the list *listed* has them."""
    names = [*values_of("", [], 0)]
    page = listed.screen(ScreenQuestion(None, "price", False, names, 100))  # noqa: FBT003
    return {
        listed.mint_in(row).mint: dict(zip(names, line, strict=True))
        for row, line in zip(page.rows, page.values, strict=True)
    }


def expect_values(shown: dict[str, Any], expected: dict[str, float | None]) -> None:
    known = {name: value for name, value in expected.items() if value is not None}
    for name in [each for each in known if each.startswith("atr_") and shown[each] is None]:
        del known[name]  # the candles that it rests on were dropped before the list was loaded
    assert {name for name in shown if shown[name] is not None} == known.keys()
    assert {name: shown[name] for name in known} == pytest.approx(known, rel=1e-9, abs=1e-7)


def closes_of(mint: Mint, swaps: list[Reported]) -> dict[Timeframe, list[float | None]]:
    """Return the closes of the newest AGES closed candles of *mint*, newest first, by timeframe.

    None stands for a candle that does not exist.
    """
    own = [swap for swap in swaps if swap.mint == mint and swap.usd is not None]
    found: dict[Timeframe, list[float | None]] = {}
    for timeframe, width_s in WIDTH_S.items():
        closes = [*{swap.time // width_s: swap.usd for swap in own}.values()][-2::-1]
        found[timeframe] = [*closes, *[None] * AGES][:AGES]
    return found


def listed_closes(listed: ListedTokens) -> dict[Mint, dict[Timeframe, list[float | None]]]:
    """Return the closes of closed candles in *listed* by mint and timeframe, newest first."""
    rows = mints_by_row(listed)
    found: dict[Mint, dict[Timeframe, list[float | None]]] = {mint: {} for mint in rows.values()}
    for timeframe in WIDTH_S:
        names = [before("price", timeframe, age) for age in range(1, AGES + 1)]
        columns = [listed.columns.column(name) for name in names]
        for row, mint in rows.items():
            values = [column[row] for column in columns]
            found[mint][timeframe] = [None if isnan(value) else value for value in values]
    return found


def expect_alike(listed: ListedTokens, other: ListedTokens) -> None:
    """Assert that the averages as of earlier candles are equal to the last bit in both lists."""
    rows = {mint: row for row, mint in mints_by_row(other).items()}
    for name in (before(f"{each}_m1", Timeframe.M1, AGES) for each in AVERAGES):
        ours = listed.columns.column(name)
        theirs = other.columns.column(name)
        for row, mint in mints_by_row(listed).items():
            assert ours[row : row + 1].tobytes() == theirs[rows[mint]].tobytes(), (mint, name)


def mints_by_row(listed: ListedTokens) -> dict[int, Mint]:
    page = listed.page(ListQuestion(limit=99))
    return {row: line.listed.mint for row, line in zip(page.rows, page.lines, strict=True)}


def about(line: Expected) -> Expected:
    """Return *line* with an RSI that equals each RSI within 1e-9, because sums are rounded."""
    near: Any = pytest.approx(line.rsi, abs=1e-9)
    return line._replace(rsi=near)


async def test_a_list_agrees_with_all_swaps_since_each_mint_was_tracked(ports: Ports) -> None:
    """Lists are loaded at random slots; mints are tracked and untracked, with pauses of days."""
    market, reader = ports
    random = Random(7)
    swaps: list[Reported] = []
    followed: set[Mint] = set()
    listers = [lister_of(reader)]
    time: int = START
    for slot in range(1, 301):
        time += PAUSES_S.get(slot, random.choice(STEPS_S))
        if random.random() < 0.03 or slot == 1:
            mint = A if slot == 1 else random.choice([B, C, D])
            await (market.untrack if mint in followed else market.track)(mint)
            followed ^= {mint}
            swaps = [swap for swap in swaps if swap.mint != mint]
        traded = [
            trade(mint, random.choice([None, *[random.uniform(1, 9)] * 9]), random.randrange(99), n)
            for n, mint in enumerate([A, *random.choices(MINTS, k=random.randrange(4))])
            if slot not in PAUSES_S
        ]
        await market.append(slot, time, *traded)
        swaps += [
            Reported(each.mint, time, each.volume, each.price_usd, each.price_sol, each.is_buy)
            for each in traded
            if each.mint in followed
        ]
        if random.random() < 0.1:
            listers = [*listers[-2:], lister_of(reader)]
        if random.random() < 0.2:
            await listers[-1].refresh()
        if slot % 20 == 0:
            lines = {mint: about(expected(mint, swaps, time)) for mint in followed}
            closes = {mint: closes_of(mint, swaps) for mint in followed}
            values = {mint: values_of(mint, swaps, time) for mint in followed}
            for lister in listers:
                await lister.refresh()
                assert reported(lister.newest()) == lines
                assert listed_closes(lister.newest()) == closes
                expect_alike(lister.newest(), listers[0].newest())
                shown = screened(lister.newest())
                assert shown.keys() == followed
                for mint in followed:
                    expect_values(shown[mint], values[mint])
    assert any(expected(mint, swaps, time).ready for mint in followed)
    assert expected(A, swaps, time).rsi is not None


async def test_a_mint_tracked_before_the_first_slot_is_as_old_as_its_first_price(
    ports: Ports,
) -> None:
    market, reader = ports
    await market.track(A)
    early = lister_of(reader)
    await early.refresh()
    await market.append(1, START, trade(A, None))
    await early.refresh()
    (line,) = early.newest().page(ListQuestion(limit=9)).lines
    assert (line.listed.since, line.age_s) == (None, None)

    await market.append(2, START + 90, trade(A, 0.5))
    await market.append(3, START + 200, trade(A, 0.6))
    late = lister_of(reader)
    for lister in (early, late):
        await lister.refresh()
        (line,) = lister.newest().page(ListQuestion(limit=9)).lines
        minute = (START + 90) // 60 * 60
        assert (line.listed.since, line.age_s) == (minute, START + 200 - minute)
        asked = ScreenQuestion(None, "price", False, ["age_s"], 1)  # noqa: FBT003
        assert lister.newest().screen(asked).values == [(line.age_s,)]
        found = lister.newest().page(ListQuestion(limit=9, since_min=UnixS(minute)))
        assert [one.listed.mint for one in found.lines] == [A]


async def test_a_price_older_than_a_day_is_found_after_its_minute_was_dropped(
    ports: Ports,
) -> None:
    market, reader = ports
    await market.track(A)
    await market.append(1, START, trade(A, 5.0))
    later = START + 5 * 86_400
    for slot in range(2, 108):
        await market.append(slot, later + slot * 60, trade(A, 6.0))
    lister = lister_of(reader)
    await lister.refresh()

    assert reported(lister.newest())[A].changes == (0.0, 0.0, 6.0 / 5.0 - 1.0)


@pytest.mark.parametrize("sort", Sort)
async def test_every_sort_lists_each_mint_once_in_order(ports: Ports, sort: Sort) -> None:
    market, reader = ports
    for n, mint in enumerate(MINTS):
        await market.append(n + 1, START + 60 * n, *(trade(each) for each in MINTS[:n]))
        await market.track(mint)
    for hour in range(1, 20):
        prices = {A: 1.0 + hour, B: 1.0 + hour % 2, D: 20.0 - hour}
        moved = [trade(each, usd) for each, usd in prices.items()]
        await market.append(9 + hour, START + 3_600 * hour, *moved)
    await market.append(99, START + 100_000, trade(B, 2.0), trade(C, 0.5), trade(C, 0.5, index=1))
    facts = replace(FACTS, read_at_ms=UnixMs(START * 1000), supply=4_000_000)
    for mint in (A, B, D):
        await market.learn(mint, facts)
    lister = lister_of(reader)
    await lister.refresh()

    lines = {each: expected(each, [], 0) for each in MINTS} | reported(lister.newest())
    values: dict[str, float | None] = {
        mint: {
            Sort.VOLUME: line.volume,
            Sort.CHANGE: line.changes[2],
            Sort.CHANGE_H1: line.changes[1],
            Sort.CHANGE_M5: line.changes[0],
            Sort.MARKET_CAP: None if mint == C or line.usd is None else line.usd * 4.0,
            Sort.PRICE: line.usd,
            Sort.RSI_H1: line.rsi,
            Sort.PRESSURE_H1: line.pressure,
            Sort.AGE: 100_000 - 60 * MINTS.index(Mint(mint)),
        }[sort]
        for mint, line in lines.items()
    }
    keys: dict[str, int] = {mint: key_of(mint) for mint in MINTS}
    for is_rising in (False, True):
        asked = ListQuestion(sort=sort, is_rising=is_rising, limit=1)
        found = []
        while True:
            page = lister.newest().page(asked)
            found += [line.listed.mint for line in page.lines]
            if page.next_after is None:
                break
            asked = replace(asked, after=page.next_after)
        assert found == in_order(values, keys, is_rising=is_rising)


async def test_a_list_is_filtered_by_volume_time_and_mints(ports: Ports) -> None:
    market, reader = ports
    for n, mint in enumerate((A, B, C)):
        await market.track(mint)
        await market.append(n + 1, START + 60 * n, trade(mint, volume=10 * (n + 1)))
    lister = lister_of(reader)
    await lister.refresh()

    def found(asked: ListQuestion) -> list[str]:
        return [line.listed.mint for line in lister.newest().page(asked).lines]

    assert found(ListQuestion(limit=9)) == [C, B, A]
    assert found(ListQuestion(limit=9, volume_min=20)) == [C, B]
    assert found(ListQuestion(limit=9, since_min=UnixS(START + 60))) == [C]
    assert found(ListQuestion(limit=9, among=[A, D, B])) == [B, A]
    assert found(ListQuestion(limit=9, among=[A, B], volume_min=20)) == [B]
    assert found(ListQuestion(limit=9, among=[])) == []


async def test_pages_of_mints_are_bounded_and_the_last_page_is_empty(ports: Ports) -> None:
    market, reader = ports
    for mint in MINTS:
        await market.track(mint)
    first = await reader.mints(0, 3)
    second = await reader.mints(first.last, 3)
    third = await reader.mints(second.last, 3)

    assert [len(page.mints) for page in (first, second, third)] == [3, 1, 0]
    assert {one.mint for page in (first, second) for one in page.mints} == set(MINTS)
    assert first.folded == FoldedTo(0, None, None)


async def test_trades_are_those_of_folded_slots_in_order(ports: Ports) -> None:
    market, reader = ports
    for mint in (A, B):
        await market.track(mint)
    await market.append(1, START, trade(A, 3.0), trade(B, None), trade(A, 4.0, 5, index=2))
    await market.append(2, START + 1)
    await market.append(3, START + 2, trade(A), trade(C))
    folded, newest = await reader.folded()
    slots = await reader.trades(0, folded.seq, 1_000)

    assert newest >= folded.seq
    assert (folded.slot, folded.time) == (3, START + 2)
    assert [slot.folded.slot for slot in slots] == [1, 2, 3]
    assert slots[-1].folded == folded
    assert sorted(slots[0].trades) == [
        MintTrades(A, 15, 15, 2, 4.0, 0.04, 3.0, None, 4.0, 3.0),
        MintTrades(B, 10, 10, 0, None, None),
    ]
    assert slots[2].trades == [MintTrades(A, 10, 10, 1, 1.0, 0.01, 1.0, None, 1.0, 1.0)]
    assert [s.folded.slot for s in await reader.trades(0, folded.seq, 1)] == [1]
    assert await reader.trades(0, slots[0].folded.seq, 1_000) == slots[:1]
    assert await reader.trades(slots[1].folded.seq, folded.seq, 1_000) == slots[2:]


async def test_tracked_and_untracked_tokens_are_reported_once(ports: Ports) -> None:
    market, reader = ports
    await market.track(A)
    _, before = await reader.folded()
    for act in (market.track, market.untrack, market.track):
        await act(B)
    await market.untrack(A)
    _, newest = await reader.folded()

    assert set(await reader.tracked(before, newest)) == {A, B}
    assert len(await reader.tracked(before, newest)) == 2
    assert await reader.tracked(newest, newest) == []
    assert {one.mint for one in (await reader.some([A, B, C])).mints} == {B}


async def test_a_list_is_loaded_again_after_the_log_was_trimmed(ports: Ports) -> None:
    market, reader = ports
    await market.track(A)
    await market.append(1, START, trade(A))
    lister = lister_of(reader)
    await lister.refresh()
    for slot in range(2, 6):
        await market.append(slot, START + slot * 1_000, trade(A))
    await market.trim()

    with pytest.raises(LogTrimmed):
        await reader.trades(0, 99, 1)
    with pytest.raises(LogTrimmed):
        await reader.tracked(0, 99)
    await lister.refresh()
    await lister.refresh()
    assert reported(lister.newest())[A].swaps == 5


class FoldingReader(FakeListReader):
    """A reader in whose store ingest folds a slot just before some mints are read."""

    def __init__(self) -> None:
        super().__init__()
        self.loads = 0

    @override
    async def mints(self, after: int, limit: int) -> MintPage:
        self.loads += after == 0
        return await super().mints(after, limit)

    @override
    async def some(self, mints: Sequence[Mint]) -> MintPage:
        slot = len(self.slots) + 1
        await self.append(slot, START + slot, trade(A))
        return await super().some(mints)


async def test_a_list_is_not_loaded_again_if_a_slot_is_folded_while_tracked_mints_are_read() -> (
    None
):
    reader = FoldingReader()
    await reader.track(A)
    await reader.append(1, START, trade(A))
    lister = lister_of(reader)
    await lister.refresh()
    await reader.track(B)

    await lister.refresh()

    assert reader.loads == 1
    assert reported(lister.newest())[A].swaps == len(reader.slots)
    assert B in reported(lister.newest())


async def test_facts_come_in_the_order_in_which_they_were_read(ports: Ports) -> None:
    market, reader = ports
    for mint in (A, B, C):
        await market.track(mint)
    read = {A: 20, B: 10, C: 20}
    for mint, at in read.items():
        await market.learn(mint, replace(FACTS, read_at_ms=UnixMs(at)))
    found = await reader.facts_after(FactPlace(UnixMs(0), Mint("")), 2)

    assert [place for place, _ in found] == [(10, B), (20, A)]
    assert found[0][1] == replace(FACTS, read_at_ms=UnixMs(10))
    assert [place for place, _ in await reader.facts_after(found[-1][0], 2)] == [(20, C)]
    assert await reader.facts_after(FactPlace(UnixMs(20), C), 2) == []


async def test_facts_of_a_mint_are_none_until_they_are_read_and_need_a_tracked_mint(
    ports: Ports,
) -> None:
    market, reader = ports
    with pytest.raises(TokenNotFound):
        await reader.facts_of(A)
    await market.track(A)
    assert await reader.facts_of(A) is None
    await market.learn(A, FACTS)
    assert await reader.facts_of(A) == FACTS


async def test_a_symbol_and_supply_that_are_read_later_are_listed(ports: Ports) -> None:
    market, reader = ports
    await market.append(1, START)
    await market.track(A)
    await market.append(2, START + 1, trade(A, 0.5))
    lister = lister_of(reader)
    await lister.refresh()
    (line,) = lister.newest().page(ListQuestion(limit=9)).lines
    assert (line.listed.symbol, line.market_cap, line.age_s) == (None, None, 1)

    facts = replace(FACTS, read_at_ms=UnixMs(START * 1000), supply=4_000_000, symbol="New")
    await market.learn(A, facts)
    await lister.refresh()
    (line,) = lister.newest().page(ListQuestion(limit=9)).lines
    assert (line.listed.symbol, line.listed.decimals, line.market_cap) == ("New", 6, 2.0)
    assert line.listed.since == UnixS(START)

    await market.learn(A, replace(facts, read_at_ms=UnixMs(START * 1000 + 3_600_000), supply=0))
    await lister.refresh()
    (line,) = lister.newest().page(ListQuestion(limit=9)).lines
    assert line.market_cap is None


@pytest.mark.parametrize("behind_s", [0, 120])
async def test_facts_that_are_stored_after_facts_read_later_are_listed(
    ports: Ports, behind_s: int
) -> None:
    market, reader = ports
    for mint in (A, B, C):
        await market.track(mint)
    await market.append(1, START, trade(A), trade(B), trade(C))
    lister = lister_of(reader)
    await lister.refresh()
    for mint, read_at_ms in ((B, 1_500), (C, 1_000), (A, 1_500)):
        read_at = UnixMs((START - behind_s) * 1000 + read_at_ms)
        await market.learn(mint, replace(FACTS, read_at_ms=read_at, symbol=mint[:4]))
        await lister.refresh()

    lines = lister.newest().page(ListQuestion(limit=9)).lines
    assert {line.listed.mint: line.listed.symbol for line in lines} == {
        mint: mint[:4] for mint in (A, B, C)
    }


async def test_a_new_mint_in_a_spare_row_has_no_earlier_price(ports: Ports) -> None:
    market, reader = ports
    await market.track(A)
    await market.append(1, START, trade(A, 1.0))
    lister = lister_of(reader)
    await lister.refresh()
    await market.append(2, START + 60, trade(A, 1.0))
    await lister.refresh()
    await market.track(B)
    await market.append(3, START + 130, trade(B, 2.0))
    await lister.refresh()
    await market.append(4, START + 3_660)
    await lister.refresh()
    swaps = [Reported(B, START + 130, 10, 2.0, 0.02, is_buy=True)]
    assert reported(lister.newest())[B] == about(expected(B, swaps, START + 3_660))
    assert reported(lister.newest())[B].changes[1] is None
