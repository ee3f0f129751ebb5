"""The official MCP client, and that of x402, use a running service on a local chain."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import httpx
import httpx2
import pytest
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, RequestParamsMeta
from x402 import x402Client
from x402.client_base import SpendControlAsset
from x402.mcp import x402MCPClient
from x402.mechanisms.svm.exact.register import register_exact_svm_client
from x402.mechanisms.svm.signers import KeypairSigner

from mcp import Client, StdioServerParameters
from mintscope.mcp.tools import TOOLS
from mintscope.payments.protocol.envelope import MAINNET
from mintscope.solana.blocks import WSOL
from support.processes.documented_service import GENESIS, DocumentedService, documented_service
from support.scenes.service import bearer

PATIENCE_S: Final = 60.0
READ: Final = {"mint": WSOL}
CALLED_WITH: Final[dict[str, dict[str, Any]]] = {
    "search_tokens": {"query": "", "limit": 2},
    "screen_tokens": {"where": "price > 0", "fields": ["price", "rsi_m1"], "limit": 2},
    "get_token": READ,
    "try_token": READ,
    "get_candles": READ | {"tf": "m1", "limit": 10},
    "get_indicators": READ | {"tf": "m1", "names": ["rsi", "macd"], "limit": 10},
    "show_chart": READ | {"tf": "m1"},
    "get_swaps": READ | {"limit": 10},
    "get_pools": READ,
    "backtest": READ | {"where": "price > 0", "tf": "m1", "candles": "all"},
    "get_traders": READ | {"limit": 5},
    "get_holders": READ,
    "create_alert": READ | {"where": "price > 0", "name": "Above nothing"},
    "get_balance": {},
    "buy_credits": {"bundle": 10, "max_usd": 0.025},
}

official_client = pytest.mark.usefixtures("official_client")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DocumentedService]:
    with documented_service(tmp_path_factory.mktemp("mcp")) as service:
        yield service


async def issued(service: DocumentedService, credit_count: int) -> str:
    words = f"credits issue --credits {credit_count}"  # the command runs its own event loop
    return (await asyncio.to_thread(service.mintscope, words)).strip()


@asynccontextmanager
async def over_http(service: DocumentedService, **headers: str) -> AsyncIterator[Client]:
    async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S) as http:
        streams = streamable_http_client(f"{service.url}/mcp", http_client=http)
        async with Client(streams) as client:
            yield client


def over_stdio(service: DocumentedService, *words: str) -> Client:
    arguments = ["-m", "mintscope", "mcp", "--url", service.url, *words]
    return Client(StdioServerParameters(command=sys.executable, args=arguments, cwd=service.folder))


class ForX402:
    """Gives an MCP client the method names of version 1 of its package, which x402 expects."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def call_tool(
        self, call: dict[str, Any], *, read_timeout_seconds: timedelta
    ) -> SimpleNamespace:
        meta: RequestParamsMeta | None = call.get("_meta")
        result = await self._client.call_tool(
            call["name"],
            call["arguments"],
            meta=meta,
            read_timeout_seconds=read_timeout_seconds.total_seconds(),
        )
        reported = result.model_dump(by_alias=True)
        return SimpleNamespace(**{**reported, "_meta": reported["_meta"] or {}})


def paying(service: DocumentedService, client: Client) -> x402MCPClient:
    """Return the unmodified official x402 client for MCP, which may pay with the payment token."""
    payer = x402Client()
    signer = KeypairSigner(GENESIS.key("buyer"))
    register_exact_svm_client(payer, signer, rpc_url=service.rpc_url)
    asset: SpendControlAsset = {
        "network": MAINNET,
        "asset": str(GENESIS.mint),
        "max_amount_per_payment": "1000000",
    }
    payer.set_spend_controls({"allowed_assets": [asset]})
    return x402MCPClient(ForX402(client), payer)


async def called(service: DocumentedService, client: Client) -> dict[str, CallToolResult]:
    """List the tools, and call each; the client raises if an answer violates its schema."""
    async with httpx.AsyncClient() as http:
        paths = (await http.get(f"{service.url}/openapi.json")).json()["paths"]
    listed = [tool.name for tool in (await client.list_tools()).tools]
    assert listed == [tool.name for tool in TOOLS if tool.path in paths]
    return {name: await client.call_tool(name, CALLED_WITH[name]) for name in listed}


def expect_delivered(results: dict[str, CallToolResult], token_credits: int) -> None:
    """Expect that every tool answered, and that exactly the reported credits were taken."""
    bought = results.pop("buy_credits")
    assert bought.structured_content["x402Version"] == 2  # the tool demands a payment
    alert = results.pop("create_alert")  # an alert needs an account
    assert alert.structured_content["error"]["code"] == "INVALID_TOKEN"
    assert not [result for result in results.values() if result.is_error]
    charged = sum(reported_by(each)["meta"]["creditsCharged"] for each in results.values())
    left = results["get_balance"].structured_content["data"]["balance"]
    before_balance = list(results).index("get_balance")
    paid_before = sum(
        reported_by(each)["meta"]["creditsCharged"]
        for each in list(results.values())[:before_balance]
    )
    assert left == token_credits - paid_before
    assert charged == sum(map(is_paid_for, results, results.values()))


def is_paid_for(name: str, result: CallToolResult) -> bool:
    """Return whether *result* costs a credit; some tools are free, and an empty page is free."""
    parts = reported_by(result)["data"].values()
    tables = [each for each in parts if isinstance(each, dict) and "rows" in each]
    return name not in {"get_balance", "search_tokens", "try_token"} and all(
        each["rows"] for each in tables
    )


def reported_by(result: CallToolResult) -> dict[str, Any]:
    """Return the data and the cost in *result*, as a client reads them from the text."""
    return dict(json.loads(result.content[0].text))  # type: ignore[union-attr]


async def test_every_tool_answers_over_http(service: DocumentedService) -> None:
    async with over_http(service, **bearer(await issued(service, 11))) as client:
        results = await called(service, client)

    report = results["get_token"].structured_content
    assert report["data"]["token"] == WSOL
    assert report["meta"]["dataStatus"] == "live"
    expect_delivered(results, 11)


async def test_every_tool_answers_on_standard_input_and_output(service: DocumentedService) -> None:
    (service.folder / "token.txt").write_text(await issued(service, 11))
    words = ("--credential-file", "token.txt", "--max-credits", "10")
    async with over_stdio(service, *words) as client:
        assert "Errors cost nothing" in str(client.instructions)
        expect_delivered(await called(service, client), 11)


@official_client
async def test_the_official_payer_buys_by_call_and_by_bundle(service: DocumentedService) -> None:
    async with over_http(service) as client:
        payer = paying(service, client)
        read = await payer.call_tool("get_token", READ)
        bought = await payer.call_tool("buy_credits", CALLED_WITH["buy_credits"])

    for result in (read, bought):
        assert not result.is_error, result.content
        assert result.payment_response is not None
        assert result.payment_response.success
    reported = json.loads(bought.content[0]["text"])
    async with over_http(service, **bearer(reported["data"]["token"])) as client:
        balance = await client.call_tool("get_balance", {})
    assert balance.structured_content["data"]["balance"] == reported["data"]["credits"] == 10


@official_client
async def test_the_official_payer_pays_through_standard_input_and_output(
    service: DocumentedService,
) -> None:
    async with over_stdio(service, "--max-usd", "0.0025") as client:
        payer = paying(service, client)
        paid = await payer.call_tool("get_token", READ)
        assert not paid.is_error, paid.content
        over = await payer.call_tool("get_token", READ)

    assert over.is_error
    assert "BUDGET_EXCEEDED" in over.content[0]["text"]
    assert "0.0025 USD" in over.content[0]["text"]


async def test_calls_beyond_the_budget_fail_and_are_not_charged(service: DocumentedService) -> None:
    token = await issued(service, 10)
    stated = {"Mintscope-Budget": "credits=2, session=e2e"}
    async with over_http(service, **bearer(token), **stated) as client:
        results = [await client.call_tool("get_token", READ) for _ in range(4)]
        balance = await client.call_tool("get_balance", {})

    assert [result.is_error for result in results] == [False, False, True, True]
    refusal = results[-1].structured_content
    assert (refusal["error"]["code"], refusal["charged"]) == ("BUDGET_EXCEEDED", False)
    assert balance.structured_content["data"]["balance"] == 8


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        (["--url", "http://127.0.0.1:9"], "expected an MCP service at http://127.0.0.1:9/mcp"),
        (["--max-credits", "0"], "Mintscope-Budget: expected"),
        (["--credential-file", "none.txt"], "none.txt"),
    ],
)
def test_the_mcp_command_reports_invalid_options_and_a_missing_service(
    service: DocumentedService, words: list[str], reported: str
) -> None:
    url = [] if "--url" in words else ["--url", service.url]
    command = " ".join([sys.executable, "-m", "mintscope", "mcp", *url, *words])
    printed = service.sh(f"{command} </dev/null 2>&1 || echo ended with $?")

    assert reported in printed
    assert "Traceback" not in printed
    assert "ended with" in printed


def test_the_service_logs_no_failure(service: DocumentedService) -> None:
    log = Path(service.folder / "serve.log").read_text()

    assert "request failed" not in log
    assert "task ended" not in log
    assert "Traceback" not in log
