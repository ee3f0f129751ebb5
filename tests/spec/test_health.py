"""GET /v1/health, /healthz, /readyz"""

import asyncio

from mintscope import __version__
from support.scenes.service import Service


async def test_health_says_ok_while_every_check_passes(service: Service) -> None:
    response = await service.client.get("/v1/health")

    assert response.status_code == 200
    assert response.json() == {
        "success": True,
        "data": {
            "status": "ok",
            "version": __version__,
            "checks": {"store": "ok", "chain": "ok"},
        },
        "meta": {
            "timestamp": "2025-06-15T15:06:40.000Z",
            "requestId": response.headers["x-request-id"],
        },
    }


async def test_health_answers_200_degraded_when_a_check_fails(service: Service) -> None:
    service.failing_check.append("no node answers")

    response = await service.client.get("/v1/health")

    assert response.status_code == 200
    assert response.json()["data"]["status"] == "degraded"
    assert response.json()["data"]["checks"] == {"store": "ok", "chain": "no node answers"}


async def test_readyz_is_503_when_a_check_fails(service: Service) -> None:
    assert (await service.client.get("/readyz")).status_code == 200
    service.failing_check.append("no node answers")
    service.clock.advance(1_000)

    response = await service.client.get("/readyz")

    assert response.status_code == 503
    assert response.headers["retry-after"] == "2"
    assert response.json()["error"] == {
        "code": "SERVICE_UNAVAILABLE",
        "message": "not ready; chain: no node answers",
    }


async def test_checks_are_remembered_for_a_second(service: Service) -> None:
    await service.client.get("/readyz")
    service.failing_check.append("no node answers")

    assert (await service.client.get("/readyz")).status_code == 200
    service.clock.advance(1_000)
    assert (await service.client.get("/readyz")).status_code == 503


async def test_healthz_is_alive_whatever_the_checks_say(service: Service) -> None:
    service.failing_check.append("no node answers")

    response = await service.client.get("/healthz")

    assert (response.status_code, response.json()["data"]) == (200, {"status": "alive"})


async def test_a_closed_store_is_not_ready(service: Service) -> None:
    vars(service.ledger)["_writing"].close()

    response = await service.client.get("/readyz")

    assert response.status_code == 503
    assert "store" in response.json()["error"]["message"]


async def test_nothing_is_ready_before_it_was_checked(service: Service) -> None:
    """Also for those who ask while the first check is still waiting for its answer."""
    service.failing_check.append("no node answers")

    answers = await asyncio.gather(*(service.client.get("/readyz") for _ in range(6)))

    assert {each.status_code for each in answers} == {503}
