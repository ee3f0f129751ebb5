"""GET /v1/token/{tokenAddress}: a report for one credit, its headers, and free errors."""

import re
from typing import Any

import httpx
import pytest

from mintscope.kit.errors import ServiceUnavailable
from support.fakes.reports import TOO_YOUNG, TRACKED, UNTRACKED
from support.scenes.service import Service, bearer, credit_token

UNKNOWN = credit_token(999)
MISTYPED = UNKNOWN[:-1] + ("0" if UNKNOWN[-1] != "0" else "1")


def refusal(response: httpx.Response) -> tuple[int, str]:
    body = response.json()
    assert set(body) == {"success", "error", "meta"}
    assert body["success"] is False
    assert set(body["error"]) == {"code", "message"}
    assert body["error"]["message"]
    assert set(body["meta"]) == {"timestamp", "requestId"}
    assert body["meta"]["requestId"] == response.headers["x-request-id"]
    assert response.headers["content-type"] == "application/json"
    assert "no-store" in response.headers["cache-control"]
    return response.status_code, body["error"]["code"]


async def test_200_is_the_envelope_with_the_report(service: Service) -> None:
    token = await service.issue(3)

    response = await service.client.get(f"/v1/token/{TRACKED}", headers=bearer(token))

    assert response.status_code == 200
    assert response.json() == {
        "success": True,
        "data": {"token": TRACKED, "price": {"usd": 150.5, "sol": 1.0}},
        "meta": {
            "timestamp": "2025-06-15T15:06:40.000Z",
            "requestId": response.headers["x-request-id"],
        },
    }


async def test_200_consumes_one_credit_and_returns_the_remaining_credits(service: Service) -> None:
    token = await service.issue(3)

    left = [
        (await service.client.get(f"/v1/token/{TRACKED}", headers=bearer(token))).headers[
            "x-credits-remaining"
        ]
        for _ in range(3)
    ]

    assert left == ["2", "1", "0"]
    assert await service.left(token) == 0


async def test_200_has_the_age_of_the_data_and_must_be_revalidated_by_caches(
    service: Service,
) -> None:
    token = await service.issue(3)

    headers = (await service.client.get(f"/v1/token/{TRACKED}", headers=bearer(token))).headers

    assert headers["content-type"] == "application/json"
    assert headers["cache-control"] == "private, no-cache"
    assert headers["x-data-slot"] == "350000000"
    assert headers["x-data-age-ms"] == "412"
    assert headers["x-data-status"] == "live"


@pytest.mark.parametrize(
    ("age_ms", "status", "said"),
    [(30_000, 200, "live"), (30_001, 200, "degraded"), (300_000, 200, "degraded")],
)
async def test_data_older_than_30_s_is_served_degraded(
    service: Service, age_ms: int, status: int, said: str
) -> None:
    token = await service.issue(1)
    service.reports.age_ms = age_ms

    response = await service.client.get(f"/v1/token/{TRACKED}", headers=bearer(token))

    assert (response.status_code, response.headers["x-data-status"]) == (status, said)


async def test_data_older_than_300_s_is_refused_and_free(service: Service) -> None:
    token = await service.issue(1)
    service.reports.age_ms = 300_001

    response = await service.client.get(f"/v1/token/{TRACKED}", headers=bearer(token))

    assert refusal(response) == (503, "DATA_STALE")
    assert response.headers["x-token-status"] == "stale"
    assert await service.left(token) == 1


@pytest.mark.parametrize(
    ("address", "headers", "expected"),
    [
        # the address comes before any credential
        ("abc", {}, (400, "INVALID_TOKEN_ADDRESS")),
        ("0" * 44, {}, (400, "INVALID_TOKEN_ADDRESS")),  # 0 is no base58 digit
        ("z" * 44, {}, (400, "INVALID_TOKEN_ADDRESS")),  # 33 bytes
        ("1" * 31, {}, (400, "INVALID_TOKEN_ADDRESS")),  # 31 bytes
        ("1" * 45, {}, (400, "INVALID_TOKEN_ADDRESS")),
        (TRACKED + "%20", {}, (400, "INVALID_TOKEN_ADDRESS")),
        (TRACKED + "%00", {}, (400, "INVALID_TOKEN_ADDRESS")),
        (TRACKED + "%0A", {}, (400, "INVALID_TOKEN_ADDRESS")),
        (TRACKED[:-1] + "é", {}, (400, "INVALID_TOKEN_ADDRESS")),
        (TRACKED + ";a=b", {}, (400, "INVALID_TOKEN_ADDRESS")),
        ("abc", bearer(UNKNOWN), (400, "INVALID_TOKEN_ADDRESS")),
        # no credential
        (TRACKED, {}, (402, "PAYMENT_REQUIRED")),
        (TOO_YOUNG, {}, (402, "PAYMENT_REQUIRED")),
        (UNTRACKED, {}, (402, "PAYMENT_REQUIRED")),
        # a credential that is not a bearer token
        (TRACKED, {"authorization": ""}, (401, "MISSING_TOKEN")),
        (TRACKED, {"authorization": "Bearer"}, (401, "MISSING_TOKEN")),
        (TRACKED, {"authorization": "BEARER"}, (401, "MISSING_TOKEN")),
        (TRACKED, {"authorization": "Basic dTpw"}, (401, "MISSING_TOKEN")),
        (TRACKED, {"authorization": UNKNOWN}, (401, "MISSING_TOKEN")),
        # a bearer token that is not one of our credit tokens
        (TRACKED, bearer("svc_credit_"), (401, "INVALID_TOKEN")),
        (TRACKED, bearer("svc_credit_" + "g" * 64), (401, "INVALID_TOKEN")),
        (TRACKED, bearer("svc_live_" + "0" * 80), (401, "INVALID_TOKEN")),
        (TRACKED, bearer(UNKNOWN), (401, "INVALID_TOKEN")),
        (TRACKED, bearer(MISTYPED), (401, "INVALID_TOKEN")),
        (TRACKED, bearer("é" * 10), (401, "INVALID_TOKEN")),
        # the credential comes before the token's data
        (UNTRACKED, bearer(UNKNOWN), (401, "INVALID_TOKEN")),
        (TOO_YOUNG, {"authorization": ""}, (401, "MISSING_TOKEN")),
    ],
)
async def test_a_request_without_a_valid_address_and_credential_is_refused(
    service: Service, address: str, headers: dict[str, str], expected: tuple[int, str]
) -> None:
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]

    response = await service.client.get(f"/v1/token/{address}", headers=raw)

    assert refusal(response) == expected


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("abc", (400, "INVALID_TOKEN_ADDRESS")),
        (f"{TRACKED}?timeframe=h1", (400, "BAD_REQUEST")),
        (UNTRACKED, (404, "TOKEN_NOT_FOUND")),
        (TOO_YOUNG, (404, "INSUFFICIENT_DATA")),
    ],
)
async def test_a_refused_request_costs_nothing(
    service: Service, address: str, expected: tuple[int, str]
) -> None:
    token = await service.issue(1)

    response = await service.client.get(f"/v1/token/{address}", headers=bearer(token))

    assert refusal(response) == expected
    assert "x-credits-remaining" not in response.headers
    assert await service.left(token) == 1


async def test_an_internal_error_is_500_without_its_text_and_costs_nothing(
    service: Service,
) -> None:
    token = await service.issue(1)
    service.reports.bug = ZeroDivisionError("the secret of line 7")

    response = await service.client.get(f"/v1/token/{TRACKED}", headers=bearer(token))

    assert refusal(response) == (500, "INTERNAL_ERROR")
    assert "line 7" not in response.text
    assert await service.left(token) == 1


async def test_an_unavailable_report_is_503_and_free(service: Service) -> None:
    token = await service.issue(1)
    service.reports.bug = ServiceUnavailable("the market is being loaded")

    response = await service.client.get(f"/v1/token/{TRACKED}", headers=bearer(token))

    assert refusal(response) == (503, "SERVICE_UNAVAILABLE")
    assert await service.left(token) == 1


async def test_balance_zero_is_402_and_consumes_nothing(service: Service) -> None:
    token = await service.issue(1)
    await service.client.get(f"/v1/token/{TRACKED}", headers=bearer(token))

    response = await service.client.get(f"/v1/token/{TRACKED}", headers=bearer(token))

    assert refusal(response) == (402, "INSUFFICIENT_CREDITS")
    assert await service.left(token) == 0


@pytest.mark.parametrize("address", [UNTRACKED, TOO_YOUNG])
async def test_a_balance_of_zero_is_402_for_a_token_without_a_report(
    service: Service, address: str
) -> None:
    token = await service.issue(1)
    await service.client.get(f"/v1/token/{TRACKED}", headers=bearer(token))

    response = await service.client.get(f"/v1/token/{address}", headers=bearer(token))

    assert refusal(response) == (402, "INSUFFICIENT_CREDITS")
    assert "pointless" in response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("address", "status", "pointless"),
    [
        (TRACKED, "ready", False),
        (TOO_YOUNG, "insufficient-data", True),
        (UNTRACKED, "not-tracked", True),
    ],
)
async def test_402_says_that_paying_is_pointless_if_there_is_no_report(
    service: Service, address: str, status: str, *, pointless: bool
) -> None:
    response = await service.client.get(f"/v1/token/{address}")

    assert refusal(response) == (402, "PAYMENT_REQUIRED")
    assert response.headers["x-token-status"] == status
    assert ("pointless" in response.json()["error"]["message"]) is pointless


async def test_unknown_mistyped_and_malformed_credit_tokens_get_the_same_message(
    service: Service,
) -> None:
    texts = {
        (await service.client.get(f"/v1/token/{TRACKED}", headers=bearer(value))).json()["error"][
            "message"
        ]
        for value in (UNKNOWN, MISTYPED, "svc_credit_12", "hello")
    }

    assert len(texts) == 1


async def test_the_error_for_an_unknown_api_key_mentions_api_keys(service: Service) -> None:
    headers = bearer("svc_live_" + "0" * 80)

    response = await service.client.get(f"/v1/token/{TRACKED}", headers=headers)

    assert "an API key, svc_live_" in response.json()["error"]["message"]


async def test_two_authorization_headers_are_400(service: Service) -> None:
    token = await service.issue(1)
    headers = [("authorization", f"Bearer {token}"), ("Authorization", f"Bearer {UNKNOWN}")]

    response = await service.client.get(f"/v1/token/{TRACKED}", headers=headers)

    assert refusal(response) == (400, "BAD_REQUEST")
    assert await service.left(token) == 1


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
async def test_the_scheme_is_case_insensitive(service: Service, scheme: str) -> None:
    token = await service.issue(1)
    headers = {"authorization": f"{scheme} {token}"}

    response = await service.client.get(f"/v1/token/{TRACKED}", headers=headers)

    assert response.status_code == 200


async def test_a_client_that_has_left_is_not_charged(service: Service) -> None:
    token = await service.issue(1)
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError("the head is enough")

    scope = {
        "type": "http",
        "method": "GET",
        "path": f"/v1/token/{TRACKED}",
        "client": ("127.0.0.1", 1),
        "headers": [(b"authorization", f"Bearer {token}".encode())],
        "extensions": {"mintscope.gone": lambda: True},
    }
    await service.app(scope, receive, send)

    assert sent == []
    assert await service.left(token) == 1


async def test_every_answer_has_a_request_id_of_its_own(service: Service) -> None:
    names = [
        (await service.client.get(f"/v1/token/{TRACKED}")).headers["x-request-id"] for _ in range(5)
    ]

    assert len(set(names)) == 5
    assert all(re.fullmatch("[0-9a-f]{16}", name) for name in names)


async def test_an_unknown_query_field_is_400_before_any_402(service: Service) -> None:
    response = await service.client.get(f"/v1/token/{TRACKED}?partial_=yes&x")

    assert refusal(response) == (400, "BAD_REQUEST")
    message = response.json()["error"]["message"]
    assert "expected the query fields at, candles, partial, timeframes; was 'partial_'" in message
