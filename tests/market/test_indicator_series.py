"""Series of indicators agree with TA-Lib and talipp, wherever they begin."""

from random import Random
from typing import Any, Final

import numpy as np
import pytest
import talib
from numpy.testing import assert_allclose, assert_array_equal
from talipp.indicators import MACD, VWAP, StochRSI
from talipp.ohlcv import OHLCV

from mintscope.kit.primitives import UnixS
from mintscope.market.engine.frames import waypoint
from mintscope.market.engine.given import Floats
from mintscope.market.engine.kernels import ACC, SERVICE, close_candle
from mintscope.market.series.pools import SeriesCandle
from mintscope.market.series.series import NAMES, Series, Start, indicators_of, start_of

DAY_S: Final = 86_400
WIDTH_S: Final = 3_600
CLOSE: Final = 1e-9


def made(count: int, seed: int = 1) -> list[SeriesCandle]:
    """Return *count* candles of a random walk, with gaps between some of them."""
    random, price, at, candles = Random(seed), 100.0, 1_700_006_400, []
    for _ in range(count):
        at += WIDTH_S * random.choice([1, 1, 1, 4])
        opened = price
        price *= random.uniform(0.95, 1.05)
        high, low = max(opened, price) * random.uniform(1, 1.02), min(opened, price) * 0.99
        bought, sold = random.randrange(10**9), random.randrange(10**9)
        candles.append(
            SeriesCandle(UnixS(at), opened, high, low, price, bought, sold, 1, *[None] * 4)
        )
    return candles


def columns(candles: list[SeriesCandle]) -> tuple[Floats, Floats, Floats]:
    return (
        np.array([each.high for each in candles]),
        np.array([each.low for each in candles]),
        np.array([each.close for each in candles]),
    )


def whole(candles: list[SeriesCandle]) -> dict[str, Floats]:
    start = Start(0, 0, np.zeros(ACC))
    return indicators_of(Series(candles, has_older=False, closed=0), start, WIDTH_S, NAMES)


def nan_of(values: list[Any], *fields: str) -> Floats:
    """Return an array with a row of *fields* for each talipp result of *values*; NaN for None."""
    return np.array(
        [
            [np.nan if each is None or (v := getattr(each, f)) is None else v for f in fields]
            for each in values
        ]
    )


CANDLES: Final = made(700)
FOUND: Final = whole(CANDLES)
HIGHS, LOWS, CLOSES = columns(CANDLES)


@pytest.mark.parametrize("period", [9, 21, 50, 200])
def test_emas_agree_with_talib(period: int) -> None:
    assert_allclose(FOUND[f"ema{period}"], talib.EMA(CLOSES, period), rtol=CLOSE)


def test_rsi_and_atr_agree_with_talib() -> None:
    assert_allclose(FOUND["rsi"], talib.RSI(CLOSES, 14), rtol=CLOSE)
    assert_allclose(FOUND["atr"], talib.ATR(HIGHS, LOWS, CLOSES, 14), rtol=CLOSE)


def test_bollinger_bands_agree_with_talib() -> None:
    bands = talib.BBANDS(CLOSES, 20, 2, 2)
    assert_allclose(FOUND["bollinger"], np.column_stack(bands), rtol=CLOSE)


def test_macd_and_stochastic_rsi_agree_with_talipp() -> None:
    macd = nan_of(list(MACD(12, 26, 9, CLOSES.tolist())), "macd", "signal", "histogram")
    macd[:33] = np.nan  # an object has three numbers, or there is none
    assert_allclose(FOUND["macd"], macd, atol=CLOSE * CLOSES.max())
    stochastic = StochRSI(14, 14, 3, 3, CLOSES.tolist())
    assert_allclose(FOUND["stochRsi"], nan_of(list(stochastic), "k", "d"), atol=1e-7)


def test_vwap_agrees_with_talipp_restarted_each_day() -> None:
    expected, today, vwap = [], -1, VWAP()
    for each in CANDLES:
        if each.bucket // DAY_S != today:
            today, vwap = each.bucket // DAY_S, VWAP()
        typical = (each.high + each.low + each.close) / 3
        volume = (each.buy_volume + each.sell_volume) / typical
        vwap.add(OHLCV(each.open, each.high, each.low, each.close, volume))
        expected.append(vwap[-1])
    assert_allclose(FOUND["vwap"], expected, rtol=CLOSE)


def test_fibonacci_levels_are_of_the_newest_hundred_candles() -> None:
    for n in (0, 1, 98, 99, 100, 699):
        high, low = HIGHS[max(0, n - 99) : n + 1].max(), LOWS[max(0, n - 99) : n + 1].min()
        assert tuple(FOUND["fibonacci"][n, [0, 1, 4, 10]]) == (
            high, low, high - 0.5 * (high - low), low + 2.618 * (high - low),
        )  # fmt: skip


def acc_after(closed: int) -> Floats:
    acc = np.zeros(ACC)
    for n in range(closed):
        close_candle(acc, n, CLOSES[n], SERVICE)
    return acc


@pytest.mark.parametrize("dropped", [1, 64, 100, 300])
def test_a_series_from_a_waypoint_has_the_values_of_the_whole_series(dropped: int) -> None:
    at = dropped + 10
    kept = Series(CANDLES[dropped:], has_older=False, closed=dropped)
    stale = waypoint(CANDLES[at - 5].bucket, at - 4, acc_after(3))  # of a wrong count

    start = start_of(kept, [stale, waypoint(CANDLES[at].bucket, at, acc_after(at))])

    assert start is not None
    assert start.first == 10
    found = indicators_of(kept, start, WIDTH_S, NAMES)
    for name in ("ema9", "ema21", "ema50", "ema200", "rsi", "macd"):
        assert_array_equal(found[name], FOUND[name][at:])
    for name in ("fibonacci", "bollinger", "vwap", "stochRsi", "atr"):
        known = ~np.isnan(found[name])
        assert_allclose(found[name][known], FOUND[name][at:][known], rtol=CLOSE, atol=1e-7)
    assert np.isnan(found["fibonacci"][: 99 - 10]).all()
    assert not np.isnan(found["fibonacci"][99 - 10 :]).any()
    if len(kept.candles) > 600:
        assert np.isnan(found["atr"][:500]).all()
        assert not np.isnan(found["atr"][514 - 10 :]).any()


def test_a_cut_series_without_a_waypoint_has_no_start() -> None:
    assert start_of(Series(CANDLES[5:], has_older=False, closed=5), []) is None


def test_a_flat_series_has_an_rsi_of_50_and_no_range() -> None:
    flat = [
        SeriesCandle(UnixS(n * 60), 1.0, 1.0, 1.0, 1.0, 0, 0, 1, *[None] * 4) for n in range(40)
    ]
    found = whole(flat)
    assert found["stochRsi"][-1].tolist() == [50.0, 50.0]
    assert (found["rsi"][-1], found["atr"][-1], found["bollinger"][-1].tolist()) == (
        50.0,
        0.0,
        [1.0] * 3,
    )
    assert np.isnan(found["vwap"]).all()


@pytest.mark.parametrize("flat", [0.1, 1 / 3, 7e-9, 123.456])
@pytest.mark.parametrize("moves", [0, 3, 14, 60])
def test_the_stochastic_rsi_of_a_price_that_stands_still_is_50(flat: float, moves: int) -> None:
    """While the price stands still, Wilder's means shrink and only rounding changes their ratio."""
    closes = [flat * (1 + (n * 37 % 101) / 700) for n in range(moves)] + [flat] * 300
    candles = [
        SeriesCandle(UnixS(n * 60), c, c, c, c, 0, 0, 1, *[None] * 4) for n, c in enumerate(closes)
    ]
    found = whole(candles)
    settled = moves + 14 + 14 + 2 * 3
    assert found["stochRsi"][settled:].tolist() == [[50.0, 50.0]] * (len(closes) - settled)


@pytest.mark.parametrize("flat", [0.1, 1 / 3, 7e-9, 123.456, 2.2250738585072014e-290])
def test_the_macd_of_a_flat_series_is_zero(flat: float) -> None:
    candles = [
        SeriesCandle(UnixS(n * 60), flat, flat, flat, flat, 0, 0, 1, *[None] * 4)
        for n in range(300)
    ]
    assert whole(candles)["macd"][33:].tolist() == [[0.0, 0.0, 0.0]] * 267
