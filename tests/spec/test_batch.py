"""POST /v1/tokens/batch: a report or an error for each mint, and the credits that are taken."""

from typing import Any

import httpx
import pytest

from mintscope.api.v1 import ReportBatch
from support.fakes.reports import REPORT, TOO_YOUNG, TRACKED, UNTRACKED
from support.scenes.payments.selling_api import SellingApi
from support.scenes.service import Service, bearer, credit_token

PATH = "/v1/tokens/batch"
OTHER = "JUPyiwrYJFskUPiHa7hkeR8VUtAeFoSYbKedZNsDvCN"


async def ask(service: Service, mints: list[str], token: str, **more: Any) -> httpx.Response:
    return await service.client.post(PATH, json={"mints": mints} | more, headers=bearer(token))


async def test_each_mint_gets_a_report_for_one_credit_or_an_error_for_free(
    service: Service,
) -> None:
    token = await service.issue(3)

    response = await ask(service, [UNTRACKED, TRACKED, TOO_YOUNG], token)

    data = response.json()["data"]
    assert response.status_code == 200
    assert data["delivered"] == 1
    assert [line["token"] for line in data["results"]] == [UNTRACKED, TRACKED, TOO_YOUNG]
    assert [line.get("error", {}).get("code") for line in data["results"]] == [
        "TOKEN_NOT_FOUND",
        None,
        "INSUFFICIENT_DATA",
    ]
    assert [("report" in line) for line in data["results"]] == [False, True, False]
    assert response.headers["x-credits-remaining"] == "2"
    assert response.headers["x-data-slot"] == "350000000"
    assert await service.left(token) == 2


async def test_the_report_in_a_batch_equals_that_of_a_single_request(service: Service) -> None:
    token = await service.issue(2)

    single = await service.client.get(f"/v1/token/{TRACKED}", headers=bearer(token))
    batch = await ask(service, [TRACKED], token)

    assert batch.json()["data"]["results"][0]["report"] == single.json()["data"]
    assert REPORT in batch.content


async def test_a_batch_without_a_report_costs_nothing(service: Service) -> None:
    token = await service.issue(1)

    response = await ask(service, [UNTRACKED, TOO_YOUNG], token)

    assert (response.status_code, response.json()["data"]["delivered"]) == (200, 0)
    assert "x-data-slot" not in response.headers
    assert response.headers["cache-control"] == "private, no-store"
    assert await service.left(token) == 1


async def test_stale_data_is_reported_for_each_mint_and_costs_nothing(service: Service) -> None:
    token = await service.issue(1)
    service.reports.age_ms = 300_001

    (line,) = (await ask(service, [TRACKED], token)).json()["data"]["results"]

    assert line["error"]["code"] == "DATA_STALE"
    assert await service.left(token) == 1


@pytest.mark.parametrize("left", [0, 1])
async def test_a_batch_takes_no_credit_if_the_balance_is_too_low(
    service: Service, left: int
) -> None:
    service.reports.others.add(OTHER)
    token = await service.issue(2)
    for _ in range(2 - left):
        await service.client.get(f"/v1/token/{TRACKED}", headers=bearer(token))

    response = await ask(service, [TRACKED, OTHER], token)

    assert response.status_code == 402
    assert response.json()["error"]["code"] == "INSUFFICIENT_CREDITS"
    assert f"balance is {left}" in response.json()["error"]["message"]
    assert await service.left(token) == left


async def test_further_timeframes_are_read_only_if_the_credits_cover_all_reports(
    service: Service,
) -> None:
    """A credit is needed only for a mint that has a report."""
    service.reports.others.add(OTHER)
    token = await service.issue(1)

    response = await ask(service, [TRACKED, OTHER], token, timeframes=["h4"])
    assert response.status_code == 402
    assert response.json()["error"]["code"] == "INSUFFICIENT_CREDITS"
    assert not any(kind.timeframes for kind in service.reports.kinds)

    response = await ask(service, [TRACKED, UNTRACKED], token, timeframes=["h4"])
    assert (response.status_code, response.json()["data"]["delivered"]) == (200, 1)
    assert service.reports.kinds[-1].timeframes == ("h4",)
    assert await service.left(token) == 0


@pytest.mark.parametrize("more", [{}, {"timeframes": ["h4"]}])
async def test_nothing_is_read_without_a_credit(service: Service, more: dict[str, Any]) -> None:
    token = await service.issue(1)
    await service.client.get(f"/v1/token/{TRACKED}", headers=bearer(token))
    service.reports.kinds.clear()

    response = await ask(service, [UNTRACKED, TOO_YOUNG], token, **more)

    assert response.status_code == 402
    assert response.json()["error"]["code"] == "INSUFFICIENT_CREDITS"
    assert service.reports.kinds == []


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"mints": [TRACKED, TRACKED]}, "BAD_REQUEST"),
        ({"mints": []}, "BAD_REQUEST"),
        ({"mints": [TRACKED] * 51}, "BAD_REQUEST"),
        ({"mints": TRACKED}, "BAD_REQUEST"),
        ({"mints": [1]}, "BAD_REQUEST"),
        ({"mints": [TRACKED], "more": 1}, "BAD_REQUEST"),
        ({}, "BAD_REQUEST"),
        ([TRACKED], "BAD_REQUEST"),
        ({"mints": [TRACKED, "abc"]}, "INVALID_TOKEN_ADDRESS"),
    ],
)
@pytest.mark.parametrize("has_credits", [True, False])
async def test_an_invalid_body_is_400_with_or_without_credits(
    service: Service, body: Any, code: str, *, has_credits: bool
) -> None:
    token = await service.issue(1)
    headers = bearer(token) if has_credits else {}

    response = await service.client.post(PATH, json=body, headers=headers)

    assert (response.status_code, response.json()["error"]["code"]) == (400, code)
    assert service.reports.reads == 0
    assert await service.left(token) == 1


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, (402, "PAYMENT_REQUIRED")),
        ({"authorization": "Basic dTpw"}, (401, "MISSING_TOKEN")),
        (bearer(credit_token(999)), (401, "INVALID_TOKEN")),
    ],
)
async def test_a_request_without_a_valid_credential_is_refused(
    service: Service, headers: dict[str, str], expected: tuple[int, str]
) -> None:
    response = await service.client.post(PATH, json={"mints": [TRACKED]}, headers=headers)

    assert (response.status_code, response.json()["error"]["code"]) == expected
    if expected[0] == 402:
        assert response.json()["error"]["message"].count("svc_credit_") == 1
    assert service.reports.reads == 0


async def test_a_payment_is_refused_and_the_error_names_the_purchase_endpoint(
    shop: SellingApi,
) -> None:
    unpaid = await shop.client.post(PATH, json={"mints": [TRACKED]})
    paid = await shop.client.post(
        PATH, json={"mints": [TRACKED]}, headers={"PAYMENT-SIGNATURE": "x"}
    )

    assert unpaid.status_code == 402
    assert "payment-required" not in unpaid.headers
    assert "POST /v1/credits/purchase" in unpaid.json()["error"]["message"]
    assert (paid.status_code, paid.json()["error"]["code"]) == (400, "INVALID_PAYMENT")
    assert "POST /v1/credits/purchase" in paid.json()["error"]["message"]


async def test_an_internal_error_costs_no_credit(service: Service) -> None:
    token = await service.issue(1)
    service.reports.bug = RuntimeError("a bug")

    response = await ask(service, [TRACKED], token)

    assert response.status_code == 500
    assert await service.left(token) == 1


async def test_openapi_describes_the_answer_of_a_batch(service: Service) -> None:
    document = (await service.client.get("/openapi.json")).json()
    schemas = document["components"]["schemas"]

    assert set(schemas[ReportBatch.__name__]["properties"]) == {"delivered", "results"}
    assert set(schemas["ReportLine"]["properties"]) == {"token", "report", "error"}
    assert "post" in document["paths"][PATH]
