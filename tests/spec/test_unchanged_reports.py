"""GET /v1/token/{tokenAddress} with If-None-Match: a report that the client has is free."""

import pytest

from support.fakes.reports import TOO_YOUNG, TRACKED
from support.scenes.payments.selling_api import SellingApi
from support.scenes.service import Service, bearer

PATH = f"/v1/token/{TRACKED}"
SPACED = 'W/"another", W/"as it was"'


async def test_an_unchanged_report_is_304_and_costs_nothing(service: Service) -> None:
    token = await service.issue(2)
    first = await service.client.get(PATH, headers=bearer(token))
    etag = first.headers["etag"]
    again = await service.client.get(PATH, headers=bearer(token) | {"If-None-Match": etag})

    assert first.status_code == 200
    assert first.headers["cache-control"] == "private, no-cache"
    assert (again.status_code, again.content) == (304, b"")
    assert await service.left(token) == 1
    same = ("etag", "cache-control", "x-data-slot", "x-data-age-ms", "x-data-status")
    assert {name: again.headers[name] for name in same} == {
        name: first.headers[name] for name in same
    }
    assert again.headers["x-credits-remaining"] == "1"
    assert again.headers["ratelimit"] != first.headers["ratelimit"]
    assert not {"content-type", "content-length"} & set(again.headers)


@pytest.mark.parametrize("tags", ['"as it was"', SPACED, "*"])
async def test_each_form_of_the_tag_is_accepted(service: Service, tags: str) -> None:
    token = await service.issue(1)
    response = await service.client.get(PATH, headers=bearer(token) | {"If-None-Match": tags})

    assert response.status_code == 304
    assert await service.left(token) == 1


async def test_a_changed_report_costs_a_credit(service: Service) -> None:
    token = await service.issue(1)
    etag = service.reports.tag.decode()
    service.reports.tag = b'W/"another"'
    response = await service.client.get(PATH, headers=bearer(token) | {"If-None-Match": etag})

    assert response.status_code == 200
    assert response.headers["etag"] == 'W/"another"'
    assert await service.left(token) == 0


async def test_a_client_that_cannot_pay_gets_no_304(service: Service) -> None:
    has_it = {"If-None-Match": service.reports.tag.decode()}
    empty = await service.issue(1)
    await service.client.get(PATH, headers=bearer(empty))

    for headers, status in (
        ({}, 402),
        (bearer("svc_credit_" + "0" * 64), 401),
        (bearer("svc_live_" + "0" * 80), 401),
        ({"authorization": "Basic x"}, 401),
        (bearer(empty), 402),
    ):
        response = await service.client.get(PATH, headers=headers | has_it)
        assert response.status_code == status, headers


async def test_a_missing_or_stale_report_is_refused_despite_if_none_match(service: Service) -> None:
    token = await service.issue(1)
    headers = bearer(token) | {"If-None-Match": "*"}
    young = await service.client.get(f"/v1/token/{TOO_YOUNG}", headers=headers)
    service.reports.age_ms = 300_001
    stale = await service.client.get(PATH, headers=headers)

    assert (young.status_code, young.headers["x-token-status"]) == (404, "insufficient-data")
    assert (stale.status_code, stale.headers["x-token-status"]) == (503, "stale")
    assert await service.left(token) == 1


async def test_a_304_counts_against_the_rate_limit(service: Service) -> None:
    headers = bearer(await service.issue(1)) | {"If-None-Match": "*"}
    for _ in range(30):
        assert (await service.client.get(PATH, headers=headers)).status_code == 304

    assert (await service.client.get(PATH, headers=headers)).status_code == 429


async def test_a_payment_buys_a_report_despite_if_none_match(shop: SellingApi) -> None:
    payment = await shop.paid("GET", PATH)
    response = await shop.send("GET", PATH, payment, **{"If-None-Match": "*"})

    assert response.status_code == 200
    assert shop.world.received() == 2_500
