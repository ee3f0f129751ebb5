"""Indicators with parameters agree with TA-Lib, talipp or TradingView, for every candle."""

import csv
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np
import pytest
import talib
from numpy.testing import assert_allclose
from talipp.indicators import MACD, DonchianChannels, Ichimoku, KeltnerChannels, SuperTrend
from talipp.ohlcv import OHLCV

from mintscope.market.engine.given import Floats
from mintscope.market.indicators import INDICATORS, Bars, read

CLOSE: Final = 1e-9
KINDS: Final = ("wandering", "seldom moving", "rising", "jumping", "tiny")
PERIODS: Final = (2, 3, 14, 50)


@cache
def made(kind: str, count: int = 800, seed: int = 7) -> Bars:
    random, price, rows = Random(f"{kind}{seed}"), 1e-9 if kind == "tiny" else 100.0, []
    for _ in range(count):
        opened = price
        if kind != "seldom moving" or random.random() < 0.2:
            wide = 0.6 if kind == "jumping" else 0.05
            price *= 1 + random.uniform(-wide / 2, wide / 2)
            price *= 1.004 if kind == "rising" else 1.0
        high = max(opened, price) * (1 + random.choice([0.0, 0.01 * random.random()]))
        low = min(opened, price) * (1 - random.choice([0.0, 0.01 * random.random()]))
        rows.append((opened, high, low, price, float(random.randrange(1, 10**5))))
    opens, highs, lows, closes, volumes = np.array(rows).T
    times = np.arange(count, dtype=np.int64) * 60
    return Bars(times, opens, highs, lows, closes, volumes, is_whole=True)


SERIES: Final = {kind: made(kind) for kind in KINDS}
# Of `data/ohlcv`: shares and coins, a day to a minute wide, with gaps; the last is made of trades.
REAL: Final = (
    "candles/skender_default_spy_1d", "candles/skender_bitcoin_1d",
    "candles/lean_bitfinex_btcusd_1h", "candles/lean_coinbase_btceur_1m_20180404",
    "trades/freqtrade_xrp_eth",
)  # fmt: skip
TRADED_S: Final = 900


@cache
def recorded(path: Path) -> Bars:
    """Return the candles of a file, or candles of 15 minutes that are made of its trades."""
    with path.open() as file:
        lines = [[*map(float, line)] for line in candle_lines(csv.reader(file))]
    times, opens, highs, lows, closes, amounts = np.array(lines).T
    dollars = amounts * (highs + lows + closes) / 3
    return Bars(times.astype(np.int64), opens, highs, lows, closes, dollars, is_whole=True)


def candle_lines(lines: Iterator[list[str]]) -> Iterator[list[str]]:
    """Yield time, four prices and volume of each candle of a CSV file of candles or of trades."""
    head = next(lines)
    if head[0] == "t":
        yield from (line[:6] for line in lines)
        return
    for bucket, trades in groupby(lines, lambda line: int(line[0]) // 1000 // TRADED_S):
        of = list(trades)
        prices = [float(line[3]) for line in of]
        candle = (prices[0], max(prices), min(prices), prices[-1])
        amount = sum(float(line[4]) for line in of)
        yield [str(each) for each in (bucket * TRADED_S, *candle, amount)]


@pytest.fixture(params=(*KINDS, *REAL))
def bars(request: pytest.FixtureRequest) -> Bars:
    if request.param in SERIES:
        return SERIES[request.param]
    folder: Path = request.getfixturevalue("shared_data")
    return recorded(folder / f"ohlcv/{request.param}.csv")


@pytest.fixture(params=KINDS)
def made_bars(request: pytest.FixtureRequest) -> Bars:
    return SERIES[request.param]


def rows(values: Sequence[Any], *fields: str) -> Floats:
    """Return an array with a row of *fields* for each talipp result of *values*; NaN for None."""
    return np.array(
        [
            [np.nan if each is None or (v := getattr(each, f)) is None else v for f in fields]
            for each in values
        ]
    )


def ohlcv(bars: Bars) -> list[OHLCV]:
    columns = (bars.opens, bars.highs, bars.lows, bars.closes, bars.volumes)
    return [OHLCV(*row) for row in zip(*(each.tolist() for each in columns), strict=True)]


def near(found: Floats, expected: Floats, scale: float = 0.0) -> None:
    assert_allclose(found, expected, rtol=CLOSE, atol=CLOSE * scale)


@pytest.mark.parametrize("size", PERIODS)
def test_averages_agree_with_talib(bars: Bars, size: int) -> None:
    near(read(f"sma({size})").of(bars), talib.SMA(bars.closes, size))
    near(read(f"wma({size})").of(bars), talib.WMA(bars.closes, size))
    near(read(f"ema({size})").of(bars), talib.EMA(bars.closes, size))


@pytest.mark.parametrize(("fast", "slow", "signal"), [(12, 26, 9), (5, 35, 5), (3, 10, 16)])
def test_macd_agrees_with_talipp(bars: Bars, fast: int, slow: int, signal: int) -> None:
    expected = rows(
        list(MACD(fast, slow, signal, bars.closes.tolist())), "macd", "signal", "histogram"
    )
    expected[: slow + signal - 2] = np.nan
    near(read(f"macd({fast},{slow},{signal})").of(bars), expected, bars.closes.max())


@pytest.mark.parametrize("flat", [0.1, 1 / 3, 7e-9, 123.456])
def test_the_macd_of_a_flat_series_is_zero(flat: float) -> None:
    closes, times = np.full(300, flat), np.arange(300, dtype=np.int64) * 60
    bars = Bars(times, closes, closes, closes, closes, np.zeros(300), is_whole=True)
    assert read("macd").of(bars)[33:].tolist() == [[0.0, 0.0, 0.0]] * 267


@pytest.mark.parametrize("size", PERIODS)
def test_bands_and_channels_agree_with_talib_and_talipp(bars: Bars, size: int) -> None:
    scale = float(bars.closes.max())
    near(read(f"atr({size})").of(bars), talib.ATR(bars.highs, bars.lows, bars.closes, size))
    bands = talib.BBANDS(bars.closes, size, 2.5, 2.5)
    assert_allclose(
        read(f"bollinger({size},2.5)").of(bars),
        np.column_stack(bands),
        rtol=CLOSE,
        atol=scale * 1e-7,
    )
    channels = rows(list(DonchianChannels(size, ohlcv(bars))), "ub", "cb", "lb")
    near(read(f"donchian({size})").of(bars), channels)
    keltner = rows(list(KeltnerChannels(size, 10, 1.5, 1.5, ohlcv(bars))), "ub", "cb", "lb")
    near(read(f"keltner({size},1.5,10)").of(bars), keltner)


@pytest.mark.parametrize("size", PERIODS)
def test_oscillators_agree_with_talib(bars: Bars, size: int) -> None:
    expected = talib.RSI(bars.closes, size)
    moved = np.flatnonzero(np.diff(bars.closes))[0] + 1
    expected[size : max(size, moved)] = 50.0  # TA-Lib has 0 for a price that has never moved
    near(read(f"rsi({size})").of(bars), expected, 100)
    candles = (bars.highs, bars.lows, bars.closes)
    near(read(f"cci({size})").of(bars), talib.CCI(*candles, size), 1e3)
    near(read(f"williamsR({size})").of(bars), talib.WILLR(*candles, size), 100)
    k = talib.SMA(talib.STOCHF(*candles, size, 1)[0], 3)
    d = talib.SMA(k, 4)
    k = np.where(np.isnan(d), np.nan, k)
    near(read(f"stochastic({size},3,4)").of(bars), np.column_stack([k, d]), 100)


@pytest.mark.parametrize("size", PERIODS)
def test_the_directional_index_agrees_with_talib(bars: Bars, size: int) -> None:
    candles = (bars.highs, bars.lows, bars.closes)
    expected = [each(*candles, size) for each in (talib.ADX, talib.PLUS_DI, talib.MINUS_DI)]
    near(read(f"adx({size})").of(bars), np.column_stack(expected), 100)


@pytest.mark.parametrize(("step", "most"), [(0.02, 0.2), (0.05, 0.1), (0.3, 0.1)])
def test_the_parabolic_stop_agrees_with_talib(bars: Bars, step: float, most: float) -> None:
    near(read(f"psar({step},{most})").of(bars), talib.SAR(bars.highs, bars.lows, step, most))


@pytest.mark.parametrize("size", PERIODS)
def test_indicators_of_volume_agree_with_talib(bars: Bars, size: int) -> None:
    near(read("obv").of(bars), talib.OBV(bars.closes, bars.volumes))
    candles = (bars.highs, bars.lows, bars.closes)
    tokens = bars.volumes / bars.typical
    expected = talib.MFI(*candles, tokens, size)
    found = read(f"mfi({size})").of(bars)
    is_known = ~np.isnan(found)  # TA-Lib has 0 where nothing moved
    near(found[is_known], expected[is_known], 100)
    assert (expected[size:][np.isnan(found[size:])] == 0).all()


def pine_supertrend(bars: Bars, factor: float, size: int) -> Floats:
    """Return the SuperTrend by the definition in TradingView's reference of Pine, line by line."""
    ranges = [bars.highs[0] - bars.lows[0]]
    for n in range(1, len(bars.closes)):
        before = bars.closes[n - 1]
        ranges.append(
            max(
                bars.highs[n] - bars.lows[n],
                abs(bars.highs[n] - before),
                abs(bars.lows[n] - before),
            )
        )
    atr: list[float | None] = []
    for n in range(len(ranges)):
        if n < size - 1:
            atr.append(None)
        elif n == size - 1:
            atr.append(sum(ranges[:size]) / size)
        else:
            last = atr[-1]
            assert last is not None
            atr.append(ranges[n] / size + (1 - 1 / size) * last)
    found: list[tuple[float, float]] = []
    previous: tuple[float, float, float | None] = (0.0, 0.0, None)
    for n, mean in enumerate(atr):
        if mean is None:
            found.append((np.nan, np.nan))
            continue
        middle = (bars.highs[n] + bars.lows[n]) / 2
        upper = middle + factor * mean
        lower = middle - factor * mean
        last_upper, last_lower, last = previous
        closed = bars.closes[n - 1]
        lower = lower if lower > last_lower or closed < last_lower else last_lower
        upper = upper if upper < last_upper or closed > last_upper else last_upper
        if n == 0 or atr[n - 1] is None:
            direction = 1
        elif last == last_upper:
            direction = -1 if bars.closes[n] > upper else 1
        else:
            direction = 1 if bars.closes[n] < lower else -1
        value = lower if direction == -1 else upper
        previous = upper, lower, value
        found.append((value, -direction))
    return np.array(found)


@pytest.mark.parametrize(("size", "factor"), [(10, 3.0), (2, 1.0), (50, 2.5)])
def test_supertrend_agrees_with_tradingview_and_talipp(
    bars: Bars, size: int, factor: float
) -> None:
    found = read(f"supertrend({size},{factor})").of(bars)
    near(found, pine_supertrend(bars, factor, size))
    theirs = list(SuperTrend(size, factor, ohlcv(bars)))
    begun = 2 * size + 100  # talipp's begins with bands of 0
    near(found[begun:, 0], rows(theirs[begun:], "value")[:, 0])


@pytest.mark.parametrize(("conversion", "base", "span"), [(9, 26, 52), (2, 3, 5), (20, 60, 120)])
def test_ichimoku_agrees_with_talipp(bars: Bars, conversion: int, base: int, span: int) -> None:
    found = read(f"ichimoku({conversion},{base},{span})").of(bars)
    # The slow line of talipp looks back a candle farther than its fast line.
    theirs = list(Ichimoku(base, conversion, 1, span, base - 1, ohlcv(bars)))
    names = ("conversion_line", "base_line", "cloud_leading_fast_line")
    near(found[:, :3], rows(theirs, *names))
    theirs = list(Ichimoku(base, conversion, 1, span, base - 2, ohlcv(bars)))
    near(found[:, 3:], rows(theirs, "cloud_leading_slow_line"))


def test_the_cloud_is_as_far_ahead_as_its_description_says() -> None:
    """As on TradingView, the current candle counts as the first of the `base` candles."""
    found = read("ichimoku(9,26,52)").of(SERIES["jumping"])
    ahead = 26 - 1
    near(found[ahead:, 2], found[:-ahead, :2].mean(axis=1))
    description = INDICATORS["ichimoku"].description
    assert "drawn `base` - 1 candles ahead" in description
    assert "drawn `base` - 1 candles back" in description


def test_the_anchored_price_agrees_with_its_definition(bars: Bars) -> None:
    """No library has this price, so each value is compared with exact sums of the definition."""
    found = read(f"avwap({bars.times[100]})").of(bars)
    assert np.isnan(found[:100]).all()
    paid = tokens = Fraction(0)
    for n in range(100, len(bars.times)):
        paid += Fraction(bars.volumes[n])
        tokens += Fraction(bars.volumes[n]) / Fraction(bars.typical[n])
        if tokens:
            assert found[n] == pytest.approx(float(paid / tokens), rel=CLOSE)
        else:
            assert np.isnan(found[n])


def without_its_beginning(bars: Bars, cut: int) -> Bars:
    return Bars(
        bars.times[cut:],
        bars.opens[cut:],
        bars.highs[cut:],
        bars.lows[cut:],
        bars.closes[cut:],
        bars.volumes[cut:],
        is_whole=False,
    )


@pytest.mark.parametrize("name", INDICATORS)
def test_values_of_a_series_without_its_beginning_are_exact_or_none(
    made_bars: Bars, name: str
) -> None:
    bars = made_bars
    asked = read("obv(24000)" if name == "obv" else "avwap(24000)" if name == "avwap" else name)
    long = made("wandering", 4_000) if asked.reach > 300 else bars
    complete = asked.of(long)
    for cut in (1, 37, 250):
        part = without_its_beginning(long, cut)
        found, whole = asked.of(part), complete[cut:]
        known = ~np.isnan(found)
        assert known.any()
        near(found[known], whole[known], float(long.closes.max()))
        assert np.isnan(found[: asked.reach]).all()


@pytest.mark.parametrize("name", INDICATORS)
def test_the_newest_rows_read_alone_agree_with_the_whole_series(made_bars: Bars, name: str) -> None:
    bars = made_bars
    asked = read(name)
    whole = asked.of(bars)
    found = asked.newest(bars, 40)

    assert found.shape == whole.shape
    near(found[-40:], whole[-40:], float(bars.closes.max()))
