"""The specification's definitions of report values, implemented for clarity, not for speed."""

from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean, pstdev
from typing import Any, NamedTuple

WIDTHS = {"m1": 60, "m5": 300, "m15": 900, "h1": 3600}
WINDOWS = {"m1": 60, "m5": 300, "m15": 900, "h1": 3600, "h4": 14400, "d1": 86400}
EMAS = (9, 21, 50, 200)


class Trade(NamedTuple):
    """A swap; its price is None if the swap counts only in the volume."""

    time: int
    price: float | None
    price_sol: float | None
    volume: int
    is_buy: bool


class Candle(NamedTuple):
    start: int
    open: float
    high: float
    low: float
    close: float
    buy: int
    sell: int
    swaps: int


def candles(trades: Sequence[Trade], width: int) -> list[Candle]:
    buckets: dict[int, list[Trade]] = {}
    for trade in trades:
        buckets.setdefault(trade.time // width, []).append(trade)
    made = []
    for bucket, inside in sorted(buckets.items()):
        prices = [trade.price for trade in inside if trade.price is not None]
        if not prices:
            continue
        buy = sum(trade.volume for trade in inside if trade.is_buy)
        sell = sum(trade.volume for trade in inside if not trade.is_buy)
        made.append(
            Candle(
                bucket * width,
                prices[0], max(prices), min(prices), prices[-1],
                buy, sell, len(prices),
            )
        )  # fmt: skip
    return made


def ema(values: Sequence[float], period: int) -> list[float | None]:
    out: list[float | None] = [None] * min(period - 1, len(values))
    if len(values) >= period:
        e = fmean(values[:period])
        out.append(e)
        a = 2 / (period + 1)
        for value in values[period:]:
            e = a * value + (1 - a) * e
            out.append(e)
    return out


def rsi(closes: Sequence[float], period: int = 14) -> list[float | None]:
    out: list[float | None] = [None] * min(period, len(closes))
    changes = [after - before for before, after in pairwise(closes)]
    gains, losses = [max(d, 0.0) for d in changes], [max(-d, 0.0) for d in changes]
    for n in range(period, len(changes) + 1):
        if n == period:
            g, loss = fmean(gains[:n]), fmean(losses[:n])
        else:
            g = ((period - 1) * g + gains[n - 1]) / period
            loss = ((period - 1) * loss + losses[n - 1]) / period
        out.append(50.0 if g + loss == 0 else 100 * g / (g + loss))
    return out


def macd(
    closes: Sequence[float], fast: int = 12, slow: int = 26, signal: int = 9
) -> list[tuple[float, float, float] | None]:
    lines = [
        f - s
        for f, s in zip(ema(closes, fast), ema(closes, slow), strict=True)
        if f is not None and s is not None
    ]
    out: list[tuple[float, float, float] | None] = [None] * (len(closes) - len(lines))
    for line, smooth in zip(lines, ema(lines, signal), strict=True):
        out.append(None if smooth is None else (line, smooth, line - smooth))
    return out


def atr(series: Sequence[Candle], period: int = 14) -> list[float | None]:
    """Return the ATR (Wilder's mean) at each candle, in order; None for the first *period*."""
    ranges = [
        max(now.high - now.low, abs(now.high - before.close), abs(now.low - before.close))
        for before, now in pairwise(series)
    ]
    found: list[float | None] = [None] * min(period, len(series))
    mean = 0.0
    for n, true_range in enumerate(ranges):
        if n == period - 1:
            mean = sum(ranges[:period]) / period
        elif n >= period:
            mean += (true_range - mean) / period
        if n >= period - 1:
            found.append(mean)
    return found


def bollinger(closes: Sequence[float], period: int = 20) -> tuple[float, float, float] | None:
    """Return the upper, middle and lower band at the newest close; None with too few closes."""
    if len(closes) < period:
        return None
    mean = fmean(closes[-period:])
    spread = 2 * pstdev(closes[-period:], mean)
    return mean + spread, mean, mean - spread


def fibonacci(highs: Sequence[float], lows: Sequence[float]) -> dict[str, float]:
    high, low = max(highs[-100:]), min(lows[-100:])
    span = high - low
    return {
        "swingHigh": high,
        "swingLow": low,
        **{f"level{p}": high - span * p / 1000 for p in (236, 382, 500, 618, 764)},
        **{f"ext{p}": low + span * p / 1000 for p in (1272, 1618, 2000, 2618)},
    }


def timeframe(series: Sequence[Candle]) -> dict[str, Any]:
    closes = [candle.close for candle in series]
    if not closes:
        names = [*(f"ema{n}" for n in EMAS), "rsi", "macd", "fibonacci"]
        return dict.fromkeys(names)
    newest = macd(closes)[-1]
    return {
        **{f"ema{n}": ema(closes, n)[-1] for n in EMAS},
        "rsi": rsi(closes)[-1],
        "macd": newest and dict(zip(("line", "signal", "histogram"), newest, strict=True)),
        "fibonacci": fibonacci([c.high for c in series], [c.low for c in series]),
    }


def pressure(trades: Sequence[Trade], window: int, now: int) -> float:
    g = window // 60
    inside = [t for t in trades if now // g - 60 < t.time // g <= now // g]
    total = sum(t.volume for t in inside)
    return sum(t.volume for t in inside if t.is_buy) / total if total else 0.0


def report(trades: Sequence[Trade], now: int, *, is_closed: bool = False) -> dict[str, Any]:
    """Return the `data` of a report as the specification defines it, without `token`.

    If *is_closed*, indicators use only candles whose interval has passed at *now*.
    """
    series = {name: candles(trades, width) for name, width in WIDTHS.items()}
    read = {
        name: [each for each in made if not is_closed or each.start + WIDTHS[name] <= now]
        for name, made in series.items()
    }
    last = next(trade for trade in reversed(trades) if trade.price is not None)
    return {
        "price": {"usd": last.price, "sol": last.price_sol},
        "indicators": {
            **{name: timeframe(made) for name, made in read.items()},
            "buySellPressure": {
                name: pressure(trades, window, now) for name, window in WINDOWS.items()
            },
        },
        "dataSpan": {
            "from": series["m1"][0].start,
            "to": now,
            "candleCounts": {name: len(made) for name, made in series.items()},
        },
    }


def disagreements(ours: Any, expected: Any, price: float, path: str = "") -> list[str]:
    """Return the differences between *ours* and *expected* that exceed the tolerances.

    Relative tolerances: EMA 1e-9, Fibonacci 1e-12.  Absolute tolerances: RSI 1e-7, pressure 1e-9,
    MACD 1e-9 of *price*.  Nulls, keys, prices and integers must be equal.
    """
    if isinstance(expected, dict):
        if path.endswith(".price"):  # these definitions do not cover the evidence for the price
            ours = {key: ours[key] for key in expected}
        if not isinstance(ours, dict) or list(ours) != list(expected):
            return [f"{path}: {ours} is not {expected}"]
        return [
            found
            for key in expected
            for found in disagreements(ours[key], expected[key], price, f"{path}.{key}")
        ]
    if not isinstance(expected, float) or ".price" in path:
        return [] if ours == expected else [f"{path}: {ours} is not {expected}"]
    limit = (
        1e-12 * abs(expected) if "fibonacci" in path
        else 1e-7 if path.endswith("rsi")
        else 1e-9 * price if "macd" in path
        else 1e-9 if "buySellPressure" in path
        else 1e-9 * abs(expected)
    )  # fmt: skip
    if isinstance(ours, float) and abs(ours - expected) <= limit:
        return []
    return [f"{path}: {ours} is not {expected}"]
