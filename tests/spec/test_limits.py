"""A client may send 30 requests in any 60 s to token data and credit endpoints together."""

import httpx
import pytest
from starlette.types import ASGIApp

from mintscope.app.config.config import ApiConfig
from support.fakes.reports import TRACKED
from support.scenes.service import Service, bearer, credit_token, running_service

TOKEN, BALANCE, HEALTH = f"/v1/token/{TRACKED}", "/v1/credits/balance", "/v1/health"


async def statuses(service: Service, path: str, count: int, headers: dict[str, str]) -> list[int]:
    return [(await service.client.get(path, headers=headers)).status_code for _ in range(count)]


async def test_the_31st_request_in_60_s_is_429(service: Service) -> None:
    headers = bearer(await service.issue(100))

    assert await statuses(service, TOKEN, 30, headers) == [200] * 30
    response = await service.client.get(TOKEN, headers=headers)

    assert response.status_code == 429
    assert response.json()["error"]["code"] == "RATE_LIMITED"
    assert response.headers["retry-after"] == "60"
    assert response.headers["ratelimit-policy"] == '"public";q=30;w=60'
    assert response.headers["ratelimit"] == '"public";r=0;t=60'
    assert response.headers["x-ratelimit-limit"] == "30"
    assert response.headers["x-ratelimit-remaining"] == "0"
    assert response.headers["x-ratelimit-reset"] == "60"


async def test_429_costs_nothing(service: Service) -> None:
    token = await service.issue(100)

    await statuses(service, TOKEN, 40, bearer(token))

    assert await service.left(token) == 70


async def test_a_client_is_served_after_it_has_waited_for_retry_after(service: Service) -> None:
    headers = bearer(await service.issue(100))
    await statuses(service, TOKEN, 10, headers)
    service.clock.advance(20_000)
    await statuses(service, TOKEN, 20, headers)
    service.clock.advance(500)

    response = await service.client.get(TOKEN, headers=headers)
    assert response.headers["retry-after"] == "40"
    service.clock.advance(39_000)
    assert await statuses(service, TOKEN, 1, headers) == [429]
    service.clock.advance(500)
    assert await statuses(service, TOKEN, 11, headers) == [200] * 10 + [429]


async def test_the_limit_is_not_reset_at_the_full_minute(service: Service) -> None:
    headers = bearer(await service.issue(100))
    service.clock.advance(59_500)
    assert await statuses(service, TOKEN, 30, headers) == [200] * 30
    service.clock.advance(1_000)

    assert await statuses(service, TOKEN, 30, headers) == [429] * 30


async def test_a_step_of_the_wall_clock_changes_nothing(service: Service) -> None:
    headers = bearer(await service.issue(100))
    await statuses(service, TOKEN, 30, headers)
    service.clock.step(3_600_000)
    assert await statuses(service, TOKEN, 1, headers) == [429]
    service.clock.step(-7_200_000)
    service.clock.advance(60_000)

    assert await statuses(service, TOKEN, 1, headers) == [200]


async def test_token_data_and_balance_share_one_bucket(service: Service) -> None:
    headers = bearer(await service.issue(100))

    await statuses(service, TOKEN, 15, headers)
    await statuses(service, BALANCE, 15, headers)

    assert await statuses(service, TOKEN, 1, headers) == [429]
    assert await statuses(service, BALANCE, 1, headers) == [429]


async def test_every_credit_token_has_a_bucket_of_its_own(service: Service) -> None:
    first, second = await service.issue(100), await service.issue(100)
    await statuses(service, TOKEN, 30, bearer(first))

    assert await statuses(service, TOKEN, 1, bearer(second)) == [200]


async def test_unknown_credentials_share_the_bucket_of_their_address(service: Service) -> None:
    for number in range(30):
        await statuses(service, TOKEN, 1, bearer(credit_token(1_000 + number)))

    assert await statuses(service, TOKEN, 1, bearer(credit_token(2_000))) == [429]
    assert await statuses(service, TOKEN, 1, {}) == [429]
    assert await statuses(service, BALANCE, 1, {"authorization": ""}) == [429]


async def test_a_limited_address_does_not_lock_out_a_credit_token(service: Service) -> None:
    await statuses(service, TOKEN, 40, {})

    assert await statuses(service, TOKEN, 1, bearer(await service.issue(1))) == [200]


async def test_the_limit_is_checked_before_the_token_address(service: Service) -> None:
    await statuses(service, TOKEN, 30, {})

    assert await statuses(service, "/v1/token/abc", 1, {}) == [429]


async def test_health_has_a_limit_of_its_own_of_120_requests_a_minute(service: Service) -> None:
    await statuses(service, TOKEN, 40, {})

    assert await statuses(service, HEALTH, 121, {}) == [200] * 120 + [429]
    assert await statuses(service, "/healthz", 5, {}) == [200] * 5


async def test_x_forwarded_for_is_ignored_without_a_trusted_proxy(service: Service) -> None:
    for number in range(30):
        await statuses(service, TOKEN, 1, {"x-forwarded-for": f"6.6.6.{number}"})

    assert await statuses(service, TOKEN, 1, {"x-forwarded-for": "7.7.7.7"}) == [429]


def client_from(app: ASGIApp, address: str) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app, client=(address, 1))
    return httpx.AsyncClient(transport=transport, base_url="http://test")


async def test_addresses_of_one_ipv6_network_share_a_bucket(service: Service) -> None:
    statuses_seen = []
    for number in range(31):
        async with client_from(service.app, f"2001:db8::{number:x}") as client:
            statuses_seen.append((await client.get(TOKEN)).status_code)
    async with client_from(service.app, "2001:db8:0:1::1") as client:
        neighbour = (await client.get(TOKEN)).status_code

    assert statuses_seen == [402] * 30 + [429]
    assert neighbour == 402


async def test_the_last_untrusted_address_counts_behind_a_proxy(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    api = ApiConfig(rate_limit_requests=1, trusted_proxies=("127.0.0.1",))
    folder = tmp_path_factory.mktemp("proxied")
    async with running_service(folder, api=api) as service:

        async def status(forwarded: str) -> int:
            headers = {"x-forwarded-for": forwarded}
            return (await service.client.get(TOKEN, headers=headers)).status_code

        assert await status("9.9.9.9, 1.1.1.1") == 402
        assert await status("8.8.8.8, 1.1.1.1") == 429
        assert await status("1.1.1.1, 2.2.2.2") == 402
