"""MCP at /mcp: payments by x402 in `_meta`, and the budgets of callers."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, Final

import msgspec
import pytest
from mcp_types import CallToolResult, RequestParamsMeta
from starlette.types import ASGIApp
from test_mpp import challenge, credential, transaction
from x402.mcp.types import MCPToolResult
from x402.mcp.utils import (
    extract_payment_required_from_result,
    extract_payment_response_from_meta,
)
from x402.schemas import PaymentRequired

from mcp import Client
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.limits import MemoryLimits
from mintscope.mcp.budget import HEADER
from support.fakes.reports import TRACKED, UNTRACKED
from support.scenes.mcp_service import error_of, mcp_beside, mcp_client, paying
from support.scenes.payments.payment_build import as_base64
from support.scenes.payments.payment_world import World
from support.scenes.payments.selling_api import KEY, ORIGIN, OTHER_KEY, SellingApi
from support.scenes.service import bearer
from support.scenes.whole_report import whole_report

READ: Final = {"mint": TRACKED}
BUY: Final = {"bundle": 10, "max_usd": 0.025, "idempotency_key": KEY}
DAY_MS: Final = 86_400_000


@pytest.fixture
async def app(shop: SellingApi) -> AsyncIterator[ASGIApp]:
    shop.service.reports.body = whole_report(has_m1=False)
    async with mcp_beside(shop.service.app, shop.service.clock) as app:
        yield app


@pytest.fixture
async def client(app: ASGIApp) -> AsyncIterator[Client]:
    """Yield an MCP client without a credential, which one task opens and closes."""
    opened: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
    closing = asyncio.Event()

    async def hold() -> None:
        async with mcp_client(app) as client:
            opened.set_result(client)
            await closing.wait()

    holding = asyncio.create_task(hold())
    yield await opened
    closing.set()
    await holding


def payment(shop: SellingApi, demand: dict[str, Any]) -> dict[str, Any]:
    """Return the x402 payment for *demand* in the form that MCP clients send."""
    return {
        "x402Version": 2,
        "payload": {"transaction": as_base64(shop.transaction(demand))},
        "accepted": demand["accepts"][0],
        "resource": demand["resource"],
    }


async def paid(
    shop: SellingApi, client: Client, tool: str, arguments: dict[str, Any]
) -> tuple[CallToolResult, RequestParamsMeta]:
    """Call *tool*, pay what it demands, and return the result and the `_meta` with the payment."""
    unpaid = await client.call_tool(tool, arguments)
    assert unpaid.is_error, unpaid
    meta = paying(payment(shop, unpaid.structured_content))
    return await client.call_tool(tool, arguments, meta=meta), meta


def as_x402(result: CallToolResult) -> MCPToolResult:
    """Return *result* as the x402 package reads it."""
    return MCPToolResult(
        content=[each.model_dump(by_alias=True) for each in result.content],
        is_error=result.is_error,
        meta=dict(result.meta or {}),
        structured_content=result.structured_content,
    )


async def test_an_unpaid_call_is_an_error_with_the_terms(client: Client) -> None:
    result = await client.call_tool("get_token", READ)

    required = extract_payment_required_from_result(as_x402(result))
    assert isinstance(required, PaymentRequired)
    assert required.accepts[0].amount == "2500"
    reported = result.structured_content
    assert reported["resource"]["url"] == f"{ORIGIN}/v1/token/{TRACKED}"
    assert (reported["code"], reported["charged"]) == ("PAYMENT_REQUIRED", False)
    as_text = json.loads(result.content[0].text)  # type: ignore[union-attr]
    assert PaymentRequired.model_validate(as_text) == required
    assert result.meta is not None
    assert PaymentRequired.model_validate(result.meta["org.x402/payment"]) == required


async def test_a_payment_buys_a_report(shop: SellingApi, world: World, client: Client) -> None:
    result, _ = await paid(shop, client, "get_token", READ)

    assert not result.is_error
    assert result.structured_content["data"] == msgspec.json.decode(whole_report(has_m1=False))
    meta = result.structured_content["meta"]
    assert (meta["usdPaid"], meta["creditsCharged"]) == (0.0025, 0)
    response = extract_payment_response_from_meta(as_x402(result))
    assert response is not None
    assert response.success
    assert response.payer == str(world.buyer.pubkey())
    assert world.received() == 2_500


async def test_a_repeated_purchase_buys_credits_once(
    shop: SellingApi, world: World, client: Client
) -> None:
    result, meta = await paid(shop, client, "buy_credits", BUY)
    bought = result.structured_content
    again = await client.call_tool("buy_credits", BUY, meta=meta)
    stranger = await client.call_tool(
        "buy_credits", BUY | {"idempotency_key": OTHER_KEY}, meta=meta
    )

    assert bought["data"]["credits"] == 10
    assert bought["meta"]["usdPaid"] == 0.025
    assert again.structured_content["data"] == bought["data"]
    assert again.structured_content["meta"]["usdPaid"] == 0
    assert again.meta is not None
    assert result.meta is not None
    assert again.meta["x402/payment-response"] == result.meta["x402/payment-response"]
    assert error_of(stranger)["code"] == "PAYMENT_ALREADY_USED"
    assert world.received() == 25_000
    assert await shop.service.left(bought["data"]["token"]) == 10


async def test_a_purchase_with_a_credit_token_tops_it_up(shop: SellingApi, app: ASGIApp) -> None:
    token = await shop.service.issue(1)
    async with mcp_client(app, bearer(token)) as client:
        result, _ = await paid(shop, client, "buy_credits", BUY)

    assert result.structured_content["data"]["token"] == token
    assert await shop.service.left(token) == 11


async def test_a_credit_token_without_credits_gets_the_terms(
    shop: SellingApi, app: ASGIApp
) -> None:
    token = await shop.service.issue(1)
    async with mcp_client(app, bearer(token)) as client:
        assert not (await client.call_tool("get_token", READ)).is_error
        empty = await client.call_tool("get_token", READ)
        assert empty.structured_content["code"] == "INSUFFICIENT_CREDITS"
        meta = paying(payment(shop, empty.structured_content))
        assert not (await client.call_tool("get_token", READ, meta=meta)).is_error


@pytest.mark.parametrize(
    "spoilt", ["text", 7, [], {"x402Version": 1}, {"x402Version": 2, "payload": {}}]
)
async def test_an_invalid_payment_is_refused_for_free(
    world: World, client: Client, spoilt: object
) -> None:
    result = await client.call_tool("get_token", READ, meta=paying(spoilt))

    assert error_of(result)["code"] in {"INVALID_PAYMENT", "INVALID_ARGUMENTS"}
    assert world.received() == 0


async def test_a_payment_for_an_untracked_token_is_not_taken(
    shop: SellingApi, world: World, client: Client
) -> None:
    unpaid = await client.call_tool("get_token", {"mint": UNTRACKED})
    assert "pointless" in unpaid.structured_content["error"]
    meta = paying(payment(shop, unpaid.structured_content))
    result = await client.call_tool("get_token", {"mint": UNTRACKED}, meta=meta)

    assert error_of(result)["code"] == "TOKEN_NOT_FOUND"
    assert world.received() == 0


async def test_a_refused_payment_gets_the_reason(
    shop: SellingApi, world: World, client: Client
) -> None:
    unpaid = await client.call_tool("get_token", READ)
    demand = unpaid.structured_content
    poor = payment(shop, demand) | {
        "payload": {"transaction": as_base64(shop.transaction(demand, amount=1))}
    }
    result = await client.call_tool("get_token", READ, meta=paying(poor))

    assert result.structured_content["code"] == "PAYMENT_FAILED"
    assert result.structured_content["x402/payment-response"]["success"] is False
    assert result.structured_content["accepts"]  # with a new quote
    assert world.received() == 0


# Budgets


async def test_a_call_above_its_own_budget_is_refused_for_free(
    shop: SellingApi, world: World, app: ASGIApp, client: Client
) -> None:
    token = await shop.service.issue(1)
    async with mcp_client(app, bearer(token)) as holder:
        refused = await holder.call_tool("get_token", READ | {"max_credits": 0})
        assert error_of(refused)["code"] == "BUDGET_EXCEEDED"
        assert "1 credit; max_credits is 0" in error_of(refused)["message"]
        assert not (await holder.call_tool("get_token", READ | {"max_credits": 1})).is_error
    dear = await client.call_tool("get_token", READ | {"max_usd": 0.0024})
    assert error_of(dear)["code"] == "BUDGET_EXCEEDED"
    assert "0.0025 USD; max_usd is 0.0024" in error_of(dear)["message"]
    assert (
        extract_payment_required_from_result(as_x402(dear)) is None
    )  # so no client pays by mistake
    bundle = await client.call_tool("buy_credits", {"bundle": 50, "max_usd": 0.1124})
    assert error_of(bundle)["code"] == "BUDGET_EXCEEDED"
    unstated = await client.call_tool("buy_credits", {"bundle": 10})
    assert error_of(unstated)["code"] == "INVALID_ARGUMENTS"
    assert shop.service.reports.reads == 1
    assert world.received() == 0


async def test_calls_stop_at_the_budget_of_their_session(shop: SellingApi, app: ASGIApp) -> None:
    token = await shop.service.issue(10)
    stated = {HEADER: "credits=3, session=morning"}
    async with mcp_client(app, bearer(token) | stated) as client:
        first = [await client.call_tool("get_token", READ) for _ in range(3)]
        for _ in range(5):  # free calls take nothing of the budget
            assert (await client.call_tool("get_token", {"mint": UNTRACKED})).is_error
        last = await client.call_tool("get_token", READ)
        assert not (await client.call_tool("get_balance", {})).is_error
    async with mcp_client(app, bearer(token) | {HEADER: "credits=3, session=evening"}) as client:
        assert not (await client.call_tool("get_token", READ)).is_error

    assert [result.is_error for result in first] == [False] * 3
    reported = error_of(last)
    assert reported["code"] == "BUDGET_EXCEEDED"
    assert "session morning" in reported["message"]
    assert "3 credits" in reported["message"]
    assert 0 < reported["retryAfterS"] <= 86_400
    assert await shop.service.left(token) == 6


async def test_concurrent_calls_take_no_more_than_their_budget(
    shop: SellingApi, app: ASGIApp
) -> None:
    token = await shop.service.issue(20)
    async with mcp_client(app, bearer(token) | {HEADER: "credits=3"}) as client:
        results = await asyncio.gather(*[client.call_tool("get_token", READ) for _ in range(20)])

    assert sum(not result.is_error for result in results) == 3
    assert await shop.service.left(token) == 17


async def test_failed_calls_take_nothing_of_the_budget(shop: SellingApi, app: ASGIApp) -> None:
    token = await shop.service.issue(10)
    async with mcp_client(app, bearer(token) | {HEADER: "credits=1"}) as client:
        for _ in range(3):
            assert (await client.call_tool("get_token", {"mint": UNTRACKED})).is_error
        assert not (await client.call_tool("get_token", READ)).is_error
        assert error_of(await client.call_tool("get_token", READ))["code"] == "BUDGET_EXCEEDED"
        shop.service.clock.advance(DAY_MS)
        assert not (await client.call_tool("get_token", READ)).is_error


async def test_each_payment_counts_once_against_a_budget_in_usd(
    shop: SellingApi, world: World, app: ASGIApp
) -> None:
    async with mcp_client(app, {HEADER: "usd=0.03, session=a"}) as client:
        _, meta = await paid(shop, client, "buy_credits", BUY)
        again = await client.call_tool("buy_credits", BUY, meta=meta)
        read, _ = await paid(shop, client, "get_token", READ)
        unpaid = await client.call_tool("buy_credits", BUY | {"idempotency_key": OTHER_KEY})
        over = await client.call_tool(
            "buy_credits",
            BUY | {"idempotency_key": OTHER_KEY},
            meta=paying(payment(shop, unpaid.structured_content)),
        )
        last, _ = await paid(shop, client, "get_token", READ)

    assert not again.is_error
    assert not read.is_error
    assert error_of(over)["code"] == "BUDGET_EXCEEDED"
    assert not last.is_error
    assert world.received() == 25_000 + 2 * 2_500


async def test_a_payment_counts_once_at_all_replicas(shop: SellingApi, world: World) -> None:
    """Both replicas count against one shared store of limits."""
    clock = shop.service.clock
    limits = MemoryLimits(clock)
    stated = {HEADER: "usd=0.0025"}
    keyed = READ | {"idempotency_key": KEY}
    async with (
        mcp_beside(shop.service.app, clock, limits=limits) as first,
        mcp_beside(shop.service.app, clock, limits=limits) as other,
        mcp_client(first, stated) as client,
        mcp_client(other, stated) as client_of_other,
    ):
        bought, meta = await paid(shop, client, "get_token", keyed)
        again = await client_of_other.call_tool("get_token", keyed, meta=meta)
        over, _ = await paid(shop, client_of_other, "get_token", READ)

    assert not bought.is_error
    assert not again.is_error, again
    assert again.structured_content["data"] == bought.structured_content["data"]
    assert error_of(over)["code"] == "BUDGET_EXCEEDED"
    assert world.received() == 2_500


async def test_a_payment_counts_when_it_is_taken_at_a_later_attempt(
    shop: SellingApi, world: World, app: ASGIApp
) -> None:
    async with mcp_client(app, {HEADER: "usd=0.0025"}) as client:
        unpaid = await client.call_tool("get_token", READ)
        meta = paying(payment(shop, unpaid.structured_content))
        shop.service.reports.bug = ServiceUnavailable("the market does not answer")
        failed = await client.call_tool("get_token", READ, meta=meta)
        shop.service.reports.bug = None
        bought = await client.call_tool("get_token", READ, meta=meta)
        over, _ = await paid(shop, client, "get_token", READ)

    assert error_of(failed)["code"] == "SERVICE_UNAVAILABLE"
    assert not bought.is_error
    assert error_of(over)["code"] == "BUDGET_EXCEEDED"
    assert world.received() == 2_500


async def test_mpp_payments_count_against_a_budget_in_usd(
    shop: SellingApi, world: World, app: ASGIApp
) -> None:
    path = f"/v1/token/{TRACKED}"
    results = []
    for more in ({"max_usd": 0.0024}, {}, {}):
        one = await challenge(shop, "GET", path)
        headers = credential(one, transaction(shop, one)) | {HEADER: "usd=0.003"}
        async with mcp_client(app, headers) as client:
            results.append(await client.call_tool("get_token", READ | more))
    dear, bought, over = results

    assert "0.0025 USD; max_usd is 0.0024" in error_of(dear)["message"]
    assert not bought.is_error
    assert bought.structured_content["meta"]["usdPaid"] == 0.0025
    assert error_of(over)["code"] == "BUDGET_EXCEEDED"
    assert world.received() == 2_500


async def test_a_repeated_call_takes_no_credit_of_the_budget(
    shop: SellingApi, app: ASGIApp
) -> None:
    token = await shop.service.issue(10)
    async with mcp_client(app, bearer(token) | {HEADER: "credits=2"}) as client:
        results = [
            await client.call_tool("get_token", READ | {"idempotency_key": key})
            for key in (KEY, KEY, KEY, OTHER_KEY)
        ]

    charged = [result.structured_content["meta"]["creditsCharged"] for result in results]
    assert charged == [1, 0, 0, 1]
    assert await shop.service.left(token) == 8


async def test_the_error_for_a_tiny_max_usd_writes_it_with_an_exponent(client: Client) -> None:
    refused = await client.call_tool("get_token", READ | {"max_usd": "1e-999999"})

    assert "max_usd is 1E-999999." in error_of(refused)["message"]


@pytest.mark.parametrize(
    "stated",
    ["", "credits", "credits=0", "credits=1001", "credits=1, credits=2", "usd=3", "usd=nan",
     "session=a", "credits=1, session=a b", "credits=1, session=" + "a" * 65, "gold=1"],
)  # fmt: skip
async def test_no_credit_is_spent_with_an_invalid_budget(
    shop: SellingApi, app: ASGIApp, stated: str
) -> None:
    token = await shop.service.issue(1)
    async with mcp_client(app, bearer(token) | {HEADER: stated}) as client:
        result = await client.call_tool("get_token", READ)

    assert error_of(result)["code"] == "INVALID_ARGUMENTS"
    assert error_of(result)["message"].startswith(HEADER)
    assert await shop.service.left(token) == 1


async def test_an_internal_error_costs_nothing_and_has_a_request_id(
    shop: SellingApi, app: ASGIApp
) -> None:
    token = await shop.service.issue(1)
    async with mcp_client(app, bearer(token)) as client:
        shop.service.reports.bug = RuntimeError("a bug")
        broken = error_of(await client.call_tool("get_token", READ))
        shop.service.reports.bug = ServiceUnavailable("the market does not answer")
        away = error_of(await client.call_tool("get_token", READ))

    assert broken["code"] == "INTERNAL_ERROR"
    assert broken["requestId"]
    assert (away["code"], away["retryAfterS"]) == ("SERVICE_UNAVAILABLE", 2)
    assert await shop.service.left(token) == 1
