"""The payment token has a price only if two averages of its market agree."""

import asyncio
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mintscope.kit.clock import ManualClock
from mintscope.kit.errors import PriceUnavailable
from mintscope.kit.primitives import UnixMs, UnixS
from mintscope.payments.price_cache import PinnedPrice, PriceCache
from mintscope.payments.pricing import (
    Doubt,
    Minute,
    Quote,
    TokenMarket,
    is_jump,
    price_of_feed,
    price_of_market,
    twap,
    vwap,
)

NOW_S: Final = 1_700_000_040
NOW: Final = UnixMs(NOW_S * 1000)


def ago(minutes: int, close: float, volume: int = 1_000_000) -> Minute:
    return Minute(start=UnixS(NOW_S - 60 * minutes), close=close, volume=volume)


def market(*minutes: Minute, **changes: Any) -> TokenMarket:
    healthy = TokenMarket(minutes=minutes, base_usd=1_000, quote_usd=1_000, lag_s=60)
    return replace(healthy, **changes)


def quote(usd: str, at: int = NOW) -> Quote:
    return Quote(usd=Decimal(usd), observed_at=UnixMs(at))


STEADY: Final = tuple(ago(minutes, 2.0) for minutes in range(40, 0, -1))


def test_a_steady_market_has_its_price() -> None:
    assert price_of_market(market(*STEADY), NOW) == quote("2.0")


def test_the_price_is_the_lower_of_the_two_averages() -> None:
    lifted = [*STEADY[:-5], *(ago(minutes, 2.06) for minutes in range(5, 0, -1))]
    lowered = [*STEADY[:-5], *(ago(minutes, 1.94) for minutes in range(5, 0, -1))]

    above, below = (price_of_market(market(*each), NOW) for each in (lifted, lowered))
    assert isinstance(above, Quote)
    assert isinstance(below, Quote)
    assert Decimal("2.00") < above.usd < Decimal("2.02")
    assert abs(below.usd - Decimal("1.94")) < Decimal("1e-9")


def test_vwap_is_usd_over_tokens() -> None:
    """2 USD at 1 and 6 USD at 3 bought 2 + 2 tokens: 8 USD for 4."""
    minutes = [ago(9, 50.0), ago(4, 1.0, 2_000_000), ago(1, 3.0, 6_000_000)]

    assert vwap(minutes, UnixS(NOW_S)) == 2.0
    assert vwap(minutes[:1], UnixS(NOW_S)) == 50.0


def test_twap_holds_each_price_until_the_next_trade() -> None:
    """25 minutes at 1, the price of an old trade, then 5 minutes at 7: 2 on average."""
    assert twap([ago(600, 9.0), ago(500, 1.0), ago(5, 7.0)], UnixS(NOW_S)) == pytest.approx(2.0)
    assert twap([ago(10, 1.0), ago(5, 3.0)], UnixS(NOW_S)) == pytest.approx(2.0)
    assert twap([ago(0, 3.0)], UnixS(NOW_S)) == 3.0


@pytest.mark.parametrize("factor", [100.0, 3.0, 0.3])
@pytest.mark.parametrize("is_hidden", [False, True])
def test_a_price_is_doubted_after_wash_trades_in_a_pool(factor: float, is_hidden: bool) -> None:  # noqa: FBT001
    """A trader trades with itself for an hour; *is_hidden*: the last trade is an honest one."""
    traded = [ago(minutes, 2.0 * factor, 10**9) for minutes in range(60, 1, -1)]
    last = ago(1, 2.0 if is_hidden else 2.0 * factor, 10_000)
    pools = {"base_usd": 5_000 * last.close, "quote_usd": 10_000.0}  # 5,000 tokens, 2 USD each

    assert isinstance(price_of_market(market(*traded, last, **pools), NOW), Doubt)


@pytest.mark.parametrize(
    ("broken", "doubt"),
    [
        (market(*STEADY, lag_s=60.1), Doubt.LAGGING),
        (market(*STEADY, lag_s=float("nan")), Doubt.LAGGING),
        (market(), Doubt.NO_TRADE),
        (market(ago(24 * 60 + 1, 2.0)), Doubt.NO_TRADE),
        (market(*STEADY, base_usd=999.9), Doubt.SHALLOW),
        (market(*STEADY, quote_usd=999.9), Doubt.SHALLOW),
        (market(*STEADY, quote_usd=float("nan")), Doubt.SHALLOW),
        (market(*STEADY, base_usd=2_000.1), Doubt.LOPSIDED),
        (market(*STEADY, quote_usd=2_000.1), Doubt.LOPSIDED),
        (market(*STEADY, quote_usd=float("inf")), Doubt.LOPSIDED),
        (market(*STEADY[:-5], ago(1, 2.2)), Doubt.DISAGREEMENT),
        (market(*STEADY[:-5], ago(1, 1.8)), Doubt.DISAGREEMENT),
        (market(ago(1, float("nan"))), Doubt.DISAGREEMENT),
        (market(ago(1, float("inf"))), Doubt.DISAGREEMENT),
    ],
)
def test_an_unreliable_market_has_a_doubt_instead_of_a_price(
    broken: TokenMarket, doubt: Doubt
) -> None:
    assert price_of_market(broken, NOW) is doubt


def test_a_trade_of_24_hours_ago_still_sets_a_price() -> None:
    assert price_of_market(market(ago(24 * 60, 2.0)), NOW) == quote("2.0")


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    st.lists(st.floats(0.01, 100), min_size=30, max_size=30),
    st.floats(0.91, 1.0, exclude_max=True).map(lambda share: share * (1 - 1e-6)),
    st.floats(1.0, 1e6).map(lambda share: share * (1 + 1e-6)),
)
def test_a_manipulated_last_minute_raises_the_price_by_at_most_4_percent(
    closes: list[float], within: float, beyond: float
) -> None:
    """A price is accepted only if its short average is at most 5 % above that of 30 minutes.

    The last minute has so much volume that its close is the short average.  `highest` is the close
    at the limit of 5 %; it contributes to the long average, too.
    """
    before = [ago(31 - place, close) for place, close in enumerate(closes)]
    of_29_minutes = sum(closes[1:])
    honest = (of_29_minutes + closes[-1]) / 30  # its last price would have held for two minutes
    highest = 1.05 * of_29_minutes / (30 - 1.05)

    accepted, refused = (
        price_of_market(market(*before, ago(1, share * highest, 10**18)), NOW)
        for share in (within, beyond)
    )
    assert isinstance(accepted, Quote)
    assert float(accepted.usd) <= 1.04 * honest
    assert refused is Doubt.DISAGREEMENT


@pytest.mark.parametrize(
    ("usd", "after_s", "is_one"),
    [
        ("1.30", 60, False),
        ("1.31", 60, True),
        ("0.77", 60, False),
        ("0.76", 60, True),
        ("1.31", 30, True),
        ("1.69", 120, False),
        ("1.70", 120, True),
        ("0.1", 3_600, False),
    ],
)
def test_a_change_of_more_than_30_percent_a_minute_is_a_jump(
    usd: str, after_s: int, *, is_one: bool
) -> None:
    assert is_jump(quote(usd, NOW + after_s * 1000), quote("1")) is is_one


@pytest.mark.parametrize(
    ("usd", "age_ms", "found"),
    [
        ("2", 60_000, quote("2", NOW - 60_000)),
        ("2", 60_001, Doubt.STALE_FEED),
        ("2", -5_001, Doubt.STALE_FEED),
        ("NaN", 0, Doubt.NOT_A_PRICE),
        ("Infinity", 0, Doubt.NOT_A_PRICE),
        ("0", 0, Doubt.NOT_A_PRICE),
        ("-1", 0, Doubt.NOT_A_PRICE),
    ],
)
def test_a_stale_or_unusable_feed_price_is_a_doubt(
    usd: str, age_ms: int, found: Quote | Doubt
) -> None:
    assert price_of_feed(Decimal(usd), UnixMs(NOW - age_ms), now=NOW) == found


class ScriptedSource:
    def __init__(self, *answers: str | Doubt) -> None:
        self._answers = list(answers)

    async def read(self, now: UnixMs) -> Quote | Doubt:
        answer = self._answers.pop(0)
        return answer if isinstance(answer, Doubt) else quote(answer, now)


async def test_a_price_is_cached_for_one_minute() -> None:
    clock = ManualClock(NOW)
    price_cache = PriceCache(ScriptedSource("1", "1.1"), decimals=6, clock=clock)
    first = await price_cache.price_list()
    clock.advance(59_999)
    assert await price_cache.price_list() == first
    clock.advance(1)

    assert (await price_cache.price_list()).quote.usd == Decimal("1.1")


async def test_a_price_is_read_again_after_the_clock_steps_by_decades() -> None:
    clock = ManualClock(UnixMs(0))
    price_cache = PriceCache(ScriptedSource("1", "1.1"), decimals=6, clock=clock)
    await price_cache.price_list()
    clock.step(NOW)

    assert (await price_cache.price_list()).quote.usd == Decimal("1.1")


async def test_a_shared_price_is_read_again_when_its_lifetime_ends() -> None:
    clock, source = ManualClock(NOW), ScriptedSource("1", "1.1")

    class Shared:
        async def read(self, now: UnixMs) -> Quote | Doubt:
            found = await source.read(now)
            assert isinstance(found, Quote)
            return Quote(usd=found.usd, observed_at=found.observed_at, lasts_s=20.0)

    price_cache = PriceCache(Shared(), decimals=6, clock=clock)
    await price_cache.price_list()
    clock.advance(19_999)
    assert (await price_cache.price_list()).quote.usd == Decimal(1)
    clock.advance(1)
    assert (await price_cache.price_list()).quote.usd == Decimal("1.1")


class StuckSource:
    """A price source that answers its first reader; every later reader waits for ever."""

    def __init__(self) -> None:
        self.reads = 0

    async def read(self, now: UnixMs) -> Quote | Doubt:
        self.reads += 1
        if self.reads > 1:
            await asyncio.Event().wait()
        return quote("1", now)


async def test_the_last_price_is_used_for_less_than_15_seconds_after_its_minute() -> None:
    """While one reader waits for the next price, other readers get the last price for a while."""
    clock = ManualClock(NOW)
    price_cache = PriceCache(StuckSource(), decimals=6, clock=clock)
    first = await price_cache.price_list()
    clock.advance(60_000)
    stuck = asyncio.create_task(price_cache.price_list())
    await asyncio.sleep(0)  # so that *stuck* has begun to read the source
    assert await price_cache.price_list() == first
    clock.advance(4_999)
    assert await price_cache.price_list() == first
    clock.advance(10_000)
    assert price_cache.latest() == first
    clock.advance(1)
    assert price_cache.latest() is None
    stuck.cancel()


class SlowSource:
    """A price source whose readers wait until the test sets their answers."""

    def __init__(self) -> None:
        self.answers: list[asyncio.Future[Quote | Doubt]] = []

    async def read(self, now: UnixMs) -> Quote | Doubt:
        del now
        self.answers.append(asyncio.get_running_loop().create_future())
        return await self.answers[-1]


@pytest.mark.parametrize("late", [Doubt.NO_ANSWER, quote("0.9", NOW)])
async def test_a_late_reading_does_not_replace_a_newer_price(late: Quote | Doubt) -> None:
    clock, source = ManualClock(NOW), SlowSource()
    price_cache = PriceCache(source, decimals=6, clock=clock)
    first = asyncio.create_task(price_cache.price_list())
    await asyncio.sleep(0)
    clock.advance(5_000)
    second = asyncio.create_task(price_cache.price_list())
    await asyncio.sleep(0)
    source.answers[1].set_result(quote("1", clock.now()))
    newer = await second
    clock.advance(5_000)
    source.answers[0].set_result(late)

    assert await first == newer
    assert await price_cache.price_list() == newer
    assert price_cache.doubt is None
    clock.advance(55_000)  # the newer price is a minute old
    asyncio.get_running_loop().call_soon(lambda: source.answers[2].set_result(quote("1.1")))
    assert (await price_cache.price_list()).quote.usd == Decimal("1.1")


class BrokenSource:
    """A price source that raises an unexpected error while *is_broken* is set."""

    def __init__(self) -> None:
        self.is_broken = False

    async def read(self, now: UnixMs) -> Quote | Doubt:
        if self.is_broken:
            raise ZeroDivisionError("a bug")
        return quote("1", now)


async def test_a_price_is_unavailable_while_its_source_raises_an_error() -> None:
    clock, source = ManualClock(NOW), BrokenSource()
    price_cache = PriceCache(source, decimals=6, clock=clock)
    await price_cache.price_list()
    source.is_broken = True
    clock.advance(60_000)
    for _ in range(2):  # the first reader asks the source, the second does not
        with pytest.raises(PriceUnavailable):
            await price_cache.price_list()
    assert price_cache.doubt is Doubt.BROKEN
    source.is_broken = False
    clock.advance(5_000)

    assert (await price_cache.price_list()).quote.usd == 1


class WrongClock:
    """A price source that doubts the machine's clock unless `is_right` is true."""

    def __init__(self) -> None:
        self.is_right = True

    async def read(self, now: UnixMs) -> Quote | Doubt:
        return quote("1", now) if self.is_right else Doubt.CLOCK


@pytest.mark.parametrize("step_ms", [5_001, -5_001])
async def test_a_price_is_read_again_at_once_after_a_clock_step(step_ms: int) -> None:
    clock, source = ManualClock(NOW), WrongClock()
    price_cache = PriceCache(source, decimals=6, clock=clock)
    await price_cache.price_list()
    clock.step(step_ms)
    source.is_right = False
    with pytest.raises(PriceUnavailable, match="clock"):
        await price_cache.price_list()
    clock.step(-step_ms)
    source.is_right = True

    assert (await price_cache.price_list()).quote.usd == 1


async def test_a_clock_step_of_five_seconds_keeps_the_cached_price() -> None:
    clock = ManualClock(NOW)
    price_cache = PriceCache(ScriptedSource("1"), decimals=6, clock=clock)
    first = await price_cache.price_list()
    clock.step(5_000)

    assert await price_cache.price_list() == first


async def test_an_expired_price_is_not_used_while_its_source_doubts() -> None:
    clock = ManualClock(NOW)
    price_cache = PriceCache(ScriptedSource("1", Doubt.SHALLOW, "1"), decimals=6, clock=clock)
    await price_cache.price_list()
    clock.advance(60_000)
    with pytest.raises(PriceUnavailable):
        await price_cache.price_list()
    assert price_cache.doubt is Doubt.SHALLOW
    clock.advance(4_999)
    with pytest.raises(PriceUnavailable):
        await price_cache.price_list()
    clock.advance(1)
    assert (await price_cache.price_list()).quote.usd == 1
    assert price_cache.doubt is None


async def test_a_jump_makes_the_price_unavailable_for_one_minute() -> None:
    clock = ManualClock(NOW)
    price_cache = PriceCache(ScriptedSource("1", "1.5", "1.5"), decimals=6, clock=clock)
    await price_cache.price_list()
    clock.advance(60_000)
    with pytest.raises(PriceUnavailable):
        await price_cache.price_list()
    assert price_cache.doubt is Doubt.JUMP
    clock.advance(60_000)
    assert (await price_cache.price_list()).quote.usd == Decimal("1.5")


async def test_a_pinned_price_is_always_available() -> None:
    clock = ManualClock(NOW)
    price_cache = PriceCache(PinnedPrice(Decimal(1)), decimals=6, clock=clock)

    assert (await price_cache.price_list()).request == 2_500
