"""The chart of `show_chart` in a host of MCP Apps; the two communicate only by postMessage."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
import pytest_asyncio
from mcp_types import CallToolResult
from playwright.async_api import Browser, FrameLocator, expect
from starlette.types import ASGIApp

from mcp import Client
from mintscope.kit.primitives import Mint
from mintscope.market.log import PricedSwap
from mintscope.solana.blocks import WSOL
from support.fakes.log import FakeLog
from support.fakes.series import FakeSeries
from support.scenes.mcp_service import mcp_beside, mcp_client, paying
from support.scenes.payments.payment_build import as_base64
from support.scenes.payments.payment_world import TODAY, world_at
from support.scenes.payments.selling_api import SellingApi, opened
from support.scenes.people.browsing import Visitor, visiting
from support.scenes.service import bearer

pytestmark = pytest.mark.asyncio(loop_scope="session")

CHART: Final = "ui://mintscope/chart"
MINUTES: Final = 150
# A host shows the resource in a sandbox of no origin, under the policy of the
# specification, and passes messages on.
HOST: Final = """<!doctype html><html lang="en"><title>Host</title>
<iframe title="App" width="720" height="640" sandbox="allow-scripts"></iframe>
<script>
window.heard = [];
const app = document.querySelector("iframe");
const send = (message) => app.contentWindow.postMessage({ jsonrpc: "2.0", ...message }, "*");
addEventListener("message", async ({ source, data }) => {
  if (source !== app.contentWindow) return;
  window.heard.push(data);
  const reply = data.id !== undefined && JSON.parse(await window.answer(JSON.stringify(data)));
  if (reply) send({ id: data.id, ...reply });
  if (data.method !== "ui/notifications/initialized") return;
  const { given, result } = JSON.parse(await window.shown());
  send({ method: "ui/notifications/tool-input", params: { arguments: given } });
  send({ method: "ui/notifications/tool-result", params: result });
});
</script>"""
POLICY: Final = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline';"
    " img-src 'self' data:; connect-src 'none'"
)


@dataclass
class Host:
    """A host of MCP Apps that shows the app of one tool call.

    pays   whether the host answers the terms of a purchase with a payment
    """

    shop: SellingApi
    client: Client
    given: dict[str, Any]
    pays: bool = True
    messages: list[str] = field(default_factory=list)
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    @property
    def bought(self) -> list[dict[str, Any]]:
        return [arguments for name, arguments in self.calls if name == "buy_credits"]

    async def shown(self) -> str:
        result = await self.client.call_tool("show_chart", self.given)
        return json.dumps({"given": self.given, "result": plain(result)})

    async def answer(self, asked: str) -> str:
        message = json.loads(asked)
        params = message["params"]
        match message["method"]:
            case "ui/initialize":
                assert params["protocolVersion"] == "2026-01-26"
                assert params["appInfo"].keys() == {"name", "version"}
                context = {"theme": "dark", "styles": {"variables": {"--font-sans": "serif"}}}
                reply = {
                    "protocolVersion": "2026-01-26",
                    "hostInfo": {"name": "host", "version": "1"},
                    "hostCapabilities": {"serverTools": {}},
                    "hostContext": context,
                }
                return json.dumps({"result": reply})
            case "ui/message":
                self.messages.append(params["content"][0]["text"])
                return json.dumps({"result": {}})
            case "tools/call":
                return json.dumps({"result": plain(await self._call(**params))})
            case _:
                return json.dumps({"error": {"code": -32601, "message": "no such method"}})

    async def _call(self, name: str, arguments: dict[str, Any]) -> CallToolResult:
        result = await self.client.call_tool(name, arguments)
        self.calls.append((name, arguments))
        terms = result.structured_content
        if not (self.pays and name == "buy_credits" and "x402Version" in terms):
            return result
        payment = {
            "x402Version": 2,
            "payload": {"transaction": as_base64(self.shop.transaction(terms))},
            "accepted": terms["accepts"][0],
            "resource": terms["resource"],
        }
        return await self.client.call_tool(name, arguments, meta=paying(payment))


def plain(result: CallToolResult) -> dict[str, Any]:
    return dict(result.model_dump(mode="json", by_alias=True, exclude_none=True))


def priced(log: FakeLog, until_s: int) -> None:
    """Add a swap to *log* in each of the MINUTES minutes before *until_s*."""
    random, price = Random(3), 2.0
    log.track(Mint(WSOL))
    for minute in range(MINUTES):
        price *= random.uniform(0.97, 1.031)
        swap = PricedSwap(Mint(WSOL), 0, 0, -1, 0, minute % 2 == 0, 10**6, price, price, "pool")
        log.append(minute + 1, until_s - 60 * (MINUTES - minute), swap)


@pytest_asyncio.fixture(loop_scope="session")
async def app(tmp_path: Path) -> AsyncIterator[tuple[SellingApi, ASGIApp]]:
    log = FakeLog()
    async with world_at(tmp_path, TODAY) as world:
        priced(log, world.clock.now() // 1000)
        async with (
            opened(world, series=FakeSeries(log)) as shop,
            mcp_beside(shop.service.app, shop.service.clock) as served,
        ):
            yield shop, served


@asynccontextmanager
async def hosting(
    chromium: Browser, shop: SellingApi, app: ASGIApp, *, credit_count: int = 0, **changes: Any
) -> AsyncIterator[tuple[Host, Visitor, FrameLocator]]:
    """Yield a fake MCP host with *credit_count* credits, its visitor, and the frame of the app."""
    headers = bearer(await shop.service.issue(credit_count)) if credit_count else {}
    async with mcp_client(app, headers) as client, visiting(chromium, "about:blank") as visitor:
        (read,) = (await client.read_resource(CHART)).contents
        host = Host(shop, client, **changes)
        await visitor.page.expose_function("answer", host.answer)
        await visitor.page.expose_function("shown", host.shown)
        asked: list[str] = []
        visitor.page.on("request", lambda request: asked.append(request.url))
        await visitor.page.set_content(HOST)
        policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        html = read.text.replace("<head>", f"<head>{policy}")  # type: ignore[union-attr]
        await visitor.page.evaluate("(html) => { app.srcdoc = html; }", html)
        yield host, visitor, visitor.page.frame_locator("iframe")
        assert [url for url in asked if not url.startswith("about:")] == []
        assert visitor.mishaps == []


async def test_the_chart_shows_the_candles_and_indicators_of_the_call(
    chromium: Browser, app: tuple[SellingApi, ASGIApp]
) -> None:
    given = {"mint": WSOL, "tf": "m1", "max_credits": 1, "idempotency_key": "k" * 20}
    async with hosting(chromium, *app, credit_count=2, given=given) as (host, visitor, view):
        await expect(view.get_by_role("heading")).to_have_text(f"{WSOL}, m1")
        await expect(view.locator("#chart rect")).to_have_count(120)
        lines = view.locator("#chart polyline")
        drawn = [len((await lines.nth(n).get_attribute("points") or "").split()) for n in range(3)]
        assert drawn == [120, 120, 120]
        result = await host.client.call_tool("show_chart", given)  # same key, same answer
        table = result.structured_content["data"]["points"]
        newest = dict(zip(table["columns"], table["rows"][-1], strict=True))
        for value in (newest["candle.c"], newest["ema9"], newest["rsi"]):
            await expect(view.locator("#newest")).to_contain_text(f"{value:.5g}")
        scheme = "() => document.documentElement.style.colorScheme"
        frame = visitor.page.frames[1]
        assert await frame.evaluate(scheme) == "dark"
        text = json.loads(result.content[0].text)  # type: ignore[union-attr]
        assert text["data"]["points"] == table | {"rows": table["rows"][-1:]}

        await view.get_by_role("button", name="Read again").click()
        await expect(view.get_by_role("status")).to_have_text("")
        await expect(view.get_by_role("button", name="Read again")).to_be_enabled()
        assert host.calls == [("show_chart", {"mint": WSOL, "tf": "m1", "max_credits": 1})]
        balance = await host.client.call_tool("get_balance", {})
        assert balance.structured_content["data"]["balance"] == 0
        heard = await visitor.page.evaluate("window.heard.map((each) => each.method)")
        assert heard[:2] == ["ui/initialize", "ui/notifications/initialized"]
        assert "ui/notifications/size-changed" in heard

        await view.get_by_role("button", name="Read again").click()  # there is no credit left
        await expect(view.get_by_role("status")).to_contain_text("credits")


async def test_the_button_buys_ten_credits_once_within_the_budget(
    chromium: Browser, app: tuple[SellingApi, ASGIApp]
) -> None:
    shop, _ = app
    given = {"mint": WSOL, "tf": "m1", "max_usd": 0.03}
    async with hosting(chromium, *app, credit_count=1, given=given) as (host, _, view):
        await view.get_by_role("button", name="Buy 10 credits for 0.025 USD").click()
        await expect(view.get_by_role("status")).to_have_text("10 credits were bought.")
        (asked,) = host.bought
        assert (asked["bundle"], asked["max_usd"]) == (10, 0.025)
        assert len(asked["idempotency_key"]) == 32
        assert shop.world.received() == 25_000
        await expect(view.get_by_label("Credit token")).to_be_hidden()
        balance = await host.client.call_tool("get_balance", {})
        assert balance.structured_content["data"]["balance"] == 10


async def test_the_terms_go_to_the_agent_of_a_host_that_does_not_pay(
    chromium: Browser, app: tuple[SellingApi, ASGIApp]
) -> None:
    given = {"mint": WSOL, "tf": "m1"}
    async with hosting(chromium, *app, credit_count=1, given=given, pays=False) as (host, _, view):
        button = view.get_by_role("button", name="Buy 10 credits")
        for count in (1, 2):
            await button.click()
            await expect(view.get_by_role("status")).to_contain_text("Nothing was charged yet.")
            assert len(host.messages) == count
        assert len({each["idempotency_key"] for each in host.bought}) == 1
        assert '"max_usd":0.025' in host.messages[0]
        assert host.bought[0]["idempotency_key"] in host.messages[0]


@pytest.mark.parametrize("budget", [0.01, "0.01"])
async def test_a_budget_below_the_price_buys_nothing(
    chromium: Browser, app: tuple[SellingApi, ASGIApp], budget: object
) -> None:
    given = {"mint": WSOL, "tf": "m1", "max_usd": budget}
    async with hosting(chromium, *app, credit_count=1, given=given) as (_, __, view):
        button = view.get_by_role("button", name="Buy 10 credits for 0.025 USD: over your budget")
        await expect(button).to_be_disabled()


async def test_a_purchase_without_a_credential_shows_its_credit_token(
    chromium: Browser, app: tuple[SellingApi, ASGIApp]
) -> None:
    """Only the app gets the token: if the app did not show it, the credits would be lost."""
    given = {"mint": WSOL, "tf": "m1"}
    async with hosting(chromium, *app, given=given) as (_, __, view):
        await expect(view.get_by_role("status")).to_contain_text("must be paid for")
        await view.get_by_role("button", name="Buy 10 credits").click()
        token = view.get_by_label("Credit token, shown once")
        await expect(token).to_have_value(re.compile("svc_credit_[0-9a-f]{64}"))
