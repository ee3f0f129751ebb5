"""Scopes of API keys, tested with one route for each scope: 403 INSUFFICIENT_SCOPE."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from starlette.types import ASGIApp

from mintscope.accounts.keys.key_gate import KeyGate
from mintscope.accounts.keys.keys import ApiKeys
from mintscope.accounts.keys.scope import Scope
from mintscope.api.discovery.operation import API_KEY, Operation
from mintscope.api.discovery.surfaces import example_target
from mintscope.api.failures import ENVELOPE, ErrorWriter
from mintscope.app.web_api import OTHER
from mintscope.kit.clock import Clock
from mintscope.kit.http.application import HttpApplication
from mintscope.kit.http.rate_limit import AddressLimits
from mintscope.kit.http.request import ClientAddresses, Request
from mintscope.kit.http.response import Response
from mintscope.kit.http.routes import Route, Router
from mintscope.kit.limits import Limit, MemoryLimits
from support.scenes.people.agent import Agent
from support.scenes.service import Service, bearer


def app_of(keys: ApiKeys, clock: Clock) -> ASGIApp:
    """Return an application with a route for each scope: /v1/{scope}."""
    limits = AddressLimits(MemoryLimits(clock), ClientAddresses())
    limit = Limit(name="key", count=20, window_s=60)
    gate = KeyGate(keys=keys, limit=limit, limits=limits)

    def route(scope: Scope) -> Route:
        async def answer(request: Request) -> Response:
            holder = await gate.authorize(request)
            return Response(200, holder.username.encode())

        return Operation("GET", f"/v1/{scope}", bytes, endpoint=answer, scope=scope)

    write_error = ErrorWriter(lambda _: ENVELOPE, clock)
    return HttpApplication(
        Router(map(route, Scope)), limit=limits.of(OTHER), write_error=write_error
    )


@asynccontextmanager
async def guarded(service: Service) -> AsyncIterator[httpx.AsyncClient]:
    app = app_of(service.accounts.keys, service.clock)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        yield client


@pytest.mark.parametrize(
    "granted",
    [(), (Scope.TRADE_WRITE,), (Scope.WALLETS_WRITE, Scope.GROUPS_WRITE), tuple(Scope)],
)
async def test_a_key_opens_only_the_routes_of_its_scopes(
    service: Service, granted: tuple[Scope, ...]
) -> None:
    key = await Agent(service).key(*granted)
    reads = {Scope.TRADE_READ, Scope.WALLETS_READ, Scope.SIGNALS_READ, Scope.GROUPS_READ}
    async with guarded(service) as client:
        opened = {
            scope
            for scope in Scope
            if (await client.get(f"/v1/{scope}", headers=bearer(key))).status_code == 200
        }

    assert opened == reads | set(granted)


async def test_403_insufficient_scope(service: Service) -> None:
    key = await Agent(service).key()
    async with guarded(service) as client:
        response = await client.get("/v1/trade:write", headers=bearer(key))

    assert response.status_code == 403
    body = response.json()
    assert body["success"] is False
    assert body["error"] == {
        "code": "INSUFFICIENT_SCOPE",
        "message": "expected an API key with the scope trade:write; this one lacks it. The owner"
        " of the account can make such a key on the web site; applications ask for it in `scopes`,"
        " agents with POST /v1/me/key/scopes.",
    }
    assert body["meta"]["requestId"] == response.headers["x-request-id"]


async def test_a_request_without_a_key_is_401_and_not_403(service: Service) -> None:
    async with guarded(service) as client:
        missing = await client.get("/v1/trade:write")
        unknown = await client.get("/v1/trade:write", headers=bearer("svc_live_" + "0" * 80))

    assert (missing.status_code, missing.json()["error"]["code"]) == (401, "MISSING_TOKEN")
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (401, "INVALID_TOKEN")


async def test_a_403_counts_against_the_limit_of_the_key(service: Service) -> None:
    key = await Agent(service).key()
    async with guarded(service) as client:
        answers = [await client.get("/v1/trade:write", headers=bearer(key)) for _ in range(21)]

    assert [answer.status_code for answer in answers] == [403] * 20 + [429]


async def test_each_description_names_the_scope_that_a_403_names(service: Service) -> None:
    key = await Agent(service).key()  # it has only the scopes to read
    assert isinstance(service.app, HttpApplication)
    operations = [route for route in service.app.router if isinstance(route, Operation)]
    taking = [each for each in operations if any(API_KEY in proof for proof in each.proofs)]
    paths = (await service.client.get("/openapi.json")).json()["paths"]

    assert {each.path for each in taking if each.scope is None} == {
        *("/v1/me", "/v1/me/key", "/v1/me/key/rotate", "/v1/me/key/scopes"),
    }
    for each in taking:
        if each.scope is None or each.is_payable:
            continue
        described = paths[each.path][each.method.lower()]["description"]
        assert described.endswith(f"An API key needs the scope {each.scope}.")
        service.clock.advance(60_000)
        answer = await service.client.request(
            each.method, example_target(each), headers=bearer(key), json={}
        )
        is_lacking = answer.status_code == 403
        assert is_lacking is each.scope.is_write, (each.path, answer.text)
        assert not is_lacking or f"the scope {each.scope};" in answer.text
