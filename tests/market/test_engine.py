"""The engine agrees with the definitions, for random streams, real trades and boundaries."""

import csv
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mintscope.kit.compiled import kernel
from mintscope.kit.errors import InsufficientData
from mintscope.kit.primitives import UnixS
from mintscope.market.engine.engine import Engine
from mintscope.market.engine.kernels import ROW
from mintscope.market.report import report_of, token_report
from support.oracles import definitions
from support.oracles.definitions import Trade
from support.scenes import made_swaps

ENGINE = Engine(4)

seeds = st.integers(0, 2**32)
gaps = st.sampled_from((0.0, 1.0, 20.0, 60.0, 400.0, 3000.0))


def our_report(engine: Engine, row: int, now: int, *, is_closed: bool = False) -> dict[str, object]:
    values = engine.snapshot(row, UnixS(now), leaves_out_open=is_closed)
    made = report_of(made_swaps.MINT, values, UnixS(now))
    found: dict[str, object] = msgspec.json.decode(msgspec.json.encode(made))
    assert found.pop("token") == made_swaps.MINT
    return found


def check(trades: list[Trade], now: int) -> None:
    ENGINE.clear(0)
    made_swaps.apply(ENGINE, 0, trades)
    price = max(trade.price or 0.0 for trade in trades)

    assert (
        definitions.disagreements(
            our_report(ENGINE, 0, now), definitions.report(trades, now), price
        )
        == []
    )


@settings(max_examples=40, derandomize=True)
@given(seeds, st.integers(1, 700), gaps, st.sampled_from((0, 1, 59, 600, 9000, 100_000)))
def test_a_report_agrees_with_the_definitions(
    seed: int, length: int, gap_s: float, wait_s: int
) -> None:
    trades = made_swaps.stream(seed, length, gap_s)
    trades[0] = trades[0]._replace(price=1.0, price_sol=0.01)

    check(trades, trades[-1].time + wait_s)


@pytest.mark.parametrize("count", [1, 8, 9, 14, 15, 20, 21, 33, 34, 49, 50, 99, 100, 101, 199, 200])
def test_every_value_appears_at_its_candle(count: int) -> None:
    trades = [
        Trade(made_swaps.START + 3600 * n, 5.0 + math.sin(n), 0.1, 10, is_buy=True)
        for n in range(count)
    ]

    check(trades, trades[-1].time)


@settings(max_examples=40, derandomize=True)
@given(seeds, st.integers(1, 700), gaps, st.sampled_from((0, 1, 59, 60, 600, 9000, 100_000)))
def test_indicators_without_open_candles_are_of_closed_candles_only(
    seed: int, length: int, gap_s: float, wait_s: int
) -> None:
    trades = made_swaps.stream(seed, length, gap_s)
    trades[0] = trades[0]._replace(price=1.0, price_sol=0.01)
    ENGINE.clear(0)
    made_swaps.apply(ENGINE, 0, trades)
    price = max(trade.price or 0.0 for trade in trades)

    now = trades[-1].time + wait_s
    ours = our_report(ENGINE, 0, now, is_closed=True)
    expected = definitions.report(trades, now, is_closed=True)
    assert definitions.disagreements(ours, expected, price) == []


@pytest.mark.parametrize("count", [1, 8, 9, 10, 15, 16, 34, 35, 99, 100, 101, 102, 103, 201, 300])
@pytest.mark.parametrize("into_s", [0, 3599, 3600])
def test_a_closed_value_appears_when_its_candle_has_passed(count: int, into_s: int) -> None:
    trades = [
        Trade(made_swaps.START // 3600 * 3600 + 3600 * n, 5.0 + math.sin(n), 0.1, 10, is_buy=True)
        for n in range(count)
    ]
    ENGINE.clear(0)
    made_swaps.apply(ENGINE, 0, trades)

    now = trades[-1].time + into_s
    ours = our_report(ENGINE, 0, now, is_closed=True)
    assert definitions.disagreements(ours, definitions.report(trades, now, is_closed=True), 6) == []


@pytest.mark.parametrize("count", [1, 15, 34, 300])
def test_a_flat_series_agrees_with_the_definitions_and_has_an_rsi_of_50(count: int) -> None:
    trades = [
        Trade(made_swaps.START + 3600 * n, 0.1, 0.1, 10, is_buy=n % 2 == 0) for n in range(count)
    ]
    check(trades, trades[-1].time)
    if count > 14:
        assert ENGINE.snapshot(0, UnixS(trades[-1].time))[4] == 50.0


def test_the_rsi_of_rising_prices_is_at_most_100() -> None:
    for seed in range(50):
        trades = made_swaps.stream(seed, 60, 100.0)
        rising = sorted(trade.price for trade in trades if trade.price is not None)
        ENGINE.clear(0)
        made_swaps.apply(
            ENGINE,
            0,
            [Trade(60 * n, p, 1.0, 1, is_buy=True) for n, p in enumerate(rising)],
        )

        assert 99.999 < ENGINE.snapshot(0, UnixS(60 * len(rising)))[4] <= 100.0


def real_trades(path: Path) -> list[Trade]:
    with path.open(newline="") as file:
        return [
            Trade(
                int(line["t_ms"]) // 1000,
                float(line["price"]),
                float(line["price"]) / 150,
                round(float(line["price"]) * float(line["amount"]) * 1e6),
                line["side"] == "buy",
            )
            for line in csv.DictReader(file)
        ]


@pytest.mark.parametrize("name", ["freqtrade_xrp_eth", "nautilus_binance_btcusdt"])
def test_reports_of_real_trades_agree_with_the_definitions_at_ten_moments(
    shared_data: Path, name: str
) -> None:
    trades = real_trades(shared_data / f"ohlcv/trades/{name}.csv")
    for part in range(1, 11):
        known = trades[: len(trades) * part // 10]
        check(known, known[-1].time + part)


@pytest.mark.parametrize("width", ["1m", "5m"])
def test_candles_of_real_trades_equal_the_published_candles(shared_data: Path, width: str) -> None:
    """The candles by the tests' definition equal those that the publisher of the trades made."""
    trades = real_trades(shared_data / "ohlcv/trades/freqtrade_xrp_eth.csv")
    path = shared_data / f"ohlcv/candles/freqtrade_xrp_eth_{width}.csv"
    with path.open(newline="") as file:
        published = [
            tuple(float(line[name]) for name in ("t", "open", "high", "low", "close"))
            for line in csv.DictReader(file)
        ]

    assert [made[:5] for made in definitions.candles(trades, 60 * int(width[0]))] == published


@pytest.mark.parametrize("price", [math.nan, math.inf, -math.inf, 0.0, -1.0, 1.1e300])
def test_a_swap_without_a_price_adds_volume_only(price: float) -> None:
    ENGINE.clear(0)
    sane = Trade(made_swaps.START, 2.0, 0.1, 30, is_buy=False)
    made_swaps.apply(ENGINE, 0, [sane, Trade(made_swaps.START + 90, price, 1.0, 10, is_buy=True)])
    found = our_report(ENGINE, 0, made_swaps.START + 90)

    trades = [sane, Trade(made_swaps.START + 90, None, None, 10, is_buy=True)]
    assert (
        definitions.disagreements(found, definitions.report(trades, made_swaps.START + 90), 2.0)
        == []
    )


@pytest.mark.parametrize("extreme", [1e300, 1e-300, 5e-324])
def test_extreme_prices_make_no_infinite_values(extreme: float) -> None:
    ENGINE.clear(0)
    trades = [
        Trade(3600 * n, extreme if n % 3 else 1.0, extreme, 2**40, is_buy=True) for n in range(250)
    ]
    made_swaps.apply(ENGINE, 0, trades)
    made = report_of(made_swaps.MINT, ENGINE.snapshot(0, UnixS(900_000)), UnixS(900_000))

    assert (
        "null"
        not in msgspec.json.encode((made.price.usd, made.price.sol, made.indicators)).decode()
    )


def test_fewer_than_nine_minutes_are_insufficient() -> None:
    ENGINE.clear(0)
    for n in range(9):
        with pytest.raises(InsufficientData, match=f"^{n} of 9 minutes with trades so far"):
            token_report(made_swaps.MINT, ENGINE.snapshot(0, UnixS(9999)), UnixS(9999))
        made_swaps.apply(ENGINE, 0, [Trade(60 * n, 1.0, 1.0, 1, is_buy=True)])

    assert (
        token_report(made_swaps.MINT, ENGINE.snapshot(0, UnixS(540)), UnixS(540)).price.usd == 1.0
    )


def test_a_cleared_row_is_new_and_its_neighbours_are_not_touched() -> None:
    first, second = made_swaps.stream(1, 300, 60.0), made_swaps.stream(2, 300, 60.0)
    for row, trades in enumerate((first, second)):
        ENGINE.clear(row)
        made_swaps.apply(ENGINE, row, trades)
    before = ENGINE.snapshot(1, UnixS(second[-1].time)).tobytes()
    ENGINE.clear(0)
    made_swaps.apply(ENGINE, 0, second)

    assert ENGINE.snapshot(1, UnixS(second[-1].time)).tobytes() == before
    assert ENGINE.snapshot(0, UnixS(second[-1].time)).tobytes() == before


def test_the_row_of_a_mint_takes_at_most_14500_bytes() -> None:
    assert ROW.itemsize <= 14_500


FALLBACK = """
import hashlib, sys
sys.path.insert(0, sys.argv[1])
from support.scenes import made_swaps
from mintscope.market.engine import kernels
from mintscope.market.engine.engine import Engine
engine, digest = Engine(1), hashlib.sha256()
for trades in (made_swaps.stream(3, 900, 40.0), made_swaps.stream(4, 400, 2000.0)):
    engine.clear(0)
    for part in range(0, len(trades), 100):
        made_swaps.apply(engine, 0, trades[part : part + 100])
        digest.update(engine.snapshot(0, trades[part : part + 100][-1].time + 7).tobytes())
print(hasattr(kernels.apply, "py_func"), digest.hexdigest())
"""


@pytest.mark.process
def test_plain_python_computes_the_same_bits() -> None:
    found = []
    for disabled in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", FALLBACK, str(Path(__file__).parents[1])],
            env={"NUMBA_DISABLE_JIT": disabled},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        found.append(done.stdout.split())

    assert [compiled for compiled, _ in found] == ["True", "False"]
    assert found[0][1] == found[1][1]


def test_a_kernel_without_a_file_for_its_cache_works() -> None:
    scope: dict[str, Callable[[int], int]] = {}
    exec("def double(x): return 2 * x", scope)  # of no file, as in a read-only installation

    assert kernel(scope["double"])(4) == 8
