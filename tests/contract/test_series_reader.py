"""The contract of every reader of series, on each engine and in memory."""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Final

import pytest
from msgspec.structs import replace

from mintscope.app.stores.folder import MARKET_FILE
from mintscope.kit.primitives import Mint, Signature, Slot, UnixS
from mintscope.market.engine import pool_book
from mintscope.market.engine.crowd_book import CrowdBook
from mintscope.market.engine.pool_book import POOL_CANDLES_S, PoolBook
from mintscope.market.log import Evidence, PricedSwap, SwapDetail
from mintscope.market.ports import DEFAULT_RETENTION
from mintscope.market.series.conduct import span_crowd
from mintscope.market.series.pools import (
    AskedCandles,
    KeptCandles,
    LoggedSwap,
    SeriesCandle,
    SpanFlow,
    SwapPlace,
    pools_of,
)
from mintscope.market.series.series import (
    WIDTHS,
    Range,
    Series,
    narrowed,
    page_of,
    series_of,
    widened,
)
from mintscope.market.standing import Offer, stand
from mintscope.market.timeframe import Timeframe
from mintscope.solana.blocks import USDC
from support.fakes.made_chain import MINTS, START
from support.oracles import definitions
from support.oracles.pool_candles import booked_pools, pool_rows, trades_in_book
from support.scenes.market_engines import MARKET_ENGINES, execute_in
from support.scenes.traded import READERS, Traded, TradedStore, traded_on

A, B, UNTRACKED, _ = MINTS
SLOTS: Final = 400
PACES_S: Final = (7, 400, 9_000)
SECONDS: Final = {name: width.seconds for name, width in WIDTHS.items()}


@pytest.fixture(params=READERS)
async def traded(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Traded]:
    async with traded_on(request.param, tmp_path, [A, B]) as traded:
        yield traded


class Lived:
    """A random history of a market; *trades* are the swaps of A in slots that were not orphaned."""

    def __init__(self, traded: Traded, seed: int, pace_s: int) -> None:
        self._traded, self._random, self._pace_s = traded, Random(seed), pace_s
        self._alive: list[tuple[int, int, list[PricedSwap]]] = []
        self._final = 0

    @property
    def trades(self) -> list[definitions.Trade]:
        return [
            definitions.Trade(time, swap.price_usd, swap.price_sol, swap.volume, swap.is_buy)
            for _, time, swaps in self._alive
            for swap in swaps
            if swap.mint == A
        ]

    async def step(self) -> None:
        random = self._random
        while self._alive and self._alive[-1][0] > self._final and random.random() < 0.1:
            await self._traded.retract(self._alive.pop()[0])
        number, time = (self._alive[-1][0] + 1, self._alive[-1][1]) if self._alive else (1, START)
        time += random.choice([0, 0, 1, 3]) * self._pace_s
        swaps = [self._swap(n) for n in range(random.randrange(4))]
        self._alive.append((number, time, swaps))
        await self._traded.slot(number, time, *swaps)
        if random.random() < 0.15:
            self._final = max(self._final, number - random.randrange(4))
            await self._traded.finalize(self._final)

    def _swap(self, index: int) -> PricedSwap:
        random = self._random
        price = random.choice([None, random.uniform(0.5, 2), random.uniform(0.5, 2)])
        sol = None if price is None else price / random.uniform(90, 110)
        mint, volume = random.choice([A, A, B]), random.randrange(1, 10**9)
        return PricedSwap(mint, index, 0, -1, 0, random.random() < 0.5, volume, price, sol)


def expected(trades: list[definitions.Trade], width_s: int) -> list[SeriesCandle]:
    """Return the candles of *trades* in USD and in SOL, computed by their definition."""
    in_sol: dict[int, list[float]] = {}
    for trade in trades:
        if trade.price is not None and trade.price_sol is not None:
            in_sol.setdefault(trade.time - trade.time % width_s, []).append(trade.price_sol)
    return [
        SeriesCandle(UnixS(c.start), *c[1:], sol[0], max(sol), min(sol), sol[-1])
        for c in definitions.candles(trades, width_s)
        for sol in [in_sol[c.start]]
    ]


async def read(traded: Traded, within: Range, mint: Mint = A) -> tuple[Series, UnixS]:
    kept = await traded.series.candles(mint, within.asked)
    assert kept is not None
    return widened(series_of(kept, within.asked), within.width), kept.tip.time or UnixS(0)


async def pages(traded: Traded, within: Range) -> list[SeriesCandle]:
    """Read all pages of *within*, the newest first; return their candles in the order of time."""
    found: list[SeriesCandle] = []
    while True:
        series, now = await read(traded, within)
        page = page_of(series, within, now)
        assert len(page.candles) <= within.limit
        found = [*page.candles, *found]
        if page.until is None:
            return found
        within = Range(width=within.width, since=within.since, until=page.until,
                       limit=within.limit, is_filled=within.is_filled)  # fmt: skip


@pytest.mark.parametrize("pace_s", PACES_S)
async def test_pages_contain_the_candles_of_all_swaps_that_are_not_orphaned(
    traded: Traded, pace_s: int
) -> None:
    lived = Lived(traded, seed=pace_s, pace_s=pace_s)
    known: dict[str, KeptCandles] = {}
    for n in range(SLOTS // 4):
        await lived.step()
        if n % 20 != 19:
            continue
        for name, width in WIDTHS.items():
            within = Range(width=width, since=UnixS(0), until=UnixS(1 << 33), limit=7)
            kept = await traded.series.candles(A, within.asked)
            assert kept is not None
            assert await traded.series.tip() == kept.tip
            assert kept == await traded.series.candles(A, within.asked, known.get(name))
            known[name] = kept
            newest = await traded.series.candles(A, within.asked._replace(rows_max=1_000))
            assert newest is not None
            assert narrowed(newest, within.asked) == kept
            assert await pages(traded, within) == expected(lived.trades, SECONDS[name])
            filled = await pages(traded, replace(within, is_filled=True, limit=1_000))
            # Older spans without a price are dropped; the newest 101 with one never are.
            since = lived.trades[-1].time - DEFAULT_RETENTION.keep_s[width.kept]
            found = {at: flow for at, flow in flows(filled).items() if at >= since}
            whole = traded_in(lived.trades, SECONDS[name])
            assert found == {at: flow for at, flow in whole.items() if at >= since}


def flows(candles: list[SeriesCandle]) -> dict[int, tuple[int, int]]:
    """Return the amounts bought and sold of each candle with volume, by its start.

    Asserts that no two candles have the same start.
    """
    assert len({each.bucket for each in candles}) == len(candles)
    return {
        each.bucket: (each.buy_volume, each.sell_volume)
        for each in candles
        if each.buy_volume or each.sell_volume
    }


def traded_in(trades: list[definitions.Trade], width_s: int) -> dict[int, tuple[int, int]]:
    """Return the bought and sold volume by the start of each span of *width_s* seconds.

    The result is empty if no trade has a price.
    """
    found: dict[int, tuple[int, int]] = {}
    for trade in trades if any(trade.price is not None for trade in trades) else ():
        begin = trade.time - trade.time % width_s
        bought, sold = found.get(begin, (0, 0))
        is_buy = trade.is_buy
        found[begin] = (bought + trade.volume * is_buy, sold + trade.volume * (not is_buy))
    return found


@pytest.mark.parametrize("limit", [1, 2, 7])
async def test_volume_before_the_first_price_and_between_prices_is_read_once(
    traded: Traded, limit: int
) -> None:
    made = [(0, None), (3, None), (4, 2.0), (9, None), (11, 3.0), (14, None)]
    trades = [
        definitions.Trade(START + 60 * minute, price, price, 10**n, is_buy=n % 2 == 0)
        for n, (minute, price) in enumerate(made)
    ]
    for n, trade in enumerate(trades):
        swap = PricedSwap(A, 0, 0, -1, 0, trade.is_buy, trade.volume, trade.price, trade.price_sol)
        await traded.slot(n + 1, trade.time, swap)
    for final in (1, 4, 6):
        await traded.finalize(final)
        for name, width in WIDTHS.items():
            within = Range(width=width, since=UnixS(0), until=UnixS(1 << 33), limit=limit,
                           is_filled=True)  # fmt: skip
            filled = await pages(traded, within)
            assert flows(filled) == traded_in(trades, SECONDS[name])
            starts = [each.bucket for each in filled]
            assert starts == list(range(starts[0], starts[-1] + 1, SECONDS[name]))
            assert filled[0].open == 2.0


async def test_a_range_includes_both_ends_and_can_fill_empty_spans(traded: Traded) -> None:
    lived = Lived(traded, seed=1, pace_s=7)
    for _ in range(60):
        await lived.step()
    whole = expected(lived.trades, 60)
    first, last = whole[2].bucket, whole[-2].bucket
    within = Range(width=WIDTHS["m1"], since=first, until=last, limit=3)

    assert await pages(traded, within) == whole[2:-1]
    filled = await pages(traded, Range(width=WIDTHS["m1"], since=first, until=last, limit=3,
                                       is_filled=True))  # fmt: skip
    assert [each.bucket for each in filled] == list(range(first, last + 1, 60))
    assert [each for each in filled if each.count] == whole[2:-1]
    for before, each in pairwise(filled):
        if not each.count:
            assert (each.open, each.high, each.low, each.close) == (before.close,) * 4
            assert (each.open_sol, each.close_sol) == (before.close_sol,) * 2


async def test_an_untracked_mint_has_no_series_and_a_mint_without_swaps_is_empty(
    traded: Traded,
) -> None:
    asked = AskedCandles(Timeframe.M1, UnixS(1 << 33), 10)
    await traded.slot(1, START)

    assert await traded.series.candles(UNTRACKED, asked) is None
    kept = await traded.series.candles(B, asked)
    assert kept is not None
    assert (kept.state, kept.rows, kept.newer, kept.has_older) == (None, [], 0, False)
    assert (kept.tip.slot, kept.tip.time) == (1, START)


async def test_candles_narrowed_from_the_newest_equal_candles_that_are_read(traded: Traded) -> None:
    for n in range(200):
        await traded.slot(n + 1, START + 60 * n, PricedSwap(A, 0, 0, -1, 0, True, 1, 1.0 + n, 1.0))  # noqa: FBT003
    await traded.finalize(190)
    newest = await traded.series.candles(A, AskedCandles(Timeframe.M1, UnixS(1 << 33), 150))
    assert newest is not None

    for minute, rows_max in [(188, 60), (188, 148), (188, 149), (150, 1), (150, 111), (30, 1)]:
        asked = AskedCandles(Timeframe.M1, UnixS(START + 60 * minute), rows_max)
        found = narrowed(newest, asked)
        is_there = 189 - minute + rows_max <= 150  # all of them are among the newest 150
        assert found == (await traded.series.candles(A, asked) if is_there else None)


async def test_older_newer_and_waypoints_count_the_folded_candles(traded: Traded) -> None:
    swaps = [PricedSwap(A, 0, 0, -1, 0, True, 1, 1.0 + n, 1.0) for n in range(200)]  # noqa: FBT003
    for n, swap in enumerate(swaps):
        await traded.slot(n + 1, START + 60 * n, swap)
    await traded.finalize(190)

    kept = await traded.series.candles(A, AskedCandles(Timeframe.M1, UnixS(START + 60 * 149), 100))

    assert kept is not None
    assert [row.open for row in kept.rows] == [1.0 + n for n in range(50, 150)]
    assert (kept.has_older, kept.newer) == (True, 40)
    assert [(each.closed, each.bucket) for each in kept.waypoints] == [
        (n, (START + 60 * n) // 60 * 60) for n in (64, 128)
    ]
    assert [swap for _, swap in kept.tail] == swaps[190:]


def logged(index: int, *, mint: Mint = A, signature: str = "") -> PricedSwap:
    detail = SwapDetail(
        Signature(signature or f"signature-{index}"), "made", 2**64 - 1, None, USDC, 5, 6
    )
    return PricedSwap(mint, index, 0, -1, 0, True, 1, 1.5, 0.01, "pool", None, detail)  # noqa: FBT003


async def newest_first(traded: Traded, limit: int) -> list[LoggedSwap]:
    """Return all swaps of A, the newest first, read in pages of *limit*."""
    found: list[LoggedSwap] = []
    before = None
    while True:
        page = await traded.series.swaps(A, before, limit)
        assert page is not None
        found += page.swaps
        if not page.has_older:
            return found
        assert len(page.swaps) == limit
        before = page.swaps[-1].place


async def test_swaps_of_slots_that_are_not_orphaned_are_read_newest_first(traded: Traded) -> None:
    alive: list[tuple[int, list[PricedSwap]]] = []
    random = Random(1)
    for number in range(1, 120):
        if alive and random.random() < 0.2 and alive[-1][0] > 60:
            await traded.retract(alive.pop()[0])
        swaps = [logged(n, mint=random.choice([A, B])) for n in range(random.randrange(5))]
        alive.append((number, swaps))
        await traded.slot(number, START + number, *swaps)
        if number == 60:
            await traded.finalize(60)
    expected = [
        LoggedSwap(SwapPlace(Slot(number), swap.transaction_index, 0, -1, 0),
                   UnixS(START + number), swap)
        for number, swaps in reversed(alive)
        for swap in reversed(swaps)
        if swap.mint == A
    ]  # fmt: skip

    for limit in (1, 7, 500):
        assert await newest_first(traded, limit) == expected
    page = await traded.series.swaps(A, None, 3)
    assert page is not None
    assert (page.final, page.tip.slot) == (60, 119)
    assert await traded.series.swaps(UNTRACKED, None, 3) is None


async def test_a_signature_is_read_as_it_was_written(traded: Traded) -> None:
    real = (
        "5VERv8NMvzbJMEkV8xnrLkEaWRtSz9CosKDYjCJjBRnbJLgp8uirBgmQpjKhoR4tjF3ZpRzrFmBV6UjKdiSZkQUW"
    )
    await traded.slot(1, START, logged(0, signature=real), logged(1, signature="none"))

    page = await traded.series.swaps(A, None, 3)

    assert page is not None
    assert [one.swap.detail.signature for one in page.swaps if one.swap.detail] == ["none", real]


async def test_swaps_that_were_logged_without_their_detail_are_left_out(traded: Traded) -> None:
    await traded.slot(1, START, PricedSwap(A, 0, 0, -1, 0, True, 1, 1.0, 0.01, "pool"))  # noqa: FBT003
    await traded.slot(2, START + 1, logged(0))

    page = await traded.series.swaps(A, None, 3)

    assert page is not None
    assert [one.place.slot for one in page.swaps] == [2]


def pooled(index: int, random: Random) -> PricedSwap:
    """Return a random swap of the mint A in one of 40 pools, some of which are more likely."""
    usd = random.choice([None, random.uniform(1, 2)])
    pool = f"pool{min(random.randrange(40), random.randrange(40))}"
    detail = SwapDetail(Signature(f"{index}"), f"of {pool}", 1, 0, USDC, 1, 6)
    volume = random.randrange(1, 10**9)
    is_buy = random.random() < 0.5
    sol = None if usd is None else usd / 100
    return PricedSwap(A, index, 0, -1, 0, is_buy, volume, usd, sol, pool, None, detail)


async def test_pools_are_booked_from_folded_slots_that_are_not_orphaned(traded: Traded) -> None:
    """The pool book has the two newest days of at most 32 pools, however slots were batched."""
    random = Random(5)
    alive: list[tuple[int, int, list[PricedSwap]]] = []
    final = 0
    time: int = START
    for number in range(1, 160):
        if alive and random.random() < 0.2 and alive[-1][0] > final:
            _, time, _ = alive.pop()
            await traded.retract(number - 1)
        time += random.choice((0, 40, 3_000))
        swaps = [pooled(n, random) for n in range(random.randrange(4))]
        alive.append((number, time, swaps))
        await traded.slot(number, time, *swaps)
        if random.random() < 0.1:
            final = number
            await traded.finalize(final)
    await traded.finalize(159)

    kept = await traded.series.pools(A)

    assert kept is not None
    assert kept.time == time
    trades = trades_in_book(alive)
    assert {swap.pool for _, _, swaps in alive for swap in swaps} > trades.keys()
    assert list(kept.booked) == booked_pools(trades)
    assert list(kept.rows) == pool_rows(trades, time - time % 300 - 2 * 86_400)
    newer = await traded.series.pools(A, 3_600)
    assert newer is not None
    assert list(newer.rows) == [row for row in kept.rows if row.bucket > time - time % 300 - 3_600]
    assert await traded.series.pools(UNTRACKED) is None


def uncounted(index: int, pool: str) -> PricedSwap:
    """Return a swap in *pool* that is rejected: it sets no price, and its volume does not count."""
    detail = SwapDetail(Signature(f"{index}"), "of a stranger", 1, 0, USDC, 1, 6)
    return PricedSwap(A, index, 0, -1, 0, True, 0, None, None, pool, (1.0, 0.01), detail)  # noqa: FBT003


@pytest.mark.parametrize("traded", MARKET_ENGINES, indirect=True)
async def test_old_candles_of_pools_are_deleted_even_if_their_swaps_do_not_count(
    traded: Traded,
) -> None:
    pace_s = 43_200
    for number in range(9):
        await traded.slot(number + 1, START + number * pace_s, uncounted(0, "pool"))
        await traded.finalize(number + 1)

    kept = await traded.series.pools(A, 10 * POOL_CANDLES_S)

    assert kept is not None
    newest = START + 8 * pace_s - START % 300
    assert [row.bucket for row in kept.rows] == [newest - n * pace_s for n in (5, 4, 3, 2, 1, 0)]


@pytest.mark.parametrize("traded", MARKET_ENGINES, indirect=True)
async def test_a_candle_of_a_pool_continues_the_row_of_an_earlier_version(
    traded: Traded, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The earlier version stored a candle with each batch, before the span of the candle ended."""
    first = START - START % 300
    engine = request.node.callspec.params["traded"]
    prices = [2.0, 5.0, 1.0]
    for number, usd in enumerate(prices, 1):
        swap = replace(uncounted(0, "pool"), offered=(usd, usd / 100), volume=number)
        await traded.slot(number, first + 100 + number, swap)
        await traded.finalize(number)
    key = pool_book.key_of("pool")
    execute_in(
        engine,
        tmp_path,
        f"INSERT INTO pool_candle SELECT id, {first}, {key}, 3, 4, 0.5, 0.6, 10, 20, 7"
        f" FROM mint WHERE address = '{A}'",
    )

    kept = await traded.series.pools(A)

    assert kept is not None
    assert [tuple(row) for row in kept.rows] == [
        (first, key, 3.0, 5.0, 0.5, 1.0, 10 + 6, 20, 7 + 3)
    ]
    await traded.slot(9, first + 300, uncounted(0, "pool"))
    await traded.finalize(9)
    later = await traded.series.pools(A)
    assert later is not None
    assert later.rows[0] == kept.rows[0]
    assert [row.bucket for row in later.rows] == [first, first + 300]
    assert execute_in(engine, tmp_path, "SELECT bucket, swaps FROM pool_candle") == [(first, 10)]


@pytest.mark.parametrize("traded", MARKET_ENGINES, indirect=True)
async def test_pools_that_share_a_number_share_their_candles(
    traded: Traded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of a pool has 63 bits of its address, and anyone can find two equal ones."""
    monkeypatch.setattr(pool_book, "KEY_BYTES", 1)
    pools = [f"of few numbers {n}" for n in range(31)]
    assert len({pool_book.key_of(pool) for pool in pools}) < len(pools)
    for number in range(4):
        swaps = [uncounted(n, pool) for n, pool in enumerate(pools)]
        await traded.slot(number + 1, START + number, *swaps)
        await traded.finalize(number + 1)

    kept = await traded.series.pools(A)

    assert kept is not None
    assert {one.pool for one in kept.booked} == set(pools)
    assert sum(row.swaps for row in kept.rows) == 4 * len(pools)


def signed(index: int, signer: str, flow: int, *, is_buy: bool, mint: Mint = A) -> PricedSwap:
    evidence = Evidence(None, flow, signer)
    detail = SwapDetail(Signature(f"{index}"), "made", 1, 0, USDC, 1, 6)
    return PricedSwap(
        mint, index, 0, -1, 0, is_buy=is_buy, volume=0, price_usd=None, price_sol=None,
        pool="pool", detail=detail, evidence=evidence,
    )  # fmt: skip


def crowd_in(
    alive: Sequence[tuple[int, list[PricedSwap]]], now: int, span_s: int
) -> tuple[object, ...]:
    """Return the numbers of A's buyers, sellers, traders and swaps, their volume and top shares.

    Swaps of *alive* count if they are in the *span_s* seconds up to *now*, in whole spans of 300 s.
    """
    flows: Counter[str] = Counter()
    sides: set[tuple[str, bool]] = set()
    count = 0
    for time, swaps in alive:
        for swap in swaps:
            if time // 300 > now // 300 - span_s // 300 and swap.mint == A and swap.evidence:
                count += 1
                flows[swap.evidence.signer] += swap.evidence.flow
                sides.add((swap.evidence.signer, swap.is_buy))
    total = sum(flows.values())
    top = [flow for _, flow in flows.most_common(10)]
    buyers = sum(is_buy for _, is_buy in sides)
    shares = (top[0] / total, sum(top) / total) if total else (None, None)
    return buyers, len(sides) - buyers, len(flows), count, total, *shares


@pytest.mark.parametrize("traded", MARKET_ENGINES, indirect=True)
@pytest.mark.parametrize("first_usd", [1.0, None])
async def test_the_log_has_all_swaps_of_a_mint_that_first_trades_after_the_oldest_kept_slot(
    traded: Traded, first_usd: float | None
) -> None:
    assert isinstance(traded, TradedStore)
    await traded.slot(1, START, signed(0, "early", 10, is_buy=True, mint=B))
    late = START + DEFAULT_RETENTION.swaps_s + 60
    await traded.slot(2, late, signed(0, "early", 10, is_buy=True, mint=B))
    first = signed(0, "buyer", 10**6, is_buy=True)
    first = replace(first, volume=10**6, price_usd=first_usd, price_sol=first_usd)
    await traded.slot(3, late + 60, first)
    second = signed(0, "buyer", 10**6, is_buy=True)
    await traded.slot(4, late + 120, replace(second, price_usd=2.0, price_sol=0.02))
    await traded.finalize(4)
    await traded.trim()

    for mint, is_whole in ((A, True), (B, False)):
        logged = await traded.series.swaps(mint, None, 5)
        kept = await traded.series.kept_swaps(mint, UnixS(late + 200), 60)
        assert logged is not None
        assert kept is not None
        assert (logged.is_whole, kept.is_whole) == (is_whole, is_whole), mint


@pytest.mark.parametrize("pace_s", [7, 90, 2_500])
async def test_crowds_count_all_swaps_that_are_not_orphaned_folded_or_not(
    traded: Traded, pace_s: int
) -> None:
    random = Random(pace_s)
    alive: list[tuple[int, list[PricedSwap]]] = []
    final = 0
    time: int = START
    for number in range(1, 241):
        while alive and len(alive) > final and random.random() < 0.15:
            await traded.retract(len(alive))
            alive.pop()
        time = (alive[-1][0] if alive else START) + random.choice((0, 1, 3)) * pace_s
        swaps = [
            signed(
                index,
                f"who{min(random.randrange(40), random.randrange(40))}",
                random.choice((0, 10**6, random.randrange(10**10))),
                is_buy=random.random() < 0.5,
                mint=random.choice((A, A, B)),
            )
            for index in range(random.randrange(5))
        ]
        alive.append((time, swaps))
        await traded.slot(len(alive), time, *swaps)
        until = len(alive) - random.randrange(3)
        if until > final and random.random() < 0.15:
            final = until
            await traded.finalize(final)
        if number % 12:
            continue
        kept = await traded.series.swaps(A, None, 5, with_crowds=True)
        assert kept is not None
        assert replace(kept, crowds=None) == await traded.series.swaps(A, None, 5)
        for span_s in (3_600, 86_400):
            crowd = span_crowd(kept, span_s)
            assert crowd is not None
            assert tuple(crowd.crowd) == crowd_in(alive, time, span_s)
    assert await traded.series.swaps(UNTRACKED, None, 5, with_crowds=True) is None


@pytest.mark.parametrize("traded", MARKET_ENGINES, indirect=True)
async def test_crowds_are_deleted_after_a_day_and_with_their_mint(
    traded: Traded, tmp_path: Path
) -> None:
    assert isinstance(traded, TradedStore)
    engine = "sqlite" if (tmp_path / MARKET_FILE).exists() else "postgresql"
    pace_s = 21_600
    for number in range(9):
        time = START + number * pace_s
        await traded.slot(number + 1, time, signed(0, f"{number}", 10, is_buy=True))
        await traded.finalize(number + 1)

    stored = execute_in(engine, tmp_path, "SELECT bucket, swaps FROM crowd ORDER BY bucket")

    closed = START + 7 * pace_s - START % 300
    assert stored == [(closed - n * pace_s, 1) for n in (4, 3, 2, 1, 0)]
    tracking = traded.market.tracking
    await tracking.remove(A)
    assert execute_in(engine, tmp_path, "SELECT count(*) FROM crowd") == [(0,)]
    await tracking.add(A)
    kept = await traded.series.swaps(A, None, 5, with_crowds=True)
    assert kept is not None
    assert span_crowd(kept, 86_400) is None
    await traded.slot(10, START + 8 * pace_s + 1, signed(0, "new", 10, is_buy=False))
    for _ in range(2):
        kept = await traded.series.swaps(A, None, 5, with_crowds=True)
        assert kept is not None
        found = span_crowd(kept, 86_400)
        assert found is not None
        assert (found.since, found.crowd.traders) == (START + 8 * pace_s + 1, 1)
        await traded.finalize(10)


@pytest.mark.parametrize("traded", MARKET_ENGINES, indirect=True)
async def test_sums_of_spans_begin_after_the_last_time_that_was_not_booked(
    traded: Traded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While an older version writes candles, it stores no sums of traders and pools."""
    minutes = range(40)
    standing, _ = stand(None, Offer("pool", "who", 1.0, 0.01, 10**7, 10**10, UnixS(START)))
    assert standing is not None
    for minute in minutes:
        swap = replace(
            signed(0, f"{minute}", 10**6, is_buy=True), price_usd=1.0, price_sol=0.01, volume=10**6
        )
        is_older = 12 <= minute <= 23
        time = START - START % 300 + 60 * minute
        with monkeypatch.context() as version:
            if is_older:
                version.setattr(CrowdBook, "apply", lambda *_: None)
                version.setattr(PoolBook, "apply", lambda *_: None)
            await traded.slot(minute + 1, time, swap, standings={A: standing})
            await traded.finalize(minute + 1)

    logged = await traded.series.swaps(A, None, 5, with_crowds=True)
    kept = await traded.series.pools(A, 86_400)

    assert logged is not None
    assert kept is not None
    assert kept.time is not None
    booked_again = UnixS(START - START % 300 + 60 * 25)
    crowd = span_crowd(logged, 3_600)
    assert crowd is not None
    assert (crowd.since, crowd.crowd.traders) == (booked_again, 15)
    (pool,) = pools_of(standing, (), kept.time, kept)
    assert pool.hour == pool.day == SpanFlow(15 * 10**6, 15 * 10**6, 15, booked_again)


async def test_a_mint_has_a_crowd_for_a_day(traded: Traded) -> None:
    async def has_crowd(mint: Mint) -> bool:
        kept = await traded.series.pools(mint, 0)
        assert kept is not None
        return kept.has_crowd

    await traded.slot(1, START, signed(0, "who", 10, is_buy=True))
    assert not await has_crowd(A)  # the swap is not folded
    await traded.finalize(1)
    for number, (after_s, has) in enumerate(((86_100, True), (86_400, False)), 2):
        await traded.slot(number, START - START % 300 + after_s)
        assert (await has_crowd(A), await has_crowd(B)) == (has, False)
