"""MCP at /mcp: every tool, as a client of the official package calls it."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, get_args

import httpx
import msgspec
import pytest
from mcp_types import CallToolResult
from starlette.types import ASGIApp

from mintscope.accounts.keys.scope import Scope
from mintscope.app.config.config import ApiConfig
from mintscope.app.web_api import OTHER
from mintscope.market.report import ReportKind
from mintscope.market.screening.listed import Sort
from mintscope.mcp.tools import TOOLS, ToolCost
from mintscope_client.endpoints import lists
from support.fakes.reports import TOO_YOUNG, TRACKED, UNTRACKED
from support.scenes.mcp_service import AUTO, LEGACY, error_of, mcp_beside, mcp_client
from support.scenes.people.agent import Agent
from support.scenes.service import Service, bearer, credit_token, running_service
from support.scenes.whole_report import whole_report

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
JSON = {"accept": "application/json, text/event-stream"}


@pytest.fixture
async def app(service: Service) -> AsyncIterator[ASGIApp]:
    service.reports.body = whole_report(has_m1=False)
    async with mcp_beside(service.app, service.clock) as app:
        yield app


@pytest.fixture
async def http(app: ASGIApp) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(app) as client:
        yield client


def client_of(app: ASGIApp) -> httpx.AsyncClient:
    """Return a plain HTTP client of *app*, with which tests send raw MCP messages."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://test")


@pytest.mark.parametrize("mode", [AUTO, LEGACY])
async def test_a_credit_buys_a_report(service: Service, app: ASGIApp, mode: str) -> None:
    token = await service.issue(2)
    async with mcp_client(app, bearer(token), mode=mode) as client:
        result = await client.call_tool("get_token", {"mint": TRACKED})

    assert not result.is_error
    reported = result.structured_content
    nulls_too = msgspec.json.decode(whole_report(has_m1=False))
    assert reported["data"] == nulls_too
    assert reported["meta"].items() >= {
        "creditsCharged": 1, "usdPaid": 0, "creditsRemaining": 1, "dataSlot": 350_000_000,
        "dataAgeMs": 412, "dataStatus": "live",
    }.items()  # fmt: skip
    assert text_of(result) == reported
    assert await service.left(token) == 1


async def test_get_token_passes_partial_and_closed_to_the_report(
    service: Service, app: ASGIApp
) -> None:
    token = await service.issue(2)
    service.reports.price_age_ms[TRACKED] = 300_001
    async with mcp_client(app, bearer(token)) as client:
        asked = {"mint": TRACKED, "partial": True, "candles": "closed"}
        result = await client.call_tool("get_token", asked)
        plain = await client.call_tool("get_token", {"mint": TRACKED, "partial": False})
        wrong = await client.call_tool("get_token", {"mint": TRACKED, "partial": "perhaps"})

    assert service.reports.kinds[0] == ReportKind(is_partial=True, is_closed=True)
    assert not result.is_error
    assert result.structured_content["meta"]["dataStatus"] == "idle"
    assert not plain.is_error
    assert service.reports.kinds[1:] in ([], [ReportKind()])
    assert error_of(wrong)["code"] == "BAD_REQUEST"
    assert await service.left(token) == 0


@pytest.mark.parametrize(
    "more",
    [
        {"max_credits": 1.0},
        {"partial": None, "candles": None, "timeframes": None},
        {"max_credits": None, "max_usd": None, "idempotency_key": None},
    ],
)
async def test_whole_numbers_may_be_floats_and_missing_arguments_null(
    service: Service, app: ASGIApp, more: dict[str, object]
) -> None:
    async with mcp_client(app, bearer(await service.issue(1))) as client:
        result = await client.call_tool("get_token", {"mint": TRACKED} | more)

    assert not result.is_error, result


async def test_tools_describe_their_cost_and_their_arguments(
    service: Service, app: ASGIApp
) -> None:
    paths = (await service.client.get("/openapi.json")).json()["paths"]
    tools = [tool for tool in TOOLS if tool.path in paths]  # the list may not be served
    async with mcp_client(app) as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert client.instructions is not None
        assert "Mintscope-Budget" in client.instructions

    assert listed.keys() == {tool.name for tool in tools}
    for tool in tools:
        each, is_free = listed[tool.name], tool.cost is ToolCost.NOTHING
        assert each.annotations is not None
        assert each.annotations.read_only_hint is (tool.name not in {"buy_credits", "create_alert"})
        assert each.description is not None
        assert is_free or "Errors are free." in each.description
        assert ("Free." if is_free else "USD") in each.description
        assert ("max_usd" in each.input_schema["properties"]) is not is_free
        assert (each.output_schema is None) is (tool.page is not None)
    search = listed["search_tokens"].input_schema["properties"]
    assert set(search["sort"]["enum"]) == set(Sort) == set(get_args(lists.Sort))
    token = listed["get_token"].input_schema
    assert token["required"] == ["mint"]
    assert "REUSE THE SAME KEY" in str(listed["buy_credits"].description)


async def test_a_balance_is_free(service: Service, app: ASGIApp) -> None:
    token = await service.issue(7)
    async with mcp_client(app, bearer(token)) as client:
        result = await client.call_tool("get_balance", {})

    assert result.structured_content["data"] == {"balance": 7}
    assert result.structured_content["meta"]["creditsCharged"] == 0
    assert await service.left(token) == 7


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"mint": UNTRACKED}, "TOKEN_NOT_FOUND"),
        ({"mint": TOO_YOUNG}, "INSUFFICIENT_DATA"),
        ({"mint": "so11"}, "INVALID_TOKEN_ADDRESS"),
        ({"mint": "../credits/balance"}, "NOT_FOUND"),
        ({"mint": f"{TRACKED}?a=b"}, "INVALID_TOKEN_ADDRESS"),
        ({"mint": ["a", {}]}, "INVALID_ARGUMENTS"),
        ({}, "INVALID_ARGUMENTS"),
        ({"mint": TRACKED, "max_credits": -1}, "INVALID_ARGUMENTS"),
        ({"mint": TRACKED, "max_credits": True}, "INVALID_ARGUMENTS"),
        ({"mint": TRACKED, "max_credits": 0.5}, "INVALID_ARGUMENTS"),
        ({"mint": None}, "INVALID_ARGUMENTS"),
        ({"mint": TRACKED, "max_usd": "much"}, "INVALID_ARGUMENTS"),
        ({"mint": TRACKED, "idempotency_key": "a\nb"}, "INVALID_ARGUMENTS"),
        ({"mint": TRACKED, "max_credit": 0}, "INVALID_ARGUMENTS"),
    ],
)
async def test_errors_are_free(
    service: Service, app: ASGIApp, arguments: dict[str, object], code: str
) -> None:
    token = await service.issue(1)
    async with mcp_client(app, bearer(token)) as client:
        result = await client.call_tool("get_token", arguments)

    assert error_of(result)["code"] == code
    assert result.structured_content["charged"] is False
    assert await service.left(token) == 1


async def test_a_wrong_or_missing_credential_gets_the_error_codes_of_http(app: ASGIApp) -> None:
    async with mcp_client(app, bearer(credit_token(99))) as client:
        assert error_of(await client.call_tool("get_balance", {}))["code"] == "INVALID_TOKEN"
    async with mcp_client(app) as client:
        assert error_of(await client.call_tool("get_balance", {}))["code"] == "MISSING_TOKEN"
        unpaid = error_of(await client.call_tool("get_token", {"mint": UNTRACKED}))
    assert unpaid["code"] == "PAYMENT_REQUIRED"  # without terms: this service sells nothing
    assert "pointless" in unpaid["message"]
    assert "not-tracked" in unpaid["message"]


async def test_an_unknown_tool_is_an_error_of_the_protocol(app: ASGIApp) -> None:
    async with mcp_client(app) as client:
        with pytest.raises(Exception, match="expected one of"):
            await client.call_tool("delete_token", {})


async def test_calls_and_requests_share_the_rate_limit(service: Service, app: ASGIApp) -> None:
    token = await service.issue(40)
    for _ in range(15):
        answer = await service.client.get(f"/v1/token/{TRACKED}", headers=bearer(token))
        assert answer.status_code == 200
    async with mcp_client(app, bearer(token)) as client:
        results = [await client.call_tool("get_token", {"mint": TRACKED}) for _ in range(16)]

    assert [result.is_error for result in results] == [False] * 15 + [True]
    limited = error_of(results[-1])
    assert limited["code"] == "RATE_LIMITED"
    assert limited["retryAfterS"] == 60
    assert await service.left(token) == 10


async def test_messages_are_limited_to_600_from_one_address(service: Service) -> None:
    """The test lowers the limit to 20, because the official server takes 2 ms for a message."""
    assert OTHER.count == 600
    limit = replace(OTHER, count=20)
    async with (
        mcp_beside(service.app, service.clock, limit=limit) as app,
        client_of(app) as http,
    ):
        answers = [await http.post("/mcp", json=PING, headers=JSON) for _ in range(21)]

    assert {answer.status_code for answer in answers[:-1]} == {200}
    assert answers[-1].status_code == 429
    assert answers[-1].json()["error"]["code"] == "RATE_LIMITED"


async def test_other_methods_other_paths_and_large_bodies_are_refused(
    http: httpx.AsyncClient,
) -> None:
    for method in ("GET", "DELETE", "PUT"):
        answer = await http.request(method, "/mcp", headers=JSON)
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert (await http.post("/mcp/", json=PING)).status_code == 404
    answer = await http.post("/mcp", content=b"x" * 20_000)
    assert answer.status_code == 413


async def test_pages_of_any_origin_may_send_messages(http: httpx.AsyncClient) -> None:
    asking = {
        "origin": "https://page.example",
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization, mcp-protocol-version, mintscope-budget",
    }
    allowed = await http.options("/mcp", headers=asking)
    assert allowed.status_code == 204
    names = allowed.headers["access-control-allow-headers"].lower()
    assert all(name in names for name in asking["access-control-request-headers"].split(", "))
    answer = await http.post("/mcp", json=PING, headers={**JSON, "origin": "https://page.example"})
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["cache-control"] == "no-store"


def text_of(result: CallToolResult) -> object:
    """Return the result as read by a client that supports only text."""
    return msgspec.json.decode(result.content[0].text)  # type: ignore[union-attr]


async def test_the_credits_that_calls_report_equal_the_credits_taken(
    service: Service, app: ASGIApp
) -> None:
    token, chance = await service.issue(25), Random(7)
    calls: list[tuple[str, dict[str, Any]]]
    spoilt: list[dict[str, Any]] = [
        {"mint": UNTRACKED},
        {"mint": "x"},
        {},
        {"mint": TRACKED, "max_credits": 0},
    ]
    calls = [("get_token", {"mint": TRACKED})] * 40 + [("get_token", each) for each in spoilt] * 8
    calls += [("get_balance", {})] * 10 + [("buy_credits", {"bundle": 10, "max_usd": 1})] * 5
    chance.shuffle(calls)
    taken = 0
    for number, (tool, arguments) in enumerate(calls):
        if number % 20 == 0:
            service.clock.advance(60_000)  # past the rate limit
        stated = {"Mintscope-Budget": f"credits={chance.choice([3, 12])}"}
        async with mcp_client(app, bearer(token) | stated) as client:
            result = await client.call_tool(tool, arguments)
        if not result.is_error:
            taken += result.structured_content["meta"]["creditsCharged"]

    assert taken == 3 + 12  # both budgets, and no more
    assert await service.left(token) == 25 - taken


async def test_clients_behind_a_proxy_are_counted_apart(tmp_path: Path) -> None:
    api = ApiConfig(rate_limit_requests=1, trusted_proxies=("127.0.0.1",))
    async with (
        running_service(tmp_path, api=api) as service,
        mcp_beside(service.app, service.clock) as app,
    ):
        codes = []
        for address in ("192.0.2.1", "192.0.2.1", "192.0.2.2"):
            async with mcp_client(app, {"x-forwarded-for": address}) as client:
                codes.append(error_of(await client.call_tool("get_balance", {}))["code"])

    assert codes == ["MISSING_TOKEN", "RATE_LIMITED", "MISSING_TOKEN"]


async def test_an_api_key_pays_within_its_budget(service: Service, app: ASGIApp) -> None:
    key = await Agent(service).key(Scope.TRADE_WRITE)
    deposit = {"creditToken": await service.issue(2)}
    await service.client.post("/v1/account/credits/deposit", json=deposit, headers=bearer(key))
    async with mcp_client(app, bearer(key) | {"Mintscope-Budget": "credits=1"}) as client:
        read = await client.call_tool("get_token", {"mint": TRACKED})
        over = await client.call_tool("get_token", {"mint": TRACKED})
        balance = await client.call_tool("get_balance", {})

    assert read.structured_content["meta"]["creditsCharged"] == 1
    assert error_of(over)["code"] == "BUDGET_EXCEEDED"
    assert balance.structured_content["data"]["balance"] == 1
