"""X-Data-Status is `idle` for a token that does not trade while the chain is followed."""

import pytest

from support.fakes.reports import TOO_YOUNG, TRACKED
from support.scenes.service import Service, bearer

PATH = f"/v1/token/{TRACKED}"
OTHER = "JUPyiwrYJFskUPiHa7hkeR8VUtAeFoSYbKedZNsDvCN"
BATCH = "/v1/tokens/batch"


@pytest.mark.parametrize(
    ("price_age_ms", "age_ms", "expected"),
    [
        (0, 412, "live"),
        (300_000, 412, "live"),
        (300_001, 412, "idle"),
        (3 * 86_400_000, 412, "idle"),
        (300_001, 30_001, "degraded"),
        (None, 412, "live"),
    ],
)
@pytest.mark.parametrize("query", ["", "?partial=true"])
async def test_a_token_whose_price_is_older_than_five_minutes_is_idle(
    service: Service, price_age_ms: int | None, age_ms: int, expected: str, query: str
) -> None:
    token = await service.issue(2)
    service.reports.price_age_ms[TRACKED] = price_age_ms
    service.reports.age_ms = age_ms
    for _ in range(2):  # the fast path may answer the second
        response = await service.client.get(PATH + query, headers=bearer(token))
        assert response.status_code == 200
        assert response.headers["x-data-status"] == expected
    assert await service.left(token) == 0


async def test_an_unchanged_report_has_the_data_status_idle(service: Service) -> None:
    token = await service.issue(1)
    service.reports.price_age_ms[TRACKED] = 300_001
    headers = bearer(token) | {"If-None-Match": "*"}
    response = await service.client.get(PATH, headers=headers)
    assert (response.status_code, response.headers["x-data-status"]) == (304, "idle")


@pytest.mark.parametrize(
    ("ages", "expected"), [((0, 0), "live"), ((0, 300_001), "live"), ((300_001, 9**9), "idle")]
)
async def test_a_batch_is_idle_if_all_its_tokens_are_idle(
    service: Service, ages: tuple[int, int], expected: str
) -> None:
    token = await service.issue(2)
    service.reports.others.add(OTHER)
    service.reports.price_age_ms = dict(zip((TRACKED, OTHER), ages, strict=True))
    mints = [TRACKED, OTHER, TOO_YOUNG]
    response = await service.client.post(BATCH, json={"mints": mints}, headers=bearer(token))
    assert response.json()["data"]["delivered"] == 2
    assert response.headers["x-data-status"] == expected
