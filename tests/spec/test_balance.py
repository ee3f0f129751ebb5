"""GET /v1/credits/balance: the balance of a credit token."""

import pytest

from support.fakes.reports import TRACKED
from support.scenes.service import Service, bearer, credit_token

BALANCE = "/v1/credits/balance"
UNKNOWN = credit_token(999)


async def test_the_balance_has_no_request_id_in_its_body(service: Service) -> None:
    token = await service.issue(7)

    response = await service.client.get(BALANCE, headers=bearer(token))

    assert response.status_code == 200
    assert response.json() == {
        "success": True,
        "data": {"balance": 7},
        "meta": {"timestamp": "2025-06-15T15:06:40.000Z"},
    }
    assert response.headers["x-request-id"]
    assert response.headers["cache-control"] == "no-store"


async def test_a_balance_request_costs_no_credit(service: Service) -> None:
    token = await service.issue(1)

    answers = [
        (await service.client.get(BALANCE, headers=bearer(token))).json()["data"] for _ in range(3)
    ]

    assert answers == [{"balance": 1}] * 3


async def test_a_balance_of_zero_is_answered_200(service: Service) -> None:
    token = await service.issue(1)
    await service.client.get(f"/v1/token/{TRACKED}", headers=bearer(token))

    response = await service.client.get(BALANCE, headers=bearer(token))

    assert (response.status_code, response.json()["data"]) == (200, {"balance": 0})


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, (401, "MISSING_TOKEN")),
        ({"authorization": ""}, (401, "MISSING_TOKEN")),
        ({"authorization": "Bearer"}, (401, "MISSING_TOKEN")),
        ({"authorization": "Basic dTpw"}, (401, "MISSING_TOKEN")),
        (bearer("svc_credit_123"), (401, "INVALID_TOKEN")),
        (bearer("svc_live_" + "0" * 80), (401, "INVALID_TOKEN")),
        (bearer(UNKNOWN), (401, "INVALID_TOKEN")),
    ],
)
async def test_a_missing_or_unknown_credit_token_is_401(
    service: Service, headers: dict[str, str], expected: tuple[int, str]
) -> None:
    response = await service.client.get(BALANCE, headers=headers)
    body = response.json()

    assert (response.status_code, body["error"]["code"]) == expected
    assert body["success"] is False
    assert body["meta"]["requestId"] == response.headers["x-request-id"]
