"""While sales are paused no route and no tool quotes a price, for any client."""

import json
from typing import Any, Final

import httpx
import pytest

from mintscope.accounts.keys.scope import Scope
from mintscope.api.series.wire import TIME_MAX
from mintscope.credits.ledger import NAMES, NUMBERS
from mintscope.payments.audit import Closure
from support.fakes.reports import TRACKED
from support.scenes.conversations import append_swap
from support.scenes.mcp_service import mcp_beside, mcp_client
from support.scenes.payments.selling_api import KEY, PURCHASE, SellingApi
from support.scenes.people.agent import Agent
from support.scenes.service import bearer

REPORT: Final = f"/v1/token/{TRACKED}"
# Every route at which something can be bought or paid for with credits.
ROUTES: Final = (
    ("GET", REPORT),
    ("GET", f"{REPORT}?candles=closed"),
    ("GET", f"{REPORT}/candles?tf=m1"),
    ("GET", f"{REPORT}/indicators?tf=m1"),
    ("GET", f"{REPORT}/swaps"),
    ("GET", f"/v1/stream?mints={TRACKED}"),
    ("POST", "/v1/tokens/batch"),
    ("GET", f"{REPORT}/pools"),
    ("GET", f"{REPORT}/holders"),
    ("POST", "/v1/prices"),
    ("POST", "/v1/backtest"),
    ("GET", f"/v1/udf/history?symbol={TRACKED}&resolution=1"),
    ("GET", f"{REPORT}/backtest?tf=m1&where=price+%3E+0"),
    ("GET", f"{REPORT}/traders"),
    ("GET", "/v1/screen?where=age_s+%3E+0"),
    ("POST", "/v1/screen"),
    ("POST", PURCHASE),
)
PAUSED: Final = Closure(why="paused", is_for_all=True)
PAUSE_MS: Final = 125_000  # a quote is valid for two minutes


def expect_no_quote(answer: httpx.Response) -> None:
    assert answer.status_code in {402, 503}, answer.text
    assert "payment-required" not in answer.headers
    assert "payTo" not in answer.text
    assert not answer.json().get("error", {}).get("details", {}).get("accepts")


async def ask(shop: SellingApi, method: str, path: str, **headers: str) -> httpx.Response:
    bodies: dict[str, Any] = {
        "batch": {"mints": [TRACKED]},
        "backtest": {"mints": [TRACKED], "where": "price > 0", "tf": "m1"},
        "prices": {"prices": [{"mint": TRACKED, "t": TIME_MAX}]},
    }
    body = bodies.get(path.rpartition("/")[2])
    return await shop.client.request(method, path, json=body, headers=headers)


async def test_the_table_of_routes_has_every_charged_route(shop: SellingApi) -> None:
    router: Any = vars(shop.service.app)["router"]
    charged = {(each.method, each.path) for each in router if each.is_charged}
    asked = {
        (method, router.find(method, path.partition("?")[0])[0].path) for method, path in ROUTES
    }
    assert asked >= charged
    of_credits = {f"{method} {path}" for method, path in charged}
    assert of_credits - {"POST /v1/credits/purchase"} == set(NUMBERS), (
        "each endpoint has a number in the rows of its debits"
    )
    assert len(NAMES) == len(NUMBERS)


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_a_request_without_credits_gets_no_quote(
    shop: SellingApi, method: str, path: str
) -> None:
    for after_s in (0, 120):  # two swaps close a candle, because an empty page is free
        append_swap(shop.service.log, shop.service.clock.now() // 1000 + after_s)
    empty = await shop.service.issue(1)
    assert (await shop.client.get(REPORT, headers=bearer(empty))).status_code == 200
    key = await Agent(shop.service).key(Scope.TRADE_WRITE)
    shop.closure = PAUSED

    expect_no_quote(await ask(shop, method, path))
    expect_no_quote(await ask(shop, method, path, **{"Idempotency-Key": KEY}))
    expect_no_quote(await ask(shop, method, path, **bearer(empty)))
    expect_no_quote(await ask(shop, method, path, **bearer(key)))


@pytest.mark.parametrize(("method", "path"), [("GET", REPORT), ("POST", PURCHASE)])
async def test_a_refused_payment_gets_no_new_quote(
    shop: SellingApi, method: str, path: str
) -> None:
    late = await shop.paid(method, path)
    shop.world.seconds(PAUSE_MS // 1000)
    shop.closure = PAUSED

    expect_no_quote(await shop.send(method, path, late, key=KEY))
    assert shop.world.received() == 0


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("get_token", {"mint": TRACKED}),
        ("get_candles", {"mint": TRACKED, "tf": "m1"}),
        ("get_indicators", {"mint": TRACKED, "tf": "m1"}),
        ("get_swaps", {"mint": TRACKED}),
        ("buy_credits", {"bundle": 10, "max_usd": 0.025, "idempotency_key": KEY}),
    ],
)
async def test_an_mcp_tool_returns_no_quote(
    shop: SellingApi, tool: str, arguments: dict[str, object]
) -> None:
    shop.closure = PAUSED
    async with (
        mcp_beside(shop.service.app, shop.service.clock) as app,
        mcp_client(app) as client,
    ):
        result = await client.call_tool(tool, arguments)

    assert result.is_error
    assert "payTo" not in json.dumps([result.structured_content, result.meta])
