"""`candles=closed` and `partial=true` of reports, batches, series and streams."""

from pathlib import Path
from typing import Any

import pytest
from series_service import QUIET, TOKEN, SeriesService

from mintscope.market.report import REPORTED
from support.scenes.live_market import TOO_NEW, TRADED
from support.scenes.service import bearer
from support.scenes.streaming import streaming_service


async def report(market: SeriesService, credit_token: str, **query: str) -> dict[str, Any]:
    await market.follower.catch_up()
    path = f"/v1/token/{TOKEN}"
    response = await market.client.get(path, params=query, headers=bearer(credit_token))
    assert response.status_code == 200, response.text
    return dict(response.json()["data"])


async def test_a_partial_report_is_served_after_the_first_priced_swap(
    market: SeriesService,
) -> None:
    token = await market.service.issue(3)
    await market.trade(0, 2.0)
    refused = await market.report(token)
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "INSUFFICIENT_DATA")
    assert refused.json()["error"]["message"].startswith("1 of 9 minutes with trades so far")

    young = await report(market, token, partial="true")
    assert (young["price"]["usd"], young["price"]["sol"]) == (2.0, 0.02)
    assert young["indicators"]["m1"]["ema9"] is None
    assert young["indicators"]["m1"]["fibonacci"]["swingHigh"] == 2.0
    assert young["dataSpan"]["candleCounts"] == {"m1": 1, "m5": 1, "m15": 1, "h1": 1}
    assert await market.service.left(token) == 2


async def test_a_partial_report_of_a_token_without_a_price_is_refused_and_free(
    market: SeriesService,
) -> None:
    token = await market.service.issue(1)
    await market.trade(0, None)
    await market.follower.catch_up()
    for mint in (TOKEN, QUIET):
        path = f"/v1/token/{mint}?partial=true"
        refused = await market.client.get(path, headers=bearer(token))
        assert (refused.status_code, refused.json()["error"]["code"]) == (404, "INSUFFICIENT_DATA")
    assert await market.service.left(token) == 1


async def test_a_report_with_enough_history_is_the_same_with_partial(
    market: SeriesService,
) -> None:
    token = await market.service.issue(2)
    for n in range(12):
        await market.trade(60 * n, 1.0 + n / 7)
    assert await report(market, token, partial="true") == await report(market, token)


async def test_a_closed_report_does_not_change_while_a_candle_is_open(
    market: SeriesService,
) -> None:
    token = await market.service.issue(9)
    for n in range(10):
        await market.trade(60 * n, 1.0 + n)
    plain = await report(market, token)
    await market.trade(600, 20.0)
    closed = await report(market, token, candles="closed")
    assert closed["indicators"]["m1"] == plain["indicators"]["m1"]
    assert closed["price"]["usd"] == 20.0
    await market.trade(659, 30.0)
    again = await report(market, token, candles="closed")
    assert again["indicators"]["m1"] == closed["indicators"]["m1"]
    assert (await report(market, token))["indicators"]["m1"] != closed["indicators"]["m1"]

    last = (await report(market, token))["indicators"]["m1"]
    await market.trade(660, None)  # the minute is over; nothing sets a price in the next
    assert (await report(market, token, candles="closed"))["indicators"]["m1"] == last


async def test_a_batch_takes_the_same_options(market: SeriesService) -> None:
    token = await market.service.issue(9)
    await market.trade(0, 2.0)
    body = {"mints": [TOKEN], "partial": True, "candles": "closed"}
    await market.follower.catch_up()
    answer = await market.client.post("/v1/tokens/batch", json=body, headers=bearer(token))
    plain = await market.client.post(
        "/v1/tokens/batch", json={"mints": [TOKEN]}, headers=bearer(token)
    )
    (refused,) = plain.json()["data"]["results"]
    assert refused["error"]["message"].startswith("1 of 9 minutes with trades so far")
    (line,) = answer.json()["data"]["results"]
    assert line["report"]["price"]["usd"] == 2.0
    assert line["report"]["indicators"]["m1"] == dict.fromkeys(REPORTED)


@pytest.mark.parametrize("path", ["candles", "indicators"])
@pytest.mark.parametrize("fill", ["none", "previous"])
async def test_a_series_of_closed_candles_ends_before_the_open_candle(
    market: SeriesService, path: str, fill: str
) -> None:
    token = await market.service.issue(3)
    for n in (0, 1, 2, 4):
        await market.trade(60 * n, 1.0 + n)
    kind = "candles" if path == "candles" else "points"
    whole, closed, short = [
        (await market.ask(path, credit_token=token, tf="m1", fill=fill, **query)).json()["data"]
        for query in ({}, {"candles": "closed"}, {"candles": "closed", "limit": 2})
    ]
    assert whole[kind][-1]["isOpen"]
    assert closed[kind] == whole[kind][:-1]
    assert short[kind] == whole[kind][-3:-1]
    assert short["nextCursor"]


async def test_a_stream_takes_the_options_partial_and_closed(tmp_path: Path) -> None:
    async with streaming_service(tmp_path) as streaming:
        headers = bearer(await streaming.service.issue(4))
        path = f"/v1/stream?mints={TOO_NEW}"
        refused = await streaming.service.client.get(path, headers=headers)
        assert refused.json()["error"]["code"] == "INSUFFICIENT_DATA"
        assert refused.json()["error"]["message"].startswith("0 of 9 minutes with trades so far")

        token = await streaming.service.issue(4)
        await streaming.trade(TOO_NEW, TRADED[0])
        query = "&partial=true&candles=closed"
        async with streaming.open(token, [TOO_NEW, TRADED[0]], query) as reader:
            _, young, old = await reader.some(3)
    assert young.data["indicators"]["m1"]["ema9"] is None
    assert old.data["indicators"]["m1"]["ema9"] is not None


@pytest.mark.parametrize(
    ("query", "what"),
    [
        ("candles=open", "candles: expected one of all, closed; was 'open'"),
        ("partial=perhaps", "partial: expected one of true, false; was 'perhaps'"),
        ("partial=true&partial=true", "partial: expected once; was there several times"),
    ],
)
async def test_an_invalid_option_is_refused_and_free(
    market: SeriesService, query: str, what: str
) -> None:
    token = await market.service.issue(1)
    answer = await market.client.get(f"/v1/token/{TOKEN}?{query}", headers=bearer(token))
    assert (answer.status_code, answer.json()["error"]["message"]) == (400, what)
    assert await market.service.left(token) == 1
