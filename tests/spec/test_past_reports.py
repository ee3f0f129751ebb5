"""GET /v1/token/{tokenAddress}?at=: the report as it was served at a past time."""

from random import Random
from typing import Any

import httpx
import pytest
from series_service import (
    BEGIN_S,
    TOKEN,
    UNTRACKED,
    SeriesService,
)

from support.scenes.service import bearer
from support.scenes.traded import TradedStore


async def ask(
    market: SeriesService, token: str, at: object, mint: str = TOKEN, **query: str
) -> httpx.Response:
    answer: httpx.Response = await market.client.get(
        f"/v1/token/{mint}", params={"at": str(at), **query}, headers=bearer(token)
    )
    return answer


async def test_200_is_the_report_that_was_served_then(market: SeriesService) -> None:
    random = Random(5)
    token = await market.service.issue(1_000)
    served: dict[int, dict[str, Any]] = {}
    at = 0
    for slot in range(1, 300):
        at += random.randrange(40)
        await market.trade(at, random.uniform(1, 2), is_buy=random.random() < 0.5)
        if slot % 50 == 0:
            await market.traded.finalize(slot - 10)
        if slot > 100 and slot % 4 == 0:
            market.service.clock.advance(4_000)  # for the limit of 30 requests a minute
            served[slot] = (await market.report(token)).json()["data"]
    assert len(served) > 40

    for slot, report in served.items():
        market.service.clock.advance(4_000)
        answer = await ask(market, token, f"slot:{slot}")
        assert answer.status_code == 200, answer.text
        assert answer.json()["data"] == report
        assert answer.headers["x-data-slot"] == str(slot)
        assert answer.headers["x-data-status"] == "past"
        assert "etag" not in answer.headers
        assert answer.headers["cache-control"] == "private, no-store"
        by_time = (await ask(market, token, report["dataSpan"]["to"])).json()["data"]
        assert by_time["dataSpan"]["to"] == report["dataSpan"]["to"]


async def test_a_past_report_costs_a_credit_and_takes_the_options_of_reports(
    market: SeriesService,
) -> None:
    token = await market.service.issue(1)
    await market.trade(0, 2.0)
    await market.trade(30, 3.0)

    refused = await ask(market, token, BEGIN_S)
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "INSUFFICIENT_DATA")
    assert await market.service.left(token) == 1
    young = await ask(market, token, BEGIN_S, partial="true", candles="closed")
    assert young.status_code == 200
    assert young.json()["data"]["price"]["usd"] == 2.0
    assert young.json()["data"]["indicators"]["m1"]["fibonacci"] is None
    assert await market.service.left(token) == 0


async def test_a_404_names_the_span_of_the_reports_that_exist(market: SeriesService) -> None:
    token = await market.service.issue(1)
    assert "No block" in (await ask(market, token, 1)).json()["error"]["message"]
    await market.trade(7, 2.0)
    await market.trade(90, 3.0)
    for at in (BEGIN_S, BEGIN_S + 91, "slot:0", "slot:3"):
        answer = await ask(market, token, at)
        assert answer.status_code == 404
        assert answer.json()["error"] == {
            "code": "INSUFFICIENT_DATA",
            "message": f"There is no report as of {at}: exact ones reach from Unix time"
            f" {BEGIN_S + 7} at the earliest to slot 2 (Unix time {BEGIN_S + 90}).",
        }
        assert answer.headers["x-token-status"] == "insufficient-data"
    unknown = await ask(market, token, BEGIN_S, UNTRACKED)
    assert unknown.json()["error"]["code"] == "TOKEN_NOT_FOUND"
    assert await market.service.left(token) == 1


async def test_a_404_names_the_first_report_if_none_exists_yet(market: SeriesService) -> None:
    token = await market.service.issue(1)
    for at in (7, 90, 150):
        await market.trade(at, 2.0)
    await market.traded.finalize(3)
    market.service.clock.advance(3_600_000)
    assert isinstance(market.traded, TradedStore)
    await market.traded.trim()
    await market.trade(200, 3.0)

    answer = await ask(market, token, BEGIN_S)

    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "INSUFFICIENT_DATA")
    assert answer.json()["error"]["message"] == (
        f"There is no report as of {BEGIN_S}, and no other exact one yet: they begin at Unix time"
        f" {BEGIN_S + 907}, and the newest block is of {BEGIN_S + 200}."
    )
    assert await market.service.left(token) == 1


@pytest.mark.parametrize("at", ["now", "-1", "slot:", "slot:x", "1.5", "1" * 13])
async def test_an_invalid_time_is_refused(market: SeriesService, at: str) -> None:
    token = await market.service.issue(1)
    answer = await ask(market, token, at)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "BAD_REQUEST")
