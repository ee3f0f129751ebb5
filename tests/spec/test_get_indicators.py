"""GET /v1/token/{tokenAddress}/indicators: points with exact values, cursors, and errors."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from series_service import QUIET, UNTRACKED, SeriesService, series_service

from mintscope.api.series.wire import NAMES_MAX
from mintscope.market.indicators import INDICATORS
from mintscope.market.ports import MINUTES_S, Retention
from mintscope.market.series.series import NAMES
from mintscope.market.timeframe import WIDTH_S, Timeframe
from support.oracles import definitions
from support.scenes.service import credit_token

# The least retention, so that most candles are dropped.
LITTLE = Retention(
    {each: max(WIDTH_S[each], MINUTES_S * (each is Timeframe.M1)) for each in Timeframe}
)


@pytest.fixture
async def market(tmp_path: Path) -> AsyncIterator[SeriesService]:
    async with series_service(tmp_path, retention=LITTLE) as market:
        yield market


def price(n: int) -> float:
    return 100.0 + (n * 37 % 101) / 7


async def page(market: SeriesService, token: str, **query: Any) -> dict[str, Any]:
    response = await market.ask("indicators", credit_token=token, **query)
    assert response.status_code == 200, response.text
    return dict(response.json()["data"])


async def test_points_have_the_requested_indicators_and_null_without_enough_candles(
    market: SeriesService,
) -> None:
    token = await market.service.issue(2)
    for n in range(20):
        await market.trade(60 * n, price(n))

    usual = await page(market, token, tf="m1")
    asked = await page(market, token, tf="m1", names="rsi,bollinger,vwap", limit=1)

    assert [set(point) for point in usual["points"]] == [
        {"t", "isOpen", "ema9", "ema21", "ema50", "ema200", "rsi", "macd"}
    ] * 20
    assert [point["ema9"] is None for point in usual["points"]] == [True] * 8 + [False] * 12
    assert usual["points"][-1]["ema21"] is usual["points"][-1]["macd"] is None
    (newest,) = asked["points"]
    assert set(newest) == {"t", "isOpen", "rsi", "bollinger", "vwap"}
    assert [point["isOpen"] for point in usual["points"]] == [False] * 19 + [True]
    assert newest["bollinger"]["middle"] == pytest.approx(sum(map(price, range(20))) / 20)
    assert (usual["exactFrom"], usual["nextCursor"]) == (None, None)
    assert await market.service.left(token) == 0


@pytest.mark.parametrize("fill", ["none", "previous"])
async def test_points_have_the_candles_of_the_candles_endpoint(
    market: SeriesService, fill: str
) -> None:
    token = await market.service.issue(3)
    for n in range(30):
        await market.trade(90 * n, price(n))
    asked: dict[str, Any] = {"tf": "m1", "limit": 20, "fill": fill}

    points = (await page(market, token, names="candle,ema9", **asked))["points"]
    alone = (await page(market, token, names="candle", **asked))["points"]
    candles = (await market.ask("candles", credit_token=token, **asked)).json()["data"]["candles"]

    assert [set(point) for point in points] == [{"t", "isOpen", "candle", "ema9"}] * 20
    names = ("o", "h", "l", "c", "volume")
    expected = [(one["t"], {name: one[name] for name in names}) for one in candles]
    for found in (points, alone):
        assert [(point["t"], point["candle"]) for point in found] == expected


@pytest.mark.parametrize("tf", ["m1", "m5", "m15", "h1"])
async def test_the_newest_point_equals_the_report_at_the_same_slot(
    market: SeriesService, tf: str
) -> None:
    token = await market.service.issue(4)
    for n in range(120):
        await market.trade(3_000 * n, price(n))
    await market.traded.finalize(100)
    await market.trade(3_000 * 120, 1.0)

    reported = (await page(market, token, tf=tf, names=",".join(NAMES), limit=3))["points"][-1]
    report = (await market.report(token)).json()["data"]["indicators"][tf]

    assert {name: reported[name] for name in report} == report


async def test_values_are_exact_if_older_candles_were_dropped(market: SeriesService) -> None:
    """The expected values are computed from every candle; most candles are no longer stored."""
    token, count = await market.service.issue(20), 260
    for n in range(count):
        await market.trade(300 * n, price(n))
    await market.traded.finalize(count - 10)
    closes = [price(n) for n in range(count)]
    ema, rsi = definitions.ema(closes, 200), definitions.rsi(closes)

    points: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    exact_from = None
    while exact_from is None:
        reported = await page(market, token, tf="m5", names="ema200,rsi", limit=30, **cursor)
        points = reported["points"] + points
        exact_from = reported["exactFrom"]
        cursor = {"cursor": reported["nextCursor"]}
    assert reported["nextCursor"] is None
    assert points[0]["t"] == exact_from
    assert 46 <= len(points) < count
    for value, expected in zip(points, range(count - len(points), count), strict=True):
        assert value["ema200"] == (
            None if ema[expected] is None else pytest.approx(ema[expected], rel=1e-9)
        )
        assert value["rsi"] == pytest.approx(rsi[expected], rel=1e-9)


@pytest.mark.parametrize("finalized", [False, True], ids=["tail", "folded"])
async def test_filled_indicators_are_computed_from_a_candle_in_each_span(
    market: SeriesService, *, finalized: bool
) -> None:
    """The expected values are computed from closes that the test itself has filled."""
    token, minutes = await market.service.issue(20), [*range(0, 90, 3), 700, 3_900, 4_000, 4_001]
    closes: list[float] = []
    for n, minute in enumerate(minutes):
        await market.trade(60 * minute, price(n))
        closes += closes[-1:] * (minute - len(closes)) + [price(n)]
    if finalized:
        await market.traded.finalize(len(minutes) - 2)
    ema, rsi = definitions.ema(closes, 200), definitions.rsi(closes)

    points: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while len(points) < len(closes):
        reported = await page(
            market, token, tf="m1", names="ema200,rsi,fibonacci", fill="previous", limit=900,
            **cursor,
        )  # fmt: skip
        points = reported["points"] + points
        assert reported["exactFrom"] is None
        if reported["nextCursor"] is None:
            break
        cursor = {"cursor": reported["nextCursor"]}

    base = points[0]["t"]
    assert [point["t"] for point in points] == [base + 60 * n for n in range(len(closes))]
    assert [point["isOpen"] for point in points] == [False] * (len(closes) - 1) + [True]
    for point, average, strength in zip(points, ema, rsi, strict=True):
        assert point["ema200"] == (None if average is None else pytest.approx(average, rel=1e-9))
        assert point["rsi"] == (None if strength is None else pytest.approx(strength, abs=1e-7))
    assert points[-1]["fibonacci"]["swingHigh"] == max(closes[-100:])


async def test_errors_equal_those_of_the_report(market: SeriesService) -> None:
    token = await market.service.issue(1)
    await market.trade(0, 1.0)

    async def refused(**asked: Any) -> tuple[int, str]:
        response = await market.ask("indicators", **({"tf": "m1"} | asked))
        return response.status_code, response.json()["error"]["code"]

    assert await refused(mint="abc") == (400, "INVALID_TOKEN_ADDRESS")
    for wrong in (
        {"tf": "w1"},
        {"names": "smaa"},
        {"fill": "no"},
        {"names": ""},
        {"limit": 1_001},
        {"cursor": "x"},
    ):
        assert await refused(**wrong) == (400, "BAD_REQUEST")
    assert await refused() == (402, "PAYMENT_REQUIRED")
    assert await refused(credit_token=credit_token(99)) == (401, "INVALID_TOKEN")
    assert await refused(credit_token=token, mint=UNTRACKED) == (404, "TOKEN_NOT_FOUND")
    for tf in ("m1", "s15", "h4"):
        expected = (404, "INSUFFICIENT_DATA")
        assert await refused(credit_token=token, mint=QUIET, tf=tf) == expected
    market.service.clock.step(301_000)
    assert await refused(credit_token=token) == (503, "DATA_STALE")
    assert await market.service.left(token) == 1


async def test_indicators_with_parameters_have_their_names_as_keys(market: SeriesService) -> None:
    token = await market.service.issue(1)
    for n in range(60):
        await market.trade(60 * n, price(n))

    names = "rsi,sma(50),macd(5,35,5),adx,sma(50)"
    points = (await page(market, token, tf="m1", names=names))["points"]

    assert set(points[-1]) == {"t", "isOpen", "rsi", "values"}
    newest, oldest = points[-1]["values"], points[0]["values"]
    assert list(newest) == ["sma(50)", "macd(5,35,5)", "adx"]
    assert newest["sma(50)"] == pytest.approx(sum(map(price, range(10, 60))) / 50)
    assert set(newest["macd(5,35,5)"]) == {"line", "signal", "histogram"}
    assert set(newest["adx"]) == {"adx", "plusDi", "minusDi"}
    assert oldest == {"sma(50)": None, "macd(5,35,5)": None, "adx": None}


@pytest.mark.parametrize("fill", ["none", "previous"])
@pytest.mark.parametrize("count", [1, 2])
async def test_each_indicator_has_points_for_the_first_candles(
    market: SeriesService, count: int, fill: str
) -> None:
    names = [each.usual for each in INDICATORS.values()]
    pages = [names[first : first + NAMES_MAX] for first in range(0, len(names), NAMES_MAX)]
    token = await market.service.issue(len(pages))
    for n in range(count):
        await market.trade(86_400 * n, price(n))

    for some in pages:
        found = await page(market, token, tf="d1", names=",".join(some), fill=fill)
        assert [list(point["values"]) for point in found["points"]] == [some] * count


@pytest.mark.parametrize("fill", ["none", "previous"])
async def test_short_pages_of_indicators_equal_one_long_page(
    market: SeriesService, fill: str
) -> None:
    """The short pages are joined by their cursors."""
    token, names = await market.service.issue(10), "ema(34),psar,obv,avwap(1700000400),keltner"
    for n in range(90):
        await market.trade(60 * n + 60 * (n // 40), price(n))

    whole = (await page(market, token, tf="m1", names=names, fill=fill))["points"]
    points: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while len(points) < len(whole):
        reported = await page(market, token, tf="m1", names=names, fill=fill, limit=20, **cursor)
        points = reported["points"] + points
        cursor = {"cursor": reported["nextCursor"]}

    assert points == whole
    assert points[-1]["values"]["ema(34)"] is not None


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        ("sma(20", "expected an indicator such as rsi or sma(20); was 'sma(20'"),
        ("nosuch", "expected an indicator such as rsi or sma(20); was 'nosuch'"),
        ("sma(1)", "sma: period: expected an integer from 2 to 200; was '1'"),
        ("sma(2.5)", "sma: period: expected an integer from 2 to 200; was '2.5'"),
        ("sma(20,3)", "sma: expected at most the parameters period; was 'sma(20,3)'"),
        ("macd(26,12,9)", "macd: expected fast below slow; was 'macd(26,12,9)'"),
    ],
)
async def test_an_invalid_indicator_is_refused_and_free(
    market: SeriesService, names: str, problem: str
) -> None:
    token = await market.service.issue(1)
    await market.trade(60, 1.0)

    response = await market.ask("indicators", credit_token=token, tf="m1", names=names)

    assert (response.status_code, response.json()["error"]["message"]) == (400, f"names: {problem}")
    assert await market.service.left(token) == 1
