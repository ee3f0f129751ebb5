"""GET /v1/token/{tokenAddress}/backtest: firings of a condition, returns, errors and cost."""

from math import exp
from random import Random
from typing import Any

import pytest
from series_service import (
    BEGIN_S,
    QUIET,
    UNTRACKED,
    SeriesService,
)

from support.scenes.service import credit_token

RISING = "price > 1.5"


async def test_a_backtest_has_every_field_of_its_firings_and_horizons(
    market: SeriesService,
) -> None:
    token = await market.service.issue(2)
    for minute, price in enumerate((1.0, 2.0, 2.2, 1.8, 2.0, 1.0, 3.0)):
        await market.trade(60 * minute, price)
    await market.trade(60 * 7 + 30, 3.0)  # its minute is open, and not evaluated

    response = await market.ask(
        "backtest", credit_token=token, where=RISING, tf="m1", feeBps=100, from_=BEGIN_S + 120
    )

    assert response.status_code == 200, response.text
    assert response.headers["x-credits-remaining"] == "1"
    kept = 0.99 * 0.99
    data = response.json()["data"]
    assert {name: data[name] for name in ("tf", "from", "to", "looks", "fired")} == {
        "tf": "m1", "from": BEGIN_S + 120, "to": BEGIN_S + 420, "looks": 6, "fired": 2,
    }  # fmt: skip
    assert data["firings"] == [
        {
            "t": BEGIN_S + 120,
            "price": 2.0,
            "returns": {
                "m5": pytest.approx(1.5 * kept - 1), "h1": None, "h4": None, "d1": None,
            },
            "best": pytest.approx(0.5),
            "worst": pytest.approx(-0.5),
        },
        {
            "t": BEGIN_S + 420,
            "price": 3.0,
            "returns": {"m5": None, "h1": None, "h4": None, "d1": None},
            "best": None,
            "worst": None,
        },
    ]  # fmt: skip
    assert data["horizons"][0] == {
        "after": "m5",
        "count": 1,
        "hitRate": 1.0,
        "meanReturn": pytest.approx(1.5 * kept - 1),
        "allCount": 1,
        "allHitRate": 1.0,
        "allMeanReturn": pytest.approx(1.5 * kept - 1),
    }


async def test_the_price_impact_of_a_trade_is_taken_off_the_returns(market: SeriesService) -> None:
    """In a pool with 1,000 dollars on each side, a trade of 10 dollars costs 1 % each way."""
    price = 1.0
    slots = []
    for minute in range(80):
        net = 50 if minute % 2 else -50
        slots.append(market.made(60 * minute, price, volume=0))
        price *= exp(2 * net / 1_000)
        slots.append(market.made(60 * minute + 30, price, is_buy=net > 0, volume=50 * 10**6))
    await market.add([*slots, market.made(60 * 81, price)])

    async def first(**size: Any) -> dict[str, float]:
        token = await market.service.issue(1)
        asked: dict[str, Any] = {"where": "price > 0", "tf": "m1", "feeBps": 0}
        asked |= {"from_": BEGIN_S + 60 * 60}
        answer = await market.ask("backtest", credit_token=token, **asked, **size)
        found: dict[str, float] = answer.json()["data"]["horizons"][0]
        return found

    free, moved = await first(), await first(tradeUsd=10.0)
    factor = 1.01**2
    assert moved["allMeanReturn"] == pytest.approx((free["allMeanReturn"] + 1) / factor - 1)


async def test_a_backtest_from_a_later_start_has_the_same_firings(market: SeriesService) -> None:
    """Averages continue from a stored waypoint, so a later start does not change them."""
    random, price = Random(1), 10.0
    slots = []
    for minute in range(400):
        price *= random.uniform(0.98, 1.0205)
        slots.append(market.made(60 * minute, price))
    await market.add(slots)
    since = BEGIN_S + 60 * 200
    where = "crosses_above(ema9_m1, ema21_m1) or crosses_below(rsi_m1, 40)"

    async def firings(**asked: Any) -> list[object]:
        token = await market.service.issue(1)
        page = await market.ask("backtest", credit_token=token, where=where, tf="m1", **asked)
        return [each for each in page.json()["data"]["firings"] if each["t"] >= since]

    whole = await firings()
    assert len(whole) > 2
    assert await firings(from_=since) == whole
    where = "rsi_m5 > 55 and ema9_m5 > ema21_m5"  # fields of wider candles
    closed, opened = [await firings(candles=each) for each in ("closed", "all")]
    assert len(opened) > 2
    assert opened != closed
    assert await firings(from_=since, candles="all") == opened
    refused = await market.ask("backtest", where=where, candles="open")
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "BAD_REQUEST")


async def test_a_backtest_without_a_closed_candle_is_free(market: SeriesService) -> None:
    token = await market.service.issue(1)
    await market.trade(0, 1.0)

    response = await market.ask("backtest", credit_token=token, where=RISING, tf="m1")

    data = response.json()["data"]
    assert (data["looks"], data["from"], data["firings"]) == (0, None, [])
    assert await market.service.left(token) == 1


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({}, "expected the query field where; it is missing"),
        ({"where": "rsi_m5 <"}, "where: at character 9: expected a field"),
        ({"where": "liquidity > 1"}, "where: liquidity has no stored past"),
        (
            {"where": "rsi_m1 > 1"},
            "where: rsi_m1: tf m5 allows fields of m5, m15, m30, h1,",
        ),
        ({"where": RISING, "tf": "d2"}, "tf: expected one of"),
        ({"where": "rsi_s15 > 1"}, "rsi_s15: tf m5 allows fields of m5,"),
        ({"where": RISING, "feeBps": 1001}, "feeBps: expected an integer from 0 to 1000"),
        ({"where": RISING, "tradeUsd": -1}, "tradeUsd: expected a number from 0 to"),
        ({"where": RISING, "tradeUsd": "1" * 400}, "tradeUsd: expected a number from 0 to"),
        ({"where": RISING, "from_": 2, "to": 1}, "from: expected at most 1, which is `to`"),
    ],
)
async def test_an_invalid_query_is_refused_with_a_message_and_costs_nothing(
    market: SeriesService, asked: dict[str, Any], problem: str
) -> None:
    token = await market.service.issue(1)
    await market.trade(0, 1.0)

    response = await market.ask("backtest", credit_token=token, **asked)

    assert (response.status_code, response.json()["error"]["code"]) == (400, "BAD_REQUEST")
    assert problem in response.json()["error"]["message"]
    assert await market.service.left(token) == 1


async def test_a_token_without_candles_is_404_and_costs_nothing(market: SeriesService) -> None:
    token = await market.service.issue(1)
    await market.trade(0, 1.0)
    statuses = {UNTRACKED: (404, "TOKEN_NOT_FOUND"), QUIET: (404, "INSUFFICIENT_DATA")}
    for mint, expected in statuses.items():
        answer = await market.ask("backtest", credit_token=token, mint=mint, where=RISING)
        assert (answer.status_code, answer.json()["error"]["code"]) == expected
    assert await market.service.left(token) == 1


async def test_a_long_condition_is_402_unpaid_and_401_with_an_unknown_token(
    market: SeriesService,
) -> None:
    where = " and ".join(["price > 1.5"] * 18)
    response = await market.ask("backtest", where=where)
    unpaid = await market.ask("backtest", credit_token=credit_token(9), where=where)
    assert (response.status_code, unpaid.status_code) == (402, 401)
