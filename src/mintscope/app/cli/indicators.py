"""`mintscope indicators` and `report`: values computed by the kernels that the service uses."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isnan, nan
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import numpy as np
import typer

from mintscope.app.cli.output import stop
from mintscope.app.cli.table import BadTable, Row, rows
from mintscope.kit.primitives import Mint, UnixS
from mintscope.market.engine import kernels
from mintscope.market.engine.engine import Engine
from mintscope.market.engine.given import Candles, Floats, Periods, Trades
from mintscope.market.report import Fibonacci, Macd, report_of
from mintscope.market.series.series import FURTHER

app = typer.Typer()

# The largest time that is accepted: a larger number is not in seconds.
TIME_MAX: Final = 99_999_999_999
VOLUME_MAX: Final = 2**63 - 1
PERIOD_MAX: Final = 1_000_000
KEY: Final = re.compile(r"-?[0-9]{1,30}(?:[:./_ ]-?[0-9]{1,30})*")
# BEHIND_EMAS: number of values of a timeframe after its EMAs.  AT_FURTHER: number of these values
# before the further indicators.
BEHIND_EMAS: Final = kernels.READ - len(kernels.SERVICE.ema)
AT_FURTHER: Final = kernels.FURTHER - len(kernels.SERVICE.ema)
SIDES: Final = {"buy": True, "sell": False}


@app.command()
def indicators(
    path: Annotated[
        Path,
        typer.Argument(
            help="CSV with the columns t, open, high, low, close, oldest row first.",
            metavar="CANDLES.csv",
        ),
    ],
    *,
    every: Annotated[
        bool, typer.Option(help="Print one line per candle instead of only the last candle.")
    ] = False,
    ema: Annotated[str, typer.Option(help="Periods of the EMAs.", metavar="N,...")] = "9,21,50,200",
    rsi: Annotated[str, typer.Option(help="Period of the RSI.", metavar="N")] = "14",
    macd: Annotated[
        str, typer.Option(help="Periods of the MACD: fast, slow, signal.", metavar="N,N,N")
    ] = "12,26,9",
) -> None:
    """Print the indicators of a series of candles as JSON.

    t is the start of the candle in Unix seconds, and must increase.  A missing open,
    high or low equals the close; other columns are ignored.  An indicator with too little
    history is null.
    """
    periods = _periods(ema, rsi, macd)
    try:
        candles = _candles(path)
    except BadTable as error:
        stop(str(error))
    values = np.zeros((len(candles.closes), len(periods.ema) + BEHIND_EMAS))
    acc = np.zeros(kernels.EMA + len(periods.ema))
    kernels.series(np.zeros(1, kernels.FRAME)[0], acc, candles, periods, values)
    for line in values if every else values[-1:]:
        print(msgspec.json.encode(_timeframe(line.tolist(), periods)).decode())


@app.command()
def report(
    path: Annotated[
        Path,
        typer.Argument(
            help="CSV with the columns t, key, price, volume, side.", metavar="SWAPS.csv"
        ),
    ],
    *,
    at: Annotated[
        int,
        typer.Option(
            help="Time in Unix seconds; later swaps are ignored.", metavar="T", max=TIME_MAX
        ),
    ],
) -> None:
    """Print price, indicators, pressure and candle counts of a token's swaps as JSON.

    A swap belongs to the candle in which its t lies.  Within a candle, swaps are sorted by key;
    swaps with equal keys keep the order of the file.  A key is one or more integers, joined by
    one of : . / _ or a space, such as slot:transaction:outer:inner.  A swap with an empty price
    counts only as volume.  volume is an integer in quote units; side is buy or sell.  price.sol
    comes from the optional column price_sol, and is null without it.
    """
    try:
        swaps = [swap for swap in _swaps(path) if swap.time <= at]
    except BadTable as error:
        stop(str(error))
    if all(isnan(swap.price_usd) for swap in swaps):
        stop(f"{path}: expected a swap with a price at or before {at}, was none")
    values = _snapshot(swaps, UnixS(at))
    data = msgspec.to_builtins(report_of(Mint(""), values, UnixS(at)))
    del data["token"]
    # Only the fields of the price that do not need pools are printed.
    data["price"] = {unit: data["price"][unit] for unit in ("usd", "sol")}
    if isnan(data["price"]["sol"]):
        data["price"]["sol"] = None
    print(msgspec.json.encode(data).decode())


def _periods(ema: str, rsi: str, macd: str) -> Periods:
    emas = _integers("--ema", ema)
    if len(set(emas)) != len(emas):
        stop(f"--ema: expected different periods, was {ema!r}")
    match _integers("--rsi", rsi), _integers("--macd", macd):
        case [period], [fast, slow, signal] if fast < slow:
            pass
        case [_], _:
            stop(f"--macd: expected fast,slow,signal with fast < slow, was {macd!r}")
        case _:
            stop(f"--rsi: expected one period, was {rsi!r}")
    return Periods(np.array(emas, np.int64), period, fast, slow, signal)


def _integers(option: str, text: str) -> list[int]:
    parts = text.split(",")
    if not all(re.fullmatch("[0-9]{1,7}", part) and 1 <= int(part) <= PERIOD_MAX for part in parts):
        stop(f"{option}: expected periods from 1 to {PERIOD_MAX}, was {text!r}")
    return [int(part) for part in parts]


def _candles(path: Path) -> Candles:
    candles: list[tuple[float, float, float]] = []
    newest = -1
    for row in rows(path, ("t", "close")):
        newest, before = row.integer("t", 0, TIME_MAX), newest
        if newest <= before:
            raise row.bad("t", f"a time after {before}")
        close = row.number("close", kernels.PRICE_MAX)
        _, high, low = (_price(row, name, close) for name in ("open", "high", "low"))
        if not low <= close <= high:
            raise row.bad("close", f"a number from low {low} to high {high}")
        candles.append((high, low, close))
    if not candles:
        raise BadTable(f"{path}: expected at least one candle, was none")
    # Copied, so that each column is contiguous: numba would compile the kernels again for others.
    return Candles(*np.array(candles).T.copy())


def _price(row: Row, column: str, default: float) -> float:
    return row.number(column, kernels.PRICE_MAX) if row.text(column) else default


def _timeframe(values: list[float], periods: Periods) -> dict[str, Any]:
    """Return the indicators of a timeframe by name; names of EMAs contain their *periods*."""
    size = len(periods.ema)
    v = [None if isnan(value) else value for value in values]
    return {
        **{f"ema{period}": v[z] for z, period in enumerate(periods.ema)},
        "rsi": v[size],
        "macd": None if v[size + 3] is None else Macd(*values[size + 1 : size + 4]),
        "fibonacci": Fibonacci(*values[size + 4 : size + AT_FURTHER]),
        **dict(zip(FURTHER, v[size + AT_FURTHER :], strict=True)),
    }


@dataclass(frozen=True, slots=True)
class _Swap:
    """A line of SWAPS.csv; a missing price is NaN."""

    time: int
    key: tuple[int, ...]
    price_usd: float
    price_sol: float
    volume: int
    is_buy: bool


def _swaps(path: Path) -> list[_Swap]:
    swaps: list[_Swap] = []
    volume = 0
    for row in rows(path, ("t", "key", "price", "volume", "side")):
        side = row.text("side").lower()
        if side not in SIDES:
            raise row.bad("side", "buy or sell")
        swap = _Swap(
            time=row.integer("t", 0, TIME_MAX),
            key=_key(row),
            price_usd=_swap_price(row, "price"),
            price_sol=_swap_price(row, "price_sol"),
            volume=row.integer("volume", 0, VOLUME_MAX),
            is_buy=SIDES[side],
        )
        if swaps and len(swap.key) != len(swaps[0].key):
            raise row.bad("key", f"{len(swaps[0].key)} integers as in the first line")
        volume += swap.volume
        if volume > VOLUME_MAX:
            raise row.bad("volume", f"volumes of at most {VOLUME_MAX} in all")
        swaps.append(swap)
    return swaps


def _key(row: Row) -> tuple[int, ...]:
    if KEY.fullmatch(row.text("key")) is None:
        raise row.bad("key", "an integer, or integers joined by one of : . / _ or a space")
    return tuple(int(part) for part in re.split("[:./_ ]", row.text("key")))


def _swap_price(row: Row, column: str) -> float:
    price = _price(row, column, nan)
    if price == 0.0:
        raise row.bad(column, "a number above 0, or nothing for volume only")
    return price


def _snapshot(swaps: Sequence[_Swap], now: UnixS) -> Floats:
    """Return the report values of *swaps* as of *now*, as a row of the engine.

    In each timeframe, swaps are sorted by candle, then by key; for the pressure windows, they are
    sorted by time.  If keys and times disagree, these orders differ, so each of them is computed in
    an engine row of its own.
    """
    orders: list[Callable[[_Swap], Any]] = [
        *(lambda swap, width=width: (swap.time // width, swap.key) for width in kernels.WIDTHS),
        lambda swap: (swap.time, swap.key),
    ]
    engine = Engine(len(orders))
    snapshots = []
    for row, order in enumerate(orders):
        engine.apply(_trades(row, sorted(swaps, key=order)))
        snapshots.append(engine.snapshot(row, now).copy())
    values = snapshots[0]
    for k, timeframe in enumerate(snapshots[:-1]):
        part = slice(k * kernels.READ, (k + 1) * kernels.READ)
        values[part] = timeframe[part]
        values[kernels.COUNTS + k] = timeframe[kernels.COUNTS + k]
    shares = slice(kernels.SHARES, kernels.COUNTS)
    values[shares] = snapshots[-1][shares]
    return values


def _trades(row: int, swaps: Sequence[_Swap]) -> Trades:
    return Trades(
        np.full(len(swaps), row, np.int64),
        np.array([swap.time for swap in swaps], np.int64),
        np.array([swap.price_usd for swap in swaps]),
        np.array([swap.price_sol for swap in swaps]),
        np.array([swap.volume for swap in swaps], np.int64),
        np.array([swap.is_buy for swap in swaps], np.bool_),
    )
