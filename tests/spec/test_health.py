"""GET /v1/health, /healthz and /readyz, while all checks pass and while a check fails."""

import asyncio
from pathlib import Path

from mintscope import __version__
from mintscope.kit.checks import Check
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.primitives import UnixS
from mintscope.market.coverage import Coverage, ProgramHour, Tally
from support.scenes.engine import is_postgresql
from support.scenes.service import Service, bearer, running_service


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


async def test_health_has_the_coverage_of_exchanges_and_slots(tmp_path: Path) -> None:
    rows = [
        ProgramHour(500_000, "a", "read", Tally(97, 97, 9_990)),
        ProgramHour(500_001, "a", "no_movement", Tally(3, 1, 10)),
    ]
    since, until = UnixS(500_000 * 3_600), UnixS(500_001 * 3_600 + 60)
    coverage = Coverage(since, until, rows, 13_000, skipped_slots=12, missing_slots=4)
    async with running_service(tmp_path, coverage=lambda: coverage) as service:
        response = await service.client.get("/v1/health")

    assert response.json()["data"]["coverage"] == {
        "from": 1_800_000_000,
        "to": 1_800_003_660,
        "overall": {"byCalls": 0.97, "byVolume": 0.999},
        "missingSlots": 4,
        "skippedSlots": 12,
        "missed": [{"program": "a", "calls": 100, "missed": 3, "reasons": {"no_movement": 3}}],
    }


async def test_health_lists_the_ten_programs_with_the_most_missed_calls(tmp_path: Path) -> None:
    rows = [
        ProgramHour(500_000, f"p{number}", reason, Tally(calls, calls, number))
        for number in range(12)
        for reason, calls in (("overflow", 1), ("no_movement", 2), ("read", 5))
    ]
    since, until = UnixS(500_000 * 3_600), UnixS(500_000 * 3_600 + 60)
    coverage = Coverage(since, until, rows, 300, skipped_slots=0, missing_slots=0)
    async with running_service(tmp_path, coverage=lambda: coverage) as service:
        response = await service.client.get("/v1/health")

    missed = response.json()["data"]["coverage"]["missed"]
    assert [one["program"] for one in missed] == [f"p{number}" for number in range(11, 1, -1)]
    assert list(missed[0].items()) == [
        ("program", "p11"),
        ("calls", 8),
        ("missed", 3),
        ("reasons", {"no_movement": 2, "overflow": 1}),
    ]


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


async def test_results_of_checks_are_cached_for_a_second(service: Service) -> None:
    await service.client.get("/readyz")
    service.failing_check.append("no node answers")

    assert (await service.client.get("/readyz")).status_code == 200
    service.clock.advance(1_000)
    assert (await service.client.get("/readyz")).status_code == 503


async def test_healthz_is_alive_if_a_check_fails(service: Service) -> None:
    service.failing_check.append("no node answers")

    response = await service.client.get("/healthz")

    assert (response.status_code, response.json()["data"]) == (200, {"status": "alive"})


async def test_readyz_is_503_if_the_store_is_lost(service: Service) -> None:
    book = vars(service.ledger)["_writing"]
    if is_postgresql():
        vars(vars(book)["_db"])["_dsn"] = "host=127.0.0.1 port=1"
    book.close()

    response = await service.client.get("/readyz")

    assert response.status_code == 503
    assert "store" in response.json()["error"]["message"]


async def test_concurrent_requests_for_readyz_wait_for_the_first_check(service: Service) -> None:
    """No request is answered ready while the first check is still running."""
    service.failing_check.append("no node answers")

    answers = await asyncio.gather(*(service.client.get("/readyz") for _ in range(6)))

    assert {each.status_code for each in answers} == {503}


async def test_health_is_degraded_but_ready_while_sales_are_closed(tmp_path: Path) -> None:
    async def closed() -> None:
        raise ServiceUnavailable("closed: stopped by an audit")

    checks = [Check("sales", closed, is_vital=False)]
    async with running_service(tmp_path, more_checks=checks) as service:
        ready = await service.client.get("/readyz")
        health = await service.client.get("/v1/health")
        token = await service.issue(1)
        balance = await service.client.get("/v1/credits/balance", headers=bearer(token))

    for answer in (ready, health):
        assert answer.status_code == 200
        assert answer.json()["data"]["status"] == "degraded"
        assert answer.json()["data"]["checks"]["sales"] == "closed: stopped by an audit"
    assert balance.status_code == 200
