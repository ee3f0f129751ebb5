"""GET /v1/trial/{tokenAddress}: a few free reports a day for each IP address, then 429."""

from pathlib import Path
from typing import Final

from mintscope.app.config.config import ApiConfig
from mintscope.kit.clock import ManualClock
from mintscope.kit.http.rate_limit import FreeViews
from mintscope.kit.limits import MemoryLimits
from support.fakes.reports import TOO_YOUNG, TRACKED, UNTRACKED
from support.scenes.payments.selling_api import ORIGIN, SellingApi
from support.scenes.service import NOW, Service, bearer, running_service

PATH: Final = f"/v1/trial/{TRACKED}"
DAY_MS: Final = 86_400_000
MINUTE_MS: Final = 60_000


async def test_a_trial_is_the_report_without_credential_or_payment(service: Service) -> None:
    token = await service.issue(1)
    sold = await service.client.get(f"/v1/token/{TRACKED}", headers=bearer(token))
    given = await service.client.get(PATH)

    assert given.status_code == 200
    assert given.json()["data"] == sold.json()["data"]
    for name in ("x-data-slot", "x-data-age-ms", "x-data-status"):
        assert given.headers[name] == sold.headers[name]
    assert given.headers["cache-control"] == "private, no-store"
    assert "x-credits-remaining" not in given.headers


async def test_ten_trials_a_day_are_free_and_then_a_429_names_the_paid_endpoints(
    service: Service,
) -> None:
    for _ in range(10):
        assert (await service.client.get(PATH)).status_code == 200
    refused = await service.client.get(PATH)

    assert refused.status_code == 429
    assert refused.json()["error"]["code"] == "RATE_LIMITED"
    reported = refused.json()["error"]["message"]
    assert "10 free reports" in reported
    assert "GET /v1/token/{tokenAddress}" in reported
    assert "POST /v1/credits/purchase" in reported
    assert int(refused.headers["retry-after"]) == DAY_MS // 1000
    service.clock.advance(DAY_MS)
    assert (await service.client.get(PATH)).status_code == 200


async def test_errors_do_not_count_as_trials(service: Service) -> None:
    for _ in range(15):
        assert (await service.client.get(f"/v1/trial/{UNTRACKED}")).status_code == 404
    young = await service.client.get(f"/v1/trial/{TOO_YOUNG}")
    assert young.json()["error"]["code"] == "INSUFFICIENT_DATA"
    assert (await service.client.get("/v1/trial/abc")).status_code == 400
    service.clock.advance(MINUTE_MS)
    answers = [await service.client.get(PATH) for _ in range(11)]
    assert [answer.status_code for answer in answers] == [200] * 10 + [429]


async def test_0_trial_reports_per_day_turn_the_endpoint_off(tmp_path: Path) -> None:
    async with running_service(tmp_path, api=ApiConfig(trial_reports_per_day=0)) as service:
        assert (await service.client.get(PATH)).status_code == 404
        paths = (await service.client.get("/openapi.json")).json()["paths"]
    assert "/v1/trial/{tokenAddress}" not in paths


async def test_a_402_for_a_report_names_the_trial(shop: SellingApi) -> None:
    unpaid = await shop.client.get(f"/v1/token/{TRACKED}")
    assert unpaid.json()["error"]["details"]["trial"] == f"{ORIGIN}{PATH}"
    for path in (f"/v1/token/{TRACKED}/candles?tf=m1", f"/v1/token/{TRACKED}/swaps"):
        assert "trial" not in (await shop.client.get(path)).json()["error"]["details"]


async def test_views_of_pages_and_trials_are_counted_together() -> None:
    """Pages and trials use the rate limit of the same name."""
    limits = MemoryLimits(ManualClock(NOW))
    first, second = FreeViews.of(20, limits.limiter), FreeViews.of(20, limits.limiter)
    assert first == second


async def test_endpoint_1_is_402_after_a_trial(shop: SellingApi) -> None:
    await shop.client.get(PATH)
    assert (await shop.client.get(f"/v1/token/{TRACKED}")).status_code == 402
