"""An agent with only MCP and five credits finds a token, backtests a rule and makes an alert."""

import itertools
from collections.abc import AsyncIterator
from json import loads
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace

from mcp import Client
from mintscope.accounts.keys.scope import Scope
from mintscope.kit.clock import ManualClock
from mintscope.kit.primitives import Mint, UnixMs
from mintscope.market.log import PricedSwap
from mintscope.solana.blocks import USDC, USDT, WSOL
from support.fakes.facts import FACTS
from support.fakes.log import FakeLog
from support.fakes.series import FakeSeries
from support.oracles.definitions import rsi
from support.scenes.mcp_service import mcp_beside, mcp_client
from support.scenes.people.agent import Agent
from support.scenes.service import NOW, Service, bearer, running_service
from support.scenes.standings import packed_pool

HOUR_S: Final = 3_600
BEGIN_S: Final = NOW // 1000 // HOUR_S * HOUR_S - 60 * HOUR_S
RULE: Final = "crosses_below(rsi_h1, 30, 3)"
LIQUID: Final = f"liquidity > 100000 and {RULE}"
CREDITS: Final = 5


def closes(mint: Mint) -> list[float]:
    """Return hourly prices: except for USDT, their RSI is below 30 twice, the second time last."""
    found = [100.0]
    for hour in range(1, 60):
        is_falling = mint != USDT and (17 <= hour <= 23 or 57 <= hour <= 58)
        found.append(found[-1] * (0.93 if is_falling else 1.012 if hour % 2 else 0.99))
    return found


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    """Yield a service with three tokens: in two the RSI fell below 30; one of these is liquid."""
    log = FakeLog()
    clock = ManualClock(UnixMs(1000 * (BEGIN_S + 59 * HOUR_S + 60)))
    async with running_service(tmp_path, clock=clock, series=FakeSeries(log)) as service:
        liquid = {WSOL: 300_000, USDC: 2_000, USDT: 300_000}
        await service.market.append(1, BEGIN_S - 60)
        for mint, usd in liquid.items():
            log.track(mint)
            pool = packed_pool(BEGIN_S + 59 * HOUR_S, depth_usd=usd)
            service.market.standings[mint] = pool
            await service.market.track(mint)
            await service.market.learn(mint, replace(FACTS, read_at_ms=UnixMs(NOW)))
        for hour in range(60):
            swaps = [
                PricedSwap(mint, n, 0, -1, 0, True, 10**6, usd, usd / 100, "pool")  # noqa: FBT003
                for n, mint in enumerate(liquid)
                for usd in (closes(mint)[hour],)
            ]
            at = BEGIN_S + hour * HOUR_S
            log.append(hour + 2, at, *swaps)
            await service.market.append(hour + 2, at, *swaps)
        await service.lister.refresh()
        yield service


async def tell(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call *tool*, which must succeed; return the JSON in the text of its result."""
    result = await client.call_tool(tool, arguments)
    text = result.content[0].text  # type: ignore[union-attr]
    assert not result.is_error, text
    reported: dict[str, Any] = loads(text)
    return reported


async def test_an_agent_finds_a_token_backtests_a_rule_and_makes_an_alert(service: Service) -> None:
    key = await Agent(service).key(Scope.TRADE_READ, Scope.SIGNALS_WRITE, Scope.SIGNALS_READ)
    ((user_id,),) = service.accounts.rows('SELECT id FROM "user"')
    account = await service.ledger.find(await service.issue(CREDITS + 4))
    assert account is not None
    await service.accounts.built.credits.deposit(user_id, account, None, None)
    headers = bearer(key) | {"Mintscope-Budget": f"credits={CREDITS}"}
    async with (
        mcp_beside(service.app, service.clock) as app,
        mcp_client(app, headers) as client,
    ):
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert "crosses_below(rsi_h1, 30, 3)" in str(tools["screen_tokens"].description)
        found = await tell(client, "screen_tokens", where=LIQUID, fields=["rsi_h1", "liquidity"])
        table = found["data"]["tokens"]
        assert [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]] == [
            {
                "mint": WSOL, "symbol": FACTS.symbol, "name": FACTS.name,
                "values.rsi_h1": pytest.approx(rsi(closes(WSOL))[-1]),
                "values.liquidity": 300_000,
            }
        ]  # fmt: skip
        tried = await tell(client, "backtest", mint=WSOL, where=RULE, tf="h1")
        assert [each["t"] for each in tried["data"]["firings"]] == fell_at(closes(WSOL)[:-1])
        assert tried["data"]["fired"] > 1
        alert = await tell(client, "create_alert", mint=WSOL, where=RULE, name="SOL is cheap")
        assert alert["meta"]["creditsCharged"] == 0
        spent = found["meta"]["creditsCharged"] + tried["meta"]["creditsCharged"]
        assert spent == 2
        for _ in range(CREDITS - spent):
            await tell(client, "backtest", mint=USDT, where=RULE, tf="h1")
        over = await client.call_tool("backtest", {"mint": USDT, "where": RULE, "tf": "h1"})
        assert over.structured_content["error"]["code"] == "BUDGET_EXCEEDED"
        wrong = await client.call_tool(
            "create_alert", {"mint": WSOL, "where": LIQUID, "name": "More than one"}
        )
        assert "expected one comparison" in wrong.structured_content["error"]["message"]
    kept = (await service.client.get("/v1/signals", headers=bearer(key))).json()["data"]["signals"]
    assert [(each["mint"], each["field"], each["kind"], each["level"]) for each in kept] == [
        (WSOL, "indicators.h1.rsi", "below", 30.0)
    ]
    balance = await service.client.get("/v1/credits/balance", headers=bearer(key))
    assert balance.json()["data"]["balance"] == 4


def fell_at(prices: list[float]) -> list[int]:
    """Return the ends of the candles in which RULE became true, by the definition of RSI."""
    values = rsi(prices)
    crossed = [
        was is not None and is_now is not None and was >= 30 > is_now
        for was, is_now in itertools.pairwise(values)
    ]
    is_true = [any(crossed[max(0, n - 2) : n + 1]) for n in range(len(crossed))]
    return [
        BEGIN_S + (n + 2) * HOUR_S
        for n, (was, is_now) in enumerate(zip([False, *is_true], is_true, strict=False))
        if is_now and not was
    ]
