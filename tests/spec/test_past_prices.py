"""POST /v1/prices: prices of tokens at past times."""

from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest
from msgspec.structs import replace
from series_service import (
    BEGIN_S,
    QUIET,
    TOKEN,
    UNTRACKED,
    SeriesService,
    series_service,
)
from typing_extensions import override

from mintscope.kit.primitives import Mint
from mintscope.kit.time import DAY_S
from mintscope.market.log import LogTip
from mintscope.market.ports import DEFAULT_RETENTION, MINUTES_S
from mintscope.market.series.pools import AskedCandles, KeptCandles
from mintscope.market.timeframe import Timeframe
from support.fakes.series import FakeSeries
from support.scenes.live_market import traded_log
from support.scenes.service import NOW, Service, bearer, refusal, running_service

KEEP_S = {**DEFAULT_RETENTION.keep_s, Timeframe.M1: MINUTES_S}


@pytest.fixture
async def market(tmp_path: Path) -> AsyncIterator[SeriesService]:
    retention = replace(DEFAULT_RETENTION, keep_s=KEEP_S)
    async with series_service(tmp_path, retention=retention) as market:
        yield market


async def ask(
    market: SeriesService | Service, token: str, *pairs: tuple[str, int]
) -> httpx.Response:
    prices = [{"mint": mint, "t": at} for mint, at in pairs]
    body = {"prices": prices}
    answer: httpx.Response = await market.client.post(
        "/v1/prices", json=body, headers=bearer(token)
    )
    return answer


async def test_a_price_is_that_of_the_newest_candle_closed_at_that_time(
    market: SeriesService,
) -> None:
    """The expected price is that of the last swap before the minute of the requested time."""
    random, swaps = Random(2), []
    for n in range(60):
        at = 40 * n + random.randrange(30)
        swaps.append((at, 1.0 + n))
        await market.trade(at, 1.0 + n)
    token = await market.service.issue(1)
    newest = swaps[-1][0]
    times = [random.randrange(60, newest) for _ in range(100)]

    response = await ask(market, token, *((TOKEN, BEGIN_S + at) for at in times))

    assert response.status_code == 200, response.text
    assert response.headers["x-credits-remaining"] == "0"
    data = response.json()["data"]
    assert data["found"] == 100
    for at, line in zip(times, data["prices"], strict=True):
        before = [(t, usd) for t, usd in swaps if t < at - at % 60]
        last, usd = before[-1]
        assert line == {
            "token": TOKEN,
            "t": BEGIN_S + at,
            "price": {
                "usd": usd, "sol": pytest.approx(usd / 100),
                "closedAt": BEGIN_S + last - last % 60 + 60, "tf": "m1",
            },
        }  # fmt: skip


async def test_an_unknown_price_has_an_error_beside_known_prices(market: SeriesService) -> None:
    await market.trade(0, 2.0)
    await market.trade(90, 3.0)
    token = await market.service.issue(2)
    asked = [(UNTRACKED, BEGIN_S), (QUIET, BEGIN_S), (TOKEN, BEGIN_S + 59), (TOKEN, BEGIN_S + 60)]

    data = (await ask(market, token, *asked)).json()["data"]
    codes = [line.get("error", {}).get("code") for line in data["prices"]]
    assert codes == ["TOKEN_NOT_FOUND", "INSUFFICIENT_DATA", "INSUFFICIENT_DATA", None]
    assert (data["found"], await market.service.left(token)) == (1, 1)

    assert (await ask(market, token, *asked[:3])).json()["data"]["found"] == 0
    assert await market.service.left(token) == 1


class Counted(FakeSeries):
    """A series that counts how often the tip of the log and the candles are read."""

    reads = 0

    @override
    async def tip(self) -> LogTip:
        self.reads += 1
        return await super().tip()

    @override
    async def candles(
        self, mint: Mint, asked: AskedCandles, known: KeptCandles | None = None
    ) -> KeptCandles | None:
        self.reads += 1
        return await super().candles(mint, asked, known)


@pytest.mark.parametrize("ago_s", [0, DAY_S], ids=["known", "unknown"])
async def test_a_client_without_credits_is_402_and_no_price_is_read(
    tmp_path: Path, ago_s: int
) -> None:
    """The same holds if no price is known, an answer that is free for a client with credits."""
    now_s = NOW // 1000
    series = Counted(traded_log(now_s))
    async with running_service(tmp_path, series=series) as service:
        token = await service.issue(1)
        assert (await ask(service, token, (TOKEN, now_s))).json()["data"]["found"] == 1
        assert series.reads > 0
        series.reads = 0

        refused = await ask(service, token, (TOKEN, now_s - ago_s))

    assert refusal(refused) == (402, "INSUFFICIENT_CREDITS")
    assert series.reads == 0


async def test_a_price_is_that_of_a_wider_candle_if_narrow_candles_are_gone(
    market: SeriesService,
) -> None:
    for minute in range(120):
        await market.trade(60 * minute, 1.0 + minute)
    await market.trade(3 * DAY_S, 500.0)
    await market.traded.finalize(market.slots)
    token = await market.service.issue(1)

    page = (await ask(market, token, (TOKEN, BEGIN_S + 600), (TOKEN, BEGIN_S + 7_200))).json()

    old, new = (line["price"] for line in page["data"]["prices"])
    assert (new["tf"], new["usd"]) == ("m1", 120.0)
    assert old["tf"] == "m5"
    assert old["closedAt"] <= BEGIN_S + 600
    assert old["usd"] == (old["closedAt"] - BEGIN_S) // 60


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "BAD_REQUEST"),
        ({"prices": []}, "BAD_REQUEST"),
        ({"prices": [{"mint": TOKEN}]}, "BAD_REQUEST"),
        ({"prices": [{"mint": TOKEN, "t": -1}]}, "BAD_REQUEST"),
        ({"prices": [{"mint": TOKEN, "t": 1, "at": 1}]}, "BAD_REQUEST"),
        ({"prices": [{"mint": TOKEN, "t": 1}] * 101}, "BAD_REQUEST"),
        ({"prices": [{"mint": "abc", "t": 1}]}, "INVALID_TOKEN_ADDRESS"),
    ],
)
async def test_an_invalid_body_is_400_and_free(market: SeriesService, body: Any, code: str) -> None:
    token = await market.service.issue(1)
    response = await market.client.post("/v1/prices", json=body, headers=bearer(token))
    assert (response.status_code, response.json()["error"]["code"]) == (400, code)
    assert await market.service.left(token) == 1
