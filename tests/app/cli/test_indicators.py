"""The values of `mintscope indicators` and `mintscope report` equal those of other programs."""

import csv
import json
import random
from collections.abc import Iterator, Sequence
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import talib
from numpy.typing import NDArray
from talipp.indicators import MACD
from typer.testing import CliRunner, Result

from mintscope.app.cli.indicators import app
from mintscope.market.report import REPORTED
from support.oracles import definitions
from support.oracles.definitions import Trade
from support.scenes.made_swaps import stream

CANDLES = (
    "freqtrade_eth_btc_5m",
    "freqtrade_unittest_btc_1m",
    "freqtrade_xrp_eth_1m",
    "freqtrade_xrp_eth_5m",
    "lean_bitfinex_btcusd_1h",
    "lean_coinbase_btceur_1m_20180404",
    "lean_coinbase_btcusd_1s_20161007",
    "pinets_btcusdc_1d",
    "skender_bitcoin_1d",
    "skender_default_spy_1d",
    "skender_intraday_spy_1m",
    "skender_penny_1d",
    "skender_zeros_1d",
    "ta4j_binanceus_ethusd_5m",
)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def every(path: Path, *options: str) -> list[dict[str, Any]]:
    result = run("indicators", path, "--every", *options)
    assert (result.exit_code, result.stderr) == (0, "")
    return [json.loads(line) for line in result.stdout.splitlines()]


def table(path: Path) -> list[dict[str, float | None]]:
    with path.open(newline="") as file:
        return [
            {name: float(cell) if cell else None for name, cell in line.items()}
            for line in csv.DictReader(file)
        ]


def close(ours: float | None, theirs: float | None, limit: float) -> bool:
    if ours is None or theirs is None:
        return ours is theirs
    return abs(ours - theirs) <= limit


def check_column(
    ours: Sequence[float | None],
    theirs: Sequence[float | None],
    limits: Sequence[float],
) -> None:
    wrong = [
        (n, mine, other)
        for n, (mine, other, limit) in enumerate(zip(ours, theirs, limits, strict=True))
        if not close(mine, other, limit)
    ]
    assert wrong == []
    assert any(mine is not None for mine in ours)


def part(found: Sequence[dict[str, Any]], name: str) -> list[float | None]:
    return [line["macd"] and line["macd"][name] for line in found]


def write(folder: Path, *lines: str) -> Path:
    path = folder / "table.csv"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.mark.parametrize(
    "name", ["skender_default_ema20_rsi14_macd.csv", "skender_default_spreadsheet.csv"]
)
def test_indicators_equal_those_of_skender(shared_data: Path, name: str) -> None:
    path = shared_data / "ohlcv/candles/skender_default_spy_1d.csv"
    theirs = table(shared_data / "ohlcv/reference" / name)
    found = every(path, "--ema", "20,12,26")
    closes = [candle["close"] or 0.0 for candle in table(path)]
    names = {"ema12": "fastEma", "ema26": "slowEma"} if "fastEma" in theirs[0] else {}
    for ema in ("ema20", "ema12", "ema26"):
        if names.get(ema, ema) in theirs[0]:
            column = [line[names.get(ema, ema)] for line in theirs]
            check_column([line[ema] for line in found], column, [1e-9 * c for c in closes])
    check_column([line["rsi"] for line in found], [t["rsi14"] for t in theirs], [1e-7] * len(found))
    limits = [1e-9 * price for price in closes]
    check_column(part(found, "signal"), [line["signal"] for line in theirs], limits)
    check_column(part(found, "histogram"), [line["histogram"] for line in theirs], limits)
    # Skender prints the line from candle 26; our object is null until it has all three numbers.
    lines = [t["macd"] if t["signal"] is not None else None for t in theirs]
    check_column(part(found, "line"), lines, limits)


def test_the_ema_equals_that_of_a_tradingview_export(shared_data: Path) -> None:
    """The export has only closes, so open, high and low equal the close."""
    path = shared_data / "ohlcv/reference/lean_tradingview_spy_ema14.csv"
    theirs = table(path)
    limits = [1e-9 * (line["close"] or 0.0) for line in theirs]

    found = [line["ema14"] for line in every(path, "--ema", "14")]
    check_column(found, [line["ema14"] for line in theirs], limits)


@pytest.mark.parametrize("series", ["ramp", "impulse"])
def test_the_macd_equals_that_of_the_tradingview_runtime(
    shared_data: Path, tmp_path: Path, series: str
) -> None:
    name = "tealchart_tradingview_native_macd_2_3_2.csv"
    theirs = table(shared_data / "ohlcv/reference" / name)
    path = write(tmp_path, "t,close", *(f"{int(t['i'] or 0)},{t[series]}" for t in theirs))
    found = every(path, "--macd", "2,3,2")
    limits = [1e-9 * max(t[series] or 0.0 for t in theirs)] * len(theirs)
    for ours, column in (("signal", "signal"), ("histogram", "hist")):
        check_column(part(found, ours), [t[f"{series}_{column}"] for t in theirs], limits)
    lines = [t[f"{series}_line"] if t[f"{series}_signal"] is not None else None for t in theirs]
    check_column(part(found, "line"), lines, limits)


def nullable(values: NDArray[np.float64]) -> list[float | None]:
    return [None if isnan(value) else value for value in values.tolist()]


@pytest.mark.storm
@pytest.mark.parametrize("name", CANDLES)
def test_indicators_equal_those_of_talib_and_talipp(shared_data: Path, name: str) -> None:
    """EMA and RSI equal those of TA-Lib; MACD equals talipp's, because TA-Lib starts MACD late."""
    path = shared_data / f"ohlcv/candles/{name}.csv"
    candles = table(path)
    closes = np.array([candle["close"] for candle in candles], np.float64)
    found = every(path)
    limits = [1e-9 * price for price in closes]
    for period in (9, 21, 50, 200):
        theirs = nullable(talib.EMA(closes, period))
        check_column([line[f"ema{period}"] for line in found], theirs, limits)
    if closes.any():
        theirs = nullable(talib.RSI(closes, 14))
        check_column([line["rsi"] for line in found], theirs, [1e-7] * len(closes))
    else:  # the RSI of a flat series is 50 here, and 0 in TA-Lib
        assert [line["rsi"] for line in found] == [None] * 14 + [50.0] * (len(closes) - 14)
    macds = [m if m and m.signal is not None else None for m in MACD(12, 26, 9, closes.tolist())]
    check_column(part(found, "line"), [m and m.macd for m in macds], limits)
    check_column(part(found, "signal"), [m and m.signal for m in macds], limits)
    check_column(part(found, "histogram"), [m and m.histogram for m in macds], limits)


@pytest.mark.parametrize("name", CANDLES)
def test_fibonacci_levels_are_those_of_the_last_hundred_candles(
    shared_data: Path, name: str
) -> None:
    path = shared_data / f"ohlcv/candles/{name}.csv"
    candles = table(path)
    found = every(path)
    for n in {*range(0, len(candles), 331), 99, 100, 101, len(candles) - 1}:
        window = candles[max(0, n - 99) : n + 1]
        expected = definitions.fibonacci(
            [c["high"] or 0.0 for c in window], [c["low"] or 0.0 for c in window]
        )
        assert definitions.disagreements(found[n]["fibonacci"], expected, 1.0, "fibonacci") == []


def test_only_the_newest_candle_is_printed_without_every(shared_data: Path) -> None:
    path = shared_data / "ohlcv/candles/skender_default_spy_1d.csv"
    result = run("indicators", path)

    assert [json.loads(line) for line in result.stdout.splitlines()] == every(path)[-1:]


def test_columns_are_found_by_name_and_may_be_missing(tmp_path: Path) -> None:
    plain = every(write(tmp_path, "t,open,high,low,close", "1,2,4,1,3", "2,3,3,3,3"))
    mixed = every(
        write(tmp_path, "\ufeffclose , note,low,t,high", "3,x,1,1,4", "", "3,,,2,", ", , ,,")
    )
    bare = every(write(tmp_path, "t,close", "1,3", "2,3"))

    assert mixed == plain
    assert bare[0]["fibonacci"]["swingHigh"] == bare[0]["fibonacci"]["swingLow"] == 3.0
    assert tuple(plain[0]) == REPORTED


def test_keys_and_values_follow_the_periods_of_the_options(tmp_path: Path) -> None:
    path = write(tmp_path, "t,close", *(f"{n},{n % 3}" for n in range(10)))
    found = every(path, "--ema", "3,1", "--rsi", "2", "--macd", "1,2,1")

    assert tuple(found[0]) == ("ema3", "ema1", *REPORTED[4:])
    assert [line["ema1"] for line in found] == [float(n % 3) for n in range(10)]
    assert [line["ema3"] for line in found[:3]] == [None, None, 1.0]
    assert [line["rsi"] for line in found[:3]] == [None, None, 100.0]
    assert [line["macd"] for line in found[:2]] == [
        None, {"line": 0.5, "signal": 0.5, "histogram": 0.0},
    ]  # fmt: skip


HEADER = "t,open,high,low,close"
BAD_CANDLES = [
    ([], "expected a header line with t, close, was empty"),
    (["", " , "], "expected a header line with t, close, was empty"),
    (["1,2,3"], "line 1: expected one column t, was 0 in '1,2,3'"),
    (["t,open"], "line 1: expected one column close, was 0"),
    (["t,close,t"], "line 1: expected one column t, was 2"),
    ([HEADER], "expected at least one candle, was none"),
    ([HEADER, "1,1,1,1"], "line 2: expected 5 columns, was 4"),
    ([HEADER, "1,1,1,1,1,1"], "line 2: expected 5 columns, was 6"),
    ([HEADER, "1,1,1,1,"], "line 2, column close: expected a number from 0 to 1e+300, was empty"),
    ([HEADER, ",1,1,1,1"], "line 2, column t: expected an integer from 0 to 99999999999, was"),
    ([HEADER, "1.5,1,1,1,1"], "line 2, column t: expected an integer"),
    ([HEADER, "-1,1,1,1,1"], "line 2, column t: expected an integer"),
    ([HEADER, "1700000000000,1,1,1,1"], "line 2, column t: expected an integer"),
    ([HEADER, "1,1,1,1,1", "1,1,1,1,1"], "line 3, column t: expected a time after 1, was '1'"),
    ([HEADER, "2,1,1,1,1", "1,1,1,1,1"], "line 3, column t: expected a time after 2, was '1'"),
    ([HEADER, "1,1,1,2,1"], "column close: expected a number from low 2.0 to high 1.0, was '1'"),
    ([HEADER, "1,1,3,2,4"], "column close: expected a number from low 2.0 to high 3.0, was '4'"),
    ([HEADER, "1,1,1,1," + "9" * 500], "was '" + "9" * 40 + "...'"),
    ([HEADER, '1,1,1,1,"1'], "expected comma-separated values, was: unexpected end of data"),
    ([HEADER, "1,1,1,1," + "9" * 200_000], "expected comma-separated values, was: field larger"),
]  # fmt: skip


NO_NUMBERS = (
    "nan", "inf", "-inf", "-1", "1e301", "1e999", "abc", "0x1", "1_000", "--1", "\u0661",
)  # fmt: skip


def refused(result: Result) -> str:
    """Return the only line on stderr; expect exit code 2 and an empty standard output."""
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    return line


@pytest.mark.parametrize(("lines", "message"), BAD_CANDLES)
def test_a_malformed_table_is_refused(tmp_path: Path, lines: list[str], message: str) -> None:
    path = write(tmp_path, *lines)
    line = refused(run("indicators", path))

    assert line.startswith(str(path))
    assert message in line


@pytest.mark.parametrize("text", NO_NUMBERS)
def test_a_cell_that_is_no_number_is_refused(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, HEADER, f"1,1,{text},1,1")
    expected = f"{path}, line 2, column high: expected a number from 0 to 1e+300, was {text!r}"

    assert refused(run("indicators", path)) == expected


def test_a_file_that_cannot_be_read_as_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(b"t,close\n1,\xff\n")
    assert "expected UTF-8 text, was byte 0xff at position 10" in refused(run("indicators", path))
    path.write_bytes(b"t,close\n1,\x00\n")
    assert "line 2" in refused(run("indicators", path))
    path.write_bytes(b"t,close\n1," + b"9" * 2_000_000 + b"\n")
    assert "line 2: expected at most 1000000 characters" in refused(run("indicators", path))
    missing = refused(run("indicators", tmp_path / "none.csv"))
    assert "none.csv: expected a file to read, was: No such file or directory" in missing
    assert "expected a file to read, was: Is a directory" in refused(run("indicators", tmp_path))


@pytest.mark.parametrize(
    ("option", "text", "message"),
    [
        ("--ema", "", "--ema: expected periods from 1 to 1000000, was ''"),
        ("--ema", "9,x", "--ema: expected periods"),
        ("--ema", "0", "--ema: expected periods"),
        ("--ema", "-9", "--ema: expected periods"),
        ("--ema", "1.5", "--ema: expected periods"),
        ("--ema", "9,9", "--ema: expected different periods, was '9,9'"),
        ("--rsi", "14,15", "--rsi: expected one period, was '14,15'"),
        ("--rsi", "1000001", "--rsi: expected periods from 1 to 1000000, was '1000001'"),
        ("--macd", "12,26", "--macd: expected fast,slow,signal with fast < slow, was '12,26'"),
        ("--macd", "26,12,9", "--macd: expected fast,slow,signal with fast < slow"),
        ("--macd", "12,26,0", "--macd: expected periods"),
    ],
)
def test_impossible_periods_are_refused(
    tmp_path: Path, option: str, text: str, message: str
) -> None:
    assert message in refused(run("indicators", write(tmp_path, "t,close", "1,1"), option, text))


SWAPS = "t,key,price,volume,side"


def swap_lines(trades: Sequence[Trade], *, with_sol: bool) -> Iterator[str]:
    for n, trade in enumerate(trades):
        price = "" if trade.price is None else repr(trade.price)
        sol = "" if trade.price_sol is None else repr(trade.price_sol)
        side = "buy" if trade.is_buy else "sell"
        line = f"{trade.time},{1000 + n // 3}:{n % 3}:0:-1,{price},{trade.volume},{side}"
        yield f"{line},{sol}" if with_sol else line


@pytest.mark.parametrize("seed", range(6))
def test_a_report_equals_that_of_the_definitions(tmp_path: Path, seed: int) -> None:
    trades = stream(seed, 500, 90.0)
    at = trades[-100].time + seed
    known = [trade for trade in trades if trade.time <= at]
    lines = list(swap_lines(trades, with_sol=True))
    random.Random(seed).shuffle(lines)
    result = run("report", write(tmp_path, SWAPS + ",price_sol", *lines), "--at", at)

    price = max(trade.price or 0.0 for trade in known)
    assert result.exit_code == 0
    assert definitions.disagreements(
        json.loads(result.stdout), definitions.report(known, at), price
    ) == []  # fmt: skip


def test_the_price_in_sol_is_null_without_the_column_price_sol(tmp_path: Path) -> None:
    lines = swap_lines(stream(1, 50, 90.0), with_sol=False)
    found = json.loads(run("report", write(tmp_path, SWAPS, *lines), "--at", 9**10).stdout)

    assert found["price"]["sol"] is None
    assert found["price"]["usd"] > 0


def test_times_assign_swaps_to_candles_and_keys_order_swaps_in_a_candle(tmp_path: Path) -> None:
    """A swap with a later time may have a smaller key, and still belongs to a later candle."""
    path = write(tmp_path, SWAPS, "59,9,1,1,buy", "60,7,2,1,sell", "61,3,3,1,buy", "58,4,4,2,sell")
    found = json.loads(run("report", path, "--at", "61").stdout)["indicators"]

    assert found["m1"]["fibonacci"]["swingHigh"] == 4.0
    assert found["buySellPressure"]["m1"] == 0.4
    result = json.loads(run("report", path, "--at", "61").stdout)
    # The newest minute holds keys 3 and 7: it closes with key 7.
    assert result["price"]["usd"] == 2.0
    assert result["dataSpan"] == {
        "from": 0, "to": 61, "candleCounts": {"m1": 2, "m5": 1, "m15": 1, "h1": 1},
    }  # fmt: skip


def test_times_alone_assign_swaps_to_the_windows_of_pressure(tmp_path: Path) -> None:
    path = write(tmp_path, SWAPS, "59,1,1,1,buy", "0,2,1,1,sell")
    found = json.loads(run("report", path, "--at", "60").stdout)["indicators"]

    assert found["buySellPressure"] == {
        "m1": 1.0, "m5": 0.5, "m15": 0.5, "h1": 0.5, "h4": 0.5, "d1": 0.5,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1,1,0,1,buy", "column price: expected a number above 0, or nothing for volume only"),
        ("1,1,nan,1,buy", "column price: expected a number from 0 to 1e+300, was 'nan'"),
        ("1,1,-1,1,buy", "column price: expected a number from 0"),
        ("1,1,1e-999,1,buy", "column price: expected a number above 0"),
        ("1,1,1,1.0,buy", "column volume: expected an integer from 0 to 9223372036854775807"),
        ("1,1,1,-1,buy", "column volume: expected an integer"),
        ("1,1,1,,buy", "column volume: expected an integer"),
        ("1,1,1,9223372036854775807,buy", "column volume: expected volumes of at most"),
        ("1,1,1,1,hold", "column side: expected buy or sell, was 'hold'"),
        ("1,1,1,1,", "column side: expected buy or sell, was empty"),
        ("1,,1,1,buy", "column key: expected an integer, or integers joined by"),
        ("1,a,1,1,buy", "column key: expected an integer"),
        ("1,1:2,1,1,buy", "column key: expected 1 integers as in the first line, was '1:2'"),
        ("x,1,1,1,buy", "column t: expected an integer"),
        ("1,1,1,1", "line 3: expected 5 columns, was 4"),
    ],
)
def test_a_malformed_swap_is_refused(tmp_path: Path, line: str, message: str) -> None:
    path = write(tmp_path, SWAPS, "1,1,1,1,SELL", line)
    found = refused(run("report", path, "--at", "5"))

    assert found.startswith(f"{path}, line 3")
    assert message in found


def test_a_report_without_a_priced_swap_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, SWAPS, "1,1,,5,buy", "7,1,1,5,buy")
    message = f"{path}: expected a swap with a price at or before 5, was none"
    assert refused(run("report", path, "--at", "5")) == message
    assert run("report", path, "--at", "7").exit_code == 0
    assert run("report", path).exit_code == 2
    assert run("report", path, "--at", "noon").exit_code == 2


def test_a_time_that_is_not_in_seconds_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, SWAPS, "1,1,1,5,buy")
    assert run("report", path, "--at", "99999999999").exit_code == 0
    for at in ("99999999999999999999", "100000000000"):
        result = run("report", path, "--at", at)
        assert result.exit_code == 2
        assert "99999999999" in result.stderr
