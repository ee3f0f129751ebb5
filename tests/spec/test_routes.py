"""Paths and methods must match exactly, and every answer is in the same JSON envelope."""

import pytest

from support.fakes.reports import TRACKED
from support.scenes.service import Service, bearer

TOKEN = f"/v1/token/{TRACKED}"
METHODS = ["OPTIONS", "POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("path", [TOKEN, "/v1/credits/balance", "/v1/health", "/healthz"])
async def test_other_methods_are_405_and_run_nothing(
    service: Service, method: str, path: str
) -> None:
    token = await service.issue(1)

    response = await service.client.request(method, path, headers=bearer(token))

    assert response.status_code == 405
    assert response.headers["allow"] == ("GET" if path == TOKEN else "GET, HEAD")
    assert response.headers["x-request-id"]
    assert response.json()["error"]["code"] == "METHOD_NOT_ALLOWED"
    assert service.reports.reads == 0
    assert await service.left(token) == 1


async def test_head_of_a_paid_route_is_405_and_takes_nothing(service: Service) -> None:
    token = await service.issue(1)

    response = await service.client.head(TOKEN, headers=bearer(token))

    assert (response.status_code, response.headers["allow"]) == (405, "GET")
    assert service.reports.reads == 0
    assert await service.left(token) == 1


@pytest.mark.parametrize(
    "path", ["/v1/credits/balance", "/v1/health", "/healthz", "/readyz", "/openapi.json"]
)
async def test_head_has_the_headers_of_get_and_no_body(service: Service, path: str) -> None:
    headers = bearer(await service.issue(1))

    get = await service.client.get(path, headers=headers)
    head = await service.client.head(path, headers=headers)

    assert (head.status_code, head.content) == (200, b"")
    assert set(head.headers) == set(get.headers)
    assert head.headers["content-length"] == get.headers["content-length"]


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/v1",
        "/v1/",
        "/v1/token",
        "/v1/token/",
        f"{TOKEN}/",
        f"/v1//token/{TRACKED}",
        f"/V1/token/{TRACKED}",
        f"/v1/Token/{TRACKED}",
        f"/v1/token/x%2F{TRACKED}",
        f"/v1/token/a/{TRACKED}",
        f"/v1/token%2F{TRACKED}",
        f"/v1%2ftoken/{TRACKED}",
        "/v1%2Fhealth",
        "/v1%2fcredits/balance",
        "%2fhealthz",
        f"/v2/token/{TRACKED}",
        "/v1/credits/balance/",
        "/v1/credits/balance%0A",
        "/healthz%0A",
        "/v1/credits",
        "/v1/me/",
        "/api/auth/exchange-secret/",
        "/api/public",
    ],
)
async def test_other_spellings_of_a_path_are_404(service: Service, path: str) -> None:
    token = await service.issue(1)

    response = await service.client.get(path, headers=bearer(token), follow_redirects=False)

    assert (response.status_code, response.json()["error"]["code"]) == (404, "NOT_FOUND")
    assert response.json()["meta"]["requestId"] == response.headers["x-request-id"]
    assert await service.left(token) == 1


async def test_an_empty_query_is_accepted_and_an_unknown_field_is_400(
    service: Service,
) -> None:
    token = await service.issue(1)

    plain = await service.client.get(f"{TOKEN}?", headers=bearer(token))
    unknown = await service.client.get(f"{TOKEN}?a=b", headers=bearer(token))

    assert (plain.status_code, unknown.status_code) == (200, 400)


async def test_a_browser_may_read_every_v1_answer(service: Service) -> None:
    origin = {"origin": "https://example.org"}

    for path in (TOKEN, "/v1/credits/balance", "/v1/health", "/v1/nothing"):
        headers = (await service.client.get(path, headers=origin)).headers
        exposed = headers["access-control-expose-headers"].lower().split(", ")

        assert headers["access-control-allow-origin"] == "*"
        assert {"x-request-id", "retry-after", "ratelimit", "payment-required"} <= set(exposed)
        assert "access-control-allow-credentials" not in headers
    without = (await service.client.get(TOKEN)).headers
    assert "access-control-allow-origin" not in without


async def test_a_preflight_request_of_a_browser_is_allowed(service: Service) -> None:
    response = await service.client.options(
        TOKEN,
        headers={
            "origin": "https://example.org",
            "access-control-request-method": "GET",
            "access-control-request-headers": "authorization",
        },
    )

    assert (response.status_code, response.content) == (204, b"")
    assert response.headers["access-control-allow-origin"] == "*"
    assert "authorization" in response.headers["access-control-allow-headers"].lower()
    assert "payment-signature" in response.headers["access-control-allow-headers"].lower()
