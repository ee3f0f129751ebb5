"""Backtests find what a slow loop over past candles finds, and use no data of the future."""

from collections.abc import Mapping, Sequence
from functools import cache
from math import isclose, log
from random import Random
from typing import Any, Final, Literal

import numpy as np
import pytest

from mintscope.api.series.backtest import BacktestQuery, checked_condition, findings_of
from mintscope.kit.primitives import Mint, Slot, UnixS
from mintscope.market.engine.fold import MintFold
from mintscope.market.engine.given import Candles
from mintscope.market.engine.kernels import ACC, SERVICE, close_candle
from mintscope.market.log import LogTip, PricedSwap
from mintscope.market.screening.backtest import (
    Backtested,
    BacktestQuestion,
    PastCandles,
    UntestableCondition,
    backtest,
    needed_timeframes,
)
from mintscope.market.screening.grammar import ALL_FIELDS, parse_condition
from mintscope.market.screening.open_candles import OpenCandles
from mintscope.market.series.pools import AskedCandles, KeptCandles, SeriesCandle, UnpricedVolume
from mintscope.market.series.series import FROM_THE_FIRST, Series, Start, narrowed, widened
from mintscope.market.series.series import WIDTHS as SERIES_WIDTHS
from mintscope.market.timeframe import BY_NAME, WIDTH_S, AnyFrame, AskedFrame, Timeframe
from mintscope.solana.blocks import WSOL
from support.oracles import definitions
from support.oracles.slow_screen import Tree, is_true, of_candles, text_of

BEGIN: Final = 1_760_000_400  # a full hour
NOW: Final = UnixS(BEGIN + 40_000)
WIDER: Final = "tf m15 allows fields of m15, m30, h1, h4, d1"
HORIZONS: Final = {"m5": 300, "h1": 3_600, "h4": 14_400, "d1": 86_400}
WIDTHS: Final = {"m5": 300, "m30": 1_800, "h1": 3_600, "h4": 14_400}
SPANS: Final = {"m5": 300, "h1": 3_600, "d1": 86_400}
AVERAGES: Final = ("ema9", "ema21", "rsi", "macd", "macd_signal", "macd_histogram", "candles")
OF_CANDLES: Final = (
    "atr",
    "bollinger_upper",
    "bollinger_lower",
    "swing_high",
    "swing_low",
    "fib500",
)
NAMES: Final = (
    "price", "price_sol", "change_m5", "change_h1", "change_d1", "volume_h1", "volume_d1",
    "swaps_d1", "pressure_h1", *(f"{name}_{tf}" for name in (*AVERAGES, *OF_CANDLES)
      for tf in ("m5", "m30", "h1", "h4")),
)  # fmt: skip
Values = Mapping[str, float | None]


@cache
def trades() -> tuple[definitions.Trade, ...]:
    """Return trades of eleven hours, with pauses, and some that set no price."""
    random, price, at, found = Random(3), 10.0, BEGIN, []
    while at < NOW:
        at += random.choice((20, 60, 200, 700))
        price *= random.uniform(0.97, 1.031)
        reported = None if random.random() < 0.1 else price
        sol = None if reported is None else reported / 100
        volume = random.randrange(10**9)
        found.append(definitions.Trade(at, reported, sol, volume, random.random() < 0.5))
    return tuple(found)


def past_of(known: Sequence[definitions.Trade], width: int) -> PastCandles:
    candles = [
        SeriesCandle(
            UnixS(c.start), c.open, c.high, c.low, c.close, c.buy, c.sell, c.swaps,
            c.open / 100, c.high / 100, c.low / 100, c.close / 100,
        )
        for c in definitions.candles(known, width)
    ]  # fmt: skip
    starts = {each.bucket for each in candles}
    rest: dict[int, list[int]] = {}
    for trade in known:
        bucket = trade.time - trade.time % width
        if bucket not in starts:
            flow = rest.setdefault(bucket, [0, 0])
            flow[0 if trade.is_buy else 1] += trade.volume
    unpriced = [UnpricedVolume(UnixS(at), *flow) for at, flow in sorted(rest.items())]
    series = Series(candles, has_older=False, closed=0, unpriced=unpriced)
    return PastCandles(series, Start(0, 0, np.zeros(ACC)))


def run_backtest(  # noqa: PLR0913 - one argument for each setting
    where: str,
    known: Sequence[definitions.Trade],
    *,
    fee: float = 0.003,
    since: int = 0,
    size: float = 0.0,
    has_open: bool = False,
) -> Backtested:
    past: dict[AnyFrame, PastCandles] = {
        BY_NAME[name]: past_of(known, width) for name, width in WIDTHS.items()
    }
    condition = parse_condition(where, ALL_FIELDS)
    asked = BacktestQuestion(condition, Timeframe.M5, UnixS(since), NOW, NOW, fee, size, has_open)
    return backtest(asked, past)


@cache
def looks(*, has_open: bool = False) -> list[tuple[int, float, Values]]:
    """Return the end, the close and all values at that end, for each closed m5 candle."""
    found: list[tuple[int, float, Values]] = []
    for candle in definitions.candles(trades(), 300):
        end = candle.start + 300
        if end <= NOW:
            found.append((end, candle.close, slow_values(end, candle.close, has_open=has_open)))
    return found


def slow_values(end: int, price: float, *, has_open: bool) -> dict[str, float | None]:
    known = [trade for trade in trades() if trade.time < end]
    own = definitions.candles(known, 300)
    values: dict[str, float | None] = {"price": price, "price_sol": price / 100}
    for name, span in SPANS.items():
        before = [candle.close for candle in own if candle.start + 300 <= end - span]
        values[f"change_{name}"] = price / before[-1] - 1 if before else None
        inside = [trade for trade in known if trade.time >= end - span]
        traded = sum(trade.volume for trade in inside)
        bought = sum(trade.volume for trade in inside if trade.is_buy)
        values[f"volume_{name}"] = traded / 1e6
        values[f"swaps_{name}"] = sum(trade.price is not None for trade in inside)
        values[f"pressure_{name}"] = bought / traded if traded else None
    if values["change_d1"] is None:  # of a younger token, the change is since the first price
        first = next(trade.price for trade in known if trade.price is not None)
        values["change_d1"] = price / first - 1
    for name, width in WIDTHS.items():
        candles = [
            c for c in definitions.candles(known, width) if has_open or c.start + width <= end
        ]
        of = definitions.timeframe(candles)
        macd = of["macd"] or {}
        values |= {f"{each}_{name}": of[each] for each in ("ema9", "ema21", "rsi")}
        values[f"macd_{name}"] = macd.get("line")
        values[f"macd_signal_{name}"] = macd.get("signal")
        values[f"macd_histogram_{name}"] = macd.get("histogram")
        values[f"candles_{name}"] = len(candles)
        values |= of_candles(candles, name)
    return values


def random_tree(random: Random, depth: int = 3) -> Tree:
    kind = random.choice(("and", "or", "not", "compare", "compare")) if depth else "compare"
    if kind in {"and", "or"}:
        return (kind, [random_tree(random, depth - 1) for _ in range(2)])
    if kind == "not":
        return (kind, random_tree(random, depth - 1))
    name = random.choice(NAMES)
    known = [value for _, _, values in looks() if (value := values[name]) is not None]
    right: Tree = ("number", abs(random.choice(known or [1.0])) * random.uniform(0.8, 1.2))
    if random.random() < 0.4:
        right = ("*", ("field", random.choice(NAMES)), right)
    return (random.choice(("<", "<=", ">", ">=", "!=")), ("field", name), right)


@pytest.mark.parametrize("has_open", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_firings_and_returns_agree_with_a_slow_loop(seed: int, *, has_open: bool) -> None:
    random = Random(seed)
    for _ in range(10):
        tree, fee = random_tree(random), random.choice((0.0, 0.003, 0.02))
        size = random.choice((0.0, 25.0, 4_000.0))
        found = run_backtest(text_of(tree), trades(), fee=fee, size=size, has_open=has_open)
        own = looks(has_open=has_open)
        truths = [is_true(tree, values) is True for _, _, values in own]
        pairs = zip([False, *truths], truths, strict=False)
        fired = [n for n, (before, now) in enumerate(pairs) if now and not before]
        assert [each.time for each in found.firings] == [looks()[n][0] for n in fired]
        assert (found.fired, found.looks) == (len(fired), len(looks()))
        for each, n in zip(found.firings, fired, strict=True):
            expect_what_followed(each, n, fee, size)
        for name in HORIZONS:
            of_all = [slow_return(n, name, fee, size) for n in range(len(looks()))]
            expect_summary(found.found[name], [of_all[n] for n in fired])
            expect_summary(found.baseline[name], of_all)


def slow_return(n: int, name: str, fee: float, size: float = 0.0) -> float | None:
    end, price, _ = looks()[n]
    if end + HORIZONS[name] > NOW:
        return None
    sold_at = max(at for at, _, _ in looks() if at <= end + HORIZONS[name])
    later = next(close for at, close, _ in looks() if at == sold_at)
    found = later / price * (1 - fee) * (1 - fee)
    for at in (end, sold_at) if size else ():
        depth = slow_depth(at)
        if depth is None:
            return None
        found /= 1 + size / depth
    return found - 1


@cache
def slow_depth(end: int) -> float | None:
    """Return the dollars on each side of a pool that moves like the 50 candles up to *end*.

    Returns None if these had no volume or no move.
    """
    candles = [c for c in definitions.candles(trades(), 300) if c.start + 300 <= end][-50:]
    flow = move = 0.0
    for candle in candles:
        inside = [t for t in trades() if candle.start <= t.time < candle.start + 300]
        flow += abs(sum(t.volume if t.is_buy else -t.volume for t in inside)) / 1e6
        move += abs(log(candle.close / candle.open))
    return 2 * flow / move if flow and move else None


def expect_what_followed(firing: Any, n: int, fee: float, size: float) -> None:
    end, price, _ = looks()[n]
    for name in HORIZONS:
        assert firing.returns[name] == pytest.approx(slow_return(n, name, fee, size), abs=1e-12)
    after = [
        c for c in definitions.candles(trades(), 300) if end <= c.start and c.start + 300 <= NOW
    ]
    best = max((c.high / price - 1 for c in after), default=None)
    worst = min((c.low / price - 1 for c in after), default=None)
    assert (firing.best, firing.worst) == (pytest.approx(best), pytest.approx(worst))


def expect_summary(found: Any, returns: Sequence[float | None]) -> None:
    known = [each for each in returns if each is not None]
    assert found.known == len(known)
    if known:
        assert isclose(found.hit_rate, sum(each > 0 for each in known) / len(known))
        assert isclose(found.mean, sum(known) / len(known), abs_tol=1e-12)
    else:
        assert (found.hit_rate, found.mean) == (None, None)


@pytest.mark.parametrize("has_open", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_later_trades_change_no_earlier_firing(seed: int, *, has_open: bool) -> None:
    random = Random(seed)
    known = trades()
    for where in (
        "crosses_below(rsi_m5, 45)", "crosses_above(price, ema9_h1)", "ema9_m5 > ema21_m5",
        "crosses_below(rsi_m30, 50, 3)", "price > swing_low_h4 * 1.05",
        text_of(random_tree(random)),
    ):  # fmt: skip
        cut = random.randrange(100, len(known))
        end = known[cut].time - known[cut].time % 300  # of the last candle without these trades
        other = [
            trade._replace(price=trade.price and trade.price * random.uniform(0.2, 5.0))
            for trade in known[cut:]
        ]
        firings, changed = (
            [each[:2] for each in run_backtest(where, of, has_open=has_open).firings]
            for of in (known, [*known[:cut], *other])
        )
        assert [each for each in firings if each[0] <= end] == [
            each for each in changed if each[0] <= end
        ]


def test_open_candles_of_a_cut_past_are_exact_or_unknown() -> None:
    """Candles begin in the sixth hour; averages are continued from the end of the fifth."""
    hours = past_of(trades(), 3_600).series
    narrow = past_of(trades(), 300).series.candles
    begins = np.array([each.bucket for each in narrow])
    cut = int(np.searchsorted(begins, hours.candles[5].bucket + 1_200))
    acc = np.zeros(ACC)
    for n, each in enumerate(hours.candles[:5]):
        close_candle(acc, n, each.close, SERVICE)
    late = hours._replace(candles=hours.candles[5:], closed=5)

    def opened(series: Series, first: int) -> OpenCandles:
        rows = narrow[first:]
        columns = ([getattr(each, name) for each in rows] for name in ("high", "low", "close"))
        prices = Candles(*map(np.array, columns))
        return OpenCandles.of(series, 3_600, begins[first:], prices, is_whole=not first)

    whole = opened(hours, 0)
    part = opened(late, cut)
    wanted = whole.averages(Start(0, 0, np.zeros(ACC)))[cut:]
    found = part.averages(Start(0, 5, acc))
    is_lost = begins[cut:] < hours.candles[6].bucket
    assert 0 < is_lost.sum() < 12
    assert np.isnan(found[is_lost]).all()
    assert found[~is_lost].tobytes() == wanted[~is_lost].tobytes()
    assert np.array_equal(part.count(), whole.count()[cut:])
    assert np.isnan(part.fibonacci()).all()  # of fewer than 100 candles
    assert np.isnan(part.atr()).all()


@pytest.mark.parametrize("has_open", [False, True])
def test_values_that_still_depend_on_dropped_candles_are_unknown(*, has_open: bool) -> None:
    """Averages of timeframes that are computed on request have no waypoint to continue from."""
    random, price, rows = Random(2), 10.0, []
    for n in range(4_800):
        price *= random.uniform(0.97, 1.031)
        prices = (price, price * 1.01, price * 0.99, price)
        rows.append(SeriesCandle(UnixS(BEGIN + 3_600 * n), *prices, 1, 1, 1, *prices))
    hours = Series(rows, has_older=False, closed=0)
    now = UnixS(BEGIN + 3_600 * 4_800)

    def looks_of(where: str, dropped: int) -> int:
        return tested(where, dropped).looks

    def firings(where: str, dropped: int) -> tuple[list[int], int]:
        found = tested(where, dropped)
        return [each.time for each in found.firings], int(found.first or 0)

    def tested(where: str, dropped: int) -> Backtested:
        known = hours._replace(candles=rows[dropped:], closed=dropped)
        past: dict[AnyFrame, PastCandles] = {
            Timeframe.H1: PastCandles(known, None),
            AskedFrame.H4: PastCandles(widened(known, SERIES_WIDTHS["h4"]), FROM_THE_FIRST),
        }
        condition = parse_condition(where, ALL_FIELDS)
        asked = BacktestQuestion(
            condition, Timeframe.H1, UnixS(0), now, now, 0.003, has_open=has_open
        )
        return backtest(asked, past)

    whole, _ = firings("ema9_h4 > ema21_h4", 0)
    part, first = firings("ema9_h4 > ema21_h4", 402)
    assert 330 < (first - BEGIN) / 14_400 - 402 / 4 < 340  # then EMA 21 no longer needs them
    assert part == [each for each in whole if each >= first]
    assert len(part) > 5
    assert firings("ema21_h4 > 0", 0)[0]
    assert not firings("ema21_h4 > 0", 4_800 - 4 * 320)[0]  # unknown with 320 candles
    assert firings("candles_h4 > 500", 0)[0]
    assert not firings("candles_h4 > 500", 402)[0]
    for where, needed in (("rsi_h4 > 0", 410), ("atr_h4 > 0", 515), ("swing_low_h4 > 0", 100)):
        for count in (needed, needed + 4, needed + 20):  # becoming known is no firing
            assert not firings(f"price < 0 or {where}", 4_800 - 4 * count)[0], (where, count)
        looks = [looks_of(f"price > 0 or {where}", 4_800 - 4 * (needed + n)) for n in range(10)]
        assert min(looks[:8]) > 4 * (needed - 20), (where, looks)  # with the price alone
        assert 0 < looks[8] < looks[9] < 9, (where, looks)
    too_few = 4_800 - 4 * 400
    for never in ("rsi_h4 > 50", "not rsi_h4 > 50", "price > 0 and candles_h4 > 1",
                  "rsi_h4 > 4 * price", "crosses_above(ema200_h4, 1)",
                  "not (price > 0 or rsi_h4 > 1)"):  # fmt: skip
        assert looks_of(never, 0) == 4_800
        assert looks_of(never, too_few) == 0, never
    for possible in ("price > 0 or rsi_h4 > 1", "not (price > 0 and rsi_h4 > 1)", "ema9_h4 > 1"):
        assert looks_of(possible, too_few) > 900, possible


@pytest.mark.parametrize("tf", ["m5", "m30", "h4", "d1"])
async def test_candles_from_a_time_are_all_read(tf: Literal["m5", "m30", "h4", "d1"]) -> None:
    width = SERIES_WIDTHS[tf]
    kept_s = WIDTH_S[width.kept]
    now = UnixS(BEGIN + 600 * width.seconds)
    fold = MintFold.from_state(None, None)
    rows = []
    for at in range(BEGIN, now, kept_s):
        swap = PricedSwap(Mint(WSOL), 0, 0, -1, 0, True, 10**6, 1.0, 0.01)  # noqa: FBT003
        fold.apply(UnixS(at), swap)
        rows.append(SeriesCandle(UnixS(at), *(1.0,) * 4, 1, 1, 1, *(1.0,) * 4))
    tip = LogTip(seq=1, slot=Slot(1), time=now, follows_files=False)
    whole = KeptCandles(
        tip=tip, state=fold.state(), in_sol=None, rows=rows, has_older=False, newer=0,
        waypoints=[], tail=[],
    )  # fmt: skip

    async def read(_: Mint, asked: AskedCandles) -> KeptCandles | None:
        return narrowed(whole, asked)

    last = now - now % width.seconds - 200 * width.seconds
    first = last - 20 * width.seconds
    query = BacktestQuery(where="price > 0", tf=tf, from_=first, to=last)
    found = await findings_of(read, now, Mint(WSOL), query, checked_condition(query))
    assert (found.found.first, found.found.last, found.found.looks) == (first, last, 21)


@pytest.mark.parametrize("dropped", [0, 3])
def test_the_change_of_a_day_is_since_the_first_price_of_a_younger_token(dropped: int) -> None:
    """If older candles were dropped, the first price is unknown."""
    random, rows = Random(4), []
    for n in range(100):
        opened, closed = random.uniform(5, 15), random.uniform(5, 15)
        prices = (opened, max(opened, closed), min(opened, closed), closed)
        rows.append(SeriesCandle(UnixS(BEGIN + 3_600 * n), *prices, 1, 1, 1, *prices))
    now = UnixS(BEGIN + 3_600 * 100)
    series = Series(rows[dropped:], has_older=False, closed=dropped)
    condition = parse_condition("change_d1 > 0", ALL_FIELDS)
    asked = BacktestQuestion(condition, Timeframe.H1, UnixS(0), now, now, 0.003)
    found = backtest(asked, {Timeframe.H1: PastCandles(series, None)})

    closes = [each.close for each in rows]
    before = [rows[0].open] * 24 + closes
    is_higher = [close > earlier for close, earlier in zip(closes, before, strict=False)]
    pairs = zip([False, *is_higher], is_higher, strict=False)
    rises = [BEGIN + 3_600 * n for n, (was, is_so) in enumerate(pairs, 1) if is_so and not was]
    assert found.first is not None
    assert sum(each < BEGIN + 24 * 3_600 for each in rises) > 3
    assert sum(each > BEGIN + 27 * 3_600 for each in rises) > 10
    assert [each.time for each in found.firings] == [each for each in rises if each >= found.first]
    assert (found.first - BEGIN > 24 * 3_600) is (dropped > 0)


def test_looks_begin_with_the_first_candle_after_since() -> None:
    whole = run_backtest("price > 0", trades())
    assert (whole.fired, whole.firings[0].time) == (1, whole.first)
    later = run_backtest("price > 0", trades(), since=BEGIN + 5_000)
    assert later.fired == 0
    assert later.first is not None
    assert BEGIN + 5_000 <= later.first < BEGIN + 7_000


@pytest.mark.parametrize(
    ("where", "problem"),
    [
        ("liquidity > 1", "liquidity has no stored past"),
        ("price > 1 and confidence = high", "confidence has no stored past"),
        ("not rsi_m1 > 3", f"rsi_m1: {WIDER}"),
        (
            "crosses_above(price, ema9_m5)",
            f"price: {WIDER}",
        ),
        ("candles_m1 > 3", f"candles_m1: {WIDER}"),
        ("rsi_s15 > 3", f"rsi_s15: {WIDER}"),
        ("change_m5 > 3", "change_m5: expected a tf no wider than its span; was m15"),
    ],
)
def test_fields_without_a_stored_past_or_of_a_narrower_timeframe_are_refused(
    where: str, problem: str
) -> None:
    with pytest.raises(UntestableCondition, match=problem):
        needed_timeframes(parse_condition(where, ALL_FIELDS), Timeframe.M15)
