"""Indicators, candle by candle: ours as the report has them, and five more.

Averages go on from the newest start that is known: the first candle since tracking began, or a
waypoint.  So they are those of the live engine to the last bit, whatever was dropped before.

ATR        Wilder's mean of 14 true ranges, the first true range that of the second candle
Bollinger  mean of 20 closes, and 2 standard deviations (of the population) above and below it
VWAP       since the day began (UTC): volume in USD over volume in tokens; a candle's tokens are its
           volume in USD over (high + low + close) / 3
StochRSI   where the RSI stands between the least and the greatest of 14, 0 to 100: k is the mean of
           3, d that of 3 k; 50 if all 14 are the same to 1e-9 of their size: Wilder's means
           of a flat price keep shrinking, and their quotient differs by rounding alone
"""

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from mintscope.base.time import DAY_S
from mintscope.core.market.engine import kernels
from mintscope.core.market.engine.frame import WAYPOINT_EVERY
from mintscope.core.market.engine.kernels import SERVICE, SWING, Candles, Floats, Ints
from mintscope.core.market.indicators import AskedIndicator
from mintscope.core.market.indicators.bars import bars_of
from mintscope.core.market.log import Waypoint
from mintscope.core.market.series.candles import PageOfCandles, Series

ATR_CANDLES: Final = 14
BOLLINGER_CANDLES: Final = 20
BOLLINGER_WIDTH: Final = 2.0
STOCHASTIC_CANDLES: Final = 14
SMOOTHED: Final = 3
SAME: Final = 1e-9  # RSI that differ by less than this part of them are the same
# After so many candles a mean of Wilder's knows nothing of what it began with: 1e-16 of it is left.
FORGOTTEN: Final = 500
# After so many an EMA of 200 knows nothing of it either: (199 / 201) ** 3,000 is 9e-14.
FORGOTTEN_BY_ALL: Final = 3_000
RETRACEMENTS: Final = (0.236, 0.382, 0.5, 0.618, 0.764)
EXTENSIONS: Final = (1.272, 1.618, 2.0, 2.618)

AVERAGES: Final = ("ema9", "ema21", "ema50", "ema200", "rsi", "macd")
NAMES: Final = (*AVERAGES, "fibonacci", "atr", "bollinger", "vwap", "stochRsi")


class Start(NamedTuple):
    """Where averages go on: at candle *first* of a series, after *closed* others."""

    first: int
    closed: int
    acc: Floats


def lead(names: Collection[str], width_s: int) -> int:
    """Return how many candles before a page its values rest on, besides the averages."""
    leads = {
        "fibonacci": SWING,
        "atr": FORGOTTEN + ATR_CANDLES,
        "bollinger": BOLLINGER_CANDLES,
        "vwap": DAY_S // width_s,
        "stochRsi": SERVICE.rsi + STOCHASTIC_CANDLES + 2 * SMOOTHED,
    }
    return WAYPOINT_EVERY + max((leads.get(name, 0) for name in names), default=0)


def values_of(
    series: Series, start: Start, asked: Collection[AskedIndicator], count: int
) -> dict[str, Floats]:
    """Return the values of what is *asked*, by its text: a row a candle from *start* on.

    A row is a number, or one for each output of the indicator; NaN for null, and before the
    newest *count* rows.
    """
    bars = bars_of(series.candles, is_whole=series.closed == 0)
    return {each.text: each.newest(bars, count)[start.first :] for each in asked}


def start_of(series: Series, waypoints: Sequence[Waypoint]) -> Start | None:
    """Return the first place of *series* that averages can go on from; None: none is known."""
    if series.closed == 0:
        return Start(0, 0, np.zeros(kernels.ACC))
    places = {candle.bucket: index for index, candle in enumerate(series.candles)}
    for waypoint in waypoints:
        index = places.get(waypoint.bucket)
        if index is not None and series.closed + index == waypoint.closed:
            return Start(index, waypoint.closed, np.frombuffer(waypoint.acc, "<f8").copy())
    return None


def filled_start(page: PageOfCandles, series: Series) -> int | None:
    """Return the first candle of a filled *page* whose indicators are exact; None: none is.

    series   what the page was filled from.  Averages of filled candles have no waypoints: they
             begin with the page, and are exact to 1e-13 once they have forgotten that.
    """
    if page.until is None and series.closed == 0:
        return 0
    return FORGOTTEN_BY_ALL if len(page.candles) > FORGOTTEN_BY_ALL else None


def indicators_of(
    series: Series, start: Start, width_s: int, names: Collection[str]
) -> dict[str, Floats]:
    """Return the values of *names*, a row a candle from *start* on, NaN for null.

    A row has one number, or those of `macd` (line, signal, histogram), `fibonacci` (as the report
    has them), `bollinger` (upper, middle, lower) and `stochRsi` (k, d).
    """
    highs = np.array([candle.high for candle in series.candles])
    lows = np.array([candle.low for candle in series.candles])
    closes = np.array([candle.close for candle in series.candles])
    averages = _averages(Candles(highs, lows, closes), start)
    found: dict[str, Floats] = dict(zip(AVERAGES, averages[:, :5].T, strict=False))
    found["macd"] = averages[:, 5:8]
    is_whole = series.closed == 0
    first = start.first
    if "fibonacci" in names:
        found["fibonacci"] = _fibonacci(highs, lows, is_whole=is_whole)[first:]
    if "atr" in names:
        found["atr"] = _atr(highs, lows, closes, is_whole=is_whole)[first:]
    if "bollinger" in names:
        found["bollinger"] = _bollinger(closes)[first:]
    if "vwap" in names:
        found["vwap"] = _vwap(series, width_s, (highs + lows + closes) / 3)[first:]
    if "stochRsi" in names:
        found["stochRsi"] = _stochastic(averages[:, 4])
    return {name: found[name] for name in names}


def _averages(candles: Candles, start: Start) -> Floats:
    part = Candles(*(np.ascontiguousarray(column[start.first :]) for column in candles))
    frame = np.zeros(1, kernels.FRAME)
    acc = start.acc.copy()
    frame["count"] = start.closed
    out = np.zeros((len(part.closes), kernels.READ))
    kernels.series(frame[0], acc, part, SERVICE, out)
    return out


def _windows(values: Floats, size: int, short: float) -> Floats:
    """Return the *size* values that end with each; *short* stands for those before the first."""
    return sliding_window_view(np.concatenate([np.full(size - 1, short), values]), size)


def _fibonacci(highs: Floats, lows: Floats, *, is_whole: bool) -> Floats:
    """Return the levels of the newest 100 candles (D7), of fewer where there were no more."""
    high = _windows(highs, SWING, -np.inf).max(axis=1)
    low = _windows(lows, SWING, np.inf).min(axis=1)
    span = high - low
    levels = [high - part * span for part in RETRACEMENTS]
    levels += [low + part * span for part in EXTENSIONS]
    found = np.column_stack([high, low, *levels])
    if not is_whole:
        found[: SWING - 1] = np.nan
    return found


def _atr(highs: Floats, lows: Floats, closes: Floats, *, is_whole: bool) -> Floats:
    found = np.full(len(closes), np.nan)
    before = closes[:-1]
    ranges = np.maximum(highs[1:], before) - np.minimum(lows[1:], before)
    if len(ranges) < ATR_CANDLES:
        return found
    mean = float(ranges[:ATR_CANDLES].mean())
    found[ATR_CANDLES] = mean
    for n, true_range in enumerate(ranges[ATR_CANDLES:].tolist(), ATR_CANDLES + 1):
        mean = (mean * (ATR_CANDLES - 1) + true_range) / ATR_CANDLES
        found[n] = mean
    if not is_whole:
        found[: FORGOTTEN + ATR_CANDLES] = np.nan
    return found


def _bollinger(closes: Floats) -> Floats:
    windows = _windows(closes, BOLLINGER_CANDLES, np.nan)
    middle = windows.mean(axis=1)
    spread = BOLLINGER_WIDTH * windows.std(axis=1)
    return np.column_stack([middle + spread, middle, middle - spread])


def _vwap(series: Series, width_s: int, typical: Floats) -> Floats:
    """Return the price of the day so far; NaN in a day whose beginning is not in *series*."""
    buckets = np.array([candle.bucket for candle in series.candles], np.int64)
    dollars = np.array(
        [c.buy_volume + c.sell_volume + (c.imported_volume or 0) for c in series.candles], float
    )
    days: Ints = buckets // DAY_S
    found = np.full(len(buckets), np.nan)
    for day in np.unique(days):
        of_day = days == day
        is_first_of_all = series.closed == 0 or series.candles[0].bucket < day * DAY_S
        if not is_first_of_all and series.candles[0].bucket > day * DAY_S + width_s - 1:
            continue
        paid = np.cumsum(dollars[of_day])
        tokens = np.cumsum(dollars[of_day] / typical[of_day])
        found[of_day] = np.divide(paid, tokens, out=np.full(len(paid), np.nan), where=tokens > 0)
    return found


def _stochastic(rsi: Floats) -> Floats:
    windows = _windows(rsi, STOCHASTIC_CANDLES, np.nan)
    least = windows.min(axis=1)
    most = windows.max(axis=1)
    span = most - least
    half = np.where(np.isnan(span), np.nan, 50.0)
    place = np.divide(100.0 * (rsi - least), span, out=half, where=span > SAME * most)
    k = _windows(place, SMOOTHED, np.nan).mean(axis=1)
    return np.column_stack([k, _windows(k, SMOOTHED, np.nan).mean(axis=1)])
