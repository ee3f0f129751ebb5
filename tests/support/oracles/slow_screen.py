"""Conditions as trees: writes them as text, and evaluates them for one token.

This module shares no code with the tested conditions.  A tree is ("field", name), ("number", x),
(mark, tree, tree) of + - * / or a comparison, ("negative", tree), ("not", tree), ("and" or "or",
trees), ("crosses_above" or "crosses_below", tree, tree, timeframe, candles).
"""

from collections.abc import Mapping, Sequence
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Final

from support.oracles import definitions
from support.oracles.slow_list import Reported, expected, starts

Tree = tuple[Any, ...]
Values = Mapping[str, float | None]

LEVELS: Final = (236, 382, 500, 618, 764)
CROSSES: Final = {"crosses_above": ("<=", ">"), "crosses_below": (">=", "<")}
COMPARE: Final = {"<": lt, "<=": le, ">": gt, ">=": ge, "=": eq, "!=": ne}
BINDS: Final = {"or": 1, "and": 2, "not": 3, "+": 5, "-": 5, "*": 6, "/": 6, "negative": 7}


def text_of(tree: Tree, least: int = 0) -> str:
    """Return the expression *tree* as text with the fewest parentheses.

    least    operators that bind less strongly than this get parentheses
    """
    mark, *parts = tree
    if mark == "field":
        return str(parts[0])
    if mark == "number":
        return repr(parts[0])
    if mark in CROSSES:
        left, right, _, candles = parts
        return f"{mark}({text_of(left)}, {text_of(right)}, {candles})"
    binds = 4 if mark in COMPARE else BINDS[mark]
    if mark in {"and", "or"}:
        written = f" {mark} ".join(text_of(part, binds + 1) for part in parts[0])
    elif mark == "not":
        written = f"not {text_of(parts[0], binds)}"
    elif mark == "negative":
        written = f"-{text_of(parts[0], binds)}"
    else:
        left = binds + 1 if mark in COMPARE else binds
        written = f"{text_of(parts[0], left)} {mark} {text_of(parts[1], binds + 1)}"
    return f"({written})" if binds < least else written


def is_true(tree: Tree, values: Values) -> bool | None:
    """Return whether the condition *tree* is true for *values*; None if that is unknown."""
    mark, *parts = tree
    if mark in CROSSES:
        return _crosses(tree, values)
    if mark == "not":
        inner = is_true(parts[0], values)
        return None if inner is None else not inner
    if mark in {"and", "or"}:
        found = [is_true(part, values) for part in parts[0]]
        decides: bool = mark == "or"
        return decides if decides in found else None if None in found else not decides
    left, right = number_of(parts[0], values), number_of(parts[1], values)
    return None if left is None or right is None else bool(COMPARE[mark](left, right))


def _crosses(tree: Tree, values: Values) -> bool | None:
    """Return whether one value crossed another in any of the newest candles; None if unknown."""
    mark, left, right, timeframe, candles = tree
    then, now = CROSSES[mark]
    sides: list[bool | None] = []
    for age in range(candles):
        was = (then, _aged(left, timeframe, age + 1), _aged(right, timeframe, age + 1))
        is_now = (now, _aged(left, timeframe, age), _aged(right, timeframe, age))
        sides.append(is_true(("and", [was, is_now]), values))
    return True if True in sides else None if None in sides else False


def _aged(tree: Tree, timeframe: str, age: int) -> Tree:
    """Return *tree*, a field or number, as it was *age* candles before the newest candle."""
    mark, part = tree
    return tree if mark == "number" or not age else ("field", earlier(part, timeframe, age))


def earlier(name: str, timeframe: str, age: int) -> str:
    """Return the key of the value of *name* at *age* candles before the newest candle."""
    return f"{name}@{timeframe}@{age}"


def of_candles(candles: Sequence[definitions.Candle], timeframe: str) -> dict[str, float | None]:
    """Return ATR, Bollinger bands, swing highs and lows, and Fibonacci distances, by name."""
    closes = [candle.close for candle in candles]
    upper, middle, lower = definitions.bollinger(closes) or (None, None, None)
    found: dict[str, float | None] = {
        f"atr_{timeframe}": (definitions.atr(candles) or [None])[-1],
        f"bollinger_upper_{timeframe}": upper,
        f"bollinger_middle_{timeframe}": middle,
        f"bollinger_lower_{timeframe}": lower,
    }
    levels = ("swing_high", "swing_low", *(f"fib{part}" for part in LEVELS))
    found |= dict.fromkeys((f"{name}_{timeframe}" for name in levels), None)
    if candles:
        of = definitions.fibonacci([one.high for one in candles], [one.low for one in candles])
        found[f"swing_high_{timeframe}"] = of["swingHigh"]
        found[f"swing_low_{timeframe}"] = of["swingLow"]
        for part in LEVELS:
            found[f"fib{part}_{timeframe}"] = closes[-1] / of[f"level{part}"] - 1
    return found


def number_of(tree: Tree, values: Values) -> float | None:
    """Return the value of the expression *tree* for the numbers *values*; None if it is unknown."""
    mark, *parts = tree
    if mark == "number":
        return float(parts[0])
    if mark == "field":
        return values[parts[0]]
    if mark == "negative":
        inner = number_of(parts[0], values)
        return None if inner is None else -inner
    left, right = number_of(parts[0], values), number_of(parts[1], values)
    if left is None or right is None:
        return None
    try:
        found = {
            "+": lambda: left + right,
            "-": lambda: left - right,
            "*": lambda: left * right,
            "/": lambda: left / right,
        }[mark]()
    except ZeroDivisionError:
        return None
    return None if found != found else found  # noqa: PLR0124 - NaN


def values_of(mint: str, swaps: Sequence[Reported], now: int) -> dict[str, float | None]:
    """Return all known numbers of *mint* at *now*, except the evidence for its price."""
    listed = expected(mint, swaps, now)
    own = [swap for swap in swaps if swap.mint == mint]
    _, hour, _ = starts(now)
    trades = [definitions.Trade(one.time, one.usd, one.sol, one.volume, one.is_buy) for one in own]
    found: dict[str, float | None] = {
        "price": listed.usd,
        "price_sol": listed.sol,
        "change_m5": listed.changes[0],
        "change_h1": listed.changes[1],
        "change_d1": listed.changes[2],
        "volume_h1": sum(one.volume for one in own if one.time >= hour) / 1e6,
        "volume_d1": listed.volume / 1e6,
        "swaps_d1": listed.swaps,
        "pressure_h1": listed.pressure,
    }
    for timeframe, width in definitions.WIDTHS.items():
        candles = definitions.candles(trades, width)
        of = definitions.timeframe(candles)
        macd = of["macd"] or {"line": None, "signal": None, "histogram": None}
        found |= {f"{name}_{timeframe}": of[name] for name in ("ema9", "ema21", "ema50", "ema200")}
        found[f"rsi_{timeframe}"] = of["rsi"]
        found[f"macd_{timeframe}"] = macd["line"]
        found[f"macd_signal_{timeframe}"] = macd["signal"]
        found[f"macd_histogram_{timeframe}"] = macd["histogram"]
        found[f"candles_{timeframe}"] = len(candles)
        found |= of_candles(candles, timeframe)
    return found
